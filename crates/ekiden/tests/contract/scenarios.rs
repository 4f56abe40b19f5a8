//! What can happen to a relay of the real client: the operator, the system and the service get in its
//! way, and a user's own settings of the client stay in force.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ekiden_testkit::messages_api::{Gate, Message, Reply, Request, Status, Thread, ToolResult, Usage};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::project::{course, session_dir, text_of};
use crate::stage::{Running, Stage, write_all};

const PATIENCE: Duration = Duration::from_secs(60);
/// RUN-10.
const PROMISE: Duration = Duration::from_secs(5);
const HAIKU: &str = "claude-haiku-4-5-20251001";

fn call() -> Message {
    Message::call("Bash", json!({"command": "ls"}))
}

fn ordered(request: &Request) -> bool {
    request.text().contains("ekiden: please hand over now")
}

/// Writes the handoff that claims completion, then ends the turn.
fn finish(request: &Request, dir: &str) -> Reply {
    let wrote = |result: &ToolResult| !result.is_error && result.text.contains("NEXT_PROMPT.md");
    let wrote = request.tool_results().iter().any(wrote);
    if wrote { Message::text("Done.").into() } else { write_all(dir, 3).into() }
}

/// The process id of the client at work.
fn client_pid(stage: &Stage) -> Pid {
    let mut pids =
        stage.project.log().into_iter().filter_map(|record| record["event"]["event"]["pid"].as_i64());
    Pid::from_raw(pids.next_back().unwrap().try_into().unwrap()).unwrap()
}

fn count(told: &[Value], event: &str) -> usize {
    told.iter().filter(|line| line["event"] == event).count()
}

fn events_of(stage: &Stage, session: u32) -> String {
    text_of(&session_dir(&stage.project, session).join("events.jsonl"))
}

