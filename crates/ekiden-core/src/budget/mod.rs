//! Budgets and spending, in money and tokens.
//!
//! ```text
//! agent's figures ─► Price ─► Spend (a sum; an estimate while a turn runs)
//!                               │
//! Budget of run ──┐             ▼
//! Budget of session ┴► share ─► SpendMeter ─► Nearly (90%, or what a handoff costs is left: hand off),
//!                                             Spent (100%: stop), Beyond
//! ```
//!
//! A session's share is what the run's budget has left, at most the session's own budget, and is reserved before the
//! session starts. So sessions in a row overspend the run's budget by at most the model turn in which the last one
//! reaches the end of its share.
//!
//! Samples decide nothing by themselves. The meter is not part of the log; it reports each mark once, and that report
//! is an event. Money is counted in whole millionths of a US dollar, so a log folds to the same sum on every machine.

mod by_agent;
mod price;
mod spend_meter;

use serde::{Deserialize, Serialize};

use crate::limits;

pub use by_agent::{AgentBudget, AgentSpend, AgentSpends};
pub use price::{Price, Prices, TokenCounts, plain_model};
pub use spend_meter::{Crossing, Mark, Measure, SpendMeter};

/// What an attempt may use, reserved before it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    pub budget: Budget,
    /// Responses of the model before the order to hand off.
    pub turns: Option<u32>,
    /// The cost of handoffs so far, reserved for this session's handoff.
    pub reserve: Spend,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spend {
    /// In millionths of a US dollar.
    pub micro_usd: u64,
    /// In tokens: fresh input, cache writes and output. Cache reads, which recur with every request, are not
    /// counted: accounts with limits in tokens do not count them either.
    pub tokens: u64,
    /// Part of it was estimated.
    pub estimated: bool,
}

/// A limit on spending; none for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// In millionths of a US dollar.
    pub micro_usd: Option<u64>,
    /// In tokens, as [`Spend::tokens`].
    pub tokens: Option<u64>,
}

impl Spend {
    pub fn plus(self, other: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.saturating_add(other.micro_usd),
            tokens: self.tokens.saturating_add(other.tokens),
            estimated: self.estimated || other.estimated,
        }
    }

    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// If this was spent in `sessions` sessions: the least that has to be left for another one to be worth beginning.
    pub fn least_share(self, sessions: u32) -> Self {
        let parts = u64::from(sessions.max(1)) * limits::SHARE_MIN_PART;
        Self {
            micro_usd: self.micro_usd.div_ceil(parts),
            tokens: self.tokens.div_ceil(parts),
            estimated: self.estimated,
        }
    }

    /// The larger of two totals of the same spend, figure by figure.
    pub fn at_least(self, other: Self) -> Self {
        let raised = other.micro_usd > self.micro_usd || other.tokens > self.tokens;
        Self {
            micro_usd: self.micro_usd.max(other.micro_usd),
            tokens: self.tokens.max(other.tokens),
            estimated: self.estimated || (raised && other.estimated),
        }
    }

    /// A later total of the same spend. An exact one replaces an estimate; otherwise no known figure
    /// decreases.
    pub fn corrected(self, later: Self) -> Self {
        match self.estimated && !later.estimated {
            true => later,
            false => later.at_least(self),
        }
    }

    /// The spend since an earlier total.
    pub fn since(self, before: Self) -> Self {
        Self {
            micro_usd: self.micro_usd.saturating_sub(before.micro_usd),
            tokens: self.tokens.saturating_sub(before.tokens),
            estimated: self.estimated,
        }
    }
}

impl Budget {
    pub fn after(self, spent: Spend) -> Self {
        Self {
            micro_usd: self
                .micro_usd
                .map(|limit| limit.saturating_sub(spent.micro_usd)),
            tokens: self.tokens.map(|limit| limit.saturating_sub(spent.tokens)),
        }
    }

    /// The narrower of two budgets, figure by figure.
    pub fn within(self, other: Self) -> Self {
        Self {
            micro_usd: lower(self.micro_usd, other.micro_usd),
            tokens: lower(self.tokens, other.tokens),
        }
    }

    /// The same with the limits that `other` names.
    pub fn replaced(self, other: Self) -> Self {
        Self {
            micro_usd: other.micro_usd.or(self.micro_usd),
            tokens: other.tokens.or(self.tokens),
        }
    }

    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// All of it, spent; nothing of what has no limit.
    pub fn as_spend(self) -> Spend {
        Spend {
            micro_usd: self.micro_usd.unwrap_or(0),
            tokens: self.tokens.unwrap_or(0),
            estimated: false,
        }
    }

    /// The part of each of `sharers`, but at least `least` if that much is left.
    pub fn part(self, sharers: u32, least: Spend) -> Self {
        let part = |left: u64, least: u64| (left / u64::from(sharers.max(1))).max(least).min(left);
        Self {
            micro_usd: self.micro_usd.map(|left| part(left, least.micro_usd)),
            tokens: self.tokens.map(|left| part(left, least.tokens)),
        }
    }

    /// Less is left of money or of tokens than this.
    pub fn is_below(self, least: Spend) -> bool {
        let is_below = |left: Option<u64>, least: u64| left.is_some_and(|left| left < least);
        is_below(self.micro_usd, least.micro_usd) || is_below(self.tokens, least.tokens)
    }

    /// Nothing is left of money or of tokens.
    pub fn is_spent(self) -> bool {
        self.micro_usd == Some(0) || self.tokens == Some(0)
    }
}

/// The lower of two limits; nothing is no limit.
pub fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIVE: Budget = Budget {
        micro_usd: Some(5_000_000),
        tokens: None,
    };

    fn spend(micro_usd: u64, tokens: u64) -> Spend {
        Spend {
            micro_usd,
            tokens,
            estimated: false,
        }
    }

    // shows: REL-22
    #[test]
    fn what_is_left_is_never_less_than_nothing() {
        assert_eq!(FIVE.after(spend(4_000_000, 9)).micro_usd, Some(1_000_000));
        assert!(FIVE.after(spend(6_000_000, 9)).is_spent());
        assert!(
            !Budget::default()
                .after(spend(u64::MAX, u64::MAX))
                .is_spent()
        );
    }

    // shows: REL-22
    #[test]
    fn a_share_is_the_narrower_of_both() {
        let session = Budget {
            micro_usd: Some(1_000_000),
            tokens: Some(7),
        };
        assert_eq!(FIVE.within(session), session);
        assert_eq!(Budget::default().within(FIVE), FIVE);
        let raised = Budget {
            micro_usd: Some(9),
            tokens: None,
        };
        assert_eq!(
            session.replaced(raised),
            Budget {
                micro_usd: Some(9),
                tokens: Some(7)
            }
        );
    }

    // shows: REL-22
    #[test]
    fn an_exact_account_replaces_an_estimate_and_no_other() {
        let guess = Spend {
            estimated: true,
            ..spend(9, 9)
        };
        assert_eq!(guess.corrected(spend(3, 1)), spend(3, 1));
        assert_eq!(spend(3, 1).corrected(guess), guess);
        assert_eq!(spend(9, 1).corrected(spend(3, 3)), spend(9, 3));
    }

    // shows: REL-22
    #[test]
    fn of_two_accounts_the_larger_counts() {
        let guess = Spend {
            estimated: true,
            ..spend(3, 1)
        };
        assert_eq!(
            spend(2, 5).at_least(guess),
            Spend {
                estimated: true,
                ..spend(3, 5)
            }
        );
        assert_eq!(spend(9, 9).at_least(guess), spend(9, 9));
    }
}
