//! What travels through Temporal: references, and the facts on which the plan decides. Contents travel by
//! git.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use ekiden_core::budget::Budget;
use ekiden_core::event::{Check, RunResumed};
use ekiden_core::ids::{MessageId, RunId, StageId};
use ekiden_core::limits::OPERATOR_CHARS_MAX;
use ekiden_core::manifest::Manifest;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::PlanProgress;
use ekiden_core::secrets::mask;
use ekiden_core::settings::RunStarted;
use ekiden_core::steering::{Steered, Steering, StopRequest};
use ekiden_core::text::clean;
use ekiden_core::time::Timestamp;
use ekiden_engine::known_limits::Limit;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::messages::Messages;
use crate::shares::{Shares, Spent};

/// The most bytes that travel at once. The server refuses a few megabytes, and a history keeps it forever.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 60 * 1024;
/// The longest text and the longest list in an answer; the rest is in the stage's log.
pub(crate) const TEXT_CHARS_MAX: usize = 2000;
const ITEMS_MAX: usize = 50;
/// The largest answer, as JSON. The server keeps it in a history forever.
const ANSWER_BYTES_MAX: usize = 32 * 1024;
/// The mark where a text was cut.
const REST: &str = " ... (the rest is in the log of the stage, or of its worker)";

/// A plan to execute: the input of the workflow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlanOrder {
    /// The version of the program that submitted it.
    pub(crate) ekiden: String,
    pub(crate) run: RunId,
    /// See [`crate::outline`]; `None` if it is too large to travel with this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outline: Option<Manifest>,
    /// Where the integration branch starts.
    pub(crate) base: String,
    /// The commit at the remote that holds the [`Submission`].
    pub(crate) plan: String,
    /// How long a worker may be silent before its stage continues on another one.
    pub(crate) lease_secs: u64,
    /// For all stages together.
    #[serde(default)]
    pub(crate) budget: Budget,
    /// The same for single agents, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) agents: BTreeMap<String, Budget>,
    /// After this many events the plan continues in a new history.
    pub(crate) events_max: u32,
    /// The plan's state when its last history ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) carried: Option<Box<Carried>>,
}

/// What one history of a plan passes to the next.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Carried {
    pub(crate) plan: PlanProgress,
    pub(crate) state: FleetState,
}

/// What the fleet keeps of a plan beside core's state. Nothing of stages that are merged.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FleetState {
    /// The end of the integration branch.
    pub(crate) tip: String,
    /// What kept the last results of stages that are not merged yet from being merged.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) merge_failures: BTreeMap<StageId, MergeFailure>,
    /// The result of each stage's last round.
    pub(crate) made: BTreeMap<StageId, String>,
    pub(crate) rounds: BTreeMap<StageId, u32>,
    pub(crate) answers: BTreeMap<StageId, String>,
    pub(crate) shares: Shares,
    pub(crate) limits: Limits,
    /// Stages that wait for others to give back budget.
    pub(crate) short: BTreeSet<StageId>,
    pub(crate) heard: Vec<MessageId>,
    pub(crate) messages: Messages,
    /// A person wants a pause.
    pub(crate) is_paused: bool,
}

impl FleetState {
    /// The stage is done again.
    pub(crate) fn not_merged(&mut self, stage: StageId, merge_failure: MergeFailure) {
        self.shares.close(&stage);
        let before = self.merge_failures.remove(&stage);
        self.merge_failures
            .insert(stage.clone(), merge_failure.after(before));
        *self.rounds.entry(stage).or_insert(1) += 1;
    }

    pub(crate) fn merged(&mut self, stage: &StageId, tip: String) {
        self.tip = tip;
        self.made.remove(stage);
        self.rounds.remove(stage);
        self.merge_failures.remove(stage);
        self.shares.close(stage);
    }
}

/// A plan as it is published at the remote, for workers and followers.
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
    /// Ekiden's directory in the user's state directory.
    pub(crate) user_dir: Option<PathBuf>,
}

