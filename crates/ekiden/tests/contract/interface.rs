//! The real client in its own interface, on a terminal.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ekiden_testkit::client::{CleanEnvironment, is_too_old, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Usage};
use ekiden_testkit::pty::Pty;
use serde_json::{Value, json};

use crate::acting::{call, leave_work, ordered};
use crate::project::{Project, course, session_dir, text_of};
use crate::relay::{answer, hand_off, session_of, with_client};
use crate::stage::{NEW, Turn};

/// Long beside what anything here takes: the client alone needs seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A model that reads its prompt where it is told to, and then works as it does headless.
///
/// It answers at once, so the client may run the hook after its calls before it has written their response into its
/// transcript, from which the context is read (2.1.197 does). The order then comes with a later hook.
fn model(dir: PathBuf) -> impl FnMut(&Request) -> Reply + Send + 'static {
    move |request| {
        let text = request.text();
        let is_written = dir.join(".ekiden/handoff/PROGRESS.md").exists();
        match request.answers() {
            0 => prompt_of(&text).into(),
            4.. if ordered(request) && !is_written => hand_off(&dir, session_of(&text)).into(),
            answers => answer(&dir, &text, answers - 1).into(),
        }
    }
}

/// The end of what is on a terminal: all of it would fill the report of a failure.
fn last_words(pty: &Pty) -> String {
    let written = pty.written();
    written[written.floor_char_boundary(written.len().saturating_sub(3_000))..].to_owned()
}

fn prompt_of(text: &str) -> Message {
    let (before, _) = text.split_once(" with your Read tool").unwrap();
    let path = before.rsplit("Read ").next();
    Message::call("Read", json!({"file_path": path})).using(Usage::context(15_000))
}

struct Fixture {
    project: Project,
    api: MessagesApi,
    environment: CleanEnvironment,
    _turn: Turn,
}

impl Fixture {
    fn new(model: impl FnOnce(PathBuf) -> Box<dyn FnMut(&Request) -> Reply + Send>) -> Self {
        let turn = Turn::wait();
        let project = Project::new();
        let mut model = model(project.path());
        let api = MessagesApi::start(move |request| model(request));
        let environment = CleanEnvironment::new(&api)
            .unwrap()
            .with("TERM", "xterm-256color")
            .with("NO_COLOR", "1");
        let names = [
            "GIT_AUTHOR_NAME",
            "GIT_COMMITTER_NAME",
            "GIT_AUTHOR_EMAIL",
            "GIT_COMMITTER_EMAIL",
        ];
        let environment = names.iter().fold(environment, |environment, name| {
            environment.with(name, "test@example.invalid")
        });
        environment.seed_interface(&project.path()).unwrap();
        project.write("task.md", "Make three items.\n");
        Self {
            project,
            api,
            environment,
            _turn: turn,
        }
    }

    fn start(&self, client: &Path, more: &[&str]) -> Pty {
        Pty::spawn(self.command(client, more)).unwrap()
    }

    fn command(&self, client: &Path, more: &[&str]) -> Command {
        let mut command = with_client(&self.project, &self.environment, client);
        command.args([
            "run",
            "task.md",
            "--tui",
            "--permission-mode",
            "acceptEdits",
        ]);
        command.args(["--allowed-tool", "Bash(stty:*)"]).args(more);
        command
    }

