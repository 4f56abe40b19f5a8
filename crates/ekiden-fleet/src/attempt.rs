//! One attempt of a worker at a stage.
//!
//! ```text
//! claim ─► clone, restore the last handoff ─► `ekiden-fleet __stage` ─► commit ─► push the attempt's branch
//!   │                                              │ each session, each handoff
//!   └── refs/ekiden/<run>/stages/<stage>/<round> ◄─┘
//! ```
//!
//! That ref is a chain of commits, each with everything needed to continue: `state/`, the directory of the
//! stage's own log, and `work/`, the work tree, tracked or not. The second parent is the clone's `HEAD`.
//! Each push names the commit that it follows. An attempt starts by pushing a commit, the claim; after that
//! every push of an earlier attempt fails. So if two workers both think that they have a stage, one of them
//! finds out that the other has taken it.
//!
//! The log is read before the work tree, so a saved state may hold a little more work than its log records.
//! A crash leaves the same, and the engine continues from it.

mod save;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ekiden_agent::child::{Child, ChildSpec, StdinKind, spawn};
use ekiden_agent::keeper;
use ekiden_core::outcome::Outcome;
use ekiden_core::settings::{Before, RunStarted};
use ekiden_core::steering::Steered;
use ekiden_core::time::Millis;
use ekiden_engine::remote_run::AtWork;
use futures::future::{BoxFuture, FutureExt as _};
use serde::Serialize;
use tempfile::TempDir;
use temporalio_client::NamespacedClient as _;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio::try_join;

use crate::at_work::Heartbeat;
use crate::fault::{Fault, LEAVES};
use crate::git::{self, Git, Move};
use crate::limits::Sharing;
use crate::messages::Messages;
use crate::order::{MergeFailure, StageDone, StageTask, Submission, TEXT_CHARS_MAX, bounded, refs};
use crate::setup::set_up;
use crate::stage::{Line, ROLE, STATE, StageJob};
use crate::worker_context::WorkerContext;
use crate::{approved, earlier, matching};

use save::Pushed;

/// How long a stage has to end cleanly. The keeper of its agent needs part of that.
const GRACE: Millis = Millis(20_000);
/// How long a handoff waits for the end of its stage, so that both are pushed together.
const HANDOFF_PAUSE: Duration = Duration::from_millis(500);
/// How long the start of a session waits, so that a short one is pushed once. Followers see the session
/// through that push.
const BEGIN_PAUSE: Duration = Duration::from_secs(5);
/// How long a handoff whose push failed waits while its stage works.
const AGAIN_PAUSE: Duration = Duration::from_secs(30);
/// How long a stage may take to end when its worker leaves, and then to push what it has.
const LAST_MAX: Duration = Duration::from_secs(30);

pub(crate) struct Attempt<'a> {
    base: &'a WorkerContext,
    task: &'a StageTask,
    number: u32,
    place: TempDir,
    git: Git,
    submission: Submission,
    /// What its engine starts with.
    header: RunStarted,
    pushed: Mutex<Pushed>,
    /// There is a state to continue from.
    goes_on: bool,
    /// What the server hears about the stage.
    beat: &'a watch::Sender<Heartbeat>,
}

