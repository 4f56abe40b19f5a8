//! Agents that speak the Agent Client Protocol: here, a script made from recorded streams.

use crate::environment::Environment;
use crate::processes::expect_nothing_alive;

pub(crate) const RUN: [&str; 8] = [
    "run",
    "Make three parts.",
    "--agent",
    "mine",
    "--permission-mode",
    "acceptEdits",
    "--allowed-tool",
    "Bash(make:*)",
];
const COMMON: &str = include_str!("../../../ekiden-testkit/src/agents/common.sh");

/// An agent of this kind that does this otherwise than a good one.
pub(crate) fn scripted(kind: &str, script: &str, fake: &str) -> Environment {
    let environment = Environment::with_git().with("FAKE", fake);
    environment.script("agent.sh", &[COMMON, script].concat());
    let row = format!("[agents.mine]\nkind = \"{kind}\"\ncommand = [\"./agent.sh\"]\n");
    environment.write("../home/.config/ekiden/config.toml", &row);
    environment
}

pub(crate) fn heard(environment: &Environment, method: &str) -> usize {
    let heard = environment.read("heard.jsonl");
    heard.matches(&format!("\"method\":\"{method}\"")).count()
}

fn with(fake: &str) -> Environment {
    let script = include_str!("../../../ekiden-testkit/src/agents/acp.sh");
    scripted("acp", script, fake)
}

// shows: AGT-15, REL-01
#[test]
fn a_chain_of_three_sessions_in_which_each_is_ordered_in_mid_turn() {
    // The turn is cancelled for the order, unless the agent can be steered or takes a second prompt.
    for (fake, cancels, steers) in [("", 3, 0), ("steers", 0, 3)] {
        let environment = with(fake);
        let said = environment.run(&RUN).expect(0).stdout;
        assert_eq!(said.matches("4 tool calls").count(), 3, "{said}");
        assert!(
            said.contains("complete (not verified) · 3 sessions"),
            "{said}"
        );
        assert_eq!(heard(&environment, "session/cancel"), cancels, "{fake}");
        assert_eq!(heard(&environment, "_session/steering"), steers, "{fake}");
        expect_nothing_alive(&environment);
    }
}

// shows: AGT-15, REL-02
#[test]
fn without_context_figures_the_order_follows_the_bytes_and_the_user_is_told() {
    let said = with("untold").run(&RUN).expect(0);
    let told = "does not report its context use while it works, so ekiden orders the handoff by bytes exchanged";
    assert!(said.stderr.contains(told), "{}", said.stderr);
    assert!(
        said.stdout
            .contains("only the handoff may still be written")
    );
}

// shows: AGT-15, AGT-04
#[test]
fn what_the_run_allows_is_allowed_and_files_and_terminals_are_not_served() {
    let environment = with("asks");
    environment.run(&RUN).expect(0);
    let heard = environment.read("heard.jsonl");
    for (asked, option) in [
        ("handoff", "yes"),
        ("published", "no"),
        ("both", "no"),
        ("ruled", "yes"),
        ("unruled", "no"),
    ] {
        let answer = format!(
            "{{\"id\":\"ask-{asked}\",\"jsonrpc\":\"2.0\",\"result\":{{\"outcome\":{{\"optionId\":\"{option}\""
        );
        assert!(heard.contains(&answer), "{asked}: {heard}");
    }
    for method in ["fs/read_text_file", "terminal/create"] {
        assert!(heard.contains(&format!("not offered: {method}")), "{heard}");
    }
}

// shows: AGT-15, REL-04, REL-11
#[test]
fn what_goes_wrong_is_named_and_leaves_nothing_alive() {
    for (fake, code, told) in [
        ("deaf", 3, "rescue handoff written from what ekiden saw"),
        ("huge", 0, "could not be read"),
        ("killed", 0, "attempt 2, the same conversation"),
        ("no-login", 69, "the login is not accepted"),
        ("limited", 3, "a usage limit is reached"),
        ("grandchild", 0, "complete (not verified)"),
    ] {
        let environment = with(fake);
        let said = environment.run(&[&RUN[..], &["--on-rate-limit", "stop"]].concat());
        let said = said.expect(code).stdout;
        assert!(said.contains(told), "{fake}: {said}");
        expect_nothing_alive(&environment);
    }
}

/// It reviews the work of another agent.
pub(crate) fn reviews(environment: &Environment) {
    environment.write(".gitignore", ".count\nheard.jsonl\n");
    let task = crate::environment::items(1);
    let run = ["run", &task, "--agent", "rehearsal", "--review=mine"];
    let said = environment.run(&run).expect(0).stdout;
    assert!(said.contains("review passed"), "{said}");
    expect_nothing_alive(environment);
}

// shows: AGT-15, REL-38
#[test]
fn its_answer_is_a_verdict() {
    reviews(&with("reviews"));
}
