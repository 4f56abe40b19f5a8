//! The plan as a workflow. The same [`Plan`] decides as in a run on one machine.
//!
//! Temporal replays it from the workflow's history, so it may read only its input and the answers of
//! activities: the model has no clock and no randomness, and time comes from the history.
//!
//! A history may not grow forever. Once it is long, nothing more starts in it. When no worker is at work,
//! the plan continues in a new history, with the contents of [`Carried`].

mod hear;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::pin;
use std::time::Duration;

use ekiden_core::effect::WorktreeEffect;
use ekiden_core::ids::StageId;
use ekiden_core::manifest::Manifest;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::{Plan, PlanDecision};
use ekiden_core::time::Timestamp;
use futures::future::{Either, FutureExt as _, LocalBoxFuture, select, select_all};
use temporalio_common::RetryPolicy;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, CancellableFuture,
    ContinueAsNewOptions, SyncWorkflowContext, WorkflowContext, WorkflowContextView,
    WorkflowResult, WorkflowTermination,
};

use crate::at_work;
use crate::matching;
use crate::order::{
    Carried, FleetState, ForAttempts, MergeDone, MergeTask, PlanDone, PlanOrder, PlanSignal,
    StageDone, StageTask, bounded,
};
use crate::outline::OutlineTask;
use crate::shares::{Shares, Spent};
use crate::worker::Activities;

/// The longest time that a stage may take, including usage limits.
const STAGE_TIME_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The longest pause before an activity is tried again.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often an activity is tried before its stage fails; a worker that dies counts as a try.
pub(crate) const TRIES_MAX: u32 = 20;
/// How many stages may wait for a merge; with more, no others begin. Their results go from one history to
/// the next.
const TO_MERGE_MAX: usize = 100;
/// How many messages are remembered, so that each counts once however often it comes.
const HEARD_MAX: usize = 200;
/// The longest text that a plan keeps about how a stage ended; the rest is in the history and in the
/// stage's log.
const KEPT_CHARS_MAX: usize = 200;
/// How long a plan that ended incomplete can be resumed.
const RESUMABLE: Duration = Duration::from_secs(30 * 24 * 3600);

#[workflow]
#[derive(Default)]
pub(crate) struct FleetPlan {
    signals: VecDeque<PlanSignal>,
    /// Stages that are at work stop.
    stopping: bool,
    for_attempts: ForAttempts,
}

#[workflow_methods]
impl FleetPlan {
    #[signal]
    pub(crate) fn tell(&mut self, _ctx: &mut SyncWorkflowContext<Self>, signal: PlanSignal) {
        self.signals.push_back(signal);
    }

    /// What attempts need to know while they work.
    #[query]
    pub(crate) fn for_attempts(&self, _ctx: &WorkflowContextView) -> ForAttempts {
        self.for_attempts.clone()
    }

    #[run]
    pub(crate) async fn run(
        ctx: &mut WorkflowContext<Self>,
        order: PlanOrder,
    ) -> WorkflowResult<PlanDone> {
        let ctx = &*ctx;
        let outline = outline(ctx, &order).await?;
        let mut fleet = Fleet::new(order, outline);
        fleet.show(ctx);
        let cancelled = ctx.cancelled().map(|_| Step::Cancelled);
        let mut at_work: Vec<Work<'_>> = vec![cancelled.boxed_local(), next_signal(ctx)];
        loop {
            at_work.extend(fleet.carry_on(ctx));
            if let Some(outcome) = fleet.over() {
                let outcome = bounded(outcome, KEPT_CHARS_MAX);
                let tip = fleet.state.tip;
                return Ok(PlanDone { outcome, tip });
            }
            if fleet.can_go_on_elsewhere(ctx) {
                match ctx.continue_as_new(fleet.carried(), ContinueAsNewOptions::default())? {}
            }
            let (step, _, rest) = select_all(at_work).await;
            at_work = rest;
            // Before everything that came with them, as a reader of the history sees it.
            let signals = ctx.state_mut(|state| std::mem::take(&mut state.signals));
            let now = time(ctx);
            let signals = signals.into_iter();
            signals.for_each(|signal| fleet.hear(now, signal));
            fleet.show(ctx);
            at_work.extend(fleet.carry_on(ctx));
            if matches!(step, Step::Signalled) {
                at_work.push(next_signal(ctx));
            } else if let Some(decision) = fleet.take(step) {
                at_work.extend(fleet.act(ctx, decision));
            }
        }
    }
}

