//! The handoff directory: reading what the agent wrote, and emptying it for the next session.
//!
//! No handoff file is ever lost (RUN-12). A file is removed only when the same bytes are durable in the
//! archive, or in the log. What only the log has, the engine archives once the next session is at work, so that
//! no agent waits for it. Any other handoff file is first copied whole to a directory `left/`, whatever its
//! size and content. Other files are left alone.

use std::path::{Path, PathBuf};

use ekiden_core::handoff::{FileText, HandoffFile, HandoffFiles, NotText};
use ekiden_core::limits::HANDOFF_FILE_BYTES_MAX;

use crate::archive::{copy_read, ensure_dir, holds, same_content};
use crate::disk::{Cause, Disk, DiskError, DiskResult, Kind, Stat, parent};
use crate::layout::SessionLayout;

/// Where the content of a handoff directory is safe, or is to be made safe.
#[derive(Debug, Clone, Copy)]
pub struct Keeping<'a> {
    /// The sessions that may have left it.
    pub sessions: &'a [SessionLayout],
    /// Where a file goes that is not safe anywhere else.
    pub left: &'a Path,
    /// Handoffs whose texts are durable in the log.
    pub recorded: &'a [&'a HandoffFiles],
    /// An earlier attempt at the same session left it. Its knowledge stays: the next one may find nothing new to learn.
    pub is_same_session: bool,
}

/// Reads the three files, at most [`HANDOFF_FILE_BYTES_MAX`] bytes of each. A link, directory or pipe in place of
/// a file counts as no text, and so does a file that cannot be read.
pub fn read_handoff(disk: &dyn Disk, dir: &Path) -> DiskResult<HandoffFiles> {
    let read = |file: HandoffFile| read_text(disk, &dir.join(file.name()));
    Ok(HandoffFiles {
        progress: read(HandoffFile::Progress)?,
        next_prompt: read(HandoffFile::NextPrompt)?,
        knowledge: read(HandoffFile::Knowledge)?,
    })
}

/// Makes an agent's files 0600, like all of our files: they may stay for long (MEM-12). While the agent works,
/// the directory's 0700 protects them. It also protects those that cannot be changed, such as another user's.
pub fn make_private(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    for path in HandoffFile::ALL.map(|file| dir.join(file.name())) {
        let found = disk.stat(&path)?;
        if found.is_some_and(|found| found.kind == Kind::File) {
            let _ = disk.make_private(&path);
        }
    }
    Ok(())
}

/// Empties the handoff directory of a session's files.
///
/// Safe to repeat after a crash: what was already kept is found again. A power cut may restore removed
/// files until the caller has synced the directory; until then nothing in it may count as the next
/// session's.
pub fn take_handoff(disk: &dyn Disk, dir: &Path, keeping: Keeping<'_>) -> DiskResult<()> {
    for file in HandoffFile::ALL {
        let path = dir.join(file.name());
        match disk.stat(&path)? {
            Some(Stat {
                kind: Kind::File,
                len,
            }) if len <= HANDOFF_FILE_BYTES_MAX as u64 => {
                if keeping.is_same_session && file == HandoffFile::Knowledge {
                    continue;
                }
                match take_file(disk, &path, len, file, keeping) {
                    // Nobody can copy an unreadable file.
                    Err(error) if error.is_not_permitted() => move_out(disk, &path, keeping.left)?,
                    done => done?,
                }
            }
            // A link holds no text, and the agent's next handoff must not be written through it.
            Some(Stat {
                kind: Kind::Link, ..
            }) => disk.remove(&path)?,
            // Otherwise the agent could not write its next handoff. A large file is not copied: it may fill the disk.
            Some(Stat {
                kind: Kind::File | Kind::Dir | Kind::Other,
                ..
            }) => move_out(disk, &path, keeping.left)?,
            None => {}
        }
    }
    Ok(())
}

/// Renames what is there, in the same directory. Not synced.
pub(crate) fn move_aside(disk: &dyn Disk, path: &Path) -> DiskResult<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let aside = free(
        disk,
        path.parent().unwrap_or(path),
        &format!("aside-{name}"),
    )?;
    disk.rename(path, &aside)
}

/// Moves what is not a text, under its file's name, to a session's `left/`: the agent could not overwrite it.
pub fn set_aside(
    disk: &dyn Disk,
    dir: &Path,
    files: &HandoffFiles,
    session: &SessionLayout,
) -> DiskResult<()> {
    let mut files = files.not_text();
    files.try_for_each(|(file, what)| {
        let path = dir.join(file.name());
        match what {
            NotText::Link | NotText::Directory | NotText::Special | NotText::Unreadable => {
                move_out(disk, &path, &session.left())
            }
            NotText::Utf16 | NotText::Binary => {
                keep(disk, &path, &session.left()).and_then(|_| disk.remove(&path))
            }
        }
    })
}

