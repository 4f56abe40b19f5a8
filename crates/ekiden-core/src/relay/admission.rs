//! Whether an attempt may start now: the last question before every start.
//!
//! No person wants a pause, what is left of the run's budget is worth a session, and it is not quiet. The share that the
//! session may spend is set aside by this: nothing else of the relay spends until it is over.

use crate::budget::Budget;
use crate::effect::RelayEffect;
use crate::ids::AttemptNumber;
use crate::limits;
use crate::outcome::Outcome;
use crate::relay::{Next, NextAttempt, Phase, Relay, WaitCause};
use crate::time::Timestamp;

impl Relay {
    /// Starts an attempt, or holds it back while a person wants a pause, or waits until it may start, or
    /// ends the run because it may not. Every start goes through here.
    pub(super) fn admit(&mut self, at: Timestamp, next: NextAttempt) -> Vec<RelayEffect> {
        if self.paused {
            return self.hold_back(at, next);
        }
        if self.is_not_worth_it(&next) {
            let (spent, budget) = (self.spent_by_run(), self.settings.bounds.run);
            return self.end(Outcome::BudgetSpent { spent, budget }, Next::Attempt(next));
        }
        if let Some(until) = self.held_until(at) {
            return self.wait(at, until.since(at), WaitCause::UsageLimit, next);
        }
        match self.settings.bounds.quiet_hours.until(at, self.utc_offset_secs) {
            Some(until) => self.wait(at, until.since(at), WaitCause::QuietHours, next),
            None => self.start(next),
        }
    }

    /// Local time is another than was thought, so quiet may be over sooner or later.
    pub(crate) fn utc_offset_changed(&mut self, at: Timestamp, utc_offset_secs: i32) -> Vec<RelayEffect> {
        self.utc_offset_secs = utc_offset_secs;
        match &self.phase {
            Phase::Waiting { until, cause: WaitCause::QuietHours, next } => {
                let (rest, next) = (until.since(at), next.clone());
                self.tally.waiting.0 = self.tally.waiting.0.saturating_sub(rest.0);
                self.admit(at, next)
            }
            Phase::Waiting { .. }
            | Phase::Paused { .. }
            | Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Ended { .. } => Vec::new(),
        }
    }

    /// Local time's offset from UTC as it was recorded last, in seconds, if hours of the day matter.
    #[must_use]
    pub fn utc_offset_secs(&self) -> Option<i32> {
        (!self.settings.bounds.quiet_hours.is_empty()).then_some(self.utc_offset_secs)
    }

    /// Nothing is left of the run's budget, or for a new session too little.
    fn is_not_worth_it(&self, next: &NextAttempt) -> bool {
        let left = self.part_of_run();
        left.is_spent() || (next.id.attempt == AttemptNumber::FIRST && self.is_too_little(left))
    }

    fn is_too_little(&self, left: Budget) -> bool {
        let sessions = u64::from(self.tally.sessions).max(1);
        let too_little = |left: Option<u64>, spent: u64| {
            left.is_some_and(|left| left.saturating_mul(limits::SHARE_MIN_PART) < spent / sessions)
        };
        too_little(left.micro_usd, self.tally.cost_micro_usd) || too_little(left.tokens, self.tally.tokens)
    }
}
