//! What can happen to the worktrees of a plan's stages.

use serde::{Deserialize, Serialize};

use crate::event::Check;
use crate::prompt::StageContext;

/// Something that happened to the worktree of a stage: the result of a
/// [`WorktreeEffect`](crate::effect::WorktreeEffect). A relay knows nothing about worktrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorktreeEvent {
    /// It is ready, or could not be made.
    Prepared {
        worktree: Result<PreparedWorktree, String>,
    },
    /// The stage's work was merged, or was not.
    Merged { merge: Merge },
    /// Whether the stage was done before.
    Confirmed {
        /// Its result, as far as that was kept; or why it is not done.
        result: Result<String, String>,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedWorktree {
    /// The commit from which the stage starts, where there is git.
    pub base: Option<String>,
    /// What its agent is shown of the project.
    pub context: StageContext,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Merge {
    /// It is on the integration branch, which is valid.
    Done {
        commit: String,
        /// The files that the stage changed, from the work dir.
        files: Vec<String>,
        /// Those of them that it had not declared as outputs.
        undeclared: Vec<String>,
    },
    /// It changes the same lines as other stages. The merge, with its conflicts, is committed onto the
    /// stage's own branch.
    Conflict {
        /// The files, from the work dir.
        files: Vec<String>,
    },
    /// It merges, but the result is not valid. The integration branch is merged into its own worktree.
    Broken { check: Check },
    /// A hook of the repository refused to commit what the stage left.
    Refused {
        /// The end of the output of git and its hooks.
        tail: String,
    },
    /// Git cannot do it.
    Failed { error: String },
    /// The run was stopped during a merge, or while it checked whether the stage was done before: either must run
    /// again.
    Cancelled,
}

/// Whether the user has the work of all stages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Delivery {
    Given {
        /// The branch, or nothing on a detached head.
        branch: Option<String>,
        commit: String,
    },
    /// It is on a separate branch.
    Kept {
        branch: String,
        /// Why the user's branch was left as it is.
        why: String,
        /// The command that gets it.
        command: String,
    },
}
