//! The real hands: agents, verifications, surveys and archiving as tasks of the runtime.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ekiden_agent::attempt::{AttemptHandle, AttemptSpec, Order};
use ekiden_agent::child::{ChildEnd, ChildSpec, OUTER_AGENT_ENV, StdinKind};
use ekiden_agent::task;
use ekiden_core::event::{Check, CheckOutcome};
use ekiden_core::ids::{EffectId, RunId, StageId};
use ekiden_core::limits;
use ekiden_core::manifest::Verification;
use ekiden_core::time::Millis;
use ekiden_store::disk::Disk;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::archive_job::ArchiveJob;
use crate::commit::{self, CommitJob};
use crate::error::{EngineError, in_full};
use crate::git::Git;
use crate::hands::{Hands, Input, Launch, Since};
use crate::notify;
use crate::session_files::SessionFiles;
use crate::survey::Surveyor;
use crate::workspace::Workspace;

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
    workspace: Workspace,
    files: SessionFiles,
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
        workspace: Workspace,
        files: SessionFiles,
        disk: Arc<dyn Disk>,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        let (attempts, tasks) = (BTreeMap::new(), JoinSet::new());
        Self { ekiden, workspace, files, disk, inputs, attempts, tasks, cancelled: watch::Sender::new(0) }
    }

    /// Nothing is at work, so no outcome will come.
    pub(crate) fn is_idle(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.is_empty()
    }

    fn spec(&self, launch: Launch) -> Result<AttemptSpec, EngineError> {
        let session = launch.attempt.session;
        let lock = self.files.lock(session)?;
        let raw = self.files.raw_stream(session)?;
        Ok(AttemptSpec {
            ekiden: self.ekiden.clone(),
            env: vec![
                ("EKIDEN_RUN".to_owned(), launch.run.to_string()),
                ("EKIDEN_SESSION_ID".to_owned(), launch.conversation.to_string()),
                ("EKIDEN_HANDOFF".to_owned(), self.files.handoff_dir().display().to_string()),
            ],
            agent: launch.agent,
            attempt: launch.attempt,
            conversation: launch.conversation,
            mode: launch.mode,
            dir: self.workspace.dir.clone(),
            prices: launch.prices,
            protocol: launch.protocol,
            protocol_file: self.files.protocol(),
            message: launch.message,
            prompt_file: self.files.prompt(session),
            lock,
            raw,
        })
    }

    fn sh(&self, command: &str, effect: EffectId) -> ChildSpec {
        ChildSpec {
            keeper: self.ekiden.clone(),
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            dir: self.workspace.dir.clone(),
            env_set: vec![(TASK_MARK.into(), task_mark(self.files.run(), effect).into())],
            env_remove: OUTER_AGENT_ENV.iter().map(Into::into).collect(),
            lock: None,
            grace: limits::KILL_GRACE,
            stdin: StdinKind::Null,
        }
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
        if let Some(attempt) = self.attempts.get(stage) {
            attempt.tell(order);
        }
    }

    fn survey(&mut self, stage: &StageId, effect: EffectId, since: Since) {
        let surveyor = Surveyor::new(self.ekiden.clone(), self.workspace.clone());
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
        let git = Git::new(self.ekiden.clone(), self.workspace.dir.clone()).marked(job.effect.clone());
        let (stage, inputs, cancelled) = (stage.clone(), self.inputs.clone(), self.cancelled.subscribe());
        self.tasks.spawn(async move {
            let commit = commit::commit(&git, &job, cancelled).await;
            // Without an engine the effect stays outstanding, and a resume finds the commit.
            let _ = inputs.send(Input::Committed { stage, effect, commit }).await;
        });
    }

    fn verify(&mut self, stage: &StageId, effect: EffectId, verification: &Verification) {
        let (spec, timeout) = (self.sh(&verification.command, effect), verification.timeout);
        let (stage, inputs, cancelled) = (stage.clone(), self.inputs.clone(), self.cancelled.subscribe());
        self.tasks.spawn(async move {
            let (check, output) = verify(spec, timeout, cancelled).await;
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

    fn notify(&mut self, text: String) {
        let showing = notify::notify(self.ekiden.clone(), self.workspace.dir.clone(), text);
        let inputs = self.inputs.clone();
        self.tasks.spawn(async move {
            if let Err(why) = showing.await {
                // Without an engine nobody can be told.
                let _ = inputs.send(Input::Unnotified { why }).await;
            }
        });
    }
}

/// Runs a verification. Its result is bound to a tree by the engine, which knows the last survey.
async fn verify(spec: ChildSpec, timeout: Millis, mut cancelled: watch::Receiver<u32>) -> (Check, String) {
    let started = Instant::now();
    let (outcome, output) = tokio::select! {
        done = task::run_task(spec, timeout, limits::VERIFY_LOG_BYTES) => match done {
            Ok(done) => (outcome(&done.end, done.timed_out), done.tail),
            Err(error) => (CheckOutcome::NotRun { error: in_full(&error) }, String::new()),
        },
        _ = cancelled.changed() => (CheckOutcome::Cancelled, String::new()),
    };
    let duration = Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    (Check { outcome, tree: None, duration, tail: tail(&output) }, output)
}

fn outcome(end: &ChildEnd, timed_out: bool) -> CheckOutcome {
    match end {
        _ if timed_out => CheckOutcome::TimedOut,
        ChildEnd::Exited(0) => CheckOutcome::Passed,
        ChildEnd::Exited(code) => CheckOutcome::Failed { code: *code },
        ChildEnd::Signaled(signal) => CheckOutcome::Failed { code: 128 + signal },
        ChildEnd::NotStarted(error) => CheckOutcome::NotRun { error: error.clone() },
        ChildEnd::KeeperLost => CheckOutcome::NotRun { error: "its keeper was killed".to_owned() },
    }
}

/// The last lines of an output, within what a record may hold.
fn tail(output: &str) -> String {
    let mut lines: Vec<&str> = output.trim_end().lines().rev().take(limits::VERIFY_TAIL_LINES).collect();
    lines.reverse();
    let text = lines.join("\n");
    let from = text.len().saturating_sub(limits::VERIFY_TAIL_BYTES);
    let from = (from..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-07
    #[test]
    fn a_tail_is_bounded_in_lines_and_bytes() {
        let many: String = (0..100).map(|n| format!("line {n}\n")).collect();
        assert_eq!(tail(&many).lines().count(), limits::VERIFY_TAIL_LINES);
        assert!(tail(&many).ends_with("line 99"));
        let long = "ä".repeat(limits::VERIFY_TAIL_BYTES);
        assert!(tail(&long).len() <= limits::VERIFY_TAIL_BYTES);
        assert_eq!(tail(""), "");
    }
}
