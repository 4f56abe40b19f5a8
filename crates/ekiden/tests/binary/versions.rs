//! Logs of other versions: a newer one is left alone, an old one is read and carried on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::environment::{Environment, items, modes};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

/// Every file below a directory, with its bytes.
fn bytes(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = modes(dir).into_iter().map(|(path, _)| path).filter(|path| path.is_file());
    files.map(|path| (path.clone(), std::fs::read(&path).unwrap())).collect()
}

// shows: DUR-05
#[test]
fn a_log_of_a_newer_version_is_not_written() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    environment.run(&[&RUN[..], &["-m", "1"]].concat()).expect(3);
    let log = environment.run_dir().join("log.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen(r#""version":1"#, r#""version":99"#, 1)).unwrap();
    let published = || bytes(&environment.dir().join(".ekiden"));
    let runs = || bytes(&environment.state().join("runs"));
    let before = (published(), runs());
    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    --- standard error
    error: cannot read `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: it has version 99, this program knows up to 1
    --- exit code 74
    ");
    insta::assert_snapshot!(environment.told(&RUN), @r"
    --- standard error
    error: cannot read `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: it has version 99, this program knows up to 1
    --- exit code 74
    ");
    assert!((published(), runs()) == before, "something was written");

    environment.run(&[&RUN[..], &["--new"]].concat()).expect(0);
    environment.run(&["log", environment.runs().last().unwrap()]).expect(0);
    assert!(before.1.iter().all(|(path, bytes)| std::fs::read(path).unwrap() == *bytes));
    // Today one run that cannot be read hides the others here. It should not.
    environment.run(&["status"]).expect(74);
}

// shows: DUR-05
#[test]
fn an_old_run_can_still_be_read_and_carried_on() {
    let environment = Environment::with_git();
    let run = environment.state().join("runs/bcbe7a44");
    for made_with_the_run in ["inbox", "sessions"] {
        std::fs::create_dir_all(run.join(made_with_the_run)).unwrap();
    }
    std::fs::write(environment.state().join("format"), "{\"format\":\"ekiden-state\",\"version\":1}\n")
        .unwrap();
    std::fs::write(run.join("log.jsonl"), include_str!("fixtures/run-v1.jsonl")).unwrap();
    insta::assert_snapshot!(environment.told(&["log"]), @r#"
    started DATE
    run RUN · relay, at most 1 session · rehearsal, hands off at 60% · task.md
    verification `test -e item-5.txt` fails now, so a later pass ends the run
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 5 done
      next      The item "Item 4", with `echo made > item-4.txt`.
      verify    failed in TIME

    stopped (3): session limit reached after 1 of 1 sessions · TIME · 3 of 5 items done · 4 files not committed
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    to go on:  ekiden resume -m 1
    --- exit code 0
    "#);
    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    run RUN goes on · CLOCK · up to session 2
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says that all is done after TIME · 4 tool calls
      items     5 of 5 done
      verify    passed in TIME

    verified complete · 2 sessions · TIME · 2 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    next       git status
    --- exit code 0
    ");
}
