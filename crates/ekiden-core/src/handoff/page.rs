//! One file of a handoff, opened: its text, its outline and the content under its headings.

use std::ops::Range;

use super::headings;
use super::{
    Fault, FaultKind, FileText, HandoffFile, HandoffFiles, Heading, Lack, Need, OpenItems,
};
use crate::markdown::{Outline, outline};
use crate::prompt::own_lines::strip_protocol;
use crate::text::{clean, letters};

/// The text of a handoff file as ekiden uses it: clean, without copies of our own texts.
pub(super) fn readable(text: &str) -> (String, usize) {
    strip_protocol(&clean(text).text)
}

/// A file that can be read.
pub(super) struct Page {
    file: HandoffFile,
    pub(super) text: String,
    pub(super) outline: Outline,
    /// What each heading in the outline is, if ekiden knows it.
    known: Vec<Option<Heading>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content {
    Missing,
    Empty,
    Template,
    Text(String),
}

impl Page {
    fn new(file: HandoffFile, text: String) -> Self {
        let outline = outline(&text);
        let known = outline
            .headings
            .iter()
            .map(|heading| headings::read(file, heading))
            .collect();
        Self {
            file,
            text,
            outline,
            known,
        }
    }

    /// Opens a file, or records why it cannot be read.
    pub(super) fn open(
        file: HandoffFile,
        files: &HandoffFiles,
        faults: &mut Vec<Fault>,
    ) -> Option<Self> {
        let kind = match files.get(file) {
            FileText::Absent => FaultKind::Missing,
            FileText::NotText(what) => FaultKind::NotText(*what),
            FileText::TooLarge { bytes } => FaultKind::TooLarge { bytes: *bytes },
            FileText::Text(text) => {
                let (text, lines) = readable(text);
                if lines > 0 {
                    faults.push(Fault {
                        file,
                        kind: FaultKind::ProtocolCopied { lines },
                    });
                }
                if !text.trim().is_empty() {
                    return Some(Self::new(file, text));
                }
                FaultKind::Empty
            }
        };
        if !(file == HandoffFile::Knowledge && kind == FaultKind::Empty) {
            faults.push(Fault { file, kind });
        }
        None
    }

    pub(super) fn fault(&self, kind: FaultKind) -> Fault {
        Fault {
            file: self.file,
            kind,
        }
    }

    pub(super) fn chars(&self) -> usize {
        self.text.trim().chars().count()
    }

    /// Checks each required heading. A file with only explanations is one fault, not six: the function
    /// returns whether it is such a file.
    pub(super) fn check_headings(&self, faults: &mut Vec<Fault>) -> bool {
        let headings = Heading::of(self.file).map(|heading| (heading, self.content(heading)));
        let contents: Vec<(Heading, Content)> = headings.collect();
        let is_written = |content: &Content| matches!(content, Content::Text(_));
        let written = contents.iter().any(|(_, content)| is_written(content));
        if !written
            && contents
                .iter()
                .any(|(_, content)| *content == Content::Template)
        {
            faults.push(self.fault(FaultKind::Template));
            return true;
        }
        for (heading, content) in contents {
            let lack = match content {
                Content::Text(_) => continue,
                Content::Missing => Lack::Heading,
                Content::Empty => Lack::Content,
                Content::Template => Lack::OwnWords,
            };
            if heading.need() != Need::Optional {
                faults.push(self.fault(FaultKind::Heading { heading, lack }));
            }
        }
        false
    }

    /// The content under a heading; if a heading occurs twice, the one with content counts.
    pub(super) fn content(&self, heading: Heading) -> Content {
        let mut found = Content::Missing;
        for (index, known) in self.known.iter().enumerate() {
            if *known == Some(heading) {
                found = self.content_at(heading, index);
            }
            if matches!(found, Content::Text(_)) {
                return found;
            }
        }
        found
    }

    /// The headings without content.
    pub(super) fn missing(&self) -> Vec<Heading> {
        let is_missing = |heading: &Heading| !matches!(self.content(*heading), Content::Text(_));
        Heading::of(self.file).filter(is_missing).collect()
    }

    fn content_at(&self, heading: Heading, index: usize) -> Content {
        let said = self.outline.said(&self.range(index));
        let is_bare = letters(&self.outline.headings[index].text).eq(letters(heading.name()));
        let is_empty = headings::says_nothing(heading, &said);
        if headings::is_explanation(heading, &said) || is_empty && !is_bare {
            Content::Template
        } else if is_empty {
            Content::Empty
        } else {
            Content::Text(said)
        }
    }

    /// What the agent wrote under a heading that has content, in its own lines.
    pub(super) fn words(&self, heading: Heading) -> Option<&str> {
        let has_content = |index: &usize| {
            self.known[*index] == Some(heading)
                && matches!(self.content_at(heading, *index), Content::Text(_))
        };
        let index = (0..self.known.len()).find(has_content)?;
        Some(self.text[self.range(index)].trim())
    }

    pub(super) fn open_items(&self) -> Option<OpenItems> {
        let known = Some(Heading::OpenItems);
        let index = self.known.iter().position(|heading| *heading == known)?;
        Some(OpenItems::within(&self.outline, &self.range(index)))
    }

    fn range(&self, index: usize) -> Range<usize> {
        self.outline
            .section(index, self.text.len(), |next| self.known[next].is_some())
    }
}
