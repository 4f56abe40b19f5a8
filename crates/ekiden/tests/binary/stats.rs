//! `ekiden stats`.

use std::fmt::Write as _;

use ekiden_core::time::{Millis, Timestamp};
use serde_json::{Value, json};

use crate::environment::{Environment, items};

/// A session of this many requests, as the client writes it: eight that look around, then edits.
fn transcript(session: usize, requests: u64, began: Timestamp) -> String {
    let mut lines = String::new();
    let mut line = |value: Value| writeln!(lines, "{value}").unwrap();
    for number in 0..requests {
        let at = |secs| (began + Millis::from_secs(number * 10 + secs)).rfc3339();
        let tool = if number < 8 { "Read" } else { "Edit" };
        line(
            json!({"type": "user", "cwd": "/work/shop", "timestamp": at(0), "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": format!("t{}", number.saturating_sub(1)), "is_error": number % 20 == 5}]}}),
        );
        line(json!({"type": "assistant", "timestamp": at(4), "message": {
            "id": format!("m{session}-{number}"), "model": "opus",
            "content": [{"type": "tool_use", "id": format!("t{number}"), "name": tool, "input": {}}],
            "usage": {"input_tokens": 5, "cache_read_input_tokens": 25_000 + 2_500 * number,
                "cache_creation_input_tokens": 2_500, "output_tokens": 300}}}));
    }
    line(
        json!({"type": "system", "subtype": "compact_boundary", "timestamp": began.rfc3339(),
        "compactMetadata": {"trigger": if session == 0 { "auto" } else { "manual" }, "preTokens": 160_000, "postTokens": 10_000}}),
    );
    line(
        json!({"type": "cost-state", "modelUsage": {"opus": {"inputTokens": 1_000_000, "costUSD": 5.0}}}),
    );
    lines
}

/// Noon of the day before.
fn noon() -> Timestamp {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let day = 24 * 60 * 60;
    Timestamp(0) + Millis::from_secs(since.as_secs() / day * day - day / 2)
}

fn with_transcripts(sessions: usize) -> Environment {
    let environment = Environment::with_git();
    let project = environment.path("home/.claude/projects/-work-shop");
    std::fs::create_dir_all(&project).unwrap();
    for session in 0..sessions {
        let text = transcript(session, 60, noon());
        std::fs::write(project.join(format!("{session}.jsonl")), text).unwrap();
    }
    environment
}

// shows: UIX-09
#[test]
fn what_was_spent_and_how_sessions_go_stands_beside_the_targets() {
    let environment = with_transcripts(4);
    environment.write("task.md", &items(4));
    environment
        .run(&["run", "task.md", "--agent", "rehearsal"])
        .expect(0);
    let told = environment
        .told(&["stats"])
        .replace(&noon().date(), "DAY       ");
    insta::assert_snapshot!(told, @r"
    last 30 days · 4 sessions · 240 requests · ≈$17.41

    day         requests  read  cached  written  tokens     cost
    DAY              240  601k   23.7M      72k    673k  ≈$17.41

    project     requests  read  cached  written  tokens     cost
    /work/shop       240  601k   23.7M      72k    673k  ≈$17.41

    model  requests  read  cached  written  tokens     cost
    opus        240  601k   23.7M      72k    673k  ≈$17.41

    how sessions go                 target    measured
    context lost to compaction      80% less  38k tokens a session, before setup unknown
    sessions compacted in mid-task  under 5%  25% (1 of 4)
    handoffs that were worked from  over 90%  none yet
    items done in a session         20% more  4.0, before setup unknown
    checkpoints a person asked for  over 50%  none yet
    runs that were completed        over 90%  100% (1 of 1)
    compacted sessions of runs      under 5%  0% (0 of 1)
    --- exit code 0
    ");
    // A session that was forked begins with a copy of its transcript.
    let project = environment.path("home/.claude/projects/-work-shop");
    std::fs::copy(project.join("0.jsonl"), project.join("fork.jsonl")).unwrap();
    let said = environment.run(&["stats", "--json"]).expect(0);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(told["total"]["requests"], 240);
    assert_eq!(told["by_project"]["/work/shop"], told["total"]);
    let metrics = &told["metrics"]["since_setup"];
    assert_eq!(
        (&told["sessions"], &metrics["sessions"]),
        (&json!(4), &json!(4))
    );
    assert_eq!(metrics["compacted"], 1);
}

// shows: UIX-09, REL-39
#[test]
fn sessions_of_every_account_count_once() {
    let environment = with_transcripts(1);
    let account = environment.path("home/.claude-work");
    let project = account.join("projects/-work-shop");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("1.jsonl"), transcript(1, 60, noon())).unwrap();
    let shared = environment.path("home/.claude-shared");
    std::os::unix::fs::symlink(&account, &shared).unwrap();
    let row = |name: &str| {
        format!("[agents.{name}]\nkind = \"claude\"\naccount = \"~/.claude-{name}\"\n")
    };
    let rows = row("work") + &row("shared");
    environment.write("../home/.config/ekiden/config.toml", &rows);
    let said = environment.run(&["stats", "--json"]).expect(0);
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(told["total"]["requests"], 120);
    assert_eq!(told["metrics"]["since_setup"]["sessions"], 2);
}

