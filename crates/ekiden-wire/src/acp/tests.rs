#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "a test looks at the events that it is about"
)]

use ekiden_core::agent::Permissions;
use ekiden_core::budget::{Price, Prices};
use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::time::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ends::{Observed, cause};
use crate::hook_output::HookAnswer;
use crate::lines::Line;
use crate::rpc::Dialect as _;
use crate::saved::Saved;
use crate::spending::SpendEstimate;

fn start() -> Start {
    Start {
        dir: "/w".into(),
        permissions: Permissions {
            allowed_tools: vec!["Bash(make:*)".to_owned()],
            ..Permissions::default()
        },
        ..Start::default()
    }
}

/// An agent that said this of itself, in the turn that our first message opened.
fn at_work(of_itself: &Value) -> Acp {
    let mut acp = Acp::new(start());
    acp.begin(&["protocol", "task"]);
    tell(&mut acp, &json!({"id": 1, "result": of_itself}));
    tell(&mut acp, &json!({"id": 2, "result": {"sessionId": "s"}}));
    drop(sent(&mut acp));
    acp.out.events.clear();
    acp
}

fn tell(acp: &mut Acp, message: &Value) {
    acp.hear(Line::Whole(message.to_string().as_bytes()));
}

fn update(acp: &mut Acp, update: &Value) {
    let params = json!({"sessionId": "s", "update": update});
    tell(acp, &json!({"method": "session/update", "params": params}));
}

fn call(acp: &mut Acp, id: &str, status: &str) {
    let update_of = json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "kind": "execute",
        "status": status, "rawInput": {"command": "make"}});
    update(acp, &update_of);
}

/// What we sent, as method and parameters; of an answer the result.
fn sent(acp: &mut Acp) -> Vec<(String, Value)> {
    let lines = acp.out.lines.drain(..);
    lines
        .map(|line| {
            let mut line: Value = serde_json::from_str(&line).unwrap();
            let method = line["method"].as_str().unwrap_or("answer").to_owned();
            let what = ["params", "result", "error"].map(|name| line[name].take());
            (
                method,
                what.into_iter()
                    .find(|what| !what.is_null())
                    .unwrap_or_default(),
            )
        })
        .collect()
}

fn methods(acp: &mut Acp) -> Vec<String> {
    sent(acp).into_iter().map(|(method, _)| method).collect()
}

fn recorded(name: &str) -> Vec<String> {
    let path = format!(
        "{}/fixtures/agents/{name}.jsonl",
        env!("CARGO_MANIFEST_DIR")
    );
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// What a recorded stream tells: its contexts, its calls with what they are about, how many results, how it ended.
fn told(name: &str) -> (Vec<u64>, Vec<String>, usize, String) {
    let (mut contexts, mut calls, mut results) = (Vec::new(), Vec::new(), 0);
    let (mut saved, mut seen) = (Saved::default(), Observed::default());
    for line in recorded(name) {
        saved.read(Line::Whole(line.as_bytes()), |event| {
            seen.observe(event);
            match event {
                ClientEvent::Context { tokens, .. } => contexts.push(*tokens),
                ClientEvent::Assistant(response) => {
                    calls.extend(response.blocks.iter().filter_map(|block| match block {
                        Block::Call(call) => Some(format!("{} {}", call.name, call.target)),
                        Block::Text(_) => None,
                    }));
                }
                ClientEvent::ToolResults(more) => results += more.len(),
                _ => {}
            }
        });
    }
    calls.dedup();
    contexts.dedup();
    (contexts, calls, results, format!("{:?}", cause(&seen)))
}

// shows: AGT-15
#[test]
fn recorded_streams_tell_the_same_of_every_agent() {
    // Qwen's recording stops before its turn ends.
    let unfinished = "Protocol(\"its output ended without a result\")";
    for (name, last_context, calls, ended) in [
        ("opencode", 170_000, 6, "Completed"),
        ("codex-acp", 170_100, 6, "Completed"),
        ("qwen", 110_065, 4, unfinished),
        ("claude-agent-acp", 170_100, 6, "Completed"),
    ] {
        let (contexts, names, results, end) = told(name);
        let shell = "Bash echo hello-from-tool";
        assert!(names.iter().all(|name| name == shell), "{name}: {names:?}");
        assert!(results >= calls, "{name}: {results} results");
        let fullest = contexts.iter().max().copied().unwrap_or(0);
        assert!(fullest >= last_context, "{name}: {contexts:?}");
        assert!(contexts.iter().all(|tokens| *tokens < 300_000), "{name}");
        assert_eq!(end, ended, "{name}");
    }
}

// shows: AGT-15
#[test]
fn a_message_steers_joins_or_makes_way_as_the_agent_can() {
    let steers = json!({"_meta": {"steering": {"supported": true}}});
    let mut acp = at_work(&steers);
    acp.say("hand off", "u");
    assert_eq!(methods(&mut acp), ["_session/steering"]);
    let id = acp.last_id;
    let injected = json!({"id": id, "result": {"outcome": "injected"}});
    tell(&mut acp, &injected);
    assert!(is_delivered(&mut acp));

    let mut acp = at_work(&json!({"agentInfo": {"name": "OpenCode"}}));
    acp.say("hand off", "u");
    assert_eq!(methods(&mut acp), ["session/prompt"]);
    call(&mut acp, "a", "completed");
    assert!(!is_delivered(&mut acp), "the next request holds it");
    update(
        &mut acp,
        &json!({"sessionUpdate": "tool_call", "toolCallId": "b", "status": "pending"}),
    );
    assert!(is_delivered(&mut acp));

    let mut acp = at_work(&json!({}));
    call(&mut acp, "a", "in_progress");
    acp.say("hand off", "u");
    assert_eq!(methods(&mut acp), [""; 0], "a call is at work");
    call(&mut acp, "a", "completed");
    assert_eq!(methods(&mut acp), ["session/cancel"]);
    let first = *acp.prompts.first().unwrap();
    tell(
        &mut acp,
        &json!({"id": first, "result": {"stopReason": "cancelled"}}),
    );
    assert_eq!(methods(&mut acp), ["session/prompt"]);
    let is_result = |event: &ClientEvent| matches!(event, ClientEvent::Result(_));
    assert!(!acp.out.events.iter().any(is_result), "the turn goes on");
    update(
        &mut acp,
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"text": "Yes"}}),
    );
    assert!(is_delivered(&mut acp));
}

