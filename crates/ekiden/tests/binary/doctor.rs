//! `ekiden doctor`: what it finds of a client that is a script, and of the machine.

use serde_json::Value;

use crate::environment::Environment;

/// A client that tells this version and this state of its login.
fn client(version: &str, login: &str) -> Environment {
    let environment = Environment::with_git();
    let answers = format!("case $1 in --version) echo '{version}';; auth) echo '{login}';; esac\n");
    environment.script("bin/claude", &answers);
    let path = format!("{}:{}", environment.dir().join("bin").display(), std::env::var("PATH").unwrap());
    environment.with("PATH", &path).with("TERM", "xterm")
}

const LOGGED_IN: &str = r#"{"loggedIn":true,"authMethod":"api_key","apiProvider":"firstParty"}"#;
const TESTED: &str = "2.1.329 (Claude Code)";

/// What is not as it should be, by name, and the exit code.
fn found(environment: &Environment, args: &[&str], code: i32) -> Vec<(String, String)> {
    let json = environment.run(&[&["doctor", "--json"], args].concat()).expect(code).stdout;
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["v"], 1);
    assert_eq!(answer["ok"], code == 0, "{answer}");
    let checks = answer["checks"].as_array().unwrap();
    for check in checks {
        assert_eq!(check["state"] == "ok", check["remedy"].is_null(), "what to do: {check}");
    }
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let bad = checks.iter().filter(|check| check["state"] != "ok");
    bad.map(|check| (text(&check["name"]), text(&check["state"]))).collect()
}

fn one(name: &str, state: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), state.to_owned())]
}

const CHOSEN: [&str; 2] = ["--permission-mode", "acceptEdits"];

// shows: AGT-10
#[test]
fn a_place_where_all_is_well() {
    assert_eq!(found(&client(TESTED, LOGGED_IN), &CHOSEN, 0), []);
    assert_eq!(found(&Environment::with_git(), &["--agent", "rehearsal"], 0), []);
}

// shows: AGT-10
#[test]
fn a_client_that_cannot_work_fails_as_a_run_would() {
    let missing =
        found(&Environment::with_git(), &["--agent-command", "no-such-client", "--agent", "claude"], 69);
    assert_eq!(missing[0], one("agent", "failure")[0]);
    assert_eq!(found(&client("2.0.1 (Claude Code)", LOGGED_IN), &CHOSEN, 69), one("version", "failure"));
    assert_eq!(found(&client(TESTED, r#"{"loggedIn":false}"#), &CHOSEN, 69), one("login", "failure"));
    assert_eq!(found(&client(TESTED, LOGGED_IN), &[], 78), one("permissions", "failure"));
}

// shows: AGT-10
#[test]
fn what_a_run_can_do_without_is_a_warning() {
    assert_eq!(found(&client("3.0.0 (Claude Code)", LOGGED_IN), &CHOSEN, 0), one("version", "warning"));
    assert_eq!(found(&client(TESTED, "what?"), &CHOSEN, 0), one("login", "warning"));
    let environment = client(TESTED, LOGGED_IN);
    environment.write(".claude/settings.local.json", r#"{"disableAllHooks": true}"#);
    assert_eq!(found(&environment, &CHOSEN, 0), one("hooks", "warning"));
    let without_git = Environment::new();
    assert_eq!(found(&without_git, &["--agent", "rehearsal"], 0), one("git", "warning"));
}

// shows: AGT-10
#[test]
fn lines_say_what_to_do() {
    let said = client("2.0.1 (Claude Code)", LOGGED_IN).run(&["doctor", "--safe-mode"]).expect(69).stdout;
    let line = |start: &str| said.lines().any(|line| line.starts_with(start));
    assert!(line("ok       agent        claude: "), "{said}");
    assert!(line("failure  version      2.0.1, older than any that ekiden was tested with"), "{said}");
    assert!(line("                      update it: npm install -g @anthropic-ai/claude-code"), "{said}");
    assert!(line("ok       permissions  mode default"), "{said}");
}

// shows: OPS-02
#[test]
fn the_guard_is_where_it_should_be_or_the_doctor_says_what_is_wrong() {
    let guard = |settings: &str| {
        let environment = client(TESTED, LOGGED_IN);
        environment.write(".claude/settings.local.json", settings);
        environment.write("opt/ekiden", "");
        let told = environment.told(&["doctor", CHOSEN[0], CHOSEN[1]]);
        let lines = told.lines().skip_while(|line| !line.contains("  guard  "));
        let lines: Vec<&str> = lines.take_while(|line| !line.contains("  git  ")).collect();
        lines.join("\n")
    };
    let hooks = |program: &str, events: &[&str]| {
        let hook = |event: &&str| {
            let command = format!("{program} hook {event}");
            ((*event).to_owned(), serde_json::json!([{"hooks": [{"type": "command", "command": command}]}]))
        };
        serde_json::json!({"hooks": events.iter().map(hook).collect::<serde_json::Map<_, _>>()}).to_string()
    };
    insta::assert_snapshot!(guard("{}"), @"ok       guard        not installed; `ekiden setup` has it watch the sessions that you start");
    insta::assert_snapshot!(guard("{// note\n}"), @r"
    warning  guard        the agent leaves out all of PROJECT/.claude/settings.local.json: no plain JSON at line 1, column 2
                          mend the file; comments and trailing commas count as mistakes there
    ");
    insta::assert_snapshot!(guard(&hooks("/gone/ekiden", &["Stop"])), @r"
    warning  guard        PROJECT/.claude/settings.local.json calls `/gone/ekiden`, which is not there
                          `ekiden setup` puts it right (`--project` for the project's settings)
    ");
    insta::assert_snapshot!(guard(&hooks("ekiden", &["Stop", "PreCompact"])), @r"
    warning  guard        hooks are missing: SessionStart, UserPromptSubmit, PreToolUse, PostToolBatch, SessionEnd
                          `ekiden setup` puts it right (`--project` for the project's settings)
    ");
    insta::assert_snapshot!(guard(r#"{"enabledPlugins": {"ekiden@ekiden": true}}"#), @"ok       guard        installed as a plugin");
}
