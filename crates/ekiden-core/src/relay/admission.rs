//! Whether an attempt may start now: the last check before every start.
//!
//! It may if nobody wants a pause, the budget has enough left for a session, and no quiet hours apply. The
//! session's share is then reserved: nothing else in the relay spends until the session is over. If other
//! stages have reserved the rest of the budget, the relay waits for what they leave unspent.

use super::{Next, NextAttempt, Relay, ReviewStep};
use crate::bounds::OnRateLimit;
use crate::budget::{Budget, Spend};
use crate::effect::{RelayEffect, StartMode};
use crate::ids::AttemptNumber;
use crate::limits;
use crate::outcome::{Outcome, WaitCause};
use crate::time::Timestamp;

/// Whether there is budget for an attempt.
#[derive(Debug, PartialEq)]
pub(super) enum Room {
    Enough,
    /// Other stages have reserved it, and may return it.
    Reserved,
    /// No budget is left, which ends the run with this outcome.
    None(Outcome),
}

impl Relay {
    /// Starts an attempt, holds it while a person wants a pause, waits until it may start, or ends the run
    /// because it may not. Every start goes through here.
    pub(super) fn admit(&mut self, at: Timestamp, next: NextAttempt) -> Vec<RelayEffect> {
        if let Some(end) = self.claim_of_old_task(&next) {
            let passed = self.last_pass();
            return self.reviewed(at, Some(end), passed);
        }
        if self.wishes.paused {
            return self.hold_back(at, next);
        }
        if next.is_new() && self.is_finished_by_hand() && !self.has_more_to_do() {
            return self.review(at, None, ReviewStep::Verification);
        }
        let next = self.by_one_with_budget(next);
        match self.budget_for(&next) {
            Room::Enough => {}
            Room::Reserved => return self.wait(at, limits::SHARE_WAIT, WaitCause::Budget, next),
            Room::None(outcome) => return self.end(outcome, Next::Attempt(next)),
        }
        if let Some(until) = self.held_until(at) {
            return self.wait(at, until.since(at), WaitCause::UsageLimit, next);
        }
        let free_at = self
            .candidates
            .free_at(at, &self.settings.agent.permissions);
        if next.purpose.is_work() && next.mode == StartMode::Fresh && free_at > at {
            return self.wait_for_candidates(at, free_at, next);
        }
        let bounds = &self.settings.bounds;
        match bounds.quiet_hours.until(at, bounds.utc_offset_secs) {
            Some(until) => self.wait(at, until.since(at), WaitCause::QuietHours, next),
            None => self.start(at, next),
        }
    }

    /// A person has ticked the last item, so a session would have nothing to do.
    fn is_finished_by_hand(&self) -> bool {
        self.items
            .as_ref()
            .is_some_and(|list| list.finished_by_hand)
    }

    /// A session has to begin even if all is done: it gets the user's words, or makes the claim that a reviewer judges.
    pub(super) fn has_more_to_do(&self) -> bool {
        self.wishes.task_edited || !self.wishes.words.is_empty() || self.is_reviewed()
    }

    /// All agents that could continue are out until then: waits for them, or ends the run if it may not wait that long.
    fn wait_for_candidates(
        &mut self,
        at: Timestamp,
        until: Timestamp,
        mut next: NextAttempt,
    ) -> Vec<RelayEffect> {
        let length = until.since(at);
        next.waited.0 = next.waited.0.saturating_add(length.0);
        let outcome = match self.settings.bounds.on_rate_limit {
            OnRateLimit::Stop => Outcome::RateLimited { until },
            OnRateLimit::Wait if next.waited > self.settings.wait_max => {
                Outcome::LimitTooFar { until }
            }
            OnRateLimit::Wait => return self.wait(at, length, WaitCause::UsageLimit, next),
        };
        self.end(outcome, Next::Attempt(next))
    }

    /// The UTC offset changed, so quiet hours may end at another time.
    pub(crate) fn utc_offset_changed(
        &mut self,
        at: Timestamp,
        utc_offset_secs: i32,
    ) -> Vec<RelayEffect> {
        self.settings.bounds.utc_offset_secs = utc_offset_secs;
        let Some(next) = self.waits_for(WaitCause::QuietHours) else {
            return Vec::new();
        };
        self.count_waiting(at);
        self.admit(at, next)
    }

    /// Other stages may have returned some of the budget. If the relay waits for that, and enough is left now, it begins.
    pub(crate) fn budget_changed(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        match self.waits_for(WaitCause::Budget) {
            Some(next) if self.budget_for(&next) != Room::Reserved => {
                self.count_waiting(at);
                self.admit(at, next)
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Whether enough is left of the run's budget, and of the budget of an agent that may begin.
    fn budget_for(&self, next: &NextAttempt) -> Room {
        if !is_too_little(self.part_of_run(), self.least_share(), next) {
            return self.budget_of_agents(next);
        }
        if self.is_reserved() {
            return Room::Reserved;
        }
        Room::None(Outcome::BudgetSpent {
            spent: self.spent_by_run(),
            budget: self.settings.bounds.run,
            agents: Vec::new(),
        })
    }
}

/// Nothing is left, or too little for a new session.
pub(super) fn is_too_little(left: Budget, least: Spend, next: &NextAttempt) -> bool {
    left.is_spent() || (next.id.attempt == AttemptNumber::FIRST && left.is_below(least))
}
