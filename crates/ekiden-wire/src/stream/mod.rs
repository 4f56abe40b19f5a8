//! One line of the client's stream, as an event.
//!
//! The client's first bytes say what a line is (`{"type":"assistant"`), except for `result` lines,
//! where the type comes late. So the head is scanned first; what nobody needs (partial messages,
//! unknown types) is not parsed at all, and the rest is parsed once into just the fields that are
//! used, large contents skipped over and kept as excerpts.
//!
//! Invariants:
//! - A line never stops the stream. Unknown types are [`ClientEvent::Ignored`], lines that are not
//!   what their type promises are [`ClientEvent::Malformed`].
//! - A request of the client always comes out with its id, however odd its content, since an
//!   unanswered one makes the client end its turn.
//! - A result comes out even if some of its fields are odd.

mod assistant;
mod head;
mod lifecycle;
mod request;
mod result;
mod system;
mod transcript_line;
mod user;

use ekiden_core::ends::LimitKind;

pub(crate) use assistant::SYNTHETIC;
pub use assistant::{ApiError, ApiErrorKind, Assistant, Block};
pub use lifecycle::Lifecycle;
pub use request::Permission;
pub use result::{Denials, ModelUsage, TerminalReason, TurnResult};
pub use system::{RateLimitInfo, RateLimitStatus};
pub use user::{ToolResult, ToolResults};

use crate::hooks::HookCall;
use crate::lines::Line;
use head::Head;

/// What a line of the client says.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// A turn begins.
    Init {
        /// The conversation.
        session_id: String,
        /// The model that answers.
        model: String,
        /// The client's version.
        version: String,
        /// The permission mode in force.
        permission_mode: String,
    },
    /// Part of a response; several lines may share a message id.
    Assistant(Box<Assistant>),
    /// Tools answered.
    ToolResults(ToolResults),
    /// A message of ours came a step further.
    Lifecycle {
        /// The id that we gave the message.
        uuid: String,
        /// How far it has come.
        state: Lifecycle,
    },
    /// A turn ended.
    Result(Box<TurnResult>),
    /// The account's limits changed.
    RateLimit(RateLimitInfo),
    /// The client tries a request again.
    ApiRetry {
        /// Which try failed, from 1.
        attempt: u32,
        /// How many there will be.
        max: u32,
        /// The pause before the next.
        delay_ms: u64,
        /// The failure.
        error: ApiError,
    },
    /// The conversation is being summarised.
    Compacting,
    /// The conversation was summarised: the handoff came too late.
    CompactBoundary {
        /// Who wanted it.
        auto: bool,
        /// The context before, in tokens.
        pre_tokens: u64,
    },
    /// The client switched to another model.
    ModelFallback {
        /// The one that answers from now on in this turn.
        to: String,
    },
    /// The model refused, and there is no other.
    ModelRefused,
    /// A call was refused by the client's own rules.
    PermissionDenied {
        /// The call.
        tool_use_id: String,
        /// Its tool.
        tool: String,
    },
    /// A subagent or a command began.
    TaskStarted {
        /// The task.
        task_id: String,
        /// It is a subagent.
        subagent: bool,
    },
    /// A subagent or a command ended.
    TaskFinished {
        /// The task.
        task_id: String,
    },
    /// A hook of the user's own ended.
    HookFinished {
        /// The hook's event.
        event: String,
        /// It neither failed nor was cut off.
        ok: bool,
    },
    /// The conversation was cleared and goes on under another id.
    ConversationReset,
    /// The client asks one of our hooks; must be answered.
    HookCallback {
        /// The request to answer.
        request_id: String,
        /// The hook.
        callback_id: String,
        /// What is about to happen.
        call: Box<HookCall>,
    },
    /// The client asks whether a tool may run; must be answered.
    CanUseTool {
        /// The request to answer.
        request_id: String,
        /// What is asked.
        permission: Box<Permission>,
    },
    /// The client asks something that we do not know; must be answered, with an error.
    UnknownRequest {
        /// The request to answer.
        request_id: String,
        /// What it asks.
        subtype: String,
    },
    /// The client answers a request of ours.
    ControlResponse {
        /// Our request.
        request_id: String,
        /// The answer as JSON text, or the error.
        answer: Result<String, String>,
    },
    /// The client no longer wants an answer.
    ControlCancel {
        /// Its request.
        request_id: String,
    },
    /// A line that changes nothing here.
    Ignored,
    /// A line that is not what it should be.
    Malformed,
    /// A line too long to read.
    Oversized {
        /// Its length in bytes.
        len: u64,
        /// Its type does not come first, as in the result of a turn.
        maybe_result: bool,
    },
}

