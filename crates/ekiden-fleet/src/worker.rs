//! A worker: takes stages and merges from the queue and runs them.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ekiden_core::outcome::Outcome;
use ekiden_core::secrets::mask;
use ekiden_core::steering::StopRequest;
use ekiden_core::text::in_full;
use ekiden_engine::steering::host;
use futures::stream::{FuturesUnordered, StreamExt as _};
use serde::{Deserialize, Serialize};
use temporalio_client::envconfig::LoadClientConfigProfileOptions;
use temporalio_client::{Client, ClientOptions, Connection};
use temporalio_common::error::ApplicationFailure;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError, ActivityImplementer};
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};
use tokio::time::{Instant, timeout};

use crate::Failure;
use crate::approved;
use crate::at_work::Heartbeat;
use crate::attempt::Attempt;
use crate::fault::{Fault, LEAVES};
use crate::git::Git;
use crate::matching::{self, HAS_MAX};
use crate::merge::merge;
use crate::order::{MergeDone, MergeTask, StageDone, StageTask, TEXT_CHARS_MAX, refs, shorten};
use crate::outline::{self, OutlinePart, OutlineTask};
use crate::shares::Spent;
use crate::worker_context::{AGENT_REST, MIRROR, REST, WorkerContext};
use crate::workflow::{FleetPlan, TRIES_MAX};

/// How often a worker reports that a stage is at work. The answer brings a cancellation, so this is how
/// long one takes to reach an agent, no matter how long a worker may be silent.
const BEAT: Duration = Duration::from_secs(2);
/// How long stages have to stop and push what they have, once the worker has to leave.
const LEAVING_MAX: Duration = Duration::from_secs(60);
/// How long a stage waits for a slot before it is given back, so that an idle worker can take it.
const SLOT_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long the server holds a stage that a worker gave back.
const GIVEN_BACK_PAUSE: Duration = Duration::from_secs(1);
/// How often an unreachable remote or an agent that cannot work does not count as a try: for at least four
/// hours.
const AWAY_MAX: u32 = 500;
/// The numbers of SIGINT and SIGTERM.
const INTERRUPT: u8 = 2;
const TERMINATE: u8 = 15;
/// Workflow tasks and merges that a worker runs in addition to its stages.
const BESIDE: usize = 4;

/// The input of `ekiden worker`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorkerConfig {
    pub(crate) remote: String,
    pub(crate) dir: PathBuf,
    pub(crate) slots: usize,
    pub(crate) queue: String,
    /// Its labels, and the programs of its agents.
    pub(crate) has: BTreeSet<String>,
    #[serde(default)]
    pub(crate) trusted_keys: Option<PathBuf>,
    /// The account of its agents; without a name, an account that nobody shares.
    pub(crate) account: Option<String>,
}

pub(crate) struct Activities {
    base: Arc<WorkerContext>,
    /// For stages, from any queue.
    slots: Arc<Semaphore>,
}

#[activities]
impl Activities {
    #[activity]
    pub(crate) async fn stage(
        self: Arc<Self>,
        ctx: ActivityContext,
        task: StageTask,
    ) -> Result<StageDone, ActivityError> {
        let number = ctx.info().attempt;
        let beat = before(&ctx, &task.spent);
        let work = async {
            refuse_to_try(&ctx, &beat)?;
            let _slot = tokio::select! {
                slot = self.slot() => slot?,
                () = ctx.cancelled() => return Err(Fault::Cancelled),
            };
            crate::say(&format!("{} {}: attempt {number}", task.run, task.stage));
            // A setup may take long.
            let attempt = tokio::select! {
                begun = Attempt::begin(&self.base, &task, number, &beat) => begun?,
                () = ctx.cancelled() => return Err(Fault::Cancelled),
                () = self.base.left() => return Err(Fault::Cancelled),
            };
            attempt.carry_out(ctx.cancelled()).await
        };
        let done = beating(&ctx, &beat, work).await;
        crate::say(&format!(
            "{} {}: {}",
            task.run,
            task.stage,
            result_text(&done)
        ));
        match &done {
            Err(Fault::NoAgent(_)) => self.base.rest(AGENT_REST),
            Err(fault) if fault.is_of_machine() => self.base.rest(REST),
            Ok(_) | Err(_) => {}
        }
        if done.is_err() && is_unwanted(&ctx, &self.base) {
            // The plan has to know its cost, however it ended.
            let request = StopRequest::Gently;
            return Ok(StageDone {
                outcome: Outcome::Stopped { request },
                commit: None,
                spent: beat.borrow().spent.clone(),
            });
        }
        let done = settled(&ctx, &self.base, &beat, done).await;
        let spent = beat.borrow().spent.clone();
        done.or_else(|error| as_result(error, spent))
    }