/// The input of `ekiden execute --on fleet`.
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

/// The input of `ekiden fleet follow`, and of `ekiden resume` for a fleet's run.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Followed {
    pub(crate) here: Here,
    /// A prefix of its id.
    pub(crate) run: String,
    pub(crate) remote: String,
    /// What to resume it with, if it has ended.
    pub(crate) resumed: Option<RunResumed>,
    /// Whether to return as soon as the message is delivered.
    pub(crate) detach: bool,
}

/// A message to a running plan: the workflow's signal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum PlanSignal {
    /// A person steers it.
    Steered { steered: Steered },
    /// A worker hit a usage limit.
    Limited { limit: Limited },
    /// It ended incomplete, and now continues.
    Resumed { resumed: Box<RunResumed> },
}

/// A usage limit that a worker hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Limited {
    /// The workers' name for the account: workers that use the same name share its limits.
    pub(crate) account: String,
    pub(crate) limit: Limit,
}

/// The limits of all accounts, as the workflow knows them.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Limits(BTreeMap<String, Limited>);

impl Limits {
    /// Takes in a limit that was hit. Limits that have been lifted by then are dropped.
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

/// What attempts ask the workflow while they work.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct ForAttempts {
    /// The usage limits that workers hit.
    pub(crate) limits: Vec<Limited>,
    pub(crate) messages: Messages,
}

/// One round of a stage: from a commit of the integration branch to a new commit.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StageTask {
    pub(crate) run: RunId,
    pub(crate) stage: StageId,
    /// From 1. A stage that does not merge is done again, on top of what is merged by then.
    pub(crate) round: u32,
    pub(crate) base: String,
    pub(crate) plan: String,
    /// What kept the result of the round before from being merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) merge_failure: Option<MergeFailure>,
    /// The answer to the question that ended this round before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<String>,
    /// What it has cost so far. If a worker died, its log shows less.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub(crate) spent: Spent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) budget: Option<Budget>,
    /// The same for agents that have a budget.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) agents: BTreeMap<String, Budget>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StageDone {
    pub(crate) outcome: Outcome,
    pub(crate) commit: Option<String>,
    /// Everything that this round has spent.
    #[serde(default)]
    pub(crate) spent: Spent,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MergeTask {
    /// What is merged; its base is where the integration branch began, or, without a result, where that is now.
    pub(crate) task: StageTask,
    /// Its result; `None` if it was done before and only needs to be confirmed.
    pub(crate) commit: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum MergeDone {
    /// The integration branch is at this commit.
    Merged { commit: String },
    /// It does not go together with the work of others.
    Conflict(MergeFailure),
    /// No agent can repair it.
    Refused { why: String },
}

/// What keeps a stage's result from being merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MergeFailure {
    /// The files that conflict; none if only the validation fails.
    pub(crate) files: Vec<String>,
    /// The validation that failed, if no files conflict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) check: Option<Check>,
    /// The stages that were merged while this one was at work, in all its rounds.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) met: BTreeSet<StageId>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlanDone {
    pub(crate) outcome: Outcome,
    /// The end of the integration branch.
    pub(crate) tip: String,
}

impl PlanSignal {
    /// With as much of a person's text as an agent gets.
    pub(crate) fn bounded(mut self) -> Self {
        match &mut self {
            Self::Steered { steered } => {
                if let Steering::Answer { words, .. } | Steering::Instruct { words } =
                    &mut steered.steering
                {
                    keep(words, OPERATOR_CHARS_MAX);
                }
            }
            Self::Resumed { resumed } => {
                if let Some(answer) = &mut resumed.answer {
                    keep(&mut answer.words, OPERATOR_CHARS_MAX);
                }
            }
            Self::Limited { .. } => {}
        }
        self
    }
}

