//! What a worktree needs besides what git puts there: copied files, the results of the setup command, and
//! ekiden's own directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_agent::child::ChildSpec;
use ekiden_core::event::CheckOutcome;
use ekiden_core::ids::StageId;
use ekiden_core::limits;
use ekiden_core::manifest::{Isolation, Verification};
use ekiden_store::archive::{copy, ensure_dir};
use ekiden_store::beneath::{self, Found};
use ekiden_store::disk::Reach;
use ekiden_store::layout::Published;
use ekiden_store::published::prepare_published;

use super::Worktrees;
use crate::git::flood::Lent;
use crate::git::{CEILING, GitError};
use crate::globs;
use crate::task_mark::TASK_MARK;
use crate::verification;
use ekiden_core::text::in_full;

/// How many files are copied into a new worktree at most: for more, use a setup command.
pub(super) const COPIES_MAX: usize = 2_000;
/// A file in a worktree's own git directory that says: it is set up.
const IS_SET_UP: &str = "EKIDEN_SET_UP";

impl Worktrees {
    /// Sets a worktree up, unless that is already done. A setup that failed or was killed runs again. Returns
    /// why the setup command failed, if it did: a stage may be the one to make what it needs.
    pub(super) async fn set_up(&self, tree: &Path, mark: &str) -> Result<Option<String>, GitError> {
        let Isolation::Worktrees { copy, setup, .. } = &self.isolation else {
            return Ok(None);
        };
        let dir = self.paths.within(tree);
        let state = self.paths.workspace.layout();
        if self.disk.stat(&dir)?.is_none() {
            // Nothing in the work dir is committed yet.
            ensure_dir(&*self.disk, &dir)?;
        }
        prepare_published(&*self.disk, &Published::new(&dir), &state)?;
        let Some(git_dir) = self.git_dir(tree) else {
            return GitError::refused(format!("{} is not a worktree", tree.display()));
        };
        if git_dir.join(IS_SET_UP).exists() {
            return Ok(None);
        }
        let copied = self.copy_files(copy.clone(), &dir).await;
        copied.map_err(GitError::Refused)?;
        if let Some(setup) = setup
            && let Some(why) = self.run_setup(setup, &dir, mark).await?
        {
            return Ok(Some(why));
        }
        self.disk
            .create_file(&git_dir.join(IS_SET_UP), b"", Reach::Cache)?;
        Ok(None)
    }

    /// The file that says that a setup command has run where merges are validated, whatever was checked out then.
    /// Without the file, it runs again.
    pub(super) fn earlier_setup(&self) -> Option<PathBuf> {
        let Isolation::Worktrees { setup: Some(_), .. } = &self.isolation else {
            return None;
        };
        let git_dir = self.git_dir(&self.paths.integration_tree()?)?;
        Some(git_dir.join(IS_SET_UP)).filter(|file| file.exists())
    }

    async fn copy_files(&self, patterns: Vec<String>, to: &Path) -> Result<(), String> {
        if patterns.is_empty() {
            return Ok(());
        }
        let (disk, from, to) = (
            Arc::clone(&self.disk),
            self.paths.workspace.dir.clone(),
            to.to_owned(),
        );
        let copied = tokio::task::spawn_blocking(move || {
            let found = globs::find(&from, &patterns, COPIES_MAX)?;
            if found.more {
                return Err(format!(
                    "`[worktree] copy` names more than {COPIES_MAX} files; let `setup` make them"
                ));
            }
            for file in found.files {
                let copied = copy(&*disk, find(&from, &file)?, &to.join(&file));
                copied.map_err(|error| in_full(&error))?;
            }
            Ok(())
        });
        copied.await.map_err(|panic| panic.to_string())?
    }

    /// The files that `copy_files` copied.
    pub(super) fn lent(&self) -> Lent {
        self.paths.lent(&self.isolation)
    }

    /// Copies the untracked files that the plan names for a stage into the stage's worktree, below `.ekiden/`,
    /// outside its commits. Returns the names.
    pub(super) async fn carry(&self, stage: &StageId) -> Result<Vec<String>, String> {
        let Some(tree) = self.paths.tree(stage) else {
            return Ok(Vec::new());
        };
        let to = self.paths.within(&tree);
        let names = self.contexts.get(stage).cloned().unwrap_or_default();
        let (from, there) = (self.paths.workspace.dir.clone(), to.clone());
        let absent = move || -> Result<Vec<String>, String> {
            let mut files = globs::all_of(&from, &names)?;
            files.retain(|file| !there.join(file).exists());
            match files.len() {
                0..=COPIES_MAX => Ok(files),
                more => Err(format!(
                    "`context` names {more} files that are not in the worktree, more than {COPIES_MAX}"
                )),
            }
        };
        let found = tokio::task::spawn_blocking(absent).await;
        let found = found.map_err(|panic| panic.to_string())??;
        if found.is_empty() {
            return Ok(found);
        }
        // A file that git tracks is missing only because another stage removed it.
        let list = "--literal-pathspecs ls-files --others -z --";
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        let unknown = self.users_git().run(list, &found).await;
        let unknown = unknown.map_err(|error| in_full(&error))?;
        let unknown: Vec<String> = unknown.split_terminator('\0').map(str::to_owned).collect();
        let place = Published::new(&to).context();
        let mut carried = Vec::new();
        for file in unknown {
            // Such as a link to nowhere that a pattern met.
            let Ok(found) = find(&self.paths.workspace.dir, &file) else {
                continue;
            };
            copy(&*self.disk, found, &place.join(&file)).map_err(|error| in_full(&error))?;
            carried.push(file);
        }
        Ok(carried)
    }

    async fn run_setup(
        &self,
        command: &str,
        dir: &Path,
        mark: &str,
    ) -> Result<Option<String>, GitError> {
        let setup = Verification::by_command(command.to_owned(), limits::SETUP_TIMEOUT);
        let sh = |command: &str| self.sh(command, dir, mark);
        let (check, _) = verification::run(sh, dir, &setup, self.cancelled.clone()).await;
        if check.outcome == CheckOutcome::Cancelled {
            return GitError::refused(format!("the worktree's setup `{command}` {check}"));
        }
        let told = check.with_output(&check.tail);
        Ok((!check.passed()).then(|| format!("the worktree's setup `{command}` {told}")))
    }

    /// A command for `sh -c` in a directory, with the mark of the effect that runs it.
    pub(crate) fn sh(&self, command: &str, dir: &Path, mark: &str) -> ChildSpec {
        let mut env_set = vec![(TASK_MARK.into(), mark.into())];
        let ceiling = self.ceiling_of(dir);
        env_set.extend(ceiling.map(|trees| (CEILING.into(), trees.into())));
        ChildSpec {
            args: vec!["-c".into(), command.into()],
            env_set,
            ..ChildSpec::new(&self.ekiden, "sh", dir)
        }
    }
}

/// The file that a name stands for. A link stands for its target, which must be inside the project: otherwise
/// anyone who can write to the project could have any other file copied.
pub(super) fn find(dir: &Path, name: &str) -> Result<Found, String> {
    let found = beneath::open_file(dir, Path::new(name));
    found.map_err(|why| format!("cannot copy `{name}`: it {why}"))
}
