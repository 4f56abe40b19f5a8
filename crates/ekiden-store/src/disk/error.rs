//! What can go wrong with a file, always with its path.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The result of an operation on files.
pub type DiskResult<T> = Result<T, DiskError>;

/// An operation on a file failed. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
#[error("{operation} `{}`", path.display())]
pub struct DiskError {
    /// What was tried.
    pub operation: Operation,
    /// On which path.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub cause: Cause,
}

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Looking whether it exists, what it is and how long.
    Look,
    /// Reading a file.
    Read,
    /// Reading a directory.
    List,
    /// Making a directory.
    CreateDir,
    /// Making a file.
    Create,
    /// Adding to a file.
    Append,
    /// Cutting the end of a file.
    Truncate,
    /// Giving a file a new name.
    Rename,
    /// Removing a file.
    Remove,
    /// Making a symbolic link.
    Link,
    /// Giving a file the permissions of another.
    CopyMode,
    /// Waiting until it is on the disk.
    Sync,
    /// Taking a lock.
    Lock,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Look => "look at",
            Self::Read => "read",
            Self::List => "list",
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

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The operating system says so.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A symbolic link stands where ekiden would write.
    #[error("`{}` is a symbolic link to `{}`, and ekiden does not write through links", link.display(), target.display())]
    IsLink {
        /// The link.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// A path beneath the fence has parts such as `..`.
    #[error("the path is not plain")]
    NotPlain,
    /// The file is larger than it may be.
    #[error("it has {bytes} bytes; at most {bytes_max} may be")]
    TooLarge {
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        bytes_max: u64,
    },
    /// A directory, pipe or device stands where a file should be.
    #[error("it is not a regular file")]
    NotAFile,
    /// The file has not the length that its only writer left.
    #[error("it has {found} bytes instead of {expected}: something else wrote to it")]
    Moved {
        /// The length that its writer left.
        expected: u64,
        /// The length now.
        found: u64,
    },
    /// The simulated machine has crashed.
    #[error("the simulated machine has crashed")]
    Crashed,
}

impl DiskError {
    /// An error of this operation on this path.
    pub fn new(operation: Operation, path: &Path, cause: impl Into<Cause>) -> Self {
        Self { operation, path: path.to_owned(), cause: cause.into() }
    }

    /// There is no such file or directory.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.has_kind(io::ErrorKind::NotFound)
    }

    /// Something of that name exists already.
    #[must_use]
    pub fn is_already_there(&self) -> bool {
        self.has_kind(io::ErrorKind::AlreadyExists)
    }

    /// The directory has something in it.
    #[must_use]
    pub fn is_not_empty(&self) -> bool {
        self.has_kind(io::ErrorKind::DirectoryNotEmpty)
    }

    /// The user may not do this.
    #[must_use]
    pub fn is_not_permitted(&self) -> bool {
        self.has_kind(io::ErrorKind::PermissionDenied)
    }

    /// The simulated machine has crashed: only a test sees this.
    #[must_use]
    pub fn is_crash(&self) -> bool {
        matches!(self.cause, Cause::Crashed)
    }

    /// What a person can do about it, where the error itself does not say it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        matches!(self.cause, Cause::IsLink { .. })
            .then_some("nothing was written; remove the link, or put what it leads to in its place")
    }

    fn has_kind(&self, kind: io::ErrorKind) -> bool {
        matches!(&self.cause, Cause::Io(error) if error.kind() == kind)
    }
}
