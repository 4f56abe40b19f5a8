//! The index: a database that follows the files of the memory.
//!
//! ```text
//! segment (name, read to, skipped)    obs (seq, id, place, time)    again (id, place)
//! words (block, word, rows)           project (number, path)        day (first and last seq)
//! ```
//!
//! `seq` rises with time, as long as lines are appended in the order of their times.

use std::collections::HashMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use ekiden_core::observation::{Observation, ObservationKind};
use ekiden_core::time::Timestamp;
use ekiden_store::disk::{Disk as _, DiskError, Operation, RealDisk};
use ekiden_store::memory::MemoryFiles;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, params};

use crate::ask::{ASIDE, keep_one, remove_aside, remove_others, set_aside};
use crate::error::MemoryError;
use crate::postings::{Postings, block_of, blocks_of, row_of};
use crate::reading::{LinePlace, Texts};
use crate::words::{each_indexed, key, project_key};

/// Its number, as that of the one set aside, is the version of what is in it. Programs of two versions each have their
/// own.
pub(crate) const DATABASE: &str = "index-2.db";
/// Longer lines are not ours.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// How much is read at once, and indexed in one transaction.
const CHUNK_BYTES: usize = 16 * 1024 * 1024;
/// How long to wait for another process that indexes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(150);
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

const SCHEMA: &str = "
CREATE TABLE segment(number INTEGER PRIMARY KEY, name TEXT UNIQUE, read INTEGER, skipped INTEGER, in_long INTEGER);
CREATE TABLE obs(seq INTEGER PRIMARY KEY, id INTEGER UNIQUE, place INTEGER, len INTEGER, time INTEGER);
CREATE TABLE again(id INTEGER, place INTEGER, len INTEGER);
CREATE TABLE project(number INTEGER PRIMARY KEY, path TEXT UNIQUE);
CREATE TABLE words(block INTEGER, word TEXT, rows BLOB, PRIMARY KEY(block, word)) WITHOUT ROWID;
CREATE TABLE day(day INTEGER PRIMARY KEY, first INTEGER, last INTEGER);
CREATE TABLE forgetting(yes INTEGER);
PRAGMA user_version = 1;
";

#[derive(Debug)]
pub struct Memory {
    pub(crate) files: MemoryFiles,
    pub(crate) db: Connection,
    /// The database's file before it was opened.
    inode: Option<u64>,
    pub(crate) texts: Texts,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Stats {
    pub observations: u64,
    /// By type, most frequent first.
    pub types: Vec<(String, u64)>,
    /// By project, most frequent first.
    pub projects: Vec<(String, u64)>,
    pub first: Option<Timestamp>,
    pub last: Option<Timestamp>,
    pub text_bytes: u64,
    pub index_bytes: u64,
    /// Lines that are not observations.
    pub skipped_lines: u64,
    /// Where an unusable database is kept.
    pub set_aside: Option<String>,
}

impl Memory {
    /// Opens the index and follows the files. Waits for other processes that index.
    pub fn open(files: MemoryFiles) -> Result<Self, MemoryError> {
        files.make_private(DATABASE)?;
        let inode = inode(&files);
        let db = Connection::open(files.path(DATABASE))?;
        db.busy_timeout(PATIENCE)?;
        db.execute_batch(
            "PRAGMA cache_size = -12000; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON;",
        )?;
        let mut memory = Self {
            texts: Texts::new(files.clone()),
            files,
            db,
            inode,
        };
        if !memory.is_made()? {
            memory.create()?;
        }
        memory.catch_up()?;
        Ok(memory)
    }

    /// The index as it is on a disk that cannot be written: no lock, no journal, and nothing newer.
    pub(crate) fn as_it_is(files: MemoryFiles) -> Result<Self, MemoryError> {
        let path = files.path(DATABASE).to_string_lossy().into_owned();
        let path = path
            .replace('%', "%25")
            .replace('?', "%3f")
            .replace('#', "%23");
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let mut memory = Self {
            db: Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)?,
            texts: Texts::new(files.clone()),
            inode: inode(&files),
            files,
        };
        memory.new_segments()?;
        Ok(memory)
    }

