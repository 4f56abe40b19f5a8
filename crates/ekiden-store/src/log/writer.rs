//! Writes a log.

use std::fmt;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::chain::{self, LinkCopy};
use super::{Numbered, Tail, read_log};
use crate::disk::{Disk, DiskError, Operation, Reach, parent};
use crate::error::{FileFault, StoreError};
use crate::format;
use crate::limits::LOG_LINE_BYTES_MAX;
use crate::replace::{Durability, replace};

/// The writer of a log: the run's lock allows only one at a time.
///
/// Dropping it loses nothing, since it buffers nothing.
pub struct LogWriter<R> {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    len: u64,
    next_seq: u64,
    /// The link of the last record.
    link: String,
    /// Where links are copied. None once that failed: a copy may end early.
    copy: Option<LinkCopy>,
    broken: bool,
    record: PhantomData<fn(R)>,
}

impl<R> fmt::Debug for LogWriter<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter")
            .field("path", &self.path)
            .field("next_seq", &self.next_seq)
            .finish()
    }
}

impl<R> LogWriter<R> {
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Copies each new link to this file, which already holds those of all earlier records.
    pub(crate) fn copying_links(self, copy: Option<PathBuf>) -> Self {
        let copy = copy.map(|path| LinkCopy::new(Arc::clone(&self.disk), path));
        Self { copy, ..self }
    }

    pub fn copies_links(&self) -> bool {
        self.copy.is_some()
    }

    fn at(disk: Arc<dyn Disk>, path: &Path, len: u64, next_seq: u64, link: String) -> Self {
        Self {
            disk,
            path: path.to_owned(),
            len,
            next_seq,
            link,
            copy: None,
            broken: false,
            record: PhantomData,
        }
    }
}

impl<R: DeserializeOwned + Numbered> LogWriter<R> {
    /// Reads a log to its end, showing each record, cuts off a torn last line, and continues from
    /// there. A crash left that line; nothing was done because of it. Everything shown is durable only when the
    /// call returns.
    pub fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        mut show: impl FnMut(R),
    ) -> Result<Self, StoreError> {
        let mut reader = read_log::<R>(&*disk, path)?;
        reader.access.to_write(path)?;
        for record in &mut reader {
            show(record?);
        }
        let (tail, next_seq, link) = (reader.tail, reader.next_seq, reader.link);
        settle(&*disk, path, tail)?;
        Ok(Self::at(disk, path, tail.whole_bytes, next_seq, link))
    }
}

impl<R: Serialize + Numbered> LogWriter<R> {
    /// Makes a log with its first record. Its directory must exist and be durable.
    ///
    /// The file appears whole, with header and record, and is durable when the call returns: a log
    /// without a record never exists. An existing log is an error.
    ///
    /// The links also go to `copy`, the first one before the log exists: a process that dies leaves no log
    /// without a copy.
    pub fn create(
        disk: Arc<dyn Disk>,
        path: &Path,
        copy: Option<PathBuf>,
        first: &R,
    ) -> Result<Self, StoreError> {
        assert_eq!(first.seq(), 1, "the first record is number 1");
        if disk.stat(path)?.is_some() {
            let exists = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
            return Err(DiskError::new(Operation::Create, path, exists).into());
        }
        let mut bytes = format::LOG.line().into_bytes();
        let (line, link) = encode(path, "", first)?;
        bytes.extend(line);
        let copy = copy.map(|path| LinkCopy::new(Arc::clone(&disk), path));
        let copy = copy.filter(|copy| copy.begin(&link).is_ok());
        replace(&*disk, path, &bytes, Durability::Full)?;
        let len = bytes.len() as u64;
        Ok(Self {
            copy,
            ..Self::at(disk, path, len, 2, link)
        })
    }

    /// Adds a record, whose number must be [`LogWriter::next_seq`]: otherwise it panics. The record is on the disk when the
    /// call returns. One sync.
    ///
    /// After an error the record may be in the log or not. The writer then refuses every further
    /// record, and the next [`LogWriter::open`] finds out.
    pub fn append(&mut self, record: &R) -> Result<(), StoreError> {
        assert_eq!(
            record.seq(),
            self.next_seq,
            "records are numbered without a gap"
        );
        if self.broken {
            return Err(self.fault(FileFault::Broken));
        }
        let (line, link) = encode(&self.path, &self.link, record)?;
        let bytes = line.len() as u64;
        if bytes > LOG_LINE_BYTES_MAX {
            let line = self.next_seq + 1;
            return Err(self.fault(FileFault::LineTooLong { line }));
        }
        if let Err(error) = self.disk.append(&self.path, self.len, &line, Reach::Disk) {
            self.broken = true;
            return Err(error.into());
        }
        let copied = |copy: &LinkCopy| copy.add(record.seq(), &link).is_ok();
        self.copy = self.copy.take().filter(copied);
        self.len += bytes;
        self.next_seq += 1;
        self.link = link;
        Ok(())
    }

    fn fault(&self, fault: FileFault) -> StoreError {
        StoreError::file("continue the log", &self.path, fault)
    }
}

/// JSON has no raw newlines, so a record is one line. Returns the line and its link.
fn encode<R: Serialize>(
    path: &Path,
    before: &str,
    record: &R,
) -> Result<(Vec<u8>, String), StoreError> {
    let json = serde_json::to_vec(record).map_err(FileFault::NoJson);
    let json = json.map_err(|fault| StoreError::file("write a record to", path, fault))?;
    Ok(chain::line(before, &json))
}

/// Makes the bytes that were read durable, and the name of their file.
fn settle(disk: &dyn Disk, path: &Path, tail: Tail) -> Result<(), DiskError> {
    if tail.torn_bytes > 0 {
        disk.truncate(path, tail.whole_bytes)?;
    } else {
        disk.sync_file(path)?;
    }
    disk.sync_dir(parent(path))
}
