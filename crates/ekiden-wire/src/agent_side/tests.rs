use ekiden_core::ends::LimitKind;
use ekiden_core::guard::{HookInput, ToolUse};

use super::*;
use crate::context_usage::ContextUsage;
use crate::hook_output;
use crate::stream::{Block, ClientEvent, Lifecycle, ModelUsage, RateLimitStatus, TerminalReason};
use crate::tests as fixtures;
use crate::tools::{Call, ToolKind};

fn writer() -> AgentWriter {
    AgentWriter {
        session_id: "s1".to_owned(),
        model: "rehearsal".to_owned(),
        cwd: "/w".to_owned(),
    }
}

fn read(line: &str) -> ClientEvent {
    assert!(line.ends_with('\n') && line.lines().count() == 1);
    ClientEvent::parse(line.trim_end().as_bytes())
}

// shows: AGT-05
#[test]
fn the_agent_understands_the_host() {
    let hook = HostHook {
        event: HookEvent::Stop,
        callback_id: "Stop".to_owned(),
    };
    assert_eq!(
        HostMessage::parse(&control::initialize("r1", &[HookEvent::Stop], 9)),
        HostMessage::Initialize {
            request_id: "r1".to_owned(),
            hooks: vec![hook]
        }
    );
    let request_id = || "r".to_owned();
    assert_eq!(
        HostMessage::parse(&control::get_context_usage("r")),
        HostMessage::ContextUsage {
            request_id: request_id()
        }
    );
    assert_eq!(
        HostMessage::parse(&control::interrupt("r")),
        HostMessage::Interrupt {
            request_id: request_id()
        }
    );
    assert_eq!(
        HostMessage::parse(&control::user_message(&["a\nb", "c"], false, Some("u"))),
        HostMessage::User {
            blocks: vec!["a\nb".to_owned(), "c".to_owned()],
            uuid: Some("u".to_owned())
        }
    );
}

// shows: AGT-05
#[test]
fn the_agent_understands_every_answer() {
    for (line, expected) in [
        (control::answer("r", &hook_output::pass()), HookAnswer::Pass),
        (
            control::answer("r", &hook_output::permission(true, "")),
            HookAnswer::Allow,
        ),
        (
            control::answer("r", &hook_output::permission(false, "no")),
            HookAnswer::Deny("no".to_owned()),
        ),
        (
            control::answer("r", &hook_output::block("go on")),
            HookAnswer::Block("go on".to_owned()),
        ),
        (
            control::answer_denied("r", "no"),
            HookAnswer::Deny("no".to_owned()),
        ),
        (
            control::answer_error("r", "what?"),
            HookAnswer::Deny("what?".to_owned()),
        ),
    ] {
        let expected = HostMessage::Answer {
            request_id: "r".to_owned(),
            answer: expected,
        };
        assert_eq!(HostMessage::parse(&line), expected, "{line}");
    }
}

