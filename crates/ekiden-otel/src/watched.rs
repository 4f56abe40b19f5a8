//! A checkpoint of a session that a person started, as a span.

use ekiden_core::guard::checkpoint::CheckpointReason;
use ekiden_core::time::Timestamp;
use opentelemetry::trace::SpanId;

use crate::export::{Client, Endpoints};
use crate::ids::Ids;
use crate::open::{Open, count, word};

#[derive(Debug)]
pub struct WatchedCheckpoint<'a> {
    /// The client's id of the session.
    pub session: &'a str,
    pub reason: CheckpointReason,
    /// The share of the usable window in use, if known.
    pub percent: Option<u64>,
    pub from: Timestamp,
    pub until: Timestamp,
    pub is_taken: bool,
}

impl WatchedCheckpoint<'_> {
    /// Sends it; all checkpoints of a session form one trace. Blocks for seconds if nobody answers. The error says why it
    /// is not sent, never with an address.
    pub fn send(&self, endpoints: &Endpoints) -> Result<(), String> {
        let exporters = endpoints.exporters(self.session, &Client::default());
        let exporters = exporters.map_err(|fault| fault.to_string())?;
        let ids = Ids::of_watched(self.session);
        let reason = self.reason.name();
        let mut attributes = vec![
            word("gen_ai.conversation.id", self.session.to_owned()),
            word("gen_ai.provider.name", "anthropic"),
            word("ekiden.checkpoint.reason", reason),
        ];
        let is_level = matches!(
            self.reason,
            CheckpointReason::Level2 | CheckpointReason::Level3
        );
        attributes.extend(is_level.then(|| word("ekiden.checkpoint.level", reason)));
        attributes.extend(
            self.percent
                .map(|percent| count("ekiden.checkpoint.percent", percent)),
        );
        let open = Open {
            span: ids.span("checkpoint", self.from.0, reason),
            parent: SpanId::INVALID,
            from: self.from,
        };
        let error = (!self.is_taken).then(|| "failed".to_owned());
        let span = open.close(ids.trace(), "checkpoint", self.until, attributes, error);
        exporters.send(vec![span])
    }
}
