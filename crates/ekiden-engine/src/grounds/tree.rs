//! Worktrees: one for each stage, and one in which the whole is put together.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
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
use crate::git::stdout_of;
use crate::globs;
use crate::processes::TASK_MARK;

/// The most files that are copied into a new worktree: more is what a setup command is for.
pub(super) const COPIES_MAX: usize = 2_000;
/// The longest `.git` file of a worktree: a word and a path.
const GIT_FILE_BYTES_MAX: u64 = 8 * 1024;

impl Grounds {
    /// Makes the worktree of a stage ready, and tells the commit from which it starts.
    pub(super) async fn stage_tree(
        &self,
        stage: &StageId,
        known: Option<&str>,
        mark: &str,
        cancelled: Cancelled,
    ) -> Result<String, String> {
        let tree = self.places.tree(stage).ok_or("there are no worktrees")?;
        let branch = self.places.branch(stage);
        let alone = self.making.lock().await;
        let [whole, own] = self.tips([&self.places.whole_branch(), &branch]).await?;
        let whole = self.whole_tree_at(whole, known, mark, cancelled.clone()).await?;
        if self.git_dir(&tree).is_none() {
            let path = tree.to_string_lossy().into_owned();
            let args: &[&str] = match own {
                Some(_) => &[&path, &branch],
                None => &["-b", &branch, &path, &whole],
            };
            self.add_tree(&tree, args, cancelled.clone()).await?;
        }
        drop(alone);
        self.furnish(&tree, mark, cancelled.clone()).await?;
        match own {
            Some(own) => {
                let base = self.git(&tree).line(&["merge-base", &own, &whole]).await;
                base.map_err(|error| in_full(&error))
            }
            None => Ok(whole),
        }
    }

    /// Makes the branch and the worktree of the whole, as far as they are missing, and tells its newest
    /// commit. What is known to be merged must be in it.
    pub(super) async fn whole_tree(
        &self,
        known: Option<&str>,
        mark: &str,
        cancelled: Cancelled,
    ) -> Result<String, String> {
        let _alone = self.making.lock().await;
        let [tip] = self.tips([&self.places.whole_branch()]).await?;
        self.whole_tree_at(tip, known, mark, cancelled).await
    }

    async fn whole_tree_at(
        &self,
        tip: Option<String>,
        known: Option<&str>,
        mark: &str,
        cancelled: Cancelled,
    ) -> Result<String, String> {
        let tree = self.places.whole_tree().ok_or("there are no worktrees")?;
        let tip = self.whole_at(tip, known, cancelled.clone()).await?;
        if self.git_dir(&tree).is_none() {
            let path = tree.to_string_lossy().into_owned();
            self.add_tree(&tree, &["--detach", &path, &tip], cancelled.clone()).await?;
            self.furnish(&tree, mark, cancelled).await?;
        }
        Ok(tip)
    }

    /// Makes the branch of the whole if it is missing, and tells its newest commit. A person may have
    /// deleted or moved it; what was merged must not get lost by that.
    pub(super) async fn whole_at(
        &self,
        tip: Option<String>,
        known: Option<&str>,
        cancelled: Cancelled,
    ) -> Result<String, String> {
        let Ground::Worktrees { base, .. } = &self.ground else {
            return Err("there are no worktrees".to_owned());
        };
        let (git, branch) = (self.users_git(), self.places.whole_branch());
        let Some(tip) = tip else {
            let from = known.unwrap_or(base);
            let made = patiently(&git, &["branch", "--no-track", &branch, from], cancelled).await;
            return made.map(|_| from.to_owned()).map_err(|error| {
                format!("the branch {branch} is gone and cannot be made from {from}: {error}")
            });
        };
        match known.filter(|known| *known != tip) {
            Some(known) if !self.is_ancestor(known, &tip).await => Err(format!(
                "the branch {branch} was moved away from {known}, where stages were merged; \
                 `git branch -f {branch} {known}` puts it back"
            )),
            Some(_) | None => Ok(tip),
        }
    }

    pub(super) async fn is_ancestor(&self, commit: &str, of: &str) -> bool {
        self.users_git().run(&["merge-base", "--is-ancestor", commit, of]).await.is_ok()
    }

    /// Removes the locks of a git that was killed in one of our worktrees. Only for when nobody works there.
    pub(super) fn unlock(&self, tree: &Path) -> Result<(), String> {
        let Some(git_dir) = self.git_dir(tree) else { return Ok(()) };
        for lock in ["index.lock", "HEAD.lock"].map(|name| git_dir.join(name)) {
            if matches!(self.disk.stat(&lock), Ok(Some(_))) {
                self.disk.remove(&lock).map_err(|error| in_full(&error))?;
            }
        }
        Ok(())
    }

    /// Where git keeps what is this worktree's alone, if it is one and whole: a checkout that was broken off
    /// has no index. Read as git's documentation has it (gitrepository-layout), since it is asked often.
    pub(super) fn git_dir(&self, tree: &Path) -> Option<PathBuf> {
        let file = self.disk.read(&tree.join(".git"), GIT_FILE_BYTES_MAX).ok()?;
        let path = file.strip_prefix(b"gitdir: ")?.trim_ascii_end();
        let dir = tree.join(OsStr::from_bytes(path));
        let is_there = |name| matches!(self.disk.stat(&dir.join(name)), Ok(Some(_)));
        ["HEAD", "commondir", "index"].into_iter().all(is_there).then_some(dir)
    }

    /// The newest commit of each branch, as far as there is such a branch.
    pub(super) async fn tips<const N: usize>(
        &self,
        branches: [&str; N],
    ) -> Result<[Option<String>; N], String> {
        let names = branches.map(|branch| format!("refs/heads/{branch}\n")).concat();
        let over = tokio::time::sleep(limits::SURVEY_TIMEOUT.into());
        let args = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
        let said = self.users_git().fed(&args, names.as_bytes(), over).await;
        let said = said.and_then(|output| stdout_of(&args, output)).map_err(|error| in_full(&error))?;
        let said = String::from_utf8_lossy(&said);
        let mut lines = said.lines().map(|line| line.strip_suffix(" commit").map(str::to_owned));
        Ok(branches.map(|_| lines.next().flatten()))
    }

    /// Removes a worktree and what git knows of it, whatever is left of it.
    pub(super) async fn remove_tree(&self, tree: &Path, cancelled: Cancelled) {
        let path = tree.to_string_lossy().into_owned();
        // What is locked is removed only if it is asked twice; what is gone is only forgotten.
        let args = ["worktree", "remove", "--force", "--force", &path];
        let _ = patiently(&self.users_git(), &args, cancelled.clone()).await;
        let _ = patiently(&self.users_git(), &["worktree", "prune"], cancelled).await;
    }

    /// Adds a worktree. One that was begun and not finished is removed before; one that git knows and that is
    /// gone is no obstacle if it is told so twice.
    async fn add_tree(&self, tree: &Path, args: &[&str], cancelled: Cancelled) -> Result<(), String> {
        if !matches!(self.disk.stat(tree), Ok(None)) {
            self.remove_tree(tree, cancelled.clone()).await;
        }
        let args = [&["worktree", "add", "--force", "--force"], args].concat();
        patiently(&self.users_git(), &args, cancelled).await.map(|_| ())
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
