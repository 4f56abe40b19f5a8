//! What a session may use, and what follows when it is used up: money, tokens, turns, time, and a window
//! that is full before the work begins.
//!
//! Each bound ends in a handoff first. At [`limits::SPEND_ORDER_PERCENT`] of the share, after the last turn,
//! or when the time is up, the session is told to hand off. Then money and tokens end the turn when all is
//! spent, and the process when it spends still more; time and turns leave a grace. What the session has
//! written by then counts; else there is a rescue.

use crate::budget::{Budget, Crossing, Mark, Measure, Prices, Spend};
use crate::effect::{RelayEffect, StartMode};
use crate::ends::EndCause;
use crate::event::Counters;
use crate::guard::Level;
use crate::ids::AttemptId;
use crate::limits;
use crate::outcome::Outcome;
use crate::prompt::OrderReason;
use crate::relay::{NextAttempt, Phase, Relay, Session, Talk, Used};
use crate::time::{Millis, Timestamp};

/// What an attempt may use, set aside before it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Money and tokens.
    pub budget: Budget,
    /// Responses of the model, before it is told to hand off.
    pub turns: Option<u32>,
}

/// The bound by which a session is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// Its budget is spent.
    Budget,
    /// Its turns are.
    Turns,
    /// Its time is up.
    Time,
}

impl Relay {
    /// What the attempt at work may use.
    #[must_use]
    pub fn share(&self) -> Option<Share> {
        self.at_work().map(|session| session.share)
    }

    /// What models cost, as far as it is known.
    #[must_use]
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// What all its sessions have spent by now, as far as it is known.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let of_session = self.at_work().map(|session| session.talk.spend).unwrap_or_default();
        self.tally.spend().plus(of_session)
    }

    /// The run's budget, as it stands.
    #[must_use]
    pub fn run_budget(&self) -> Budget {
        self.settings.bounds.run
    }

    /// What an attempt of which we know this cost: never less than what was known while it ran.
    #[must_use]
    pub fn charge(&self, attempt: AttemptId, counters: Counters) -> Counters {
        match self.at_work().filter(|session| session.attempt.id == attempt) {
            Some(session) => counters.at_least(session.talk.spend),
            None => counters,
        }
    }

    /// Why an attempt ended, where that was a bound of ours. An agent that we end says only that it was.
    #[must_use]
    pub fn cause_of(&self, attempt: AttemptId, cause: EndCause) -> EndCause {
        let session = self.at_work().filter(|session| session.attempt.id == attempt);
        let bound = session.and_then(|session| session.talk.bound);
        let by_us = matches!(cause, EndCause::Stopped | EndCause::Interrupted);
        match bound.filter(|_| by_us) {
            Some(Bound::Budget) => EndCause::BudgetSpent,
            Some(Bound::Turns) => EndCause::TurnLimit,
            Some(Bound::Time) => EndCause::TimeUp,
            None => cause,
        }
    }

    /// Another attempt at this session could spend nothing.
    pub(super) fn is_out_of_budget(&self, next: &NextAttempt) -> bool {
        self.share_of(next).budget.is_spent()
    }

    pub(super) fn share_of(&self, next: &NextAttempt) -> Share {
        let bounds = &self.settings.bounds;
        let of_run = self.part_of_run();
        Share {
            budget: bounds.session.after(next.used.spend).within(of_run),
            turns: bounds.turns_max.map(|turns| turns.saturating_sub(next.used.turns)),
        }
    }

    /// The attempt at work has spent so much.
    pub(super) fn spend_crossed(
        &mut self,
        at: Timestamp,
        attempt: AttemptId,
        crossing: Crossing,
    ) -> Vec<RelayEffect> {
        let Phase::Running(session) = &mut self.phase else { return Vec::new() };
        session.talk.spend = session.talk.spend.at_least(crossing.spend);
        match (crossing.mark, crossing.measure) {
            (Mark::Nearly, Measure::Money | Measure::Tokens) => self.give_order(attempt, OrderReason::Budget),
            (Mark::Nearly, Measure::Turns) => self.give_order(attempt, OrderReason::Time),
            // Whoever was told to go and works on is ended.
            (Mark::Spent | Mark::Beyond, _) if session.talk.closed => session.terminate(),
            (Mark::Spent, Measure::Turns) => session.end_turn(at, Bound::Turns),
            (Mark::Spent, Measure::Money | Measure::Tokens) => session.end_turn(at, Bound::Budget),
            (Mark::Beyond, _) => session.terminate(),
        }
    }

    /// The turn of a session that has used all it may is over, so it goes. A message that waits in the agent
    /// would open another turn: then the process is ended.
    pub(super) fn leave_used_up(&mut self) -> Option<Vec<RelayEffect>> {
        let Phase::Running(session) = &mut self.phase else { return None };
        if session.talk.closed || !session.talk.is_used_up() {
            return None;
        }
        if session.talk.undelivered {
            return Some(session.terminate());
        }
        session.talk.closed = true;
        Some(vec![RelayEffect::Close { attempt: session.attempt.id }])
    }

    /// A time has come for the session at work.
    pub(super) fn session_due(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        let Phase::Running(session) = &mut self.phase else { return Vec::new() };
        if session.stop_by.is_some_and(|by| by <= at) {
            return session.terminate();
        }
        if session.order_by.is_none_or(|by| at < by) {
            return Vec::new();
        }
        session.order_by = None;
        session.stop_by.get_or_insert(at + limits::TIMEOUT_GRACE);
        session.talk.bound.get_or_insert(Bound::Time);
        let attempt = session.attempt.id;
        self.give_order(attempt, OrderReason::Time)
    }
}

