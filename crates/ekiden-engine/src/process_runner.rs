//! The effect runner of real runs: agents, verifications, surveys and archiving are tasks of the runtime.
//!
//! A task whose engine is gone cannot deliver its result. Its effect then stays outstanding, and a resume settles it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ekiden_agent::attempt::{AgentCommand, AttemptHandle, AttemptSpec, Report};
use ekiden_agent::child::ChildSpec;
use ekiden_core::effect::WorktreeEffect;
use ekiden_core::event::{AttemptEnded, Event, TaskOutcome};
use ekiden_core::ids::{AttemptNumber, EffectId, RunId, StageId};
use ekiden_core::limits;
use ekiden_store::disk::{Disk, DiskResult, parent};
use ekiden_store::lock::lock_attempt;
use ekiden_store::replace::{Durability, replace};
use ekiden_store::stream::StreamWriter;
use ekiden_wire::rpc::attempt_mark;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::clock::{Clock as _, SystemClock};
use crate::effect_runner::{ArchiveJob, EffectRunner, Input, Launch, VerifyJob};
use crate::error::EngineError;
use crate::git::CEILING;
use crate::git::commit::{self, CommitJob};
use crate::known_limits::KnownLimits;
use crate::notify::{self, Endpoint, Notice};
use crate::paths::RunPaths;
use crate::survey::Since;
use crate::survey::survey;
use crate::task_mark::task_mark;
use crate::verification;
use crate::worktrees::deliver::{DeliveryJob, deliver};
use crate::worktrees::{StageJob, Worktrees};
use ekiden_core::text::in_full;

/// Reports on their way from an adapter. A full channel makes the adapter wait, and so the agent.
pub(crate) const REPORTS_MAX: usize = 256;
const TRACKER_KEYS: [&str; 3] = ["LINEAR_API_KEY", "GITHUB_TOKEN", "GH_TOKEN"];

pub(crate) struct ProcessRunner {
    /// Our own executable, which has the hidden roles.
    ekiden: PathBuf,
    run: RunId,
    paths: RunPaths,
    worktrees: Worktrees,
    disk: Arc<dyn Disk>,
    known_limits: KnownLimits,
    inputs: mpsc::Sender<Input>,
    attempts: BTreeMap<StageId, AttemptHandle>,
    tasks: JoinSet<()>,
    /// Changes when tasks must stop. A task that begins later does not see an older change.
    cancelled: watch::Sender<u32>,
    endpoints: Vec<Endpoint>,
    /// Notifications on their way. No outcome depends on them, so a run waits for them only at its end.
    telling: JoinSet<()>,
    /// The ways that the user already knows do not work.
    notify_failed: Arc<Mutex<BTreeSet<&'static str>>>,
    /// The run works on an issue, so its agents do not get the keys of trackers.
    pub(crate) hides_keys: bool,
}

impl ProcessRunner {
    /// An effect runner for one run. It sends what happens to `inputs`.
    pub(crate) fn new(
        ekiden: PathBuf,
        run: RunId,
        paths: RunPaths,
        worktrees: Worktrees,
        disk: Arc<dyn Disk>,
        endpoints: Vec<Endpoint>,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        let known_limits = KnownLimits::of(&paths.workspace, Arc::clone(&disk), Some(run.clone()));
        Self {
            ekiden,
            run,
            paths,
            worktrees,
            disk,
            known_limits,
            inputs,
            attempts: BTreeMap::new(),
            tasks: JoinSet::new(),
            cancelled: watch::Sender::new(0),
            endpoints,
            telling: JoinSet::new(),
            notify_failed: Arc::default(),
            hides_keys: false,
        }
    }

    /// Nothing is running, so no outcome will come.
    pub(crate) fn is_idle(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.is_empty()
    }

    /// Whether a notification is on its way.
    pub(crate) fn is_telling(&mut self) -> bool {
        while self.telling.try_join_next().is_some() {}
        !self.telling.is_empty()
    }

    /// Waits for the notifications on their way, or until `enough` is ready. Then it gives up on those that are
    /// left, and tells the user.
    pub(crate) async fn tell_last(&mut self, enough: impl Future<Output = ()>) {
        tokio::select! {
            () = async { while self.telling.join_next().await.is_some() {} } => return,
            () = enough => {}
        }
        self.telling.abort_all();
        self.telling.detach_all();
        let text = notify::LATE.to_owned();
        let _ = self.inputs.try_send(Input::Warning(text));
    }