    fn is_made(&self) -> Result<bool, MemoryError> {
        let made = self
            .db
            .query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0));
        Ok(made? > 0)
    }

    fn create(&mut self) -> Result<(), MemoryError> {
        let _lock = self.files.lock(PATIENCE)?.ok_or(MemoryError::Busy)?;
        let mode = journal_mode(file_system(self.files.dir()));
        self.db.pragma_update(None, "journal_mode", mode)?;
        self.db.pragma_update(None, "synchronous", "NORMAL")?;
        if !self.is_made()? {
            self.db.execute_batch(&format!("BEGIN; {SCHEMA} COMMIT;"))?;
        }
        Ok(())
    }

    /// Rebuilds the index from the files alone. If that fails, the old one stays in use.
    pub fn rebuild(files: &MemoryFiles) -> Result<Self, MemoryError> {
        let lock = files.lock(PATIENCE)?.ok_or(MemoryError::Busy)?;
        remove_others(files);
        set_aside(files);
        drop(lock);
        let memory = Self::open(files.clone()).inspect_err(|error| keep_one(files, error))?;
        remove_aside(files);
        Ok(memory)
    }

    /// Another process set this database aside while it was open, and writes a new one.
    pub(crate) fn is_aside(&self) -> bool {
        inode(&self.files) != self.inode
    }

    fn catch_up(&mut self) -> Result<(), MemoryError> {
        if self.new_segments()?.is_empty() && !self.must_start_again()? {
            return Ok(());
        }
        let _lock = self.files.lock(PATIENCE)?.ok_or(MemoryError::Busy)?;
        if self.must_start_again()? {
            self.db.execute_batch(
                "BEGIN; DROP TABLE segment; DROP TABLE obs; DROP TABLE again; DROP TABLE project; DROP TABLE words;
                 DROP TABLE day; DROP TABLE forgetting;",
            )?;
            self.db.execute_batch(&format!("{SCHEMA} COMMIT;"))?;
        }
        // Another process may have done it in the meantime.
        let new = self.new_segments()?;
        for segment in new {
            self.read_on(&segment)?;
        }
        self.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")?;
        Ok(())
    }

    /// A file is shorter than what was read from it, or a crash interrupted a forgetting.
    fn must_start_again(&self) -> Result<bool, MemoryError> {
        let lens: HashMap<String, u64> = self.files.segments()?.into_iter().collect();
        let mut known = self.db.prepare_cached("SELECT name, read FROM segment")?;
        let known = known.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
        for known in known {
            let (name, read): (String, u64) = known?;
            if lens.get(&name).copied().unwrap_or(0) < read {
                return Ok(true);
            }
        }
        let broken = self
            .db
            .query_row("SELECT count(*) FROM forgetting", [], |row| {
                row.get::<_, i64>(0)
            });
        Ok(broken? > 0)
    }

    fn new_segments(&mut self) -> Result<Vec<Segment>, MemoryError> {
        let mut found = self
            .db
            .prepare_cached("SELECT number, read FROM segment WHERE name = ?1")?;
        let mut new = Vec::new();
        for (name, len) in self.files.segments()? {
            let known: Option<(i64, u64)> = found
                .query_row([&name], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            if let Some((number, _)) = known {
                self.texts.name(number, &name);
            }
            let read = known.map_or(0, |(_, read)| read);
            if len > read {
                new.push(Segment { name, read });
            }
        }
        Ok(new)
    }

    /// Indexes the complete lines of a file, one transaction per chunk.
    fn read_on(&mut self, segment: &Segment) -> Result<(), MemoryError> {
        let path = self.files.path(&segment.name);
        let mut at = segment.read;
        let mut chunk = Vec::new();
        loop {
            let file = RealDisk::new().reader(&path, at)?;
            chunk.clear();
            file.take(CHUNK_BYTES as u64)
                .read_to_end(&mut chunk)
                .map_err(|error| DiskError::new(Operation::Read, &path, error))?;
            let whole = chunk.iter().rposition(|byte| *byte == b'\n');
            // A chunk without a line end is the middle of a line that is far too long.
            let taken = match whole {
                Some(end) => end + 1,
                None if chunk.len() == CHUNK_BYTES => chunk.len(),
                None => return Ok(()),
            };
            self.index(&segment.name, at, &chunk[..taken])?;
            at += taken as u64;
        }
    }

    fn index(&mut self, name: &str, at: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let transaction = self.db.transaction()?;
        transaction.execute(
            "INSERT OR IGNORE INTO segment(name, read, skipped, in_long) VALUES(?1, 0, 0, 0)",
            [name],
        )?;
        let (number, mut in_long): (i64, bool) = transaction.query_row(
            "SELECT number, in_long FROM segment WHERE name = ?1",
            [name],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let mut batch = Batch::new(&transaction)?;
        let (mut skipped, mut from) = (0_u64, at);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = line.trim_ascii();
            let place = LinePlace {
                segment: number,
                at: from + (text.as_ptr().addr() - line.as_ptr().addr()) as u64,
                len: text.len(),
            };
            from += line.len() as u64;
            let is_whole = line.ends_with(b"\n");
            if in_long || !is_whole || text.len() > LINE_BYTES_MAX {
                skipped += u64::from(!in_long);
                in_long = !is_whole;
            } else if let Some(observation) = observation(text) {
                batch.add(&observation, place)?;
            } else {
                skipped += u64::from(!text.is_empty());
            }
        }
        batch.finish()?;
        transaction.execute(
            "UPDATE segment SET read = ?2, skipped = skipped + ?3, in_long = ?4 WHERE number = ?1",
            params![number, from, skipped, in_long],
        )?;
        transaction.commit()?;
        self.texts.name(number, name);
        Ok(())
    }

    pub fn stats(&mut self) -> Result<Stats, MemoryError> {
        let number = |sql: &str| {
            self.db
                .query_row(sql, [], |row| row.get::<_, Option<u64>>(0))
        };
        let size = |name: &str| {
            self.files
                .path(name)
                .metadata()
                .map_or(0, |found| found.len())
        };
        let blocks = blocks_of(&(1..=self.last_seq()?));
        let counted = |all: Vec<(String, String)>| -> rusqlite::Result<Vec<(String, u64)>> {
            let mut found = Vec::new();
            for (name, key) in all {
                let rows = blocks
                    .clone()
                    .map(|block| Postings(&self.db).rows(block, &key));
                let counts = rows.map(|rows| Ok(rows?.count() as u64));
                found.push((name, counts.sum::<rusqlite::Result<u64>>()?));
            }
            found.retain(|(_, count)| *count > 0);
            found.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
            Ok(found)
        };
        let kinds =
            ObservationKind::ALL.map(|kind| (kind.name().to_owned(), key('k', kind.name())));
        let projects: Vec<(String, String)> = {
            let mut all = self.db.prepare("SELECT path, number FROM project")?;
            let all = all.query_map([], |row| Ok((row.get(0)?, project_key(row.get(1)?))))?;
            all.collect::<Result<_, _>>()?
        };
        let aside = self.files.path(ASIDE);
        Ok(Stats {
            observations: number("SELECT count(*) FROM obs")?.unwrap_or(0),
            types: counted(kinds.into())?,
            projects: counted(projects)?,
            first: number("SELECT min(time) FROM obs")?.map(Timestamp),
            last: number("SELECT max(time) FROM obs")?.map(Timestamp),
            text_bytes: self.files.segments()?.iter().map(|(_, len)| len).sum(),
            index_bytes: size(DATABASE) + size(&format!("{DATABASE}-wal")),
            skipped_lines: number("SELECT sum(skipped) FROM segment")?.unwrap_or(0),
            set_aside: aside.exists().then(|| aside.display().to_string()),
        })
    }
}

