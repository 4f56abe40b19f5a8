//! The notes of a follow-up, which a program writes when a complete run gets a new task.
//!
//! They are published as `PROGRESS.md` and `NEXT_PROMPT.md`, and replace the last session's own notes in the
//! next prompt.

use super::budget::{Keep, NOWHERE};
use super::fill::fill;
use super::notes::{Author, Notes};
use super::page::{QUOTE, foreign};
use crate::ids::SessionNumber;

/// The data for the notes.
#[derive(Debug, Clone, Copy)]
pub struct ContinuationFacts<'a> {
    pub task: &'a str,
    pub before: &'a str,
    /// The last session of that run.
    pub session: SessionNumber,
    pub verified: bool,
    pub notes: Option<&'a Notes>,
}

pub(super) const PROGRESS: &str = include_str!("texts/continuation_progress.md").trim_ascii_end();
pub(super) const VERIFIED: &str = ", and its check passed";
pub(super) const UNVERIFIED: &str = ", as the agent said";
pub(super) const NEXT_PROMPT: &str = include_str!("texts/continuation_next_prompt.md");

/// The beginning of a task, in tokens.
const TASK_TOKENS_MAX: usize = 300;
/// The old report, in tokens.
const REPORT_TOKENS_MAX: usize = 1_500;

pub fn continuation(facts: &ContinuationFacts<'_>) -> Notes {
    let task = quotation(facts.task, TASK_TOKENS_MAX, ".ekiden/TASK.md");
    let before = quotation(facts.before, TASK_TOKENS_MAX, NOWHERE);
    let session = facts.session.to_string();
    let report = facts.notes.map_or("", |notes| match notes.by {
        Author::Rescue => &notes.next_prompt,
        Author::Both if notes.progress.is_empty() => &notes.next_prompt,
        Author::Agent | Author::FollowUp | Author::Both => &notes.progress,
    });
    let report = quotation(report, REPORT_TOKENS_MAX, NOWHERE);
    let verified = if facts.verified { VERIFIED } else { UNVERIFIED };
    let slots = [
        ("task", task.as_str()),
        ("verified", verified),
        ("session", &session),
        ("before", &before),
        ("report", &report),
    ];
    Notes {
        by: Author::FollowUp,
        progress: fill(PROGRESS, &slots),
        next_prompt: fill(NEXT_PROMPT, &slots[..1]),
    }
}

fn quotation(text: &str, tokens_max: usize, whole: &str) -> String {
    let text = foreign(text, QUOTE, tokens_max, Keep::First, whole);
    if text.is_empty() {
        return format!("{QUOTE}[nothing]\n");
    }
    text
}
