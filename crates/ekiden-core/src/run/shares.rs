//! How the stages share the run's budget and its usage limits.

use super::Run;
use crate::agent::AgentSpec;
use crate::bounds::OnRateLimit;
use crate::budget::{AgentBudget, AgentSpends, Budget, Prices, Spend};
use crate::effect::Effect;
use crate::event::{Event, RelayEvent};
use crate::fallback::has_same_account;
use crate::ids::StageId;
use crate::limits;
use crate::outcome::WaitCause;
use crate::relay::{Relay, SharedLimits, Totals};
use crate::settings::Settings;
use crate::time::Timestamp;

impl Run {
    /// The budget of all its stages together.
    pub fn budget(&self) -> Budget {
        self.settings.bounds.run
    }

    /// The sums of all relays. They include the spend of a working attempt as of its last mark.
    pub fn totals(&self) -> Totals {
        let relays = self.relays().map(|(_, relay)| Totals {
            spend: relay.spend(),
            ..relay.totals
        });
        relays.fold(self.before, Totals::plus)
    }

    /// The spend of finished sessions.
    pub fn settled(&self) -> Spend {
        let relays = self.relays.values().map(|relay| relay.totals.spend);
        relays.fold(self.before.spend, Spend::plus)
    }

    /// How much of the budgets of its single agents is spent, in the order of their names. This includes the spend of a
    /// working attempt as of its last mark.
    pub fn agent_budgets(&self) -> Vec<AgentBudget> {
        let mut spent_by = self.spent_by.clone();
        if self.header.fleet.is_some() {
            let relays = self.relays.values();
            spent_by = relays.fold(spent_by, |sum, relay| sum.plus(&relay.spent_by));
        }
        for (_, relay) in self.live() {
            let in_hand = relay.spend().since(relay.totals.spend);
            spent_by.add(&relay.agent().name, in_hand, false);
        }
        let of = |(agent, budget): (&String, &Budget)| {
            AgentBudget::new(agent, *budget, spent_by.of(agent))
        };
        let budgets = self.settings.bounds.agents.iter();
        let own = budgets.filter(|(agent, _)| self.header.has_agent(agent));
        own.map(of).collect()
    }

    /// The settings as they stand: a person may have changed them since it began.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn prices(&self) -> Prices {
        self.prices.clone()
    }

    pub(super) fn learn_prices(&mut self, event: &Event) {
        if let Event::Stage { event, .. } = event
            && let Some((_, ended)) = event.ended()
        {
            self.prices.merge(&ended.counters.prices);
        }
    }

    /// The highest cost of a handoff by this agent.
    pub fn handoff_spend(&self, agent: &AgentSpec) -> Spend {
        let relays = self.relays.values();
        let relays = relays.filter(|relay| relay.settings.agent.is_same(agent));
        relays.fold(Spend::default(), |most, relay| {
            most.at_least(relay.handoff_spend())
        })
    }

    /// The session that works or was the last one; in a plan the sum over all stages.
    pub fn session(&self) -> u32 {
        self.relays().map(|(_, relay)| relay.session().get()).sum()
    }

    /// The last session that may begin; in a plan the sum over all stages.
    pub fn session_max(&self) -> u32 {
        self.relays().map(|(_, relay)| relay.session_max()).sum()
    }

    /// Lets stages begin that waited for budget, once others have returned some.
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

    /// A usage limit holds all stages of its account. The relay that met it may not wait itself: its session may have
    /// handed off before. With fallbacks, a relay waits only when all agents are out. If a limit is to stop the run, the
    /// next session that hits it does.
    pub(super) fn learn_limit(&mut self, at: Timestamp, stage: &StageId, event: &RelayEvent) {
        let waits = self.settings.bounds.on_rate_limit == OnRateLimit::Wait;
        let in_plan = self.header.is_plan();
        if !waits || !in_plan || !self.settings.fallback.is_empty() {
            return;
        }
        let Some((_, ended)) = event.ended() else {
            return;
        };
        let Some(resets_at) = ended.cause.resets_at() else {
            return;
        };
        let until = resets_at + limits::RESET_BUFFER;
        // If the reset is too far away, the next session that hits the limit reports it.
        let is_near = at < resets_at && until.since(at) <= self.settings.wait_max;
        let agent = self.relays.get(stage).map(|relay| relay.agent().clone());
        if let Some(agent) = agent.filter(|_| is_near) {
            self.hold(&agent, until);
        }
    }

    /// A usage limit of this agent's account holds the stages that use it.
    pub(super) fn hold(&mut self, agent: &AgentSpec, until: Timestamp) {
        let stages = self.of_account(agent);
        self.plan.hold(until, stages);
    }

    /// The stages, by their places, that use this agent's account.
    pub(super) fn of_account(&self, agent: &AgentSpec) -> Vec<usize> {
        let stages = self.header.manifest.stages.iter().enumerate();
        let of_account = stages.filter(|(_, stage)| {
            let own = stage.part.agent.as_deref();
            has_same_account(own.unwrap_or(&self.settings.agent), agent)
        });
        of_account.map(|(at, _)| at).collect()
    }

    /// The effect of the other relays on one. Only the working ones are considered, which are few.
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
        for (other, relay) in self.live().filter(|(other, _)| *other != stage) {
            let in_hand = relay.spend().since(relay.totals.spend);
            spent = spent.plus(in_hand);
            spent_by.add(&relay.agent().name, in_hand, false);
            if self.to_share.contains(other) {
                continue;
            }
            reserved = reserved.plus(relay.set_aside());
            reserved_by.add(&relay.agent().name, relay.set_aside(), false);
            in_session += usize::from(relay.share().is_some());
        }
        // Stages whose worktree is being made, or whose session is under review, begin one soon.
        let sharers = self.plan.may_begin() + self.plan.at_work();
        let sharers = sharers.saturating_sub(in_session).max(1);
        SharedLimits {
            spent,
            reserved,
            spent_by,
            reserved_by,
            sessions: self.sessions.saturating_sub(own.sessions),
            sharers: u32::try_from(sharers).unwrap_or(u32::MAX),
            held_until: self.plan.held_until(stage, at),
        }
    }
}
