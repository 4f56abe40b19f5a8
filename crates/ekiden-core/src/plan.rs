//! The plan: which stage may run.
//!
//! The plan sees of a relay only that it started and how it ended. A plan of one stage is what
//! `ekiden run` makes; edges between stages are added here, not in a second model.

use std::collections::BTreeMap;

use crate::ids::StageId;
use crate::manifest::Manifest;
use crate::outcome::Outcome;

/// Which stages of a manifest are where.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    stages: BTreeMap<StageId, StageState>,
}

/// Where a stage is.
#[derive(Debug, Clone, PartialEq)]
enum StageState {
    Waiting,
    Running,
    Ended(Outcome),
}

/// What a plan wants.
#[derive(Debug, Clone, PartialEq)]
pub enum PlanDecision {
    /// Begin this stage's relay, or go on with it.
    Start(StageId),
    /// Everything is over.
    End(Outcome),
}

impl Plan {
    /// The plan of a manifest, nothing begun.
    #[must_use]
    pub fn new(manifest: &Manifest) -> Self {
        let stages = manifest.stages.iter().map(|stage| (stage.id.clone(), StageState::Waiting)).collect();
        Self { stages }
    }

    /// The stages that may begin now.
    pub fn begin(&mut self) -> Vec<PlanDecision> {
        let ready: Vec<StageId> = self
            .stages
            .iter()
            .filter(|(_, state)| **state == StageState::Waiting)
            .map(|(id, _)| id.clone())
            .collect();
        ready.into_iter().map(|id| self.start(id)).collect()
    }

    /// Ended stages go on, but for complete ones: the run was resumed.
    pub fn resume(&mut self) {
        for state in self.stages.values_mut() {
            if matches!(state, StageState::Ended(outcome) if !outcome.is_complete()) {
                *state = StageState::Running;
            }
        }
    }

    /// Complete stages go on, with follow-up work.
    pub fn go_on(&mut self) {
        for state in self.stages.values_mut() {
            if matches!(state, StageState::Ended(outcome) if outcome.is_complete()) {
                *state = StageState::Running;
            }
        }
    }

    /// This stage's relay is known to have ended.
    #[must_use]
    pub fn has_ended(&self, stage: &StageId) -> bool {
        matches!(self.stages.get(stage), Some(StageState::Ended(_)))
    }

    /// A stage's relay ended.
    pub fn stage_ended(&mut self, stage: &StageId, outcome: Outcome) -> Vec<PlanDecision> {
        self.stages.insert(stage.clone(), StageState::Ended(outcome.clone()));
        let over = self.stages.values().all(|state| matches!(state, StageState::Ended(_)));
        if over { vec![PlanDecision::End(outcome)] } else { Vec::new() }
    }

    fn start(&mut self, stage: StageId) -> PlanDecision {
        self.stages.insert(stage.clone(), StageState::Running);
        PlanDecision::Start(stage)
    }
}
