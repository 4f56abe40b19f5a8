//! The grounds of a plan's stages: worktrees, what a stage is shown, and how what it did becomes part of
//! the whole.
//!
//! ```text
//! user's branch ─► ekiden/<run> ──────────●────────────●─────► user's branch (fast-forward)
//!                       │                ↗ merge,     ↗
//!                       ├─► ekiden/<run>-S01  validate
//!                       └─► ekiden/<run>-S02 ────────┘
//! ```
//!
//! The whole is a branch, and a worktree in which merges are tried: on a detached head, so that the branch
//! moves only when the result is valid, in one step that git makes at once or not at all. Each merge names
//! the effect that ordered it in a trailer, so one that was made and not recorded is found again.
//!
//! Each stage has a branch and a worktree, outside the project: what lies above a work dir (a
//! `CLAUDE.md`, `node_modules`) must not leak into it. Everything here may be done again after a crash: what
//! is there is taken, what is half made is made anew.
//!
//! Without git, stages work in the work dir; there is nothing to make and nothing to merge.

mod check;
mod clear;
mod conflicts;
mod context;
mod deliver;
mod furnish;
mod half;
mod merge;
mod tree;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ekiden_agent::child::ChildEnd;
use ekiden_agent::workers::Workers;
use ekiden_core::event::{Delivery, GroundEvent, Grounded};
use ekiden_core::ids::{EffectId, StageId};
use ekiden_core::limits;
use ekiden_core::manifest::{Ground, Stage};
use ekiden_core::prompt::ContextInput;
use ekiden_core::text;
use ekiden_store::disk::Disk;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use crate::error::in_full;
use crate::git::{Git, subcommand};
use crate::places::Places;

/// What is to be done for the ground of a stage.
#[derive(Debug, Clone)]
pub struct GroundJob {
    /// The stage.
    pub stage: Stage,
    /// What a trailer says: which effect of which run.
    pub mark: String,
    /// The newest commit of the whole, once a stage is merged.
    pub whole: Option<String>,
    /// An earlier engine may have done it, or a part of it.
    pub is_repeated: bool,
    /// What its agent is shown, but for the files, which lie in its ground.
    pub input: ContextInput,
}

/// The whole is to be handed over.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryJob {
    /// Its newest commit, once a stage is merged.
    pub(crate) whole: Option<String>,
    /// By which what outlives the engine is found: which effect of which run.
    pub(crate) mark: String,
    /// An earlier engine may have done it, or a part of it.
    pub(crate) is_repeated: bool,
}

/// What works on grounds.
#[derive(Debug, Clone)]
pub(crate) struct Grounds {
    ekiden: PathBuf,
    workers: Arc<Workers>,
    disk: Arc<dyn Disk>,
    places: Places,
    ground: Ground,
    /// Held while worktrees and branches are made: git does not like two of that at once.
    making: Arc<Mutex<()>>,
    /// What people should know and what stops nothing.
    notes: Arc<std::sync::Mutex<Vec<String>>>,
}

/// Ends what is under way: the run is being stopped.
pub(crate) type Cancelled = watch::Receiver<u32>;

impl Grounds {
    pub(crate) fn new(ekiden: PathBuf, disk: Arc<dyn Disk>, places: Places, ground: Ground) -> Self {
        let workers = Arc::new(Workers::new(ekiden.clone()));
        Self { ekiden, workers, disk, places, ground, making: Arc::default(), notes: Arc::default() }
    }

