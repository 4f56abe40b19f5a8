//! A log that was changed since ekiden wrote it is not believed, unless a person says so.

use std::path::PathBuf;
use std::time::Duration;

use ekiden_testkit::pty::Pty;

use crate::environment::{Environment, items};

const WITHIN: Duration = Duration::from_secs(60);

const RUN: [&str; 8] = [
    "run",
    "task.md",
    "--agent",
    "rehearsal",
    "-m",
    "1",
    "--verify",
    "test -e item-5.txt",
];

/// A run that has stopped after its first session, unverified.
fn stopped() -> Environment {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    environment.run(&RUN).expect(3);
    environment
}

impl Environment {
    /// The file in the user's own state directory with the newest run's links.
    fn copy_of_links(&self) -> PathBuf {
        let projects = self.path("home/.local/state/ekiden/projects");
        let project = projects.read_dir().unwrap().next().unwrap().unwrap();
        let chains = project.path().join("chains");
        chains.join(self.runs().last().unwrap())
    }

    pub(crate) fn edit_log(&self, edit: impl FnOnce(String) -> String) {
        let log = self.run_dir().join("log.jsonl");
        let text = std::fs::read_to_string(&log).unwrap();
        let edited = edit(text.clone());
        assert_ne!(text, edited, "the edit changed nothing");
        std::fs::write(&log, edited).unwrap();
    }

    /// The newest run happened a month earlier.
    pub(crate) fn age_log(&self) {
        self.edit_log(|text| {
            let older = |line: &str| match line.split_once("\"time\":") {
                Some((before, rest)) => {
                    let (at, after) = rest.split_once(',').unwrap();
                    let at = at.parse::<u64>().unwrap() - 31 * 24 * 3_600_000;
                    format!("{before}\"time\":{at},{after}\n")
                }
                None => format!("{line}\n"),
            };
            text.lines().map(older).collect()
        });
    }
}

