//! The progress of a plan that runs elsewhere, in a few bytes and without the content of its manifest.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::manifest::Manifest;
use crate::plan::node::StageNow;
use crate::plan::{Plan, PlanNow, StageState};

/// The progress of a plan. A plan that continues from it decides like the original: see [`Plan::going_on`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanProgress {
    /// Most stages share a state, so each distinct state is here once.
    kinds: Vec<StageNow>,
    /// The index of each stage's state, in the order of the manifest.
    stages: Vec<usize>,
    #[serde(flatten)]
    plan: PlanNow,
}

impl Plan {
    pub fn progress(&self) -> PlanProgress {
        let mut kinds: Vec<StageNow> = Vec::new();
        let stages = self.nodes.iter().map(|node| {
            let known = kinds.iter().position(|known| *known == node.now);
            known.unwrap_or_else(|| {
                kinds.push(node.now.clone());
                kinds.len() - 1
            })
        });
        PlanProgress {
            stages: stages.collect(),
            kinds,
            plan: self.now.clone(),
        }
    }

    pub fn going_on(manifest: &Manifest, progress: PlanProgress) -> Self {
        let mut plan = Self::new(manifest);
        for (node, kind) in plan.nodes.iter_mut().zip(&progress.stages) {
            if let Some(kind) = progress.kinds.get(*kind) {
                node.now = kind.clone();
            }
        }
        let places = 0..plan.nodes.len();
        let ready = places.filter(|at| plan.nodes[*at].now.state == StageState::Ready);
        plan.ready = ready.map(|at| (Reverse(plan.behind[at]), at)).collect();
        let holds =
            |state: &StageState| matches!(state, StageState::Preparing | StageState::Working);
        let at_work = plan.nodes.iter().filter(|node| holds(&node.now.state));
        plan.at_work = at_work.count();
        plan.over = plan.nodes.iter().filter(|node| node.is_over()).count();
        plan.now = progress.plan;
        plan.open();
        plan
    }
}
