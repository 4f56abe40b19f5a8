//! A checkpoint that a hook or a command begins, and its end in the session's log.
//!
//! One is written at a time for a session. After a crash the log says *writing*, and after
//! [`limits::CHECKPOINT_PATIENCE`] the next hook tells that it failed.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ekiden_agent::detached;
use ekiden_core::guard::Reading;
use ekiden_core::guard::checkpoint::{CheckpointReason, Wip};
use ekiden_core::guard::watch::{Taken, WatchEvent, WatchRecord};
use ekiden_core::limits;
use ekiden_engine::checkpoint::{CheckpointError, NoTracker, Request, take as take_checkpoint};
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_store::disk::{DiskError, RealDisk};
use ekiden_store::guard::GuardFiles;
use ekiden_store::place::ProjectPlace;
use serde::{Deserialize, Serialize};

use super::Scene;
use crate::failure::chain;

/// The first argument of the process that writes a checkpoint.
pub(super) const ROLE: &str = "__checkpoint";

/// A checkpoint to take.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checkpoint {
    session: String,
    transcript: PathBuf,
    project: PathBuf,
    state_dir: Option<PathBuf>,
    reason: CheckpointReason,
    used_tokens: u64,
    percent: Option<u64>,
    remaining_tokens: Option<u64>,
    issue: Option<String>,
    wip: Wip,
}

/// A checkpoint cannot be taken. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// Another one of the session goes on for too long.
    #[error("take a checkpoint while another of this session is being written")]
    Busy,
    /// The project is gone.
    #[error("find the project")]
    NoProject,
    /// Its process cannot be started.
    #[error("begin a checkpoint")]
    Begin(#[source] io::Error),
    /// The session's files cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The document cannot be written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

impl Checkpoint {
    /// The checkpoint of a session, for this reason.
    #[must_use]
    pub fn of(scene: &Scene, reason: CheckpointReason, reading: Option<&Reading>) -> Self {
        Self {
            session: scene.session.clone(),
            transcript: scene.transcript.clone(),
            project: scene.place.dir.clone(),
            state_dir: scene.state_dir.clone(),
            reason,
            used_tokens: reading.map_or(0, |reading| reading.used_tokens),
            percent: reading.map(Reading::percent),
            remaining_tokens: reading.map(Reading::remaining_tokens),
            issue: scene.issue.clone(),
            wip: scene.wip,
        }
    }

    fn request(&self) -> Request {
        Request {
            project_dir: self.project.clone(),
            state_dir: self.state_dir.clone(),
            session_id: Some(self.session.clone()).filter(|session| !session.is_empty()),
            transcript: Some(self.transcript.clone()).filter(|path| path.is_file()),
            reason: self.reason,
            percent: self.percent,
            remaining_tokens: self.remaining_tokens,
            issue: self.issue.clone(),
            wip: self.wip,
            now: SystemClock.now(),
        }
    }
}

/// Begins it in a process of its own, which outlives this one and the client.
///
/// # Errors
///
/// If that process cannot be started.
pub fn begin(checkpoint: &Checkpoint) -> Result<(), TakeError> {
    let program = std::env::current_exe().map_err(TakeError::Begin)?;
    let text = serde_json::to_string(checkpoint).map_err(|error| TakeError::Begin(error.into()))?;
    detached::start(&program, &[ROLE.into(), text.into()], &checkpoint.project).map_err(TakeError::Begin)
}

/// The process that writes it.
pub(super) fn run(args: &[OsString]) {
    detached::leave_session();
    let Some(text) = args.first().and_then(|arg| arg.to_str()) else { return };
    let Ok(checkpoint) = serde_json::from_str::<Checkpoint>(text) else { return };
    // What went wrong stands in the session's log, and the next hook tells it.
    let _ = take(&checkpoint);
}

/// Takes it here and now, and records how that ended.
///
/// # Errors
///
/// If the document cannot be written or the session's files cannot be used.
pub fn take(checkpoint: &Checkpoint) -> Result<ekiden_engine::checkpoint::Taken, TakeError> {
    let place = ProjectPlace::find(&checkpoint.project, checkpoint.state_dir.as_deref());
    let place = place.ok_or(TakeError::NoProject)?;
    let disk = Arc::new(RealDisk::fenced(&place.dir));
    let files = GuardFiles::new(disk, &place.state_dir, &checkpoint.session);
    let patience = Duration::from(limits::CHECKPOINT_WAIT);
    let _writing = files.lock_writing(patience)?.ok_or(TakeError::Busy)?;
    let taken = take_checkpoint(&checkpoint.request(), &NoTracker);
    let event = match &taken {
        Ok(taken) => WatchEvent::Taken(Taken {
            reason: checkpoint.reason,
            document: taken
                .document
                .strip_prefix(&place.dir)
                .unwrap_or(&taken.document)
                .display()
                .to_string(),
            commit: taken.commit.clone(),
            modified_files: taken.modified_files.iter().take(limits::STATE_FILES_MAX).cloned().collect(),
            issue: taken.issue.clone(),
        }),
        Err(error) => WatchEvent::Failed { why: chain(error) },
    };
    files.append(&[WatchRecord { time: SystemClock.now(), event }])?;
    if let Some(scene) = Scene::of(&checkpoint.session, checkpoint.transcript.clone(), &place.dir)
        && let Some(reading) = scene.reading()
    {
        scene.publish(&scene.watch(), &reading);
    }
    Ok(taken?)
}
