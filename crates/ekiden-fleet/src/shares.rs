//! The plan's budget among its stages.
//!
//! A stage that begins reserves an equal part of what is left. What it did not spend comes back when it ends, for those
//! that are still at work and ran short.

use std::collections::BTreeMap;

use ekiden_core::budget::{Budget, Spend};
use ekiden_core::ids::StageId;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Shares {
    budget: Budget,
    /// What rounds spent that no log is gone on with.
    over: Spend,
    stages: BTreeMap<StageId, Account>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Account {
    /// All that it has cost. Its log tells less where a worker died.
    spent: Spend,
    /// What it may spend besides, while it is at work.
    #[serde(skip_serializing_if = "is_nothing")]
    reserved: Spend,
    /// What it gave back when its part was too little to go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    given_back: Option<Budget>,
}

fn is_nothing(spend: &Spend) -> bool {
    *spend == Spend::default()
}

impl Shares {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    pub(crate) fn change(&mut self, budget: Budget) {
        self.budget = self.budget.replaced(budget);
        let accounts = self.stages.values_mut();
        accounts.for_each(|account| account.given_back = None);
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.budget != Budget::default()
    }

    /// Reserves a part for a stage, which is one of so many that begin. Gives what its log may come to; nothing without a
    /// budget.
    pub(crate) fn reserve(&mut self, stage: &StageId, sharers: usize) -> Option<Budget> {
        let part = self.part(sharers);
        let account = self.stages.entry(stage.clone()).or_default();
        account.reserved = Spend {
            micro_usd: part.micro_usd.unwrap_or(0),
            tokens: part.tokens.unwrap_or(0),
            estimated: false,
        };
        let up_to = |part: Option<u64>, spent: u64| part.map(|part| part.saturating_add(spent));
        let allowed = Budget {
            micro_usd: up_to(part.micro_usd, account.spent.micro_usd),
            tokens: up_to(part.tokens, account.spent.tokens),
        };
        self.is_limited().then_some(allowed)
    }

    /// What a stage has cost so far.
    pub(crate) fn charged(&self, stage: &StageId) -> Spend {
        let account = self.stages.get(stage);
        account.map_or_else(Spend::default, |account| account.spent)
    }

    /// Takes back what a stage did not spend. Where nobody knows what that is, all of it counts as spent.
    pub(crate) fn settle(&mut self, stage: &StageId, spent: Option<Spend>) {
        let account = self.stages.entry(stage.clone()).or_default();
        let reserved = std::mem::take(&mut account.reserved);
        account.spent = spent.unwrap_or_else(|| account.spent.plus(reserved));
    }

    /// A stage ended because its part was spent, or too little to go on: [`Shares::has_more`] says whether that has changed.
    /// To be called before it is settled.
    pub(crate) fn ran_short(&mut self, stage: &StageId, spent: Spend) {
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

    /// More is left for a stage that ran short than it gave back.
    pub(crate) fn has_more(&self, stage: &StageId) -> bool {
        let account = self.stages.get(stage);
        let before = account.and_then(|account| account.given_back);
        let (before, now) = (before.unwrap_or_default(), self.part(1));
        let more =
            |now: Option<u64>, before: Option<u64>| now.is_none_or(|now| now > before.unwrap_or(0));
        more(now.micro_usd, before.micro_usd) && more(now.tokens, before.tokens)
    }

    /// What is spent, of what may be.
    pub(crate) fn spent(&self) -> (Spend, Budget) {
        let accounts = self.stages.values();
        let spent = accounts.fold(self.over, |spent, account| spent.plus(account.spent));
        (spent, self.budget)
    }

    /// A stage is merged, or begins anew with a log that knows nothing of what it spent.
    pub(crate) fn close(&mut self, stage: &StageId) {
        if let Some(account) = self.stages.remove(stage) {
            self.over = self.over.plus(account.spent);
        }
    }

    fn part(&self, sharers: usize) -> Budget {
        let accounts = self.stages.values();
        let taken = accounts.fold(self.over, |taken, account| {
            taken.plus(account.spent).plus(account.reserved)
        });
        let left = self.budget.after(taken);
        let sharers = u64::try_from(sharers).unwrap_or(u64::MAX).max(1);
        Budget {
            micro_usd: left.micro_usd.map(|left| left / sharers),
            tokens: left.tokens.map(|left| left / sharers),
        }
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
            let mut shares = Shares::new(budget);
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
        let mut shares = Shares::new(budget);
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
        let mut shares = Shares::new(Budget::default());
        assert_eq!(shares.reserve(&stage, 3), None);
    }
}
