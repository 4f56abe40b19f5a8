//! The scenarios that both agents play: the same test for `rehearsal`, whose part is written as acts,
//! and for the real client, whose model does the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ekiden_testkit::messages_api::{Gate, Message, Reply, Request, Status, Usage};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::acting::{call, finish, leave_work, ordered, resumed};
use crate::looks::{
    agent_pid, conversation, count, ends, events_of, expect_nothing_alive, wait_for_tail, words,
};
use crate::project::{course, expect_exit, session_dir, text_of};
use crate::stage::{PATIENCE, Rehearsed, Running, Stage};

/// An act of `rehearsal`: where it happens, and the deed.
fn act(place: &str, deed: &str) -> String {
    format!("[[act]]\n{place}\ndo = {deed}\n")
}

fn rehearsed(items: u32, acts: &[String]) -> Rehearsed {
    Rehearsed {
        items,
        acts: acts.concat(),
    }
}

const HANG_ONCE: &str = "session = 1\nattempt = 1\nat = 'call 2'";

fn hangs_once() -> Rehearsed {
    rehearsed(4, &[act(HANG_ONCE, "'hang'")])
}

/// One call, then silence; after a resumption, the handoff.
fn stalls_once(request: &Request, dir: &str) -> Reply {
    match (resumed(request), request.tool_results().len()) {
        (false, 0) => call().into(),
        (false, _) => Reply::Stall,
        (true, _) => finish(request, dir),
    }
}

// shows: AGT-12, REL-02
#[test]
fn an_order_during_the_last_words_becomes_a_turn_of_its_own() {
    let model = |request: &Request, dir: &str| -> Reply {
        match (ordered(request), request.tool_results().len()) {
            (false, 0) => call().using(Usage::context(30_000)).into(),
            (false, _) => Message::text("All is well.")
                .using(Usage::context(130_000))
                .into(),
            (true, _) => finish(request, dir),
        }
    };
    // Without a handoff so far: beside a complete one nothing is ordered.
    let part = rehearsed(
        2,
        &[
            act(
                "at = 'start'",
                "{ leave_out = ['PROGRESS.md', 'NEXT_PROMPT.md'] }",
            ),
            act("at = 'stop 1'", "{ fill = 25000 }"),
            act("at = 'message 1'", "'behave'"),
        ],
    );
    for stage in Stage::both("an order during the last words", &part, model) {
        stage.run(&["-m", "1"]).expect_exit(0);
        let course = course(&stage.project.log(), 1);
        assert_eq!(
            words(&course, "say ekiden: please hand off"),
            1,
            "{course:?}"
        );
        assert_eq!(words(&course, "turn_ended"), 2, "two results: {course:?}");
        assert_eq!(course.last().unwrap(), "ended \"completed\"");
    }
}

/// A session that leaps over L2 may write its handoff, and nothing else.
// shows: AGT-12, REL-02
#[test]
fn a_call_above_l3_is_refused_and_the_handoff_is_written() {
    let model = |request: &Request, dir: &str| -> Reply {
        let refused = request.tool_results().iter().any(|result| result.is_error);
        match (refused, request.tool_results().len()) {
            (false, 0) => call().using(Usage::context(30_000)).into(),
            (false, _) => {
                let touch = json!({"command": "touch item-2.txt"});
                Message::call("Bash", touch)
                    .using(Usage::context(145_000))
                    .into()
            }
            (true, _) => leave_work(request, dir),
        }
    };
    let part = rehearsed(3, &[act("at = 'call 2'", "{ fill = 29000 }")]);
    for stage in Stage::both("a call above L3", &part, model) {
        let told = stage
            .run(&["-m", "1", "--allowed-tool", "Bash(touch:*)"])
            .expect_exit(3);
        assert!(
            told.iter()
                .any(|line| line["event"] == "level" && line["level"] == "L3"),
            "{told:#?}"
        );
        assert_eq!(
            (count(&told, "handoff"), count(&told, "rescue")),
            (1, 0),
            "{told:#?}"
        );
        assert!(
            !stage.project.path().join("item-2.txt").exists(),
            "the call was not run"
        );
        assert_eq!(words(&course(&stage.project.log(), 1), "refusals_spent"), 0);
    }
}

