//! Files that grow while something runs: event streams, output of verifications.
//!
//! They are gathered and written in large pieces, and never synced: nothing is decided by them. A
//! crash may lose or tear their end.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskResult, Reach};
use crate::limits::STREAM_BUFFER_BYTES;

/// A file that is only added to.
///
/// Dropping it writes what it has gathered; an error then goes unheard, so call
/// [`StreamWriter::flush`] at the end.
#[derive(Debug)]
pub struct StreamWriter {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    len: u64,
    gathered: Vec<u8>,
}

impl StreamWriter {
    /// Makes the file, or goes on at its end.
    pub fn open(disk: Arc<dyn Disk>, path: &Path) -> DiskResult<Self> {
        let len = match disk.stat(path)? {
            Some(found) => found.len,
            None => disk.create_file(path, b"", Reach::Cache).map(|()| 0)?,
        };
        Ok(Self { disk, path: path.to_owned(), len, gathered: Vec::new() })
    }

    /// Adds bytes. An error concerns what was gathered before, too; it is dropped, and the stream
    /// can go on behind the gap.
    pub fn write(&mut self, bytes: &[u8]) -> DiskResult<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() < STREAM_BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes what was gathered, so that readers see it.
    pub fn flush(&mut self) -> DiskResult<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let written = self.disk.append(&self.path, self.len, &self.gathered, Reach::Cache);
        if written.is_ok() {
            self.len += self.gathered.len() as u64;
        } else if let Ok(Some(found)) = self.disk.stat(&self.path) {
            // Some of it may be in the file.
            self.len = found.len;
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

    #[test]
    fn after_a_failure_the_stream_goes_on_behind_the_gap() {
        let (disk, mut stream) = stream();
        disk.fail_at(disk.ops(), Fault::DiskFull);
        stream.write(b"abcd").unwrap();
        stream.flush().unwrap_err();
        stream.write(b"efgh").unwrap();
        stream.flush().unwrap();
        assert_eq!(disk.read(Path::new(PATH), 100).unwrap(), b"abefgh");
    }
}
