//! Writing a log.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{LogError, Numbered, Tail, read_log};
use crate::disk::{Disk, DiskError, Operation, Reach, parent};
use crate::format;
use crate::limits::LOG_LINE_BYTES_MAX;
use crate::replace::{Durability, replace};

/// The writer of a log: the one at a time that its run's lock allows.
///
/// If it is dropped nothing is lost, since there is nothing that it holds back.
pub struct LogWriter<R> {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    len: u64,
    next_seq: u64,
    broken: bool,
    record: PhantomData<fn(R)>,
}

/// What was found when a log was opened to go on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The records that it holds.
    pub records: u64,
    /// The bytes of a torn last line that were cut off. A crash left them; nobody was told of them.
    pub torn_bytes: u64,
}

impl<R> fmt::Debug for LogWriter<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter").field("path", &self.path).field("next_seq", &self.next_seq).finish()
    }
}

impl<R> LogWriter<R> {
    /// The number that the next record must have.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    fn at(disk: Arc<dyn Disk>, path: &Path, len: u64, next_seq: u64) -> Self {
        Self { disk, path: path.to_owned(), len, next_seq, broken: false, record: PhantomData }
    }
}

impl<R: DeserializeOwned + Numbered> LogWriter<R> {
    /// Reads a log to its end, showing each record, cuts off a torn last line, and goes on from
    /// there. Everything that was shown is durable when the call returns, and not before.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        mut show: impl FnMut(R),
    ) -> Result<(Self, Opened), LogError> {
        let mut reader = read_log::<R>(&*disk, path)?;
        reader.access().to_write(path)?;
        for record in &mut reader {
            show(record?);
        }
        let (tail, next_seq) = (reader.tail(), reader.next_seq());
        settle(&*disk, path, tail).map_err(LogError::disk(path))?;
        let opened = Opened { records: next_seq - 1, torn_bytes: tail.torn_bytes };
        Ok((Self::at(disk, path, tail.whole_bytes, next_seq), opened))
    }
}

impl<R: Serialize + Numbered> LogWriter<R> {
    /// Makes a log with its first record. Its directory must exist and be durable.
    ///
    /// The file appears whole, with header and record, and is durable when the call returns: a log
    /// without a record never exists. A log that exists is an error.
    pub fn create(disk: Arc<dyn Disk>, path: &Path, first: &R) -> Result<Self, LogError> {
        assert_eq!(first.seq(), 1, "the first record is number 1");
        let failed = LogError::disk(path);
        match disk.stat(path) {
            Ok(None) => {}
            Ok(Some(_)) => {
                let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
                return Err(failed(DiskError::new(Operation::Create, path, exists)));
            }
            Err(error) => return Err(failed(error)),
        }
        let mut bytes = format::LOG.line().into_bytes();
        bytes.extend(encode(first)?);
        replace(&*disk, path, &bytes, Durability::Full).map_err(failed)?;
        Ok(Self::at(disk, path, bytes.len() as u64, 2))
    }

    /// Adds a record. It is on the disk when the call returns. One sync.
    ///
    /// After an error the record may be in the log or not; the writer then refuses every further
    /// record, and the next [`LogWriter::open`] finds out.
    ///
    /// # Panics
    ///
    /// If the record does not have [`LogWriter::next_seq`] as its number.
    pub fn append(&mut self, record: &R) -> Result<(), LogError> {
        assert_eq!(record.seq(), self.next_seq, "records are numbered without a gap");
        if self.broken {
            return Err(LogError::Broken { path: self.path.clone() });
        }
        let line = encode(record)?;
        let bytes = line.len() as u64;
        if bytes > LOG_LINE_BYTES_MAX {
            return Err(LogError::LineTooLong { path: self.path.clone(), line: self.next_seq + 1 });
        }
        if let Err(error) = self.disk.append(&self.path, self.len, &line, Reach::Disk) {
            self.broken = true;
            return Err(LogError::disk(&self.path)(error));
        }
        self.len += bytes;
        self.next_seq += 1;
        Ok(())
    }
}

/// JSON has no raw newlines, so a record is one line.
fn encode<R: Serialize + Numbered>(record: &R) -> Result<Vec<u8>, LogError> {
    let mut line =
        serde_json::to_vec(record).map_err(|source| LogError::Encode { seq: record.seq(), source })?;
    line.push(b'\n');
    Ok(line)
}

/// Makes durable what was read: the bytes, and the name that they were found under.
fn settle(disk: &dyn Disk, path: &Path, tail: Tail) -> Result<(), DiskError> {
    if tail.torn_bytes > 0 {
        disk.truncate(path, tail.whole_bytes)?;
    } else {
        disk.sync_file(path)?;
    }
    disk.sync_dir(parent(path))
}
