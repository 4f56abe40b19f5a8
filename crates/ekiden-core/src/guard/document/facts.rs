//! The facts about a session from which its handoff document is made.

use serde::{Deserialize, Serialize};

use super::read::Filled;
use crate::guard::checkpoint::CheckpointReason;
use crate::prompt::FailedCommand;

/// Everything that a document is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The conversation, if it is known.
    pub session: Option<String>,
    pub at: LocalTime,
    pub reason: CheckpointReason,
    /// The share of the usable window in use.
    pub percent: Option<u64>,
    /// What is left of it, in tokens.
    pub remaining_tokens: Option<u64>,
    /// The issue, such as `ANV-123`.
    pub issue: Option<String>,
    /// The tracker's data on it, or why there is none; empty without a tracker.
    pub tracker: Vec<String>,
    /// The part of a plan after the one that the session works on.
    pub next_part: Option<String>,
    pub tree: Tree,
    pub told: TranscriptFacts,
    /// Files of standing instructions that are there.
    pub instructions: Vec<Instructions>,
    /// The specification that the work follows, by its path.
    pub spec: Option<String>,
    /// What the agent wrote into this session's last document.
    pub filled: Filled,
    pub previous: Option<String>,
    /// The document of another session that this one continued from.
    pub continued: Option<String>,
    /// The first task of these sessions.
    pub began: Option<String>,
    /// A repeated request for the same checkpoint has the same mark.
    pub mark: Option<String>,
}

/// A point in time as a wall clock shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalTime {
    /// `2026-01-07`
    pub date: String,
    /// `11:45`
    pub time: String,
}

/// The work tree, as far as git knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// No repository, or no git.
    NoRepository,
    /// Git could not be asked.
    Unknown {
        why: String,
    },
    Git(Box<GitTree>),
}

/// A work tree that git knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitTree {
    /// The branch, unless the head is detached.
    pub branch: Option<String>,
    /// The last commit: short id and subject.
    pub head: Option<String>,
    /// What git is in the middle of: `a merge`.
    pub under_way: Option<String>,
    /// What is not committed.
    pub changed: Vec<ChangedFile>,
    /// Where uncommitted work is kept.
    pub wip: WipState,
}

/// A file that differs from the last commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// What git says of it, in two letters as in `git status --short`.
    pub code: String,
    /// Its path from the repository's root.
    pub path: String,
}

/// Where uncommitted work is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WipState {
    /// Nowhere: the setting turns it off.
    Off,
    Clean,
    Saved {
        commit: String,
        /// The ref that keeps it; none if it is on the branch.
        name: Option<String>,
        /// Why it is not where the setting wants it, or another remark.
        note: Option<String>,
        /// Files that are not in it.
        left_out: Vec<String>,
    },
    Failed {
        why: String,
    },
}

/// A file of standing instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// Its path, as the agent would write it.
    pub path: String,
    pub sections: Vec<String>,
}

/// The facts that a transcript gives about a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TranscriptFacts {
    /// What the person asked first.
    pub task: Option<String>,
    /// What the person asked last, if it is something else.
    pub asked_last: Option<String>,
    pub last_words: Option<String>,
    /// The file of the last edit, with its lines if the client recorded them.
    pub last_edit: Option<String>,
    /// What the person decided by an answer or by approving a plan, newest last.
    pub decided: Vec<String>,
    /// Files that were edited, each once, newest last.
    pub edited: Vec<String>,
    /// Commands that succeeded, newest last.
    pub succeeded: Vec<String>,
    /// Commands that failed, newest last.
    pub failed: Vec<FailedCommand>,
    pub test: Option<TestRun>,
    pub todos: Vec<Todo>,
    /// The conversation was summarised along the way.
    pub compacted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    pub command: String,
    pub passed: bool,
    pub last_line: String,
    /// The first `file:line` that it printed.
    pub place: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    pub text: String,
    pub state: TodoState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TodoState {
    /// Not begun.
    Open,
    Now,
    Done,
}
