//! One attempt of a worker at a stage.
//!
//! ```text
//! claim ─► clone, restore the last handoff ─► `ekiden-fleet __stage` ─► commit ─► push the attempt's branch
//!   │                                              │ each handoff
//!   └── refs/ekiden/<run>/stages/<stage>/<round> ◄─┘
//! ```
//!
//! That ref is a chain of commits, each with what is needed to go on: `state/`, the directory of the stage's own
//! log, and `work/`, the work tree, tracked or not. The second parent is the clone's `HEAD`. Each push says which
//! commit it follows. An attempt begins with a push of its own, the claim; from then on every push of an earlier attempt
//! fails. So of two workers that both think that they have a stage, one finds that it was taken.
//!
//! The log is read before the work tree, so what was saved may hold a little more work than the log tells. That
//! is what a crash leaves, too, and the engine goes on from it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ekiden_agent::child::{Child, ChildEnd, ChildSpec, StdinKind, spawn};
use ekiden_agent::keeper;
use ekiden_core::outcome::Outcome;
use ekiden_core::settings::{Before, RunStarted};
use ekiden_core::steering::Steered;
use ekiden_core::time::Millis;
use serde::Serialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio::try_join;

use crate::base::Base;
use crate::fault::Fault;
use crate::git::{self, Git, Move};
use crate::limits::Sharing;
use crate::messages::Messages;
use crate::order::{StageDone, StageTask, Submission, TEXT_CHARS_MAX, bounded, refs};
use crate::setup::set_up;
use crate::shares::Spent;
use crate::stage::{Line, ROLE, STATE, StageJob};
use crate::{approved, earlier};

/// How long a stage has to end in good order. The keeper of its agent needs some of it.
const GRACE: Millis = Millis(20_000);
/// How long a handoff waits for the end of its stage, which is pushed with it.
const HANDOFF_PAUSE: Duration = Duration::from_millis(500);
/// How often a push that fails is tried again, since a remote may be away for a moment.
const PUSHES_MAX: u32 = 5;
const PUSH_PAUSE: Duration = Duration::from_secs(2);

pub(crate) struct Attempt<'a> {
    base: &'a Base,
    task: &'a StageTask,
    number: u32,
    place: TempDir,
    git: Git,
    submission: Submission,
    /// What its engine begins with.
    header: RunStarted,
    /// What the handoff ref is at, as far as we know.
    tip: String,
    /// There is something to go on from.
    goes_on: bool,
    /// What the stage has spent, as far as anybody has heard.
    spent: &'a watch::Sender<Spent>,
}

impl<'a> Attempt<'a> {
    /// Claims the stage and makes its work tree.
    pub(crate) async fn begin(
        base: &'a Base,
        task: &'a StageTask,
        number: u32,
        spent: &'a watch::Sender<Spent>,
    ) -> Result<Self, Fault> {
        let name = refs::handoff(task);
        let place = base.place(&format!("{}-{}-", task.run, task.stage))?;
        let mirror = base.mirror().await?;
        let submission = approved::submission(base, &task.run, &task.plan);
        let (submission, git) = try_join!(submission, git::clone(&mirror, place.path()))?;
        // A pattern, since the ref need not exist.
        let mut names = vec![refs::merged(&task.run), format!("{name}*")];
        names.extend(earlier::wanted(&submission.header.manifest, task));
        let (empty, ()) = try_join!(git.fed(&["mktree"], b""), base.fetch(&names))?;
        approved::check(base, &submission, &task.run, &task.base).await?;
        let left = Git::at(&mirror).object(&name).await?;
        let mut attempt = Self {
            base,
            task,
            number,
            place,
            git,
            header: approved::alone(&submission.header, task)?,
            submission,
            tip: String::new(),
            goes_on: false,
            spent,
        };
        let head = attempt.follow(left.as_deref(), &empty).await?;
        let claim = [Move {
            name,
            from: left,
            to: attempt.tip.clone(),
        }];
        // The one says that the stage is ours, and the others need no answer to that.
        let claim = attempt.git.push(&base.remote, &claim);
        let ((), (), before) = try_join!(claim, attempt.make_ready(&head), attempt.before())?;
        attempt.header.before = before.map(Box::new);
        Ok(attempt)
    }