/// An agent that is slow to begin is ordered before there is a conversation.
// shows: AGT-15, REL-02
#[test]
fn a_message_before_the_conversation_comes_with_the_first_prompt() {
    let mut acp = Acp::new(start());
    acp.begin(&["protocol", "task"]);
    acp.say("hand off", "u");
    tell(&mut acp, &json!({"id": 1, "result": {}}));
    assert_eq!(methods(&mut acp), ["initialize", "session/new"]);
    tell(&mut acp, &json!({"id": 2, "result": {"sessionId": "s"}}));
    let prompts = sent(&mut acp);
    assert_eq!(prompts.len(), 1, "{prompts:?}");
    let (_, params) = &prompts[0];
    assert_eq!(params["sessionId"], "s");
    let texts = params["prompt"].as_array().unwrap();
    assert_eq!(texts.last().unwrap()["text"], "hand off");
    assert!(is_delivered(&mut acp));
}

/// What is sent, and how it ended, where the agent offers this and takes or refuses what was chosen.
fn chosen(mode: &str, offer: &Value, refuses: Option<&str>) -> (Vec<(String, Value)>, EndCause) {
    let mut start = start();
    start.permissions.mode = Some(mode.to_owned());
    start.model = Some("cheap".to_owned());
    let mut acp = Acp::new(start);
    acp.begin(&["task"]);
    tell(&mut acp, &json!({"id": 1, "result": {}}));
    drop(sent(&mut acp));
    tell(&mut acp, &json!({"id": 2, "result": offer}));
    let mut all = sent(&mut acp);
    for (id, (method, _)) in (LATER + 1..).zip(all.clone()) {
        assert_ne!(
            method, "session/prompt",
            "before all that was chosen is in force"
        );
        let refused = json!({"id": id, "error": {"code": -32602, "message": "no"}});
        let taken = json!({"id": id, "result": {}});
        tell(
            &mut acp,
            if refuses == Some(&*method) {
                &refused
            } else {
                &taken
            },
        );
    }
    all.extend(sent(&mut acp));
    let mut seen = Observed::default();
    acp.out.events.iter().for_each(|event| seen.observe(event));
    (all, cause(&seen))
}

// shows: AGT-15
#[test]
fn the_model_and_the_mode_are_in_force_before_the_first_message() {
    let offer = json!({"sessionId": "s", "configOptions": [{"id": "how", "category": "mode",
        "options": [{"value": "build"}, {"value": "plan"}]}]});
    let (sent, _) = chosen("plan", &offer, None);
    let [model, mode, prompt] = &sent[..] else {
        panic!("{sent:?}")
    };
    assert_eq!(model.1["modelId"], "cheap");
    assert_eq!(mode.0, "session/set_config_option");
    assert_eq!(
        (&mode.1["configId"], &mode.1["value"]),
        (&"how".into(), &"plan".into())
    );
    assert_eq!(prompt.0, "session/prompt");
    let address = "https://example.org/modes#plan";
    let offer = json!({"sessionId": "s", "modes": {"availableModes": [{"id": address}]}});
    let (sent, _) = chosen("plan", &offer, None);
    assert_eq!(sent[1].1["modeId"], address);
    // A mode of ours that the agent does not have.
    assert_eq!(chosen("acceptEdits", &offer, None).0.len(), 2);
}

// shows: AGT-15
#[test]
fn nothing_is_begun_with_another_model_or_mode() {
    let offer = json!({"sessionId": "s", "modes": {"availableModes": [{"id": "plan"}]}});
    let begins = |(sent, cause): (Vec<(String, Value)>, EndCause)| {
        let is_prompt = |(method, _): &(String, Value)| method == "session/prompt";
        assert!(!sent.iter().any(is_prompt), "{sent:?}");
        cause
    };
    let model = chosen("plan", &offer, Some("session/set_model"));
    assert_eq!(begins(model), EndCause::ModelNotFound);
    let mode = chosen("plan", &offer, Some("session/set_mode"));
    assert_eq!(begins(mode), EndCause::NeverStarted("no".to_owned()));
    let unknown = begins(chosen("yolo", &offer, None));
    let EndCause::NeverStarted(words) = unknown else {
        panic!("{unknown:?}")
    };
    assert!(words.contains("`yolo`"), "{words}");
}

