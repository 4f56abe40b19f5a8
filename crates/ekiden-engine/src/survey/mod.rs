//! A look at the work tree: what a program can know, a program writes.
//!
//! Nothing is written, neither index nor objects, and no lock is taken, so a survey can run beside a
//! person who works there. In a repository git tells what changed (`git`); elsewhere every file that no
//! ignore rule names is looked at (`walk`).
//!
//! Two fingerprints come of it. `tree` changes whenever a file does; `substance` is the same without what
//! only tells the time (`content`), so that a session that touches a timestamp has done nothing.

mod content;
mod fingerprint;
mod git;
mod walk;

use std::path::PathBuf;

use ekiden_core::event::Survey;

use crate::error::in_full;
use crate::git::Git;
use crate::hands::Since;
use crate::workspace::Workspace;

/// What a survey is made in.
#[derive(Debug, Clone)]
pub(crate) struct Surveyor {
    ekiden: PathBuf,
    workspace: Workspace,
}

impl Surveyor {
    /// A surveyor of this place. `ekiden` is our own executable, which has the keeper's role.
    pub(crate) fn new(ekiden: PathBuf, workspace: Workspace) -> Self {
        Self { ekiden, workspace }
    }

    /// Looks at the work tree. Dropped before it is done, it ends what it started.
    ///
    /// # Errors
    ///
    /// Why nothing could be seen; then the run goes on without a survey.
    pub(crate) async fn survey(self, since: Since) -> Result<Survey, String> {
        if self.workspace.git.is_none() {
            return walk::survey(self.workspace).await;
        }
        let git = Git::new(self.ekiden, self.workspace.dir.clone());
        git::survey(&git, &self.workspace.dir, &since).await.map_err(|error| in_full(&error))
    }
}