/// Waits until nothing with this conversation's mark is alive.
fn expect_nothing_alive(conversation: &str) {
    let until = Instant::now() + PROMISE;
    let mark = format!("EKIDEN_SESSION_ID={conversation}");
    loop {
        let left = marked(&mark);
        if left == 0 {
            return;
        }
        assert!(Instant::now() < until, "{left} processes of {conversation} are still alive");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn marked(mark: &str) -> usize {
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let environments = processes.filter_map(|entry| std::fs::read(entry.ok()?.path().join("environ")).ok());
    environments.filter(|all| all.split(|byte| *byte == 0).any(|one| one == mark.as_bytes())).count()
}

// shows: REL-07, REL-08
#[test]
fn a_claim_that_the_verification_vetoes_is_told_to_the_next_session() {
    let model = |request: &Request, dir: &str| -> Reply {
        let second = request.text().contains("This is session 2.");
        let item = json!({"file_path": format!("{dir}/../../item.txt"), "content": "made\n"});
        match (second, request.tool_results().len()) {
            (true, 0) => Message::call("Write", item).into(),
            _ => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("a claim that is vetoed", model) else { return };
    let verify = ["--verify", "test -f item.txt", "--permission-mode", "acceptEdits"];
    let told = stage.start(&[&["run", "Make one item.", "-m", "3"], &verify[..]].concat()).expect_exit(0);
    assert!(told.iter().any(|line| line["event"] == "check" && line["veto"] == true), "{told:#?}");
    assert_eq!(count(&told, "session_started"), 2);
}

// shows: REL-10
#[test]
fn an_overload_that_passes_costs_no_attempt() {
    let mut answered = 0;
    let model = move |request: &Request, dir: &str| -> Reply {
        answered += 1;
        match answered {
            1 => Status::error(529, "overloaded_error", "Overloaded").into(),
            2 => Status::error(429, "rate_limit_error", "soon").header("retry-after", "1").into(),
            _ => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("529, 429 and then fine", model) else { return };
    let stage = stage.with("CLAUDE_CODE_MAX_RETRIES", "4");
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    assert_eq!(count(&told, "attempt_ended"), 1, "{told:#?}");
}

/// The reset is past, so the wait is the buffer of 30 s. The conversation goes on in a new attempt,
/// whose cost is its own.
// shows: REL-11, REL-22
#[test]
fn a_limit_with_a_reset_is_waited_for_and_the_same_session_goes_on() {
    let model = |request: &Request, dir: &str| -> Reply {
        let resumed = request.text().contains("has resumed this conversation");
        match (resumed, request.tool_results().len()) {
            (false, 0) => call().using(Usage::context(50_000)).into(),
            (false, _) => Status::error(429, "rate_limit_error", "limit")
                .header("anthropic-ratelimit-unified-status", "rejected")
                .header("anthropic-ratelimit-unified-reset", "1700000000")
                .header("anthropic-ratelimit-unified-representative-claim", "five_hour")
                .into(),
            (true, _) => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("a limit with a short reset", model) else { return };
    let stage = stage.with("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake").without("ANTHROPIC_API_KEY");
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    let waiting = told.iter().find(|line| line["event"] == "waiting").unwrap();
    assert_eq!((&waiting["session"], &waiting["attempt"]), (&json!(1), &json!(2)), "{waiting}");
    assert_eq!(count(&told, "session_started"), 2);
    let ends = told.iter().filter(|line| line["event"] == "attempt_ended");
    let costs: Vec<u64> = ends.map(|line| line["cost_micro_usd"].as_u64().unwrap()).collect();
    let events = events_of(&stage, 1);
    let last = events.lines().rev().find(|line| line.contains("total_cost_usd")).unwrap();
    let total = serde_json::from_str::<Value>(last).unwrap()["total_cost_usd"].as_f64().unwrap();
    let sum = costs.iter().sum::<u64>() as f64 / 1e6;
    assert!((total - sum).abs() < 0.000_01, "the attempts cost {costs:?}, the conversation {total}");
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
    let Some(stage) = Stage::set("a compaction that is blocked", model) else { return };
    let stage = stage
        .through(&["env", "-u", "DISABLE_AUTO_COMPACT"])
        .with("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "100000");
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    let window = told.iter().find(|line| line["event"] == "window").unwrap();
    assert_eq!(window["usable_tokens"], 67_000, "{window}");
    let events = events_of(&stage, 1);
    assert!(events.contains("\"hook_event_name\":\"PreCompact\""), "compaction was asked for");
    assert!(!events.contains("compact_boundary"), "and did not happen");
}

// shows: AGT-01, MON-06
#[test]
fn a_subagents_context_is_not_the_sessions() {
    let model = |request: &Request, dir: &str| -> Reply {
        match (request.thread(), request.tool_results().len()) {
            (Thread::Subagent, _) => Message::text("Looked.").using(Usage::context(190_000)).into(),
            (_, 0) => {
                let input =
                    json!({"description": "look", "prompt": "Look.", "subagent_type": "general-purpose"});
                Message::call("Agent", input).using(Usage::context(30_000)).into()
            }
            (_, _) => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("a subagent's usage", model) else { return };
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    assert!(stage.api.requests().iter().any(|request| request.thread() == Thread::Subagent));
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
    let Some(stage) = Stage::set("a fallback model", model) else { return };
    let stage = stage.client_arg(&format!("--fallback-model={HAIKU}")).with("CLAUDE_CODE_MAX_RETRIES", "2");
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    let windows: Vec<&Value> = told.iter().filter(|line| line["event"] == "window").collect();
    assert_eq!(windows.first().unwrap()["window_tokens"], 1_000_000);
    assert_eq!(windows.last().unwrap()["window_tokens"], 200_000, "{windows:#?}");
    assert_eq!(windows.last().unwrap()["usable_tokens"], 167_000, "{windows:#?}");
}

// shows: RUN-11, REL-15
#[test]
fn a_killed_client_is_the_same_session_in_a_new_attempt() {
    let model = |request: &Request, dir: &str| -> Reply {
        let resumed = request.text().contains("has resumed this conversation");
        match (resumed, request.tool_results().len()) {
            (false, 0) => call().into(),
            (false, _) => Reply::Stall,
            (true, _) => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("kill -9 of the client", model) else { return };
    let running = stage.start(&["run", "Make one item."]);
    stage.api.wait_for(PATIENCE, |request| !request.tool_results().is_empty()).unwrap();
    kill_process(client_pid(&stage), Signal::KILL).unwrap();
    let told = running.expect_exit(0);
    let ends: Vec<&Value> = told.iter().filter(|line| line["event"] == "attempt_ended").collect();
    assert_eq!(ends[0]["cause"], json!({"killed": {"signal": 9}}));
    assert_eq!((&ends[1]["session"], &ends[1]["attempt"]), (&json!(1), &json!(2)));
    let conversations: std::collections::BTreeSet<String> =
        stage.api.main_requests().iter().map(Request::conversation).collect();
    assert_eq!(conversations.len(), 1, "the conversation goes on");
}

// shows: RUN-10, RUN-11
#[test]
fn after_a_kill_of_ekiden_and_client_nothing_is_left_and_resume_goes_on() {
    let model = |request: &Request, dir: &str| -> Reply {
        match request.text().contains("has resumed this conversation") {
            false => Message::call("Bash", json!({"command": "tail -f endless.txt"})).into(),
            true => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("kill -9 of ekiden and the client", model) else { return };
    stage.project.write("endless.txt", "");
    let mut running = stage.start(&["run", "Make one item.", "--allowed-tool", "Bash(tail:*)"]);
    running.until("session_started");
    let request = stage.api.wait_for(PATIENCE, |request| request.thread() == Thread::Main).unwrap();
    wait_for_tool(&stage);
    let client = client_pid(&stage);
    running.signal(Signal::KILL);
    // The keeper may have been quicker.
    let _ = kill_process(client, Signal::KILL);
    running.wait();
    expect_nothing_alive(&request.conversation());
    Running::of(stage.ekiden().args(["resume", "--json"])).expect_exit(0);
}

/// Waits until the tool of `tail -f` runs in this project.
fn wait_for_tool(stage: &Stage) {
    let until = Instant::now() + PATIENCE;
    let dir = stage.project.path();
    let in_project = |pid: &Path| std::fs::read_link(pid.join("cwd")).is_ok_and(|cwd| cwd == dir);
    let is_tail =
        |pid: &Path| std::fs::read(pid.join("cmdline")).is_ok_and(|line| line.starts_with(b"tail\0-f"));
    loop {
        let mut processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path()));
        if processes.any(|pid| is_tail(&pid) && in_project(&pid)) {
            return;
        }
        assert!(Instant::now() < until, "the tool does not run");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The client waits for our answer as long as it takes: a stopped engine loses no call.
// shows: AGT-01
#[test]
fn an_engine_that_was_stopped_goes_on_where_it_was() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = move |request: &Request, dir: &str| -> Reply {
        match request.tool_results().len() {
            0 => call().held_by(&held).into(),
            _ => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("SIGSTOP of the engine", model) else { return };
    let mut running = stage.start(&["run", "Make one item."]);
    running.until("window");
    stage.api.wait_for(PATIENCE, |request| request.thread() == Thread::Main).unwrap();
    running.signal(Signal::STOP);
    gate.open();
    let early = stage.api.wait_for(Duration::from_secs(2), |request| !request.tool_results().is_empty());
    assert!(early.is_none(), "the call waits for the answer at its hook");
    running.signal(Signal::CONT);
    let told = running.expect_exit(0);
    assert_eq!(count(&told, "attempt_ended"), 1, "{told:#?}");
}

// shows: RUN-09
#[test]
fn the_first_interrupt_asks_for_the_handoff_and_stops() {
    let gate = Gate::new();
    let held = gate.clone();
    let model = move |request: &Request, dir: &str| -> Reply {
        match (ordered(request), request.tool_results().len()) {
            (false, 0) => call().held_by(&held).into(),
            (true, 1) => write_all(dir, 1).into(),
            (_, _) => Message::text("Done.").into(),
        }
    };
    let Some(stage) = Stage::set("SIGINT once", model) else { return };
    let mut running = stage.start(&["run", "Make one item."]);
    running.until("window");
    stage.api.wait_for(PATIENCE, |request| request.thread() == Thread::Main).unwrap();
    running.signal(Signal::INT);
    running.until("stop_requested");
    gate.open();
    let told = running.expect_exit(3);
    assert_eq!(count(&told, "handoff"), 1, "{told:#?}");
}

// shows: RUN-09, RUN-10
#[test]
fn the_second_interrupt_stops_at_once() {
    let model = |_: &Request, _: &str| -> Reply { Reply::Stall };
    let Some(stage) = Stage::set("SIGINT twice", model) else { return };
    let mut running = stage.start(&["run", "Make one item."]);
    let request = stage.api.wait_for(PATIENCE, |request| request.thread() == Thread::Main).unwrap();
    running.signal(Signal::INT);
    running.until("stop_requested");
    running.signal(Signal::INT);
    running.expect_exit(130);
    expect_nothing_alive(&request.conversation());
}

/// A user's hook and server leave marks where they ran.
fn with_own_settings(stage: &Stage, local: &str) {
    let project = &stage.project;
    std::fs::create_dir_all(project.path().join(".claude")).unwrap();
    let hook =
        json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]}});
    project.write(".claude/settings.json", &hook.to_string());
    project.write(".claude/settings.local.json", local);
    let server =
        json!({"mcpServers": {"own": {"command": "sh", "args": ["-c", "touch server-ran; cat >/dev/null"]}}});
    project.write(".mcp.json", &server.to_string());
}

/// Which of them ran in a session that made one call.
fn own_settings_that_ran(what: &str, local: &str, args: &[&str]) -> Option<[bool; 2]> {
    let model = |request: &Request, dir: &str| -> Reply {
        match request.tool_results().len() {
            0 => call().into(),
            _ => finish(request, dir),
        }
    };
    let stage = Stage::set(what, model)?;
    with_own_settings(&stage, local);
    let words = [&["run", "Make one item."], args].concat();
    stage.start(&words).expect_exit(0);
    assert_eq!(course(&stage.project.log(), 1).iter().filter(|word| *word == "stop_asked").count(), 1);
    Some(["hook-ran", "server-ran"].map(|mark| stage.project.path().join(mark).exists()))
}

// shows: AGT-11
#[test]
fn the_users_own_hooks_and_servers_stay_in_force() {
    let Some(ran) = own_settings_that_ran("hooks and servers of a project", "{}", &[]) else { return };
    assert_eq!(ran, [true, true]);
}

/// Our own hooks are callbacks, which no setting silences; and we revive nothing that was switched off.
// shows: AGT-11
#[test]
fn hooks_that_were_switched_off_stay_off() {
    let off = r#"{"disableAllHooks": true}"#;
    let Some(ran) = own_settings_that_ran("hooks that are switched off", off, &[]) else { return };
    assert_eq!(ran, [false, true]);
}

// shows: AGT-11
#[test]
fn an_isolated_run_leaves_hooks_and_servers_out() {
    let Some(ran) = own_settings_that_ran("an isolated run", "{}", &["--isolated"]) else { return };
    assert_eq!(ran, [false, false]);
}

/// An agent that may nothing and does nothing is not helped by another session.
// shows: AGT-13
#[test]
fn a_session_that_was_refused_what_it_needed_ends_the_run_with_the_rules() {
    let model = |request: &Request, _: &str| -> Reply {
        match request.tool_results().len() {
            0 => Message::call("Bash", json!({"command": "make item"})).into(),
            1 => Message::call("Write", json!({"file_path": "item.txt", "content": "made\n"})).into(),
            _ => Message::text("I may not.").into(),
        }
    };
    let Some(stage) = Stage::set("a session that was refused what it needed", model) else { return };
    let told = stage.start(&["run", "Make one item."]).expect_exit(77);
    let outcome = &told.last().unwrap()["outcome"];
    assert_eq!(*outcome, json!({"kind": "denied", "rules": ["Bash(make item:*)", "Write"]}), "{told:#?}");
    assert_eq!(count(&told, "session_started"), 1);

    // The rules that it proposes are those that were missing.
    let model = |request: &Request, dir: &str| -> Reply {
        match request.tool_results().len() {
            0 => Message::call("Bash", json!({"command": "make item"})).into(),
            1 => {
                let input = json!({"file_path": format!("{dir}/../../item.txt"), "content": "made\n"});
                Message::call("Write", input).into()
            }
            _ => finish(request, dir),
        }
    };
    drop(stage);
    let Some(stage) = Stage::set("the rules that were proposed", model) else { return };
    stage.project.write("Makefile", "item:\n\t@touch made-by-make\n");
    let rules = ["--allowed-tool", "Bash(make item:*)", "--allowed-tool", "Write"];
    stage.start(&[&["run", "Make one item."], &rules[..]].concat()).expect_exit(0);
    assert_eq!(stage.project.read("item.txt"), "made\n");
    assert!(stage.project.path().join("made-by-make").exists());
}

// shows: AGT-13
#[test]
fn nothing_starts_before_somebody_chose_what_the_agent_may_do() {
    let Some(stage) = Stage::set("a run without a choice", finish) else { return };
    let run = |flags: &[&str]| {
        let mut command: Command = stage.ekiden();
        command.args(["run", "Make one item."]).args(flags).env_remove("EKIDEN_PERMISSION_MODE");
        command.output().unwrap()
    };
    let refused = run(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(said.contains("--permission-mode acceptEdits") && said.contains("--safe-mode"), "{said}");
    assert!(!stage.project.path().join(".ekiden").exists(), "nothing is created");
    assert_eq!(run(&["--safe-mode"]).status.code(), Some(0));

    // The client's own rules are a choice.
    std::fs::create_dir_all(stage.home().join(".claude")).unwrap();
    std::fs::write(stage.home().join(".claude/settings.json"), r#"{"permissions":{"allow":["Edit"]}}"#)
        .unwrap();
    assert_eq!(run(&["--new"]).status.code(), Some(0));
}

/// A command at the start of a task is text, and a model's words of a command are too.
// shows: REL-03
#[test]
fn a_task_that_begins_with_a_slash_is_text() {
    let Some(stage) = Stage::set("a task that begins with a slash", finish) else { return };
    stage.start(&["run", "/compact the tree of the project"]).expect_exit(0);
    let first = stage.api.main_requests().remove(0);
    assert!(first.text().contains("/compact the tree of the project"), "{}", first.text());
}
