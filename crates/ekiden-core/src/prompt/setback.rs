//! What a session reads first when it has to repair something: the tree that a failed attempt left, a merge
//! with conflicts, a merge on which the check fails, or work that a hook refused.

use serde::{Deserialize, Serialize};

use super::budget::{Keep, NOWHERE, tokens};
use super::fill::fill;
use super::quote::{lines, outcome_line, quoted_within};
use super::rescue::CheckFacts;
use crate::ids::StageId;
use crate::limits;
use crate::text::one_line;

/// One of the stages whose changes meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeSide {
    pub stage: StageId,
    pub goal: String,
    /// Its result, as [`super::stage_result`] made it.
    pub result: String,
    /// Its check; empty if it has none.
    pub check: String,
}

pub(super) const RETRY: &str = "# What happened before";
pub(super) const RETRY_INTRO: &str =
    "This is attempt {attempt} of {max}; the tree is as the one before left it. That one ended so:";
pub(super) const CHANGES: &str = "Changes of the stage so far:";
pub(super) const FAILED_CHECK: &str = "The check that failed:";
pub(super) const OUTPUT: &str = "First and last lines of the check's output:";
pub(super) const CONFLICT: &str = "# Two stages changed the same lines";
pub(super) const CONFLICT_INTRO: &str = "The other side was merged into this worktree. Where both changed the same lines, git's marks stood, or still stand. A file below without marks was deleted or moved on one side, or is not text: git log shows what either side did. Files with conflicts:";
pub(super) const BROKE: &str = "# The check fails on the merge";
pub(super) const BROKE_INTRO: &str = "ekiden ran the check in a fresh checkout: files that git ignores are not there, except those that the plan's setup makes.";
pub(super) const BROKE_OTHERS: &str = "The changes of the other stages are in this tree now.";
pub(super) const SIDE: &str = "Stage {stage} was to do this:";
pub(super) const RESULT: &str = "Its result, from before the merge:";
pub(super) const CHECK: &str = "Its check:";
pub(super) const OTHERS: &str = "More stages are part of the merge; git log names them.";

pub(super) const HOOK: &str = "# What the hook said";

/// A cause, in characters.
const CAUSE_CHARS_MAX: usize = 80;
/// A line of the list of changes, in characters.
const CHANGE_CHARS_MAX: usize = 110;
const PATH_CHARS_MAX: usize = 160;

// Shares of a part, in tokens; the list of changes, or the sides, get the rest.
const LABELS_TOKENS_MAX: usize = 100;
const CAUSE_TOKENS_MAX: usize = 50;
const CHECK_TOKENS_MAX: usize = 65;
const FILES_TOKENS_MAX: usize = 300;
const HOOK_TOKENS_MAX: usize = 450;
const BROKE_OUTPUT_TOKENS_MAX: usize = 900;
const SIDE_CHECK_TOKENS_MAX: usize = 100;
const SIDE_LABELS_TOKENS_MAX: usize = 60;

/// A retry, in at most [`limits::STAGE_RETRY_TOKENS_MAX`] tokens.
pub(super) fn retry(
    (attempt, max): (u32, u32),
    cause: &str,
    diff_stat: &[String],
    check: Option<&CheckFacts>,
) -> String {
    let (attempt, max) = (attempt.to_string(), max.to_string());
    let intro = fill(RETRY_INTRO, &[("attempt", &attempt), ("max", &max)]);
    let cause = one_line(cause, CAUSE_CHARS_MAX);
    let cause = quoted_within(&cause, CAUSE_TOKENS_MAX, Keep::First, NOWHERE);
    let output_max = limits::STAGE_RETRY_OUTPUT_TOKENS_MAX;
    let check = check.map_or(String::new(), |check| failed_check(check, output_max));
    let used = LABELS_TOKENS_MAX + tokens(&cause) + tokens(&check);
    let room = limits::STAGE_RETRY_TOKENS_MAX - used;
    let changes = lines(diff_stat, CHANGE_CHARS_MAX);
    let changes = quoted_within(&changes, room, Keep::Last, "git");
    format!("{RETRY}\n\n{intro}\n{cause}{CHANGES}\n{changes}{check}\n")
}

/// A conflict, in at most [`limits::STAGE_MERGE_TOKENS_MAX`] tokens.
pub(super) fn conflict(merged: &[MergeSide], files: &[String]) -> String {
    let room = limits::STAGE_MERGE_TOKENS_MAX - 2 * LABELS_TOKENS_MAX - FILES_TOKENS_MAX;
    let names = lines(files, PATH_CHARS_MAX);
    let names = quoted_within(&names, FILES_TOKENS_MAX, Keep::First, "the last commit");
    let sides = sides(merged, room);
    format!("{CONFLICT}\n\n{CONFLICT_INTRO}\n{names}{sides}\n")
}

/// A merge on which the check fails, within the same bound.
pub(super) fn broke(merged: &[MergeSide], check: &CheckFacts) -> String {
    let used = 2 * LABELS_TOKENS_MAX + BROKE_OUTPUT_TOKENS_MAX + CHECK_TOKENS_MAX;
    let others = match merged {
        [_, _, ..] => format!("{BROKE_OTHERS}\n"),
        [_] | [] => String::new(),
    };
    let sides = sides(merged, limits::STAGE_MERGE_TOKENS_MAX - used);
    let check = failed_check(check, BROKE_OUTPUT_TOKENS_MAX);
    format!("{BROKE}\n\n{others}{BROKE_INTRO}\n{sides}{check}\n")
}

/// What a hook said that refused a commit.
pub(super) fn hook(tail: &str) -> String {
    let said = quoted_within(tail, HOOK_TOKENS_MAX, Keep::Ends, NOWHERE);
    format!("{HOOK}\n\n{said}\n")
}

/// A failed check: its command, its result, and both ends of its output.
fn failed_check(check: &CheckFacts, output_tokens_max: usize) -> String {
    let line = outcome_line(&check.command, &check.outcome);
    let line = quoted_within(&line, CHECK_TOKENS_MAX, Keep::First, NOWHERE);
    let output = check.tail.trim_matches('\n');
    let output = quoted_within(output, output_tokens_max, Keep::Ends, NOWHERE);
    format!("{FAILED_CHECK}\n{line}{OUTPUT}\n{output}")
}

fn sides(sides: &[MergeSide], tokens_max: usize) -> String {
    let told = &sides[..sides.len().min(limits::STAGE_MERGE_SIDES_MAX)];
    let fixed = SIDE_LABELS_TOKENS_MAX + SIDE_CHECK_TOKENS_MAX;
    let room = (tokens_max / told.len().max(1)).saturating_sub(fixed) / 2;
    let mut text: String = told.iter().map(|side| self::side(side, room)).collect();
    if told.len() < sides.len() {
        text.push_str(&format!("{OTHERS}\n"));
    }
    text
}

fn side(side: &MergeSide, tokens_max: usize) -> String {
    let goal = quoted_within(&side.goal, tokens_max, Keep::First, NOWHERE);
    let result = quoted_within(&side.result, tokens_max, Keep::First, NOWHERE);
    let check = quoted_within(&side.check, SIDE_CHECK_TOKENS_MAX, Keep::First, NOWHERE);
    let opening = fill(SIDE, &[("stage", side.stage.as_str())]);
    format!("{opening}\n{goal}{RESULT}\n{result}{CHECK}\n{check}")
}
