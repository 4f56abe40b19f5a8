//! How the plan's budget, and each agent's budget, is shared among the stages.
//!
//! A stage that begins reserves an equal part of what is left of each budget. What it did not spend comes
//! back when it ends, for stages that are still at work and ran short.

use std::collections::BTreeMap;

use ekiden_core::bounds::BoundsChange;
use ekiden_core::budget::{AgentBudget, Budget, Spend};
use ekiden_core::ids::StageId;
use serde::{Deserialize, Serialize};

/// What was spent: in total, and by which agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Spent {
    #[serde(flatten)]
    pub(crate) all: Spend,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) agents: BTreeMap<String, Spend>,
}

impl Spent {
    pub(crate) fn by(agent: &str, spend: Spend) -> Self {
        Self {
            all: spend,
            agents: BTreeMap::from([(agent.to_owned(), spend)]),
        }
    }

    pub(crate) fn of(&self, agent: &str) -> Spend {
        self.agents.get(agent).copied().unwrap_or_default()
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    #[must_use]
    pub(crate) fn plus(mut self, other: &Self) -> Self {
        self.all = self.all.plus(other.all);
        for (agent, spend) in &other.agents {
            let sum = self.of(agent).plus(*spend);
            self.agents.insert(agent.clone(), sum);
        }
        self
    }

    /// What was spent since an earlier account.
    #[must_use]
    pub(crate) fn since(mut self, before: &Self) -> Self {
        self.all = self.all.since(before.all);
        for (agent, spend) in &mut self.agents {
            *spend = spend.since(before.of(agent));
        }
        self
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Shares {
    /// Of the plan.
    #[serde(flatten)]
    all: Shared,
    /// Of agents that have a budget, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    agents: BTreeMap<String, Shared>,
}

impl Shares {
    pub(crate) fn new(budget: Budget, agents: &BTreeMap<String, Budget>) -> Self {
        let of_agent = |(name, budget): (&String, &Budget)| (name.clone(), Shared::new(*budget));
        Self {
            all: Shared::new(budget),
            agents: agents.iter().map(of_agent).collect(),
        }
    }

    /// A person changes budgets. For an agent that had none, its spending on merged stages does not count.
    pub(crate) fn change(&mut self, bounds: &BoundsChange) {
        self.all.change(bounds.run);
        for (agent, budget) in &bounds.agents {
            let of_agent = self.agents.entry(agent.clone()).or_default();
            of_agent.change(*budget);
        }
    }

    /// Reserves a part of each budget for one stage, when `sharers` stages begin. Returns the total that the
    /// stage's own log may reach.
    pub(crate) fn reserve(
        &mut self,
        stage: &StageId,
        sharers: usize,
    ) -> (Option<Budget>, BTreeMap<String, Budget>) {
        let agents = self.agents.iter_mut();
        let agents = agents.filter_map(|(agent, shared)| {
            let budget = shared.reserve(stage, sharers)?;
            Some((agent.clone(), budget))
        });
        let agents = agents.collect();
        (self.all.reserve(stage, sharers), agents)
    }

    /// What a stage has cost so far.
    pub(crate) fn charged(&self, stage: &StageId) -> Spent {
        let agents = self.agents.iter();
        let agents = agents.map(|(agent, shared)| (agent.clone(), shared.charged(stage)));
        Spent {
            all: self.all.charged(stage),
            agents: agents.filter(|(_, spend)| !spend.is_nothing()).collect(),
        }
    }

    /// Takes back what a stage did not spend. If that is unknown, all of it counts as spent.
    pub(crate) fn settle(&mut self, stage: &StageId, spent: Option<&Spent>) {
        self.all.settle(stage, spent.map(|spent| spent.all));
        for (agent, shared) in &mut self.agents {
            shared.settle(stage, spent.map(|spent| spent.of(agent)));
        }
    }

    /// A stage ended because its part of the plan's budget, or those of all its agents, were spent or too
    /// small to continue. Returns whether others share them: then [`Shares::has_more`] says whether that
    /// has changed. Call it before it is settled.
    pub(crate) fn ran_short(&mut self, stage: &StageId, spent: &Spent, of: &[AgentBudget]) -> bool {
        if of.is_empty() && self.all.is_limited() {
            self.all.ran_short(stage, spent.all);
            return true;
        }
        let mut is_shared = false;
        for budget in of {
            if let Some(shared) = self.agents.get_mut(&budget.agent) {
                shared.ran_short(stage, spent.of(&budget.agent));
                is_shared = true;
            }
        }
        is_shared
    }

    /// Whether a stage that ran short would now get more than it gave back: both of the plan's budget and of
    /// one of its agents' budgets.
    pub(crate) fn has_more(&self, stage: &StageId) -> bool {
        let mut short = self.short(stage).peekable();
        let is_of_plan = short.peek().is_none();
        self.all.has_more(stage) && (is_of_plan || short.any(|(_, shared)| shared.has_more(stage)))
    }

    /// Spending and budget: of the plan, and of each agent whose part was too small for the stage.
    pub(crate) fn spent(&self, stage: &StageId) -> (Spend, Budget, Vec<AgentBudget>) {
        let agents = self.short(stage).map(|(agent, shared)| {
            let (spent, budget) = shared.spent();
            AgentBudget {
                agent: agent.clone(),
                spent,
                budget,
                is_spent: true,
                subscription: false,
            }
        });
        let agents = agents.collect();
        let (spent, budget) = self.all.spent();
        (spent, budget, agents)
    }

    /// A stage is merged, or starts over with a log that knows nothing of its spending.
    pub(crate) fn close(&mut self, stage: &StageId) {
        let agents = self.agents.values_mut();
        agents.for_each(|shared| shared.close(stage));
        self.all.close(stage);
    }

    /// The agents that a stage ran short of.
    fn short(&self, stage: &StageId) -> impl Iterator<Item = (&String, &Shared)> {
        let is_short = |shared: &Shared| {
            let account = shared.stages.get(stage);
            account.is_some_and(|account| account.given_back.is_some())
        };
        let agents = self.agents.iter();
        agents.filter(move |(_, shared)| is_short(shared))
    }
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Shared {
    budget: Budget,
    /// Spending of rounds whose log nobody continues.
    over: Spend,
    stages: BTreeMap<StageId, StageSpending>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct StageSpending {
    /// Everything it has cost. If a worker died, its log shows less.
    spent: Spend,
    /// How much more it may spend while it is at work.
    #[serde(skip_serializing_if = "Spend::is_nothing")]
    reserved: Spend,
    /// What it gave back when its part was too small to continue.
    #[serde(skip_serializing_if = "Option::is_none")]
    given_back: Option<Budget>,
}

impl Shared {
    fn new(budget: Budget) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    fn change(&mut self, budget: Budget) {
        self.budget = self.budget.replaced(budget);
        let accounts = self.stages.values_mut();
        let given_back = accounts.filter_map(|account| account.given_back.as_mut());
        given_back.for_each(|given_back| *given_back = Budget::default());
    }

    fn is_limited(&self) -> bool {
        self.budget != Budget::default()
    }

    /// Reserves a part for one stage, when `sharers` stages begin. Returns the total that the stage's own log
    /// may reach; `None` without a budget.
    fn reserve(&mut self, stage: &StageId, sharers: usize) -> Option<Budget> {
        let part = self.part(sharers);
        let account = self.stages.entry(stage.clone()).or_default();
        account.given_back = None;
        account.reserved = part.as_spend();
        let up_to = |part: Option<u64>, spent: u64| part.map(|part| part.saturating_add(spent));
        let allowed = Budget {
            micro_usd: up_to(part.micro_usd, account.spent.micro_usd),
            tokens: up_to(part.tokens, account.spent.tokens),
        };
        self.is_limited().then_some(allowed)
    }

    fn charged(&self, stage: &StageId) -> Spend {
        let account = self.stages.get(stage);
        account.map_or_else(Spend::default, |account| account.spent)
    }

    /// Takes back what a stage did not spend. If that is unknown, all of it counts as spent.
    fn settle(&mut self, stage: &StageId, spent: Option<Spend>) {
        let account = self.stages.entry(stage.clone()).or_default();
        let reserved = std::mem::take(&mut account.reserved);
        account.spent = spent.unwrap_or_else(|| account.spent.plus(reserved));
    }

    /// A stage ended because its part was spent or too small to continue: [`Shares::has_more`] says whether
    /// that has changed. Call it before it is settled.
    fn ran_short(&mut self, stage: &StageId, spent: Spend) {
        let account = self.stages.entry(stage.clone()).or_default();
        let used = spent.since(account.spent);
        let limit = |limit: Option<u64>, reserved, used: u64| {
            limit.map(|_| u64::saturating_sub(reserved, used))
        };
        account.given_back = Some(Budget {
            micro_usd: limit(
                self.budget.micro_usd,
                account.reserved.micro_usd,
                used.micro_usd,
            ),
            tokens: limit(self.budget.tokens, account.reserved.tokens, used.tokens),
        });
    }

    /// There is more for a stage that ran short than it gave back.
    fn has_more(&self, stage: &StageId) -> bool {
        let account = self.stages.get(stage);
        let before = account.and_then(|account| account.given_back);
        let (before, now) = (before.unwrap_or_default(), self.part(1));
        let more =
            |now: Option<u64>, before: Option<u64>| now.is_none_or(|now| now > before.unwrap_or(0));
        more(now.micro_usd, before.micro_usd) && more(now.tokens, before.tokens)
    }

    fn spent(&self) -> (Spend, Budget) {
        let accounts = self.stages.values();
        let spent = accounts.fold(self.over, |spent, account| spent.plus(account.spent));
        (spent, self.budget)
    }

    /// A stage is merged, or starts over with a log that knows nothing of its spending.
    fn close(&mut self, stage: &StageId) {
        if let Some(account) = self.stages.remove(stage) {
            self.over = self.over.plus(account.spent);
        }
    }

    fn part(&self, sharers: usize) -> Budget {
        let accounts = self.stages.values();
        let taken = accounts.fold(self.over, |taken, account| {
            taken.plus(account.spent).plus(account.reserved)
        });
        let sharers = u32::try_from(sharers).unwrap_or(u32::MAX);
        self.budget.after(taken).part(sharers, Spend::default())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dollars(micro_usd: u64) -> Spend {
        Spend {
            micro_usd,
            ..Spend::default()
        }
    }

    /// A stage begins, or ends having used so much of its part.
    #[derive(Debug, Clone)]
    struct Step {
        stage: usize,
        sharers: usize,
        used_percent: u64,
        is_known: bool,
        is_anew: bool,
    }

    fn step() -> impl Strategy<Value = Step> {
        let parts = (
            0..4usize,
            1..4usize,
            0..=100u64,
            any::<bool>(),
            any::<bool>(),
        );
        parts.prop_map(|(stage, sharers, used_percent, is_known, is_anew)| Step {
            stage,
            sharers,
            used_percent,
            is_known,
            is_anew,
        })
    }

    proptest! {
        // shows: FLT-03
        #[test]
        fn no_course_spends_more_than_the_budget(steps in prop::collection::vec(step(), 1..60)) {
            let budget = Budget { micro_usd: Some(1_000), tokens: None };
            let stage = |at: usize| StageId::try_from(format!("S{at}")).unwrap();
            let mut shares = Shared::new(budget);
            let (mut truly, mut logs) = (0, [0u64; 4]);
            let mut at_work: BTreeMap<usize, u64> = BTreeMap::new();
            for step in steps {
                let id = stage(step.stage);
                let Some(allowed) = at_work.remove(&step.stage) else {
                    if step.is_anew {
                        shares.close(&id);
                        logs[step.stage] = 0;
                    }
                    let allowed = shares.reserve(&id, step.sharers).unwrap().micro_usd.unwrap();
                    at_work.insert(step.stage, allowed);
                    continue;
                };
                let used = allowed.saturating_sub(logs[step.stage]) * step.used_percent / 100;
                truly += used;
                logs[step.stage] += used;
                shares.ran_short(&id, dollars(logs[step.stage]));
                let known = step.is_known.then_some(dollars(logs[step.stage]));
                shares.settle(&id, known);
                prop_assert!(truly <= 1_000, "{truly}");
            }
        }
    }

    #[test]
    fn one_that_runs_short_waits_for_what_another_gives_back() {
        let stage = |id: &str| StageId::try_from(id.to_owned()).unwrap();
        let (a, b) = (stage("A"), stage("B"));
        let budget = Budget {
            micro_usd: Some(100),
            tokens: None,
        };
        let mut shares = Shared::new(budget);
        let allowed = |allowed: Option<Budget>| allowed.unwrap().micro_usd.unwrap();
        assert_eq!(allowed(shares.reserve(&a, 2)), 50);
        assert_eq!(allowed(shares.reserve(&b, 1)), 50);
        shares.ran_short(&a, dollars(48));
        shares.settle(&a, Some(dollars(48)));
        assert!(!shares.has_more(&a), "2 are left, as it gave back");
        shares.settle(&b, Some(dollars(10)));
        assert!(shares.has_more(&a));
        assert_eq!(allowed(shares.reserve(&a, 1)), 48 + 42);
        shares.ran_short(&a, dollars(90));
        shares.settle(&a, Some(dollars(90)));
        assert!(!shares.has_more(&a));
        shares.change(Budget {
            micro_usd: Some(120),
            tokens: None,
        });
        assert!(shares.has_more(&a));
    }

    #[test]
    fn without_a_budget_nobody_runs_short() {
        let stage = StageId::try_from("A".to_owned()).unwrap();
        let mut shares = Shared::new(Budget::default());
        assert_eq!(shares.reserve(&stage, 3), None);
    }

    // shows: FLT-03
    #[test]
    fn the_budget_of_an_agent_is_shared_by_all_stages() {
        let stage = |id: &str| StageId::try_from(id.to_owned()).unwrap();
        let (a, b) = (stage("A"), stage("B"));
        let budget = |micro_usd| Budget {
            micro_usd: Some(micro_usd),
            tokens: None,
        };
        let spent = |one: u64, two: u64| Spent {
            all: dollars(one + two),
            agents: [("one", one), ("two", two)]
                .map(|(agent, spend)| (agent.to_owned(), dollars(spend)))
                .into(),
        };
        let of = |agents: &[&str]| -> Vec<AgentBudget> {
            let of = |agent: &&str| AgentBudget::new(agent, budget(0), Default::default());
            agents.iter().map(of).collect()
        };
        let agents = BTreeMap::from([("one".to_owned(), budget(100))]);
        let mut shares = Shares::new(Budget::default(), &agents);
        assert_eq!(
            shares.reserve(&a, 2),
            (None, [("one".to_owned(), budget(50))].into())
        );
        assert_eq!(shares.reserve(&b, 1).1["one"], budget(50));
        let two = shares.ran_short(&a, &spent(0, 9), &of(&["two"]));
        assert!(!two, "each stage has that budget by itself");
        assert!(shares.ran_short(&a, &spent(48, 9), &of(&["one"])));
        shares.settle(&a, Some(&spent(48, 9)));
        assert_eq!(shares.charged(&a).of("one"), dollars(48));
        assert!(!shares.has_more(&a), "2 are left, as it gave back");
        assert_eq!(shares.spent(&a).2[0].spent, dollars(48));
        shares.settle(&b, Some(&spent(10, 200)));
        shares.close(&b);
        assert!(shares.has_more(&a));
        // From one history to the next.
        let json = serde_json::to_string(&shares).unwrap();
        let mut shares: Shares = serde_json::from_str(&json).unwrap();
        assert_eq!(shares.reserve(&a, 1).1["one"], budget(48 + 42));
        assert!(shares.ran_short(&a, &spent(90, 9), &of(&["one", "two"])));
        shares.settle(&a, Some(&spent(90, 9)));
        assert!(!shares.has_more(&a));
        shares.change(&BoundsChange {
            agents: [("one".to_owned(), budget(120))].into(),
            ..BoundsChange::default()
        });
        assert!(shares.has_more(&a));
    }

    #[test]
    fn what_an_earlier_version_kept_is_read() {
        let json = r#"{"budget":{"micro_usd":9,"tokens":null},"over":{"micro_usd":2,"tokens":0,"estimated":false},"stages":{}}"#;
        let shares: Shares = serde_json::from_str(json).unwrap();
        assert_eq!(shares.all.part(1).micro_usd, Some(7));
        let json = r#"{"micro_usd":2,"tokens":1,"estimated":true}"#;
        let spent: Spent = serde_json::from_str(json).unwrap();
        assert_eq!((spent.all.tokens, spent.agents.len()), (1, 0));
    }
}
