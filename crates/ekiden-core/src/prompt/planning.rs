//! The texts of planning: an idea becomes a document, a document becomes stages.
//!
//! Each is a prompt for one session, in blocks like any other: text of the user or a model comes first, and
//! the last block is ours alone. The prompts ask for outcomes, not for code, since wrong detail in a plan
//! cascades. They ask the agent to read the project first, since a plan that ignores the project is useless.

use serde::Deserialize;

use super::PromptBlocks;
use super::budget::{Keep, Mark, NOWHERE, cut};
use super::fill::fill;
use super::quote::{MARK, plain_name, quoted_within};
use super::session::on_lines;
use super::summary::has_summary;
use crate::limits;
use crate::text::{clean, grouped, one_line};

pub(super) const ARCHITECTURE: &str = include_str!("texts/architecture.md");
pub(super) const SPLIT: &str = include_str!("texts/split.md");
pub(super) const DEBRIEF: &str = include_str!("texts/debrief.md");
pub(super) const SHARDS: &str = include_str!("texts/shards.md");
pub(super) const QUESTIONS: &str = include_str!("texts/questions.md");
pub(super) const MEND: &str = include_str!("texts/mend_manifest.md");
pub(super) const MEND_DOCUMENT: &str = include_str!("texts/mend_document.md");
/// The fault of an answer without anything to read.
pub const NO_MANIFEST: &str = "there is no JSON object in the answer";
pub(super) const MISSING: &str = "is not there";
pub(super) const NOT_TEXT: &str = "is not readable as text";
pub(super) const NO_SUMMARY: &str = "has nothing under a heading \"Summary\"";
pub(super) const IDEA: &str = "# Idea";
pub(super) const DOCUMENT: &str = "# Document";
pub(super) const TASK: &str = "# Task to ask about";
pub(super) const DONE: &str = "# Task of the run";
pub(super) const REPORT: &str = "# Report";
pub(super) const PARTS: &str = "# Parts";
pub(super) const DOCUMENT_INTRO: &str = "Write it to this file:";
pub(super) const MORE_FAULTS: &str = "and {count} more, which are reported once these are fixed";

/// A path, in characters.
const PATH_CHARS_MAX: usize = 1_000;

/// The prompt of the session that writes the architecture document to `path`. The idea is the user's
/// own words and is never cut.
pub fn architecture_prompt(idea: &str, path: &str) -> PromptBlocks {
    let path = plain_name(path, PATH_CHARS_MAX);
    PromptBlocks {
        stable: format!(
            "{IDEA}\n\n{}{DOCUMENT}\n\n{DOCUMENT_INTRO}\n{path}\n\n",
            on_lines(idea)
        ),
        foreign: String::new(),
        now: now(ARCHITECTURE, &[]),
    }
}

/// The prompt of the session that writes a debrief of a run to `path`. The tasks are the user's own words; the report
/// holds words of agents.
pub fn debrief_prompt(tasks: &str, report: &str, path: &str) -> PromptBlocks {
    let path = plain_name(path, PATH_CHARS_MAX);
    let room = limits::PLANNING_DOCUMENT_TOKENS_MAX;
    let report = quoted_within(report, room, Keep::First, "the report of `ekiden report`");
    PromptBlocks {
        stable: format!(
            "{DONE}\n\n{}{DOCUMENT}\n\n{DOCUMENT_INTRO}\n{path}\n\n",
            on_lines(tasks)
        ),
        foreign: format!("{REPORT}\n\n{report}\n"),
        now: now(DEBRIEF, &[]),
    }
}

/// The prompt of the session that names the parts of a document and their needs. `parts` are their lines.
pub fn shards_prompt(document: &str, parts: &[String], path: &str) -> PromptBlocks {
    let path = plain_name(path, PATH_CHARS_MAX);
    let room = limits::PLANNING_DOCUMENT_TOKENS_MAX;
    let parts = quoted_within(&parts.join("\n"), room, Keep::First, NOWHERE);
    let document = quoted_within(document, room, Keep::First, &path);
    PromptBlocks {
        stable: String::new(),
        foreign: format!("{PARTS}\n\n{parts}\n{DOCUMENT}\n\n{document}\n"),
        now: now(SHARDS, &[]),
    }
}

