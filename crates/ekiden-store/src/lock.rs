//! Locks: who may write, and what still lives.
//!
//! Both kinds are the kernel's file locks. A lock ends with the last process that holds it, however that process
//! ends. So a dead holder never blocks, and no lock is ever stolen, not even on a network file system. Whether
//! the file exists says nothing. It is never removed: otherwise one process could hold a lock on the removed
//! file while the next one creates another file with the same name.
//!
//! A lock belongs to the open file, and child processes that inherit the file share it. Files are opened so that
//! children do not inherit them. The one exception is the file of [`lock_attempt`]: the keeper inherits it, and so
//! holds the attempt's lock after the engine is gone.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use ekiden_core::ids::RunId;
use ekiden_core::time::Timestamp;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::disk::{DiskError, DiskResult, Operation, open_to_read};
use crate::error::StoreError;
use crate::limits::{
    HELD_PATIENCE, HOLDER_PATIENCE, LOCK_PAUSE_MAX, LOCK_PAUSE_MIN, SMALL_FILE_BYTES_MAX,
};

/// The process that holds a work dir, for the message to those that are refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub pid: u32,
    /// The machine it runs on.
    pub host: String,
    pub started: Timestamp,
    /// What it works on, once that is known.
    pub run: Option<RunId>,
}

/// The right to work in one work dir. Released when it is dropped or its process ends.
#[derive(Debug)]
pub struct WorkDirLock {
    file: File,
    path: PathBuf,
    holder: Holder,
}

impl WorkDirLock {
    /// Takes the lock, or says who has it. Waits only a moment: the child of a killed holder has the file open
    /// until it becomes another program.
    ///
    /// The holder is written into the file after it is locked. Only the message depends on it, so it is not synced.
    pub fn take(path: &Path, holder: Holder) -> Result<Self, StoreError> {
        let file = open(path)?;
        if !wait_for(&file, path, HELD_PATIENCE)? {
            let holder = read_holder(&file).map(Box::new);
            return Err(StoreError::Held {
                path: path.to_owned(),
                holder,
            });
        }
        let mut lock = Self {
            file,
            path: path.to_owned(),
            holder,
        };
        lock.write_holder()?;
        Ok(lock)
    }

    /// Who holds the lock, if any process does. Does not take the lock; a missing file counts as free.
    pub fn holder_of(path: &Path) -> Option<Holder> {
        let (file, _) = open_to_read(path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => read_holder(&file),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// Tells others which run the holder works on.
    pub fn name_run(&mut self, run: RunId) -> DiskResult<()> {
        self.holder.run = Some(run);
        self.write_holder()
    }

    /// The lock's file name, which no other holder has.
    pub(crate) fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    fn write_holder(&mut self) -> DiskResult<()> {
        let write = |file: &mut File, holder: &Holder| -> io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&serde_json::to_vec(holder)?)
        };
        write(&mut self.file, &self.holder).map_err(|error| failed(&self.path, error))
    }
}

/// Takes an attempt's lock; after `patience` reports that something of an attempt still lives. The lock is
/// released when every copy of the file is closed: the keeper inherits one.
pub fn lock_attempt(path: &Path, patience: Duration) -> Result<File, StoreError> {
    let file = open(path)?;
    if wait_for(&file, path, patience)? {
        return Ok(file);
    }
    Err(StoreError::Held {
        path: path.to_owned(),
        holder: None,
    })
}

/// Waits until the lock is free and takes it. Returns whether that worked within `patience`.
///
/// It polls in steps of up to 50 ms. The kernel could wake us, but only in a thread that waits without a deadline
/// and cannot be stopped.
pub(crate) fn wait_for(file: &File, path: &Path, patience: Duration) -> DiskResult<bool> {
    let mut waited = Duration::ZERO;
    let mut pause = LOCK_PAUSE_MIN;
    while !try_lock(file, path)? {
        if waited >= patience {
            return Ok(false);
        }
        thread::sleep(pause);
        waited += pause;
        pause = (pause * 2).min(LOCK_PAUSE_MAX);
    }
    Ok(true)
}

fn open(path: &Path) -> DiskResult<File> {
    open_private(path, OFlags::RDWR).map_err(|error| failed(path, error))
}

/// Opens a regular file, 0600, never through a link, not inherited. Makes it if it is missing. Does not block on a pipe.
pub(crate) fn open_private(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

fn try_lock(file: &File, path: &Path) -> DiskResult<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(failed(path, error)),
    }
}