    /// Makes the commit that claims the stage, and returns the commit that its work tree begins from.
    async fn follow(&mut self, left: Option<&str>, empty: &str) -> Result<String, Fault> {
        let (task, git) = (self.task, &self.git);
        let (parent, tree) = match left {
            Some(left) => {
                let state = git.object(&format!("{left}:{STATE}")).await?;
                self.goes_on = state.is_some();
                (left, format!("{left}^{{tree}}"))
            }
            None => (task.base.as_str(), empty.to_owned()),
        };
        let head = match self.goes_on {
            true => format!("{parent}^2"),
            false => task.base.clone(),
        };
        let claim = format!("ekiden: attempt {} at {}", self.number, task.stage);
        let parents = ["-p", parent, "-p", &head, "-m", &claim];
        let args = [&["commit-tree", &tree][..], &parents].concat();
        self.tip = git.line(&args).await?;
        Ok(head)
    }

    /// What its sessions are told of earlier stages, if it has none yet.
    async fn before(&self) -> Result<Option<Before>, Fault> {
        if self.goes_on {
            return Ok(None);
        }
        let manifest = &self.submission.header.manifest;
        let before = earlier::before(self.base, manifest, self.task);
        before.await.map(Some)
    }

    async fn make_ready(&self, head: &str) -> Result<(), Fault> {
        self.restore(head).await?;
        set_up(&self.submission, &self.tree()).await
    }

    fn tree(&self) -> PathBuf {
        self.place.path().join("tree")
    }

    fn state(&self) -> PathBuf {
        self.place.path().join(STATE)
    }

    fn limits(&self) -> PathBuf {
        self.place.path().join("limits")
    }

    fn indexing(&self, what: &str, tree: &Path) -> Git {
        let index = self.place.path().join(format!("{what}.index"));
        self.git.indexing(&index, tree)
    }

