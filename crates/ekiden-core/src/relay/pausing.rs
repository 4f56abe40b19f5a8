//! The pause that a person wants: no agent starts until they unpause.
//!
//! The attempt at work goes on to its end, and what it left is looked at and verified as ever. What
//! would start then is held, a second attempt at the same session too: who pauses wants the work
//! tree or the budget for themselves. Waits go on meanwhile, and are held when they are over.
//!
//! The countdown of a guided relay is held at once: whoever pauses it has something to say.
//!
//! A pause survives the engine, since it is in the log. It ends with an unpause, or when a run that
//! was ended by something else is resumed: whoever resumes it wants it to go on.

use crate::effect::RelayEffect;
use crate::relay::{NextAttempt, Phase, Relay, WaitCause};
use crate::time::Timestamp;

impl Relay {
    /// Nothing shall begin from now on. Nothing happens to a relay that has ended.
    pub fn pause(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        self.paused = self.outcome().is_none();
        match &self.phase {
            Phase::Waiting { until, cause: WaitCause::Guided, next } => {
                let (rest, next) = (until.since(at), next.clone());
                self.tally.waiting.0 = self.tally.waiting.0.saturating_sub(rest.0);
                self.hold_back(at, next)
            }
            Phase::Waiting { .. }
            | Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => Vec::new(),
        }
    }

    /// What was held begins.
    pub fn unpause(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        self.paused = false;
        match &self.phase {
            Phase::Paused { next, .. } => {
                let next = next.clone();
                self.leave_pause(at);
                self.admit(at, next)
            }
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Ended { .. } => Vec::new(),
        }
    }

    /// The run is paused or not, whatever it was when this relay ended.
    pub(crate) fn share_pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// A person wants nothing to begin, whether anything is held already or not.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Holds what would begin. Published files are made durable, as before every time in which a
    /// person may edit them.
    pub(super) fn hold_back(&mut self, at: Timestamp, next: NextAttempt) -> Vec<RelayEffect> {
        self.phase = Phase::Paused { since: at, next };
        vec![RelayEffect::PublishDurably]
    }

    /// Counts the time that was spent in a pause.
    pub(super) fn leave_pause(&mut self, at: Timestamp) {
        if let Phase::Paused { since, .. } = &self.phase {
            self.tally.waiting.0 = self.tally.waiting.0.saturating_add(at.since(*since).0);
        }
    }
}
