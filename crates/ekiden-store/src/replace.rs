//! Putting a whole file in place of another, so that nobody ever sees half of it.
//!
//! The new content goes into a temporary file beside the target and is renamed over it. What
//! differs is what is synced on the way, and so what a power cut may leave:
//!
//! | | syncs | process dies | power is cut, even after we returned |
//! |---|---|---|---|
//! | [`Durability::Full`] | file, directory | old or new | new once we returned; before that old or new |
//! | [`Durability::Whole`] | file | old or new | old or new, never a torn one |
//! | [`Durability::Derived`] | none | old or new | old, new, empty or torn |
//!
//! The temporary file has a fixed name (`.status.json.new`), so a crash leaves at most one behind,
//! which the next replacement removes. The price is that each file has one writer at a time: the
//! holder of the lock, or a writer that names its own temporary file.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskResult, Reach, parent};

/// How sure a replaced file must be; the table is in the [module's](self) text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The new file is there for good when the call returns. Two syncs.
    Full,
    /// After a power cut the old or the new file is there, whole. One sync. For files that are
    /// written again and again and that other programs read.
    Whole,
    /// Only safe against the death of the process. No sync. For files that are derived from the log
    /// and written again at the next start.
    Derived,
}

/// Replaces `path` by a file with these bytes, 0600, or makes it.
///
/// After an error the old file is still there, unless the error came from the last sync: then it
/// may be the old or the new one. It is never in between.
pub fn replace(disk: &dyn Disk, path: &Path, bytes: &[u8], durability: Durability) -> DiskResult<()> {
    replace_by(disk, &temporary(path), path, bytes, durability)
}

/// Like [`replace`], with a temporary file that is this writer's own. For the few files that two
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

/// Replaces a file that belongs to somebody else, such as git's exclude file: through a link where
/// the owner has put one, and with the permissions it had. Durable.
///
/// Worktrees share such files, so several processes may do this at once: each has a temporary file of its
/// own, and the last one counts.
pub fn replace_foreign(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> DiskResult<()> {
    let path = &disk.resolve(path)?;
    let temporary = temporary_of_process(path);
    stage(disk, &temporary, bytes, Durability::Full)?;
    if let Err(error) = disk.copy_mode(path, &temporary) {
        let _ = disk.remove(&temporary);
        return Err(error);
    }
    put_in_place(disk, &temporary, path, Durability::Full)
}

/// The name under which the next content of a file is written.
#[must_use]
pub fn temporary(path: &Path) -> PathBuf {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    path.with_file_name(format!(".{name}.new"))
}

/// The same where other processes write the same file at the same time.
pub(crate) fn temporary_of_process(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.new", std::process::id()))
}

/// Writes the temporary file, in place of one that a crash has left.
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
    if written.as_ref().is_err_and(crate::disk::DiskError::is_already_there) {
        disk.remove(temporary)?;
        written = disk.create_file(temporary, bytes, reach);
    }
    written.inspect_err(|_| {
        // A full disk should not keep half a file; where that fails too the first error counts.
        let _ = disk.remove(temporary);
    })
}

fn put_in_place(disk: &dyn Disk, temporary: &Path, path: &Path, durability: Durability) -> DiskResult<()> {
    disk.rename(temporary, path).inspect_err(|_| {
        let _ = disk.remove(temporary);
    })?;
    match durability {
        Durability::Full => disk.sync_dir(parent(path)),
        Durability::Whole | Durability::Derived => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimDisk, every_crash};

    const FILE: &str = "/p/status.json";
    const OLD: &[u8] = b"old content";
    const NEW: &[u8] = b"the new content";

    fn explore(
        start: &SimDisk,
        durability: Durability,
        check: impl Fn(&SimDisk, bool, Option<Vec<u8>>, bool),
    ) {
        let explored = every_crash(
            start,
            |disk| replace(&**disk, Path::new(FILE), NEW, durability).is_ok(),
            |disk, returned, at| {
                let content = disk.read(Path::new(FILE), 100).ok();
                check(disk, *returned, content, at.survivor.is_some());
            },
        );
        assert!(explored.worlds > 8 && explored.sampled == 0, "{explored:?}");
    }

    fn with_old() -> SimDisk {
        let disk = SimDisk::new();
        disk.plant_file(Path::new(FILE), OLD);
        disk
    }

    // shows: DUR-02
    #[test]
    fn a_full_replacement_is_old_or_new_and_new_once_it_returned() {
        explore(&with_old(), Durability::Full, |_, returned, content, _| {
            let content = content.expect("some file");
            assert!(content == NEW || (content == OLD && !returned), "{content:?}");
        });
    }

    // shows: DUR-02
    #[test]
    fn a_full_creation_is_nothing_or_whole() {
        let empty = SimDisk::new();
        empty.plant_dir(Path::new("/p"));
        explore(&empty, Durability::Full, |_, returned, content, _| match content {
            None => assert!(!returned),
            Some(content) => assert_eq!(content, NEW),
        });
    }

    // shows: REL-20
    #[test]
    fn a_whole_replacement_is_never_torn() {
        explore(&with_old(), Durability::Whole, |_, _, content, _| {
            let content = content.expect("some file");
            assert!(content == NEW || content == OLD, "{content:?}");
        });
    }

    #[test]
    fn a_derived_replacement_is_whole_unless_the_power_is_cut() {
        let torn = std::cell::Cell::new(0);
        explore(&with_old(), Durability::Derived, |_, _, content, power_cut| {
            let content = content.expect("some file");
            if content != NEW && content != OLD {
                assert!(power_cut, "{content:?}");
                torn.set(torn.get() + 1);
            }
        });
        assert!(torn.get() > 0, "the simulated disk must show what the missing sync costs");
    }

    #[test]
    fn what_a_crash_leaves_behind_is_in_nobodys_way() {
        explore(&with_old(), Durability::Full, |disk, _, _, _| {
            replace(disk, Path::new(FILE), b"next", Durability::Full).expect("replaced");
            assert_eq!(disk.read(Path::new(FILE), 100).expect("the file"), b"next");
            assert_eq!(disk.list(Path::new("/p")).expect("the directory"), ["status.json"]);
        });
    }

    // shows: DUR-04
    #[test]
    fn a_full_disk_keeps_the_old_file_and_no_half_one() {
        for op in 0..4 {
            let disk = with_old();
            disk.fail_at(op, crate::sim::Fault::DiskFull);
            replace(&disk, Path::new(FILE), NEW, Durability::Full).unwrap_err();
            assert_eq!(disk.read(Path::new(FILE), 100).unwrap(), OLD);
            assert_eq!(disk.list(Path::new("/p")).unwrap(), ["status.json"], "failed at {op}");
        }
    }

    #[test]
    fn the_syncs_are_as_few_as_promised() {
        for (durability, syncs) in [(Durability::Full, 2), (Durability::Whole, 1), (Durability::Derived, 0)] {
            let disk = with_old();
            replace(&disk, Path::new(FILE), NEW, durability).unwrap();
            assert_eq!(disk.syncs(), syncs);
        }
    }
}
