//! The notes of a follow-up: what a program writes when a complete run gets a new task.
//!
//! They are published as `PROGRESS.md` and `NEXT_PROMPT.md`, and stand in the next prompt in place of
//! the last session's own. Words that are not ours are block quotations in them, so that a STATUS of
//! the old report is no claim and its headings are no headings; in a prompt every line is marked as
//! data besides.

use super::budget::{Keep, Mark, cut};
use super::fill::fill;
use super::notes::Notes;
use crate::ids::SessionNumber;

/// What the notes are made of.
#[derive(Debug, Clone, Copy)]
pub struct ContinuationFacts<'a> {
    /// The new task.
    pub task: &'a str,
    /// The task before it.
    pub before: &'a str,
    /// The last session of that one.
    pub session: SessionNumber,
    /// The verification passed, too.
    pub verified: bool,
    /// What that session left.
    pub notes: Option<&'a Notes>,
}

pub(super) const PROGRESS: &str = "\
# Progress

STATUS: IN_PROGRESS

## Done

Nothing of the new task yet.

## Stopped at

Before its first step.

## Issues

none

## New task

{task}
## Work before

The task before this one is complete{verified}, after session {session}. It began:

{before}
The report of session {session}:

{report}";
pub(super) const VERIFIED: &str = ", and its check passed";
pub(super) const UNVERIFIED: &str = ", as the agent said";
pub(super) const NEXT_PROMPT: &str = "\
## Task

{task}
## State

The task before this one is complete; what it made is in the tree, and what is worth knowing in .ekiden/KNOWLEDGE.md.

## Resume at

The new task whole, in .ekiden/TASK.md; then git status and log.
";

/// The beginning of a task, in tokens.
const TASK_TOKENS_MAX: usize = 300;
/// The old report, in tokens.
const REPORT_TOKENS_MAX: usize = 1_500;

/// `PROGRESS.md` and `NEXT_PROMPT.md` of a follow-up.
#[must_use]
pub fn continuation(facts: &ContinuationFacts<'_>) -> (String, String) {
    let task = quotation(facts.task, TASK_TOKENS_MAX, ".ekiden/TASK.md");
    let before = quotation(facts.before, TASK_TOKENS_MAX, "the run's log");
    let archive = format!("the archive of session {}", facts.session);
    let report = match facts.notes {
        Some(Notes::Handoff { progress, .. } | Notes::Continuation { progress, .. }) => progress.as_str(),
        Some(Notes::Rescue { text }) => text,
        None => "",
    };
    let report = quotation(report, REPORT_TOKENS_MAX, &archive);
    let (session, verified) = (facts.session.to_string(), if facts.verified { VERIFIED } else { UNVERIFIED });
    let slots = [
        ("task", task.as_str()),
        ("verified", verified),
        ("session", &session),
        ("before", &before),
        ("report", &report),
    ];
    (fill(PROGRESS, &slots), fill(NEXT_PROMPT, &slots[..1]))
}

/// A foreign text as a block quotation, within a budget.
fn quotation(text: &str, tokens_max: usize, whole: &str) -> String {
    let lines: String = text.trim().lines().map(|line| format!("> {line}\n")).collect();
    let lines = if lines.is_empty() { "> [nothing]\n".to_owned() } else { lines };
    cut(&lines, tokens_max, Keep::First, Mark { prefix: "> ", whole })
}