    /// Starts a task, and sends the input that it ends with.
    fn spawn(&mut self, task: impl Future<Output = Input> + Send + 'static) {
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            let _ = inputs.send(task.await).await;
        });
    }

    fn spec(&self, launch: Launch) -> Result<AttemptSpec, EngineError> {
        let relay = self.paths.relay(&launch.stage);
        let session = relay.session(launch.attempt.session);
        let handoff_dir = self.paths.published(&launch.stage).handoff();
        let mut raw = raw_stream(Arc::clone(&self.disk), &session.events())?;
        let is_again = launch.attempt.attempt > AttemptNumber::FIRST;
        if is_again && launch.agent.kind.takes_messages() {
            // If it fails, so does the next write, which tells the user. Without it nothing is charged to this attempt.
            let _ = raw.write_all(attempt_mark(launch.attempt.attempt.get()).as_bytes());
        }
        let mut env = vec![
            ("EKIDEN_RUN".to_owned(), launch.run.to_string()),
            (
                "EKIDEN_SESSION_ID".to_owned(),
                launch.conversation.to_string(),
            ),
            (
                "EKIDEN_HANDOFF".to_owned(),
                handoff_dir.display().to_string(),
            ),
            (
                "EKIDEN_PROJECT".to_owned(),
                self.paths.workspace.dir.display().to_string(),
            ),
            // For our MCP server: where the earlier sessions are, and which one this is.
            ("EKIDEN_RELAY".to_owned(), relay.dir().display().to_string()),
            (
                "EKIDEN_SESSION".to_owned(),
                launch.attempt.session.to_string(),
            ),
        ];
        let ceiling = self.paths.trees.as_deref();
        // Sessions that write to an issue only through ekiden need no key. Empty keys count as none.
        let keys = TRACKER_KEYS.iter().filter(|_| self.hides_keys);
        env.extend(keys.map(|name| ((*name).to_owned(), String::new())));
        env.extend(ceiling.map(|trees| (CEILING.to_owned(), trees.display().to_string())));
        Ok(AttemptSpec {
            ekiden: self.ekiden.clone(),
            env,
            agent: launch.agent,
            attempt: launch.attempt,
            conversation: launch.conversation,
            mode: launch.mode,
            dir: self.paths.dir(&launch.stage),
            prices: launch.prices,
            protocol: launch.protocol,
            protocol_file: relay.protocol(),
            message: launch.message,
            prompt_file: session.prompt(),
            events_file: session.events(),
            schema: launch.schema,
            // The keepers get it.
            lock: Some(lock_attempt(&relay.attempt_lock(), Duration::ZERO)?),
            raw,
        })
    }

    /// How a command of a stage runs.
    fn sh(&self, stage: &StageId, effect: EffectId) -> impl Fn(&str) -> ChildSpec + use<> {
        let (worktrees, dir) = (self.worktrees.clone(), self.paths.dir(stage));
        let mark = task_mark(&self.run, effect);
        move |command| worktrees.sh(command, &dir, &mark)
    }
}

