//! What a model's tokens cost, learned from the agent's own figures.
//!
//! An agent reports its cost when a turn ends, which in a relay is the end of the session: too late for a
//! budget. So ekiden keeps the reported cost as a price, and uses it to estimate the next turn from the usage
//! of each response.
//!
//! Fresh input, cache writes and output cost in the ratio 1 : 1.25 : 5 on every model that was measured. Only
//! the ratio of cache reads differs between models. So each model has two prices. One observation gives both
//! if the usual ratio is assumed; two observations with different enough mixes give them exactly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    pub input: u64,
    pub cache_write: u64,
    pub cache_read: u64,
    pub output: u64,
}

/// Two prices, in billionths of a US dollar for a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// A token of fresh input.
    pub fresh_nano_usd: u64,
    /// A token that is read from the cache.
    pub read_nano_usd: u64,
    /// The last observation that it was learned from.
    pub seen: TokenCounts,
    /// The cost of that observation, in billionths of a US dollar.
    pub seen_nano_usd: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prices(BTreeMap<String, Price>);

impl TokenCounts {
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            output: self.output.saturating_add(other.output),
        }
    }

    /// The tokens that count against a limit: all except cache reads.
    pub fn counted(self) -> u64 {
        self.input
            .saturating_add(self.cache_write)
            .saturating_add(self.output)
    }

    /// Input tokens without cache reads.
    pub fn read_afresh(self) -> u64 {
        self.input.saturating_add(self.cache_write)
    }

    /// All but cache reads, in quarters of a fresh token.
    fn fresh_quarters(self) -> u128 {
        u128::from(self.input) * 4 + u128::from(self.cache_write) * 5 + u128::from(self.output) * 20
    }
}

impl Price {
    /// A price at which reads from the cache have the usual ratio.
    pub const fn usual(fresh_nano_usd: u64) -> Self {
        let seen = TokenCounts {
            input: 0,
            cache_write: 0,
            cache_read: 0,
            output: 0,
        };
        Self {
            fresh_nano_usd,
            read_nano_usd: fresh_nano_usd / 10,
            seen,
            seen_nano_usd: 0,
        }
    }

    /// What these tokens cost, in billionths of a US dollar.
    pub fn nano_usd(&self, tokens: TokenCounts) -> u64 {
        let price = u128::from(self.fresh_nano_usd);
        let fresh = tokens.fresh_quarters().saturating_mul(price) / 4;
        let read = u128::from(tokens.cache_read) * u128::from(self.read_nano_usd);
        u64::try_from(fresh.saturating_add(read)).unwrap_or(u64::MAX)
    }

    /// The price from one observation, assuming the usual ratio.
    fn of_one(tokens: TokenCounts, nano_usd: u64) -> Self {
        // In fortieths of a fresh token, so that a tenth of one is whole.
        let units = tokens.fresh_quarters() * 10 + u128::from(tokens.cache_read) * 4;
        let fresh = (u128::from(nano_usd) * 40).div_ceil(units.max(1));
        let usual = Self::usual(u64::try_from(fresh).unwrap_or(u64::MAX));
        Self {
            seen: tokens,
            seen_nano_usd: nano_usd,
            ..usual
        }
    }

    /// The price from two observations, if their mixes differ enough.
    fn of_two(&self, tokens: TokenCounts, nano_usd: u64) -> Option<Self> {
        let one = (
            self.seen.fresh_quarters(),
            u128::from(self.seen.cache_read),
            self.seen_nano_usd,
        );
        let two = (
            tokens.fresh_quarters(),
            u128::from(tokens.cache_read),
            nano_usd,
        );
        let (plus, minus) = (one.0.checked_mul(two.1)?, two.0.checked_mul(one.1)?);
        let (least, most) = (plus.min(minus), plus.max(minus));
        if most == 0 || most - least < most / limits::PRICE_MIX_PART {
            return None;
        }
        let det = i128::try_from(plus).ok()? - i128::try_from(minus).ok()?;
        let solve = |x: (u64, u128), y: (u64, u128)| -> Option<u64> {
            let value = i128::try_from(u128::from(x.0).checked_mul(y.1)?).ok()?
                - i128::try_from(u128::from(y.0).checked_mul(x.1)?).ok()?;
            u64::try_from(value / det).ok()
        };
        let quarter = solve((one.2, one.1), (two.2, two.1))?;
        let read = solve((two.2, two.0), (one.2, one.0))?;
        let fresh = quarter.checked_mul(4)?;
        let sound = fresh > 0 && read > 0 && read <= fresh;
        sound.then_some(Self {
            fresh_nano_usd: fresh,
            read_nano_usd: read,
            seen: tokens,
            seen_nano_usd: nano_usd,
        })
    }
}

