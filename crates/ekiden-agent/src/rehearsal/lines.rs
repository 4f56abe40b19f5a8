//! Lines of a client that only this agent writes; the others are [`AgentWriter`]'s. Hosts pass over
//! them: they are there so that a recording reads as the real client's.
//!
//! [`AgentWriter`]: ekiden_wire::agent_side::AgentWriter

use serde::Serialize;
use serde_json::{Value, json};

/// As in the client, the type stands first.
#[derive(Serialize)]
struct UserLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    message: Value,
    parent_tool_use_id: Option<()>,
    #[serde(rename = "isSynthetic", skip_serializing_if = "std::ops::Not::not")]
    synthetic: bool,
    session_id: &'a str,
}

#[derive(Serialize)]
struct NotificationLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    subtype: &'static str,
    key: &'static str,
    text: &'static str,
    session_id: &'a str,
}

/// A hook kept the turn from ending, for this reason.
pub(super) fn stop_feedback(session_id: &str, reason: &str) -> [String; 2] {
    let notification = NotificationLine {
        kind: "system",
        subtype: "notification",
        key: "stop-hook-error",
        text: "stop hook problem",
        session_id,
    };
    [line(&user(session_id, &format!("Stop hook feedback:\n{reason}"), true)), line(&notification)]
}

/// The turn was cut off.
pub(super) fn interrupted(session_id: &str, in_tool: bool) -> String {
    let what = if in_tool { " for tool use" } else { "" };
    line(&user(session_id, &format!("[Request interrupted by user{what}]"), false))
}

fn user<'a>(session_id: &'a str, text: &str, synthetic: bool) -> UserLine<'a> {
    let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
    UserLine { kind: "user", message, parent_tool_use_id: None, synthetic, session_id }
}

fn line(value: &impl Serialize) -> String {
    // A struct of strings cannot fail to serialise; an empty line would be passed over.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_stands_first() {
        assert_eq!(
            interrupted("s1", true),
            "{\"type\":\"user\",\"message\":{\"content\":[{\"text\":\"[Request interrupted by user for tool use]\",\
             \"type\":\"text\"}],\"role\":\"user\"},\"parent_tool_use_id\":null,\"session_id\":\"s1\"}\n"
        );
        let [feedback, notification] = stop_feedback("s1", "go on");
        assert!(
            feedback.contains(r#""isSynthetic":true"#) && feedback.contains("Stop hook feedback:\\ngo on")
        );
        assert!(notification.starts_with(r#"{"type":"system","subtype":"notification","#));
    }
}