/// Keeps text from others within bounds: each text, each list, and the total. The worker's signal stops a
/// stage, but a person asked for that.
pub(crate) fn bounded(outcome: Outcome, chars: usize) -> Outcome {
    if matches!(outcome, Outcome::Stopped { .. }) {
        let request = StopRequest::Gently;
        return Outcome::Stopped { request };
    }
    let Ok(mut value) = serde_json::to_value(&outcome) else {
        return outcome;
    };
    let (mut chars, mut items) = (chars, ITEMS_MAX);
    loop {
        cut(&mut value, chars, items);
        let bytes = serde_json::to_vec(&value).map_or(0, |text| text.len());
        if bytes <= ANSWER_BYTES_MAX {
            return serde_json::from_value(value).unwrap_or(outcome);
        }
        (chars, items) = (chars / 2, items.div_ceil(2));
    }
}

fn cut(value: &mut Value, chars: usize, items: usize) {
    match value {
        Value::String(text) => shorten(text, chars),
        Value::Array(all) => {
            all.truncate(items);
            all.iter_mut().for_each(|item| cut(item, chars, items));
        }
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|field| cut(field, chars, items)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Cuts a text that is too long, and says where the rest is.
pub(crate) fn shorten(text: &mut String, chars: usize) {
    if keep(text, chars) {
        text.push_str(REST);
    }
}

/// Keeps the beginning of a text; returns whether it cut something. A text that was cut before counts
/// without its mark.
fn keep(text: &mut String, chars: usize) -> bool {
    let counted = text.strip_suffix(REST).unwrap_or(text);
    let end = counted.char_indices().nth(chars).map(|(at, _)| at);
    end.inspect(|end| text.truncate(*end)).is_some()
}

impl MergeFailure {
    /// Small enough to travel.
    pub(crate) fn bounded(mut self) -> Self {
        let files = &mut self.files;
        files.truncate(ITEMS_MAX);
        let mut bytes = 0;
        files.retain(|file| {
            bytes += file.len();
            bytes <= ANSWER_BYTES_MAX / 2
        });
        if files.is_empty() && bytes > 0 {
            // An empty list would mean that the validation failed.
            files.push("a file with a long name".to_owned());
        }
        if let Some(check) = &mut self.check {
            // Clean before it is masked: a colour code inside a secret would hide it.
            let tail = clean(&check.tail).text;
            let tail = mask(&tail);
            let over = tail.chars().count().saturating_sub(TEXT_CHARS_MAX);
            check.tail = tail.chars().skip(over).collect();
        }
        self.met = self.met.into_iter().take(ITEMS_MAX).collect();
        self
    }

    /// This one, after the stage met others in earlier rounds.
    pub(crate) fn after(mut self, before: Option<Self>) -> Self {
        self.met
            .extend(before.into_iter().flat_map(|before| before.met));
        self
    }

    pub(crate) fn in_words(&self) -> String {
        match &self.check {
            Some(check) => format!("the validation of the merge {check}\n{}", check.tail),
            None => format!("conflicts in these files:\n{}", self.files.join("\n")),
        }
    }
}

pub(crate) fn workflow(run: &RunId) -> String {
    format!("ekiden-{run}")
}

/// Where everything of a run is stored at the remote.
pub(crate) mod refs {
    use super::StageTask;
    use ekiden_core::ids::{RunId, StageId};

    /// The integration branch. Not `ekiden/<run>`, which would block the names of the stages' branches.
    pub(crate) fn merged(run: &RunId) -> String {
        format!("refs/heads/ekiden/{run}-merged")
    }

    pub(crate) fn plan(run: &RunId) -> String {
        format!("refs/ekiden/{run}/plan")
    }

    /// What all stages left at their last handoffs, below it as `<stage>/<round>`.
    pub(crate) fn handoffs(run: &RunId) -> String {
        format!("refs/ekiden/{run}/stages")
    }

    /// What a stage left at its last handoff: see [`crate::attempt`].
    pub(crate) fn handoff(task: &StageTask) -> String {
        format!("{}/{}/{}", handoffs(&task.run), task.stage, task.round)
    }

    /// The stage and the round of a ref below this one.
    pub(crate) fn round_of(name: &str, under: &str) -> Option<(StageId, u32)> {
        let below = name.strip_prefix(under)?.strip_prefix('/')?;
        let (stage, round) = below.split_once('/')?;
        Some((stage.to_owned().try_into().ok()?, round.parse().ok()?))
    }

    /// Where a follower of a plan keeps what it fetched.
    pub(crate) fn followed(run: &RunId) -> String {
        format!("refs/ekiden/fleet/{run}")
    }

    /// The result of one attempt at a stage.
    pub(crate) fn made(task: &StageTask, attempt: u32) -> String {
        format!(
            "refs/heads/ekiden/{}/{}/{}.{attempt}",
            task.run, task.stage, task.round
        )
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::event::CheckOutcome;
    use ekiden_core::outcome::StageFailed;
    use ekiden_core::time::Millis;

    use super::*;

    fn bytes(value: &impl Serialize) -> usize {
        serde_json::to_vec(value).unwrap().len()
    }

    // shows: FLT-01
    #[test]
    fn whatever_a_stage_ends_with_is_small_and_says_where_the_rest_is() {
        let long = || "Es ist voll. \u{1F4A5}\n".repeat(10_000);
        let stage = |at: usize| StageId::try_from(format!("S{at}")).unwrap();
        let blocked = Outcome::Blocked { question: long() };
        let failed = |at| StageFailed {
            stage: stage(at),
            outcome: Box::new(Outcome::Unmerged {
                files: vec![long(); 80],
            }),
        };
        let many = Outcome::StagesFailed {
            failed: (0..80).map(failed).collect(),
            blocked: 7,
        };
        for outcome in [blocked.clone(), many] {
            let small = bounded(outcome.clone(), TEXT_CHARS_MAX);
            assert!(bytes(&small) <= ANSWER_BYTES_MAX, "{}", bytes(&small));
            assert_eq!(
                std::mem::discriminant(&small),
                std::mem::discriminant(&outcome)
            );
            assert!(serde_json::to_string(&small).unwrap().contains(REST));
            assert_eq!(bounded(small.clone(), TEXT_CHARS_MAX), small);
        }
        let short = Outcome::Blocked {
            question: "Which port?".to_owned(),
        };
        assert_eq!(bounded(short.clone(), TEXT_CHARS_MAX), short);
    }

    #[test]
    fn the_files_of_a_conflict_are_small_and_never_none() {
        for files in [vec!["x".repeat(4_000); 80], vec!["x".repeat(40_000)]] {
            let merge_failure = MergeFailure {
                files,
                ..MergeFailure::default()
            };
            let merge_failure = merge_failure.bounded();
            assert!(!merge_failure.files.is_empty());
            assert!(bytes(&MergeDone::Conflict(merge_failure)) <= ANSWER_BYTES_MAX);
        }
    }

    // shows: MEM-12
    #[test]
    fn what_a_validation_printed_travels_without_its_secrets() {
        let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
        let (begin, end) = secret.split_at(10);
        let check = Check {
            outcome: CheckOutcome::Failed { code: 1 },
            tree: None,
            duration: Millis(1),
            tail: format!("cannot push with \u{1b}[33m{begin}\u{1b}[1m{end}\n"),
        };
        let merge_failure = MergeFailure {
            check: Some(check),
            ..MergeFailure::default()
        };
        let told = merge_failure.bounded().in_words();
        assert!(told.contains("cannot push with [masked: "), "{told}");
        assert!(!told.contains(begin) && !told.contains(end), "{told}");
    }

    #[test]
    fn an_answer_travels_as_far_as_an_agent_is_given_it() {
        let steered = serde_json::json!({
            "message": "m1", "steering": { "kind": "answer", "stage": "A", "words": "a".repeat(100_000) },
        });
        let steered = serde_json::from_value(steered).unwrap();
        let signal = PlanSignal::Steered { steered }.bounded();
        assert!((OPERATOR_CHARS_MAX..OPERATOR_CHARS_MAX + 200).contains(&bytes(&signal)));
    }
}
