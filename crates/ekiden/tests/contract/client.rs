//! What only the real client can show: what it does by itself, and a user's own settings of it, which
//! stay in force.

use std::process::Command;

use ekiden_testkit::client::is_too_old;
use ekiden_testkit::messages_api::{Ending, Message, Reply, Request, Status};
use serde_json::json;

use crate::acting::{call, finish, leave_work, write_all};
use crate::looks::{count, events_of, load_tools, offered_by_servers, words};
use crate::project::course;
use crate::stage::{NEW, Stage};

// shows: REL-10
#[test]
fn an_overload_that_passes_costs_no_attempt() {
    let mut answered = 0;
    let model = move |request: &Request, dir: &str| -> Reply {
        answered += 1;
        match answered {
            1 => Status::error(529, "overloaded_error", "Overloaded").into(),
            2 => Status::error(429, "rate_limit_error", "soon")
                .header("retry-after", "1")
                .into(),
            _ => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("529, 429 and then fine", model) else {
        return;
    };
    let stage = stage.with("CLAUDE_CODE_MAX_RETRIES", "4");
    let told = stage.start(&["run", "Make one item."]).expect_exit(0);
    assert_eq!(count(&told, "attempt_ended"), 1, "{told:#?}");
}

/// A user's hook and server leave marks where they ran.
fn with_own_settings(stage: &Stage, local: &str) {
    let project = &stage.project;
    std::fs::create_dir_all(project.path().join(".claude")).unwrap();
    let hook = json!({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]}});
    project.write(".claude/settings.json", &hook.to_string());
    project.write(".claude/settings.local.json", local);
    let server = json!({"mcpServers": {"own": {"command": "sh", "args": ["-c", "touch server-ran; cat >/dev/null"]}}});
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
    assert_eq!(
        course(&stage.project.log(), 1)
            .iter()
            .filter(|word| *word == "stop_asked")
            .count(),
        1
    );
    Some(["hook-ran", "server-ran"].map(|mark| stage.project.path().join(mark).exists()))
}

// shows: AGT-11
#[test]
fn the_users_own_hooks_and_servers_stay_in_force() {
    let Some(ran) = own_settings_that_ran("hooks and servers of a project", "{}", &[]) else {
        return;
    };
    assert_eq!(ran, [true, true]);
}

/// Our own hooks are callbacks, which no setting silences; and we revive nothing that was switched off.
// shows: AGT-11
#[test]
fn hooks_that_were_switched_off_stay_off() {
    let off = r#"{"disableAllHooks": true}"#;
    let Some(ran) = own_settings_that_ran("hooks that are switched off", off, &[]) else {
        return;
    };
    assert_eq!(ran, [false, true]);
}

// shows: AGT-11
#[test]
fn an_isolated_run_leaves_hooks_and_servers_out() {
    let Some(ran) = own_settings_that_ran("an isolated run", "{}", &["--isolated"]) else {
        return;
    };
    assert_eq!(ran, [false, false]);
}

/// An agent that may nothing and does nothing is not helped by another session.
// shows: AGT-13
#[test]
fn a_session_that_was_refused_what_it_needed_ends_the_run_with_the_rules() {
    let model = |request: &Request, _: &str| -> Reply {
        match request.tool_results().len() {
            0 => Message::call("Bash", json!({"command": "make item"})).into(),
            1 => Message::call(
                "Write",
                json!({"file_path": "item.txt", "content": "made\n"}),
            )
            .into(),
            _ => Message::text("I may not.").into(),
        }
    };
    let Some(stage) = Stage::set("a session that was refused what it needed", model) else {
        return;
    };
    let told = stage.start(&["run", "Make one item."]).expect_exit(77);
    let outcome = &told.last().unwrap()["outcome"];
    assert_eq!(
        *outcome,
        json!({"kind": "denied", "rules": ["Bash(make item:*)", "Write"]}),
        "{told:#?}"
    );
    assert_eq!(count(&told, "session_started"), 1);

    // The rules that it proposes are those that were missing.
    let model = |request: &Request, dir: &str| -> Reply {
        match request.tool_results().len() {
            0 => Message::call("Bash", json!({"command": "make item"})).into(),
            1 => {
                let input =
                    json!({"file_path": format!("{dir}/../../item.txt"), "content": "made\n"});
                Message::call("Write", input).into()
            }
            _ => finish(request, dir),
        }
    };
    drop(stage);
    let Some(stage) = Stage::set("the rules that were proposed", model) else {
        return;
    };
    stage
        .project
        .write("Makefile", "item:\n\t@touch made-by-make\n");
    let rules = [
        "--allowed-tool",
        "Bash(make item:*)",
        "--allowed-tool",
        "Write",
    ];
    stage
        .start(&[&["run", "Make one item."], &rules[..]].concat())
        .expect_exit(0);
    assert_eq!(stage.project.read("item.txt"), "made\n");
    assert!(stage.project.path().join("made-by-make").exists());
}

