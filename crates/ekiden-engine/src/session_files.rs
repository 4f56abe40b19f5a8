//! The files that a process at work on a session holds open: the stage's lock and the event stream.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::ids::{RunId, SessionNumber, StageId};
use ekiden_store::disk::{Disk, DiskError, DiskResult};
use ekiden_store::lock::{AttemptLock, LockError};
use ekiden_store::stream::StreamWriter;

use crate::error::in_full;
use crate::places::Places;

/// The files of a session that a process needs open.
#[derive(Debug, Clone)]
pub(crate) struct SessionFiles {
    run: RunId,
    disk: Arc<dyn Disk>,
    places: Places,
}

impl SessionFiles {
    /// The files of one run's sessions.
    #[must_use]
    pub(crate) fn new(run: RunId, disk: Arc<dyn Disk>, places: Places) -> Self {
        Self { run, disk, places }
    }

    /// The run.
    #[must_use]
    pub(crate) fn run(&self) -> &RunId {
        &self.run
    }

    /// Where each stage works.
    #[must_use]
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Where the agent writes its handoff.
    #[must_use]
    pub(crate) fn handoff_dir(&self, stage: &StageId) -> PathBuf {
        self.places.published(stage).handoff()
    }

    /// The standing text.
    #[must_use]
    pub(crate) fn protocol(&self, stage: &StageId) -> PathBuf {
        self.places.relay(stage).protocol()
    }

    /// The session's prompt as it was archived.
    pub(crate) fn prompt(&self, stage: &StageId, session: SessionNumber) -> PathBuf {
        self.places.relay(stage).session(session).prompt()
    }

    /// The attempt's lock, taken. The keepers get it.
    ///
    /// # Errors
    ///
    /// If something of an earlier attempt still lives, or the disk refuses.
    pub(crate) fn lock(&self, stage: &StageId) -> Result<Option<File>, LockError> {
        Ok(AttemptLock::take(&self.places.relay(stage).attempt_lock())?.into_file())
    }

    /// The end of the raw event stream, to go on writing it.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub(crate) fn raw_stream(
        &self,
        stage: &StageId,
        session: SessionNumber,
    ) -> DiskResult<Box<dyn Write + Send>> {
        let path = self.places.relay(stage).session(session).events();
        raw_stream(Arc::clone(&self.disk), &path)
    }
}

/// The end of a raw event stream, to go on writing it.
///
/// # Errors
///
/// If the disk refuses.
pub(crate) fn raw_stream(disk: Arc<dyn Disk>, path: &Path) -> DiskResult<Box<dyn Write + Send>> {
    Ok(Box::new(RawStream(StreamWriter::open(disk, path)?)))
}

/// A stream whose every piece is written at once: after a crash it tells what the agent did last.
struct RawStream(StreamWriter);

impl Write for RawStream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes).map_err(|error| told_in_full(&error))?;
        self.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush().map_err(|error| told_in_full(&error))
    }
}

/// Whoever writes the stream shows one line of why it cannot.
fn told_in_full(error: &DiskError) -> std::io::Error {
    std::io::Error::other(in_full(error))
}
