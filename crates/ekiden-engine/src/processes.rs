//! The real hands: agents, verifications, surveys and archiving as tasks of the runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ekiden_agent::attempt::{AttemptHandle, AttemptSpec, Order};
use ekiden_agent::child::{ChildSpec, StdinKind};
use ekiden_agent::keeper;
use ekiden_core::event::GroundEvent;
use ekiden_core::ids::{EffectId, RunId, StageId};
use ekiden_core::limits;
use ekiden_core::manifest::Verification;
use ekiden_store::disk::Disk;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::archive_job::ArchiveJob;
use crate::commit::{self, CommitJob};
use crate::error::{EngineError, in_full};
use crate::git::CEILING;
use crate::grounds::{DeliveryJob, GroundJob, Grounds};
use crate::hands::{Hands, Input, Launch, Since};
use crate::notify;
use crate::session_files::SessionFiles;
use crate::survey::Surveyor;
use crate::verification;

/// Reports on their way from an adapter. A full channel holds the adapter back, and so the agent.
const REPORTS_MAX: usize = 256;

/// The variable by which a restarted engine finds a verification or a commit that outlived even its
/// keepers.
pub(crate) const TASK_MARK: &str = "EKIDEN_TASK";

/// Its value. A commit has it in its trailer too.
pub(crate) fn task_mark(run: &RunId, effect: EffectId) -> String {
    format!("{run}/{effect}")
}

/// Performs with processes.
pub(crate) struct ProcessHands {
    /// Our own executable, which has the hidden roles.
    ekiden: PathBuf,
    files: SessionFiles,
    grounds: Grounds,
    disk: Arc<dyn Disk>,
    inputs: mpsc::Sender<Input>,
    attempts: BTreeMap<StageId, AttemptHandle>,
    tasks: JoinSet<()>,
    /// Changes when tasks are to stop. A task that begins later does not see an older change.
    cancelled: watch::Sender<u32>,
}

impl ProcessHands {
    /// Hands for one run. Outcomes go to `inputs`.
    #[must_use]
    pub(crate) fn new(
        ekiden: PathBuf,
        files: SessionFiles,
        grounds: Grounds,
        disk: Arc<dyn Disk>,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        let (attempts, tasks) = (BTreeMap::new(), JoinSet::new());
        Self { ekiden, files, grounds, disk, inputs, attempts, tasks, cancelled: watch::Sender::new(0) }
    }

    /// Nothing is at work, so no outcome will come.
    pub(crate) fn is_idle(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.is_empty()
    }

    fn spec(&self, launch: Launch) -> Result<AttemptSpec, EngineError> {
        let (stage, session) = (&launch.stage, launch.attempt.session);
        let lock = self.files.lock(stage)?;
        let raw = self.files.raw_stream(stage, session)?;
        let mut env = vec![
            ("EKIDEN_RUN".to_owned(), launch.run.to_string()),
            ("EKIDEN_SESSION_ID".to_owned(), launch.conversation.to_string()),
            ("EKIDEN_HANDOFF".to_owned(), self.files.handoff_dir(stage).display().to_string()),
        ];
        let ceiling = self.files.places().trees();
        env.extend(ceiling.map(|trees| (CEILING.to_owned(), trees.display().to_string())));
        Ok(AttemptSpec {
            ekiden: self.ekiden.clone(),
            env,
            agent: launch.agent,
            attempt: launch.attempt,
            conversation: launch.conversation,
            mode: launch.mode,
            dir: self.files.places().dir(stage),
            prices: launch.prices,
            protocol: launch.protocol,
            protocol_file: self.files.protocol(stage),
            message: launch.message,
            prompt_file: self.files.prompt(stage, session),
            schema: None,
            lock,
            raw,
        })
    }

    /// How a command of a stage runs.
    fn sh(&self, stage: &StageId, effect: EffectId) -> impl Fn(&str) -> ChildSpec + use<> {
        let (keeper, dir) = (self.ekiden.clone(), self.files.places().dir(stage));
        let mut env_set = vec![(TASK_MARK.into(), task_mark(self.files.run(), effect).into())];
        env_set.extend(self.files.places().trees().map(|trees| (CEILING.into(), trees.into())));
        move |command| ChildSpec {
            keeper: keeper.clone(),
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            dir: dir.clone(),
            env_set: env_set.clone(),
            lock: None,
            grace: limits::KILL_GRACE,
            stdin: StdinKind::Null,
        }
    }

    /// Starts work on a ground, whose outcome is an event.
    fn on_ground<F: Future<Output = GroundEvent> + Send + 'static>(
        &mut self,
        stage: StageId,
        work: impl FnOnce(Grounds, watch::Receiver<u32>) -> F,
    ) {
        let (grounds, inputs) = (self.grounds.clone(), self.inputs.clone());
        let work = work(grounds.clone(), self.cancelled.subscribe());
        self.tasks.spawn(async move {
            let event = work.await;
            tell_notes(&grounds, &inputs).await;
            // Without an engine the effect stays outstanding, and a resume performs it again.
            let _ = inputs.send(Input::Ground { stage, event }).await;
        });
    }
}

