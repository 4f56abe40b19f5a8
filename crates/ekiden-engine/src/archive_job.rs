//! Keeping an attempt's texts: work for a task, since it waits for the disk.

use std::path::PathBuf;

use ekiden_store::archive::{ArchiveError, NewFile, archive_dir};
use ekiden_store::disk::Disk;

/// The texts of one attempt, to be archived.
#[derive(Debug)]
pub struct ArchiveJob {
    /// The session's directory.
    pub(crate) dir: PathBuf,
    /// Names and texts.
    pub(crate) files: Vec<(String, String)>,
}

impl ArchiveJob {
    /// Writes them, durably. The same texts again are done; other texts are an error.
    ///
    /// # Errors
    ///
    /// If the disk refuses, or something else stands in their place.
    pub fn run(&self, disk: &dyn Disk) -> Result<(), ArchiveError> {
        let files: Vec<NewFile<'_>> =
            self.files.iter().map(|(name, text)| NewFile { name, bytes: text.as_bytes() }).collect();
        archive_dir(disk, &self.dir, &files)
    }
}
