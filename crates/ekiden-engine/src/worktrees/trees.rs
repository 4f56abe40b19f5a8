//! Makes and removes worktrees: one for each stage, and the one that validates merges.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ekiden_core::ids::StageId;
use ekiden_core::manifest::Isolation;
use ekiden_core::text::shell_word;
use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::{DiskResult, Reach};
use ekiden_store::place::git_dir_of;

use super::{StageJob, Worktrees, no_worktrees};
use crate::git::GitError;
use crate::git::branch::full_name;

/// Locks that a killed git leaves in the git directory of a worktree.
const LOCKS: [&str; 5] = [
    "index.lock",
    "HEAD.lock",
    "ORIG_HEAD.lock",
    "AUTO_MERGE.lock",
    "logs/HEAD.lock",
];
/// This file is in a worktree's git directory from the moment its removal begins.
const REMOVED: &str = "ekiden-removed";
/// A path that git wrote into a file.
const PATH_BYTES_MAX: u64 = 8_192;
/// Removes what git does not know, except what it ignores.
const CLEAN: &str = "clean --quiet -ffd";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch {
    pub(super) commit: String,
    pub(super) tree: String,
}

impl Worktrees {
    /// Has git lead the worktrees of a project that was moved back to it. Those of a project that was copied belong to the
    /// original, whose run may be at work there.
    pub(super) async fn claim(&self, stages: &[&StageId]) -> Result<(), GitError> {
        let Some(ours) = &self.paths.workspace.git else {
            return Ok(());
        };
        let trees = stages.iter().filter_map(|id| self.paths.tree(id));
        for tree in trees.chain(self.paths.integration_tree()) {
            let leads_out = |dir: &PathBuf| !dir.starts_with(&tree);
            let Some(dir) = git_dir_of(&tree).filter(leads_out) else {
                continue;
            };
            match dir.canonicalize() {
                Ok(dir) if dir.starts_with(&ours.common_dir) => {}
                Ok(dir) => {
                    return GitError::refused(format!(
                        "{} is a worktree of another repository, {}; if this project is a copy, continue the run in the \
                         original, or start again here with `--new`",
                        tree.display(),
                        dir.display()
                    ));
                }
                // What it does not repair is reported when a stage needs it.
                Err(_) => drop(self.users_git().run("worktree repair", &[]).await),
            }
        }
        Ok(())
    }

    /// Prepares the worktree of a stage, and returns the commit from which it starts, and why its setup failed
    /// if it did. `integrated` is the last merge, if it is known. Nobody works in the worktree now.
    pub(super) async fn stage_tree(
        &self,
        id: &StageId,
        integrated: Option<&str>,
        mark: &str,
    ) -> Result<(String, Option<String>), GitError> {
        let (tree, branch) = (self.paths.tree(id), self.paths.branch(id));
        let tree = tree.ok_or_else(no_worktrees)?;
        let making = self.making.lock().await;
        let integration = self.paths.integration_branch();
        let [tip, own] = self.branches([&integration, &branch]).await?;
        let tip = self.integration_tip(tip, integrated).await?;
        let tip = tip.commit;
        if self.git_dir(&tree).is_none() {
            let path = tree.to_string_lossy().into_owned();
            let (args, at): (&[&str], _) = match &own {
                Some(own) => (&[&path, &branch], &own.commit),
                // `-B`, since a failed try may already have made the branch.
                None => (&["-B", &branch, &path, &tip], &tip),
            };
            self.add_tree(&tree, args, at).await?;
        }
        self.unlock(&tree)?;
        drop(making);
        let not_set_up = self.set_up(&tree, mark).await?;
        let base = match own {
            Some(own) => {
                let ends = [&own.commit[..], &tip];
                self.users_git().line("merge-base", &ends).await?
            }
            None => tip,
        };
        Ok((base, not_set_up))
    }

    /// The same for a stage that has begun. Its worktree usually exists.
    pub(super) async fn keep_stage_tree(&self, job: &StageJob) -> Result<(), GitError> {
        let id = &job.stage.id;
        match self.paths.tree(id) {
            Some(tree) if self.git_dir(&tree).is_some() => self.unlock(&tree),
            Some(_) | None => {
                let known = job.integrated.as_deref();
                self.make_again(id, known, &job.mark).await
            }
        }
    }

    /// Makes the worktree of a stage that has begun, with the files that its prompts name there.
    async fn make_again(
        &self,
        id: &StageId,
        integrated: Option<&str>,
        mark: &str,
    ) -> Result<(), GitError> {
        self.stage_tree(id, integrated, mark).await?;
        self.carry(id).await.map(drop).map_err(GitError::Refused)
    }

