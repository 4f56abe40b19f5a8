//! The guard in the real client: a session that a person started, headless, with our hooks in a settings
//! file as `ekiden setup` writes them.

use std::process::{Command, Output};
use std::time::{Duration, Instant};

use ekiden_testkit::client::{CleanEnvironment, is_too_old, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Usage};
use serde_json::{Value, json};

use crate::project::Project;
use crate::stage::{NEW, PATIENCE, Turn};

/// A model, and what counts as usable of its window, in tokens.
pub(crate) type Model = (&'static str, u64);
/// Its window is 200,000 tokens.
pub(crate) const SMALL: Model = ("claude-haiku-4-5-20251001", 167_000);
/// Its window is 1,000,000 tokens.
const LARGE: Model = ("claude-sonnet-5-5", 967_000);
/// The window of this one is as large in new clients only, which the transcript tells by their version.
const LARGE_ONCE: Model = ("claude-sonnet-5", 167_000);

pub(crate) struct Fixture {
    pub(crate) project: Project,
    pub(crate) api: MessagesApi,
    pub(crate) environment: CleanEnvironment,
    client: std::path::PathBuf,
    model: &'static str,
    _turn: Turn,
}

impl Fixture {
    pub(crate) fn set(
        what: &str,
        (model, _): Model,
        replies: impl FnMut(&Request) -> Reply + Send + 'static,
    ) -> Option<Self> {
        let client = real_client_for(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        for line in [
            "init --quiet",
            "config user.email dev@example.com",
            "config user.name Dev",
        ] {
            let mut git = Command::new("git");
            git.args(line.split(' ')).current_dir(project.path());
            assert!(git.status().unwrap().success(), "git {line}");
        }
        project.write("a.txt", "one\n");
        let api = MessagesApi::start(replies);
        let environment = CleanEnvironment::new(&api).unwrap();
        Some(Self {
            project,
            api,
            environment,
            client,
            model,
            _turn: turn,
        })
    }

    /// One headless session of a person, with our hooks in a settings file.
    fn session(&self, prompt: &str) -> Output {
        self.client(prompt, &["--settings", &settings()])
    }

    pub(crate) fn client(&self, prompt: &str, args: &[&str]) -> Output {
        let mut command = self.environment.command(&self.client);
        command
            .current_dir(self.project.path())
            .args(["-p", prompt, "--model", self.model]);
        command.args([
            "--output-format",
            "stream-json",
            "--verbose",
            "--permission-mode",
            "acceptEdits",
        ]);
        command.args(["--allowedTools=Bash(sleep:*)"]).args(args);
        command.output().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        let dir = self.project.path().join(".git/ekiden/root/guard");
        let logs = std::fs::read_dir(dir)
            .unwrap()
            .flatten()
            .map(|entry| entry.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
        logs.map(|path| std::fs::read_to_string(path).unwrap())
            .collect()
    }
}

/// Our hooks, as `ekiden setup` writes them.
fn settings() -> String {
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
    let hooks: serde_json::Map<String, Value> = events
        .into_iter()
        .map(|event| (event.to_owned(), hook(event)))
        .collect();
    json!({"hooks": hooks}).to_string()
}

/// A tool that takes longer than the client takes to write a response into its transcript.
fn shell((_, usable): Model, percent: u64) -> Reply {
    let call = Message::call("Bash", json!({"command": "sleep 0.3"}));
    call.using(Usage::context(usable * percent / 100 + 1))
        .into()
}

// shows: MON-001, MON-004, CHK-003, HND-07
#[test]
fn levels_are_told_in_the_session_and_the_next_one_goes_on() {
    let why = "its window is 200,000 tokens";
    let is_small = is_too_old(NEW, "the window of a large model", why);
    for model in [SMALL, if is_small { LARGE_ONCE } else { LARGE }] {
        let Some(fixture) =
            Fixture::set("the guard over levels", model, replies_over_levels(model))
        else {
            return;
        };
        goes_over_levels(&fixture);
    }
}

fn replies_over_levels(model: Model) -> impl FnMut(&Request) -> Reply {
    move |request| match request.answers() {
        0 => shell(model, 60),
        1 => shell(model, 71),
        2 => shell(model, 86),
        // The document is written beside the session, which works on until it is told of it.
        3..100 if !request.text().contains(".ekiden/handoffs/") => shell(model, 87),
        _ => Message::text("done")
            .using(Usage::context(model.1 * 9 / 10))
            .into(),
    }
}

fn goes_over_levels(fixture: &Fixture) {
    let said = fixture.session("List the files, slowly.");
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let read: Vec<String> = fixture
        .api
        .main_requests()
        .iter()
        .map(Request::text)
        .collect();
    let last = read.last().unwrap();
    let log = fixture.log();
    assert!(
        last.contains("Much of this session's context is in use"),
        "L1 reaches the agent: {} {log}",
        fixture.model
    );
    assert!(
        last.contains("guard has begun a checkpoint"),
        "L2 reaches the agent"
    );
    assert!(
        last.contains(".ekiden/handoffs/"),
        "and the document: {}",
        fixture.log()
    );
    assert_eq!(
        last.matches("Much of this session's context is in use")
            .count(),
        1
    );
    fixture.session("Go on.");
    let next = fixture.api.main_requests().last().unwrap().text();
    assert!(
        next.contains("It reads:"),
        "the next session is given the handoff"
    );
}

/// The document that the guard names, if it does.
fn document(text: &str) -> Option<String> {
    let from = text.find(".ekiden/handoffs/")?;
    let name = &text[from..];
    Some(name[..name.find(".md")? + 3].to_owned())
}

/// An agent that does not stop by itself is ended once it has written its document.
// shows: RLP-002, RLP-003, RLP-004
#[test]
fn a_session_of_a_loop_ends_at_l2_and_the_prompt_resumes() {
    let fixture = Fixture::set("a loop of a person's own", SMALL, |request| {
        let text = request.text();
        match (request.answers(), document(&text)) {
            (_, _) if text.contains("## CONTEXT CHECKPOINT RESUME") => {
                Message::text("resumed").into()
            }
            (0, _) => shell(SMALL, 60),
            (1..100, Some(path)) if !text.contains("## Blockers") => {
                let read = Message::call("Read", json!({"file_path": path}));
                read.using(Usage::context(SMALL.1 * 87 / 100)).into()
            }
            (1..100, Some(path)) if !text.contains("has been updated") => {
                let edit = json!({"file_path": path, "old_string": "## Blockers", "new_string": "## Blockers\n\n- none"});
                let edit = Message::call("Edit", edit);
                edit.using(Usage::context(SMALL.1 * 87 / 100)).into()
            }
            (1..100, _) => shell(SMALL, 87),
            _ => Message::text("it never ends by itself").into(),
        }
    });
    let Some(fixture) = fixture else { return };
    let ekiden = |words: &[&str], code: i32| {
        let mut command = crate::project::ekiden(&fixture.project);
        command.env_clear().envs(fixture.environment.variables());
        crate::project::expect_exit(command.args(words), code)
    };
    ekiden(&["ralph", "init"], 0);
    fixture
        .project
        .write("fix_plan.md", "- [ ] list the files\n");
    ekiden(&["ralph", "next"], 1);
    let prompt = || fixture.project.read("PROMPT.md");
    let out = fixture.session(&prompt());
    let out = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(fixture.api.main_requests().len() < 50, "{}", fixture.log());
    assert!(
        prompt().contains("\n## CONTEXT CHECKPOINT RESUME\n"),
        "{out}\n{}",
        fixture.log()
    );
    fixture.session(&prompt());
    assert!(
        !prompt().contains("CHECKPOINT RESUME"),
        "the next one left none"
    );
}

// shows: CHK-005
#[test]
fn at_l3_one_call_is_refused_and_the_turn_goes_on() {
    let fixture = Fixture::set("the guard at L3", SMALL, |request| {
        match request.answers() {
            0 => shell(SMALL, 96),
            1..4 => shell(SMALL, 97),
            _ => Message::text("done").into(),
        }
    });
    let Some(fixture) = fixture else { return };
    let said = fixture.session("List the files.");
    let out = String::from_utf8_lossy(&said.stdout);
    let log = fixture.log();
    assert_eq!(log.matches("\"refused\"").count(), 1, "{out}");
    assert!(log.contains("\"taken\""), "{log}");
    let last = fixture.api.main_requests().last().unwrap().text();
    assert!(
        last.contains("Not run, this one time"),
        "the agent reads why"
    );
    assert_eq!(fixture.api.main_requests().len(), 5, "{out}");
}

/// The window for compaction in these tests, and what counts as usable of it, in tokens.
const COMPACTED: (&str, u64) = ("150000", 117_000);

/// Fills the window over L3, so that the client compacts; then works on in what is left.
fn over_a_compaction() -> impl FnMut(&Request) -> Reply {
    let mut asked = 0;
    move |_| {
        asked += 1;
        match asked {
            1..5 => shell((SMALL.0, COMPACTED.1), 30),
            5 => shell((SMALL.0, COMPACTED.1), 101),
            6..9 => shell((SMALL.0, COMPACTED.1), 20),
            _ => Message::text("done").into(),
        }
    }
}

/// What was due before a compaction ends no turn after it, and refuses nothing.
// shows: CHK-10, MON-004, CHK-005
#[test]
fn after_a_compaction_the_agent_works_on() {
    let plugin = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugin");
    let settings = settings();
    for installed in [["--settings", &settings], ["--plugin-dir", plugin]] {
        let Some(mut fixture) = Fixture::set("a compaction", SMALL, over_a_compaction()) else {
            return;
        };
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_ekiden"));
        let path = format!(
            "{}:{}",
            program.parent().unwrap().display(),
            std::env::var("PATH").unwrap()
        );
        fixture.environment = fixture
            .environment
            .with("CLAUDE_CODE_AUTO_COMPACT_WINDOW", COMPACTED.0)
            .with("PATH", path);
        let said = fixture.client("List the files.", &installed);
        let out = String::from_utf8_lossy(&said.stdout);
        assert_eq!(out.matches("compact_boundary").count(), 1, "{out}");
        let (log, requests) = (fixture.log(), fixture.api.main_requests());
        let read = requests.last().unwrap().text();
        // The client keeps the newest messages as they are. If the order is among them, the last word is that there is room.
        let last = |words: &str| read.rfind(words);
        let (room, order) = (
            last("There is room again"),
            last("After that the turn ends"),
        );
        assert!(room.is_some() && order < room, "{log}\n{read}");
        // The plugin's mod sees L3 before the client compacts, and refuses that call.
        let refused = usize::from(log.contains("\"refused\""));
        assert!(refused == 0 || installed[0] == "--plugin-dir", "{log}");
        // What the agent reads of that may be in what was compacted right after it.
        let is_read = |request: &Request| request.text().contains("Not run, this one time");
        let is_read = fixture.api.requests().iter().any(is_read);
        assert_eq!(is_read, refused > 0, "{log}\n{read}");
        assert_eq!(requests.len(), 9, "{out}");
    }
}

/// The client calls the Stop hook before it has written the response that ends the turn.
// shows: CHK-003, MON-001
#[test]
fn a_turn_that_ends_above_l2_is_judged_by_its_last_response() {
    let fixture = Fixture::set("the end of a turn", SMALL, |request| {
        match request.answers() {
            0 => shell(SMALL, 60),
            _ => Message::text("done")
                .using(Usage::context(SMALL.1 * 87 / 100 + 1))
                .into(),
        }
    });
    let Some(fixture) = fixture else { return };
    let told = fixture.session("List the files.");
    let until = Instant::now() + PATIENCE;
    while !fixture.log().contains("\"taken\"") {
        assert!(Instant::now() < until, "{}\n{told:?}", fixture.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(
        fixture.log().contains("\"percent\":87"),
        "{}",
        fixture.log()
    );
}