impl EffectRunner for ProcessRunner {
    fn start(&mut self, launch: Launch) -> Result<(), EngineError> {
        let (stage, attempt) = (launch.stage.clone(), launch.attempt);
        let input = move |report: Report| Input::Agent {
            stage: stage.clone(),
            attempt,
            report,
        };
        let (limits, agent) = (self.known_limits.clone(), launch.agent.clone());
        if let Some(cause) = limits.met_elsewhere(&agent, SystemClock.now()) {
            let ended = Report::Ended(Box::new(AttemptEnded::bare(cause)));
            self.spawn(async move { input(ended) });
            return Ok(());
        }
        let (reports, mut inbox) = mpsc::channel(REPORTS_MAX);
        let stage = launch.stage.clone();
        let spec = self.spec(launch)?;
        self.attempts
            .insert(stage, ekiden_agent::start(spec, reports));
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            while let Some(report) = inbox.recv().await {
                if let Report::Ended(ended) = &report {
                    // Only other runs need it.
                    let _ = limits.learn(&agent, ended, SystemClock.now());
                }
                if inputs.send(input(report)).await.is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    fn tell(&mut self, stage: &StageId, order: AgentCommand) {
        if let Some(attempt) = self.attempts.get(stage) {
            attempt.tell(order);
        }
    }

    fn survey(&mut self, stage: &StageId, effect: EffectId, since: Since) {
        let workspace = self.paths.workspace_of(stage);
        let git = self.worktrees.git(&workspace.dir);
        let (stage, mut cancelled) = (stage.clone(), self.cancelled.subscribe());
        let worktrees = self.worktrees.until(cancelled.clone());
        let inputs = self.inputs.clone();
        let work = async move |stage: &StageId| {
            let remade = worktrees.remake(stage).await;
            if remade.map_err(|error| in_full(&error))? {
                let gone = format!(
                    "the worktree of {stage} was gone and is made again; what was not committed in it is lost"
                );
                let _ = inputs.send(Input::Warning(gone)).await;
            }
            survey(git, workspace, since).await
        };
        self.spawn(async move {
            let survey = tokio::select! {
                survey = work(&stage) => survey,
                _ = cancelled.changed() => Err("cancelled".to_owned()),
            };
            Input::task(&stage, effect, TaskOutcome::Surveyed { survey })
        });
    }

    fn commit(&mut self, stage: &StageId, effect: EffectId, mut job: CommitJob) {
        job.subject = self.worktrees.subject_of(&job.subject);
        let git = self
            .worktrees
            .git(&self.paths.dir(stage))
            .marked(&job.effect)
            .until(self.cancelled.subscribe());
        let (stage, inputs) = (stage.clone(), self.inputs.clone());
        self.spawn(async move {
            let committing = commit::commit(&git, &job);
            tokio::pin!(committing);
            let commit = tokio::select! {
                commit = &mut committing => commit,
                () = tokio::time::sleep(limits::COMMIT_SLOW.into()) => {
                    let slow = format!(
                        "`git commit` has taken {} and is ended after {}: a hook of the repository \
                         may hang",
                        limits::COMMIT_SLOW, limits::COMMIT_TIMEOUT
                    );
                    let _ = inputs.send(Input::Warning(slow)).await;
                    committing.await
                }
            };
            Input::task(&stage, effect, TaskOutcome::Committed { commit })
        });
    }

    fn verify(&mut self, stage: &StageId, effect: EffectId, job: VerifyJob) {
        let (sh, dir) = (self.sh(stage, effect), self.paths.dir(stage));
        let (stage, cancelled) = (stage.clone(), self.cancelled.subscribe());
        let (disk, inputs) = (Arc::clone(&self.disk), self.inputs.clone());
        self.spawn(async move {
            let (mut check, output) =
                verification::run(sh, &dir, &job.verification, cancelled).await;
            check.tree = job.tree;
            if let Err(error) = keep_output(&*disk, &job.log, &output) {
                let _ = inputs.send(Input::Warning(in_full(&error))).await;
            }
            Input::task(&stage, effect, TaskOutcome::Verified { check })
        });
    }

    fn cancel(&mut self) {
        self.cancelled
            .send_modify(|times| *times = times.wrapping_add(1));
    }

    fn archive(&mut self, stage: &StageId, effect: EffectId, job: ArchiveJob) {
        let (stage, disk) = (stage.clone(), Arc::clone(&self.disk));
        self.spawn(async move {
            let done = tokio::task::spawn_blocking(move || job.run(&*disk)).await;
            let failure = match done {
                Ok(Ok(())) => return Input::task(&stage, effect, TaskOutcome::Archived),
                Ok(Err(error)) => in_full(&error),
                Err(panic) => format!("archive: {panic}"),
            };
            Input::Warning(format!("cannot {failure}; a resume tries again"))
        });
    }

    fn worktree(&mut self, effect: EffectId, what: WorktreeEffect, job: StageJob) {
        let worktrees = self.worktrees.until(self.cancelled.subscribe());
        self.spawn(async move {
            let stage = job.stage.id.clone();
            let event = worktrees.perform(what, job).await;
            Input::Event(Event::Worktree {
                stage,
                effect,
                event,
            })
        });
    }

    fn deliver(&mut self, effect: EffectId, tip: Option<String>, is_repeated: bool) {
        let job = DeliveryJob {
            integrated: tip,
            mark: task_mark(&self.run, effect),
            is_repeated,
        };
        let worktrees = self.worktrees.until(self.cancelled.subscribe());
        let inputs = self.inputs.clone();
        self.spawn(async move {
            let (delivery, left_over) = deliver(&worktrees, &job).await;
            for text in left_over {
                let _ = inputs.send(Input::Warning(text)).await;
            }
            Input::Event(Event::Delivered { effect, delivery })
        });
    }

    fn notify(&mut self, effect: EffectId, notice: Notice) {
        let (workspace, of) = (&self.paths.workspace, (&self.run, effect));
        let tellings = notify::tellings(&self.ekiden, workspace, &self.endpoints, of, &notice);
        for (name, telling) in tellings {
            let room = limits::NOTIFY_MAX.saturating_sub(self.telling.len());
            let inputs = self.inputs.clone();
            let failed = Arc::clone(&self.notify_failed);
            let told = async move {
                let told = match room {
                    0 => Err("too many are on their way".to_owned()),
                    _ => telling.await,
                };
                if let Err(why) = told
                    && failed.lock().is_ok_and(|mut failed| failed.insert(name))
                {
                    let text = notify::failure(name, &why);
                    let _ = inputs.send(Input::Warning(text)).await;
                }
            };
            self.telling.spawn(told);
        }
    }
}

/// Keeps the output of a verification beside the session. Nothing depends on it, so it is not synced. A
/// verification before the first session has no such place.
fn keep_output(disk: &dyn Disk, log: &Path, output: &str) -> DiskResult<()> {
    if disk.stat(parent(log))?.is_none() {
        return Ok(());
    }
    replace(disk, log, output.as_bytes(), Durability::Derived)
}

/// The end of a raw event stream, to continue writing it.
pub(crate) fn raw_stream(disk: Arc<dyn Disk>, path: &Path) -> DiskResult<Box<dyn Write + Send>> {
    Ok(Box::new(RawStream(StreamWriter::open(disk, path)?)))
}

struct RawStream(StreamWriter);

impl Write for RawStream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // The stream's writer shows one line of why it cannot.
        let written = self.0.write(bytes);
        written.map_err(|error| std::io::Error::other(in_full(&error)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
