//! Saves and pushes what another worker needs to continue a stage: at each handoff, and at the end together
//! with the stage's result.

use std::iter::once;
use std::path::Path;
use std::time::Duration;

use ekiden_engine::remote_run::AtWork;
use tokio::time::Instant;
use tokio::try_join;

use super::Attempt;
use crate::fault::Fault;
use crate::git::{Git, Move};
use crate::order::{StageTask, refs};
use crate::stage::STATE;

/// How long to wait before a failed push is tried again, since the remote may be unreachable.
const PUSH_PAUSE: Duration = Duration::from_secs(5);
/// How long the end of a stage waits for a remote. After that its work stays here, and another attempt
/// starts.
const AWAY_MAX: Duration = Duration::from_secs(6 * 3600);

/// The handoff ref.
#[derive(Default)]
pub(super) struct Pushed {
    /// Its commit, as far as we know.
    pub(super) tip: String,
    /// Pushes that failed or were given up. One of them may have arrived.
    unanswered: Vec<String>,
    /// The last session whose work it should contain.
    pub(super) session: Option<AtWork>,
}

impl Attempt<'_> {
    /// Saves what another worker needs to continue. If the stage is complete, also saves its result and
    /// returns that commit.
    pub(super) async fn save(&self, is_complete: bool) -> Result<Option<String>, Fault> {
        let head = async {
            match is_complete {
                true => self.committed().await,
                false => self.git.line(&["rev-parse", "HEAD"]).await,
            }
        };
        let (saved, head) = self.saved(head).await?;
        let handoff = Move {
            name: refs::handoff(self.task),
            from: Some(self.tip()),
            to: saved.clone(),
        };
        let made = is_complete.then(|| Move {
            name: refs::made(self.task, self.number),
            from: None,
            to: head.clone(),
        });
        self.pushed().unanswered.push(saved.clone());
        let moves: Vec<Move> = once(handoff).chain(made).collect();
        match self.git.push(&self.base.remote, &moves).await {
            Ok(()) => {
                let mut pushed = self.pushed();
                pushed.tip = saved;
                pushed.unanswered.clear();
                Ok(is_complete.then_some(head))
            }
            Err(Fault::Taken) => Err(self.taken().await?),
            Err(fault) => Err(fault),
        }
    }

    /// Another worker has the stage, unless a push of ours arrived without an answer.
    async fn taken(&self) -> Result<Fault, Fault> {
        let name = refs::handoff(self.task);
        let list = ["ls-remote", "--", &self.base.remote, &name];
        let listed = self.git.line(&list).await;
        let listed = listed.map_err(|fault| fault.of_remote("ask"))?;
        let at = listed.split_whitespace().next().unwrap_or_default();
        let mut pushed = self.pushed();
        if !pushed.unanswered.iter().any(|ours| ours == at) {
            return Ok(Fault::Taken);
        }
        at.clone_into(&mut pushed.tip);
        pushed.unanswered.clear();
        let (what, said) = ("push to", "an earlier push has arrived".to_owned());
        Ok(Fault::Remote { what, said })
    }

    /// The same at the end of the stage. Waits for a remote that is unreachable.
    pub(super) async fn save_at_end(&self, is_complete: bool) -> Result<Option<String>, Fault> {
        let (mut is_away, since) = (false, Instant::now());
        loop {
            match self.save(is_complete).await {
                Err(fault @ Fault::Remote { .. }) if since.elapsed() < AWAY_MAX => {
                    if !std::mem::replace(&mut is_away, true) {
                        let StageTask { run, stage, .. } = self.task;
                        crate::say(&format!("{run} {stage}: {fault}; waiting for it"));
                        let now = self.pushed().session.take().map(|session| AtWork {
                            doing: "waits for the remote".to_owned(),
                            ..session
                        });
                        self.beat.send_modify(|beat| beat.now = now);
                    }
                    tokio::time::sleep(PUSH_PAUSE).await;
                }
                saved => return saved,
            }
        }
    }

    /// The commit of what another worker needs to continue, and the clone's head, which `head` returns.
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
        let tip = self.tip();
        let parents = ["-p", &tip, "-p", &head, "-m", &subject];
        let args = [&["commit-tree", &tree][..], &parents].concat();
        Ok((self.git.line(&args).await?, head))
    }

    async fn work_tree(&self) -> Result<String, Fault> {
        let work = self.indexing("work", &self.tree());
        let left_out = work.add_all().await?;
        if !left_out.is_empty() {
            let (stage, left_out) = (&self.task.stage, left_out.join(", "));
            crate::say(&format!(
                "{stage}: the handoff is without the git repositories in its work tree: {left_out}"
            ));
        }
        // Git ignores the files that the agent and ekiden use to talk to each other.
        let shared = Path::new(&self.submission.prefix).join(".ekiden");
        let (shared, runs) = (shared.to_string_lossy(), shared.join("runs"));
        let runs = format!(":(exclude){}", runs.display());
        work.line(&["add", "--all", "--force", "--", &shared, &runs])
            .await?;
        work.line(&["write-tree"]).await
    }

    /// Commits what the stage left, and returns its result.
    async fn committed(&self) -> Result<String, Fault> {
        let left_out = self.git.add_all().await?;
        if let Some(dir) = left_out.first() {
            return Err(not_merged(dir));
        }
        let subject = format!("ekiden: {}", self.task.stage);
        let commit = self.git.line(&["commit", "--quiet", "-m", &subject]).await;
        if commit.is_err() {
            let same = ["diff", "--cached", "--quiet"];
            if !self.git.ended(&same, b"").await?.ok {
                commit?;
            }
        }
        self.refuse_lost_commits().await?;
        self.git.line(&["rev-parse", "HEAD"]).await
    }

    /// Refuses commits of other repositories that exist only in this clone.
    async fn refuse_lost_commits(&self) -> Result<(), Fault> {
        let base = &self.task.base;
        let diff = [
            "diff",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            "-z",
            base,
            "HEAD",
            "--",
        ];
        let changed = self.git.line(&diff).await?;
        let fields: Vec<&str> = changed.split('\0').collect();
        for [how, dir] in fields.as_chunks().0 {
            let how: Vec<&str> = how.split(' ').collect();
            let &[_, "160000", _, commit, _] = &how[..] else {
                continue;
            };
            let modules = std::fs::read_to_string(self.tree().join(".gitmodules"));
            let modules = modules.unwrap_or_default();
            let is_submodule = |line: &str| line.trim() == format!("path = {dir}");
            let elsewhere = ["branch", "--remotes", "--contains", commit];
            let module = Git::at(&self.tree().join(dir));
            let is_pushed = modules.lines().any(is_submodule)
                && module
                    .ended(&elsewhere, b"")
                    .await
                    .is_ok_and(|ended| ended.ok && !ended.stdout.trim().is_empty());
            if !is_pushed {
                return Err(not_merged(dir));
            }
        }
        Ok(())
    }
}

fn not_merged(dir: &str) -> Fault {
    Fault::Kept(format!(
        "`{dir}` is a separate git repository, and none of its files would be merged; remove its `.git`, or make it a submodule whose commits are pushed"
    ))
}

/// The tree of a stage's state, with the log as it was added before.
async fn state_tree(state: &Git, log: &str) -> Result<String, Fault> {
    let log = format!(":(exclude){log}");
    let add = ["add", "--all", "--force", "--", ".", &log];
    state.line(&add).await?;
    state.line(&["write-tree"]).await
}
