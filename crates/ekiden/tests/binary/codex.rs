//! Codex by its app-server: here, a script made from recorded streams.

use rustix::process::Signal;

use crate::acp::{RUN, heard, reviews, scripted};
use crate::environment::Environment;
use crate::processes::expect_nothing_alive;
use crate::running::wait_until;

fn with(fake: &str) -> Environment {
    let script = include_str!("../../../ekiden-testkit/src/agents/codex.sh");
    scripted("codex", script, fake)
}

// shows: AGT-16, REL-01
#[test]
fn a_chain_of_three_sessions_each_steered_in_mid_turn_by_the_context_of_its_calls() {
    let environment = with("");
    let said = environment.run(&RUN).expect(0).stdout;
    assert_eq!(said.matches("4 tool calls").count(), 3, "{said}");
    // The sum that it tells beside is far beyond any window.
    assert!(said.contains("93% 186k"), "{said}");
    assert!(
        said.contains("complete (not verified) · 3 sessions"),
        "{said}"
    );
    assert_eq!(heard(&environment, "turn/steer"), 3, "{said}");
    assert_eq!(heard(&environment, "turn/start"), 3, "{said}");
    let heard = environment.read("heard.jsonl");
    assert!(
        heard.contains("\"approvalPolicy\":\"on-request\""),
        "{heard}"
    );
    assert!(heard.contains("\"sandbox\":\"workspace-write\""), "{heard}");
    assert!(heard.contains("model_auto_compact_token_limit"), "{heard}");
    expect_nothing_alive(&environment);
}

// shows: AGT-16
#[test]
fn a_usage_limit_is_known_by_its_fields_and_a_missing_login_by_its_own() {
    let environment = with("limited");
    let said = environment.run(&[&RUN[..], &["--max-wait", "10m"]].concat());
    said.expect(3);
    let log = environment.run(&["log", "--json"]).expect(0).stdout;
    assert!(log.contains("\"kind\":\"five_hour\"}}"), "{log}");
    assert!(log.contains("\"limit_too_far\""), "{log}");
    let said = with("no-login").run(&RUN).expect(69).to_string();
    assert!(said.contains("login"), "{said}");
}

// shows: AGT-16
#[test]
fn what_no_rule_allows_is_refused() {
    let environment = with("asks");
    environment.run(&RUN).expect(0);
    let heard = environment.read("heard.jsonl");
    let decided = |id: &str, decision: &str| {
        let line = format!(
            "{{\"id\":\"{id}\",\"jsonrpc\":\"2.0\",\"result\":{{\"action\":\"{decision}\",\"decision\":\"{decision}\"}}}}"
        );
        heard.contains(&line)
    };
    assert!(
        decided("ask-ruled", "accept") && decided("ask-unruled", "decline"),
        "{heard}"
    );
}

// shows: AGT-16, RUN-10
#[test]
fn a_killed_session_is_resumed_in_its_thread_and_nothing_stays_alive() {
    let environment = with("killed");
    environment.run(&RUN).expect(0);
    assert_eq!(heard(&environment, "thread/resume"), 1);
    expect_nothing_alive(&environment);
    let environment = with("grandchild");
    environment.run(&RUN).expect(0);
    expect_nothing_alive(&environment);
}

// shows: AGT-16, REL-05
#[test]
fn one_that_does_not_hand_off_and_one_that_says_too_much() {
    let environment = with("deaf");
    let said = environment.run(&[&RUN[..], &["-m", "1"]].concat());
    let said = said.expect(3).stdout;
    assert!(said.contains("rescue"), "{said}");
    let said = with("huge").run(&RUN).expect(0).stdout;
    assert!(
        said.contains("complete (not verified) · 3 sessions"),
        "{said}"
    );
}

/// The attempts at a session share its stream. One that is lost before it says anything did nothing and cost nothing.
// shows: REL-22, RUN-11
#[test]
fn what_an_attempt_spent_is_not_charged_to_a_lost_one_after_it() {
    let environment = with("killed");
    let counts = "echo $n > .count\n";
    let stalls = format!("{counts}[ $n != 2 ] || {{ : > stalled; sleep 1000; }}\n");
    let script = environment.read("agent.sh").replacen(counts, &stalls, 1);
    environment.script("agent.sh", &script);
    let run = environment.start(&RUN);
    wait_until("the second attempt", || environment.exists("stalled"));
    run.signal(Signal::KILL);
    run.end();
    environment.run(&["resume"]).expect(0);
    let log = environment.log();
    let tokens = log.iter().filter_map(|record| {
        let of_attempt = &record["event"]["event"]["event"];
        of_attempt["counters"]["spend"]["tokens"].as_u64()
    });
    let [first, lost, _] = tokens.collect::<Vec<_>>()[..] else {
        panic!("three attempts: {log:?}");
    };
    assert!(first > 0 && lost == 0, "{first} {lost}");
}

// shows: AGT-16, REL-38
#[test]
fn its_answer_is_a_verdict() {
    reviews(&with("reviews"));
}
