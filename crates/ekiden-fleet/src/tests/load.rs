//! Long plans and many workers on the real server, with stages that sleep instead of carrying anything out.
//!
//! All that Temporal sees is as in a real fleet: the workflow is the same, and so are the workers' options.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    dead_code,
    reason = "it starts a server, reads the clock, and says what was measured; the workflow calls activities by their names"
)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ekiden_core::agent::Permissions;
use ekiden_core::ends::LimitKind;
use ekiden_core::ids::StageId;
use ekiden_core::manifest::{Isolation, Manifest, Need, Part, PlanRules, Stage};
use ekiden_core::outcome::Outcome;
use ekiden_core::time::Timestamp;
use ekiden_engine::known_limits::Limit;
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, Url, WorkflowFetchHistoryOptions,
    WorkflowGetResultOptions, WorkflowHandle, WorkflowQueryOptions, WorkflowSignalOptions,
    WorkflowStartOptions,
};
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::{Runtime, Worker};
use tokio::sync::watch;

use crate::history;
use crate::matching::merges;
use crate::order::{
    Limited, MergeDone, MergeTask, PlanDone, PlanOrder, PlanSignal, StageDone, StageTask, workflow,
};
use crate::outline::{self, OutlinePart, OutlineTask, outline};
use crate::submit::events_max;
use crate::worker::options;
use crate::workflow::FleetPlan;

const QUEUE: &str = "load";

/// A plan whose stages each need the one that is named, if there is one.
pub(crate) fn plan_of(stages: usize, jobs: u32, need: impl Fn(usize) -> Option<usize>) -> Manifest {
    let id = |at: usize| StageId::try_from(format!("S{at}")).unwrap();
    let stage = |at: usize| {
        let stage = need(at).map(id);
        let need = stage.map(|stage| Need {
            stage,
            optional: false,
        });
        Stage {
            id: id(at),
            task: "Sleep.".to_owned(),
            task_name: format!("Stage {at}"),
            verification: None,
            claim_needed: true,
            sessions_max: 1,
            part: Part {
                needs: need.into_iter().collect(),
                ..Part::default()
            },
        }
    };
    let isolation = Isolation::Worktrees {
        dir: String::new(),
        base: "0".repeat(40),
        branch: None,
        copy: Vec::new(),
        setup: None,
    };
    let rules = PlanRules {
        project: "load".to_owned(),
        file: "plan.toml".to_owned(),
        hash: String::new(),
        jobs,
        isolation,
        architecture: String::new(),
        document: String::new(),
    };
    Manifest {
        stages: (0..stages).map(stage).collect(),
        plan: Some(Box::new(rules)),
    }
}

/// When something began and ended, and on which worker.
#[derive(Debug, Clone)]
struct Done {
    worker: usize,
    stage: StageId,
    began: Instant,
    ended: Instant,
}

/// What all workers share.
struct World {
    manifest: Manifest,
    sleep: Duration,
    /// The last stage ends only once this is true.
    gate: watch::Receiver<bool>,
    stages: Mutex<Vec<Done>>,
    merges: Mutex<Vec<Done>>,
}

struct Sleepers {
    world: Arc<World>,
    worker: usize,
}

#[activities]
impl Sleepers {
    #[activity(name = "Activities::stage")]
    async fn stage(
        self: Arc<Self>,
        _ctx: ActivityContext,
        task: StageTask,
    ) -> Result<StageDone, ActivityError> {
        let began = Instant::now();
        let at: u32 = task.stage.as_str()[1..].parse().unwrap();
        // Stages differ, or all would end together.
        tokio::time::sleep(self.world.sleep * (50 + at * 37 % 100) / 100).await;
        if self.world.manifest.stages.last().unwrap().id == task.stage {
            let mut gate = self.world.gate.clone();
            let _ = gate.wait_for(|is_open| *is_open).await;
        }
        self.note(&self.world.stages, task.stage.clone(), began);
        Ok(StageDone {
            outcome: Outcome::Complete { verified: true },
            commit: Some(format!("{at:0>40}")),
            spent: Default::default(),
        })
    }

