//! Where each stage of a run works, and where its files are kept.
//!
//! | run | works in | its files |
//! |---|---|---|
//! | a single relay | the work dir | `runs/<id>/sessions/` |
//! | a plan in place | the work dir | `runs/<id>/stages/<stage>/sessions/` |
//! | a plan in worktrees | a worktree for each stage | the same |
//!
//! All of this follows from the run's first record, so a restarted engine computes the same paths.

use std::path::{Path, PathBuf};

use ekiden_core::ids::{RunId, StageId};
use ekiden_core::manifest::Isolation;
use ekiden_core::settings::RunStarted;
use ekiden_store::layout::{Published, RelayLayout, RunLayout};

use crate::git::flood::Lent;
use crate::workspace::Workspace;

/// The branches of all runs are below this name.
pub(crate) const BRANCHES: &str = "ekiden";

#[derive(Debug, Clone)]
pub struct RunPaths {
    pub workspace: Workspace,
    pub run_dir: RunLayout,
    run: RunId,
    is_plan: bool,
    /// The directory in which the run's worktrees are, and nothing else.
    pub trees: Option<PathBuf>,
    /// The file of the issue that the run works on, if it is one.
    pub(crate) issue: Option<PathBuf>,
}

impl RunPaths {
    pub fn new(workspace: Workspace, run_dir: RunLayout, header: &RunStarted) -> Self {
        let rules = header.manifest.plan.as_deref();
        let trees = rules.and_then(|rules| match &rules.isolation {
            Isolation::InPlace => None,
            Isolation::Worktrees { dir, .. } => Some(PathBuf::from(dir)),
        });
        Self {
            workspace,
            run_dir,
            run: header.run.clone(),
            is_plan: rules.is_some(),
            trees,
            issue: None,
        }
    }

    /// What people and the agent of a stage see.
    pub fn published(&self, stage: &StageId) -> Published {
        Published::new(&self.dir(stage))
    }

    /// A stage's files in the state directory.
    pub fn relay(&self, stage: &StageId) -> RelayLayout {
        self.run_dir.relay(self.is_plan.then_some(stage))
    }

    pub fn dir(&self, stage: &StageId) -> PathBuf {
        match self.tree(stage) {
            Some(tree) => self.within(&tree),
            None => self.workspace.dir.clone(),
        }
    }

    pub fn workspace_of(&self, stage: &StageId) -> Workspace {
        let dir = self.dir(stage);
        Workspace {
            dir,
            ..self.workspace.clone()
        }
    }

    /// The worktree of a stage, if it has its own.
    pub fn tree(&self, stage: &StageId) -> Option<PathBuf> {
        let name = format!("{}-{stage}", self.run);
        self.trees.as_ref().map(|trees| trees.join(name))
    }

    /// The worktree in which stages are merged.
    pub fn integration_tree(&self) -> Option<PathBuf> {
        let trees = self.trees.as_ref();
        trees.map(|trees| trees.join(self.run.as_str()))
    }

    /// The issue's file, from the directory in which a stage works, if it is there.
    pub(crate) fn issue_in(&self, stage: &StageId) -> Option<String> {
        let file = self.issue.as_ref()?.strip_prefix(self.dir(stage)).ok()?;
        Some(file.to_str()?.to_owned())
    }

    pub fn branch(&self, stage: &StageId) -> String {
        format!("{}-{stage}", self.integration_branch())
    }

    /// The branch into which stages are merged.
    pub fn integration_branch(&self) -> String {
        format!("{BRANCHES}/{}", self.run)
    }

    pub fn shown_result(&self, stage: &StageId) -> PathBuf {
        self.workspace
            .published()
            .handoffs()
            .join(format!("{stage}.md"))
    }

    /// The path in a worktree that corresponds to the work dir.
    pub fn within(&self, tree: &Path) -> PathBuf {
        match self.workspace.prefix() {
            "" => tree.to_owned(),
            prefix => tree.join(prefix),
        }
    }

    /// Outputs of a stage, from the repository's root.
    pub(crate) fn declared(&self, outputs: &[String]) -> Vec<String> {
        let prefix = self.within(Path::new(""));
        let from_root = |output| prefix.join(output).to_string_lossy().into_owned();
        outputs.iter().map(from_root).collect()
    }

    /// Which of the user's files worktrees are lent.
    pub(crate) fn lent(&self, isolation: &Isolation) -> Lent {
        let Isolation::Worktrees { copy, .. } = isolation else {
            return Lent::default();
        };
        let below = self.within(Path::new("")).components().count();
        let top = self.workspace.dir.ancestors().nth(below);
        Lent {
            names: self.declared(copy),
            top: top.map(Path::to_owned).unwrap_or_default(),
        }
    }
}
