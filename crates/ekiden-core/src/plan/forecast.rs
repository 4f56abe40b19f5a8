//! How much work lies behind a stage: the longest chain of stages that wait for it, in tokens.
//!
//! A stage without an estimate is thought to take what others took on average; one with an estimate, what
//! that has turned out to mean so far.

use super::node::Node;

/// A stage of which nothing is known at all.
const TOKENS_UNKNOWN: u64 = 50_000;
/// Estimates are kept within this factor of what was told, so that one odd stage turns nothing over.
const FACTOR_MAX: u64 = 8;

/// What finished stages teach about the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Forecast {
    /// Stages that told an estimate: what they told and what they took.
    told: u64,
    took: u64,
    /// All stages.
    stages: u64,
    tokens: u64,
}

impl Forecast {
    /// A stage took so many tokens.
    pub(super) fn learn(&mut self, estimate: u64, tokens: u64) {
        // An agent that tells no figures teaches nothing.
        if tokens == 0 {
            return;
        }
        self.stages += 1;
        self.tokens = self.tokens.saturating_add(tokens);
        if estimate > 0 {
            self.told = self.told.saturating_add(estimate);
            self.took = self.took.saturating_add(tokens);
        }
    }

    /// What a stage is thought to take, in tokens.
    pub(super) fn of(&self, estimate: u64) -> u64 {
        if estimate == 0 {
            return self.tokens.checked_div(self.stages).unwrap_or(TOKENS_UNKNOWN);
        }
        if self.told == 0 {
            return estimate;
        }
        let scaled = u128::from(estimate) * u128::from(self.took) / u128::from(self.told);
        let scaled = u64::try_from(scaled).unwrap_or(u64::MAX);
        scaled.clamp(estimate / FACTOR_MAX, estimate.saturating_mul(FACTOR_MAX)).max(1)
    }

    /// Says of each stage what lies behind it, itself included.
    pub(super) fn weigh(&self, nodes: &mut [Node]) {
        let mut left: Vec<usize> = nodes.iter().map(|node| node.dependants.len()).collect();
        let mut next: Vec<usize> = (0..nodes.len()).filter(|at| left[*at] == 0).collect();
        while let Some(at) = next.pop() {
            let longest =
                nodes[at].dependants.iter().map(|(after, _)| nodes[*after].behind).max().unwrap_or(0);
            nodes[at].behind = longest.saturating_add(self.of(nodes[at].estimate));
            for place in 0..nodes[at].needs.len() {
                let need = nodes[at].needs[place].0;
                left[need] -= 1;
                if left[need] == 0 {
                    next.push(need);
                }
            }
        }
    }
}
