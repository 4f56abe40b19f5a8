use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Bfs, EdgeRef};
use proptest::prelude::*;

use super::courses::{id, manifest};
use crate::effect::WorktreeEffect;
use crate::manifest::{Manifest, Need, OnFail, Part, Stage, Take};
use crate::outcome::Outcome;
use crate::plan::{Plan, PlanDecision, PlanProgress, StageEnd, StageState};
use crate::steering::StopRequest;
use crate::time::Timestamp;

const NOW: Timestamp = Timestamp(1_000);

/// A stage of a random plan: what it needs, how long it takes, whether it fails and what that means, whether
/// the user leaves it out.
#[derive(Debug, Clone)]
struct Sketch {
    needs: Vec<(prop::sample::Index, bool)>,
    length: u64,
    fails: bool,
    on_fail: OnFail,
    left_out: bool,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let needs = prop::collection::vec(
        (any::<prop::sample::Index>(), prop::bool::weighted(0.2)),
        0..4,
    );
    let on_fail = prop_oneof![Just(OnFail::Block), Just(OnFail::Skip)];
    let drawn = (
        needs,
        1_u64..100,
        prop::bool::weighted(0.15),
        on_fail,
        prop::bool::weighted(0.1),
    );
    drawn.prop_map(|(needs, length, fails, on_fail, left_out)| Sketch {
        needs,
        length,
        fails,
        on_fail,
        left_out,
    })
}

fn sketches(max: usize) -> impl Strategy<Value = Vec<Sketch>> {
    prop::collection::vec(sketch(), 1..max)
}

/// A manifest of sketches. Each needs earlier ones only, so there is no cycle.
fn drawn(jobs: u32, sketches: &[Sketch]) -> Manifest {
    let stages = sketches.iter().enumerate().map(|(at, sketch)| {
        let mut needs: Vec<Need> = Vec::new();
        for (index, optional) in sketch.needs.iter().filter(|_| at > 0) {
            let stage = id(&format!("S{}", index.index(at)));
            if needs.iter().all(|need| need.stage != stage) {
                needs.push(Need {
                    stage,
                    optional: *optional,
                });
            }
        }
        let take = if sketch.left_out {
            Take::Skip
        } else {
            Take::Run
        };
        let (estimate_tokens, on_fail) = (sketch.length, sketch.on_fail);
        let part = Part {
            needs,
            estimate_tokens,
            on_fail,
            take,
            ..Part::default()
        };
        Stage {
            id: id(&format!("S{at}")),
            task: "Do it.".to_owned(),
            task_name: String::new(),
            verification: None,
            claim_needed: true,
            sessions_max: 1,
            part,
        }
    });
    manifest(jobs, stages.collect())
}

/// The same as the oracle sees it.
fn graph(manifest: &Manifest) -> DiGraph<usize, bool> {
    let mut graph = DiGraph::new();
    let nodes: Vec<NodeIndex> = (0..manifest.stages.len())
        .map(|at| graph.add_node(at))
        .collect();
    let place: BTreeMap<_, _> = manifest
        .stages
        .iter()
        .enumerate()
        .map(|(at, stage)| (stage.id.clone(), at))
        .collect();
    for (at, stage) in manifest.stages.iter().enumerate() {
        for need in &stage.part.needs {
            graph.add_edge(nodes[place[&need.stage]], nodes[at], need.optional);
        }
    }
    graph
}

/// A plan that is carried out in simulated time, with merges that take none.
struct Drive<'a> {
    plan: Plan,
    sketches: &'a [Sketch],
    graph: DiGraph<usize, bool>,
    now: u64,
    at_work: BinaryHeap<Reverse<(u64, usize)>>,
    outcome: Option<Outcome>,
    /// What it decided, in its order.
    decided: Vec<PlanDecision>,
    /// The manifest, where the plan goes on elsewhere before each of its steps.
    moves: Option<Manifest>,
    /// After so many decisions somebody stops it.
    stops_after: Option<usize>,
    /// A stage that was ready before a resume begins, even if one that it needs optionally goes on.
    is_resumed: bool,
}

