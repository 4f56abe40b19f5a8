//! Two stages got into each other's way: their changes conflict, or their check fails on both.
//!
//! The work goes on in the stage's own worktree. In a conflict the merge is in progress there and
//! ekiden commits it; where only the check broke, it is made already.

use serde::{Deserialize, Serialize};

use super::budget::Keep;
use super::fill::fill;
use super::measured::quoted_within;
use super::rescue::CheckFacts;
use super::retry::check_part;
use crate::ids::StageId;
use crate::limits;
use crate::text::one_line;

/// One of the stages whose changes meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergeSide {
    /// The stage.
    pub stage: StageId,
    /// Its task.
    pub goal: String,
    /// Its result, as [`super::stage_result`] made it.
    pub result: String,
    /// Its check; empty if it has none.
    pub check: String,
}

pub(super) const CONFLICT: &str = "# Two stages changed the same lines";
pub(super) const CONFLICT_INTRO: &str = "The other side is merged into this worktree, with git's marks wherever the two conflict. Files with conflicts:";
pub(super) const BROKE: &str = "# The check fails on the merge";
pub(super) const BROKE_INTRO: &str =
    "The changes of the other stages are in this tree now, merged without a conflict.";
pub(super) const SIDE: &str = "Stage {stage} was to do this:";
pub(super) const RESULT: &str = "Its result:";
pub(super) const CHECK: &str = "Its check:";
pub(super) const OTHERS: &str = "More stages are part of the merge; git log names them.";

/// Shares of the part, in tokens; the sides take what is left.
const LABELS_TOKENS_MAX: usize = 100;
const FILES_TOKENS_MAX: usize = 300;
const OUTPUT_TOKENS_MAX: usize = 900;
const CHECK_TOKENS_MAX: usize = 100;
/// The labels of a side, and its check.
const SIDE_TOKENS_MAX: usize = 60 + CHECK_TOKENS_MAX;
/// The check's line and labels.
const CHECK_PART_TOKENS_MAX: usize = 100;
/// A path, in characters.
const PATH_CHARS_MAX: usize = 160;

/// A conflict, in at most [`limits::STAGE_MERGE_TOKENS_MAX`] tokens.
pub(super) fn conflict(merged: &[MergeSide], files: &[String]) -> String {
    let names: String = files.iter().map(|file| one_line(file, PATH_CHARS_MAX) + "\n").collect();
    let names = quoted_within(&names, FILES_TOKENS_MAX, Keep::First, "the last commit");
    let room = limits::STAGE_MERGE_TOKENS_MAX - LABELS_TOKENS_MAX - FILES_TOKENS_MAX;
    format!("{CONFLICT}\n\n{CONFLICT_INTRO}\n{names}{}\n", sides(merged, room))
}

/// A merge on which the check fails, within the same.
pub(super) fn broke(merged: &[MergeSide], check: &CheckFacts) -> String {
    let used = LABELS_TOKENS_MAX + OUTPUT_TOKENS_MAX + CHECK_PART_TOKENS_MAX;
    let merged = sides(merged, limits::STAGE_MERGE_TOKENS_MAX - used);
    format!("{BROKE}\n\n{BROKE_INTRO}\n{merged}{}\n", check_part(check, OUTPUT_TOKENS_MAX))
}

fn sides(sides: &[MergeSide], tokens_max: usize) -> String {
    let told = &sides[..sides.len().min(limits::STAGE_MERGE_SIDES_MAX)];
    let room = (tokens_max / told.len().max(1)).saturating_sub(SIDE_TOKENS_MAX) / 2;
    let mut text: String = told.iter().map(|side| self::side(side, room)).collect();
    if told.len() < sides.len() {
        text.push_str(&format!("{OTHERS}\n"));
    }
    text
}

fn side(side: &MergeSide, tokens_max: usize) -> String {
    let goal = quoted_within(&side.goal, tokens_max, Keep::First, "the plan");
    let result = quoted_within(&side.result, tokens_max, Keep::First, "the stage's result");
    let check = quoted_within(&side.check, CHECK_TOKENS_MAX, Keep::First, "the plan");
    let opening = fill(SIDE, &[("stage", side.stage.as_str())]);
    format!("{opening}\n{goal}{RESULT}\n{result}{CHECK}\n{check}")
}
