//! What can go wrong with a file. Every error has its path.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The result of an operation on files.
pub type DiskResult<T> = Result<T, DiskError>;

/// An operation on a file failed. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
#[error("{operation} `{}`", path.display())]
pub struct DiskError {
    pub operation: Operation,
    pub path: PathBuf,
    #[source]
    pub cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Checking whether it exists, what it is and how long.
    Look,
    Read,
    List,
    Open,
    CreateDir,
    Create,
    Append,
    /// Cutting the end of a file.
    Truncate,
    /// Giving a file a new name.
    Rename,
    Remove,
    Link,
    /// Giving a file the permissions of another.
    CopyMode,
    /// Waiting until it is on the disk.
    Sync,
    Lock,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Look => "look at",
            Self::Read => "read",
            Self::List => "list",
            Self::Open => "open",
            Self::CreateDir => "create directory",
            Self::Create => "create",
            Self::Append => "append to",
            Self::Truncate => "cut the end of",
            Self::Rename => "rename to",
            Self::Remove => "remove",
            Self::Link => "create the link",
            Self::CopyMode => "set the permissions of",
            Self::Sync => "sync",
            Self::Lock => "lock",
        })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The operating system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A symbolic link is where ekiden would write.
    #[error("`{}` is a symbolic link to `{}`, and ekiden does not write through links", link.display(), target.display())]
    IsLink { link: PathBuf, target: PathBuf },
    /// A path beneath the fence has parts such as `..`.
    #[error("the path is not plain")]
    NotPlain,
    /// The file is larger than it may be.
    #[error("it has {bytes} bytes; at most {bytes_max} may be")]
    TooLarge {
        bytes: u64,
        /// How large it may be.
        bytes_max: u64,
    },
    /// A directory, pipe or device is in the place of a file.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file does not have the length that its only writer left.
    #[error("it has {found} bytes instead of {expected}: something else wrote to it")]
    Moved {
        /// The length that its writer left.
        expected: u64,
        found: u64,
    },
}

impl DiskError {
    pub fn new(operation: Operation, path: &Path, cause: impl Into<Cause>) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            cause: cause.into(),
        }
    }

    /// There is no such file or directory.
    pub fn is_not_found(&self) -> bool {
        self.has_kind(io::ErrorKind::NotFound)
    }

    /// The same, and also if something above it is not a directory.
    pub fn is_absent(&self) -> bool {
        self.is_not_found() || self.has_kind(io::ErrorKind::NotADirectory)
    }

    pub fn is_already_there(&self) -> bool {
        self.has_kind(io::ErrorKind::AlreadyExists)
    }

    pub fn is_not_empty(&self) -> bool {
        self.has_kind(io::ErrorKind::DirectoryNotEmpty)
    }

    pub fn is_not_permitted(&self) -> bool {
        self.has_kind(io::ErrorKind::PermissionDenied)
    }

    /// The disk, or the user's share of it, is full.
    pub fn is_full(&self) -> bool {
        self.has_kind(io::ErrorKind::StorageFull) || self.has_kind(io::ErrorKind::QuotaExceeded)
    }

    /// Nothing can be written there until a person has made room or given the permission.
    pub fn needs_person(&self) -> bool {
        let is_read_only = self.has_kind(io::ErrorKind::ReadOnlyFilesystem);
        self.is_full() || self.is_not_permitted() || is_read_only
    }

    /// What a person can do about it, if the error itself does not say.
    pub fn hint(&self) -> Option<&'static str> {
        let is_blocked = self.has_kind(io::ErrorKind::NotADirectory)
            || (self.operation == Operation::CreateDir && self.is_already_there());
        if is_blocked {
            return Some("a file is where a directory has to be; move it away");
        }
        if self.is_not_permitted() {
            return Some(match self.operation {
                // There is nothing of that name yet, or the directory decides.
                Operation::CreateDir
                | Operation::Create
                | Operation::Rename
                | Operation::Remove
                | Operation::Link => {
                    "its directory may be another user's; `ls -ld` with the directory's path shows whose it is"
                }
                Operation::Look
                | Operation::Read
                | Operation::List
                | Operation::Open
                | Operation::Append
                | Operation::Truncate
                | Operation::CopyMode
                | Operation::Sync
                | Operation::Lock => {
                    "it may be another user's; `ls -ld` with its path shows whose it is"
                }
            });
        }
        let is_loop = |error: &io::Error| error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        if matches!(&self.cause, Cause::NotAFile)
            || matches!(&self.cause, Cause::Io(error) if is_loop(error))
            || self.has_kind(io::ErrorKind::IsADirectory)
        {
            return Some("something else is where a file has to be; move it away");
        }
        matches!(self.cause, Cause::IsLink { .. })
            .then_some("nothing was written; remove the link, or put what it leads to in its place")
    }

    fn has_kind(&self, kind: io::ErrorKind) -> bool {
        matches!(&self.cause, Cause::Io(error) if error.kind() == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: DUR-04
    #[test]
    fn where_nothing_can_be_made_the_hint_is_about_the_directory() {
        let hint = |operation| {
            let cause = Cause::Io(io::ErrorKind::PermissionDenied.into());
            let path = PathBuf::from("/a/b");
            let error = DiskError {
                operation,
                path,
                cause,
            };
            error.hint().unwrap_or_default()
        };
        assert!(hint(Operation::CreateDir).contains("the directory's path"));
        assert!(hint(Operation::Read).contains("with its path"));
    }

    // shows: DUR-04
    #[test]
    fn what_is_no_file_has_to_go() {
        for cause in [
            Cause::NotAFile,
            io::Error::from(Errno::LOOP).into(),
            io::Error::from(Errno::ISDIR).into(),
        ] {
            let error = DiskError::new(Operation::Lock, Path::new("/a"), cause);
            assert!(error.hint().unwrap().contains("move it away"), "{error:?}");
        }
    }
}
