//! Queries on a relay, in addition to its fields.

use super::{Next, Phase, Purpose, Relay, ReviewStep, Session};
use crate::agent::AgentSpec;
use crate::handoff::{HandoffFiles, Inspection, OpenItems, inspect_after};
use crate::ids::{AttemptId, AttemptNumber, ConversationId, SessionNumber};
use crate::outcome::Outcome;
use crate::time::Timestamp;

impl Relay {
    pub(super) fn at_work(&self) -> Option<&Session> {
        let Phase::Running(session) = &self.phase else {
            return None;
        };
        Some(session)
    }

    /// The session that is working, waiting or interrupted, or the last finished one; before there is any,
    /// the first.
    pub fn session(&self) -> SessionNumber {
        let last = self.last.as_ref().map(|_| self.newest());
        match &self.phase {
            Phase::Running(session) => session.attempt.id.session,
            Phase::Waiting { next, .. } | Phase::Paused { next, .. } => next.id.session,
            Phase::Reviewing {
                after: Some(end), ..
            } => end.attempt.session,
            // A reviewer may have come after it.
            Phase::Ended {
                next: Next::Review(Some(end)),
                ..
            } => end.attempt.session.max(self.newest()),
            Phase::Ended {
                next: Next::Attempt(next),
                ..
            } if next.id.attempt > AttemptNumber::FIRST => next.id.session,
            Phase::Planned | Phase::Reviewing { after: None, .. } | Phase::Ended { .. } => {
                last.unwrap_or(SessionNumber::FIRST)
            }
        }
    }

    /// The items in the last handoff, even if a stop came before the handoff was taken.
    pub fn open_items(&self) -> Option<&OpenItems> {
        let mut items = self.last.as_ref().and_then(|last| last.open_items.as_ref());
        if let Phase::Ended {
            next: Next::Review(Some(end)),
            ..
        } = &self.phase
            && self.items.is_none()
        {
            let left = end.handoff.as_ref().unwrap_or_else(|rest| rest);
            items = left.open_items.as_ref().or(items);
        }
        items
    }

    /// The purpose of the session that is working, or waits to begin.
    pub fn purpose(&self) -> Purpose {
        match &self.phase {
            Phase::Running(session) => session.attempt.purpose,
            Phase::Waiting { next, .. } | Phase::Paused { next, .. } => next.purpose,
            Phase::Reviewing { step, .. } => match step {
                ReviewStep::BeforeReviewer | ReviewStep::AfterReviewer => Purpose::Review,
                ReviewStep::Commit | ReviewStep::Survey | ReviewStep::Verification => Purpose::Work,
            },
            Phase::Planned | Phase::Ended { .. } => Purpose::Work,
        }
    }

    pub fn agent(&self) -> &AgentSpec {
        self.settings.agent_for(self.purpose())
    }

    /// All agents that may work in it: its own agent, the fallbacks, the reviewer.
    pub fn agents(&self) -> impl Iterator<Item = &AgentSpec> {
        let workers = self.candidates.agents.iter();
        workers.chain(self.settings.reviewer.as_deref())
    }

    /// Agents other than the run's own may work in it.
    fn has_several(&self) -> bool {
        self.candidates.has_others() || self.stage.part.agent.is_some()
    }

    /// The name, for people, of the agent that works in it, if it need not be the run's own.
    pub fn one_of_several(&self) -> Option<String> {
        let is_named = self.has_several() || self.purpose() == Purpose::Review;
        is_named.then(|| self.agent().label())
    }

    /// The agents of finished attempts, if they need not be the run's own.
    pub fn worked(&self) -> impl Iterator<Item = &str> {
        let has_several = self.has_several();
        self.spent_by.agents().filter(move |_| has_several)
    }

    /// The number of the last session that may begin.
    pub fn session_max(&self) -> u32 {
        self.session_limit.from + self.session_limit.max
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        let Phase::Ended { outcome, .. } = &self.phase else {
            return None;
        };
        Some(outcome)
    }

    /// The work is claimed to be done, the verification agrees, and no review came to be.
    pub fn lacks_only_review(&self) -> bool {
        matches!(
            &self.phase,
            Phase::Ended {
                outcome,
                next: Next::Review(Some(_)),
            } if !matches!(outcome, Outcome::Stopped { .. } | Outcome::Blocked { .. })
        )
    }

    /// Reads the current handoff, comparing it with the one before.
    pub fn inspect(&self, files: &HandoffFiles) -> Inspection {
        let last = self.last.as_ref();
        let before = last.and_then(|last| last.next_prompt.as_deref());
        inspect_after(files, &self.settings.marker, before, Some(&self.knowledge))
    }

    /// The end of its wait, if it waits.
    pub fn waits_until(&self) -> Option<Timestamp> {
        let Phase::Waiting { until, .. } = self.phase else {
            return None;
        };
        Some(until)
    }

    /// It waits, is paused or has ended: none of its agents works, and none is about to start.
    pub fn is_idle(&self) -> bool {
        matches!(
            self.phase,
            Phase::Waiting { .. } | Phase::Paused { .. } | Phase::Ended { .. }
        )
    }

    /// Only a person can have changed its list of items: the last session is over and was looked at, and no other has
    /// begun.
    pub fn takes_items(&self) -> bool {
        let (Phase::Waiting { next, .. }
        | Phase::Paused { next, .. }
        | Phase::Ended {
            next: Next::Attempt(next),
            ..
        }) = &self.phase
        else {
            return false;
        };
        next.id.attempt == AttemptNumber::FIRST && self.seen.survey.is_some()
    }

    pub fn attempt(&self) -> Option<(AttemptId, ConversationId)> {
        self.at_work()
            .map(|session| (session.attempt.id, session.attempt.conversation))
    }

    /// The attempt's process is known to have run, so its handoff directory had been emptied.
    pub fn has_started(&self) -> bool {
        self.at_work()
            .is_some_and(|session| session.process.is_some())
    }

    /// No agent is running and one is about to start: time for deferred work.
    pub fn is_between_agents(&self) -> bool {
        let step = ReviewStep::Survey;
        let is_surveyed = matches!(&self.phase, Phase::Reviewing { step: now, .. } if *now == step);
        let session = self.at_work();
        is_surveyed || session.is_some_and(|session| session.process.is_none())
    }
}
