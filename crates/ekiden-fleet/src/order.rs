//! What travels through Temporal: references, and what the plan decides from. Contents travel by git.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ekiden_core::budget::{Budget, Spend};
use ekiden_core::event::RunResumed;
use ekiden_core::ids::{MessageId, RunId, StageId};
use ekiden_core::manifest::Manifest;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::PlanProgress;
use ekiden_core::settings::RunStarted;
use ekiden_core::steering::{Steered, StopRequest};
use ekiden_core::time::Timestamp;
use ekiden_engine::known_limits::Limit;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shares::Shares;

/// The most that travels at once, in bytes. The server refuses some megabytes; a history holds it for good.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 60 * 1024;
/// The most of a text that an answer carries, and of a list; the rest is in the stage's log.
pub(crate) const TEXT_CHARS_MAX: usize = 2000;
const ITEMS_MAX: usize = 50;

/// A plan to be carried out: the input of the workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The version of the program that submitted it.
    pub(crate) ekiden: String,
    pub(crate) run: RunId,
    /// See [`crate::outline`]; nothing if it is too large to travel with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outline: Option<Manifest>,
    /// Where the integration branch begins.
    pub(crate) base: String,
    /// The commit at the remote that holds the [`Submission`].
    pub(crate) plan: String,
    /// For how long a worker may be silent before its stage goes on elsewhere.
    pub(crate) lease_secs: u64,
    /// For all stages together.
    #[serde(default)]
    pub(crate) budget: Budget,
    /// After so many events the plan goes on in a new history. Nothing in orders of earlier versions, which name no activities.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events_max: Option<u32>,
    /// How far the plan was when its last history ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) carried: Option<Box<Carried>>,
}

/// What goes from a history of a plan to the next.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Carried {
    pub(crate) plan: PlanProgress,
    pub(crate) state: FleetState,
}

/// What the fleet keeps of a plan beside core's. Nothing of stages that are merged.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FleetState {
    /// The end of the integration branch.
    pub(crate) tip: String,
    /// What each stage made in its last round.
    pub(crate) made: BTreeMap<StageId, String>,
    pub(crate) rounds: BTreeMap<StageId, u32>,
    /// Answers for stages that begin again.
    pub(crate) answers: BTreeMap<StageId, String>,
    pub(crate) shares: Shares,
    pub(crate) limits: Limits,
    /// Stages that wait for budget which others give back.
    pub(crate) short: BTreeSet<StageId>,
    /// The last messages that were heard.
    pub(crate) heard: Vec<MessageId>,
    /// A person wants a pause.
    pub(crate) is_paused: bool,
}

impl Order {
    /// Activities have names, so that a program that would begin others than a history tells is found out.
    pub(crate) fn names(&self) -> bool {
        self.events_max.is_some()
    }
}

impl FleetState {
    pub(crate) fn merged(&mut self, stage: &StageId, tip: String) {
        self.tip = tip;
        self.made.remove(stage);
        self.rounds.remove(stage);
        self.shares.close(stage);
    }
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

/// The limits of all accounts, as the workflow knows them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Limits(BTreeMap<String, Limited>);

impl Limits {
    /// Takes in one that was met. Those that are lifted by then go.
    pub(crate) fn note(&mut self, limited: Limited, now: Timestamp) {
        self.0.retain(|_, known| known.limit.resets_at > now);
        let Limit {
            agent,
            kind,
            resets_at,
        } = &limited.limit;
        let name = format!(
            "{} {} {:?} {kind:?}",
            limited.account, agent.name, agent.model
        );
        let known = self.0.get(&name);
        if known.is_none_or(|known| known.limit.resets_at < *resets_at) {
            self.0.insert(name, limited);
        }
    }

    pub(crate) fn all(&self) -> Vec<Limited> {
        self.0.values().cloned().collect()
    }
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
    /// What it has cost so far. Its log tells less where a worker died.
    #[serde(default, skip_serializing_if = "Spend::is_nothing")]
    pub(crate) spent: Spend,
    /// What all of it may come to.
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
    /// What it made; nothing if it was done before, which is only to be confirmed.
    pub(crate) commit: Option<String>,
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

/// Keeps what others wrote within bounds, each text and each list. It was the worker's signal that stopped a stage, and a
/// person who asked for that.
pub(crate) fn bounded(outcome: Outcome, chars: usize) -> Outcome {
    if matches!(outcome, Outcome::Stopped { .. }) {
        let request = StopRequest::Gently;
        return Outcome::Stopped { request };
    }
    let cut = serde_json::to_value(&outcome).map(|mut value| {
        cut(&mut value, chars);
        value
    });
    cut.and_then(serde_json::from_value).unwrap_or(outcome)
}

fn cut(value: &mut Value, chars: usize) {
    match value {
        Value::String(text) => {
            let end = text
                .char_indices()
                .nth(chars)
                .map_or(text.len(), |(at, _)| at);
            text.truncate(end);
        }
        Value::Array(items) => {
            items.truncate(ITEMS_MAX);
            items.iter_mut().for_each(|item| cut(item, chars));
        }
        Value::Object(fields) => fields.values_mut().for_each(|field| cut(field, chars)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(crate) fn conflict(mut files: Vec<String>) -> MergeDone {
    files.truncate(ITEMS_MAX);
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
