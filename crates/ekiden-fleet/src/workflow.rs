//! The plan as a workflow. The same [`Plan`] decides as in a run on one machine.
//!
//! It is replayed from the workflow's history, so it may read nothing but its input and what activities
//! answered: the model has no clock and no randomness, and time comes from the history.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::time::{Duration, UNIX_EPOCH};

use ekiden_core::budget::Spend;
use ekiden_core::effect::WorktreeEffect;
use ekiden_core::ids::{MessageId, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::{Plan, PlanDecision};
use ekiden_core::steering::{Steering, StopRequest};
use ekiden_core::text::in_full;
use ekiden_core::time::Timestamp;
use futures::future::{Either, FutureExt as _, LocalBoxFuture, select, select_all};
use temporalio_common::RetryPolicy;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, CancellableFuture,
    SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult,
};

use crate::limits::Limits;
use crate::order::{
    Limited, MergeDone, MergeTask, Order, PlanDone, PlanSignal, StageDone, StageTask,
};
use crate::shares::Shares;
use crate::worker::Activities;

/// The longest that a stage may take, usage limits included.
const STAGE_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest pause before an activity is tried again.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often an activity is tried before its stage fails; a worker that dies counts as a try.
const TRIES_MAX: u32 = 20;
/// For how long a plan that ended and is not complete can be resumed.
const RESUMABLE: Duration = Duration::from_secs(30 * 24 * 3600);

#[workflow]
#[derive(Default)]
pub(crate) struct FleetPlan {
    signals: VecDeque<PlanSignal>,
    /// Stages that are at work stop.
    stopping: bool,
    limits: Vec<Limited>,
}

#[workflow_methods]
impl FleetPlan {
    #[signal]
    pub(crate) fn tell(&mut self, _ctx: &mut SyncWorkflowContext<Self>, signal: PlanSignal) {
        self.signals.push_back(signal);
    }

    /// The usage limits that workers met.
    #[query]
    pub(crate) fn limits(&self, _ctx: &WorkflowContextView) -> Vec<Limited> {
        self.limits.clone()
    }

    #[run]
    pub(crate) async fn run(
        ctx: &mut WorkflowContext<Self>,
        order: Order,
    ) -> WorkflowResult<PlanDone> {
        let ctx = &*ctx;
        let mut fleet = Fleet::new(order);
        let cancelled = ctx.cancelled().map(|_| Step::Cancelled);
        let mut at_work: Vec<Work<'_>> = vec![cancelled.boxed_local(), next_signal(ctx)];
        loop {
            at_work.extend(fleet.carry_on(ctx));
            if let Some(outcome) = fleet.over() {
                let tip = fleet.tip;
                return Ok(PlanDone { outcome, tip });
            }
            let (step, _, rest) = select_all(at_work).await;
            at_work = rest;
            if matches!(step, Step::Signalled) {
                let signals = ctx.state_mut(|state| std::mem::take(&mut state.signals));
                let now = time(ctx);
                let signals = signals.into_iter();
                signals.for_each(|signal| fleet.hear(now, signal));
                ctx.state_mut(|state| {
                    state.stopping = fleet.plan.is_stopping();
                    state.limits = fleet.limits.all();
                });
                at_work.push(next_signal(ctx));
            } else if let Some(decision) = fleet.take(step) {
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
    /// A signal has come.
    Signalled,
    /// Nobody has resumed it since this many resumes.
    Abandoned {
        resumes: u32,
    },
    Cancelled,
}

/// The next signal to the plan.
fn next_signal(ctx: &WorkflowContext<FleetPlan>) -> Work<'_> {
    let signal = async {
        // One that is cancelled waits for nothing more.
        match ctx.wait_condition(|state| !state.signals.is_empty()).await {
            Ok(()) => Step::Signalled,
            Err(_) => std::future::pending().await,
        }
    };
    signal.boxed_local()
}

/// Waits for an activity, which is cancelled if the plan stops.
async fn unless_stopped<T>(
    ctx: &WorkflowContext<FleetPlan>,
    work: impl CancellableFuture<Output = T>,
) -> T {
    let mut work = pin!(work);
    let stopped = pin!(ctx.wait_condition(|state| state.stopping));
    match select(work.as_mut(), stopped).await {
        Either::Left((done, _)) => done,
        Either::Right(_) => {
            work.as_ref().get_ref().cancel();
            work.await
        }
    }
}

struct Fleet {
    order: Order,
    plan: Plan,
    /// The end of the integration branch.
    tip: String,
    /// What each stage made in its last round.
    made: BTreeMap<StageId, String>,
    rounds: BTreeMap<StageId, u32>,
    /// Answers for stages that begin again.
    answers: BTreeMap<StageId, String>,
    shares: Shares,
    limits: Limits,
    /// Stages that workers are at.
    at_work: BTreeSet<StageId>,
    /// Those that wait for budget which others give back.
    short: BTreeSet<StageId>,
    heard: BTreeSet<MessageId>,
    /// How often it was resumed.
    resumes: u32,
    /// Once it has ended, nobody waits for a resume.
    is_abandoned: bool,
}

impl Fleet {
    fn new(order: Order) -> Self {
        Self {
            plan: Plan::new(&order.outline),
            tip: order.base.clone(),
            made: BTreeMap::new(),
            rounds: BTreeMap::new(),
            answers: BTreeMap::new(),
            shares: Shares::new(order.budget),
            limits: Limits::default(),
            at_work: BTreeSet::new(),
            short: BTreeSet::new(),
            heard: BTreeSet::new(),
            resumes: 0,
            is_abandoned: false,
            order,
        }
    }

    /// Begins all that the plan wants.
    fn carry_on<'a>(&mut self, ctx: &'a WorkflowContext<FleetPlan>) -> Vec<Work<'a>> {
        let now = time(ctx);
        let mut at_work = Vec::new();
        loop {
            let mut decisions = self.plan.next(now);
            if decisions.is_empty() {
                // Only where no other stage can begin.
                decisions.extend(self.next_short());
            }
            if decisions.is_empty() {
                decisions = self.plan.next(now);
            }
            if decisions.is_empty() {
                return at_work;
            }
            for decision in decisions {
                at_work.extend(self.act(ctx, decision));
            }
        }
    }

