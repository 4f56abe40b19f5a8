//! The worktrees of a plan's stages, and how a stage's work gets onto the integration branch.
//!
//! ```text
//! user's branch ─► ekiden/<run> ──────────●────────────●─────► user's branch (fast-forward)
//!                       │                ↗ merge,     ↗
//!                       ├─► ekiden/<run>-S01  validate
//!                       └─► ekiden/<run>-S02 ────────┘
//! ```
//!
//! A merge is made without a work tree and validated in a spare worktree. Then git makes it the integration
//! branch `ekiden/<run>` in one atomic step. A trailer in each merge names the effect that ordered it, so a
//! merge that was made but not recorded can be found.
//!
//! Each stage has a branch, and a worktree outside the project: files above a work dir (a `CLAUDE.md`,
//! `node_modules`) must not affect it. Every step here can be repeated after a crash: complete results are
//! reused, half-finished ones are redone. Anything that may contain somebody's work is left as it is, and a
//! message names the command that helps.
//!
//! Without git, stages work in the work dir; there is nothing to make and nothing to merge.

pub mod check;
mod context;
pub(crate) mod deliver;
mod merge;
mod merged;
mod setup;
mod trees;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_core::effect::WorktreeEffect;
use ekiden_core::event::{Merge, PreparedWorktree, WorktreeEvent};
use ekiden_core::ids::StageId;
use ekiden_core::manifest::{Isolation, Manifest, Stage};
use ekiden_core::prompt::ContextInput;
use ekiden_core::text::in_full;
use ekiden_store::disk::Disk;
use tokio::sync::Mutex;

pub use self::merged::merged;
use crate::git::{CEILING, Cancelled, Git, GitError, never};
use crate::paths::RunPaths;

/// Stands for ekiden's own subject of a commit.
pub(crate) const SUBJECT: &str = "{subject}";

#[derive(Debug, Clone)]
pub struct StageJob {
    pub stage: Stage,
    /// What a trailer says: which effect of which run.
    pub mark: String,
    /// The newest commit of the integration branch, once a stage is merged.
    pub integrated: Option<String>,
    /// It was ordered before a crash, and may already have been done, wholly or in part.
    pub is_repeated: bool,
    /// What its agent sees, except the files, which are in its worktree.
    pub input: ContextInput,
}

#[derive(Debug, Clone)]
pub(crate) struct Worktrees {
    ekiden: PathBuf,
    disk: Arc<dyn Disk>,
    paths: RunPaths,
    isolation: Isolation,
    /// The files that the prompts of stages name, by patterns from the work dir.
    contexts: Arc<BTreeMap<StageId, Vec<String>>>,
    /// The subject of commits, in which [`SUBJECT`] stands for ekiden's own.
    pub(crate) subject: String,
    /// Held while worktrees and branches are made: git cannot make two at once.
    making: Arc<Mutex<()>>,
    /// Ends the task that works with them.
    cancelled: Cancelled,
}

impl Worktrees {
    pub(crate) fn new(
        ekiden: PathBuf,
        disk: Arc<dyn Disk>,
        paths: RunPaths,
        manifest: &Manifest,
    ) -> Self {
        let rules = manifest.plan.as_ref();
        let document = rules.map(|rules| rules.document.clone());
        let document = document.filter(|name| !name.is_empty() && Path::new(name).is_relative());
        let context = |stage: &Stage| {
            let names = stage.part.context.iter().chain(&document);
            (stage.id.clone(), names.cloned().collect())
        };
        Self {
            ekiden,
            disk,
            paths,
            isolation: rules.map_or(Isolation::InPlace, |rules| rules.isolation.clone()),
            contexts: Arc::new(manifest.stages.iter().map(context).collect()),
            subject: SUBJECT.to_owned(),
            making: Arc::default(),
            cancelled: never(),
        }
    }

    /// The same for a task that ends when the run is being stopped.
    pub(crate) fn until(&self, cancelled: Cancelled) -> Self {
        Self {
            cancelled,
            ..self.clone()
        }
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.has_changed().unwrap_or(true)
    }

