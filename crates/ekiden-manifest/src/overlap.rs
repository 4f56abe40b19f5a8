//! Outputs that two stages may write at the same time.
//!
//! If the outputs of two stages overlap, one stage must need the other. So it is enough to sort the stages with
//! overlapping outputs in the order of the graph and to compare neighbours, however many there are. Two outputs
//! overlap if they are the same text, if one is a directory that the other lies in, or if one is a glob that matches the
//! other as a path. A glob is compared only with outputs that begin like it, and the total number of comparisons is bounded.

use std::collections::BTreeMap;

use ekiden_core::limits::OVERLAP_COMPARISONS_MAX;
use ekiden_core::manifest::graph::Graph;

use crate::path::{SPECIAL, glob};

/// The cost of compiling a glob, in comparisons.
const COMPILING: usize = 200;
/// Letters that cost as much as one comparison.
const LETTERS_OF_COMPARISON: usize = 250;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output<'a> {
    /// The stage, by its place in the file.
    pub(crate) stage: usize,
    pub(crate) pattern: &'a str,
    pub(crate) line: u32,
}

pub(crate) struct Overlaps<'a> {
    /// Overlapping outputs of stages that do not need each other; the first in the file first.
    pub(crate) pairs: Vec<(Output<'a>, Output<'a>)>,
    /// There was too much to compare, so there may be others.
    pub(crate) too_many: bool,
}

/// For each stage, its place in an order of all stages.
pub(crate) fn turns(order: &[usize]) -> Vec<usize> {
    let mut turns = vec![0; order.len()];
    for (stage, turn) in order.iter().zip(0..) {
        turns[*stage] = turn;
    }
    turns
}

/// Overlapping outputs; none in a graph with cycles, which has no order yet.
pub(crate) fn find<'a>(outputs: &[Output<'a>], graph: &Graph) -> Overlaps<'a> {
    let mut overlaps = Overlaps {
        pairs: Vec::new(),
        too_many: false,
    };
    let Some(order) = graph.order() else {
        return overlaps;
    };
    let turns = turns(&order);
    let mut groups: BTreeMap<&str, Vec<Output<'a>>> = BTreeMap::new();
    for output in outputs {
        groups.entry(output.pattern).or_default().push(*output);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|output| turns[output.stage]);
        group.dedup_by_key(|output| output.stage);
        overlaps.add(group);
    }
    let mut compared = 0;
    for (pattern, own) in &groups {
        let special = pattern.find(SPECIAL);
        let begins = match special {
            Some(special) => pattern[..special].to_owned(),
            None => format!("{pattern}/"),
        };
        let near = groups
            .range(begins.as_str()..)
            .take_while(|(other, _)| other.starts_with(&begins));
        let mut compiled = None;
        for (other, group) in near.filter(|(other, _)| *other != pattern) {
            compared += own.len() + group.len() + other.len() / LETTERS_OF_COMPARISON;
            compared += if special.is_some() && compiled.is_none() {
                COMPILING
            } else {
                0
            };
            if compared > OVERLAP_COMPARISONS_MAX {
                overlaps.too_many = true;
                break;
            }
            let mut is_match = || {
                let glob = compiled.get_or_insert_with(|| glob(pattern));
                glob.as_ref().is_ok_and(|glob| glob.is_match(other))
            };
            if special.is_none() || is_match() {
                let mut line = [own.as_slice(), group].concat();
                line.sort_by_key(|output| turns[output.stage]);
                overlaps.add(&line);
            }
        }
    }
    overlaps.keep_parallel(graph, &order, &turns);
    overlaps
}

impl<'a> Overlaps<'a> {
    /// Adds the neighbours in a row of outputs that all overlap.
    fn add(&mut self, line: &[Output<'a>]) {
        let pairs = line
            .windows(2)
            .filter(|pair| pair[0].stage != pair[1].stage);
        self.pairs.extend(pairs.map(|pair| (pair[0], pair[1])));
    }

    /// Keeps each pair of stages once, if neither needs the other.
    fn keep_parallel(&mut self, graph: &Graph, order: &[usize], turns: &[usize]) {
        let stages = |(one, other): &(Output<'_>, Output<'_>)| (one.stage, other.stage);
        self.pairs
            .sort_by_key(|pair| (turns[pair.0.stage], turns[pair.1.stage]));
        self.pairs.dedup_by_key(|pair| stages(pair));
        let pairs: Vec<(usize, usize)> = self.pairs.iter().map(stages).collect();
        let mut in_line = graph.ancestors(order, &pairs).into_iter();
        self.pairs.retain(|_| in_line.next() != Some(true));
        for pair in &mut self.pairs {
            if pair.0.stage > pair.1.stage {
                std::mem::swap(&mut pair.0, &mut pair.1);
            }
        }
    }
}
