//! `ekiden doctor`: what it finds of a client that is a script, and of the machine.

use std::time::Duration;

use ekiden_testkit::pty::Pty;
use serde_json::Value;

use crate::environment::Environment;

const WITHIN: Duration = Duration::from_secs(60);

/// A client that tells this version and this state of its login.
fn client(version: &str, login: &str) -> Environment {
    let environment = Environment::with_git();
    let answers = format!("case $1 in --version) echo '{version}';; auth) echo '{login}';; esac\n");
    environment.script("bin/claude", &answers);
    let path = format!(
        "{}:{}",
        environment.dir().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    environment.with("PATH", &path).with("TERM", "xterm")
}

const LOGGED_IN: &str = r#"{"loggedIn":true,"authMethod":"api_key","apiProvider":"firstParty"}"#;
const TESTED: &str = "2.1.329 (Claude Code)";

/// What is not as it should be, by name, and the exit code.
fn found(environment: &Environment, args: &[&str], code: i32) -> Vec<(String, String)> {
    let json = environment
        .run(&[&["doctor", "--json"], args].concat())
        .expect(code)
        .stdout;
    let answer: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(answer["v"], 1);
    assert_eq!(answer["ok"], code == 0, "{answer}");
    let checks = answer["checks"].as_array().unwrap();
    for check in checks {
        assert_eq!(
            check["state"] == "ok",
            check["remedy"].is_null(),
            "what to do: {check}"
        );
    }
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let bad = checks.iter().filter(|check| check["state"] != "ok");
    bad.map(|check| (text(&check["name"]), text(&check["state"])))
        .collect()
}

fn one(name: &str, state: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), state.to_owned())]
}

const CHOSEN: [&str; 2] = ["--permission-mode", "acceptEdits"];

// shows: AGT-10
#[test]
fn a_place_where_all_is_well() {
    assert_eq!(found(&client(TESTED, LOGGED_IN), &CHOSEN, 0), []);
    assert_eq!(
        found(&Environment::with_git(), &["--agent", "rehearsal"], 0),
        []
    );
}

