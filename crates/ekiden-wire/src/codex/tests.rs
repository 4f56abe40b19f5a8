use ekiden_core::agent::Permissions;
use ekiden_core::budget::{Price, Prices};
use ekiden_core::ends::EndCause;

use super::*;
use crate::ends::{Exit, Observed, cause};
use crate::saved::Saved;
use crate::spending::SpendEstimate;

fn tell(codex: &mut Codex, message: &Value) {
    codex.hear(Line::Whole(message.to_string().as_bytes()));
}

fn notice(codex: &mut Codex, method: &str, mut params: Value) {
    params["threadId"] = "t".into();
    tell(codex, &json!({"method": method, "params": params}));
}

fn sent(codex: &mut Codex) -> Vec<Value> {
    let lines = codex.out.lines.drain(..);
    lines
        .map(|line| serde_json::from_str(&line).unwrap())
        .collect()
}

fn at_work(permissions: Permissions) -> Codex {
    let mut codex = Codex::new(Start {
        dir: "/w".into(),
        permissions,
        ..Start::default()
    });
    codex.begin(&["protocol", "task"]);
    tell(&mut codex, &json!({"id": 1, "result": {"userAgent": "x"}}));
    tell(
        &mut codex,
        &json!({"id": 2, "result": {"thread": {"id": "t"}, "model": "m"}}),
    );
    notice(&mut codex, "turn/started", json!({"turn": {"id": "u1"}}));
    codex
}

fn end_of(codex: &Codex) -> EndCause {
    let mut seen = Observed::default();
    codex
        .out
        .events
        .iter()
        .for_each(|event| seen.observe(event));
    cause(&seen)
}

/// It was ordered before the thread was there, or before the one to resume was.
// shows: AGT-16, REL-02
#[test]
fn a_message_before_the_thread_comes_with_the_first_turn() {
    for resume in [None, Some("t".to_owned())] {
        let mut codex = Codex::new(Start {
            resume,
            ..Start::default()
        });
        codex.begin(&["protocol", "task"]);
        codex.say("hand off", "u");
        tell(&mut codex, &json!({"id": 1, "result": {"userAgent": "x"}}));
        let opening = sent(&mut codex);
        assert!(opening.iter().all(|line| line["method"] != "turn/start"));
        let told = json!({"id": 2, "result": {"thread": {"id": "t"}, "model": "m"}});
        tell(&mut codex, &told);
        let turns = sent(&mut codex);
        let [turn] = &turns[..] else {
            panic!("one turn: {turns:?}");
        };
        let params = &turn["params"];
        assert_eq!(
            (&params["threadId"], &params["clientUserMessageId"]),
            (&json!("t"), &json!("u"))
        );
        let texts = params["input"].as_array().unwrap();
        assert_eq!(texts.last().unwrap()["text"], "hand off");
    }
}

