//! The operating system's files.

use ekiden_core::time::Timestamp;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Cause, Disk, DiskError, DiskResult, Kind, Operation, Reach, Stat};

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: Mode = Mode::RWXU;
const DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// The operating system's files.
///
/// Beneath the fence each directory on the way is opened separately, never through a link. The operation then
/// happens relative to the last one. No handle outlives a call.
///
/// The standard library's `sync_data` and `sync_all` reach the disk's own cache on macOS too
/// (`F_FULLFSYNC`).
#[derive(Debug, Default)]
pub struct RealDisk {
    fences: Vec<PathBuf>,
    syncs: AtomicU64,
}

impl RealDisk {
    /// Files anywhere; links are followed as usual. For state that has no project around it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Files anywhere, but nothing is written through a symbolic link beneath `project`. The path
    /// should be resolved: links above and in it are followed.
    pub fn fenced(project: &Path) -> Self {
        Self {
            fences: vec![project.to_owned()],
            syncs: AtomicU64::new(0),
        }
    }

    /// The same beneath one more directory.
    pub fn and_fenced(mut self, dir: &Path) -> Self {
        self.fences.push(dir.to_owned());
        self
    }

    fn within_fence<'p>(&self, path: &'p Path) -> Option<(&Path, &'p Path)> {
        self.fences
            .iter()
            .find_map(|fence| Some((fence.as_path(), path.strip_prefix(fence).ok()?)))
    }

    /// Opens a directory without following a link beneath the fence.
    fn open_dir(&self, dir: &Path) -> Result<OwnedFd, Cause> {
        let Some((fence, rest)) = self.within_fence(dir) else {
            return Ok(open(dir, DIR)?);
        };
        let mut handle = open(fence, DIR)?;
        let mut at = fence.to_owned();
        for component in rest.components() {
            let Component::Normal(name) = component else {
                return Err(Cause::NotPlain);
            };
            at.push(name);
            handle = rustix::fs::openat(&handle, name, DIR | OFlags::NOFOLLOW, Mode::empty())
                .map_err(|errno| link_or(errno, &at))?;
        }
        Ok(handle)
    }

    /// Opens the directory that holds `path`, and returns the name in it.
    fn open_parent<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), Cause> {
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(Cause::NotPlain);
        };
        Ok((self.open_dir(dir)?, name))
    }

    /// Opens or makes a file to change it, not through a link.
    fn open_entry(&self, path: &Path, flags: OFlags, mode: Mode) -> Result<File, Cause> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = if self.within_fence(path).is_some() {
            let (dir, name) = self.open_parent(path)?;
            rustix::fs::openat(&dir, name, flags, mode)
        } else {
            rustix::fs::open(path, flags, mode)
        };
        Ok(opened.map_err(|errno| link_or(errno, path))?.into())
    }

    /// Opens an existing regular file to change it, and returns its length.
    fn open_file(&self, path: &Path, flags: OFlags) -> Result<(File, u64), Cause> {
        regular(self.open_entry(path, flags, Mode::empty())?)
    }

    fn write(&self, mut file: &File, bytes: &[u8], reach: Reach) -> Result<(), Cause> {
        file.write_all(bytes)?;
        if reach == Reach::Disk {
            self.count_sync(file.sync_data())?;
        }
        Ok(())
    }

    fn count_sync(&self, synced: io::Result<()>) -> Result<(), Cause> {
        synced?;
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// A replaced link is not followed, but it is not ours either: a clear error is better than
    /// removing it silently.
    fn refuse_link(&self, path: &Path) -> Result<(), Cause> {
        if self.within_fence(path).is_some() && is_link(path) {
            return Err(is_link_cause(path));
        }
        Ok(())
    }
}

