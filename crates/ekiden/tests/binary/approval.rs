//! A person on a terminal is asked before a plan runs commands that a model wrote.

use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use ekiden_testkit::pty::Pty;

use crate::environment::Environment;

/// Long beside what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
const QUESTION: &str = "Run this plan, commands included, as it is now?";

const PLAN: &str = r#"format = 1
project = "tea"

[[stage]]
id = "S01"
name = "Brew tea"
prompt = "- [ ] Brew\n  ```sh\n  echo tea > tea.txt\n  ```\n"
validation = { kind = "command", command = "test -s tea.txt" }
"#;

const IDEA: &str = "# Tea\n\nA shop for tea.\n\n- [ ] Brew tea\n\n  ```sh\n  echo tea > tea.txt\n  ```\n  ```check\n  test -s \
                    tea.txt\n  ```\n";

fn project() -> Environment {
    let environment = Environment::new().with("TERM", "xterm-256color");
    environment.write("plan.toml", PLAN);
    environment.write("idea.md", IDEA);
    environment
}

fn on_terminal(environment: &Environment, args: &[&str]) -> Pty {
    Pty::spawn(environment.command(&[args, &["--agent", "rehearsal"]].concat())).unwrap()
}

fn is_asked(pty: &mut Pty) -> bool {
    pty.wait_until(PATIENCE, |pty| pty.written().contains(QUESTION))
}