    #[activity]
    pub(crate) async fn outline(
        self: Arc<Self>,
        ctx: ActivityContext,
        task: OutlineTask,
    ) -> Result<OutlinePart, ActivityError> {
        let beat = before(&ctx, &Spent::default());
        let work = async {
            refuse_to_try(&ctx, &beat)?;
            let submission = approved::submission(&self.base, &task.run, &task.plan).await?;
            self.base.fetch(&[refs::merged(&task.run)]).await?;
            approved::check(&self.base, &submission, &task.run, &task.base).await?;
            Ok(outline::part(&submission.header.manifest, task.known))
        };
        let done = beating(&ctx, &beat, work).await;
        if let Err(fault) = &done {
            crate::say(&format!("{}: {}", task.run, in_full(fault)));
        }
        settled(&ctx, &self.base, &beat, done).await
    }

    #[activity]
    pub(crate) async fn merge(
        self: Arc<Self>,
        ctx: ActivityContext,
        task: MergeTask,
    ) -> Result<MergeDone, ActivityError> {
        let beat = before(&ctx, &Spent::default());
        let work = async {
            refuse_to_try(&ctx, &beat)?;
            tokio::select! {
                merged = merge(&self.base, &task, tries(&ctx, &beat)) => merged,
                () = ctx.cancelled() => Err(Fault::Refused("cancelled".to_owned())),
            }
        };
        let done = beating(&ctx, &beat, work).await;
        if let Err(fault) = &done {
            let StageTask { run, stage, .. } = &task.task;
            crate::say(&format!("{run} {stage}: not merged: {}", in_full(fault)));
        }
        settled(&ctx, &self.base, &beat, done).await
    }
}

impl Activities {
    /// Waits for a slot, which all queues of the worker share.
    async fn slot(&self) -> Result<SemaphorePermit<'_>, Fault> {
        let slot = async {
            self.base.rested().await;
            self.slots.acquire().await
        };
        tokio::select! {
            biased;
            slot = slot => slot.map_err(|_| Fault::NoSlot),
            () = tokio::time::sleep(SLOT_WAIT_MAX) => Err(Fault::NoSlot),
            () = self.base.left() => Err(Fault::NoSlot),
        }
    }
}

fn result_text(done: &Result<StageDone, Fault>) -> String {
    match done {
        Ok(done) => done.outcome.to_string(),
        Err(fault) => in_full(fault),
    }
}

/// What the server knows of the previous attempt, whose worker may have died after its last handoff.
fn before(ctx: &ActivityContext, spent: &Spent) -> watch::Sender<Heartbeat> {
    let before: Option<Heartbeat> = ctx.heartbeat_details().deserialize().ok().flatten();
    let before = before.unwrap_or(Heartbeat {
        spent: spent.clone(),
        ..Heartbeat::default()
    });
    watch::Sender::new(Heartbeat {
        now: None,
        ..before
    })
}

/// How often it was tried, including this time.
fn tries(ctx: &ActivityContext, beat: &watch::Sender<Heartbeat>) -> u32 {
    let beat = beat.borrow();
    let no_tries = beat.given_back + beat.away;
    ctx.info().attempt.saturating_sub(no_tries)
}

fn refuse_to_try(ctx: &ActivityContext, beat: &watch::Sender<Heartbeat>) -> Result<(), Fault> {
    if tries(ctx, beat) <= TRIES_MAX {
        return Ok(());
    }
    let why = format!("its workers went away {TRIES_MAX} times");
    Err(Fault::Refused(why))
}

/// Nobody wants it any more. If the worker has been leaving for some time, it is the worker that no longer
/// waits.
fn is_unwanted(ctx: &ActivityContext, base: &WorkerContext) -> bool {
    let leaving = *base.leaving.borrow();
    ctx.is_cancelled() && leaving.is_none_or(|since| since.elapsed() < LEAVING_MAX)
}

/// Tells the server, until the work is done, that it continues and what the server has to keep.
async fn beating<T>(
    ctx: &ActivityContext,
    beat: &watch::Sender<Heartbeat>,
    work: impl Future<Output = T>,
) -> T {
    let beats = async {
        loop {
            let told = beat.borrow().clone();
            // The server takes missing heartbeats for silence.
            let _ = ctx.record_heartbeat(Some(told)).await;
            tokio::time::sleep(BEAT).await;
        }
    };
    tokio::select! {
        done = work => done,
        () = beats => unreachable!("the loop above has no end"),
    }
}

