//! The guard as the real client sees it: the plugin, and what `ekiden setup` installs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request};
use serde_json::json;

use crate::project::Project;
use crate::stage::Turn;

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
        let client = real_client_for(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        let command = command(&project.path());
        let api = MessagesApi::start(move |request: &Request| -> Reply {
            match request.answers() {
                0 => Message::call("Bash", json!({"command": command, "description": "ekiden"}))
                    .into(),
                _ => Message::text("done").into(),
            }
        });
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

    /// How the stand-in was called, in order.
    fn calls(&self) -> Vec<String> {
        self.project
            .read("calls")
            .lines()
            .map(str::to_owned)
            .collect()
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
    for dir in [repository().join("plugin"), repository()] {
        let said = fixture.client(&["plugin", "validate", dir.to_str().unwrap(), "--strict"]);
        assert!(said.contains("Validation passed"), "{said}");
    }
    assert!(fixture.api.requests().is_empty());
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
    std::fs::copy(env!("CARGO_BIN_EXE_ekiden"), &program).unwrap();
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