/// The prompt of the session that splits a document into stages of at most this many tokens each. `path` is
/// where the whole document is, in case it is too long for the prompt.
pub fn split_prompt(document: &str, path: &str, session_tokens: u64) -> PromptBlocks {
    let path = plain_name(path, PATH_CHARS_MAX);
    let room = limits::PLANNING_DOCUMENT_TOKENS_MAX;
    let document = quoted_within(document, room, Keep::First, &path);
    let tokens = format!("{} tokens", grouped(session_tokens));
    PromptBlocks {
        stable: String::new(),
        foreign: format!("{DOCUMENT}\n\n{document}\n"),
        now: now(SPLIT, &[("room", &tokens)]),
    }
}

/// An agent's question about a task before the work begins, and the answer that the agent would choose.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Question {
    pub question: String,
    pub default: String,
}

/// The schema for the answer of [`questions_prompt`].
pub const QUESTIONS_SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["questions"],"properties":{"questions":{"type":"array","maxItems":5,"items":{"type":"object","additionalProperties":false,"required":["question","default"],"properties":{"question":{"type":"string","maxLength":300},"default":{"type":"string","maxLength":300}}}}}}"#;

/// The prompt of the session that asks about a task. The task is the user's own words and is never cut.
pub fn questions_prompt(task: &str) -> PromptBlocks {
    PromptBlocks {
        stable: format!("{TASK}\n\n{}", on_lines(task)),
        foreign: String::new(),
        now: now(QUESTIONS, &[]),
    }
}

/// The questions of an answer, as lines to show; none if it has no readable ones.
pub fn questions(answer: &str) -> Option<Vec<Question>> {
    #[derive(Deserialize)]
    struct Asked {
        questions: Vec<Question>,
    }
    let Asked { questions } = serde_json::from_str(answer).ok()?;
    let line = |text: &str| one_line(&clean(text).text, limits::QUESTION_CHARS_MAX);
    let questions = questions.iter().map(|asked| Question {
        question: line(&asked.question),
        default: line(&asked.default),
    });
    let said = questions.filter(|asked| !asked.question.is_empty());
    Some(said.take(limits::QUESTIONS_MAX).collect())
}

/// The message to a session whose manifest is not valid: its faults, word for word. They name what the model
/// wrote, so they are marked as data.
pub fn mend_manifest(faults: &[String]) -> String {
    let told = &faults[..faults.len().min(limits::PLANNING_FAULTS_MAX)];
    let line = |fault: &String| {
        let fault = plain_name(fault, limits::PLANNING_FAULT_CHARS_MAX);
        format!("{MARK}- {fault}\n")
    };
    let mut lines: String = told.iter().map(line).collect();
    if told.len() < faults.len() {
        let count = (faults.len() - told.len()).to_string();
        let more = fill(MORE_FAULTS, &[("count", &count)]);
        lines.push_str(&format!("{MARK}{more}\n"));
    }
    let mark = Mark::new(MARK, "the next answer of ekiden");
    let room = limits::PLANNING_FAULTS_TOKENS_MAX;
    format!("{MEND}{}", cut(&lines, room, Keep::First, mark))
}

/// The message to a session whose document is missing or not as requested.
pub fn mend_document(fault: DocumentFault) -> String {
    fill(MEND_DOCUMENT, &[("fault", fault.text())])
}

/// What is wrong with an architecture document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFault {
    Missing,
    /// It is no text, or far too long.
    NotText,
    NoSummary,
}

impl DocumentFault {
    /// The fault in words, about the document.
    pub fn text(self) -> &'static str {
        match self {
            Self::Missing => MISSING,
            Self::NotText => NOT_TEXT,
            Self::NoSummary => NO_SUMMARY,
        }
    }

    /// The fault of a file with this content (`None`: there is no file); none if it has none.
    pub fn of(content: Option<&[u8]>) -> Option<Self> {
        let Some(bytes) = content else {
            return Some(Self::Missing);
        };
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
