//! The memory's files: what sessions left behind, one observation per line, one file per month.
//!
//! ```text
//! <user's state home>/ekiden/memory/2026-11.jsonl   the truth, appended by hooks and engines
//!                                   index-2.db      derived from it by `ekiden-memory`
//! ```
//!
//! Invariants:
//! - *One call appends a line*, so writers never mix. Nothing is synced: a power cut may take the last lines.
//! - *A line never moves.* Forgotten lines are overwritten with blanks of the same length, so offsets stay
//!   right and a writer that has the file open loses nothing.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ekiden_core::observation::Observation;
use rustix::fs::OFlags;

use crate::archive::ensure_dir;
use crate::disk::{Disk as _, DiskError, DiskResult, Operation, RealDisk, if_there, open_to_read};
use crate::lock::{open_private, wait_for};

/// How much is read at a session's start: some hundred observations, in a millisecond.
const TAIL_BYTES: u64 = 256 * 1024;

/// The directory of a user's memory.
#[derive(Debug, Clone)]
pub struct MemoryFiles {
    dir: PathBuf,
}

impl MemoryFiles {
    /// `home` is ekiden's directory in the user's state home.
    pub fn of(home: &Path) -> Self {
        Self {
            dir: home.join("memory"),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Adds observations at the end of their months, in one call per month. The line break before each closes
    /// what a torn write left.
    pub fn append(&self, observations: &[Observation]) -> DiskResult<()> {
        for same in observations.chunk_by(|a, b| month(a) == month(b)) {
            let mut text = Vec::new();
            for observation in same {
                text.push(b'\n');
                text.extend(serde_json::to_vec(observation).unwrap_or_default());
            }
            text.push(b'\n');
            let path = self.path(&format!("{}.jsonl", month(&same[0])));
            let mut file = self.open(&path, OFlags::WRONLY | OFlags::APPEND)?;
            file.write_all(&text)
                .map_err(|error| DiskError::new(Operation::Append, &path, error))?;
        }
        Ok(())
    }

    /// The names and lengths of the files, the oldest month first; none where nothing was ever recorded. All must be
    /// readable: what stands in one would seem forgotten.
    pub fn segments(&self) -> DiskResult<Vec<(String, u64)>> {
        let names = if_there(RealDisk::new().list(&self.dir))?.unwrap_or_default();
        let names = names.into_iter().filter_map(|name| name.into_string().ok());
        let segment = |name: String| {
            let path = self.path(&name);
            let opened = open_to_read(&path);
            let (_, len) = opened.map_err(|cause| DiskError::new(Operation::Read, &path, cause))?;
            Ok((name, len))
        };
        names
            .filter(|name| name.ends_with(".jsonl"))
            .map(segment)
            .collect()
    }

    /// The newest observations of a project, the newest first, without the index. Reads only the end of what
    /// any session recorded last. At most a third of them are of branches other than `branch`, if that has enough.
    pub fn newest_of(&self, project: &str, branch: Option<&str>, count: usize) -> Vec<Observation> {
        let mut found = Vec::new();
        for (name, len) in self
            .segments()
            .unwrap_or_default()
            .into_iter()
            .rev()
            .take(2)
        {
            let mut bytes = Vec::new();
            let opened = File::open(self.path(&name)).and_then(|mut file| {
                file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
                file.take(TAIL_BYTES).read_to_end(&mut bytes)
            });
            let lines = bytes.rsplit(|byte| *byte == b'\n');
            let of_project = lines
                .filter_map(|line| serde_json::from_slice::<Observation>(line).ok())
                .filter(|found| found.from.project == project);
            if opened.is_ok() && found.len() < count {
                found.extend(of_project);
            }
        }
        let is_own = |found: &Observation| found.from.branch.as_deref() == branch;
        let (mut newest, others): (Vec<_>, Vec<_>) = found.into_iter().partition(is_own);
        newest.truncate(count - others.len().min(count / 3));
        newest.extend(others);
        newest.truncate(count);
        newest.sort_by_key(|found| Reverse(found.time));
        newest
    }

    /// Overwrites lines with blanks, durably. Leaves alone what is not where it should be.
    pub fn blank(&self, name: &str, lines: &[(u64, Vec<u8>)]) -> DiskResult<()> {
        let path = self.path(name);
        let failed = |error| DiskError::new(Operation::Append, &path, error);
        let file = open_private(&path, OFlags::RDWR).map_err(failed)?;
        for (at, line) in lines {
            let mut there = vec![0; line.len()];
            file.read_exact_at(&mut there, *at).map_err(failed)?;
            if there == *line {
                file.write_all_at(&vec![b' '; line.len()], *at)
                    .map_err(failed)?;
            }
        }
        file.sync_data().map_err(failed)
    }

    /// Makes the file 0600 if it is missing, with its directory.
    pub fn make_private(&self, name: &str) -> DiskResult<()> {
        self.open(&self.path(name), OFlags::RDWR).map(drop)
    }

    /// Takes the right to write the index, or gives up after `patience`. Closing the file gives it back.
    pub fn lock(&self, patience: Duration) -> DiskResult<Option<File>> {
        let path = self.path("index.lock");
        let file = self.open(&path, OFlags::RDWR)?;
        Ok(wait_for(&file, &path, patience)?.then_some(file))
    }

    fn open(&self, path: &Path, flags: OFlags) -> DiskResult<File> {
        let opened = match open_private(path, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Others may make it at the same time: then it exists.
                ensure_dir(&RealDisk::new(), &self.dir).or_else(|error| {
                    if self.dir.is_dir() {
                        Ok(())
                    } else {
                        Err(error)
                    }
                })?;
                open_private(path, flags)
            }
            opened => opened,
        };
        opened.map_err(|error| DiskError::new(Operation::Open, path, error))
    }
}

/// `2026-11`
fn month(observation: &Observation) -> String {
    observation.time.date()[..7].to_owned()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test tears a file")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use ekiden_core::observation::{ObservationKind, Origin};
    use ekiden_core::time::Timestamp;

    use super::*;

    fn observation(title: &str, time: u64) -> Observation {
        let from = Origin::default();
        Observation::new(&from, Timestamp(time), ObservationKind::Change, title, "").unwrap()
    }

    fn read(files: &MemoryFiles, name: &str) -> Vec<Observation> {
        let text = std::fs::read(files.path(name)).unwrap();
        let lines = text.split(|byte| *byte == b'\n');
        lines
            .filter_map(|line| serde_json::from_slice(line).ok())
            .collect()
    }

    // shows: MEM-07
    #[test]
    fn many_writers_lose_nothing_and_a_torn_line_costs_only_itself() {
        let home = tempfile::tempdir().unwrap();
        let files = MemoryFiles::of(home.path());
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let files = &files;
                scope.spawn(move || {
                    for turn in 0..25 {
                        let title = format!("{writer}-{turn}");
                        files.append(&[observation(&title, 1)]).unwrap();
                    }
                });
            }
        });
        assert_eq!(files.segments().unwrap()[0].0, "1970-01.jsonl");
        let path = files.path("1970-01.jsonl");
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole, &b"{\"id\":\"00"[..]].concat()).unwrap();
        files.append(&[observation("after", 2)]).unwrap();
        assert_eq!(read(&files, "1970-01.jsonl").len(), 101);
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    // shows: MEM-004
    #[test]
    fn a_session_sees_its_own_branch_first_and_something_of_the_others() {
        let home = tempfile::tempdir().unwrap();
        let files = MemoryFiles::of(home.path());
        let of = |branch: &str, title: &str, time| {
            let branch = Some(branch.to_owned());
            let from = Origin {
                branch,
                ..Origin::default()
            };
            let kind = ObservationKind::Change;
            Observation::new(&from, Timestamp(time), kind, title, "").unwrap()
        };
        let old = ["a", "b", "c"].map(|title| of("main", title, 1));
        files.append(&old).unwrap();
        let new = ["x", "y", "z"].map(|title| of("login", title, 2));
        files.append(&new).unwrap();
        let titles = |branch| {
            let found = files.newest_of("", Some(branch), 3).into_iter();
            found.map(|found| found.title).collect::<String>()
        };
        assert_eq!(titles("main"), "zcb");
        assert_eq!(titles("login"), "zyc");
        assert_eq!(titles("other"), "zyx");
    }

    // shows: MEM-07
    #[test]
    fn what_is_forgotten_is_gone_and_the_rest_stays_in_its_place() {
        let home = tempfile::tempdir().unwrap();
        let files = MemoryFiles::of(home.path());
        let all = ["one", "two", "three"].map(|title| observation(title, 1));
        files.append(&all).unwrap();
        let text = std::fs::read(files.path("1970-01.jsonl")).unwrap();
        let line = serde_json::to_vec(&all[1]).unwrap();
        let at = text
            .windows(line.len())
            .position(|found| found == line)
            .unwrap();
        files
            .blank("1970-01.jsonl", &[(at as u64, line.clone())])
            .unwrap();
        assert_eq!(
            read(&files, "1970-01.jsonl"),
            [all[0].clone(), all[2].clone()]
        );
        assert_eq!(files.segments().unwrap()[0].1, text.len() as u64);
        let titles = |count| {
            files
                .newest_of("", None, count)
                .into_iter()
                .map(|found| found.title)
        };
        assert_eq!(titles(5).collect::<Vec<_>>(), ["three", "one"]);
        assert_eq!(titles(1).count(), 1);
        assert!(files.newest_of("/other", None, 5).is_empty());
        files.blank("1970-01.jsonl", &[(0, line)]).unwrap();
        assert_eq!(
            read(&files, "1970-01.jsonl").len(),
            2,
            "another line is left alone"
        );
    }
}
