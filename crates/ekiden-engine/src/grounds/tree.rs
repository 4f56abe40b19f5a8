//! Worktrees: one for each stage, and one in which the whole is put together.

use std::path::{Path, PathBuf};

use ekiden_agent::child::{ChildEnd, ChildSpec, OUTER_AGENT_ENV, StdinKind};
use ekiden_agent::task;
use ekiden_core::ids::StageId;
use ekiden_core::limits;
use ekiden_core::manifest::Ground;
use ekiden_core::text;
use ekiden_store::archive::copy;
use ekiden_store::layout::{Published, StateLayout};
use ekiden_store::published::prepare_published;

use super::{Cancelled, Grounds, patiently};
use crate::error::in_full;
use crate::globs;
use crate::processes::TASK_MARK;

/// The most files that are copied into a new worktree: more is what a setup command is for.
pub(super) const COPIES_MAX: usize = 2_000;

impl Grounds {
    /// Makes the worktree of a stage ready, and tells the commit from which it starts.
    pub(super) async fn stage_tree(
        &self,
        stage: &StageId,
        known: Option<&str>,
        mark: &str,
        cancelled: Cancelled,
    ) -> Result<String, String> {
        self.whole_tree(known, mark, cancelled.clone()).await?;
        let tree = self.places.tree(stage).ok_or("there are no worktrees")?;
        let (branch, whole) = (self.places.branch(stage), self.places.whole_branch());
        {
            let _alone = self.making.lock().await;
            if !self.is_tree(&tree).await {
                let path = tree.to_string_lossy().into_owned();
                let known = self.branch_tip(&branch).await.is_some();
                let args: &[&str] = if known {
                    &["worktree", "add", "--force", &path, &branch]
                } else {
                    &["worktree", "add", "--force", "-b", &branch, &path, &whole]
                };
                self.add_tree(&tree, args, cancelled.clone()).await?;
            }
        }
        self.furnish(&tree, mark, cancelled.clone()).await?;
        let git = self.git(&tree);
        git.line(&["merge-base", &branch, &whole]).await.map_err(|error| in_full(&error))
    }

    /// Makes the branch and the worktree of the whole, as far as they are missing. What is known to be
    /// merged must be in it.
    pub(super) async fn whole_tree(
        &self,
        known: Option<&str>,
        mark: &str,
        cancelled: Cancelled,
    ) -> Result<(), String> {
        if self.ground == Ground::InPlace {
            return Ok(());
        }
        let (Some(tree), whole) = (self.places.whole_tree(), self.places.whole_branch()) else {
            return Ok(());
        };
        let _alone = self.making.lock().await;
        self.whole_branch(known, cancelled.clone()).await?;
        if self.is_tree(&tree).await {
            return Ok(());
        }
        let path = tree.to_string_lossy().into_owned();
        let args = ["worktree", "add", "--force", "--detach", &path, &whole];
        self.add_tree(&tree, &args, cancelled.clone()).await?;
        self.furnish(&tree, mark, cancelled).await
    }

    /// Makes the branch of the whole if it is missing. A person may have deleted or moved it; what was
    /// merged must not get lost by that.
    pub(super) async fn whole_branch(&self, known: Option<&str>, cancelled: Cancelled) -> Result<(), String> {
        let Ground::Worktrees { base, .. } = &self.ground else { return Ok(()) };
        let (git, branch) = (self.users_git(), self.places.whole_branch());
        let Some(tip) = self.branch_tip(&branch).await else {
            let from = known.unwrap_or(base);
            let made = patiently(&git, &["branch", "--no-track", &branch, from], cancelled).await;
            return made.map(|_| ()).map_err(|error| {
                format!("the branch {branch} is gone and cannot be made from {from}: {error}")
            });
        };
        match known.filter(|known| *known != tip) {
            Some(known) if !self.is_ancestor(known, &tip).await => Err(format!(
                "the branch {branch} was moved away from {known}, where stages were merged; \
                 `git branch -f {branch} {known}` puts it back"
            )),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) async fn is_ancestor(&self, commit: &str, of: &str) -> bool {
        self.users_git().run(&["merge-base", "--is-ancestor", commit, of]).await.is_ok()
    }

    /// Removes the locks of a git that was killed in one of our worktrees. Only for when nobody works there.
    pub(super) async fn unlock(&self, tree: &Path) -> Result<(), String> {
        for lock in ["index.lock", "HEAD.lock"] {
            let path = self.git_path(tree, lock).await?;
            if matches!(self.disk.stat(&path), Ok(Some(_))) {
                self.disk.remove(&path).map_err(|error| in_full(&error))?;
            }
        }
        Ok(())
    }

    /// Where git keeps something of its own for a worktree.
    pub(super) async fn git_path(&self, tree: &Path, name: &str) -> Result<PathBuf, String> {
        let args = ["rev-parse", "--path-format=absolute", "--git-path", name];
        self.git(tree).line(&args).await.map(PathBuf::from).map_err(|error| in_full(&error))
    }

    /// The newest commit of a branch, if there is such a branch.
    pub(super) async fn branch_tip(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}");
        let args = ["rev-parse", "--verify", "--quiet", &name];
        self.users_git().line(&args).await.ok().filter(|tip| !tip.is_empty())
    }

