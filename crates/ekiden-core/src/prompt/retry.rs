//! "What happened before": a stage is tried again, on the tree as the failed try left it.

use super::budget::{Keep, tokens};
use super::fill::fill;
use super::measured::quoted_within;
use super::rescue::CheckFacts;
use crate::limits;
use crate::text::one_line;

pub(super) const HEADING: &str = "# What happened before";
pub(super) const INTRO: &str =
    "This is attempt {attempt} of {max}; the tree is as the one before left it. That one ended so:";
pub(super) const CHANGES: &str = "Changes of the stage so far:";
pub(super) const CHECK: &str = "The check that failed:";
pub(super) const OUTPUT: &str = "First and last lines of the check's output:";

/// Shares of the part, in tokens; the list of changes takes what is left.
const LABELS_TOKENS_MAX: usize = 70;
const CAUSE_TOKENS_MAX: usize = 50;
const CHECK_TOKENS_MAX: usize = 65;
/// A cause, a command or an outcome, in characters.
const CHARS_MAX: usize = 80;
/// A line of the list of changes, in characters.
const CHANGE_CHARS_MAX: usize = 110;
/// Where the whole of an output is.
pub(super) const LOG: &str = "the check's log";

/// What a retry is told, in at most [`limits::STAGE_RETRY_TOKENS_MAX`] tokens.
pub(super) fn render(
    (attempt, max): (u32, u32),
    cause: &str,
    diff_stat: &[String],
    check: Option<&CheckFacts>,
) -> String {
    let intro = fill(INTRO, &[("attempt", &attempt.to_string()), ("max", &max.to_string())]);
    let cause = quoted_within(&one_line(cause, CHARS_MAX), CAUSE_TOKENS_MAX, Keep::First, "the run's log");
    let check = check.map(|facts| check_part(facts, limits::STAGE_RETRY_OUTPUT_TOKENS_MAX));
    let check = check.unwrap_or_default();
    let used = LABELS_TOKENS_MAX + tokens(&cause) + tokens(&check);
    let changes: String = diff_stat.iter().map(|line| one_line(line, CHANGE_CHARS_MAX) + "\n").collect();
    let changes = quoted_within(&changes, limits::STAGE_RETRY_TOKENS_MAX - used, Keep::Last, "git");
    format!("{HEADING}\n\n{intro}\n{cause}{CHANGES}\n{changes}{check}\n")
}

/// A check that failed: its command, how it ended, and both ends of its output.
pub(super) fn check_part(check: &CheckFacts, output_tokens_max: usize) -> String {
    let line = format!("`{}`: {}", one_line(&check.command, CHARS_MAX), one_line(&check.outcome, CHARS_MAX));
    let line = quoted_within(&line, CHECK_TOKENS_MAX, Keep::First, LOG);
    let output = quoted_within(check.tail.trim_matches('\n'), output_tokens_max, Keep::Ends, LOG);
    format!("{CHECK}\n{line}{OUTPUT}\n{output}")
}
