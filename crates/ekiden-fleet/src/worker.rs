//! A worker: takes stages and merges from the queue, and carries them out.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ekiden_core::budget::Spend;
use ekiden_core::outcome::Outcome;
use ekiden_core::steering::StopRequest;
use ekiden_core::text::in_full;
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use temporalio_client::envconfig::LoadClientConfigProfileOptions;
use temporalio_client::{Client, ClientOptions, Connection, NamespacedClient as _};
use temporalio_common::error::ApplicationFailure;
use temporalio_common::protos::temporal::api::enums::v1::TaskQueueType;
use temporalio_common::protos::temporal::api::taskqueue::v1::TaskQueue;
use temporalio_common::protos::temporal::api::workflowservice::v1::DescribeTaskQueueRequest;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError, ActivityImplementer};
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tonic::Request;

use crate::Failure;
use crate::approved;
use crate::attempt::Attempt;
use crate::base::Base;
use crate::fault::Fault;
use crate::git::Git;
use crate::merge::merge;
use crate::order::{MergeDone, MergeTask, StageDone, StageTask, TEXT_CHARS_MAX, refs, shorten};
use crate::outline::{self, OutlinePart, OutlineTask};
use crate::workflow::FleetPlan;

/// How often a worker says that a stage is at work. A cancellation comes back with the answer, so this is what it takes
/// to reach an agent, however long a worker may be silent.
const BEAT: Duration = Duration::from_secs(2);
/// How long stages have to stop, and to push what they have, once the worker is to leave.
const LEAVING_MAX: Duration = Duration::from_secs(60);
/// How long a worker may take from its start until the server knows it, and how often the server is asked.
const BEGINNING_MAX: Duration = Duration::from_secs(3);
const BEGINNING_PAUSE: Duration = Duration::from_millis(200);
/// Workflow tasks and merges that a worker does beside its stages.
const BESIDE: usize = 4;

/// What `ekiden worker` passes on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Station {
    pub(crate) remote: String,
    pub(crate) dir: PathBuf,
    pub(crate) slots: usize,
    /// It takes stages from each of them.
    pub(crate) queues: Vec<String>,
    #[serde(default)]
    pub(crate) trusted_keys: Option<PathBuf>,
    /// The account of its agents; one of its own if it has no name.
    pub(crate) account: Option<String>,
}

pub(crate) struct Activities {
    base: Arc<Base>,
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
        // Of the attempt before, whose worker may have died after its last handoff.
        let charged = ctx.heartbeat_details().deserialize().ok().flatten();
        let spent = watch::Sender::new(charged.unwrap_or(task.spent));
        let work = async {
            crate::say(&format!("{} {}: attempt {number}", task.run, task.stage));
            // A setup may take long.
            let attempt = tokio::select! {
                begun = Attempt::begin(&self.base, &task, number, &spent) => begun?,
                () = ctx.cancelled() => {
                    let request = StopRequest::Gently;
                    return Ok(StageDone {
                        outcome: Outcome::Stopped { request },
                        commit: None,
                        spent: *spent.borrow(),
                    });
                }
            };
            attempt.carry_out(ctx.cancelled()).await
        };
        let done = beating(&ctx, Some(&spent), work).await;
        crate::say(&format!("{} {}: {}", task.run, task.stage, told(&done)));
        settled(&ctx, &self.base, done)
    }

    #[activity]
    pub(crate) async fn outline(
        self: Arc<Self>,
        ctx: ActivityContext,
        task: OutlineTask,
    ) -> Result<OutlinePart, ActivityError> {
        let work = async {
            let submission = approved::submission(&self.base, &task.run, &task.plan).await?;
            self.base.fetch(&[refs::merged(&task.run)]).await?;
            approved::check(&self.base, &submission, &task.run, &task.base).await?;
            Ok(outline::part(&submission.header.manifest, task.known))
        };
        let done = beating(&ctx, None, work).await;
        settled(&ctx, &self.base, done)
    }

    #[activity]
    pub(crate) async fn merge(
        self: Arc<Self>,
        ctx: ActivityContext,
        task: MergeTask,
    ) -> Result<MergeDone, ActivityError> {
        let work = async {
            tokio::select! {
                merged = merge(&self.base, &task) => merged,
                () = ctx.cancelled() => Err(Fault::Refused("cancelled".to_owned())),
            }
        };
        let done = beating(&ctx, None, work).await;
        if let Err(fault) = &done {
            let StageTask { run, stage, .. } = &task.task;
            crate::say(&format!("{run} {stage}: not merged: {}", in_full(fault)));
        }
        settled(&ctx, &self.base, done)
    }
}

fn told(done: &Result<StageDone, Fault>) -> String {
    match done {
        Ok(done) => done.outcome.to_string(),
        Err(fault) => in_full(fault),
    }
}

/// Tells the server that work goes on, and what it has spent, until it is done.
async fn beating<T>(
    ctx: &ActivityContext,
    spent: Option<&watch::Sender<Spend>>,
    work: impl Future<Output = T>,
) -> T {
    let beats = async {
        loop {
            let spent = spent.map(|spent| *spent.borrow());
            // What the server does not hear it takes for silence.
            let _ = ctx.record_heartbeat(spent).await;
            tokio::time::sleep(BEAT).await;
        }
    };
    tokio::select! {
        done = work => done,
        () = beats => unreachable!("the loop above has no end"),
    }
}