    /// Makes the worktree of a stage at work again if it is gone: its agent may have removed it. Returns whether it was.
    pub(crate) async fn remake(&self, stage: &StageId) -> Result<bool, GitError> {
        let tree = self.paths.tree(stage);
        let is_gone = tree.is_some_and(|tree| !tree.exists());
        if is_gone {
            let mark = self.paths.branch(stage);
            self.make_again(stage, None, &mark).await?;
        }
        Ok(is_gone)
    }

    /// Checks a commit out into a spare worktree, to validate it. Returns the work dir there, and why its setup
    /// failed if it did.
    pub(super) async fn check_out(
        &self,
        commit: &str,
        mark: &str,
    ) -> Result<(PathBuf, Option<String>), GitError> {
        let tree = self.paths.integration_tree().ok_or_else(no_worktrees)?;
        let making = self.making.lock().await;
        if self.git_dir(&tree).is_none() {
            let path = tree.to_string_lossy().into_owned();
            let args = ["--detach", &path, commit];
            self.add_tree(&tree, &args, commit).await?;
        } else {
            self.unlock(&tree)?;
            let git = self.git(&tree).marked(mark);
            let checkout = "checkout --quiet --force --detach";
            let done = git.long(checkout, &[commit], b"").await;
            if done.is_err() && !git.is_at(commit).await {
                done?;
            }
            // What an earlier validation left.
            git.long(CLEAN, &[], b"").await?;
        }
        drop(making);
        let not_set_up = self.set_up(&tree, mark).await?;
        Ok((self.paths.within(&tree), not_set_up))
    }

    /// Where the integration branch is; `known` is the commit of the last merge. Makes the branch if it is
    /// missing. A person may have deleted or moved it; merged work must not get lost by that.
    pub(super) async fn integration_tip(
        &self,
        found: Option<Branch>,
        known: Option<&str>,
    ) -> Result<Branch, GitError> {
        let Isolation::Worktrees { base, .. } = &self.isolation else {
            return Err(no_worktrees());
        };
        let branch = self.paths.integration_branch();
        match (found, known) {
            (Some(tip), Some(known))
                if tip.commit != known && !self.is_ancestor(known, &tip.commit).await =>
            {
                GitError::refused(format!(
                    "the branch {branch} was moved away from {known}, where stages were merged; \
                     `git branch -f {branch} {known}` puts it back"
                ))
            }
            (Some(tip), _) => Ok(tip),
            (None, known) => {
                let make = "branch --no-track";
                let args = [&branch[..], known.unwrap_or(base)];
                let git = self.users_git();
                git.long(make, &args, b"").await?;
                let [made] = self.branches([&branch]).await?;
                made.ok_or_else(|| GitError::Refused(format!("git made no branch {branch}")))
            }
        }
    }

    pub(super) async fn is_ancestor(&self, commit: &str, of: &str) -> bool {
        let ask = "merge-base --is-ancestor";
        self.users_git().run(ask, &[commit, of]).await.is_ok()
    }

    pub(super) async fn has(&self, commit: &str) -> bool {
        let ask = "cat-file -e";
        let commit = format!("{commit}^{{commit}}");
        self.users_git().run(ask, &[&commit]).await.is_ok()
    }

    pub(super) async fn branches<const N: usize>(
        &self,
        names: [&String; N],
    ) -> Result<[Option<Branch>; N], GitError> {
        let refs = names.map(|name| full_name(name));
        let args: Vec<&str> = refs.iter().map(String::as_str).collect();
        let list = "for-each-ref --format=%(objectname)%20%(tree)%20%(refname)";
        let said = self.users_git().run(list, &args).await?;
        Ok(refs.map(|name| {
            said.lines().find_map(|line| {
                let (commit, rest) = line.split_once(' ')?;
                let (tree, found) = rest.split_once(' ')?;
                (found == name).then(|| Branch {
                    commit: commit.to_owned(),
                    tree: tree.to_owned(),
                })
            })
        }))
    }

    /// Where git keeps what belongs to this worktree alone, if the worktree is complete: an interrupted
    /// checkout has no index.
    pub(super) fn git_dir(&self, tree: &Path) -> Option<PathBuf> {
        let dir = git_dir_of(tree)?;
        let files = ["HEAD", "commondir", "index"];
        let is_complete = files.iter().all(|name| dir.join(name).exists());
        (is_complete && !dir.join(REMOVED).exists()).then_some(dir)
    }

    /// The same from git's list of worktrees, whatever is left of this one.
    fn known_git_dir(&self, tree: &Path) -> Option<PathBuf> {
        let git = self.paths.workspace.git.as_ref()?;
        let all = git.common_dir.join("worktrees");
        let names = self.disk.list(&all).ok()?;
        let place = tree.join(".git");
        let is_its = |dir: &PathBuf| {
            let told = self.disk.read(&dir.join("gitdir"), PATH_BYTES_MAX);
            told.is_ok_and(|told| told.trim_ascii_end() == place.as_os_str().as_bytes())
        };
        names.into_iter().map(|name| all.join(name)).find(is_its)
    }