fn inode(files: &MemoryFiles) -> Option<u64> {
    let found = files.path(DATABASE).metadata();
    found.ok().map(|found| found.ino())
}

/// None for other lines, and for a time that the database could not hold.
fn observation(line: &[u8]) -> Option<Observation> {
    let found: Observation = serde_json::from_slice(line).ok()?;
    i64::try_from(found.time.0).ok().map(|_| found)
}

/// A file that has grown.
struct Segment {
    name: String,
    read: u64,
}

/// The rows that one transaction adds.
struct Batch<'a> {
    db: &'a Connection,
    next: i64,
    /// For the block of the next row.
    words: HashMap<String, Vec<u16>>,
    days: HashMap<u64, (i64, i64)>,
    projects: HashMap<String, i64>,
}

impl<'a> Batch<'a> {
    fn new(db: &'a Connection) -> rusqlite::Result<Self> {
        let last = db.query_row("SELECT max(seq) FROM obs", [], |row| row.get(0));
        Ok(Self {
            db,
            next: last.map(|last: Option<i64>| last.unwrap_or(0) + 1)?,
            words: HashMap::new(),
            days: HashMap::new(),
            projects: HashMap::new(),
        })
    }

    fn add(&mut self, observation: &Observation, place: LinePlace) -> rusqlite::Result<()> {
        let (seq, id, len) = (self.next, stored(observation.id.0), place.len);
        let mut insert = self.db.prepare_cached(
            "INSERT OR IGNORE INTO obs(seq, id, place, len, time) VALUES(?1, ?2, ?3, ?4, ?5)",
        )?;
        if insert.execute(params![seq, id, place.packed(), len, observation.time.0])? == 0 {
            let mut again = self
                .db
                .prepare_cached("INSERT INTO again VALUES(?1, ?2, ?3)")?;
            again.execute(params![id, place.packed(), len])?;
            return Ok(());
        }
        self.next += 1;
        let project = self.project(&observation.from.project)?;
        let (words, row) = (&mut self.words, row_of(seq));
        each_indexed(observation, project, |word| match words.get_mut(word) {
            Some(rows) if rows.last() == Some(&row) => {}
            Some(rows) => rows.push(row),
            None => drop(words.insert(word.to_owned(), vec![row])),
        });
        let days = self
            .days
            .entry(observation.time.0 / DAY_MS)
            .or_insert((seq, seq));
        days.1 = seq;
        if block_of(self.next) != block_of(seq) {
            Postings(self.db).add(block_of(seq), &self.words)?;
            self.words.clear();
        }
        Ok(())
    }

