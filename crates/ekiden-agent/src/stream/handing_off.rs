//! Whether the response under way writes the handoff. A turn that is over its budget then ends a little later: that
//! response is paid for, and what it writes must not be lost.

use ekiden_core::prompt;
use ekiden_wire::stream::ToolResult;
use ekiden_wire::tools::{Call, ToolKind};

#[derive(Debug, Default)]
pub(super) struct HandingOff {
    /// The calls of the last response that write the handoff and still run, once it has called anything.
    writing: Option<Vec<String>>,
    /// This turn has read a message of ours, so it is about to hand off.
    heard: bool,
    /// The turn is to end.
    ends: bool,
}

impl HandingOff {
    pub(super) fn heard(&mut self) {
        self.heard = true;
    }

    pub(super) fn interrupted(&mut self) {
        self.ends = true;
    }

    /// Another response of the main thread begins. None is waited for twice.
    pub(super) fn responds(&mut self) {
        self.writing = None;
        self.heard &= !self.ends;
    }

    pub(super) fn calls(&mut self, call: &Call) {
        let writes = call.kind != ToolKind::Read && call.target.contains(prompt::HANDOFF_DIR);
        let writing = self.writing.get_or_insert_default();
        writing.extend(writes.then(|| call.id.clone()));
    }

    pub(super) fn ended(&mut self, result: &ToolResult) {
        if let Some(writing) = &mut self.writing {
            writing.retain(|call| *call != result.tool_use_id);
        }
    }

    /// True once, if the turn is to end and nothing is in the way.
    pub(super) fn is_over(&mut self) -> bool {
        let writes = match &self.writing {
            None => self.heard,
            Some(calls) => !calls.is_empty(),
        };
        !writes && std::mem::take(&mut self.ends)
    }
}
