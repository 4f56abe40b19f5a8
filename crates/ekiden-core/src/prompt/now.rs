//! The request, last in the prompt.
//!
//! It is a content block of its own and ours alone: no task, no command, no name, nothing that
//! anybody else wrote. WHY: the client reads `@path` in the last block of a message and attaches the
//! file, whatever the permissions say. What belongs to a slot and is not ours stands before it.

use serde::{Deserialize, Serialize};

use super::fill::fill;
use crate::ids::SessionNumber;

/// Something that this session must be told. Each is told once, in the order of this list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Slot {
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
pub(super) const REQUEST_CHECK: &str = " run the check once,";

impl Slot {
    /// The place in the order.
    fn rank(&self) -> u8 {
        match self {
            Self::Veto { .. } => 0,
            Self::Repeated { .. } => 1,
            Self::TaskChanged => 2,
            Self::NewTask => 3,
            Self::GoneBack => 4,
            Self::Operator(_) => 5,
            Self::Delegation => 6,
            Self::Interrupted => 7,
        }
    }

    fn text(&self) -> String {
        match self {
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
}

/// The last block of a session's prompt.
pub(super) fn now(number: SessionNumber, notes: bool, check: bool, slots: &[Slot]) -> String {
    let first = number == SessionNumber::FIRST;
    let opening = if first { FIRST.to_owned() } else { fill(LATER, &[("number", &number.to_string())]) };
    let mut ordered: Vec<&Slot> = slots.iter().collect();
    ordered.sort_by_key(|slot| slot.rank());
    ordered.dedup_by_key(|slot| slot.rank());
    let mut lines = vec![HEADING.to_owned(), String::new(), opening];
    lines.extend(ordered.into_iter().map(Slot::text));
    let begins = first || slots.contains(&Slot::NewTask);
    lines.push(request(begins, notes, check));
    lines.join("\n") + "\n"
}

fn request(begins: bool, notes: bool, check: bool) -> String {
    let (text, run) = match (begins, notes) {
        (true, _) => (REQUEST_FIRST, REQUEST_FIRST_CHECK),
        (false, true) => (REQUEST_NOTES, REQUEST_CHECK),
        (false, false) => (REQUEST_NO_NOTES, REQUEST_CHECK),
    };
    fill(text, &[("check", if check { run } else { "" })])
}
