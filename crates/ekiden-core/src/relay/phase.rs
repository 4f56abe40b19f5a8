//! The phases of a relay's life, each with what exists in it and nothing else.

use super::Session;
use super::judging::Crash;
use crate::agent::Purpose;
use crate::budget::Spend;
use crate::effect::StartMode;
use crate::ends::{EndCause, EndClass};
use crate::event::Traces;
use crate::handoff::{Handoff, Status};
use crate::ids::{AttemptId, ConversationId};
use crate::outcome::{Outcome, WaitCause};
use crate::time::{Millis, Timestamp};

/// Where a relay is in its life.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    /// Not begun.
    Planned,
    /// An attempt is ordered or at work.
    Running(Box<Session>),
    /// The work tree and the verification are looked at.
    Reviewing { after: Reviewed, step: ReviewStep },
    /// Nothing happens until a time.
    Waiting {
        until: Timestamp,
        cause: WaitCause,
        next: NextAttempt,
    },
    /// A person wants nothing to begin.
    Paused {
        /// Since when nothing happens; counted anew by each engine.
        since: Timestamp,
        next: NextAttempt,
    },
    /// Over, until somebody resumes it.
    Ended { outcome: Outcome, next: Next },
}

/// The session after which the project is looked at; none before the first.
pub type Reviewed = Option<Box<SessionEnd>>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewStep {
    Commit,
    Survey,
    Verification,
    /// The tree as a reviewer will find it.
    BeforeReviewer,
    /// The tree as the reviewer has left it.
    AfterReviewer,
}

/// Where a resume continues.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    Review(Reviewed),
    Attempt(NextAttempt),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextAttempt {
    pub id: AttemptId,
    pub purpose: Purpose,
    pub conversation: ConversationId,
    pub mode: StartMode,
    /// The conversation goes on only to hand off: it was cut off at or above L2.
    pub hand_off: bool,
    /// Attempts at this session that the agent lost by its own fault.
    pub failures: u32,
    /// Waits for a limit since the agent last did something, in one sum: a limit that is never lifted
    /// ends the run as a late one does.
    pub waited: Millis,
    /// What earlier attempts at this session used.
    pub consumed: Consumed,
}

impl NextAttempt {
    /// The waits with an outage that another agent goes through instead: what all of them meet in turn is
    /// asked after ever more seldom, and not for ever.
    pub(super) fn waited_through(&self, at: Timestamp, cause: &EndCause) -> Millis {
        if cause.class() == EndClass::Wait && !cause.is_limit() {
            Millis(self.waited.0.saturating_add(cause.wait(at, self.waited).0))
        } else {
            self.waited
        }
    }
}

/// What attempts at one session used of its bounds, and of its conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumed {
    pub spend: Spend,
    /// Time at work in this conversation.
    pub time: Millis,
    /// Responses of the model in this conversation.
    pub turns: u32,
    pub compacted: bool,
}

/// What a session left when it was over.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    pub attempt: AttemptId,
    /// Its handoff, or what can be used of one that is not valid.
    pub handoff: Result<Handoff, Box<Handoff>>,
    /// Why the last attempt ended.
    pub cause: EndCause,
    pub traces: Traces,
    pub(super) crash: Crash,
    /// It ended for want of room in its context.
    pub(super) is_late: bool,
    pub(super) compacted: bool,
    pub(super) facts_added: usize,
    /// What it did was committed, as far as it could be.
    pub committed: bool,
    /// The work tree is as it was before the session, as far as can be seen.
    pub unchanged: bool,
    /// The tree was surveyed, but the verification was cancelled. The next survey adds to that one.
    pub surveyed: bool,
    /// The tree changed before a reviewer began, and what this session claims was verified once more.
    pub(super) verified_again: bool,
}

impl SessionEnd {
    /// The status that it left.
    pub(super) fn status(&self) -> Option<Status> {
        match &self.handoff {
            Ok(handoff) => Some(handoff.status.clone()),
            Err(left) if left.status != Status::InProgress => Some(left.status.clone()),
            Err(_) => None,
        }
    }

    /// It ran out of room while it worked on its item.
    pub(super) fn goes_on(&self) -> bool {
        self.is_late && self.traces.last_edit.is_some()
    }
}