impl Prices {
    /// The price of a model; `unknown` if it never reported one.
    pub fn of(&self, model: &str, unknown: Price) -> Price {
        self.0.get(plain_model(model)).copied().unwrap_or(unknown)
    }

    /// The model has reported its cost.
    pub fn knows(&self, model: &str) -> bool {
        self.0.contains_key(plain_model(model))
    }

    /// Learns from the cost of a model's tokens, by its own figures.
    pub fn learn(&mut self, model: &str, tokens: TokenCounts, nano_usd: u64) {
        if tokens == TokenCounts::default() {
            return;
        }
        let model = plain_model(model);
        let price = match self.0.get(model) {
            // Small sums are rounded too coarsely to separate two prices.
            Some(known) if nano_usd > 0 => known.of_two(tokens, nano_usd),
            Some(_) | None => None,
        };
        let told = |known: &&Price| {
            let guess = u128::from(known.nano_usd(tokens));
            let off = guess.abs_diff(u128::from(nano_usd));
            off * u128::from(limits::PRICE_TELLS_PART) <= u128::from(nano_usd)
        };
        let kept = self.0.get(model).filter(told).copied();
        let price = kept
            .or(price)
            .unwrap_or_else(|| Price::of_one(tokens, nano_usd));
        self.0.insert(model.to_owned(), price);
    }

    /// This model's price alone.
    #[must_use]
    pub fn only(&self, model: &str) -> Self {
        let price = self.0.get_key_value(plain_model(model)).into_iter();
        Self(
            price
                .map(|(model, price)| (model.clone(), *price))
                .collect(),
        )
    }

    /// Merges prices that were learned elsewhere.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .extend(other.0.iter().map(|(model, price)| (model.clone(), *price)));
    }
}

