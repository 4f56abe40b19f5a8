//! What we send to the client: one function per message, one line per message.
//!
//! The texts that an agent reads are parameters; they come from the catalogue of prompts.
//!
//! A callback's id is the name of its hook event, so that an answer needs no table.

use serde_json::{Value, json};

use crate::hooks::HookEvent;
use crate::typed_line::typed_line;

/// Begins the protocol and registers our hooks. If a hook is not answered in time, its call does not run, and
/// the turn ends.
pub fn initialize(request_id: &str, hooks: &[HookEvent], timeout_secs: u32) -> String {
    let hook = |event: &HookEvent| {
        let name = event.name();
        let matchers = json!([{"hookCallbackIds": [name], "timeout": timeout_secs}]);
        (name.to_owned(), matchers)
    };
    let hooks: serde_json::Map<String, Value> = hooks.iter().map(hook).collect();
    request(
        request_id,
        &json!({"subtype": "initialize", "hooks": hooks}),
    )
}

/// A message from the user. While a turn runs, it is delivered after the next tool result. The client
/// returns `uuid` when it echoes the message, and expands `@path` in the *last* block. The service may cache the first
/// one if another session begins with it, too.
pub fn user_message(blocks: &[&str], caches_first: bool, uuid: Option<&str>) -> String {
    let block = |(index, text): (usize, &&str)| match caches_first && index == 0 {
        true => json!({"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}),
        false => json!({"type": "text", "text": text}),
    };
    let content: Vec<Value> = blocks.iter().enumerate().map(block).collect();
    let mut body = json!({
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": null,
        "session_id": "",
    });
    if let Some(uuid) = uuid {
        body["uuid"] = json!(uuid);
    }
    typed_line("user", None, &body)
}

/// Asks what fills the window. Costs no request to the service.
pub fn get_context_usage(request_id: &str) -> String {
    request(
        request_id,
        &json!({"subtype": "get_context_usage", "detail": "summary"}),
    )
}

/// Asks what the conversation has cost, also while a turn runs. Costs no request to the service.
pub fn get_session_cost(request_id: &str) -> String {
    request(request_id, &json!({"subtype": "get_session_cost"}))
}

/// Withdraws a message that no turn has taken yet.
pub fn cancel_message(request_id: &str, uuid: &str) -> String {
    request(
        request_id,
        &json!({"subtype": "cancel_async_message", "message_uuid": uuid}),
    )
}

/// Ends the turn; the process stays.
pub fn interrupt(request_id: &str) -> String {
    request(request_id, &json!({"subtype": "interrupt"}))
}

/// Refuses a tool; the message becomes its result.
pub fn answer_denied(request_id: &str, message: &str) -> String {
    answer(
        request_id,
        &json!({"behavior": "deny", "message": message, "interrupt": false}),
    )
}

/// Answers a request that we do not know.
pub fn answer_error(request_id: &str, error: &str) -> String {
    let response = json!({"subtype": "error", "request_id": request_id, "error": error});
    typed_line("control_response", None, &json!({"response": response}))
}

/// Answers a request: a hook with an output of [`crate::hook_output`], another with its value.
pub fn answer(request_id: &str, answer: &Value) -> String {
    let response = json!({"subtype": "success", "request_id": request_id, "response": answer});
    typed_line("control_response", None, &json!({"response": response}))
}

/// A request, from either end.
pub(crate) fn request(request_id: &str, request: &Value) -> String {
    typed_line(
        "control_request",
        None,
        &json!({"request_id": request_id, "request": request}),
    )
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::hook_output;

    fn check(line: &str, expected: &Expect) {
        expected.assert_eq(line);
        assert_eq!(line.lines().count(), 1, "one message is one line");
        serde_json::from_str::<Value>(line).unwrap();
    }

    // shows: AGT-01
    #[test]
    fn our_requests() {
        check(
            &initialize("r1", &[HookEvent::PreToolUse, HookEvent::Stop], 60),
            &expect![[r#"
            {"type":"control_request","request":{"hooks":{"PreToolUse":[{"hookCallbackIds":["PreToolUse"],"timeout":60}],"Stop":[{"hookCallbackIds":["Stop"],"timeout":60}]},"subtype":"initialize"},"request_id":"r1"}
        "#]],
        );
        check(
            &get_context_usage("r2"),
            &expect![[r#"
            {"type":"control_request","request":{"detail":"summary","subtype":"get_context_usage"},"request_id":"r2"}
        "#]],
        );
        check(
            &get_session_cost("cost"),
            &expect![[r#"
            {"type":"control_request","request":{"subtype":"get_session_cost"},"request_id":"cost"}
        "#]],
        );
        check(
            &cancel_message("r4", "u1"),
            &expect![[r#"
            {"type":"control_request","request":{"message_uuid":"u1","subtype":"cancel_async_message"},"request_id":"r4"}
        "#]],
        );
        check(
            &interrupt("r3"),
            &expect![[r#"
            {"type":"control_request","request":{"subtype":"interrupt"},"request_id":"r3"}
        "#]],
        );
    }

    #[test]
    fn our_messages() {
        check(
            &user_message(&["# Task\nbuild", "# Now"], true, Some("u1")),
            &expect![[r##"
            {"type":"user","message":{"content":[{"cache_control":{"type":"ephemeral"},"text":"# Task\nbuild","type":"text"},{"text":"# Now","type":"text"}],"role":"user"},"parent_tool_use_id":null,"session_id":"","uuid":"u1"}
        "##]],
        );
        check(
            &user_message(&["go"], false, None),
            &expect![[r#"
            {"type":"user","message":{"content":[{"text":"go","type":"text"}],"role":"user"},"parent_tool_use_id":null,"session_id":""}
        "#]],
        );
    }

    // shows: AGT-01
    #[test]
    fn our_answers() {
        check(
            &answer("h1", &hook_output::pass()),
            &expect![[r#"
            {"type":"control_response","response":{"request_id":"h1","response":{},"subtype":"success"}}
        "#]],
        );
        check(
            &answer("h2", &hook_output::permission(false, "not yours")),
            &expect![[r#"
            {"type":"control_response","response":{"request_id":"h2","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"not yours"}},"subtype":"success"}}
        "#]],
        );
        check(
            &answer("h3", &hook_output::block("no")),
            &expect![[r#"
            {"type":"control_response","response":{"request_id":"h3","response":{"decision":"block","reason":"no"},"subtype":"success"}}
        "#]],
        );
        check(
            &answer_denied("p2", "no"),
            &expect![[r#"
            {"type":"control_response","response":{"request_id":"p2","response":{"behavior":"deny","interrupt":false,"message":"no"},"subtype":"success"}}
        "#]],
        );
        check(
            &answer_error("x", "unknown"),
            &expect![[r#"
            {"type":"control_response","response":{"error":"unknown","request_id":"x","subtype":"error"}}
        "#]],
        );
    }
}
