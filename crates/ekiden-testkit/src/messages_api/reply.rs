//! What the server answers: a message, an error status, silence, or a closed connection.

use serde_json::{Value, json};
use tokio::sync::watch;

/// The answer to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    Message(Message),
    /// An HTTP answer that is no message: an error, a limit.
    Status(Status),
    /// Nothing is ever answered, not even a status; the connection stays open.
    Stall,
    /// The connection is closed before the message begins.
    Drop,
}

/// An HTTP answer with a status of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    pub code: u16,
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

/// One message of the model, and how its delivery ends.
#[derive(Debug, Clone)]
pub struct Message {
    /// What it says and which tools it calls.
    pub blocks: Vec<Block>,
    /// The tokens that the client is told.
    pub usage: Usage,
    /// Headers of the answer, such as `anthropic-ratelimit-unified-status`.
    pub headers: Vec<(String, String)>,
    /// What comes after the last block.
    pub ending: Ending,
    /// If there is one, the ending waits until it is opened.
    pub gate: Option<Gate>,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    /// A tool call; its id is made by the server.
    ToolUse {
        name: String,
        input: Value,
    },
}

/// What comes after the last block of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The message ends as it should: `tool_use` if it calls a tool, else `end_turn`.
    Complete,
    /// The message ends with this stop reason: `max_tokens`, `refusal`.
    Because(&'static str),
    /// The stream falls silent and stays open.
    Stall,
    /// The connection is closed in the middle of the stream.
    Drop,
    /// An `error` event of this type ends the stream, such as `overloaded_error`.
    Error(&'static str),
}

/// The tokens of one response, as the client is told them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Input that no cache had.
    pub input: u64,
    /// Input read from the cache.
    pub cache_read: u64,
    /// Input written to the cache.
    pub cache_creation: u64,
    pub output: u64,
}

/// Holds back the end of a message until the test opens it, so that something can happen while the
/// response is still streaming. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    opener: watch::Sender<bool>,
}

impl From<Message> for Reply {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl Status {
    /// An error in the API's own form: `rate_limit_error`, `overloaded_error`, `authentication_error`.
    pub fn error(code: u16, kind: &str, message: &str) -> Self {
        let body = json!({ "type": "error", "error": { "type": kind, "message": message } });
        Self {
            code,
            headers: Vec::new(),
            body,
        }
    }

    /// The same answer with one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Message {
    /// A message of these words, which ends the turn.
    pub fn text(words: &str) -> Self {
        Self {
            blocks: vec![Block::Text(words.to_owned())],
            usage: Usage::context(1_000),
            headers: Vec::new(),
            ending: Ending::Complete,
            gate: None,
        }
    }

    /// A message that calls one tool.
    pub fn call(name: &str, input: Value) -> Self {
        let blocks = vec![Block::ToolUse {
            name: name.to_owned(),
            input,
        }];
        Self {
            blocks,
            ..Self::text("")
        }
    }

    /// The same message with one more tool call.
    pub fn and_call(mut self, name: &str, input: Value) -> Self {
        self.blocks.push(Block::ToolUse {
            name: name.to_owned(),
            input,
        });
        self
    }

    /// The same message with this usage.
    pub fn using(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// The same message with another ending.
    pub fn ending(self, ending: Ending) -> Self {
        Self { ending, ..self }
    }

    /// The same message, whose ending waits for `gate`.
    pub fn held_by(self, gate: &Gate) -> Self {
        Self {
            gate: Some(gate.clone()),
            ..self
        }
    }

    /// The same message with one more header on the answer.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Why the model stopped, in the API's words.
    pub(super) fn stop_reason(&self) -> &'static str {
        match self.ending {
            Ending::Because(reason) => reason,
            Ending::Complete | Ending::Stall | Ending::Drop | Ending::Error(_) => {
                let calls = self
                    .blocks
                    .iter()
                    .any(|block| matches!(block, Block::ToolUse { .. }));
                if calls { "tool_use" } else { "end_turn" }
            }
        }
    }
}

impl Usage {
    /// A response after which the context holds `tokens`, most of them read from the cache.
    pub fn context(tokens: u64) -> Self {
        let input = tokens.min(10);
        Self {
            input,
            cache_read: tokens - input,
            cache_creation: 0,
            output: 20,
        }
    }

    /// The API's form, with `output` as given: a stream begins with less than it ends with.
    pub(super) fn to_json(self, output: u64) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_creation,
            "output_tokens": output,
        })
    }
}

impl Gate {
    /// A gate that is shut.
    pub fn new() -> Self {
        Self {
            opener: watch::Sender::new(false),
        }
    }

    /// Lets the message end. Opening twice is the same as once.
    pub fn open(&self) {
        self.opener.send_replace(true);
    }

    /// Returns once the gate is open.
    pub(super) async fn passed(&self) {
        // The sender lives as long as `self`, so the channel cannot close under this wait.
        let _ = self.opener.subscribe().wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}
