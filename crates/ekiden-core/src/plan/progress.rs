//! A plan that goes on elsewhere: how far it is, in few bytes, without what its manifest says.

use std::cmp::Reverse;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::manifest::Manifest;
use crate::outcome::Outcome;
use crate::plan::{Delivery, Plan, StageState};
use crate::steering::StopRequest;
use crate::time::Timestamp;

/// How far a plan is. A plan that goes on from it decides as the one that it was taken of: see [`Plan::going_on`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanProgress {
    /// Most stages are as others are, so each of these is here once.
    kinds: Vec<StageProgress>,
    /// Which of them each stage is, in the order of the manifest.
    stages: Vec<usize>,
    queue: VecDeque<usize>,
    merging: Option<usize>,
    halted: Option<Outcome>,
    stop: Option<StopRequest>,
    paused: bool,
    held_until: Option<Timestamp>,
    delivery: Delivery,
    ended: Option<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StageProgress {
    state: StageState,
    tries: u32,
    mends: u32,
    begun: bool,
    is_verified: bool,
}

impl Plan {
    pub fn progress(&self) -> PlanProgress {
        let mut kinds: Vec<StageProgress> = Vec::new();
        let stages = self.nodes.iter().map(|node| {
            let kind = StageProgress {
                state: node.state.clone(),
                tries: node.tries,
                mends: node.mends,
                begun: node.begun,
                is_verified: node.is_verified,
            };
            kinds
                .iter()
                .position(|known| *known == kind)
                .unwrap_or_else(|| {
                    kinds.push(kind);
                    kinds.len() - 1
                })
        });
        let stages = stages.collect();
        PlanProgress {
            kinds,
            stages,
            queue: self.queue.clone(),
            merging: self.merging,
            halted: self.halted.clone(),
            stop: self.stop,
            paused: self.paused,
            held_until: self.held_until,
            delivery: self.delivery.clone(),
            ended: self.ended.clone(),
        }
    }

    /// The plan of a manifest that is as far as that.
    pub fn going_on(manifest: &Manifest, progress: PlanProgress) -> Self {
        let mut plan = Self::new(manifest);
        for (node, kind) in plan.nodes.iter_mut().zip(&progress.stages) {
            if let Some(kind) = progress.kinds.get(*kind) {
                node.state = kind.state.clone();
                node.tries = kind.tries;
                node.mends = kind.mends;
                node.begun = kind.begun;
                node.is_verified = kind.is_verified;
            }
        }
        let places = 0..plan.nodes.len();
        let ready = places.filter(|at| plan.nodes[*at].state == StageState::Ready);
        plan.ready = ready.map(|at| (Reverse(plan.behind[at]), at)).collect();
        let holds =
            |state: &StageState| matches!(state, StageState::Preparing | StageState::Working);
        plan.at_work = plan.nodes.iter().filter(|node| holds(&node.state)).count();
        plan.over = plan.nodes.iter().filter(|node| node.is_over()).count();
        plan.queue = progress.queue;
        plan.merging = progress.merging;
        plan.halted = progress.halted;
        plan.stop = progress.stop;
        plan.paused = progress.paused;
        plan.held_until = progress.held_until;
        plan.delivery = progress.delivery;
        plan.ended = progress.ended;
        plan.open();
        plan
    }
}
