//! What stops an engine.

use std::io;

use ekiden_core::ids::{RunId, SessionNumber, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_store::archive::ArchiveError;
use ekiden_store::disk::DiskError;
use ekiden_store::inbox::SendError;
use ekiden_store::lock::{Holder, LockError};
use ekiden_store::log::LogError;
use ekiden_store::state::{FindRunError, StateError};
use ekiden_store::status::StatusError;

use crate::branch::BranchError;
use crate::workspace::WorkspaceError;

/// An error with its causes, in one line.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

/// Which sessions there are.
fn there(sessions: &[SessionNumber]) -> String {
    match sessions {
        [] => "no session of it is over yet".to_owned(),
        [one] => format!("session {one} left one"),
        [first, .., last] => format!("sessions {first} to {last} left one"),
    }
}

/// A run cannot be started, carried on or read. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no such work dir.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// Another engine works here.
    #[error("start a run here: another one works in this directory")]
    Held {
        /// Who, if it could be told.
        holder: Option<Box<Holder>>,
    },
    /// An unfinished run lies here.
    #[error("start a new run: {run} is not finished")]
    Unfinished {
        /// The run.
        run: RunId,
        /// It has the same task.
        same_task: bool,
    },
    /// Nothing ever ran here.
    #[error("find a run: there is none here")]
    NoRuns,
    /// There is no run that could be carried on.
    #[error("resume: there is no unfinished run here")]
    NothingToResume,
    /// The run is finished.
    #[error("resume {run}: it is complete")]
    Complete {
        /// The run.
        run: RunId,
    },
    /// The run is not complete, so nothing can follow up on it.
    #[error("continue {run}: it is not finished")]
    NotComplete {
        /// The run.
        run: RunId,
    },
    /// The run has no handoff of this session.
    #[error("go on from session {session} of {run}: it left no handoff; {}", there(sessions))]
    NoHandoff {
        /// The run.
        run: RunId,
        /// The session that was asked for.
        session: SessionNumber,
        /// Those that left one.
        sessions: Vec<SessionNumber>,
    },
    /// No engine works on the run.
    #[error("steer {run}: nothing works on it")]
    NotRunning {
        /// The run.
        run: RunId,
        /// How it ended, if it did.
        outcome: Option<Box<Outcome>>,
    },
    /// A message cannot be sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// No run's id begins so, or more than one.
    #[error(transparent)]
    FindRun(#[from] FindRunError),
    /// Something of the run still lives.
    #[error("resume {run}: processes of its last attempt are still alive")]
    StillAlive {
        /// The run.
        run: RunId,
    },
    /// A worktree in which the run works is gone and cannot be made again.
    #[error("resume {run}: a worktree of it cannot be made ready: {why}")]
    Ground {
        /// The run.
        run: RunId,
        /// Why.
        why: String,
    },
    /// Git would not commit what stages do.
    #[error("start a plan: git does not know who you are, and what stages do is committed")]
    NoIdentity,
    /// What stages only borrow would be committed.
    #[error("start a plan: `{file}` is copied into worktrees, where git would commit it")]
    NotIgnored {
        /// The first such file.
        file: String,
    },
    /// A file that stages are to borrow cannot be lent to them.
    #[error("start a plan: {why}")]
    NotLent {
        /// Why not.
        why: String,
    },
    /// A branch has the name that all of the run's branches begin with.
    #[error("start a plan: there is a branch `{branch}`, so git can make none below it")]
    BranchInTheWay {
        /// That branch.
        branch: String,
    },
    /// A run's log cannot be read, and nothing else was asked for.
    #[error("read run {run}")]
    Unreadable {
        /// The run.
        run: RunId,
        /// Why.
        #[source]
        cause: Box<EngineError>,
    },
    /// The newest run cannot be read, so nobody knows whether it is finished.
    #[error("tell whether run {run} is finished")]
    UnreadableInTheWay {
        /// The run.
        run: RunId,
        /// Why.
        #[source]
        cause: Box<EngineError>,
    },
    /// A log without its first record.
    #[error("read run {run}: its log has no records")]
    Empty {
        /// The run.
        run: RunId,
    },
    /// The run cannot work on its branch.
    #[error(transparent)]
    Branch(#[from] BranchError),
    /// The run has no such stage, or nothing to do for it.
    #[error("find anything to start for stage {stage}")]
    NoStage {
        /// The stage.
        stage: StageId,
    },
    /// The log cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file cannot be read or written.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A text cannot be archived.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// `status.json` belongs to a newer program.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// The lock cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The system refuses a runtime, signals, or our own executable.
    #[error("{what}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl EngineError {
    /// What a person can do about it, where whoever found it knows.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Log(error) => error.hint(),
            Self::State(error) => error.hint(),
            Self::Unreadable { cause, .. } | Self::UnreadableInTheWay { cause, .. } => cause.hint(),
            Self::Empty { .. } => {
                Some("its log was emptied; what the sessions left is still beside it, under sessions/")
            }
            Self::Disk(error) | Self::Lock(LockError::Disk(error)) | Self::Send(SendError::Disk(error)) => {
                error.hint()
            }
            Self::Archive(ArchiveError::Disk(error)) | Self::Status(StatusError::Disk(error)) => error.hint(),
            Self::Workspace(_)
            | Self::Held { .. }
            | Self::Unfinished { .. }
            | Self::NoRuns
            | Self::NothingToResume
            | Self::Complete { .. }
            | Self::FindRun(_)
            | Self::NotComplete { .. }
            | Self::NoHandoff { .. }
            | Self::NotRunning { .. }
            | Self::Send(SendError::Encode(_))
            | Self::Branch(_)
            | Self::StillAlive { .. }
            | Self::NoStage { .. }
            | Self::Archive(ArchiveError::Differs { .. })
            | Self::Status(StatusError::Format(_) | StatusError::Json { .. })
            | Self::Lock(LockError::Held { .. })
            | Self::Ground { .. }
            | Self::NoIdentity
            | Self::NotIgnored { .. }
            | Self::NotLent { .. }
            | Self::BranchInTheWay { .. }
            | Self::System { .. } => None,
        }
    }
}
