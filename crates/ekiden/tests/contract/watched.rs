//! A session that a person started in the client's own interface, with the guard as `ekiden setup`
//! installs it: over the levels, cleared, and gone on from.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ekiden_testkit::client::{CleanEnvironment, is_too_old, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Usage};
use ekiden_testkit::pty::Pty;
use serde_json::json;

use crate::project::Project;
use crate::stage::{NEW, Turn};

/// Long beside what anything here takes: the client alone needs seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long the effect of typed words is waited for before they are typed again, and how often.
const TYPED_PATIENCE: Duration = Duration::from_secs(10);
const TYPED_MAX: usize = 9;
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
            plain(&terminal.screen()).contains(words)
        });
        assert!(
            found,
            "no `{words}` on the terminal:\n{}",
            self.terminal.screen()
        );
    }

    /// Clears, and asks the new conversation to go on.
    fn goes_on(&mut self) {
        let guard = self.project.path().join(".git/ekiden/root/guard");
        self.types_until("/clear", |_| {
            let logs = guard.read_dir().into_iter().flatten().flatten();
            let texts = logs.map(|log| std::fs::read_to_string(log.path()).unwrap_or_default());
            texts.into_iter().any(|text| text.contains("\"loaded\""))
        });
        self.types_until("Go on.", |terminal| {
            plain(&terminal.screen()).contains("goingon")
        });
    }

    fn leaves(mut self) -> (Project, CleanEnvironment, PathBuf) {
        self.types_until("/exit", |terminal| {
            terminal.wait(Duration::from_millis(1)).is_some()
        });
        assert!(self.terminal.is_sane());
        (self.project, self.environment, self.settings)
    }

    /// Types it, and again where the client lost some of it: 2.1.197 does while it draws its screen anew. Before that,
    /// ctrl-u clears what may stand in its line.
    #[track_caller]
    fn types_until(&mut self, words: &str, mut so: impl FnMut(&mut Pty) -> bool) {
        let is_so = (0..TYPED_MAX).any(|_| {
            for keys in ["\u{15}", words, "\r"] {
                // A person is slower than that.
                std::thread::sleep(Duration::from_millis(200));
                // The client may be gone, which is what was wanted.
                let _ = self.terminal.press(keys);
            }
            self.terminal.wait_until(TYPED_PATIENCE, &mut so)
        });
        let shown = self.terminal.screen();
        assert!(is_so, "nothing came of `{words}`:\n{shown}");
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

/// Without blanks and line ends, since the client breaks lines where it likes.
/// A turn that ends over L2 without a call.
fn ends_over_l2(request: &Request) -> Reply {
    let words = match request.answers() {
        0 => "all listed",
        _ => "filled in",
    };
    Message::text(words).using(Usage::context(146_000)).into()
}

/// The document comes after the turn has ended, and the agent is asked for its part all the same.
// shows: AGT-18
#[test]
fn an_idle_session_is_asked_for_its_document_and_a_draft_survives() {
    let what = "an order to an idle session";
    if is_too_old(NEW, what, "there are no mods") {
        return;
    }
    let Some(mut person) = Person::sits_down(what, ends_over_l2) else {
        return;
    };
    person.reads("alllisted");
    person.terminal.press("a draft of mine").unwrap();
    person.reads("Promptfromtheekiden-modplugin");
    person.reads("filledin");
    person.reads("adraftofmine");
    person.leaves();
}

/// Over L2, then nothing for as long as anybody waits.
fn stalls_over_l2(request: &Request) -> Reply {
    match request.answers() {
        0 => list(86),
        _ => Reply::Stall,
    }
}

/// No hook is called at the end of a turn that a person interrupts.
// shows: CHK-08
#[test]
fn a_due_checkpoint_is_taken_after_a_turn_is_interrupted() {
    let what = "an interrupted turn";
    if is_too_old(NEW, what, "there are no mods") {
        return;
    }
    let Some(mut person) = Person::sits_down(what, stalls_over_l2) else {
        return;
    };
    person.reads("[CKPT:Due]");
    person.terminal.press("\u{1b}").unwrap();
    person.reads("[CKPT:Done]");
    person.leaves();
}

fn plain(shown: &str) -> String {
    shown.split_whitespace().collect()
}
