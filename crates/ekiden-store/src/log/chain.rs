//! The chain of a log's records, which shows whether the log was edited.
//!
//! Each line ends with a link: a hash of the previous line's link and its own record.
//!
//! ```text
//! {"seq":1,...,"chain":"6b0f…"}
//! {"seq":2,...,"chain":"91ac…"}     hash of `6b0f…` and `{"seq":2,...`
//! ```
//!
//! Anyone who can write the log can also compute the links, so the writer copies them into the user's own state
//! directory: 33 bytes for each record. The copy of the first link is on the disk before the log is. Each later link is
//! copied once its record is on the disk, and that copy is not synced. So after a crash the copy may end before the log
//! does, but never after it, and it always has the first link.
//!
//! A program that only reads a log does not need the links.

use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::hash::sha256_hex;
use serde::de::IgnoredAny;

use crate::archive::ensure_dir;
use crate::disk::{Disk, DiskError, DiskResult, Kind, Operation, Reach, parent};
use crate::limits::LOG_LINE_BYTES_MAX;
use crate::replace::{Durability, replace};

/// 128 bits in hexadecimal: nobody can find another record with the same link.
const LINK_CHARS: usize = 32;
const COPY_LINE_BYTES: u64 = LINK_CHARS as u64 + 1;
const BEFORE: &[u8] = b",\"chain\":\"";
const AFTER: &[u8] = b"\"}\n";

/// How a log compares with its own links and with the copy of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Continuity {
    /// The log is the one that was copied, or continues it.
    Same,
    /// There is no copy to compare with. The log agrees with itself, or has no links at all.
    Unknown,
    /// This record is the first that differs from what was written.
    Changed { seq: u64 },
    /// Records are missing at the end.
    Cut {
        records: u64,
        /// The records that it held.
        held: u64,
    },
}

/// The result of checking a whole log.
#[derive(Debug)]
pub struct ChainCheck {
    pub continuity: Continuity,
    links: Vec<FoundLink>,
    copied: usize,
}

/// A record's link as computed from its line and the line before.
#[derive(Debug)]
struct FoundLink {
    link: String,
    /// Whether its line has the same link; none if the line has no link.
    agrees: Option<bool>,
}

impl ChainCheck {
    /// Compares a log with its links and with their copy at `copy`. Changes nothing.
    pub fn make(disk: &dyn Disk, log: &Path, copy: Option<&Path>) -> DiskResult<Self> {
        let copied = copy.map(|path| read_copy(disk, path));
        let copied = copied.transpose()?.unwrap_or_default();
        let links = read_links(disk, log)?;
        Ok(Self {
            continuity: compare(&copied, &links),
            copied: copied.len(),
            links,
        })
    }

    /// Makes the copy match the log's current content. Both are durable when it returns.
    pub(crate) fn copy_all(&self, disk: &dyn Disk, log: &Path, copy: &Path) -> DiskResult<()> {
        if self.continuity == Continuity::Same && self.copied == self.links.len() {
            return Ok(());
        }
        // A process that died may have left records in the cache.
        disk.sync_file(log)?;
        ensure_dir(disk, parent(copy))?;
        let links = self.links.iter();
        let text: String = links.map(|found| format!("{}\n", found.link)).collect();
        replace(disk, copy, text.as_bytes(), Durability::Full)
    }
}

/// The copy of a log's links, while the log is written.
#[derive(Debug)]
pub(super) struct LinkCopy {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl LinkCopy {
    pub(super) fn new(disk: Arc<dyn Disk>, path: PathBuf) -> Self {
        Self { disk, path }
    }

    pub(super) fn begin(&self, link: &str) -> DiskResult<()> {
        ensure_dir(&*self.disk, parent(&self.path))?;
        let line = format!("{link}\n");
        replace(&*self.disk, &self.path, line.as_bytes(), Durability::Full)
    }

