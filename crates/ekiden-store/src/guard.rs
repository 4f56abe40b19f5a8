//! The files of watched sessions.
//!
//! ```text
//! <state directory>/guard/
//! ├── <session>.jsonl     what happened: one record a line, appended
//! ├── <session>.lock      held while a decision is made and recorded
//! ├── <session>.figure    the last figures of the client's status line
//! ├── <session>.mod       written anew by the mod before each hook: its sign of life
//! ├── <session>.writing   held while a checkpoint is written
//! └── <process>.client    the session that this client shows since `/clear` or `/resume`
//! ```
//!
//! These sessions have no engine. Many short processes read and write here, hundreds in a minute, each with
//! milliseconds to spend. So nothing is synced: a power cut may take the last records, and then a level is
//! announced once more. Each record is appended in one call, so two writers never mix.
//!
//! Unreadable lines are skipped: a line may be torn, or a newer version's. The log must never be the reason why a
//! session that a person started fails.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ekiden_core::guard::watch::WatchRecord;
use ekiden_core::hash::sha256_hex;
use ekiden_core::time::Timestamp;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::archive::ensure_dir;
use crate::disk::{Disk, DiskError, DiskResult, Operation, RealDisk, if_there};
use crate::limits::{GUARD_LOG_BYTES_MAX, SMALL_FILE_BYTES_MAX};
use crate::lock::{open_private, wait_for};
use crate::replace::replace_at_once;

/// How often another process may have made a directory just before us: there are three to make.
const MAKERS_MAX: u32 = 4;
/// How long a sign of life of the mod is valid. The mod gives it right before the hooks of each event.
const SIGN_LASTS: Duration = Duration::from_secs(2);
/// The longest session name that is used unchanged.
const NAME_CHARS_MAX: usize = 64;

/// The files of one watched session.
#[derive(Debug, Clone)]
pub struct GuardFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    name: String,
}

/// The last figures of a status line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    pub at: Timestamp,
    /// The context in use, in tokens; none before the first response.
    pub used_tokens: Option<u64>,
    /// The model's window, in tokens.
    pub window_tokens: u64,
    /// The model of the last response then; empty if there was none.
    #[serde(default)]
    pub model: String,
}

impl GuardFiles {
    /// The files in this state directory of the session that the client calls by this name. Any text can be a
    /// session's name; one that is not a plain word is replaced by its hash.
    pub fn new(disk: Arc<dyn Disk>, state_dir: &Path, session: &str) -> Self {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let usable =
            !session.is_empty() && session.len() <= NAME_CHARS_MAX && session.chars().all(plain);
        let name = if usable {
            session.to_owned()
        } else {
            sha256_hex(session.as_bytes())[..32].to_owned()
        };
        Self {
            disk,
            dir: guard_dir(state_dir),
            name,
        }
    }

    /// What happened in the session; empty if it was never watched.
    pub fn records(&self) -> DiskResult<Vec<WatchRecord>> {
        let bytes = if_there(self.disk.read(&self.path("jsonl"), GUARD_LOG_BYTES_MAX))?;
        let bytes = bytes.unwrap_or_default();
        let lines = bytes
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        Ok(lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect())
    }

    /// Appends records in one call. Closes a torn line before them first.
    pub fn append(&self, records: &[WatchRecord]) -> DiskResult<()> {
        let mut text = Vec::new();
        for record in records {
            // A line break first, so that whatever a crash left before it becomes a separate line.
            text.push(b'\n');
            text.extend(serde_json::to_vec(record).unwrap_or_default());
        }
        text.push(b'\n');
        let path = self.path("jsonl");
        let mut file = self.open(&path, OFlags::WRONLY | OFlags::APPEND, Operation::Append)?;
        file.write_all(&text)
            .map_err(|error| DiskError::new(Operation::Append, &path, error))
    }

