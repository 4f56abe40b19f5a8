//! `status.json`: the state of a run for other programs.
//!
//! The first nine keys, their order and the values of `status` are those of cleave's shell edition, so programs
//! written for it still work; our own keys follow. The file is derived from the log, replaced whole, and always
//! parsable (REL-20).

use std::path::PathBuf;

use ekiden_core::ids::RunId;
use ekiden_core::time::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::disk::Disk;
use crate::error::{FileFault, StoreError};
use crate::format::{self, Header};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::replace::{Durability, replace};

/// The state of a run, in the words of the shell edition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusWord {
    Running,
    Paused,
    /// The agent says that all is done.
    Complete,
    /// The verification says so too.
    VerifiedComplete,
    Stuck,
    MaxSessions,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Status {
    pub tool: String,
    pub version: String,
    /// The session's number; before there is any, that of the first, or 0 while a plan has begun no stage.
    pub session: u32,
    /// The number of the last session that may begin.
    pub max_sessions: u32,
    pub status: StatusWord,
    pub message: String,
    #[serde(serialize_with = "in_utc")]
    pub updated_at: Timestamp,
    pub work_dir: PathBuf,
    /// The word with which the agent claims completion.
    pub completion_marker: String,
    pub run: RunId,
}

/// Writes `status.json`, unless the file there is newer than this program.
#[derive(Debug, Clone)]
pub struct StatusFile {
    path: PathBuf,
}

/// The file: the status and, last, the version of its own format.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    status: &'a Status,
    format: &'static str,
    format_version: u32,
}

/// The version in a file. `version` is the program's, as in the shell edition.
#[derive(Deserialize)]
struct Version {
    format: String,
    format_version: u32,
    readable_from: Option<u32>,
}

impl StatusFile {
    /// Checks that the file may be written. A file that is not ours or is unreadable is replaced, since
    /// everything in it is derived; a newer one is an error.
    pub fn open(disk: &dyn Disk, path: PathBuf) -> Result<Self, StoreError> {
        let found = disk.read(&path, SMALL_FILE_BYTES_MAX).ok();
        let version = found.and_then(|bytes| serde_json::from_slice::<Version>(&bytes).ok());
        if let Some(version) = version.filter(|version| version.format == format::STATUS.name) {
            let header = Header {
                format: version.format,
                version: version.format_version,
                readable_from: version.readable_from,
            };
            format::STATUS.check(&path, &header)?.to_write(&path)?;
        }
        Ok(Self { path })
    }

    /// Replaces the file. After a power cut the old or the new one is there, whole. One sync.
    pub fn write(&self, disk: &dyn Disk, status: &Status) -> Result<(), StoreError> {
        let format = format::STATUS;
        let written = Written {
            status,
            format: format.name,
            format_version: format.version,
        };
        // The work dir's path may not be UTF-8.
        let bytes = serde_json::to_vec_pretty(&written).map_err(FileFault::NoJson);
        let mut bytes = bytes.map_err(|fault| StoreError::file("write", &self.path, fault))?;
        bytes.push(b'\n');
        Ok(replace(disk, &self.path, &bytes, Durability::Whole)?)
    }
}

/// `2026-06-01T10:00:00Z`, as the shell edition writes it.
fn in_utc<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time.rfc3339())
}