impl<'a> Attempt<'a> {
    /// Claims the stage and makes its work tree.
    pub(crate) async fn begin(
        base: &'a WorkerContext,
        task: &'a StageTask,
        number: u32,
        beat: &'a watch::Sender<Heartbeat>,
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
            pushed: Mutex::default(),
            goes_on: false,
            beat,
        };
        let head = attempt.follow(left.as_deref(), &empty).await?;
        let claim = [Move {
            name,
            from: left,
            to: attempt.tip(),
        }];
        // The first one says that the stage is ours; the others need no answer for that.
        let claim = attempt.git.push(&base.remote, &claim);
        let ((), (), before) = try_join!(claim, attempt.restore(&head), attempt.before())?;
        // It may take long.
        let not_set_up = set_up(&attempt.submission, &attempt.tree()).await?;
        attempt.header.before = before.map(|before| {
            Box::new(Before {
                not_set_up,
                ..before
            })
        });
        Ok(attempt)
    }

    /// Makes the commit that claims the stage. Returns the commit that its work tree starts from.
    async fn follow(&mut self, left: Option<&str>, empty: &str) -> Result<String, Fault> {
        let (task, git) = (self.task, &self.git);
        let (parent, tree) = match left {
            Some(left) => {
                let state = git.object(&format!("{left}:{STATE}")).await?;
                self.goes_on = state.is_some();
                if self.goes_on {
                    // Refuses one that a newer worker wrote.
                    earlier::log(git, &task.run, left).await?;
                }
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
        let tip = git.line(&args).await?;
        self.pushed().tip = tip;
        Ok(head)
    }

    /// What its sessions are told about earlier stages, if it has no handoff yet.
    async fn before(&self) -> Result<Option<Before>, Fault> {
        if self.goes_on {
            return Ok(None);
        }
        let manifest = &self.submission.header.manifest;
        let before = earlier::before(self.base, manifest, self.task).await?;
        Ok(Some(Before {
            not_merged: self.task.merge_failure.as_ref().map(MergeFailure::in_words),
            ..before
        }))
    }

    fn pushed(&self) -> MutexGuard<'_, Pushed> {
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tip(&self) -> String {
        self.pushed().tip.clone()
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

    fn index(&self, what: &str) -> PathBuf {
        self.place.path().join(format!("{what}.index"))
    }

    fn indexing(&self, what: &str, tree: &Path) -> Git {
        self.git.indexing(&self.index(what), tree)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the worker's own directory, of which nothing has to last"
    )]
    async fn restore(&self, head: &str) -> Result<(), Fault> {
        let branch = format!("ekiden/{}-{}", self.task.run, self.task.stage);
        if !self.goes_on {
            self.git
                .line(&["checkout", "--quiet", "-B", &branch, head])
                .await?;
            // It knows the files that git tracks although they are ignored.
            let index = self.tree().join(".git/index");
            let copied = std::fs::copy(index, self.index("work"));
            return copied.map(drop).map_err(Fault::io("copy git's index"));
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
            git.line(&["read-tree", &format!("{}:{what}", self.tip())])
                .await?;
            git.line(&["checkout-index", "--all", "--force"]).await?;
        }
        Ok(())
    }

    /// Runs the stage. `unwanted` resolves once nobody wants the stage any more.
    pub(crate) async fn carry_out(
        self,
        unwanted: impl Future<Output = ()>,
    ) -> Result<StageDone, Fault> {
        let base = self.base;
        let leave = async {
            tokio::select! {
                () = unwanted => {}
                () = base.left() => {}
            }
        };
        // A person who stops a plan can wait for the remote; a worker that leaves cannot.
        let too_late = || async {
            base.left().await;
            tokio::time::sleep(LAST_MAX).await;
        };
        let mut sharing = Sharing::new(self.base, &self.task.run, self.limits());
        // What is known by now holds for the first session, too.
        let messages = sharing.begin().await;
        let (to_engine, told) = mpsc::channel(1);
        let work = async {
            let outcome = self.run(leave, messages, told).await?;
            self.finish(outcome).await
        };
        let done = tokio::select! {
            done = work => done,
            () = too_late() => Err(Fault::Cancelled),
            never = sharing.go_on(to_engine) => match never {},
        };
        let is_saved = match &done {
            Ok(_) => true,
            // For `Kept`, the log says that the stage is complete: a resume would merge it without that work.
            // For `Remote`, this has waited as long as it may.
            Err(Fault::Taken | Fault::Kept(_) | Fault::Cancelled | Fault::Remote { .. }) => false,
            Err(_) => tokio::select! {
                saved = self.save_at_end(false) => saved.is_ok(),
                () = too_late() => false,
            },
        };
        if is_saved {
            return done;
        }
        // Work that is nowhere else stays here.
        let kept = self.place.keep();
        let place = kept.display();
        crate::say(&format!("kept what was not pushed in {place}"));
        match done {
            // A long reason is cut off.
            Err(Fault::Kept(why)) => Err(Fault::Kept(format!("its work is in {place}: {why}"))),
            done => done,
        }
    }

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
            charged: self.beat.borrow().spent.clone(),
            messages,
        }
    }

    /// Runs its engine until that has ended. `leave` resolves once the engine should stop.
    async fn run(
        &self,
        leave: impl Future<Output = ()>,
        messages: Option<Messages>,
        mut told: mpsc::Receiver<Steered>,
    ) -> Result<Outcome, Fault> {
        let job = self.job(messages);
        let (mut child, mut input) = start(&job, self.place.path()).await?;
        let output = child.stdout.take().ok_or(Fault::Taken)?;
        let mut lines = BufReader::new(output).lines();
        let mut leave = pin!(leave);
        let (mut is_leaving, mut is_taken, mut last) = (false, false, None);
        let (mut save_at, mut saving) = (None, None);
        loop {
            tokio::select! {
                line = lines.next_line() => {
                    let Some(line) = line.map_err(Fault::io("hear a stage"))? else {
                        break;
                    };
                    match serde_json::from_str(&line)? {
                        Line::Begun => save_at = Some(sooner(save_at, BEGIN_PAUSE)),
                        Line::Handoff => save_at = Some(sooner(save_at, HANDOFF_PAUSE)),
                        Line::Spent(spent) => self.beat.send_modify(|beat| beat.spent = spent),
                        Line::Now(now) => self.tell_now(now),
                        told @ (Line::Ended(_) | Line::Failed(_)) => last = Some(told),
                    }
                }
                Some(message) = told.recv() => {
                    // An engine that has ended reads nothing more.
                    let _ = input.write_all(&line_of(&message)?).await;
                }
                () = reached(save_at), if saving.is_none() && !is_taken => {
                    save_at = None;
                    saving = Some(self.save(false).boxed());
                }
                saved = ended(&mut saving) => {
                    saving = None;
                    match saved {
                        Ok(_) => {}
                        Err(Fault::Taken) => {
                            (is_taken, is_leaving) = (true, true);
                            child.terminate();
                        }
                        Err(fault) => {
                            crate::say(&format!("a handoff is not pushed: {fault}"));
                            if !fault.is_final() {
                                save_at = Some(sooner(save_at, AGAIN_PAUSE));
                            }
                        }
                    }
                }
                () = &mut leave, if !is_leaving => {
                    is_leaving = true;
                    child.terminate();
                }
            }
        }
        let end = child.wait().await;
        if let Some(saving) = saving {
            is_taken |= matches!(saving.await, Err(Fault::Taken));
        }
        match last {
            _ if is_taken => Err(Fault::Taken),
            Some(Line::Ended(outcome)) => Ok(outcome),
            Some(Line::Failed(why)) => Err(Fault::Refused(why)),
            Some(Line::Begun | Line::Handoff | Line::Spent(_) | Line::Now(_)) | None => Err(
                Fault::Refused(format!("its engine ended without a result: {end:?}")),
            ),
        }
    }

    fn tell_now(&self, now: Option<AtWork>) {
        if now.is_some() {
            self.pushed().session.clone_from(&now);
        }
        self.beat.send_modify(|beat| beat.now = now);
    }

    async fn finish(&self, outcome: Outcome) -> Result<StageDone, Fault> {
        let outcome = bounded(of_stage(outcome), TEXT_CHARS_MAX);
        if self.base.is_leaving() && matches!(outcome, Outcome::Stopped { .. }) {
            return Err(Fault::Refused(LEAVES.to_owned()));
        }
        if self.is_for_another(&outcome).await {
            return Err(Fault::NoAgent(outcome.to_string()));
        }
        let commit = self.save_at_end(outcome.is_complete()).await?;
        Ok(StageDone {
            outcome,
            commit,
            spent: self.beat.borrow().spent.clone(),
        })
    }

    /// The agent here cannot do the stage, and a worker is left that may have one that can.
    async fn is_for_another(&self, outcome: &Outcome) -> bool {
        let is_of_account = matches!(
            outcome,
            Outcome::LimitTooFar { .. } | Outcome::RateLimited { .. }
        );
        if !is_of_account && !matches!(outcome, Outcome::AgentFailed { .. }) {
            return false;
        }
        let account = is_of_account.then(|| self.base.account.clone());
        let unable = [self.base.client.identity()].into_iter().chain(account);
        self.beat.send_modify(|beat| beat.unable.extend(unable));
        let unable = self.beat.borrow().unable.clone();
        let stage = self.header.manifest.stages.first();
        let Some((stage, fleet)) = stage.zip(self.submission.header.fleet.as_ref()) else {
            return false;
        };
        let others = matching::able(&self.base.client, &fleet.queue, stage, &unable).await;
        // Without an answer, the plan hears the outcome.
        others.unwrap_or(false)
    }
}

/// How a push ended; pending forever if there is none.
async fn ended<T>(saving: &mut Option<BoxFuture<'_, T>>) -> T {
    match saving {
        Some(saving) => saving.await,
        None => std::future::pending().await,
    }
}

/// That time, or after this pause if that is sooner.
fn sooner(time: Option<Instant>, pause: Duration) -> Instant {
    let due = Instant::now() + pause;
    time.map_or(due, |time| time.min(due))
}

/// Resolves at that time; never if there is none.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Starts a stage's engine. It reads messages after the job.
async fn start(job: &StageJob, dir: &Path) -> Result<(Child, pipe::Sender), Fault> {
    // This very program, even if its file was replaced by a newer one since.
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
    // Its warnings are dropped; the log has what counts.
    drop(child.stderr.take());
    Ok((child, input))
}

fn line_of(told: &impl Serialize) -> Result<Vec<u8>, Fault> {
    let mut line = serde_json::to_vec(told)?;
    line.push(b'\n');
    Ok(line)
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
