//! What a plan in worktrees needs from the repository. It is checked before anything is created; otherwise each
//! stage would fail hours later.

use std::collections::BTreeSet;

use ekiden_core::manifest::{Isolation, Manifest};

use super::Worktrees;
use super::setup::{COPIES_MAX, Lender};
use crate::error::EngineError;
use crate::globs;

impl Worktrees {
    /// Checks that git can make branches, and can commit what stages do without the files that are only lent to them.
    pub(crate) async fn check(&self, manifest: &Manifest) -> Result<(), EngineError> {
        let Isolation::Worktrees { copy, .. } = &self.isolation else {
            return Ok(());
        };
        let git = self.users_git();
        if !git.knows_committer().await {
            return Err(EngineError::NoIdentity);
        }
        let merge = "merge-tree --write-tree HEAD HEAD";
        if git.run(merge, &[]).await.is_err() {
            return Err(EngineError::OldGit);
        }
        let branch = self.paths.integration_branch();
        let (above, _) = branch.split_once('/').unwrap_or((&branch, ""));
        if matches!(self.branches([&above.to_owned()]).await, Ok([Some(_)])) {
            let branch = above.to_owned();
            return Err(EngineError::BranchInTheWay { branch });
        }
        self.check_context(manifest).await?;
        // A missing file is reported when it is copied.
        let found = globs::find(&self.paths.workspace.dir, copy, COPIES_MAX);
        let Some(found) = found.ok().filter(|found| !found.files.is_empty()) else {
            return Ok(());
        };
        let lender = Lender::new(self);
        for file in &found.files {
            let lent = lender.find(file);
            lent.map_err(|why| EngineError::NotLent { why })?;
        }
        let list = "--literal-pathspecs ls-files --others --exclude-standard -z --";
        let files: Vec<&str> = found.files.iter().map(String::as_str).collect();
        let seen = git.run(list, &files).await.unwrap_or_default();
        match seen.split_terminator('\0').next() {
            Some(file) => Err(EngineError::NotIgnored {
                file: file.to_owned(),
            }),
            None => Ok(()),
        }
    }

    /// Checks that the untracked files that stages name fit into what is carried into a worktree.
    async fn check_context(&self, manifest: &Manifest) -> Result<(), EngineError> {
        let dir = &self.paths.workspace.dir;
        let all: BTreeSet<&String> = manifest
            .stages
            .iter()
            .flat_map(|stage| &stage.part.context)
            .collect();
        let all: Vec<String> = all.into_iter().cloned().collect();
        if globs::all_of(dir, &all).map_or(0, |files| files.len()) <= COPIES_MAX {
            return Ok(());
        }
        let known = self.users_git().run("ls-files -z", &[]).await;
        let known = known.unwrap_or_default();
        let known: BTreeSet<&str> = known.split_terminator('\0').collect();
        for stage in &manifest.stages {
            // A name that leads out of the project is reported when the stage begins.
            let mut files = globs::all_of(dir, &stage.part.context).unwrap_or_default();
            files.retain(|file| !known.contains(file.as_str()));
            if files.len() > COPIES_MAX {
                return Err(EngineError::TooMuchContext {
                    stage: stage.id.clone(),
                    files: files.len(),
                    files_max: COPIES_MAX,
                });
            }
        }
        Ok(())
    }
}
