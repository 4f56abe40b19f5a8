//! What can happen where the stages of a plan work.

use serde::{Deserialize, Serialize};

use crate::event::Check;
use crate::prompt::StageContext;

/// Something that happened to the worktree of a stage: what became of a
/// [`WorktreeEffect`](crate::effect::WorktreeEffect). A relay knows nothing of worktrees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum WorktreeEvent {
    /// It is ready, or cannot be made.
    Prepared {
        /// What is there, or why nothing is.
        worktree: Result<PreparedWorktree, String>,
    },
    /// What the stage did was merged, or was not.
    Merged { merge: Merge },
    /// Whether the stage was done before.
    Confirmed {
        /// What it left, as far as that was kept; or why it is not done.
        result: Result<String, String>,
    },
}

/// A worktree that is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedWorktree {
    /// The commit from which the stage starts, where there is git.
    pub base: Option<String>,
    /// What its agent is shown of the project.
    pub context: StageContext,
}

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Merge {
    /// It is on the integration branch, which is valid.
    Done {
        commit: String,
        /// The files that the stage changed, from the work dir.
        files: Vec<String>,
        /// Those of them that it had not declared.
        undeclared: Vec<String>,
    },
    /// It changes the same lines as others did. The merge is committed onto its own branch as it is.
    Conflict {
        /// The files, from the repository's root.
        files: Vec<String>,
    },
    /// It merges, but the result is not valid. The integration branch is merged into its own worktree.
    Broken { check: Check },
    /// Git cannot do it.
    Failed { error: String },
    /// The run was stopped meanwhile. Also where it was looked at whether the stage was done before: either is due again.
    Cancelled,
}

/// Whether the user has what all stages made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Delivery {
    Given {
        /// The branch, or nothing on a detached head.
        branch: Option<String>,
        commit: String,
    },
    /// It lies on a branch of its own.
    Kept {
        branch: String,
        /// Why their own was left as it is.
        why: String,
        /// The command that brings it.
        command: String,
    },
}
