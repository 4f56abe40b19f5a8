//! Files that grow while something runs: event streams, output of verifications.
//!
//! They are gathered and written in large pieces, and never synced: nothing is decided by them. A
//! crash may lose or tear their end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Cause, Disk, DiskError, DiskResult, Operation, Reach};
use crate::limits::{STREAM_BUFFER_BYTES, STREAM_BYTES_MAX};

/// A file that is only added to.
///
/// Dropping it writes what it has gathered; an error then goes unheard, so call
/// [`StreamWriter::flush`] at the end.
#[derive(Debug)]
pub struct StreamWriter {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Nothing where there is no file yet: it is made with the first bytes.
    len: Option<u64>,
    gathered: Vec<u8>,
}

impl StreamWriter {
    /// Goes on at the file's end. A file that is missing is made with the first bytes.
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> DiskResult<Self> {
        let len = disk.stat(path)?.map(|found| found.len);
        Ok(Self { disk, path: path.to_owned(), len, gathered: Vec::new() })
    }

    /// Adds bytes. An error concerns what was gathered before, too; it is dropped, and the stream
    /// can go on behind the gap. A stream that is as long as it may be takes no more.
    pub fn write(&mut self, bytes: &[u8]) -> DiskResult<()> {
        let len = self.len.unwrap_or(0) + (self.gathered.len() + bytes.len()) as u64;
        if len > STREAM_BYTES_MAX {
            let cause = Cause::TooLarge { bytes: len, bytes_max: STREAM_BYTES_MAX };
            return Err(DiskError::new(Operation::Append, &self.path, cause));
        }
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() < STREAM_BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes what was gathered, so that readers see it.
    pub fn flush(&mut self) -> DiskResult<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let written = match self.len {
            Some(len) => self.disk.append(&self.path, len, &self.gathered, Reach::Cache),
            None => self.disk.create_file(&self.path, &self.gathered, Reach::Cache),
        };
        if written.is_ok() {
            self.len = Some(self.len.unwrap_or(0) + self.gathered.len() as u64);
        } else if let Ok(found) = self.disk.stat(&self.path) {
            // Some of it may be in the file.
            self.len = found.map(|found| found.len);
        }
        self.gathered.clear();
        written
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        // Nobody is left to be told.
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Fault, SimDisk};

    const PATH: &str = "/run/events.jsonl";

    fn stream() -> (Arc<SimDisk>, StreamWriter) {
        let disk = Arc::new(SimDisk::new());
        disk.plant_dir(Path::new("/run"));
        let stream = StreamWriter::open(disk.clone(), Path::new(PATH)).unwrap();
        (disk, stream)
    }

    #[test]
    fn bytes_are_gathered_and_go_on_at_the_end() {
        let (disk, mut stream) = stream();
        let ops = disk.ops();
        for _ in 0..1000 {
            stream.write(b"line\n").unwrap();
        }
        assert_eq!(disk.ops(), ops, "gathered");
        drop(stream);
        let mut again = StreamWriter::open(disk.clone(), Path::new(PATH)).unwrap();
        again.write(b"more\n").unwrap();
        again.flush().unwrap();
        let content = disk.read(Path::new(PATH), 1 << 20).unwrap();
        assert_eq!(content, [b"line\n".repeat(1000), b"more\n".to_vec()].concat());
        assert_eq!(disk.syncs(), 0);
    }

    // shows: AGT-08
    #[test]
    fn a_stream_ends_before_it_fills_the_disk() {
        let (disk, mut stream) = stream();
        let piece = vec![b'x'; usize::try_from(STREAM_BYTES_MAX / 8).unwrap()];
        for _ in 0..8 {
            stream.write(&piece).unwrap();
        }
        assert_eq!(
            stream.write(b"y").unwrap_err().cause.to_string(),
            "it has 67108865 bytes; at most 67108864 may be"
        );
        drop(stream);
        assert_eq!(disk.stat(Path::new(PATH)).unwrap().unwrap().len, STREAM_BYTES_MAX);
    }

    #[test]
    fn after_a_failure_the_stream_goes_on_behind_the_gap() {
        let (disk, mut stream) = stream();
        let mut write = |bytes| stream.write(bytes).and_then(|()| stream.flush());
        write(b"12").unwrap();
        disk.fail_at(disk.ops(), Fault::DiskFull);
        write(b"abcd").unwrap_err();
        write(b"efgh").unwrap();
        assert_eq!(disk.read(Path::new(PATH), 100).unwrap(), b"12abefgh");
    }

    #[test]
    fn a_stream_that_could_not_be_made_is_made_with_the_next_bytes() {
        let (disk, mut stream) = stream();
        let mut write = |bytes| stream.write(bytes).and_then(|()| stream.flush());
        disk.fail_at(disk.ops(), Fault::DiskFull);
        write(b"abcd").unwrap_err();
        write(b"efgh").unwrap();
        assert_eq!(disk.read(Path::new(PATH), 100).unwrap(), b"efgh");
    }
}
