//! Files that are written once and kept for good: prompts, handoffs, what a session left.
//!
//! An archive is an effect that a crash may interrupt, so it can be repeated: the same content at
//! the same place is done, another content is an error. Nothing is ever overwritten.
//!
//! What counts as done is durable. A file that is found there already may stand in the cache only,
//! left by a process that died before its sync; so the syncs are made up for then. That costs
//! nothing in the usual case, where the file is new.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::disk::{Cause, Disk, DiskError, DiskResult, Kind, Operation, Reach, parent};
use crate::replace::{Durability, stage, temporary};

/// The piece in which files are copied and compared.
const PIECE_BYTES: usize = 64 * 1024;

/// Something cannot be archived.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The disk refuses.
    #[error("archive")]
    Disk(#[from] DiskError),
    /// Something else is archived there.
    #[error("archive `{}`: it holds something else, and archives are never overwritten", path.display())]
    Differs {
        /// Where.
        path: PathBuf,
    },
}

/// A file to archive.
#[derive(Debug, Clone, Copy)]
pub struct NewFile<'a> {
    /// Its name in the directory.
    pub name: &'a str,
    /// Its content.
    pub bytes: &'a [u8],
}

/// A directory to archive files in.
#[derive(Debug, Clone, Copy)]
pub struct NewDir<'a> {
    /// Where.
    pub dir: &'a Path,
    /// What.
    pub files: &'a [NewFile<'a>],
}

