//! Edges that keep stages in an order that their format takes for granted.
//!
//! CASM and cleave carry out one stage after the other, all in one directory, so their manifests need not
//! say everything that a stage builds on. What these edges add is optional, so that a stage that was skipped
//! holds nobody up, and always leads along an order of the edges that the manifest does say, so that none
//! of them closes a cycle. Of a manifest that has cycles, nothing is ordered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::Graph;
use super::overlap::{self, Found, Output};

/// For each stage the places of those that it needs, and whether it does so optionally.
pub(super) type Links = Vec<Vec<(usize, bool)>>;

/// The graph of what was linked.
pub(super) fn graph(links: &Links) -> Graph {
    Graph::new(links.iter().map(|found| found.iter().map(|(place, _)| *place).collect()).collect())
}

/// Each need once, in the order of the file; one that is said twice is optional only if both are.
pub(super) fn tidy(links: &mut Links) {
    for found in links {
        found.sort_unstable();
        found.dedup_by_key(|(place, _)| *place);
    }
}

/// Stages that follow wait for the one before them in the file; one that others require from further up
/// counts as standing before those.
pub(super) fn by_the_file(follows: &[bool], graph: &Graph, links: &mut Links) {
    for pair in in_file_order(graph).windows(2) {
        if follows[pair[1]] {
            links[pair[1]].push((pair[0], true));
        }
    }
    tidy(links);
}

/// Stages that write the same file do so one after the other, in the order in which CASM takes them.
pub(super) fn by_outputs(outputs: &[Output<'_>], graph: &Graph, links: &mut Links) {
    let order = graph.order().unwrap_or_default();
    let mut turn = vec![0; graph.len()];
    order.iter().zip(0_usize..).for_each(|(stage, at)| turn[*stage] = at);
    for found in overlap::find(outputs, graph) {
        match found {
            Found::Both(one, other) if turn[one.stage] < turn[other.stage] => {
                links[other.stage].push((one.stage, true));
            }
            Found::Both(one, other) => links[one.stage].push((other.stage, true)),
            Found::TooMany => order.windows(2).for_each(|pair| links[pair[1]].push((pair[0], true))),
        }
    }
    tidy(links);
}

/// The order in which each stage comes after all that it needs and otherwise where the file has it. It is the
/// file's own if no stage needs a later one. Empty if there is a cycle.
fn in_file_order(graph: &Graph) -> Vec<usize> {
    let mut missing: Vec<usize> = (0..graph.len()).map(|stage| graph.needs(stage).len()).collect();
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..graph.len()).filter(|stage| missing[*stage] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(graph.len());
    while let Some(Reverse(stage)) = ready.pop() {
        order.push(stage);
        for next in graph.needed_by(stage) {
            missing[*next] -= 1;
            if missing[*next] == 0 {
                ready.push(Reverse(*next));
            }
        }
    }
    if order.len() == graph.len() { order } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(needs: &[&[usize]]) -> Links {
        needs.iter().map(|needs| needs.iter().map(|place| (*place, false)).collect()).collect()
    }

    fn ordered(needs: &[&[usize]], follows: &[bool]) -> Links {
        let mut links = plain(needs);
        by_the_file(follows, &graph(&links), &mut links);
        links
    }

    // shows: PLN-05
    #[test]
    fn a_stage_that_follows_waits_for_the_one_before_it_and_never_closes_a_cycle() {
        let links = ordered(&[&[], &[], &[0], &[]], &[true, true, false, true]);
        assert_eq!(links, [vec![], vec![(0, true)], vec![(0, false)], vec![(2, true)]]);
        let forward = ordered(&[&[], &[3], &[], &[], &[]], &[true, false, true, true, true]);
        assert_eq!(forward[2..], [vec![(0, true)], vec![(2, true)], vec![(1, true)]]);
        assert!(graph(&forward).cycles().is_empty());
        let first = ordered(&[&[2], &[], &[]], &[false, true, true]);
        assert_eq!(first, [vec![(2, false)], vec![], vec![(1, true)]]);
        let cycle = ordered(&[&[1], &[0], &[]], &[false, false, true]);
        assert_eq!(cycle, plain(&[&[1], &[0], &[]]), "a cycle is a fault; nothing is made of it");
    }

    // shows: PLN-05, PLN-23
    #[test]
    fn stages_that_write_the_same_are_put_in_the_order_of_the_graph() {
        let output = |stage, pattern| Output { stage, pattern, line: 1 };
        let mut links = plain(&[&[2], &[], &[], &[]]);
        let outputs = [output(0, "a"), output(1, "a"), output(2, "b"), output(3, "a")];
        by_outputs(&outputs, &graph(&links), &mut links);
        assert_eq!(links, [vec![(2, false), (3, true)], vec![], vec![], vec![(1, true)]]);
        assert!(overlap::find(&outputs, &graph(&links)).is_empty() && graph(&links).order().is_some());
    }
}