/// The model's name as its responses have it. In its sums of costs, Claude Code adds `[1m]` for a window of a million
/// tokens.
pub fn plain_model(model: &str) -> &str {
    model.strip_suffix("[1m]").unwrap_or(model)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNKNOWN: Price = Price::usual(15_000);

    fn tokens(input: u64, cache_write: u64, cache_read: u64, output: u64) -> TokenCounts {
        TokenCounts {
            input,
            cache_write,
            cache_read,
            output,
        }
    }

    // shows: REL-22
    #[test]
    fn the_figures_of_recorded_results_give_the_price() {
        let mut prices = Prices::default();
        prices.learn("haiku", tokens(130, 0, 1_949_870, 65), 195_442_000);
        let price = prices.of("haiku", UNKNOWN);
        assert_eq!((price.fresh_nano_usd, price.read_nano_usd), (1_000, 100));
        // This one reads from its cache at a twentieth: one observation misleads, two tell.
        prices.learn("opus", tokens(30, 0, 149_970, 15), 30_414_000);
        assert_eq!(prices.of("opus", UNKNOWN).read_nano_usd, 201);
        prices.learn("opus", tokens(10, 0, 0, 5), 140_000);
        let price = prices.of("opus", UNKNOWN);
        assert_eq!((price.fresh_nano_usd, price.read_nano_usd), (4_000, 200));
    }

    // shows: REL-22
    #[test]
    fn what_a_price_tells_right_is_kept() {
        let mut prices = Prices::default();
        prices.learn("m", tokens(30, 0, 149_970, 15), 30_414_000);
        prices.learn("m", tokens(10, 0, 0, 5), 140_000);
        let before = prices.clone();
        prices.learn("m", tokens(50, 0, 202_950, 25), 41_290_000);
        assert_eq!(prices, before);
        prices.learn("m", TokenCounts::default(), 7);
        assert_eq!(prices, before);
    }

    #[test]
    fn a_large_window_does_not_hide_what_a_model_costs() {
        let mut prices = Prices::default();
        prices.learn("opus[1m]", tokens(30, 0, 149_970, 15), 30_414_000);
        prices.learn("opus", tokens(10, 0, 0, 5), 140_000);
        assert!(prices.knows("opus") && prices.knows("opus[1m]"));
        assert_eq!(prices.of("opus", UNKNOWN).fresh_nano_usd, 4_000);
    }

    // shows: REL-22
    #[test]
    fn an_agent_that_costs_nothing_has_a_price_of_nothing() {
        let mut prices = Prices::default();
        prices.learn("rehearsal", tokens(5, 13_000, 40_000, 500), 0);
        assert_eq!(
            prices.of("rehearsal", UNKNOWN).nano_usd(tokens(1, 1, 1, 1)),
            0
        );
        prices.learn("rehearsal", tokens(10, 0, 0, 5), 140_000);
        assert_eq!(prices.of("rehearsal", UNKNOWN).fresh_nano_usd, 4_000);
    }

    // shows: REL-22
    #[test]
    fn what_another_attempt_learned_is_newer() {
        let of = |models: &[(&str, u64)]| {
            let mut prices = Prices::default();
            for (model, nano_usd) in models {
                prices.learn(model, tokens(10, 0, 0, 5), *nano_usd);
            }
            prices
        };
        let mut prices = of(&[("haiku", 140_000), ("opus", 140_000)]);
        assert!(!prices.knows("sonnet"));
        prices.merge(&of(&[("opus", 280_000), ("sonnet", 35_000)]));
        let fresh =
            ["haiku", "opus", "sonnet"].map(|model| prices.of(model, UNKNOWN).fresh_nano_usd);
        assert_eq!(fresh, [4_000, 8_000, 1_000]);
    }

    proptest! {
        // shows: REL-22
        #[test]
        fn two_observations_of_real_prices_tell_any_third(
            fresh in 100u64..100_000,
            part in 5u64..=20,
            one in (1u64..1_000, 0u64..200_000, 0u64..100_000, 1u64..50_000),
            two in (1u64..1_000, 0u64..200_000, 3_000_000u64..9_000_000, 1u64..5_000),
            three in (1u64..1_000, 0u64..200_000, 0u64..9_000_000, 1u64..50_000),
        ) {
            let real = Price { read_nano_usd: fresh / part, ..Price::usual(fresh) };
            let mut prices = Prices::default();
            for (input, write, read, output) in [one, two, one] {
                let seen = tokens(input, write, read, output);
                prices.learn("m", seen, real.nano_usd(seen));
            }
            let third = tokens(three.0, three.1, three.2, three.3);
            let (guess, truth) = (prices.of("m", UNKNOWN).nano_usd(third), real.nano_usd(third));
            // At worst both mixes were near each other, and the ratio was taken for the usual one.
            prop_assert!(guess <= truth.saturating_mul(2) + 1 && truth <= guess.saturating_mul(2) + 1,
                "{guess} for {truth}");
        }

        #[test]
        fn no_figures_are_too_large(
            a in any::<(u64, u64, u64, u64)>(), b in any::<(u64, u64, u64, u64)>(), c in any::<(u64, u64)>(),
        ) {
            let mut prices = Prices::default();
            prices.learn("m", tokens(a.0, a.1, a.2, a.3), c.0);
            prices.learn("m", tokens(b.0, b.1, b.2, b.3), c.1);
            let _ = prices.of("m", UNKNOWN).nano_usd(tokens(a.0, b.1, a.2, b.3));
            let _ = Price::usual(u64::MAX - c.0 % 2).nano_usd(tokens(a.0, b.1, a.2, b.3));
        }
    }
}
