//! What becomes of a message that we sent with an id.

use serde::{Deserialize, Serialize};

use super::ClientEvent;

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// It was read and waits.
    Queued,
    /// It is delivered: the next request holds it.
    Started,
    /// The turn that took it has ended.
    Completed,
    /// It will never be delivered.
    #[serde(alias = "discarded", alias = "refused")]
    Cancelled,
    /// The client said something else.
    #[default]
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct LifecycleLine {
    command_uuid: String,
    #[serde(default)]
    state: Lifecycle,
}

pub(super) fn parse(line: &[u8]) -> Option<ClientEvent> {
    let line: LifecycleLine = serde_json::from_slice(line).ok()?;
    Some(ClientEvent::Lifecycle { uuid: line.command_uuid, state: line.state })
}
