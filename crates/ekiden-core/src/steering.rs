//! Steering: a person's requests to a running run, from outside.
//!
//! A message reaches the engine and becomes one [`Steered`] event with the message's id. A sender who saw no
//! answer may send the message again: ekiden recognises the id, so a message acts once.

use serde::{Deserialize, Serialize};

use crate::ids::{MessageId, StageId};
use crate::settings::LimitsChanged;

/// A message to a run: in transit, and in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    pub message: MessageId,
    /// The sender, as the engine saw it; none until the engine has received the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Asker>,
    pub steering: Steering,
}

impl Steered {
    /// A message that is not sent yet.
    pub fn new(message: impl Into<MessageId>, steering: Steering) -> Self {
        Self {
            message: message.into(),
            from: None,
            steering,
        }
    }
}

/// The source of a message. Pids are those of that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Asker {
    /// Typed at the run's own terminal.
    Terminal,
    /// A command outside of every session.
    Command { pid: i32 },
    /// A command of the session that started this run.
    Session { pid: i32 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Steering {
    Stop {
        /// At once; otherwise the current session hands off first.
        now: bool,
    },
    /// The current session hands off now, and the next one continues.
    HandOff,
    /// Nothing begins after the current attempt.
    Pause,
    /// Starts what the pause held back.
    Unpause,
    /// Words for the next session to begin; in a plan, for that of each stage.
    Instruct {
        words: String,
    },
    /// The answer to the question with which a stage of a plan ended, while others continue.
    Answer {
        stage: StageId,
        words: String,
    },
    ChangeLimits(Box<LimitsChanged>),
}

impl Steering {
    /// The stop that it asks for, if it asks for one.
    pub fn stop(&self) -> Option<StopRequest> {
        let Self::Stop { now } = self else {
            return None;
        };
        Some(match now {
            true => StopRequest::AS_BY_CTRL_C_TWICE,
            false => StopRequest::Gently,
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum StopRequest {
    /// Hand off first, within [`crate::limits::STOP_GRACE`]; then stop resumably.
    Gently,
    Now {
        signal: i32,
    },
}

impl StopRequest {
    /// The effect of a second ctrl-c, and of `ekiden stop --now`.
    pub const AS_BY_CTRL_C_TWICE: Self = Self::Now { signal: 2 };
    /// The terminal went away.
    pub const HANGUP: Self = Self::Now { signal: 1 };

    /// After `before`, this request changes something: a gentle stop may become a stop now, but not the
    /// reverse.
    pub fn outweighs(self, before: Self) -> bool {
        matches!((before, self), (Self::Gently, Self::Now { .. }))
    }
}
