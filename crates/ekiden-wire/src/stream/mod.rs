//! One line of the client's stream, or of its transcript, as an event.
//!
//! Parts of a message (`stream_event`) make up most lines and are not needed, so they are not
//! parsed. Every other line is parsed once; large contents are kept as excerpts.
//!
//! Invariants:
//! - A line never stops the stream. Unknown types are [`ClientEvent::Ignored`]; lines that do not match their
//!   type are [`ClientEvent::Malformed`].
//! - A request of the client always comes out with its id, however odd its content, since an
//!   unanswered one makes the client end its turn.
//! - A result comes out even if some of its fields are odd.

mod assistant;
mod result;
mod system;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use assistant::SYNTHETIC;
pub use assistant::{ApiError, ApiErrorKind, Assistant, Block};
pub use result::{ModelUsage, TerminalReason, TurnResult};
pub(crate) use system::LIMIT_NAMES;
pub use system::{RateLimitInfo, RateLimitStatus};

use crate::hooks::HookCall;
use crate::lines::Line;
use crate::{excerpt, json, limits};

/// What a line of the client says. It knows the client's format, and nothing about an attempt.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// A turn begins.
    Init,
    /// Part of a response; several lines may share a message id.
    Assistant(Box<Assistant>),
    ToolResults(Vec<ToolResult>),
    /// What happened to a message of ours.
    Lifecycle {
        /// The id that we gave the message.
        uuid: String,
        state: Lifecycle,
    },
    Result(Box<TurnResult>),
    RateLimit(RateLimitInfo),
    /// The client retries a request.
    ApiRetry {
        /// Which try failed, from 1.
        attempt: u32,
        error: ApiError,
    },
    /// The conversation was summarised: the handoff came too late.
    CompactBoundary {
        /// The context before, in tokens.
        pre_tokens: u64,
    },
    /// How full the context is, as the agent itself reports it, and the window if known; in tokens.
    Context {
        tokens: u64,
        window: Option<u64>,
    },
    /// Something that a person should know about the agent.
    Notice(String),
    ModelFallback {
        /// The one that answers from now on in this turn.
        to: String,
    },
    /// The client's own rules refused a call.
    PermissionDenied {
        tool_use_id: String,
        tool: String,
    },
    /// The conversation was cleared and continues under another id.
    ConversationReset,
    /// The client asks one of our hooks; we must answer.
    HookCallback {
        request_id: String,
        call: Box<HookCall>,
    },
    /// The client asks whether a tool may run; we must answer.
    CanUseTool {
        request_id: String,
    },
    /// The client asks something that we do not know; we must answer with an error.
    UnknownRequest {
        request_id: String,
        subtype: String,
    },
    /// The client answers our request: with a value, or an error.
    ControlResponse {
        request_id: String,
        answer: Result<Value, String>,
    },
    /// The client no longer wants an answer.
    ControlCancel {
        request_id: String,
    },
    /// A line that changes nothing here.
    Ignored,
    /// A line that is not what it should be, or is too long to read.
    Malformed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    pub tool_use_id: String,
    /// The tool failed or was refused.
    pub is_error: bool,
    /// The beginning and end of what it returned.
    pub excerpt: String,
    /// The first and the last line that an edit changed, as they are now.
    pub lines: Option<(u64, u64)>,
}

/// How far a message of ours has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// The client read it, and it waits.
    Queued,
    /// It is delivered: the next request contains it.
    Started,
    /// The turn that took it has ended.
    Completed,
    /// It will never be delivered.
    #[serde(alias = "discarded", alias = "refused")]
    Cancelled,
    #[default]
    #[serde(other)]
    Unknown,
}

/// How lines begin that are parts of a message.
const PART: &[u8] = br#"{"type":"stream_event""#;
/// How a request begins, up to its id.
const REQUEST: &[u8] = br#"{"type":"control_request","request_id":""#;

impl ClientEvent {
    pub fn of(line: Line<'_>) -> Self {
        match line {
            Line::Whole(line) => Self::parse(line),
            Line::Oversized { head, .. } => unreadable(head),
        }
    }

    /// The event of a whole line of the stream.
    pub fn parse(line: &[u8]) -> Self {
        let is_whole = || line.trim_ascii_end().ends_with(b"}");
        if line.trim_ascii().is_empty() || line.starts_with(PART) && is_whole() {
            return Self::Ignored;
        }
        let event = json::parse(line).and_then(|line| of_stream(&line));
        event.unwrap_or_else(|| unreadable(line))
    }

    /// The event of a line in the client's transcript. A transcript contains the same messages as the stream,
    /// requests and the client's own bookkeeping. Lines outside the main thread are ignored, as is an
    /// incomplete last line.
    pub fn of_transcript(line: Line<'_>) -> Self {
        match line {
            Line::Whole(line) => {
                json::parse(line).map_or(Self::Ignored, |line| Self::of_transcript_value(&line))
            }
            Line::Oversized { .. } => Self::Ignored,
        }
    }

