//! What stops an engine.

use std::io;
use std::path::PathBuf;

use ekiden_core::ids::{RunId, SessionNumber, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_store::disk::DiskError;
use ekiden_store::error::StoreError;
use ekiden_store::lock::Holder;

use crate::git::branch::BranchError;
use crate::steering_socket::Refusal;
use crate::workspace::WorkspaceError;

fn there(sessions: &[SessionNumber]) -> String {
    match sessions {
        [] => "no session of it is over yet".to_owned(),
        [one] => format!("session {one} left one"),
        [.., last] => format!("the newest is that of session {last}"),
    }
}

/// The task of an unfinished run, compared with that of the run that is to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfinishedTask {
    Same,
    SamePlan,
    /// A plan from the same manifest, which has changed since.
    EditedPlan,
    /// All of the same plan is done, and its work is only on the run's own branch.
    Undelivered,
    Another,
    /// What the new run would do is not known yet.
    Unknown,
}

/// A run cannot be started, continued or read. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error("start a run here: another one works in this directory")]
    Held { holder: Option<Box<Holder>> },
    #[error("start a run here: another one works in {}", dir.display())]
    Overlaps {
        dir: PathBuf,
        holder: Box<Holder>,
        /// Where its state is, if that is not where ours would be.
        kept: Option<PathBuf>,
    },
    #[error("start a new run: {run} is not finished")]
    Unfinished {
        run: RunId,
        task: UnfinishedTask,
        /// It waits for an answer.
        asks: bool,
    },
    #[error("find a run here")]
    NoRuns,
    #[error("resume: there is no unfinished run here")]
    NothingToResume,
    #[error("resume {run}: it is complete")]
    Complete { run: RunId, is_plan: bool },
    #[error("continue {run}: it is not finished")]
    NotComplete {
        run: RunId,
        outcome: Option<Box<Outcome>>,
    },
    #[error("use the state in {}: {why}", dir.display())]
    StateDoubted { dir: PathBuf, why: String },
    #[error("continue run {run}: its log is not the one that ekiden wrote; {what}")]
    LogChanged {
        run: RunId,
        /// The first record that is not the one that was written.
        seq: u64,
        what: String,
    },
    #[error(
        "continue from session {session} of {run}: there is no handoff of it; {}",
        there(sessions)
    )]
    NoHandoff {
        run: RunId,
        session: SessionNumber,
        sessions: Vec<SessionNumber>,
    },
    #[error("steer {run}: nothing works on it")]
    NotRunning {
        run: RunId,
        outcome: Option<Box<Outcome>>,
        /// How many processes it had left behind, which have now been ended.
        ended: usize,
    },
    #[error("steer run {run}: {}", why.in_words())]
    Refused { run: RunId, why: Refusal },
    #[error("steer run {run}: it works on {host}")]
    WorksElsewhere { run: RunId, host: String },
    #[error("reach the engine of run {run}")]
    Unreachable {
        run: RunId,
        /// Its pid.
        engine: u32,
        source: io::Error,
    },
    #[error(
        "steer run {run}: its engine is another version of ekiden and does not know this request: {why}"
    )]
    NotUnderstood { run: RunId, why: String },
    #[error("resume {run}: processes of its last attempt are still alive")]
    StillAlive { run: RunId },
    #[error("resume {run}: a worktree of it cannot be made ready: {why}")]
    Worktree { run: RunId, why: String },
    /// The repository lacks what every plan needs, or the manifest names files that worktrees cannot get.
    #[error("start a plan: {why}")]
    CannotPlan { why: String, hint: String },
    #[error("work in {}: {owner} keeps its own files there", dir.display())]
    NotForWork { dir: PathBuf, owner: &'static str },
    #[error("read run {run}")]
    Unreadable {
        run: RunId,
        #[source]
        cause: Box<EngineError>,
    },
    #[error("tell whether run {run} is finished")]
    UnreadableInTheWay {
        run: RunId,
        #[source]
        cause: Box<EngineError>,
    },
    #[error("read run {run}: its log has no records")]
    Empty { run: RunId },
    /// Somebody has put another log in place of the run's own.
    #[error("use its log, which is that of run {found}")]
    LogOfAnother { found: RunId },
    #[error(transparent)]
    Branch(#[from] BranchError),
    #[error("find anything to start for stage {stage}")]
    NoStage { stage: StageId },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("archive")]
    Archive(#[source] StoreError),
    #[error("publish what the session begins with")]
    Publish(#[source] StoreError),
    #[error("{what}")]
    System {
        what: &'static str,
        source: io::Error,
    },
}

impl EngineError {
    /// Fails if the log of a run is another run's.
    pub(crate) fn refuse_another(run: &RunId, found: &RunId) -> Result<(), Self> {
        match run == found {
            true => Ok(()),
            false => Err(Self::LogOfAnother {
                found: found.clone(),
            }),
        }
    }
}

impl From<DiskError> for EngineError {
    fn from(error: DiskError) -> Self {
        Self::Store(error.into())
    }
}
