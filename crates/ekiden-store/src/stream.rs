//! Files that grow while something runs: event streams.
//!
//! Each piece is written at once, so readers see it. It is never synced, because no decision depends on it: a
//! crash may lose the end or cut it in the middle of a line.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Cause, Disk, DiskError, DiskResult, Operation, Reach};
use crate::limits::STREAM_BYTES_MAX;

/// A file that is only appended to.
#[derive(Debug)]
pub struct StreamWriter {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// None if there is no file yet: the first bytes create it.
    len: Option<u64>,
}

impl StreamWriter {
    /// Continues at the end of the file, on a new line. The first bytes create a missing file.
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> DiskResult<Self> {
        let len = disk.stat(path)?.map(|found| found.len);
        let path = path.to_owned();
        let mut stream = Self { disk, path, len };
        if let Some(last) = len.unwrap_or(0).checked_sub(1) {
            let mut end = *b"\n";
            let read = stream.disk.reader(&stream.path, last)?.read(&mut end);
            if read.is_ok() && end != *b"\n" {
                // A full stream takes no more, as the next write says.
                let _ = stream.write(b"\n");
            }
        }
        Ok(stream)
    }

    /// Appends bytes. After an error the stream continues behind the gap. A stream at its maximum length takes
    /// no more.
    pub fn write(&mut self, bytes: &[u8]) -> DiskResult<()> {
        let len = self.len.unwrap_or(0) + bytes.len() as u64;
        if len > STREAM_BYTES_MAX {
            let cause = Cause::TooLarge {
                bytes: len,
                bytes_max: STREAM_BYTES_MAX,
            };
            return Err(DiskError::new(Operation::Append, &self.path, cause));
        }
        let written = match self.len {
            Some(end) => self.disk.append(&self.path, end, bytes, Reach::Cache),
            None => self.disk.create_file(&self.path, bytes, Reach::Cache),
        };
        if written.is_ok() {
            self.len = Some(len);
        } else if let Ok(found) = self.disk.stat(&self.path) {
            // Some of it may be in the file.
            self.len = found.map(|found| found.len);
        }
        written
    }
}