/// Something under way, and its result.
type Work<'a> = LocalBoxFuture<'a, Step>;

enum Step {
    Stage(StageId, Result<StageDone, ActivityExecutionError>),
    Merge(StageId, Result<MergeDone, ActivityExecutionError>),
    Signalled,
    /// Nobody has resumed it since this many resumes.
    Abandoned {
        resumes: u32,
    },
    Cancelled,
}

fn next_signal(ctx: &WorkflowContext<FleetPlan>) -> Work<'_> {
    let signal = async {
        // A cancelled one waits for nothing more.
        match ctx.wait_condition(|state| !state.signals.is_empty()).await {
            Ok(()) => Step::Signalled,
            Err(_) => std::future::pending().await,
        }
    };
    signal.boxed_local()
}

/// Waits for an activity, and cancels it if the plan stops.
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

/// The outline of a plan: from its order, or read by a worker.
async fn outline(
    ctx: &WorkflowContext<FleetPlan>,
    order: &PlanOrder,
) -> Result<Manifest, WorkflowTermination> {
    if let Some(outline) = &order.outline {
        return Ok(outline.clone());
    }
    let mut outline = Manifest {
        stages: Vec::new(),
        plan: None,
    };
    loop {
        let task = OutlineTask::of(order, outline.stages.len());
        let id = format!("outline/{}", task.known);
        let options = options(order, Some(matching::merges(ctx.task_queue())), id);
        let work = ctx.execute_activity(Activities::outline, task, options);
        let part = work.await?;
        outline.stages.extend(part.stages);
        outline.plan = part.rules;
        if part.is_last {
            return Ok(outline);
        }
    }
}

struct Fleet {
    order: PlanOrder,
    outline: Manifest,
    plan: Plan,
    state: FleetState,
    at_work: BTreeSet<StageId>,
    is_merging: bool,
    /// Something has started since this history began.
    has_begun: bool,
    resumes: u32,
    /// Once it has ended, nobody waits for a resume.
    is_abandoned: bool,
}

impl Fleet {
    fn new(mut order: PlanOrder, outline: Manifest) -> Self {
        let (plan, state) = match order.carried.take() {
            Some(carried) => (Plan::going_on(&outline, carried.plan), carried.state),
            None => {
                let state = FleetState {
                    tip: order.base.clone(),
                    shares: Shares::new(order.budget, &order.agents),
                    ..FleetState::default()
                };
                (Plan::new(&outline), state)
            }
        };
        Self {
            order,
            outline,
            plan,
            state,
            at_work: BTreeSet::new(),
            is_merging: false,
            has_begun: false,
            resumes: 0,
            is_abandoned: false,
        }
    }

    /// What activities and queries wait for.
    fn show(&self, ctx: &WorkflowContext<FleetPlan>) {
        ctx.state_mut(|state| {
            state.stopping = self.plan.is_stopping();
            state.for_attempts = ForAttempts {
                limits: self.state.limits.all(),
                messages: self.state.messages.clone(),
            };
        });
    }

    /// The history is long, so nothing more starts in it.
    fn is_full(&self, ctx: &WorkflowContext<FleetPlan>) -> bool {
        self.has_begun && ctx.history_length() >= self.order.events_max && !self.plan.is_stopping()
    }

    /// No worker is at work on something that this history has to end, and no signal waits. A signal that
    /// arrives now lands in this history, whose last step the server then refuses, or in the next one.
    fn can_go_on_elsewhere(&self, ctx: &WorkflowContext<FleetPlan>) -> bool {
        let is_idle = self.at_work.is_empty() && !self.is_merging && self.plan.ended().is_none();
        is_idle && self.is_full(ctx) && ctx.state(|state| state.signals.is_empty())
    }

