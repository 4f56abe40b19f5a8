//! What is in a file: a hash of its content, and one of its substance.

use std::fs;
use std::io;
use std::path::Path;

use ekiden_core::hash::sha256_hex;
use ekiden_core::judge::without_times;

/// Larger files are compared without reading them: a file that holds only the time is small.
pub(super) const READ_BYTES_MAX: u64 = 256 * 1024;

/// The hashes of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) whole: String,
    /// A hash without dates and times, if it has any.
    pub(super) substance: Option<String>,
}

impl Content {
    /// Reads a small regular file; none for any other.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let metadata = fs::symlink_metadata(path)?;
        if !metadata.is_file() || metadata.len() > READ_BYTES_MAX {
            return Ok(None);
        }
        let bytes = fs::read(path)?;
        let timeless = str::from_utf8(&bytes).ok().and_then(without_times);
        let substance = timeless.map(|text| sha256_hex(text.as_bytes()));
        Ok(Some(Self {
            whole: sha256_hex(&bytes),
            substance,
        }))
    }
}