// shows: AGT-12, CHK-005, REL-05
#[test]
fn a_deaf_agent_is_refused_interrupted_asked_and_rescued() {
    let model = |request: &Request, _: &str| -> Reply {
        let context = if request.tool_results().is_empty() {
            30_000
        } else {
            145_000
        };
        call().using(Usage::context(context)).into()
    };
    let part = rehearsed(
        30,
        &[
            act("at = 'start'", "'ignore_messages'"),
            act("at = 'call 2'", "{ fill = 29000 }"),
        ],
    );
    for stage in Stage::both("a deaf agent", &part, model) {
        let told = stage.run(&["-m", "1"]).expect_exit(3);
        assert_eq!(count(&told, "rescue"), 1, "{told:#?}");
        let course = course(&stage.project.log(), 1);
        assert_eq!(words(&course, "refusals_spent"), 2, "{course:?}");
        assert_eq!(
            words(&course, "say ekiden: please hand off"),
            1,
            "{course:?}"
        );
        assert_eq!(
            words(&course, "say ekiden: this conversation ends with"),
            1,
            "{course:?}"
        );
        if stage.is_client() {
            assert!(
                stage.api().main_requests().len() < 20,
                "a deaf agent goes on and on"
            );
        }
    }
}

// shows: AGT-12, REL-04
#[test]
fn a_fault_is_told_by_name_place_and_remedy_and_mended() {
    let model = |request: &Request, dir: &str| -> Reply {
        let asked = request
            .text()
            .contains("ekiden: this conversation ends with a handoff in");
        let file = json!({"file_path": format!("{dir}/PROGRESS.md"), "content": "STATUS: ALL_COMPLETE\n\n## Done\n\nall\n"});
        match (asked, request.tool_results().len()) {
            (false, 0) => Message::call("Write", file).into(),
            (false, _) => Message::text("Done.").into(),
            (true, _) => finish(request, dir),
        }
    };
    let edit = "{ edit = { file = 'PROGRESS.md', find = '## Stopped at', put = '## Nowhere' } }";
    let part = rehearsed(
        2,
        &[
            act("at = 'start'", edit),
            act("at = 'message 1'", "'behave'"),
        ],
    );
    for stage in Stage::both("a handoff with faults", &part, model) {
        let told = stage.run(&["-m", "1"]).expect_exit(0);
        assert_eq!(count(&told, "handoff"), 1);
        let log = stage.project.log();
        assert!(
            words(&course(&log, 1), "stop_asked") >= 2,
            "{:?}",
            course(&log, 1)
        );
        let asked = log.iter().any(|record| {
            let held = |effect: &Value| {
                let text = effect["effect"]["effect"]["hold"]
                    .as_str()
                    .unwrap_or_default();
                text.contains("PROGRESS.md")
                    && text.contains("no heading \"## Stopped at\" on its own line. Name the file")
            };
            record["effects"].as_array().unwrap().iter().any(held)
        });
        assert!(asked, "{log:#?}");
    }
}

// shows: AGT-12, REL-05, REL-06, REL-28
#[test]
fn a_session_that_never_hands_off_is_rescued() {
    let model = |_: &Request, _: &str| -> Reply { Message::text("No.").into() };
    let nothing = "{ leave_out = ['PROGRESS.md', 'NEXT_PROMPT.md', 'KNOWLEDGE.md'] }";
    let part = rehearsed(2, &[act("at = 'start'", nothing)]);
    for stage in Stage::both("a session that never hands off", &part, model) {
        let told = stage.run(&["-m", "1"]).expect_exit(3);
        assert_eq!(count(&told, "rescue"), 1, "{told:#?}");
        let course = course(&stage.project.log(), 1);
        assert_eq!(
            words(&course, "say ekiden: this conversation ends with"),
            2,
            "{course:?}"
        );
    }
}

