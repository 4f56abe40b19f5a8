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
use ekiden_core::budget::Spend;
use ekiden_core::ids::RunId;
use ekiden_core::manifest::{Isolation, Manifest};
use ekiden_core::outcome::Outcome;
use ekiden_core::settings::RunStarted;
use ekiden_core::time::Millis;
use tempfile::TempDir;
use temporalio_client::Client;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{Mutex, watch};

use crate::earlier::before;
use crate::fault::Fault;
use crate::git::{self, Git};
use crate::limits::Sharing;
use crate::order::{StageDone, StageTask, Submission, TEXT_CHARS_MAX, bounded, refs};
use crate::setup::set_up;
use crate::stage::{Line, ROLE, STATE, StageJob};

/// How long a stage has to end in good order. The keeper of its agent needs some of it.
const GRACE: Millis = Millis(20_000);
/// How often a push that fails is tried again, since a remote may be away for a moment.
const PUSHES_MAX: u32 = 5;
const PUSH_PAUSE: Duration = Duration::from_secs(2);
/// The name of the submission in the plan's commit.
pub(crate) const PLAN_FILE: &str = "plan.json";

/// What all attempts of a worker share.
#[derive(Debug)]
pub(crate) struct Base {
    /// Where it keeps its repository and its work.
    pub(crate) dir: PathBuf,
    pub(crate) remote: String,
    /// Who may decide what runs here, as ssh-keygen(1) has allowed signers; whoever submits, if nobody is named.
    pub(crate) trusted_keys: Option<PathBuf>,
    /// Held while something is fetched into the mirror.
    pub(crate) fetching: Mutex<()>,
    pub(crate) client: Client,
    /// Whose usage limits the agents here count against, as the user of the fleet calls it.
    pub(crate) account: String,
    /// Whether the worker is leaving.
    pub(crate) leaving: watch::Receiver<bool>,
}

impl Base {
    /// Fetches refs into the mirror, under their own names.
    pub(crate) async fn fetch(&self, names: &[String]) -> Result<PathBuf, Fault> {
        let _alone = self.fetching.lock().await;
        let mirror = git::mirror(&self.dir).await?;
        let specs: Vec<String> = names.iter().map(|name| format!("+{name}:{name}")).collect();
        let mut args = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--prune",
            "--",
            &self.remote,
        ];
        args.extend(specs.iter().map(String::as_str));
        Git::at(&mirror).line(&args).await?;
        Ok(mirror)
    }

    /// A directory that is removed with its handle.
    pub(crate) fn place(&self, name: &str) -> Result<TempDir, Fault> {
        let made = tempfile::Builder::new().prefix(name).tempdir_in(&self.dir);
        made.map_err(Fault::io("make a directory for a stage"))
    }
}

/// The plan as it was submitted, from a repository that has it, and only if it may run here.
///
/// The server says what is to be done: of which run, at which stage, from which commit. Where keys are trusted, that must fit to
/// a plan that the owner of one has signed: it is that run's, and the commit is one that the run made.
pub(crate) async fn submission(
    base: &Base,
    git: &Git,
    run: &RunId,
    plan: &str,
    begins: &str,
) -> Result<Submission, Fault> {
    if let Some(keys) = &base.trusted_keys {
        let keys = format!("gpg.ssh.allowedSignersFile={}", keys.display());
        let checked = git
            .ended(&["-c", &keys, "verify-commit", plan], b"")
            .await?;
        if !checked.ok {
            let text = "the plan is not signed by a key that this worker trusts";
            return Err(Fault::Untrusted(text.to_owned()));
        }
    }
    let text = git
        .line(&["cat-file", "blob", &format!("{plan}:{PLAN_FILE}")])
        .await?;
    let submission: Submission = serde_json::from_str(&text)?;
    if base.trusted_keys.is_some() {
        let rules = submission.header.manifest.plan.as_deref();
        let begun = rules.and_then(|rules| match &rules.isolation {
            Isolation::Worktrees { base, .. } => Some(base.as_str()),
            Isolation::InPlace => None,
        });
        let begun = begun.unwrap_or_default();
        let ask = ["merge-base", "--is-ancestor", begun, begins];
        let follows = git.ended(&ask, b"").await?.ok;
        if submission.header.run != *run || !follows {
            let text = "the signed plan is that of another run, or begins elsewhere";
            return Err(Fault::Untrusted(text.to_owned()));
        }
    }
    Ok(submission)
}

