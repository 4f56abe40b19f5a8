//! What a run wants done.
//!
//! Each effect is in the log before it is performed. An effect with an outcome stays outstanding
//! until that outcome is an event; after a crash the engine settles it by asking the world. The
//! others are void with the process that they were meant for, or are derived from state and simply
//! done again.

use serde::{Deserialize, Serialize};

use crate::agent::Purpose;
use crate::ids::{AttemptId, ConversationId, SessionNumber, StageId};
use crate::judge::Warning;
use crate::notice::NoticeKind;
use crate::outcome::Outcome;

/// What a run wants done, as the log holds it beside the event that it follows from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    Stage {
        stage: StageId,
        effect: RelayEffect,
    },
    /// Something for the worktree of a stage.
    Worktree {
        stage: StageId,
        effect: WorktreeEffect,
    },
    /// Give the user what all stages made. Outcome: [`crate::event::Event::Delivered`].
    Deliver,
    /// The run is over: stop the engine.
    EndRun {
        outcome: Outcome,
    },
}

/// Something that a plan wants done where a stage works. Each may be done again after a crash: what is
/// there already is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeEffect {
    /// Make its worktree ready, and read its context. Outcome: [`crate::event::WorktreeEvent::Prepared`].
    Prepare,
    /// Merge what it did into the integration branch, and validate that. Outcome: [`crate::event::WorktreeEvent::Merged`].
    Merge,
    /// Look whether it was done before. Outcome: [`crate::event::WorktreeEvent::Confirmed`], or a merge that was cancelled.
    Confirm,
}

/// Something that a relay wants done, whichever stage it pursues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RelayEffect {
    /// Look at the work tree. Outcome: [`crate::event::TaskOutcome::Surveyed`].
    Survey,
    /// Commit what a session did. Outcome: [`crate::event::TaskOutcome::Committed`]. After a crash the commit is
    /// looked for by its trailer, which names this effect.
    Commit {
        /// The session that is over.
        session: SessionNumber,
    },
    /// Run the verification. Outcome: [`crate::event::TaskOutcome::Verified`].
    Verify,
    /// Stop committing, surveying and verifying; their outcomes still come.
    CancelTasks,
    /// Start the agent. Outcome: [`crate::event::AttemptEvent::Ended`], whatever happens.
    StartAttempt(StartAttempt),
    /// Something for the attempt at work. Void if the attempt is gone.
    Attempt {
        attempt: AttemptId,
        effect: AttemptEffect,
    },
    /// Write the published files anew from state. Derived, so it is simply done again after a crash.
    Publish,
    /// The same, durably, before a time in which a person may edit them. Outcome:
    /// [`crate::event::TaskOutcome::Published`].
    PublishDurably,
    /// Tell people something that they should look at. Void once it is recorded: whoever watches tells
    /// it from the log.
    Warn { warning: Warning },
    /// Tell a person who is elsewhere. At most once: after a crash it is void.
    Notify {
        /// What it is about. Older logs lack it, but a notice of theirs is void.
        #[serde(default)]
        about: NoticeKind,
        /// What, in ekiden's own words.
        text: String,
    },
    /// Keep a session's texts. Outcome: [`crate::event::TaskOutcome::Archived`].
    Archive {
        /// The attempt that left them.
        attempt: AttemptId,
    },
}

/// Something for the agent at work. Void when its process is gone, so it is never outstanding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttemptEffect {
    /// Send a message to the agent.
    Say { text: String },
    /// Answer a Stop callback.
    AnswerStop {
        callback: String,
        /// Why the turn may not end yet; `None` lets it end.
        hold: Option<String>,
    },
    /// End the running turn, keep the process.
    Interrupt,
    /// Close the agent's standard input: there will be no more messages.
    Close,
    /// End the process: SIGTERM, grace, SIGKILL, and all that it started.
    Terminate,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartAttempt {
    pub attempt: AttemptId,
    pub conversation: ConversationId,
    pub mode: StartMode,
    #[serde(default, skip_serializing_if = "Purpose::is_work")]
    pub purpose: Purpose,
    /// SHA-256 of the prompt, in hexadecimal. The text follows from state and is archived before
    /// the agent starts.
    pub prompt: String,
}

/// Whether an attempt begins a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartMode {
    /// A new conversation; the handoff directory is emptied first.
    Fresh,
    /// The same conversation goes on after an interruption.
    Resume,
}

impl Effect {
    /// The effect has an outcome that must come, in this life of the engine or the next.
    pub fn has_outcome(&self) -> bool {
        match self {
            Self::Stage { effect, .. } => match effect {
                RelayEffect::Survey
                | RelayEffect::Commit { .. }
                | RelayEffect::Verify
                | RelayEffect::StartAttempt(_)
                | RelayEffect::PublishDurably
                | RelayEffect::Archive { .. } => true,
                RelayEffect::CancelTasks
                | RelayEffect::Publish
                | RelayEffect::Warn { .. }
                | RelayEffect::Notify { .. }
                | RelayEffect::Attempt { .. } => false,
            },
            Self::Worktree { .. } | Self::Deliver => true,
            Self::EndRun { .. } => false,
        }
    }
}
