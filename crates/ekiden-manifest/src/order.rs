//! Edges that keep stages in the order that their format implies.
//!
//! CASM and cleave run one stage after the other, all in one directory, so their manifests need not name everything
//! that a stage builds on. The edges added here are optional, so a skipped stage blocks no other. They follow an
//! order of the named edges, so none of them closes a cycle. A manifest with cycles gets none.

use ekiden_core::manifest::graph::Graph;

use crate::overlap::{self, Output};

/// For each stage, the places of the stages that it needs, and whether the need is optional.
pub(crate) type Links = Vec<Vec<(usize, bool)>>;

pub(crate) fn graph(links: &Links) -> Graph {
    let needs = links
        .iter()
        .map(|found| found.iter().map(|(place, _)| *place).collect());
    Graph::new(needs.collect())
}

/// Each need once, in the order of the file; a need that is listed twice is optional only if both are.
pub(crate) fn tidy(links: &mut Links) {
    for found in links {
        found.sort_unstable();
        found.dedup_by_key(|(place, _)| *place);
    }
}

/// Stages that follow wait for the one before them in the file. A stage that others further up require counts
/// as if it came before those. With a cycle, none waits.
pub(crate) fn by_the_file(follows: &[bool], graph: &Graph, links: &mut Links) {
    let order = graph.order_by(|stage| stage).unwrap_or_default();
    for pair in order.windows(2) {
        if follows[pair[1]] {
            links[pair[1]].push((pair[0], true));
        }
    }
    tidy(links);
}

/// Stages that write the same file do so one after the other, in the order in which CASM runs them.
pub(crate) fn by_outputs(outputs: &[Output<'_>], graph: &Graph, links: &mut Links) {
    let order = graph.order().unwrap_or_default();
    let turn = overlap::turns(&order);
    let overlaps = overlap::find(outputs, graph);
    for (one, other) in overlaps.pairs {
        let (first, second) = if turn[one.stage] < turn[other.stage] {
            (one.stage, other.stage)
        } else {
            (other.stage, one.stage)
        };
        links[second].push((first, true));
    }
    if overlaps.too_many {
        order
            .windows(2)
            .for_each(|pair| links[pair[1]].push((pair[0], true)));
    }
    tidy(links);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(needs: &[&[usize]]) -> Links {
        needs
            .iter()
            .map(|needs| needs.iter().map(|place| (*place, false)).collect())
            .collect()
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
        assert_eq!(
            links,
            [vec![], vec![(0, true)], vec![(0, false)], vec![(2, true)]]
        );
        let forward = ordered(
            &[&[], &[3], &[], &[], &[]],
            &[true, false, true, true, true],
        );
        assert_eq!(
            forward[2..],
            [vec![(0, true)], vec![(2, true)], vec![(1, true)]]
        );
        assert!(graph(&forward).cycles().is_empty());
        let first = ordered(&[&[2], &[], &[]], &[false, true, true]);
        assert_eq!(first, [vec![(2, false)], vec![], vec![(1, true)]]);
        let cycle = ordered(&[&[1], &[0], &[]], &[false, false, true]);
        assert_eq!(
            cycle,
            plain(&[&[1], &[0], &[]]),
            "a cycle is a fault; nothing is made of it"
        );
    }

    // shows: PLN-05, PLN-23
    #[test]
    fn stages_that_write_the_same_are_put_in_the_order_of_the_graph() {
        let output = |stage, pattern| Output {
            stage,
            pattern,
            line: 1,
        };
        let mut links = plain(&[&[2], &[], &[], &[]]);
        let outputs = [
            output(0, "a"),
            output(1, "a"),
            output(2, "b"),
            output(3, "a"),
        ];
        by_outputs(&outputs, &graph(&links), &mut links);
        assert_eq!(
            links,
            [vec![(2, false), (3, true)], vec![], vec![], vec![(1, true)]]
        );
        assert!(
            overlap::find(&outputs, &graph(&links)).pairs.is_empty()
                && graph(&links).order().is_some()
        );
    }
}