// shows: AGT-12, REL-07, REL-08
#[test]
fn a_claim_that_the_verification_vetoes_is_told_to_the_next_session() {
    let model = |request: &Request, dir: &str| -> Reply {
        let second = request.text().contains("This is session 2.");
        let item = json!({"file_path": format!("{dir}/../../item-5.txt"), "content": "made\n"});
        match (second, request.tool_results().len()) {
            (true, 0) => Message::call("Write", item).into(),
            _ => finish(request, dir),
        }
    };
    let claim = "{ edit = { file = 'PROGRESS.md', find = 'IN_PROGRESS', put = 'ALL_COMPLETE' } }";
    let ticks = "{ edit = { file = 'PROGRESS.md', find = '- [ ]', put = '- [x]' } }";
    let first = "session = 1\nat = 'start'";
    for stage in Stage::both(
        "a claim that is vetoed",
        &rehearsed(5, &[act(first, claim), act(first, ticks)]),
        model,
    ) {
        let verify = [
            "--verify",
            "test -f item-5.txt",
            "--permission-mode",
            "acceptEdits",
        ];
        let told = stage
            .run(&[&["-m", "3"], &verify[..]].concat())
            .expect_exit(0);
        assert!(
            told.iter()
                .any(|line| line["event"] == "check" && line["veto"] == true),
            "{told:#?}"
        );
        assert!(count(&told, "session_started") >= 2, "{told:#?}");
        let second = text_of(&session_dir(&stage.project, 2).join("prompt.md"));
        assert!(
            second.contains("reported all done, but the check failed"),
            "{second}"
        );
    }
}

/// The reset is past, so the wait is the buffer of 30 s. What attempts cost adds up to what the client
/// tells of the whole conversation.
// shows: AGT-12, REL-11, REL-22
#[test]
fn a_limit_with_a_reset_is_waited_for_and_the_same_session_goes_on() {
    let model = |request: &Request, dir: &str| -> Reply {
        match (resumed(request), request.tool_results().len()) {
            (false, 0) => call().using(Usage::context(50_000)).into(),
            (false, _) => Status::error(429, "rate_limit_error", "limit")
                .header("anthropic-ratelimit-unified-status", "rejected")
                .header("anthropic-ratelimit-unified-reset", "1700000000")
                .header(
                    "anthropic-ratelimit-unified-representative-claim",
                    "five_hour",
                )
                .into(),
            (true, _) => finish(request, dir),
        }
    };
    let part = rehearsed(3, &[act(HANG_ONCE, "{ limit = -100000 }")]);
    thread::scope(|scope| {
        for stage in Stage::both("a limit with a short reset", &part, model) {
            let stage = stage
                .with("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake")
                .without("ANTHROPIC_API_KEY");
            scope.spawn(move || check_waited(&stage));
        }
    });
}

fn check_waited(stage: &Stage) {
    let told = stage.run(&[]).expect_exit(0);
    let waiting = told.iter().find(|line| line["event"] == "waiting").unwrap();
    assert_eq!(
        (&waiting["session"], &waiting["attempt"]),
        (&json!(1), &json!(2)),
        "{waiting}"
    );
    assert_eq!(waiting["cause"]["rate_limited"]["kind"], "five_hour");
    assert_eq!(count(&told, "session_started"), 2);
    if !stage.is_client() {
        return;
    }
    let costs: Vec<u64> = ends(&told)
        .iter()
        .map(|line| line["cost_micro_usd"].as_u64().unwrap())
        .collect();
    let events = events_of(stage, 1);
    let last = events
        .lines()
        .rev()
        .find(|line| line.contains("total_cost_usd"))
        .unwrap();
    let total = serde_json::from_str::<Value>(last).unwrap()["total_cost_usd"]
        .as_f64()
        .unwrap();
    let sum = costs.iter().sum::<u64>() as f64 / 1e6;
    // 2.1.197 counts anew in each process.
    let last = *costs.last().unwrap() as f64 / 1e6;
    assert!(
        [sum, last]
            .iter()
            .any(|cost| (total - cost).abs() < 0.000_01),
        "the attempts cost {costs:?}, the conversation {total}"
    );
}