fn failed(path: &Path, error: io::Error) -> DiskError {
    DiskError::new(Operation::Lock, path, error)
}

/// The holder may have the lock but not have written who it is yet.
fn read_holder(file: &File) -> Option<Holder> {
    let mut waited = Duration::ZERO;
    loop {
        let holder = parse_holder(file);
        if holder.is_some() || waited >= HOLDER_PATIENCE {
            return holder;
        }
        thread::sleep(LOCK_PAUSE_MIN);
        waited += LOCK_PAUSE_MIN;
    }
}

fn parse_holder(mut file: &File) -> Option<Holder> {
    let mut bytes = Vec::new();
    file.rewind().ok()?;
    file.take(SMALL_FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(pid: u32) -> Holder {
        Holder {
            pid,
            host: "atlas".to_owned(),
            started: Timestamp(1_780_000_000_000),
            run: None,
        }
    }

    fn is_held<T>(taken: &Result<T, StoreError>) -> bool {
        matches!(taken, Err(StoreError::Held { .. }))
    }

    // shows: RUN-08
    #[test]
    fn the_second_is_refused_and_told_who_is_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let mut first = WorkDirLock::take(&path, holder(4117)).unwrap();
        first.name_run(RunId::from_bits(7)).unwrap();
        let Err(StoreError::Held {
            holder: Some(told), ..
        }) = WorkDirLock::take(&path, holder(2))
        else {
            panic!("not refused, or without a holder");
        };
        assert_eq!(
            *told,
            Holder {
                run: Some(RunId::from_bits(7)),
                ..holder(4117)
            }
        );
    }

    /// As by a child of a killed holder, before it becomes another program.
    // shows: RUN-08
    #[test]
    fn what_is_left_of_a_holder_for_a_moment_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let left = WorkDirLock::take(&path, holder(1)).unwrap();
        thread::scope(|scope| {
            let next = scope.spawn(|| WorkDirLock::take(&path, holder(2)));
            thread::sleep(LOCK_PAUSE_MAX);
            drop(left);
            assert_eq!(next.join().unwrap().unwrap().holder.pid, 2);
        });
    }

    // shows: RUN-08
    #[test]
    fn a_holder_that_is_gone_blocks_nobody_though_its_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        drop(WorkDirLock::take(&path, holder(1)).unwrap());
        assert!(path.exists());
        let second = WorkDirLock::take(&path, holder(2)).unwrap();
        assert_eq!(second.holder.pid, 2);
        std::io::Write::write_all(
            &mut std::fs::File::options().write(true).open(&path).unwrap(),
            b"garbage",
        )
        .unwrap();
        let refused = WorkDirLock::take(&path, holder(3));
        assert!(
            matches!(refused, Err(StoreError::Held { holder: None, .. })),
            "{refused:?}"
        );
    }

    // shows: SEC-02
    #[test]
    fn a_lock_is_private_and_not_taken_through_a_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let _lock = WorkDirLock::take(&path, holder(1)).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &link).unwrap();
        assert!(matches!(
            WorkDirLock::take(&link, holder(1)),
            Err(StoreError::Disk(_))
        ));
        assert!(!dir.path().join("elsewhere").exists());
    }

    // shows: SEC-02
    #[test]
    fn a_pipe_is_no_lock_and_blocks_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        for flags in [OFlags::RDWR, OFlags::WRONLY | OFlags::APPEND] {
            assert!(open_private(&path, flags).is_err());
        }
        assert_eq!(WorkDirLock::holder_of(&path), None);
    }

    #[test]
    fn an_attempt_is_over_when_every_copy_of_its_file_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("attempt.lock");
        let engine = lock_attempt(&path, Duration::ZERO).unwrap();
        let keeper = engine.try_clone().unwrap();
        drop(engine);
        assert!(
            is_held(&lock_attempt(&path, Duration::ZERO)),
            "the keeper still has it"
        );
        assert!(is_held(&lock_attempt(&path, Duration::from_millis(5))));
        let (waiting, free) = std::sync::mpsc::channel();
        let waiter = thread::spawn(move || {
            waiting.send(()).unwrap();
            lock_attempt(&path, Duration::from_secs(60)).map(|_| ())
        });
        free.recv().unwrap();
        drop(keeper);
        waiter.join().unwrap().expect("free at last");
    }
}
