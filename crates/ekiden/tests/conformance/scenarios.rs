//! The scenarios. Each is the same for every agent, and looks at what a user relies on.

use std::time::{Duration, Instant};

use ekiden_testkit::model_apis::{Answer, Asked, Service};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::agents::{AGENTS, Agent, Login, Order};
use crate::stage::Stage;

/// The context after so many calls, in tokens: over L2 with the third.
fn tokens(agent: Agent, calls: usize) -> u64 {
    match calls {
        0 => 20_000,
        1 => 40_000,
        more => agent.full + 500 * more.min(6) as u64,
    }
}

fn shell(command: String, tokens: u64) -> Answer {
    Answer::Shell { command, tokens }
}

fn words(text: &str, tokens: u64) -> Answer {
    Answer::Words {
        text: text.to_owned(),
        tokens,
    }
}

/// It is ordered to hand off, or asked for it after its turn ended without.
fn ordered(asked: &Asked) -> bool {
    asked.text.contains("ekiden: please hand off now")
        || asked
            .text
            .contains("ekiden: your turn ended without a handoff")
}

fn session_of(text: &str) -> u32 {
    let number = text
        .rsplit("This is session ")
        .next()
        .and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// Writes the handoff by a command, as every agent can. The last word of its result stands nowhere in the command.
fn hand_off(session: u32, tokens: u64) -> Answer {
    let status = if session >= 3 {
        "ALL_COMPLETE"
    } else {
        "IN_PROGRESS"
    };
    let progress = format!(
        "STATUS: {status}\n\n## Done\n\nitem {session}, shown by ls\n\n## Stopped at\n\nafter item {session}; \
         nothing is half done\n\n## Issues\n\nnone\n"
    );
    let next = format!(
        "## Task\n\nthe next item\n\n## State\n\n{session} items exist, each a file of its own; they were looked at. \
         The names count up, and every one of them is empty.\n\n## Resume at\n\nitem {}\n\n## What works\n\ntouch\n\n\
         ## What to avoid\n\nnothing so far\n\n## How to verify\n\nls shows the items\n",
        session + 1
    );
    let command = format!(
        "cat > .ekiden/handoff/PROGRESS.md <<'END'\n{progress}END\ncat > .ekiden/handoff/NEXT_PROMPT.md <<'END'\n\
         {next}END\nprintf 'written-%s\\n' 42"
    );
    shell(command, tokens)
}

fn has_handed_off(asked: &Asked) -> bool {
    asked.text.contains("written-42")
}

/// Works call by call until it is ordered to hand off, or for as many calls, and hands off when it is asked.
fn worker(agent: Agent, asked: &Asked, calls: usize) -> Answer {
    let (session, results) = (session_of(&asked.text), asked.results);
    let tokens = tokens(agent, results);
    if has_handed_off(asked) {
        return words("Done.", tokens);
    }
    if ordered(asked) {
        return hand_off(session, tokens);
    }
    if results >= calls {
        return words("I stop here.", tokens);
    }
    shell(format!("touch item-{session}-{results}; ls"), tokens)
}

/// For every installed agent.
fn each(play: impl Fn(Agent)) {
    let only = std::env::var("EKIDEN_CONFORMANCE").ok();
    let wanted = |agent: &Agent| {
        only.as_ref()
            .is_none_or(|only| only.split(',').any(|name| name == agent.name))
    };
    AGENTS.into_iter().filter(wanted).for_each(play);
}

// shows: AGT-07, AGT-15, AGT-16, AGT-17, REL-01
#[test]
fn a_chain_of_three_sessions() {
    each(|agent| {
        let Some(stage) = Stage::set(agent, move |asked| worker(agent, asked, 6)) else {
            return;
        };
        let said = stage.run(&["--verify", "ls item-3-0"]);
        said.expect(0, "verified complete · 3 sessions");
        for session in [1, 2] {
            let course = stage.course(session);
            let delivered = course.iter().any(|word| word == "message_delivered");
            assert!(delivered, "{}: {course:?}", agent.name);
        }
        stage.expect_nothing_alive();
    });
}

/// By figures that come with each call, or else by time.
// shows: AGT-15, AGT-16, AGT-17, REL-02, AGT-09
#[test]
fn a_session_that_never_stops_is_ordered_in_mid_turn() {
    each(|agent| {
        let model = move |asked: &Asked| match worker(agent, asked, usize::MAX) {
            Answer::Shell { command, .. } if command.starts_with("touch") => shell(
                format!("{command}; sleep 0.5"),
                tokens(agent, asked.results),
            ),
            other @ (Answer::Shell { .. } | Answer::Words { .. } | Answer::Failure { .. }) => other,
        };
        let Some(stage) = Stage::set(agent, model) else {
            return;
        };
        // Longer than the slowest of them takes to begin on a busy machine.
        let by_time = ["--session-timeout", "15s"];
        let args = match agent.order {
            Order::InTurn => &[][..],
            Order::AtTurnEnd => &by_time[..],
        };
        let said = stage.run(&[&["--verify", "ls item-3-0"], args].concat());
        said.expect(0, "verified complete · 3 sessions");
        for session in [1, 2] {
            let course = stage.course(session);
            let at = |word: &str| course.iter().position(|seen| seen == word);
            // The order comes before the turn has ended by itself.
            let delivered = at("message_delivered");
            let in_turn = delivered.is_some() && delivered < at("turn_ended");
            assert!(in_turn, "{}: {course:?}\n{}", agent.name, said.text);
        }
        stage.expect_nothing_alive();
    });
}

// shows: AGT-17, REL-04
#[test]
fn a_session_that_will_not_hand_off_is_rescued() {
    each(|agent| {
        let model = move |asked: &Asked| match asked.results {
            0 => shell("touch item-1-0; ls".to_owned(), 30_000),
            _ => words("No.", 40_000),
        };
        let Some(stage) = Stage::set(agent, model) else {
            return;
        };
        let said = stage.run(&["--max-sessions", "1"]);
        said.expect(3, "rescue handoff written from what ekiden saw");
        stage.expect_nothing_alive();
    });
}

// shows: AGT-17, RUN-10, REL-10
#[test]
fn a_run_that_was_killed_goes_on_where_it_was() {
    each(|agent| {
        let mut was_cut = false;
        let model = move |asked: &Asked| {
            if asked.results == 1 && !was_cut {
                was_cut = true;
                return shell("touch cut; sleep 60".to_owned(), 40_000);
            }
            worker(agent, asked, 4)
        };
        let Some(stage) = Stage::set(agent, model) else {
            return;
        };
        let run = ["run", "Make three items.", "--skip-permissions"];
        let mut running = stage.ekiden(&run).spawn().unwrap();
        stage.expect_file("cut");
        running.kill().unwrap();
        running.wait().unwrap();
        stage.expect_nothing_alive();
        let said = stage.said(&["resume"]);
        said.expect(0, "complete (not verified) · 3 sessions");
        let words = match agent.resumes {
            true => "attempt 2, the same conversation",
            false => "attempt 2",
        };
        said.expect(0, words);
        stage.expect_nothing_alive();
    });
}

/// By itself opencode asks nobody. Of what its user's settings allow nothing is left.
// shows: AGT-15, REL-38
#[test]
fn what_nobody_allowed_is_not_done() {
    let opencode = |agent: &Agent| agent.name == "opencode";
    let agent = AGENTS.into_iter().find(opencode).unwrap();
    let model = |asked: &Asked| match asked.results {
        0 => shell("mkdir refused".to_owned(), 20_000),
        1 => shell("touch allowed".to_owned(), 20_000),
        _ => words("Done.", 20_000),
    };
    let Some(stage) = Stage::set(agent, model) else {
        return;
    };
    let settings = json!({"permission": {"*": "allow", "bash": "allow"}});
    std::fs::write(stage.dir().join("opencode.json"), settings.to_string()).unwrap();
    let run = ["run", "Make an item.", "--max-sessions", "1"];
    let rule = ["--allowed-tool", "Bash(touch:*)"];
    let said = stage.said(&[&run[..], &rule].concat());
    said.expect(3, "rescue handoff written");
    assert!(stage.dir().join("allowed").exists(), "{}", said.text);
    assert!(!stage.dir().join("refused").exists(), "{}", said.text);
    stage.expect_nothing_alive();
}

/// Codex and opencode tell a limit at once; the others try again by themselves, for minutes, and say nothing meanwhile.
// shows: AGT-16, AGT-17, REL-11
#[test]
fn a_usage_limit_is_known_by_its_fields() {
    each(|agent| {
        if !agent.tells_limits {
            return;
        }
        let body = json!({"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached",
            "plan_type": "pro", "resets_in_seconds": 3600}});
        let model = move |_: &Asked| Answer::Failure {
            status: 429,
            body: body.clone(),
        };
        let Some(stage) = Stage::set(agent, model) else {
            return;
        };
        let said = stage.run(&["--on-rate-limit", "stop"]);
        said.expect(3, "a usage limit is reached");
        stage.expect_nothing_alive();
    });
}