    /// Removes a worktree and what git knows of it, whatever is left of it.
    pub(super) async fn remove_tree(&self, tree: &Path, cancelled: Cancelled) {
        let path = tree.to_string_lossy().into_owned();
        // What is locked is removed only if it is asked twice; what is gone is only forgotten.
        let args = ["worktree", "remove", "--force", "--force", &path];
        let _ = patiently(&self.users_git(), &args, cancelled.clone()).await;
        let _ = patiently(&self.users_git(), &["worktree", "prune"], cancelled).await;
    }

    /// Adds a worktree. One that was begun and not finished is removed before.
    async fn add_tree(&self, tree: &Path, args: &[&str], cancelled: Cancelled) -> Result<(), String> {
        self.remove_tree(tree, cancelled.clone()).await;
        patiently(&self.users_git(), args, cancelled).await.map(|_| ())
    }

    pub(super) async fn is_tree(&self, tree: &Path) -> bool {
        if !matches!(self.disk.stat(&tree.join(".git")), Ok(Some(_))) {
            return false;
        }
        // A checkout that was broken off has an index lock, and no index.
        let git = self.git(tree);
        let top = git.line(&["rev-parse", "--show-toplevel"]).await;
        let index = self.git_path(tree, "index").await;
        let has_index = index.is_ok_and(|path| matches!(self.disk.stat(&path), Ok(Some(_))));
        top.is_ok_and(|top| Path::new(&top) == tree) && has_index
    }

    /// Puts into a worktree what git does not: copies, what the setup command makes, and our own places.
    async fn furnish(&self, tree: &Path, mark: &str, cancelled: Cancelled) -> Result<(), String> {
        let Ground::Worktrees { copy, setup, .. } = &self.ground else { return Ok(()) };
        let dir = self.places.within(tree);
        let state = StateLayout::new(&self.places.workspace().state_dir);
        prepare_published(&*self.disk, &Published::new(&dir), &state).map_err(|error| in_full(&error))?;
        self.copy_files(copy.clone(), &dir).await?;
        match setup {
            Some(setup) => self.set_up(setup, &dir, mark, cancelled).await,
            None => Ok(()),
        }
    }

    async fn copy_files(&self, patterns: Vec<String>, to: &Path) -> Result<(), String> {
        let (disk, from, to) = (self.disk.clone(), self.places.workspace().dir.clone(), to.to_owned());
        let copied = tokio::task::spawn_blocking(move || {
            let found = globs::find(&from, &patterns, COPIES_MAX)?;
            if found.more {
                return Err(format!(
                    "`[worktree] copy` names more than {COPIES_MAX} files; let `setup` make them"
                ));
            }
            for file in found.files {
                copy(&*disk, &from.join(&file), &to.join(&file)).map_err(|error| in_full(&error))?;
            }
            Ok(())
        });
        copied.await.map_err(|panic| panic.to_string())?
    }

    async fn set_up(
        &self,
        command: &str,
        dir: &Path,
        mark: &str,
        mut cancelled: Cancelled,
    ) -> Result<(), String> {
        let done = tokio::select! {
            done = task::run_task(self.sh(command, dir, mark), limits::SETUP_TIMEOUT, limits::VERIFY_LOG_BYTES) => done,
            _ = cancelled.changed() => return Err("the setup command was cancelled".to_owned()),
        };
        let done = done.map_err(|error| in_full(&error))?;
        if done.end == ChildEnd::Exited(0) {
            return Ok(());
        }
        let lines: Vec<&str> = done.tail.trim_end().lines().rev().take(limits::COMMIT_TAIL_LINES).collect();
        let tail: Vec<&str> = lines.into_iter().rev().collect();
        let tail = text::one_line(&tail.join(" "), limits::COMMIT_TAIL_CHARS);
        let how = if done.timed_out { "took too long".to_owned() } else { told(&done.end) };
        Err(format!("the worktree's setup `{command}` {how}: {tail}"))
    }

    /// A command for `sh -c` in a directory, by the mark of the effect that wants it.
    pub(super) fn sh(&self, command: &str, dir: &Path, mark: &str) -> ChildSpec {
        ChildSpec {
            keeper: self.ekiden.clone(),
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            dir: dir.to_owned(),
            env_set: vec![(TASK_MARK.into(), mark.into())],
            env_remove: OUTER_AGENT_ENV.iter().map(Into::into).collect(),
            lock: None,
            grace: limits::KILL_GRACE,
            stdin: StdinKind::Null,
        }
    }
}

fn told(end: &ChildEnd) -> String {
    match end {
        ChildEnd::Exited(code) => format!("ended with exit code {code}"),
        ChildEnd::Signaled(signal) => format!("was ended by signal {signal}"),
        ChildEnd::NotStarted(error) => format!("could not be started ({error})"),
        ChildEnd::KeeperLost => "lost its keeper".to_owned(),
    }
}
