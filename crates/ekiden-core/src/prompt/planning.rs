//! The texts of planning: an idea becomes a document, a document becomes stages.
//!
//! Both are prompts of one session each, in blocks like any other: what the user or a model wrote
//! stands before, the last block is ours alone. They ask for outcomes and not for code, since wrong
//! detail in a plan cascades; and for the project to be read first, since a plan beside it is no use.

use super::PromptBlocks;
use super::budget::{Keep, Mark, cut};
use super::fill::fill;
use super::measured::quoted_within;
use super::quote::{MARK, plain_name};
use super::session::on_lines;
use super::summary::has_summary;
use crate::limits;

pub(super) const ARCHITECTURE: &str = include_str!("texts/architecture.md");
pub(super) const SPLIT: &str = include_str!("texts/split.md");
pub(super) const MEND: &str = include_str!("texts/mend_manifest.md");
pub(super) const MEND_DOCUMENT: &str = include_str!("texts/mend_document.md");
pub(super) const NO_JSON: &str = "there is no JSON object in the answer";
pub(super) const MISSING: &str = "is not there";
pub(super) const NOT_TEXT: &str = "is not readable as text";
pub(super) const NO_SUMMARY: &str = "has nothing under a heading \"Summary\"";
pub(super) const IDEA: &str = "# Idea";
pub(super) const DOCUMENT: &str = "# Document";
pub(super) const DOCUMENT_INTRO: &str = "Write it to this file:";
pub(super) const MORE_FAULTS: &str = "and {count} more, which are told once these are mended";

/// A path, in characters.
const PATH_CHARS_MAX: usize = 1_000;

/// The prompt of the session that writes the architecture document to `path`. The idea is the user's
/// own words and is never cut.
#[must_use]
pub fn architecture_prompt(idea: &str, path: &str) -> PromptBlocks {
    let path = plain_name(path, PATH_CHARS_MAX);
    PromptBlocks {
        stable: format!("{IDEA}\n\n{}{DOCUMENT}\n\n{DOCUMENT_INTRO}\n{path}\n\n", on_lines(idea)),
        foreign: String::new(),
        now: now(ARCHITECTURE, &[]),
    }
}

/// The prompt of the session that splits a document into stages of at most this many tokens each.
/// `path` is where the whole document is, for one too long to stand here.
#[must_use]
pub fn split_prompt(document: &str, path: &str, session_tokens: u64) -> PromptBlocks {
    let path = plain_name(path, PATH_CHARS_MAX);
    let document = quoted_within(document, limits::PLANNING_DOCUMENT_TOKENS_MAX, Keep::First, &path);
    PromptBlocks {
        stable: String::new(),
        foreign: format!("{DOCUMENT}\n\n{document}\n"),
        now: now(SPLIT, &[("room", &format!("{} tokens", grouped(session_tokens)))]),
    }
}

/// What a session is told whose manifest is not valid: its faults, word for word. They name what the
/// model wrote, so they are marked as data.
#[must_use]
pub fn mend_manifest(faults: &[String]) -> String {
    let told = &faults[..faults.len().min(limits::PLANNING_FAULTS_MAX)];
    let line = |fault: &String| format!("{MARK}- {}\n", plain_name(fault, limits::PLANNING_FAULT_CHARS_MAX));
    let mut lines: String = told.iter().map(line).collect();
    if told.len() < faults.len() {
        let count = (faults.len() - told.len()).to_string();
        lines.push_str(&format!("{MARK}{}\n", fill(MORE_FAULTS, &[("count", &count)])));
    }
    let mark = Mark { prefix: MARK, whole: "the next answer of ekiden" };
    format!("{MEND}{}", cut(&lines, limits::PLANNING_FAULTS_TOKENS_MAX, Keep::First, mark))
}

/// What a session is told whose document is not there, or not as it was asked for.
#[must_use]
pub fn mend_document(fault: DocumentFault) -> String {
    fill(MEND_DOCUMENT, &[("fault", fault.told())])
}

/// The fault of an answer in which there is nothing to read.
#[must_use]
pub fn no_manifest() -> String {
    NO_JSON.to_owned()
}

/// What is wrong with an architecture document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFault {
    /// It is not there.
    Missing,
    /// It is no text, or far too long.
    NotText,
    /// Nothing stands under "Summary".
    NoSummary,
}

impl DocumentFault {
    /// The same in words, of the document.
    #[must_use]
    pub fn told(self) -> &'static str {
        match self {
            Self::Missing => MISSING,
            Self::NotText => NOT_TEXT,
            Self::NoSummary => NO_SUMMARY,
        }
    }

    /// What is wrong with this content of the file; nothing if there is no file.
    #[must_use]
    pub fn of(content: Option<&[u8]>) -> Option<Self> {
        let Some(bytes) = content else { return Some(Self::Missing) };
        match std::str::from_utf8(bytes) {
            Ok(text) if has_summary(text) => None,
            Ok(_) => Some(Self::NoSummary),
            Err(_) => Some(Self::NotText),
        }
    }
}

fn now(text: &str, values: &[(&str, &str)]) -> String {
    format!("{}\n\n{}", super::now::HEADING, fill(text, values))
}

/// A number as people read it: `80,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
