//! The request, last in the prompt.
//!
//! It is a content block of its own and ours alone: no task, no command, no name, nothing that
//! anybody else wrote. WHY: the client reads `@path` in the last block of a message and attaches the
//! file, whatever the permissions say. What belongs to a slot and is not ours stands before it.

use serde::{Deserialize, Serialize};

use super::fill::fill;
use super::{CheckFacts, MergeSide, merge, retry};
use crate::ids::{SessionNumber, StageId};

/// Something that this session must be told. Each is told once, in the order of this list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
    /// The stage's changes conflict with those of others.
    Conflict {
        /// The stages, this one first.
        sides: Vec<MergeSide>,
        /// Files with conflicts.
        files: Vec<String>,
    },
    /// The stage's changes were merged with those of others, and the check fails on both.
    MergeBroke {
        /// The stages, this one first.
        sides: Vec<MergeSide>,
        /// The check that failed.
        check: CheckFacts,
    },
    /// The stage failed before and is tried again.
    Retry {
        /// Which try this is, from 1.
        attempt: u32,
        /// How many there are at most.
        max: u32,
        /// How the last one ended, in ekiden's words.
        cause: String,
        /// Lines of `git diff --stat` since the stage began.
        diff_stat: Vec<String>,
        /// The check that failed, if one did.
        check: Option<CheckFacts>,
    },
    /// The last session claimed to be done, and the check said no.
    Veto {
        /// The check.
        check: String,
        /// The end of its output.
        tail: String,
    },
    /// Handoffs repeat and nothing changes.
    Repeated {
        /// How many in a row.
        k: u32,
    },
    /// The user edited the task.
    TaskChanged,
    /// The task before this one is done, and the user has a new one.
    NewTask,
    /// The user goes on from an earlier handoff; later sessions worked on the tree.
    GoneBack,
    /// The user's words for this session.
    Operator(String),
    /// Subagents are wanted.
    Delegation,
    /// An attempt at this session broke off.
    Interrupted,
}

pub(super) const HEADING: &str = "# Now";
pub(super) const FIRST: &str = "This is the first session.";
pub(super) const LATER: &str = "This is session {number}.";
pub(super) const STAGE: &str = "It belongs to stage {id} of a plan; other stages do the rest.{done}";
pub(super) const DONE_CHECK: &str = " Done means that the check passes.";
pub(super) const DONE_OUTPUTS: &str =
    " Done means that the files under \"Outputs\" are as the task wants them.";
pub(super) const DONE_BOTH: &str =
    " Done means that the check passes and the files under \"Outputs\" are there.";
pub(super) const STAGE_REPORT: &str = "Later stages read your PROGRESS.md and nothing else of yours. With the last handoff, name there what you decided under \"## Decisions\", and what others can use, with exact names, under \"## Interfaces\".";
pub(super) const CONFLICT: &str = "The task is carried out, but its changes conflict with those of another stage, as told under \"Two stages changed the same lines\". For each place find what either side wanted, and write code that does both; taking one side whole needs a reason under \"Issues\". Add nothing else, leave no markers, and do not rewrite history. Then run the checks of both. If both wishes cannot hold together, that is BLOCKED, naming the choice.";
pub(super) const MERGE_BROKE: &str = "The task is carried out, but the check fails now that the changes of other stages are in the tree, as told under \"The check fails on the merge\". Find what does not go together, and mend it so that either side keeps what it wanted. Then run the checks of both. If both wishes cannot hold together, that is BLOCKED, naming the choice.";
pub(super) const RETRY: &str = "The last attempt at this stage failed, as told under \"What happened before\". Reproduce it and find the cause before you change anything, then mend the cause. If the check itself is wrong, leave it as it is and report BLOCKED with the evidence.";
pub(super) const VETO: &str = "The last session reported all done, but the check failed; its last output stands under \"Measured by ekiden\". Find the cause before anything else.";
pub(super) const REPEATED: &str =
    "The last {k} handoffs were almost the same and the tree did not change: take another way, and name it.";
pub(super) const TASK_CHANGED: &str =
    "The user has changed the task: what stands under \"Task\" holds, and notes may follow the old one.";
pub(super) const NEW_TASK: &str = "The task before this one is done. What stands under \"Task\" is new; the notes tell what was there before.";
pub(super) const GONE_BACK: &str = "The user went back to these notes: later sessions worked on the tree, so it may hold more than the notes say.";
pub(super) const OPERATOR: &str = "The user added words for this session, under \"From the user\". They go \
     before the notes.";
pub(super) const DELEGATION: &str = "Give bulky work to subagents, each with a task that stands alone, and keep this conversation for deciding and checking.";
pub(super) const INTERRUPTED: &str = "This session began before and was interrupted; the tree may hold part of its work. Compare git status and diff with the notes, and do not redo what is there.";
pub(super) const REQUEST_FIRST: &str = "Get to know the project, list the parts of the task as open items,{check} \
     then begin with the first.";
pub(super) const REQUEST_FIRST_CHECK: &str = " make sure the check can run,";
pub(super) const REQUEST_NOTES: &str = "Look at the tree,{check} then go on at \"Resume at\" if it still holds; else take the next unfinished part \
     of the task.";