/// Moves what is no file, or is too large or may not be read, into a directory `left/`. If `left/` is on another file
/// system, it is only renamed.
pub fn move_out(disk: &dyn Disk, path: &Path, left: &Path) -> DiskResult<()> {
    ensure_dir(disk, left)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let moved = free(disk, left, &name)?;
    match disk.rename(path, &moved) {
        Ok(()) => disk.sync_dir(left),
        Err(_) => move_aside(disk, path),
    }
}

/// The first free path in a directory: the name itself, then with a number.
fn free(disk: &dyn Disk, dir: &Path, name: &str) -> DiskResult<PathBuf> {
    let mut path = dir.join(name);
    for number in 2.. {
        if disk.stat(&path)?.is_none() {
            break;
        }
        path = dir.join(format!("{number}-{name}"));
    }
    Ok(path)
}

fn read_text(disk: &dyn Disk, path: &Path) -> DiskResult<FileText> {
    let Some(found) = disk.stat(path)? else {
        return Ok(FileText::Absent);
    };
    match found.kind {
        Kind::Dir => return Ok(FileText::NotText(NotText::Directory)),
        Kind::Link => return Ok(FileText::NotText(NotText::Link)),
        Kind::Other => return Ok(FileText::NotText(NotText::Special)),
        Kind::File => {}
    }
    match disk.read(path, HANDOFF_FILE_BYTES_MAX as u64) {
        Ok(bytes) => Ok(String::from_utf8(bytes).map_or_else(
            |error| FileText::NotText(NotText::of(error.as_bytes())),
            FileText::Text,
        )),
        Err(error) if error.is_not_found() => Ok(FileText::Absent),
        Err(DiskError {
            cause: Cause::TooLarge { bytes, .. },
            ..
        }) => Ok(FileText::TooLarge { bytes }),
        Err(_) => Ok(FileText::NotText(NotText::Unreadable)),
    }
}

fn take_file(
    disk: &dyn Disk,
    path: &Path,
    len: u64,
    file: HandoffFile,
    keeping: Keeping<'_>,
) -> DiskResult<()> {
    let mut is_safe = is_recorded(disk, path, len, file, keeping.recorded)?;
    for session in keeping.sessions {
        is_safe = is_safe || is_archived(disk, path, &session.handoff(file))?;
    }
    if !is_safe {
        keep(disk, path, keeping.left)?;
    }
    disk.remove(path)
}

/// An attempt at a session left the same content: the first in `progress.md`, a later one in `progress.2.md`.
fn is_archived(disk: &dyn Disk, path: &Path, first: &Path) -> DiskResult<bool> {
    let (dir, name) = (parent(first), first.file_name().unwrap_or_default());
    let names = match disk.list(dir) {
        Err(error) if error.is_not_found() => return Ok(false),
        names => names?,
    };
    let stem = name
        .as_encoded_bytes()
        .strip_suffix(b"md")
        .unwrap_or_default();
    for name in names {
        let is_one = name.as_encoded_bytes().starts_with(stem);
        if is_one && same_content(disk, path, &dir.join(name))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_recorded(
    disk: &dyn Disk,
    path: &Path,
    len: u64,
    file: HandoffFile,
    recorded: &[&HandoffFiles],
) -> DiskResult<bool> {
    for text in recorded.iter().filter_map(|files| files.get(file).text()) {
        if holds(disk, path, len, text.as_bytes())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Copies a file to a directory `left/`, under a free name. Makes the directory and any missing ones above it.
/// The copy is durable when this returns. Keeping the same content again finds the existing copy; a new one is returned.
pub fn keep(disk: &dyn Disk, path: &Path, left: &Path) -> DiskResult<Option<PathBuf>> {
    ensure_dir(disk, left)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut copy = left.join(&*name);
    let mut is_new = false;
    for number in 2.. {
        is_new = disk.stat(&copy)?.is_none();
        if is_new {
            copy_read(disk, &mut *disk.reader(path, 0)?, path, &copy)?;
            break;
        }
        if same_content(disk, path, &copy)? {
            break;
        }
        copy = left.join(format!("{number}-{name}"));
    }
    disk.sync_dir(left)?;
    Ok(is_new.then_some(copy))
}
