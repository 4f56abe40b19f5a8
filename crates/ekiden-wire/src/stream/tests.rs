use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::fixtures;
use crate::lines::LineSplitter;

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
        return results.results.iter().map(result).collect();
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
    let window = result.model_usage.values().map(|usage| usage.context_window).max().unwrap_or_default();
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
    let error = response.error.map(|error| format!(" {error:?}")).unwrap_or_default();
    format!("{thread} {} {}{error}", response.usage.context_tokens(), blocks.join(", "))
}

fn check(name: &str, expected: &Expect) {
    let events = fixtures::events(name);
    assert!(!events.contains(&ClientEvent::Malformed));
    let known = events.iter().filter(|event| **event != ClientEvent::Ignored);
    let seen: Vec<String> = known.map(summary).collect();
    expected.assert_eq(&(seen.join("\n") + "\n"));
}

// shows: AGT-01
#[test]
fn a_session_with_a_foreground_subagent() {
    check(
        "subagent.jsonl",
        &expect![[r#"
        Init { session_id: "eafe0d5e-2270-457e-bfdb-16d3423c361b", model: "claude-opus-5-5", version: "2.1.329", permission_mode: "default" }
        main 53000 says "m1"
        main 53000 calls Agent "sub"
        TaskStarted { task_id: "aef5f2207734f4487", subagent: true }
        sub 20000 calls Bash "echo sub"
        result
        TaskFinished { task_id: "aef5f2207734f4487" }
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
        Init { session_id: "37ae820c-3dfe-4ca7-b584-2a80cade7a1d", model: "claude-opus-5-5", version: "2.1.329", permission_mode: "default" }
        main 53000 says "m1"
        main 53000 calls Agent "sub"
        TaskStarted { task_id: "a05d9e0cdd45e3f10", subagent: true }
        result
        sub 20000 says "sub looks"
        sub 20000 calls Bash "echo sub"
        main 54000 says "main done"
        result
        sub 21000 says "sub result text"
        TaskFinished { task_id: "a05d9e0cdd45e3f10" }
        Init { session_id: "37ae820c-3dfe-4ca7-b584-2a80cade7a1d", model: "claude-opus-5-5", version: "2.1.329", permission_mode: "default" }
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
            Init { session_id: "cdfe0929-a519-4660-bf6b-0a21206e7556", model: "claude-opus-5-5", version: "2.1.329", permission_mode: "default" }
            main 50000 says "t1"
            main 50000 calls Bash "python3 -c \"import time; time.sleep(3)\""
            answer r1 ok=true
            TaskStarted { task_id: "bmbm7a6de", subagent: false }
            TaskFinished { task_id: "bmbm7a6de" }
            result
            main 60000 says "t2"
            main 60000 calls Bash "python3 -c \"import time; time.sleep(3)\""
            TaskStarted { task_id: "b3ycexwb6", subagent: false }
            TaskFinished { task_id: "b3ycexwb6" }
            result
            answer r2 ok=true
            result 0 Some(AbortedStreaming) is_error=true turns=4 window=1000000
            Init { session_id: "cdfe0929-a519-4660-bf6b-0a21206e7556", model: "claude-opus-5-5", version: "2.1.329", permission_mode: "default" }
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
        HookFinished { event: "SessionStart", ok: true }
        Compacting
        HookFinished { event: "SessionStart", ok: true }
        CompactBoundary { auto: true, pre_tokens: 145033 }
        Compacting
    "#]],
    );
}

#[test]
fn retries_and_errors() {
    check(
        "api-errors.jsonl",
        &expect![[r#"
            ApiRetry { attempt: 1, max: 2, delay_ms: 581, error: ApiError { kind: Overloaded, status: Some(529) } }
            ApiRetry { attempt: 2, max: 2, delay_ms: 1083, error: ApiError { kind: Overloaded, status: Some(529) } }
            main 0 says "API Error: Repeated 529 Overloaded errors. The API is at capacity — this is usually temporary. Try again in a moment. If it persists, check your inference gateway (127.0.0.1:44005)." ApiError { kind: ServerError, status: Some(529) }
            ApiRetry { attempt: 1, max: 2, delay_ms: 585, error: ApiError { kind: Unknown, status: None } }
            ApiRetry { attempt: 2, max: 2, delay_ms: 1055, error: ApiError { kind: Unknown, status: None } }
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
    let callbacks = events.iter().filter(|event| matches!(event, ClientEvent::HookCallback { .. })).count();
    let ClientEvent::CanUseTool { permission, .. } = &events[1] else { panic!("{:?}", events[1]) };
    assert_eq!(callbacks, 7);
    assert_eq!(permission.call.target, "touch /home/dev/elsewhere/ct-x");
    assert_eq!(permission.input, r#"{"command":"touch /home/dev/elsewhere/ct-x"}"#);
    let refused = ClientEvent::ControlResponse {
        request_id: "r10".to_owned(),
        answer: Err("Unsupported control request subtype: no_such".to_owned()),
    };
    assert!(events.contains(&refused));
}

#[test]
fn partial_messages_cost_nothing_and_change_nothing() {
    let partial = fixtures::lines("partial.jsonl");
    for line in partial.iter().filter(|line| line.starts_with(r#"{"type":"stream_event""#)) {
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
    assert!(matches!(parse(late), ClientEvent::Init { .. }));
    // A type inside of another object is not the line's.
    let inner = r#"{"message":{"type":"result"},"type":"brand_new"}"#;
    assert_eq!(parse(inner), ClientEvent::Ignored);
}

#[test]
fn a_result_with_odd_fields_is_still_a_result() {
    let odd = r#"{"type":"result","subtype":7,"is_error":"maybe","num_turns":-1,"modelUsage":[],
        "permission_denials":[{"tool_use_id":"a"},{"tool_use_id":"b"}],"total_cost_usd":"free"}"#;
    let ClientEvent::Result(result) = parse(odd) else { panic!("{:?}", parse(odd)) };
    assert!(result.is_error, "what does not say that it went well did not");
    assert_eq!((result.num_turns, result.denials.count), (0, 2));
}

#[test]
fn a_request_that_is_odd_still_has_its_id() {
    for odd in [
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"brand_new"}}"#,
        r#"{"type":"control_request","request_id":"r","request":7}"#,
        r#"{"type":"control_request","request_id":"r"}"#,
    ] {
        assert!(matches!(parse(odd), ClientEvent::UnknownRequest { request_id, .. } if request_id == "r"));
    }
    let callback =
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"hook_callback","input":[7]}}"#;
    assert!(matches!(parse(callback), ClientEvent::HookCallback { .. }));
}

// shows: AGT-08
#[test]
fn a_line_too_long_to_read_is_told_and_a_request_in_it_is_answered() {
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
    let len = 5 * 1024 * 1024;
    assert_eq!(of(r#"{"type":"user","m":"#), ClientEvent::Oversized { len: len + 19, maybe_result: false });
    assert_eq!(of(r#"{"duration_ms":3"#), ClientEvent::Oversized { len: len + 16, maybe_result: true });
    let request = of(r#"{"type":"control_request","request_id":"r7","request":{"#);
    assert!(matches!(request, ClientEvent::UnknownRequest { request_id, .. } if request_id == "r7"));
}

// shows: AGT-08
#[test]
fn large_contents_are_kept_as_excerpts() {
    let text = "word ".repeat(100_000);
    let said = serde_json::json!({"type": "assistant", "message": {"id": "m", "model": "x", "content": [
        {"type": "text", "text": text},
        {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "/a", "content": text}},
        {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": text}}]}});
    let ClientEvent::Assistant(response) = parse(&said.to_string()) else { panic!("no response") };
    assert!(format!("{response:?}").len() < 3000);
    let answered = serde_json::json!({"type": "user", "message": {"content": [
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": text}]}]}});
    let ClientEvent::ToolResults(results) = parse(&answered.to_string()) else { panic!("no results") };
    assert!(results.results[0].excerpt.len() < 1000 && results.results[0].excerpt.starts_with("word "));
}

#[test]
fn half_characters_do_not_lose_a_line() {
    let mut line =
        br#"{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"a"#
            .to_vec();
    line.extend_from_slice(b"\xff\xfe b\"}]}}");
    let ClientEvent::Assistant(response) = ClientEvent::parse(&line) else { panic!("lost") };
    assert_eq!(response.blocks, [Block::Text("a\u{fffd}\u{fffd} b".to_owned())]);
    let surrogate = r#"{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"a\ud83d"}]}}"#;
    assert!(matches!(parse(surrogate), ClientEvent::Assistant(_)));
}

#[test]
fn a_message_of_ours_is_followed_by_its_id() {
    let of = |state| ClientEvent::Lifecycle { uuid: "u1".to_owned(), state };
    for (word, state) in [
        ("queued", Lifecycle::Queued),
        ("started", Lifecycle::Started),
        ("completed", Lifecycle::Completed),
        ("cancelled", Lifecycle::Cancelled),
        ("refused", Lifecycle::Cancelled),
        ("new", Lifecycle::Unknown),
    ] {
        let line = format!(r#"{{"type":"command_lifecycle","command_uuid":"u1","state":"{word}"}}"#);
        assert_eq!(parse(&line), of(state), "{word}");
    }
    let plain = r#"{"type":"user","message":{"role":"user","content":"line\none"},"uuid":"u1"}"#;
    assert_eq!(parse(plain), ClientEvent::Ignored);
}

#[test]
fn no_cut_of_a_recording_panics() {
    for name in fixtures::STREAMS.iter().chain(&["control.jsonl", "hooks.jsonl"]) {
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
