//! Stages that other machines run. Each is a separate run there, and its log comes here.

use super::{Run, staged};
use crate::budget::AgentBudget;
use crate::effect::{Effect, RelayEffect};
use crate::event::{Elsewhere, Event, WorktreeEvent};
use crate::ids::StageId;
use crate::notice::{self, Notice};
use crate::outcome::Outcome;
use crate::relay::Relay;
use crate::time::Timestamp;

impl Run {
    /// Applies the order of a fleet's plan: the stages that it began and merged count.
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
                let outcome = self.of_all_stages(outcome);
                // Its own run has already used all retries.
                while self.plan.stage_ended(stage, &outcome).is_some() {}
                let relay = self.relays.get(stage);
                let notice = relay.and_then(|relay| notice_of(relay, &outcome));
                // The plan notifies of its end, which may be hours away.
                let asks = self.plan.asks(stage) && self.plan.goes_on();
                staged(stage, notice.into_iter().filter(|_| asks).collect())
            }
        }
    }

    /// A stage's own run knows only its part of a budget.
    fn of_all_stages(&self, outcome: &Outcome) -> Outcome {
        let mut outcome = outcome.clone();
        if let Outcome::BudgetSpent {
            spent,
            budget,
            agents,
        } = &mut outcome
        {
            if agents.is_empty() {
                (*spent, *budget) = (self.totals().spend, self.budget());
            }
            let all = self.agent_budgets();
            let of_all = |part: &AgentBudget| all.iter().find(|all| all.agent == part.agent);
            for part in agents {
                if let Some(of_all) = of_all(part) {
                    (part.spent, part.budget) = (of_all.spent, of_all.budget);
                }
            }
        }
        outcome
    }

    /// Folds a record of a stage's run on another machine. Its relay is shown as ours; the plan learns about its end
    /// separately.
    pub(super) fn recorded_elsewhere(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        event: &Event,
    ) -> Vec<Effect> {
        let mut effects = match (event, self.apart.get_mut(stage)) {
            (Event::RunStarted(header), _) => {
                // After a round that did not merge.
                if let Some(before) = self.relays.remove(stage) {
                    self.live.remove(stage);
                    self.before = self.before.plus(before.totals);
                    self.spent_by = self.spent_by.clone().plus(&before.spent_by);
                }
                let (run, effects) = Self::begin(at, header);
                self.apart.insert(stage.clone(), run);
                effects
            }
            (_, Some(run)) => {
                run.relays.extend(self.relays.remove_entry(stage));
                run.step(at, event)
            }
            (_, None) => return Vec::new(),
        };
        effects.retain(|effect| matches!(effect, Effect::Stage { .. }));
        let run = self.apart.get_mut(stage);
        if let Some((_, relay)) = run.and_then(|run| run.relays.remove_entry(stage)) {
            match relay.outcome() {
                None => self.live.insert(stage.clone()),
                Some(_) => self.live.remove(stage),
            };
            self.relays.insert(stage.clone(), relay);
        }
        effects
    }
}

/// The notice of a stage's end, if there is to be one.
pub(super) fn notice_of(relay: &Relay, outcome: &Outcome) -> Option<RelayEffect> {
    let settings = &relay.settings;
    let notice = notice::of_end(outcome, relay.totals.sessions, settings.notify_text);
    notice.filter(|_| settings.notify).map(Notice::effect)
}
