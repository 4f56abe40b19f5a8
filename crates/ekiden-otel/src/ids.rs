//! Ids of traces and spans. They are derived, so no state has to be kept and nothing is sent under two ids.

use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::{RunId, StageId};
use ekiden_core::time::Timestamp;
use opentelemetry::trace::{SpanId, TraceId};

#[derive(Debug)]
pub(crate) struct Ids(String);

impl Ids {
    /// The time is part of it: ids of runs are short, and many people have runs.
    pub(crate) fn new(run: &RunId, started: Timestamp) -> Self {
        Self(format!("ekiden/{run}/{}", started.0))
    }

    pub(crate) fn of_watched(session: &str) -> Self {
        Self(format!("ekiden/watched/{session}"))
    }

    pub(crate) fn trace(&self) -> TraceId {
        TraceId::from_hex(&sha256_hex(self.0.as_bytes())[..32]).unwrap_or(TraceId::INVALID)
    }

    /// The attempt of this stage that this record ordered.
    pub(crate) fn attempt(&self, seq: u64, stage: &StageId) -> SpanId {
        self.span("attempt", seq, stage.as_str())
    }

    /// The span of this kind that began at this record, for this stage or wait.
    pub(crate) fn span(&self, kind: &str, seq: u64, of: &str) -> SpanId {
        let text = format!("{}/{kind}/{seq}/{of}", self.0);
        SpanId::from_hex(&sha256_hex(text.as_bytes())[..16]).unwrap_or(SpanId::INVALID)
    }
}