// shows: AGT-15, RUN-20
#[test]
fn a_message_between_turns_opens_one_before_the_model_says_anything() {
    let mut acp = at_work(&json!({}));
    let first = *acp.prompts.first().unwrap();
    tell(
        &mut acp,
        &json!({"id": first, "result": {"stopReason": "end_turn"}}),
    );
    acp.out.events.clear();
    acp.say("hand off", "u");
    assert_eq!(methods(&mut acp), ["session/prompt"]);
    assert_eq!(acp.out.events[0], ClientEvent::Init);
    assert!(is_delivered(&mut acp));
}

/// What the first turn of a conversation costs, of which this was charged before.
fn cost_of_resumed(charged_usd: f64, replayed: &Value) -> f64 {
    let mut acp = Acp::new(Start {
        resume: Some("s".to_owned()),
        charged_usd,
        ..start()
    });
    acp.begin(&["go on"]);
    let loads = json!({"agentCapabilities": {"loadSession": true}});
    tell(&mut acp, &json!({"id": 1, "result": loads}));
    update(&mut acp, replayed);
    tell(&mut acp, &json!({"id": 2, "result": null}));
    let cost = |usd: f64| json!({"sessionUpdate": "usage_update", "used": 9, "cost": {"currency": "USD", "amount": usd}});
    update(&mut acp, &cost(5.0));
    let first = *acp.prompts.first().unwrap();
    let usage = json!({"inputTokens": 10, "outputTokens": 1});
    tell(
        &mut acp,
        &json!({"id": first, "result": {"stopReason": "end_turn", "usage": usage}}),
    );
    let results = acp.out.events.iter().filter_map(|event| match event {
        ClientEvent::Result(result) => result.usage_since_last.as_ref(),
        _ => None,
    });
    results
        .flat_map(|used| used.values())
        .map(|used| used.cost_usd)
        .sum()
}

/// Of the first turn the agent reports no tokens, of the second it does. The third fails after some work, as an agent
/// may answer a turn that was cancelled.
// shows: AGT-15, REL-22
#[test]
fn a_cost_that_comes_without_tokens_is_charged_once() {
    let mut acp = at_work(&json!({}));
    let mut meter = SpendEstimate::new(Prices::default(), Price::usual(15_000));
    let ended = |usage: Value| json!({"result": {"stopReason": "end_turn", "usage": usage}});
    for (usd, mut answer) in [
        (2.0, ended(json!(null))),
        (2.5, ended(json!({"inputTokens": 10, "outputTokens": 1}))),
        (
            3.0,
            json!({"error": {"code": -32603, "message": "cancelled"}}),
        ),
        (4.0, ended(json!(null))),
    ] {
        call(&mut acp, &usd.to_string(), "completed");
        let cost = json!({"sessionUpdate": "usage_update", "used": 9, "cost": {"currency": "USD", "amount": usd}});
        update(&mut acp, &cost);
        answer["id"] = (*acp.prompts.first().unwrap()).into();
        tell(&mut acp, &answer);
        for event in std::mem::take(&mut acp.out.events) {
            meter.observe(&event);
        }
        let spend = meter.spend();
        assert_eq!(spend.micro_usd, (usd * 1e6) as u64, "{spend:?}");
        acp.say("more", "u");
    }
}

/// With opencode 1.18.33 the usage at the end of a turn is that of its last call, and the cost is that of all.
// shows: AGT-15, REL-22
#[test]
fn a_turn_of_opencode_used_more_than_its_last_call() {
    let mut acp = at_work(&json!({"agentInfo": {"name": "OpenCode"}}));
    acp.own_model = Some("big".to_owned());
    for calls in 1..=7u64 {
        call(&mut acp, &calls.to_string(), "completed");
        let told = json!({"sessionId": "s", "used": 30_000 + calls * 20_000, "size": 200_000});
        tell(
            &mut acp,
            &json!({"method": "_ekiden/context", "params": told}),
        );
    }
    let cost = json!({"currency": "USD", "amount": 1.0});
    let told = json!({"sessionUpdate": "usage_update", "used": 170_000, "cost": cost});
    update(&mut acp, &told);
    let usage = json!({"inputTokens": 1_000, "outputTokens": 100, "cachedReadTokens": 169_000});
    let ended = json!({"stopReason": "end_turn", "usage": usage});
    let id = *acp.prompts.first().unwrap();
    tell(&mut acp, &json!({"id": id, "result": ended}));
    let mut meter = SpendEstimate::new(Prices::default(), Price::usual(15_000));
    for event in &acp.out.events {
        meter.observe(event);
    }
    let spend = meter.spend();
    assert_eq!(spend.micro_usd, 1_000_000);
    assert!(spend.tokens > 100_000, "{spend:?}");
    assert!(
        !meter.learned.knows("big"),
        "of the turn's cost by one call"
    );
}

