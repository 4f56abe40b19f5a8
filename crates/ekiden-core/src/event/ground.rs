//! What can happen where the stages of a plan work.

use serde::{Deserialize, Serialize};

use crate::event::Check;
use crate::ids::EffectId;
use crate::prompt::StageContext;

/// Something that happened to the ground of a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum GroundEvent {
    /// It is ready, or cannot be made.
    Prepared {
        /// The effect that asked for it.
        effect: EffectId,
        /// What is there, or why nothing is.
        ground: Result<Grounded, String>,
    },
    /// What the stage did is part of the whole, or is not.
    Merged {
        /// The effect that asked for it.
        effect: EffectId,
        /// What came of it.
        merge: Merge,
    },
    /// Whether the stage was done before.
    Confirmed {
        /// The effect that asked for it.
        effect: EffectId,
        /// What it left, as far as that was kept; or why it is not done.
        result: Result<String, String>,
    },
}

/// A ground that is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grounded {
    /// The commit from which the stage starts, where there is git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// What its agent is shown of the project.
    #[serde(default)]
    pub context: StageContext,
}

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Merge {
    /// It is part of the whole, which is valid.
    Done {
        /// The whole's newest commit.
        commit: String,
        /// The files that the stage changed, from the work dir.
        files: Vec<String>,
        /// Those of them that it had not declared.
        undeclared: Vec<String>,
    },
    /// It changes the same lines as others did. The merge is under way in the stage's own ground.
    Conflict {
        /// The files, from the repository's root.
        files: Vec<String>,
    },
    /// It merges, but the whole is not valid then. The whole is merged into the stage's own ground.
    Broken {
        /// What says so.
        check: Check,
    },
    /// Git cannot do it.
    Failed {
        /// Why.
        error: String,
    },
    /// The run was stopped meanwhile.
    Cancelled,
}

/// Whether the user has what all stages made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Delivery {
    /// Their branch has it.
    Given {
        /// The branch, or nothing on a detached head.
        branch: Option<String>,
        /// Its newest commit.
        commit: String,
    },
    /// It lies on a branch of its own.
    Kept {
        /// That branch.
        branch: String,
        /// Why their own was left as it is.
        why: String,
    },
}

impl GroundEvent {
    /// The effect whose outcome this is.
    #[must_use]
    pub fn effect(&self) -> EffectId {
        match self {
            Self::Prepared { effect, .. } | Self::Merged { effect, .. } | Self::Confirmed { effect, .. } => {
                *effect
            }
        }
    }
}
