//! JSON-RPC by lines, as agents other than Claude Code speak it (what their dialects have in common), and as our MCP
//! server answers it.
//!
//! A dialect folds the agent's lines into the same [`ClientEvent`]s as Claude Code's stream, so code that
//! watches a session needs to know only those. [`Outbox`] collects what to send and what was seen.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use ekiden_core::agent::Permissions;
use serde_json::{Value, json};

use crate::hook_output::HookAnswer;
use crate::lines::Line;
use crate::stream::{
    ApiError, ApiErrorKind, Assistant, Block, ClientEvent, Lifecycle, TerminalReason, TurnResult,
};
use crate::usage::Usage;
use crate::{control, excerpt, json, limits};

/// The ids of our first requests. They are the same in each process, so that a saved stream of answers is readable.
pub(crate) const INITIALIZE: u64 = 1;
pub(crate) const OPEN: u64 = 2;
/// Later requests count from here.
pub(crate) const LATER: u64 = 10;
/// JSON-RPC's codes of errors.
pub const INVALID_REQUEST: i32 = -32600;
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
/// In a message that is too long to read, how far to look for its method and id.
const HEAD_BYTES: usize = 1024;
/// No mark of an attempt is longer.
const MARK_BYTES_MAX: usize = 256;
/// A dialect's name for the answer to `initialize`, with which an attempt begins.
pub const BEGUN: &str = "initialize";

/// A process answers our first request. Attempts at one session share its saved stream.
pub fn begins_attempt(event: &ClientEvent) -> bool {
    matches!(event, ClientEvent::ControlResponse { request_id, .. } if request_id == BEGUN)
}

/// The line that begins another attempt in that stream, in case its process never answers.
pub fn attempt_mark(attempt: u32) -> String {
    control::answer(BEGUN, &json!({"attempt": attempt}))
}

/// The attempt that a line of a saved stream begins, if it is such a mark.
pub fn marked_attempt(line: Line<'_>) -> Option<u32> {
    let Line::Whole(line) = line else { return None };
    let line = Some(line).filter(|line| line.len() <= MARK_BYTES_MAX)?;
    let line: serde_json::Value = serde_json::from_slice(line).ok()?;
    let answer = &line["response"];
    let attempt = answer["response"]["attempt"].as_u64()?;
    u32::try_from(attempt)
        .ok()
        .filter(|_| answer["request_id"] == BEGUN)
}

/// A dialect's lines and events on their way.
#[derive(Debug, Default)]
pub struct Outbox {
    pub lines: VecDeque<String>,
    pub events: VecDeque<ClientEvent>,
    /// The last words of the turn, whole.
    words: String,
}

/// One agent's protocol, folded over its lines.
pub trait Dialect: Send {
    fn outbox(&mut self) -> &mut Outbox;
    /// Begins a conversation, or resumes the one of [`Dialect::conversation`], with these texts as its first message.
    fn begin(&mut self, texts: &[&str]);
    /// Sends a message into the conversation; `uuid` is our name for it.
    fn say(&mut self, text: &str, uuid: &str);
    /// Answers a [`ClientEvent::HookCallback`].
    fn answer(&mut self, callback: &str, answer: &HookAnswer);
    fn interrupt(&mut self);
    /// Takes the agent's next line.
    fn hear(&mut self, line: Line<'_>);
    /// The agent's own name for the conversation, if it can be resumed.
    fn conversation(&self) -> Option<&str>;
    /// What it has cost in US dollars, if the agent reports that for the whole conversation.
    fn cost_usd(&self) -> f64 {
        0.0
    }
}

/// How to begin a conversation.
#[derive(Debug, Clone, Default)]
pub struct Start {
    pub dir: PathBuf,
    pub permissions: Permissions,
    pub model: Option<String>,
    /// The agent's id of the conversation to resume.
    pub resume: Option<String>,
    /// What was already charged for that conversation, in US dollars.
    pub charged_usd: f64,
    /// Where a path leads, with symbolic links resolved as far as it exists.
    pub resolve: Option<fn(&Path) -> PathBuf>,
}

#[derive(Debug, PartialEq)]
pub enum Message {
    /// It waits for an answer. The id may be a number or a text.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notice {
        method: String,
        params: Value,
    },
    Answer {
        id: u64,
        answer: Result<Value, Value>,
    },
    /// Not a message, or one that is too long to read and needs no answer.
    Odd,
}

