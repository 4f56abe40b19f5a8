//! The published knowledge as a person reads and edits it.
//!
//! While a session runs, its agent reads the file and its handoff will be merged into it. So a person may edit
//! it only while a run waits, is paused or has ended. The edit becomes a `KnowledgeEdited` event when the run
//! continues.

use std::path::PathBuf;

use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::{RunId, SessionNumber};
use ekiden_store::disk::{Disk, DiskError, RealDisk};
use ekiden_store::layout::Published;
use ekiden_store::replace::{Durability, replace};

use crate::error::EngineError;
use crate::history;
use crate::run_files::TEXT_BYTES_MAX;
use crate::workspace::Workspace;

/// The copy beside the published file while it is edited.
const COPY: &str = "KNOWLEDGE.edit.md";

/// The knowledge of one run.
#[derive(Debug)]
pub struct KnowledgeFile {
    pub run: RunId,
    /// Its text: what a person wrote since the run last did something, else what the run knows.
    pub text: String,
    /// Facts that were corrected, and are kept in the log alone.
    pub corrected: usize,
    /// Why it may not be edited now.
    pub closed: Option<Closed>,
    disk: RealDisk,
    published: Published,
}

/// Why knowledge cannot be edited now. Reads well after "since".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    #[error("session {session} is at work")]
    Working { session: SessionNumber },
    /// Its engine died before it had done all that was decided.
    #[error("the run was interrupted in session {session}")]
    Interrupted { session: SessionNumber },
    #[error("the run is a plan, whose stages share what they learn")]
    Plan,
    #[error("a newer run has its own")]
    Older,
}

/// An edit cannot be taken over. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file is not the one that was opened.
    #[error("take over the edit: KNOWLEDGE.md has changed meanwhile")]
    Changed,
    #[error("read {} as text", path.display())]
    NotText { path: PathBuf },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl KnowledgeFile {
    /// Looks at the knowledge of a run; writes nothing.
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
            None => None,
            Some(relay) if (held || summary.is_settled()) && relay.is_idle() => None,
            Some(relay) => {
                let session = relay.session();
                Some(match held {
                    true => Closed::Working { session },
                    false => Closed::Interrupted { session },
                })
            }
        };
        let mut file = Self {
            run: run.clone(),
            text: match is_plan {
                true => summary.run.shared_knowledge().render(),
                false => relays().map(|relay| relay.knowledge.render()).collect(),
            },
            corrected: relays().map(|relay| relay.knowledge.archived.len()).sum(),
            closed,
            disk: RealDisk::fenced(&workspace.dir),
            published: Published::new(&workspace.dir),
        };
        if let Some(text) = file.published_text().filter(|_| file.closed.is_none()) {
            file.text = text;
        }
        Ok(file)
    }

    /// Makes a copy for an editor and returns its path. The second value: a copy was left there by an edit that
    /// failed, and is used again.
    pub fn copy(&self) -> Result<(PathBuf, bool), EditError> {
        let path = self.copy_path();
        if self.disk.stat(&path)?.is_some() {
            return Ok((path, true));
        }
        replace(&self.disk, &path, self.text.as_bytes(), Durability::Derived)?;
        Ok((path, false))
    }

    /// What the copy says now.
    pub fn edited(&self) -> Result<String, EditError> {
        let path = self.copy_path();
        let bytes = self.disk.read(&path, TEXT_BYTES_MAX)?;
        String::from_utf8(bytes).map_err(|_| EditError::NotText { path })
    }

    /// Puts a text in place of the published one, if that is still the one that was opened, and removes
    /// the copy. After a power cut the old text or the new one is there, whole.
    pub fn put(&self, text: &str) -> Result<(), EditError> {
        if self.published_text().is_some_and(|now| now != self.text) {
            return Err(EditError::Changed);
        }
        let path = self.published.file(HandoffFile::Knowledge);
        replace(&self.disk, &path, text.as_bytes(), Durability::Whole)?;
        self.discard()
    }

    pub fn discard(&self) -> Result<(), EditError> {
        Ok(self.disk.remove(&self.copy_path())?)
    }

    fn copy_path(&self) -> PathBuf {
        self.published.dir().join(COPY)
    }

    fn published_text(&self) -> Option<String> {
        let bytes = self
            .disk
            .read(&self.published.file(HandoffFile::Knowledge), TEXT_BYTES_MAX)
            .ok()?;
        String::from_utf8(bytes).ok()
    }
}
