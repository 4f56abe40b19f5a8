//! Why one of ekiden's files cannot be used.

use std::path::{Path, PathBuf};

use ekiden_core::ids::RunId;

use crate::disk::DiskError;
use crate::layout::LOG_FILE;
use crate::limits::LOG_LINE_BYTES_MAX;
use crate::lock::Holder;

/// Something of the store cannot be used. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error("{doing} `{}`", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        source: FileFault,
    },
    #[error("lock `{}`: it is held by another process", path.display())]
    Held {
        path: PathBuf,
        holder: Option<Box<Holder>>,
    },
    #[error("find run `{prefix}`: there is no such run here")]
    UnknownRun { prefix: String },
    #[error(
        "choose between the runs that begin with `{prefix}`: {}",
        list(candidates)
    )]
    AmbiguousRun {
        prefix: String,
        candidates: Vec<RunId>,
    },
}

/// What is wrong with a file. Lines are counted from 1; the header is the first.
#[derive(Debug, thiserror::Error)]
pub enum FileFault {
    #[error("it is not an `{expected}` file")]
    NotOurs { expected: &'static str },
    #[error("it has version {found}, this program knows up to {known}")]
    TooNew { found: u32, known: u32 },
    #[error("it belongs to a newer ekiden")]
    ReadOnly,
    /// A line in the middle of a log is damaged, or is not a record.
    #[error("line {line} is not a record: {why}")]
    BadLine { line: u64, why: String },
    /// A line is longer than any record can be.
    #[error("line {line} is longer than {} MiB", LOG_LINE_BYTES_MAX >> 20)]
    LineTooLong { line: u64 },
    /// A record is missing, or is there twice.
    #[error("line {line} is record {found} where {expected} should be")]
    OutOfOrder {
        line: u64,
        expected: u64,
        found: u64,
    },
    /// An append failed before, so the end of the file is unknown.
    #[error("an earlier write failed")]
    Broken,
    #[error("it holds something else, and archives are never overwritten")]
    Differs,
    #[error("it is damaged")]
    DamagedReceipt(#[source] serde_json::Error),
    #[error("it is damaged")]
    DamagedLoop(#[source] serde_json::Error),
    #[error("it has no JSON form")]
    NoJson(#[source] serde_json::Error),
}

impl StoreError {
    pub(crate) fn file(doing: &'static str, path: &Path, source: FileFault) -> Self {
        let path = path.to_owned();
        Self::File {
            doing,
            path,
            source,
        }
    }

    /// What a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Disk(error) if error.is_not_found() && error.path.ends_with(LOG_FILE) => {
                let sessions = error.path.with_file_name("sessions");
                Some(if sessions.is_dir() {
                    "the log was removed; what the sessions left is still beside it, under sessions/"
                } else {
                    "the log was removed or moved away, with what the sessions left; where it is now, `ekiden resume` continues"
                })
            }
            Self::Disk(error) if error.is_full() && error.path.ends_with(LOG_FILE) => {
                Some("nothing is lost; make room, then `ekiden resume` continues")
            }
            Self::Disk(error) => error.hint(),
            Self::File { source, .. } => source.hint(),
            Self::UnknownRun { .. } => Some("`ekiden status --all` lists the runs here"),
            Self::Held { .. } | Self::AmbiguousRun { .. } => None,
        }
    }
}

impl FileFault {
    fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NotOurs { .. } => "nothing was changed; move the file away if it is not yours",
            Self::TooNew { .. } | Self::ReadOnly => "nothing was changed; use the newer ekiden",
            Self::BadLine { .. } | Self::LineTooLong { .. } | Self::OutOfOrder { .. } => {
                "the log was damaged, edited, or written by another version of ekiden, and nothing was changed; use that version, restore the file, or start again with `--new`"
            }
            Self::Broken => "nothing is lost; free the disk and resume the run",
            Self::DamagedLoop(_) => "fix it or remove it: the next session writes a new one",
            Self::DamagedReceipt(_) => {
                "remove it: `ekiden setup --remove` then still finds the guard, but cannot restore the settings byte for byte"
            }
            Self::Differs => {
                "if the log was shortened or put back from a copy, `ekiden resume` continues with the next attempt"
            }
            Self::NoJson(_) => return None,
        })
    }
}

fn list(runs: &[RunId]) -> String {
    let runs: Vec<&str> = runs.iter().map(RunId::as_str).collect();
    runs.join(", ")
}
