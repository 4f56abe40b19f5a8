//! The published knowledge as a person reads and edits it.
//!
//! A person's words stand, but only where nobody else is about to write there: while a session runs, its
//! agent reads the file and its handoff will be merged into it. So it is open while a run waits, is
//! paused or has ended, and what is written then is taken over as `KnowledgeEdited` when the run goes on.

use std::path::PathBuf;

use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::{RunId, SessionNumber};
use ekiden_core::relay::{Phase, Relay};
use ekiden_store::disk::{Disk, DiskError, RealDisk};
use ekiden_store::layout::Published;
use ekiden_store::published::publish;
use ekiden_store::replace::{Durability, replace};

use crate::desk::TEXT_BYTES_MAX;
use crate::error::EngineError;
use crate::history;
use crate::workspace::Workspace;

/// What lies beside the published file while it is edited.
const COPY: &str = "KNOWLEDGE.edit.md";

/// The knowledge of one run.
#[derive(Debug)]
pub struct KnowledgeFile {
    /// The run.
    pub run: RunId,
    /// Its text: what a person wrote since the run last did something, else what the run knows.
    pub text: String,
    /// Facts that were corrected, and are kept in the log alone.
    pub corrected: usize,
    /// Why nobody may edit it now.
    pub closed: Option<Closed>,
    disk: RealDisk,
    published: Published,
}

/// Why knowledge cannot be edited now. Reads well after "since".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// A session of it is at work.
    #[error("session {session} is at work")]
    Working {
        /// Which.
        session: SessionNumber,
    },
    /// Its engine died before it had done all that was decided.
    #[error("the run was interrupted in session {session}")]
    Interrupted {
        /// Where.
        session: SessionNumber,
    },
    /// Its stages share what they know, each for itself.
    #[error("the run is a plan, whose stages share what they learn")]
    Plan,
    /// A newer run has published its own.
    #[error("a newer run has its own")]
    Older,
}

/// An edit cannot be taken over. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file is another than the one that was opened.
    #[error("take over the edit: KNOWLEDGE.md has changed meanwhile")]
    Changed,
    /// What was edited is no text.
    #[error("read {} as text", path.display())]
    NotText {
        /// The copy.
        path: PathBuf,
    },
    /// The disk refuses.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl KnowledgeFile {
    /// Looks at the knowledge of a run; writes nothing.
    ///
    /// # Errors
    ///
    /// If the run cannot be read.
    pub fn open(workspace: &Workspace, run: &RunId) -> Result<Self, EngineError> {
        let (newest, _) = history::find(workspace, None)?;
        let summary = history::read(workspace, run, |_, _| {})?;
        let holder = history::holder(workspace).and_then(|holder| holder.run);
        let relays = || summary.run.relays().map(|(_, relay)| relay);
        let held = holder.as_ref() == Some(run);
        let is_plan = summary.run.header().manifest.plan.is_some();
        let closed = match relays().next() {
            _ if newest != *run => Some(Closed::Older),
            _ if is_plan => Some(Closed::Plan),
            Some(relay) if held || summary.is_settled => closed(relay, held),
            Some(relay) => Some(Closed::Interrupted { session: relay.session() }),
            None => None,
        };
        let mut file = Self {
            run: run.clone(),
            text: match is_plan {
                true => summary.run.shared_knowledge().render(),
                false => relays().map(|relay| relay.knowledge().render()).collect(),
            },
            corrected: relays().map(|relay| relay.knowledge().archived.len()).sum(),
            closed,
            disk: RealDisk::fenced(&workspace.dir),
            published: Published::new(&workspace.dir),
        };
        if let Some(text) = file.published_text().filter(|_| file.closed.is_none()) {
            file.text = text;
        }
        Ok(file)
    }

    /// Makes a copy for an editor and gives its path. One that was left from an edit that could not be
    /// taken over is kept: the second value says so.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn copy(&self) -> Result<(PathBuf, bool), EditError> {
        let path = self.published.dir().join(COPY);
        if self.disk.stat(&path)?.is_some() {
            return Ok((path, true));
        }
        replace(&self.disk, &path, self.text.as_bytes(), Durability::Derived)?;
        Ok((path, false))
    }

    /// What the copy says now.
    ///
    /// # Errors
    ///
    /// If it is not there, too large, or no text.
    pub fn edited(&self) -> Result<String, EditError> {
        let path = self.published.dir().join(COPY);
        let bytes = self.disk.read(&path, TEXT_BYTES_MAX)?;
        String::from_utf8(bytes).map_err(|_| EditError::NotText { path })
    }

    /// Puts a text in place of the published one, if that is still the one that was opened, and removes
    /// the copy. Durable.
    ///
    /// # Errors
    ///
    /// If it has changed, or the disk refuses. Then the copy is still there.
    pub fn put(&self, text: &str) -> Result<(), EditError> {
        if self.published_text().is_some_and(|now| now != self.text) {
            return Err(EditError::Changed);
        }
        publish(&self.disk, &self.published.file(HandoffFile::Knowledge), text)?;
        self.discard()
    }

    /// Removes the copy.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn discard(&self) -> Result<(), EditError> {
        Ok(self.disk.remove(&self.published.dir().join(COPY))?)
    }

    fn published_text(&self) -> Option<String> {
        let bytes = self.disk.read(&self.published.file(HandoffFile::Knowledge), TEXT_BYTES_MAX).ok()?;
        String::from_utf8(bytes).ok()
    }
}

/// Nobody else writes while a relay waits or has ended.
fn closed(relay: &Relay, held: bool) -> Option<Closed> {
    let session = relay.session();
    match relay.phase() {
        Phase::Waiting { .. } | Phase::Paused { .. } | Phase::Ended { .. } => None,
        Phase::Planned | Phase::Preparing(_) | Phase::Running(_) | Phase::Reviewing { .. } if held => {
            Some(Closed::Working { session })
        }
        Phase::Planned | Phase::Preparing(_) | Phase::Running(_) | Phase::Reviewing { .. } => {
            Some(Closed::Interrupted { session })
        }
    }
}