    /// How it ended, if nothing more can come of it.
    fn over(&self) -> Option<Outcome> {
        let ended = self.plan.ended();
        let for_good = |outcome: &&Outcome| outcome.is_complete() || self.is_abandoned;
        ended.filter(for_good).cloned()
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
            // Whoever follows the plan fetches the integration branch.
            PlanDecision::Deliver => {
                self.plan.delivered(None);
                None
            }
            PlanDecision::End(outcome) if outcome.is_complete() => None,
            PlanDecision::End(_) => {
                let resumes = self.resumes;
                let waited = ctx.timer(RESUMABLE);
                Some(
                    waited
                        .map(move |_| Step::Abandoned { resumes })
                        .boxed_local(),
                )
            }
        }
    }

    fn start<'a>(&mut self, ctx: &'a WorkflowContext<FleetPlan>, stage: StageId) -> Work<'a> {
        // Those that are to begin, and this one.
        let others = self.at_work.len() + self.short.len();
        let sharers = self.plan.at_work().saturating_sub(others);
        let mut task = self.task(&stage, self.tip.clone());
        task.answer = self.answers.remove(&stage);
        task.budget = self.shares.reserve(&stage, sharers);
        self.at_work.insert(stage.clone());
        let known = self.order.outline.stages.iter();
        let mut known = known.filter(|known| known.id == stage);
        let queue = known.find_map(|stage| stage.part.queue.clone());
        let work = ctx.execute_activity(Activities::stage, task, self.options(queue));
        let work = unless_stopped(ctx, work);
        work.map(|done| Step::Stage(stage, done)).boxed_local()
    }

    fn merge<'a>(
        &mut self,
        ctx: &'a WorkflowContext<FleetPlan>,
        stage: StageId,
    ) -> Option<Work<'a>> {
        let Some(commit) = self.made.get(&stage).cloned() else {
            let why = "its worker named no commit".to_owned();
            self.plan.not_merged(&stage, why);
            return None;
        };
        let task = self.task(&stage, self.order.base.clone());
        let input = MergeTask { task, commit };
        let work = ctx.execute_activity(Activities::merge, input, self.options(None));
        let work = unless_stopped(ctx, work);
        Some(work.map(|done| Step::Merge(stage, done)).boxed_local())
    }

    fn task(&self, stage: &StageId, base: String) -> StageTask {
        StageTask {
            run: self.order.run.clone(),
            stage: stage.clone(),
            round: self.rounds.get(stage).copied().unwrap_or(1),
            base,
            plan: self.order.plan.clone(),
            answer: None,
            budget: None,
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

    /// Takes in what somebody told. What was heard before counts once.
    fn hear(&mut self, now: Timestamp, signal: PlanSignal) {
        match signal {
            PlanSignal::Steered { steered } if !self.heard.insert(steered.message.clone()) => {}
            PlanSignal::Steered { steered } => match steered.steering {
                stop @ Steering::Stop { .. } => {
                    stop.stop()
                        .into_iter()
                        .for_each(|request| self.plan.stop(request));
                }
                Steering::Pause => self.plan.pause(true),
                Steering::Unpause => self.plan.pause(false),
                Steering::Answer { stage, words } => {
                    if self.plan.answered(&stage) {
                        self.answers.insert(stage, words);
                    }
                }
                Steering::ChangeLimits(limits) => self.shares.change(limits.bounds.run),
                // Nobody sends them: a stage's own engine would have to hear them.
                Steering::HandOff | Steering::Instruct { .. } => {}
            },
            PlanSignal::Limited { limit } => self.limits.note(limit, now),
            PlanSignal::Resumed { resumed } => {
                self.resumes += 1;
                self.shares.change(resumed.limits.bounds.run);
                let answered = resumed.answer.as_ref().map(|answer| &answer.stage);
                self.plan.resume(answered);
                let answer = resumed.answer.map(|answer| (answer.stage, answer.words));
                self.answers.extend(answer);
            }
        }
    }

    /// A worker is no longer at a stage. One that ran short of budget has not ended while others may give some back.
    fn settle(
        &mut self,
        stage: &StageId,
        outcome: &Outcome,
        spent: Option<Spend>,
    ) -> Option<PlanDecision> {
        self.at_work.remove(stage);
        let ran_short = self.shares.is_limited() && matches!(outcome, Outcome::BudgetSpent { .. });
        if ran_short {
            self.shares.ran_short(stage, spent.unwrap_or_default());
        }
        self.shares.settle(stage, spent);
        if ran_short && !self.plan.is_stopping() {
            self.short.insert(stage.clone());
            return None;
        }
        self.plan.stage_ended(stage, outcome)
    }

    /// The next stage that waits for budget and can go on; or which has ended, since nobody is left who could give any.
    fn next_short(&mut self) -> Option<PlanDecision> {
        let can = |stage: &&StageId| self.shares.has_more(stage);
        let more = self.short.iter().find(can).cloned();
        if let Some(stage) = more.filter(|_| !self.plan.is_stopping()) {
            self.short.remove(&stage);
            return Some(PlanDecision::Start(stage));
        }
        if self.at_work.is_empty() || self.plan.is_stopping() {
            let (spent, budget) = self.shares.spent();
            while let Some(stage) = self.short.pop_first() {
                let outcome = Outcome::BudgetSpent { spent, budget };
                self.plan.stage_ended(&stage, &outcome);
            }
        }
        None
    }

    /// Takes in what came of something.
    fn take(&mut self, step: Step) -> Option<PlanDecision> {
        match step {
            Step::Signalled => None,
            Step::Abandoned { resumes } => {
                self.is_abandoned |= resumes == self.resumes;
                None
            }
            // Of a person who does it on the server's own page, and for good.
            Step::Cancelled => {
                self.is_abandoned = true;
                self.plan.stop(StopRequest::Gently);
                None
            }
            Step::Stage(stage, done) => {
                let mut spent = None;
                let outcome = match done {
                    Ok(done) => {
                        let commit = done.commit.map(|commit| (stage.clone(), commit));
                        self.made.extend(commit);
                        spent = Some(done.spent);
                        done.outcome
                    }
                    Err(ActivityExecutionError::Cancelled(_)) => Outcome::Stopped {
                        request: StopRequest::Gently,
                    },
                    Err(error) => Outcome::NoWorktree {
                        why: in_full(&error),
                    },
                };
                self.settle(&stage, &outcome, spent)
            }
            Step::Merge(stage, done) => {
                match done {
                    Ok(MergeDone::Merged { commit }) => {
                        self.tip = commit;
                        self.plan.merged(&stage);
                    }
                    Ok(MergeDone::Conflict { files }) => {
                        self.plan.unmerged(&stage, files);
                        self.shares.begin_anew(&stage);
                        *self.rounds.entry(stage).or_insert(1) += 1;
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