/// What the service answers, the cause that it is given, and what the run does: an exit code, or the
/// same session again.
const ANSWERS: [(u16, &str, &str, Option<i32>); 10] = [
    (429, "rate_limit_error", "rate_limited", Some(3)),
    (529, "overloaded_error", "overloaded", Some(69)),
    (
        401,
        "authentication_error",
        "authentication_failed",
        Some(69),
    ),
    (403, "permission_error", "authentication_failed", Some(69)),
    (402, "billing_error", "billing_failed", Some(69)),
    (404, "not_found_error", "model_not_found", Some(69)),
    (400, "invalid_request_error", "invalid_request", None),
    (413, "request_too_large", "invalid_request", None),
    (500, "api_error", "server_error", None),
    (503, "api_error", "server_error", None),
];

// shows: AGT-12, REL-10, REL-11
#[test]
fn each_answer_of_the_service_has_the_same_cause_and_effect() {
    thread::scope(|scope| {
        for answer in ANSWERS {
            scope.spawn(move || check_answer(answer));
        }
    });
}

fn check_answer((status, kind, cause, code): (u16, &'static str, &str, Option<i32>)) {
    let model = move |_: &Request, _: &str| -> Reply { Status::error(status, kind, "no").into() };
    let part = rehearsed(
        2,
        &[act("at = 'call 1'", &format!("{{ fail = {status} }}"))],
    );
    for stage in Stage::both(&format!("the answer {status}"), &part, model) {
        let mut running = stage.run(&["--max-wait", if code.is_some() { "0s" } else { "6h" }]);
        let ended = running.until("attempt_ended");
        if code.is_none() {
            running.until("waiting");
            running.signal(Signal::TERM);
        }
        running.expect_exit(code.unwrap_or(143));
        let named = ended["cause"].as_str().or_else(|| {
            ended["cause"]
                .as_object()?
                .keys()
                .next()
                .map(String::as_str)
        });
        assert_eq!(named, Some(cause), "{status}: {ended}");
    }
}

/// The client's own retries, if it has any, are used up; the rest is the same for both.
// shows: AGT-12, RUN-11, REL-15
#[test]
fn a_killed_agent_is_the_same_session_in_a_new_attempt() {
    for stage in Stage::both("kill -9 of the agent", &hangs_once(), stalls_once) {
        let mut running = stage.run(&[]);
        running.until("session_started");
        stage.wait_for_events("tool_result");
        kill_process(agent_pid(&stage), Signal::KILL).unwrap();
        let told = running.expect_exit(0);
        let ends = ends(&told);
        assert_eq!(ends[0]["cause"], json!({"killed": {"signal": 9}}));
        assert_eq!(
            (&ends[1]["session"], &ends[1]["attempt"]),
            (&json!(1), &json!(2))
        );
        if stage.is_client() {
            expect_one_conversation(&stage);
        }
    }
}

/// The conversation goes on where it was cut off: the same id, the same fixed instructions.
fn expect_one_conversation(stage: &Stage) {
    let requests = stage.api().main_requests();
    let (first, last) = (requests.first().unwrap(), requests.last().unwrap());
    assert_eq!(first.conversation(), last.conversation());
    assert_eq!(
        last.system().matches("# Working in a relay").count(),
        1,
        "{}",
        last.system()
    );
    let protocol = |request: &Request| {
        let system = request.system();
        system[system.find("# Working in a relay").unwrap()..].to_owned()
    };
    assert_eq!(protocol(first), protocol(last));
}

/// Whoever kills ekiden wants nothing to work on and to be paid for.
// shows: AGT-12, RUN-10, RUN-11
#[test]
fn after_a_kill_of_ekiden_nothing_is_left_and_resume_goes_on() {
    for stage in Stage::both("kill -9 of ekiden and resume", &hangs_once(), stalls_once) {
        let mut running = stage.run(&[]);
        running.until("session_started");
        stage.wait_for_events("tool_result");
        running.signal(Signal::KILL);
        running.wait();
        expect_nothing_alive(&conversation(&stage));
        Running::of(stage.ekiden().args(["resume", "--json"])).expect_exit(0);
        let course = course(&stage.project.log(), 1);
        let ends: Vec<&String> = course
            .iter()
            .filter(|word| word.starts_with("ended"))
            .collect();
        assert_eq!(ends[0], "ended \"engine_lost\"", "{course:?}");
        assert_eq!(ends[1], "ended \"completed\"", "{course:?}");
        if stage.is_client() {
            expect_one_conversation(&stage);
        }
    }
}

// shows: AGT-12, RUN-10, RUN-11
#[test]
fn after_a_kill_of_ekiden_and_agent_nothing_is_left_and_resume_goes_on() {
    let killed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&killed);
    // A client that is killed early has kept no conversation that could be resumed.
    let model = move |request: &Request, dir: &str| -> Reply {
        match seen.load(Ordering::Relaxed) {
            false => Message::call("Bash", json!({"command": "tail -f endless.txt"})).into(),
            true => finish(request, dir),
        }
    };
    let part = rehearsed(3, &[act(HANG_ONCE, "{ run = 'tail -f endless.txt' }")]);
    for stage in Stage::both("kill -9 of ekiden and the agent", &part, model) {
        stage.project.write("endless.txt", "");
        killed.store(false, Ordering::Relaxed);
        let mut running = stage.run(&["--allowed-tool", "Bash(tail:*)"]);
        running.until("session_started");
        wait_for_tail(&stage);
        let agent = agent_pid(&stage);
        running.signal(Signal::KILL);
        // The keeper may have been quicker.
        let _ = kill_process(agent, Signal::KILL);
        running.wait();
        killed.store(true, Ordering::Relaxed);
        expect_nothing_alive(&conversation(&stage));
        Running::of(stage.ekiden().args(["resume", "--json"])).expect_exit(0);
    }
}

