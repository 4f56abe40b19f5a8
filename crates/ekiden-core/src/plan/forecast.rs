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

    /// Says of each stage what lies behind it, itself included: in tokens, by places. `last_first` names each
    /// stage after all that need it.
    pub(super) fn weigh(&self, shapes: &Shapes, behind: &mut [u64]) {
        for &at in &shapes.last_first {
            let dependants = shapes.dependants(at);
            let longest = dependants.iter().map(|after| behind[*after as usize]).max().unwrap_or(0);
            behind[at as usize] = longest.saturating_add(self.of(shapes.estimates[at as usize]));
        }
    }
}

/// What weighing needs of a plan, close together: it is done again and again over all stages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shapes {
    last_first: Vec<u32>,
    estimates: Vec<u64>,
    /// Where each stage's dependants begin among all of them; one more at the end.
    starts: Vec<u32>,
    dependants: Vec<u32>,
}

impl Shapes {
    pub(super) fn of(nodes: &[Node]) -> Self {
        let small = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
        let (mut starts, mut dependants) = (vec![0], Vec::new());
        for node in nodes {
            dependants.extend(node.dependants.iter().map(|(after, _)| small(*after)));
            starts.push(small(dependants.len()));
        }
        let mut left: Vec<usize> = nodes.iter().map(|node| node.dependants.len()).collect();
        let mut last_first: Vec<u32> = (0..nodes.len()).filter(|at| left[*at] == 0).map(small).collect();
        let mut looked = 0;
        while let Some(at) = last_first.get(looked).map(|at| *at as usize) {
            looked += 1;
            for (need, _) in &nodes[at].needs {
                left[*need] -= 1;
                if left[*need] == 0 {
                    last_first.push(small(*need));
                }
            }
        }
        let estimates = nodes.iter().map(|node| node.estimate).collect();
        Self { last_first, estimates, starts, dependants }
    }

    fn dependants(&self, at: u32) -> &[u32] {
        let at = at as usize;
        &self.dependants[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}