/// What the server is told: a stage that stopped because its worker leaves goes on elsewhere.
fn settled<T>(
    ctx: &ActivityContext,
    base: &Base,
    done: Result<T, Fault>,
) -> Result<T, ActivityError> {
    if *base.leaving.borrow() && done.is_err() {
        return Err(Fault::Refused("its worker leaves".to_owned()).into());
    }
    if ctx.is_cancelled() && done.is_err() {
        return Err(ActivityError::cancelled());
    }
    done.map_err(|fault| {
        // Another try would find the same.
        let is_final = matches!(fault, Fault::Untrusted(_));
        let mut why = in_full(&fault);
        shorten(&mut why, TEXT_CHARS_MAX);
        let failure = ApplicationFailure::builder(Fault::Refused(why)).non_retryable(is_final);
        failure.build().into()
    })
}

/// A client of the server that the environment names, by Temporal's own conventions.
pub(crate) async fn connect() -> Result<Client, Failure> {
    let options = ClientOptions::load_from_config(LoadClientConfigProfileOptions::default());
    let (mut server, client) = options.map_err(|error| Failure::settings(in_full(&error)))?;
    if server.identity.is_empty() {
        server.identity = format!("ekiden-fleet {}", std::process::id());
    }
    let connected = Connection::connect(server)
        .await
        .map_err(Failure::unreachable)?;
    Client::new(connected, client).map_err(Failure::unreachable)
}

pub(crate) async fn work(station: Station) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .create(&station.dir);
    made.map_err(|error| Failure::settings(format!("{}: {error}", station.dir.display())))?;
    let git = Git::at(&station.dir);
    let known = git.line(&["var", "GIT_COMMITTER_IDENT"]).await;
    known.map_err(|fault| Failure::settings(in_full(&fault)))?;
    let client = connect().await?;
    let (leave, leaving) = watch::channel(false);
    let base = Arc::new(Base {
        dir: station.dir,
        remote: station.remote,
        trusted_keys: station.trusted_keys,
        client: client.clone(),
        account: station
            .account
            .unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
        fetching: Mutex::new(()),
        leaving,
    });
    let runtime = Runtime::from_current_tokio(Default::default());
    let runtime = runtime.map_err(|error| Failure::bug(error.to_string()))?;
    let mut workers = Vec::new();
    for queue in station.queues {
        let base = Arc::clone(&base);
        let options = options(queue, station.slots, Activities { base })?;
        let worker = Worker::new(&runtime, client.clone(), options);
        workers.push(worker.map_err(Failure::unreachable)?);
    }
    let shut_down: Vec<_> = workers.iter().map(Worker::shutdown_handle).collect();
    let mut asked = Leave::listen()?;
    tokio::spawn(async move {
        asked.asked().await;
        crate::say("leaving: stages stop, push what they have, and go on elsewhere");
        leave.send_replace(true);
        shut_down.iter().for_each(|shut_down| shut_down());
    });
    crate::say("waiting for stages");
    let all = try_join_all(workers.iter_mut().map(Worker::run)).await;
    all.map(drop).map_err(Failure::unreachable)
}

/// How stages of one queue are taken, so many at the same time.
pub(crate) fn options(
    queue: String,
    stages: usize,
    activities: impl ActivityImplementer,
) -> Result<WorkerOptions, Failure> {
    let slots = |count| FixedSizeSlotSupplier::new(count);
    let tuner = TunerHolder::builder()
        .workflow_task_slot_supplier(slots(BESIDE))
        .activity_task_slot_supplier(slots(stages))
        .local_activity_task_slot_supplier(slots(1))
        .nexus_task_slot_supplier(slots(1))
        .build();
    let options = WorkerOptions::new(queue)
        .register_workflow::<FleetPlan>()
        .map_err(|error| Failure::bug(error.to_string()))?;
    Ok(options
        .register_activities(activities)
        .tuner(tuner)
        .max_heartbeat_throttle_interval(BEAT)
        .default_heartbeat_throttle_interval(BEAT)
        .graceful_shutdown_period(LEAVING_MAX)
        .build())
}

/// A queue of which no worker takes stages, if there is one. A worker that has just begun is waited for.
pub(crate) async fn deserted(
    client: &Client,
    queues: BTreeSet<String>,
) -> Result<Option<String>, Failure> {
    let until = Instant::now() + BEGINNING_MAX;
    for queue in queues {
        while !is_served(client, &queue).await? {
            if Instant::now() > until {
                return Ok(Some(queue));
            }
            tokio::time::sleep(BEGINNING_PAUSE).await;
        }
    }
    Ok(None)
}

async fn is_served(client: &Client, queue: &str) -> Result<bool, Failure> {
    let name = queue.to_owned();

    let request = DescribeTaskQueueRequest {
        namespace: client.namespace(),
        task_queue: Some(TaskQueue {
            name,
            ..TaskQueue::default()
        }),
        task_queue_type: TaskQueueType::Activity.into(),
        ..DescribeTaskQueueRequest::default()
    };
    let asked = client.connection().workflow_service();
    let told = { asked }.describe_task_queue(Request::new(request)).await;
    let told = told.map_err(Failure::unreachable)?;
    Ok(!told.into_inner().pollers.is_empty())
}

/// Ctrl-C, or SIGTERM as from a service manager.
pub(crate) struct Leave(Signal, Signal);

impl Leave {
    pub(crate) fn listen() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|error| Failure::bug(in_full(&error)));
        let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
        Ok(Self(listen(interrupt)?, listen(terminate)?))
    }

    /// Cancel safe.
    pub(crate) async fn asked(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}
