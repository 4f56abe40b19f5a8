//! The handoff documents of a work dir, as commands read them.

use std::path::PathBuf;

use ekiden_core::guard::document::session_of;
use ekiden_engine::EngineError;
use ekiden_engine::workspace::Workspace;
use ekiden_store::disk::{DiskError, RealDisk};
use ekiden_store::documents::Documents;
use ekiden_store::layout::{Published, StateLayout};

use crate::failure::Failure;

/// Documents, and where they lie.
pub(super) struct Kept {
    disk: RealDisk,
    published: Published,
    state: StateLayout,
}

impl Kept {
    pub(super) fn of(workspace: &Workspace) -> Self {
        Self {
            disk: RealDisk::fenced(&workspace.dir),
            published: Published::new(&workspace.dir),
            state: StateLayout::new(&workspace.state_dir),
        }
    }

    /// The newest document and its name: of this session, or else of any.
    pub(super) fn newest(&self, session: Option<&str>) -> Result<Option<(String, String)>, Failure> {
        let documents = self.documents();
        for name in documents.names().map_err(failed)?.into_iter().rev() {
            let Some(text) = documents.read(&name).map_err(failed)? else { continue };
            if session.is_none_or(|session| session_of(&text).as_deref() == Some(session)) {
                return Ok(Some((name, text)));
            }
        }
        Ok(None)
    }

    /// A document's text.
    pub(super) fn text(&self, name: &str) -> Result<String, Failure> {
        Ok(self.documents().read(name).map_err(failed)?.unwrap_or_default())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.documents().path(name)
    }

    /// Notes that a session has read a document, so that it is not loaded again by itself. Where nothing
    /// can be written it is only read.
    pub(super) fn consume(&self, name: &str, session: &str) {
        let _ = self.documents().consume(name, session);
    }

    fn documents(&self) -> Documents<'_> {
        Documents::of(&self.disk, &self.published, &self.state)
    }
}

fn failed(error: DiskError) -> Failure {
    Failure::from(EngineError::from(error))
}