    #[activity(name = "Activities::merge")]
    async fn merge(
        self: Arc<Self>,
        _ctx: ActivityContext,
        task: MergeTask,
    ) -> Result<MergeDone, ActivityError> {
        self.note(&self.world.merges, task.task.stage, Instant::now());
        let commit = task.commit.unwrap();
        Ok(MergeDone::Merged { commit })
    }

    #[activity(name = "Activities::outline")]
    async fn outline(
        self: Arc<Self>,
        _ctx: ActivityContext,
        task: OutlineTask,
    ) -> Result<OutlinePart, ActivityError> {
        Ok(outline::part(&self.world.manifest, task.known))
    }
}

impl Sleepers {
    fn note(&self, list: &Mutex<Vec<Done>>, stage: StageId, began: Instant) {
        list.lock().unwrap().push(Done {
            worker: self.worker,
            stage,
            began,
            ended: Instant::now(),
        });
    }
}

/// A server that forgets everything at its end.
struct Server {
    process: Child,
    url: Url,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Temporal's program; a message if there is none.
fn temporal() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../temporal-server/venv/bin");
    let found = [venv]
        .into_iter()
        .chain(std::env::split_paths(&path))
        .map(|dir| dir.join("temporal"))
        .find(|program| program.is_file())
        .filter(|_| std::env::var_os("EKIDEN_NO_FLEET").is_none());
    if found.is_none() {
        // Bypasses the test harness, which would hide it.
        let line = "left out: there is no `temporal`, or EKIDEN_NO_FLEET is set";
        let _ = writeln!(std::io::stderr(), "{line}");
    }
    found
}

impl Server {
    async fn start(temporal: &Path) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let process = Command::new(temporal)
            .args(["server", "start-dev", "--headless", "--log-level", "error"])
            .args(["--ip", "127.0.0.1", "--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let url: Url = format!("http://127.0.0.1:{port}").parse().unwrap();
        let server = Self { process, url };
        let until = Instant::now() + Duration::from_secs(120);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "the server does not answer");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        server
    }