// shows: AGT-13
#[test]
fn nothing_starts_before_somebody_chose_what_the_agent_may_do() {
    let Some(stage) = Stage::set("a run without a choice", finish) else {
        return;
    };
    let run = |flags: &[&str]| {
        let mut command: Command = stage.ekiden();
        command
            .args(["run", "Make one item."])
            .args(flags)
            .env_remove("EKIDEN_PERMISSION_MODE");
        command.output().unwrap()
    };
    let refused = run(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(
        said.contains("--permission-mode acceptEdits") && said.contains("--safe-mode"),
        "{said}"
    );
    assert!(
        !stage.project.path().join(".ekiden").exists(),
        "nothing is created"
    );
    assert_eq!(run(&["--safe-mode"]).status.code(), Some(0));

    // The client's own rules are a choice.
    std::fs::create_dir_all(stage.home().join(".claude")).unwrap();
    std::fs::write(
        stage.home().join(".claude/settings.json"),
        r#"{"permissions":{"allow":["Edit"]}}"#,
    )
    .unwrap();
    assert_eq!(run(&["--new"]).status.code(), Some(0));
}

/// Also in those modes in which it may write nothing else; and in none may it write what is ekiden's own. A run
/// in plan mode is refused.
// shows: AGT-13
#[test]
fn the_handoff_can_be_written_in_every_permission_mode() {
    for mode in [
        "default",
        "acceptEdits",
        "auto",
        "dontAsk",
        "bypassPermissions",
    ] {
        let model = |request: &Request, dir: &str| -> Reply {
            let file = format!("{dir}/../config.toml");
            let own = json!({"file_path": file, "content": "verify = \"true\"\n"});
            match request.tool_results().len() {
                0 => Message::call("Write", own).into(),
                1 => write_all(dir, 3).into(),
                _ => Message::text("Done.").into(),
            }
        };
        let Some(stage) = Stage::set("a handoff in every permission mode", model) else {
            return;
        };
        let stage = stage.with("IS_SANDBOX", "1");
        let told = stage
            .start(&["run", "Make one item.", "--permission-mode", mode])
            .expect_exit(0);
        assert_eq!(count(&told, "rescue"), 0, "{mode}: {told:#?}");
        assert!(
            !stage.project.path().join(".ekiden/config.toml").exists(),
            "{mode}"
        );
    }
}

/// Its own server, and the same one once more where `ekiden setup` has installed it.
// shows: MEM-003, MEM-09, MEM-14, OPS-02
#[test]
fn a_session_of_a_run_has_the_memory_once_and_is_not_asked() {
    let search = || json!({"query": "item", "type": "observations"});
    let model = move |request: &Request, dir: &str| -> Reply {
        let later = request.text().contains("This is session 2");
        match (later, request.tool_results().len()) {
            (false, _) => leave_work(request, dir),
            (true, 0) => load_tools("mcp__ekiden__search,mcp__ekiden__session_history").into(),
            (true, 1) => Message::call("mcp__ekiden__search", search())
                .and_call("mcp__ekiden__session_history", json!({"session": 1}))
                .into(),
            (true, 3) => write_all(dir, 3).into(),
            (true, _) => Message::text("Done.").into(),
        }
    };
    for installed in [None, Some("--user"), Some("--project")] {
        let Some(stage) = Stage::set("the memory in a run", model) else {
            return;
        };
        if let Some(scope) = installed {
            let mut setup = stage.ekiden();
            assert!(setup.args(["setup", scope]).status().unwrap().success());
        }
        stage.start(&["run", "Make one item."]).expect_exit(0);
        let requests = stage.api().main_requests();
        let asked = "mcp__ekiden__get_recent_context(limit=5)";
        let asks = requests
            .iter()
            .filter(|request| request.text().contains(asked));
        assert!(asks.count() > 0 && !requests[0].text().contains(asked));
        let offered = offered_by_servers(&requests[0]);
        assert_eq!(offered.len(), 8, "{installed:?}: {offered:?}");
        let mut results = requests.iter().map(Request::tool_results);
        let results = results.rfind(|results| results.len() == 3).unwrap();
        for (result, word) in results[1..].iter().zip(["item", "call Write"]) {
            assert!(!result.is_error, "{}", result.text);
            assert!(
                result.text.starts_with("¦ ") && result.text.contains(word),
                "{}",
                result.text
            );
        }
    }
    let Some(stage) = Stage::set("a run without the memory", finish) else {
        return;
    };
    let stage = stage.with("EKIDEN_MCP", "false");
    // It was installed before it was switched off.
    let mut setup = stage.ekiden();
    setup.arg("setup").env_remove("EKIDEN_MCP");
    assert!(setup.status().unwrap().success());
    stage.start(&["run", "Make one item."]).expect_exit(0);
    let requests = stage.api().main_requests();
    assert!(offered_by_servers(&requests[0]).is_empty());
}

/// A command at the start of a task is text, and a model's words of a command are too.
// shows: REL-03
#[test]
fn a_task_that_begins_with_a_slash_is_text() {
    let Some(stage) = Stage::set("a task that begins with a slash", finish) else {
        return;
    };
    stage
        .start(&["run", "/compact the tree of the project"])
        .expect_exit(0);
    let first = stage.api().main_requests().remove(0);
    assert!(
        first.text().contains("/compact the tree of the project"),
        "{}",
        first.text()
    );
}

// defect: W14, W15
// shows: REL-05, HND-08
#[test]
fn a_turn_that_ends_early_is_told_to_go_on_and_then_asked() {
    let model = |request: &Request, dir: &str| -> Reply {
        let told_to_go_on = request.text().contains("your turn ended without a handoff");
        let asked = request
            .text()
            .contains("ekiden: this conversation ends with a handoff in");
        match (told_to_go_on, asked, request.tool_results().len()) {
            (_, true, 0) => write_all(dir, 3).into(),
            (_, _, 0) => Message::text("I will do it tomorrow.").into(),
            (_, _, _) => Message::text("Now it is done.").into(),
        }
    };
    let Some(stage) = Stage::set("a turn that ends early", model) else {
        return;
    };
    stage.run(&["-m", "1"]).expect_exit(0);
    let text = stage.api().main_requests().last().unwrap().text();
    assert!(text.contains("your turn ended without a handoff"), "{text}");
    assert!(
        text.contains("ekiden: this conversation ends with a handoff in"),
        "{text}"
    );
    let course = course(&stage.project.log(), 1);
    assert!(words(&course, "stop_asked") >= 3, "{course:?}");
    assert_eq!(course.last().unwrap(), "ended \"completed\"");
}

/// A stream that falls silent, before its first byte or in the middle, is the client's to mend. It does so
/// after minutes, made the ten seconds here that are its least, and nothing is lost.
// shows: REL-10, AGT-08
#[test]
fn the_client_recovers_from_a_silent_stream() {
    let why = "it takes 300 s, which no variable shortens";
    if is_too_old(NEW, "a silent stream", why) {
        return;
    }
    std::thread::scope(|scope| {
        for (what, silent) in [
            (
                "a stream that falls silent",
                Reply::from(Message::text("Well,").ending(Ending::Stall)),
            ),
            ("a stream that never begins", Reply::Stall),
        ] {
            scope.spawn(move || check_recovery(what, &silent));
        }
    });
}

fn check_recovery(what: &str, silent: &Reply) {
    let (mut answered, silent) = (0, silent.clone());
    let model = move |request: &Request, dir: &str| -> Reply {
        answered += 1;
        if answered == 1 {
            silent.clone()
        } else {
            finish(request, dir)
        }
    };
    let Some(stage) = Stage::set(what, model) else {
        return;
    };
    let stage = stage
        .with("CLAUDE_ENABLE_BYTE_WATCHDOG", "1")
        .with("CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS", "10000")
        .with("CLAUDE_STREAM_FIRST_BYTE_TIMEOUT_MS", "10000")
        .with("API_TIMEOUT_MS", "10000")
        .with("CLAUDE_CODE_MAX_RETRIES", "2");
    let told = stage.run(&["-m", "1"]).expect_exit(0);
    assert_eq!(count(&told, "attempt_ended"), 1, "{what}: {told:#?}");
}

/// An engine that is stopped for longer than the client waits loses the call and the turn's end; the
/// client says success. Here it waits a second and our answers get lost.
// shows: AGT-08
#[test]
fn a_callback_that_nobody_answers_is_no_success() {
    let model = |request: &Request, _: &str| -> Reply {
        match request.tool_results().len() {
            0 => call().into(),
            _ => Message::text("Done.").into(),
        }
    };
    let Some(stage) = Stage::set("a callback that nobody answers", model) else {
        return;
    };
    let lost =
        r#"sed -u -e 's/"timeout":86400/"timeout":1/g' -e '/^{"type":"control_response"/d' | "$@""#;
    let stage = stage.through(&["sh", "-c", lost, "sh"]);
    let mut running = stage.run(&[]);
    let ended = running.until("attempt_ended");
    running.signal(rustix::process::Signal::TERM);
    running.wait();
    assert_eq!(ended["cause"], "unanswered_callback", "{ended}");
    let events = events_of(&stage, 1);
    assert!(
        events.contains("control_cancel_request"),
        "the client gave it up"
    );
    assert!(
        events.contains(r#""subtype":"success""#),
        "and says success"
    );
}

/// A hook of the project's own may begin the session with a turn of its own: two results, and the prompt
/// comes second.
// shows: AGT-08, AGT-11
#[test]
fn a_turn_before_ours_is_no_end() {
    let why = "our prompt joins that turn, in which our hooks are not in force yet";
    if is_too_old(NEW, "a turn before ours", why) {
        return;
    }
    let Some(stage) = Stage::set("a turn before ours", finish) else {
        return;
    };
    let output = r#"{"hookSpecificOutput":{"hookEventName":"SessionStart","initialUserMessage":"Good morning."}}"#;
    let hook = json!({"type": "command", "command": format!("echo '{output}'")});
    let settings = json!({"hooks": {"SessionStart": [{"hooks": [hook]}]}});
    stage
        .project
        .write(".claude/settings.json", &settings.to_string());
    let told = stage.run(&["-m", "1"]).expect_exit(0);
    assert_eq!(count(&told, "attempt_ended"), 1, "{told:#?}");
}

/// What would wake the client later, or take it out of the work dir, is taken away from it.
// shows: AGT-11, AGT-08
#[test]
fn nothing_can_be_scheduled_and_no_worktree_entered() {
    let tools = [
        "ScheduleWakeup",
        "CronCreate",
        "Monitor",
        "Workflow",
        "EnterWorktree",
    ];
    let model = move |request: &Request, dir: &str| -> Reply {
        let wakeup = json!({"delaySeconds": 60, "reason": "later", "prompt": "Go on."});
        match request.tool_results().len() {
            0 => Message::call("ScheduleWakeup", wakeup).into(),
            _ => finish(request, dir),
        }
    };
    let Some(stage) = Stage::set("a wake-up", model) else {
        return;
    };
    let told = stage.run(&["-m", "1"]).expect_exit(0);
    assert_eq!(count(&told, "attempt_ended"), 1, "{told:#?}");
    let requests = stage.api().main_requests();
    let offered = requests[0].body["tools"].to_string();
    assert!(
        tools
            .iter()
            .all(|tool| !offered.contains(&format!("\"{tool}\""))),
        "{offered}"
    );
    assert!(requests[1].tool_results()[0].is_error);
}

/// The prompt goes over standard input and the protocol by a file: an argument has at most 128 KiB.
// shows: AGT-01
#[test]
fn a_task_of_many_hundred_kilobytes_arrives_whole() {
    let Some(stage) = Stage::set("a large task", finish) else {
        return;
    };
    let line = "Each line of this task is as long as the others, and they are many.\n";
    stage.project.write(
        "large.md",
        &format!("{}The last line.\n", line.repeat(6_000)),
    );
    stage.start(&["run", "large.md", "-m", "1"]).expect_exit(0);
    let text = stage.api().main_requests()[0].text();
    assert_eq!(text.matches(line.trim_end()).count(), 6_000);
    assert!(text.contains("The last line."));
}
