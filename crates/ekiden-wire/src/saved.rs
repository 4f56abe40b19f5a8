//! A saved stream, of any agent. Attempts at one session share it, and may be of different agents. An attempt's
//! first line shows which format it is in.

use std::collections::VecDeque;

use serde_json::json;

use crate::acp::Acp;
use crate::codex::Codex;
use crate::lines::Line;
use crate::rpc::{Dialect, INITIALIZE, Message, OPEN, Start};
use crate::stream::ClientEvent;

/// How the lines of Claude Code's stream begin.
const OURS: &[u8] = br#"{"type":"#;

/// Reads the lines of a saved stream, from its beginning.
#[derive(Default)]
pub struct Saved(Option<Spoken>);

/// The dialect of the last attempt by an agent other than Claude Code.
struct Spoken {
    is_codex: bool,
    dialect: Box<dyn Dialect>,
}

impl Saved {
    pub fn read(&mut self, line: Line<'_>, mut look: impl FnMut(&ClientEvent)) {
        match self.translated(line) {
            Some(events) => events.iter().for_each(look),
            None => look(&ClientEvent::of(line)),
        }
    }

    /// The events of the next line, unless it is in Claude Code's format.
    pub(crate) fn translated(&mut self, line: Line<'_>) -> Option<VecDeque<ClientEvent>> {
        if is_ours(line) {
            return None;
        }
        if let Message::Answer {
            id: INITIALIZE,
            answer: Ok(told),
        } = Message::of(line)
        {
            self.speaks(told["userAgent"].is_string());
        }
        let dialect = &mut self.0.as_mut()?.dialect;
        dialect.hear(line);
        Some(std::mem::take(dialect.outbox()).events)
    }

    /// Takes over a line's dialect and conversation, if the beginning of the stream is not read.
    pub(crate) fn join(&mut self, line: Line<'_>) {
        let (Message::Notice { params, .. } | Message::Request { params, .. }) = Message::of(line)
        else {
            return;
        };
        let (thread, session) = (params["threadId"].as_str(), params["sessionId"].as_str());
        let Some(id) = thread.or(session) else {
            return;
        };
        let opened = json!({"id": OPEN, "result": {"sessionId": id, "thread": {"id": id}}});
        let dialect = self.speaks(thread.is_some());
        dialect.hear(Line::Whole(opened.to_string().as_bytes()));
    }

    /// Whether a line is a message, in a stream that may also contain what a command printed.
    pub(crate) fn is_message(&self, line: Line<'_>) -> bool {
        let is_message = |message: &Message| match message {
            Message::Answer { id, .. } => self.0.is_some() || *id == INITIALIZE,
            Message::Notice { .. } | Message::Request { .. } => self.0.is_some(),
            Message::Odd => false,
        };
        is_ours(line) || is_message(&Message::of(line))
    }

    /// The dialect of this kind of agent: the current one if the last attempt used it.
    fn speaks(&mut self, is_codex: bool) -> &mut dyn Dialect {
        let same = self.0.take().filter(|spoken| spoken.is_codex == is_codex);
        let spoken = same.unwrap_or_else(|| Spoken {
            is_codex,
            dialect: match is_codex {
                true => Box::new(Codex::new(Start::default())),
                false => Box::new(Acp::new(Start::default())),
            },
        });
        &mut *self.0.insert(spoken).dialect
    }

    /// The agent's own name for the last conversation that can be resumed.
    pub fn conversation(&self) -> Option<&str> {
        self.0.as_ref()?.dialect.conversation()
    }

    /// What it has cost in US dollars, if the agent reports that for the whole conversation.
    pub fn cost_usd(&self) -> f64 {
        self.0
            .as_ref()
            .map_or(0.0, |spoken| spoken.dialect.cost_usd())
    }
}

fn is_ours(line: Line<'_>) -> bool {
    let (Line::Whole(bytes) | Line::Oversized { head: bytes, .. }) = line;
    bytes.starts_with(OURS)
}