    /// Prepares a stage's worktree and reads what its agent will see, merges what the stage did, or checks
    /// whether it was done before.
    pub(crate) async fn perform(&self, what: WorktreeEffect, job: StageJob) -> WorktreeEvent {
        match what {
            WorktreeEffect::Prepare => WorktreeEvent::Prepared {
                worktree: self.ready(job).await,
            },
            WorktreeEffect::Merge => WorktreeEvent::Merged {
                merge: merge::merge(self, &job).await,
            },
            WorktreeEffect::Confirm => match merge::confirm(self, &job).await {
                // Then nothing is known about the stage.
                Err(_) if self.is_cancelled() => WorktreeEvent::Merged {
                    merge: Merge::Cancelled,
                },
                result => WorktreeEvent::Confirmed { result },
            },
        }
    }

    /// Repairs the worktrees of `stages`, which continue after a crash: a person may have removed what looked
    /// forgotten. Nobody works in the run now.
    pub(crate) async fn restore(
        &self,
        all: impl Iterator<Item = &StageId>,
        stages: Vec<Stage>,
        integrated: Option<&str>,
    ) -> Result<(), String> {
        let Isolation::Worktrees { .. } = &self.isolation else {
            return Ok(());
        };
        let all: Vec<&StageId> = all.collect();
        let claimed = self.claim(&all).await;
        claimed.map_err(|error| in_full(&error))?;
        if let Some(commit) = integrated
            && !self.has(commit).await
        {
            return Err(format!(
                "git has lost {commit}, the commit with all that is merged; merge what is left of the branches {}-STAGE, \
                 and carry out the rest with `ekiden execute MANIFEST --new --from STAGE`",
                self.paths.integration_branch()
            ));
        }
        let unlocked = self.unlock_branches(all.into_iter());
        unlocked.map_err(|error| in_full(&error))?;
        for stage in stages {
            let job = StageJob {
                mark: self.paths.branch(&stage.id),
                stage,
                integrated: integrated.map(str::to_owned),
                is_repeated: true,
                input: ContextInput::default(),
            };
            let made = self.keep_stage_tree(&job).await;
            made.map_err(|error| in_full(&error))?;
        }
        Ok(())
    }

    async fn ready(&self, job: StageJob) -> Result<PreparedWorktree, String> {
        let (base, not_set_up) = match &self.isolation {
            Isolation::InPlace => (None, None),
            Isolation::Worktrees { .. } => {
                let known = job.integrated.as_deref();
                let made = self.stage_tree(&job.stage.id, known, &job.mark);
                let (base, not_set_up) = made.await.map_err(|error| in_full(&error))?;
                (Some(base), not_set_up)
            }
        };
        let carried = self.carry(&job.stage.id).await?;
        let dir = self.paths.dir(&job.stage.id);
        let job = StageJob {
            input: ContextInput {
                not_set_up: not_set_up.unwrap_or_default(),
                ..job.input
            },
            ..job
        };
        let read = tokio::task::spawn_blocking(move || context::read(&dir, &job, &carried));
        Ok(PreparedWorktree {
            base,
            context: read.await.map_err(|panic| panic.to_string())??,
        })
    }

    pub(crate) fn git(&self, dir: &Path) -> Git {
        let git = Git::new(self.ekiden.clone(), dir.to_owned());
        let git = git.patient().until(self.cancelled.clone());
        match self.ceiling_of(dir) {
            Some(trees) => git.with_env(CEILING, trees),
            None => git,
        }
    }

    /// The directory above which git must not look for a repository from here.
    fn ceiling_of(&self, dir: &Path) -> Option<&Path> {
        self.paths
            .trees
            .as_deref()
            .filter(|trees| dir.starts_with(trees))
    }

    /// The subject of a commit, in the form that the user wants.
    pub(crate) fn subject_of(&self, own: &str) -> String {
        self.subject.replace(SUBJECT, own).trim().to_owned()
    }

    /// Git in the user's work dir.
    fn users_git(&self) -> Git {
        self.git(&self.paths.workspace.dir)
    }
}

fn no_worktrees() -> GitError {
    GitError::Refused("there are no worktrees".to_owned())
}
