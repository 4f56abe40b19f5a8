//! The plan as a workflow. The same [`Plan`] decides as in a run on one machine.
//!
//! It is replayed from the workflow's history, so it may read nothing but its input and what activities
//! answered: the model has no clock and no randomness, and time comes from the history.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use ekiden_core::effect::WorktreeEffect;
use ekiden_core::ids::StageId;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::{Plan, PlanDecision};
use ekiden_core::steering::StopRequest;
use ekiden_core::text::{in_full, one_line};
use ekiden_core::time::Timestamp;
use futures::future::{FutureExt as _, LocalBoxFuture, select_all};
use temporalio_common::RetryPolicy;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, WorkflowContext,
    WorkflowResult,
};

use crate::order::{
    MergeDone, MergeTask, Order, PlanDone, REASONS_MAX, StageDone, StageTask, TEXT_CHARS_MAX,
};
use crate::worker::Activities;

/// The longest that a stage may take, usage limits included.
const STAGE_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest pause before an activity is tried again.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often an activity is tried before its stage fails; a worker that dies counts as a try.
const TRIES_MAX: u32 = 20;

#[workflow]
#[derive(Default)]
pub(crate) struct FleetPlan;

#[workflow_methods]
impl FleetPlan {
    #[run]
    pub(crate) async fn run(
        ctx: &mut WorkflowContext<Self>,
        order: Order,
    ) -> WorkflowResult<PlanDone> {
        let ctx = &*ctx;
        let mut fleet = Fleet::new(order);
        let cancelled = ctx.cancelled().map(|_| Step::Cancelled);
        let mut at_work: Vec<Work<'_>> = vec![cancelled.boxed_local()];
        loop {
            let now = time(ctx);
            loop {
                let decisions = fleet.plan.next(now);
                if decisions.is_empty() {
                    break;
                }
                for decision in decisions {
                    at_work.extend(fleet.act(ctx, decision));
                }
                if let Some(outcome) = fleet.ended.take() {
                    let (tip, merged) = (fleet.tip, fleet.merged);
                    return Ok(PlanDone {
                        outcome,
                        tip,
                        merged,
                        reasons: fleet.reasons.into_iter().take(REASONS_MAX).collect(),
                    });
                }
            }
            let (step, _, rest) = select_all(at_work).await;
            at_work = rest;
            if let Some(decision) = fleet.take(step) {
                at_work.extend(fleet.act(ctx, decision));
            }
        }
    }
}

/// Something that is under way, and what comes of it.
type Work<'a> = LocalBoxFuture<'a, Step>;

enum Step {
    Stage(StageId, Result<StageDone, ActivityExecutionError>),
    Merge(StageId, Result<MergeDone, ActivityExecutionError>),
    Cancelled,
}

struct Fleet {
    order: Order,
    plan: Plan,
    /// The end of the integration branch.
    tip: String,
    /// What each stage made in its last round.
    made: BTreeMap<StageId, String>,
    rounds: BTreeMap<StageId, u32>,
    merged: usize,
    /// Why stages are not done.
    reasons: BTreeMap<StageId, String>,
    ended: Option<Outcome>,
}

impl Fleet {
    fn new(order: Order) -> Self {
        Self {
            plan: Plan::new(&order.outline),
            tip: order.base.clone(),
            made: BTreeMap::new(),
            rounds: BTreeMap::new(),
            merged: 0,
            reasons: BTreeMap::new(),
            ended: None,
            order,
        }
    }