/// What the server gets: a stage that stopped because its worker leaves continues on another one.
async fn settled<T>(
    ctx: &ActivityContext,
    base: &WorkerContext,
    beat: &watch::Sender<Heartbeat>,
    done: Result<T, Fault>,
) -> Result<T, ActivityError> {
    let fault = match done {
        Ok(done) => return Ok(done),
        Err(_) if is_unwanted(ctx, base) => return Err(ActivityError::cancelled()),
        Err(_) if base.is_leaving() => Fault::Refused(LEAVES.to_owned()),
        Err(fault) => fault,
    };
    // Another worker may take it, and nothing has failed.
    let is_given_back = base.is_leaving() || matches!(fault, Fault::NoSlot);
    let is_away = fault.is_away() && beat.borrow().away < AWAY_MAX;
    beat.send_modify(|beat| {
        beat.given_back += u32::from(is_given_back);
        beat.away += u32::from(is_away && !is_given_back);
    });
    let last = beat.borrow().clone();
    let _ = ctx.record_heartbeat(Some(last)).await;
    let is_no_try = is_given_back || is_away;
    let is_final = fault.is_final() || (!is_no_try && tries(ctx, beat) >= TRIES_MAX);
    let mut why = format!("on {}: {}", host(), mask(&in_full(&fault)));
    shorten(&mut why, TEXT_CHARS_MAX);
    let failure = ApplicationFailure::builder(Fault::Refused(why))
        .non_retryable(is_final)
        .maybe_next_retry_delay(is_given_back.then_some(GIVEN_BACK_PAUSE));
    Err(failure.build().into())
}

/// A fault that ends its stage is a result, since a failed activity does not say what the stage has spent.
fn as_result(error: ActivityError, spent: Spent) -> Result<StageDone, ActivityError> {
    let ActivityError::Application(failure) = &error else {
        return Err(error);
    };
    if !failure.is_non_retryable() {
        return Err(error);
    }
    let outcome = Outcome::NoWorktree {
        why: failure.source_error().to_string(),
        on_worker: true,
    };
    Ok(StageDone {
        outcome,
        commit: None,
        spent,
    })
}

/// A client of the server that the environment names by Temporal's own conventions. A worker's client says
/// what the worker has.
pub(crate) async fn connect(has: Option<&BTreeSet<String>>) -> Result<Client, Failure> {
    let options = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default());
    let (mut server, client) = options.map_err(|error| Failure::settings(in_full(&error)))?;
    if server.identity.is_empty() {
        server.identity = format!("ekiden-fleet {}@{}", std::process::id(), host());
    }
    if let Some(has) = has {
        server.identity = matching::identity(&server.identity, has);
    }
    let connected = Connection::connect(server)
        .await
        .map_err(Failure::unreachable)?;
    Client::new(connected, client).map_err(Failure::unreachable)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the worker's own directory, of which nothing has to last"
)]
pub(crate) async fn work(config: WorkerConfig) -> Result<(), Failure> {
    if config.has.len() > HAS_MAX {
        return Err(Failure::settings(format!(
            "a worker has at most {HAS_MAX} labels and agents, and this one would have {}; `--agents` names its agents",
            matching::list(&config.has)
        )));
    }
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&config.dir);
    made.map_err(|error| Failure::settings(format!("{}: {error}", config.dir.display())))?;
    say_what_is_left(&config.dir);
    let git = Git::at(&config.dir);
    let known = git.line(&["var", "GIT_COMMITTER_IDENT"]).await;
    known.map_err(|fault| Failure::settings(in_full(&fault)))?;
    let client = connect(Some(&config.has)).await?;
    let (leave, leaving) = watch::channel(None);
    let base = Arc::new(WorkerContext {
        dir: config.dir,
        remote: config.remote,
        trusted_keys: config.trusted_keys,
        client: client.clone(),
        account: config
            .account
            .unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
        fetching: Mutex::new(()),
        rests_until: std::sync::Mutex::new(Instant::now()),
        leaving,
    });
    let mut asked = Leave::listen()?;
    tokio::select! {
        () = base.remote_takes_pushes() => {}
        _ = asked.asked() => return Ok(()),
    }
    let runtime = Runtime::from_current_tokio(Default::default());
    let runtime = runtime.map_err(|error| Failure::bug(error.to_string()))?;
    let mut workers = Vec::new();
    let slots = Arc::new(Semaphore::new(config.slots));
    let stages = matching::queues(&config.queue, &config.has).into_iter();
    let merges = matching::queues(&matching::merges(&config.queue), &config.has);
    let stages = stages.map(|queue| (queue, config.slots));
    for (queue, at_once) in stages.chain(merges.into_iter().map(|queue| (queue, BESIDE))) {
        let (base, slots) = (Arc::clone(&base), Arc::clone(&slots));
        let takes_plans = queue == config.queue;
        let activities = Activities { base, slots };
        let options = options(queue, at_once, activities, takes_plans)?;
        let worker = Worker::new(&runtime, client.clone(), options);
        workers.push(worker.map_err(Failure::unreachable)?);
    }
    let shut_down: Vec<_> = workers.iter().map(Worker::shutdown_handle).collect();
    let leave = leaving_once(leave, shut_down);
    let on_signal = Arc::clone(&leave);
    tokio::spawn(async move {
        asked.asked().await;
        on_signal();
    });
    let has = match config.has.is_empty() {
        true => String::new(),
        false => format!("; this worker has: {}", matching::list(&config.has)),
    };
    crate::say(&format!("waiting for stages{has}"));
    let all = until_ended(workers.iter_mut().map(Worker::run), &*leave).await;
    // Activities outlive a queue that the server refuses.
    let every_slot = u32::try_from(config.slots).unwrap_or(u32::MAX);
    let _ = timeout(LEAVING_MAX, slots.acquire_many(every_slot)).await;
    all.map_err(Failure::unreachable)
}

