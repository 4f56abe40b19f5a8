//! A line of the client's transcript, as the event that it was in the stream.
//!
//! A transcript holds the same messages with other members around them, in any order. It also holds
//! requests and the client's own bookkeeping, which are passed over, and its last line may not be whole
//! yet.

use std::borrow::Cow;

use serde::Deserialize;

use super::{ClientEvent, assistant, system, user};

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    subtype: Option<Cow<'a, str>>,
    #[serde(default, rename = "isSidechain")]
    side_chain: bool,
}

/// What a line of the main thread tells. All else is [`ClientEvent::Ignored`].
pub(crate) fn parse(line: &[u8]) -> ClientEvent {
    let Ok(Kind { kind, subtype, side_chain: false }) = serde_json::from_slice(line) else {
        return ClientEvent::Ignored;
    };
    let event = match (&*kind, subtype.as_deref()) {
        ("assistant", _) => assistant::parse(line),
        ("user", _) => user::parse(line),
        ("system", Some(subtype @ "compact_boundary")) => system::parse(Some(subtype.as_bytes()), line),
        (_, _) => None,
    };
    event.unwrap_or(ClientEvent::Ignored)
}
