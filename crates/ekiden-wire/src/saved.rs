//! A saved stream, of whichever agent: what it is written in shows its first line.

use std::collections::VecDeque;

use crate::acp::Acp;
use crate::codex::Codex;
use crate::lines::Line;
use crate::rpc::{Dialect, INITIALIZE, Message, Start};
use crate::stream::ClientEvent;

/// How the lines of Claude Code's stream begin.
const OURS: &[u8] = br#"{"type":"#;

/// Reads the lines of a saved stream, from its beginning.
#[derive(Default)]
pub struct Saved(Option<Box<dyn Dialect>>);

impl Saved {
    /// Looks at each event of the next line.
    pub fn read(&mut self, line: Line<'_>, mut look: impl FnMut(&ClientEvent)) {
        match self.translated(line) {
            Some(events) => events.iter().for_each(look),
            None => look(&ClientEvent::of(line)),
        }
    }

    /// The events of the next line, unless it is written as Claude Code writes.
    pub(crate) fn translated(&mut self, line: Line<'_>) -> Option<VecDeque<ClientEvent>> {
        if self.0.is_none() {
            self.0 = dialect_of(line);
        }
        let dialect = self.0.as_mut()?;
        dialect.hear(line);
        Some(std::mem::take(dialect.outbox()).events)
    }

    /// The agent's own name of the last conversation that can be resumed.
    pub fn conversation(&self) -> Option<&str> {
        self.0.as_ref()?.conversation()
    }

    /// What it has cost in US dollars, where the agent tells that for the whole conversation.
    pub fn cost_usd(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |dialect| dialect.cost_usd())
    }
}

/// Whether a stream with this first line is one of messages.
pub(crate) fn begins_messages(line: Line<'_>) -> bool {
    is_ours(line) || dialect_of(line).is_some()
}

fn is_ours(line: Line<'_>) -> bool {
    let (Line::Whole(bytes) | Line::Oversized { head: bytes, .. }) = line;
    bytes.starts_with(OURS)
}

/// What an agent that answers our first request in this way speaks.
fn dialect_of(line: Line<'_>) -> Option<Box<dyn Dialect>> {
    if is_ours(line) {
        return None;
    }
    let Message::Answer {
        id: INITIALIZE,
        answer: Ok(told),
    } = Message::of(line)
    else {
        return None;
    };
    match told["userAgent"].is_string() {
        true => Some(Box::new(Codex::new(Start::default()))),
        false => Some(Box::new(Acp::new(Start::default()))),
    }
}
