//! Outputs that two stages may write at the same time.
//!
//! Stages whose outputs meet must stand in a line: of any two, one needs the other. So it is enough to put
//! them in the order of the graph and to look at neighbours, however many there are. Outputs meet if
//! they read the same, or if one is a glob that matches the other as a path. Globs are compared only with
//! outputs that begin as they do.

use std::collections::BTreeMap;

use super::graph::Graph;
use crate::glob::{Glob, beginning, is_pattern};
use crate::limits::OVERLAP_COMPARISONS_MAX;

/// Steps of matching that are as dear as one comparison.
const STEPS_OF_COMPARISON: usize = 250;

/// An output of a stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output<'a> {
    /// The stage, by its place in the file.
    pub(super) stage: usize,
    pub(super) pattern: &'a str,
    pub(super) line: u32,
}

/// What was found.
pub(super) enum Found<'a> {
    /// Two outputs that meet, of stages that may work at the same time.
    Both(Output<'a>, Output<'a>),
    /// There was too much to compare.
    TooMany,
}

/// Every output that meets another, in the order of the graph; none in a graph with cycles, which has no
/// order yet.
pub(super) fn find<'a>(outputs: &[Output<'a>], graph: &Graph) -> Vec<Found<'a>> {
    let Some(order) = graph.order() else { return Vec::new() };
    let mut turn = vec![0; graph.len()];
    order.iter().zip(0_usize..).for_each(|(stage, at)| turn[*stage] = at);
    let mut groups: BTreeMap<&str, Vec<Output<'a>>> = BTreeMap::new();
    for output in outputs {
        groups.entry(output.pattern).or_default().push(*output);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|output| turn[output.stage]);
        group.dedup_by_key(|output| output.stage);
    }
    let mut meeting = Meeting { turn: &turn, pairs: Vec::new(), compared: 0 };
    groups.values().for_each(|group| meeting.neighbours(group));
    let whole = groups
        .iter()
        .filter(|(pattern, _)| is_pattern(pattern))
        .all(|(pattern, group)| meeting.glob(pattern, group, &groups).is_some());
    let mut found = meeting.apart(graph, &order);
    if !whole {
        found.push(Found::TooMany);
    }
    found
}

/// Pairs of outputs that meet, the first being first in the order.
struct Meeting<'t, 'a> {
    turn: &'t [usize],
    pairs: Vec<(Output<'a>, Output<'a>)>,
    compared: usize,
}

impl<'a> Meeting<'_, 'a> {
    /// Neighbours in a line of outputs that all meet.
    fn neighbours(&mut self, line: &[Output<'a>]) {
        let pairs = line.windows(2).filter(|pair| pair[0].stage != pair[1].stage);
        self.pairs.extend(pairs.map(|pair| (pair[0], pair[1])));
    }

    /// Everything that a glob matches; nothing if there is no patience for it.
    fn glob(
        &mut self,
        pattern: &str,
        own: &[Output<'a>],
        groups: &BTreeMap<&str, Vec<Output<'a>>>,
    ) -> Option<()> {
        let begins = beginning(pattern);
        let near = groups.range(begins..).take_while(|(other, _)| other.starts_with(begins));
        let mut glob = None;
        for (other, group) in near.filter(|(other, _)| **other != pattern) {
            if glob.is_none() {
                glob = Glob::new(pattern).ok();
            }
            let weight = glob.as_ref().map_or(0, Glob::weight);
            self.compared += own.len() + group.len() + weight * other.len() / STEPS_OF_COMPARISON;
            if self.compared > OVERLAP_COMPARISONS_MAX {
                return None;
            }
            if glob.as_ref().is_some_and(|glob| glob.matches(other)) {
                let mut line = [own, group].concat();
                line.sort_by_key(|output| self.turn[output.stage]);
                self.neighbours(&line);
            }
        }
        Some(())
    }

    /// The pairs of which neither needs the other, each pair of stages once.
    fn apart(mut self, graph: &Graph, order: &[usize]) -> Vec<Found<'a>> {
        self.pairs.sort_by_key(|(one, other)| (self.turn[one.stage], self.turn[other.stage]));
        self.pairs.dedup_by_key(|(one, other)| (one.stage, other.stage));
        let stages: Vec<(usize, usize)> =
            self.pairs.iter().map(|(one, other)| (one.stage, other.stage)).collect();
        let in_line = graph.ancestors(order, &stages);
        let apart = self.pairs.iter().zip(in_line).filter(|(_, in_line)| !in_line);
        apart.map(|((one, other), _)| in_file_order(*one, *other)).collect()
    }
}

fn in_file_order<'a>(one: Output<'a>, other: Output<'a>) -> Found<'a> {
    if one.stage < other.stage { Found::Both(one, other) } else { Found::Both(other, one) }
}
