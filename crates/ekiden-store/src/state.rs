//! The state directory: a project's runs, which anyone may read and the holder of the lock may change.
//!
//! [`StateDir`] is for readers: status, log, the next command. [`LockedStateDir`] holds a [`WorkDirLock`], and only
//! it can begin a run or open a log for writing. So a writer's type proves that no other process writes.
//!
//! # Invariants
//!
//! 1. The `format` file is durable before anything else is made. A directory that has runs but no `format` file
//!    is damaged, not new.
//! 2. A run begins with its log. A run's directory without a log and without sessions never began, and is
//!    skipped. One with sessions but no log has lost it, and opening it is an error. One that we may not look
//!    at, such as another user's, counts as begun: reading it says why.
//! 3. Damage to one run never affects another: they share only the directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::ids::RunId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::archive::{ensure_dir, settle_dirs};
use crate::disk::{Disk, DiskError, DiskResult, Kind, if_there};
use crate::error::StoreError;
use crate::format::{self, Access};
use crate::layout::{RunLayout, StateLayout};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::lock::WorkDirLock;
use crate::log::{ChainCheck, LogReader, LogWriter, Numbered, glance, read_log};
use crate::replace::{Durability, replace_by};

/// The runs of a project, read-only.
#[derive(Debug, Clone)]
pub struct StateDir {
    disk: Arc<dyn Disk>,
    layout: StateLayout,
}

/// The runs of a project, which can be changed while the lock is held.
#[derive(Debug)]
pub struct LockedStateDir {
    dir: StateDir,
    lock: WorkDirLock,
    /// Where the links of the logs are copied: a directory in the user's own state directory.
    chains: Option<PathBuf>,
}

impl StateDir {
    /// Opens the state for reading; none if nothing ever ran here.
    pub fn open(disk: Arc<dyn Disk>, layout: StateLayout) -> Result<Option<Self>, StoreError> {
        let readable = read_format(&*disk, &layout)?;
        Ok(readable.map(|_| Self { disk, layout }))
    }

    pub fn layout(&self) -> &StateLayout {
        &self.layout
    }

    /// The ids of all runs, sorted.
    pub fn runs(&self) -> Result<Vec<RunId>, DiskError> {
        let names = if_there(self.disk.list(&self.layout.runs()))?.unwrap_or_default();
        let ids = names
            .iter()
            .filter_map(|name| name.to_str()?.parse::<RunId>().ok());
        let mut runs = Vec::new();
        for id in ids {
            if self.began(&self.layout.run(&id))? {
                runs.push(id);
            }
        }
        Ok(runs)
    }

    /// The run whose id begins with the prefix, if it is the only one.
    pub fn find_run(&self, prefix: &str) -> Result<RunId, StoreError> {
        let mut candidates = self.runs()?;
        candidates.retain(|run| run.as_str().starts_with(prefix));
        match candidates.as_slice() {
            [] => Err(StoreError::UnknownRun {
                prefix: prefix.to_owned(),
            }),
            [run] => Ok(run.clone()),
            [_, _, ..] => Err(StoreError::AmbiguousRun {
                prefix: prefix.to_owned(),
                candidates,
            }),
        }
    }

    /// Reads a run's log, even while it is being written.
    pub fn read_log<R: DeserializeOwned + Numbered>(
        &self,
        run: &RunId,
    ) -> Result<LogReader<R>, StoreError> {
        read_log(&*self.disk, &self.layout.run(run).log())
    }

    /// Lets a reader at the end of its log read on.
    pub fn read_on<R>(&self, log: &mut LogReader<R>) -> Result<(), StoreError> {
        log.go_on(&*self.disk)
    }

    /// The first record of a log as it stands, whatever version wrote it: for a list of runs that cannot
    /// be read otherwise. Nothing depends on it.
    pub fn glance(&self, run: &RunId) -> Option<serde_json::Value> {
        glance(&*self.disk, &self.layout.run(run).log())
    }

    fn began(&self, run: &RunLayout) -> Result<bool, DiskError> {
        let log = self.disk.stat(&run.log());
        if log.as_ref().is_err_and(DiskError::is_not_permitted) || log?.is_some() {
            return Ok(true);
        }
        let sessions = if_there(self.disk.list(&run.relay(None).sessions()))?;
        Ok(sessions.is_some_and(|sessions| !sessions.is_empty()))
    }
}

/// Makes the state directory, durably, so that its lock can be taken. It is still empty.
pub fn create_state_root(disk: &dyn Disk, layout: &StateLayout) -> Result<(), DiskError> {
    ensure_dir(disk, layout.dir())
}

