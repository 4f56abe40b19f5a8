//! The log's record, and what is still outstanding of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::effect::Effect;
use crate::event::Event;
use crate::ids::EffectId;
use crate::time::Timestamp;

/// The version of the decisions in this program. A log says with each record which logic decided.
pub const LOGIC: u32 = 1;

/// One line of the log: what happened and what was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// 1, 2, 3 without a gap.
    pub seq: u64,
    /// When it was recorded.
    pub time: Timestamp,
    /// Which logic decided.
    pub logic: u32,
    /// What happened.
    pub event: Event,
    /// What to do about it.
    pub effects: Vec<Effect>,
}

/// The recorded effects whose outcomes have not come yet. Taken from the log, never re-derived, so
/// that a newer program carries an older run on as it was decided.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outstanding(BTreeMap<EffectId, Effect>);

impl Outstanding {
    /// Takes a record in.
    pub fn fold(&mut self, record: &Record) {
        self.0.retain(|id, effect| !effect.is_settled_by(*id, &record.event));
        for (id, effect) in numbered(record) {
            if effect.has_outcome() {
                self.0.insert(id, effect.clone());
            }
        }
    }

    /// The effects, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (EffectId, &Effect)> {
        self.0.iter().map(|(id, effect)| (*id, effect))
    }

    /// This effect's outcome has not come.
    #[must_use]
    pub fn has(&self, id: EffectId) -> bool {
        self.0.contains_key(&id)
    }

    /// Nothing is outstanding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A record's effects with their ids.
pub fn numbered(record: &Record) -> impl Iterator<Item = (EffectId, &Effect)> {
    (0..).zip(&record.effects).map(|(index, effect)| (EffectId { seq: record.seq, index }, effect))
}
