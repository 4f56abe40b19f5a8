//! What travels through Temporal: references, and what the plan decides from. Contents travel by git.

use std::path::PathBuf;

use ekiden_core::ids::{RunId, StageId};
use ekiden_core::manifest::{Manifest, Part, PlanRules};
use ekiden_core::outcome::Outcome;
use ekiden_core::settings::RunStarted;
use serde::{Deserialize, Serialize};

/// The largest input of a workflow, in bytes. The server refuses some megabytes; a history holds it for good.
pub(crate) const ORDER_BYTES_MAX: usize = 64 * 1024;
/// The most of a text or a list that an answer carries; the rest is in the stage's log.
pub(crate) const TEXT_CHARS_MAX: usize = 2000;
const FILES_MAX: usize = 50;
/// Stages whose failure is told with its reason.
pub(crate) const REASONS_MAX: usize = 20;

/// A plan to be carried out: the input of the workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The version of the program that submitted it.
    pub(crate) ekiden: String,
    pub(crate) run: RunId,
    /// Stages and edges, without what only a stage's own relay needs.
    pub(crate) outline: Manifest,
    /// Where the integration branch begins.
    pub(crate) base: String,
    /// The commit at the remote that holds the [`Submission`].
    pub(crate) plan: String,
    /// For how long a worker may be silent before its stage goes on elsewhere.
    pub(crate) lease_secs: u64,
}

/// What `ekiden execute --on fleet` passes on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Submission {
    /// The first record that a run on this machine would have.
    pub(crate) header: RunStarted,
    /// The work dir's path from the root of the repository; empty at the root.
    pub(crate) prefix: String,
    /// The root of the repository that it is submitted from.
    pub(crate) repository: PathBuf,
    /// The repository that all workers reach.
    pub(crate) remote: String,
    pub(crate) queue: String,
    pub(crate) lease_secs: u64,
    /// The SSH key that signs the plan.
    #[serde(default)]
    pub(crate) sign_key: Option<PathBuf>,
}

/// One round at a stage: from a commit of the integration branch to a commit of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StageTask {
    pub(crate) run: RunId,
    pub(crate) stage: StageId,
    /// From 1. A stage that does not merge is done again, from what is merged by then.
    pub(crate) round: u32,
    pub(crate) base: String,
    pub(crate) plan: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StageDone {
    pub(crate) outcome: Outcome,
    /// What it made, if it is done.
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MergeTask {
    /// What is merged; its base is where the integration branch began.
    pub(crate) task: StageTask,
    pub(crate) commit: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum MergeDone {
    /// The integration branch is at this commit.
    Merged { commit: String },
    /// It does not go together with what others did; no files if only the validation fails.
    Conflict { files: Vec<String> },
    /// No agent can mend it.
    Refused { why: String },
}

/// How a plan ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlanDone {
    pub(crate) outcome: Outcome,
    /// The end of the integration branch.
    pub(crate) tip: String,
    pub(crate) merged: usize,
    /// Why stages are not done, of the first [`REASONS_MAX`].
    #[serde(default)]
    pub(crate) reasons: Vec<(StageId, String)>,
}

/// What the plan decides from. Retries are the relay's own, in the activity.
pub(crate) fn outline(manifest: &Manifest) -> Manifest {
    let mut outline = manifest.clone();
    for stage in &mut outline.stages {
        stage.task = String::new();
        stage.verification = None;
        stage.part = Part {
            needs: std::mem::take(&mut stage.part.needs),
            on_fail: stage.part.on_fail,
            estimate_tokens: stage.part.estimate_tokens,
            take: stage.part.take,
            queue: stage.part.queue.take(),
            ..Part::default()
        };
    }
    if let Some(rules) = &mut outline.plan {
        let kept = PlanRules {
            architecture: String::new(),
            document: String::new(),
            ..(**rules).clone()
        };
        **rules = kept;
    }
    outline
}

/// Keeps what an agent wrote within bounds.
pub(crate) fn bounded(mut outcome: Outcome) -> Outcome {
    if let Outcome::Blocked { question } = &mut outcome {
        *question = question.chars().take(TEXT_CHARS_MAX).collect();
    }
    outcome
}

pub(crate) fn conflict(mut files: Vec<String>) -> MergeDone {
    files.truncate(FILES_MAX);
    MergeDone::Conflict { files }
}

/// Where everything of a run is at the remote.
pub(crate) mod refs {
    use super::StageTask;
    use ekiden_core::ids::RunId;

    /// The integration branch. Not `ekiden/<run>`, which would be in the way of the branches of stages.
    pub(crate) fn merged(run: &RunId) -> String {
        format!("refs/heads/ekiden/{run}-merged")
    }

    pub(crate) fn plan(run: &RunId) -> String {
        format!("refs/ekiden/{run}/plan")
    }

    /// What a stage left at its last handoff: see [`crate::attempt`].
    pub(crate) fn handoff(task: &StageTask) -> String {
        format!(
            "refs/ekiden/{}/stages/{}/{}",
            task.run, task.stage, task.round
        )
    }

    /// What one attempt at a stage made.
    pub(crate) fn made(task: &StageTask, attempt: u32) -> String {
        format!(
            "refs/heads/ekiden/{}/{}/{}.{attempt}",
            task.run, task.stage, task.round
        )
    }
}
