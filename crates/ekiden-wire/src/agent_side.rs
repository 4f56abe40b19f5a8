//! The same wire from its other end: for the built-in agent, and for agents in tests.
//!
//! It understands what [`crate::control`] writes and writes what [`crate::stream`] understands, in
//! the real client's field names. Develop it against the real client's recordings, not against our
//! own reader: the tests here only show that the two ends agree.

use ekiden_core::ends::LimitKind;
use serde_json::{Value, json};

use crate::context_usage::ContextUsage;
use crate::control;
use crate::hooks::HookEvent;
use crate::stream::{Lifecycle, RateLimitInfo, TurnResult};
use crate::typed_line::typed_line;
use crate::usage::Usage;

/// What a host sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostMessage {
    /// The protocol begins; these are the host's hooks.
    Initialize {
        /// The request to answer.
        request_id: String,
        /// The hooks to call.
        hooks: Vec<HostHook>,
    },
    /// What fills the window?
    ContextUsage {
        /// The request to answer.
        request_id: String,
    },
    /// End the turn.
    Interrupt {
        /// The request to answer.
        request_id: String,
    },
    /// Something that we do not know; answer with an error.
    OtherRequest {
        /// The request to answer.
        request_id: String,
        /// What it asks.
        subtype: String,
    },
    /// The answer to a callback of ours.
    Answer {
        /// Our request.
        request_id: String,
        /// What the host says.
        answer: HookAnswer,
    },
    /// A message of the user.
    User {
        /// Its texts.
        blocks: Vec<String>,
        /// To be given back in the echo.
        uuid: Option<String>,
    },
    /// Not a line that a host sends.
    Malformed,
}

/// A hook of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostHook {
    /// When to call it.
    pub event: HookEvent,
    /// The name to call it by.
    pub callback_id: String,
    /// How long to wait for its answer.
    pub timeout_secs: u64,
}

/// The host's answer to a callback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookAnswer {
    /// No opinion.
    Pass,
    /// Do it without asking.
    Allow,
    /// Do not do it, for this reason.
    Deny(String),
    /// Do not let it happen (end, summary), for this reason.
    Block(String),
    /// The host could not answer.
    Failed(String),
}

/// What the agent says or calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Saying<'a> {
    /// Words.
    Text(&'a str),
    /// A call of a tool.
    Call {
        /// The call's id.
        id: &'a str,
        /// The tool.
        name: &'a str,
        /// Its input, an object.
        input: &'a Value,
    },
}

impl HostMessage {
    /// Reads a line of the host.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return Self::Malformed };
        match line["type"].as_str() {
            Some("user") => user(&line),
            Some("control_request") => request(&line),
            Some("control_response") => Self::Answer {
                request_id: text(&line["response"]["request_id"]),
                answer: answer(&line["response"]),
            },
            Some(_) | None => Self::Malformed,
        }
    }
}

fn user(line: &Value) -> HostMessage {
    let content = &line["message"]["content"];
    let blocks = match content.as_array() {
        Some(blocks) => blocks.iter().map(|block| text(&block["text"])).collect(),
        None => vec![text(content)],
    };
    HostMessage::User { blocks, uuid: line["uuid"].as_str().map(str::to_owned) }
}

fn request(line: &Value) -> HostMessage {
    let request_id = text(&line["request_id"]);
    match text(&line["request"]["subtype"]).as_str() {
        "initialize" => HostMessage::Initialize { request_id, hooks: hooks(&line["request"]["hooks"]) },
        "get_context_usage" => HostMessage::ContextUsage { request_id },
        "interrupt" => HostMessage::Interrupt { request_id },
        subtype => HostMessage::OtherRequest { request_id, subtype: subtype.to_owned() },
    }
}

fn hooks(hooks: &Value) -> Vec<HostHook> {
    let events = hooks.as_object().into_iter().flatten();
    events
        .flat_map(|(event, matchers)| {
            matchers.as_array().into_iter().flatten().flat_map(move |one| hooks_of(event, one))
        })
        .collect()
}

fn hooks_of(event: &str, matcher: &Value) -> Vec<HostHook> {
    let event: HookEvent = serde_json::from_value(json!(event)).unwrap_or_default();
    let timeout_secs = matcher["timeout"].as_u64().unwrap_or(60);
    let ids = matcher["hookCallbackIds"].as_array().into_iter().flatten();
    ids.map(|id| HostHook { event, callback_id: text(id), timeout_secs }).collect()
}