pub(super) const REQUEST_NO_NOTES: &str =
    "Look at the tree,{check} then take the next unfinished part of the task.";
pub(super) const REQUEST_MERGE: &str = "Look at the tree first; notes may be older than the merge. Then begin with the first place that is still open.";
pub(super) const REQUEST_CHECK: &str = " run the check once,";

impl Slot {
    /// Each kind once, in their order.
    pub(super) fn ordered(slots: &[Self]) -> Vec<&Self> {
        let mut ordered: Vec<&Self> = slots.iter().collect();
        ordered.sort_by_key(|slot| slot.rank());
        ordered.dedup_by_key(|slot| slot.rank());
        ordered
    }

    /// The place in the order.
    fn rank(&self) -> u8 {
        match self {
            Self::Conflict { .. } => 0,
            Self::MergeBroke { .. } => 1,
            Self::Retry { .. } => 2,
            Self::Veto { .. } => 3,
            Self::Repeated { .. } => 4,
            Self::TaskChanged => 5,
            Self::NewTask => 6,
            Self::GoneBack => 7,
            Self::Operator(_) => 8,
            Self::Delegation => 9,
            Self::Interrupted => 10,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Conflict { .. } => CONFLICT.to_owned(),
            Self::MergeBroke { .. } => MERGE_BROKE.to_owned(),
            Self::Retry { .. } => RETRY.to_owned(),
            Self::Veto { .. } => VETO.to_owned(),
            Self::Repeated { k } => fill(REPEATED, &[("k", &k.to_string())]),
            Self::TaskChanged => TASK_CHANGED.to_owned(),
            Self::NewTask => NEW_TASK.to_owned(),
            Self::GoneBack => GONE_BACK.to_owned(),
            Self::Operator(_) => OPERATOR.to_owned(),
            Self::Delegation => DELEGATION.to_owned(),
            Self::Interrupted => INTERRUPTED.to_owned(),
        }
    }

    /// What belongs to it and is not ours: a part of its own, before the request.
    pub(super) fn part(&self) -> Option<String> {
        match self {
            Self::Conflict { sides, files } => Some(merge::conflict(sides, files)),
            Self::MergeBroke { sides, check } => Some(merge::broke(sides, check)),
            Self::Retry { attempt, max, cause, diff_stat, check } => {
                Some(retry::render((*attempt, *max), cause, diff_stat, check.as_ref()))
            }
            // Their words stand elsewhere: under "Measured by ekiden" and "From the user".
            Self::Veto { .. } | Self::Operator(_) => None,
            Self::Repeated { .. }
            | Self::TaskChanged
            | Self::NewTask
            | Self::GoneBack
            | Self::Delegation
            | Self::Interrupted => None,
        }
    }

    /// The session has a merge to mend, and nothing else.
    fn is_merge(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::MergeBroke { .. })
    }
}

/// What the last block of a session's prompt is made of.
pub(super) struct Request<'a> {
    pub(super) number: SessionNumber,
    pub(super) notes: bool,
    pub(super) check: bool,
    pub(super) slots: &'a [Slot],
    pub(super) stage: Option<&'a StageNow<'a>>,
}

/// The stage that a request names. Its id is letters and digits; nothing else of it is ours.
pub(super) struct StageNow<'a> {
    pub(super) id: &'a StageId,
    pub(super) outputs: bool,
}

impl Request<'_> {
    /// The last block of a session's prompt.
    pub(super) fn text(&self) -> String {
        let first = self.number == SessionNumber::FIRST;
        let opening =
            if first { FIRST.to_owned() } else { fill(LATER, &[("number", &self.number.to_string())]) };
        let mut lines = vec![HEADING.to_owned(), String::new(), opening];
        if let Some(stage) = self.stage {
            lines.extend([self.stage_line(stage), STAGE_REPORT.to_owned()]);
        }
        lines.extend(Slot::ordered(self.slots).into_iter().map(Slot::text));
        lines.push(self.request(first || self.slots.contains(&Slot::NewTask)));
        lines.join("\n") + "\n"
    }

    fn stage_line(&self, stage: &StageNow<'_>) -> String {
        let done = match (self.check, stage.outputs) {
            (true, true) => DONE_BOTH,
            (true, false) => DONE_CHECK,
            (false, true) => DONE_OUTPUTS,
            (false, false) => "",
        };
        fill(STAGE, &[("id", stage.id.as_str()), ("done", done)])
    }

    fn request(&self, begins: bool) -> String {
        if self.slots.iter().any(Slot::is_merge) {
            return REQUEST_MERGE.to_owned();
        }
        let (text, run) = match (begins, self.notes) {
            (true, _) => (REQUEST_FIRST, REQUEST_FIRST_CHECK),
            (false, true) => (REQUEST_NOTES, REQUEST_CHECK),
            (false, false) => (REQUEST_NO_NOTES, REQUEST_CHECK),
        };
        fill(text, &[("check", if self.check { run } else { "" })])
    }
}
