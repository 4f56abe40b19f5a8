use std::io::{Read, Write};
use std::net::TcpStream;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

const DEADLINE: Duration = Duration::from_secs(10);
/// Long enough that a server which wanted to speak would have spoken.
const SILENCE: Duration = Duration::from_millis(300);

/// A request as the client would make it: conversation, thread and tools can be told from it.
fn body(conversation: &str, text: &str) -> Value {
    json!({
        "model": "claude-fake",
        "stream": true,
        "system": [{ "type": "text", "text": "billing;" }, { "type": "text", "text": "You are an agent." }],
        "tools": [{ "name": "Bash" }, { "name": "Write" }],
        "metadata": { "user_id": json!({ "session_id": conversation }).to_string() },
        "messages": [{ "role": "user", "content": text }],
    })
}

/// An open connection with the request written. HTTP/1.0, so that the body ends with the
/// connection and needs no decoding.
fn send(api: &MessagesApi, path: &str, body: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(api.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.0\r\nhost: fake\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

fn read_all(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Reads until `end` has come.
fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains(end) {
        let mut some = [0; 4096];
        let count = stream.read(&mut some).unwrap();
        assert_ne!(count, 0, "the server ended before {end}");
        answer.extend_from_slice(&some[..count]);
    }
    String::from_utf8(answer).unwrap()
}

fn is_silent(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    stream
        .read(&mut [0])
        .is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

fn ask(api: &MessagesApi, body: &Value) -> String {
    read_all(send(api, "/v1/messages", body))
}

/// The answer without the lines that hold a date.
fn check(answer: &str, expected: &Expect) {
    let lines = answer.lines().filter(|line| !line.starts_with("date: "));
    expected.assert_eq(&lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_message_is_streamed_as_events() {
    let api = MessagesApi::start(|_| {
        let usage = Usage {
            input: 7,
            cache_read: 80_000,
            cache_creation: 900,
            output: 50,
        };
        Message::text("I look.")
            .and_call("Bash", json!({ "command": "ls" }))
            .using(usage)
            .into()
    });
    let expected = expect![[r#"
        HTTP/1.0 200 OK
        content-type: text/event-stream

        event: message_start
        data: {"message":{"content":[],"id":"msg_0","model":"claude-fake","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":900,"cache_read_input_tokens":80000,"input_tokens":7,"output_tokens":1}},"type":"message_start"}

        event: content_block_start
        data: {"content_block":{"text":"","type":"text"},"index":0,"type":"content_block_start"}

        event: content_block_delta
        data: {"delta":{"text":"I look.","type":"text_delta"},"index":0,"type":"content_block_delta"}

        event: content_block_stop
        data: {"index":0,"type":"content_block_stop"}

        event: content_block_start
        data: {"content_block":{"id":"toolu_0_1","input":{},"name":"Bash","type":"tool_use"},"index":1,"type":"content_block_start"}

        event: content_block_delta
        data: {"delta":{"partial_json":"{\"command\":\"ls\"}","type":"input_json_delta"},"index":1,"type":"content_block_delta"}

        event: content_block_stop
        data: {"index":1,"type":"content_block_stop"}

        event: message_delta
        data: {"delta":{"stop_reason":"tool_use","stop_sequence":null},"type":"message_delta","usage":{"cache_creation_input_tokens":900,"cache_read_input_tokens":80000,"input_tokens":7,"output_tokens":50}}

        event: message_stop
        data: {"type":"message_stop"}
    "#]];
    check(&ask(&api, &body("a", "go")), &expected);
}

#[test]
fn a_client_that_wants_no_stream_gets_one_body() {
    let api = MessagesApi::start(|_| Message::text("Done.").header("x-limit", "7").into());
    let mut request = body("a", "go");
    request["stream"] = json!(false);
    let expected = expect![[r#"
        HTTP/1.0 200 OK
        content-type: application/json
        x-limit: 7
        content-length: 270

        {"content":[{"text":"Done.","type":"text"}],"id":"msg_0","model":"claude-fake","role":"assistant","stop_reason":"end_turn","stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":990,"input_tokens":10,"output_tokens":20}}"#]];
    check(&ask(&api, &request), &expected);
}

#[test]
fn a_limit_is_told_by_status_and_headers() {
    let api = MessagesApi::start(|_| {
        Status::error(429, "rate_limit_error", "slow down")
            .header("retry-after", "3600")
            .into()
    });
    let expected = expect![[r#"
        HTTP/1.0 429 Too Many Requests
        content-type: application/json
        retry-after: 3600
        content-length: 74

        {"error":{"message":"slow down","type":"rate_limit_error"},"type":"error"}"#]];
    check(&ask(&api, &body("a", "go")), &expected);
}

#[test]
fn a_reply_that_stalls_says_nothing_and_ends_with_the_server() {
    let api = MessagesApi::start(|_| Reply::Stall);
    let mut stream = send(&api, "/v1/messages", &body("a", "go"));
    assert!(is_silent(&mut stream));
    drop(api);
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(!matches!(stream.read(&mut [0]), Ok(1)));
}

#[test]
fn a_dropped_reply_holds_no_message() {
    let api = MessagesApi::start(|_| Reply::Drop);
    let mut answer = Vec::new();
    let ended = send(&api, "/v1/messages", &body("a", "go")).read_to_end(&mut answer);
    assert_eq!(String::from_utf8_lossy(&answer), "", "{ended:?}");
}

#[test]
fn a_stream_can_fall_silent_break_off_or_fail() {
    let api = MessagesApi::start(|request| {
        let ending = match request.last_text().as_str() {
            "stall" => Ending::Stall,
            "drop" => Ending::Drop,
            "fail" => Ending::Error("overloaded_error"),
            _ => Ending::Because("max_tokens"),
        };
        Message::text("I").ending(ending).into()
    });

    let mut stalled = send(&api, "/v1/messages", &body("a", "stall"));
    read_until(&mut stalled, "content_block_stop\"}\n\n");
    assert!(is_silent(&mut stalled));

    let dropped = ask(&api, &body("a", "drop"));
    assert!(dropped.ends_with("content_block_stop\"}\n\n"), "{dropped}");
    let failed = ask(&api, &body("a", "fail"));
    assert!(
        failed.contains("event: error") && failed.contains("overloaded_error"),
        "{failed}"
    );
    let cut = ask(&api, &body("a", "cut"));
    assert!(cut.contains(r#""stop_reason":"max_tokens""#), "{cut}");
}

#[test]
fn a_held_message_ends_when_its_gate_is_opened() {
    let gate = Gate::new();
    let held = gate.clone();
    let api = MessagesApi::start(move |_| Message::text("I").held_by(&held).into());
    let mut stream = send(&api, "/v1/messages", &body("a", "go"));
    read_until(&mut stream, "content_block_stop\"}\n\n");
    assert!(is_silent(&mut stream));
    gate.open();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    assert!(read_all(stream).contains("message_stop"));
}

#[test]
fn each_conversation_has_its_own_script() {
    let line = |words: &str| Message::text(words).into();
    let api = MessagesApi::start(script([vec![line("a1"), line("a2")], vec![line("b1")]]));
    assert!(ask(&api, &body("a", "go")).contains("a1"));
    assert!(ask(&api, &body("b", "go")).contains("b1"));
    assert!(ask(&api, &body("a", "go")).contains("a2"));
    let over = ask(&api, &body("a", "go"));
    assert!(
        over.starts_with("HTTP/1.0 400")
            && over.contains("the script of this conversation has ended"),
        "{over}"
    );
}

#[test]
fn the_model_sees_threads_apart_and_no_side_requests() {
    let api =
        MessagesApi::start(|request| Message::text(&format!("{:?}", request.thread())).into());
    let mut subagent = body("a", "go");
    subagent["system"][0]["text"] = json!("billing; cc_is_subagent=true;");
    let mut title = body("a", "Write a title.");
    title["tools"] = json!([]);
    let mut summary = body("a", "");
    summary["messages"][0]["content"] =
        json!([{ "type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Now" }]);

    assert!(ask(&api, &body("a", "go")).contains(r#""text":"Main""#));
    assert!(ask(&api, &subagent).contains(r#""text":"Subagent""#));
    for side in [title, summary] {
        assert!(ask(&api, &side).contains("Answered by the fake API."));
    }
    let threads: Vec<_> = api.requests().iter().map(Request::thread).collect();
    assert_eq!(
        threads,
        [Thread::Main, Thread::Subagent, Thread::Side, Thread::Side]
    );
    assert_eq!(api.main_requests().len(), 1);
}

#[test]
fn other_endpoints_answer_harmlessly() {
    let api = MessagesApi::start(|_| Reply::Drop);
    let count = read_all(send(
        &api,
        "/v1/messages/count_tokens",
        &json!({ "messages": [] }),
    ));
    assert!(count.ends_with(r#"{"input_tokens":3}"#), "{count}");
    let other = read_all(send(&api, "/api/event_logging", &json!({})));
    assert!(
        other.starts_with("HTTP/1.0 200") && other.ends_with("{}"),
        "{other}"
    );
    assert_eq!(api.requests(), []);
}

#[test]
fn a_test_can_wait_for_a_request() {
    let api = MessagesApi::start(|_| Message::text("Done.").into());
    let late = std::thread::scope(|scope| {
        let waiting =
            scope.spawn(|| api.wait_for(DEADLINE, |request| request.text().contains("second")));
        ask(&api, &body("a", "first"));
        ask(&api, &body("a", "second"));
        waiting.join().unwrap()
    });
    assert_eq!(late.unwrap().text(), "second");
    assert_eq!(
        api.wait_for(SILENCE, |request| request.text().contains("third")),
        None
    );
}

#[test]
fn text_is_found_wherever_the_client_puts_it() {
    let cache = json!({ "type": "ephemeral" });
    let result = json!({ "type": "tool_result", "is_error": true, "content": [{ "type": "text", "text": "four" }] });
    let request = Request {
        body: json!({
            "system": [{ "type": "text", "text": "rules", "cache_control": cache }],
            "messages": [
                { "role": "user", "content": "one" },
                { "role": "system", "content": [{ "type": "text", "text": "two" }] },
                { "role": "assistant", "content": [{ "type": "text", "text": "three" }] },
                { "role": "user", "content": [result, { "type": "text", "text": "five", "cache_control": cache }] },
            ],
        }),
    };
    assert_eq!(request.text(), "one\ntwo\nthree\nfour\nfive");
    assert_eq!(request.last_text(), "four\nfive");
    assert_eq!(request.system(), "rules");
    assert_eq!(request.answers(), 1);
    assert_eq!(request.cache_markers(), 2);
    assert_eq!(
        request.tool_results(),
        [ToolResult {
            text: "four".to_owned(),
            is_error: true
        }]
    );
}

/// Runs the real client on one prompt and returns its result, or `None` where there is no client.
fn run_real_client(api: &MessagesApi) -> Option<Value> {
    let program = crate::client::real_client_for("the real client against the fake API")?;
    let environment = crate::client::CleanEnvironment::new(api).unwrap();
    let work_dir = tempfile::tempdir().unwrap();
    let mut client = environment.command(&program);
    client
        .args(["-p", "--output-format", "json", "Compute."])
        .current_dir(work_dir.path());
    let output = client.stdin(std::process::Stdio::null()).output().unwrap();
    Some(serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}")))
}

#[test]
fn the_real_client_runs_a_tool_and_reads_the_usage() {
    let api = MessagesApi::start(script([vec![
        Message::call("Bash", json!({ "command": "echo $((6 * 7))" }))
            .using(Usage::context(90_000))
            .into(),
        Message::text("It is done.")
            .using(Usage::context(95_000))
            .into(),
    ]]));
    let Some(result) = run_real_client(&api) else {
        return;
    };
    assert_eq!(result["result"], "It is done.");
    assert_eq!(result["usage"]["cache_read_input_tokens"], 89_990 + 94_990);
    let requests = api.main_requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(
        requests[1].tool_results(),
        [ToolResult {
            text: "42".to_owned(),
            is_error: false
        }]
    );
    assert!(
        requests
            .iter()
            .all(|request| result["session_id"] == request.conversation())
    );
}

#[test]
fn the_real_client_tries_again_after_a_drop_and_gives_up_at_a_limit() {
    let api = MessagesApi::start(script([vec![
        Message::text("I").ending(Ending::Drop).into(),
        Reply::Drop,
        Status::error(429, "rate_limit_error", "slow down")
            .header("retry-after", "3600")
            .into(),
    ]]));
    let Some(result) = run_real_client(&api) else {
        return;
    };
    assert_eq!(
        (&result["is_error"], &result["api_error_status"]),
        (&json!(true), &json!(429))
    );
    assert_eq!(api.main_requests().len(), 3);
}