    /// The same, started by a shell with job control that takes it back to the foreground once it is
    /// stopped.
    /// In a shell with job control, which then goes on like this.
    fn start_in_shell(&self, client: &Path, then: &str) -> Pty {
        let inner = self.command(client, &[]);
        let mut shell = Command::new("sh");
        shell.args([
            "-m",
            "-c",
            &format!(r#""$@"; echo "stopped with $?"; {then}"#),
            "sh",
        ]);
        shell
            .arg(inner.get_program())
            .args(inner.get_args())
            .current_dir(self.project.path())
            .env_clear();
        shell.envs(
            inner
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        Pty::spawn(shell).unwrap()
    }
}

// shows: AGT-02, AGT-12, REL-02, REL-03, REL-07
#[test]
fn three_sessions_in_the_clients_own_interface() {
    let Some(client) = real_client_for("the relay in the client's own interface") else {
        return;
    };
    let fixture = Fixture::new(|dir| Box::new(model(dir)));
    let mut pty = fixture.start(&client, &["-g", "--verify", "test -f item-3.txt"]);
    let end = pty.wait(PATIENCE);
    assert_eq!(
        end.and_then(|end| end.code()),
        Some(0),
        "{}",
        last_words(&pty)
    );
    assert!(
        pty.written().contains("verified complete · 3 sessions"),
        "{}",
        pty.written()
    );
    assert!(pty.is_sane());
    let log = fixture.project.log();
    for session in [1, 2] {
        let course = course(&log, session.into());
        assert_eq!(course.last().unwrap(), "ended \"completed\"", "{course:?}");
        assert!(
            course.contains(&"message_delivered".to_owned()),
            "{course:?}"
        );
        assert!(
            session_dir(&fixture.project, session)
                .join("events.jsonl")
                .exists()
        );
    }
    let commits = log
        .iter()
        .filter(|record| record["event"]["event"]["outcome"]["commit"]["kind"] == "made")
        .count();
    assert_eq!(commits, 3, "each session is committed");
    assert!(
        text_of(&session_dir(&fixture.project, 2).join("prompt.md")).contains("This is session 2.")
    );
    assert!(
        fixture
            .api
            .main_requests()
            .iter()
            .all(|request| request.system().contains("# Working in a relay"))
    );
}

/// A model that reads its prompt, runs three commands, the last of which reaches for the terminal, and
/// then only talks: the turn ends early, and goes on twice.
fn talker() -> impl FnMut(&Request) -> Reply + Send + 'static {
    let run = |command: &str| Message::call("Bash", json!({"command": command})).into();
    move |request| match request.answers() {
        0 => prompt_of(&request.text()).into(),
        1 => run("ls task.md"),
        2 => run("cat no-such-file"),
        3 => run("stty raw -echo < /dev/tty"),
        _ => Message::text("What shall I do?")
            .using(Usage::context(16_000))
            .into(),
    }
}

fn draws_on_the_main_screen() -> bool {
    is_too_old(NEW, "the alternate screen", "it is not used")
}

/// The alternate screen was entered and left, and the terminal is as a shell wants it.
fn check_terminal(pty: &Pty) {
    let written = pty.written();
    let (entered, left) = (
        written.rfind("\u{1b}[?1049h"),
        written.rfind("\u{1b}[?1049l"),
    );
    assert!(
        left > entered || draws_on_the_main_screen(),
        "the main screen is back: {written}"
    );
    assert!(
        written.rfind("\u{1b}[?25h") > written.rfind("\u{1b}[?25l"),
        "the cursor is back: {written}"
    );
    assert!(pty.is_sane(), "{written}");
}

/// Until the agent has asked its person three times. Counted in requests: the client writes only what differs on the
/// screen, so words that stand there were perhaps never written as such.
fn wait_for_talk(fixture: &Fixture, pty: &mut Pty) {
    let asked = |request: &Request| request.answers() == 7;
    let spoken = fixture.api.wait_for(PATIENCE, asked).is_some()
        && pty.wait_until(PATIENCE, |pty| pty.screen().contains("What shall I do?"));
    assert!(spoken, "{}", pty.written());
}

// shows: AGT-02, RUN-11
#[test]
fn who_leaves_without_a_handoff_stops_the_run() {
    let Some(client) = real_client_for("leaving the client's own interface") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let mut pty = fixture.start(&client, &[]);
    wait_for_talk(&fixture, &mut pty);
    pty.resize(40, 120).unwrap();
    leave(&mut pty);
    let end = pty.wait(PATIENCE);
    assert_eq!(end.and_then(|end| end.code()), Some(3), "{}", pty.written());
    assert!(pty.written().contains("ekiden resume"), "{}", pty.written());
    check_terminal(&pty);
    let log = fixture.project.log();
    assert_eq!(course(&log, 1).last().unwrap(), "ended \"person_left\"");
    check_traces(&log);
}

/// Nothing would watch the other conversation, nor keep it from ekiden's own files.
// shows: AGT-02, AGT-13
#[test]
fn who_clears_the_conversation_stops_the_run() {
    let Some(client) = real_client_for("clearing the conversation") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let mut pty = fixture.start(&client, &[]);
    wait_for_talk(&fixture, &mut pty);
    type_in(&mut pty, "/clear");
    let end = pty.wait(PATIENCE);
    assert_eq!(end.and_then(|end| end.code()), Some(3), "{}", pty.written());
    assert!(
        pty.written().contains("another conversation was opened"),
        "{}",
        pty.written()
    );
    check_terminal(&pty);
    let log = fixture.project.log();
    assert_eq!(course(&log, 1).last().unwrap(), "ended \"person_left\"");
}

fn leave(pty: &mut Pty) {
    type_in(pty, "/exit");
}

fn type_in(pty: &mut Pty, command: &str) {
    for key in [command, "\r"] {
        pty.press(key).unwrap();
        std::thread::sleep(Duration::from_millis(700));
    }
}

/// What the commands came to is taken from the transcript.
fn check_traces(log: &[Value]) {
    let ended = log
        .iter()
        .rfind(|record| record["event"]["event"]["event"]["kind"] == "ended")
        .unwrap();
    let traces = &ended["event"]["event"]["event"]["traces"];
    assert_eq!(traces["succeeded"], json!(["ls task.md"]));
    let failed: Vec<&Value> = traces["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|failed| &failed["command"])
        .collect();
    assert_eq!(failed, ["cat no-such-file", "stty raw -echo < /dev/tty"]);
    assert_eq!(traces["last_words"], "What shall I do?");
}

/// Nobody types, and no hook comes: the mod submits the request, and where there are no mods the client is started anew
/// with it after a minute. Then the session is rescued.
// shows: AGT-02, AGT-18, REL-04, REL-05
#[test]
fn an_agent_that_waits_for_nobody_is_asked_and_rescued() {
    let Some(client) = real_client_for("a silent person at the client's own interface") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let hook = |command: &str| json!([{"hooks": [{"type": "command", "command": command}]}]);
    let hooks = json!({"SessionStart": hook("echo start >> starts"),
        "UserPromptSubmit": hook("echo prompt >> prompts")});
    let settings = json!({ "hooks": hooks }).to_string();
    fixture.project.write(".claude/settings.json", &settings);
    let mut pty = fixture.start(&client, &["-m", "1"]);
    let end = pty.wait(2 * PATIENCE);
    assert_eq!(end.and_then(|end| end.code()), Some(3), "{}", pty.written());
    check_terminal(&pty);
    let course = course(&fixture.project.log(), 1);
    let delivered = course.iter().filter(|event| *event == "message_delivered");
    assert_eq!(delivered.count(), 2, "{course:?}");
    assert_eq!(course.last().unwrap(), "ended \"completed\"", "{course:?}");
    assert_eq!(started(&fixture.project.log()), 1, "it is one attempt");
    let prompts = fixture.project.read("prompts").lines().count();
    assert_eq!(prompts, 3, "the hook of a prompt shows that it is there");
    let starts = fixture.project.read("starts").lines().count();
    let is_old = is_too_old(NEW, "a request by the mod", "there are no mods");
    assert_eq!(starts, if is_old { 3 } else { 1 }, "{course:?}");
}

/// The order reaches a client that works on and on, and its handoff ends the session.
// shows: AGT-02, REL-15
#[test]
fn a_session_whose_time_is_up_hands_off() {
    let Some(client) = real_client_for("the end of a session's time in the client's own interface")
    else {
        return;
    };
    let fixture = Fixture::new(|dir| {
        let handoff = dir.join(".ekiden/handoff").display().to_string();
        Box::new(move |request| match request.answers() {
            0 => prompt_of(&request.text()).into(),
            _ if ordered(request) => leave_work(request, &handoff),
            _ => {
                std::thread::sleep(Duration::from_millis(500));
                call().into()
            }
        })
    });
    let mut pty = fixture.start(&client, &["-m", "1", "--session-timeout", "8s"]);
    let end = pty.wait(PATIENCE);
    assert_eq!(end.and_then(|end| end.code()), Some(3), "{}", pty.written());
    check_terminal(&pty);
    let course = course(&fixture.project.log(), 1);
    let order = course
        .iter()
        .find(|event| event.starts_with("say"))
        .unwrap();
    assert!(order.contains("please hand off now"), "{course:?}");
    assert_eq!(course.last().unwrap(), "ended \"completed\"", "{course:?}");
    assert!(
        !course.iter().any(|event| event == "level L1"),
        "{course:?}"
    );
}

fn started(log: &[Value]) -> usize {
    log.iter().filter(|record| is_start(record)).count()
}

// shows: AGT-02, RUN-09
#[test]
fn ctrl_c_leaves_a_sane_terminal() {
    let Some(client) = real_client_for("ctrl-c in the client's own interface") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let mut pty = fixture.start(&client, &[]);
    wait_for_talk(&fixture, &mut pty);
    // One clears what was typed, two in a row leave. Once the client has left the terminal, they would be signals to ekiden.
    let gone = pty.wait_until(PATIENCE, |pty| {
        let pressed = pty.is_sane() || pty.press("\u{3}").is_ok();
        !pressed || pty.wait(Duration::from_millis(200)).is_some()
    });
    assert!(gone, "{}", pty.written());
    check_terminal(&pty);
    assert_eq!(
        course(&fixture.project.log(), 1).last().unwrap(),
        "ended \"person_left\""
    );
}

// shows: AGT-02
#[test]
fn a_suspended_client_comes_back() {
    let Some(client) = real_client_for("a suspended client") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let mut pty = fixture.start_in_shell(&client, r#"fg; echo "over with $?""#);
    wait_for_talk(&fixture, &mut pty);
    pty.press("\u{1a}").unwrap();
    let back = pty.wait_until(PATIENCE, |pty| {
        let written = pty.written();
        written
            .find("stopped with")
            .is_some_and(|at| written[at..].contains('❯'))
    });
    assert!(back, "{}", pty.written());
    leave(&mut pty);
    let over = pty.wait_until(PATIENCE, |pty| pty.written().contains("over with 3"));
    assert!(over, "{}", pty.written());
    check_terminal(&pty);
}

// shows: AGT-02
#[test]
fn a_client_that_is_killed_while_suspended_leaves_the_terminal_to_the_shell() {
    let Some(client) = real_client_for("a client that is killed while suspended") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let mut pty = fixture.start_in_shell(&client, r#"read line; echo "the shell read $line""#);
    wait_for_talk(&fixture, &mut pty);
    pty.press("\u{1a}").unwrap();
    let stopped = pty.wait_until(PATIENCE, |pty| pty.written().contains("stopped with"));
    assert!(stopped, "{}", pty.written());
    let shell = pty.foreground();
    kill(agent_of(&fixture.project, 0));
    // The keepers go once the terminal is in order; the shell and the stopped engine stay.
    let gone = pty.wait_until(PATIENCE, |pty| pty.processes().len() <= 2);
    assert!(gone, "{:?}", pty.processes());
    assert_eq!(pty.foreground(), shell);
    pty.press("hello\r").unwrap();
    let read = pty.wait_until(PATIENCE, |pty| {
        pty.written().contains("the shell read hello")
    });
    assert!(read, "{}", pty.written());
}

// shows: AGT-02, RUN-10
#[test]
fn a_client_that_is_killed_leaves_a_sane_terminal() {
    let Some(client) = real_client_for("a killed client in its own interface") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let mut pty = fixture.start(&client, &[]);
    wait_for_talk(&fixture, &mut pty);
    kill(agent_of(&fixture.project, 0));
    let second = pty.wait_until(PATIENCE, |_| {
        fixture
            .project
            .log()
            .iter()
            .filter(|record| is_start(record))
            .count()
            == 2
    });
    assert!(second, "a second attempt begins: {}", pty.written());
    let written = pty.written();
    let screens: Vec<_> = written
        .match_indices("\u{1b}[?1049")
        .map(|(at, _)| &written[at + 7..=at + 7])
        .collect();
    assert!(
        screens.starts_with(&["h", "l"]) || draws_on_the_main_screen(),
        "the killed client's screen is left: {written}"
    );
    kill(pty.pid());
    let gone = pty.wait_until(Duration::from_secs(20), |pty| {
        let agent = agent_of(&fixture.project, 1);
        !Path::new(&format!("/proc/{agent}")).exists() && pty.wait(Duration::ZERO).is_some()
    });
    assert!(gone, "nothing outlives a killed ekiden: {}", pty.written());
}

// shows: RUN-10, RUN-11, RUN-18
#[test]
fn a_window_that_is_closed_stops_the_run() {
    let Some(client) = real_client_for("a closed window in the client's own interface") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let mut pty = fixture.start(&client, &[]);
    wait_for_talk(&fixture, &mut pty);
    pty.hang_up();
    let end = pty.wait(Duration::from_secs(20));
    assert_eq!(end.and_then(|end| end.code()), Some(3), "{}", pty.written());
    assert_eq!(pty.processes(), [0; 0], "nothing is left");
    assert_eq!(
        course(&fixture.project.log(), 1).last().unwrap(),
        "ended \"stopped\""
    );
}

/// A connection hangs, and ekiden is killed: the keepers do not wait in a write for ever.
// shows: RUN-10
#[test]
fn nothing_outlives_a_killed_ekiden_on_a_terminal_that_takes_nothing() {
    let Some(client) = real_client_for("a terminal that takes nothing") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(talker()));
    let mut pty = fixture.start(&client, &[]);
    wait_for_talk(&fixture, &mut pty);
    pty.stall().unwrap();
    kill(pty.pid());
    let gone = pty.wait_until(Duration::from_secs(5), |pty| {
        pty.wait(Duration::ZERO);
        pty.processes().is_empty()
    });
    assert!(gone, "{:?}", pty.processes());
}

fn is_start(record: &serde_json::Value) -> bool {
    record["event"]["event"]["event"]["kind"] == "started"
}

fn agent_of(project: &Project, attempt: usize) -> u32 {
    let log = project.log();
    let started = log
        .iter()
        .filter(|record| is_start(record))
        .nth(attempt)
        .unwrap();
    u32::try_from(started["event"]["event"]["event"]["pid"].as_u64().unwrap()).unwrap()
}

fn kill(pid: u32) {
    let done = std::process::Command::new("kill")
        .args(["-KILL", &pid.to_string()])
        .status()
        .unwrap();
    assert!(done.success());
}

// shows: AGT-03
#[test]
fn hooks_that_are_switched_off_stay_off() {
    let Some(client) = real_client_for("the client's own interface without hooks") else {
        return;
    };
    let fixture = Fixture::new(|dir| {
        Box::new(move |request: &Request| match request.answers() {
            0 => prompt_of(&request.text()).into(),
            1 => crate::relay::hand_off(&dir, 3)
                .using(Usage::context(30_000))
                .into(),
            _ => Message::text("Done.").using(Usage::context(31_000)).into(),
        })
    });
    fixture.project.write(
        ".claude/settings.local.json",
        r#"{"disableAllHooks": true}"#,
    );
    let mut pty = fixture.start(&client, &["--allowed-tool", "Read"]);
    let end = pty.wait(PATIENCE);
    assert_eq!(
        end.and_then(|end| end.code()),
        Some(0),
        "{}",
        last_words(&pty)
    );
    assert!(
        pty.written()
            .contains("watched through its transcript alone"),
        "{}",
        pty.written()
    );
}

/// The client is in ekiden's own process group there, and in that of whatever the person started with it.
// shows: AGT-02, RUN-10
#[test]
fn a_client_that_must_be_killed_takes_nobody_with_it() {
    let Some(client) = real_client_for("a client that does not heed SIGTERM") else {
        return;
    };
    let fixture = Fixture::new(|dir| Box::new(model(dir)));
    let deaf = fixture.project.path().with_extension("deaf");
    let script = format!("#!/bin/sh\ntrap '' TERM\n'{}' \"$@\"\n", client.display());
    std::fs::write(&deaf, script).unwrap();
    std::fs::set_permissions(&deaf, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut pty = fixture.start(&deaf, &[]);
    let end = pty.wait(PATIENCE);
    std::fs::remove_file(&deaf).unwrap();
    assert_eq!(
        end.and_then(|end| end.code()),
        Some(0),
        "{}",
        last_words(&pty)
    );
}

/// The client shows a menu and waits for a person; the relay waits for the reset.
// shows: AGT-02, REL-11
#[test]
fn a_usage_limit_is_taken_from_the_transcript() {
    let why = "no reset stands in the transcript, so the run waits for five minutes";
    if is_too_old(NEW, "a usage limit in the client's own interface", why) {
        return;
    }
    let Some(client) = real_client_for("a usage limit in the client's own interface") else {
        return;
    };
    let fixture = Fixture::new(|_| Box::new(|_: &Request| crate::ends::limit("five_hour", "5h")));
    let environment = fixture
        .environment
        .with("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-fake")
        .without("ANTHROPIC_API_KEY");
    let fixture = Fixture {
        environment,
        ..fixture
    };
    let mut pty = fixture.start(&client, &["--max-wait", "1h"]);
    let end = pty.wait(PATIENCE);
    assert_eq!(end.and_then(|end| end.code()), Some(3), "{}", pty.written());
    let cause =
        json!({"rate_limited": {"kind": "five_hour", "resets_at": crate::ends::RESET * 1000}});
    let transcript = std::fs::read_to_string(session_dir(&fixture.project, 1).join("events.jsonl"));
    let last = course(&fixture.project.log(), 1).pop().unwrap();
    assert_eq!(last, format!("ended {cause}"), "{transcript:?}");
    check_terminal(&pty);
}
