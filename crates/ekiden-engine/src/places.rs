//! Where each stage of a run works, and where what is kept of it lies.
//!
//! | run | works in | is kept in |
//! |---|---|---|
//! | a single relay | the work dir | `runs/<id>/sessions/` |
//! | a plan in place | the work dir | `runs/<id>/stages/<stage>/sessions/` |
//! | a plan in worktrees | a worktree of its own | the same |
//!
//! All of it follows from the run's first record, so that a restarted engine finds the same.

use std::path::{Path, PathBuf};

use ekiden_core::ids::{RunId, StageId};
use ekiden_core::manifest::Ground;
use ekiden_core::settings::RunStarted;
use ekiden_store::disk::Disk;
use ekiden_store::layout::{Published, RelayLayout, RunLayout};

use crate::desk::TEXT_BYTES_MAX;
use crate::workspace::Workspace;

/// The places of one run.
#[derive(Debug, Clone)]
pub struct Places {
    workspace: Workspace,
    layout: RunLayout,
    run: RunId,
    is_plan: bool,
    trees: Option<PathBuf>,
}

impl Places {
    /// The places of a run in this work dir. `layout` is the run's in the state directory.
    #[must_use]
    pub fn new(workspace: Workspace, layout: RunLayout, header: &RunStarted) -> Self {
        let rules = header.manifest.plan.as_deref();
        let trees = rules.and_then(|rules| match &rules.ground {
            Ground::InPlace => None,
            Ground::Worktrees { dir, .. } => Some(PathBuf::from(dir)),
        });
        Self { workspace, layout, run: header.run.clone(), is_plan: rules.is_some(), trees }
    }

    /// The user's work dir.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// The run's files.
    #[must_use]
    pub fn run(&self) -> &RunLayout {
        &self.layout
    }

    /// What people and the agent of a stage see.
    #[must_use]
    pub fn published(&self, stage: &StageId) -> Published {
        Published::new(&self.dir(stage))
    }

    /// What is kept of a stage.
    #[must_use]
    pub fn relay(&self, stage: &StageId) -> RelayLayout {
        self.layout.relay(self.is_plan.then_some(stage))
    }

    /// The work dir of a stage.
    #[must_use]
    pub fn dir(&self, stage: &StageId) -> PathBuf {
        match self.tree(stage) {
            Some(tree) => self.within(&tree),
            None => self.workspace.dir.clone(),
        }
    }

    /// The workspace of a stage.
    #[must_use]
    pub fn workspace_of(&self, stage: &StageId) -> Workspace {
        let dir = self.dir(stage);
        let published = dir.join(".ekiden");
        Workspace { dir, published, ..self.workspace.clone() }
    }

    /// The worktree of a stage, if it has one of its own.
    #[must_use]
    pub fn tree(&self, stage: &StageId) -> Option<PathBuf> {
        self.trees.as_ref().map(|trees| trees.join(format!("{}-{stage}", self.run)))
    }

    /// The worktree in which the whole is put together.
    #[must_use]
    pub fn whole_tree(&self) -> Option<PathBuf> {
        self.trees.as_ref().map(|trees| trees.join(self.run.as_str()))
    }

    /// The directory in which the run's worktrees are, and only such.
    #[must_use]
    pub fn trees(&self) -> Option<&Path> {
        self.trees.as_deref()
    }

    /// The top of the user's checkout in which the work dir is; without git, the work dir.
    #[must_use]
    pub fn top(&self) -> &Path {
        let dir = &self.workspace.dir;
        let prefix = self.workspace.git.as_ref().map(|git| git.prefix.as_str()).unwrap_or_default();
        dir.ancestors().nth(Path::new(prefix).components().count()).unwrap_or(dir)
    }

    /// The branch of a stage.
    #[must_use]
    pub fn branch(&self, stage: &StageId) -> String {
        format!("{}-{stage}", self.whole_branch())
    }

    /// The branch of the whole.
    #[must_use]
    pub fn whole_branch(&self) -> String {
        format!("ekiden/{}", self.run)
    }

    /// What a stage left that was done in an earlier run, if it is kept where people see it.
    #[must_use]
    pub fn kept_result(&self, disk: &dyn Disk, stage: &StageId) -> Option<String> {
        let bytes = disk.read(&self.shown_result(stage), TEXT_BYTES_MAX).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// Where people see what a stage left.
    #[must_use]
    pub fn shown_result(&self, stage: &StageId) -> PathBuf {
        Published::new(&self.workspace.dir).handoffs().join(format!("{stage}.md"))
    }

    /// The place in a worktree that the work dir has in its repository.
    #[must_use]
    pub fn within(&self, tree: &Path) -> PathBuf {
        let prefix = self.workspace.git.as_ref().map(|git| git.prefix.as_str()).unwrap_or_default();
        if prefix.is_empty() { tree.to_owned() } else { tree.join(prefix) }
    }
}
