//! The guard in the real client: a session that a person started, headless, with our hooks in a settings
//! file as `ekiden setup` writes them.

use std::process::{Command, Output};

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Usage};
use serde_json::{Value, json};

use crate::project::Project;
use crate::stage::Turn;

/// A model, and what counts as usable of its window, in tokens.
type Model = (&'static str, u64);
/// Its window is 200,000 tokens.
const SMALL: Model = ("claude-haiku-4-5-20251001", 167_000);
/// Its window is 1,000,000 tokens.
const LARGE: Model = ("claude-sonnet-5-5", 967_000);

struct Scene {
    project: Project,
    api: MessagesApi,
    environment: CleanEnvironment,
    client: std::path::PathBuf,
    model: &'static str,
    _turn: Turn,
}

impl Scene {
    fn set(
        what: &str,
        (model, _): Model,
        replies: impl FnMut(&Request) -> Reply + Send + 'static,
    ) -> Option<Self> {
        let client = real_client_for(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        for line in ["init --quiet", "config user.email dev@example.com", "config user.name Dev"] {
            let mut git = Command::new("git");
            git.args(line.split(' ')).current_dir(project.path());
            assert!(git.status().unwrap().success(), "git {line}");
        }
        project.write("a.txt", "one\n");
        let api = MessagesApi::start(replies);
        let environment = CleanEnvironment::new(&api).unwrap();
        Some(Self { project, api, environment, client, model, _turn: turn })
    }

    /// One headless session of a person, with our hooks.
    fn session(&self, prompt: &str) -> Output {
        let hook = |event: &str| {
            let command = format!("{} hook {event}", env!("CARGO_BIN_EXE_ekiden"));
            json!([{"hooks": [{"type": "command", "command": command, "timeout": 20}]}])
        };
        let events = [
            "SessionStart",
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolBatch",
            "PreCompact",
            "Stop",
            "SessionEnd",
        ];
        let hooks: serde_json::Map<String, Value> =
            events.into_iter().map(|event| (event.to_owned(), hook(event))).collect();
        let settings = json!({"hooks": hooks}).to_string();
        let mut command = self.environment.command(&self.client);
        command.current_dir(self.project.path()).args(["-p", prompt, "--model", self.model]);
        command.args(["--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"]);
        command.args(["--allowedTools", "Bash(sleep:*)", "--settings", &settings]);
        command.output().unwrap()
    }

    fn log(&self) -> String {
        let dir = self.project.path().join(".git/ekiden/root/guard");
        let logs = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        logs.map(|path| std::fs::read_to_string(path).unwrap()).collect()
    }
}

/// A tool that takes longer than the client takes to write a response into its transcript.
fn shell((_, usable): Model, percent: u64) -> Reply {
    let call = Message::call("Bash", json!({"command": "sleep 0.3"}));
    call.using(Usage::context(usable * percent / 100 + 1)).into()
}

// shows: MON-001, MON-004, CHK-003, HND-07
#[test]
fn levels_are_told_in_the_session_and_the_next_one_goes_on() {
    for model in [SMALL, LARGE] {
        let Some(scene) = Scene::set("the guard over levels", model, replies_over_levels(model)) else {
            return;
        };
        goes_over_levels(&scene);
    }
}

fn replies_over_levels(model: Model) -> impl FnMut(&Request) -> Reply {
    move |request| match request.answers() {
        0 => shell(model, 60),
        1 => shell(model, 71),
        2 => shell(model, 86),
        // The document is written beside the session, which works on until it is told of it.
        3..100 if !request.text().contains(".ekiden/handoffs/") => shell(model, 87),
        _ => Message::text("done").using(Usage::context(model.1 * 9 / 10)).into(),
    }
}

fn goes_over_levels(scene: &Scene) {
    let said = scene.session("List the files, slowly.");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let read: Vec<String> = scene.api.main_requests().iter().map(Request::text).collect();
    let last = read.last().unwrap();
    let log = scene.log();
    assert!(
        last.contains("Much of this session's context is in use"),
        "L1 reaches the agent: {} {log}",
        scene.model
    );
    assert!(last.contains("guard has begun a checkpoint"), "L2 reaches the agent");
    assert!(last.contains(".ekiden/handoffs/"), "and the document: {}", scene.log());
    assert_eq!(last.matches("Much of this session's context is in use").count(), 1);
    scene.session("Go on.");
    let next = scene.api.main_requests().last().unwrap().text();
    assert!(next.contains("It reads:"), "the next session is given the handoff");
}

// shows: CHK-005
#[test]
fn at_l3_the_third_refusal_ends_the_turn() {
    let scene = Scene::set("the guard at L3", SMALL, |request| match request.answers() {
        0 => shell(SMALL, 96),
        _ => shell(SMALL, 97),
    });
    let Some(scene) = scene else { return };
    let said = scene.session("List the files.");
    let results: Vec<_> =
        scene.api.main_requests().iter().map(|request| request.tool_results().len()).collect();
    let out = String::from_utf8_lossy(&said.stdout);
    let refused = scene.log().matches("\"refused\"").count();
    assert_eq!(refused, 3, "{results:?} {out}");
    assert!(scene.log().contains("\"taken\""), "{}", scene.log());
}
