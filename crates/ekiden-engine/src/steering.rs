//! Steering a run from another process: find who works on it, leave a message, see what becomes of it.
//!
//! A message is synced before it counts as sent. The engine records it, then removes it; so a message
//! that is gone from the inbox is in the log. Nothing is asked of the engine but that: whether it
//! still works is told by its lock.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ekiden_core::ids::RunId;
use ekiden_core::steering::Steering;
use ekiden_core::time::Millis;
use ekiden_store::disk::{Disk, Reach, RealDisk};
use ekiden_store::inbox::{Inbox, Message};
use ekiden_store::layout::StateLayout;
use ekiden_store::lock::{Holder, WorkDirLock};

use crate::error::EngineError;
use crate::history::{self, RunSummary};
use crate::workspace::Workspace;

/// How often is looked whether a message was taken. Looking takes the run's lock for an instant, so
/// not too often.
const LOOK: Duration = Duration::from_millis(100);

/// A run on which an engine works.
#[derive(Debug)]
pub struct RunningRun {
    /// How it stood when it was found.
    pub summary: RunSummary,
    holder: Holder,
    lock: PathBuf,
    inbox: Inbox,
    disk: Arc<dyn Disk>,
}

/// Leaves messages for a run of which the caller knows that it works.
#[derive(Debug)]
pub struct Sender {
    inbox: Inbox,
    disk: Arc<dyn Disk>,
}

impl Sender {
    /// A sender to the inbox of a run, which is made with the run.
    #[must_use]
    pub fn to(workspace: &Workspace, run: &RunId) -> Self {
        let inbox = Inbox::new(StateLayout::new(&workspace.state_dir).run(run).inbox());
        Self { inbox, disk: Arc::new(RealDisk::fenced(&workspace.dir)) }
    }

    /// Leaves a message. It survives a power cut once this returned.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn send(&self, message: &Message<Steering>) -> Result<(), EngineError> {
        Ok(self.inbox.send(&*self.disk, message, Reach::Disk)?)
    }
}

/// What became of something that was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// It happened.
    Done,
    /// Not yet.
    NotYet,
    /// The engine ended before it took the message, which was taken back.
    EngineGone,
}

impl RunningRun {
    /// Finds the run by the beginning of its id, or the one that works in this work dir.
    ///
    /// # Errors
    ///
    /// If there is no such run, or no engine works on it.
    pub fn find(workspace: &Workspace, prefix: Option<&str>) -> Result<Self, EngineError> {
        let here = history::holder(workspace).and_then(|holder| holder.run);
        let prefix = prefix.or(here.as_ref().map(ekiden_core::ids::RunId::as_str));
        let (run, _) = history::find(workspace, prefix)?;
        let summary = history::read(workspace, &run, |_, _| {})?;
        let layout = StateLayout::new(&workspace.state_dir);
        let lock = layout.lock(summary.run.header().place.worktree.as_deref());
        let holder = WorkDirLock::holder_of(&lock);
        let Some(holder) = holder.filter(|holder| holder.run.as_ref() == Some(summary.id())) else {
            let (run, outcome) = (summary.id().clone(), summary.run.outcome().cloned().map(Box::new));
            return Err(EngineError::NotRunning { run, outcome });
        };
        let inbox = Inbox::new(layout.run(summary.id()).inbox());
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::fenced(&workspace.dir));
        Ok(Self { summary, holder, lock, inbox, disk })
    }

    /// Leaves a message. It survives a power cut once this returned.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn send(&self, message: &Message<Steering>) -> Result<(), EngineError> {
        Ok(self.inbox.send(&*self.disk, message, Reach::Disk)?)
    }

    /// Waits until the engine has taken the message. A message that no engine will take is taken back,
    /// so that it does not surprise the next one.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn wait_until_taken(
        &self,
        message: &Message<Steering>,
        patience: Millis,
    ) -> Result<Waited, EngineError> {
        let look = || -> Result<Option<Waited>, EngineError> {
            let works = self.works();
            if !self.inbox.holds(&*self.disk, message)? {
                return Ok(Some(Waited::Done));
            }
            if works {
                return Ok(None);
            }
            let taken_back = self.inbox.withdraw(&*self.disk, message)?;
            Ok(Some(if taken_back { Waited::EngineGone } else { Waited::Done }))
        };
        wait(patience, look)
    }

    /// Waits until the engine has ended.
    ///
    /// # Errors
    ///
    /// None today: a lock that cannot be looked at counts as free.
    pub fn wait_until_ended(&self, patience: Millis) -> Result<Waited, EngineError> {
        wait(patience, || Ok((!self.works()).then_some(Waited::Done)))
    }

    /// The same engine works still.
    fn works(&self) -> bool {
        WorkDirLock::holder_of(&self.lock).is_some_and(|now| {
            (now.pid, &now.host, now.started) == (self.holder.pid, &self.holder.host, self.holder.started)
        })
    }
}

fn wait(
    patience: Millis,
    look: impl Fn() -> Result<Option<Waited>, EngineError>,
) -> Result<Waited, EngineError> {
    let mut left = Duration::from(patience);
    loop {
        if let Some(waited) = look()? {
            return Ok(waited);
        }
        if left.is_zero() {
            return Ok(Waited::NotYet);
        }
        let pause = left.min(LOOK);
        thread::sleep(pause);
        left -= pause;
    }
}
