//! What need not lie between two agents: it waits until the next one's process runs.
//!
//! The published files follow from state and the archive of the handoff from the log, so nobody misses them
//! while a process starts. The first message is sent when its own text is in the archive for good and the
//! published files are written ([`Order::Begin`]): an agent that knows its task finds in `.ekiden/` what
//! belongs to it. An attempt that ends without a start is waited for as little as one that runs.

use std::collections::BTreeSet;

use ekiden_agent::attempt::Order;
use ekiden_core::ids::{AttemptId, EffectId, StageId};

use super::Engine;
use crate::error::EngineError;
use crate::hands::Hands;
use crate::observer::Observer;

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Late {
    publish: BTreeSet<StageId>,
    archive: Vec<(EffectId, StageId, AttemptId)>,
}

impl Late {
    /// A stage's files are to be published.
    pub(super) fn publish(&mut self, stage: &StageId) {
        self.publish.insert(stage.clone());
    }

    /// An attempt's texts are to be archived.
    pub(super) fn archive(&mut self, id: EffectId, stage: &StageId, attempt: AttemptId) {
        self.archive.push((id, stage.clone(), attempt));
    }
}

impl<H: Hands> Engine<H> {
    /// The attempt's process runs: let it begin.
    ///
    /// A disk that refuses ends the engine before the agent was told anything.
    pub(super) fn begin_attempt(
        &mut self,
        stage: &StageId,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.desk.seal(self.journal.run(), stage)?;
        self.publish_late(stage, observer);
        self.hands.tell(stage, Order::Begin);
        Ok(())
    }

    pub(super) fn publish_late(&mut self, stage: &StageId, observer: &mut dyn Observer) {
        if self.late.publish.remove(stage) {
            self.publish(stage, observer);
        }
    }

    /// Writes down what waited, once nobody waits for an agent.
    pub(super) fn publish_all_late(&mut self, observer: &mut dyn Observer) {
        for stage in std::mem::take(&mut self.late.publish) {
            self.publish(&stage, observer);
        }
        self.keep_ends(observer);
    }

    pub(super) fn archive_late(&mut self) {
        for (id, stage, attempt) in std::mem::take(&mut self.late.archive) {
            self.archive(id, &stage, attempt);
        }
    }
}