/// Archives several files in one directory, which is made if it is missing. Its parent must be
/// durable. One sync for each file, one for the directory, one for its parent.
///
/// After a crash each file is there whole or not at all.
pub fn archive_dir(disk: &dyn Disk, dir: &Path, files: &[NewFile<'_>]) -> Result<(), ArchiveError> {
    archive_dirs(disk, &[NewDir { dir, files }])
}

/// The same with several directories. The parent of each must be durable or come before it.
///
/// All names are synced at the end, each directory once: a file system that commits everything
/// together then does so once.
pub fn archive_dirs(disk: &dyn Disk, dirs: &[NewDir<'_>]) -> Result<(), ArchiveError> {
    for NewDir { dir, files } in dirs {
        let is_new = make_dir(disk, dir)?;
        for file in *files {
            let path = dir.join(file.name);
            // Nobody looks for what cannot be there: this lies between two agents.
            if is_new { put(disk, &path, file.bytes)? } else { place(disk, &path, file.bytes)? }
        }
    }
    let mut to_sync: Vec<&Path> = dirs.iter().flat_map(|new| [new.dir, parent(new.dir)]).collect();
    to_sync.sort_unstable();
    to_sync.dedup();
    Ok(to_sync.into_iter().try_for_each(|dir| disk.sync_dir(dir))?)
}

/// Puts a file in its place where it is found at once, but is durable, and whole after a power cut, only once
/// it is [sealed](seal): for what belongs in the archive before something begins, and counts only when it has
/// begun. The directory is made if it is missing; its parent must be durable.
pub fn place_unsealed(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), ArchiveError> {
    let create = || disk.create_file(path, bytes, Reach::Cache);
    let mut created = create();
    if created.as_ref().is_err_and(DiskError::is_not_found) {
        make_dir(disk, parent(path))?;
        created = create();
    }
    match created {
        Err(error) if error.is_already_there() => match disk.stat(path)? {
            Some(found) if found.kind == Kind::File && holds(disk, path, found.len, bytes)? => Ok(()),
            Some(_) | None => Err(ArchiveError::Differs { path: path.to_owned() }),
        },
        created => Ok(created.inspect_err(|_| {
            // A full disk should not keep half a file; where that fails too the first error counts.
            let _ = disk.remove(path);
        })?),
    }
}

/// Makes a file durable that was placed unsealed, and the directory that may have been made for it. Three
/// syncs.
pub fn seal(disk: &dyn Disk, path: &Path) -> DiskResult<()> {
    let dir = parent(path);
    disk.sync_file(path)?;
    disk.sync_dir(dir)?;
    disk.sync_dir(parent(dir))
}

/// Makes a directory and those above it that are missing, durably.
///
/// A process that died here may have left its last directory in the cache only, so the name of the
/// deepest one that exists is synced too. Those above it were durable before it was made.
pub fn ensure_dir(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    let Some(above) = dir.parent() else { return Ok(()) };
    if disk.stat(dir)?.is_none() {
        ensure_dir(disk, above)?;
        make_dir(disk, dir)?;
        return disk.sync_dir(above);
    }
    match disk.sync_dir(above) {
        // We have made nothing in a directory that we may not even open.
        Err(error) if error.is_not_permitted() => Ok(()),
        synced => synced,
    }
}

/// Syncs the directories from `top` down to `dir`, both included, so that everything in them is
/// durable that an earlier process made and did not live to sync. Once at each start.
pub fn settle_dirs(disk: &dyn Disk, top: &Path, dir: &Path) -> DiskResult<()> {
    let mut on_the_way: Vec<_> = dir.ancestors().take_while(|dir| dir.starts_with(top)).collect();
    on_the_way.reverse();
    on_the_way.into_iter().try_for_each(|dir| disk.sync_dir(dir))
}

/// Copies a file of any size whole, durably but for its name: the caller syncs the directory.
pub(crate) fn copy_whole(disk: &dyn Disk, from: &Path, to: &Path) -> DiskResult<()> {
    let staged = temporary(to);
    stage(disk, &staged, b"", Durability::Derived)?;
    let mut reader = disk.reader(from, 0)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut len = 0;
    loop {
        let count =
            read_piece(reader.as_mut(), &mut piece).map_err(|e| DiskError::new(Operation::Read, from, e))?;
        // The last, empty piece carries the sync of the whole file.
        let reach = if count == 0 { Reach::Disk } else { Reach::Cache };
        disk.append(&staged, len, &piece[..count], reach)?;
        if count == 0 {
            return disk.rename(&staged, to);
        }
        len += count as u64;
    }
}

/// Copies a file to a place that may not exist yet, directories included; one that is there stays. Not
/// durable: whoever made the place makes it again.
///
/// # Errors
///
/// If the disk refuses.
pub fn copy(disk: &dyn Disk, from: &Path, to: &Path) -> DiskResult<()> {
    if disk.stat(to)?.is_some() {
        return Ok(());
    }
    let mut missing = Vec::new();
    let mut dir = parent(to);
    while disk.stat(dir)?.is_none() {
        missing.push(dir);
        dir = parent(dir);
    }
    missing.into_iter().rev().try_for_each(|dir| make_dir(disk, dir).map(|_| ()))?;
    copy_whole(disk, from, to)?;
    disk.copy_mode(from, to)
}

/// Whether there is a file with exactly the content of another.
pub(crate) fn same_content(disk: &dyn Disk, a: &Path, b: &Path) -> DiskResult<bool> {
    let (Some(stat_a), Some(stat_b)) = (disk.stat(a)?, disk.stat(b)?) else { return Ok(false) };
    if stat_a != stat_b || stat_a.kind != Kind::File {
        return Ok(false);
    }
    let (mut read_a, mut read_b) = (disk.reader(a, 0)?, disk.reader(b, 0)?);
    let (mut piece_a, mut piece_b) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    loop {
        let count_a =
            read_piece(read_a.as_mut(), &mut piece_a).map_err(|e| DiskError::new(Operation::Read, a, e))?;
        let count_b =
            read_piece(read_b.as_mut(), &mut piece_b).map_err(|e| DiskError::new(Operation::Read, b, e))?;
        if piece_a[..count_a] != piece_b[..count_b] {
            return Ok(false);
        }
        if count_a == 0 {
            return Ok(true);
        }
    }
}

/// Puts a synced file in place; its name is not synced yet.
fn place(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), ArchiveError> {
    match disk.stat(path)? {
        None => Ok(put(disk, path, bytes)?),
        // It was synced before it got its name.
        Some(found) if found.kind == Kind::File && holds(disk, path, found.len, bytes)? => Ok(()),
        Some(_) => Err(ArchiveError::Differs { path: path.to_owned() }),
    }
}

/// Puts a synced file where there is none.
fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> DiskResult<()> {
    let staged = temporary(path);
    stage(disk, &staged, bytes, Durability::Whole)?;
    disk.rename(&staged, path)
}

/// Whether a file of this length has exactly these bytes.
pub(crate) fn holds(disk: &dyn Disk, path: &Path, len: u64, bytes: &[u8]) -> DiskResult<bool> {
    Ok(len == bytes.len() as u64 && disk.read(path, len)? == bytes)
}

/// Makes one directory unless it exists; whether it did not. A link to a directory is not one. Its name is
/// durable once the directory above it is synced.
pub fn make_dir(disk: &dyn Disk, dir: &Path) -> DiskResult<bool> {
    let error = match disk.create_dir(dir) {
        Err(error) if error.is_already_there() => error,
        made => return made.map(|()| true),
    };
    match disk.stat(dir)?.map(|found| found.kind) {
        Some(Kind::Dir) => Ok(false),
        Some(Kind::Link) => {
            let cause = Cause::IsLink { link: dir.to_owned(), target: disk.read_link(dir)? };
            Err(DiskError::new(Operation::CreateDir, dir, cause))
        }
        Some(Kind::File | Kind::Other) | None => Err(error),
    }
}

/// Fills the piece unless the file ends.
fn read_piece(reader: &mut dyn Read, piece: &mut [u8]) -> std::io::Result<usize> {
    let mut count = 0;
    while count < piece.len() {
        match reader.read(&mut piece[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Fault, SimDisk, every_crash};

    const PROMPT: NewFile<'_> = NewFile { name: "prompt.md", bytes: b"the task, word for word" };
    const PROTOCOL: NewFile<'_> = NewFile { name: "protocol.md", bytes: b"the standing text" };

    fn sessions() -> SimDisk {
        let disk = SimDisk::new();
        disk.plant_dir(Path::new("/s/sessions"));
        disk
    }

    fn archive_session(disk: &SimDisk) -> bool {
        archive_dir(disk, Path::new("/s/sessions/1"), &[PROMPT, PROTOCOL]).is_ok()
    }

    fn assert_whole(disk: &SimDisk, returned: bool) {
        for file in [PROMPT, PROTOCOL] {
            match disk.read(&Path::new("/s/sessions/1").join(file.name), 100) {
                Ok(bytes) => assert_eq!(bytes, file.bytes),
                Err(error) => assert!(error.is_not_found() && !returned, "{error}"),
            }
        }
    }

    // shows: DUR-01, DUR-02
    #[test]
    fn an_archive_is_whole_or_absent_and_can_be_repeated_after_every_crash() {
        let explored = every_crash(
            &sessions(),
            |disk| archive_session(disk),
            |disk, returned, _| {
                assert_whole(disk, *returned);
                assert!(archive_session(disk), "repeated");
                disk.survivors().for_each(|left| assert_whole(&left, true));
            },
        );
        assert!(explored.worlds > 50, "{explored:?}");
    }

    #[test]
    fn a_new_directory_of_two_files_costs_four_syncs() {
        let disk = sessions();
        assert!(archive_session(&disk));
        assert_eq!(disk.syncs(), 4);
    }

    // shows: DUR-01, DUR-02
    #[test]
    fn directories_below_one_another_are_archived_together_whatever_crashes() {
        let (stage, session) = (Path::new("/s/sessions/a"), Path::new("/s/sessions/a/1"));
        let dirs = [NewDir { dir: stage, files: &[PROTOCOL] }, NewDir { dir: session, files: &[PROMPT] }];
        let whole = |disk: &SimDisk| {
            [stage.join(PROTOCOL.name), session.join(PROMPT.name)]
                .iter()
                .zip([PROTOCOL, PROMPT])
                .map(|(path, file)| disk.read(path, 100).map(|bytes| assert_eq!(bytes, file.bytes)))
                .all(|read| read.is_ok())
        };
        let disk = sessions();
        archive_dirs(&disk, &dirs).unwrap();
        assert_eq!(disk.syncs(), 5, "two files, two directories and the one above");
        let explored = every_crash(
            &sessions(),
            |disk| archive_dirs(&**disk, &dirs).is_ok(),
            |disk, returned, at| {
                assert!(whole(disk) || !returned, "{at:?}");
                archive_dirs(disk, &dirs).expect("repeated");
                disk.survivors().for_each(|left| assert!(whole(&left), "{at:?}"));
            },
        );
        assert!(explored.worlds > 100, "{explored:?}");
    }

    // shows: DUR-01, DUR-02
    #[test]
    fn what_is_placed_unsealed_is_found_at_once_and_whole_after_every_crash_once_it_is_sealed() {
        let path = Path::new("/s/sessions/1/prompt.md");
        let disk = sessions();
        place_unsealed(&disk, path, PROMPT.bytes).unwrap();
        assert_eq!((disk.read(path, 100).unwrap(), disk.syncs()), (PROMPT.bytes.to_vec(), 0));
        place_unsealed(&disk, path, PROMPT.bytes).unwrap();
        assert!(matches!(place_unsealed(&disk, path, b"else"), Err(ArchiveError::Differs { .. })));
        seal(&disk, path).unwrap();
        assert_eq!(disk.syncs(), 3);
        every_crash(
            &sessions(),
            |disk| place_unsealed(&**disk, path, PROMPT.bytes).is_ok() && seal(&**disk, path).is_ok(),
            |disk, returned, at| {
                let whole = disk.read(path, 100).is_ok_and(|found| found == PROMPT.bytes);
                assert!(!returned || whole, "{at:?}");
            },
        );
    }

    #[test]
    fn a_full_disk_keeps_no_half_of_what_is_placed_unsealed() {
        let (disk, path) = (sessions(), Path::new("/s/sessions/1/prompt.md"));
        disk.plant_dir(parent(path));
        disk.fail_at(disk.ops(), Fault::DiskFull);
        place_unsealed(&disk, path, PROMPT.bytes).unwrap_err();
        assert_eq!(disk.stat(path).unwrap(), None);
        place_unsealed(&disk, path, PROMPT.bytes).unwrap();
    }

    #[test]
    fn another_content_is_never_overwritten() {
        let disk = sessions();
        let path = Path::new("/s/sessions/progress.md");
        let archive = |bytes| archive_dir(&disk, parent(path), &[NewFile { name: "progress.md", bytes }]);
        archive(b"one").unwrap();
        archive(b"one").unwrap();
        let error = archive(b"two").unwrap_err();
        assert!(matches!(error, ArchiveError::Differs { .. }));
        assert_eq!(disk.read(path, 10).unwrap(), b"one");
    }

    #[test]
    fn large_files_are_copied_and_compared_in_pieces() {
        let disk = sessions();
        let large: Vec<u8> = (0..3 * PIECE_BYTES + 7).map(|at| (at % 251) as u8).collect();
        let (from, to) = (Path::new("/s/from"), Path::new("/s/to"));
        disk.plant_file(from, &large);
        copy_whole(&disk, from, to).unwrap();
        assert_eq!(disk.read(to, 1 << 20).unwrap(), large);
        assert!(same_content(&disk, from, to).unwrap());
        disk.append(to, large.len() as u64, b"x", Reach::Cache).unwrap();
        assert!(!same_content(&disk, from, to).unwrap());
    }

    #[test]
    fn ensured_directories_are_durable() {
        let dir = Path::new("/s/a/b/c");
        every_crash(
            &sessions(),
            |disk| ensure_dir(&**disk, dir).is_ok(),
            |disk, returned, _| {
                assert!(!returned || disk.stat(dir).unwrap().is_some());
            },
        );
    }
}