pub(crate) struct Attempt<'a> {
    base: &'a Base,
    task: &'a StageTask,
    number: u32,
    place: TempDir,
    git: Git,
    submission: Submission,
    /// What the handoff ref is at, as far as we know.
    tip: String,
    /// There is something to go on from.
    goes_on: bool,
    /// What the stage has spent, as far as anybody has heard.
    spent: &'a watch::Sender<Spend>,
}

impl<'a> Attempt<'a> {
    /// Claims the stage and makes its work tree.
    pub(crate) async fn begin(
        base: &'a Base,
        task: &'a StageTask,
        number: u32,
        spent: &'a watch::Sender<Spend>,
    ) -> Result<Self, Fault> {
        let name = refs::handoff(task);
        // A pattern, since the ref need not exist.
        let names = [
            refs::merged(&task.run),
            refs::plan(&task.run),
            format!("{name}*"),
        ];
        let mirror = base.fetch(&names).await?;
        let place = base.place(&format!("{}-{}-", task.run, task.stage))?;
        let left = Git::at(&mirror).object(&name).await?;
        let git = Git::at(&git::clone(&mirror, place.path()).await?);
        let goes_on = match &left {
            Some(left) => git.object(&format!("{left}:{STATE}")).await?.is_some(),
            None => false,
        };
        let tree = match &left {
            Some(left) => format!("{left}^{{tree}}"),
            None => git.fed(&["mktree"], b"").await?,
        };
        let parent = left.as_deref().unwrap_or(&task.base);
        let head = if goes_on {
            format!("{parent}^2")
        } else {
            task.base.clone()
        };
        let claim = format!("ekiden: attempt {number} at {}", task.stage);
        let args = [
            "commit-tree",
            &tree,
            "-p",
            parent,
            "-p",
            &head,
            "-m",
            &claim,
        ];
        let tip = git.line(&args).await?;
        let submission = submission(base, &git, &task.run, &task.plan, &task.base).await?;
        git.push(&base.remote, &name, left.as_deref(), &tip).await?;
        let attempt = Self {
            base,
            task,
            number,
            place,
            git,
            submission,
            tip,
            goes_on,
            spent,
        };
        attempt.restore(&head).await?;
        set_up(&attempt.submission, &attempt.tree()).await?;
        Ok(attempt)
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
        let log = format!("runs/{}/log.jsonl", self.task.run);
        let path = self.state().join(&log).to_string_lossy().into_owned();
        let written = self.git.line(&["hash-object", "-w", &path]).await?;
        let state = self.indexing(STATE, &self.state());
        state.line(&["add", "--all", "--force", "."]).await?;
        let entry = format!("100644,{written},{log}");
        state
            .line(&["update-index", "--add", "--cacheinfo", &entry])
            .await?;
        let state = state.line(&["write-tree"]).await?;
        let work = self.indexing("work", &self.tree());
        work.line(&["add", "--all", "."]).await?;
        // Git is told to ignore what the agent and ekiden tell each other.
        let shared = Path::new(&self.submission.prefix).join(".ekiden");
        let (shared, runs) = (shared.to_string_lossy(), shared.join("runs"));
        let runs = format!(":(exclude){}", runs.display());
        work.line(&["add", "--all", "--force", "--", &shared, &runs])
            .await?;
        let work = work.line(&["write-tree"]).await?;
        let listed = format!("040000 tree {state}\t{STATE}\n040000 tree {work}\twork\n");
        let tree = self.git.fed(&["mktree"], listed.as_bytes()).await?;
        let subject = format!("ekiden: a handoff of {}", self.task.stage);
        let args = [
            "commit-tree",
            &tree,
            "-p",
            &self.tip,
            "-p",
            "HEAD",
            "-m",
            &subject,
        ];
        let saved = self.git.line(&args).await?;
        let name = refs::handoff(self.task);
        self.push(&name, Some(self.tip.clone()), &saved).await?;
        self.tip = saved;
        Ok(())
    }

