//! A run that a person guides: on a terminal between sessions, and with `ekiden limits` from another.

use std::time::Duration;

use ekiden_testkit::pty::Pty;

use crate::environment::{Environment, items};
use crate::running::wait_until;

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];
const WITHIN: Duration = Duration::from_secs(60);

#[track_caller]
fn shows(pty: &mut Pty, text: &str) {
    let shown = pty.wait_until(WITHIN, |pty| pty.written().contains(text));
    assert!(shown, "`{text}` never came:\n{}", pty.written());
}

/// The countdown is held, the next session is told something, limits change, and the run is left
/// resumably.
// shows: REL-25
#[test]
fn a_person_holds_the_countdown_tells_limits_and_quits() {
    let environment = Environment::new().with("TERM", "xterm");
    environment.write("task.md", &items(10));
    let mut pty = Pty::spawn(environment.command(&[&RUN[..], &["--guided"]].concat())).unwrap();
    shows(&mut pty, "session 2 begins in 10s; enter pauses");
    pty.press("\n").unwrap();
    shows(&mut pty, "held before session 2");
    pty.press("leave the docs alone\n").unwrap();
    shows(&mut pty, "the next session will read: ");
    pty.press("\u{4}-m many\n").unwrap();
    shows(&mut pty, "must be a whole number");
    pty.press("-m 3\n").unwrap();
    shows(&mut pty, "up to session 4");
    pty.press("go\n").unwrap();
    shows(&mut pty, "session 3 begins in 10s");
    pty.press("quit\n").unwrap();
    assert_eq!(
        pty.wait(WITHIN).and_then(|end| end.code()),
        Some(3),
        "{}",
        pty.written()
    );
    shows(&mut pty, "ekiden resume");
    // Nothing moves where somebody types.
    assert!(!pty.written().contains("\u{1b}[J"), "{}", pty.written());
    assert!(
        environment
            .kept(2, "prompt.md")
            .contains("# From the user\n\nleave the docs alone\n\n# Now")
    );
    assert!(!environment.kept(1, "prompt.md").contains("# From the user"));
}

// shows: REL-25
#[test]
fn nobody_guides_without_a_terminal() {
    let environment = Environment::new();
    environment.write("task.md", &items(2));
    insta::assert_snapshot!(environment.told(&[&RUN[..], &["--guided"]].concat()), @r"
    --- standard error
    error: cannot be guided without a terminal
    hint: leave out `--guided`, or set `guided` to false; `ekiden pause` and `ekiden limits` work from any other terminal
    --- exit code 78
    ");
    insta::assert_snapshot!(environment.told(&[&RUN[..], &["--guided", "--json"]].concat()), @r"
    --- standard error
    error: cannot be guided and print JSON lines
    hint: leave out `--json`; or leave out `--guided`, or set `guided` to false
    --- exit code 78
    ");
    assert!(!environment.exists(".ekiden/TASK.md"), "nothing was begun");
}

/// Limits change while a session works, and the run ends by them.
// shows: REL-25
#[test]
fn limits_change_from_another_terminal() {
    let environment = Environment::new();
    let waits = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made";
    environment.write("task.md", &items(10).replacen("echo made", waits, 1));
    let run = environment.start(&[&RUN[..], &["-m", "9"]].concat());
    wait_until("work", || environment.exists("started"));
    insta::assert_snapshot!(environment.told(&["limits"]), @r"
    --- standard error
    error: no limit is named
    hint: such as `ekiden limits -m 20`; `ekiden limits --help` lists them
    --- exit code 2
    ");
    let nobody = ["limits", "--agent-budget", "nobody=1"];
    let said = environment.run(&nobody).expect(78).stderr;
    assert!(said.contains("there is no agent `nobody`"), "{said}");
    environment
        .run(&["limits", "-m", "1", "--session-timeout", "1h"])
        .expect(0);
    environment.write("go", "");
    let said = run.end().expect(3);
    assert!(
        said.stdout
            .contains("limits    from now on up to session 1, 1h a session"),
        "{said}"
    );
    assert!(
        said.stdout.contains("session limit reached after 1 of 1"),
        "{said}"
    );
    insta::assert_snapshot!(environment.told(&["limits", "-m", "5"]), @r"
    --- standard error
    error: run RUN is not running: it stopped early
    hint: `ekiden resume RUN` continues it
    --- exit code 66
    ");
}