// shows: AGT-12
#[test]
fn the_agent_understands_what_was_sent_to_the_real_client() {
    let sent = |name| {
        fixtures::lines(name)
            .into_iter()
            .filter(|line| line.contains(r#""_direction":"to_client""#))
    };
    let mut known = 0;
    for line in sent("control.jsonl").chain(sent("midturn.jsonl")) {
        match HostMessage::parse(&line) {
            HostMessage::Malformed => panic!("not understood: {line}"),
            HostMessage::OtherRequest { subtype, .. } => {
                assert!(!matches!(
                    subtype.as_str(),
                    "initialize" | "interrupt" | "get_context_usage"
                ));
            }
            HostMessage::Initialize { hooks, .. } => assert_eq!(hooks.len(), 4),
            HostMessage::ContextUsage { .. }
            | HostMessage::Interrupt { .. }
            | HostMessage::Answer { .. }
            | HostMessage::User { .. } => known += 1,
        }
    }
    assert_eq!(known, 19);
}

#[test]
fn the_host_understands_the_agent() {
    let usage = Usage {
        input: 3,
        cache_read: 20,
        cache_creation: 7,
        output: 1,
    };
    let ClientEvent::Assistant(said) =
        read(&writer().assistant("m1", &usage, Saying::Text("hello")))
    else {
        panic!("no response")
    };
    assert!(said.main_thread && !said.synthetic && said.error.is_none());
    assert_eq!(
        (said.usage, said.blocks),
        (usage, vec![Block::Text("hello".to_owned())])
    );

    let input = json!({"command": "make"});
    let call = Saying::Call {
        id: "t1",
        name: "Bash",
        input: &input,
    };
    let ClientEvent::Assistant(called) = read(&writer().assistant("m1", &usage, call)) else {
        panic!("no response")
    };
    let [Block::Call(call)] = &called.blocks[..] else {
        panic!("no call")
    };
    assert_eq!(
        (call.id.as_str(), call.kind, call.target.as_str()),
        ("t1", ToolKind::Shell, "make")
    );

    let ClientEvent::ToolResults(results) = read(&writer().tool_result("t1", true, "Exit code 2"))
    else {
        panic!("no result")
    };
    assert!(results[0].is_error);
    assert_eq!(results[0].excerpt, "Exit code 2");

    let started = read(&writer().lifecycle("u1", Lifecycle::Started));
    assert_eq!(
        started,
        ClientEvent::Lifecycle {
            uuid: "u1".to_owned(),
            state: Lifecycle::Started
        }
    );

    assert_eq!(read(&writer().init("1.0", "default")), ClientEvent::Init);
}

#[test]
fn a_result_arrives_as_it_was_written() {
    let usage = ModelUsage {
        input_tokens: 5,
        context_window: 200_000,
        cost_usd: 0.25,
        ..ModelUsage::default()
    };
    let result = TurnResult {
        subtype: "success".to_owned(),
        is_error: true,
        terminal_reason: Some(TerminalReason::ApiError),
        stop_reason: Some("stop_sequence".to_owned()),
        api_error_status: Some(429),
        result_index: 1,
        num_turns: 4,
        total_cost_usd: 0.25,
        model_usage: [("rehearsal".to_owned(), usage)].into(),
        usage_since_last: None,
        denials: vec![Call::new("t1".to_owned(), "Write".to_owned(), &Value::Null)],
        errors: vec!["an error".to_owned()],
        structured: Some(r#"{"a":1}"#.to_owned()),
        words: Some("all is \"well\"".to_owned()),
    };
    assert_eq!(
        read(&writer().result(&result)),
        ClientEvent::Result(Box::new(result))
    );
    let plain = TurnResult {
        subtype: "success".to_owned(),
        ..TurnResult::default()
    };
    assert_eq!(
        read(&writer().result(&plain)),
        ClientEvent::Result(Box::new(plain))
    );
}

#[test]
fn a_rate_limit_arrives_as_it_was_written() {
    let kinds = [
        LimitKind::FiveHour,
        LimitKind::SevenDay,
        LimitKind::SevenDayModel,
        LimitKind::Overage,
        LimitKind::Unknown,
    ];
    for kind in kinds {
        for resets_at in [None, Some(1_795_242_891)] {
            let info = RateLimitInfo {
                status: RateLimitStatus::Rejected,
                resets_at,
                kind,
            };
            assert_eq!(
                read(&writer().rate_limit(&info)),
                ClientEvent::RateLimit(info)
            );
        }
    }
}

#[test]
fn a_hook_is_asked_and_requests_are_answered() {
    let hook = HostHook {
        event: HookEvent::PreToolUse,
        callback_id: "pre".to_owned(),
    };
    let details =
        json!({"tool_name": "Write", "tool_input": {"file_path": "a.txt"}, "tool_use_id": "t1"});
    let line = writer().hook_callback("h1", &hook, details);
    let ClientEvent::HookCallback { request_id, call } = read(&line) else {
        panic!("no callback")
    };
    assert_eq!(request_id, "h1");
    assert_eq!(
        call.input,
        HookInput::PreTool {
            tool: ToolUse::Write("/w/a.txt".into()),
            subagent: false
        }
    );

    let answer = |line: &str| {
        let ClientEvent::ControlResponse { answer, .. } = read(line) else {
            panic!("no answer: {line}")
        };
        answer
    };
    let usage = ContextUsage {
        window_tokens: 100,
        ..ContextUsage::default()
    };
    let told = answer(&control::answer("r1", &usage.to_json())).unwrap();
    assert_eq!(ContextUsage::of(&told), Some(usage));
    assert_eq!(
        answer(&control::answer("r2", &json!({"still_queued": []}))).unwrap(),
        json!({"still_queued": []})
    );
    assert_eq!(
        answer(&control::answer_error("r3", "no")),
        Err("no".to_owned())
    );
}

#[test]
fn what_is_no_message_is_malformed() {
    for odd in ["", "[]", "3", "{", r#"{"type":"assistant"}"#] {
        assert_eq!(HostMessage::parse(odd), HostMessage::Malformed, "{odd}");
    }
}
