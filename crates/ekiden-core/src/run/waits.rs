//! What is due when nothing happens, and until when a run waits.

use super::Run;
use crate::event::{Event, RelayEvent};
use crate::ids::StageId;
use crate::outcome::WaitCause;
use crate::plan::StageState;
use crate::time::Timestamp;

impl Run {
    /// The events that are due at a time because nothing else happened.
    pub fn due(&self, at: Timestamp) -> Vec<Event> {
        let due = |wakes: Option<Timestamp>| wakes.is_some_and(|wakes| wakes <= at);
        let plan = due(self.plan.wakes_at()).then_some(Event::Woke);
        self.live()
            .filter(|(_, relay)| relay.is_due(at))
            .map(|(stage, _)| Event::Stage {
                stage: stage.clone(),
                event: RelayEvent::Woke,
            })
            .chain(plan)
            .collect()
    }

    /// The next time at which [`Run::due`] has something.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.live()
            .filter_map(|(_, relay)| relay.wakes_at())
            .chain(self.plan.wakes_at())
            .min()
    }

    /// Until when all of it waits; none if something works.
    pub fn waits_until(&self) -> Option<Timestamp> {
        let is_busy =
            |state: &StageState| matches!(state, StageState::Preparing | StageState::Merging);
        if self.plan.states().any(|(_, state)| is_busy(state)) {
            return None;
        }
        let relays = self.live().map(|(_, relay)| relay.waits_until());
        // None is less than any time: where one relay works, the run does not wait.
        let waits = relays.chain(self.plan.wakes_at().map(Some));
        waits.min().flatten()
    }

    /// Until when a stage waits that has begun or could begin. Nobody knows when others give back a budget.
    pub fn stage_waits_until(&self, stage: &StageId, now: Timestamp) -> Option<Timestamp> {
        if self.plan.state(stage) == Some(&StageState::Ready) {
            return self.plan.held_until(stage, now);
        }
        let relay = self.relay(stage)?;
        relay
            .waits_until()
            .filter(|_| !relay.waits(WaitCause::Budget))
    }
}