    /// Each worker has a connection of its own, as in a real fleet.
    async fn client(&self) -> Client {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let options = ConnectionOptions::new(self.url.clone()).build();
            if let Ok(connected) = Connection::connect(options).await {
                return Client::new(connected, ClientOptions::new("default").build()).unwrap();
            }
            assert!(Instant::now() < until, "the server does not answer");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// What came of a plan.
struct Ran {
    handle: WorkflowHandle<Client, FleetPlan>,
    done: PlanDone,
    took: Duration,
}

/// Carries a plan out with this many workers, each with a slot. `beside` goes on until the plan has ended.
async fn run<B: Future<Output = ()>>(
    server: &Server,
    world: &Arc<World>,
    workers: usize,
    events_max: u32,
    beside: impl FnOnce(WorkflowHandle<Client, FleetPlan>) -> B,
) -> Ran {
    let runtime = Runtime::from_current_tokio(Default::default()).unwrap();
    let client = &server.client().await;
    let mut all = Vec::new();
    for worker in 0..workers {
        for (queue, takes_plans) in [(QUEUE.to_owned(), true), (merges(QUEUE), false)] {
            let world = Arc::clone(world);
            let options = options(queue, 1, Sleepers { world, worker }, takes_plans);
            let client = server.client().await;
            all.push(Worker::new(&runtime, client, options.unwrap()).unwrap());
        }
    }
    let shut_down: Vec<_> = all.iter().map(Worker::shutdown_handle).collect();
    let working = futures::future::try_join_all(all.iter_mut().map(Worker::run));
    let run = "7f3a0b1c".parse().unwrap();
    let small = world.manifest.stages.len() < 100;
    let order = PlanOrder {
        ekiden: String::new(),
        outline: small.then(|| outline(&world.manifest)),
        base: "0".repeat(40),
        plan: String::new(),
        lease_secs: 600,
        budget: Default::default(),
        agents: BTreeMap::new(),
        events_max,
        carried: None,
        run,
    };
    let asked = async {
        let began = Instant::now();
        let options = WorkflowStartOptions::new(QUEUE, workflow(&order.run)).build();
        let started = client.start_workflow(FleetPlan::run, order, options).await;
        let handle = started.unwrap();
        let chain = client.get_workflow_handle::<FleetPlan>(handle.info().workflow_id.clone());
        let result = async {
            let options = WorkflowGetResultOptions::default();
            handle.get_result(options).await.unwrap()
        };
        let (done, ()) = tokio::join!(result, beside(chain));
        let took = began.elapsed();
        let handle = client.get_workflow_handle(handle.info().workflow_id.clone());
        Ran { handle, done, took }
    };
    let (ran, _) = tokio::join!(
        async {
            let ran = asked.await;
            shut_down.iter().for_each(|shut_down| shut_down());
            ran
        },
        working
    );
    ran
}

/// All histories of a plan, the last one first.
async fn histories(plan: &WorkflowHandle<Client, FleetPlan>) -> Vec<Vec<HistoryEvent>> {
    let mut found: Vec<Vec<HistoryEvent>> = Vec::new();
    let mut info = plan.info().clone();
    loop {
        let handle: WorkflowHandle<Client, FleetPlan> =
            WorkflowHandle::new(plan.client().clone(), info.clone());
        let history = handle.fetch_history(WorkflowFetchHistoryOptions::default());
        let events = history.into_events().await.unwrap();
        info.run_id = history::before(&events);
        let largest = events.iter().map(prost::Message::encoded_len).max();
        assert!(largest.unwrap() < 64 * 1024, "{largest:?}");
        found.push(events);
        if info.run_id.is_none() {
            return found;
        }
    }
}

impl World {
    fn new(manifest: Manifest, sleep: Duration) -> (Arc<Self>, watch::Sender<bool>) {
        let (open, gate) = watch::channel(false);
        let world = Self {
            manifest,
            sleep,
            gate,
            stages: Mutex::default(),
            merges: Mutex::default(),
        };
        (Arc::new(world), open)
    }

    /// Each stage was carried out once and merged once, and none began before those that it needs were merged.
    fn check(&self) {
        let (stages, merges) = (self.stages.lock().unwrap(), self.merges.lock().unwrap());
        let count = self.manifest.stages.len();
        let merged: BTreeMap<&StageId, Instant> = merges
            .iter()
            .map(|done| (&done.stage, done.ended))
            .collect();
        let begun: BTreeMap<&StageId, Instant> = stages
            .iter()
            .map(|done| (&done.stage, done.began))
            .collect();
        assert_eq!((stages.len(), begun.len()), (count, count));
        assert_eq!((merges.len(), merged.len()), (count, count));
        for stage in &self.manifest.stages {
            for need in &stage.part.needs {
                assert!(merged[&need.stage] < begun[&stage.id], "{}", stage.id);
            }
        }
    }
}

impl World {
    /// How long the stages would have taken in the same order if each slot had gone on at once, beside how long they took.
    fn busy(&self, slots: usize) -> f64 {
        let mut stages = self.stages.lock().unwrap().clone();
        stages.sort_by_key(|done| done.began);
        let (first, last) = (stages[0].began, stages.iter().map(|done| done.ended).max());
        let mut free = vec![Duration::ZERO; slots];
        for done in &stages {
            *free.iter_mut().min().unwrap() += done.ended - done.began;
        }
        let ideal = free.into_iter().max().unwrap();
        ideal.as_secs_f64() / (last.unwrap() - first).as_secs_f64()
    }

    /// Of a chain: from a stage's end to its merge, which is a round trip of Temporal's; and to the next stage on another worker.
    /// Medians in milliseconds.
    fn gaps(&self) -> (f64, f64) {
        let (stages, merges) = (self.stages.lock().unwrap(), self.merges.lock().unwrap());
        let ms = |from: Instant, to: Instant| (to - from).as_secs_f64() * 1000.0;
        let hops = stages.iter().zip(merges.iter());
        let hops = hops.map(|(stage, merge)| ms(stage.ended, merge.began));
        let nexts = stages
            .windows(2)
            .filter(|pair| pair[0].worker != pair[1].worker);
        let nexts = nexts.map(|pair| ms(pair[0].ended, pair[1].began));
        (median(hops.collect()), median(nexts.collect()))
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// A usage limit of an account of its own.
fn limit(account: usize) -> PlanSignal {
    let agent = serde_json::json!({
        "name": "rehearsal", "kind": "rehearsal", "command": [], "model": null, "interface": "headless", "permissions": Permissions::default()
    });
    let limit = Limit {
        agent: serde_json::from_value(agent).unwrap(),
        resets_at: Timestamp(u64::MAX),
        kind: LimitKind::FiveHour,
    };
    let account = account.to_string();
    let limit = Limited { account, limit };
    PlanSignal::Limited { limit }
}

// shows: FLT-06
#[tokio::test(flavor = "multi_thread")]
async fn no_signal_is_lost_while_a_plan_goes_on_in_one_history_after_another() {
    let Some(temporal) = temporal() else { return };
    let server = Server::start(&temporal).await;
    let (world, open) = World::new(
        plan_of(24, 3, |at| at.checked_sub(4)),
        Duration::from_millis(60),
    );
    let signals = 150;
    let ran = run(&server, &world, 3, 20, async |plan| {
        for account in 0..signals {
            let options = WorkflowSignalOptions::default();
            plan.signal(FleetPlan::tell, limit(account), options)
                .await
                .unwrap();
        }
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let options = WorkflowQueryOptions::default();
            let known = plan.query(FleetPlan::for_attempts, (), options).await;
            let known = known.map(|known| known.limits);
            if known.as_ref().is_ok_and(|known| known.len() == signals) {
                break;
            }
            assert!(
                Instant::now() < until,
                "{:?}",
                known.map(|known| known.len())
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        open.send_replace(true);
    })
    .await;
    assert_eq!(ran.done.outcome, Outcome::Complete { verified: true });
    world.check();
    let histories = histories(&ran.handle).await;
    assert!(histories.len() > 3, "{}", histories.len());
}

// shows: FLT-06
#[tokio::test(flavor = "multi_thread")]
async fn a_stage_and_its_merge_cost_the_server_few_events() {
    let Some(temporal) = temporal() else { return };
    let server = Server::start(&temporal).await;
    let stages = 40;
    let (world, open) = World::new(
        plan_of(stages, 4, |at| at.checked_sub(4)),
        Duration::from_millis(5),
    );
    open.send_replace(true);
    let ran = run(&server, &world, 4, events_max(4), async |_| {}).await;
    world.check();
    let histories = histories(&ran.handle).await;
    let events: usize = histories.iter().map(Vec::len).sum();
    // Two activities, and a step of the workflow for the end of each, have three each; the plan itself has the rest.
    assert!(events <= 12 * stages + 10, "{events}");
}

/// `cargo xtask bench fleet` runs it, and says how large it is: `EKIDEN_BENCH_FLEET="WORKERS STAGES SECONDS"`.
#[tokio::test(flavor = "multi_thread")]
async fn measure() {
    let Ok(wanted) = std::env::var("EKIDEN_BENCH_FLEET") else {
        return;
    };
    let Some(temporal) = temporal() else { return };
    let wanted: Vec<usize> = wanted
        .split(' ')
        .map(|word| word.parse().unwrap())
        .collect();
    let (workers, stages, seconds) = (wanted[0], wanted[1], wanted[2]);
    let jobs = u32::try_from(workers).unwrap();
    let server = Server::start(&temporal).await;
    let sleep = Duration::from_secs(u64::try_from(seconds).unwrap());
    let (world, open) = World::new(plan_of(stages, jobs, |_| None), sleep);
    open.send_replace(true);
    let events_max = events_max(jobs);
    let ran = run(&server, &world, workers, events_max, async |_| {}).await;
    assert_eq!(ran.done.outcome, Outcome::Complete { verified: true });
    world.check();
    let busy = world.busy(workers);
    let histories = histories(&ran.handle).await;
    let events: usize = histories.iter().map(Vec::len).sum();

    let (chain, open) = World::new(plan_of(60, jobs, |at| at.checked_sub(1)), Duration::ZERO);
    open.send_replace(true);
    run(&server, &chain, 4, events_max, async |_| {}).await;
    let (hop, next) = chain.gaps();
    let figures = serde_json::json!({
        "workers": workers,
        "stages": stages,
        "took_s": ran.took.as_secs_f64(),
        "busy": busy,
        "events_per_stage": events as f64 / stages as f64,
        "histories": histories.len(),
        "round_trip_ms": hop,
        "next_ms": next,
    });
    println!("{figures}");
}