    async fn push(&self, name: &str, from: Option<String>, to: &str) -> Result<(), Fault> {
        let mut tries = 1;
        loop {
            match self
                .git
                .push(&self.base.remote, name, from.as_deref(), to)
                .await
            {
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
        // What is known already holds the first session, too.
        sharing.look().await;
        let ended = tokio::select! {
            ended = self.run(cancelled) => ended,
            never = sharing.go_on() => match never {},
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

    async fn run(&mut self, cancelled: impl Future<Output = ()>) -> Result<Outcome, Fault> {
        let mut header = alone(&self.submission.header, self.task)?;
        if !self.goes_on {
            let manifest = &self.submission.header.manifest;
            let before = before(self.base, manifest, self.task).await?;
            header.before = Some(Box::new(before));
        }
        let job = StageJob {
            header,
            work_dir: self.tree().join(&self.submission.prefix),
            state_dir: self.state(),
            limits_dir: self.limits(),
            goes_on: self.goes_on,
            answer: self.task.answer.clone(),
            budget: self.task.budget,
            charged: *self.spent.borrow(),
        };
        let mut child = start(&job, self.place.path()).await?;
        let told = child
            .stdout
            .take()
            .map(BufReader::new)
            .ok_or(Fault::Taken)?;
        let mut told = told.lines();
        let mut leaving = self.base.leaving.clone();
        tokio::pin!(cancelled);
        let (mut is_leaving, mut last, mut taken) = (false, None, false);
        loop {
            let line = tokio::select! {
                line = told.next_line() => line.map_err(Fault::io("hear a stage"))?,
                () = &mut cancelled, if !is_leaving => {
                    is_leaving = true;
                    child.terminate();
                    continue;
                }
                _ = leaving.wait_for(|leaving| *leaving), if !is_leaving => {
                    is_leaving = true;
                    child.terminate();
                    continue;
                }
            };
            let Some(line) = line else { break };
            match serde_json::from_str(&line)? {
                Line::Handoff if !taken => match self.save().await {
                    Err(Fault::Taken) => {
                        taken = true;
                        child.terminate();
                    }
                    Err(fault) => crate::say(&format!("a handoff is not pushed: {fault}")),
                    Ok(()) => {}
                },
                Line::Handoff => {}
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
                spent: *self.spent.borrow(),
            });
        }
        self.git.line(&["add", "--all", "."]).await?;
        let unchanged = self
            .git
            .ended(&["diff", "--cached", "--quiet"], b"")
            .await?
            .ok;
        if !unchanged {
            let subject = format!("ekiden: {}", self.task.stage);
            self.git
                .line(&["commit", "--quiet", "-m", &subject])
                .await?;
        }
        self.save().await?;
        let commit = self.git.line(&["rev-parse", "HEAD"]).await?;
        self.push(&refs::made(self.task, self.number), None, &commit)
            .await?;
        Ok(StageDone {
            outcome,
            commit: Some(commit),
            spent: *self.spent.borrow(),
        })
    }
}

async fn start(job: &StageJob, dir: &Path) -> Result<Child, Fault> {
    let program = std::env::current_exe().map_err(Fault::io("find this program"))?;
    let keeper = keeper::executable().map_err(Fault::io("find this program"))?;
    let mut child = spawn(ChildSpec {
        args: vec![ROLE.into()],
        grace: GRACE,
        stdin: StdinKind::Piped,
        ..ChildSpec::new(keeper, program, dir)
    })?;
    if let Some(mut input) = child.stdin.take() {
        let written = input.write_all(&serde_json::to_vec(job)?).await;
        written.map_err(Fault::io("tell a stage what to do"))?;
    }
    // Its warnings go nowhere; the log has what counts.
    drop(child.stderr.take());
    Ok(child)
}

fn ended_silently(end: &ChildEnd) -> String {
    format!("its engine ended without a word: {end:?}")
}

/// The run of one stage by itself, in place.
fn alone(header: &RunStarted, task: &StageTask) -> Result<RunStarted, Fault> {
    let mut header = header.clone();
    header.fleet = None;
    let Manifest { stages, plan } = &mut header.manifest;
    stages.retain(|stage| stage.id == task.stage);
    let Some(stage) = stages.first_mut() else {
        return Err(unknown(&task.run));
    };
    stage.part.needs.clear();
    if let Some(rules) = plan {
        rules.isolation = Isolation::InPlace;
    }
    Ok(header)
}

pub(crate) fn unknown(run: &RunId) -> Fault {
    Fault::Refused(format!("the plan of {run} has no such stage"))
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