/// Codex is out for hours, so Qwen goes on; with the next reset the first one would be back.
// shows: REL-39, AGT-14
#[test]
fn with_the_limit_of_one_agent_another_goes_on() {
    let agent = |name: &str| AGENTS.into_iter().find(|agent| agent.name == name).unwrap();
    let (first, other) = (agent("codex"), agent("qwen"));
    if first.program().is_none() || other.program().is_none() {
        return;
    }
    let mut calls = 0;
    let model = move |asked: &Asked| {
        calls += 1;
        if asked.service == Service::Responses && calls > 2 {
            let body = json!({"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached",
                "plan_type": "pro", "resets_in_seconds": 18_000}});
            return Answer::Failure { status: 429, body };
        }
        worker(other, asked, 6)
    };
    let stage = Stage::set(first, model).and_then(|stage| stage.with(other));
    let stage = stage.unwrap();
    let said = stage.run(&["--fallback", "qwen", "--verify", "ls item-3-0"]);
    said.expect(0, "verified complete");
    said.expect(0, "codex");
    said.expect(0, "qwen");
    let kinds: Vec<Service> = stage
        .api
        .asked()
        .iter()
        .map(|asked| asked.service)
        .collect();
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == Service::Responses)
            .count(),
        3,
        "{kinds:?}"
    );
    assert!(kinds.contains(&Service::Chat));
    stage.expect_nothing_alive();
}

