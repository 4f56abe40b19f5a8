//! What waits to be sent to a tracker or a webhook: one file per write.
//!
//! ```text
//! <user's state home>/ekiden/outbox/, or notices/<hash of the address>/
//! ├── waiting/<hash of the key>    a write, until the tracker has it
//! ├── sent/<hash of the key>       the same afterwards: its key stays known
//! ├── tries                        when what is tried again
//! └── sending                      held by the one who sends
//! ```
//!
//! Invariants:
//! - *A file never changes.* It gets its name when its bytes are on the disk, and is renamed once.
//! - *Queued is durable.* When [`Outbox::queue`] returns, a power cut takes nothing. Queuing the same key again
//!   does nothing.
//! - *A power cut may move a sent file back* to `waiting/`, never the other way. So each write must be safe to repeat.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ekiden_core::hash::sha256_hex;
use rustix::fs::OFlags;

use crate::archive::ensure_dir;
use crate::disk::{Disk, DiskError, DiskResult, Operation, if_there};
use crate::limits::{OUTBOX_FILE_BYTES_MAX, SMALL_FILE_BYTES_MAX};
use crate::lock::{open_private, wait_for};
use crate::replace::{Durability, replace, stage, temporary_of_process};

#[derive(Debug, Clone)]
pub struct Outbox {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedWrite {
    pub name: String,
    /// Empty if it is unreadable.
    pub bytes: Vec<u8>,
}

impl Outbox {
    pub fn of(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        let dir = dir.to_owned();
        Self { disk, dir }
    }

    /// Keeps a write until it is sent. Returns whether it is new: the same key is queued once. Durable.
    pub fn queue(&self, key: &str, bytes: &[u8]) -> DiskResult<bool> {
        let (name, waiting) = (name_of(key), self.waiting_dir());
        if self.disk.stat(&self.sent_dir().join(&name))?.is_some() {
            return Ok(false);
        }
        let path = waiting.join(&name);
        let is_new = self.disk.stat(&path)?.is_none();
        if is_new {
            ensure_dir(&*self.disk, &waiting)?;
            let staged = temporary_of_process(&path);
            stage(&*self.disk, &staged, bytes, Durability::Whole)?;
            self.disk.rename(&staged, &path)?;
        }
        // The process that made it may have died before this.
        self.disk.sync_dir(&waiting)?;
        Ok(is_new)
    }

    /// What the trackers do not have yet, in no particular order.
    pub fn waiting(&self) -> DiskResult<Vec<QueuedWrite>> {
        self.all_in(&self.waiting_dir(), true)
    }

    /// What they have, as long as it is kept.
    pub fn sent(&self) -> DiskResult<Vec<QueuedWrite>> {
        // A comment is made from all of them, and would lose what is left out.
        self.all_in(&self.sent_dir(), false)
    }

    /// The tracker has it. Durable, so that a power cut does not make us send it again, though that would be safe.
    pub fn settle(&self, name: &str) -> DiskResult<()> {
        let sent = self.sent_dir();
        ensure_dir(&*self.disk, &sent)?;
        self.disk
            .rename(&self.waiting_dir().join(name), &sent.join(name))?;
        self.disk.sync_dir(&sent)
    }

    /// Forgets a write, sent or not.
    pub fn forget(&self, name: &str) -> DiskResult<()> {
        for dir in [self.waiting_dir(), self.sent_dir()] {
            if_there(self.disk.remove(&dir.join(name)))?;
        }
        Ok(())
    }

    /// The sender's notes on its tries; empty if they are unreadable.
    pub fn tries(&self) -> Vec<u8> {
        let read = self
            .disk
            .read(&self.dir.join("tries"), SMALL_FILE_BYTES_MAX);
        read.unwrap_or_default()
    }

    /// Only the sender writes it. Without it everything is tried at once.
    pub fn note_tries(&self, bytes: &[u8]) -> DiskResult<()> {
        replace(
            &*self.disk,
            &self.dir.join("tries"),
            bytes,
            Durability::Derived,
        )
    }

    /// Takes the right to send, or gives up after `patience`. Closing the file gives it back.
    pub fn lock(&self, patience: Duration) -> DiskResult<Option<File>> {
        ensure_dir(&*self.disk, &self.dir)?;
        let path = self.dir.join("sending");
        let failed = |error: io::Error| DiskError::new(Operation::Lock, &path, error);
        let file = open_private(&path, OFlags::RDWR).map_err(failed)?;
        Ok(wait_for(&file, &path, patience)?.then_some(file))
    }

    fn all_in(&self, dir: &Path, leaves_out: bool) -> DiskResult<Vec<QueuedWrite>> {
        let names = if_there(self.disk.list(dir))?.unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        let mut all = Vec::new();
        // A leading dot marks a file that was never queued.
        for name in names.filter(|name| !name.starts_with('.')) {
            // An entry that is not a file or is far too large does not stop the others from being sent.
            let read = if_there(self.disk.read(&dir.join(name), OUTBOX_FILE_BYTES_MAX));
            let read = match read {
                Err(_) if leaves_out => Some(Vec::new()),
                read => read?,
            };
            if let Some(bytes) = read {
                let name = name.to_owned();
                all.push(QueuedWrite { name, bytes });
            }
        }
        Ok(all)
    }

    fn waiting_dir(&self) -> PathBuf {
        self.dir.join("waiting")
    }

    fn sent_dir(&self) -> PathBuf {
        self.dir.join("sent")
    }
}

pub fn name_of(key: &str) -> String {
    sha256_hex(key.as_bytes())[..32].to_owned()
}
