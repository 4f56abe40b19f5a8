//! Desktop notifications, with a notifier of our own on the path.

use crate::environment::{Environment, items};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];
const NOTIFIER: &str = if cfg!(target_os = "macos") { "bin/osascript" } else { "bin/notify-send" };

/// A desktop whose notifier does this.
fn desktop(does: &str) -> Environment {
    let environment = Environment::new();
    environment.write("task.md", &items(5));
    environment.script(NOTIFIER, does);
    let path = format!("{}:{}", environment.dir().join("bin").display(), std::env::var("PATH").unwrap());
    environment.with("PATH", &path).with("DISPLAY", ":7").with("TERM_PROGRAM", "a terminal")
}

const KEEPS: &str = "for word; do last=\"$last | $word\"; done; echo \"$last\" >> notified\n";

// shows: REL-19
#[test]
fn the_end_is_told_once() {
    let environment = desktop(KEEPS);
    let said = environment.run(&[&RUN[..], &["-m", "1"]].concat()).expect(3);
    assert_eq!(said.stderr, "");
    environment.run(&["resume"]).expect(0);
    let told = environment.read("notified");
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(
        told.lines()
            .next()
            .unwrap()
            .ends_with("| -- | ekiden: project | stopped: all sessions are used, 1 in all")
    );
    assert!(
        told.lines().last().unwrap().ends_with("| complete, as the agent says, after 2 sessions"),
        "{told}"
    );
}

// shows: REL-19
#[test]
fn a_notifier_that_fails_is_one_warning() {
    let environment = desktop("echo no bus >&2; exit 1\n");
    let said = environment.run(&RUN).expect(0);
    assert_eq!(said.stderr.matches("cannot notify").count(), 1, "{said}");
    assert!(said.stderr.contains("failed: no bus; `--no-notify` switches that off"), "{said}");
}

// shows: REL-19
#[test]
fn nobody_is_told_who_does_not_want_it() {
    let environment = desktop(KEEPS);
    environment.run(&[&RUN[..], &["--no-notify"]].concat()).expect(0);
    assert!(!environment.exists("notified"));
}

// shows: REL-19
#[test]
fn without_a_desktop_nobody_is_told_and_nothing_is_wrong() {
    let environment = desktop(KEEPS).with("DISPLAY", "").with("TERM_PROGRAM", "");
    assert_eq!(environment.run(&RUN).expect(0).stderr, "");
    assert!(!environment.exists("notified"));
}