// shows: SEC-08
#[test]
fn a_log_that_was_edited_is_refused_and_shown() {
    let environment = stopped();
    // What makes a run `verified complete`.
    let sed = r#"s/"outcome":{"kind":"failed","code":1}/"outcome":{"kind":"passed"}/"#;
    environment.shell(&format!("sed -i '{sed}' .git/ekiden/root/runs/*/log.jsonl"));
    let log = || std::fs::read(environment.run_dir().join("log.jsonl")).unwrap();
    let before = log();
    insta::assert_snapshot!(environment.told(&["resume", "-m", "2"]), @"
    --- standard error
    error: cannot continue run RUN: its log is not the one that ekiden wrote; record 3 was changed
    hint: `ekiden log RUN` shows it as it is now
    hint: to continue from it as it is now: `ekiden resume RUN --accept-log`
    --- exit code 74
    ");
    environment.run(&["resume", "-r", "1"]).expect(74);
    environment
        .run(&[&RUN[..], &["-r", "1"]].concat())
        .expect(74);
    assert!(log() == before, "a refused log was changed");
    assert!(!environment.exists("item-5.txt"));
    environment
        .run(&["resume", "-r", "1", "--accept-log"])
        .expect(0);
    // Looking is allowed.
    environment.run(&["status"]).expect(0);
    environment.run(&["log"]).expect(0);
}

// shows: SEC-08
#[test]
fn records_that_are_missing_are_noticed() {
    let environment = stopped();
    environment.edit_log(|text| {
        let lines: Vec<&str> = text.lines().collect();
        lines[..lines.len() - 2].join("\n") + "\n"
    });
    insta::assert_snapshot!(environment.told(&["resume", "-m", "2"]), @"
    --- standard error
    error: cannot continue run RUN: its log is not the one that ekiden wrote; records 14 to 15 are missing, or the project was copied before
    hint: `ekiden log RUN` shows it as it is now
    hint: to continue from it as it is now: `ekiden resume RUN --accept-log`
    --- exit code 74
    ");
}

// shows: SEC-08
#[test]
fn a_person_may_accept_the_log_once_and_that_is_recorded() {
    let environment = stopped();
    environment.edit_log(|text| text.replacen("Make the items", "Make all items", 1));
    environment.run(&["resume", "-m", "1"]).expect(74);
    environment
        .run(&["resume", "-m", "1", "--accept-log"])
        .expect(0);
    let log = environment.log();
    let accepted: Vec<_> = log
        .iter()
        .filter(|record| record["event"]["kind"] == "log_accepted")
        .collect();
    assert_eq!(accepted.len(), 1);
    assert_eq!(accepted[0]["event"]["seq"], 1);
    // From now on this is the log.
    environment.run(&["continue", "-f", "task.md"]).expect(3);
}

/// A run that is complete goes on with more work.
// shows: SEC-08
#[test]
fn follow_up_work_does_not_begin_on_a_log_that_was_edited() {
    let environment = stopped();
    environment.run(&["resume", "-m", "2"]).expect(0);
    environment.edit_log(|text| text.replacen("Make the items", "Make all items", 1));
    let log = || std::fs::read(environment.run_dir().join("log.jsonl")).unwrap();
    let sessions = || {
        let sessions = environment.run_dir().join("sessions");
        sessions.read_dir().unwrap().count()
    };
    let before = (log(), sessions());
    let said = environment.run(&["continue", "-f", "task.md"]).expect(74);
    assert!(said.stderr.contains("record 1 was changed"), "{said}");
    assert!((log(), sessions()) == before, "something began");
}

/// The files of the sessions that such a log lacks are still there, and are not overwritten.
// shows: SEC-08, DUR-04
#[test]
fn a_log_put_back_from_a_copy_is_told_and_continues_with_the_next_attempt() {
    let environment = stopped();
    let earlier = std::fs::read_to_string(environment.run_dir().join("log.jsonl")).unwrap();
    environment.run(&["resume", "-m", "2"]).expect(0);
    let prompt = environment.run_dir().join("sessions/2/prompt.md");
    std::fs::write(&prompt, "another prompt").unwrap();
    environment.edit_log(|_| earlier);
    // Or else the resume would find the run's work done.
    environment.shell("rm item-5.txt");
    insta::assert_snapshot!(environment.told(&["resume", "-m", "2", "--accept-log"]), @"
      ! you accepted the log, which was changed from record 16 on
    after your edit, KNOWLEDGE.md has 2 facts
    run RUN continues · CLOCK · up to session 3
    verification `test -e item-5.txt` fails now, so a later pass ends the run
    session 2 · CLOCK
    --- standard error
    error: cannot archive: overwrite `PROJECT/.git/ekiden/root/runs/RUN/sessions/2/prompt.md`: it holds something else, and archives are never overwritten
    hint: if the log was shortened or put back from a copy, `ekiden resume` continues with the next attempt
    --- exit code 74
    ");
    assert_eq!(std::fs::read_to_string(&prompt).unwrap(), "another prompt");
    environment.run(&["resume", "-m", "2"]).expect(0);
}

// shows: SEC-08
#[test]
fn a_copy_of_the_links_that_lags_behind_is_normal() {
    let environment = stopped();
    let copy = environment.copy_of_links();
    let links = std::fs::read_to_string(&copy).unwrap();
    assert_eq!(links.lines().count(), environment.log().len());
    std::fs::write(&copy, &links[..33 * 3 + 7]).unwrap();
    environment.run(&["resume", "-m", "2"]).expect(0);
    let links = std::fs::read_to_string(&copy).unwrap();
    assert_eq!(links.lines().count(), environment.log().len());
}

/// Without the copy an edited log would look like one that was never copied.
// shows: SEC-08, SEC-10
#[test]
fn a_log_without_a_copy_of_its_links_is_not_believed() {
    for lost in ["copy", "emptied", "id", "links and copy"] {
        let environment = stopped();
        match lost {
            "copy" => std::fs::remove_file(environment.copy_of_links()).unwrap(),
            "emptied" => std::fs::write(environment.copy_of_links(), "").unwrap(),
            "id" => std::fs::remove_file(environment.state().join("id")).unwrap(),
            _ => {
                std::fs::remove_file(environment.copy_of_links()).unwrap();
                let strip = r#"s/,"chain":"[0-9a-f]*"}$/}/"#;
                environment.shell(&format!(
                    "sed -i '{strip}' .git/ekiden/root/runs/*/log.jsonl"
                ));
            }
        }
        if lost == "copy" {
            insta::assert_snapshot!(environment.told(&["resume", "-m", "2"]), @"
            --- standard error
            error: cannot use the state in PROJECT/.git/ekiden/root: there is no record outside the log of run RUN that ekiden wrote it
            hint: a state from an archive can name commands, and a run would execute them
            hint: if it is yours, `--trust-state` trusts it here from now on
            --- exit code 78
            ");
        }
        for command in [
            &["resume", "-m", "2"][..],
            &["resume", "-r", "1"],
            &[&RUN[..], &["-r", "1"]].concat(),
        ] {
            let said = environment.run(command).expect(78);
            assert!(said.stderr.contains("--trust-state"), "{lost}: {said}");
        }
        environment.run(&["status"]).expect(0);
        environment
            .run(&["resume", "-m", "2", "--trust-state"])
            .expect(0);
        // From now on this is the log.
        environment.run(&["continue", "-f", "task.md"]).expect(0);
    }
}

// shows: SEC-08, SEC-10
#[test]
fn a_person_is_asked_whether_an_unknown_log_is_believed() {
    let environment = stopped();
    std::fs::remove_file(environment.copy_of_links()).unwrap();
    let answered = |answer: &str| {
        let command = environment.command(&["resume", "-m", "2"]);
        let mut pty = Pty::spawn(command).unwrap();
        let asked = pty.wait_until(WITHIN, |pty| pty.written().contains("Trust it? [y/N]"));
        assert!(asked, "{}", pty.written());
        pty.press(answer).unwrap();
        let end = pty.wait(WITHIN);
        (end.and_then(|end| end.code()), pty.written())
    };
    for no in ["\n", "n\n", "what\n"] {
        let (code, written) = answered(no);
        assert_eq!(code, Some(78), "{written}");
        assert!(!environment.exists("item-5.txt"));
    }
    let (code, written) = answered("y\n");
    assert_eq!(code, Some(0), "{written}");
}

// shows: SEC-07, SEC-10
#[test]
fn a_session_believes_nothing_in_the_place_of_a_person() {
    let environment = stopped();
    std::fs::remove_file(environment.copy_of_links()).unwrap();
    let environment = environment.with("EKIDEN_RUN", "7f3a0b1c");
    insta::assert_snapshot!(environment.told(&["resume", "--trust-state"]), @"
    --- standard error
    error: only a person can trust a state, and this is a session of ekiden
    hint: ask the person who runs it
    --- exit code 77
    ");
    // A terminal of its own makes it no person.
    let mut pty = Pty::spawn(environment.command(&["resume"])).unwrap();
    let end = pty.wait(WITHIN).and_then(|end| end.code());
    assert_eq!(end, Some(78), "{}", pty.written());
}

/// The first run works; nobody can tell later what its log held.
// shows: SEC-08, SEC-10
#[test]
fn where_nothing_can_be_kept_a_run_says_so_and_asks_later() {
    let no_home = |environment: Environment| environment.with("HOME", "");
    let closed = |environment: Environment| environment.with("XDG_STATE_HOME", "/proc/state");
    for environment in [
        no_home(Environment::with_git()),
        closed(Environment::with_git()),
        no_home(Environment::new()),
        closed(Environment::new()),
    ] {
        environment.write("task.md", &items(5));
        let said = environment.run(&RUN).expect(3);
        let told = "cannot keep hashes of this run's log outside of it: ";
        assert!(said.stderr.contains(told), "{said}");
        let said = environment.run(&["resume", "-m", "1"]).expect(78);
        assert!(said.stderr.contains("--trust-state"), "{said}");
        environment
            .run(&["resume", "-m", "2", "--trust-state"])
            .expect(0);
    }
}

/// Somebody restored a file to the wrong place.
// shows: DUR-04
#[test]
fn the_log_of_another_run_is_not_taken_for_a_runs_own() {
    let environment = stopped();
    let log = || environment.run_dir().join("log.jsonl");
    let first = std::fs::read(log()).unwrap();
    environment.run(&[&RUN[..], &["--new"]].concat()).expect(3);
    let run = environment.runs().pop().unwrap();
    std::fs::write(log(), first).unwrap();
    insta::assert_snapshot!(environment.told(&["resume", &run, "-m", "1"]), @r"
    --- standard error
    error: cannot read run RUN: use its log, which is that of run RUN
    hint: put its own log back, or start again with `--new`
    hint: name another run by its id; `ekiden status --all` lists them
    --- exit code 74
    ");
}
