//! The real client's window: how large it is, who narrows it, and whose context counts.

use ekiden_testkit::client::is_too_old;
use ekiden_testkit::messages_api::{Message, Reply, Request, Status, Thread, Usage};
use serde_json::{Value, json};

use crate::acting::{call, finish, ordered};
use crate::looks::{count, events_of};
use crate::relay::session_of;
use crate::stage::{NEW, Stage};

const FLAG: &str = "--autocompact";
const HAIKU: &str = "claude-haiku-4-5-20251001";

/// A window as a user may have set it up: what changes, and the model's and the usable tokens.
struct Case {
    name: &'static str,
    stage: fn(Stage) -> Stage,
    args: &'static [&'static str],
    tokens: [u64; 2],
}

// shows: MON-06, AGT-04
#[test]
fn the_window_is_the_models_or_the_lower_one_that_the_user_set() {
    let cases = [
        Case {
            name: "a window of a million",
            stage: |stage| stage,
            args: &[],
            tokens: [1_000_000, 200_000],
        },
        Case {
            name: "a window of 200,000",
            stage: |stage| stage,
            args: &["--model", HAIKU],
            tokens: [200_000, 167_000],
        },
        Case {
            name: FLAG,
            stage: |stage| stage.client_arg("--autocompact=150000"),
            args: &[],
            tokens: [1_000_000, 117_000],
        },
        Case {
            name: "autoCompactWindow",
            stage: |stage| {
                stage
                    .project
                    .write(".claude/settings.json", r#"{"autoCompactWindow": 150000}"#);
                stage
            },
            args: &[],
            tokens: [1_000_000, 117_000],
        },
        Case {
            name: "CLAUDE_CODE_AUTO_COMPACT_WINDOW",
            stage: |stage| stage.with("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "150000"),
            args: &[],
            tokens: [1_000_000, 117_000],
        },
        Case {
            name: "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
            stage: |stage| stage.with("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "10"),
            args: &[],
            tokens: [1_000_000, 200_000],
        },
    ];
    std::thread::scope(|scope| {
        for case in &cases {
            scope.spawn(|| case.check());
        }
    });
}

impl Case {
    fn check(&self) {
        let why = "there is no such flag";
        if self.name == FLAG && is_too_old(NEW, FLAG, why) {
            return;
        }
        let Some(stage) = Stage::set(self.name, finish) else {
            return;
        };
        let stage = (self.stage)(stage);
        let told = stage
            .run(&[&["-m", "1"], self.args].concat())
            .expect_exit(0);
        let window = told.iter().rfind(|line| line["event"] == "window").unwrap();
        let tokens = ["window_tokens", "usable_tokens"].map(|name| window[name].as_u64().unwrap());
        assert_eq!(tokens, self.tokens, "{}: {told:#?}", self.name);
        assert_eq!(count(&told, "compacted"), 0);
    }
}

// shows: AGT-04
#[test]
fn a_compaction_is_blocked_and_the_window_is_the_lower_one() {
    let model = |request: &Request, dir: &str| -> Reply {
        match (ordered(request), request.tool_results().len()) {
            (false, 0) => call().using(Usage::context(30_000)).into(),
            (false, _) => call().using(Usage::context(90_000)).into(),
            (true, _) => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("a compaction that is blocked", model) else {
        return;
    };
    let stage = stage
        .through(&["env", "-u", "DISABLE_AUTO_COMPACT"])
        .with("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000");
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    let window = told.iter().find(|line| line["event"] == "window").unwrap();
    assert_eq!(window["usable_tokens"], 67_000, "{window}");
    let events = events_of(&stage, 1);
    assert!(
        events.contains("\"hook_event_name\":\"PreCompact\""),
        "compaction was asked for"
    );
    assert!(!events.contains("compact_boundary"), "and did not happen");
}

/// What no mod needs to add: over its own ceiling the client sends nothing, and nobody is asked for a summary.
// shows: AGT-18, AGT-04, REL-04
#[test]
fn a_session_that_outgrows_its_window_ends_without_another_request() {
    let climbs = |results: usize| call().using(Usage::context([20_000, 130_000, 186_500][results]));
    let too_long = "prompt is too long: 250000 tokens > 200000 maximum";
    for (what, requests) in [("a deaf agent", 3), ("a prompt that is too long", 2)] {
        let model = move |request: &Request, dir: &str| -> Reply {
            let (session, results) = (session_of(&request.text()), request.tool_results().len());
            match (session, requests, results) {
                (1, 2, 1) => Status::error(400, "invalid_request_error", too_long).into(),
                (1, _, _) => climbs(results).into(),
                (_, _, _) => finish(request, dir),
            }
        };
        let Some(stage) = Stage::set(what, model) else {
            return;
        };
        let run = ["run", "Make one item.", "--model", HAIKU];
        let told = stage.start(&run).expect_exit(0);
        let ended = told.iter().find(|line| line["event"] == "attempt_ended");
        assert_eq!(ended.unwrap()["cause"], "context_full", "{what}: {told:#?}");
        assert_eq!(count(&told, "rescue"), 1, "{what}");
        let asked = stage.api().requests();
        assert_eq!(asked.len(), stage.api().main_requests().len(), "{what}");
        let of_first = asked
            .iter()
            .filter(|request| session_of(&request.text()) == 1);
        assert_eq!(of_first.count(), requests, "{what}");
    }
}

// shows: AGT-01, MON-06
#[test]
fn a_subagents_context_is_not_the_sessions() {
    let model = |request: &Request, dir: &str| -> Reply {
        match (request.thread(), request.tool_results().len()) {
            (Thread::Subagent, _) => Message::text("Looked.")
                .using(Usage::context(190_000))
                .into(),
            (_, 0) => {
                let input = json!({"description": "look", "prompt": "Look.", "subagent_type": "general-purpose"});
                Message::call("Agent", input)
                    .using(Usage::context(30_000))
                    .into()
            }
            (_, _) => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("a subagent's usage", model) else {
        return;
    };
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    assert!(
        stage
            .api()
            .requests()
            .iter()
            .any(|request| request.thread() == Thread::Subagent)
    );
    assert_eq!(count(&told, "level"), 0, "{told:#?}");
}

// shows: MON-06
#[test]
fn a_model_that_falls_back_in_mid_session_has_its_own_window() {
    let model = |request: &Request, dir: &str| -> Reply {
        match (request.model() == HAIKU, request.tool_results().len()) {
            (false, 0) => call().using(Usage::context(30_000)).into(),
            (false, _) => Status::error(529, "overloaded_error", "Overloaded").into(),
            (true, 1) => call().using(Usage::context(40_000)).into(),
            (true, _) => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("a fallback model", model) else {
        return;
    };
    let stage = stage
        .client_arg(&format!("--fallback-model={HAIKU}"))
        .with("CLAUDE_CODE_MAX_RETRIES", "2");
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    let windows: Vec<&Value> = told
        .iter()
        .filter(|line| line["event"] == "window")
        .collect();
    assert_eq!(windows.first().unwrap()["window_tokens"], 1_000_000);
    assert_eq!(
        windows.last().unwrap()["window_tokens"],
        200_000,
        "{windows:#?}"
    );
    assert_eq!(
        windows.last().unwrap()["usable_tokens"],
        167_000,
        "{windows:#?}"
    );
}
