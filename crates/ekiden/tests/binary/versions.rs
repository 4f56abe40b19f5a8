//! Logs of other versions: a newer one is left alone, an old one is read and carried on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::environment::{Environment, items, modes};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

/// Every file below a directory, with its bytes.
fn bytes(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = modes(dir)
        .into_iter()
        .map(|(path, _)| path)
        .filter(|path| path.is_file());
    files
        .map(|path| (path.clone(), std::fs::read(&path).unwrap()))
        .collect()
}

/// The commit is the one of the tree that the tests are built from, where there is one.
// shows: OPS-05
#[test]
fn the_program_names_its_commit_and_its_formats() {
    let environment = Environment::with_git();
    let said = environment.run(&["--version"]).expect(0).stdout;
    let commit = said
        .split_once(" (")
        .unwrap()
        .1
        .split_once(")\n")
        .unwrap()
        .0;
    let (hash, day) = commit.split_once(' ').unwrap();
    assert!(hash == "no" || hash.len() >= 10, "{said}");
    assert!(
        day == "commit" || day.parse::<jiff::civil::Date>().is_ok(),
        "{said}"
    );
    let said = said.replace(commit, "COMMIT");
    insta::assert_snapshot!(said.trim_end(), @r"
    ekiden 0.1.0 (COMMIT)
    formats: ekiden-log 1, ekiden-state 1, ekiden-status 1, ekiden-setup 1, manifest 1, JSON output 1
    ");
    let short = environment.run(&["-V"]).expect(0).stdout;
    assert_eq!(short, "ekiden 0.1.0\n");
}

// shows: DUR-05
#[test]
fn a_log_of_a_newer_version_is_not_written() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let log = environment.run_dir().join("log.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replacen(r#""version":1"#, r#""version":99"#, 1)).unwrap();
    let published = || bytes(&environment.dir().join(".ekiden"));
    let runs = || bytes(&environment.state().join("runs"));
    let before = (published(), runs());
    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    --- standard error
    error: cannot read run RUN: read `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: it has version 99, this program knows up to 1
    hint: nothing was changed; use the newer ekiden
    hint: name another run by its id; `ekiden status --all` lists them
    --- exit code 74
    ");
    insta::assert_snapshot!(environment.told(&RUN), @r"
    --- standard error
    error: cannot tell whether run RUN is finished: read `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: it has version 99, this program knows up to 1
    hint: nothing was changed; use the newer ekiden
    hint: `--new` starts a new run and keeps that one as it is
    --- exit code 74
    ");
    assert!((published(), runs()) == before, "something was written");

    insta::assert_snapshot!(environment.told(&["status"]), @r"
    RUN  relay  unreadable   cannot read `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: it has version 99, this program knows up to 1
    hint  nothing was changed; use the newer ekiden
    --- exit code 0
    ");
    environment.run(&["log"]).expect(74);

    // With another run beside it only what is about that very run fails.
    environment
        .run(&[&RUN[..], &["--new", "-m", "1"]].concat())
        .expect(3);
    assert!(
        before
            .1
            .iter()
            .all(|(path, bytes)| std::fs::read(path).unwrap() == *bytes)
    );
    insta::assert_snapshot!(environment.told(&["status", "--all"]), @r"
    RUN  relay  stopped  session 1 of 1 · CLOCK to CLOCK   all its sessions are used   task.md
    RUN  relay  unreadable   cannot read `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: it has version 99, this program knows up to 1
    hint  nothing was changed; use the newer ekiden
    --- exit code 0
    ");
    environment.run(&["log"]).expect(0);
    environment.run(&["log", &environment.runs()[0]]).expect(74);
    environment.run(&["resume"]).expect(0);
    environment.run(&RUN).expect(0);
}

// shows: DUR-05
#[test]
fn a_damaged_run_hides_no_other() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(2));
    environment.run(&RUN).expect(0);
    environment.run(&RUN).expect(0);
    let log = environment.run_dir().join("log.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    let damaged: Vec<&str> = text
        .lines()
        .enumerate()
        .map(|(n, line)| if n == 4 { "{}" } else { line })
        .collect();
    std::fs::write(&log, damaged.join("\n") + "\n").unwrap();
    insta::assert_snapshot!(environment.told(&["status"]), @r"
    RUN  relay  unreadable   cannot read run RUN: read the log `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: line 5 is not a record: missing field `seq`
    hint  the log was damaged, edited, or written by another version of ekiden, and nothing was changed; use that version, restore the file, or start again with `--new`
    RUN  relay  complete  session 1 of 10 · CLOCK to CLOCK   not verified   task.md
    next  ekiden log RUN
    --- exit code 0
    ");
    insta::assert_snapshot!(environment.told(&["log"]), @r"
    started DATE
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
    --- standard error
    error: cannot read run RUN: read the log `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: line 5 is not a record: missing field `seq`
    hint: the log was damaged, edited, or written by another version of ekiden, and nothing was changed; use that version, restore the file, or start again with `--new`
    hint: name another run by its id; `ekiden status --all` lists them
    --- exit code 74
    ");
    insta::assert_snapshot!(environment.told(&RUN), @r"
    --- standard error
    error: cannot tell whether run RUN is finished: read the log `PROJECT/.git/ekiden/root/runs/RUN/log.jsonl`: line 5 is not a record: missing field `seq`
    hint: the log was damaged, edited, or written by another version of ekiden, and nothing was changed; use that version, restore the file, or start again with `--new`
    hint: `--new` starts a new run and keeps that one as it is
    --- exit code 74
    ");
    // Not even the beginning of it: it counts as the oldest then, and is in nobody's way.
    std::fs::write(&log, "").unwrap();
    environment.run(&["log"]).expect(0);
    environment.run(&RUN).expect(0);
    let status: serde_json::Value =
        serde_json::from_str(&environment.run(&["status", "--json"]).expect(0).stdout).unwrap();
    let states: Vec<&str> = status["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["complete", "complete", "unreadable"]);
}

// shows: DUR-05
#[test]
fn a_run_that_a_wrong_clock_has_dated_ahead_hides_no_later_one() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(2));
    environment.run(&RUN).expect(0);
    let log = environment.run_dir().join("log.jsonl");
    let text = std::fs::read_to_string(&log).unwrap();
    // Some time in 2096.
    std::fs::write(&log, text.replace("\"time\":1", "\"time\":4")).unwrap();
    let first = environment.runs();
    environment.run(&RUN).expect(0);
    for status in [
        &["status", "--json"][..],
        &["status", "--everywhere", "--json"],
    ] {
        let status = environment.run(status).expect(0);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
        let second = status["runs"][0]["run"].as_str().unwrap();
        assert_ne!(second, first[0], "{status}");
    }
}

// shows: DUR-05
#[test]
fn an_old_run_can_still_be_read_and_carried_on() {
    let environment = Environment::with_git();
    let run = environment.state().join("runs/e886ba52");
    for made_with_the_run in ["inbox", "sessions"] {
        std::fs::create_dir_all(run.join(made_with_the_run)).unwrap();
    }
    std::fs::write(
        environment.state().join("format"),
        "{\"format\":\"ekiden-state\",\"version\":1}\n",
    )
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

    stopped (3): session limit reached after 1 of 1 sessions · TIME · 3 of 5 items done · 3 files not committed
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    to continue:  ekiden resume -m 1
    --- exit code 0
    "#);
    // No program of its time kept anything outside of the project by which its log could be told.
    insta::assert_snapshot!(environment.told(&["resume"]), @"
    --- standard error
    error: cannot use the state in PROJECT/.git/ekiden/root: there is no record outside the log of run RUN that ekiden wrote it
    hint: a state from an archive can name commands, and a run would execute them
    hint: if it is yours, `--trust-state` trusts it here from now on
    --- exit code 78
    ");
    // Its prompts had other words. What was recorded counts, and that is told.
    insta::assert_snapshot!(environment.told(&["resume", "--trust-state"]), @r"
      ! ekiden decides otherwise than before from record 3 on
    run RUN continues · CLOCK · up to session 2
    verification `test -e item-5.txt` fails now, so a later pass ends the run
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says all is done after TIME · 4 tool calls
      items     5 of 5 done
      verify    passed in TIME
      ! session 2: the verification passes, but it is not known whether tests were weakened: `git diff` failed: fatal: bad object 6a543486ba12dc9f26be519b0b31c168b82237ad

    verified complete · 2 sessions · TIME · 2 files not committed
    problems   1 session whose tests could not be compared (session 2)
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    ");
    // Only once.
    environment.run(&["continue", "Make tea."]).expect(4);
    let log = std::fs::read_to_string(run.join("log.jsonl")).unwrap();
    assert_eq!(log.matches("logic_changed").count(), 1);
}
