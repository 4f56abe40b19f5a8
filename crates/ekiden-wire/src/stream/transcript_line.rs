//! A line of the client's transcript, as the event that it was in the stream.
//!
//! A transcript holds the same messages with other members around them, in any order. It also holds
//! requests and the client's own bookkeeping, which are passed over, and its last line may not be whole
//! yet.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{ClientEvent, assistant, system, user};

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    subtype: Option<Cow<'a, str>>,
    #[serde(default, rename = "isSidechain")]
    side_chain: bool,
    /// What the service told beside a failure, in a line of the client's own making.
    #[serde(borrow, default, rename = "apiErrorParams")]
    failure: Option<&'a RawValue>,
}

/// What a line of the main thread tells. All else is [`ClientEvent::Ignored`].
pub(crate) fn parse(line: &[u8]) -> ClientEvent {
    let Ok(Kind { kind, subtype, side_chain: false, failure }) = serde_json::from_slice(line) else {
        return ClientEvent::Ignored;
    };
    // It is an event of its own in the stream.
    if let Some(limit) = failure.and_then(|told| system::parse_rate_limit(told.get().as_bytes())) {
        return limit;
    }
    let event = match (&*kind, subtype.as_deref()) {
        ("assistant", _) => assistant::parse(line),
        ("user", _) => user::parse(line),
        ("system", Some(subtype @ "compact_boundary")) => system::parse(Some(subtype.as_bytes()), line),
        (_, _) => None,
    };
    event.unwrap_or(ClientEvent::Ignored)
}
