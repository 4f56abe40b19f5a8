//! The phases of a relay's life, each with only the data that exists in it.

use super::Session;
use super::judging::Crash;
use crate::agent::Purpose;
use crate::budget::Spend;
use crate::effect::StartMode;
use crate::ends::{EndCause, EndClass};
use crate::event::Traces;
use crate::handoff::{Handoff, Status};
use crate::ids::{AttemptId, AttemptNumber, ConversationId};
use crate::outcome::{Outcome, WaitCause};
use crate::time::{Millis, Timestamp};

/// The phase of a relay's life.
#[derive(Debug, Clone, PartialEq)]
pub enum Phase {
    Planned,
    /// An attempt is ordered or in progress.
    Running(Box<Session>),
    /// The work tree is surveyed and verified.
    Reviewing {
        after: Reviewed,
        step: ReviewStep,
    },
    /// Nothing happens until a time.
    Waiting {
        /// When the wait began.
        since: Timestamp,
        until: Timestamp,
        cause: WaitCause,
        next: NextAttempt,
    },
    /// A person wants nothing to begin.
    Paused {
        /// When the pause began; each engine starts to count again.
        since: Timestamp,
        next: NextAttempt,
    },
    /// Over, until somebody resumes it.
    Ended {
        outcome: Outcome,
        next: Next,
    },
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
    /// The conversation continues only to hand off: it was cut off at or above L2.
    pub hand_off: bool,
    /// Attempts at this session that failed through the agent's own fault.
    pub failures: u32,
    /// The sum of waits for a limit since the agent last did something. So a limit that is never lifted ends
    /// the run, as one that is lifted too late does.
    pub waited: Millis,
    /// The usage of earlier attempts at this session.
    pub consumed: Consumed,
}

impl NextAttempt {
    /// No attempt at its session has begun.
    pub(super) fn is_new(&self) -> bool {
        self.purpose.is_work() && self.id.attempt == AttemptNumber::FIRST
    }

    /// The same attempt in a new conversation, which gets its full time and turns again, since it starts the work again;
    /// what was spent stays spent.
    pub(super) fn afresh(self, conversation: ConversationId) -> Self {
        Self {
            conversation,
            mode: StartMode::Fresh,
            hand_off: false,
            consumed: Consumed {
                spend: self.consumed.spend,
                ..Consumed::default()
            },
            ..self
        }
    }

    /// The waits, including an outage that another agent works through instead. If all agents hit the outage
    /// in turn, the service is asked less and less often, and finally no more.
    pub(super) fn waited_through(&self, at: Timestamp, cause: &EndCause) -> Millis {
        if cause.class() == EndClass::Wait && !cause.is_limit() {
            Millis(self.waited.0.saturating_add(cause.wait(at, self.waited).0))
        } else {
            self.waited
        }
    }
}

/// How much of its bounds, and of its conversation, the attempts at one session used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Consumed {
    pub spend: Spend,
    /// Working time in this conversation.
    pub time: Millis,
    /// Responses of the model in this conversation.
    pub turns: u32,
    pub compacted: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SessionEnd {
    pub attempt: AttemptId,
    /// Its handoff, or the usable part of an invalid one.
    pub handoff: Result<Handoff, Box<Handoff>>,
    /// Why the last attempt ended.
    pub cause: EndCause,
    pub traces: Traces,
    pub(super) crash: Crash,
    /// It ended because its context was full.
    pub(super) is_late: bool,
    pub(super) compacted: bool,
    pub(super) facts_added: usize,
    /// Its work was committed, as far as possible.
    pub committed: bool,
    /// The work tree is as it was before the session, as far as ekiden can see.
    pub unchanged: bool,
    /// The tree was surveyed, but the verification was cancelled. The next survey adds to this one.
    pub surveyed: bool,
    /// The tree changed before a reviewer began, and this session's claim was verified once more.
    pub(super) verified_again: bool,
}

impl SessionEnd {
    /// The status in its handoff.
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
