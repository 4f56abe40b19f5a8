//! The handoff protocol: the rules, once, above all data.
//!
//! The protocol is the fixed instructions: the same bytes in every session of a run, in the system prompt if
//! the agent has one. The agent gives it more weight than any note, and the cache keeps it.

use super::fill::fill;
use crate::handoff::files::HandoffFile;
use crate::handoff::headings::Heading;
use crate::handoff::status::Marker;

const PROTOCOL: &str = include_str!("texts/protocol.md");
const ORDERING_MESSAGE: &str = include_str!("texts/ordering_message.md");
const ORDERING_ITEMS: &str = include_str!("texts/ordering_items.md");
const WHEN_MESSAGE: &str = "When ekiden asks, or all is done or BLOCKED";
const WHEN_ITEMS: &str = "After that, or when all is done or BLOCKED";

/// The wordings of this text.
pub(super) const TEXTS: [&str; 3] = [PROTOCOL, ORDERING_MESSAGE, ORDERING_ITEMS];

/// The indent of each line of a template.
pub(super) const INDENT: &str = "    ";

/// The values for the protocol; all of them stay the same over a run.
#[derive(Debug, Clone, Copy)]
pub struct ProtocolSlots<'a> {
    /// Where the agent writes, as the agent should name it.
    pub handoff_dir: &'a str,
    /// The word for "all done and checked".
    pub marker: &'a Marker,
    /// How the agent learns that it is time.
    pub ordering: Ordering,
}

/// How an agent learns that it is time to hand off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// ekiden sends a message into the running turn, or at its end.
    Message,
    /// The agent cannot be reached in mid-turn: it hands off after this many items.
    ByItems(u32),
}

pub fn protocol(slots: &ProtocolSlots<'_>) -> String {
    let (ordering, when) = match slots.ordering {
        Ordering::Message => (ORDERING_MESSAGE.to_owned(), WHEN_MESSAGE),
        Ordering::ByItems(items) => (
            fill(ORDERING_ITEMS, &[("items", &count(items))]),
            WHEN_ITEMS,
        ),
    };
    fill(
        PROTOCOL,
        &[
            ("ordering", ordering.trim_end()),
            ("when", when),
            ("handoff_dir", slots.handoff_dir),
            ("marker", slots.marker.as_str()),
            ("progress", &template(HandoffFile::Progress)),
            ("next_prompt", &template(HandoffFile::NextPrompt)),
            ("knowledge", &template(HandoffFile::Knowledge)),
        ],
    )
}

fn template(file: HandoffFile) -> String {
    let lines: Vec<String> = Heading::of(file).map(template_line).collect();
    lines.join("\n")
}

pub(super) fn template_line(heading: Heading) -> String {
    format!("{INDENT}## {}  {}", heading.name(), heading.explanation())
}

fn count(items: u32) -> String {
    if items == 1 {
        "one".to_owned()
    } else {
        items.to_string()
    }
}