// shows: AGT-15, REL-22
#[test]
fn the_price_of_a_model_that_the_agent_chose_itself_is_learned() {
    let by_option = json!({"sessionId": "s", "configOptions":
        [{"id": "m", "category": "model", "currentValue": "big", "options": []}]});
    let in_list = json!({"sessionId": "s", "models": {"currentModelId": "big"}});
    for opened in [by_option, in_list] {
        let mut acp = Acp::new(start());
        acp.begin(&["task"]);
        tell(&mut acp, &json!({"id": 1, "result": {}}));
        tell(&mut acp, &json!({"id": 2, "result": opened}));
        call(&mut acp, "a", "completed");
        let cost = json!({"currency": "USD", "amount": 0.9});
        let told = json!({"sessionUpdate": "usage_update", "used": 9, "cost": cost});
        update(&mut acp, &told);
        let usage = json!({"inputTokens": 10_000, "outputTokens": 100});
        let ended = json!({"stopReason": "end_turn", "usage": usage});
        let id = *acp.prompts.first().unwrap();
        tell(&mut acp, &json!({"id": id, "result": ended}));
        let mut meter = SpendEstimate::new(Prices::default(), Price::usual(15_000));
        for event in &acp.out.events {
            meter.observe(event);
        }
        assert!(meter.learned.knows("big"), "{opened}");
        assert_eq!(meter.models()["big"].micro_usd, 900_000);
    }
}

// shows: AGT-15, REL-22
#[test]
fn a_conversation_that_is_resumed_is_not_charged_again() {
    let told = json!({"sessionUpdate": "usage_update", "used": 9, "cost": {"currency": "USD", "amount": 4.0}});
    let silent = json!({"sessionUpdate": "plan"});
    for (cost, expected) in [
        (cost_of_resumed(0.0, &silent), 5.0),
        (cost_of_resumed(4.0, &silent), 1.0),
        (cost_of_resumed(0.0, &told), 1.0),
    ] {
        assert!((cost - expected).abs() < 1e-9, "{cost} for {expected}");
    }
}

// shows: AGT-15, REL-03
#[test]
fn a_message_that_the_agent_does_not_take_ends_the_turn_and_opens_the_next() {
    let steers = json!({"_meta": {"steering": {"supported": true}}});
    let joins = json!({"agentInfo": {"name": "OpenCode"}});
    let refused = json!({"error": {"code": -32601, "message": "Method not found"}});
    let other = json!({"result": {"outcome": "ignored"}});
    for (of_itself, mut answer) in [
        (&steers, refused.clone()),
        (&steers, other),
        (&joins, refused),
    ] {
        let mut acp = at_work(of_itself);
        let first = *acp.prompts.first().unwrap();
        acp.say("hand off", "u");
        answer["id"] = acp.last_id.into();
        drop(sent(&mut acp));
        tell(&mut acp, &answer);
        assert_eq!(methods(&mut acp), ["session/cancel"], "{answer}");
        let words = json!({"sessionUpdate": "agent_message_chunk", "content": {"text": "Well"}});
        update(&mut acp, &words);
        assert!(!is_delivered(&mut acp), "{answer}");
        let cancelled = json!({"id": first, "result": {"stopReason": "cancelled"}});
        tell(&mut acp, &cancelled);
        let [(method, params)] = &sent(&mut acp)[..] else {
            panic!("the message is sent once more: {answer}")
        };
        assert_eq!(method, "session/prompt");
        assert_eq!(params["prompt"][0]["text"], "hand off");
        update(&mut acp, &words);
        assert!(is_delivered(&mut acp), "{answer}");
    }
}

