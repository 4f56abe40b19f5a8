//! Budgets, turns, time, quiet hours, and a window that is full from the start, with the rehearsal agent.

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Environment, items};

fn project(count: u32) -> Environment {
    let environment = Environment::new();
    environment.write("task.md", &items(count));
    environment
}

fn rehearse<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["run", "task.md", "--agent", "rehearsal"], more].concat()
}

/// The JSON lines of this kind.
fn news(stdout: &str, event: &str) -> Vec<Value> {
    let lines = stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == event).collect()
}

// shows: REL-22, RUN-02
#[test]
fn a_budget_of_tokens_ends_in_a_handoff_and_goes_on_with_more() {
    let environment = project(9);
    let said = environment
        .run(&rehearse(&["--run-tokens", "48.3k", "--json"]))
        .expect(3);
    let marks = news(&said.stdout, "spend");
    assert_eq!(
        (&marks[0]["mark"], &marks[0]["measure"]),
        (&"nearly".into(), &"tokens".into()),
        "{said}"
    );
    assert!(
        news(&said.stdout, "rescue").is_empty(),
        "a budget ends in a handoff: {said}"
    );
    let end = &news(&said.stdout, "run_ended")[0];
    assert_eq!(end["outcome"]["kind"], "budget_spent");
    assert_eq!(end["sessions"], 2);
    let used = end["tokens"].as_u64().unwrap();
    assert!((45_000..=48_300).contains(&used), "{used}");
    let status = environment.run(&["status"]).expect(0);
    assert!(
        status
            .stdout
            .contains(&format!("ekiden resume --run-tokens {}", used + 48_300)),
        "{status}"
    );

    let again = environment.run(&["resume"]).expect(3);
    assert!(
        again
            .stdout
            .contains("stopped (3): the budget has no room for another session"),
        "{again}"
    );
    environment.run(&["resume", "--run-tokens", "1M"]).expect(0);
    assert!(environment.exists("item-9.txt"));
}

/// The account hits its limit, so it pays by subscription.
// shows: REL-39, REL-22
#[test]
fn what_a_subscription_spent_of_an_agents_budget_is_the_api_price() {
    let environment = project(9).with("EKIDEN_REHEARSAL_PRICE", "1000");
    let scenario = environment.path("scenario.toml");
    let limit = "[[act]]\nsession = 2\nat = 'prompt'\ndo = { limit = 18000 }\n";
    std::fs::write(&scenario, limit).unwrap();
    let environment = environment.with("EKIDEN_REHEARSAL_SCENARIO", scenario.to_str().unwrap());
    let limits = ["--agent-budget", "rehearsal=500", "--max-wait", "1h"];
    environment.run(&rehearse(&limits)).expect(3);
    let status = environment.run(&["status"]).expect(0).stdout;
    let has_row = |text: &str| {
        let mut rows = text.lines().filter(|line| line.contains("rehearsal"));
        rows.any(|row| row.contains(" API price of $500.00"))
    };
    assert!(has_row(&status), "{status}");
    let report = std::fs::read_to_string(environment.run_dir().join("report.md")).unwrap();
    assert!(has_row(&report), "{report}");
}

// shows: REL-22, RUN-02
#[test]
fn a_budget_of_money_holds_once_the_price_is_known_and_later_runs_know_it() {
    let environment = project(9).with("EKIDEN_REHEARSAL_PRICE", "1000");
    let said = environment
        .run(&rehearse(&["--run-budget", "80", "--json"]))
        .expect(3);
    let end = &news(&said.stdout, "run_ended")[0];
    assert_eq!(end["outcome"]["kind"], "budget_spent", "{said}");
    let cost = end["cost_micro_usd"].as_u64().unwrap();
    // No response of this agent costs more than its first one.
    assert!((40_000_000..=105_000_000).contains(&cost), "{cost}");
    let status = environment.run(&["status"]).expect(0);
    assert!(
        status.stdout.contains("ekiden resume --run-budget 1"),
        "{status}"
    );
    environment.run(&rehearse(&["--new", "-m", "1"]));
    let header = &environment.log()[0]["event"];
    assert_eq!(header["prices"]["rehearsal"]["fresh_nano_usd"], 1_000_000);
    let kept = header["handoff_spend"]["micro_usd"].as_u64().unwrap();
    assert!((1..80_000_000).contains(&kept), "a handoff cost {kept}");
}

