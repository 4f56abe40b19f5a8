//! The inbox: what people ask of a running run becomes events.
//!
//! Each message is recorded with its id and only then removed, so a crash in between shows it again,
//! and it is known. What cannot be read is moved aside and told; it never stops the run.

use ekiden_core::event::Event;
use ekiden_core::relay::Relay;
use ekiden_core::steering::Steered;
use ekiden_core::time::Timestamp;

use super::Engine;
use crate::error::{EngineError, in_full};
use crate::hands::Hands;
use crate::observer::Observer;

impl<H: Hands> Engine<H> {
    /// Takes every message that lies in the inbox. `late`: they were sent while no engine heard them.
    pub(super) fn take_messages(
        &mut self,
        at: Timestamp,
        late: bool,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let run = self.journal.run();
        let found = match self.desk.messages(|id| run.has_heard(id)) {
            Ok(found) => found,
            Err(error) => {
                self.warn_once(observer, &in_full(&error));
                return Ok(());
            }
        };
        for bad in &found.bad {
            let what = in_full(&bad.fault);
            observer.warn(&format!("a message in the inbox is set aside (`bad/{}`): {what}", bad.name));
        }
        for received in found.messages {
            // What is held back begins with the next record, so edits are looked for before it.
            self.take_edits(at, observer)?;
            let (message, steering) = (received.message.id.clone(), received.message.body.clone());
            self.record(at, Event::Steered(Steered { message, late, steering }), observer)?;
            self.measure_by_limits_of_now();
            if let Err(error) = self.desk.remove_message(&received) {
                self.warn_once(observer, &in_full(&error));
            }
        }
        Ok(())
    }

    /// Limits may have changed: what the sessions at work may spend is measured by those of now.
    fn measure_by_limits_of_now(&mut self) {
        for (stage, working) in &mut self.working {
            if let Some(share) = self.journal.run().relay(stage).and_then(Relay::share) {
                working.meter.set_share(share);
            }
        }
    }
}
