//! What can be asked of a relay.

use crate::bounds::Bounds;
use crate::event::{Check, Survey};
use crate::guard::Level;
use crate::handoff::{HandoffFiles, Inspection, inspect_after};
use crate::ids::{AttemptId, AttemptNumber, ConversationId, SessionNumber};
use crate::knowledge::Knowledge;
use crate::manifest::Stage;
use crate::outcome::Outcome;
use crate::relay::judging::Bench;
use crate::relay::{Baseline, LastSession, Looking, Next, Phase, Relay, Session, Tally};
use crate::settings::{AgentSpec, Settings};
use crate::time::Timestamp;

impl Relay {
    /// Where it is.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The session at work.
    pub(super) fn at_work(&self) -> Option<&Session> {
        match &self.phase {
            Phase::Running(session) => Some(session),
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => None,
        }
    }

    /// The session that is at work, waits, was broken off or was last over; the first before there is one.
    #[must_use]
    pub fn session(&self) -> SessionNumber {
        match &self.phase {
            Phase::Running(session) => session.attempt.id.session,
            Phase::Waiting { next, .. } | Phase::Paused { next, .. } => next.id.session,
            Phase::Reviewing { end, .. } | Phase::Ended { next: Next::Review(end), .. } => {
                end.attempt.session
            }
            Phase::Ended { next: Next::Attempt(next), .. } if next.id.attempt > AttemptNumber::FIRST => {
                next.id.session
            }
            Phase::Planned | Phase::Preparing(_) | Phase::Ended { .. } => {
                self.last.as_ref().map_or(SessionNumber::FIRST, |last| last.session)
            }
        }
    }

    /// The number of the last session that may begin.
    #[must_use]
    pub fn session_max(&self) -> u32 {
        self.quota.from + self.quota.max
    }

    /// What it may use, as it stands.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.settings.bounds
    }

    /// How it ended, if it did.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended { outcome, .. } => Some(outcome),
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Paused { .. } => None,
        }
    }

    /// The stage that it pursues.
    #[must_use]
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// By which settings it works, as they stand.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The agent that works, as it may work now.
    #[must_use]
    pub fn agent(&self) -> &AgentSpec {
        &self.settings.agent
    }

    /// What every later session should know.
    #[must_use]
    pub fn knowledge(&self) -> &Knowledge {
        &self.knowledge
    }

    /// What the next session goes on from.
    #[must_use]
    pub fn last(&self) -> Option<&LastSession> {
        self.last.as_ref()
    }

    /// What the verification said before session 1.
    #[must_use]
    pub fn baseline(&self) -> Baseline {
        self.baseline
    }

    /// The verification's last result.
    #[must_use]
    pub fn check(&self) -> Option<&Check> {
        self.check.as_ref()
    }

    /// The last look at the work tree.
    #[must_use]
    pub fn survey(&self) -> Option<&Survey> {
        self.survey.as_ref()
    }

    /// The commit that was checked out when the run began, where sessions are judged.
    #[must_use]
    pub fn first_commit(&self) -> Option<&str> {
        self.bench.as_ref().and_then(Bench::first_commit)
    }

    /// Sums for people.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Reads the handoff as it stands, beside the one before it.
    #[must_use]
    pub fn inspect(&self, files: &HandoffFiles) -> Inspection {
        inspect_after(files, &self.settings.marker, self.next_prompt.as_deref())
    }

    /// Until when it waits, if it does.
    #[must_use]
    pub fn waits_until(&self) -> Option<Timestamp> {
        match &self.phase {
            Phase::Waiting { until, .. } => Some(*until),
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => None,
        }
    }

    /// Somebody wants it to stop, and it has not stopped yet.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.is_some() && self.outcome().is_none()
    }

    /// The attempt at work and its conversation.
    #[must_use]
    pub fn attempt(&self) -> Option<(AttemptId, ConversationId)> {
        self.at_work().map(|session| (session.attempt.id, session.attempt.conversation))
    }

    /// The attempt's process is known to have run, so its handoff directory had been emptied.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.at_work().is_some_and(|session| session.pid.is_some())
    }

    /// An attempt is ordered and its process not known to run yet: somebody waits for it.
    #[must_use]
    pub fn is_starting(&self) -> bool {
        self.at_work().is_some_and(|session| session.pid.is_none())
    }

    /// No agent is there and one's process is about to begin: what can wait does.
    #[must_use]
    pub fn is_between_agents(&self) -> bool {
        let is_looking = matches!(
            &self.phase,
            Phase::Preparing(Looking::Survey) | Phase::Reviewing { looking: Looking::Survey, .. }
        );
        is_looking || self.is_starting()
    }

    /// How full the working session's context is.
    #[must_use]
    pub fn level(&self) -> Level {
        self.at_work().map_or(Level::L0, |session| session.talk.level)
    }
}