impl LockedStateDir {
    /// Opens the state for changes, and makes what is missing. The directory itself must exist, as
    /// it holds the lock: [`create_state_root`].
    pub fn open(
        disk: Arc<dyn Disk>,
        layout: StateLayout,
        lock: WorkDirLock,
    ) -> Result<Self, StoreError> {
        match read_format(&*disk, &layout)? {
            Some(access) => access.to_write(&layout.format())?,
            None => write_format(&*disk, &layout, &lock)?,
        }
        // A process that died may have left the format in the cache; it must be durable before anything else.
        disk.sync_dir(layout.dir())?;
        ensure_dir(&*disk, &layout.runs())?;
        Ok(Self {
            dir: StateDir { disk, layout },
            lock,
            chains: None,
        })
    }

    /// The same, and copies the links of its logs into this directory.
    pub fn copying_chains(self, chains: Option<PathBuf>) -> Self {
        Self { chains, ..self }
    }

    pub fn view(&self) -> &StateDir {
        &self.dir
    }

    /// The lock, to add the run to its holder.
    pub fn lock_mut(&mut self) -> &mut WorkDirLock {
        &mut self.lock
    }

    /// Begins a run with its first record: makes its directories and its log. All of it is durable when the
    /// call returns; after a crash before that the run never began. An existing run with that id is an error.
    pub fn create_run<R: Serialize + Numbered>(
        &self,
        run: &RunId,
        first: &R,
    ) -> Result<LogWriter<R>, StoreError> {
        let (disk, copy) = (&self.dir.disk, self.chain_of(run));
        let run = self.dir.layout.run(run);
        disk.create_dir(run.dir())?;
        disk.create_dir(&run.relay(None).sessions())?;
        // The log makes it a run, so everything else that a run has is on the disk first.
        disk.sync_dir(run.dir())?;
        let log = LogWriter::create(disk.clone(), &run.log(), copy, first)?;
        disk.sync_dir(&self.dir.layout.runs())?;
        Ok(log)
    }

    /// Compares a run's log with the copied links. Changes nothing.
    pub fn check_chain(&self, run: &RunId) -> DiskResult<ChainCheck> {
        let (log, copy) = (self.dir.layout.run(run).log(), self.chain_of(run));
        ChainCheck::make(&*self.dir.disk, &log, copy.as_deref())
    }

    /// Accepts a run's log as it is: later checks compare with this. Call it before
    /// [`LockedStateDir::open_log`], so that links can be added. If they cannot be written, none are copied.
    pub fn keep_chain(&mut self, run: &RunId, found: &ChainCheck) {
        let log = self.dir.layout.run(run).log();
        let copied = |copy: &PathBuf| found.copy_all(&*self.dir.disk, &log, copy).is_ok();
        if !self.chain_of(run).is_some_and(|copy| copied(&copy)) {
            self.chains = None;
        }
    }

    /// Opens a run's log to continue it, and shows each of its records. They are durable only when the call returns.
    pub fn open_log<R: DeserializeOwned + Numbered>(
        &self,
        run: &RunId,
        show: impl FnMut(R),
    ) -> Result<LogWriter<R>, StoreError> {
        let layout = &self.dir.layout;
        let log = LogWriter::open(self.dir.disk.clone(), &layout.run(run).log(), show)?;
        settle_dirs(&*self.dir.disk, layout.dir(), &layout.runs())?;
        Ok(log.copying_links(self.chain_of(run)))
    }

    fn chain_of(&self, run: &RunId) -> Option<PathBuf> {
        Some(self.chains.as_ref()?.join(run.as_str()))
    }
}

/// What may be done here; `None` if nothing ever ran.
fn read_format(disk: &dyn Disk, layout: &StateLayout) -> Result<Option<Access>, StoreError> {
    let path = layout.format();
    let read = || if_there(disk.read(&path, SMALL_FILE_BYTES_MAX));
    let bytes = match read()? {
        // A run in another worktree may have just begun, and makes the file first.
        None if is_dir(disk, &layout.runs())? => {
            Some(read()?.ok_or_else(|| format::STATE.not_ours(&path))?)
        }
        bytes => bytes,
    };
    let check = |bytes: Vec<u8>| format::STATE.check_line(&path, &bytes);
    bytes.map(check).transpose()
}

/// Two worktrees may begin at the same time, each under its own lock, so each has its own temporary
/// file.
fn write_format(disk: &dyn Disk, layout: &StateLayout, lock: &WorkDirLock) -> DiskResult<()> {
    let path = layout.format();
    let temporary = path.with_file_name(format!(".format.{}.new", lock.name()));
    replace_by(
        disk,
        &temporary,
        &path,
        format::STATE.line().as_bytes(),
        Durability::Full,
    )
}

fn is_dir(disk: &dyn Disk, path: &Path) -> Result<bool, DiskError> {
    Ok(disk
        .stat(path)?
        .is_some_and(|found| found.kind == Kind::Dir))
}