/// An agent waits for our answer as long as it takes: a stopped engine loses no call.
// shows: AGT-12, AGT-01
#[test]
fn an_engine_that_was_stopped_goes_on_where_it_was() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = move |request: &Request, dir: &str| -> Reply {
        match request.tool_results().len() {
            0 => Message::call("Bash", json!({"command": "touch item-1.txt"}))
                .held_by(&held)
                .into(),
            _ => finish(request, dir),
        }
    };
    for stage in Stage::both("SIGSTOP of the engine", &rehearsed(2, &[]), model) {
        let mut running = stage.run(&["--allowed-tool", "Bash(touch:*)"]);
        running.until("window");
        running.signal(Signal::STOP);
        gate.open();
        let item = stage.project.path().join("item-1.txt");
        if stage.is_client() {
            let early = stage.api().wait_for(Duration::from_secs(2), |request| {
                !request.tool_results().is_empty()
            });
            assert!(early.is_none(), "the call waits for the answer at its hook");
        }
        assert!(!item.exists());
        running.signal(Signal::CONT);
        let told = running.expect_exit(0);
        assert!(item.exists());
        assert_eq!(count(&told, "attempt_ended"), 1, "{told:#?}");
    }
}

// shows: AGT-12, RUN-09
#[test]
fn the_first_interrupt_asks_for_the_handoff_and_stops() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = move |request: &Request, dir: &str| -> Reply {
        match (ordered(request), request.tool_results().len()) {
            (false, 0) => call().held_by(&held).into(),
            (false, _) => Message::text("What else?").into(),
            (true, _) => leave_work(request, dir),
        }
    };
    for stage in Stage::both("SIGINT once", &rehearsed(9, &[]), model) {
        let mut running = stage.run(&[]);
        running.until("window");
        if stage.is_client() {
            stage.api().wait_for(PATIENCE, |_| true).unwrap();
        }
        running.signal(Signal::INT);
        running.until("stop_requested");
        gate.open();
        let told = running.expect_exit(3);
        assert_eq!(count(&told, "handoff"), 1, "{told:#?}");
        assert_eq!(
            told.last().unwrap()["outcome"]["kind"],
            "stopped",
            "{told:#?}"
        );
    }
}