    /// The order of the next history.
    fn carried(mut self) -> PlanOrder {
        self.plan.pause(self.state.is_paused);
        let (plan, state) = (self.plan.progress(), self.state);
        self.order.carried = Some(Box::new(Carried { plan, state }));
        self.order
    }

    /// Starts everything that the plan wants.
    fn carry_on<'a>(&mut self, ctx: &'a WorkflowContext<FleetPlan>) -> Vec<Work<'a>> {
        let now = time(ctx);
        let mut at_work = Vec::new();
        if self.is_full(ctx) {
            return at_work;
        }
        let is_behind = self.plan.to_merge() >= TO_MERGE_MAX;
        self.plan.pause(self.state.is_paused || is_behind);
        loop {
            let mut decisions = self.plan.next(now);
            if decisions.is_empty() {
                // Only if no other stage can start.
                decisions.extend(self.next_short(!self.state.is_paused && !is_behind));
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

    /// Executes a decision; returns what has to be waited for.
    fn act<'a>(
        &mut self,
        ctx: &'a WorkflowContext<FleetPlan>,
        decision: PlanDecision,
    ) -> Option<Work<'a>> {
        match decision {
            // The worker that runs the stage makes its work tree.
            PlanDecision::Worktree(stage, WorktreeEffect::Prepare) => {
                let next = self.plan.prepared(&stage, Ok(()))?;
                self.act(ctx, next)
            }
            PlanDecision::Worktree(stage, WorktreeEffect::Merge) => {
                let made = self.state.made.get(&stage).cloned();
                if made.is_none() {
                    let why = "its worker named no commit".to_owned();
                    self.plan.not_merged(&stage, why);
                    return None;
                }
                Some(self.merge(ctx, &stage, made))
            }
            // What is merged by now has its result.
            PlanDecision::Worktree(stage, WorktreeEffect::Confirm) => {
                Some(self.merge(ctx, &stage, None))
            }
            PlanDecision::Start(stage) | PlanDecision::Retry { stage, .. } => {
                Some(self.start(ctx, stage))
            }
            // Followers of the plan fetch the integration branch.
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
        // Those that are about to start, and this one.
        let others = self.at_work.len() + self.state.short.len();
        let sharers = self.plan.at_work().saturating_sub(others);
        let mut task = self.task(&stage, self.state.tip.clone());
        task.answer = self.state.answers.remove(&stage);
        task.spent = self.state.shares.charged(&stage);
        (task.budget, task.agents) = self.state.shares.reserve(&stage, sharers);
        self.at_work.insert(stage.clone());
        self.has_begun = true;
        let queue = self.queue(ctx.task_queue(), &stage);
        let id = at_work::activity(&stage, task.round);
        let options = options(&self.order, queue, id);
        let work = ctx.execute_activity(Activities::stage, task, options);
        let work = unless_stopped(ctx, work);
        work.map(|done| Step::Stage(stage, done)).boxed_local()
    }

    /// Merges a stage's result. If there is none, has somebody confirm that the work was done before.
    fn merge<'a>(
        &mut self,
        ctx: &'a WorkflowContext<FleetPlan>,
        stage: &StageId,
        commit: Option<String>,
    ) -> Work<'a> {
        let base = match commit {
            Some(_) => self.order.base.clone(),
            None => self.state.tip.clone(),
        };
        let task = self.task(stage, base);
        let id = format!("merge/{stage}/{}", task.round);
        let merges = matching::merges(ctx.task_queue());
        // A worker that can do the stage can validate it, too. Any worker can confirm what was done before.
        let queue = match commit {
            Some(_) => self.queue(&merges, stage),
            None => Some(merges),
        };
        let options = options(&self.order, queue, id);
        let input = MergeTask { task, commit };
        self.is_merging = true;
        let work = ctx.execute_activity(Activities::merge, input, options);
        let (work, stage) = (unless_stopped(ctx, work), stage.clone());
        work.map(|done| Step::Merge(stage, done)).boxed_local()
    }

    /// Of these queues, the one of the workers that can do a stage.
    fn queue(&self, queues: &str, stage: &StageId) -> Option<String> {
        let known = self.outline.stages.get(self.plan.place(stage)?)?;
        Some(matching::queue(queues, &known.part.runs_on))
    }

    fn task(&self, stage: &StageId, base: String) -> StageTask {
        StageTask {
            run: self.order.run.clone(),
            stage: stage.clone(),
            round: self.state.rounds.get(stage).copied().unwrap_or(1),
            base,
            plan: self.order.plan.clone(),
            merge_failure: self.state.merge_failures.get(stage).cloned(),
            answer: None,
            spent: Spent::default(),
            budget: None,
            agents: BTreeMap::new(),
        }
    }
}

