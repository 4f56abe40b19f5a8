//! The guard as the real client sees it: the plugin, and what `ekiden setup` installs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ekiden_testkit::client::{CleanEnvironment, is_too_old, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request};
use serde_json::json;

use crate::looks::{load_tools, offered_by_servers};
use crate::project::Project;
use crate::stage::{NEW, Turn};

/// The repository, whose root is a marketplace with one plugin.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_owned()
}

/// A client in a home of its own, and a stand-in for `ekiden` that only writes down how it is called.
struct Fixture {
    project: Project,
    api: MessagesApi,
    environment: CleanEnvironment,
    client: PathBuf,
    _turn: Turn,
}

impl Fixture {
    /// A fixture whose model answers with one command, then with a word. Nothing without the client.
    fn set(what: &str, command: impl Fn(&Path) -> String) -> Option<Self> {
        Self::of(what, |project| {
            let command = command(project);
            move |request: &Request| -> Reply {
                let input = json!({"command": command, "description": "ekiden"});
                match request.answers() {
                    0 => Message::call("Bash", input).into(),
                    _ => Message::text("done").into(),
                }
            }
        })
    }

    /// A fixture with a model made for its project.
    fn of<M: FnMut(&Request) -> Reply + Send + 'static>(
        what: &str,
        model: impl FnOnce(&Path) -> M,
    ) -> Option<Self> {
        let client = real_client_for(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        let api = MessagesApi::start(model(&project.path()));
        let path = format!(
            "{}:{}",
            project.path().join("bin").display(),
            std::env::var("PATH").unwrap()
        );
        let environment = CleanEnvironment::new(&api).unwrap().with("PATH", path);
        let fixture = Self {
            project,
            api,
            environment,
            client,
            _turn: turn,
        };
        fixture.stand_in("bin/ekiden");
        Some(fixture)
    }

    /// Puts the stand-in at a place of the project.
    fn stand_in(&self, name: &str) {
        let calls = self.project.path().join("calls");
        let script = format!("#!/bin/sh\necho \"$@\" >> '{}'\n", calls.display());
        self.project.write(name, &script);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.project.path().join(name), mode).unwrap();
    }

    /// The client with these arguments, to its end: what it printed.
    fn client(&self, args: &[&str]) -> String {
        let mut command = self.environment.command(&self.client);
        expect_done(command.args(args).current_dir(self.project.path()))
    }

    /// How the stand-in was called, in order, but for servers, which the client starts at any time, and for the mod, which
    /// gets no answer and leaves everything to the hooks.
    fn calls(&self) -> Vec<String> {
        let calls = self.project.read("calls");
        let of_hooks = |call: &&str| !call.starts_with("mcp") && !call.contains("--mod");
        calls.lines().filter(of_hooks).map(str::to_owned).collect()
    }
}

