//! The files of watched sessions.
//!
//! ```text
//! <state directory>/guard/
//! ├── <session>.jsonl     what happened: one record a line, appended
//! ├── <session>.lock      held while a decision is made and recorded
//! ├── <session>.figure    the last figures of the client's status line
//! └── <session>.writing   held while a checkpoint is written
//! ```
//!
//! These sessions have no engine: many short processes read and write here, hundreds in a minute, each
//! with milliseconds to spend. So nothing is synced: a power cut may take the last records, and then a
//! level is told once more. Records are appended whole in one call, so that two writers never mix.
//!
//! A line that cannot be read is passed over: it may be torn, or a newer version's. The log of a
//! session that a person started must never be the reason why that session fails.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use ekiden_core::guard::watch::WatchRecord;
use ekiden_core::hash::sha256_hex;
use ekiden_core::time::Timestamp;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use crate::archive::ensure_dir;
use crate::disk::{Disk, DiskError, DiskResult, Operation};
use crate::limits::{GUARD_LOG_BYTES_MAX, LOCK_PAUSE_MIN, SMALL_FILE_BYTES_MAX};
use crate::replace::{Durability, replace_by, temporary_of_process};

/// How often another process may have made a directory a moment before us: there are three to make.
const MAKERS_MAX: u32 = 4;
/// The longest name of a session that is used as it is.
const NAME_CHARS_MAX: usize = 64;

/// The files of one watched session.
#[derive(Debug, Clone)]
pub struct GuardFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    name: String,
}

/// What a status line said last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    /// When.
    pub at: Timestamp,
    /// The context in use, in tokens; none before the first response.
    pub used_tokens: Option<u64>,
    /// The model's window, in tokens.
    pub window_tokens: u64,
}

/// The right to decide for a session. Given back when it is dropped or its process ends.
#[derive(Debug)]
pub struct GuardLock {
    _file: File,
}

impl GuardFiles {
    /// The files of the session that the client calls so, in this state directory. Any text is a
    /// session's name; one that is no plain word is known by its hash.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, state_dir: &Path, session: &str) -> Self {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let usable = !session.is_empty() && session.len() <= NAME_CHARS_MAX && session.chars().all(plain);
        let name = if usable { session.to_owned() } else { sha256_hex(session.as_bytes())[..32].to_owned() };
        Self { disk, dir: guard_dir(state_dir), name }
    }

    /// What happened in the session; nothing if it was never watched.
    ///
    /// # Errors
    ///
    /// If the log is there and cannot be read.
    pub fn records(&self) -> DiskResult<Vec<WatchRecord>> {
        let bytes = match self.disk.read(&self.path("jsonl"), GUARD_LOG_BYTES_MAX) {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            bytes => bytes?,
        };
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        Ok(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }

    /// Adds records at the end, in one call. A torn line before them is closed first.
    ///
    /// # Errors
    ///
    /// If the log cannot be written.
    pub fn append(&self, records: &[WatchRecord]) -> DiskResult<()> {
        let mut text = Vec::new();
        for record in records {
            // A line break first: whatever a crash left before it is a line of its own.
            text.push(b'\n');
            text.extend(record.to_line().into_bytes());
        }
        text.push(b'\n');
        let path = self.path("jsonl");
        let mut file = self.open(&path, OFlags::WRONLY | OFlags::APPEND, Operation::Append)?;
        file.write_all(&text).map_err(|error| DiskError::new(Operation::Append, &path, error))
    }

    /// Takes the right to decide, or gives up after `patience`.
    ///
    /// # Errors
    ///
    /// If the lock cannot be opened. That somebody else has it is no error.
    pub fn lock(&self, patience: Duration) -> DiskResult<Option<GuardLock>> {
        self.take("lock", patience)
    }

    /// Takes the right to write a checkpoint, or gives up after `patience`.
    ///
    /// # Errors
    ///
    /// If the lock cannot be opened. That somebody else has it is no error.
    pub fn lock_writing(&self, patience: Duration) -> DiskResult<Option<GuardLock>> {
        self.take("writing", patience)
    }

    /// The last figures of a status line, if there are any that can be read.
    #[must_use]
    pub fn figure(&self) -> Option<Figure> {
        serde_json::from_slice(&self.disk.read(&self.path("figure"), SMALL_FILE_BYTES_MAX).ok()?).ok()
    }

    /// Keeps the figures of a status line.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn keep_figure(&self, figure: &Figure) -> DiskResult<()> {
        let text = serde_json::to_vec(figure).unwrap_or_default();
        let keep = || replace_at_once(&*self.disk, &self.path("figure"), &text);
        match keep() {
            Err(error) if error.is_not_found() => {
                self.make_dir()?;
                keep()
            }
            kept => kept,
        }
    }

    fn take(&self, kind: &str, patience: Duration) -> DiskResult<Option<GuardLock>> {
        let path = self.path(kind);
        let file = self.open(&path, OFlags::RDWR, Operation::Lock)?;
        let mut waited = Duration::ZERO;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(GuardLock { _file: file })),
                Err(std::fs::TryLockError::Error(error)) => {
                    return Err(DiskError::new(Operation::Lock, &path, error));
                }
                Err(std::fs::TryLockError::WouldBlock) if waited >= patience => return Ok(None),
                Err(std::fs::TryLockError::WouldBlock) => {
                    let pause = LOCK_PAUSE_MIN.max(patience / 100);
                    thread::sleep(pause);
                    waited += pause;
                }
            }
        }
    }

    /// Opens a file, made if it is missing, 0600, never through a link, not inherited.
    fn open(&self, path: &Path, flags: OFlags, operation: Operation) -> DiskResult<File> {
        let flags = flags | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from);
        let opened = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_dir()?;
                open()
            }
            opened => opened,
        };
        opened.map(File::from).map_err(|error| DiskError::new(operation, path, error))
    }

    /// Makes the directory. Others may be at it too: each of them may make one of those above it first.
    fn make_dir(&self) -> DiskResult<()> {
        let made = || ensure_dir(&*self.disk, &self.dir);
        let mut result = made();
        for _ in 0..MAKERS_MAX {
            match result {
                Err(error) if error.is_already_there() => result = made(),
                done => return done,
            }
        }
        result
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("{}.{kind}", self.name))
    }
}