    /// Takes the right to decide, or gives up after `patience`. Closing the file gives it back.
    pub fn lock(&self, patience: Duration) -> DiskResult<Option<File>> {
        self.take("lock", patience)
    }

    /// Takes the right to write a checkpoint, or gives up after `patience`.
    pub fn lock_writing(&self, patience: Duration) -> DiskResult<Option<File>> {
        self.take("writing", patience)
    }

    /// The last figures of a status line, if any are readable.
    pub fn figure(&self) -> Option<Figure> {
        let bytes = self.disk.read(&self.path("figure"), SMALL_FILE_BYTES_MAX);
        serde_json::from_slice(&bytes.ok()?).ok()
    }

    /// Keeps the figures of a status line.
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

    /// Notes that the client with this process id shows `session` now, and returns the one that it showed before. Its
    /// MCP servers live on, and know only the session in which they were started.
    pub fn note_client(&self, client: u32, session: &str) -> DiskResult<Option<String>> {
        self.make_dir()?;
        let path = client_path(&self.dir, client);
        let before = text(&path);
        replace_at_once(&*self.disk, &path, session.as_bytes())?;
        Ok(before)
    }

    /// Whether the session was watched here.
    pub fn is_known(&self) -> bool {
        ["jsonl", "figure"]
            .iter()
            .any(|kind| self.path(kind).exists())
    }

    /// Where the mod writes its sign of life, in a directory that exists.
    pub fn sign_of_mod(&self) -> DiskResult<PathBuf> {
        self.make_dir()?;
        Ok(self.path("mod"))
    }

    /// The mod has just given a sign of life.
    pub fn is_mod_alive(&self) -> bool {
        let written = std::fs::metadata(self.path("mod")).and_then(|found| found.modified());
        written.is_ok_and(|at| at.elapsed().is_ok_and(|since| since <= SIGN_LASTS))
    }

    /// The session's log, and its length.
    pub fn log(&self) -> (PathBuf, u64) {
        let path = self.path("jsonl");
        let bytes = std::fs::metadata(&path).map_or(0, |found| found.len());
        (path, bytes)
    }

    fn take(&self, kind: &str, patience: Duration) -> DiskResult<Option<File>> {
        let path = self.path(kind);
        let file = self.open(&path, OFlags::RDWR, Operation::Lock)?;
        Ok(wait_for(&file, &path, patience)?.then_some(file))
    }

    fn open(&self, path: &Path, flags: OFlags, operation: Operation) -> DiskResult<File> {
        let opened = match open_private(path, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_dir()?;
                open_private(path, flags)
            }
            opened => opened,
        };
        opened.map_err(|error| DiskError::new(operation, path, error))
    }

    /// Makes the directory. Other processes may do so at the same time, and may be first to make one above it.
    fn make_dir(&self) -> DiskResult<()> {
        let mut made = ensure_dir(&*self.disk, &self.dir);
        for _ in 0..MAKERS_MAX {
            if made.as_ref().is_err_and(DiskError::is_already_there) {
                made = ensure_dir(&*self.disk, &self.dir);
            }
        }
        made
    }

    fn path(&self, kind: &str) -> PathBuf {
        self.dir.join(format!("{}.{kind}", self.name))
    }
}

/// The session that this client shows, if it was noted since a time. An older note is another client's, which had the
/// same process id.
pub fn session_of_client(state_dir: &Path, client: u32, since: Timestamp) -> Option<String> {
    let path = client_path(&guard_dir(state_dir), client);
    let noted = path.metadata().and_then(|found| found.modified()).ok()?;
    let since = SystemTime::UNIX_EPOCH + Duration::from_millis(since.0);
    text(&path).filter(|_| noted >= since)
}

fn client_path(dir: &Path, client: u32) -> PathBuf {
    dir.join(format!("{client}.client"))
}

/// Where a state directory keeps watched sessions.
pub fn guard_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("guard")
}

