//! The phases of a relay's life, each with what exists in it and nothing else.

use serde::{Deserialize, Serialize};

use crate::budget::Spend;
use crate::effect::StartMode;
use crate::ends::EndCause;
use crate::event::Traces;
use crate::handoff::Handoff;
use crate::ids::{AttemptId, ConversationId};
use crate::outcome::Outcome;
use crate::relay::judging::Crash;
use crate::relay::{Prompt, Share, Talk};
use crate::time::{Millis, Timestamp};

/// Where a relay is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Not begun.
    Planned,
    /// Before session 1: what is in the tree, and does the verification pass already?
    Preparing(Looking),
    /// An attempt is ordered or at work.
    Running(Box<Session>),
    /// A session is over; its result is looked at.
    Reviewing {
        /// What it left.
        end: Box<SessionEnd>,
        /// What is being looked at.
        looking: Looking,
    },
    /// Nothing happens until a time.
    Waiting {
        /// Until when.
        until: Timestamp,
        /// Why.
        cause: WaitCause,
        /// What comes then.
        next: NextAttempt,
    },
    /// A person wants nothing to begin.
    Paused {
        /// Since when nothing happens; counted anew by each engine.
        since: Timestamp,
        /// What comes then.
        next: NextAttempt,
    },
    /// Over, until somebody resumes it.
    Ended {
        /// How.
        outcome: Outcome,
        /// Where a resume goes on.
        next: Next,
    },
}

/// What is being looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Looking {
    /// What a session did, to commit it.
    Commit,
    /// The work tree.
    Survey,
    /// The verification.
    Verification,
}

/// Why a relay waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// A usage limit; the time is its reset and a buffer.
    UsageLimit,
    /// The service or the agent failed; trying at once would likely fail again.
    Failure,
    /// The pause between sessions that the user wants.
    Pause,
    /// Hours in which no session starts.
    QuietHours,
    /// The countdown before a session of a guided relay.
    Guided,
}

/// Where a resume goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// At the beginning.
    Prepare,
    /// At the look at a session that is over.
    Review(Box<SessionEnd>),
    /// At an attempt.
    Attempt(NextAttempt),
}

/// The attempt that comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextAttempt {
    /// Its number.
    pub id: AttemptId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// Whether the conversation is new.
    pub mode: StartMode,
    /// Attempts at this session that the agent lost by its own fault.
    pub failures: u32,
    /// Waits for a limit since the agent last did something, in one sum: a limit that is never lifted
    /// ends the run as a late one does.
    pub waited: Millis,
    /// What earlier attempts at this session used.
    pub used: Used,
}

/// What attempts at one session used of its bounds, and of its conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Money and tokens.
    pub spend: Spend,
    /// Time at work in this conversation.
    pub time: Millis,
    /// Responses of the model in this conversation.
    pub turns: u32,
    /// This conversation was compacted.
    pub compacted: bool,
}

/// A session at work.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The attempt at work.
    pub attempt: NextAttempt,
    /// What it is given. Kept, since it takes a while to write.
    pub prompt: Prompt,
    /// The agent's process, once it runs.
    pub pid: Option<u32>,
    /// The conversation with it.
    pub talk: Talk,
    /// What it may spend, set aside when it began.
    pub share: Share,
    /// The process is told to end at this time: the grace after a gentle stop, or when its time or its
    /// budget is up.
    pub stop_by: Option<Timestamp>,
    /// The session is told to hand off at this time.
    pub order_by: Option<Timestamp>,
    /// Since when its process runs, and when it was last heard of.
    pub heard: Option<(Timestamp, Timestamp)>,
}

impl Session {
    /// What the agent knows of its work is a summary: the handoff came too late.
    pub(super) fn is_compacted(&self) -> bool {
        self.attempt.used.compacted || self.talk.compacted
    }

    /// The attempt ended without ever having a process.
    pub(super) fn never_ran(&self, cause: &EndCause) -> bool {
        self.pid.is_none() && matches!(cause, EndCause::NeverStarted(_))
    }
}

/// What a session left when it was over.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    /// Its last attempt.
    pub attempt: AttemptId,
    /// Its handoff, if it left a valid one.
    pub handoff: Option<Handoff>,
    /// Why the last attempt ended.
    pub cause: EndCause,
    /// What a program saw of it.
    pub traces: Traces,
    /// Whether it was lost to a crash.
    pub(super) crash: Crash,
    /// Its conversation was compacted.
    pub(super) compacted: bool,
    /// Facts that it added.
    pub(super) facts_added: usize,
    /// What it did was committed since, as far as it could be.
    pub committed: bool,
    /// The work tree is as it was before the session, as far as can be told.
    pub unchanged: bool,
    /// The tree was looked at since, but the verification was cancelled. The next look adds to what
    /// that one found.
    pub surveyed: bool,
}
