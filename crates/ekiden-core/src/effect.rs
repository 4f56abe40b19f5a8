//! What a run wants done.
//!
//! Each effect is in the log before it is performed. An effect with an outcome stays outstanding until an
//! event records that outcome; after a crash, the engine finds out what happened and settles it. Other
//! effects either end with the process they were meant for, or are derived from state and simply repeated.

use serde::{Deserialize, Serialize};

use crate::agent::Purpose;
use crate::ids::{AttemptId, ConversationId, SessionNumber, StageId};
use crate::judge::Warning;
use crate::notice::NoticeKind;
use crate::outcome::Outcome;

/// What a run wants done, as the log holds it beside the event that caused it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    Stage {
        stage: StageId,
        effect: RelayEffect,
    },
    Worktree {
        stage: StageId,
        effect: WorktreeEffect,
    },
    /// Give the user the work of all stages. Outcome: [`crate::event::Event::Delivered`].
    Deliver,
    /// The run is over: stop the engine.
    EndRun {
        outcome: Outcome,
    },
}

/// Something that a plan wants done in a stage's worktree. Each may be repeated after a crash: it finds what
/// is already there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeEffect {
    /// Make its worktree ready, and read its context. Outcome: [`crate::event::WorktreeEvent::Prepared`].
    Prepare,
    /// Merge its work into the integration branch, and validate the result. Outcome:
    /// [`crate::event::WorktreeEvent::Merged`].
    Merge,
    /// Check whether it was done before. Outcome: [`crate::event::WorktreeEvent::Confirmed`], or a merge that was
    /// cancelled.
    Confirm,
}

/// Something that a relay wants done, whichever stage it pursues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RelayEffect {
    /// Look at the work tree. Outcome: [`crate::event::TaskOutcome::Surveyed`].
    Survey,
    /// Commit a session's work. Outcome: [`crate::event::TaskOutcome::Committed`]. After a crash, the engine looks
    /// for the commit by its trailer, which names this effect.
    Commit {
        /// The finished session.
        session: SessionNumber,
    },
    /// Run the verification. Outcome: [`crate::event::TaskOutcome::Verified`].
    Verify,
    /// Stop committing, surveying and verifying; their outcomes still come.
    CancelTasks,
    /// Start the agent. Outcome: [`crate::event::AttemptEvent::Ended`], whatever happens.
    StartAttempt(StartAttempt),
    /// Something for the current attempt. Void if the attempt is gone.
    Attempt {
        attempt: AttemptId,
        effect: AttemptEffect,
    },
    /// Write the published files again from state. They are derived, so it is simply repeated after a crash.
    Publish,
    /// The same, durably, before a time in which a person may edit them. Outcome:
    /// [`crate::event::TaskOutcome::Published`].
    PublishDurably,
    /// Show people something that they should look at. Void once it is recorded: observers read it from the
    /// log.
    Warn { warning: Warning },
    /// Notify a person who is elsewhere. At most once: after a crash it is void.
    Notify {
        /// Its subject. Older logs lack it, but their notices are void.
        #[serde(default)]
        about: NoticeKind,
        /// The text, in ekiden's own words.
        text: String,
    },
    /// Archive a session's texts. Outcome: [`crate::event::TaskOutcome::Archived`].
    Archive {
        /// The attempt that left them.
        attempt: AttemptId,
    },
}

/// Something for the working agent. Void when its process is gone, so it is never outstanding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AttemptEffect {
    /// Send a message to the agent.
    Say { text: String },
    AnswerStop {
        callback: String,
        /// Why the turn may not end yet; `None` lets it end.
        hold: Option<String>,
    },
    /// End the running turn, keep the process. A message that waits is withdrawn; a handoff that is being written gets
    /// written first.
    Interrupt,
    /// Close the agent's standard input: there will be no more messages.
    Close,
    /// End the process and everything that it started: SIGTERM, grace, SIGKILL.
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
    /// Continues the same conversation after an interruption.
    Resume,
}

impl Effect {
    /// The effect has an outcome that must come, in this engine's lifetime or a later one's.
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
