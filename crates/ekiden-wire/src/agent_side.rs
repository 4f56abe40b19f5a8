//! The agent's end of the same formats: for the built-in agent, and for agents in tests.
//!
//! It understands what [`crate::control`] writes, and writes what [`crate::stream`] understands, in the real
//! client's field names. Develop it against the real client's recordings, not against our own reader: the tests
//! here only show that the two ends agree.

use serde_json::{Value, json};

use crate::control;
use crate::hook_output::HookAnswer;
use crate::hooks::HookEvent;
use crate::json::{elements, text};
use crate::stream::{LIMIT_NAMES, Lifecycle, RateLimitInfo, TurnResult};
use crate::typed_line::typed_line;
use crate::usage::Usage;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostMessage {
    /// The protocol begins; these are the host's hooks.
    Initialize {
        request_id: String,
        hooks: Vec<HostHook>,
    },
    ContextUsage {
        request_id: String,
    },
    Interrupt {
        request_id: String,
    },
    /// A request that we do not know; answer with an error.
    OtherRequest {
        request_id: String,
        subtype: String,
    },
    Answer {
        request_id: String,
        answer: HookAnswer,
    },
    User {
        blocks: Vec<String>,
        /// Returned in the echo.
        uuid: Option<String>,
    },
    /// Not a line that a host sends.
    Malformed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostHook {
    pub event: HookEvent,
    /// The name to call it by.
    pub callback_id: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Saying<'a> {
    Text(&'a str),
    Call {
        id: &'a str,
        name: &'a str,
        input: &'a Value,
    },
}

impl HostMessage {
    pub fn parse(line: &str) -> Self {
        let Ok(line) = serde_json::from_str::<Value>(line) else {
            return Self::Malformed;
        };
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
    HostMessage::User {
        blocks,
        uuid: line["uuid"].as_str().map(str::to_owned),
    }
}

fn request(line: &Value) -> HostMessage {
    let request_id = text(&line["request_id"]);
    match text(&line["request"]["subtype"]).as_str() {
        "initialize" => HostMessage::Initialize {
            request_id,
            hooks: hooks(&line["request"]["hooks"]),
        },
        "get_context_usage" => HostMessage::ContextUsage { request_id },
        "interrupt" => HostMessage::Interrupt { request_id },
        subtype => HostMessage::OtherRequest {
            request_id,
            subtype: subtype.to_owned(),
        },
    }
}

fn hooks(hooks: &Value) -> Vec<HostHook> {
    let mut found = Vec::new();
    for (event, matchers) in hooks.as_object().into_iter().flatten() {
        let event: HookEvent = serde_json::from_value(json!(event)).unwrap_or_default();
        let ids = elements(matchers)
            .iter()
            .flat_map(|matcher| elements(&matcher["hookCallbackIds"]));
        found.extend(ids.map(|id| HostHook {
            event,
            callback_id: text(id),
        }));
    }
    found
}

fn answer(response: &Value) -> HookAnswer {
    if response["subtype"] != "success" {
        // The host could not answer.
        return HookAnswer::Deny(text(&response["error"]));
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

/// Writes an agent's side, one line per call.
#[derive(Debug, Clone)]
pub struct AgentWriter {
    pub session_id: String,
    /// The model that the agent claims to be.
    pub model: String,
    pub cwd: String,
}

impl AgentWriter {
    pub fn init(&self, version: &str, permission_mode: &str) -> String {
        let body = json!({
            "cwd": self.cwd, "session_id": self.session_id, "model": self.model, "tools": [],
            "permissionMode": permission_mode, "claude_code_version": version,
        });
        typed_line("system", Some("init"), &body)
    }

    /// One block of a response.
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
        self.line(
            "assistant",
            json!({"message": message, "parent_tool_use_id": null}),
        )
    }

    pub fn tool_result(&self, tool_use_id: &str, is_error: bool, content: &str) -> String {
        let block = json!({
            "type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": is_error,
        });
        let message = json!({"role": "user", "content": [block]});
        self.line(
            "user",
            json!({"message": message, "parent_tool_use_id": null}),
        )
    }

    /// A message from the host moved one step further.
    pub fn lifecycle(&self, uuid: &str, state: Lifecycle) -> String {
        self.line(
            "command_lifecycle",
            json!({"command_uuid": uuid, "state": state}),
        )
    }

    pub fn result(&self, result: &TurnResult) -> String {
        let denials: Vec<Value> = result
            .denials
            .iter()
            .map(|call| json!({"tool_use_id": call.id, "tool_name": call.name}))
            .collect();
        let mut body = json!({
            "is_error": result.is_error, "terminal_reason": result.terminal_reason,
            "stop_reason": result.stop_reason, "api_error_status": result.api_error_status,
            "result_index": result.result_index, "num_turns": result.num_turns,
            "total_cost_usd": result.total_cost_usd, "modelUsage": result.model_usage,
            "permission_denials": denials, "errors": result.errors, "session_id": self.session_id,
        });
        if let Some(Ok(value)) = result
            .structured
            .as_deref()
            .map(serde_json::from_str::<Value>)
        {
            body["structured_output"] = value;
        }
        if let Some(words) = &result.words {
            body["result"] = json!(words);
        }
        typed_line("result", Some(&result.subtype), &body)
    }

    pub fn rate_limit(&self, info: &RateLimitInfo) -> String {
        let mut body = json!({"status": info.status});
        if let Some(resets_at) = info.resets_at {
            body["resetsAt"] = json!(resets_at);
        }
        let mut names = LIMIT_NAMES.iter();
        if let Some((name, _)) = names.find(|(_, kind)| *kind == info.kind) {
            body["rateLimitType"] = json!(name);
        }
        self.line("rate_limit_event", json!({"rate_limit_info": body}))
    }

    /// Asks a hook of the host. `details` are the event's own fields, such as `tool_name`.
    pub fn hook_callback(&self, request_id: &str, hook: &HostHook, mut details: Value) -> String {
        details["session_id"] = json!(self.session_id);
        details["cwd"] = json!(self.cwd);
        details["hook_event_name"] = json!(hook.event.name());
        let body =
            json!({"subtype": "hook_callback", "callback_id": hook.callback_id, "input": details});
        control::request(request_id, &body)
    }

    fn line(&self, kind: &str, mut body: Value) -> String {
        body["session_id"] = json!(self.session_id);
        typed_line(kind, None, &body)
    }
}

#[cfg(test)]
mod tests;
