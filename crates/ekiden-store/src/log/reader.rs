//! Reading a log as a stream, also while it is being written.

use std::io::{BufRead, BufReader, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeOwned, IgnoredAny};

use super::{LogError, Numbered};
use crate::disk::{Disk, DiskError, Operation};
use crate::format::{self, Access, FormatError};
use crate::limits::LOG_LINE_BYTES_MAX;

/// Reads the records of a log, one after the other, with one line in memory.
///
/// A torn last line, which may also be one that is just being written, ends the records without an
/// error and is told by [`LogReader::tail`]. After an error there is nothing more.
pub struct LogReader<R> {
    path: PathBuf,
    input: BufReader<Box<dyn Read + Send>>,
    access: Access,
    line: u64,
    next_seq: u64,
    tail: Tail,
    ended: bool,
    record: PhantomData<fn() -> R>,
}

/// How a log ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tail {
    /// The bytes up to the end of the last whole line.
    pub whole_bytes: u64,
    /// The bytes of a torn last line.
    pub torn_bytes: u64,
}

/// Opens a log to read its records. The header is checked at once.
pub fn read_log<R: DeserializeOwned + Numbered>(
    disk: &dyn Disk,
    path: &Path,
) -> Result<LogReader<R>, LogError> {
    let reader = disk.reader(path, 0).map_err(LogError::disk(path))?;
    let mut log = LogReader {
        path: path.to_owned(),
        input: BufReader::with_capacity(64 * 1024, reader),
        access: Access::ReadOnly,
        line: 0,
        next_seq: 1,
        tail: Tail::default(),
        ended: false,
        record: PhantomData,
    };
    log.read_header()?;
    Ok(log)
}

/// The first record of a log as it stands: its header is passed over, whatever it says.
pub(crate) fn glance(disk: &dyn Disk, path: &Path) -> Option<serde_json::Value> {
    let mut input = BufReader::new(disk.reader(path, 0).ok()?.take(LOG_LINE_BYTES_MAX));
    input.skip_until(b'\n').ok()?;
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

impl<R> LogReader<R> {
    /// What may be done with this log.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// How the log ends, as far as it was read.
    #[must_use]
    pub fn tail(&self) -> Tail {
        self.tail
    }

    /// The number of the record that comes next.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    fn read_header(&mut self) -> Result<(), LogError> {
        let line = self.read_line()?;
        if !line.ends_with(b"\n") {
            // A log appears with its whole header, so this is something else.
            return Err(FormatError::NotOurs { path: self.path.clone(), expected: format::LOG.name }.into());
        }
        self.access = format::LOG.check_line(&self.path, &line)?;
        self.tail.whole_bytes = line.len() as u64;
        Ok(())
    }

    fn read_line(&mut self) -> Result<Vec<u8>, LogError> {
        self.line += 1;
        let mut line = Vec::new();
        (&mut self.input)
            .take(LOG_LINE_BYTES_MAX + 1)
            .read_until(b'\n', &mut line)
            .map_err(|error| self.failed(error))?;
        if line.len() as u64 > LOG_LINE_BYTES_MAX {
            return Err(LogError::LineTooLong { path: self.path.clone(), line: self.line });
        }
        Ok(line)
    }

    fn at_end(&mut self) -> Result<bool, LogError> {
        match self.input.fill_buf() {
            Ok(rest) => Ok(rest.is_empty()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: std::io::Error) -> LogError {
        let source = DiskError::new(Operation::Read, &self.path, error);
        LogError::Disk { path: self.path.clone(), source }
    }
}

impl<R: DeserializeOwned + Numbered> LogReader<R> {
    fn read_record(&mut self) -> Result<Option<R>, LogError> {
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
            Err(source) => {
                return Err(LogError::BadLine { path: self.path.clone(), line: self.line, source });
            }
        };
        self.count(&record)?;
        self.tail.whole_bytes += line.len() as u64;
        Ok(Some(record))
    }

    fn count(&mut self, record: &R) -> Result<(), LogError> {
        let (expected, found) = (self.next_seq, record.seq());
        if found != expected {
            return Err(LogError::OutOfOrder { path: self.path.clone(), line: self.line, expected, found });
        }
        self.next_seq += 1;
        Ok(())
    }
}

impl<R: DeserializeOwned + Numbered> Iterator for LogReader<R> {
    type Item = Result<R, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_record();
        self.ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

/// A line that is not even JSON. One that is JSON was written whole, by whatever version.
fn is_torn(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_err()
}
