//! Budgets of single agents: an agent that has spent its budget does not begin, and others replace it.
//!
//! An agent's budget counts over the whole run, whichever stages the agent worked on. The run's own budget applies as
//! well.

use super::admission::{Room, is_too_little};
use super::{NextAttempt, Purpose, Relay, Session};
use crate::budget::{AgentBudget, AgentSpend, Budget};
use crate::effect::StartMode;
use crate::event::Counters;
use crate::outcome::Outcome;

impl Relay {
    /// A finished attempt has spent this much.
    pub(super) fn charge_attempt(&mut self, session: &Session, counters: &Counters) {
        self.totals.add(counters);
        let agent = self.agent_name(&session.attempt).to_owned();
        let (spend, subscription) = (counters.spend, counters.subscription);
        self.spent_by.add(&agent, spend, subscription);
    }

    /// The agent for this attempt, unless another one replaces it.
    pub(super) fn agent_name(&self, next: &NextAttempt) -> &str {
        &self.settings.agent_for(next.purpose).name
    }

    /// The unspent part of an agent's budget, including reserved parts.
    pub(super) fn unspent_of_agent(&self, agent: &str) -> Budget {
        let budget = self.settings.bounds.agents.get(agent);
        let spent = self.spent_by_agent(agent).spend;
        budget.map_or_else(Budget::default, |budget| budget.after(spent))
    }

    /// This relay's part of what is left of an agent's budget, computed like its part of the run's budget.
    pub(super) fn part_of_agent(&self, agent: &str) -> Budget {
        let shared = &self.shared;
        let left = self.unspent_of_agent(agent);
        let left = left.after(shared.reserved_by.of(agent).spend);
        left.part(shared.sharers, self.spent_by_agent(agent).least_share())
    }

    fn spent_by_agent(&self, agent: &str) -> AgentSpend {
        let own = self.spent_by.of(agent);
        own.plus(self.shared.spent_by.of(agent))
    }

    /// Whether one of the agents that may make this attempt has budget for it.
    pub(super) fn budget_of_agents(&self, next: &NextAttempt) -> Room {
        let agents = self.who_may(next);
        let is_out = |agent: &&str| self.is_out(agent, next);
        if !agents.iter().all(is_out) {
            return Room::Enough;
        }
        let reserved_by = &self.shared.reserved_by;
        let is_reserved = |agent: &&str| !reserved_by.of(agent).spend.is_nothing();
        if agents.iter().any(is_reserved) {
            return Room::Reserved;
        }
        let budgets = &self.settings.bounds.agents;
        let spent = |agent: &&str| {
            let budget = budgets.get(*agent).copied().unwrap_or_default();
            AgentBudget {
                is_spent: true,
                ..AgentBudget::new(agent, budget, self.spent_by_agent(agent))
            }
        };
        Room::None(Outcome::BudgetSpent {
            spent: self.spent_by_run(),
            budget: self.settings.bounds.run,
            agents: agents.iter().map(spent).collect(),
        })
    }

    /// A conversation whose agent has spent its budget ends here, and another agent begins one.
    pub(super) fn by_one_with_budget(&mut self, next: NextAttempt) -> NextAttempt {
        self.look_at_agent_budgets(&next);
        let goes_on = next.purpose == Purpose::Work && next.mode == StartMode::Resume;
        let others_can = self.candidates.has_others() && goes_on;
        match others_can && self.unspent_of_agent(self.agent_name(&next)).is_spent() {
            true => self.by_another(next),
            false => next,
        }
    }

    /// Records which agents have no budget for this attempt.
    pub(super) fn look_at_agent_budgets(&mut self, next: &NextAttempt) {
        let budgets = self.settings.bounds.agents.keys();
        let out = budgets.filter(|agent| self.is_out(agent, next));
        self.candidates.spent = out.cloned().collect();
    }

    fn is_out(&self, agent: &str, next: &NextAttempt) -> bool {
        let least = self.spent_by_agent(agent).least_share();
        is_too_little(self.part_of_agent(agent), least, next)
    }

    /// The names of the agents that may make this attempt, each once.
    fn who_may(&self, next: &NextAttempt) -> Vec<&str> {
        if next.purpose == Purpose::Review || next.mode == StartMode::Resume {
            return vec![self.agent_name(next)];
        }
        let able = self.candidates.able(&self.settings.agent.permissions);
        able.fold(Vec::new(), |mut names, (_, agent)| {
            if !names.contains(&&*agent.name) {
                names.push(&agent.name);
            }
            names
        })
    }
}
