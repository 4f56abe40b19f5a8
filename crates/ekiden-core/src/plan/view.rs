//! Queries on a plan.

use std::collections::{BTreeSet, VecDeque};

use serde::Serialize;

use crate::ids::StageId;
use crate::outcome::Outcome;
use crate::plan::{Plan, StageEnd, StageState};
use crate::time::Timestamp;

/// The number of a plan's stages with each result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct StageCounts {
    pub all: usize,
    /// Done and merged.
    pub done: usize,
    /// Of these, those that something checked.
    pub verified: usize,
    /// Failed, and the plan tolerates it.
    pub skipped: usize,
    /// Left out, as the user wanted.
    pub left_out: usize,
}

impl Plan {
    pub fn counts(&self) -> StageCounts {
        let mut counts = StageCounts {
            all: self.nodes.len(),
            ..StageCounts::default()
        };
        for node in &self.nodes {
            let StageState::Over(end) = &node.now.state else {
                continue;
            };
            match end {
                StageEnd::Done => {
                    counts.done += 1;
                    counts.verified += usize::from(node.now.is_verified);
                }
                StageEnd::Skipped(_) => counts.skipped += 1,
                StageEnd::LeftOut { .. } => counts.left_out += 1,
                StageEnd::Failed(_) | StageEnd::Blocked { .. } => {}
            }
        }
        counts
    }

    pub fn ended(&self) -> Option<&Outcome> {
        self.now.ended.as_ref()
    }

    pub fn state(&self, stage: &StageId) -> Option<&StageState> {
        self.index.get(stage).map(|at| &self.nodes[*at].now.state)
    }

    /// A stage is done and merged.
    pub fn is_done(&self, stage: &StageId) -> bool {
        self.state(stage) == Some(&StageState::Over(StageEnd::Done))
    }

    /// All stages in the order of the file, each with its state.
    pub fn states(&self) -> impl Iterator<Item = (&StageId, &StageState)> {
        self.nodes.iter().map(|node| (&node.id, &node.now.state))
    }

    pub fn blocked_by(&self, stage: &StageId) -> Vec<StageId> {
        let mut blocked: Vec<&StageId> = vec![stage];
        let mut looked = 0;
        while let Some(at) = blocked.get(looked).and_then(|by| self.index.get(*by)) {
            looked += 1;
            let by = &self.nodes[*at].id;
            for (dependant, _) in &self.nodes[*at].dependants {
                let node = &self.nodes[*dependant];
                if node.now.state == StageState::Over(StageEnd::Blocked { by: by.clone() }) {
                    blocked.push(&node.id);
                }
            }
        }
        blocked.into_iter().skip(1).cloned().collect()
    }

    /// The time until which a usage limit holds a stage.
    pub fn held_until(&self, stage: &StageId, now: Timestamp) -> Option<Timestamp> {
        self.nodes[self.place(stage)?].held_until(now)
    }

    pub fn over(&self) -> usize {
        self.over
    }

    pub fn stages(&self) -> usize {
        self.nodes.len()
    }

    /// The number of the current attempt at a stage, from 1.
    pub fn tries(&self, stage: &StageId) -> u32 {
        self.index
            .get(stage)
            .map_or(1, |at| self.nodes[*at].now.tries)
    }

    /// Stages that hold a slot.
    pub fn at_work(&self) -> usize {
        self.at_work
    }

    /// Stages that are being merged, or wait for that.
    pub fn to_merge(&self) -> usize {
        self.now.queue.len() + usize::from(self.now.merging.is_some())
    }

    /// Stages that may work at the same time.
    pub fn jobs(&self) -> usize {
        self.jobs
    }

    /// The finished stages that this one needs, nearest first: its own needs in their order, then theirs. At
    /// most `max`.
    pub fn done_before(&self, stage: &StageId, max: usize) -> Vec<StageId> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut next: VecDeque<usize> = self.index.get(stage).copied().into_iter().collect();
        while found.len() < max
            && let Some(at) = next.pop_front()
        {
            for (need, _) in &self.nodes[at].needs {
                if seen.insert(*need) {
                    next.push_back(*need);
                    let node = &self.nodes[*need];
                    if node.now.state == StageState::Over(StageEnd::Done) {
                        found.push(node.id.clone());
                    }
                }
            }
        }
        found.truncate(max);
        found
    }
}
