//! Turns what people ask of a run into events.

use ekiden_core::event::Event;
use ekiden_core::relay::Relay;
use ekiden_core::steering::Steered;

use super::Engine;
use crate::effect_runner::EffectRunner;
use crate::error::EngineError;

impl<R: EffectRunner> Engine<'_, R> {
    /// Records a message, unless it is already in the log.
    pub(super) fn steer(&mut self, steered: Steered) -> Result<(), EngineError> {
        if self.journal.run().has_heard(&steered.message) {
            return Ok(());
        }
        // A message may let a waiting session begin, so edits of the knowledge come first.
        self.take_edits()?;
        self.record(Event::Steered(steered))?;
        self.apply_new_limits();
        Ok(())
    }

    /// Limits may have changed, including those of sessions at work.
    fn apply_new_limits(&mut self) {
        for (stage, live) in &mut self.attempts {
            if let Some(share) = self.journal.run().relay(stage).and_then(Relay::share) {
                live.meter.set_share(share);
            }
        }
    }
}
