//! The run's budget and its usage limits among its stages.

use super::Run;
use crate::agent::AgentSpec;
use crate::budget::{AgentBudget, AgentSpends, Budget, Prices, Spend};
use crate::effect::Effect;
use crate::event::RelayEvent;
use crate::ids::StageId;
use crate::limits;
use crate::outcome::WaitCause;
use crate::relay::{Relay, SharedLimits, Totals};
use crate::time::Timestamp;

impl Run {
    /// What all its stages together may spend.
    pub fn budget(&self) -> Budget {
        self.settings.bounds.run
    }

    /// The sums of all relays. What an attempt at work has spent is in them as of its last mark.
    pub fn totals(&self) -> Totals {
        let relays = self.relays().map(|(_, relay)| Totals {
            spend: relay.spend(),
            ..relay.totals
        });
        relays.fold(self.before, Totals::plus)
    }

    /// What sessions that are over have spent.
    pub fn settled(&self) -> Spend {
        let relays = self.relays.values().map(|relay| relay.totals.spend);
        relays.fold(self.before.spend, Spend::plus)
    }

    /// How far the budgets of single agents are spent, in the order of their names. What an attempt at work has spent is
    /// in them as of its last mark.
    pub fn agent_budgets(&self) -> Vec<AgentBudget> {
        let mut spent_by = self.spent_by.clone();
        if self.header.fleet.is_some() {
            let relays = self.relays.values();
            spent_by = relays.fold(spent_by, |sum, relay| sum.plus(&relay.spent_by));
        }
        for (_, relay) in self.live() {
            let in_hand = relay.spend().since(relay.totals.spend);
            spent_by.add(&relay.agent().name, in_hand);
        }
        let of = |(agent, budget): (&String, &Budget)| {
            AgentBudget::new(agent, *budget, spent_by.of(agent))
        };
        self.settings.bounds.agents.iter().map(of).collect()
    }

    /// What models cost, as far as it is known.
    pub fn prices(&self) -> Prices {
        let mut prices = self.header.prices.clone();
        self.relays
            .values()
            .for_each(|relay| prices.merge(&relay.prices));
        prices
    }

    /// The most that a handoff of this agent cost.
    pub fn handoff_spend(&self, agent: &AgentSpec) -> Spend {
        let relays = self.relays.values();
        let relays = relays.filter(|relay| relay.settings.agent.is_same(agent));
        relays.fold(Spend::default(), |most, relay| {
            most.at_least(relay.handoff_spend())
        })
    }

    /// The last session that may begin; in a plan the sum over all stages.
    pub fn session_max(&self) -> u32 {
        self.relays().map(|(_, relay)| relay.session_max()).sum()
    }

    /// Lets stages begin that waited for budget which others have given back.
    pub(super) fn share_anew(&mut self, at: Timestamp) -> Vec<Effect> {
        let waiting = |relay: &Relay| relay.waits(WaitCause::Budget);
        let waiting = self.live().filter(|(_, relay)| waiting(relay));
        let stages: Vec<StageId> = waiting.map(|(stage, _)| stage.clone()).collect();
        let mut effects = Vec::new();
        for stage in stages {
            effects.extend(self.of_relay(at, &stage, |relay| relay.budget_changed(at)));
        }
        if !effects.is_empty() {
            effects.extend(self.carry_on(at));
        }
        effects
    }

    /// A usage limit holds all stages, also where the session that met it had handed off before and its
    /// relay need not wait. Where others can go on, a relay waits only when all of them are out.
    pub(super) fn learn_limit(&mut self, at: Timestamp, event: &RelayEvent) {
        if !self.settings.fallback.is_empty() {
            return;
        }
        let Some((_, ended)) = event.ended() else {
            return;
        };
        let Some(resets_at) = ended.cause.resets_at() else {
            return;
        };
        let until = resets_at + limits::RESET_BUFFER;
        // What is too far is for the next session that meets it to say.
        let is_near = at < resets_at && until.since(at) <= self.settings.wait_max;
        if is_near && self.header.manifest.plan.is_some() {
            self.plan.hold(until);
        }
    }

    /// What the other relays mean for one. Only those at work are looked at, which are few.
    pub(super) fn shared_limits_of(&self, stage: &StageId, at: Timestamp) -> SharedLimits {
        if self.header.manifest.plan.is_none() {
            return SharedLimits::default();
        }
        let own = self
            .relays
            .get(stage)
            .map(|relay| relay.totals)
            .unwrap_or_default();
        let (mut spent, mut reserved) = (self.spent.since(own.spend), Spend::default());
        let mut spent_by = self.spent_by.clone();
        if let Some(relay) = self.relays.get(stage) {
            spent_by = spent_by.since(&relay.spent_by);
        }
        let mut reserved_by = AgentSpends::default();
        let mut in_session = 0;
        for (_, relay) in self.live().filter(|(other, _)| *other != stage) {
            let in_hand = relay.spend().since(relay.totals.spend);
            spent = spent.plus(in_hand);
            reserved = reserved.plus(relay.set_aside());
            spent_by.add(&relay.agent().name, in_hand);
            reserved_by.add(&relay.agent().name, relay.set_aside());
            in_session += usize::from(relay.share().is_some());
        }
        // Those whose worktree is made, or whose session is reviewed, begin one soon.
        let sharers = self.plan.may_begin() + self.plan.at_work();
        let sharers = sharers.saturating_sub(in_session).max(1);
        SharedLimits {
            spent,
            reserved,
            spent_by,
            reserved_by,
            sessions: self.sessions.saturating_sub(own.sessions),
            sharers: u32::try_from(sharers).unwrap_or(u32::MAX),
            held_until: self.plan.held_until(at),
        }
    }
}