#[track_caller]
fn expect_done(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

// shows: OPS-03
#[test]
fn the_clients_own_validator_accepts_plugin_and_marketplace() {
    let Some(fixture) = Fixture::set("the plugin", |_| String::new()) else {
        return;
    };
    // 2.1.197 knows no types of a mod, and passes over them with a warning.
    let is_old = is_too_old(NEW, "a strict look at the plugin", "mods are unknown");
    let strict = (!is_old).then_some("--strict");
    let setup = &mut fixture
        .environment
        .command(env!("CARGO_BIN_EXE_ekiden").as_ref());
    expect_done(setup.arg("setup").current_dir(fixture.project.path()));
    let of_setup = fixture.environment.home().join(".claude/ekiden");
    for (name, text) in ekiden_agent::terminal::MOD {
        fixture.project.write(&format!("terminal/{name}"), text);
    }
    let of_terminal = fixture.project.path().join("terminal/mod");
    let plugin = repository().join("plugin");
    for dir in [
        plugin,
        repository(),
        of_setup.join("mod"),
        of_setup,
        of_terminal,
    ] {
        let words = ["plugin", "validate", dir.to_str().unwrap()];
        let words: Vec<&str> = words.into_iter().chain(strict).collect();
        let said = fixture.client(&words);
        assert!(said.contains("Validation passed"), "{said}");
    }
    assert!(fixture.api.requests().is_empty());
}

// shows: AGT-18
#[test]
fn the_mods_own_tests_pass_in_the_clients_test_runner() {
    let Some(fixture) = Fixture::set("the plugin", |_| String::new()) else {
        return;
    };
    if is_too_old(NEW, "the mod's own tests", "mods are unknown") {
        return;
    }
    let plugin = repository().join("plugin");
    let said = fixture.client(&["plugin", "test", plugin.to_str().unwrap()]);
    assert!(said.contains("4 pass") && said.contains("0 fail"), "{said}");
}

// shows: OPS-03, CHK-12
#[test]
fn the_plugin_has_its_hooks_called_and_its_skill_may_run_the_program() {
    let command = |_: &Path| "ekiden handoff".to_owned();
    let Some(fixture) = Fixture::set("the plugin", command) else {
        return;
    };
    let plugin = repository().join("plugin");
    fixture.client(&[
        "-p",
        "/ekiden:handoff be brief",
        "--plugin-dir",
        plugin.to_str().unwrap(),
    ]);
    assert_eq!(
        fixture.calls(),
        [
            "hook SessionStart --plugin",
            "hook UserPromptSubmit --plugin",
            "hook PreToolUse --plugin",
            "handoff",
            "hook PostToolBatch --plugin",
            "hook Stop --plugin",
            "hook SessionEnd --plugin",
        ]
    );
    let asked = fixture.api.main_requests()[0].text();
    assert!(
        asked.contains("Words of the user for the handoff, if any: be brief"),
        "{asked}"
    );
}

// shows: RLP-007, RLP-008, OPS-03
#[test]
fn the_skill_of_a_loop_looks_and_checkpoints_unasked() {
    for word in ["context", "checkpoint"] {
        let command = move |_: &Path| format!("ekiden ralph {word}");
        let Some(fixture) = Fixture::set("the skill of a loop", command) else {
            return;
        };
        let plugin = repository().join("plugin");
        let asked = format!("/ekiden:ralph {word}");
        fixture.client(&["-p", &asked, "--plugin-dir", plugin.to_str().unwrap()]);
        let call = format!("ralph {word}");
        assert!(fixture.calls().contains(&call), "{:?}", fixture.calls());
    }
}

// shows: OPS-02, OPS-03, MEM-09
#[test]
fn the_server_of_setup_and_that_of_the_plugin_serve_a_session_once_and_unasked() {
    let plugin = repository().join("plugin");
    let plugin = ["--plugin-dir", plugin.to_str().unwrap()];
    let cases: [(Option<&str>, bool, &str); 5] = [
        (Some("--user"), false, "mcp__ekiden__"),
        (Some("--project"), false, "mcp__ekiden__"),
        (None, true, "mcp__plugin_ekiden_ekiden__"),
        (Some("--user"), true, "mcp__ekiden__"),
        (Some("--project"), true, "mcp__ekiden__"),
    ];
    for (scope, with_plugin, prefix) in cases {
        let tool = format!("{prefix}get_recent_context");
        let model = move |request: &Request| -> Reply {
            match request.answers() {
                0 => load_tools(&tool).into(),
                1 => Message::call(&tool, json!({"limit": 5})).into(),
                _ => Message::text("done").into(),
            }
        };
        let Some(fixture) = Fixture::of("the MCP server", |_| model) else {
            return;
        };
        std::fs::remove_file(fixture.project.path().join("bin/ekiden")).unwrap();
        std::os::unix::fs::symlink(
            env!("CARGO_BIN_EXE_ekiden"),
            fixture.project.path().join("bin/ekiden"),
        )
        .unwrap();
        if let Some(scope) = scope {
            let mut setup = fixture
                .environment
                .command(Path::new(env!("CARGO_BIN_EXE_ekiden")));
            expect_done(
                setup
                    .args(["setup", scope])
                    .current_dir(fixture.project.path()),
            );
        }
        let plugin = if with_plugin { &plugin[..] } else { &[] };
        fixture.client(&[&["-p", "Remember the attempt lock."], plugin].concat());
        let requests = fixture.api.main_requests();
        let offered = offered_by_servers(&requests[0]);
        assert_eq!(offered.len(), 8, "{scope:?}: {offered:?}");
        assert!(
            offered.iter().all(|tool| tool.starts_with(prefix)),
            "{offered:?}"
        );
        let results = requests[2].tool_results();
        let result = &results[results.len() - 1];
        assert!(!result.is_error, "{scope:?}: {}", result.text);
        assert!(
            result.text.contains("\n¦ ") && result.text.contains("Remember the attempt lock."),
            "{scope:?}: {}",
            result.text
        );
    }
}

// shows: OPS-02, CHK-12
#[test]
fn what_setup_installs_is_called_once_by_the_real_client() {
    let program = |project: &Path| project.join("my tools/ekiden");
    let command = move |project: &Path| format!("'{}' orient", program(project).display());
    let Some(fixture) = Fixture::set("the guard in the settings", command) else {
        return;
    };
    let program = program(&fixture.project.path());
    std::fs::create_dir(program.parent().unwrap()).unwrap();
    // By another process: what this one had open for writing could not be executed while another test forks.
    let copied = Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_ekiden"))
        .arg(&program)
        .status();
    assert!(copied.unwrap().success());
    for scope in ["--user", "--project"] {
        let mut setup = fixture.environment.command(&program);
        expect_done(
            setup
                .args(["setup", scope])
                .current_dir(fixture.project.path()),
        );
    }
    std::fs::remove_file(&program).unwrap();
    fixture.stand_in("my tools/ekiden");
    fixture.client(&["-p", "/orient"]);
    assert_eq!(
        fixture.calls(),
        [
            "hook SessionStart",
            "hook UserPromptSubmit",
            "hook PreToolUse",
            "orient",
            "hook PostToolBatch",
            "hook Stop",
            "hook SessionEnd",
        ]
    );
}
