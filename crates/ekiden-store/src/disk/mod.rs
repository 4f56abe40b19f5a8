//! What ekiden does with the files of runs, behind one small trait. Locks and the memory have their own calls.
//!
//! [`RealDisk`] is the operating system. `ekiden-sim` is a simulated disk that can crash at any operation.
//! Everything above is written against [`Disk`], so what holds on the simulated disk holds for the code that runs.
//!
//! # Rules
//!
//! * **Paths, not handles.** A log that is deleted under a running engine fails its next append,
//!   where a handle would keep writing into an unlinked file.
//! * **Bytes and their sync in one call** ([`Reach::Disk`]). The kernel reports a failed write-back
//!   to the handle that wrote; a handle opened later for the sync may never get it.
//! * **Appends name the length they expect**, so a second writer is noticed instead of mixing its records in.
//! * **Files are 0600, directories 0700** (SEC-02).
//! * **Nothing is written through a symbolic link beneath the fence**, the project's directory
//!   (SEC-02). A link there may come from a cloned repository or from the agent. The fence is
//!   enforced where the operation happens, component by component, so nobody can slip a link in
//!   between a check and the write.
//! * Only what is named here can happen. There is no operation that changes bytes in place.

mod error;
mod real;

use ekiden_core::time::Timestamp;
use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

pub use error::{Cause, DiskError, DiskResult, Operation};
pub use real::RealDisk;
pub(crate) use real::open_to_read;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Dir,
    Link,
    /// A pipe, socket or device.
    Other,
}

/// What is known about a path without reading it. Links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    pub kind: Kind,
    /// The length of a file, in bytes.
    pub len: u64,
}

/// How far written bytes get before the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Into the system's cache: they survive the death of this process, but not of the machine.
    Cache,
    /// Onto the disk: they survive a power cut. One sync.
    Disk,
}

/// What ekiden does with files.
///
/// Every path is absolute. Every error carries its path. A failed operation may have been partly done: a failed
/// append may leave some of its bytes, a failed creation an empty file. After a failed sync we do not know what
/// is on the disk, and a second sync proves nothing; the caller must give the file up.
pub trait Disk: fmt::Debug + Send + Sync {
    /// What the path is, or `None` if there is nothing. Links are not followed.
    fn stat(&self, path: &Path) -> DiskResult<Option<Stat>>;

    /// When the file was last written to, where the disk knows.
    fn modified(&self, _path: &Path) -> DiskResult<Option<Timestamp>> {
        Ok(None)
    }

    /// The path with all links followed. It must exist.
    fn resolve(&self, path: &Path) -> DiskResult<PathBuf>;

    /// Where a symbolic link leads, as it is written in the link.
    fn read_link(&self, path: &Path) -> DiskResult<PathBuf>;

    /// A whole file. A file larger than `bytes_max` is an error, as is anything but a regular file.
    fn read(&self, path: &Path, bytes_max: u64) -> DiskResult<Vec<u8>>;

    /// A file from the byte `from` on, as a stream. It may or may not see what is appended while it reads.
    fn reader(&self, path: &Path, from: u64) -> DiskResult<Box<dyn Read + Send>>;

    /// The names in a directory, sorted.
    fn list(&self, dir: &Path) -> DiskResult<Vec<OsString>>;

    /// Makes one directory, 0700. Its parent must exist.
    fn create_dir(&self, path: &Path) -> DiskResult<()>;

    /// Makes a new file, 0600, with these bytes. Fails if anything with that name exists.
    fn create_file(&self, path: &Path, bytes: &[u8], reach: Reach) -> DiskResult<()>;

    /// Appends to a file that has exactly `at` bytes now.
    fn append(&self, path: &Path, at: u64, bytes: &[u8], reach: Reach) -> DiskResult<()>;

    /// Cuts a file to its first `len` bytes and syncs it.
    fn truncate(&self, path: &Path, len: u64) -> DiskResult<()>;

    /// Renames a file, replacing any file with the new name. Atomic.
    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()>;

    /// Removes a file or link.
    fn remove(&self, path: &Path) -> DiskResult<()>;

    /// Removes an empty directory; [`DiskError::is_not_empty`] if it is not empty.
    fn remove_dir(&self, path: &Path) -> DiskResult<()>;

    /// Makes the symbolic link `link` to `target`.
    fn create_link(&self, link: &Path, target: &Path) -> DiskResult<()>;

    /// Gives `to` the permissions of `from`.
    fn copy_mode(&self, from: &Path, to: &Path) -> DiskResult<()>;

    /// Gives a file that somebody else wrote the mode 0600. Follows no link.
    fn make_private(&self, path: &Path) -> DiskResult<()>;

    /// Waits until a file's bytes are on the disk. For bytes that another process may have written;
    /// the caller's own bytes use [`Reach::Disk`].
    fn sync_file(&self, path: &Path) -> DiskResult<()>;

    /// Waits until the names in a directory are on the disk: creations, renames, removals.
    fn sync_dir(&self, dir: &Path) -> DiskResult<()>;

    /// How many syncs of files and directories succeeded.
    fn syncs(&self) -> u64;
}

/// What an operation found; none if there is no such file or directory.
pub fn if_there<T>(found: DiskResult<T>) -> DiskResult<Option<T>> {
    match found {
        Err(error) if error.is_not_found() => Ok(None),
        found => found.map(Some),
    }
}

/// The directory that a path is in. Panics on `/`, which is not a file.
pub fn parent(path: &Path) -> &Path {
    path.parent().expect("a file has a parent directory")
}