impl Session {
    /// The next time at which something is to be done though nothing happens.
    pub(super) fn wakes_at(&self) -> Option<Timestamp> {
        self.stop_by.into_iter().chain(self.order_by).min()
    }

    /// Something was heard of the attempt. Its time begins with the first word of it.
    pub(super) fn hear(&mut self, at: Timestamp, timeout: Option<Millis>) {
        if let Some((_, last)) = &mut self.heard {
            *last = at;
            return;
        }
        self.heard = Some((at, at));
        self.order_by = self.time_up(timeout, at);
    }

    /// Another limit of its time, unless the order has come because of the one before.
    pub(super) fn limit_time(&mut self, timeout: Option<Millis>) {
        if let Some((since, _)) = self.heard
            && self.talk.bound != Some(Bound::Time)
        {
            self.order_by = self.time_up(timeout, since);
        }
    }

    fn time_up(&self, timeout: Option<Millis>, since: Timestamp) -> Option<Timestamp> {
        timeout.map(|timeout| since + Millis(timeout.0.saturating_sub(self.attempt.used.time.0)))
    }

    /// What this attempt and those before it used. A conversation that begins anew has its time and turns
    /// anew, since it begins the work anew; what was spent stays spent.
    pub(super) fn used(&self, mode: StartMode, counters: &Counters) -> Used {
        let before = self.attempt.used;
        let spend = before.spend.plus(counters.spend());
        // An engine that died cannot tell how long the attempt ran.
        let heard = self.heard.map_or(Millis(0), |(since, last)| last.since(since));
        let time = before.time.0.saturating_add(counters.duration.max(heard).0);
        match mode {
            StartMode::Fresh => Used { spend, ..Used::default() },
            StartMode::Resume => Used {
                spend,
                time: Millis(time),
                turns: before.turns.saturating_add(counters.turns),
                compacted: self.is_compacted(),
            },
        }
    }

    /// The first response of a new conversation filled so much of the window. The turn is ended rather
    /// than the process, so that the agent still tells what it cost.
    pub(super) fn baseline(
        &mut self,
        at: Timestamp,
        level: Level,
        usage_tokens: u64,
        filled_by: &[(String, u64)],
    ) -> Vec<RelayEffect> {
        if level < Level::L2 || self.talk.closed {
            return Vec::new();
        }
        self.talk.overfull = Some((usage_tokens, filled_by.to_vec()));
        self.cut_turn(at)
    }

    /// The turn ends now, and with it the session: what it wrote counts.
    fn end_turn(&mut self, at: Timestamp, bound: Bound) -> Vec<RelayEffect> {
        if self.talk.closed {
            return Vec::new();
        }
        self.talk.bound = Some(bound);
        self.cut_turn(at)
    }

    fn cut_turn(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        let by = at + limits::SPENT_GRACE;
        self.stop_by = Some(self.stop_by.map_or(by, |before| before.min(by)));
        vec![RelayEffect::Interrupt { attempt: self.attempt.id }]
    }
}

impl Talk {
    /// Nothing may be asked of the session any more, since an answer would cost what it has not, or find
    /// no room.
    pub(super) fn is_used_up(&self) -> bool {
        self.overfull.is_some() || matches!(self.bound, Some(Bound::Budget | Bound::Turns))
    }

    /// How the run ends if the window was too full for any work.
    pub(super) fn window_too_full(&self) -> Option<Outcome> {
        let (usage_tokens, filled_by) = self.overfull.clone()?;
        Some(Outcome::WindowTooFull { usage_tokens, filled_by })
    }
}
