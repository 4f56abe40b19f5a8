//! What can be wrong with a handoff: place, what is wrong, remedy.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{HandoffFile, Heading, Need, STATUS, StatusFault};
use crate::limits;

/// One thing that is wrong with a handoff. Its text is one line for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The file that it is in.
    pub file: HandoffFile,
    /// What is wrong.
    pub kind: FaultKind,
}

/// The kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// There is no such file.
    Missing,
    /// The file says nothing.
    Empty,
    /// The file holds the template's explanations and nothing else.
    Template,
    /// The file is not UTF-8 text.
    NotText,
    /// The file is too large to be read.
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// A heading is not there, or nothing stands under it.
    Heading {
        /// Which.
        heading: Heading,
        /// What it lacks.
        lack: Lack,
    },
    /// The STATUS line cannot be read.
    Status(StatusFault),
    /// A person is needed, but it is not said what for.
    BlockedWithoutQuestion,
    /// All is said to be done while items are open.
    CompleteWithOpenItems {
        /// How many.
        open: usize,
    },
    /// The notes say too little to go on from.
    TooShort {
        /// Their length.
        chars: usize,
    },
    /// The text is too long; what is over is cut.
    TooLong {
        /// Its length.
        chars: usize,
    },
    /// The notes are those of the session before.
    Repeated,
    /// The protocol's own words stand in the file; they are taken out.
    ProtocolCopied {
        /// How many lines.
        lines: usize,
    },
    /// There is text, but under none of the headings that ekiden reads.
    NoHeading,
}

/// What a heading lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    /// The heading itself.
    Heading,
    /// Anything under it.
    Content,
    /// Anything but the template's explanation.
    OwnWords,
}

/// What a fault means for the handoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The handoff is not valid.
    Required,
    /// The agent is asked once; then the handoff is accepted with a warning.
    AskedOnce,
    /// ekiden mends it; the user is told, the agent is not asked.
    Mended,
}

impl Fault {
    /// How much the fault weighs.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match &self.kind {
            FaultKind::Heading { heading, lack: _ } => match heading.need() {
                Need::Required => Severity::Required,
                Need::AskedOnce | Need::Optional => Severity::AskedOnce,
            },
            FaultKind::ProtocolCopied { .. } => Severity::Mended,
            FaultKind::TooLong { .. } => match self.file {
                HandoffFile::NextPrompt => Severity::AskedOnce,
                HandoffFile::Progress | HandoffFile::Knowledge => Severity::Mended,
            },
            FaultKind::TooShort { .. } | FaultKind::Repeated | FaultKind::NoHeading => Severity::AskedOnce,
            FaultKind::Missing
            | FaultKind::Empty
            | FaultKind::Template
            | FaultKind::NotText
            | FaultKind::TooLarge { .. }
            | FaultKind::Status(_)
            | FaultKind::BlockedWithoutQuestion
            | FaultKind::CompleteWithOpenItems { .. } => self.severity_by_file(),
        }
    }

    /// Without these files there is no handoff; knowledge is an extra.
    fn severity_by_file(&self) -> Severity {
        match self.file {
            HandoffFile::Progress | HandoffFile::NextPrompt => Severity::Required,
            HandoffFile::Knowledge => Severity::AskedOnce,
        }
    }

    /// The part of the file that is concerned; `None` is the whole file.
    #[must_use]
    pub fn part(&self) -> Option<&'static str> {
        match &self.kind {
            FaultKind::Heading { heading, lack: _ } => Some(heading.name()),
            FaultKind::Status(_) => Some(STATUS),
            FaultKind::BlockedWithoutQuestion => Some(Heading::Issues.name()),
            FaultKind::CompleteWithOpenItems { .. } => Some(Heading::OpenItems.name()),
            FaultKind::Missing
            | FaultKind::Empty
            | FaultKind::Template
            | FaultKind::NotText
            | FaultKind::TooLarge { .. }
            | FaultKind::TooShort { .. }
            | FaultKind::TooLong { .. }
            | FaultKind::Repeated
            | FaultKind::ProtocolCopied { .. }
            | FaultKind::NoHeading => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.kind)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => {
                f.write_str("there is no such file. Write it under the headings given at the start.")
            }
            Self::Empty => {
                f.write_str("the file is empty. Fill it in under the headings given at the start.")
            }
            Self::Template => f.write_str("still the template. Replace each explanation by what you know."),
            Self::NotText => f.write_str("not UTF-8 text. Write it again as plain Markdown."),
            Self::TooLarge { bytes } => {
                write!(f, "too large to read ({} KB). Keep about a page and point to files.", bytes / 1024)
            }
            Self::Heading { heading, lack } => {
                let name = heading.name();
                match lack {
                    Lack::Heading => write!(f, "no heading \"## {name}\". ")?,
                    Lack::Content => write!(f, "nothing under \"{name}\". ")?,
                    Lack::OwnWords => write!(f, "\"{name}\" is still the template's. ")?,
                }
                f.write_str(heading.remedy())
            }
            Self::Status(fault) => fault.fmt(f),
            Self::BlockedWithoutQuestion => {
                f.write_str("BLOCKED without a question. Write under \"Issues\" what a person must decide.")
            }
            Self::CompleteWithOpenItems { open } => {
                write!(f, "said to be complete, but items are open ({open}). Tick them, or use IN_PROGRESS.")
            }
            Self::TooShort { chars } => write!(
                f,
                "only {chars} characters. Write at least {}, enough for a stranger to go on.",
                limits::NEXT_PROMPT_CHARS_MIN
            ),
            Self::TooLong { chars } => write!(
                f,
                "{chars} characters long. Keep it under {} and point to files.",
                limits::NEXT_PROMPT_CHARS_MAX
            ),
            Self::Repeated => {
                f.write_str("the same as last time. Write what this session changed and learned.")
            }
            Self::ProtocolCopied { lines } => {
                write!(
                    f,
                    "it copies ekiden's own texts (lines: {lines}). Leave them out; ekiden adds them itself."
                )
            }
            Self::NoHeading => {
                f.write_str("no heading \"## Core Knowledge\" or \"## Session Log\". Put the text under one.")
            }
        }
    }
}
