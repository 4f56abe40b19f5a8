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
    /// The task before.
    pub before: &'a str,
    /// The last session of that run.
    pub session: SessionNumber,
    pub verified: bool,
    pub notes: Option<&'a Notes>,
}

pub(super) const PROGRESS: &str = include_str!("texts/continuation_progress.md");
pub(super) const VERIFIED: &str = ", and its check passed";
pub(super) const UNVERIFIED: &str = ", as the agent said";
pub(super) const NEXT_PROMPT: &str = include_str!("texts/continuation_next_prompt.md");

/// The beginning of a task, in tokens.
const TASK_TOKENS_MAX: usize = 300;
/// The old report, in tokens.
const REPORT_TOKENS_MAX: usize = 1_500;

pub fn continuation(facts: &ContinuationFacts<'_>) -> Notes {
    let before = quotation(facts.before, TASK_TOKENS_MAX);
    let session = facts.session.to_string();
    let report = facts.notes.map_or("", |notes| match notes.by {
        Author::FollowUp | Author::Rescue => &notes.next_prompt,
        Author::Both if notes.progress.is_empty() => &notes.next_prompt,
        Author::Agent | Author::Both => &notes.progress,
    });
    let report = quotation(report, REPORT_TOKENS_MAX);
    let verified = if facts.verified { VERIFIED } else { UNVERIFIED };
    let slots = [
        ("verified", verified),
        ("session", &session),
        ("before", &before),
        ("report", &report),
    ];
    Notes {
        by: Author::FollowUp,
        progress: PROGRESS.to_owned(),
        next_prompt: fill(NEXT_PROMPT, &slots),
    }
}

fn quotation(text: &str, tokens_max: usize) -> String {
    let text = foreign(text, QUOTE, tokens_max, Keep::First, NOWHERE);
    if text.is_empty() {
        return format!("{QUOTE}[nothing]\n");
    }
    text
}
