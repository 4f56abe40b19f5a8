//! What can be wrong with a handoff: the place, the fault, the remedy.

use serde::{Deserialize, Serialize};

use super::{HandoffFile, Heading, Need, NotText, STATUS, StatusFault};
use crate::limits;

/// One fault of a handoff. Its text is one line for the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{file}: {kind}")]
pub struct Fault {
    pub file: HandoffFile,
    pub kind: FaultKind,
}

/// What is wrong with the file, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    #[error("there is no such file. Write it under the headings given at the start.")]
    Missing,
    #[error("the file is empty. Fill it in under the headings given at the start.")]
    Empty,
    /// The file contains only the template's explanations.
    #[error("still the template. Replace each explanation by what you know.")]
    Template,
    #[error("it was {0}, and was set aside. Write it again as plain UTF-8 Markdown.")]
    NotText(NotText),
    /// The file is too large to be read.
    #[error("too large to read ({} KiB). Keep about a page and point to files.", .bytes / 1024)]
    TooLarge { bytes: u64 },
    /// A heading is missing or empty.
    #[error("{}", heading_text(*.heading, *.lack))]
    Heading { heading: Heading, lack: Lack },
    /// The STATUS line cannot be read.
    #[error(transparent)]
    Status(StatusFault),
    /// A person is needed, but the file does not say for what.
    #[error("BLOCKED without a question. Write under \"Issues\" what a person must decide.")]
    BlockedWithoutQuestion,
    /// The agent claims to be done while items are open.
    #[error(
        "said to be complete, but items are open ({open}). Tick what is done; otherwise use IN_PROGRESS."
    )]
    CompleteWithOpenItems { open: usize },
    /// The notes say too little to continue from.
    #[error(
        "only {chars} characters. Write at least {min}, enough for a stranger to continue.",
        min = limits::NEXT_PROMPT_CHARS_MIN
    )]
    TooShort { chars: usize },
    /// The text is too long for a prompt, which shows a part of it.
    #[error(
        "{chars} characters long. Keep it under {max} and point to files.",
        max = limits::NEXT_PROMPT_CHARS_MAX
    )]
    TooLong { chars: usize },
    /// The notes are those of the session before.
    #[error("the same as last time. Write what this session changed and learned.")]
    Repeated,
    /// The file contains the protocol's own text, which is removed.
    #[error(
        "it copies ekiden's own texts (lines: {lines}). Leave them out; ekiden adds them itself."
    )]
    ProtocolCopied { lines: usize },
    /// There is text, but under none of the headings that ekiden reads.
    #[error("no heading \"## Core Knowledge\" or \"## Session Log\". Put the text under one.")]
    NoHeading,
    /// The old words of a correction are those of no fact, or of several, or there are no new ones.
    #[error(
        "\"{words}\" names no fact, or several, or no new fact follows. Quote words that only the wrong fact has."
    )]
    CorrectsNothing { words: String },
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
    /// The agent is asked once; after that the handoff is accepted with a warning.
    AskedOnce,
    /// ekiden repairs it and informs the user; the agent is not asked.
    Mended,
}

impl Fault {
    pub fn severity(&self) -> Severity {
        self.row().0
    }

    /// The affected part of the file; `None` is the whole file.
    pub fn part(&self) -> Option<&'static str> {
        self.row().1
    }

    /// What is wrong, without the remedy: `PROGRESS.md: no heading "## Done"`.
    pub fn name(&self) -> String {
        let text = self.to_string();
        let end = text.find(". ").unwrap_or(text.len());
        text[..end].to_owned()
    }

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
            FaultKind::Repeated
            | FaultKind::NoHeading
            | FaultKind::CorrectsNothing { .. }
            | FaultKind::TooShort { .. } => (AskedOnce, None),
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
}

fn heading_text(heading: Heading, lack: Lack) -> String {
    let (name, remedy) = (heading.name(), heading.remedy());
    match lack {
        Lack::Heading => format!("no heading \"## {name}\" on its own line. {remedy}"),
        Lack::Content => format!("nothing under \"{name}\". {remedy}"),
        Lack::OwnWords => format!("\"{name}\" is still the template's. {remedy}"),
    }
}
