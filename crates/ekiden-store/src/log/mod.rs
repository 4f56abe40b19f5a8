//! The log of a run: JSON lines that a person can read, and the truth that everything derives from.
//!
//! ```text
//! {"format":"ekiden-log","version":1}
//! {"seq":1,"time":1780000000000,"logic":1,"event":{...},"effects":[...]}
//! {"seq":2,...
//! ```
//!
//! # Invariants
//!
//! 1. A record is on the disk when [`LogWriter::append`] returns. What the record orders may be
//!    done after that, and not before.
//! 2. Records are numbered 1, 2, 3 without a gap.
//! 3. A record, once on the disk, is never changed and never removed.
//! 4. The file appears whole, with its header and its first record: see [`LogWriter::create`].
//! 5. There is one writer, the holder of the work dir's lock. Each append names the length that it
//!    expects, so a second one would be noticed.
//!
//! # The torn tail
//!
//! A crash in the middle of an append leaves a last line that has no newline, or that has its
//! newline and zeros instead of text. From (1) follows that nobody was told of it, so the next
//! writer cuts it off and readers pass over it. Only the last line can be torn, since a line is
//! begun after the one before it was synced. Any other line that cannot be read is damage, and
//! damage is an error with its place, never an empty or shorter log: that is how work disappears.
//! A last line that is sound JSON but no record of ours was written by another version; it is an
//! error too.
//!
//! # A record that was not acknowledged
//!
//! After a failed append the record may be in the file or not, and the writer refuses to go on
//! ([`LogError::Broken`]). The next writer finds out: it syncs what it has read before it lets
//! anybody act on it, since the process before it may have died between its write and its sync.

mod reader;
mod writer;

use std::path::{Path, PathBuf};

use crate::disk::DiskError;
use crate::format::FormatError;
pub(crate) use reader::glance;
pub use reader::{LogReader, Tail, read_log};
pub use writer::{LogWriter, Opened};

/// A record that knows its place.
pub trait Numbered {
    /// Its number in the log: 1, 2, 3.
    fn seq(&self) -> u64;
}

impl Numbered for ekiden_core::record::Record {
    fn seq(&self) -> u64 {
        self.seq
    }
}

/// A log cannot be read or written. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk refuses.
    #[error("use the log `{}`", path.display())]
    Disk {
        /// The log.
        path: PathBuf,
        /// What was tried and why it failed.
        source: DiskError,
    },
    /// It has another format or version.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A line in the middle is damaged, or is no record.
    #[error("read the log `{}`: line {line} is no record", path.display())]
    BadLine {
        /// The log.
        path: PathBuf,
        /// The line, from 1; the header is the first.
        line: u64,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A line is longer than any record can be.
    #[error("use the log `{}`: line {line} is longer than {} MiB", path.display(), crate::limits::LOG_LINE_BYTES_MAX >> 20)]
    LineTooLong {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// A record is missing, or one is there twice.
    #[error("read the log `{}`: line {line} is record {found} where {expected} should be", path.display())]
    OutOfOrder {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The record that should be there.
        expected: u64,
        /// The record that is there.
        found: u64,
    },
    /// A record has no JSON form.
    #[error("write record {seq} as JSON")]
    Encode {
        /// Its number.
        seq: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// An append failed before, so nobody knows what the file holds.
    #[error("go on with the log `{}` after a failed write", path.display())]
    Broken {
        /// The log.
        path: PathBuf,
    },
}

impl LogError {
    fn disk(path: &Path) -> impl FnOnce(DiskError) -> Self + '_ {
        |source| Self::Disk { path: path.to_owned(), source }
    }

    /// The run's log does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Disk { source, .. } if source.is_not_found())
    }

    /// What a person can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Disk { source, .. } if source.is_not_found() => {
                Some("the log was removed; what the sessions left is still beside it, under sessions/")
            }
            Self::Disk { .. } => None,
            Self::Format(error) => Some(error.hint()),
            Self::BadLine { .. } | Self::LineTooLong { .. } | Self::OutOfOrder { .. } => Some(
                "the log was damaged or edited, and nothing was changed; restore the file, or begin anew with `--new`",
            ),
            Self::Encode { .. } => Some("this is a bug in ekiden"),
            Self::Broken { .. } => Some("nothing is lost; free the disk and resume the run"),
        }
    }
}

#[cfg(test)]
mod tests;