fn leaving_once(
    leave: watch::Sender<Option<Instant>>,
    shut_down: Vec<impl Fn() + Send + Sync + 'static>,
) -> Arc<impl Fn() + Send + Sync + 'static> {
    Arc::new(move || {
        let is_first = leave.send_if_modified(|since| {
            let is_first = since.is_none();
            since.get_or_insert_with(Instant::now);
            is_first
        });
        if is_first {
            crate::say("leaving: stages stop, push what they have, and go on elsewhere");
            shut_down.iter().for_each(|shut_down| shut_down());
        }
    })
}

/// Waits until all have ended. If one fails, tells all to leave, and returns the first error: what they are
/// at work on has to be pushed.
async fn until_ended<E>(
    workers: impl Iterator<Item = impl Future<Output = Result<(), E>>>,
    leave: impl Fn(),
) -> Result<(), E> {
    let mut workers: FuturesUnordered<_> = workers.collect();
    let mut all = Ok(());
    while let Some(ended) = workers.next().await {
        if ended.is_err() {
            leave();
            all = all.and(ended);
        }
    }
    all
}

/// Workers that were killed leave their directories, which may hold work that is nowhere else. Others may work in theirs.
fn say_what_is_left(dir: &Path) {
    let places = fs::read_dir(dir).into_iter().flatten().flatten();
    let places = places.filter(|place| place.path().is_dir() && place.file_name() != MIRROR);
    match places.count() {
        0 => {}
        count => crate::say(&format!(
            "directories of stages in {}: {count}; delete those of runs that are over",
            dir.display()
        )),
    }
}

/// How activities of one queue are taken: how many at the same time, and whether plans are taken, too.
pub(crate) fn options(
    queue: String,
    at_once: usize,
    activities: impl ActivityImplementer,
    takes_plans: bool,
) -> Result<WorkerOptions, Failure> {
    let slots = |count| FixedSizeSlotSupplier::new(count);
    let tuner = TunerHolder::builder()
        .workflow_task_slot_supplier(slots(BESIDE))
        .activity_task_slot_supplier(slots(at_once))
        .local_activity_task_slot_supplier(slots(1))
        .nexus_task_slot_supplier(slots(1))
        .build();
    let mut options = WorkerOptions::new(queue);
    if takes_plans {
        let with_plans = options.register_workflow::<FleetPlan>();
        options = with_plans.map_err(|error| Failure::bug(error.to_string()))?;
    }
    Ok(options
        .register_activities(activities)
        .tuner(tuner)
        .max_heartbeat_throttle_interval(BEAT)
        .default_heartbeat_throttle_interval(BEAT)
        .graceful_shutdown_period(LEAVING_MAX)
        .build())
}

/// Ctrl-C, or SIGTERM as a service manager sends it.
pub(crate) struct Leave(Signal, Signal);

impl Leave {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::bug(in_full(&error)));
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self(listen(interrupt)?, listen(terminate)?))
    }

    /// Returns the signal. Cancel safe.
    pub(crate) async fn asked(&mut self) -> u8 {
        tokio::select! {
            _ = self.0.recv() => INTERRUPT,
            _ = self.1.recv() => TERMINATE,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::future::{FutureExt as _, ready};
    use tokio::sync::Notify;

    use super::*;

    // shows: FLT-02
    #[tokio::test]
    async fn if_the_server_refuses_one_queue_the_others_leave_before_the_worker_ends() {
        let (leaving, has_left) = (Notify::new(), Cell::new(false));
        let other = async {
            leaving.notified().await;
            has_left.set(true);
            Err("later")
        };
        let queues = [ready(Err("first")).boxed_local(), other.boxed_local()];
        let ended = until_ended(queues.into_iter(), || leaving.notify_one()).await;
        assert_eq!((ended, has_left.get()), (Err("first"), true));
    }
}