impl<'a> Drive<'a> {
    fn new(jobs: u32, sketches: &'a [Sketch]) -> Self {
        let manifest = drawn(jobs, sketches);
        let (plan, graph) = (Plan::new(&manifest), graph(&manifest));
        Self {
            plan,
            sketches,
            graph,
            now: 0,
            at_work: BinaryHeap::new(),
            outcome: None,
            decided: Vec::new(),
            moves: None,
            stops_after: None,
            is_resumed: false,
        }
    }

    /// The plan, which may be another one that goes on where it was.
    fn plan(&mut self) -> &mut Plan {
        if let Some(manifest) = &self.moves {
            let progress = serde_json::to_string(&self.plan.progress()).unwrap();
            let progress: PlanProgress = serde_json::from_str(&progress).unwrap();
            self.plan = Plan::going_on(manifest, progress);
        }
        &mut self.plan
    }

    /// To its end, and after a resume to its next end.
    fn driven_twice(mut self) -> Self {
        self = self.driven();
        self.plan().resume(None);
        self.outcome = None;
        self.is_resumed = true;
        self.driven()
    }

    fn driven(mut self) -> Self {
        self.carry_on();
        while let Some(Reverse((at, stage))) = self.at_work.pop() {
            self.now = at;
            let decided = self.decided.len();
            if self
                .stops_after
                .take_if(|after| *after <= decided)
                .is_some()
            {
                self.plan().stop(StopRequest::Gently);
            }
            let fails = self.sketches[stage].fails;
            let outcome = if fails {
                Outcome::SessionLimit
            } else {
                Outcome::Complete { verified: false }
            };
            let decision = self.plan().stage_ended(&name(stage), &outcome);
            assert_eq!(decision, None);
            self.carry_on();
        }
        self
    }

    fn carry_on(&mut self) {
        loop {
            let decisions = self.plan().next(NOW);
            if decisions.is_empty() {
                assert_eq!(self.plan.at_work(), self.at_work.len());
                assert!(self.at_work.len() <= self.plan.jobs());
                return;
            }
            for decision in decisions {
                self.carry_out(decision);
            }
        }
    }

    fn carry_out(&mut self, decision: PlanDecision) {
        assert_eq!(self.outcome, None, "nothing comes after the end");
        self.decided.push(decision.clone());
        match decision {
            PlanDecision::Worktree(stage, WorktreeEffect::Prepare) => {
                let started = self.plan().prepared(&stage, Ok(()));
                assert_eq!(started, Some(PlanDecision::Start(stage.clone())));
                let at = place(stage.as_str());
                assert!(!self.sketches[at].left_out, "S{at} was left out");
                if !self.is_resumed {
                    self.may_start(at);
                }
                self.at_work
                    .push(Reverse((self.now + self.sketches[at].length, at)));
            }
            PlanDecision::Worktree(stage, WorktreeEffect::Merge) => self.plan().merged(&stage),
            PlanDecision::Deliver => self.plan().delivered(None),
            PlanDecision::End(outcome) => self.outcome = Some(outcome),
            // After a resume.
            PlanDecision::Start(stage) => {
                let at = place(stage.as_str());
                self.at_work
                    .push(Reverse((self.now + self.sketches[at].length, at)));
            }
            other @ (PlanDecision::Retry { .. }
            | PlanDecision::Worktree(_, WorktreeEffect::Confirm)) => {
                panic!("{other:?}")
            }
        }
    }

    /// What a stage needs is done, or over where the edge is optional.
    fn may_start(&self, stage: usize) {
        for edge in self
            .graph
            .edges_directed(NodeIndex::new(stage), petgraph::Incoming)
        {
            let need = self.plan.state(&name(edge.source().index()));
            match need {
                Some(StageState::Over(StageEnd::Done)) => {}
                Some(StageState::Over(_)) => assert!(*edge.weight(), "S{stage} started too early"),
                other => panic!(
                    "S{stage} started while S{} is {other:?}",
                    edge.source().index()
                ),
            }
        }
    }
}

fn name(stage: usize) -> crate::ids::StageId {
    id(&format!("S{stage}"))
}

fn place(name: &str) -> usize {
    name[1..].parse().unwrap()
}

