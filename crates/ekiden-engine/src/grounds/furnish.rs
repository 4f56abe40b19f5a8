//! What a worktree needs besides what git puts there: copies, what the setup command makes, and our own
//! places.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_agent::child::{ChildEnd, ChildSpec, StdinKind};
use ekiden_agent::task;
use ekiden_core::limits;
use ekiden_core::manifest::Ground;
use ekiden_core::text;
use ekiden_store::archive::copy;
use ekiden_store::disk::{Disk, Kind, Reach};
use ekiden_store::layout::{Published, StateLayout};
use ekiden_store::published::prepare_published;

use super::{Cancelled, Grounds};
use crate::error::in_full;
use crate::git::CEILING;
use crate::globs;
use crate::processes::TASK_MARK;

/// The most files that are copied into a new worktree: more is what a setup command is for.
pub(super) const COPIES_MAX: usize = 2_000;
/// What says in a worktree's own git directory that copies and setup are made.
const FURNISHED: &str = "EKIDEN_FURNISHED";

impl Grounds {
    /// Furnishes a worktree, unless that is done: a setup that failed or was killed is made again.
    pub(super) async fn furnish(&self, tree: &Path, mark: &str, cancelled: Cancelled) -> Result<(), String> {
        let Ground::Worktrees { copy, setup, .. } = &self.ground else { return Ok(()) };
        let dir = self.places.within(tree);
        let state = StateLayout::new(&self.places.workspace().state_dir);
        prepare_published(&*self.disk, &Published::new(&dir), &state).map_err(|error| in_full(&error))?;
        if self.is_furnished(tree) {
            return Ok(());
        }
        let git_dir = self.git_dir(tree).ok_or_else(|| format!("{} is no worktree", tree.display()))?;
        self.copy_files(copy.clone(), &dir).await?;
        if let Some(setup) = setup {
            self.set_up(setup, &dir, mark, cancelled).await?;
        }
        self.disk.create_file(&git_dir.join(FURNISHED), b"", Reach::Cache).map_err(|error| in_full(&error))
    }

    pub(super) fn is_furnished(&self, tree: &Path) -> bool {
        self.git_dir(tree).is_some_and(|dir| self.is_there(&dir.join(FURNISHED)))
    }

    async fn copy_files(&self, patterns: Vec<String>, to: &Path) -> Result<(), String> {
        if patterns.is_empty() {
            return Ok(());
        }
        let (lender, to) = (Lender::new(self)?, to.to_owned());
        let copied = tokio::task::spawn_blocking(move || {
            let found = globs::find(&lender.dir, &patterns, COPIES_MAX)?;
            if found.more {
                return Err(format!(
                    "`[worktree] copy` names more than {COPIES_MAX} files; let `setup` make them"
                ));
            }
            for file in found.files {
                copy(&*lender.disk, &lender.find(&file)?, &to.join(&file))
                    .map_err(|error| in_full(&error))?;
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
        let mut env_set = vec![(TASK_MARK.into(), mark.into())];
        env_set.extend(self.ceiling_of(dir).map(|trees| (CEILING.into(), trees.into())));
        ChildSpec {
            keeper: self.ekiden.clone(),
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            dir: dir.to_owned(),
            env_set,
            lock: None,
            grace: limits::KILL_GRACE,
            stdin: StdinKind::Null,
        }
    }
}

/// Finds what a project lends to worktrees.
pub(super) struct Lender {
    disk: Arc<dyn Disk>,
    /// The work dir, and the top of its repository.
    dir: PathBuf,
    top: PathBuf,
}

impl Lender {
    pub(super) fn new(grounds: &Grounds) -> Result<Self, String> {
        let workspace = grounds.places.workspace();
        let top = grounds.disk.resolve(grounds.places.top()).map_err(|error| in_full(&error))?;
        Ok(Self { disk: Arc::clone(&grounds.disk), dir: workspace.dir.clone(), top })
    }

    /// The file that a name stands for. A link stands for what it leads to, which is lent if it is the
    /// project's own: whoever can write the project must not get at other files by that.
    pub(super) fn find(&self, name: &str) -> Result<PathBuf, String> {
        let file = self.disk.resolve(&self.dir.join(name)).map_err(|error| in_full(&error))?;
        if !file.starts_with(&self.top) {
            return Err(format!(
                "`{name}` is to be copied and leads out of the project, to {}",
                file.display()
            ));
        }
        match self.disk.stat(&file).map_err(|error| in_full(&error))?.map(|stat| stat.kind) {
            Some(Kind::File) => Ok(file),
            Some(Kind::Dir) => Err(format!("`{name}` is to be copied and leads to a directory")),
            Some(Kind::Link | Kind::Other) | None => Err(format!("`{name}` is to be copied and is no file")),
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