impl ClientEvent {
    /// The event of a line.
    #[must_use]
    pub fn of(line: Line<'_>) -> Self {
        match line {
            Line::Whole(line) => Self::parse(line),
            Line::Oversized { len, head } => oversized(len, head),
        }
    }

    /// The event of a line of the client's transcript.
    #[must_use]
    pub fn of_transcript(line: Line<'_>) -> Self {
        match line {
            Line::Whole(line) => transcript_line::parse(line),
            Line::Oversized { .. } => Self::Ignored,
        }
    }

    /// The event of a whole line. Invalid UTF-8 is replaced, not refused.
    #[must_use]
    pub fn parse(line: &[u8]) -> Self {
        let event = parsed(line);
        if event == Self::Malformed && std::str::from_utf8(line).is_err() {
            return parsed(String::from_utf8_lossy(line).as_bytes());
        }
        event
    }
}

/// The limit that the client names so.
pub(crate) fn limit_kind(name: &str) -> LimitKind {
    match name {
        "five_hour" => LimitKind::FiveHour,
        "seven_day" => LimitKind::SevenDay,
        "seven_day_opus" | "seven_day_sonnet" | "seven_day_overage_included" => LimitKind::SevenDayModel,
        "overage" => LimitKind::Overage,
        _ => LimitKind::Unknown,
    }
}

fn parsed(line: &[u8]) -> ClientEvent {
    match head::scan(line) {
        Head::Typed { kind, subtype } => typed(kind, subtype, line),
        Head::Late => result::parse_late(line).unwrap_or(ClientEvent::Malformed),
        Head::Blank => ClientEvent::Ignored,
        Head::NotAnObject => ClientEvent::Malformed,
    }
}

fn typed(kind: &[u8], subtype: Option<&[u8]>, line: &[u8]) -> ClientEvent {
    let event = match kind {
        b"assistant" => assistant::parse(line),
        b"user" => user::parse(line),
        b"system" => system::parse(subtype, line),
        b"result" => result::parse_late(line),
        b"rate_limit_event" => system::parse_rate_limit(line),
        b"control_request" => request::parse(line),
        b"control_response" => request::parse_response(line),
        b"control_cancel_request" => request::parse_cancel(line),
        b"command_lifecycle" => lifecycle::parse(line),
        b"conversation_reset" => skipped(line).map(|_| ClientEvent::ConversationReset),
        _ => skipped(line),
    };
    event.unwrap_or(ClientEvent::Malformed)
}

/// A line that is not parsed; that it is whole is all we ask.
fn skipped(line: &[u8]) -> Option<ClientEvent> {
    line.trim_ascii_end().ends_with(b"}").then_some(ClientEvent::Ignored)
}

fn oversized(len: u64, head: &[u8]) -> ClientEvent {
    match head::request_id(head) {
        Some(id) => ClientEvent::UnknownRequest {
            request_id: String::from_utf8_lossy(id).into_owned(),
            subtype: "a request that is too long".to_owned(),
        },
        None => ClientEvent::Oversized { len, maybe_result: matches!(head::scan(head), Head::Late) },
    }
}

#[cfg(test)]
mod tests;
