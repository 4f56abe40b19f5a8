//! The three files that an agent writes.

use serde::{Deserialize, Serialize};

use crate::names::names;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffFile {
    /// What was done and where it stopped, with the STATUS line.
    Progress,
    /// The notes for the next session.
    NextPrompt,
    /// What later sessions should know; optional.
    Knowledge,
}

impl HandoffFile {
    /// Where agents find the published file, seen from the work dir.
    pub const fn published(self) -> &'static str {
        match self {
            Self::Progress => ".ekiden/PROGRESS.md",
            Self::NextPrompt => ".ekiden/NEXT_PROMPT.md",
            Self::Knowledge => ".ekiden/KNOWLEDGE.md",
        }
    }
}

names!(HandoffFile {
    Progress: "PROGRESS.md",
    NextPrompt: "NEXT_PROMPT.md",
    Knowledge: "KNOWLEDGE.md",
});

/// The content found at a file's path.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileText {
    #[default]
    Absent,
    Text(String),
    /// The file is larger than [`crate::limits::HANDOFF_FILE_BYTES_MAX`].
    TooLarge {
        bytes: u64,
    },
    NotText(NotText),
}

/// Something other than a text. An agent cannot overwrite it, so it is moved away before the agent is asked
/// for the file again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotText {
    Binary,
    Utf16,
    Link,
    Directory,
    /// A pipe, a socket or a device.
    Special,
    /// A file that may not be read, such as another user's.
    Unreadable,
}

impl NotText {
    /// Classifies bytes that are not UTF-8.
    pub fn of(bytes: &[u8]) -> Self {
        match bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            true => Self::Utf16,
            false => Self::Binary,
        }
    }
}

names!(NotText {
    Binary: "binary data",
    Utf16: "UTF-16 text",
    Link: "a symbolic link",
    Directory: "a directory",
    Special: "a pipe or a device",
    Unreadable: "a file that may not be read",
});

impl FileText {
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::TooLarge { .. } | Self::NotText(_) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HandoffFiles {
    pub progress: FileText,
    pub next_prompt: FileText,
    pub knowledge: FileText,
}

impl HandoffFiles {
    pub fn get(&self, file: HandoffFile) -> &FileText {
        match file {
            HandoffFile::Progress => &self.progress,
            HandoffFile::NextPrompt => &self.next_prompt,
            HandoffFile::Knowledge => &self.knowledge,
        }
    }

    pub fn get_mut(&mut self, file: HandoffFile) -> &mut FileText {
        match file {
            HandoffFile::Progress => &mut self.progress,
            HandoffFile::NextPrompt => &mut self.next_prompt,
            HandoffFile::Knowledge => &mut self.knowledge,
        }
    }

    pub fn not_text(&self) -> impl Iterator<Item = (HandoffFile, NotText)> + '_ {
        let files = HandoffFile::ALL.into_iter();
        files.filter_map(|file| match self.get(file) {
            FileText::NotText(what) => Some((file, *what)),
            FileText::Absent | FileText::Text(_) | FileText::TooLarge { .. } => None,
        })
    }

    /// Whether the agent has begun to write: any file is there.
    pub fn begun(&self) -> bool {
        HandoffFile::ALL
            .iter()
            .any(|file| *self.get(*file) != FileText::Absent)
    }
}
