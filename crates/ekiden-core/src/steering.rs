//! Steering: what a person asks of a running run from outside.
//!
//! A message in the run's inbox becomes one [`Steered`] event with the message's id; only then is
//! the message removed. A crash in between shows it again, and the id tells that it is known, so a
//! message acts once.
//!
//! A message may have waited while no engine lived: it is *late*. A late stop is void, since the run
//! had stopped and somebody has resumed it on purpose; a late pause holds, since it is about what
//! begins next, whoever begins it. So do late words for the next session and late limits.

use serde::{Deserialize, Serialize};

use crate::event::{LimitsChanged, StopRequest};
use crate::ids::MessageId;

/// A message was taken from the inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steered {
    /// Which.
    pub message: MessageId,
    /// It was sent while no engine heard it.
    pub late: bool,
    /// What it asks for.
    pub steering: Steering,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Steering {
    /// The run stops.
    Stop {
        /// At once; else the session at work hands over first.
        now: bool,
    },
    /// Nothing begins any more after the attempt at work.
    Pause,
    /// What the pause held back begins.
    Unpause,
    /// The session that begins next is told something.
    Instruct {
        /// The user's words.
        words: String,
    },
    /// Other limits hold from now on.
    ChangeLimits(Box<LimitsChanged>),
}

impl Steering {
    /// The stop that it asks for, if it asks for one.
    #[must_use]
    pub fn stop(&self) -> Option<StopRequest> {
        match self {
            Self::Stop { now: false } => Some(StopRequest::Gently),
            Self::Stop { now: true } => Some(StopRequest::AS_BY_CTRL_C_TWICE),
            Self::Pause | Self::Unpause | Self::Instruct { .. } | Self::ChangeLimits(_) => None,
        }
    }
}
