//! What travels through Temporal: references, and what the plan decides from. Contents travel by git.

use std::path::PathBuf;

use ekiden_core::budget::{Budget, Spend};
use ekiden_core::event::RunResumed;
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::manifest::{Manifest, Part, PlanRules};
use ekiden_core::outcome::Outcome;
use ekiden_core::settings::RunStarted;
use ekiden_core::steering::{Steered, StopRequest};
use ekiden_engine::known_limits::Limit;
use serde::{Deserialize, Serialize};

/// The largest input of a workflow, in bytes. The server refuses some megabytes; a history holds it for good.
pub(crate) const ORDER_BYTES_MAX: usize = 64 * 1024;
/// The most of a text or a list that an answer carries; the rest is in the stage's log.
pub(crate) const TEXT_CHARS_MAX: usize = 2000;
const FILES_MAX: usize = 50;

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
    /// For all stages together.
    #[serde(default)]
    pub(crate) budget: Budget,
}

/// A plan as it is published at the remote, for workers and for whoever follows it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Submission {
    /// The first record that a run on this machine would have.
    pub(crate) header: RunStarted,
    /// The work dir's path from the root of the repository; empty at the root.
    pub(crate) prefix: String,
}

/// A work dir on this machine, where a plan is submitted or followed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Here {
    pub(crate) work_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    /// Ekiden's directory in the user's own state directory.
    pub(crate) user_dir: Option<PathBuf>,
}

/// What `ekiden execute --on fleet` passes on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub(crate) here: Here,
    pub(crate) submission: Submission,
    /// The SSH key that signs the plan.
    pub(crate) sign_key: Option<PathBuf>,
    /// Whether to return once the fleet has it.
    pub(crate) detach: bool,
    /// Whether an unfinished run here may be left as it is.
    pub(crate) new: bool,
}

/// What `ekiden fleet follow` passes on, and `ekiden resume` of a fleet's run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Followed {
    pub(crate) here: Here,
    /// The beginning of its id.
    pub(crate) run: String,
    pub(crate) remote: String,
    /// With what it is to go on, if it has ended.
    pub(crate) resumed: Option<RunResumed>,
    /// Whether to return once it has been told.
    pub(crate) detach: bool,
}

/// What a plan is told while it is under way: the workflow's signal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum PlanSignal {
    /// A person steers it.
    Steered { steered: Steered },
    /// A worker met a usage limit.
    Limited { limit: Limited },
    /// It ended and was not complete. It goes on.
    Resumed { resumed: Box<RunResumed> },
}

/// A usage limit that a worker met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limited {
    /// What workers call the account: those that call it the same share its limits.
    pub(crate) account: String,
    pub(crate) limit: Limit,
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
    /// The answer to the question with which this round ended before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    /// What all that its log tells may come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) budget: Option<Budget>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StageDone {
    pub(crate) outcome: Outcome,
    /// What it made, if it is done.
    pub(crate) commit: Option<String>,
    /// All that this round has spent.
    #[serde(default)]
    pub(crate) spent: Spend,
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

/// Keeps what an agent wrote within bounds. It was the worker's signal that stopped it, and a person who asked for that.
pub(crate) fn bounded(mut outcome: Outcome) -> Outcome {
    if let Outcome::Stopped { request } = &mut outcome {
        *request = StopRequest::Gently;
    }
    if let Outcome::Blocked { question } = &mut outcome {
        *question = question.chars().take(TEXT_CHARS_MAX).collect();
    }
    outcome
}

pub(crate) fn conflict(mut files: Vec<String>) -> MergeDone {
    files.truncate(FILES_MAX);
    MergeDone::Conflict { files }
}

/// The workflow of a run.
pub(crate) fn workflow(run: &RunId) -> String {
    format!("ekiden-{run}")
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

    /// What all stages left at their last handoffs: below it, `<stage>/<round>`.
    pub(crate) fn handoffs(run: &RunId) -> String {
        format!("refs/ekiden/{run}/stages")
    }

    /// What a stage left at its last handoff: see [`crate::attempt`].
    pub(crate) fn handoff(task: &StageTask) -> String {
        format!("{}/{}/{}", handoffs(&task.run), task.stage, task.round)
    }

    /// Where whoever follows a plan has what it fetched.
    pub(crate) fn followed(run: &RunId) -> String {
        format!("refs/ekiden/fleet/{run}")
    }

    /// What one attempt at a stage made.
    pub(crate) fn made(task: &StageTask, attempt: u32) -> String {
        format!(
            "refs/heads/ekiden/{}/{}/{}.{attempt}",
            task.run, task.stage, task.round
        )
    }
}
