//! Copies of our own texts, and of a predecessor's, in text that an agent wrote.
//!
//! An agent that copies its instructions into a handoff would pass them to the next session as if they were
//! new. A line counts as a copy if its letters and digits match a line of ours, with anything in the slots,
//! or if it contains a word that only a predecessor's protocol uses.

use std::sync::OnceLock;

use super::fill::next_slot;
use super::{messages, protocol};
use crate::handoff::headings::Heading;
use crate::text::letters;

/// The text without lines that copy a protocol, ours or a predecessor's, and the number of removed lines.
pub fn strip_protocol(text: &str) -> (String, usize) {
    let mut stripped = 0;
    let mut kept = String::with_capacity(text.len());
    // Usually there is none at all.
    let of_predecessors: Vec<_> = PREDECESSORS
        .into_iter()
        .filter(|phrase| text.contains(phrase))
        .collect();
    for line in text.split_inclusive('\n') {
        if of_predecessors.iter().any(|phrase| line.contains(phrase)) || is_own(line) {
            stripped += 1;
        } else {
            kept.push_str(line);
        }
    }
    (kept, stripped)
}

/// Words that only the protocols of predecessors use; a line with one of them is a copy.
const PREDECESSORS: [&str; 9] = [
    "RELAY_HANDOFF_COMPLETE",
    "TASK_FULLY_COMPLETE",
    "AUTOMATED SESSION RELAY",
    "CLEAVE HANDOFF INCOMPLETE",
    "RESCUE_HANDOFF",
    ".handoff_signal",
    "Complete all handoff writing before",
    "STOP productive work",
    "cleave --resume-from",
];

/// Letters and digits that a line must share with one of ours to be its copy.
const COPY_LETTERS_MIN: usize = 24;
/// Longer lines, in bytes, are no copies: ours are shorter, with anything sensible in their slots.
const COPY_BYTES_MAX: usize = 800;

fn is_own(line: &str) -> bool {
    if !(COPY_LETTERS_MIN..=COPY_BYTES_MAX).contains(&line.len()) {
        return false;
    }
    // Template lines are copies only with the indent of the protocol. Without it, they are a template that an
    // agent left unfilled, which is a separate fault.
    let indented = line.starts_with(protocol::INDENT);
    let key: String = letters(line).collect();
    key.len() >= COPY_LETTERS_MIN
        && own_lines()
            .iter()
            .any(|own| (indented || !own.template) && own.matches(&key))
}

/// A line of ours: the letters between its slots.
struct OwnLine {
    pieces: Vec<String>,
    template: bool,
}

impl OwnLine {
    fn new(line: &str, template: bool) -> Option<Self> {
        let mut pieces = Vec::new();
        let mut rest = line;
        while let Some((before, _, after)) = next_slot(rest) {
            pieces.push(letters(before).collect());
            rest = after;
        }
        pieces.push(letters(rest).collect());
        let enough = pieces.iter().map(String::len).sum::<usize>() >= COPY_LETTERS_MIN;
        enough.then_some(Self { pieces, template })
    }

    /// Whether a text's letters match this line, with anything in its slots.
    fn matches(&self, key: &str) -> bool {
        let (Some(first), Some(last)) = (self.pieces.first(), self.pieces.last()) else {
            return false;
        };
        let Some(mut rest) = key.strip_prefix(first.as_str()) else {
            return false;
        };
        if self.pieces.len() == 1 {
            return rest.is_empty();
        }
        for piece in &self.pieces[1..self.pieces.len() - 1] {
            match rest.find(piece.as_str()) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last.as_str())
    }
}

fn own_lines() -> &'static [OwnLine] {
    static LINES: OnceLock<Vec<OwnLine>> = OnceLock::new();
    LINES.get_or_init(|| {
        let standing = protocol::TEXTS.iter().chain(&messages::TEXTS);
        let standing = standing
            .flat_map(|text| text.lines())
            .filter_map(|line| OwnLine::new(line, false));
        let template = Heading::ALL.map(protocol::template_line);
        let template = template.iter().filter_map(|line| OwnLine::new(line, true));
        standing.chain(template).collect()
    })
}