    pub(super) fn add(&self, seq: u64, link: &str) -> DiskResult<()> {
        let (at, line) = ((seq - 1) * COPY_LINE_BYTES, format!("{link}\n"));
        self.disk
            .append(&self.path, at, line.as_bytes(), Reach::Cache)
    }
}

/// A record's line, from its JSON and the link before it; and the record's link.
pub(super) fn line(before: &str, json: &[u8]) -> (Vec<u8>, String) {
    let record = json.strip_suffix(b"}").unwrap_or(json);
    let link = link(before, record);
    ([record, BEFORE, link.as_bytes(), AFTER].concat(), link)
}

/// The link that a line passes to the next one.
pub(super) fn link_of(before: &str, line: &[u8]) -> String {
    match split(line) {
        (_, Some(link)) => link.to_owned(),
        (record, None) => link(before, record),
    }
}

fn link(before: &str, record: &[u8]) -> String {
    let mut hash = sha256_hex(&[before.as_bytes(), record].concat());
    hash.truncate(LINK_CHARS);
    hash
}

/// A line's record without its closing brace, and its link.
fn split(line: &[u8]) -> (&[u8], Option<&str>) {
    let plain = line.strip_suffix(b"}\n").unwrap_or(line);
    let linked = || {
        let (rest, link) = line.strip_suffix(AFTER)?.split_last_chunk::<LINK_CHARS>()?;
        Some((rest.strip_suffix(BEFORE)?, as_link(link)?))
    };
    linked().map_or((plain, None), |(record, link)| (record, Some(link)))
}

fn as_link(bytes: &[u8]) -> Option<&str> {
    let is_hex = bytes.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(bytes)
        .ok()
        .filter(|_| is_hex && bytes.len() == LINK_CHARS)
}

/// The links of all whole lines. An unreadable line ends them: the reader reports it.
fn read_links(disk: &dyn Disk, log: &Path) -> DiskResult<Vec<FoundLink>> {
    let failed = |error| DiskError::new(Operation::Read, log, error);
    let mut input = BufReader::with_capacity(64 * 1024, disk.reader(log, 0)?);
    input.skip_until(b'\n').map_err(failed)?;
    let (mut links, mut before) = (Vec::new(), String::new());
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut input).take(LOG_LINE_BYTES_MAX + 1);
        limited.read_until(b'\n', &mut line).map_err(failed)?;
        let (record, own) = split(&line);
        let whole = line.ends_with(b"\n");
        if !whole || own.is_none() && serde_json::from_slice::<IgnoredAny>(&line).is_err() {
            return Ok(links);
        }
        let link = link(&before, record);
        before = own.map_or(link.clone(), str::to_owned);
        let agrees = own.map(|own| own == link);
        links.push(FoundLink { link, agrees });
    }
}

/// The copied links, up to the first that a power cut has damaged.
fn read_copy(disk: &dyn Disk, path: &Path) -> DiskResult<Vec<String>> {
    if disk
        .stat(path)?
        .is_none_or(|found| found.kind != Kind::File)
    {
        return Ok(Vec::new());
    }
    let lines = BufReader::new(disk.reader(path, 0)?).split(b'\n');
    let mut links = Vec::new();
    for line in lines {
        let line = line.map_err(|error| DiskError::new(Operation::Read, path, error))?;
        match as_link(&line) {
            Some(link) => links.push(link.to_owned()),
            None => break,
        }
    }
    Ok(links)
}

