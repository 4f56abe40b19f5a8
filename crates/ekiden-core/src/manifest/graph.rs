//! The graph of a manifest: an order, waves, ancestors and cycles.
//!
//! A stage is identified by its place in the file. If several orders are possible, the graph keeps the file's
//! order, so that a manifest is always executed and shown in the same way. Nothing recurses. Everything
//! except the ancestors of single stages costs one walk over stages and edges, and a heap of stages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Stage;
use crate::limits::MANIFEST_FAULTS_KEPT_MAX;

/// Stages named in all cycles together. A person who fixes the first ones sees the others.
const CYCLES_STAGES_MAX: usize = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    needs: Vec<Vec<usize>>,
    needed_by: Vec<Vec<usize>>,
}

impl Graph {
    /// A graph of the places that each stage needs. Panics if a stage needs a place that does not exist.
    pub fn new(needs: Vec<Vec<usize>>) -> Self {
        let mut needed_by = vec![Vec::new(); needs.len()];
        for (stage, needs) in needs.iter().enumerate() {
            for need in needs {
                needed_by[*need].push(stage);
            }
        }
        Self { needs, needed_by }
    }

    /// The graph of a run's stages. A need for a stage that does not exist is left out; a validated manifest
    /// has none.
    pub fn of(stages: &[Stage]) -> Self {
        let places: std::collections::HashMap<&str, usize> = stages
            .iter()
            .zip(0..)
            .map(|(stage, place)| (stage.id.as_str(), place))
            .collect();
        let needs = |stage: &Stage| {
            stage
                .part
                .needs
                .iter()
                .filter_map(|need| places.get(need.stage.as_str()).copied())
                .collect()
        };
        Self::new(stages.iter().map(needs).collect())
    }

    pub fn len(&self) -> usize {
        self.needs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.needs.is_empty()
    }

    pub fn needs(&self, stage: usize) -> &[usize] {
        &self.needs[stage]
    }

    /// The stages that need a stage, in the order of the file.
    pub fn needed_by(&self, stage: usize) -> &[usize] {
        &self.needed_by[stage]
    }

    /// An order in which each stage comes after everything it needs: first the stages that need nothing, then
    /// the others as they become ready. Stages that become ready at once keep the order of the file. None if
    /// there is a cycle.
    pub fn order(&self) -> Option<Vec<usize>> {
        let mut turns = 0_u64..;
        self.order_by(|_| turns.next())
    }

    /// An order in which each stage comes after everything it needs. Of the ready stages, the one with the
    /// lowest rank comes first; a stage gets its rank when it becomes ready. None if there is a cycle.
    pub fn order_by<R: Ord>(&self, mut rank: impl FnMut(usize) -> R) -> Option<Vec<usize>> {
        let mut missing: Vec<usize> = self.needs.iter().map(Vec::len).collect();
        let mut ready: BinaryHeap<Reverse<(R, usize)>> = (0..self.len())
            .filter(|stage| missing[*stage] == 0)
            .map(|stage| Reverse((rank(stage), stage)))
            .collect();
        let mut order = Vec::with_capacity(self.len());
        while let Some(Reverse((_, stage))) = ready.pop() {
            order.push(stage);
            for next in &self.needed_by[stage] {
                missing[*next] -= 1;
                if missing[*next] == 0 {
                    ready.push(Reverse((rank(*next), *next)));
                }
            }
        }
        (order.len() == self.len()).then_some(order)
    }

    /// The stages that could work at the same time with any number of agents: those that need nothing, those
    /// that need only these, and so on. None if there is a cycle.
    pub fn waves(&self) -> Option<Vec<Vec<usize>>> {
        let mut wave = vec![0; self.len()];
        let mut waves: Vec<Vec<usize>> = Vec::new();
        for stage in self.order()? {
            wave[stage] = self.needs[stage]
                .iter()
                .map(|need| wave[*need] + 1)
                .max()
                .unwrap_or(0);
            if wave[stage] == waves.len() {
                waves.push(Vec::new());
            }
            waves[wave[stage]].push(stage);
        }
        waves.iter_mut().for_each(|wave| wave.sort_unstable());
        Some(waves)
    }