impl Message {
    pub fn of(line: Line<'_>) -> Self {
        match line {
            Line::Whole(line) => json::parse(line).map_or(Self::Odd, Self::of_value),
            Line::Oversized { head, .. } => Self::of_head(head).unwrap_or(Self::Odd),
        }
    }

    /// A request that is too long to read, from what precedes its parameters. Without an answer the agent would wait.
    fn of_head(head: &[u8]) -> Option<Self> {
        let head = &head[..head.len().min(HEAD_BYTES)];
        let params = memchr::memmem::find(head, b"\"params\"")?;
        let members = head[..params].trim_ascii_end().strip_suffix(b",")?;
        let message = Self::of_value(json::parse(&[members, b"}"].concat())?);
        matches!(message, Self::Request { .. }).then_some(message)
    }

    fn of_value(mut line: Value) -> Self {
        let Some(members) = line.as_object_mut() else {
            return Self::Odd;
        };
        let mut take = |name: &str| members.remove(name);
        let (id, params) = (take("id"), take("params").unwrap_or_default());
        let (result, error) = (take("result"), take("error"));
        match (take("method"), id) {
            (Some(Value::String(method)), Some(id)) => Self::Request { id, method, params },
            (Some(Value::String(method)), None) => Self::Notice { method, params },
            (None, Some(id)) => match (id.as_u64(), error, result) {
                (Some(id), Some(error), _) if !error.is_null() => Self::Answer {
                    id,
                    answer: Err(error),
                },
                (Some(id), _, Some(result)) => Self::Answer {
                    id,
                    answer: Ok(result),
                },
                _ => Self::Odd,
            },
            _ => Self::Odd,
        }
    }
}

