//! A session that a person started in the client's own interface, with the guard as `ekiden setup`
//! installs it: over the levels, cleared, and gone on from.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Usage};
use ekiden_testkit::pty::Pty;
use serde_json::json;

use crate::project::Project;
use crate::stage::Turn;

/// Long beside what anything here takes: the client alone needs seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long a typed `/exit` is waited for before it is typed again, and how often.
const EXIT_PATIENCE: Duration = Duration::from_secs(10);
const EXITS_MAX: usize = 9;
/// What a person had in the settings before: order, blanks and an own hook.
const SETTINGS: &str = "{\n   \"model\": \"claude-haiku-4-5-20251001\",\n\n\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"true\"}]}]},\n   \"permissions\": {\"allow\": [\"Bash(sleep:*)\"]}\n}";

/// A tool that takes longer than the client takes to write a response into its transcript.
fn list(percent: u64) -> Reply {
    let call = Message::call("Bash", json!({"command": "sleep 0.3"}));
    call.using(Usage::context(167_000 * percent / 100 + 1))
        .into()
}

/// Three calls that fill the window over L1 and L2, and a last word. A conversation that begins with a
/// handoff only says so.
fn over_l2(request: &Request) -> Reply {
    match request.answers() {
        _ if request.text().contains("It reads:") => Message::text("going on").into(),
        0 => list(60),
        1 => list(72),
        2 => list(86),
        _ => Message::text("all listed")
            .using(Usage::context(146_000))
            .into(),
    }
}

/// Calls over L3 one after the other: nothing is handed off.
fn deaf_over_l3(request: &Request) -> Reply {
    match request.answers() {
        _ if request.text().contains("It reads:") => Message::text("going on").into(),
        0..5 => list(96),
        _ => Message::text("all listed").into(),
    }
}

/// A person at the client, with the guard set up.
struct Person {
    project: Project,
    environment: CleanEnvironment,
    settings: PathBuf,
    terminal: Pty,
    _api: MessagesApi,
    _turn: Turn,
}

impl Person {
    fn sits_down(what: &str, model: fn(&Request) -> Reply) -> Option<Self> {
        let client = real_client_for(what)?;
        let turn = Turn::wait();
        let project = Project::new();
        let mut git = Command::new("git");
        assert!(
            git.args(["init", "--quiet"])
                .current_dir(project.path())
                .status()
                .unwrap()
                .success()
        );
        project.write("task.md", "List the files.\n");
        let api = MessagesApi::start(model);
        let environment = CleanEnvironment::new(&api)
            .unwrap()
            .with("TERM", "xterm-256color")
            .with("NO_COLOR", "1");
        environment.seed_interface(&project.path()).unwrap();
        let settings = environment.home().join(".claude/settings.json");
        std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
        std::fs::write(&settings, SETTINGS).unwrap();
        ekiden(&environment, &project, "setup");
        let mut command = environment.command(&client);
        let words = [
            "--permission-mode",
            "acceptEdits",
            "List the files, slowly.",
        ];
        command.current_dir(project.path()).args(words);
        let terminal = Pty::spawn(command).unwrap();
        Some(Self {
            project,
            environment,
            settings,
            terminal,
            _api: api,
            _turn: turn,
        })
    }

    #[track_caller]
    fn reads(&mut self, words: &str) {
        let found = self.terminal.wait_until(PATIENCE, |terminal| {
            plain(&terminal.written()).contains(words)
        });
        assert!(
            found,
            "no `{words}` on the terminal:\n{}",
            plain(&self.terminal.written())
        );
    }

    /// Clears, and asks the new conversation to go on.
    fn goes_on(&mut self) {
        self.terminal.press("/clear\r").unwrap();
        let guard = self.project.path().join(".git/ekiden/root/guard");
        let is_loaded = || {
            let logs = guard.read_dir().into_iter().flatten().flatten();
            let texts = logs.map(|log| std::fs::read_to_string(log.path()).unwrap_or_default());
            texts.into_iter().any(|text| text.contains("\"loaded\""))
        };
        let cleared = self.terminal.wait_until(PATIENCE, |_| is_loaded());
        assert!(cleared, "{}", plain(&self.terminal.written()));
        self.types("Go on.");
        // 2.1.197 loses what is typed while it clears its screen.
        let mut typed = Instant::now();
        let answered = self.terminal.wait_until(PATIENCE, |terminal| {
            if typed.elapsed() > Duration::from_secs(3) {
                typed = Instant::now();
                terminal
                    .press("Go on.")
                    .and_then(|()| terminal.press("\r"))
                    .unwrap();
            }
            plain(&terminal.written()).contains("goingon")
        });
        assert!(answered, "{}", plain(&self.terminal.written()));
    }

    fn leaves(mut self) -> (Project, CleanEnvironment, PathBuf) {
        // What was typed once more than the client took still stands in its line: ctrl-u clears it.
        let over = std::iter::repeat_with(|| {
            self.types("\u{15}/exit");
            self.terminal.wait(EXIT_PATIENCE).is_some()
        });
        assert!(
            over.take(EXITS_MAX).any(|over| over),
            "{}",
            plain(&self.terminal.written())
        );
        assert!(self.terminal.is_sane());
        (self.project, self.environment, self.settings)
    }

    fn types(&mut self, words: &str) {
        self.terminal.press(words).unwrap();
        self.terminal.press("\r").unwrap();
    }
}

fn ekiden(environment: &CleanEnvironment, project: &Project, words: &str) {
    let mut setup = environment.command(&PathBuf::from(env!("CARGO_BIN_EXE_ekiden")));
    let said = setup
        .args(words.split(' '))
        .current_dir(project.path())
        .output()
        .unwrap();
    assert!(
        said.status.success(),
        "{words}: {}",
        String::from_utf8_lossy(&said.stderr)
    );
}

// shows: MON-001, MON-004, CHK-001, CHK-003, HND-07, UIX-06, OPS-02
#[test]
fn levels_show_below_the_prompt_and_after_clear_the_next_conversation_goes_on() {
    let Some(mut person) = Person::sits_down("the guard in the client's own interface", over_l2)
    else {
        return;
    };
    for words in ["CTX:", "checkpointsequence.", "Done]", "alllisted"] {
        person.reads(words);
    }
    person.goes_on();
    let (project, environment, settings) = person.leaves();
    ekiden(&environment, &project, "setup --remove");
    assert_eq!(
        std::fs::read_to_string(&settings).unwrap(),
        SETTINGS,
        "byte for byte"
    );
}

// shows: CHK-005, MON-004, HND-07
#[test]
fn at_l3_the_person_reads_how_to_go_on_and_the_next_conversation_does() {
    let Some(mut person) = Person::sits_down("L3 in the client's own interface", deaf_over_l3)
    else {
        return;
    };
    person.reads("soekidenrefusedonecall");
    person.reads("alllisted");
    person.goes_on();
    person.leaves();
}

/// What was written without what moves the cursor and without blanks, which the client leaves to it. What
/// stands there already it does not write again, so words may lack letters.
fn plain(written: &str) -> String {
    let mut text = String::new();
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // A sequence ends with its first letter; those that name the window end with a bell.
            let long = rest.next() == Some(']');
            rest.by_ref().find(|c| {
                if long {
                    *c == '\u{7}'
                } else {
                    c.is_ascii_alphabetic()
                }
            });
        } else if !c.is_whitespace() && !c.is_control() {
            text.push(c);
        }
    }
    text
}