/// Where watched sessions lie in a state directory.
#[must_use]
pub fn guard_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("guard")
}

/// Adds a line to `errors.log`, as long as that is small: what went wrong in processes that nobody hears.
/// Where nothing was ever watched there is none.
///
/// # Errors
///
/// If it cannot be written.
pub fn note_error(state_dir: &Path, line: &str) -> io::Result<()> {
    let path = guard_dir(state_dir).join("errors.log");
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?);
    if file.metadata()?.len() < SMALL_FILE_BYTES_MAX {
        file.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())?;
    }
    Ok(())
}

/// The sessions that were watched here, by their names, the one that was written last first.
#[must_use]
pub fn watched_sessions(state_dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(guard_dir(state_dir)) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().to_str()?.strip_suffix(".jsonl")?.to_owned();
            Some((entry.metadata().ok()?.modified().ok()?, name))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, name)| name).collect()
}

/// Removes the files of sessions of which nothing was written since a time, and how many files those were.
/// One that is taken up again later is watched as a new one. What cannot be removed stays.
pub fn sweep(disk: &dyn Disk, state_dir: &Path, before: Timestamp) -> usize {
    let before = SystemTime::UNIX_EPOCH + Duration::from_millis(before.0);
    let Ok(entries) = std::fs::read_dir(guard_dir(state_dir)) else { return 0 };
    let mut sessions: BTreeMap<String, (SystemTime, Vec<PathBuf>)> = BTreeMap::new();
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let of_session = name.to_str().and_then(|name| name.rsplit_once('.'));
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if let (Some((session, "jsonl" | "lock" | "figure" | "writing")), Ok(modified)) =
            (of_session, modified)
        {
            let (last, files) = sessions.entry(session.to_owned()).or_insert((modified, Vec::new()));
            *last = modified.max(*last);
            files.push(path);
        }
    }
    let old = sessions.into_values().filter(|(last, _)| *last < before);
    old.flat_map(|(_, files)| files).filter(|file| disk.remove(file).is_ok()).count()
}

