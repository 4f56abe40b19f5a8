//! The state directory: the runs of a project, to look at and, under the lock, to change.
//!
//! [`StateDir`] is for every reader: status, log, the next command. [`LockedStateDir`] holds a
//! [`WorkDirLock`], and only it can begin a run or open a log for writing. So whoever writes has
//! proved, by its type, that nobody else does.
//!
//! # Invariants
//!
//! 1. The `format` file is durable before anything else is made. A directory with runs and without
//!    it is damaged, not new.
//! 2. A run begins with its log: a run's directory without a log and without sessions never began,
//!    and is passed over. One without a log but with sessions has lost it, which is an error for
//!    whoever opens it.
//! 3. Damage to one run never touches another: nothing is shared but the directory.

use std::path::Path;
use std::sync::Arc;

use ekiden_core::ids::RunId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::archive::{ensure_dir, settle_dirs};
use crate::disk::{Disk, DiskError, DiskResult, Kind};
use crate::format::{self, Access, FormatError};
use crate::layout::{RunLayout, StateLayout};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::lock::WorkDirLock;
use crate::log::{LogError, LogReader, LogWriter, Numbered, Opened, glance, read_log};
use crate::replace::{Durability, replace_by};

/// The state cannot be used. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The disk refuses.
    #[error("use the state directory")]
    Disk(#[from] DiskError),
    /// It has another format or version, or has lost its version.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A log cannot be used.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl StateError {
    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Disk(error) => error.hint(),
            Self::Format(error) => Some(error.hint()),
            Self::Log(error) => error.hint(),
        }
    }
}

/// No run, or more than one, has an id that begins so. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum FindRunError {
    /// None.
    #[error("find run `{prefix}`: there is no such run here")]
    Unknown {
        /// What was asked for.
        prefix: String,
    },
    /// More than one.
    #[error("tell which run `{prefix}` is: it may be {}", list(candidates))]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// Which it may be.
        candidates: Vec<RunId>,
    },
    /// The runs cannot be listed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The runs of a project, to look at.
#[derive(Debug, Clone)]
pub struct StateDir {
    disk: Arc<dyn Disk>,
    layout: StateLayout,
}

/// The runs of a project, to change: while the lock is held.
#[derive(Debug)]
pub struct LockedStateDir {
    dir: StateDir,
    lock: WorkDirLock,
}

impl StateDir {
    /// Opens the state to look at it, or finds that nothing ever ran here.
    pub fn open(disk: Arc<dyn Disk>, layout: StateLayout) -> Result<Option<Self>, StateError> {
        let readable = read_format(&*disk, &layout)?;
        Ok(readable.map(|_| Self { disk, layout }))
    }

    /// Where the files are.
    #[must_use]
    pub fn layout(&self) -> &StateLayout {
        &self.layout
    }

    /// The ids of all runs, sorted.
    pub fn runs(&self) -> Result<Vec<RunId>, DiskError> {
        let names = match self.disk.list(&self.layout.runs()) {
            Err(error) if error.is_not_found() => Vec::new(),
            names => names?,
        };
        let ids = names.iter().filter_map(|name| name.to_str()?.parse::<RunId>().ok());
        let mut runs = Vec::new();
        for id in ids {
            if self.began(&self.layout.run(&id))? {
                runs.push(id);
            }
        }
        Ok(runs)
    }

    /// The run whose id begins so, if it is the only one.
    pub fn find_run(&self, prefix: &str) -> Result<RunId, FindRunError> {
        let mut candidates = self.runs()?;
        candidates.retain(|run| run.as_str().starts_with(prefix));
        match candidates.as_slice() {
            [] => Err(FindRunError::Unknown { prefix: prefix.to_owned() }),
            [run] => Ok(run.clone()),
            [_, _, ..] => Err(FindRunError::Ambiguous { prefix: prefix.to_owned(), candidates }),
        }
    }

    /// Reads a run's log, also while it is being written.
    pub fn read_log<R: DeserializeOwned + Numbered>(&self, run: &RunId) -> Result<LogReader<R>, LogError> {
        read_log(&*self.disk, &self.layout.run(run).log())
    }

    /// The first record of a log as it stands, whatever version wrote it: for a list of runs that cannot
    /// be read otherwise. Nothing decides by it.
    #[must_use]
    pub fn glance(&self, run: &RunId) -> Option<serde_json::Value> {
        glance(&*self.disk, &self.layout.run(run).log())
    }