// shows: AGT-10
#[test]
fn a_client_that_cannot_work_fails_as_a_run_would() {
    let missing = found(
        &Environment::with_git(),
        &["--agent-command", "no-such-client", "--agent", "claude"],
        69,
    );
    assert_eq!(missing[0], one("agent", "failure")[0]);
    assert_eq!(
        found(&client("2.0.1 (Claude Code)", LOGGED_IN), &CHOSEN, 69),
        one("version", "failure")
    );
    assert_eq!(
        found(&client(TESTED, r#"{"loggedIn":false}"#), &CHOSEN, 69),
        one("login", "failure")
    );
    let nobody_chose = client(TESTED, LOGGED_IN);
    assert_eq!(found(&nobody_chose, &[], 78), one("permissions", "failure"));
    nobody_chose.script("bin/node", "echo v22.1.0\n");
    nobody_chose.script("bin/qwen", "exit 0\n");
    assert_eq!(
        found(&nobody_chose, &["--agent", "qwen"], 78),
        one("permissions", "failure")
    );
}

// shows: AGT-10
#[test]
fn what_a_run_can_do_without_is_a_warning() {
    assert_eq!(
        found(&client("3.0.0 (Claude Code)", LOGGED_IN), &CHOSEN, 0),
        one("version", "warning")
    );
    assert_eq!(
        found(&client(TESTED, "what?"), &CHOSEN, 0),
        one("login", "warning")
    );
    let environment = client(TESTED, LOGGED_IN);
    environment.write(
        ".claude/settings.local.json",
        r#"{"disableAllHooks": true}"#,
    );
    assert_eq!(found(&environment, &CHOSEN, 0), one("hooks", "warning"));
    let without_git = Environment::new();
    assert_eq!(
        found(&without_git, &["--agent", "rehearsal"], 0),
        one("git", "warning")
    );
}

// shows: AGT-10, AGT-17
#[test]
fn an_agent_that_npm_kept_old_is_told_by_its_node() {
    let with_node = |version: &str, node: &str| {
        let environment = client(version, LOGGED_IN);
        environment.script("bin/node", &format!("echo {node}\n"));
        environment.script("bin/qwen", "exit 0\n");
        environment
    };
    let old = with_node("2.1.197 (Claude Code)", "v20.20.2");
    assert_eq!(found(&old, &CHOSEN, 0), one("node", "warning"));
    let others = found(&old, &[&["--agent", "qwen"], &CHOSEN[..]].concat(), 0);
    assert_eq!(others, one("node", "warning"));
    let mine = "[agents.mine]\nkind = \"acp\"\ncommand = [\"qwen\"]\n";
    old.write("../home/.config/ekiden/config.toml", mine);
    let mine = found(&old, &[&["--agent", "mine"], &CHOSEN[..]].concat(), 0);
    assert_eq!(mine, []);
    assert_eq!(found(&with_node(TESTED, "v20.20.2"), &CHOSEN, 0), []);
    let new = with_node("2.1.197 (Claude Code)", "v22.1.0");
    assert_eq!(found(&new, &CHOSEN, 0), []);
}

// shows: AGT-10
#[test]
fn lines_say_what_to_do() {
    let said = client("2.0.1 (Claude Code)", LOGGED_IN)
        .run(&["doctor", "--safe-mode"])
        .expect(69)
        .stdout;
    let line = |start: &str| said.lines().any(|line| line.starts_with(start));
    assert!(line("ok       agent        claude: "), "{said}");
    assert!(
        line("failure  version      2.0.1, older than any that ekiden was tested with"),
        "{said}"
    );
    assert!(
        line("                      update it: npm install -g @anthropic-ai/claude-code"),
        "{said}"
    );
    assert!(line("ok       permissions  mode default"), "{said}");
}

// shows: OPS-02
#[test]
fn the_guard_is_where_it_should_be_or_the_doctor_says_what_is_wrong() {
    let guard_with = |settings: &str, scripts: &[&str]| {
        let environment = client(TESTED, LOGGED_IN);
        for script in scripts {
            environment.script(script, "");
        }
        environment.write(".claude/settings.local.json", settings);
        environment.write("opt/ekiden", "");
        let told = environment.told(&["doctor", CHOSEN[0], CHOSEN[1]]);
        let lines = told.lines().skip_while(|line| !line.contains("  guard  "));
        let lines: Vec<&str> = lines.take_while(|line| !line.contains("  git  ")).collect();
        lines.join("\n")
    };
    let guard = |settings: &str| guard_with(settings, &[]);
    let hooks = |program: &str, events: &[&str]| {
        let hook = |event: &&str| {
            let command = format!("{program} hook {event}");
            (
                (*event).to_owned(),
                serde_json::json!([{"hooks": [{"type": "command", "command": command}]}]),
            )
        };
        serde_json::json!({"hooks": events.iter().map(hook).collect::<serde_json::Map<_, _>>()})
            .to_string()
    };
    insta::assert_snapshot!(guard("{}"), @"ok       guard        not installed; `ekiden setup` lets it watch the sessions that you start");
    insta::assert_snapshot!(guard("{// note\n}"), @r"
    warning  guard        the agent ignores all of PROJECT/.claude/settings.local.json: not plain JSON at line 1, column 2
                          fix the file; comments and trailing commas are not accepted there
    ");
    insta::assert_snapshot!(guard(&hooks("/gone/ekiden", &["Stop"])), @r"
    warning  guard        PROJECT/.claude/settings.local.json calls `/gone/ekiden`, which does not exist
                          `ekiden setup` fixes it (`--project` for the project's settings)
    ");
    insta::assert_snapshot!(guard(&hooks("ekiden", &["Stop", "PreCompact"])), @r"
    warning  guard        hooks are missing: SessionStart, UserPromptSubmit, PreToolUse, PostToolBatch, SessionEnd
                          `ekiden setup` fixes it (`--project` for the project's settings)
    ");
    let plugin = r#"{"enabledPlugins": {"ekiden@ekiden": true}}"#;
    insta::assert_snapshot!(guard(plugin), @r"
    warning  guard        the plugin calls `ekiden`, which is not on PATH: it does nothing
                          put `ekiden` on the PATH of your sessions
    ");
    insta::assert_snapshot!(guard_with(plugin, &["bin/ekiden"]), @"ok       guard        installed as a plugin");
}

// shows: OPS-02
#[test]
fn what_setup_wrote_before_an_upgrade_is_told() {
    let environment = client(TESTED, LOGGED_IN);
    environment.run(&["setup"]).expect(0);
    let guard = || {
        let told = environment.told(&["doctor", CHOSEN[0], CHOSEN[1]]);
        let lines = told.lines().skip_while(|line| !line.contains("  guard  "));
        let lines: Vec<&str> = lines.take_while(|line| !line.contains("  git  ")).collect();
        lines.join("\n")
    };
    let before = guard();
    assert!(before.starts_with("ok "), "{before}");
    let manifest = "../home/.claude/ekiden/mod/.claude-plugin/plugin.json";
    let text = environment.read(manifest);
    let older = text.replace(env!("CARGO_PKG_VERSION"), "0.0.1");
    environment.write(manifest, &older);
    let told = guard().replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(told, @r"
    warning  guard        mod and skills are from ekiden 0.0.1, this is VERSION
                          `ekiden setup` renews them
    ");
    environment.write(manifest, &text);
    assert_eq!(guard(), before);
}

/// Nothing was left behind that could be resumed.
fn told_before_anything(environment: &Environment) -> String {
    let told = environment.told(&[&["run", "Do the work."], &CHOSEN[..]].concat());
    assert!(!environment.exists(".ekiden") && !environment.exists(".git/ekiden"));
    told
}

// shows: RUN-20
#[test]
fn a_run_does_not_start_with_a_client_that_says_it_cannot_work() {
    insta::assert_snapshot!(told_before_anything(&client("2.0.1 (Claude Code)", LOGGED_IN)), @r"
    --- standard error
    error: cannot start a session: agent `claude`: 2.0.1, older than any that ekiden was tested with (2.1.197)
    hint: update it: npm install -g @anthropic-ai/claude-code
    hint: `ekiden doctor` checks everything that a run needs
    --- exit code 69
    ");
    insta::assert_snapshot!(told_before_anything(&client(TESTED, r#"{"loggedIn":false}"#)), @r"
    --- standard error
    error: cannot start a session: agent `claude`: not logged in
    hint: `claude auth login`, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN
    hint: `ekiden doctor` checks everything that a run needs
    --- exit code 69
    ");
}

/// A session whose login the service does not accept.
const REFUSED_LOGIN: &str = r#"echo '{"type":"system","subtype":"init"}'
echo '{"type":"assistant","message":{"id":"m","model":"<synthetic>","content":[]},"error":"authentication_failed"}'
echo '{"type":"result","subtype":"success","is_error":true,"api_error_status":401,"num_turns":1,"terminal_reason":"completed"}'
cat > /dev/null"#;

/// A wrapper that knows neither command, and a gateway without a login, are tried. What the client says then
/// is what Claude Code 2.1.197 says when its service does not accept the login.
// shows: RUN-20, REL-10
#[test]
fn a_run_starts_with_a_client_that_does_not_say() {
    let refused = format!(
        "case $1 in --version) exit 1;; auth) touch asked; echo '{{\"loggedIn\":false}}';; *) {REFUSED_LOGIN};; esac\n"
    );
    let environment = client(TESTED, LOGGED_IN).with("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    environment.script("bin/claude", &refused);
    let said = environment
        .run(&[&["run", "Do the work."], &CHOSEN[..]].concat())
        .expect(69);
    assert!(
        said.to_string().contains("the login is not accepted"),
        "{said}"
    );
    assert!(environment.exists(".git/ekiden"));
    assert!(!environment.exists("asked"), "the answer decides nothing");
}

/// A session's facts belong into its handoff, where a person and the next session find them.
#[test]
fn the_clients_own_memory_and_compaction_are_off() {
    let environment = client(TESTED, LOGGED_IN);
    let tells = format!(
        "case $1 in --version|auth) exit 1;; *) env | grep -E '^(CLAUDE_CODE_)?DISABLE_' | sort > told; {REFUSED_LOGIN};; esac\n"
    );
    environment.script("bin/claude", &tells);
    environment
        .run(&[&["run", "Do the work."], &CHOSEN[..]].concat())
        .expect(69);
    insta::assert_snapshot!(environment.read("told"), @r"
    CLAUDE_CODE_DISABLE_AUTO_MEMORY=1
    CLAUDE_CODE_DISABLE_BACKGROUND_TASKS=1
    DISABLE_AUTO_COMPACT=1
    ");
}

/// The first question finds the other's file only if both are asked at the same time. A machine that is busy
/// may begin them seconds apart; one after the other they never meet.
// shows: RUN-20
#[test]
fn a_client_that_hangs_at_both_questions_holds_nothing_up() {
    let environment = client(TESTED, LOGGED_IN);
    let hangs = format!(
        "case $1 in --version|auth) touch asked$1
until [ -e asked--version ] && [ -e askedauth ]; do sleep 0.02; done
echo $1 >> side-by-side; exec sleep 600;;
*) {REFUSED_LOGIN};; esac
"
    );
    environment.script("bin/claude", &hangs);
    let have_met = || {
        environment.shell("rm -f asked* side-by-side");
        let said = environment
            .run(&[&["run", "Do the work.", "--new"], &CHOSEN[..]].concat())
            .expect(69);
        assert!(said.stdout.contains("session 1"), "it began: {said}");
        environment.read("side-by-side").lines().count() == 2
    };
    assert!((0..5).any(|_| have_met()));
}

/// A person on a terminal is asked what the agent may do, and says everything.
// shows: RUN-21, AGT-13
#[test]
fn everything_is_remembered_for_this_project_only() {
    let environment = client(TESTED, LOGGED_IN)
        .with("IS_SANDBOX", "1")
        .with("ANTHROPIC_BASE_URL", "http://127.0.0.1:9");
    environment.script(
        "bin/claude",
        &format!(
            "case $1 in --version|auth) exit 1;; *) echo \"$*\" > asked; {REFUSED_LOGIN};; esac\n"
        ),
    );
    let question = "1 to 4, or enter to start nothing: ";
    let on_terminal = |dir: &std::path::Path, keys: &str, code: i32| {
        let mut command = environment.command(&["run", "Do the work.", "--new"]);
        command.current_dir(dir);
        let mut pty = Pty::spawn(command).unwrap();
        let is_asked = pty.wait_until(WITHIN, |pty| pty.written().contains(question));
        assert!(is_asked, "{}", pty.written());
        pty.press(keys).unwrap();
        let end = pty.wait(WITHIN).and_then(|end| end.code());
        assert_eq!(end, Some(code), "{}", pty.written());
        pty.written()
    };
    let written = on_terminal(&environment.dir(), "3\n", 69);
    assert!(
        written.contains("remembered: everything, for this project only, in "),
        "{written}"
    );
    assert!(
        environment
            .read("asked")
            .contains("--dangerously-skip-permissions")
    );
    let user = environment.path("home/.config/ekiden/config.toml");
    assert!(!user.exists(), "nothing holds for all projects");
    // Here nobody is asked again; there somebody has to be.
    let again = ["run", "Do the work.", "--new"];
    environment.shell("rm asked");
    environment.run(&again).expect(69);
    assert!(
        environment
            .read("asked")
            .contains("--dangerously-skip-permissions")
    );
    environment.run_in("other", &again).expect(78);
    // A stranger's repository in the project is another project.
    environment.shell("mkdir -p vendor/theirs && git init -q vendor/theirs");
    let theirs = environment.dir().join("vendor/theirs");
    let mut in_theirs = environment.command(&again);
    assert_eq!(
        in_theirs
            .current_dir(&theirs)
            .output()
            .unwrap()
            .status
            .code(),
        Some(78)
    );
    on_terminal(&environment.path("other"), "\n", 78);
    environment
        .run(&["config", "approve", "--remove"])
        .expect(0);
    environment.run(&again).expect(78);
}

/// The words of the client, 2.1.197 and newer.
const NOT_AS_ROOT: &str =
    "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons";

// shows: RUN-20
#[test]
fn what_the_client_refuses_to_root_is_refused_before_the_run() {
    // Nobody else is refused.
    if !rustix::process::getuid().is_root() {
        return;
    }
    let environment = client(TESTED, LOGGED_IN);
    insta::assert_snapshot!(environment.told(&["run", "A task.", "--skip-permissions"]), @r"
    --- standard error
    error: cannot start a session: the agent refuses `--skip-permissions` as root
    hint: run as another user, or choose another mode: `--permission-mode acceptEdits`
    hint: where nothing can be lost, such as a container: `IS_SANDBOX=1` in the environment
    --- exit code 78
    ");
    let mode = ["--permission-mode", "bypassPermissions"];
    environment
        .run(&["run", "A task.", mode[0], mode[1]])
        .expect(78);
    assert_eq!(
        found(&environment, &mode, 78),
        one("permissions", "failure")
    );
    assert!(!environment.exists(".ekiden"), "nothing was begun");
    let environment = environment.with("IS_SANDBOX", "1");
    assert_eq!(found(&environment, &["--skip-permissions"], 0), []);
}

/// Of a wrapper nothing is known before it starts.
// shows: RUN-20
#[test]
fn a_client_that_refuses_its_start_is_not_asked_again() {
    for words in [NOT_AS_ROOT, "error: unknown option '--no-such-flag'"] {
        let environment = Environment::with_git();
        environment.script(
            "box",
            &format!("echo once >> starts; echo \"{words}\" >&2; exit 1\n"),
        );
        let run = [
            "run",
            "A task.",
            "--agent",
            "claude",
            "--agent-command",
            "./box",
        ];
        let said = environment.run(&[&run[..], &CHOSEN].concat()).expect(78);
        assert!(said.stdout.contains(words), "{said}");
        let starts = environment.read("starts");
        // Two for the checks before the run.
        assert_eq!(starts.lines().count(), 3, "{said}");
    }
}

/// Driven by a program, the client does not say so itself, and its rules that deny are gone too.
// shows: RUN-20, AGT-11
#[test]
fn settings_that_the_client_ignores_are_told_before_the_run() {
    let environment = Environment::with_git();
    environment.script("box", "exit 1\n");
    environment.write(".claude/settings.local.json", "{\n  // why\n}\n");
    let warns = |more: &[&str]| {
        let run = [
            "run",
            "A task.",
            "--agent",
            "claude",
            "--agent-command",
            "./box",
        ];
        let said = environment.run(&[&run[..], &CHOSEN, more].concat());
        said.stderr.contains(
            "warning: Claude Code ignores all of .claude/settings.local.json, its permission rules and hooks too: \
             not plain JSON at line 2, column 3",
        )
    };
    assert!(warns(&[]));
    assert!(!warns(&["--isolated", "--new"]), "it is left out anyway");
}

// shows: AGT-13
#[test]
fn tools_without_the_one_that_writes_are_refused() {
    let environment = client(TESTED, LOGGED_IN);
    let tools = [
        "--agent-command",
        "claude --tools Bash,Edit",
        "--agent",
        "claude",
    ];
    let run = [&["run", "A task."], &tools[..], &CHOSEN].concat();
    insta::assert_snapshot!(environment.told(&run), @r"
    --- standard error
    error: no session could write its handoff: `--tools 'Bash,Edit'` leaves `Write` out
    hint: add `Write` to that in the agent's command
    --- exit code 77
    ");
    let found = found(&environment, &[&tools[..], &CHOSEN].concat(), 77);
    assert!(
        found.contains(&one("permissions", "failure")[0]),
        "{found:?}"
    );
}

#[test]
fn a_report_that_cannot_be_printed_says_so_whatever_it_found() {
    let environment = client(TESTED, r#"{"loggedIn":false}"#);
    let doctor = format!("'{}' doctor", env!("CARGO_BIN_EXE_ekiden"));
    let line = format!("{doctor} > /dev/full 2> said; test $? = 69 && grep 'cannot print' said");
    environment.shell(&format!("test ! -e /dev/full || {{ {line}; }}"));
}
