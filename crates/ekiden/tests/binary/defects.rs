//! Defects of the programs before ekiden that only the whole program can show to be gone. The others
//! stand with the code that has to do without them; `docs/design/testing.md` lists them all.

use std::process::Command;

use crate::environment::{Environment, items};

const REHEARSAL: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

/// A directory in which nothing was run before has no knowledge to count.
// defect: W1
#[test]
fn a_fresh_directory_has_its_sessions() {
    let environment = Environment::new();
    environment.write("task.md", &items(2));
    let said = environment.run(&REHEARSAL).expect(0);
    assert!(said.stdout.contains("session 1"), "{said}");
    assert_eq!(environment.read("item-2.txt"), "made\n");
}

/// All texts are in the program: it needs no file beside it.
// defect: W11
#[test]
fn the_program_works_wherever_it_is_copied_to() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    let copy = environment.path("copied");
    // Copied by another process: children that other tests fork meanwhile would inherit our open file for a moment, and
    // what is open for writing cannot be executed.
    environment.shell(&format!(
        "cp '{}' '{}'",
        env!("CARGO_BIN_EXE_ekiden"),
        copy.display()
    ));
    let mut command = Command::new(&copy);
    command
        .args(REHEARSAL)
        .current_dir(environment.dir())
        .env_clear();
    let done = command
        .env("PATH", std::env::var("PATH").unwrap())
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert_eq!(environment.read("item-1.txt"), "made\n");
}

/// A verification that checks nothing is a mistake, and told before anything runs.
// defect: W12
#[test]
fn an_empty_verification_is_refused() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    insta::assert_snapshot!(environment.told(&[&REHEARSAL[..], &["--verify", " "]].concat()), @r"
    --- standard error
    error: `--verify` must be a text that is not empty, not ` `
    --- exit code 2
    ");
    assert!(!environment.exists(".ekiden"));
}

/// What an earlier run or another program left says nothing of this one.
// defect: a stale ALL_COMPLETE ends a new run at once
// shows: REL-03
#[test]
fn a_completion_that_lay_there_before_is_not_believed() {
    let environment = Environment::new();
    environment.write("task.md", &items(4));
    for name in [
        ".ekiden/handoff/PROGRESS.md",
        ".ekiden/PROGRESS.md",
        "PROGRESS.md",
    ] {
        environment.write(name, "STATUS: ALL_COMPLETE\n\n## Done\n\nall\n");
    }
    environment.run(&REHEARSAL).expect(0);
    assert_eq!(environment.read("item-4.txt"), "made\n");
}

/// The marker that the user chose ends the run; the usual one is then a word without a meaning.
// defect: W14
// shows: REL-09
#[test]
fn a_marker_of_the_users_own_is_honoured() {
    let environment = Environment::new();
    environment.write("task.md", &items(4));
    let said =
        environment.run(&[&REHEARSAL[..], &["--completion-marker", "ALL_FILES_DONE"]].concat());
    assert!(
        said.clone()
            .expect(0)
            .stdout
            .contains("complete (not verified)"),
        "{said}"
    );
    assert!(
        environment
            .read(".ekiden/PROGRESS.md")
            .starts_with("STATUS: ALL_FILES_DONE\n")
    );
    assert_eq!(environment.read("item-4.txt"), "made\n");
}