/// Which stages must run: those that are not left out, and nothing behind one, by edges that are not optional,
/// that is left out, fails, or must not run itself.
fn runs(sketches: &[Sketch], graph: &DiGraph<usize, bool>) -> Vec<bool> {
    let mut needed = graph.clone();
    needed.retain_edges(|graph, edge| !graph[edge]);
    let mut runs: Vec<bool> = sketches.iter().map(|sketch| !sketch.left_out).collect();
    // Earlier stages come first, so what holds a stage back is known when it comes to it.
    for at in 0..sketches.len() {
        if !runs[at] || sketches[at].fails {
            let mut behind = Bfs::new(&needed, NodeIndex::new(at));
            while let Some(node) = behind.next(&needed) {
                runs[node.index()] &= node.index() == at;
            }
        }
    }
    runs
}

proptest! {
    // shows: PLN-08, PLN-12, PLN-13
    #[test]
    fn every_plan_runs_as_its_graph_says(jobs in 1_u32..9, sketches in sketches(60)) {
        let drive = Drive::new(jobs, &sketches).driven();
        let runs = runs(&sketches, &drive.graph);
        let (mut matters, mut done) = (false, false);
        for (at, sketch) in sketches.iter().enumerate() {
            let end = match drive.plan.state(&name(at)) {
                Some(StageState::Over(end)) => end.clone(),
                other => panic!("S{at} is {other:?}"),
            };
            match &end {
                StageEnd::Done => prop_assert!(!sketch.fails && runs[at]),
                StageEnd::Failed(_) => prop_assert!(sketch.fails && runs[at] && sketch.on_fail == OnFail::Block),
                StageEnd::Skipped(_) => prop_assert!(sketch.fails && runs[at] && sketch.on_fail == OnFail::Skip),
                StageEnd::Blocked { .. } => prop_assert!(!runs[at] && !sketch.left_out, "S{}", at),
                StageEnd::LeftOut { with } => {
                    prop_assert!(!runs[at] && sketch.left_out == with.is_none(), "S{}", at);
                }
            }
            matters |= matches!(end, StageEnd::Failed(_) | StageEnd::Blocked { .. });
            done |= end == StageEnd::Done;
        }
        let all_failed = !done && sketches.iter().enumerate().any(|(at, sketch)| runs[at] && sketch.fails);
        let is_complete = drive.outcome.as_ref().is_some_and(Outcome::is_complete);
        prop_assert_eq!(is_complete, !matters && !all_failed);
    }

    // shows: FLT-06
    #[test]
    fn a_plan_that_goes_on_elsewhere_decides_the_same(jobs in 1_u32..9, sketches in sketches(30), stops_after in 0_usize..60) {
        let (mut stays, mut moves) = (Drive::new(jobs, &sketches), Drive::new(jobs, &sketches));
        (stays.stops_after, moves.stops_after) = (Some(stops_after), Some(stops_after));
        moves.moves = Some(drawn(jobs, &sketches));
        let (stays, moves) = (stays.driven_twice(), moves.driven_twice());
        prop_assert_eq!(stays.decided, moves.decided);
        prop_assert_eq!(stays.outcome, moves.outcome);
        prop_assert_eq!(stays.plan.progress(), moves.plan.progress());
    }

    // shows: PLN-19
    #[test]
    fn the_whole_takes_never_longer_than_the_bound(jobs in 1_u32..9, mut sketches in sketches(200)) {
        for sketch in &mut sketches {
            (sketch.fails, sketch.left_out) = (false, false);
        }
        let drive = Drive::new(jobs, &sketches).driven();
        let work: u64 = sketches.iter().map(|sketch| sketch.length).sum();
        let lower = longest(&sketches, &drive.graph).max(work.div_ceil(u64::from(jobs)));
        // (2 - 1/m) times the lower bound, in whole numbers.
        prop_assert!(drive.now * u64::from(jobs) <= (2 * u64::from(jobs) - 1) * lower);
        prop_assert_eq!(drive.outcome, Some(Outcome::Complete { verified: false }));
    }
}

/// The longest chain: no order can be quicker.
fn longest(sketches: &[Sketch], graph: &DiGraph<usize, bool>) -> u64 {
    let mut ends = vec![0; sketches.len()];
    for at in 0..sketches.len() {
        let before = graph.edges_directed(NodeIndex::new(at), petgraph::Incoming);
        let start = before
            .map(|edge| ends[edge.source().index()])
            .max()
            .unwrap_or(0);
        ends[at] = start + sketches[at].length;
    }
    ends.into_iter().max().unwrap_or(0)
}
