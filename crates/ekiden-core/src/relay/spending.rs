//! The bounds of a session, and what happens at each of them: money, tokens, turns, time, and a window that
//! is full before the work begins.
//!
//! Each bound first leads to a handoff. At [`limits::SPEND_ORDER_PERCENT`] of the share, after the last turn,
//! or when the time is up, ekiden orders the handoff. When all money or tokens are spent, ekiden ends the
//! turn, and the process if it spends still more; for time and turns there is a grace. Whatever the session
//! has written by then counts; otherwise there is a rescue.

use super::attempt::Channel;
use super::{Consumed, NextAttempt, Relay, Session};
use crate::budget::{Crossing, Mark, Measure, Share, Spend};
use crate::effect::AttemptEffect;
use crate::ends::EndCause;
use crate::event::Counters;
use crate::guard::Level;
use crate::ids::AttemptId;
use crate::limits;
use crate::outcome::Outcome;
use crate::prompt::OrderReason;
use crate::settings::Settings;
use crate::time::{Millis, Timestamp};

/// The bound that is ending a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bound {
    Budget,
    Turns,
    Time,
    /// Its first response filled the window beyond L2: how much, and with what.
    Window(u64, Vec<(String, u64)>),
}

impl Relay {
    pub fn share(&self) -> Option<Share> {
        self.at_work().map(|session| session.share)
    }

    pub fn spend(&self) -> Spend {
        let of_session = self.at_work().map(|session| session.spend);
        self.totals.spend.plus(of_session.unwrap_or_default())
    }

    /// The cost of this attempt, and its duration. The agent's own figure replaces an estimate; without one,
    /// the cost is never less than what was known while it ran. If the engine was killed, the end of the
    /// stream may be lost, so the attempt's figures are never final.
    pub fn charge(&self, attempt: AttemptId, cause: &EndCause, counters: Counters) -> Counters {
        let Some(session) = self.session_of(attempt) else {
            return counters;
        };
        let heard = session.heard_for();
        match *cause == EndCause::EngineLost {
            true => Counters {
                spend: counters.spend.at_least(session.spend),
                duration: counters.duration.max(heard),
                ..counters
            },
            false => Counters {
                spend: session.spend.corrected(counters.spend),
                ..counters
            },
        }
    }

    /// When the process of the current attempt began.
    pub fn runs_since(&self) -> Option<Timestamp> {
        Some(self.at_work()?.process?.since)
    }

    /// The current attempt, if it has the order to hand off because its time is up.
    pub fn timed_out(&self) -> Option<AttemptId> {
        let session = self.at_work()?;
        (session.bound == Some(Bound::Time)).then_some(session.attempt.id)
    }

    /// Why an attempt ended, if a bound of ours ended it. An agent that we end only reports that it was
    /// ended.
    pub fn cause_of(&self, attempt: AttemptId, cause: EndCause) -> EndCause {
        let by_us = matches!(cause, EndCause::Stopped | EndCause::Interrupted);
        let session = self.session_of(attempt).filter(|_| by_us);
        match session.and_then(|session| session.bound.as_ref()) {
            Some(Bound::Budget) => EndCause::BudgetSpent,
            Some(Bound::Turns) => EndCause::TurnLimit,
            Some(Bound::Time) => EndCause::TimeUp,
            Some(Bound::Window(..)) | None => cause,
        }
    }

    /// The part of each share that is reserved for the handoff.
    pub fn handoff_spend(&self) -> Spend {
        match self.handoff_spend.is_nothing() {
            true => self.handoff_spend_before,
            false => self.handoff_spend,
        }
    }

    fn session_of(&self, attempt: AttemptId) -> Option<&Session> {
        self.at_work()
            .filter(|session| session.attempt.id == attempt)
    }

    /// Another attempt at this session could spend nothing, whatever other stages return.
    pub(super) fn is_out_of_budget(&self, next: &NextAttempt) -> bool {
        let of_session = self.settings.bounds.session.after(next.consumed.spend);
        let of_agent = self.unspent_of_agent(self.agent_name(next));
        let left = of_session.within(self.unspent_of_run());
        left.within(of_agent).is_spent()
    }

    pub(super) fn share_of(&self, next: &NextAttempt) -> Share {
        let bounds = &self.settings.bounds;
        let of_agent = self.part_of_agent(self.agent_name(next));
        let of_run = self.part_of_run().within(of_agent);
        Share {
            budget: bounds.session.after(next.consumed.spend).within(of_run),
            turns: bounds
                .turns_max
                .map(|turns| turns.saturating_sub(next.consumed.turns)),
            reserve: self.handoff_spend(),
        }
    }
}

