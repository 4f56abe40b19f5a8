//! Stages that other machines carry out, each in a run of its own whose log comes here.

use super::Run;
use crate::effect::Effect;
use crate::event::{Elsewhere, Event, WorktreeEvent};
use crate::ids::StageId;
use crate::time::Timestamp;

impl Run {
    /// Where a fleet's plan decides, what it began and merged counts.
    pub(super) fn settle_order(&mut self, stage: &StageId, event: &WorktreeEvent) {
        if self.header.fleet.is_some() {
            match event {
                WorktreeEvent::Prepared { .. } => self.plan.begins_elsewhere(stage),
                WorktreeEvent::Merged { .. } | WorktreeEvent::Confirmed { .. } => {
                    self.plan.merges_elsewhere(stage);
                }
            }
        }
    }

    pub(super) fn elsewhere(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        event: &Elsewhere,
    ) -> Vec<Effect> {
        match event {
            Elsewhere::Recorded { event, .. } => self.recorded_elsewhere(at, stage, event),
            Elsewhere::Ended { outcome } => {
                // Its own run has retried it as often as it may.
                while self.plan.stage_ended(stage, outcome).is_some() {}
                Vec::new()
            }
        }
    }

    /// Takes in what the run of a stage recorded on another machine. Its relay is shown as ours; the plan hears of its end
    /// by itself.
    pub(super) fn recorded_elsewhere(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        event: &Event,
    ) -> Vec<Effect> {
        let mut effects = match (event, self.apart.get_mut(stage)) {
            (Event::RunStarted(header), _) => {
                let (run, effects) = Self::begin(at, header);
                self.apart.insert(stage.clone(), run);
                effects
            }
            (_, Some(run)) => run.step(at, event),
            (_, None) => return Vec::new(),
        };
        effects.retain(|effect| matches!(effect, Effect::Stage { .. }));
        if let Some(relay) = self.apart.get(stage).and_then(|run| run.relay(stage)) {
            self.relays.insert(stage.clone(), relay.clone());
            match relay.outcome() {
                None => self.live.insert(stage.clone()),
                Some(_) => self.live.remove(stage),
            };
        }
        effects
    }
}