impl Outbox {
    pub(crate) fn request(&mut self, id: u64, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub(crate) fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub fn answer(&mut self, id: &Value, result: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Refuses a request that we do not serve: what an agent does for itself needs none of them.
    pub fn refuse(&mut self, id: &Value, method: &str) {
        self.fail(id, METHOD_NOT_FOUND, &format!("not offered: {method}"));
    }

    pub fn fail(&mut self, id: &Value, code: i32, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    fn send(&mut self, message: &Value) {
        self.lines.push_back(format!("{message}\n"));
    }

    pub(crate) fn see(&mut self, event: ClientEvent) {
        self.events.push_back(event);
    }

    /// The agent answered `initialize`.
    pub(crate) fn begun(&mut self) {
        self.see(ClientEvent::ControlResponse {
            request_id: BEGUN.to_owned(),
            answer: Ok(Value::Null),
        });
    }

    pub(crate) fn respond(&mut self, response: &Response<'_>, mut block: Option<Block>) {
        if let Some(Block::Text(text)) = &mut block {
            let shown = excerpt::of_text(text, limits::WORDS);
            self.words = std::mem::replace(text, shown);
        }
        let size = match &block {
            Some(Block::Text(text)) => text.len(),
            Some(Block::Call(call)) => call.target.len(),
            None => 0,
        };
        self.see(ClientEvent::Assistant(Box::new(Assistant {
            message_id: match response.main_thread {
                true => format!("r{}", response.number),
                false => format!("subagent {}", response.number),
            },
            model: response.model.to_owned(),
            usage: response.usage,
            main_thread: response.main_thread,
            blocks: block.into_iter().collect(),
            content_bytes: size as u64,
            ..Assistant::default()
        })));
    }

    pub(crate) fn delivered(&mut self, uuid: String) {
        self.see(ClientEvent::Lifecycle {
            uuid,
            state: Lifecycle::Started,
        });
    }

    /// These calls were refused, since nobody allowed them.
    pub(crate) fn refused(&mut self, calls: Vec<(String, String)>) {
        for (tool_use_id, tool) in calls {
            self.see(ClientEvent::PermissionDenied { tool_use_id, tool });
        }
    }

    /// A turn ended with this result in an error of the service or of the agent, which explains it in these words.
    pub(crate) fn failed(&mut self, error: ApiError, result: TurnResult, words: &str) {
        self.see(ClientEvent::Assistant(Box::new(Assistant {
            main_thread: true,
            synthetic: true,
            blocks: vec![Block::Text(excerpt::of_text(words, limits::WORDS))],
            error: Some(error),
            ..Assistant::default()
        })));
        self.turn_ended(TurnResult {
            api_error_status: error.status,
            errors: vec![excerpt::of_text(words, limits::ERROR)],
            ..result
        });
    }

    pub(crate) fn turn_ended(&mut self, result: TurnResult) {
        let words = Some(std::mem::take(&mut self.words));
        self.see(ClientEvent::Result(Box::new(TurnResult {
            words,
            ..result
        })));
    }

    /// The conversation could not be begun.
    pub(crate) fn unopened(&mut self, error: &Value) {
        self.see(ClientEvent::Result(Box::new(TurnResult {
            is_error: true,
            errors: vec![excerpt::of_text(&words_of(error), limits::ERROR)],
            ..TurnResult::default()
        })));
    }
}

/// What belongs to one response of the model.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    /// Its number in the conversation, or among those of all subagents.
    pub(crate) number: u64,
    pub(crate) main_thread: bool,
    pub(crate) model: &'a str,
    pub(crate) usage: Usage,
}

pub(crate) fn ended(is_error: bool, reason: TerminalReason) -> TurnResult {
    TurnResult {
        is_error,
        num_turns: 1,
        terminal_reason: Some(reason),
        ..TurnResult::default()
    }
}

/// Texts as the blocks of a message.
pub(crate) fn blocks(texts: &[String]) -> Vec<Value> {
    let block = |text| json!({"type": "text", "text": text});
    texts.iter().map(block).collect()
}

/// The service's failure for this HTTP status.
pub(crate) fn of_status(status: Option<u16>) -> ApiError {
    ApiError {
        kind: ApiErrorKind::Unknown,
        status,
    }
}

pub(crate) fn words_of(error: &Value) -> String {
    let message = json::text(&error["message"]);
    let details = error["data"]["details"].as_str();
    details.map_or(message.clone(), |details| format!("{message} {details}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Message {
        Message::of(Line::Whole(line.as_bytes()))
    }

    // shows: AGT-08
    #[test]
    fn a_line_is_a_request_a_notice_an_answer_or_odd() {
        let id = Value::from("a");
        let (method, params) = ("m".to_owned(), Value::Null);
        assert_eq!(
            of(r#"{"id":"a","method":"m"}"#),
            Message::Request { id, method, params }
        );
        assert_eq!(
            of(r#"{"id":3,"result":null}"#),
            Message::Answer {
                id: 3,
                answer: Ok(Value::Null)
            }
        );
        assert_eq!(
            of(r#"{"id":3,"result":1,"error":{"code":1}}"#),
            Message::Answer {
                id: 3,
                answer: Err(json!({"code": 1}))
            }
        );
        for odd in [
            "",
            "[]",
            "{}",
            "3",
            r#"{"id":-1,"result":1}"#,
            r#"{"method":7}"#,
            r#"{"id":3}"#,
        ] {
            assert_eq!(of(odd), Message::Odd, "{odd}");
        }
    }
}