/// Puts a small file in the place of another, by a temporary one of this process's own, so that many
/// processes may do it at once. Nothing is synced.
///
/// # Errors
///
/// If it cannot be written or renamed.
pub fn replace_at_once(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> DiskResult<()> {
    replace_by(disk, &temporary_of_process(path), path, bytes, Durability::Derived)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test tears a line of a log")]
mod tests {
    use ekiden_core::guard::watch::WatchEvent;

    use super::*;
    use crate::disk::RealDisk;

    fn files(state_dir: &Path, session: &str) -> GuardFiles {
        GuardFiles::new(Arc::new(RealDisk::new()), state_dir, session)
    }

    fn record(time: u64) -> WatchRecord {
        WatchRecord { time: Timestamp(time), event: WatchEvent::Refused }
    }

    // shows: SEC-05
    #[test]
    fn what_cannot_be_read_is_passed_over() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = files(dir.path(), "s-1");
        assert_eq!(files.records().expect("no log"), []);
        files.append(&[record(1)]).expect("appended");
        let log = guard_dir(dir.path()).join("s-1.jsonl");
        let whole = std::fs::read(&log).expect("the log");
        std::fs::write(&log, [&whole, &b"{\"time\":2,\"eve"[..]].concat()).expect("torn");
        files.append(&[record(3)]).expect("appended");
        assert_eq!(files.records().expect("read"), [record(1), record(3)]);
    }

    // shows: MON-005
    #[test]
    fn no_record_of_many_writers_at_once_is_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = files(dir.path(), "s-1");
        thread::scope(|scope| {
            for writer in 0..8 {
                let files = &files;
                scope.spawn(move || {
                    (0..25).for_each(|turn| files.append(&[record(writer * 100 + turn)]).expect("appended"));
                });
            }
        });
        assert_eq!(files.records().expect("read").len(), 200);
    }

    #[test]
    fn one_decides_at_a_time_and_nobody_waits_long() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = files(dir.path(), "s-1");
        let first = files.lock(Duration::ZERO).expect("opened");
        assert!(first.is_some());
        assert!(files.lock(Duration::from_millis(2)).expect("opened").is_none());
        assert!(files.lock_writing(Duration::ZERO).expect("opened").is_some(), "another lock");
        drop(first);
        assert!(files.lock(Duration::ZERO).expect("opened").is_some());
    }

    // shows: SEC-02
    #[test]
    fn no_name_of_a_session_leads_elsewhere() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["../../x", "", "a b", ".", "ü", &"x".repeat(300)] {
            files(dir.path(), name).append(&[record(1)]).expect("appended");
        }
        let inside = std::fs::read_dir(guard_dir(dir.path())).expect("a directory").count();
        assert_eq!(inside, 6);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn sessions_that_nobody_heard_of_for_long_are_swept() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = RealDisk::new();
        for session in ["old", "young"] {
            files(dir.path(), session).append(&[record(1)]).expect("appended");
            drop(files(dir.path(), session).lock(Duration::ZERO).expect("opened"));
        }
        note_error(dir.path(), "a trouble").expect("noted");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        for kind in ["jsonl", "lock"] {
            let path = guard_dir(dir.path()).join(format!("old.{kind}"));
            File::open(path).and_then(|file| file.set_modified(long_ago)).expect("aged");
        }
        assert_eq!(sweep(&disk, dir.path(), Timestamp(999_000)), 0);
        assert_eq!(sweep(&disk, dir.path(), Timestamp(2_000_000)), 2);
        assert_eq!(watched_sessions(dir.path()), ["young"]);
        assert!(guard_dir(dir.path()).join("errors.log").exists());
    }

    #[test]
    fn figures_are_kept_and_the_latest_session_comes_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = files(dir.path(), "s-1");
        assert_eq!(files.figure(), None);
        let figure = Figure { at: Timestamp(5), used_tokens: Some(7), window_tokens: 200_000 };
        files.keep_figure(&figure).expect("kept");
        assert_eq!(files.figure(), Some(figure));
        files.append(&[record(1)]).expect("appended");
        assert_eq!(watched_sessions(dir.path()), ["s-1"]);
    }
}