// shows: REL-31
#[test]
fn a_window_that_is_full_from_the_start_ends_the_run() {
    let environment = project(2).with("EKIDEN_REHEARSAL_WINDOW", "20000");
    let said = environment.run(&rehearse(&[])).expect(78);
    assert!(
        said.stdout
            .contains("failed (78): the first response already took 1"),
        "{said}"
    );
    assert!(
        said.stdout.contains("what fills it: Conversation 1"),
        "{said}"
    );
    assert!(
        said.stdout
            .contains("what to do:  give the agent fewer tools"),
        "{said}"
    );
    assert!(!environment.exists("item-1.txt"));
}

// shows: REL-31
#[test]
fn a_window_above_l1_at_the_start_is_only_told() {
    let environment = project(1).with("EKIDEN_REHEARSAL_WINDOW", "32000");
    let said = environment.run(&rehearse(&[])).expect(0);
    assert!(
        said.stdout.contains("! the first response already takes 5"),
        "{said}"
    );
}

// shows: REL-02, RUN-02
#[test]
fn turns_order_the_handoff() {
    let environment = project(4);
    let said = environment
        .run(&rehearse(&["--max-turns", "2", "--json"]))
        .expect(0);
    let marks = news(&said.stdout, "spend");
    assert_eq!(
        (&marks[0]["measure"], &marks[0]["turns"]),
        (&"turns".into(), &2.into()),
        "{said}"
    );
    let levels = news(&said.stdout, "level");
    assert!(
        levels.iter().all(|level| level["level"] == "L1"),
        "the context ordered nothing: {said}"
    );
    assert!(news(&said.stdout, "session_started").len() > 1, "{said}");
}

// shows: AGT-09, RUN-02
#[test]
fn a_session_whose_time_is_up_is_asked_to_hand_off() {
    let environment = project(4).with("EKIDEN_REHEARSAL_STEP_MS", "20");
    environment.run(&rehearse(&["--session-timeout", "1ms", "-m", "2"]));
    let log = environment.log();
    let said = log
        .iter()
        .any(|record| record.to_string().contains("This session's time is up."));
    assert!(said, "{log:#?}");
}

// shows: REL-12, RUN-02
#[test]
fn in_quiet_hours_no_session_starts() {
    let environment = project(1);
    let now = u64::try_from(jiff::Timestamp::now().as_second()).unwrap() / 3600;
    let quiet = format!("{:02}:00-{:02}:00", (now + 23) % 24, (now + 2) % 24);
    let mut running = environment.start(&rehearse(&["--quiet-hours", &quiet]));
    running.wait_for("session 1 begins at");
    running.signal(Signal::INT);
    running.end().expect(3);
    assert!(!environment.exists("item-1.txt"));
    environment
        .run(&["resume", "--quiet-hours", "none"])
        .expect(0);
    assert!(environment.exists("item-1.txt"));
    let mut again = environment.start(&rehearse(&["--quiet-hours", &quiet, "--new"]));
    again.wait_for("session 1 begins at");
    let status = environment.run(&["status", "--json"]).expect(0).stdout;
    let status: Value = serde_json::from_str(&status).unwrap();
    let left = status["runs"][0]["left_ms"]["p50"].as_u64().unwrap();
    assert!(left > 3_000_000, "the wait is part of it: {status}");
    again.signal(Signal::INT);
    again.end().expect(3);
}

// shows: RUN-02
#[test]
fn what_cannot_be_a_bound_is_refused_before_anything_is_created() {
    let environment = project(1);
    for bad in [
        ["--run-budget", "free"],
        ["--quiet-hours", "always"],
        ["--on-rate-limit", "pay"],
    ] {
        let said = environment.run(&rehearse(&bad));
        assert!(matches!(said.code, 2 | 78), "{said}");
    }
    assert!(environment.runs().is_empty());
}