    fn began(&self, run: &RunLayout) -> Result<bool, DiskError> {
        if self.disk.stat(&run.log())?.is_some() {
            return Ok(true);
        }
        match self.disk.list(&run.relay(None).sessions()) {
            Ok(sessions) => Ok(!sessions.is_empty()),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Makes the state directory, durably, so that its lock can be taken. Nothing is in it yet.
pub fn create_state_root(disk: &dyn Disk, layout: &StateLayout) -> Result<(), DiskError> {
    ensure_dir(disk, layout.root())
}

impl LockedStateDir {
    /// Opens the state to change it, and makes what is missing. The directory itself must exist, as
    /// it holds the lock: [`create_state_root`].
    pub fn open(disk: Arc<dyn Disk>, layout: StateLayout, lock: WorkDirLock) -> Result<Self, StateError> {
        match read_format(&*disk, &layout)? {
            Some(access) => access.to_write(&layout.format())?,
            None => write_format(&*disk, &layout, &lock)?,
        }
        // A process that died may have left the format in the cache; nothing may be durable before it.
        disk.sync_dir(layout.root())?;
        ensure_dir(&*disk, &layout.runs())?;
        Ok(Self { dir: StateDir { disk, layout }, lock })
    }

    /// The same state, to look at.
    #[must_use]
    pub fn view(&self) -> &StateDir {
        &self.dir
    }

    /// The lock, to tell more about its holder.
    pub fn lock_mut(&mut self) -> &mut WorkDirLock {
        &mut self.lock
    }

    /// Begins a run with its first record: its directories, its inbox and its log. All of it is
    /// durable when the call returns; after a crash before that the run never began. A run of that id
    /// is an error.
    pub fn create_run<R: Serialize + Numbered>(
        &self,
        run: &RunId,
        first: &R,
    ) -> Result<LogWriter<R>, StateError> {
        let disk = &self.dir.disk;
        let run = self.dir.layout.run(run);
        disk.create_dir(run.dir())?;
        disk.create_dir(&run.inbox())?;
        disk.create_dir(&run.relay(None).sessions())?;
        // The log makes it a run, so whatever else a run has is on the disk before.
        disk.sync_dir(run.dir())?;
        let log = LogWriter::create(disk.clone(), &run.log(), first)?;
        disk.sync_dir(&self.dir.layout.runs())?;
        Ok(log)
    }

    /// Opens a run's log to go on with it, showing each record that it holds. Those are durable when
    /// the call returns, and not before.
    pub fn open_log<R: DeserializeOwned + Numbered>(
        &self,
        run: &RunId,
        show: impl FnMut(R),
    ) -> Result<(LogWriter<R>, Opened), StateError> {
        let layout = &self.dir.layout;
        let opened = LogWriter::open(self.dir.disk.clone(), &layout.run(run).log(), show)?;
        settle_dirs(&*self.dir.disk, layout.root(), &layout.runs())?;
        Ok(opened)
    }
}

/// What may be done here, or `None` where nothing ever ran.
fn read_format(disk: &dyn Disk, layout: &StateLayout) -> Result<Option<Access>, StateError> {
    let path = layout.format();
    match disk.read(&path, SMALL_FILE_BYTES_MAX) {
        Ok(bytes) => Ok(Some(format::STATE.check_line(&path, &bytes)?)),
        Err(error) if error.is_not_found() && !is_dir(disk, &layout.runs())? => Ok(None),
        Err(error) if error.is_not_found() => {
            Err(FormatError::NotOurs { path, expected: format::STATE.name }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Two worktrees may begin at the same time, each under its own lock, so each has its own temporary
/// file.
fn write_format(disk: &dyn Disk, layout: &StateLayout, lock: &WorkDirLock) -> DiskResult<()> {
    let path = layout.format();
    let temporary = path.with_file_name(format!(".format.{}.new", lock.name()));
    replace_by(disk, &temporary, &path, format::STATE.line().as_bytes(), Durability::Full)
}

fn is_dir(disk: &dyn Disk, path: &Path) -> Result<bool, DiskError> {
    Ok(disk.stat(path)?.is_some_and(|found| found.kind == Kind::Dir))
}

fn list(runs: &[RunId]) -> String {
    runs.iter().map(RunId::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