impl Disk for RealDisk {
    fn stat(&self, path: &Path) -> DiskResult<Option<Stat>> {
        match fs::symlink_metadata(path) {
            Ok(found) => Ok(Some(Stat {
                kind: kind(found.file_type()),
                len: found.len(),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(DiskError::new(Operation::Look, path, error)),
        }
    }

    fn modified(&self, path: &Path) -> DiskResult<Option<Timestamp>> {
        let modified = perform(
            Operation::Look,
            path,
            || Ok(fs::metadata(path)?.modified()?),
        )?;
        Ok(Timestamp::of_system(modified))
    }

    fn resolve(&self, path: &Path) -> DiskResult<PathBuf> {
        perform(Operation::Look, path, || Ok(fs::canonicalize(path)?))
    }

    fn read_link(&self, path: &Path) -> DiskResult<PathBuf> {
        perform(Operation::Look, path, || Ok(fs::read_link(path)?))
    }

    fn read(&self, path: &Path, bytes_max: u64) -> DiskResult<Vec<u8>> {
        perform(Operation::Read, path, || read_whole(path, bytes_max))
    }

    fn reader(&self, path: &Path, from: u64) -> DiskResult<Box<dyn Read + Send>> {
        perform(Operation::Read, path, || {
            let (mut file, _) = open_to_read(path)?;
            file.seek(SeekFrom::Start(from))?;
            Ok(Box::new(file) as Box<dyn Read + Send>)
        })
    }

    fn list(&self, dir: &Path) -> DiskResult<Vec<OsString>> {
        perform(Operation::List, dir, || {
            let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
            let mut names = names.collect::<io::Result<Vec<OsString>>>()?;
            names.sort();
            Ok(names)
        })
    }

    fn create_dir(&self, path: &Path) -> DiskResult<()> {
        perform(Operation::CreateDir, path, || {
            let (dir, name) = self.open_parent(path)?;
            Ok(rustix::fs::mkdirat(&dir, name, DIR_MODE)?)
        })
    }

    fn create_file(&self, path: &Path, bytes: &[u8], reach: Reach) -> DiskResult<()> {
        perform(Operation::Create, path, || {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let file = self.open_entry(path, flags, FILE_MODE)?;
            self.write(&file, bytes, reach).inspect_err(|_| {
                let _ = self.remove(path);
            })
        })
    }

    fn append(&self, path: &Path, at: u64, bytes: &[u8], reach: Reach) -> DiskResult<()> {
        perform(Operation::Append, path, || {
            let (file, found) = self.open_file(path, OFlags::WRONLY | OFlags::APPEND)?;
            if found != at {
                return Err(Cause::Moved {
                    expected: at,
                    found,
                });
            }
            self.write(&file, bytes, reach)
        })
    }

    fn truncate(&self, path: &Path, len: u64) -> DiskResult<()> {
        perform(Operation::Truncate, path, || {
            let (file, _) = self.open_file(path, OFlags::WRONLY)?;
            file.set_len(len)?;
            self.count_sync(file.sync_all())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        perform(Operation::Rename, to, || {
            self.refuse_link(to)?;
            let (from_dir, from_name) = self.open_parent(from)?;
            let to_name = to.file_name().ok_or(Cause::NotPlain)?;
            let other_dir = if from.parent() == to.parent() {
                None
            } else {
                Some(self.open_parent(to)?.0)
            };
            let to_dir = other_dir.as_ref().unwrap_or(&from_dir);
            Ok(rustix::fs::renameat(&from_dir, from_name, to_dir, to_name)?)
        })
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        perform(Operation::Remove, path, || {
            let (dir, name) = self.open_parent(path)?;
            Ok(rustix::fs::unlinkat(&dir, name, AtFlags::empty())?)
        })
    }

    fn remove_dir(&self, path: &Path) -> DiskResult<()> {
        perform(Operation::Remove, path, || {
            let (dir, name) = self.open_parent(path)?;
            Ok(rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)?)
        })
    }

    fn create_link(&self, link: &Path, target: &Path) -> DiskResult<()> {
        perform(Operation::Link, link, || {
            let (dir, name) = self.open_parent(link)?;
            Ok(rustix::fs::symlinkat(target, &dir, name)?)
        })
    }

    fn copy_mode(&self, from: &Path, to: &Path) -> DiskResult<()> {
        perform(Operation::CopyMode, to, || {
            let permissions = fs::metadata(from)?.permissions();
            let (file, _) = self.open_file(to, OFlags::RDONLY)?;
            Ok(file.set_permissions(permissions)?)
        })
    }

    fn make_private(&self, path: &Path) -> DiskResult<()> {
        perform(Operation::CopyMode, path, || {
            let (file, _) = self.open_file(path, OFlags::RDONLY)?;
            Ok(rustix::fs::fchmod(&file, FILE_MODE)?)
        })
    }

    fn sync_file(&self, path: &Path) -> DiskResult<()> {
        perform(Operation::Sync, path, || {
            let (file, _) = self.open_file(path, OFlags::RDONLY)?;
            self.count_sync(file.sync_all())
        })
    }

    fn sync_dir(&self, dir: &Path) -> DiskResult<()> {
        perform(Operation::Sync, dir, || {
            let handle = File::from(self.open_dir(dir)?);
            self.count_sync(handle.sync_all().or_else(accept_no_dir_sync))
        })
    }

    fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

fn perform<T>(
    operation: Operation,
    path: &Path,
    run: impl FnOnce() -> Result<T, Cause>,
) -> DiskResult<T> {
    run().map_err(|cause| DiskError::new(operation, path, cause))
}

impl From<Errno> for Cause {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// A pipe must not block us, so the open does not block until we know that it is a file.
pub(crate) fn open_to_read(path: &Path) -> Result<(File, u64), Cause> {
    let handle = open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC)?;
    regular(File::from(handle))
}

/// The file and its length, if it is a regular file.
fn regular(file: File) -> Result<(File, u64), Cause> {
    let found = file.metadata()?;
    if found.is_file() {
        Ok((file, found.len()))
    } else {
        Err(Cause::NotAFile)
    }
}

fn read_whole(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Cause> {
    let (file, bytes) = open_to_read(path)?;
    if bytes > bytes_max {
        return Err(Cause::TooLarge { bytes, bytes_max });
    }
    let mut content = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut content)?;
    let read = content.len() as u64;
    if read > bytes_max {
        Err(Cause::TooLarge {
            bytes: read,
            bytes_max,
        })
    } else {
        Ok(content)
    }
}

/// Opening without following links failed: because of a link, or for another reason?
fn link_or(errno: Errno, path: &Path) -> Cause {
    if errno != Errno::EXIST && is_link(path) {
        is_link_cause(path)
    } else {
        Cause::Io(errno.into())
    }
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

fn is_link_cause(link: &Path) -> Cause {
    Cause::IsLink {
        link: link.to_owned(),
        target: fs::read_link(link).unwrap_or_default(),
    }
}

fn kind(found: fs::FileType) -> Kind {
    match found {
        found if found.is_file() => Kind::File,
        found if found.is_dir() => Kind::Dir,
        found if found.is_symlink() => Kind::Link,
        _ => Kind::Other,
    }
}

/// Some file systems cannot sync directories. There the names are safe through the file system's journal or not
/// at all, and no program can do anything about it.
fn accept_no_dir_sync(error: io::Error) -> io::Result<()> {
    let has_none = matches!(
        error.kind(),
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    );
    if has_none { Ok(()) } else { Err(error) }
}
