//! The log's record, and its outstanding effects.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::effect::{Effect, RelayEffect};
use crate::event::{Event, RelayEvent, TaskOutcome};
use crate::ids::{AttemptId, EffectId, StageId};
use crate::time::Timestamp;

/// The version of this program's decisions. A log says for each record which logic decided it.
pub const LOGIC: u32 = 1;

/// One line of the log: what happened and what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// 1, 2, 3 without a gap.
    pub seq: u64,
    pub time: Timestamp,
    pub logic: u32,
    pub event: Event,
    /// What to do about it.
    pub effects: Vec<Effect>,
}

/// The recorded effects whose outcomes have not come yet. They come from the log and are never derived again,
/// so a newer program continues an older run as it was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outstanding(BTreeMap<EffectId, Effect>);

impl Outstanding {
    pub fn fold(&mut self, record: &Record) {
        self.0
            .retain(|id, effect| !is_settled(effect, *id, &record.event));
        for (id, effect) in numbered(record) {
            if effect.has_outcome() {
                self.0.insert(id, effect.clone());
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (EffectId, &Effect)> {
        self.0.iter().map(|(id, effect)| (*id, effect))
    }

    /// This effect's outcome has not come.
    pub fn has(&self, id: EffectId) -> bool {
        self.0.contains_key(&id)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

pub fn numbered(record: &Record) -> impl Iterator<Item = (EffectId, &Effect)> {
    (0..).zip(&record.effects).map(|(index, effect)| {
        (
            EffectId {
                seq: record.seq,
                index,
            },
            effect,
        )
    })
}

/// The event is the outcome of this effect.
fn is_settled(effect: &Effect, id: EffectId, event: &Event) -> bool {
    match event {
        Event::Stage {
            stage,
            event:
                RelayEvent::Task {
                    effect: settled,
                    outcome: TaskOutcome::Published,
                },
        } => *settled == id || (id < *settled && publishes(effect, stage)),
        Event::Worktree {
            effect: settled, ..
        }
        | Event::Delivered {
            effect: settled, ..
        }
        | Event::Stage {
            event: RelayEvent::Task {
                effect: settled, ..
            },
            ..
        } => *settled == id,
        Event::Stage { stage, event } => event
            .ended()
            .is_some_and(|(attempt, _)| starts(effect, stage, attempt)),
        Event::RunStarted(_)
        | Event::RunResumed(_)
        | Event::Continued(_)
        | Event::LogicChanged { .. }
        | Event::LogAccepted { .. }
        | Event::UtcOffsetChanged { .. }
        | Event::Woke
        | Event::StopRequested(_)
        | Event::Steered(_)
        | Event::Elsewhere { .. } => false,
    }
}

/// The effect was to publish this stage's files, and could not write them then.
fn publishes(effect: &Effect, of_stage: &StageId) -> bool {
    matches!(effect, Effect::Stage { stage, effect: RelayEffect::PublishDurably } if stage == of_stage)
}

fn starts(effect: &Effect, of_stage: &StageId, attempt: AttemptId) -> bool {
    matches!(effect, Effect::Stage { stage, effect: RelayEffect::StartAttempt(start) }
        if stage == of_stage && start.attempt == attempt)
}
