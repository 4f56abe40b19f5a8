//! Where the stages of a run work: paths in their agents' actions are shown relative to there.

use ekiden_core::ids::StageId;
use ekiden_core::manifest::Isolation;
use ekiden_core::settings::RunStarted;

#[derive(Debug, Clone, Default)]
pub struct WorkDirs {
    pub(super) own: String,
    /// The prefix of each stage's worktree path, if stages have worktrees: `ekiden_engine::paths` names
    /// them.
    pub(super) trees: Option<String>,
}

impl WorkDirs {
    pub fn of(header: &RunStarted) -> Self {
        let rules = header.manifest.plan.as_deref();
        let trees = rules.and_then(|rules| match &rules.isolation {
            Isolation::Worktrees { dir, .. } => Some(format!("{dir}/{}-", header.run)),
            Isolation::InPlace => None,
        });
        Self {
            own: format!("{}/", header.place.work_dir),
            trees,
        }
    }

    /// A text from a stage's agent, or from the only relay's agent if there is no stage.
    pub fn shorten(&self, stage: Option<&StageId>, text: &str) -> String {
        let tree = self.trees.as_ref().zip(stage);
        match tree.map(|(trees, stage)| format!("{trees}{stage}/")) {
            Some(tree) => text.replace(&tree, ""),
            None if self.own.is_empty() => text.to_owned(),
            None => text.replace(&self.own, ""),
        }
    }
}