impl Hands for ProcessHands {
    fn start(&mut self, launch: Launch) -> Result<(), EngineError> {
        let (stage, attempt) = (launch.stage.clone(), launch.attempt);
        let (reports, mut inbox) = mpsc::channel(REPORTS_MAX);
        let spec = self.spec(launch)?;
        self.attempts.insert(stage.clone(), ekiden_agent::start(spec, reports));
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            while let Some(report) = inbox.recv().await {
                let input = Input::Agent { stage: stage.clone(), attempt, report };
                if inputs.send(input).await.is_err() {
                    return;
                }
            }
        });
        Ok(())
    }

    fn tell(&mut self, stage: &StageId, order: Order) {
        // Now there is time for it.
        if order == Order::Begin {
            prepare_keeper(self.ekiden.clone());
        }
        if let Some(attempt) = self.attempts.get(stage) {
            attempt.tell(order);
        }
    }

    fn survey(&mut self, stage: &StageId, effect: EffectId, since: Since) {
        let workspace = self.files.places().workspace_of(stage);
        let surveyor = Surveyor::new(self.grounds.git(&workspace.dir), workspace);
        // Where it waits already, this costs nothing.
        prepare_keeper(self.ekiden.clone());
        let (stage, inputs, mut cancelled) = (stage.clone(), self.inputs.clone(), self.cancelled.subscribe());
        self.tasks.spawn(async move {
            let survey = tokio::select! {
                survey = surveyor.survey(since) => survey,
                _ = cancelled.changed() => Err("cancelled".to_owned()),
            };
            // Without an engine nobody waits for it.
            let _ = inputs.send(Input::Surveyed { stage, effect, survey }).await;
        });
    }

    fn commit(&mut self, stage: &StageId, effect: EffectId, job: CommitJob) {
        let git = self.grounds.git(&self.files.places().dir(stage)).marked(job.effect.clone());
        let (stage, inputs, cancelled) = (stage.clone(), self.inputs.clone(), self.cancelled.subscribe());
        self.tasks.spawn(async move {
            let commit = commit::commit(&git, &job, cancelled).await;
            // Without an engine the effect stays outstanding, and a resume finds the commit.
            let _ = inputs.send(Input::Committed { stage, effect, commit }).await;
        });
    }

    fn verify(&mut self, stage: &StageId, effect: EffectId, verification: &Verification) {
        let (sh, dir) = (self.sh(stage, effect), self.files.places().dir(stage));
        let verification = verification.clone();
        let (stage, inputs, cancelled) = (stage.clone(), self.inputs.clone(), self.cancelled.subscribe());
        self.tasks.spawn(async move {
            let (check, output) = verification::run(sh, &dir, &verification, cancelled).await;
            // Without an engine nobody waits for it.
            let _ = inputs.send(Input::Verified { stage, effect, check, output }).await;
        });
    }

    fn cancel(&mut self, _stage: &StageId) {
        self.cancelled.send_modify(|times| *times = times.wrapping_add(1));
    }

    fn archive(&mut self, stage: &StageId, effect: EffectId, job: ArchiveJob) {
        let (stage, inputs, disk) = (stage.clone(), self.inputs.clone(), Arc::clone(&self.disk));
        self.tasks.spawn(async move {
            let done = tokio::task::spawn_blocking(move || job.run(&*disk)).await;
            let failure = match done {
                Ok(done) => done.err().map(|error| in_full(&error)),
                Err(panic) => Some(format!("archive: {panic}")),
            };
            // Without an engine the effect stays outstanding, and a resume performs it again.
            let _ = inputs.send(Input::Archived { stage, effect, failure }).await;
        });
    }

    fn prepare(&mut self, effect: EffectId, job: GroundJob) {
        self.on_ground(job.stage.id.clone(), move |grounds, cancelled| async move {
            grounds.prepare(effect, job, cancelled).await
        });
    }

    fn merge(&mut self, effect: EffectId, job: GroundJob) {
        self.on_ground(job.stage.id.clone(), move |grounds, cancelled| async move {
            grounds.merge(effect, job, cancelled).await
        });
    }

    fn confirm(&mut self, effect: EffectId, job: GroundJob) {
        self.on_ground(job.stage.id.clone(), move |grounds, cancelled| async move {
            grounds.confirm(effect, job, cancelled).await
        });
    }

    fn deliver(&mut self, effect: EffectId, whole: Option<String>, is_repeated: bool) {
        let (grounds, inputs, cancelled) =
            (self.grounds.clone(), self.inputs.clone(), self.cancelled.subscribe());
        let job = DeliveryJob { whole, mark: task_mark(self.files.run(), effect), is_repeated };
        self.tasks.spawn(async move {
            let delivery = grounds.deliver(&job, cancelled).await;
            tell_notes(&grounds, &inputs).await;
            // Without an engine the effect stays outstanding, and a resume finds what was handed over.
            let _ = inputs.send(Input::Delivered { effect, delivery }).await;
        });
    }

    fn notify(&mut self, text: String) {
        let showing = notify::notify(self.ekiden.clone(), self.files.places().workspace().dir.clone(), text);
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            if let Err(why) = showing.await {
                // Without an engine nobody can be told.
                let _ = inputs.send(Input::Unnotified { why }).await;
            }
        });
    }
}

/// Mostly another agent is started when this one has ended.
fn prepare_keeper(ekiden: PathBuf) {
    tokio::task::spawn_blocking(move || keeper::prepare(&ekiden));
}

/// Tells what was found on grounds and stops nothing.
async fn tell_notes(grounds: &Grounds, inputs: &mpsc::Sender<Input>) {
    for text in grounds.notes() {
        // Without an engine nobody listens.
        let _ = inputs.send(Input::Noted { text }).await;
    }
}
