//! Desktop notifications, with a notifier of our own on the path.

use crate::environment::{Environment, items};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];
const NOTIFIER: &str = if cfg!(target_os = "macos") {
    "bin/osascript"
} else {
    "bin/notify-send"
};

/// A desktop whose notifier does this.
fn desktop(does: &str) -> Environment {
    let environment = Environment::new();
    environment.write("task.md", &items(5));
    environment.script(NOTIFIER, does);
    let path = format!(
        "{}:{}",
        environment.dir().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    environment
        .with("PATH", &path)
        .with("DISPLAY", ":7")
        .with("TERM_PROGRAM", "a terminal")
}

const KEEPS: &str = "for word; do last=\"$last | $word\"; done; echo \"$last\" >> notified\n";

// shows: REL-19
#[test]
fn the_end_is_told_once() {
    let environment = desktop(KEEPS);
    let said = environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    assert_eq!(said.stderr, "");
    environment.run(&["resume"]).expect(0);
    let told = environment.read("notified");
    assert_eq!(told.lines().count(), 2, "{told}");
    let run = &environment.runs()[0][..4];
    let ended = "stopped: all its sessions are used";
    let first = format!("| -- | ekiden: project, run {run} | {ended}");
    assert!(told.lines().next().unwrap().ends_with(&first), "{told}");
    assert!(
        told.lines()
            .last()
            .unwrap()
            .ends_with("| complete (not verified) after 2 sessions"),
        "{told}"
    );
}

// shows: MEM-12
#[test]
fn a_question_is_told_without_its_secret() {
    let environment = desktop(KEEPS).with("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml");
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let act = format!(
        "[[act]]\nsession = 1\nat = \"prompt\"\ndo = {{ question = \"May I push with {secret}?\" }}\n"
    );
    environment.write("scenario.toml", &act);
    let run = [&RUN[..], &["--notify-text"]].concat();
    let said = environment.run(&run).expect(4);
    let masked = "May I push with [masked: github token]?";
    assert!(said.stdout.contains(masked), "{said}");
    for file in ["notified", ".ekiden/status.json"] {
        let text = environment.read(file);
        assert!(text.contains(masked) && !text.contains(&secret), "{text}");
    }
    assert!(environment.read(".ekiden/PROGRESS.md").contains(&secret));
}

// shows: REL-19
#[test]
fn a_notifier_that_fails_is_one_warning() {
    let environment = desktop("echo no bus >&2; exit 1\n");
    let said = environment.run(&RUN).expect(0);
    assert_eq!(said.stderr.matches("cannot notify").count(), 1, "{said}");
    assert!(
        said.stderr
            .contains("failed: no bus; `--no-notify` switches that off"),
        "{said}"
    );
}

// shows: REL-19
#[test]
fn nobody_is_told_who_does_not_want_it() {
    let environment = desktop(KEEPS);
    environment
        .run(&[&RUN[..], &["--no-notify"]].concat())
        .expect(0);
    assert!(!environment.exists("notified"));
}

// shows: REL-19
#[test]
fn without_a_desktop_nobody_is_told_and_nothing_is_wrong() {
    let environment = desktop(KEEPS).with("DISPLAY", "").with("TERM_PROGRAM", "");
    assert_eq!(environment.run(&RUN).expect(0).stderr, "");
    assert!(!environment.exists("notified"));
}