/// Gemini reports nothing of a permitted call until it is over, and Qwen 0.15 nothing of a refused one.
// shows: AGT-15
#[test]
fn a_message_waits_for_a_permitted_call_and_not_for_a_refused_one() {
    for (command, may) in [("make all", true), ("rm -rf /", false)] {
        let mut acp = at_work(&json!({}));
        let call_of = json!({"toolCallId": "a", "kind": "execute", "status": "pending",
            "title": command, "rawInput": {"command": command}});
        let options = json!([{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]);
        let asked = json!({"sessionId": "s", "toolCall": call_of, "options": options});
        tell(
            &mut acp,
            &json!({"id": 9, "method": "session/request_permission", "params": asked}),
        );
        acp.answer("9#0", &HookAnswer::Pass);
        drop(sent(&mut acp));
        acp.say("hand off", "u");
        let at_once = methods(&mut acp);
        assert_eq!(at_once.is_empty(), may, "{command}: {at_once:?}");
        call(&mut acp, "a", "completed");
        assert_eq!(methods(&mut acp).is_empty(), !may, "{command}");
    }
}

/// Whether the message may still open a turn is not for the protocol to say: the budget may be spent.
// shows: AGT-15, REL-22
#[test]
fn a_turn_that_is_interrupted_is_over_even_if_a_message_waits() {
    let mut acp = at_work(&json!({}));
    call(&mut acp, "a", "in_progress");
    acp.say("hand off", "u");
    acp.interrupt();
    let first = *acp.prompts.first().unwrap();
    let cancelled = json!({"id": first, "result": {"stopReason": "cancelled"}});
    tell(&mut acp, &cancelled);
    let is_result = |event: &ClientEvent| matches!(event, ClientEvent::Result(_));
    assert!(acp.out.events.iter().any(is_result));
}

// shows: AGT-15, REL-03
#[test]
fn a_steered_message_is_delivered_by_the_answer_alone() {
    let mut acp = at_work(&json!({"_meta": {"steering": {"supported": true}}}));
    acp.say("hand off", "u");
    let id = acp.last_id;
    call(&mut acp, "a", "completed");
    call(&mut acp, "b", "completed");
    assert!(!is_delivered(&mut acp));
    tell(&mut acp, &json!({"id": id, "error": {"code": -32603}}));
    assert!(methods(&mut acp).contains(&"session/cancel".to_owned()));
}

// shows: AGT-17, REL-02
#[test]
fn opencodes_plugin_tells_the_context_while_the_turn_is_at_work() {
    let mut acp = at_work(&json!({"agentInfo": {"name": "OpenCode"}}));
    let told = |session: &str, used: u64| {
        json!({"method": "_ekiden/context",
        "params": {"sessionId": session, "used": used, "size": 200_000}})
    };
    call(&mut acp, "a", "completed");
    tell(&mut acp, &told("s", 50_000));
    tell(&mut acp, &told("of a subagent", 190_000));
    call(&mut acp, "b", "completed");
    tell(&mut acp, &told("s", 130_000));
    let contexts = acp.out.events.drain(..).filter_map(|event| match event {
        ClientEvent::Context { tokens, window } => Some((tokens, window)),
        ClientEvent::Notice(text) => panic!("{text}"),
        _ => None,
    });
    let expected = [(50_000, Some(200_000)), (130_000, Some(200_000))];
    assert_eq!(contexts.collect::<Vec<_>>(), expected);
}

fn retry(attempt: u32, waits_ms: u64) -> Value {
    json!({"method": "_ekiden/retry", "params": {"sessionId": "s", "message": "try later",
        "attempt": attempt, "resetsAt": 2_000_000_000, "waitsMs": waits_ms}})
}

/// opencode itself would try without end, and each report of a retry would count as a sign of life.
// shows: AGT-17, REL-10
#[test]
fn a_call_that_opencode_retries_in_vain_is_shown_and_ends_the_turn() {
    let mut acp = at_work(&json!({"agentInfo": {"name": "OpenCode"}}));
    let seen = |acp: &Acp, is: fn(&&ClientEvent) -> bool| acp.out.events.iter().filter(is).count();
    for attempt in 1..10 {
        tell(&mut acp, &retry(attempt, 30_000));
    }
    let is_retry = |event: &&ClientEvent| matches!(event, ClientEvent::ApiRetry { .. });
    assert_eq!(seen(&acp, is_retry), 9);
    assert_eq!(methods(&mut acp), [""; 0]);
    for attempt in 10..13 {
        tell(&mut acp, &retry(attempt, 30_000));
    }
    assert_eq!(methods(&mut acp), ["session/cancel"]);
    let is_result = |event: &&ClientEvent| matches!(event, ClientEvent::Result(_));
    assert_eq!(seen(&acp, is_result), 1);
    let mut seen = Observed::default();
    acp.out.events.iter().for_each(|event| seen.observe(event));
    assert_eq!(cause(&seen), EndCause::ServerError);
}

// shows: AGT-17, REL-10
#[test]
fn a_limit_that_opencodes_plugin_tells_ends_the_turn_once() {
    let retry = |waits_ms: u64| retry(1, waits_ms);
    let mut acp = at_work(&json!({"agentInfo": {"name": "OpenCode"}}));
    tell(&mut acp, &retry(30_000));
    assert_eq!(methods(&mut acp), [""; 0], "it tries again soon");
    tell(&mut acp, &retry(3_600_000));
    tell(&mut acp, &retry(3_600_000));
    assert_eq!(methods(&mut acp), ["session/cancel"]);
    let first = *acp.prompts.first().unwrap();
    tell(
        &mut acp,
        &json!({"id": first, "result": {"stopReason": "cancelled"}}),
    );
    let is_result = |event: &&ClientEvent| matches!(event, ClientEvent::Result(_));
    assert_eq!(acp.out.events.iter().filter(is_result).count(), 1);
    let mut seen = Observed::default();
    acp.out.events.iter().for_each(|event| seen.observe(event));
    let limited = EndCause::RateLimited {
        resets_at: Some(Timestamp(2_000_000_000_000)),
        kind: LimitKind::Unknown,
    };
    assert_eq!(cause(&seen), limited);
}

// shows: AGT-17, REL-02
#[test]
fn what_qwen_tells_of_a_subagents_context_is_not_the_conversations() {
    let mut acp = at_work(&json!({"agentInfo": {"name": "qwen-code"}}));
    for (tokens, parent) in [(50_000, Value::Null), (190_000, "call_1".into())] {
        let meta = json!({"usage": {"inputTokens": tokens}, "parentToolCallId": parent});
        let told =
            json!({"sessionUpdate": "agent_message_chunk", "content": {"text": ""}, "_meta": meta});
        update(&mut acp, &told);
    }
    let contexts = acp.out.events.iter().filter_map(|event| match event {
        ClientEvent::Context { tokens, .. } => Some(*tokens),
        _ => None,
    });
    assert_eq!(contexts.collect::<Vec<_>>(), [50_000]);
}

/// Copilot and Cursor report a command that failed as a call that completed.
// shows: AGT-15, REL-06
#[test]
fn a_command_with_an_exit_code_failed_whatever_its_call_is_called() {
    let shell = |code: i64| json!({"contents": [{"type": "text"}, {"type": "shell_exit", "shellId": "0", "exitCode": code}]});
    for (raw, is_error) in [
        (shell(0), false),
        (shell(2), true),
        (json!({"exitCode": 0, "stdout": ""}), false),
        (json!({"exitCode": 2, "stdout": ""}), true),
    ] {
        let mut acp = at_work(&json!({}));
        call(&mut acp, "a", "in_progress");
        let over = json!({"sessionUpdate": "tool_call_update", "toolCallId": "a",
            "status": "completed", "rawOutput": raw});
        update(&mut acp, &over);
        let results = acp.out.events.iter().filter_map(|event| match event {
            ClientEvent::ToolResults(results) => Some(results[0].is_error),
            _ => None,
        });
        assert_eq!(results.collect::<Vec<_>>(), [is_error], "{raw}");
    }
}

fn is_delivered(acp: &mut Acp) -> bool {
    let events: Vec<_> = acp.out.events.drain(..).collect();
    let is_ours =
        |event: &ClientEvent| matches!(event, ClientEvent::Lifecycle { uuid, .. } if uuid == "u");
    events.iter().any(is_ours)
}

fn asks(acp: &mut Acp, input: &Value, answers: &[HookAnswer]) -> Value {
    let kind = if input["command"].is_null() {
        "edit"
    } else {
        "execute"
    };
    let options =
        json!([{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]);
    let params = json!({"sessionId": "s", "options": options, "toolCall":
        {"toolCallId": input.to_string(), "kind": kind, "rawInput": input, "locations": input["more"]}});
    tell(
        acp,
        &json!({"id": "q", "method": "session/request_permission", "params": params}),
    );
    let callbacks: Vec<String> = acp
        .out
        .events
        .drain(..)
        .filter_map(|event| match event {
            ClientEvent::HookCallback { request_id, .. } => Some(request_id),
            _ => None,
        })
        .collect();
    assert_eq!(callbacks.len(), answers.len(), "{input}");
    for (callback, answer) in callbacks.iter().zip(answers) {
        acp.answer(callback, answer);
    }
    let [(_, answer)] = &sent(acp)[..] else {
        panic!("one answer to {input}")
    };
    answer["outcome"]["optionId"].clone()
}

// shows: AGT-15, AGT-13
#[test]
fn the_guard_answers_first_and_the_runs_rules_where_it_passes() {
    let mut acp = at_work(&json!({}));
    let deny = || HookAnswer::Deny("no".to_owned());
    let shell = |command: &str| json!({"command": command});
    let (pass, allow) = (HookAnswer::Pass, HookAnswer::Allow);
    let file = json!({"file_path": "/w/a"});
    assert_eq!(asks(&mut acp, &file, std::slice::from_ref(&allow)), "y");
    assert_eq!(
        asks(
            &mut acp,
            &json!({"path": "/w/b"}),
            std::slice::from_ref(&pass)
        ),
        "n"
    );
    assert_eq!(
        asks(&mut acp, &shell("make all"), std::slice::from_ref(&pass)),
        "y"
    );
    assert_eq!(asks(&mut acp, &shell("make x"), &[deny()]), "n");
    assert_eq!(
        asks(
            &mut acp,
            &shell("make; rm -rf /"),
            std::slice::from_ref(&pass)
        ),
        "n"
    );
    // One of two files is nobody's to allow.
    let both =
        json!({"file_path": "/w/.ekiden/handoff/PROGRESS.md", "more": [{"path": "/etc/passwd"}]});
    assert_eq!(asks(&mut acp, &both, &[allow.clone(), pass]), "n");
    let both = json!({"file_path": "/w/c", "more": [{"path": "/w/.ekiden/x"}]});
    assert_eq!(asks(&mut acp, &both, &[allow, deny()]), "n");
}

// shows: AGT-15
#[test]
fn files_and_terminals_are_refused() {
    let mut acp = at_work(&json!({}));
    for method in [
        "fs/read_text_file",
        "fs/write_text_file",
        "terminal/create",
        "new/thing",
    ] {
        tell(
            &mut acp,
            &json!({"id": 7, "method": method, "params": {"path": "/w/a"}}),
        );
        let [(_, error)] = &sent(&mut acp)[..] else {
            panic!("one answer to {method}")
        };
        assert_eq!(error["code"], -32601);
    }
}

fn end_of(of_itself: &Value, answer: &Value) -> EndCause {
    let mut acp = at_work(of_itself);
    let first = *acp.prompts.first().unwrap();
    let mut message = answer.clone();
    message["id"] = first.into();
    tell(&mut acp, &message);
    let mut seen = Observed::default();
    acp.out.events.iter().for_each(|event| seen.observe(event));
    cause(&seen)
}

// shows: AGT-15, AGT-08
#[test]
fn a_turn_ends_by_its_structured_fields() {
    let stopped = |reason: &str| end_of(&json!({}), &json!({"result": {"stopReason": reason}}));
    assert_eq!(stopped("end_turn"), EndCause::Completed);
    assert_eq!(stopped("max_turn_requests"), EndCause::TurnLimit);
    assert_eq!(stopped("max_tokens"), EndCause::OutputLimit);
    assert_eq!(stopped("refusal"), EndCause::Refused);
    assert!(matches!(stopped("a new word"), EndCause::Protocol(_)));
    let failed = |error: Value| end_of(&json!({}), &json!({ "error": error }));
    let code = json!({"code": -32000, "message": "Authentication required"});
    assert_eq!(failed(code), EndCause::AuthenticationFailed);
    let status = |status: u16| failed(json!({"code": -32603, "data": {"statusCode": status}}));
    assert!(status(429).is_limit());
    assert_eq!(status(529), EndCause::Overloaded);
    assert_eq!(status(401), EndCause::AuthenticationFailed);
    let own_code = |code: i32| failed(json!({"code": code, "message": "m"}));
    assert!(own_code(429).is_limit());
    assert_eq!(own_code(401), EndCause::AuthenticationFailed);
    assert_eq!(own_code(-32603), EndCause::ServerError);
    let full = json!({"code": -32603, "data": {"errorName": "ContextOverflowError"}});
    assert_eq!(failed(full), EndCause::ContextFull);
    // Prose decides nothing.
    let words = json!({"code": -32603, "message": "usage limit 429 unauthorized"});
    assert_eq!(failed(words), EndCause::ServerError);
}

// shows: AGT-15, REL-02
#[test]
fn an_agent_that_tells_no_context_is_measured_by_its_bytes_and_the_user_is_told() {
    let mut acp = at_work(&json!({"agentInfo": {"name": "Copilot"}}));
    for id in ["a", "b", "c"] {
        update(
            &mut acp,
            &json!({"sessionUpdate": "usage_update", "used": 8_662, "size": 128_000}),
        );
        update(
            &mut acp,
            &json!({"sessionUpdate": "usage_update", "used": 1_000_000_000_000_000_000_u64, "size": 1}),
        );
        let text = "x".repeat(90_000);
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        update(
            &mut acp,
            &json!({"sessionUpdate": "tool_call_update", "toolCallId": id, "kind": "read",
            "status": "completed", "content": content}),
        );
    }
    let events: Vec<_> = acp.out.events.drain(..).collect();
    let is_notice = |event: &&ClientEvent| matches!(event, ClientEvent::Notice(_));
    assert_eq!(events.iter().filter(is_notice).count(), 1);
    let contexts: Vec<u64> = events
        .iter()
        .filter_map(|event| match event {
            ClientEvent::Context { tokens, .. } => Some(*tokens),
            _ => None,
        })
        .collect();
    assert!(
        contexts[0] > 80_000 && contexts[1] > 110_000,
        "{contexts:?}"
    );
}

// shows: AGT-15
#[test]
fn a_conversation_is_resumed_by_its_own_name_and_its_history_is_not_taken_for_work() {
    let mut acp = Acp::new(Start {
        resume: Some("s".to_owned()),
        ..start()
    });
    acp.begin(&["go on"]);
    tell(
        &mut acp,
        &json!({"id": 1, "result": {"agentCapabilities": {"loadSession": true}}}),
    );
    call(&mut acp, "old", "completed");
    assert_eq!(methods(&mut acp), ["initialize", "session/load"]);
    tell(&mut acp, &json!({"id": 2, "result": null}));
    assert_eq!(methods(&mut acp), ["session/prompt"]);
    let is_result = |event: &ClientEvent| matches!(event, ClientEvent::ToolResults(_));
    assert!(!acp.out.events.iter().any(is_result));
    assert_eq!(acp.conversation(), Some("s"));
}

/// So does Qwen 0.15.10.
// shows: AGT-15
#[test]
fn an_agent_that_offers_to_resume_and_cannot_loads_the_conversation() {
    let mut acp = Acp::new(Start {
        resume: Some("s".to_owned()),
        ..start()
    });
    acp.begin(&["go on"]);
    let able = json!({"loadSession": true, "sessionCapabilities": {"resume": {}}});
    tell(
        &mut acp,
        &json!({"id": 1, "result": {"agentCapabilities": able}}),
    );
    let no_method = json!({"id": 2, "error": {"code": -32601, "message": "Method not found"}});
    tell(&mut acp, &no_method);
    assert_eq!(
        methods(&mut acp),
        ["initialize", "session/resume", "session/load"]
    );
    tell(&mut acp, &no_method);
    assert_eq!(methods(&mut acp), [""; 0]);
}

/// The lines of two processes that share a saved stream.
// shows: AGT-15, REL-22
#[test]
fn in_a_saved_stream_a_resumed_conversations_history_is_not_taken_for_work() {
    let (mut meter, mut seen) = (
        SpendEstimate::new(Prices::default(), Price::usual(15_000)),
        Vec::new(),
    );
    let told = |update: Value| json!({"method": "session/update", "params": {"sessionId": "s", "update": update}});
    let call = told(
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "a", "kind": "execute",
        "status": "completed", "rawInput": {"command": "make"}}),
    );
    let cost =
        told(json!({"sessionUpdate": "usage_update", "cost": {"currency": "USD", "amount": 2.0}}));
    let words = |text: &str| {
        told(json!({"sessionUpdate": "agent_message_chunk", "content": {"text": text}}))
    };
    let begun = json!({"id": 1, "result": {"agentCapabilities": {"loadSession": true}}});
    let mut saved = Saved::default();
    for line in [
        begun.clone(),
        json!({"id": 2, "result": {"sessionId": "s"}}),
        call.clone(),
        cost.clone(),
        words("cut "),
        begun,
        call,
        cost,
        json!({"id": 2, "result": null}),
        words("off"),
        json!({"id": 11, "result": {"stopReason": "end_turn"}}),
    ] {
        saved.read(Line::Whole(line.to_string().as_bytes()), |event| {
            meter.observe(event);
            seen.push(event.clone());
        });
    }
    let results = seen.iter().filter_map(|event| match event {
        ClientEvent::ToolResults(results) => Some(results.len()),
        _ => None,
    });
    assert_eq!(results.sum::<usize>(), 1);
    let last = seen.iter().rev().find_map(|event| match event {
        ClientEvent::Result(result) => Some((result.words.as_deref(), result.total_cost_usd)),
        _ => None,
    });
    assert_eq!(last, Some((Some("off"), 0.0)));
    // One response, by its estimate.
    assert_eq!(meter.spend().tokens, 20_002);
    assert_eq!(saved.conversation(), Some("s"));
}

