//! The handoff protocol: the rules, once, above all data.
//!
//! Standing text: the same bytes in every session of a run, in the system prompt where the agent has
//! one. WHY: it is read with more weight than any note, and the cache keeps it.

use super::fill::fill;
use crate::handoff::{HandoffFile, Heading, Marker};

/// What the protocol must be told; all of it stays the same over a run.
#[derive(Debug, Clone, Copy)]
pub struct ProtocolSlots<'a> {
    /// Where the agent writes, as it should name it.
    pub handoff_dir: &'a str,
    /// The word for "all done and checked".
    pub marker: &'a Marker,
    /// How the agent learns that it is time.
    pub ordering: Ordering,
}

/// How an agent learns that it is time to hand over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordering {
    /// ekiden sends a message into the running turn, or at its end.
    Message,
    /// The agent cannot be reached in mid-turn: it hands over after this many items.
    ByItems(u32),
}

/// What stands before each line of the template.
pub(super) const INDENT: &str = "    ";

const PROTOCOL: &str = include_str!("texts/protocol.md");
const ORDERING_MESSAGE: &str = include_str!("texts/ordering_message.md");
const ORDERING_ITEMS: &str = include_str!("texts/ordering_items.md");
const WHEN_MESSAGE: &str = "When ekiden asks, or the task is done";
const WHEN_ITEMS: &str = "After that, or when the task is done";

/// The wordings of this text.
pub(super) const TEXTS: [&str; 3] = [PROTOCOL, ORDERING_MESSAGE, ORDERING_ITEMS];

/// The protocol text.
#[must_use]
pub fn protocol(slots: &ProtocolSlots<'_>) -> String {
    let (ordering, when) = match slots.ordering {
        Ordering::Message => (ORDERING_MESSAGE.to_owned(), WHEN_MESSAGE),
        Ordering::ByItems(items) => (fill(ORDERING_ITEMS, &[("items", &count(items))]), WHEN_ITEMS),
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

/// The lines that name headings and explain them.
pub(super) fn template_lines() -> Vec<String> {
    Heading::ALL.into_iter().map(template_line).collect()
}

fn template(file: HandoffFile) -> String {
    Heading::of(file).map(template_line).collect::<Vec<_>>().join("\n")
}

fn template_line(heading: Heading) -> String {
    format!("{INDENT}## {}  {}", heading.name(), heading.explanation())
}

fn count(items: u32) -> String {
    if items == 1 { "one".to_owned() } else { items.to_string() }
}
