use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::lines::LineSplitter;
use crate::tests as fixtures;

fn parse(line: &str) -> ClientEvent {
    ClientEvent::parse(line.as_bytes())
}

/// One short line an event, so that a whole recording can be read at a glance.
fn summary(event: &ClientEvent) -> String {
    if let ClientEvent::Assistant(response) = event {
        return summary_of_response(response);
    }
    if let ClientEvent::ToolResults(results) = event {
        let result = |one: &ToolResult| if one.is_error { "error" } else { "result" };
        return results.iter().map(result).collect();
    }
    if let ClientEvent::Result(result) = event {
        return summary_of_result(result);
    }
    if let ClientEvent::ControlResponse { request_id, answer } = event {
        return format!("answer {request_id} ok={}", answer.is_ok());
    }
    format!("{event:?}")
}

fn summary_of_result(result: &TurnResult) -> String {
    let window = result
        .model_usage
        .values()
        .map(|usage| usage.context_window)
        .max()
        .unwrap_or_default();
    format!(
        "result {} {:?} is_error={} turns={} window={window}",
        result.result_index, result.terminal_reason, result.is_error, result.num_turns
    )
}

fn summary_of_response(response: &Assistant) -> String {
    let blocks: Vec<String> = response
        .blocks
        .iter()
        .map(|block| match block {
            Block::Text(text) => format!("says {text:?}"),
            Block::Call(call) => format!("calls {} {:?}", call.name, call.target),
        })
        .collect();
    let thread = if response.main_thread { "main" } else { "sub" };
    let error = response
        .error
        .map(|error| format!(" {error:?}"))
        .unwrap_or_default();
    format!(
        "{thread} {} {}{error}",
        response.usage.context_tokens(),
        blocks.join(", ")
    )
}

fn check(name: &str, expected: &Expect) {
    let events = fixtures::events(name);
    assert!(!events.contains(&ClientEvent::Malformed));
    let known = events
        .iter()
        .filter(|event| **event != ClientEvent::Ignored);
    let seen: Vec<String> = known.map(summary).collect();
    expected.assert_eq(&(seen.join("\n") + "\n"));
}

