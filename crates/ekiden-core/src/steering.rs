//! Steering: what a person asks of a running run from outside.
//!
//! A message reaches the engine and becomes one [`Steered`] event with the message's id. Whoever sent it and
//! saw no answer may send it again: the id tells that it is known, so a message acts once.

use serde::{Deserialize, Serialize};

use crate::ids::{MessageId, StageId};
use crate::settings::LimitsChanged;

/// A message to a run: on its way, and in the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    pub message: MessageId,
    /// Who asked, as the engine saw it. A message on its way names nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Asker>,
    pub steering: Steering,
}

/// Where a message came from. Pids are those of that time.
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
        /// At once; else the session at work hands off first.
        now: bool,
    },
    /// The session at work hands off now, and the next one goes on.
    HandOff,
    /// Nothing begins any more after the attempt at work.
    Pause,
    /// What the pause held back begins.
    Unpause,
    /// The session that begins next is told something; in a plan that of each stage.
    Instruct { words: String },
    /// The question with which a stage of a plan ended is answered, while others go on.
    Answer { stage: StageId, words: String },
    /// Other limits hold from now on.
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
        /// The signal that asked for it.
        signal: i32,
    },
}

impl StopRequest {
    /// What a second ctrl-c asks for; so does `ekiden stop --now`.
    pub const AS_BY_CTRL_C_TWICE: Self = Self::Now { signal: 2 };
    /// The terminal went away.
    pub const HANGUP: Self = Self::Now { signal: 1 };

    /// After `before` this request changes something: whoever asked gently may insist, and nobody
    /// takes an insistence back.
    pub fn outweighs(self, before: Self) -> bool {
        matches!((before, self), (Self::Gently, Self::Now { .. }))
    }
}
