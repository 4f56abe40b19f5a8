//! A run that takes another turn: an edited task, a follow-up, an earlier session's handoff.
//!
//! | what | which run | session numbers |
//! |---|---|---|
//! | an edited task, at a resume | the same | go on |
//! | a follow-up on a complete run | the same | go on |
//! | an earlier handoff | a new one, which holds that handoff | go on after that handoff's |
//!
//! Going back is a new run, so that no number is used twice in a log and no archive is written over:
//! `docs/design/0007-going-back.md`.

use serde::{Deserialize, Serialize};

use crate::event::LimitsChanged;
use crate::ids::RunId;
use crate::relay::LastSession;

/// A task in the place of another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTask {
    /// The user's words.
    pub text: String,
    /// Where they came from, for people.
    pub name: String,
}

/// A complete run goes on with follow-up work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Continued {
    /// The program's version.
    pub ekiden: String,
    /// The follow-up.
    pub task: NewTask,
    /// The limits that whoever continues it wants changed.
    #[serde(flatten)]
    pub limits: LimitsChanged,
}

/// Where a run begins that goes on from another run's session. It holds all that its sessions will
/// read, so the other run's files are not needed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartingPoint {
    /// The other run.
    pub run: RunId,
    /// What its session left; the first session here has the number after it.
    pub last: LastSession,
    /// The last valid `NEXT_PROMPT.md` by then.
    pub next_prompt: Option<String>,
    /// What was known by then, as it is published.
    pub knowledge: String,
    /// Later sessions of the other run worked on the tree.
    pub overtaken: bool,
    /// The task is another one now.
    pub task_changed: bool,
}