// shows: AGT-01
#[test]
fn a_session_with_a_foreground_subagent() {
    check(
        "subagent.jsonl",
        &expect![[r#"
            Init
            main 53000 says "m1"
            main 53000 calls Agent "sub"
            sub 20000 calls Bash "echo sub"
            result
            result
            main 54000 says "main done"
            result 0 Some(Completed) is_error=false turns=2 window=1000000
        "#]],
    );
}

// shows: AGT-01
#[test]
fn a_turn_with_two_results() {
    check(
        "two-results.jsonl",
        &expect![[r#"
            Init
            main 53000 says "m1"
            main 53000 calls Agent "sub"
            result
            sub 20000 says "sub looks"
            sub 20000 calls Bash "echo sub"
            main 54000 says "main done"
            result
            sub 21000 says "sub result text"
            Init
            main 55000 says "main again 3"
            result 0 Some(Completed) is_error=false turns=2 window=1000000
            result 1 Some(Completed) is_error=false turns=1 window=1000000
        "#]],
    );
}

// shows: AGT-01
#[test]
fn a_message_in_mid_turn_and_an_interrupt() {
    check(
        "midturn.jsonl",
        &expect![[r#"
            Init
            main 50000 says "t1"
            main 50000 calls Bash "python3 -c \"import time; time.sleep(3)\""
            answer r1 ok=true
            result
            main 60000 says "t2"
            main 60000 calls Bash "python3 -c \"import time; time.sleep(3)\""
            result
            answer r2 ok=true
            result 0 Some(AbortedStreaming) is_error=true turns=4 window=1000000
            Init
            main 62000 says "x2"
            result 1 Some(Completed) is_error=false turns=1 window=1000000
        "#]],
    );
}

// shows: AGT-04
#[test]
fn a_compaction() {
    check(
        "compaction.jsonl",
        &expect![[r#"
            CompactBoundary { pre_tokens: 145033 }
        "#]],
    );
}

#[test]
fn retries_and_errors() {
    check(
        "api-errors.jsonl",
        &expect![[r#"
            ApiRetry { attempt: 1, error: ApiError { kind: Overloaded, status: Some(529) } }
            ApiRetry { attempt: 2, error: ApiError { kind: Overloaded, status: Some(529) } }
            main 0 says "API Error: Repeated 529 Overloaded errors. The API is at capacity — this is usually temporary. Try again in a moment. If it persists, check your inference gateway (127.0.0.1:44005)." ApiError { kind: ServerError, status: Some(529) }
            ApiRetry { attempt: 1, error: ApiError { kind: Unknown, status: None } }
            ApiRetry { attempt: 2, error: ApiError { kind: Unknown, status: None } }
            main 0 says "API Error: Connection dropped (ECONNRESET). Check the gateway set in ANTHROPIC_BASE_URL, then try again." ApiError { kind: ServerError, status: None }
            main 0 says "Credit balance is too low" ApiError { kind: BillingError, status: Some(400) }
            main 0 says "There's an issue with the selected model (claude-opus-5-5). It may not exist or you may not have access to it. Run --model to pick a different model." ApiError { kind: ModelNotFound, status: Some(404) }
        "#]],
    );
}

// shows: AGT-01
#[test]
fn the_clients_requests_and_answers() {
    let events = fixtures::events("control.jsonl");
    let callbacks = events
        .iter()
        .filter(|event| matches!(event, ClientEvent::HookCallback { .. }))
        .count();
    assert_eq!(callbacks, 7);
    assert!(matches!(events[1], ClientEvent::CanUseTool { .. }));
    let refused = ClientEvent::ControlResponse {
        request_id: "r10".to_owned(),
        answer: Err("Unsupported control request subtype: no_such".to_owned()),
    };
    assert!(events.contains(&refused));
}

#[test]
fn partial_messages_cost_nothing_and_change_nothing() {
    let partial = fixtures::lines("partial.jsonl");
    for line in partial
        .iter()
        .filter(|line| line.starts_with(r#"{"type":"stream_event""#))
    {
        assert_eq!(parse(line), ClientEvent::Ignored);
    }
}

// shows: AGT-08
#[test]
fn unknown_lines_are_ignored_and_broken_ones_counted() {
    for unknown in [
        r#"{"type":"brand_new","x":1}"#,
        r#"{"type":"system","subtype":"brand_new"}"#,
        r#"{"type":"system"}"#,
        r#"{"x":1,"type":"brand_new"}"#,
        "",
        "  \t",
    ] {
        assert_eq!(parse(unknown), ClientEvent::Ignored, "{unknown}");
    }
    for broken in [
        "Warning: something",
        "{",
        "[]",
        r#"{"type":"assistant"}"#,
        r#"{"type":"assistant","message":{"id":"#,
        r#"{"type":"stream_event","event":{"#,
        r#"{"no":"type"}"#,
        r#"{"type":7}"#,
    ] {
        assert_eq!(parse(broken), ClientEvent::Malformed, "{broken}");
    }
}

#[test]
fn a_type_may_come_late() {
    let late = r#"{"message":{"id":"m","model":"x","content":[]},"type":"assistant"}"#;
    assert!(matches!(parse(late), ClientEvent::Assistant(_)));
    let late = r#"{"session_id":"s","subtype":"init","type":"system"}"#;
    assert!(matches!(parse(late), ClientEvent::Init));
    // A type inside of another object is not the line's.
    let inner = r#"{"message":{"type":"result"},"type":"brand_new"}"#;
    assert_eq!(parse(inner), ClientEvent::Ignored);
}

#[test]
fn a_result_with_odd_fields_is_still_a_result() {
    let odd = r#"{"type":"result","subtype":7,"is_error":"maybe","num_turns":-1,"modelUsage":[],
        "permission_denials":[{"tool_use_id":"a"},{"tool_use_id":"b"}],"total_cost_usd":"free"}"#;
    let ClientEvent::Result(result) = parse(odd) else {
        panic!("{:?}", parse(odd))
    };
    assert!(
        result.is_error,
        "what does not say that it went well did not"
    );
    assert_eq!((result.num_turns, result.denials.len()), (0, 2));
}

#[test]
fn a_request_that_is_odd_still_has_its_id() {
    for odd in [
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"brand_new"}}"#,
        r#"{"type":"control_request","request_id":"r","request":7}"#,
        r#"{"type":"control_request","request_id":"r"}"#,
    ] {
        assert!(
            matches!(parse(odd), ClientEvent::UnknownRequest { request_id, .. } if request_id == "r")
        );
    }
    let callback = r#"{"type":"control_request","request_id":"r","request":{"subtype":"hook_callback","input":[7]}}"#;
    assert!(matches!(parse(callback), ClientEvent::HookCallback { .. }));
    let broken = r#"{"type":"control_request","request_id":"r","request":{"subtype":"hook_callback","input":{]}}"#;
    assert!(
        matches!(parse(broken), ClientEvent::UnknownRequest { request_id, .. } if request_id == "r")
    );
}

/// A value of 200 levels, which is more than the parser takes.
fn deep() -> String {
    "[".repeat(200) + &"]".repeat(200)
}

// shows: AGT-08
#[test]
fn a_hook_about_a_deeply_nested_input_is_answered() {
    let input = format!(
        r#"{{"hook_event_name":"PreToolUse","tool_name":"mcp__x__y","tool_input":{{"a":{}}},"session_id":"s1"}}"#,
        deep()
    );
    let line = format!(
        r#"{{"type":"control_request","request_id":"r","request":{{"subtype":"hook_callback","callback_id":"c","input":{input}}}}}"#
    );
    let ClientEvent::HookCallback { request_id, call } = parse(&line) else {
        panic!("{:?}", parse(&line))
    };
    assert_eq!((request_id.as_str(), call.session_id.as_str()), ("r", "s1"));
    assert_eq!(HookCall::parse(&input), *call);
}

#[test]
fn a_deeply_nested_call_keeps_the_usage_of_its_line() {
    let line = format!(
        r#"{{"type":"assistant","message":{{"id":"m","model":"x","content":[{{"type":"tool_use","id":"t","name":"mcp__x__y","input":{{"a":{}}}}}],"usage":{{"input_tokens":7}}}}}}"#,
        deep()
    );
    let ClientEvent::Assistant(response) = parse(&line) else {
        panic!("{:?}", parse(&line))
    };
    assert_eq!(response.usage.context_tokens(), 7);
    assert!(matches!(&response.blocks[..], [Block::Call(call)] if call.name == "mcp__x__y"));
}

#[test]
fn an_odd_usage_makes_a_line_malformed_and_a_missing_one_is_none() {
    let of = |usage: &str| {
        parse(&format!(
            r#"{{"type":"assistant","message":{{"id":"m","model":"x","content":[]{usage}}}}}"#
        ))
    };
    for none in ["", r#","usage":null"#, r#","usage":{}"#] {
        assert!(
            matches!(of(none), ClientEvent::Assistant(response) if response.usage == crate::usage::Usage::default()),
            "{none}"
        );
    }
    for odd in [
        r#","usage":"much""#,
        r#","usage":[]"#,
        r#","usage":{"input_tokens":-1}"#,
    ] {
        assert_eq!(of(odd), ClientEvent::Malformed, "{odd}");
    }
}

#[test]
fn an_error_that_is_not_a_text_is_shown_as_json() {
    let of = |error: &str| {
        let line = format!(
            r#"{{"type":"control_response","response":{{"subtype":"error","request_id":"r"{error}}}}}"#
        );
        let ClientEvent::ControlResponse { answer, .. } = parse(&line) else {
            panic!("no answer: {error}")
        };
        answer.unwrap_err()
    };
    assert_eq!(of(r#","error":"no""#), "no");
    assert_eq!(of(r#","error":{"code":7}"#), r#"{"code":7}"#);
    assert_eq!(of(r#","error":null"#), "");
    assert_eq!(of(""), "");
}

// shows: AGT-08
#[test]
fn a_line_too_long_to_read_is_malformed_and_a_request_in_it_is_answered() {
    let of = |begin: &str| {
        let mut events = Vec::new();
        let mut splitter = LineSplitter::new();
        splitter.push(begin.as_bytes(), |_| {});
        for _ in 0..5 {
            splitter.push(&vec![b'x'; 1024 * 1024], |_| {});
        }
        splitter.finish(|line| events.push(ClientEvent::of(line)));
        events.remove(0)
    };
    assert_eq!(of(r#"{"type":"user","m":"#), ClientEvent::Malformed);
    let request = of(r#"{"type":"control_request","request_id":"r7","request":{"#);
    assert!(
        matches!(request, ClientEvent::UnknownRequest { request_id, .. } if request_id == "r7")
    );
}

// shows: AGT-08
#[test]
fn large_contents_are_kept_as_excerpts() {
    let text = "word ".repeat(100_000);
    let said = serde_json::json!({"type": "assistant", "message": {"id": "m", "model": "x", "content": [
        {"type": "text", "text": text},
        {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "/a", "content": text}},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": text}}]}});
    let ClientEvent::Assistant(response) = parse(&said.to_string()) else {
        panic!("no response")
    };
    assert!(format!("{response:?}").len() < 3000);
    let answered = serde_json::json!({"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": text}]}]}});
    let ClientEvent::ToolResults(results) = parse(&answered.to_string()) else {
        panic!("no results")
    };
    assert!(results[0].excerpt.len() < 1000 && results[0].excerpt.starts_with("word "));
}

#[test]
fn half_characters_do_not_lose_a_line() {
    let mut line =
        br#"{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"a"#
            .to_vec();
    line.extend_from_slice(b"\xff\xfe b\"}]}}");
    let ClientEvent::Assistant(response) = ClientEvent::parse(&line) else {
        panic!("lost")
    };
    assert_eq!(
        response.blocks,
        [Block::Text("a\u{fffd}\u{fffd} b".to_owned())]
    );
    let surrogate = r#"{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"a\ud83d"}]}}"#;
    assert!(matches!(parse(surrogate), ClientEvent::Assistant(_)));
}

#[test]
fn a_message_of_ours_is_followed_by_its_id() {
    let of = |state| ClientEvent::Lifecycle {
        uuid: "u1".to_owned(),
        state,
    };
    for (word, state) in [
        ("queued", Lifecycle::Queued),
        ("started", Lifecycle::Started),
        ("completed", Lifecycle::Completed),
        ("cancelled", Lifecycle::Cancelled),
        ("refused", Lifecycle::Cancelled),
        ("new", Lifecycle::Unknown),
    ] {
        let line =
            format!(r#"{{"type":"command_lifecycle","command_uuid":"u1","state":"{word}"}}"#);
        assert_eq!(parse(&line), of(state), "{word}");
    }
    let plain = r#"{"type":"user","message":{"role":"user","content":"line\none"},"uuid":"u1"}"#;
    assert_eq!(parse(plain), ClientEvent::Ignored);
}

#[test]
fn no_cut_of_a_recording_panics() {
    for name in fixtures::STREAMS
        .iter()
        .chain(&["control.jsonl", "hooks.jsonl"])
    {
        for line in fixtures::lines(name) {
            for end in 0..line.len().min(3000) {
                let _ = ClientEvent::parse(&line.as_bytes()[..end]);
            }
        }
    }
}

/// JSON that nests what lines hold, with wrong values in right places.
fn odd_json() -> impl Strategy<Value = serde_json::Value> {
    let key = prop::sample::select(vec![
        "type",
        "subtype",
        "message",
        "content",
        "usage",
        "id",
        "name",
        "input",
        "text",
        "request",
        "request_id",
        "response",
        "rate_limit_info",
        "resetsAt",
        "is_error",
        "tool_use_id",
        "modelUsage",
        "errors",
        "permission_denials",
        "compact_metadata",
        "hook_event_name",
        "command",
    ]);
    let word = prop::sample::select(vec![
        "assistant",
        "user",
        "system",
        "result",
        "init",
        "control_request",
        "control_response",
        "hook_callback",
        "can_use_tool",
        "rate_limit_event",
        "api_retry",
        "PreToolUse",
        "Bash",
    ]);
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        word.prop_map(Into::into),
        ".{0,10}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|members| members
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect()),
        ]
    })
}

proptest! {
    // shows: AGT-08
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = ClientEvent::parse(&bytes);
    }

    // shows: AGT-08
    #[test]
    fn no_json_panics(value in odd_json(), kind in prop::sample::select(vec!["assistant", "user", "system", "result", "control_request"])) {
        let _ = parse(&value.to_string());
        if let serde_json::Value::Object(members) = value {
            let _ = parse(&crate::typed_line::typed_line(kind, None, &serde_json::Value::Object(members)));
        }
    }

    // shows: AGT-08
    #[test]
    fn no_change_of_a_recording_panics(at in any::<prop::sample::Index>(), place in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let lines: Vec<String> = fixtures::STREAMS.iter().flat_map(|name| fixtures::lines(name)).collect();
        let mut line = at.get(&lines).clone().into_bytes();
        let place = place.index(line.len());
        line[place] = byte;
        let _ = ClientEvent::parse(&line);
    }
}
