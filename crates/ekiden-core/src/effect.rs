//! What a run wants done.
//!
//! Each effect is in the log before it is performed. An effect with an outcome stays outstanding
//! until that outcome is an event; after a crash the engine settles it by asking the world. The
//! others are void with the process that they were meant for, or are derived from state and simply
//! done again.

use serde::{Deserialize, Serialize};

use crate::event::{Event, RelayEvent};
use crate::ids::{AttemptId, ConversationId, EffectId, SessionNumber, StageId};
use crate::judge::Warning;
use crate::outcome::Outcome;

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Effect {
    /// Something for one stage.
    Stage {
        /// The stage.
        stage: StageId,
        /// What to do.
        effect: RelayEffect,
    },
    /// Something for the ground of a stage.
    Ground {
        /// The stage.
        stage: StageId,
        /// What to do.
        effect: GroundEffect,
    },
    /// Give the user what all stages made. Outcome: [`Event::Delivered`].
    Deliver,
    /// The run is over: stop the engine.
    EndRun {
        /// How it ended.
        outcome: Outcome,
    },
}

/// Something that a plan wants done where a stage works. Each may be done again after a crash: what is
/// there already is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroundEffect {
    /// Make its ground ready, and read its context. Outcome: [`crate::event::GroundEvent::Prepared`].
    Prepare,
    /// Make what it did part of the whole, and validate that. Outcome: [`crate::event::GroundEvent::Merged`].
    Merge,
    /// Look whether it was done before. Outcome: [`crate::event::GroundEvent::Confirmed`].
    Confirm,
}

/// Something that a relay wants done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RelayEffect {
    /// Look at the work tree. Outcome: [`RelayEvent::Surveyed`].
    Survey,
    /// Commit what a session did. Outcome: [`RelayEvent::Committed`]. After a crash the commit is
    /// looked for by its trailer, which names this effect.
    Commit {
        /// The session that is over.
        session: SessionNumber,
    },
    /// Run the verification. Outcome: [`RelayEvent::Verified`].
    Verify,
    /// Stop committing, surveying and verifying; their outcomes still come.
    CancelTasks,
    /// Start the agent. Outcome: [`RelayEvent::AttemptEnded`], whatever happens.
    StartAttempt(StartAttempt),
    /// Send a message to the agent. Void if the attempt is gone.
    Say {
        /// To which attempt.
        attempt: AttemptId,
        /// The text.
        text: String,
    },
    /// Answer a Stop callback. Void if the attempt is gone.
    AnswerStop {
        /// Whose.
        attempt: AttemptId,
        /// The question.
        callback: String,
        /// Why the turn may not end yet; nothing lets it end.
        hold: Option<String>,
    },
    /// End the running turn, keep the process.
    Interrupt {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// Close the agent's standard input: there will be no more messages.
    Close {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// End the process: SIGTERM, grace, SIGKILL, and all that it started.
    Terminate {
        /// Which attempt.
        attempt: AttemptId,
    },
    /// Write the published files anew from state. Derived, so it is simply done again after a crash.
    Publish,
    /// The same, durably, before a time in which a person may edit them. Outcome:
    /// [`RelayEvent::Published`].
    PublishDurably,
    /// Tell people something that they should look at. Void once it is recorded: whoever watches tells
    /// it from the log.
    Warn {
        /// What.
        warning: Warning,
    },
    /// Tell a person who is elsewhere. At most once: after a crash it is void.
    Notify {
        /// What, in ekiden's own words.
        text: String,
    },
    /// Keep a session's texts. Outcome: [`RelayEvent::Archived`].
    Archive {
        /// The attempt that left them.
        attempt: AttemptId,
    },
}

/// Which process to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartAttempt {
    /// Which attempt this is.
    pub attempt: AttemptId,
    /// The conversation's id.
    pub conversation: ConversationId,
    /// Whether it is new.
    pub mode: StartMode,
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
    #[must_use]
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
                | RelayEffect::Say { .. }
                | RelayEffect::AnswerStop { .. }
                | RelayEffect::Interrupt { .. }
                | RelayEffect::Close { .. }
                | RelayEffect::Terminate { .. } => false,
            },
            Self::Ground { .. } | Self::Deliver => true,
            Self::EndRun { .. } => false,
        }
    }

    /// The event is this effect's outcome.
    #[must_use]
    pub fn is_settled_by(&self, id: EffectId, event: &Event) -> bool {
        let (stage, effect, at, event) = match (self, event) {
            (Self::Stage { stage, effect }, Event::Stage { stage: at, event }) => (stage, effect, at, event),
            (Self::Ground { .. }, Event::Ground { event, .. }) => return event.effect() == id,
            (Self::Deliver, Event::Delivered { effect, .. }) => return *effect == id,
            (Self::Stage { .. } | Self::Ground { .. } | Self::Deliver | Self::EndRun { .. }, _) => {
                return false;
            }
        };
        let same = match event {
            RelayEvent::Surveyed { effect, .. }
            | RelayEvent::Committed { effect, .. }
            | RelayEvent::Verified { effect, .. }
            | RelayEvent::Published { effect }
            | RelayEvent::Archived { effect } => *effect == id,
            RelayEvent::AttemptEnded(ended) => {
                matches!(effect, RelayEffect::StartAttempt(start) if start.attempt == ended.attempt)
            }
            RelayEvent::AttemptStarted { .. }
            | RelayEvent::WindowChanged { .. }
            | RelayEvent::LevelCrossed { .. }
            | RelayEvent::BaselineMeasured { .. }
            | RelayEvent::SpendCrossed { .. }
            | RelayEvent::Compacted { .. }
            | RelayEvent::MessageDelivered { .. }
            | RelayEvent::StopAsked { .. }
            | RelayEvent::TurnEnded { .. }
            | RelayEvent::RefusalsSpent { .. }
            | RelayEvent::Woke
            | RelayEvent::KnowledgeEdited { .. } => false,
        };
        stage == at && same
    }
}