// shows: AGT-12, UIX-01
#[test]
fn next_asks_for_the_handoff_and_the_next_session_goes_on() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = move |request: &Request, dir: &str| -> Reply {
        let second = request.text().contains("This is session 2.");
        match (second, ordered(request), request.tool_results().len()) {
            (true, ..) => finish(request, dir),
            (false, false, 0) => call().held_by(&held).into(),
            (false, false, _) => Message::text("What else?").into(),
            (false, true, _) => leave_work(request, dir),
        }
    };
    for stage in Stage::both("ekiden next", &rehearsed(5, &[]), model) {
        let mut running = stage.run(&[]);
        running.until("window");
        if stage.is_client() {
            stage.api().wait_for(PATIENCE, |_| true).unwrap();
        }
        expect_exit(stage.ekiden().arg("next"), 0);
        running.until("handoff_requested");
        gate.open();
        let told = running.expect_exit(0);
        let first = told.iter().find(|line| line["event"] == "attempt_ended");
        assert_eq!(first.unwrap()["session"], 1, "{told:#?}");
        assert!(count(&told, "handoff") >= 1, "{told:#?}");
        assert!(told.iter().any(|line| line["session"] == 2), "{told:#?}");
    }
}

// shows: AGT-12, RUN-09, RUN-10
#[test]
fn the_second_interrupt_stops_at_once() {
    for stage in Stage::both("SIGINT twice", &hangs_once(), stalls_once) {
        let mut running = stage.run(&[]);
        running.until("session_started");
        stage.wait_for_events("tool_result");
        running.signal(Signal::INT);
        running.until("stop_requested");
        running.signal(Signal::INT);
        running.expect_exit(130);
        expect_nothing_alive(&conversation(&stage));
    }
}

/// The client compacts if ekiden's variable and hook do not reach it. The session hands off at once;
/// where it does not, the rescue says what its last words rest on.
// shows: AGT-12, AGT-04, REL-06
#[test]
fn a_compaction_after_all_is_a_handoff_that_came_too_late() {
    let model = |request: &Request, dir: &str| -> Reply {
        let second = request.text().contains("This is session 2.");
        match (second, request.tool_results().len()) {
            (true, _) => finish(request, dir),
            (false, calls @ 0..5) => {
                let context = if calls < 4 { 30_000 } else { 90_000 };
                call().using(Usage::context(context)).into()
            }
            (false, _) => Message::text("No.").using(Usage::context(30_000)).into(),
        }
    };
    let line = r#"{"type":"system","subtype":"compact_boundary","compact_metadata":{"trigger":"auto","pre_tokens":38000}}"#;
    let nothing = "{ leave_out = ['PROGRESS.md', 'NEXT_PROMPT.md', 'KNOWLEDGE.md'] }";
    let acts = [
        act("session = 1\nat = 'start'", nothing),
        act(
            "session = 1\nat = 'call 2'",
            &format!("{{ sh = {} }}", json!(format!("echo '{line}'"))),
        ),
    ];
    for stage in Stage::both("a compaction after all", &rehearsed(3, &acts), model) {
        let unhooked = r#"sed -u 's/"PreCompact"/"PostCompact"/' | "$@""#;
        let stage = stage
            .through(&[
                "env",
                "-u",
                "DISABLE_AUTO_COMPACT",
                "sh",
                "-c",
                unhooked,
                "sh",
            ])
            .with("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000");
        let told = stage.run(&["-m", "2"]).expect_exit(0);
        assert!(count(&told, "compacted") >= 1, "{told:#?}");
        let course = course(&stage.project.log(), 1);
        let at = |word: &str| course.iter().position(|seen| seen.starts_with(word));
        assert!(at("say ekiden: please hand off").is_some(), "{course:?}");
        assert_eq!(count(&told, "rescue"), 1);
        let second = text_of(&session_dir(&stage.project, 2).join("prompt.md"));
        assert!(second.contains("Its context was compacted"), "{second}");
        let log = Running::of(stage.ekiden().args(["log", "--json"])).expect_exit(0);
        assert_eq!(
            count(&log, "compacted"),
            count(&told, "compacted"),
            "{log:#?}"
        );
    }
}