impl Session {
    pub(super) fn spend_crossed(
        &mut self,
        at: Timestamp,
        crossing: Crossing,
        settings: &Settings,
    ) -> Option<AttemptEffect> {
        self.spend = self.spend.corrected(crossing.spend);
        let (reason, bound) = match crossing.measure {
            Measure::Money | Measure::Tokens => (OrderReason::Budget, Bound::Budget),
            Measure::Turns => (OrderReason::Time, Bound::Turns),
        };
        match crossing.mark {
            Mark::Nearly => {
                self.ordered_at.get_or_insert(self.spend);
                self.order(reason, settings)
            }
            Mark::Spent if self.channel != Channel::Closed => self.end_turn(at, bound),
            // An agent that was told to exit and still works is ended.
            Mark::Spent | Mark::Beyond => self.terminate(),
        }
    }

    /// A time has come.
    pub(super) fn due(&mut self, at: Timestamp, settings: &Settings) -> Option<AttemptEffect> {
        if self.stop_by.is_some_and(|by| by <= at) {
            return self.terminate();
        }
        self.order_by.take_if(|by| *by <= at)?;
        self.stop_by.get_or_insert(at + limits::TIMEOUT_GRACE);
        self.bound.get_or_insert(Bound::Time);
        self.order(OrderReason::Time, settings)
    }

    /// The next time at which something is due even if nothing happens.
    pub(super) fn wakes_at(&self) -> Option<Timestamp> {
        self.stop_by.into_iter().chain(self.order_by).min()
    }

    /// Applies a time limit, unless an earlier one has already led to the order.
    pub(super) fn limit_time(&mut self, timeout: Option<Millis>) {
        if let Some(process) = self.process
            && self.bound != Some(Bound::Time)
        {
            let before = self.attempt.consumed.time.0;
            let left = |timeout: Millis| Millis(timeout.0.saturating_sub(before));
            self.order_by = timeout.map(|timeout| process.since + left(timeout));
        }
    }

    /// The usage of this attempt and those before it, in its conversation.
    pub(super) fn consumed(&self, counters: &Counters) -> Consumed {
        let before = self.attempt.consumed;
        let time = counters.duration.max(self.heard_for());
        Consumed {
            spend: before.spend.plus(counters.spend),
            time: Millis(before.time.0.saturating_add(time.0)),
            turns: before.turns.saturating_add(counters.turns),
            compacted: self.is_compacted(),
        }
    }

    /// Its duration, up to when it was last heard of.
    fn heard_for(&self) -> Millis {
        let process = self.process;
        process.map_or(Millis(0), |process| process.heard.since(process.since))
    }

    /// How much of the window the first response of a new conversation filled.
    pub(super) fn baseline(
        &mut self,
        at: Timestamp,
        level: Level,
        usage_tokens: u64,
        filled_by: &[(String, u64)],
    ) -> Option<AttemptEffect> {
        let is_full = level >= Level::L2;
        is_full.then(|| self.end_turn(at, Bound::Window(usage_tokens, filled_by.to_vec())))?
    }

    /// Ends the turn, and with it the session: what it wrote counts, and what it is writing of the handoff. The process
    /// continues, so that the agent can still report its cost.
    fn end_turn(&mut self, at: Timestamp, bound: Bound) -> Option<AttemptEffect> {
        self.channel.open()?;
        if !self.is_used_up() {
            self.bound = Some(bound);
        }
        let by = at + limits::SPENT_GRACE;
        self.stop_by = Some(self.stop_by.map_or(by, |before| before.min(by)));
        Some(AttemptEffect::Interrupt)
    }

    /// Nothing more may be asked of the session, since an answer would exceed its budget or its room.
    pub(super) fn is_used_up(&self) -> bool {
        matches!(
            self.bound,
            Some(Bound::Budget | Bound::Turns | Bound::Window(..))
        )
    }

    /// How the run ends if the window was too full for any work.
    pub(super) fn window_too_full(&self) -> Option<Outcome> {
        let Some(Bound::Window(usage_tokens, filled_by)) = &self.bound else {
            return None;
        };
        Some(Outcome::WindowTooFull {
            usage_tokens: *usage_tokens,
            filled_by: filled_by.clone(),
        })
    }
}
