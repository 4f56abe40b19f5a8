//! Worktrees: one for each stage, and one in which the whole is put together.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ekiden_core::ids::StageId;
use ekiden_core::limits;
use ekiden_core::manifest::Ground;

use super::{Cancelled, Grounds, patiently};
use crate::error::in_full;
use crate::git::stdout_of;

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
            self.add_tree(&tree, args, own.as_deref().unwrap_or(&whole), cancelled.clone()).await?;
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
            self.add_tree(&tree, &["--detach", &path, &tip], &tip, cancelled.clone()).await?;
        }
        // No agent works there, so what was put there stays.
        if !self.is_furnished(&tree) {
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
            let how = if known.is_some() { "is gone and cannot be made again" } else { "cannot be made" };
            return made
                .map(|_| from.to_owned())
                .map_err(|error| format!("the branch {branch} {how} from {from}: {error}"));
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

    /// Adds a worktree at this commit. One that was begun and not finished is removed before, and what else
    /// stands there is moved; one that git knows and that is gone is no obstacle if it is told so twice.
    async fn add_tree(
        &self,
        tree: &Path,
        args: &[&str],
        at: &str,
        cancelled: Cancelled,
    ) -> Result<(), String> {
        let aside = self.set_aside(tree, cancelled.clone()).await?;
        let args = [&["worktree", "add", "--force", "--force"], args].concat();
        if let Err(error) = patiently(&self.users_git(), &args, cancelled).await
            && !self.is_made(tree, at).await
        {
            let kept = aside.map(|aside| format!("; what was there is in {}", aside.display()));
            return Err(error + &kept.unwrap_or_default());
        }
        match aside {
            Some(aside) => self.take_over(&aside, tree),
            None => Ok(()),
        }
    }

    /// The worktree is whole, whatever git says: a hook that fails after the checkout changes nothing of it.
    async fn is_made(&self, tree: &Path, at: &str) -> bool {
        let head = self.git(tree).line(&["rev-parse", "HEAD"]).await;
        self.git_dir(tree).is_some() && head.is_ok_and(|head| head == at)
    }
}
