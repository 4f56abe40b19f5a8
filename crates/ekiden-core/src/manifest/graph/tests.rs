use std::collections::HashSet;

use petgraph::algo::{has_path_connecting, is_cyclic_directed};
use petgraph::graph::{DiGraph, NodeIndex};
use proptest::prelude::*;

use super::*;

fn graph(needs: &[&[usize]]) -> Graph {
    Graph::new(needs.iter().map(|needs| needs.to_vec()).collect())
}

/// A diamond with a tail, and a stage that stands alone.
fn diamond() -> Graph {
    graph(&[&[], &[0], &[0], &[1, 2], &[3], &[]])
}

#[test]
fn the_order_is_that_of_the_file_where_it_may_be() {
    assert_eq!(diamond().order(), Some(vec![0, 5, 1, 2, 3, 4]));
    assert_eq!(
        diamond().waves(),
        Some(vec![vec![0, 5], vec![1, 2], vec![3], vec![4]])
    );
    assert_eq!(graph(&[&[1], &[2], &[]]).order(), Some(vec![2, 1, 0]));
    assert_eq!(graph(&[]).order(), Some(Vec::new()));
}

// shows: PLN-06
#[test]
fn each_cycle_is_told_once_from_its_first_stage() {
    assert_eq!(graph(&[&[1], &[2], &[0]]).cycles(), [[0, 1, 2]]);
    assert_eq!(graph(&[&[1, 2], &[0], &[0]]).cycles(), [[0, 1], [0, 2]]);
    assert_eq!(
        graph(&[&[], &[3], &[1], &[2, 0], &[1]]).cycles(),
        [[1, 3, 2]]
    );
    assert!(diamond().cycles().is_empty());
    assert_eq!(graph(&[&[1], &[0]]).order(), None);
}

// shows: PLN-20
#[test]
fn a_ring_of_100_000_stages_is_walked_without_recursion() {
    let ring = Graph::new(
        (0..100_000)
            .map(|stage| vec![(stage + 1) % 100_000])
            .collect(),
    );
    assert_eq!(ring.cycles().len(), 1);
    assert_eq!(ring.order(), None);
}

fn random() -> impl Strategy<Value = Vec<Vec<usize>>> {
    (1_usize..30).prop_flat_map(|stages| {
        let needs = prop::collection::hash_set(0..stages, 0..3.min(stages));
        prop::collection::vec(needs.prop_map(|needs| needs.into_iter().collect()), stages)
    })
}

/// A graph in which stages need only earlier ones.
fn acyclic() -> impl Strategy<Value = Vec<Vec<usize>>> {
    random().prop_map(|needs| {
        let earlier = |(stage, needs): (usize, Vec<usize>)| {
            needs.into_iter().filter(|need| *need < stage).collect()
        };
        needs.into_iter().enumerate().map(earlier).collect()
    })
}

fn oracle(needs: &[Vec<usize>]) -> DiGraph<(), ()> {
    let mut graph = DiGraph::new();
    for _ in needs {
        graph.add_node(());
    }
    for (stage, needs) in needs.iter().enumerate() {
        for need in needs {
            graph.add_edge(NodeIndex::new(stage), NodeIndex::new(*need), ());
        }
    }
    graph
}

proptest! {
    // shows: PLN-06
    #[test]
    fn a_cycle_is_found_just_where_there_is_one(needs in random()) {
        let graph = Graph::new(needs.clone());
        let cyclic = is_cyclic_directed(&oracle(&needs));
        let cycles = graph.cycles();
        prop_assert_eq!(!cycles.is_empty(), cyclic);
        prop_assert_eq!(graph.order().is_none(), cyclic);
        prop_assert_eq!(cycles.iter().collect::<HashSet<_>>().len(), cycles.len());
        for cycle in cycles {
            prop_assert_eq!(cycle.iter().collect::<HashSet<_>>().len(), cycle.len());
            prop_assert_eq!(cycle.iter().min(), cycle.first());
            for (at, stage) in cycle.iter().enumerate() {
                prop_assert!(needs[*stage].contains(&cycle[(at + 1) % cycle.len()]));
            }
        }
    }

    // shows: PLN-23
    #[test]
    fn orders_hold_every_need_and_ancestors_are_as_petgraph_says(needs in acyclic()) {
        let graph = Graph::new(needs.clone());
        let order = graph.order().unwrap();
        let mut turn = vec![usize::MAX; needs.len()];
        order.iter().enumerate().for_each(|(at, stage)| turn[*stage] = at);
        for (stage, needs) in needs.iter().enumerate() {
            prop_assert!(needs.iter().all(|need| turn[*need] < turn[stage]));
        }
        let oracle = oracle(&needs);
        let all = || (0..needs.len()).flat_map(|one| (0..needs.len()).map(move |other| (one, other)));
        let pairs: Vec<(usize, usize)> = all().collect();
        for ((one, other), is) in pairs.iter().zip(graph.ancestors(&order, &pairs)) {
            let path = has_path_connecting(&oracle, NodeIndex::new(*other), NodeIndex::new(*one), None);
            prop_assert_eq!(is, one != other && path);
        }
    }
}