// shows: AGT-17, REL-11
#[test]
fn a_login_that_does_not_do_ends_the_run() {
    each(|agent| {
        if agent.login == Login::Untold {
            return;
        }
        let body = json!({"error": {"type": "authentication_error", "message": "Incorrect API key provided"}});
        let model = move |_: &Asked| Answer::Failure {
            status: 401,
            body: body.clone(),
        };
        let Some(stage) = Stage::set(agent, model) else {
            return;
        };
        let mut command = stage.ekiden(&["run", "Make three items.", "--skip-permissions"]);
        if let Login::Missing(variable) = agent.login {
            command.env_remove(variable);
        }
        stage
            .end_of(&mut command)
            .expect(69, "the login is not accepted");
        stage.expect_nothing_alive();
    });
}

// shows: AGT-17, RUN-09
#[test]
fn a_run_that_is_stopped_at_once_leaves_nothing_alive() {
    each(|agent| {
        let model = |_: &Asked| shell("touch begun; sleep 60".to_owned(), 40_000);
        let Some(stage) = Stage::set(agent, model) else {
            return;
        };
        let run = ["run", "Make three items.", "--skip-permissions"];
        let mut running = stage.ekiden(&run).spawn().unwrap();
        stage.expect_file("begun");
        let pid = Pid::from_raw(i32::try_from(running.id()).unwrap()).unwrap();
        let asked = Instant::now();
        for _ in 0..2 {
            kill_process(pid, Signal::INT).unwrap();
            std::thread::sleep(Duration::from_millis(300));
        }
        let end = running.wait().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(30), "{}", agent.name);
        assert_eq!(end.code(), Some(130), "{}", agent.name);
        stage.expect_nothing_alive();
    });
}

// shows: AGT-17, AGT-08
#[test]
fn a_huge_result_of_a_tool_ends_nothing() {
    each(|agent| {
        if !agent.cuts_results {
            return;
        }
        let model = move |asked: &Asked| match asked.results {
            0 => shell("head -c 8000000 /dev/zero | tr '\\0' x".to_owned(), 30_000),
            _ => worker(agent, asked, 2),
        };
        let Some(stage) = Stage::set(agent, model) else {
            return;
        };
        let said = stage.run(&[]);
        said.expect(0, "complete (not verified) · 3 sessions");
        stage.expect_nothing_alive();
    });
}