/// For the workers of a queue, or of the plan's own queue if none is named. They count the tries.
fn options(order: &PlanOrder, queue: Option<String>, id: String) -> ActivityOptions {
    let lease = Duration::from_secs(order.lease_secs);
    let retries = RetryPolicy::builder()
        .maximum_interval(RETRY_PAUSE_MAX)
        .build();
    ActivityOptions::with_start_to_close_timeout(STAGE_TIME_MAX)
        .heartbeat_timeout(lease)
        .maybe_task_queue(queue)
        .activity_id(id)
        // The workflow must not report the end while an agent lives.
        .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
        .retry_policy(retries)
        .build()
}

/// The time of the history's last event.
fn time(ctx: &WorkflowContext<FleetPlan>) -> Timestamp {
    let now = ctx.workflow_time().and_then(Timestamp::of_system);
    now.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ekiden_core::steering::{Steering, StopRequest};
    use prost::Message as _;
    use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;
    use temporalio_common::protos::temporal::api::history::v1::{History, HistoryEvent};
    use temporalio_sdk::workflow_replayer::{
        WorkflowReplayError, WorkflowReplayer, WorkflowReplayerOptions,
    };

    use super::*;
    use crate::load::plan_of;

    /// Recorded by `tests/fleet.rs`: the first two of a plan that goes on in new histories.
    const FIRST: &[u8] = include_bytes!("../tests/history-1.bin");
    const SECOND: &[u8] = include_bytes!("../tests/history-2.bin");

    async fn replayed(history: History) -> Result<(), WorkflowReplayError> {
        let options = WorkflowReplayerOptions::new()
            .register_workflow::<FleetPlan>()
            .unwrap()
            .build();
        let replayer = WorkflowReplayer::new(options).unwrap();
        replayer.replay_workflow(history.into()).await
    }

    // shows: FLT-06
    #[test]
    fn what_goes_from_one_history_to_the_next_is_small() {
        let manifest = plan_of(10_000, 200, |_| None);
        let (mut plan, mut state) = (Plan::new(&manifest), FleetState::default());
        while plan.to_merge() < TO_MERGE_MAX {
            for decision in plan.next(Timestamp(0)) {
                let PlanDecision::Worktree(stage, WorktreeEffect::Prepare) = decision else {
                    continue;
                };
                plan.prepared(&stage, Ok(()));
                plan.stage_ended(&stage, &Outcome::Complete { verified: true });
                state.made.insert(stage.clone(), "0".repeat(40));
                state.shares.settle(&stage, Some(&Spent::default()));
            }
        }
        assert!(state.made.len() >= 200, "{}", state.made.len());
        let plan = plan.progress();
        let carried = serde_json::to_vec(&Carried { plan, state }).unwrap();
        assert!(carried.len() < 60 * 1024, "{}", carried.len());
    }

    // shows: FLT-03
    #[test]
    fn what_people_tell_the_stages_is_kept_for_them_once() {
        let order = serde_json::json!({
            "ekiden": "", "run": "01234567", "base": "", "plan": "", "lease_secs": 60, "events_max": 8,
        });
        let order = serde_json::from_value(order).unwrap();
        let mut fleet = Fleet::new(order, plan_of(2, 1, |_| None));
        let signal = |json| serde_json::from_value::<PlanSignal>(json).unwrap();
        let words = signal(serde_json::json!({
            "kind": "steered",
            "steered": { "message": "m1", "steering": { "kind": "instruct", "words": "Use tabs." } },
        }));
        let resumed = signal(serde_json::json!({
            "kind": "resumed",
            "resumed": { "ekiden": "", "task": null, "answer": null, "sessions_max": 9, "bounds": {"run": {"tokens": 7}} },
        }));
        for signal in [words.clone(), resumed, words] {
            fleet.hear(Timestamp(5), signal);
        }
        let carried = serde_json::to_value(fleet.carried()).unwrap();
        let carried: PlanOrder = serde_json::from_value(carried).unwrap();
        let messages = carried.carried.unwrap().state.messages;
        let told: Vec<_> = messages.all().map(|message| &message.steering).collect();
        let [Steering::Instruct { .. }, Steering::ChangeLimits(limits)] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!(limits.sessions_max, Some(9));
        assert!(limits.bounds.run.is_unlimited());
    }

    /// Somebody resumes a plan that is at work, since its follower was killed.
    // shows: FLT-03
    #[test]
    fn a_pause_ends_with_a_resume_only_if_the_plan_has_ended() {
        let order = serde_json::json!({
            "ekiden": "", "run": "01234567", "base": "", "plan": "", "lease_secs": 60, "events_max": 8,
        });
        let order = serde_json::from_value(order).unwrap();
        let mut fleet = Fleet::new(order, plan_of(2, 1, |_| None));
        let resume = |fleet: &mut Fleet| {
            let resumed = Box::default();
            fleet.hear(Timestamp(5), PlanSignal::Resumed { resumed });
            fleet.state.is_paused
        };
        fleet.state.is_paused = true;
        assert!(resume(&mut fleet));
        fleet.plan.stop(StopRequest::Gently);
        fleet.plan.next(Timestamp(5));
        assert!(!resume(&mut fleet));
    }

    /// Two people answer the same question.
    // shows: REL-35, FLT-03
    #[test]
    fn an_answer_that_comes_late_does_not_wait_for_the_next_question() {
        let order = serde_json::json!({
            "ekiden": "", "run": "01234567", "base": "", "plan": "", "lease_secs": 60, "events_max": 8,
        });
        let order = serde_json::from_value(order).unwrap();
        let mut fleet = Fleet::new(order, plan_of(2, 1, |_| None));
        fleet.plan.next(Timestamp(5));
        let stage = StageId::try_from("S0".to_owned()).unwrap();
        fleet.plan.prepared(&stage, Ok(()));
        let question = "Which one?".to_owned();
        fleet
            .plan
            .stage_ended(&stage, &Outcome::Blocked { question });
        let resumed = serde_json::json!({
            "kind": "resumed",
            "resumed": { "ekiden": "", "task": null, "answer": { "stage": "S0", "words": "This." } },
        });
        for expected in [true, false] {
            let signal = serde_json::from_value(resumed.clone()).unwrap();
            fleet.hear(Timestamp(5), signal);
            let taken = fleet.state.answers.remove(&stage);
            assert_eq!(taken.is_some(), expected);
        }
    }

    #[tokio::test]
    async fn a_run_of_an_older_program_decides_the_same() {
        for history in [FIRST, SECOND] {
            replayed(History::decode(history).unwrap()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_program_that_begins_stages_in_another_order_is_found_out() {
        let mut history = History::decode(SECOND).unwrap();
        let begins = |event: &HistoryEvent| {
            matches!(
                event.attributes,
                Some(Attributes::ActivityTaskScheduledEventAttributes(_))
            )
        };
        let at = history
            .events
            .windows(2)
            .position(|both| both.iter().all(begins))
            .unwrap();
        let first = history.events[at].attributes.take();
        let second = history.events[at + 1].attributes.replace(first.unwrap());
        history.events[at].attributes = second;
        let found = replayed(history).await.unwrap_err().to_string();
        assert!(found.contains("does not match activity id"), "{found}");
    }
}
