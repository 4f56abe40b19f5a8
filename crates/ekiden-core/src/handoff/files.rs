//! The three files that an agent writes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One of the files of a handoff.
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
    /// All of them, in the order in which they are named.
    pub const ALL: [Self; 3] = [Self::Progress, Self::NextPrompt, Self::Knowledge];

    /// The file's name in the handoff directory and in `.ekiden/`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Progress => "PROGRESS.md",
            Self::NextPrompt => "NEXT_PROMPT.md",
            Self::Knowledge => "KNOWLEDGE.md",
        }
    }

    /// Where agents find the published file, seen from the work dir.
    #[must_use]
    pub const fn published(self) -> &'static str {
        match self {
            Self::Progress => ".ekiden/PROGRESS.md",
            Self::NextPrompt => ".ekiden/NEXT_PROMPT.md",
            Self::Knowledge => ".ekiden/KNOWLEDGE.md",
        }
    }
}

impl fmt::Display for HandoffFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What was found where a file should be.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileText {
    /// There is no file.
    #[default]
    Absent,
    /// The file's whole text.
    Text(String),
    /// The file is larger than [`crate::limits::HANDOFF_FILE_BYTES_MAX`].
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// The file is not UTF-8 text.
    NotText,
}

impl FileText {
    /// The text, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Absent | Self::TooLarge { .. } | Self::NotText => None,
        }
    }
}

/// The files of a handoff as they were found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HandoffFiles {
    /// `PROGRESS.md`
    pub progress: FileText,
    /// `NEXT_PROMPT.md`
    pub next_prompt: FileText,
    /// `KNOWLEDGE.md`
    pub knowledge: FileText,
}

impl HandoffFiles {
    /// One of the files.
    #[must_use]
    pub fn get(&self, file: HandoffFile) -> &FileText {
        match file {
            HandoffFile::Progress => &self.progress,
            HandoffFile::NextPrompt => &self.next_prompt,
            HandoffFile::Knowledge => &self.knowledge,
        }
    }

    /// Whether the agent has begun to write: any file is there.
    #[must_use]
    pub fn begun(&self) -> bool {
        HandoffFile::ALL.iter().any(|file| *self.get(*file) != FileText::Absent)
    }
}
