//! The first message of a session in a plan's stage: the usual one, with what the plan adds.
//!
//! The parts that stay the same in all sessions of the stage come first: the summary of the whole, files as
//! they were when the stage began, results of the stages that it needs. Then come its task, its check and its
//! outputs. Everything except the task and the check is marked as data, since a model wrote much of a plan.
//! The prompt keeps its size for every plan. Required parts have their own budgets. The context takes
//! the rest, in steps, so that its bytes seldom change from session to session.

use super::budget::{Keep, Mark, NOWHERE, cut, cut_line, tokens};
use super::context::{LABELS_TOKENS_MAX, NOT_SET_UP_CHARS_MAX};
use super::now::StageNow;
use super::quote::{MARK, plain_name, quoted_within};
use super::session::{self, TASK};
use super::{PromptBlocks, SessionInput, StageContext};
use crate::ids::StageId;
use crate::limits;

/// What the prompt of a stage's session has in addition to any other.
#[derive(Debug, Clone, Copy)]
pub struct StageInput<'a> {
    pub id: &'a StageId,
    pub name: &'a str,
    /// Files that it is to make or change.
    pub outputs: &'a [String],
    pub context: &'a StageContext,
}

pub(super) const PROJECT: &str = "# Project";
pub(super) const PROJECT_INTRO: &str =
    "This is one stage of a plan: its name, then what the plan says of the whole, if anything.";
pub(super) const FILES: &str = "# Files";
pub(super) const FILES_INTRO: &str = "The plan names these for this stage. They read so when it began; where the tree differs, it is right.";
pub(super) const RESULTS: &str = "# Results of earlier stages";
pub(super) const RESULTS_INTRO: &str =
    "What the stages left that this one needs, the nearest first.";
pub(super) const SETUP: &str = "# Setup";
pub(super) const SETUP_INTRO: &str = "The plan's setup command failed in this worktree before the stage began. If what it lacks is for this stage to make, make it; ekiden runs it again where merges are checked.";
pub(super) const AGAIN: &str = "# Why this stage is done again";
pub(super) const AGAIN_INTRO: &str = "It was done before, but its result did not go together with the work of other stages, which is in this tree now. Do the task on top of it, and keep what they made; their checks count as well. What kept it from being merged:";
pub(super) const OUTPUTS: &str = "# Outputs";
pub(super) const OUTPUTS_INTRO: &str = "Write only these; if another file has to change, change it and name it with the reason under \"Issues\":";

/// A stage's name, in characters: it has to fit beside the labels.
const NAME_CHARS_MAX: usize = 60;
/// An output, in characters.
const OUTPUT_CHARS_MAX: usize = 160;
/// A line of the check, in characters.
const CHECK_LINE_CHARS_MAX: usize = 400;
/// The heading and the introduction of the check.
const CHECK_LABELS_TOKENS_MAX: usize = 30;
/// The reserve for the rest of the prompt grows in such steps.
const STEP_TOKENS: usize = 1_000;
/// How much a session after the first may need for log, measured, notes and request.
const LATER_TOKENS: usize = limits::KNOWLEDGE_LOG_TOKENS_MAX
    + limits::MEASURED_TOKENS_MAX
    + limits::NOTES_TOKENS_MAX
    + limits::STAGE_CLOSING_TOKENS_MAX;

/// The prompt of a stage's session, within [`limits::STAGE_PROMPT_TOKENS_MAX`] together with the
/// protocol. The task is never cut.
pub fn stage_prompt(input: &SessionInput<'_>, stage: &StageInput<'_>) -> PromptBlocks {
    let check = input.check.map(check_within);
    let input = SessionInput {
        check: check.as_deref(),
        ..*input
    };
    let now = StageNow {
        id: stage.id,
        outputs: !stage.outputs.is_empty(),
    };
    let mut blocks = session::prompt(&input, &outputs(stage.outputs), Some(&now));
    debug_assert!(
        blocks.stable.starts_with(TASK),
        "the context stands before the task"
    );
    let before = again(stage.context) + &setup(stage.context);
    blocks.foreign.insert_str(0, &before);
    let context = stage
        .context
        .within(context_room(&blocks, input.notes.is_some()));
    blocks.stable.insert_str(0, &context_part(stage, &context));
    blocks
}

/// The room that the rest of the prompt leaves for the context.
fn context_room(rest: &PromptBlocks, later: bool) -> usize {
    let changing = tokens(&rest.foreign) + tokens(&rest.now);
    let changing = if later {
        changing.max(LATER_TOKENS)
    } else {
        changing
    };
    let fixed = limits::PROTOCOL_TOKENS_MAX + 3 * LABELS_TOKENS_MAX;
    let reserved = [tokens(&rest.stable), changing].map(|size| size.next_multiple_of(STEP_TOKENS));
    limits::STAGE_PROMPT_TOKENS_MAX.saturating_sub(fixed + reserved.iter().sum::<usize>())
}

fn context_part(stage: &StageInput<'_>, context: &StageContext) -> String {
    let name = plain_name(stage.name, NAME_CHARS_MAX);
    let mut text = format!("{PROJECT}\n\n{PROJECT_INTRO}\n{MARK}{}: {name}\n", stage.id);
    text.extend(context.architecture.as_ref().map(super::Excerpt::print));
    text.push('\n');
    for (heading, intro, excerpts) in [
        (FILES, FILES_INTRO, &context.files),
        (RESULTS, RESULTS_INTRO, &context.results),
    ] {
        if !excerpts.is_empty() {
            text.push_str(&format!("{heading}\n\n{intro}\n{}\n", excerpts.print()));
        }
    }
    text
}

fn setup(context: &StageContext) -> String {
    let why = context.not_set_up.as_ref();
    why.map_or(String::new(), |why| {
        let why = plain_name(why, NOT_SET_UP_CHARS_MAX);
        format!("{SETUP}\n\n{SETUP_INTRO}\n{MARK}{why}\n\n")
    })
}

fn again(context: &StageContext) -> String {
    let why = context.not_merged.as_ref();
    why.map_or(String::new(), |why| {
        let why = quoted_within(
            why,
            limits::STAGE_RETRY_OUTPUT_TOKENS_MAX,
            Keep::Ends,
            NOWHERE,
        );
        format!("{AGAIN}\n\n{AGAIN_INTRO}\n{why}\n")
    })
}

fn outputs(outputs: &[String]) -> String {
    if outputs.is_empty() {
        return String::new();
    }
    let line = |output: &String| format!("{MARK}{}\n", plain_name(output, OUTPUT_CHARS_MAX));
    let lines: String = outputs.iter().map(line).collect();
    let room = limits::STAGE_OUTPUTS_TOKENS_MAX - tokens(OUTPUTS) - tokens(OUTPUTS_INTRO) - 2;
    let lines = cut(&lines, room, Keep::First, Mark::new(MARK, NOWHERE));
    format!("{OUTPUTS}\n\n{OUTPUTS_INTRO}\n{lines}\n")
}

/// The check as the user approved it; only text that nobody would read is cut.
fn check_within(check: &str) -> String {
    let line = |line| cut_line(line, CHECK_LINE_CHARS_MAX);
    let lines: String = check.split_inclusive('\n').map(line).collect();
    let room = limits::STAGE_CHECK_TOKENS_MAX - CHECK_LABELS_TOKENS_MAX;
    cut(&lines, room, Keep::First, Mark::new("", NOWHERE))
}
