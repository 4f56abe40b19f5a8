//! Replaces a whole file, so that no reader ever sees half of it.
//!
//! The new content goes into a temporary file beside the target, which is then renamed over it. The levels
//! differ in which syncs happen, and so in what a power cut may leave:
//!
//! | | syncs | process dies | power is cut, even after we returned |
//! |---|---|---|---|
//! | [`Durability::Full`] | file, directory | old or new | new once we returned; before that old or new |
//! | [`Durability::Whole`] | file | old or new | old or new, never a torn one |
//! | [`Durability::Derived`] | none | old or new | old, new, empty or torn |
//!
//! The temporary file has a fixed name (`.status.json.new`), so a crash leaves at most one behind,
//! which the next replacement removes. The price is that each file has one writer at a time: the
//! holder of the lock, or a writer that names its own temporary file (`.settings.json.4711.new`). Of those a crash
//! leaves one each time.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskError, DiskResult, Operation, Reach, parent};

/// How safe a replaced file must be; the table is in the [module's](self) text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The new file is permanent when the call returns. Two syncs.
    Full,
    /// After a power cut the old or the new file is there, whole. One sync. For files that are rewritten often
    /// and that other programs read.
    Whole,
    /// Safe only against the death of the process. No sync. For files that are derived from the log
    /// and rewritten at the next start.
    Derived,
}

/// Replaces `path` with a file of these bytes, 0600, or makes it.
///
/// After an error the old file is still there, unless the error came from the last sync: then it
/// may be the old or the new one. It is never in between.
pub fn replace(
    disk: &dyn Disk,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> DiskResult<()> {
    replace_by(disk, &temporary(path), path, bytes, durability)
}

/// Like [`replace`], with a separate temporary file for this writer. For the few files that two
/// holders of different locks may write at the same time.
pub fn replace_by(
    disk: &dyn Disk,
    temporary: &Path,
    path: &Path,
    bytes: &[u8],
    durability: Durability,
) -> DiskResult<()> {
    stage(disk, temporary, bytes, durability)?;
    put_in_place(disk, temporary, path, durability)
}

/// Replaces a small file through a temporary one that belongs to this process, so that many processes may do it
/// at once. Nothing is synced.
pub fn replace_at_once(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> DiskResult<()> {
    let temporary = temporary_of_process(path);
    replace_by(disk, &temporary, path, bytes, Durability::Derived)
}

/// Replaces a file that is not ours, such as git's exclude file. Follows a link if the owner has put one there,
/// and keeps the file's permissions. Durable.
///
/// Worktrees share such files, so several processes may do this at once. Each has its own temporary file, and
/// the last one counts.
pub fn replace_foreign(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> DiskResult<()> {
    replace_in_project(disk, &disk.resolve(path)?, bytes)
}

/// The same for a file that came with the project: a link there may be a stranger's, so a fenced disk refuses it.
pub fn replace_in_project(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> DiskResult<()> {
    let temporary = temporary_of_process(path);
    stage(disk, &temporary, bytes, Durability::Full)?;
    if let Err(error) = disk.copy_mode(path, &temporary) {
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    put_in_place(disk, &temporary, path, Durability::Full)
}

/// Makes a file, whole or not at all. Durable. An error if something has its name, or another process is about to
/// take it: only one can make the temporary file. One that a kill has left keeps the name taken.
pub fn create_whole(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> DiskResult<()> {
    let temporary = temporary(path);
    disk.create_file(&temporary, bytes, Reach::Disk)?;
    if disk.stat(path).is_ok_and(|found| found.is_some()) {
        let _ = disk.remove(&temporary);
        let cause = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(DiskError::new(Operation::Create, path, cause));
    }
    put_in_place(disk, &temporary, path, Durability::Full)
}

/// The name under which a file's next content is written.
pub fn temporary(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .unwrap_or_default();
    path.with_file_name(format!(".{name}.new"))
}

/// The same if other processes write the same file at the same time.
pub(crate) fn temporary_of_process(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.new", std::process::id()))
}

/// Writes the temporary file, replacing one that a crash has left.
pub(crate) fn stage(
    disk: &dyn Disk,
    temporary: &Path,
    bytes: &[u8],
    durability: Durability,
) -> DiskResult<()> {
    let reach = match durability {
        Durability::Full | Durability::Whole => Reach::Disk,
        Durability::Derived => Reach::Cache,
    };
    let mut written = disk.create_file(temporary, bytes, reach);
    if written.as_ref().is_err_and(DiskError::is_already_there) {
        disk.remove(temporary)?;
        written = disk.create_file(temporary, bytes, reach);
    }
    written.inspect_err(|_| {
        // A full disk should not keep half a file. If this fails too, the first error is returned.
        let _ = disk.remove(temporary);
    })
}

fn put_in_place(
    disk: &dyn Disk,
    temporary: &Path,
    path: &Path,
    durability: Durability,
) -> DiskResult<()> {
    disk.rename(temporary, path).inspect_err(|_| {
        let _ = disk.remove(temporary);
    })?;
    match durability {
        Durability::Full => disk.sync_dir(parent(path)),
        Durability::Whole | Durability::Derived => Ok(()),
    }
}