/// Adds a line to `errors.log`, as long as that is small: errors of processes without a screen. Writes nothing
/// where no session was ever watched.
pub fn note_error(state_dir: &Path, line: &str) -> io::Result<()> {
    let path = guard_dir(state_dir).join("errors.log");
    let mut file = open_private(&path, OFlags::WRONLY | OFlags::APPEND)?;
    if file.metadata()?.len() < SMALL_FILE_BYTES_MAX {
        file.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())?;
    }
    Ok(())
}

/// The last line of `errors.log`, and the path of that file.
pub fn last_error(state_dir: &Path) -> Option<(PathBuf, String)> {
    let (path, text) = errors(state_dir)?;
    let last = text.lines().last()?.to_owned();
    Some((path, last))
}

/// Whether a line of `errors.log` says this after its time.
pub fn has_error(state_dir: &Path, text: &str) -> bool {
    let said = |line: &str| line.split_once(' ').is_some_and(|(_, said)| said == text);
    errors(state_dir).is_some_and(|(_, errors)| errors.lines().any(said))
}

fn errors(state_dir: &Path) -> Option<(PathBuf, String)> {
    let path = guard_dir(state_dir).join("errors.log");
    Some((path.clone(), text(&path)?))
}

/// What a small file holds. The last line of `errors.log` may begin just below its limit. A pipe does not block.
fn text(path: &Path) -> Option<String> {
    let bytes = RealDisk::new().read(path, 2 * SMALL_FILE_BYTES_MAX).ok()?;
    String::from_utf8(bytes).ok()
}

/// The names of the sessions that were watched here, the most recently written first.
pub fn watched_sessions(state_dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(guard_dir(state_dir)) else {
        return Vec::new();
    };
    let session = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        // A session that has done nothing worth a record yet may be known only by its status line.
        let session = name.strip_suffix(".jsonl").or(name.strip_suffix(".figure"));
        let name = session?.to_owned();
        Some((entry.metadata().ok()?.modified().ok()?, name))
    };
    let mut found: Vec<_> = entries.filter_map(|entry| session(entry.ok()?)).collect();
    found.sort();
    let mut names: Vec<String> = Vec::new();
    for (_, name) in found.into_iter().rev() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Removes the files of sessions that were not written since a time, and returns how many those were. If such a
/// session continues later, it is watched as a new one. What cannot be removed stays.
///
/// Also removes what a process left behind that was killed while it replaced a file here or in `published`.
pub fn sweep(disk: &dyn Disk, state_dir: &Path, published: &Path, before: Timestamp) -> usize {
    let before = SystemTime::UNIX_EPOCH + Duration::from_millis(before.0);
    let files = |dir: &Path| {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path()))
    };
    let is_session = |path: &PathBuf| {
        let kind = path.extension().and_then(std::ffi::OsStr::to_str);
        matches!(
            kind,
            Some("jsonl" | "lock" | "figure" | "mod" | "writing" | "client" | "new")
        )
    };
    let is_left = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with('.') && name.ends_with(".new")
    };
    let is_old = |path: &PathBuf| {
        let modified = path.metadata().and_then(|found| found.modified());
        modified.is_ok_and(|modified| modified < before)
    };
    let of_sessions = files(&guard_dir(state_dir)).filter(is_session);
    of_sessions
        .chain(files(published).filter(is_left))
        .filter(is_old)
        .filter(|path| disk.remove(path).is_ok())
        .count()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test tears a line of a log")]
mod tests {
    use std::thread;

    use ekiden_core::guard::watch::WatchEvent;

    use super::*;
    use crate::disk::RealDisk;

    fn files(state_dir: &Path, session: &str) -> GuardFiles {
        GuardFiles::new(Arc::new(RealDisk::new()), state_dir, session)
    }