    /// For each pair, whether the first is an ancestor of the second. `order` is the graph's own. One walk
    /// follows sixty-four first stages.
    pub fn ancestors(&self, order: &[usize], pairs: &[(usize, usize)]) -> Vec<bool> {
        let mut by_first: Vec<usize> = (0..pairs.len()).collect();
        by_first.sort_unstable_by_key(|at| pairs[*at].0);
        let mut answers = vec![false; pairs.len()];
        let mut firsts: Vec<usize> = pairs.iter().map(|pair| pair.0).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let mut rest = by_first.as_slice();
        for firsts in firsts.chunks(64) {
            let reached = self.reached(order, firsts);
            let last = firsts.last().copied().unwrap_or_default();
            let (now, later) = rest.split_at(rest.partition_point(|at| pairs[*at].0 <= last));
            rest = later;
            for at in now {
                let (first, second) = pairs[*at];
                let bit = firsts.partition_point(|other| *other < first);
                answers[*at] = first != second && reached[second] >> bit & 1 == 1;
            }
        }
        answers
    }

    /// For each stage, a bit for each of at most 64 stages that it needs, or that it is itself.
    fn reached(&self, order: &[usize], from: &[usize]) -> Vec<u64> {
        let mut reached = vec![0_u64; self.len()];
        for (stage, bit) in from.iter().zip(0_u32..) {
            reached[*stage] |= 1 << bit;
        }
        for stage in order {
            let above = self.needs[*stage]
                .iter()
                .fold(0, |bits, need| bits | reached[*need]);
            reached[*stage] |= above;
        }
        reached
    }

    /// The cycles. In each, every stage needs the next one and the last needs the first; it begins with the
    /// stage that is first in the file. Every stage that waits forever leads into one of them, and without
    /// their last edges there is no cycle any more.
    pub fn cycles(&self) -> Vec<Vec<usize>> {
        let mut walk = Walk {
            path: Vec::new(),
            place: vec![Visit::New; self.len()],
            cycles: Vec::new(),
            named: 0,
        };
        for start in 0..self.len() {
            if walk.place[start] == Visit::New {
                walk.enter(start);
            }
            while let Some((stage, at)) = walk.path.last_mut() {
                let next = self.needs[*stage].get(*at).copied();
                *at += 1;
                match next {
                    Some(next) => walk.follow(next),
                    None => walk.leave(),
                }
            }
        }
        walk.cycles.sort();
        walk.cycles
    }
}

/// The state of a stage in a walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    New,
    /// On the current path, at this place.
    Open(usize),
    Done,
}

/// A depth-first walk that keeps its own path.
struct Walk {
    /// The stages on the path, and the next of their needs.
    path: Vec<(usize, usize)>,
    place: Vec<Visit>,
    cycles: Vec<Vec<usize>>,
    named: usize,
}

impl Walk {
    fn enter(&mut self, stage: usize) {
        self.place[stage] = Visit::Open(self.path.len());
        self.path.push((stage, 0));
    }

    fn leave(&mut self) {
        if let Some((stage, _)) = self.path.pop() {
            self.place[stage] = Visit::Done;
        }
    }

    fn follow(&mut self, next: usize) {
        match self.place[next] {
            Visit::New => self.enter(next),
            Visit::Open(from) => self.close(from),
            Visit::Done => {}
        }
    }

    /// The path has come back to one of its stages.
    fn close(&mut self, from: usize) {
        let room = self.cycles.len() < MANIFEST_FAULTS_KEPT_MAX && self.named < CYCLES_STAGES_MAX;
        if room || self.cycles.is_empty() {
            let mut cycle: Vec<usize> = self.path[from..].iter().map(|(stage, _)| *stage).collect();
            let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
            cycle.rotate_left(first);
            self.named += cycle.len();
            self.cycles.push(cycle);
        }
    }
}

#[cfg(test)]
mod tests;
