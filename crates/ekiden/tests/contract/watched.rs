//! A session that a person started in the client's own interface, with the guard as `ekiden setup`
//! installs it: over the levels, cleared, and gone on from.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ekiden_testkit::client::{CleanEnvironment, real_client_for};
use ekiden_testkit::messages_api::{Message, MessagesApi, Reply, Request, Usage};
use ekiden_testkit::pty::Pty;
use serde_json::json;

use crate::project::Project;
use crate::stage::Turn;

/// Long beside what anything here takes: the client alone needs seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// What a person had in the settings before: order, blanks and an own hook.
const SETTINGS: &str = "{\n   \"model\": \"claude-haiku-4-5-20251001\",\n\n\t\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"true\"}]}]},\n   \"permissions\": {\"allow\": [\"Bash(ls:*)\"]}\n}";

/// Three calls that fill the window over L1 and L2, and a last word. A conversation that begins with a
/// handoff only says so.
fn model(request: &Request) -> Reply {
    let call = |percent: u64| -> Reply {
        let call = Message::call("Bash", json!({"command": "ls task.md"}));
        call.using(Usage::context(167_000 * percent / 100 + 1)).into()
    };
    match request.answers() {
        _ if request.text().contains("It reads:") => Message::text("going on").into(),
        0 => call(60),
        1 => call(72),
        2 => call(86),
        _ => Message::text("all listed").using(Usage::context(146_000)).into(),
    }
}

fn ekiden(environment: &CleanEnvironment, project: &Project, words: &str) {
    let mut setup = environment.command(&PathBuf::from(env!("CARGO_BIN_EXE_ekiden")));
    let said = setup.args(words.split(' ')).current_dir(project.path()).output().unwrap();
    assert!(said.status.success(), "{words}: {}", String::from_utf8_lossy(&said.stderr));
}

// shows: MON-001, MON-004, CHK-001, CHK-003, HND-07, UIX-06, OPS-02
#[test]
fn levels_show_below_the_prompt_and_after_clear_the_next_conversation_goes_on() {
    let Some(client) = real_client_for("the guard in the client's own interface") else { return };
    let _turn = Turn::wait();
    let project = Project::new();
    let mut git = Command::new("git");
    assert!(git.args(["init", "--quiet"]).current_dir(project.path()).status().unwrap().success());
    project.write("task.md", "List the files.\n");
    let api = MessagesApi::start(model);
    let environment =
        CleanEnvironment::new(&api).unwrap().with("TERM", "xterm-256color").with("NO_COLOR", "1");
    environment.seed_interface(&project.path()).unwrap();
    let settings = environment.home().join(".claude/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, SETTINGS).unwrap();
    ekiden(&environment, &project, "setup");

    let mut command = environment.command(&client);
    command.current_dir(project.path()).args(["--permission-mode", "acceptEdits", "List the files, slowly."]);
    let mut terminal = Pty::spawn(command).unwrap();
    let shown = |terminal: &mut Pty, words: &str| {
        let found = terminal.wait_until(PATIENCE, |terminal| plain(&terminal.written()).contains(words));
        assert!(found, "no `{words}` on the terminal:\n{}", plain(&terminal.written()));
    };
    shown(&mut terminal, "CTX:");
    shown(&mut terminal, "checkpointsequence.");
    shown(&mut terminal, "CKPT:Done");
    shown(&mut terminal, "alllisted");
    terminal.press("/clear\r").unwrap();
    let cleared = |project: &Project| project.path().join(".git/ekiden/root/guard/consumed").exists();
    assert!(terminal.wait_until(PATIENCE, |_| cleared(&project)), "{}", plain(&terminal.written()));
    terminal.press("Go on.").unwrap();
    terminal.press("\r").unwrap();
    shown(&mut terminal, "goingon");
    terminal.press("/exit").unwrap();
    terminal.press("\r").unwrap();
    assert!(terminal.wait(PATIENCE).is_some(), "{}", plain(&terminal.written()));
    assert!(terminal.is_sane());

    ekiden(&environment, &project, "setup --remove");
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), SETTINGS, "byte for byte");
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
            rest.by_ref().find(|c| if long { *c == '\u{7}' } else { c.is_ascii_alphabetic() });
        } else if !c.is_whitespace() && !c.is_control() {
            text.push(c);
        }
    }
    text
}