    fn record(time: u64) -> WatchRecord {
        WatchRecord {
            time: Timestamp(time),
            event: WatchEvent::Refused,
        }
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

    #[test]
    fn no_record_of_many_writers_at_once_is_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = files(dir.path(), "s-1");
        thread::scope(|scope| {
            for writer in 0..8 {
                let files = &files;
                scope.spawn(move || {
                    (0..25).for_each(|turn| {
                        files
                            .append(&[record(writer * 100 + turn)])
                            .expect("appended");
                    });
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
        assert!(
            files
                .lock(Duration::from_millis(2))
                .expect("opened")
                .is_none()
        );
        assert!(
            files
                .lock_writing(Duration::ZERO)
                .expect("opened")
                .is_some(),
            "another lock"
        );
        drop(first);
        assert!(files.lock(Duration::ZERO).expect("opened").is_some());
    }

    // shows: SEC-02
    #[test]
    fn no_name_of_a_session_leads_elsewhere() {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["../../x", "", "a b", ".", "ü", &"x".repeat(300)] {
            files(dir.path(), name)
                .append(&[record(1)])
                .expect("appended");
        }
        let inside = std::fs::read_dir(guard_dir(dir.path()))
            .expect("a directory")
            .count();
        assert_eq!(inside, 6);
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("a directory").count(),
            1
        );
    }

    #[test]
    fn sessions_that_nobody_heard_of_for_long_are_swept() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = RealDisk::new();
        for session in ["old", "young"] {
            files(dir.path(), session)
                .append(&[record(1)])
                .expect("appended");
            drop(
                files(dir.path(), session)
                    .lock(Duration::ZERO)
                    .expect("opened"),
            );
        }
        note_error(dir.path(), "a trouble").expect("noted");
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        for kind in ["jsonl", "lock"] {
            let path = guard_dir(dir.path()).join(format!("old.{kind}"));
            File::open(path)
                .and_then(|file| file.set_modified(long_ago))
                .expect("aged");
        }
        let published = tempfile::tempdir().expect("a directory");
        for name in [".checkpoint-state.json.7.new", "mine.new", ".mine"] {
            let file = File::create(published.path().join(name));
            let aged = file.and_then(|file| file.set_modified(long_ago));
            aged.expect("aged");
        }
        let swept = |before| sweep(&disk, dir.path(), published.path(), Timestamp(before));
        assert_eq!((swept(999_000), swept(2_000_000)), (0, 3));
        assert_eq!(watched_sessions(dir.path()), ["young"]);
        assert!(published.path().join("mine.new").exists());
        assert!(published.path().join(".mine").exists());
        let (path, _) = last_error(dir.path()).unwrap();
        assert_eq!(path, guard_dir(dir.path()).join("errors.log"));
    }

    // shows: MEM-09
    #[test]
    fn a_client_is_found_by_what_it_noted_lately() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(session_of_client(dir.path(), 7, Timestamp(0)), None);
        let note = |session| files(dir.path(), session).note_client(7, session);
        assert_eq!(note("s-1").expect("noted"), None);
        assert_eq!(note("s-2").expect("noted").as_deref(), Some("s-1"));
        let found = session_of_client(dir.path(), 7, Timestamp(0));
        assert_eq!(found.as_deref(), Some("s-2"));
        let tomorrow = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let tomorrow = tomorrow.expect("a time").as_secs() + 24 * 60 * 60;
        let later = Timestamp(tomorrow * 1000);
        assert_eq!(
            session_of_client(dir.path(), 7, later),
            None,
            "another client's"
        );
    }

    #[test]
    fn figures_are_kept_and_the_latest_session_comes_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = files(dir.path(), "s-1");
        assert_eq!(files.figure(), None);
        let figure = Figure {
            at: Timestamp(5),
            used_tokens: Some(7),
            window_tokens: 200_000,
            model: String::new(),
        };
        files.keep_figure(&figure).expect("kept");
        assert_eq!(files.figure(), Some(figure));
        files.append(&[record(1)]).expect("appended");
        assert_eq!(watched_sessions(dir.path()), ["s-1"]);
    }
}