    fn project(&mut self, path: &str) -> rusqlite::Result<i64> {
        if let Some(number) = self.projects.get(path) {
            return Ok(*number);
        }
        self.db
            .execute("INSERT OR IGNORE INTO project(path) VALUES(?1)", [path])?;
        let number = number_of(self.db, path)?.unwrap_or_default();
        self.projects.insert(path.to_owned(), number);
        Ok(number)
    }

    fn finish(self) -> rusqlite::Result<()> {
        Postings(self.db).add(block_of(self.next), &self.words)?;
        let mut day = self.db.prepare_cached(
            "INSERT INTO day VALUES(?1, ?2, ?3) ON CONFLICT(day) DO UPDATE SET
             first = min(first, excluded.first), last = max(last, excluded.last)",
        )?;
        for (number, (first, last)) in self.days {
            day.execute(params![number, first, last])?;
        }
        Ok(())
    }
}

pub(crate) fn number_of(db: &Connection, project: &str) -> rusqlite::Result<Option<i64>> {
    let mut number = db.prepare_cached("SELECT number FROM project WHERE path = ?1")?;
    number.query_row([project], |row| row.get(0)).optional()
}

/// An id as a signed number with the same order.
pub(crate) fn stored(id: u64) -> i64 {
    (id ^ 1 << 63).cast_signed()
}

/// A WAL needs memory that its processes share, which machines do not.
fn journal_mode(file_system: Option<i64>) -> &'static str {
    // NFS, SMB, CIFS, SMB2, AFS, Ceph, 9P, and FUSE, of which sshfs is one.
    const REMOTE: [i64; 8] = [
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x5346_414f,
        0x00c3_6400,
        0x0102_1997,
        0x6573_5546,
    ];
    // If the system does not say, the mode that works everywhere.
    let is_local = file_system.is_some_and(|kind| !REMOTE.contains(&(kind & 0xffff_ffff)));
    if is_local { "WAL" } else { "DELETE" }
}

#[cfg(target_os = "linux")]
fn file_system(dir: &Path) -> Option<i64> {
    Some(rustix::fs::statfs(dir).ok()?.f_type)
}

#[cfg(not(target_os = "linux"))]
fn file_system(_dir: &Path) -> Option<i64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: MEM-07
    #[test]
    fn a_network_file_system_has_no_shared_memory_for_a_journal() {
        let [ext4, tmpfs, nfs, sshfs] = [0xef53, 0x0102_1994, 0x6969, 0x6573_5546];
        // Some systems give the number with its sign.
        let cifs = i64::from(0xff53_4d42_u32.cast_signed());
        assert_eq!(
            [ext4, tmpfs].map(|kind| journal_mode(Some(kind))),
            ["WAL"; 2]
        );
        for remote in [Some(nfs), Some(sshfs), Some(cifs), None] {
            assert_eq!(journal_mode(remote), "DELETE", "{remote:?}");
        }
    }
}
