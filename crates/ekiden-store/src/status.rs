//! `status.json`: the state of a run for other programs.
//!
//! The first nine keys, their order and the values of `status` are those of the shell edition of
//! cleave, so that what was written for it goes on working; then come ours. The file is derived
//! from the log, replaced whole, and always parsable (REL-20).

use std::path::{Path, PathBuf};

use ekiden_core::ids::RunId;
use ekiden_core::time::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

use crate::disk::{Disk, DiskError};
use crate::format::{self, FormatError, Header};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::replace::{Durability, replace};

/// How a run stands, in the words of the shell edition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusWord {
    /// A session is active.
    Running,
    /// Between sessions.
    Paused,
    /// The agent says that all is done.
    Complete,
    /// The verification says so too.
    VerifiedComplete,
    /// The handoffs repeat themselves.
    Stuck,
    /// All sessions are used.
    MaxSessions,
    /// It ended otherwise.
    Error,
}

/// The content of `status.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// `ekiden`
    pub tool: String,
    /// The program's version.
    pub version: String,
    /// The session's number; 0 before the first.
    pub session: u32,
    /// The number of the last session that may begin.
    pub max_sessions: u32,
    /// How the run stands.
    pub status: StatusWord,
    /// The same for people.
    pub message: String,
    /// When this was written.
    #[serde(serialize_with = "in_utc", deserialize_with = "from_utc")]
    pub updated_at: Timestamp,
    /// The work dir.
    pub work_dir: PathBuf,
    /// The word that claims completion.
    pub completion_marker: String,
    /// Which run this is.
    pub run: RunId,
}

/// Writes `status.json`: only if what is there is not newer than this program.
#[derive(Debug, Clone)]
pub struct StatusFile {
    path: PathBuf,
}

/// `status.json` cannot be used. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The disk refuses.
    #[error("use `status.json`")]
    Disk(#[from] DiskError),
    /// It is newer, or something else.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It is not what its version promises.
    #[error("read `{}`", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
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
    /// Makes sure that the file may be written. One that is not ours or cannot be read is replaced,
    /// since everything in it is derived; a newer one is an error.
    pub fn open(disk: &dyn Disk, path: PathBuf) -> Result<Self, StatusError> {
        match disk.read(&path, SMALL_FILE_BYTES_MAX) {
            Ok(bytes) => match check(&path, &bytes) {
                Ok(access) => access.to_write(&path)?,
                Err(FormatError::NotOurs { .. }) => {}
                Err(newer) => return Err(newer.into()),
            },
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { path })
    }

    /// Replaces the file. After a power cut the old or the new one is there, whole. One sync.
    pub fn write(&self, disk: &dyn Disk, status: &Status) -> Result<(), StatusError> {
        let format = format::STATUS;
        let written = Written { status, format: format.name, format_version: format.version };
        let mut bytes = serde_json::to_vec_pretty(&written)
            .map_err(|source| StatusError::Json { path: self.path.clone(), source })?;
        bytes.push(b'\n');
        Ok(replace(disk, &self.path, &bytes, Durability::Whole)?)
    }
}

/// Reads `status.json`, also of a newer program if that allows it.
pub fn read_status(disk: &dyn Disk, path: &Path) -> Result<Status, StatusError> {
    let bytes = disk.read(path, SMALL_FILE_BYTES_MAX)?;
    check(path, &bytes)?;
    serde_json::from_slice(&bytes).map_err(|source| StatusError::Json { path: path.to_owned(), source })
}

fn check(path: &Path, bytes: &[u8]) -> Result<format::Access, FormatError> {
    let version: Version = serde_json::from_slice(bytes)
        .map_err(|_| FormatError::NotOurs { path: path.to_owned(), expected: format::STATUS.name })?;
    let Version { format, format_version, readable_from } = version;
    format::STATUS.check(path, &Header { format, version: format_version, readable_from })
}

/// `2026-06-01T10:00:00Z`, as the shell edition writes it.
fn in_utc<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    let seconds = i64::try_from(time.0 / 1000).map_err(serde::ser::Error::custom)?;
    let time = jiff::Timestamp::from_second(seconds).map_err(serde::ser::Error::custom)?;
    serializer.collect_str(&time)
}

fn from_utc<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time: jiff::Timestamp = text.parse().map_err(serde::de::Error::custom)?;
    let millis = u64::try_from(time.as_millisecond()).map_err(serde::de::Error::custom)?;
    Ok(Timestamp(millis))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;

    const PATH: &str = "/p/.ekiden/status.json";

    fn status() -> Status {
        Status {
            tool: "ekiden".to_owned(),
            version: "0.1.0".to_owned(),
            session: 3,
            max_sessions: 10,
            status: StatusWord::VerifiedComplete,
            message: "Verification passed".to_owned(),
            updated_at: Timestamp(1_780_308_000_000),
            work_dir: "/p".into(),
            completion_marker: "ALL_COMPLETE".to_owned(),
            run: RunId::from_bits(0x7f3a_0b1c),
        }
    }

    fn with(content: &[u8]) -> SimDisk {
        let disk = SimDisk::new();
        disk.plant_file(Path::new(PATH), content);
        disk
    }

    // shows: REL-20
    #[test]
    fn the_nine_keys_come_first_and_in_order() {
        let disk = SimDisk::new();
        disk.plant_dir(Path::new("/p/.ekiden"));
        let file = StatusFile::open(&disk, PATH.into()).unwrap();
        file.write(&disk, &status()).unwrap();
        assert_eq!(disk.syncs(), 1);
        let text = String::from_utf8(disk.read(Path::new(PATH), 1000).unwrap()).unwrap();
        expect_test::expect![[r#"
            {
              "tool": "ekiden",
              "version": "0.1.0",
              "session": 3,
              "max_sessions": 10,
              "status": "verified_complete",
              "message": "Verification passed",
              "updated_at": "2026-06-01T10:00:00Z",
              "work_dir": "/p",
              "completion_marker": "ALL_COMPLETE",
              "run": "7f3a0b1c",
              "format": "ekiden-status",
              "format_version": 1
            }
        "#]]
        .assert_eq(&text);
        assert_eq!(read_status(&disk, Path::new(PATH)).unwrap(), status());
    }

    // shows: REL-20
    #[test]
    fn the_words_are_those_of_the_shell_edition() {
        use StatusWord::{Complete, Error, MaxSessions, Paused, Running, Stuck, VerifiedComplete};
        let words = [Running, Paused, Complete, VerifiedComplete, Stuck, MaxSessions, Error];
        expect_test::expect![[
            r#"["running","paused","complete","verified_complete","stuck","max_sessions","error"]"#
        ]]
        .assert_eq(&serde_json::to_string(&words).unwrap());
    }

    // shows: DUR-05
    #[test]
    fn a_newer_file_is_not_written_and_a_foreign_one_is_replaced() {
        let newer = with(br#"{"format":"ekiden-status","format_version":2,"readable_from":1}"#);
        let error = StatusFile::open(&newer, PATH.into()).unwrap_err();
        assert!(matches!(error, StatusError::Format(FormatError::ReadOnly { .. })), "{error}");
        for foreign in [&b""[..], b"\0\0\0", br#"{"tool":"cleave","version":"5"}"#] {
            let disk = with(foreign);
            assert!(read_status(&disk, Path::new(PATH)).is_err());
            let file = StatusFile::open(&disk, PATH.into()).unwrap();
            file.write(&disk, &status()).unwrap();
            assert_eq!(read_status(&disk, Path::new(PATH)).unwrap(), status());
        }
    }
}