    /// Its removal has begun, so nothing in it is worth keeping.
    pub(super) fn is_half_removed(&self, tree: &Path) -> bool {
        let dir = self.known_git_dir(tree);
        dir.is_some_and(|dir| dir.join(REMOVED).exists())
    }

    /// Adds a worktree at this commit. `--force` twice replaces one that git knows and that is gone.
    async fn add_tree(&self, tree: &Path, args: &[&str], at: &str) -> Result<(), GitError> {
        let is_empty = || tree.read_dir().is_ok_and(|mut dir| dir.next().is_none());
        if tree.symlink_metadata().is_ok() && !is_empty() {
            // Nobody has worked in an interrupted checkout. Anything else may be somebody's work.
            // Nobody ever works where merges are validated.
            let is_integration = self.paths.integration_tree().as_deref() == Some(tree);
            let is_broken_off = is_integration
                || self.is_half_removed(tree)
                || (tree.join(".git").exists()
                    && !self.paths.within(tree).join(".ekiden").exists());
            if !is_broken_off {
                return GitError::refused(incomplete(tree));
            }
            self.remove_tree(tree).await?;
        }
        // Without the directory above, git adds a second record of the same worktree.
        ensure_dir(&*self.disk, tree.parent().unwrap_or(tree))?;
        let add = "worktree add --force --force";
        let added = self.users_git().long(add, args, b"").await;
        if added.is_err() && !self.git(tree).is_at(at).await {
            added?;
        }
        Ok(())
    }

    /// Removes a worktree with everything in it. `git worktree prune` would also forget the user's worktrees,
    /// such as those on a drive that is not mounted.
    pub(super) async fn remove_tree(&self, tree: &Path) -> Result<(), GitError> {
        let known = self.known_git_dir(tree);
        if let Some(dir) = &known {
            self.write_missing(&dir.join(REMOVED), "")?;
        }
        let path = tree.to_string_lossy();
        let remove = || async {
            let remove = "worktree remove --force --force";
            let git = self.users_git();
            git.long(remove, &[&path], b"").await
        };
        let removed = remove().await;
        if !matches!(removed, Err(GitError::Failed { .. })) {
            return removed.map(drop);
        }
        // A killed git left half of what it writes about a worktree. Git removes nothing before that is repaired,
        // and `repair` repairs only a part.
        if git_dir_of(tree).is_none() {
            let git = self.users_git();
            git.long("worktree repair", &[], b"").await?;
        }
        if let Some(dir) = known {
            self.write_missing(&dir.join("commondir"), "../..\n")?;
            self.write_missing(&dir.join("HEAD"), "ref: refs/heads/none\n")?;
        }
        remove().await.map(drop)
    }

    /// Writes a file that is missing or empty.
    fn write_missing(&self, file: &Path, text: &str) -> DiskResult<()> {
        match self.disk.stat(file)? {
            Some(found) if found.len > 0 => return Ok(()),
            Some(_) => self.disk.remove(file)?,
            None => {}
        }
        self.disk.create_file(file, text.as_bytes(), Reach::Cache)
    }

    /// Removes the locks that a killed git left on our own branches, which only ekiden moves. Call it only when
    /// none of our processes lives.
    pub(super) fn unlock_branches<'a>(
        &self,
        stages: impl Iterator<Item = &'a StageId>,
    ) -> DiskResult<()> {
        let Some(git) = &self.paths.workspace.git else {
            return Ok(());
        };
        let branches = stages.map(|stage| self.paths.branch(stage));
        for branch in branches.chain([self.paths.integration_branch()]) {
            for dir in ["refs/heads", "logs/refs/heads"] {
                self.remove_lock(&git.common_dir.join(dir).join(format!("{branch}.lock")))?;
            }
        }
        Ok(())
    }

    /// Removes the locks of a killed git from one of our worktrees. Call it only while no stage runs there.
    fn unlock(&self, tree: &Path) -> Result<(), GitError> {
        let git_dir = self.git_dir(tree);
        let locks = git_dir
            .iter()
            .flat_map(|dir| LOCKS.map(|name| dir.join(name)));
        Ok(locks
            .into_iter()
            .try_for_each(|lock| self.remove_lock(&lock))?)
    }

    fn remove_lock(&self, lock: &Path) -> DiskResult<()> {
        if lock.exists() {
            self.disk.remove(lock)?;
        }
        Ok(())
    }
}

/// The message about a worktree that is incomplete and may hold somebody's work.
fn incomplete(tree: &Path) -> String {
    format!(
        "its worktree is not complete any more; save what you need of it, then `rm -rf {}` lets ekiden make it again",
        shell_word(&tree.to_string_lossy())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: PLN-08
    #[test]
    fn the_command_that_removes_a_worktree_names_it_as_one_word() {
        let told = incomplete(Path::new("/p q/tree"));
        assert!(told.contains("`rm -rf '/p q/tree'`"), "{told}");
    }
}