    async fn restore(&self, head: &str) -> Result<(), Fault> {
        let branch = format!("ekiden/{}-{}", self.task.run, self.task.stage);
        if !self.goes_on {
            self.git
                .line(&["checkout", "--quiet", "-B", &branch, head])
                .await?;
            return Ok(());
        }
        self.git
            .line(&["branch", "--quiet", "--force", &branch, head])
            .await?;
        self.git
            .line(&["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])
            .await?;
        self.git.line(&["read-tree", "HEAD"]).await?;
        let made = std::fs::DirBuilder::new().create(self.state());
        made.map_err(Fault::io("make a directory for a stage's state"))?;
        for (what, tree) in [("work", self.tree()), (STATE, self.state())] {
            let git = self.indexing(what, &tree);
            git.line(&["read-tree", &format!("{}:{what}", self.tip)])
                .await?;
            git.line(&["checkout-index", "--all", "--force"]).await?;
        }
        Ok(())
    }

    /// Saves what is needed to go on elsewhere.
    async fn save(&mut self) -> Result<(), Fault> {
        let head = self.git.line(&["rev-parse", "HEAD"]);
        let (saved, _) = self.saved(head).await?;
        self.push(&[self.handoff(&saved)]).await?;
        self.tip = saved;
        Ok(())
    }

    /// The same while its engine works. Whether another worker has the stage now.
    async fn save_handoff(&mut self) -> bool {
        match self.save().await {
            Ok(()) => false,
            Err(Fault::Taken) => true,
            Err(fault) => {
                crate::say(&format!("a handoff is not pushed: {fault}"));
                false
            }
        }
    }

    /// The commit of what is needed to go on elsewhere, and the clone's head, which `head` gives.
    async fn saved(
        &self,
        head: impl Future<Output = Result<String, Fault>>,
    ) -> Result<(String, String), Fault> {
        let state = self.indexing(STATE, &self.state());
        let log = format!("runs/{}/log.jsonl", self.task.run);
        state.line(&["add", "--force", &log]).await?;
        let rest = state_tree(&state, &log);
        let (state, work, head) = try_join!(rest, self.work_tree(), head)?;
        let listed = format!("040000 tree {state}\t{STATE}\n040000 tree {work}\twork\n");
        let tree = self.git.fed(&["mktree"], listed.as_bytes()).await?;
        let subject = format!("ekiden: a handoff of {}", self.task.stage);
        let parents = ["-p", &self.tip, "-p", &head, "-m", &subject];
        let args = [&["commit-tree", &tree][..], &parents].concat();
        Ok((self.git.line(&args).await?, head))
    }

    async fn work_tree(&self) -> Result<String, Fault> {
        let work = self.indexing("work", &self.tree());
        work.line(&["add", "--all", "."]).await?;
        // Git is told to ignore what the agent and ekiden tell each other.
        let shared = Path::new(&self.submission.prefix).join(".ekiden");
        let (shared, runs) = (shared.to_string_lossy(), shared.join("runs"));
        let runs = format!(":(exclude){}", runs.display());
        work.line(&["add", "--all", "--force", "--", &shared, &runs])
            .await?;
        work.line(&["write-tree"]).await
    }

    /// Commits what the stage left, and gives what it made by that.
    async fn committed(&self) -> Result<String, Fault> {
        self.git.line(&["add", "--all", "."]).await?;
        let subject = format!("ekiden: {}", self.task.stage);
        let commit = self.git.line(&["commit", "--quiet", "-m", &subject]).await;
        if commit.is_err() {
            let same = ["diff", "--cached", "--quiet"];
            if !self.git.ended(&same, b"").await?.ok {
                commit?;
            }
        }
        self.git.line(&["rev-parse", "HEAD"]).await
    }

    fn handoff(&self, saved: &str) -> Move {
        Move {
            name: refs::handoff(self.task),
            from: Some(self.tip.clone()),
            to: saved.to_owned(),
        }
    }

    async fn push(&self, moves: &[Move]) -> Result<(), Fault> {
        let mut tries = 1;
        loop {
            match self.git.push(&self.base.remote, moves).await {
                Err(Fault::Git { .. }) if tries < PUSHES_MAX => tries += 1,
                pushed => return pushed,
            }
            tokio::time::sleep(PUSH_PAUSE).await;
        }
    }

    /// Carries the stage out. `cancelled` is ready once nobody wants it any more.
    pub(crate) async fn carry_out(
        mut self,
        cancelled: impl Future<Output = ()>,
    ) -> Result<StageDone, Fault> {
        let mut sharing = Sharing::new(self.base, &self.task.run, self.limits());
        // What is known already holds for the first session, too.
        let messages = sharing.begin().await;
        let (to_engine, told) = mpsc::channel(1);
        let ended = tokio::select! {
            ended = self.run(cancelled, messages, told) => ended,
            never = sharing.go_on(to_engine) => match never {},
        };
        let done = match ended {
            Ok(outcome) => self.finish(outcome).await,
            Err(fault) => Err(fault),
        };
        if done.is_err() && self.save().await.is_err() {
            // What is nowhere else stays here.
            let kept = self.place.keep();
            crate::say(&format!("kept what was not pushed in {}", kept.display()));
        }
        done
    }

    /// What its engine is to do.
    fn job(&self, messages: Option<Messages>) -> StageJob {
        StageJob {
            header: self.header.clone(),
            work_dir: self.tree().join(&self.submission.prefix),
            state_dir: self.state(),
            limits_dir: self.limits(),
            goes_on: self.goes_on,
            answer: self.task.answer.clone(),
            budget: self.task.budget,
            agents: self.task.agents.clone(),
            charged: self.spent.borrow().clone(),
            messages,
        }
    }

    async fn run(
        &mut self,
        cancelled: impl Future<Output = ()>,
        messages: Option<Messages>,
        mut told: mpsc::Receiver<Steered>,
    ) -> Result<Outcome, Fault> {
        let job = self.job(messages);
        let (mut child, mut input) = start(&job, self.place.path()).await?;
        let output = child.stdout.take().ok_or(Fault::Taken)?;
        let mut lines = BufReader::new(output).lines();
        let mut leaving = self.base.leaving.clone();
        tokio::pin!(cancelled);
        let (mut is_leaving, mut last, mut taken, mut save_at) = (false, None, false, None);
        loop {
            let heard = tokio::select! {
                line = lines.next_line() => Heard::Line(line.map_err(Fault::io("hear a stage"))?),
                Some(message) = told.recv() => Heard::Message(message),
                () = reached(save_at) => Heard::Due,
                () = &mut cancelled, if !is_leaving => Heard::Leave,
                _ = leaving.wait_for(|leaving| *leaving), if !is_leaving => Heard::Leave,
            };
            let line = match heard {
                Heard::Line(Some(line)) => line,
                Heard::Line(None) => break,
                Heard::Message(message) => {
                    // An engine that has ended reads nothing more.
                    let _ = input.write_all(&line_of(&message)?).await;
                    continue;
                }
                Heard::Due => {
                    save_at = None;
                    taken = self.save_handoff().await;
                    taken.then(|| child.terminate());
                    continue;
                }
                Heard::Leave => {
                    is_leaving = true;
                    child.terminate();
                    continue;
                }
            };
            match serde_json::from_str(&line)? {
                Line::Handoff if taken => {}
                Line::Handoff => save_at = save_at.or(Some(Instant::now() + HANDOFF_PAUSE)),
                Line::Spent(spent) => {
                    self.spent.send_replace(spent);
                }
                told @ (Line::Ended(_) | Line::Failed(_)) => last = Some(told),
            }
        }
        let end = child.wait().await;
        match last {
            _ if taken => Err(Fault::Taken),
            Some(Line::Ended(outcome)) => Ok(outcome),
            Some(Line::Failed(why)) => Err(Fault::Refused(why)),
            Some(Line::Handoff | Line::Spent(_)) | None => {
                Err(Fault::Refused(ended_silently(&end)))
            }
        }
    }

    async fn finish(&mut self, outcome: Outcome) -> Result<StageDone, Fault> {
        let outcome = bounded(of_stage(outcome), TEXT_CHARS_MAX);
        if !outcome.is_complete() {
            if *self.base.leaving.borrow() && matches!(outcome, Outcome::Stopped { .. }) {
                return Err(Fault::Refused("its worker leaves".to_owned()));
            }
            self.save().await?;
            return Ok(StageDone {
                outcome,
                commit: None,
                spent: self.spent.borrow().clone(),
            });
        }
        let (saved, commit) = self.saved(self.committed()).await?;
        let made = Move {
            name: refs::made(self.task, self.number),
            from: None,
            to: commit.clone(),
        };
        self.push(&[self.handoff(&saved), made]).await?;
        self.tip = saved;
        Ok(StageDone {
            outcome,
            commit: Some(commit),
            spent: self.spent.borrow().clone(),
        })
    }
}

/// The tree of a stage's state, with the log as it was added before.
async fn state_tree(state: &Git, log: &str) -> Result<String, Fault> {
    let log = format!(":(exclude){log}");
    let add = ["add", "--all", "--force", "--", ".", &log];
    state.line(&add).await?;
    state.line(&["write-tree"]).await
}

/// What a worker waits for while a stage is at work.
enum Heard {
    /// Nothing once its engine is gone.
    Line(Option<String>),
    /// A person tells the stage something.
    Message(Steered),
    /// A handoff has waited.
    Due,
    /// Nobody wants the stage any more, or the worker leaves.
    Leave,
}

/// Ready at that time; never if there is none.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Starts a stage's engine. It reads messages after the job.
async fn start(job: &StageJob, dir: &Path) -> Result<(Child, pipe::Sender), Fault> {
    // This one, also if its file was replaced by a newer one since.
    let program = keeper::executable().map_err(Fault::io("find this program"))?;
    let keeper = program.clone();
    let mut child = spawn(ChildSpec {
        args: vec![ROLE.into()],
        grace: GRACE,
        stdin: StdinKind::Piped,
        ..ChildSpec::new(keeper, program, dir)
    })?;
    let mut input = child.stdin.take().ok_or(Fault::Taken)?;
    let written = input.write_all(&line_of(job)?).await;
    written.map_err(Fault::io("tell a stage what to do"))?;
    // Its warnings go nowhere; the log has what counts.
    drop(child.stderr.take());
    Ok((child, input))
}

fn line_of(told: &impl Serialize) -> Result<Vec<u8>, Fault> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    Ok(line)
}

fn ended_silently(end: &ChildEnd) -> String {
    format!("its engine ended without a word: {end:?}")
}

/// The end of its only stage.
fn of_stage(outcome: Outcome) -> Outcome {
    if let Outcome::StagesFailed { failed, .. } = &outcome
        && let [only] = &failed[..]
    {
        return (*only.outcome).clone();
    }
    outcome
}