    pub(crate) fn of_transcript_value(line: &Value) -> Self {
        if line["isSidechain"] == true {
            return Self::Ignored;
        }
        // The limit accompanies a failure. In the stream it usually has a separate event, too.
        if let Some(limit) = system::rate_limit(&line["apiErrorParams"]) {
            return Self::RateLimit(limit);
        }
        let is_compaction = line["subtype"] == "compact_boundary";
        let event = match line["type"].as_str() {
            Some("assistant") => assistant::parse(line),
            Some("user") => tool_results(line),
            Some("system") if is_compaction => Some(system::parse(line)),
            Some(_) | None => None,
        };
        event.unwrap_or(Self::Ignored)
    }
}

fn of_stream(line: &Value) -> Option<ClientEvent> {
    match line["type"].as_str()? {
        "assistant" => assistant::parse(line),
        "user" => tool_results(line),
        "system" => Some(system::parse(line)),
        "result" => Some(ClientEvent::Result(Box::new(result::parse(line)))),
        "rate_limit_event" => system::rate_limit(line).map(ClientEvent::RateLimit),
        "control_request" => request(line),
        "control_response" => response(&line["response"]),
        "control_cancel_request" => Some(ClientEvent::ControlCancel {
            request_id: line["request_id"].as_str()?.to_owned(),
        }),
        "command_lifecycle" => Some(ClientEvent::Lifecycle {
            uuid: line["command_uuid"].as_str()?.to_owned(),
            state: json::field(&line["state"]),
        }),
        "conversation_reset" => Some(ClientEvent::ConversationReset),
        _ => Some(ClientEvent::Ignored),
    }
}

/// A user's message in the stream: tool results, or a message of ours.
fn tool_results(line: &Value) -> Option<ClientEvent> {
    let message = line["message"].as_object()?;
    let blocks = message.get("content").map(json::elements);
    // A stream and a transcript name it differently.
    let detail = [&line["tool_use_result"], &line["toolUseResult"]];
    let lines = detail.into_iter().find_map(changed_lines);
    let result = |block: &Value| {
        Some(ToolResult {
            tool_use_id: block["tool_use_id"].as_str()?.to_owned(),
            is_error: block["is_error"] == true,
            excerpt: result_excerpt(&block["content"]),
            lines,
        })
    };
    let results: Vec<_> = blocks
        .unwrap_or_default()
        .iter()
        .filter_map(result)
        .collect();
    Some(if results.is_empty() {
        ClientEvent::Ignored
    } else {
        ClientEvent::ToolResults(results)
    })
}

fn changed_lines(detail: &Value) -> Option<(u64, u64)> {
    let hunks = detail["structuredPatch"].as_array()?.iter();
    let ranges = hunks.filter_map(|hunk| {
        let (from, count) = (hunk["newStart"].as_u64()?, hunk["newLines"].as_u64()?);
        Some((from, from.saturating_add(count.max(1) - 1)))
    });
    ranges.reduce(|all, hunk| (all.0.min(hunk.0), all.1.max(hunk.1)))
}

/// A result is a text, or blocks of which the first text counts.
fn result_excerpt(content: &Value) -> String {
    let text = content.as_array().map_or(Some(content), |blocks| {
        blocks
            .iter()
            .map(|block| &block["text"])
            .find(|text| !text.is_null())
    });
    text.filter(|text| !text.is_null())
        .map(|text| excerpt::of_json(text, limits::RESULT))
        .unwrap_or_default()
}

fn request(line: &Value) -> Option<ClientEvent> {
    let request_id = line["request_id"].as_str()?.to_owned();
    let request = &line["request"];
    Some(match request["subtype"].as_str().unwrap_or_default() {
        "hook_callback" => ClientEvent::HookCallback {
            request_id,
            call: Box::new(HookCall::of(&request["input"])),
        },
        "can_use_tool" => ClientEvent::CanUseTool { request_id },
        subtype => ClientEvent::UnknownRequest {
            request_id,
            subtype: subtype.to_owned(),
        },
    })
}

fn response(response: &Value) -> Option<ClientEvent> {
    Some(ClientEvent::ControlResponse {
        request_id: response["request_id"].as_str()?.to_owned(),
        answer: if response["subtype"] == "success" {
            Ok(response["response"].clone())
        } else {
            let error = Some(&response["error"]).filter(|error| !error.is_null());
            Err(error
                .map(|error| excerpt::of_json(error, limits::ERROR))
                .unwrap_or_default())
        },
    })
}

/// An unreadable request, too long or broken, must be answered too.
fn unreadable(head: &[u8]) -> ClientEvent {
    let id = head.strip_prefix(REQUEST).and_then(|rest| {
        let end = rest.iter().position(|byte| *byte == b'"')?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    });
    id.map_or(ClientEvent::Malformed, |request_id| {
        ClientEvent::UnknownRequest {
            request_id,
            subtype: "a request that is too long or broken".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests;
