//! What the engine cannot do alone: processes, and work that takes long.
//!
//! The engine decides and records. An effect runner starts agents and tasks, and returns their results as
//! [`Input`]s. The real one runs them as tasks of the runtime; the simulated ones are scripts.

use std::path::PathBuf;

use ekiden_agent::attempt::{AgentCommand, Report};
use ekiden_core::agent::AgentSpec;
use ekiden_core::budget::Prices;
use ekiden_core::effect::{StartMode, WorktreeEffect};
use ekiden_core::event::{Event, RelayEvent, TaskOutcome};
use ekiden_core::ids::{AttemptId, ConversationId, EffectId, RunId, StageId};
use ekiden_core::manifest::Verification;
use ekiden_core::relay::Prompt;
use ekiden_core::steering::Steered;
use ekiden_store::archive::archive_dir;
use ekiden_store::disk::Disk;
use ekiden_store::error::StoreError;
use tokio::sync::oneshot;

use crate::error::EngineError;
use crate::git::commit::CommitJob;
use crate::notify::Notice;
pub use crate::survey::Since;
use crate::worktrees::StageJob;

/// Something that reaches the engine from outside and wakes its loop, whether or not it becomes an event.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "an input is moved a few times, and most of them are events"
)]
pub enum Input {
    Agent {
        stage: StageId,
        attempt: AttemptId,
        report: Report,
    },
    /// A task has finished, or somebody wants the run to stop.
    Event(Event),
    /// Something that the user should know, and that does not stop the run.
    Warning(String),
    /// Somebody steers the run.
    Steered {
        steered: Steered,
        /// Notified when the message is in the log; dropped if it never will be.
        recorded: oneshot::Sender<()>,
    },
    Tick,
}

impl Input {
    pub fn task(stage: &StageId, effect: EffectId, outcome: TaskOutcome) -> Self {
        let (stage, event) = (stage.clone(), RelayEvent::Task { effect, outcome });
        Self::Event(Event::Stage { stage, event })
    }
}

/// An attempt, ready to start: its prompt is in the archive.
#[derive(Debug)]
pub struct Launch {
    pub run: RunId,
    pub stage: StageId,
    pub attempt: AttemptId,
    pub agent: AgentSpec,
    pub conversation: ConversationId,
    pub mode: StartMode,
    /// What models cost, as far as it is known.
    pub prices: Prices,
    pub protocol: String,
    pub message: Prompt,
    /// The JSON Schema that its answers must match.
    pub schema: Option<String>,
}

#[derive(Debug)]
pub struct VerifyJob {
    pub verification: Verification,
    /// The tree that the last survey found, to which the result belongs.
    pub tree: Option<String>,
    /// Where its output is kept.
    pub log: PathBuf,
}

#[derive(Debug)]
pub struct ArchiveJob {
    pub(crate) dir: PathBuf,
    pub(crate) files: Vec<(String, String)>,
}

impl ArchiveJob {
    /// Writes them durably. Archiving the same texts again changes nothing; other texts are an error.
    pub fn run(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        archive_dir(disk, &self.dir, &self.files)
    }
}

/// Performs what needs a process or takes long. No call waits.
pub trait EffectRunner {
    /// Starts an agent. [`Report::Ended`] is its last report, whatever happens.
    fn start(&mut self, launch: Launch) -> Result<(), EngineError>;

    /// Tells an agent something; nothing happens if it is gone.
    fn tell(&mut self, stage: &StageId, order: AgentCommand);

    /// Looks at the work tree.
    fn survey(&mut self, stage: &StageId, effect: EffectId, since: Since);

    /// Commits what a session did, unless that is done already.
    fn commit(&mut self, stage: &StageId, effect: EffectId, job: CommitJob);

    fn verify(&mut self, stage: &StageId, effect: EffectId, job: VerifyJob);

    /// Stops committing, surveying and verifying.
    fn cancel(&mut self);

    /// Writes a session's texts to the archive.
    fn archive(&mut self, stage: &StageId, effect: EffectId, job: ArchiveJob);

    /// Makes a stage's worktree, merges it, or checks whether the stage was done before.
    fn worktree(&mut self, effect: EffectId, what: WorktreeEffect, job: StageJob);

    /// Gives the user what all stages made, up to the commit `tip`. An earlier engine may have done some or all
    /// of that.
    fn deliver(&mut self, effect: EffectId, tip: Option<String>, is_repeated: bool);

    /// Notifies a user who is elsewhere.
    fn notify(&mut self, effect: EffectId, notice: Notice);
}
