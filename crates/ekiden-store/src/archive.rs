//! Files that are written once and kept for good: prompts, handoffs, files that a session left.
//!
//! Archiving is an effect that a crash may interrupt, so it can be repeated. If the same content is already
//! there, it is done; different content is an error. Nothing is ever overwritten.
//!
//! An archived file is durable. A file that already exists may be only in the cache, because the process that
//! wrote it died before its sync, so it is synced again. Usually the file is new, and this costs nothing.

use std::io::Read;
use std::path::Path;

use crate::beneath::Found;
use crate::disk::{Cause, Disk, DiskError, DiskResult, Kind, Operation, Reach, parent};
use crate::error::{FileFault, StoreError};
use crate::replace::{Durability, stage, temporary};

/// The piece size for copying and comparing files.
const PIECE_BYTES: u64 = 64 * 1024;

/// Archives files, each a name and a text, in one directory, and makes the directory if it is missing. Its parent
/// must be durable. One sync for each file, one for the directory, one for its parent.
///
/// After a crash each file is there whole or not at all.
pub fn archive_dir<S: AsRef<str>>(
    disk: &dyn Disk,
    dir: &Path,
    files: &[(S, S)],
) -> Result<(), StoreError> {
    make_dir(disk, dir)?;
    for (name, text) in files {
        let (path, text) = (dir.join(name.as_ref()), text.as_ref());
        match disk.stat(&path)? {
            None => {
                let staged = temporary(&path);
                stage(disk, &staged, text.as_bytes(), Durability::Whole)?;
                disk.rename(&staged, &path)?;
            }
            // It was synced before it got its name.
            Some(found)
                if found.kind == Kind::File && holds(disk, &path, found.len, text.as_bytes())? => {}
            Some(_) => return Err(differs(&path)),
        }
    }
    disk.sync_dir(dir)?;
    Ok(disk.sync_dir(parent(dir))?)
}

/// Different content is archived at this path.
pub fn differs(path: &Path) -> StoreError {
    StoreError::file("overwrite", path, FileFault::Differs)
}

/// Makes a directory and any missing ones above it, durably.
///
/// A process that died here may have left its last directory only in the cache, so the name of the deepest
/// existing directory is synced too. Those above it were durable before it was made.
pub fn ensure_dir(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    let Some(above) = dir.parent() else {
        return Ok(());
    };
    if disk.stat(dir)?.is_none() {
        ensure_dir(disk, above)?;
        make_dir(disk, dir)?;
        return disk.sync_dir(above);
    }
    match disk.sync_dir(above) {
        // We cannot have made anything in a directory that we may not even open.
        Err(error) if error.is_not_permitted() => Ok(()),
        synced => synced,
    }
}

/// Syncs the directories from `top` down to `dir`, both included, so that everything in them is durable, even
/// what an earlier process made and died before syncing. Once at each start.
pub fn settle_dirs(disk: &dyn Disk, top: &Path, dir: &Path) -> DiskResult<()> {
    let mut on_the_way: Vec<_> = dir
        .ancestors()
        .take_while(|dir| dir.starts_with(top))
        .collect();
    on_the_way.reverse();
    on_the_way
        .into_iter()
        .try_for_each(|dir| disk.sync_dir(dir))
}

/// Copies a file of any size whole from `reader`, durably except for its name: the caller syncs the directory.
pub(crate) fn copy_read(
    disk: &dyn Disk,
    reader: &mut dyn Read,
    from: &Path,
    to: &Path,
) -> DiskResult<()> {
    let staged = temporary(to);
    stage(disk, &staged, b"", Durability::Derived)?;
    let mut len = 0;
    loop {
        let piece = read_piece(reader, from)?;
        // The last, empty piece syncs the whole file.
        let reach = match piece.is_empty() {
            true => Reach::Disk,
            false => Reach::Cache,
        };
        disk.append(&staged, len, &piece, reach)?;
        if piece.is_empty() {
            return disk.rename(&staged, to);
        }
        len += piece.len() as u64;
    }
}

/// Copies an open file to a place that may not exist yet, directories included. An existing file stays. Not
/// durable: the caller can copy it again.
pub fn copy(disk: &dyn Disk, mut from: Found, to: &Path) -> DiskResult<()> {
    if disk.stat(to)?.is_some() {
        return Ok(());
    }
    make_dirs(disk, parent(to))?;
    copy_read(disk, &mut from.file, &from.path, to)?;
    disk.copy_mode(&from.path, to)
}

/// Whether there is a file with exactly the content of another.
pub(crate) fn same_content(disk: &dyn Disk, a: &Path, b: &Path) -> DiskResult<bool> {
    let (Some(stat_a), Some(stat_b)) = (disk.stat(a)?, disk.stat(b)?) else {
        return Ok(false);
    };
    if stat_a != stat_b || stat_a.kind != Kind::File {
        return Ok(false);
    }
    let (mut read_a, mut read_b) = (disk.reader(a, 0)?, disk.reader(b, 0)?);
    loop {
        let piece = read_piece(read_a.as_mut(), a)?;
        if piece != read_piece(read_b.as_mut(), b)? {
            return Ok(false);
        }
        if piece.is_empty() {
            return Ok(true);
        }
    }
}

/// Whether a file of this length has exactly these bytes.
pub(crate) fn holds(disk: &dyn Disk, path: &Path, len: u64, bytes: &[u8]) -> DiskResult<bool> {
    Ok(len == bytes.len() as u64 && disk.read(path, len)? == bytes)
}

/// Makes a directory and any missing ones above it, without a sync.
pub(crate) fn make_dirs(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    if disk.stat(dir)?.is_some() {
        return Ok(());
    }
    dir.parent()
        .map_or(Ok(()), |above| make_dirs(disk, above))?;
    make_dir(disk, dir).map(drop)
}

/// Makes one directory unless it exists, and returns whether it did not. A link to a directory does not count
/// as one. The name is durable once the directory above it is synced.
pub fn make_dir(disk: &dyn Disk, dir: &Path) -> DiskResult<bool> {
    let error = match disk.create_dir(dir) {
        Err(error) if error.is_already_there() => error,
        made => return made.map(|()| true),
    };
    match disk.stat(dir)?.map(|found| found.kind) {
        Some(Kind::Dir) => Ok(false),
        Some(Kind::Link) => {
            let cause = Cause::IsLink {
                link: dir.to_owned(),
                target: disk.read_link(dir)?,
            };
            Err(DiskError::new(Operation::CreateDir, dir, cause))
        }
        Some(Kind::File | Kind::Other) | None => Err(error),
    }
}

/// The next piece of a file, or what is left of it.
fn read_piece(reader: &mut dyn Read, path: &Path) -> DiskResult<Vec<u8>> {
    let mut piece = Vec::new();
    let read = reader.take(PIECE_BYTES).read_to_end(&mut piece);
    read.map_err(|error| DiskError::new(Operation::Read, path, error))?;
    Ok(piece)
}
