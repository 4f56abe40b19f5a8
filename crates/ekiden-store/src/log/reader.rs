//! Reads a log as a stream, even while it is being written.

use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, IgnoredAny};

use super::{Numbered, chain};
use crate::disk::{Disk, DiskError, Operation};
use crate::error::{FileFault, StoreError};
use crate::format::{self, Access};
use crate::limits::LOG_LINE_BYTES_MAX;

const BUFFER_BYTES: usize = 64 * 1024;

/// Reads the records of a log, one after the other, with one line in memory.
///
/// A torn last line, which may also be one that is just being written, ends the records without an
/// error. After an error the reader returns nothing more.
pub struct LogReader<R> {
    path: PathBuf,
    input: BufReader<Box<dyn Read + Send>>,
    pub(super) access: Access,
    line: u64,
    pub(super) next_seq: u64,
    /// The link before the next record.
    pub(super) link: String,
    /// How the log ends, as far as it was read.
    pub(super) tail: Tail,
    ended: bool,
    /// It ended with an error.
    failed: bool,
    record: PhantomData<fn() -> R>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tail {
    /// The bytes up to the end of the last whole line.
    pub whole_bytes: u64,
    /// The bytes of a torn last line.
    pub torn_bytes: u64,
}

/// Opens a log to read its records. Checks the header at once.
pub fn read_log<R: DeserializeOwned + Numbered>(
    disk: &dyn Disk,
    path: &Path,
) -> Result<LogReader<R>, StoreError> {
    let reader = disk.reader(path, 0)?;
    let mut log = LogReader {
        path: path.to_owned(),
        input: BufReader::with_capacity(BUFFER_BYTES, reader),
        access: Access::ReadOnly,
        line: 0,
        next_seq: 1,
        link: String::new(),
        tail: Tail::default(),
        ended: false,
        failed: false,
        record: PhantomData,
    };
    log.read_header()?;
    Ok(log)
}

/// The first record of a log of any version: the header is skipped.
pub(crate) fn glance(disk: &dyn Disk, path: &Path) -> Option<serde_json::Value> {
    let mut input = BufReader::new(disk.reader(path, 0).ok()?.take(LOG_LINE_BYTES_MAX));
    input.skip_until(b'\n').ok()?;
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

impl<R> LogReader<R> {
    /// Continues after the last whole record, if the log may have grown since it ended. After an error there is
    /// still nothing more.
    pub fn go_on(&mut self, disk: &dyn Disk) -> Result<(), StoreError> {
        if self.ended && !self.failed {
            let reader = disk.reader(&self.path, self.tail.whole_bytes)?;
            self.input = BufReader::with_capacity(BUFFER_BYTES, reader);
            self.ended = false;
            // The line that ended the records was counted.
            self.line -= 1;
        }
        Ok(())
    }

    fn read_header(&mut self) -> Result<(), StoreError> {
        let line = self.read_line()?;
        if !line.ends_with(b"\n") {
            // A log appears with its whole header, so this is something else.
            return Err(format::LOG.not_ours(&self.path));
        }
        self.access = format::LOG.check_line(&self.path, &line)?;
        self.tail.whole_bytes = line.len() as u64;
        Ok(())
    }

    fn read_line(&mut self) -> Result<Vec<u8>, StoreError> {
        self.line += 1;
        let mut line = Vec::new();
        (&mut self.input)
            .take(LOG_LINE_BYTES_MAX + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| self.failed(error))?;
        if line.len() as u64 > LOG_LINE_BYTES_MAX {
            let line = self.line;
            return Err(self.fault(FileFault::LineTooLong { line }));
        }
        Ok(line)
    }

    fn at_end(&mut self) -> Result<bool, StoreError> {
        match self.input.fill_buf() {
            Ok(rest) => Ok(rest.is_empty()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: std::io::Error) -> StoreError {
        DiskError::new(Operation::Read, &self.path, error).into()
    }

    fn fault(&self, fault: FileFault) -> StoreError {
        StoreError::file("read the log", &self.path, fault)
    }
}

impl<R: DeserializeOwned + Numbered> LogReader<R> {
    fn read_record(&mut self) -> Result<Option<R>, StoreError> {
        let line = self.read_line()?;
        if !line.ends_with(b"\n") {
            self.tail.torn_bytes = line.len() as u64;
            return Ok(None);
        }
        let record = match serde_json::from_slice::<R>(&line) {
            Ok(record) => record,
            Err(_) if is_torn(&line) && self.at_end()? => {
                self.tail.torn_bytes = line.len() as u64;
                return Ok(None);
            }
            Err(error) => {
                let (line, why) = (self.line, error.to_string());
                // It names a line too: that of the record, which is always 1.
                let why = why.split(" at line ").next().unwrap_or_default().to_owned();
                return Err(self.fault(FileFault::BadLine { line, why }));
            }
        };
        self.count(&record)?;
        self.link = chain::link_of(&self.link, &line);
        self.tail.whole_bytes += line.len() as u64;
        Ok(Some(record))
    }

    fn count(&mut self, record: &R) -> Result<(), StoreError> {
        let (expected, found) = (self.next_seq, record.seq());
        if found != expected {
            return Err(self.fault(FileFault::OutOfOrder {
                line: self.line,
                expected,
                found,
            }));
        }
        self.next_seq += 1;
        Ok(())
    }
}

impl<R: DeserializeOwned + Numbered> Iterator for LogReader<R> {
    type Item = Result<R, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_record();
        self.ended = !matches!(next, Ok(Some(_)));
        self.failed = next.is_err();
        next.transpose()
    }
}

/// A line that is not even JSON. A line that is JSON was written whole, by whatever version.
fn is_torn(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_err()
}
