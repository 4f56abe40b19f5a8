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
mod rules;
mod walk;

use ekiden_core::event::Survey;

use crate::error::in_full;
use crate::git::Git;
use crate::hands::Since;
use crate::workspace::Workspace;

/// What a survey is made in.
#[derive(Debug, Clone)]
pub(crate) struct Surveyor {
    git: Git,
    workspace: Workspace,
}

impl Surveyor {
    /// A surveyor of this place, and git in it.
    pub(crate) fn new(git: Git, workspace: Workspace) -> Self {
        Self { git, workspace }
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
        git::survey(&self.git, &self.workspace.dir, &since).await.map_err(|error| in_full(&error))
    }
}