// shows: AGT-16
#[test]
fn a_recorded_stream_tells_the_context_of_each_call() {
    let path = format!(
        "{}/fixtures/agents/codex-app-server.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    let (mut saved, mut contexts, mut calls) = (Saved::default(), Vec::new(), Vec::new());
    let mut seen = Observed::default();
    for line in text.lines() {
        saved.read(Line::Whole(line.as_bytes()), |event| {
            seen.observe(event);
            if let ClientEvent::Context { tokens, window } = event {
                contexts.push((*tokens, *window));
            }
            if let ClientEvent::Assistant(response) = event {
                calls.extend(response.blocks.iter().filter_map(|block| match block {
                    Block::Call(call) => Some(call.target.clone()),
                    Block::Text(_) => None,
                }));
            }
        });
    }
    assert_eq!(
        contexts,
        [50_100, 70_100, 90_100].map(|tokens| (tokens, Some(190_000)))
    );
    assert_eq!(calls, ["echo hello-from-tool"; 3]);
    assert_eq!(
        saved.conversation(),
        Some("01a2036f-e235-74e3-a906-508a57c6d185")
    );
    assert!(matches!(
        cause(&seen),
        EndCause::AutoModeBlocked | EndCause::Interrupted
    ));
}

// shows: AGT-16
#[test]
fn its_compaction_is_off_and_its_sandbox_is_the_runs_choice() {
    let opened = |mode: Option<&str>, skip| {
        let mut codex = at_work(Permissions {
            mode: mode.map(str::to_owned),
            skip,
            ..Permissions::default()
        });
        let sent = sent(&mut codex);
        let start = sent
            .iter()
            .find(|line| line["method"] == "thread/start")
            .unwrap();
        let params = &start["params"];
        assert!(params["config"]["model_auto_compact_token_limit"].as_u64() > Some(1 << 60));
        assert_eq!(params["approvalsReviewer"], "user", "not Codex itself");
        (params["approvalPolicy"].clone(), params["sandbox"].clone())
    };
    assert_eq!(
        opened(None, true),
        ("never".into(), "danger-full-access".into())
    );
    assert_eq!(
        opened(Some("acceptEdits"), false),
        ("on-request".into(), "workspace-write".into())
    );
    assert_eq!(
        opened(Some("default"), false),
        ("on-request".into(), "read-only".into())
    );
}

// shows: AGT-16
#[test]
fn a_message_steers_the_turn_or_opens_the_next_one() {
    let mut codex = at_work(Permissions::default());
    drop(sent(&mut codex));
    codex.say("hand off", "m1");
    let steered = sent(&mut codex).remove(0);
    assert_eq!(
        (&steered["method"], &steered["params"]["expectedTurnId"]),
        (&"turn/steer".into(), &"u1".into())
    );
    let item =
        |client: &str| json!({"item": {"type": "userMessage", "id": "i", "clientId": client}});
    codex.out.events.clear();
    notice(&mut codex, "item/started", item("another"));
    assert!(codex.out.events.is_empty());
    notice(&mut codex, "item/started", item("m1"));
    assert!(matches!(&codex.out.events[0], ClientEvent::Lifecycle { uuid, .. } if uuid == "m1"));
    // The turn ends before it is taken.
    codex.say("once more", "m2");
    drop(sent(&mut codex));
    notice(
        &mut codex,
        "turn/completed",
        json!({"turn": {"id": "u1", "status": "completed"}}),
    );
    let id = codex.last_id - 1;
    let refused = json!({"id": id, "error": {"code": -32600, "message": "no turn"}});
    tell(&mut codex, &refused);
    let again: Vec<_> = sent(&mut codex)
        .into_iter()
        .map(|line| line["method"].clone())
        .collect();
    assert_eq!(again, ["turn/start"]);
}

// shows: AGT-16, REL-22
#[test]
fn a_thread_that_is_resumed_is_not_charged_again() {
    let mut codex = at_work(Permissions::default());
    let told = |codex: &mut Codex| {
        codex.out.events.clear();
        let last = json!({"inputTokens": 50_000, "outputTokens": 100});
        let usage = json!({"last": last, "modelContextWindow": 200_000});
        notice(
            codex,
            "thread/tokenUsage/updated",
            json!({"tokenUsage": usage}),
        );
        let count = |is: fn(&ClientEvent) -> bool| {
            codex.out.events.iter().filter(|event| is(event)).count()
        };
        (
            count(|event| matches!(event, ClientEvent::Assistant(_))),
            count(|event| matches!(event, ClientEvent::Context { tokens: 50_100, .. })),
        )
    };
    assert_eq!(told(&mut codex), (1, 1));
    // Another process, since the first was ended in its turn.
    let begun = json!({"id": INITIALIZE, "result": {"userAgent": "codex"}});
    tell(&mut codex, &begun);
    assert_eq!(told(&mut codex), (0, 1));
}

// shows: AGT-16, REL-22
#[test]
fn what_a_subagent_spends_counts_and_its_context_does_not() {
    let mut codex = at_work(Permissions::default());
    let told = |codex: &mut Codex, thread: &str, tokens: u64| {
        let usage = json!({"last": {"inputTokens": tokens, "outputTokens": 100}});
        let params = json!({"threadId": thread, "tokenUsage": usage});
        let method = "thread/tokenUsage/updated";
        tell(codex, &json!({"method": method, "params": params}));
    };
    told(&mut codex, "t", 50_000);
    told(&mut codex, "a subagent's", 190_000);
    told(&mut codex, "a subagent's", 10_000);
    told(&mut codex, "t", 60_000);
    let mut meter = SpendEstimate::new(Prices::default(), Price::usual(15_000));
    for event in &codex.out.events {
        meter.observe(event);
        if let ClientEvent::Context { tokens, .. } = event {
            assert!(*tokens < 100_000, "{tokens}");
        }
    }
    assert_eq!(meter.kinds().input, 310_000);
    assert_eq!(meter.turns, 2);
}

// shows: AGT-16
#[test]
fn an_interrupt_that_comes_too_late_fails_nothing() {
    let mut codex = at_work(Permissions::default());
    codex.interrupt();
    let id = codex.last_id;
    let completed = json!({"turn": {"id": "u1", "status": "completed"}});
    notice(&mut codex, "turn/completed", completed);
    let refused = json!({"id": id, "error": {"code": -32600, "message": "no turn"}});
    tell(&mut codex, &refused);
    assert_eq!(end_of(&codex), EndCause::Completed);
}

// shows: AGT-16, REL-11
#[test]
fn a_limit_that_an_update_leaves_out_stays_known() {
    let mut codex = at_work(Permissions::default());
    let full = json!({"usedPercent": 100, "windowDurationMins": 300, "resetsAt": 1_900_000_000});
    let update = |codex: &mut Codex, limits: Value| {
        notice(
            codex,
            "account/rateLimits/updated",
            json!({"rateLimits": limits}),
        );
    };
    update(&mut codex, json!({"primary": full}));
    let other = json!({"usedPercent": 40, "windowDurationMins": 10_080, "resetsAt": 1_900_900_000});
    update(&mut codex, json!({"primary": null, "secondary": other}));
    let error = json!({"codexErrorInfo": "usageLimitExceeded", "message": "full"});
    let failed = json!({"turn": {"id": "u1", "status": "failed", "error": error}});
    notice(&mut codex, "turn/completed", failed);
    let reset = end_of(&codex).resets_at();
    assert_eq!(reset.map(|at| at.0), Some(1_900_000_000_000));
}

fn failed(info: &Value) -> EndCause {
    let mut codex = at_work(Permissions::default());
    let window = |percent: u64, mins: u64, reset: u64| json!({"usedPercent": percent, "windowDurationMins": mins, "resetsAt": reset});
    let limits = json!({"rateLimits": {"primary": window(100, 300, 1_900_000_000), "secondary": window(40, 10_080, 1_900_900_000)}});
    notice(&mut codex, "account/rateLimits/updated", limits);
    let error = json!({"message": "the usage limit is reached", "codexErrorInfo": info});
    notice(
        &mut codex,
        "turn/completed",
        json!({"turn": {"id": "u1", "status": "failed", "error": error}}),
    );
    end_of(&codex)
}

// shows: AGT-16, REL-11
#[test]
fn a_failure_is_known_by_its_field_and_a_limit_by_its_window() {
    let limited = failed(&"usageLimitExceeded".into());
    assert!(
        matches!(
            limited,
            EndCause::RateLimited {
                kind: LimitKind::FiveHour,
                ..
            }
        ),
        "{limited:?}"
    );
    assert_eq!(limited.resets_at().map(|at| at.0), Some(1_900_000_000_000));
    assert_eq!(
        failed(&"unauthorized".into()),
        EndCause::AuthenticationFailed
    );
    assert_eq!(
        failed(&"contextWindowExceeded".into()),
        EndCause::ContextFull
    );
    assert_eq!(failed(&"serverOverloaded".into()), EndCause::Overloaded);
    let status = json!({"responseTooManyFailedAttempts": {"httpStatusCode": 401}});
    assert_eq!(failed(&status), EndCause::AuthenticationFailed);
    // Prose decides nothing, nor does an unknown word.
    assert_eq!(failed(&"aNewWord".into()), EndCause::ServerError);
    assert_eq!(failed(&Value::Null), EndCause::ServerError);
}

/// A refusal is not an outage, which would be waited out for hours.
// shows: AGT-16, REL-11
#[test]
fn no_failure_that_codex_names_is_an_outage_except_its_own() {
    for word in names()["types"]["CodexErrorInfo"].as_array().unwrap() {
        let is_outage = ["other", "internalServerError"].contains(&word.as_str().unwrap());
        assert_eq!(failed(word) == EndCause::ServerError, is_outage, "{word}");
    }
    assert_eq!(failed(&"cyberPolicy".into()), EndCause::InvalidRequest);
    assert_eq!(
        failed(&"policyCapacityUnavailable".into()),
        EndCause::Overloaded
    );
    let mut codex = at_work(Permissions::default());
    let error = json!({"message": "no more", "codexErrorInfo": "tooManyDenials"});
    let turn = json!({"turn": {"id": "u1", "status": "failed", "error": error}});
    notice(&mut codex, "turn/completed", turn);
    let mut seen = Observed::default();
    codex
        .out
        .events
        .iter()
        .for_each(|event| seen.observe(event));
    seen.exited(Exit::Code(0), "");
    assert_eq!(cause(&seen), EndCause::AutoModeBlocked);
}

// shows: AGT-16, AGT-13
#[test]
fn a_change_is_judged_by_its_files_and_a_command_without_its_shell() {
    let mut codex = at_work(Permissions {
        allowed_tools: vec!["Bash(make:*)".to_owned(), "mcp__notes__put".to_owned()],
        ..Permissions::default()
    });
    let change = json!({"item": {"type": "fileChange", "id": "c", "changes": [
        {"path": "/w/.ekiden/handoff/PROGRESS.md"}, {"path": "/etc/x", "kind": {"type": "update", "move_path": "/etc/y"}}]}});
    notice(&mut codex, "item/started", change);
    codex.out.events.clear();
    let mut ask = |method: &str, params: Value, answer: &HookAnswer| {
        drop(sent(&mut codex));
        tell(
            &mut codex,
            &json!({"id": 5, "method": method, "params": params}),
        );
        let events: Vec<_> = codex.out.events.drain(..).collect();
        let mut asked = 0;
        for event in events {
            if let ClientEvent::HookCallback { request_id, .. } = event {
                asked += 1;
                codex.answer(&request_id, answer);
            }
        }
        codex.out.events.clear();
        let answer = sent(&mut codex).pop().unwrap();
        let result = &answer["result"];
        assert_eq!(result["decision"], result["action"]);
        (asked, result["decision"].clone())
    };
    let (file, command) = (
        "item/fileChange/requestApproval",
        "item/commandExecution/requestApproval",
    );
    let pass = &HookAnswer::Pass;
    assert_eq!(
        ask(file, json!({"itemId": "c"}), &HookAnswer::Allow),
        (3, "accept".into())
    );
    assert_eq!(
        ask(file, json!({"itemId": "c"}), pass),
        (3, "decline".into())
    );
    assert_eq!(
        ask(file, json!({"itemId": "c", "grantRoot": "/"}), pass).0,
        0,
        "no root is granted"
    );
    let line =
        |command: &str| json!({"itemId": "d", "command": format!("/bin/bash -lc '{command}'")});
    assert_eq!(ask(command, line("make all"), pass), (1, "accept".into()));
    assert_eq!(
        ask(command, line("make; rm -rf /"), pass),
        (1, "decline".into())
    );
    let of_its_own = json!({"itemId": "d", "command": "/w/bash -lc 'make all'"});
    assert_eq!(ask(command, of_its_own, pass), (1, "decline".into()));
    assert_eq!(
        ask(command, json!({"itemId": "d"}), pass),
        (1, "decline".into())
    );
    let tool = |tool: &str| {
        let meta = json!({"codex_approval_kind": "mcp_tool_call", "tool_name": tool});
        let params = json!({"serverName": "notes", "_meta": meta});
        ("mcpServer/elicitation/request", params)
    };
    let ((request, put), (_, other)) = (tool("put"), tool("drop"));
    assert_eq!(ask(request, put, pass), (1, "accept".into()));
    assert_eq!(ask(request, other, pass), (1, "decline".into()));
    let of_the_server = json!({"serverName": "notes", "message": "your name?"});
    assert_eq!(ask(request, of_the_server, pass).0, 0);
}

/// What the pinned version calls things: `cargo xtask agents` asks it.
fn names() -> Value {
    serde_json::from_str(include_str!("../../fixtures/agents/codex-names.json")).unwrap()
}

fn has(list: &Value, name: &str) -> bool {
    list.as_array().unwrap().iter().any(|known| known == name)
}

// shows: AGT-16
#[test]
fn each_request_has_the_names_of_the_pinned_version() {
    let names = names();
    let mut requests = Vec::new();
    for (mode, skip, resume) in [
        (None, false, None),
        (Some("acceptEdits"), false, Some("t".to_owned())),
        (None, true, None),
    ] {
        let mut codex = Codex::new(Start {
            dir: "/w".into(),
            permissions: Permissions {
                mode: mode.map(str::to_owned),
                skip,
                ..Permissions::default()
            },
            model: Some("m".to_owned()),
            resume,
            ..Start::default()
        });
        codex.begin(&["protocol", "task"]);
        tell(&mut codex, &json!({"id": 1, "result": {}}));
        tell(
            &mut codex,
            &json!({"id": 2, "result": {"thread": {"id": "t"}, "model": "m"}}),
        );
        notice(&mut codex, "turn/started", json!({"turn": {"id": "u1"}}));
        codex.say("hand off", "uuid");
        codex.interrupt();
        requests.extend(sent(&mut codex));
    }
    let mut seen = std::collections::BTreeSet::new();
    for request in requests.iter().filter(|request| request["id"].is_u64()) {
        let method = request["method"].as_str().unwrap();
        let known = &names["requests"][method];
        assert!(known.is_object(), "{request}");
        let params = request["params"].as_object().unwrap();
        for name in params.keys() {
            assert!(has(&known["fields"], name), "{name}: {request}");
        }
        for required in known["required"].as_array().unwrap() {
            assert!(params.contains_key(required.as_str().unwrap()), "{request}");
        }
        for (field, words) in [
            ("approvalPolicy", "AskForApproval"),
            ("sandbox", "SandboxMode"),
        ] {
            if let Some(word) = params.get(field).and_then(Value::as_str) {
                assert!(has(&names["types"][words], word), "{request}");
            }
        }
        // Its answer would have the whole history, which may be too long to read.
        let is_short = method != "thread/resume" || params["excludeTurns"] == true;
        assert!(is_short, "{request}");
        seen.insert(method);
    }
    let all = names["requests"].as_object().unwrap();
    assert_eq!(
        seen.len(),
        all.len(),
        "each is sent once at least: {seen:?}"
    );
}

// shows: AGT-16
#[test]
fn what_is_read_has_the_names_of_the_pinned_version() {
    let types = &names()["types"];
    for (name, fields) in [
        ("ThreadTokenUsage", &["last", "modelContextWindow"][..]),
        (
            "TokenUsageBreakdown",
            &["inputTokens", "cachedInputTokens", "outputTokens"],
        ),
        ("RateLimitSnapshot", &["primary", "secondary"]),
        (
            "RateLimitWindow",
            &["usedPercent", "windowDurationMins", "resetsAt"],
        ),
        ("TurnStatus", &["completed", "interrupted"]),
        (
            "CodexErrorInfo",
            &[
                "usageLimitExceeded",
                "rateLimitExceeded",
                "unauthorized",
                "serverOverloaded",
                "flexUnavailable",
                "modelNotFound",
                "badRequest",
                "contextWindowExceeded",
                "sessionBudgetExceeded",
            ],
        ),
    ] {
        for field in fields {
            assert!(has(&types[name], field), "{name}: {field}");
        }
    }
    let notices = &names()["notices"];
    for (notice, fields) in [
        ("turn/started", &["threadId", "turn"][..]),
        ("turn/completed", &["threadId", "turn"]),
        ("item/started", &["item"]),
        ("item/completed", &["item"]),
        ("thread/tokenUsage/updated", &["tokenUsage"]),
        ("account/rateLimits/updated", &["rateLimits"]),
        ("error", &["error", "willRetry"]),
    ] {
        for field in fields {
            assert!(has(&notices[notice]["fields"], field), "{notice}: {field}");
        }
    }
}

// shows: AGT-16, REL-38
#[test]
fn the_last_words_of_a_turn_are_whole() {
    let mut codex = at_work(Permissions::default());
    let long = format!("{{{}}}", "x".repeat(9_000));
    for text in ["I look.", &long] {
        let item = json!({"type": "agentMessage", "id": "a", "text": text});
        notice(&mut codex, "item/completed", json!({ "item": item }));
    }
    let turn = json!({"turn": {"id": "u1", "status": "completed"}});
    notice(&mut codex, "turn/completed", turn);
    let Some(ClientEvent::Result(result)) = codex.out.events.pop_back() else {
        panic!("no result")
    };
    assert_eq!(result.words, Some(long));
}

// shows: AGT-08, AGT-16
#[test]
fn a_service_that_is_asked_again_without_end_counts_as_out() {
    let mut codex = at_work(Permissions::default());
    let lost = json!({"message": "waiting for network", "codexErrorInfo": "other"});
    for _ in 0..limits::RETRIES_MAX {
        assert!(
            sent(&mut codex)
                .iter()
                .all(|line| line["method"] != "turn/interrupt")
        );
        let again = json!({"error": lost, "willRetry": true});
        notice(&mut codex, "error", again);
    }
    let asked = sent(&mut codex);
    assert_eq!(asked[0]["method"], "turn/interrupt");
    let turn = json!({"turn": {"id": "u1", "status": "interrupted"}});
    notice(&mut codex, "turn/completed", turn);
    assert_eq!(end_of(&codex), EndCause::ServerError);
}