// shows: UIX-09
#[test]
fn follow_up_work_takes_no_item_from_a_list() {
    let environment = Environment::with_git();
    environment.run(&["ralph", "init"]).expect(0);
    environment.write("fix_plan.md", "- [x] before\n- [ ] one\n- [ ] two\n");
    environment.commit_all();
    let run = ["ralph", "run", "--agent", "rehearsal"];
    environment.run(&run).expect(0);
    let ralph = || {
        let said = environment.run(&["stats", "--json"]).expect(0);
        let told: Value = serde_json::from_str(&said.stdout).unwrap();
        told["metrics"]["ralph"]["items"].clone()
    };
    assert_eq!(ralph(), json!({ "part": 2, "of": 2 }));
    environment
        .run(&["continue", "Then:\n\n- [ ] three"])
        .expect(0);
    assert_eq!(ralph(), json!({ "part": 2, "of": 2 }));
}

// shows: UIX-09
#[test]
fn sessions_from_before_setup_are_the_baseline() {
    let environment = with_transcripts(2);
    let project = environment.path("home/.claude/projects/-work-shop");
    let long_ago = noon() - Millis::from_secs(5 * 24 * 60 * 60);
    let ticks = |done: u32| {
        let todos: Vec<Value> = (0..done)
            .map(|_| json!({"content": "a", "status": "completed"}))
            .collect();
        let block =
            json!({"type": "tool_use", "id": "t", "name": "TodoWrite", "input": {"todos": todos}});
        json!({"type": "assistant", "timestamp": long_ago.rfc3339(), "message": {"id": "todo", "model": "opus",
            "content": [block], "usage": {"input_tokens": 5, "output_tokens": 300}}})
    };
    let before = format!(
        "{}{}\n",
        transcript(0, 60, long_ago).replace("\"m0-", "\"b-"),
        ticks(3)
    );
    std::fs::write(project.join("before.jsonl"), before).unwrap();
    // What `setup` keeps of a file that it changed.
    let receipt = environment.path("home/.local/state/ekiden/setup/of-a-file/receipt");
    std::fs::create_dir_all(receipt.parent().unwrap()).unwrap();
    std::fs::write(&receipt, "").unwrap();
    let at = std::time::SystemTime::now() - std::time::Duration::from_secs(3 * 24 * 60 * 60);
    std::fs::File::open(&receipt)
        .unwrap()
        .set_modified(at)
        .unwrap();
    environment.write("task.md", &items(4));
    environment
        .run(&["run", "task.md", "--agent", "rehearsal"])
        .expect(0);
    let told = environment.run(&["stats"]).expect(0).stdout;
    let row = |name: &str| {
        let line = told.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{told}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        row("context lost"),
        "context lost to compaction 80% less 75k tokens a session, 150k before setup"
    );
    assert_eq!(
        row("items done"),
        "items done in a session 20% more 4.0, 3.0 before setup"
    );
}

// shows: EST-07
#[test]
fn the_threshold_comes_with_its_uncertainty_or_not_at_all() {
    insta::assert_snapshot!(with_transcripts(8).told(&["stats", "--threshold"]), @r"
    last 30 days · 8 sessions · 480 requests

    hand off at  cost of a call                     tokens  time  failed  requests
            60k  ████████████████████████  $0.1037    104k  TIME    0.0%        64
            80k  ███████████████████       $0.0818     90k  TIME    0.0%        64
           100k  ██████████████████        $0.0779     92k  TIME   12.5%        64
           120k  ██████████████████▏       $0.0784     98k  TIME    0.0%        64
           140k  ██████████████████▊       $0.0808    106k  TIME   12.5%        64
           160k  ███████████████████▌      $0.0840    114k  TIME    0.0%        64
           180k  ████████████████████▎     $0.0876    123k  TIME    0.0%        56

    money   100k  80% confidence interval 100k to 100k; within 5% of the best from 100k to 140k
            to set  ekiden config set context.cap_tokens 167000  (a run hands off at 60% of it)

    tokens  80k  80% confidence interval 80k to 80k; within 5% of the best from 80k to 100k

    time    at least 180k  80% confidence interval 180k to 180k; within 5% of the best from 160k to 180k
    --- exit code 0
    ");
    // A session that goes on in a copy does not look around again.
    let forked = with_transcripts(8);
    for session in 0..8 {
        let name = format!("home/.claude/projects/-work-shop/fork-{session}.jsonl");
        std::fs::write(forked.path(&name), transcript(session, 90, noon())).unwrap();
    }
    let told = forked.told(&["stats", "--threshold"]);
    assert!(told.contains("\n        60k  "), "{told}");
    insta::assert_snapshot!(with_transcripts(3).told(&["stats", "--threshold"]), @r"
    last 30 days · 3 sessions · 180 requests

    Too few to tell: at least 200 requests with calls of tools are needed, in contexts of different sizes.
    --- exit code 0
    ");
}