// shows: SEC-09
#[test]
fn settings_that_are_a_link_out_of_the_project_are_not_read() {
    let environment = Environment::new();
    environment.shell("mkdir -p .ekiden && ln -s /etc/passwd .ekiden/config.toml");
    let said = environment.run(&["config", "show"]).expect(78);
    insta::assert_snapshot!(said.stderr, @"
    error: cannot use .ekiden/config.toml as settings: it leads out of the project, to /etc/passwd
    hint: put the settings into the file itself, or into your own config.toml
    ");
    environment.shell("echo 'pause = 3' > mine && ln -sf ../mine .ekiden/config.toml");
    environment.run(&["config", "show"]).expect(0);
}

// shows: SEC-02, RUN-04
#[test]
fn no_settings_are_written_through_a_link_out_of_the_project() {
    let environment = Environment::new();
    environment.write(".casmrc.json", r#"{"model": "sonnet"}"#);
    environment.shell("mkdir ../elsewhere && ln -s ../elsewhere .ekiden");
    let commands: [&[&str]; 2] = [&["import"], &["config", "set", "pause", "3", "--project"]];
    for command in commands {
        let said = environment.run(command).expect(74);
        assert!(
            said.stderr.contains("does not write through links"),
            "{said}"
        );
    }
    let elsewhere = environment.path("elsewhere");
    assert_eq!(elsewhere.read_dir().unwrap().count(), 0);
    environment.shell("rm .ekiden && mkdir .ekiden && echo 'pause = 1' > ../other.toml");
    environment.shell("ln -s ../../other.toml .ekiden/config.toml");
    environment.run(commands[1]).expect(78);
    let other = std::fs::read_to_string(environment.path("other.toml"));
    assert_eq!(other.unwrap(), "pause = 1\n");
}

// shows: SEC-06
#[test]
fn a_limit_that_is_held_back_is_told_before_any_work() {
    let environment = Environment::with_git();
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
    environment.write("plan.toml", PLAN);
    environment.write("idea.md", IDEA);
    environment.write(".ekiden/config.toml", "max_sessions = 40\n");
    environment.commit_all();
    for command in [
        &["execute", "plan.toml", "--dry-run"][..],
        &["build", "idea.md", "--yes"],
        &["dispatch", "--once"],
    ] {
        let said = environment.run(&[command, &["--agent", "rehearsal"]].concat());
        assert!(
            said.stderr
                .contains("would loosen `max_sessions` from 10 to 40"),
            "{said}"
        );
    }
}

// shows: PLN-18
#[test]
fn a_no_starts_nothing_and_a_yes_is_remembered() {
    let environment = project();
    let mut pty = on_terminal(&environment, &["execute", "plan.toml"]);
    assert!(is_asked(&mut pty), "{}", pty.written());
    assert!(
        pty.written().contains("test -s tea.txt"),
        "{}",
        pty.written()
    );
    pty.press("\n").unwrap();
    let is_told = pty.wait_until(PATIENCE, |pty| {
        pty.written().contains("nothing was started")
    });
    assert!(is_told, "{}", pty.written());
    assert_eq!(
        pty.wait(PATIENCE).and_then(|end| end.code()),
        Some(78),
        "{}",
        pty.written()
    );
    assert!(environment.runs().is_empty());

    let mut pty = on_terminal(&environment, &["execute", "plan.toml"]);
    assert!(is_asked(&mut pty), "{}", pty.written());
    pty.press("y\n").unwrap();
    assert_eq!(
        pty.wait(PATIENCE).and_then(|end| end.code()),
        Some(0),
        "{}",
        pty.written()
    );
    assert_eq!(environment.read("tea.txt"), "tea\n");

    let mut pty = on_terminal(&environment, &["execute", "plan.toml"]);
    assert_eq!(
        pty.wait(PATIENCE).and_then(|end| end.code()),
        Some(0),
        "{}",
        pty.written()
    );
    assert!(!pty.written().contains(QUESTION), "{}", pty.written());

    environment.write("plan.toml", &PLAN.replace("test -s", "test -f"));
    let mut pty = on_terminal(&environment, &["execute", "plan.toml"]);
    assert!(
        is_asked(&mut pty),
        "another manifest is approved anew: {}",
        pty.written()
    );
    pty.hang_up();
    assert!(pty.wait(PATIENCE).is_some());
    assert_eq!(environment.runs().len(), 2);
}

// shows: PLN-18
#[test]
fn the_plan_is_shown_where_the_question_is() {
    let environment = project();
    let program = env!("CARGO_BIN_EXE_ekiden");
    let line = format!("{program} execute plan.toml --agent rehearsal > answer");
    let mut pty = Pty::spawn(environment.shell_command(&line)).unwrap();
    assert!(is_asked(&mut pty), "{}", pty.written());
    let shown = pty.written();
    assert!(shown.contains("test -s tea.txt"), "{shown}");
    pty.press("\n").unwrap();
    assert_eq!(pty.wait(PATIENCE).and_then(|end| end.code()), Some(78));
    assert_eq!(environment.read("answer"), "");

    let mut pty = on_terminal(&environment, &["execute", "plan.toml", "--json"]);
    assert_eq!(pty.wait(PATIENCE).and_then(|end| end.code()), Some(78));
    assert!(!pty.written().contains(QUESTION), "{}", pty.written());
}

// shows: PLN-04, PLN-18
#[test]
fn a_person_may_leave_at_the_question_with_the_plan_written() {
    let environment = project();
    let mut pty = on_terminal(&environment, &["build", "idea.md"]);
    assert!(is_asked(&mut pty), "{}", pty.written());
    pty.press("\u{3}").unwrap();
    let end = pty.wait(PATIENCE).unwrap();
    assert!(
        end.signal() == Some(2) || end.code() == Some(130),
        "{end}: {}",
        pty.written()
    );
    assert!(pty.is_sane());
    assert!(environment.exists("plan.json") && environment.exists("architecture.md"));
    assert!(environment.runs().is_empty() && !environment.exists("tea.txt"));

    let mut pty = on_terminal(&environment, &["execute", "plan.json"]);
    assert!(is_asked(&mut pty), "{}", pty.written());
    pty.press("yes\n").unwrap();
    assert_eq!(
        pty.wait(PATIENCE).and_then(|end| end.code()),
        Some(0),
        "{}",
        pty.written()
    );
    assert_eq!(environment.read("tea.txt"), "tea\n");
}
