//! What stages are told of each other, and of what went wrong before.

use crate::event::Check;
use crate::ids::StageId;
use crate::prompt::Slot;
use crate::relay::Relay;
use crate::run::Run;

impl Run {
    pub(super) fn clash(&self, _stage: &StageId, _files: &[String], _check: Option<&Check>) -> Slot {
        Slot::Interrupted
    }
}

pub(super) fn failed_try(_relay: &Relay, _attempt: u32, _max: u32) -> Slot {
    Slot::Interrupted
}

pub(super) fn result_text(_relay: &Relay, _files: &[String], _undeclared: &[String]) -> String {
    String::new()
}
