//! What can be wrong with a handoff: place, what is wrong, remedy.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{HandoffFile, Heading, Need, NotText, STATUS, StatusFault};
use crate::limits;

/// One thing that is wrong with a handoff. Its text is one line for the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The file that it is in.
    pub file: HandoffFile,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// There is no such file.
    Missing,
    Empty,
    /// The file holds the template's explanations and nothing else.
    Template,
    NotText(NotText),
    /// The file is too large to be read.
    TooLarge {
        bytes: u64,
    },
    /// A heading is not there, or nothing stands under it.
    Heading {
        heading: Heading,
        lack: Lack,
    },
    /// The STATUS line cannot be read.
    Status(StatusFault),
    /// A person is needed, but it is not said what for.
    BlockedWithoutQuestion,
    /// All is said to be done while items are open.
    CompleteWithOpenItems {
        open: usize,
    },
    /// The notes say too little to continue from.
    TooShort {
        chars: usize,
    },
    /// The text is too long; what is over is cut.
    TooLong {
        chars: usize,
    },
    /// The notes are those of the session before.
    Repeated,
    /// The protocol's own words stand in the file; they are taken out.
    ProtocolCopied {
        lines: usize,
    },
    /// There is text, but under none of the headings that ekiden reads.
    NoHeading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lack {
    Heading,
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
    /// ekiden mends it; the user is informed, the agent is not asked.
    Mended,
}

impl Fault {
    /// How much the fault weighs.
    pub fn severity(&self) -> Severity {
        self.row().0
    }

    /// The part of the file that is concerned; `None` is the whole file.
    pub fn part(&self) -> Option<&'static str> {
        self.row().1
    }

    /// What is wrong, without the remedy: `PROGRESS.md: no heading "## Done"`.
    pub fn name(&self) -> String {
        let text = self.to_string();
        let end = text.find(". ").unwrap_or(text.len());
        text[..end].to_owned()
    }

    /// Severity and part.
    fn row(&self) -> (Severity, Option<&'static str>) {
        use Severity::{AskedOnce, Mended, Required};
        // Without the other two files there is no handoff; knowledge is an extra.
        let by_file = match self.file {
            HandoffFile::Progress | HandoffFile::NextPrompt => Required,
            HandoffFile::Knowledge => AskedOnce,
        };
        match &self.kind {
            FaultKind::Missing
            | FaultKind::Empty
            | FaultKind::Template
            | FaultKind::TooLarge { .. }
            | FaultKind::NotText(_) => (by_file, None),
            FaultKind::Repeated | FaultKind::NoHeading | FaultKind::TooShort { .. } => {
                (AskedOnce, None)
            }
            FaultKind::TooLong { .. } if self.file == HandoffFile::NextPrompt => (AskedOnce, None),
            FaultKind::TooLong { .. } | FaultKind::ProtocolCopied { .. } => (Mended, None),
            FaultKind::BlockedWithoutQuestion => (by_file, Some(Heading::Issues.name())),
            FaultKind::CompleteWithOpenItems { .. } => (by_file, Some(Heading::OpenItems.name())),
            FaultKind::Status(_) => (by_file, Some(STATUS)),
            FaultKind::Heading { heading, .. } => match heading.need() {
                Need::Required => (Required, Some(heading.name())),
                Need::AskedOnce | Need::Optional => (AskedOnce, Some(heading.name())),
            },
        }
    }

    /// What is wrong with the file, and the remedy.
    fn text(&self) -> Cow<'static, str> {
        let plain: &'static str = match &self.kind {
            FaultKind::Missing => {
                "there is no such file. Write it under the headings given at the start."
            }
            FaultKind::Empty => {
                "the file is empty. Fill it in under the headings given at the start."
            }
            FaultKind::Template => "still the template. Replace each explanation by what you know.",
            FaultKind::BlockedWithoutQuestion => {
                "BLOCKED without a question. Write under \"Issues\" what a person must decide."
            }
            FaultKind::Repeated => {
                "the same as last time. Write what this session changed and learned."
            }
            FaultKind::NoHeading => {
                "no heading \"## Core Knowledge\" or \"## Session Log\". Put the text under one."
            }
            FaultKind::TooLarge { bytes } => {
                let size = bytes / 1024;
                return format!(
                    "too large to read ({size} KB). Keep about a page and point to files."
                )
                .into();
            }
            FaultKind::NotText(what) => {
                return format!(
                    "it was {what}, and was set aside. Write it again as plain UTF-8 Markdown."
                )
                .into();
            }
            FaultKind::Heading { heading, lack } => return heading_text(*heading, *lack).into(),
            FaultKind::Status(fault) => return fault.to_string().into(),
            FaultKind::CompleteWithOpenItems { open } => {
                return format!("said to be complete, but items are open ({open}). Tick them, or use IN_PROGRESS.").into();
            }
            FaultKind::TooShort { chars } => {
                let min = limits::NEXT_PROMPT_CHARS_MIN;
                return format!(
                    "only {chars} characters. Write at least {min}, enough for a stranger to continue."
                )
                .into();
            }
            FaultKind::TooLong { chars } => {
                let max = limits::NEXT_PROMPT_CHARS_MAX;
                return format!("{chars} characters long. Keep it under {max} and point to files.")
                    .into();
            }
            FaultKind::ProtocolCopied { lines } => {
                return format!("it copies ekiden's own texts (lines: {lines}). Leave them out; ekiden adds them itself.").into();
            }
        };
        plain.into()
    }
}

fn heading_text(heading: Heading, lack: Lack) -> String {
    let (name, remedy) = (heading.name(), heading.remedy());
    match lack {
        Lack::Heading => format!("no heading \"## {name}\". {remedy}"),
        Lack::Content => format!("nothing under \"{name}\". {remedy}"),
        Lack::OwnWords => format!("\"{name}\" is still the template's. {remedy}"),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.text())
    }
}