fn answer(response: &Value) -> HookAnswer {
    if response["subtype"] != "success" {
        return HookAnswer::Failed(text(&response["error"]));
    }
    let answer = &response["response"];
    let decision = &answer["hookSpecificOutput"];
    match decision["permissionDecision"]
        .as_str()
        .or(answer["behavior"].as_str())
        .or(answer["decision"].as_str())
    {
        Some("allow") => HookAnswer::Allow,
        Some("deny") => HookAnswer::Deny(
            decision["permissionDecisionReason"]
                .as_str()
                .map_or_else(|| text(&answer["message"]), str::to_owned),
        ),
        Some("block") => HookAnswer::Block(text(&answer["reason"])),
        Some(_) | None => HookAnswer::Pass,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Writes what an agent writes, one line a call.
#[derive(Debug, Clone)]
pub struct AgentWriter {
    /// The conversation.
    pub session_id: String,
    /// The model that the agent says it is.
    pub model: String,
    /// Where the agent works.
    pub cwd: String,
}

impl AgentWriter {
    /// A turn begins.
    #[must_use]
    pub fn init(&self, version: &str, permission_mode: &str) -> String {
        let body = json!({
            "cwd": self.cwd, "session_id": self.session_id, "model": self.model, "tools": [],
            "permissionMode": permission_mode, "claude_code_version": version,
        });
        typed_line("system", Some("init"), &body)
    }

    /// One block of a response.
    #[must_use]
    pub fn assistant(&self, message_id: &str, usage: &Usage, saying: Saying<'_>) -> String {
        let block = match saying {
            Saying::Text(text) => json!({"type": "text", "text": text}),
            Saying::Call { id, name, input } => {
                json!({"type": "tool_use", "id": id, "name": name, "input": input})
            }
        };
        let message = json!({
            "id": message_id, "type": "message", "role": "assistant", "model": self.model,
            "content": [block], "stop_reason": null, "usage": usage,
        });
        self.line("assistant", json!({"message": message, "parent_tool_use_id": null}))
    }

    /// A call's result.
    #[must_use]
    pub fn tool_result(&self, tool_use_id: &str, is_error: bool, content: &str) -> String {
        let block = json!({
            "type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": is_error,
        });
        let message = json!({"role": "user", "content": [block]});
        self.line("user", json!({"message": message, "parent_tool_use_id": null}))
    }

    /// A message of the host came a step further.
    #[must_use]
    pub fn lifecycle(&self, uuid: &str, state: Lifecycle) -> String {
        self.line("command_lifecycle", json!({"command_uuid": uuid, "state": state}))
    }

    /// A turn ended.
    #[must_use]
    pub fn result(&self, result: &TurnResult) -> String {
        let denials: Vec<Value> = result.denials.ids.iter().map(|id| json!({"tool_use_id": id})).collect();
        let mut body = json!({
            "is_error": result.is_error, "terminal_reason": result.terminal_reason,
            "stop_reason": result.stop_reason, "api_error_status": result.api_error_status,
            "result_index": result.result_index, "num_turns": result.num_turns,
            "total_cost_usd": result.total_cost_usd, "modelUsage": result.model_usage,
            "permission_denials": denials, "errors": result.errors, "session_id": self.session_id,
        });
        if let Some(Ok(value)) = result.structured.as_deref().map(serde_json::from_str::<Value>) {
            body["structured_output"] = value;
        }
        if let Some(words) = &result.words {
            body["result"] = json!(words);
        }
        typed_line("result", Some(&result.subtype), &body)
    }

    /// The account's limits changed.
    #[must_use]
    pub fn rate_limit(&self, info: &RateLimitInfo) -> String {
        let mut body = json!({"status": info.status, "isUsingOverage": info.overage});
        if let Some(resets_at) = info.resets_at {
            body["resetsAt"] = json!(resets_at);
        }
        if let Some(name) = limit_name(info.kind) {
            body["rateLimitType"] = json!(name);
        }
        self.line("rate_limit_event", json!({"rate_limit_info": body}))
    }

    /// A hook of the host is asked. `details` are the event's own fields, such as `tool_name`.
    #[must_use]
    pub fn hook_callback(&self, request_id: &str, hook: &HostHook, mut details: Value) -> String {
        details["session_id"] = json!(self.session_id);
        details["cwd"] = json!(self.cwd);
        details["hook_event_name"] = json!(hook.event.name());
        let body = json!({"subtype": "hook_callback", "callback_id": hook.callback_id, "input": details});
        control::request(request_id, &body)
    }

    fn line(&self, kind: &str, mut body: Value) -> String {
        body["session_id"] = json!(self.session_id);
        typed_line(kind, None, &body)
    }
}

/// Answers a request of the host.
#[must_use]
pub fn response(request_id: &str, answer: &Value) -> String {
    control::success(request_id, answer)
}

/// Answers `get_context_usage`.
#[must_use]
pub fn context_usage(request_id: &str, usage: &ContextUsage) -> String {
    response(request_id, &usage.to_json())
}

fn limit_name(kind: LimitKind) -> Option<&'static str> {
    match kind {
        LimitKind::FiveHour => Some("five_hour"),
        LimitKind::SevenDay => Some("seven_day"),
        LimitKind::SevenDayModel => Some("seven_day_opus"),
        LimitKind::Overage => Some("overage"),
        LimitKind::Unknown => None,
    }
}

#[cfg(test)]
mod tests;
