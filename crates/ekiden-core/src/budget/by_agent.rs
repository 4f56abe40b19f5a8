//! What each agent of a run has spent, by the user's name for it: `claude` and `claude:haiku` are one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Budget, Spend};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentSpends(BTreeMap<String, AgentSpend>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AgentSpend {
    pub spend: Spend,
    /// Attempts that cost something.
    pub attempts: u32,
    /// Part of the cost is the API price, which nobody pays.
    pub subscription: bool,
}

/// How far an agent's own budget is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentBudget {
    pub agent: String,
    pub spent: Spend,
    pub budget: Budget,
    /// It has no room for another session.
    pub is_spent: bool,
    /// Part of what was spent is the API price, which nobody pays.
    #[serde(default)]
    pub subscription: bool,
}

impl AgentBudget {
    pub fn new(agent: &str, budget: Budget, spent: AgentSpend) -> Self {
        let left = budget.after(spent.spend);
        let least = spent.least_share();
        Self {
            agent: agent.to_owned(),
            spent: spent.spend,
            budget,
            is_spent: left.is_spent() || left.is_below(least),
            subscription: spent.subscription,
        }
    }
}

impl AgentSpends {
    pub fn of(&self, agent: &str) -> AgentSpend {
        self.0.get(agent).copied().unwrap_or_default()
    }

    /// The agents that have spent something, or tried to.
    pub fn agents(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn add(&mut self, agent: &str, spend: Spend, subscription: bool) {
        let added = AgentSpend {
            spend,
            attempts: u32::from(!spend.is_nothing()),
            subscription,
        };
        let sum = self.of(agent).plus(added);
        self.0.insert(agent.to_owned(), sum);
    }

    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for (agent, added) in &other.0 {
            let sum = self.of(agent).plus(*added);
            self.0.insert(agent.clone(), sum);
        }
        self
    }

    /// The spend since an earlier total.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (agent, spent) in &mut self.0 {
            let before = before.of(agent);
            spent.spend = spent.spend.since(before.spend);
            spent.attempts = spent.attempts.saturating_sub(before.attempts);
        }
        self
    }
}

impl AgentSpend {
    /// With less than this, it is not worth beginning another session.
    pub fn least_share(&self) -> Spend {
        self.spend.least_share(self.attempts)
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            spend: self.spend.plus(other.spend),
            attempts: self.attempts.saturating_add(other.attempts),
            subscription: self.subscription || other.subscription,
        }
    }
}
