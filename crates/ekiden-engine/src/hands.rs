//! What the engine cannot do alone: processes and time-consuming work.
//!
//! The engine decides and records; its hands start agents and tasks and bring their outcomes back as
//! [`Input`]s. The real hands are tasks of the runtime; simulated ones are scripts.

use ekiden_agent::attempt::{FirstMessage, Order, Report};
use ekiden_core::budget::Prices;
use ekiden_core::effect::StartMode;
use ekiden_core::event::{Check, Commit, Delivery, GroundEvent, StopRequest, Survey};
use ekiden_core::ids::{AttemptId, ConversationId, EffectId, RunId, StageId};
use ekiden_core::manifest::Verification;
use ekiden_core::settings::AgentSpec;

use crate::archive_job::ArchiveJob;
use crate::commit::CommitJob;
use crate::error::EngineError;
use crate::grounds::GroundJob;

/// Something that reaches the engine from outside.
#[derive(Debug)]
pub enum Input {
    /// An agent reports.
    Agent {
        /// Whose stage.
        stage: StageId,
        /// Which attempt.
        attempt: AttemptId,
        /// What it says.
        report: Report,
    },
    /// The work tree was looked at.
    Surveyed {
        /// Whose stage.
        stage: StageId,
        /// The effect that asked for it.
        effect: EffectId,
        /// What was there.
        survey: Result<Survey, String>,
    },
    /// A session was committed, or was not.
    Committed {
        /// Whose stage.
        stage: StageId,
        /// The effect that asked for it.
        effect: EffectId,
        /// What came of it.
        commit: Commit,
    },
    /// The verification ran.
    Verified {
        /// Whose stage.
        stage: StageId,
        /// The effect that asked for it.
        effect: EffectId,
        /// How it went.
        check: Check,
        /// Its output, for the session's files.
        output: String,
    },
    /// A session's texts were archived, or could not be.
    Archived {
        /// Whose stage.
        stage: StageId,
        /// The effect that asked for it.
        effect: EffectId,
        /// What went wrong, as it reads after "cannot".
        failure: Option<String>,
    },
    /// The published files are on the disk.
    Published {
        /// Whose stage.
        stage: StageId,
        /// The effect that asked for it.
        effect: EffectId,
    },
    /// Something happened to a stage's ground.
    Ground {
        /// Whose stage.
        stage: StageId,
        /// What happened.
        event: GroundEvent,
    },
    /// The user has what all stages made, or knows where it lies.
    Delivered {
        /// The effect that asked for it.
        effect: EffectId,
        /// What came of it.
        delivery: Delivery,
    },
    /// Somebody should know something that stops nothing.
    Noted {
        /// What.
        text: String,
    },
    /// A notification could not be shown.
    Unnotified {
        /// Why not.
        why: String,
    },
    /// Somebody wants the run to stop.
    Stop(StopRequest),
    /// It is time to look into the inbox.
    LookIntoInbox,
    /// Time has passed.
    Tick,
}

/// An attempt, ready to start: its texts are archived.
#[derive(Debug)]
pub struct Launch {
    /// The run.
    pub run: RunId,
    /// Its stage.
    pub stage: StageId,
    /// Which attempt.
    pub attempt: AttemptId,
    /// The agent.
    pub agent: AgentSpec,
    /// The conversation's id.
    pub conversation: ConversationId,
    /// Whether it is new.
    pub mode: StartMode,
    /// What models cost, as far as it is known.
    pub prices: Prices,
    /// The standing text.
    pub protocol: String,
    /// The first message.
    pub message: FirstMessage,
}

/// What a look at the work tree is compared with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Since {
    /// The commit at the look before: newer ones are told.
    pub last: Option<String>,
    /// The commit at the run's first look: what became of its tests is told.
    pub first: Option<String>,
}

/// Performs what needs a process or takes long. No call waits.
pub trait Hands {
    /// Starts an agent. [`Report::Ended`] is its last report, whatever happens.
    ///
    /// # Errors
    ///
    /// If the attempt's own files cannot be had. Nothing runs then, and no report comes.
    fn start(&mut self, launch: Launch) -> Result<(), EngineError>;

    /// Tells an agent something; nothing happens if it is gone.
    fn tell(&mut self, stage: &StageId, order: Order);

    /// Looks at the work tree.
    fn survey(&mut self, stage: &StageId, effect: EffectId, since: Since);

    /// Commits what a session did, unless that is done already.
    fn commit(&mut self, stage: &StageId, effect: EffectId, job: CommitJob);

    /// Runs the verification.
    fn verify(&mut self, stage: &StageId, effect: EffectId, verification: &Verification);

    /// Stops committing, surveying and verifying.
    fn cancel(&mut self, stage: &StageId);

    /// Writes a session's texts to the archive.
    fn archive(&mut self, stage: &StageId, effect: EffectId, job: ArchiveJob);

    /// Makes a stage's ground ready.
    fn prepare(&mut self, effect: EffectId, job: GroundJob);

    /// Makes what a stage did part of the whole, unless that is done already.
    fn merge(&mut self, effect: EffectId, job: GroundJob);

    /// Looks whether a stage was done before.
    fn confirm(&mut self, effect: EffectId, job: GroundJob);

    /// Gives the user what all stages made, up to this commit. An earlier engine may have done that, or a
    /// part of it.
    fn deliver(&mut self, effect: EffectId, whole: Option<String>, is_repeated: bool);

    /// Tells a person who is elsewhere.
    fn notify(&mut self, text: String);
}