// shows: AGT-08
#[test]
fn an_oversized_result_does_not_hold_up_a_message() {
    let mut acp = at_work(&json!({}));
    call(&mut acp, "a", "in_progress");
    acp.say("hand off", "u");
    let head = vec![b'x'; 100];
    acp.hear(Line::Oversized {
        len: 100_000_000,
        head: &head,
    });
    assert_eq!(methods(&mut acp), ["session/cancel"]);
    assert!(acp.out.events.contains(&ClientEvent::Malformed));
}

/// An agent's library, or what its command calls, may print there.
// shows: AGT-08, AGT-15
#[test]
fn a_printed_line_ends_no_call() {
    let mut acp = at_work(&json!({}));
    call(&mut acp, "a", "in_progress");
    acp.say("hand off", "u");
    acp.hear(Line::Whole(b"warning: a new version is available"));
    assert_eq!(methods(&mut acp), [""; 0], "the call is still at work");
    call(&mut acp, "a", "completed");
    assert_eq!(methods(&mut acp), ["session/cancel"]);
}

// shows: AGT-08
#[test]
fn a_request_that_is_too_long_is_refused() {
    let ask = |members: &str| {
        let mut acp = at_work(&json!({}));
        let line = format!(r#"{{"jsonrpc":"2.0",{members}"params":{{"id":9,"method":"m"#);
        acp.hear(Line::Oversized {
            len: 100_000_000,
            head: line.as_bytes(),
        });
        let callbacks: Vec<String> = acp
            .out
            .events
            .iter()
            .filter_map(|event| match event {
                ClientEvent::HookCallback { request_id, .. } => Some(request_id.clone()),
                _ => None,
            })
            .collect();
        callbacks
            .iter()
            .for_each(|callback| acp.answer(callback, &HookAnswer::Pass));
        acp.out
            .lines
            .iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect::<Vec<Value>>()
    };
    let asked = &ask(r#""id":"q","method":"session/request_permission","#)[0];
    assert_eq!(
        (&asked["id"], &asked["result"]["outcome"]["outcome"]),
        (&"q".into(), &"cancelled".into())
    );
    assert_eq!(
        ask(r#""method":"fs/write_text_file","id":7,"#)[0]["error"]["code"],
        -32601
    );
    assert!(ask(r#""method":"session/update","#).is_empty());
}

proptest! {
    // shows: AGT-08
    #[test]
    fn no_line_panics_and_each_request_is_answered(cut in 0usize..4000, line in 0usize..30, byte in any::<u8>()) {
        for name in ["opencode", "codex-acp", "qwen", "gemini", "codex-app-server"] {
            let lines = recorded(name);
            let mut bytes = lines[line % lines.len()].clone().into_bytes();
            let at = cut % bytes.len();
            bytes[at] = byte;
            for open in [false, true] {
                let mut acp = if open { at_work(&json!({})) } else { Acp::new(start()) };
                acp.hear(Line::Whole(&bytes));
                acp.hear(Line::Whole(&bytes[..at]));
                let mut codex = crate::codex::Codex::new(start());
                codex.hear(Line::Whole(&bytes));
                codex.hear(Line::Whole(&bytes[..at]));
            }
        }
        let mut acp = at_work(&json!({}));
        let odd = json!({"id": byte, "method": "session/request_permission", "params": [line]});
        tell(&mut acp, &odd);
        let answered = acp.out.events.iter().any(|event| matches!(event, ClientEvent::HookCallback { .. }));
        prop_assert!(answered, "the guard is asked, so an answer follows");
    }
}

/// The words of the turn that ends.
fn said(acp: &mut Acp, chunks: &[&str]) -> String {
    for text in chunks {
        let content = json!({"type": "text", "text": text});
        update(
            acp,
            &json!({"sessionUpdate": "agent_message_chunk", "content": content}),
        );
    }
    let first = *acp.prompts.first().unwrap();
    tell(
        acp,
        &json!({"id": first, "result": {"stopReason": "end_turn"}}),
    );
    let mut events = acp.out.events.drain(..);
    let words = events.find_map(|event| match event {
        ClientEvent::Result(result) => result.words,
        _ => None,
    });
    words.unwrap()
}

// shows: AGT-15, REL-38
#[test]
fn the_last_words_of_a_turn_are_whole() {
    let long = "x".repeat(9_000);
    let mut acp = at_work(&json!({}));
    call(&mut acp, "a", "completed");
    assert_eq!(said(&mut acp, &["{", &long, "}"]), format!("{{{long}}}"));
    let endless = vec![&*long; 20];
    let said = said(
        &mut at_work(&json!({})),
        &[&endless[..], &["the end"]].concat(),
    );
    assert!(said.ends_with("xthe end") && said.len() <= WORDS_BYTES_MAX);
}