    /// What people should know of what was done since this was asked last.
    pub(crate) fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, text: String) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    /// Makes a stage's ground ready, and reads what its agent is shown.
    pub(crate) async fn prepare(
        &self,
        effect: EffectId,
        job: GroundJob,
        cancelled: Cancelled,
    ) -> GroundEvent {
        let ground = self.ready(job, cancelled).await;
        GroundEvent::Prepared { effect, ground }
    }

    /// Makes what a stage did part of the whole.
    pub(crate) async fn merge(&self, effect: EffectId, job: GroundJob, cancelled: Cancelled) -> GroundEvent {
        GroundEvent::Merged { effect, merge: merge::merge(self, &job, cancelled).await }
    }

    /// Looks whether a stage was done before.
    pub(crate) async fn confirm(
        &self,
        effect: EffectId,
        job: GroundJob,
        cancelled: Cancelled,
    ) -> GroundEvent {
        GroundEvent::Confirmed { effect, result: merge::confirm(self, &job, cancelled).await }
    }

    /// Gives the user what all stages made.
    pub(crate) async fn deliver(&self, job: &DeliveryJob, cancelled: Cancelled) -> Delivery {
        deliver::deliver(self, job, cancelled).await
    }

    /// Makes grounds ready again on which stages go on, in a new life: a person may have cleared away what
    /// looked forgotten, and a git that was killed leaves locks. Nobody works on them now.
    pub(crate) async fn restore(&self, stages: &[StageId], whole: Option<&str>) -> Result<(), String> {
        let Ground::Worktrees { .. } = &self.ground else { return Ok(()) };
        self.unlock_branches().map_err(|error| in_full(&error))?;
        let (_nobody, cancelled) = watch::channel(0);
        for stage in stages {
            let Some(tree) = self.places.tree(stage) else { continue };
            if self.git_dir(&tree).is_some() {
                self.unlock(&tree)?;
            } else {
                self.stage_tree(stage, whole, &self.places.branch(stage), cancelled.clone()).await?;
            }
        }
        Ok(())
    }

    async fn ready(&self, job: GroundJob, cancelled: Cancelled) -> Result<Grounded, String> {
        let base = match &self.ground {
            Ground::InPlace => None,
            Ground::Worktrees { .. } => {
                Some(self.stage_tree(&job.stage.id, job.whole.as_deref(), &job.mark, cancelled).await?)
            }
        };
        let (disk, dir) = (Arc::clone(&self.disk), self.places.dir(&job.stage.id));
        let read = tokio::task::spawn_blocking(move || context::read(&*disk, &dir, &job));
        Ok(Grounded { base, context: read.await.map_err(|panic| panic.to_string())? })
    }

    /// Git in a directory.
    pub(crate) fn git(&self, dir: &Path) -> Git {
        let git = Git::new(Arc::clone(&self.workers), dir.to_owned());
        match self.ceiling_of(dir) {
            Some(trees) => git.below(trees),
            None => git,
        }
    }

    /// Above which directory no repository may be looked for from here.
    fn ceiling_of(&self, dir: &Path) -> Option<&Path> {
        self.places.trees().filter(|trees| dir.starts_with(trees))
    }

    /// Git in the user's work dir.
    fn users_git(&self) -> Git {
        self.git(&self.places.workspace().dir)
    }
}

/// How long git may go on when a run is being stopped.
const CANCELLED_GRACE: Duration = Duration::from_secs(2);

/// Runs a git command that may take long: hooks and checkouts of large trees. What went wrong reads after
/// "cannot do it: ".
async fn patiently(git: &Git, args: &[&str], mut cancelled: Cancelled) -> Result<String, String> {
    let until = Instant::now() + Duration::from(limits::COMMIT_TIMEOUT);
    let over = async {
        tokio::select! {
            // A command of git is mostly over by then, and one that is ended may leave its locks.
            _ = cancelled.changed() => tokio::time::sleep(CANCELLED_GRACE).await,
            () = tokio::time::sleep_until(until) => {}
        }
    };
    let output = git.fed(args, b"", over).await.map_err(|error| in_full(&error))?;
    let command = subcommand(args);
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match &output.end {
        ChildEnd::Exited(0) => Ok(said(&output.stdout)),
        _ if output.timed_out => Err(format!("`git {command}` was ended")),
        ChildEnd::Exited(_) => {
            let words = said(&output.stderr) + &said(&output.stdout);
            let words = text::one_line(&words, limits::COMMIT_TAIL_CHARS);
            Err(format!("`git {command}` failed: {words}"))
        }
        ChildEnd::Signaled(signal) => Err(format!("signal {signal} ended `git {command}`")),
        ChildEnd::NotStarted(error) => Err(error.clone()),
        ChildEnd::KeeperLost => Err("git's keeper was killed".to_owned()),
    }
}