fn compare(copied: &[String], links: &[FoundLink]) -> Continuity {
    let numbered = || (1..).zip(links);
    let mut compared = numbered().zip(copied);
    if let Some(((seq, _), _)) = compared.find(|((_, found), copied)| found.link != **copied) {
        return Continuity::Changed { seq };
    }
    if links.len() < copied.len() {
        return Continuity::Cut {
            records: links.len() as u64,
            held: copied.len() as u64,
        };
    }
    // Logs without links may continue with links, but no record loses its own.
    let first = numbered().find(|(_, found)| found.agrees.is_some());
    let chained_from = match (copied.len(), first) {
        (0, None) => return Continuity::Unknown,
        (0, Some((seq, _))) => seq,
        (held, _) => held as u64 + 1,
    };
    let broken =
        |(seq, found): &(u64, &FoundLink)| *seq >= chained_from && found.agrees != Some(true);
    match (numbered().find(broken), copied.is_empty()) {
        (Some((seq, _)), _) => Continuity::Changed { seq },
        (None, true) => Continuity::Unknown,
        (None, false) => Continuity::Same,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log's links after these records; a record that begins with `-` has no link in its line.
    fn links(lines: &[Vec<u8>]) -> Vec<FoundLink> {
        let mut before = String::new();
        let mut found = Vec::new();
        for line in lines {
            let (record, own) = split(line);
            let link = link(&before, record);
            before = own.map_or(link.clone(), str::to_owned);
            let agrees = own.map(|own| own == link);
            found.push(FoundLink { link, agrees });
        }
        found
    }

    fn lines(records: &[&str]) -> Vec<Vec<u8>> {
        let mut before = String::new();
        let write = |record: &&str| {
            let (line, link) = line(&before, format!("{{\"seq\":\"{record}\"}}").as_bytes());
            before = link;
            line
        };
        records.iter().map(write).collect()
    }

    fn copy_of(lines: &[Vec<u8>]) -> Vec<String> {
        links(lines).into_iter().map(|found| found.link).collect()
    }

    fn unchained(mut line: Vec<u8>) -> Vec<u8> {
        let record = split(&line).0.len();
        line.truncate(record);
        line.extend(b"}\n");
        line
    }

    // shows: SEC-08
    #[test]
    fn a_line_stays_json_and_keeps_its_link_at_its_end() {
        let (line, link) = line("", br#"{"seq":1}"#);
        let json: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            (&json["seq"], &json["chain"]),
            (&1.into(), &link.as_str().into())
        );
        assert_eq!(split(&line), (&br#"{"seq":1"#[..], Some(link.as_str())));
        assert_eq!(link_of("", &line), link);
        assert_eq!(
            link_of("", b"{\"seq\":1}\n"),
            link,
            "a log without links may go on with them"
        );
    }

    // shows: SEC-08
    #[test]
    fn a_copy_that_ends_before_the_log_is_normal() {
        let written = lines(&["a", "b", "c"]);
        let copy = copy_of(&written);
        for held in 1..=3 {
            assert_eq!(compare(&copy[..held], &links(&written)), Continuity::Same);
        }
        assert_eq!(compare(&[], &links(&written)), Continuity::Unknown);
        let old: Vec<_> = written.into_iter().map(unchained).collect();
        assert_eq!(compare(&[], &links(&old)), Continuity::Unknown);
    }

    // shows: SEC-08
    #[test]
    fn the_first_record_that_differs_is_found() {
        let written = lines(&["a", "b", "c"]);
        let copy = copy_of(&written);
        let changed = |lines: &[Vec<u8>], held: usize| compare(&copy[..held], &links(lines));
        let mut edited = written.clone();
        edited[1] = String::from_utf8_lossy(&edited[1])
            .replace("\"b\"", "\"x\"")
            .into_bytes();
        for held in 0..=3 {
            assert_eq!(
                changed(&edited, held),
                Continuity::Changed { seq: 2 },
                "{held}"
            );
        }
        // With links that were computed anew only the copy tells.
        let forged = lines(&["a", "x", "c"]);
        assert_eq!(changed(&forged, 3), Continuity::Changed { seq: 2 });
        assert_eq!(changed(&forged, 0), Continuity::Unknown);
        let cut = Continuity::Cut {
            records: 2,
            held: 3,
        };
        assert_eq!(changed(&written[..2], 3), cut);
        let bare: Vec<_> = written.iter().cloned().map(unchained).collect();
        assert_eq!(changed(&bare, 2), Continuity::Changed { seq: 3 });
        // Who accepts a log as it is copies what follows from it.
        let accepted = copy_of(&edited);
        assert_eq!(compare(&accepted, &links(&edited)), Continuity::Same);
    }
}