    /// Carries out a decision; what has to be waited for comes back.
    fn act<'a>(
        &mut self,
        ctx: &'a WorkflowContext<FleetPlan>,
        decision: PlanDecision,
    ) -> Option<Work<'a>> {
        match decision {
            // Whoever carries it out makes its work tree.
            PlanDecision::Worktree(stage, WorktreeEffect::Prepare) => {
                let next = self.plan.prepared(&stage, Ok(()))?;
                self.act(ctx, next)
            }
            PlanDecision::Worktree(stage, WorktreeEffect::Merge) => self.merge(ctx, stage),
            PlanDecision::Worktree(stage, WorktreeEffect::Confirm) => {
                let why = "a fleet does not check whether a stage was done before";
                self.plan.not_merged(&stage, why.to_owned());
                None
            }
            PlanDecision::Start(stage) | PlanDecision::Retry { stage, .. } => {
                Some(self.start(ctx, stage))
            }
            // Whoever submitted the plan fetches the integration branch.
            PlanDecision::Deliver => {
                self.plan.delivered(None);
                None
            }
            PlanDecision::End(outcome) => {
                self.ended = Some(outcome);
                None
            }
        }
    }

    fn start<'a>(&mut self, ctx: &'a WorkflowContext<FleetPlan>, stage: StageId) -> Work<'a> {
        let round = self.rounds.entry(stage.clone()).or_default();
        *round += 1;
        let task = self.task(&stage, self.tip.clone());
        let known = self.order.outline.stages.iter();
        let mut known = known.filter(|known| known.id == stage);
        let queue = known.find_map(|stage| stage.part.queue.clone());
        let work = ctx.execute_activity(Activities::stage, task, self.options(queue));
        work.map(|done| Step::Stage(stage, done)).boxed_local()
    }

    fn merge<'a>(
        &mut self,
        ctx: &'a WorkflowContext<FleetPlan>,
        stage: StageId,
    ) -> Option<Work<'a>> {
        let Some(commit) = self.made.remove(&stage) else {
            let why = "its worker named no commit".to_owned();
            self.plan.not_merged(&stage, why);
            return None;
        };
        let task = self.task(&stage, self.order.base.clone());
        let input = MergeTask { task, commit };
        let work = ctx.execute_activity(Activities::merge, input, self.options(None));
        Some(work.map(|done| Step::Merge(stage, done)).boxed_local())
    }

    fn task(&self, stage: &StageId, base: String) -> StageTask {
        StageTask {
            run: self.order.run.clone(),
            stage: stage.clone(),
            round: self.rounds.get(stage).copied().unwrap_or(1),
            base,
            plan: self.order.plan.clone(),
        }
    }

    /// For the workers of a queue; of the plan's own if none is named.
    fn options(&self, queue: Option<String>) -> ActivityOptions {
        let lease = Duration::from_secs(self.order.lease_secs);
        let retries = RetryPolicy::builder()
            .maximum_interval(RETRY_PAUSE_MAX)
            .maximum_attempts(TRIES_MAX)
            .build();
        ActivityOptions::with_start_to_close_timeout(STAGE_TIME_MAX)
            .heartbeat_timeout(lease)
            .maybe_task_queue(queue)
            // The workflow must not say that it is over while an agent lives.
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            .retry_policy(retries)
            .build()
    }

    /// Takes in what came of something.
    fn take(&mut self, step: Step) -> Option<PlanDecision> {
        match step {
            Step::Cancelled => {
                self.plan.stop(StopRequest::Gently);
                None
            }
            Step::Stage(stage, done) => {
                let outcome = match done {
                    Ok(StageDone { outcome, commit }) => {
                        self.made
                            .extend(commit.map(|commit| (stage.clone(), commit)));
                        outcome
                    }
                    Err(ActivityExecutionError::Cancelled(_)) => Outcome::Stopped {
                        request: StopRequest::Gently,
                    },
                    Err(error) => Outcome::NoWorktree {
                        why: in_full(&error),
                    },
                };
                if !outcome.is_complete() {
                    self.reasons.insert(stage.clone(), told(&outcome));
                }
                self.plan.stage_ended(&stage, &outcome)
            }
            Step::Merge(stage, done) => {
                match done {
                    Ok(MergeDone::Merged { commit }) => {
                        self.tip = commit;
                        self.merged += 1;
                        self.reasons.remove(&stage);
                        self.plan.merged(&stage);
                    }
                    Ok(MergeDone::Conflict { files }) => {
                        self.plan.unmerged(&stage, files);
                    }
                    Ok(MergeDone::Refused { why }) => self.plan.not_merged(&stage, why),
                    Err(ActivityExecutionError::Cancelled(_)) => {
                        self.plan.merge_cancelled(&stage);
                    }
                    Err(error) => self.plan.not_merged(&stage, in_full(&error)),
                }
                None
            }
        }
    }
}

/// What became of a stage, in one bounded line.
fn told(outcome: &Outcome) -> String {
    let text = if let Outcome::NoWorktree { why } = outcome {
        why.clone()
    } else {
        outcome.to_string()
    };
    one_line(&text, TEXT_CHARS_MAX)
}

/// The time of the history's last event.
fn time(ctx: &WorkflowContext<FleetPlan>) -> Timestamp {
    let since = ctx
        .workflow_time()
        .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let ms = since.map_or(0, |since| since.as_millis());
    Timestamp(u64::try_from(ms).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use temporalio_common::protos::temporal::api::history::v1::History;
    use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};

    use super::*;

    /// Recorded by `tests/fleet.rs`: five stages, one of which changed its worker, and a server that was killed.
    const HISTORY: &[u8] = include_bytes!("../tests/history-1.bin");

    #[tokio::test]
    async fn a_run_of_an_older_program_decides_the_same() {
        let history = History::decode(HISTORY).unwrap();
        let options = WorkflowReplayerOptions::new()
            .register_workflow::<FleetPlan>()
            .unwrap()
            .build();
        let replayer = WorkflowReplayer::new(options).unwrap();
        replayer.replay_workflow(history.into()).await.unwrap();
    }
}
