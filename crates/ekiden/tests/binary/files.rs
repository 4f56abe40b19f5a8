//! What is on the disk during a run and after it, and whose word counts there.

use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Environment, items, modes, slow_items};
use crate::running::wait_until;

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

fn status(environment: &Environment) -> Value {
    serde_json::from_str(&environment.read(".ekiden/status.json")).unwrap()
}

/// The value without what differs from run to run.
fn normal(environment: &Environment, mut status: Value) -> String {
    assert_eq!(status["run"], **environment.runs().last().unwrap());
    assert_eq!(status["work_dir"], environment.dir().to_str().unwrap());
    let time = status["updated_at"].as_str().unwrap().to_owned();
    assert_eq!(time.len(), "2026-11-21T20:04:00Z".len(), "{time}");
    for (key, name) in [
        ("run", "RUN"),
        ("work_dir", "PROJECT"),
        ("updated_at", "TIME"),
    ] {
        status[key] = name.into();
    }
    serde_json::to_string_pretty(&status).unwrap()
}

// shows: REL-20
#[test]
fn status_json_tells_other_programs_how_it_stands() {
    let environment = Environment::with_git();
    environment.write("task.md", &slow_items(1));
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    insta::assert_snapshot!(normal(&environment, status(&environment)), @r#"
    {
      "completion_marker": "ALL_COMPLETE",
      "format": "ekiden-status",
      "format_version": 1,
      "max_sessions": 10,
      "message": "Session #1 active",
      "run": "RUN",
      "session": 1,
      "status": "running",
      "tool": "ekiden",
      "updated_at": "TIME",
      "version": "0.1.0",
      "work_dir": "PROJECT"
    }
    "#);
    run.signal(Signal::TERM);
    run.end().expect(143);
    assert_eq!(status(&environment)["status"], "paused");
    environment.run(&["resume"]).expect(0);
    insta::assert_snapshot!(normal(&environment, status(&environment)), @r#"
    {
      "completion_marker": "ALL_COMPLETE",
      "format": "ekiden-status",
      "format_version": 1,
      "max_sessions": 10,
      "message": "All done",
      "run": "RUN",
      "session": 1,
      "status": "complete",
      "tool": "ekiden",
      "updated_at": "TIME",
      "version": "0.1.0",
      "work_dir": "PROJECT"
    }
    "#);

    environment.write("task.md", &items(9));
    let mut run = environment.start(&[&RUN[..], &["--new"]].concat());
    while !run.is_over() {
        assert!(
            ["running", "complete"].contains(&status(&environment)["status"].as_str().unwrap())
        );
    }

    let word = |args: &[&str], code| {
        environment
            .run(&[&RUN[..], &["--new"], args].concat())
            .expect(code);
        status(&environment)["status"].clone()
    };
    environment.write("task.md", &items(5));
    assert_eq!(word(&["-m", "1"], 3), "max_sessions");
    assert_eq!(
        word(
            &["--verify", "[ -e item-5.txt -a -e .ekiden/PROGRESS.md ]"],
            0
        ),
        "verified_complete"
    );
}

// shows: REL-21, REL-01
#[test]
fn each_session_keeps_what_it_saw_and_what_it_left() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    let said = environment
        .run(&[&RUN[..], &["--verify", "[ -e item-5.txt ]"]].concat())
        .expect(0);
    let in_dir = |dir: &Path| {
        let mut names: Vec<String> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort_unstable();
        names.join("\n")
    };
    let names = |session| in_dir(&environment.session(session));
    assert_eq!(in_dir(environment.session(1).parent().unwrap()), "1\n2");
    insta::assert_snapshot!(names(1), @r"
    events.jsonl
    knowledge.md
    next_prompt.md
    progress.md
    prompt.md
    verify.log
    ");
    insta::assert_snapshot!(names(2), @r"
    events.jsonl
    knowledge.md
    progress.md
    prompt.md
    verify.log
    ");
    assert!(
        environment
            .kept(1, "prompt.md")
            .starts_with("# Task\n\nMake the items.")
    );
    assert!(
        environment
            .kept(2, "prompt.md")
            .contains("¦ - [x] Item 1\n")
    );
    assert!(environment.kept(1, "progress.md").contains("- [x] Item 1"));
    assert_eq!(
        environment.kept(2, "progress.md"),
        environment.read(".ekiden/PROGRESS.md")
    );
    for line in environment.kept(1, "events.jsonl").lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
    let told_again = environment.run(&["log"]).expect(0).stdout;
    let (first, rest) = told_again.split_once('\n').unwrap();
    assert!(first.starts_with("started "), "{first}");
    assert_eq!(
        rest, said.stdout,
        "the log tells the run again, word for word"
    );
    let through_link = environment
        .dir()
        .join(".ekiden/runs")
        .join(&environment.runs()[0])
        .join("log.jsonl");
    assert!(through_link.is_file());
}

// shows: OPS-04
#[test]
fn git_sees_the_settings_and_nothing_else_of_ours() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    environment.commit_all();
    environment.run(&RUN).expect(0);
    environment.git(&["clean", "--quiet", "--force"]);
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    environment.write(".ekiden/config.toml", "pause = 1\n");
    let untracked = || environment.git(&["status", "--porcelain", "--untracked-files=all"]);
    assert_eq!(untracked(), "?? .ekiden/config.toml\n");
    std::fs::write(environment.dir().join(".git/info/exclude"), "").unwrap();
    assert_eq!(
        untracked(),
        "?? .ekiden/config.toml\n",
        "by its own .gitignore"
    );
    environment.run(&[&RUN[..], &["--new"]].concat()).expect(0);
    std::fs::remove_file(environment.dir().join(".ekiden/.gitignore")).unwrap();
    environment.git(&["clean", "--quiet", "--force", "--", "item-1.txt"]);
    assert_eq!(
        untracked(),
        "?? .ekiden/config.toml\n",
        "by the exclude file"
    );
}

// shows: SEC-02, MEM-12
#[test]
fn state_is_private() {
    for environment in [Environment::new(), Environment::with_git()] {
        environment.write("task.md", &items(5));
        environment
            .run(&[&RUN[..], &["--verify", "[ -e item-5.txt ]"]].concat())
            .expect(0);
        let mut found = modes(&environment.state());
        found.extend(modes(&environment.dir().join(".ekiden")));
        assert!(found.len() > 20, "{found:?}");
        // The agent's mode lasts no longer than the run works: in a directory that is private.
        assert!(
            found
                .iter()
                .any(|(path, _)| path.ends_with(".ekiden/handoff/PROGRESS.md")),
            "{found:?}"
        );
        for (path, mode) in found {
            let right = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, right, "{} has mode {mode:o}", path.display());
        }
    }
}

// shows: MEM-12
#[test]
fn secrets_are_masked_where_they_are_shown_and_kept_for_the_agent() {
    let environment = Environment::with_git();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let task = format!("Push with {secret}.\n\n{}", items(1));
    environment.write("task.md", &task);
    environment.run(&RUN).expect(0);
    assert!(environment.kept(1, "prompt.md").contains(&secret));
    assert!(environment.read(".ekiden/TASK.md").contains(&secret));
    for args in [
        &["show", "1", "--prompt"][..],
        &["show", "1", "--prompt", "--json"],
        &["show", "1", "--events", "--json"],
        &["log", "--json"],
    ] {
        let shown = environment.run(args).expect(0);
        assert!(!shown.stdout.contains(&secret), "{shown}");
    }
    let shown = environment.run(&["show", "1", "--prompt"]).expect(0);
    let masked = "Push with [masked: github token].";
    assert!(shown.stdout.contains(masked), "{shown}");
    // A wrong value is repeated.
    let wrong = environment.run(&["dispatch", "--jobs", &secret]).expect(2);
    assert!(
        wrong
            .stderr
            .contains("'[masked: github token]' for '--jobs"),
        "{wrong}"
    );
}

// shows: OPS-04
#[test]
fn a_state_within_the_repository_is_not_committed() {
    let environment = Environment::with_git();
    let state = environment.dir().join("state");
    let environment = environment.with("EKIDEN_STATE_DIR", state.to_str().unwrap());
    environment.git(&["config", "user.name", "Me"]);
    environment.git(&["config", "user.email", "me@example.invalid"]);
    environment.write("task.md", &items(1));
    environment
        .run(&["run", "task.md", "--agent", "rehearsal", "-g"])
        .expect(0);
    assert!(environment.exists("state"));
    let untracked = environment.git(&["status", "--short", "--untracked-files=all"]);
    assert_eq!(untracked, "?? task.md\n");
    let committed = environment.git(&["ls-files"]);
    assert!(!committed.contains("state"), "{committed}");
}

// shows: OPS-04
#[test]
fn a_state_directory_may_be_named_from_here_upwards() {
    let environment = Environment::new().with("EKIDEN_STATE_DIR", "../named/state");
    environment.write("task.md", &items(1));
    let run = ["run", "task.md", "--agent", "rehearsal"];
    environment.run(&run).expect(0);
    assert!(environment.path("named/state").is_dir());
}

// shows: RUN-07
#[test]
fn a_file_where_ekidens_directory_belongs_is_told_with_what_to_do() {
    for git in [true, false] {
        let environment = match git {
            true => Environment::with_git(),
            false => Environment::new(),
        };
        environment.write(".ekiden", "mine\n");
        for args in [
            &["run", "Do the work.", "--agent", "rehearsal"][..],
            &["checkpoint"],
            &["config", "set", "--project", "pause", "3"],
        ] {
            let said = environment.run(args).expect(74);
            assert!(
                said.stderr
                    .contains("hint: a file is where a directory has to be; move it away"),
                "{args:?}: {said}"
            );
        }
        assert_eq!(environment.read(".ekiden"), "mine\n");
    }
}

// shows: SEC-02
#[test]
fn nothing_is_written_through_a_link_out_of_the_project() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    let elsewhere = environment.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let link = |name: &str| symlink(&elsewhere, environment.dir().join(name)).unwrap();
    link(".ekiden");
    insta::assert_snapshot!(environment.told(&RUN), @r"
    --- standard error
    error: cannot create directory `PROJECT/.ekiden`: `PROJECT/.ekiden` is a symbolic link to `ROOT/elsewhere`, and ekiden does not write through links
    hint: nothing was written; remove the link, or put what it leads to in its place
    --- exit code 74
    ");
    std::fs::remove_file(environment.dir().join(".ekiden")).unwrap();
    std::fs::create_dir(environment.dir().join(".ekiden")).unwrap();
    link(".ekiden/handoff");
    insta::assert_snapshot!(environment.told(&RUN), @r"
    --- standard error
    error: cannot create directory `PROJECT/.ekiden/handoff`: `PROJECT/.ekiden/handoff` is a symbolic link to `ROOT/elsewhere`, and ekiden does not write through links
    hint: nothing was written; remove the link, or put what it leads to in its place
    --- exit code 74
    ");
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    assert!(!environment.exists("item-1.txt"));
}

// shows: REL-16, REL-17
#[test]
fn a_persons_edit_of_the_knowledge_stands() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let knowledge = environment.read(".ekiden/KNOWLEDGE.md");
    let (before, after) = knowledge.split_once("## Core Knowledge\n").unwrap();
    let edited = format!("{before}## Core Knowledge\n\n- Ask Mira about item 4.\n{after}");
    environment.write(".ekiden/KNOWLEDGE.md", &edited);
    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    after your edit, KNOWLEDGE.md has 2 facts
    run RUN continues · CLOCK · up to session 2
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says all is done after TIME · 4 tool calls
      items     5 of 5 done

    complete (not verified) · 2 sessions · TIME · 6 files not committed
    knowledge  3 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    ");
    assert!(
        environment
            .kept(2, "prompt.md")
            .contains("¦ - Ask Mira about item 4.\n")
    );
    assert!(
        environment
            .read(".ekiden/KNOWLEDGE.md")
            .contains("- Ask Mira about item 4.\n")
    );
}

/// No edit is read during a verification, and what another run published here may have an edit too.
// shows: REL-17, RUN-12
#[test]
fn an_edit_that_is_not_read_is_kept() {
    let environment = Environment::new();
    environment.write("task.md", &items(5));
    let edit =
        "! test -e item-1.txt || echo '- Ask Mira.' >> .ekiden/KNOWLEDGE.md; test -e item-5.txt";
    let said = environment
        .run(&[&RUN[..], &["-m", "1", "--verify", edit]].concat())
        .expect(3);
    let told = "warning: cannot use your edit of KNOWLEDGE.md, since the session before it was still being checked; it is kept in ";
    assert_eq!(said.stderr.matches(told).count(), 1, "{said}");
    let kept = environment.kept(1, "left/KNOWLEDGE.md");
    assert!(kept.ends_with("- Ask Mira.\n"), "{kept}");
    let log = environment.log();
    let first = log[0]["event"]["run"].as_str().unwrap();
    environment
        .run(&["run", "Make tea.", "--agent", "rehearsal", "--new"])
        .expect(4);
    let of_other = environment.read(".ekiden/KNOWLEDGE.md") + "- Ask Ben.\n";
    environment.write(".ekiden/KNOWLEDGE.md", &of_other);
    environment.run(&["resume", first]).expect(0);
    environment.shell(&format!(
        "grep -rq 'Ask Ben' .ekiden/runs/{first}/sessions/*/left"
    ));
}

// shows: REL-17
#[test]
fn what_cannot_be_used_of_a_persons_edit_is_kept() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(9));
    environment
        .run(&[&RUN[..], &["-m", "1"]].concat())
        .expect(3);
    let notes = environment.read(".ekiden/KNOWLEDGE.md") + "\n## My notes\n\nAsk Mira.\n";
    environment.write(".ekiden/KNOWLEDGE.md", &notes);
    let told = environment.told(&["resume", "-m", "1"]);
    let warned = "line 13, 15 of your edit of KNOWLEDGE.md, under neither heading; it is kept in ";
    assert!(told.contains(warned), "{told}");
    assert_eq!(environment.kept(1, "left/KNOWLEDGE.md"), notes);
    let no_text = b"## Core Knowledge\n\n- Caf\xe9.\n";
    let file = environment.dir().join(".ekiden/KNOWLEDGE.md");
    std::fs::write(file, no_text).unwrap();
    let told = environment.told(&["resume", "-m", "1"]);
    assert!(told.contains("which is not text in UTF-8"), "{told}");
    let kept = std::fs::read(environment.session(2).join("left/KNOWLEDGE.md"));
    assert_eq!(kept.unwrap(), no_text);
}

/// The agent may have put it there.
// shows: REL-17, REL-20
#[test]
fn what_is_no_file_in_a_published_place_makes_room() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(9));
    let (once, resume) = (["-m", "1"], ["resume", "-m", "1"]);
    environment.run(&[&RUN[..], &once].concat()).expect(3);
    environment
        .shell("cd .ekiden; rm KNOWLEDGE.md status.json; ln -s KNOWLEDGE.md KNOWLEDGE.md; mkdir status.json");
    environment.run(&resume).expect(3);
    assert!(environment.read(".ekiden/KNOWLEDGE.md").contains("- "));
    assert!(
        environment
            .read(".ekiden/status.json")
            .contains("\"session\": 2")
    );
}

// shows: RUN-12
#[test]
fn a_new_run_keeps_what_stood_where_it_publishes() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(2));
    environment.write(".ekiden/PROGRESS.md", "my own notes\n");
    environment.run(&RUN).expect(0);
    let left = |name: &str| {
        std::fs::read_to_string(environment.run_dir().join("left").join(name)).unwrap()
    };
    assert_eq!(left("PROGRESS.md"), "my own notes\n");

    let edited = format!(
        "{}\n- Ask Mira.\n",
        environment.read(".ekiden/KNOWLEDGE.md")
    );
    environment.write(".ekiden/KNOWLEDGE.md", &edited);
    environment.run(&[&RUN[..], &["--new"]].concat()).expect(0);
    assert_eq!(environment.runs().len(), 2);
    assert_eq!(left("KNOWLEDGE.md"), edited);
    assert!(
        !environment.read(".ekiden/KNOWLEDGE.md").contains("Mira"),
        "a new run trusts nothing"
    );
    // The earlier run's handoff is none of the new run's sessions.
    assert!(!environment.session(1).join("left").exists());
}

// shows: OPS-06
#[test]
fn a_template_goes_into_a_directory_above() {
    let environment = Environment::new();
    environment.shell("mkdir below");
    environment
        .run(&["init", "-d", "below", "../above.md"])
        .expect(0);
    assert!(environment.exists("above.md"));
}

// shows: OPS-06
#[test]
fn a_template_that_cannot_be_written_leaves_nothing() {
    let environment = Environment::new();
    insta::assert_snapshot!(environment.told(&["init", "new/"]), @r"
    --- standard error
    error: new/ names a directory
    hint: name the file in it, or `-` for standard output
    --- exit code 2
    ");
    assert!(!environment.exists("new"));
    let ekiden = env!("CARGO_BIN_EXE_ekiden");
    // As on a full disk: the file can be made, and nothing written into it.
    environment.shell(&format!("ulimit -f 0; {ekiden} init; test $? = 74"));
    assert!(!environment.exists("task.md"));
}

#[test]
fn a_file_that_begins_with_a_dash_is_no_flag_of_the_next_command() {
    let told = Environment::new().told(&["init", "--", "-x.md"]);
    assert!(told.contains("next  ekiden run ./-x.md --verify"), "{told}");
}

/// `.ekiden/state` in an archive says which commands a run goes on with.
// shows: SEC-10
#[test]
fn a_state_that_was_moved_or_unpacked_is_not_believed() {
    let environment = Environment::new();
    environment.write("task.md", &crate::environment::items(20));
    let begin = ["run", "task.md", "--agent", "rehearsal", "-m", "1"];
    environment.run(&begin).expect(3);
    environment.shell("mkdir ../moved && cp -a . ../moved/");
    let dir = environment.path("moved").to_string_lossy().into_owned();
    let there = ["resume", "--work-dir", &dir, "-m", "1"];
    let said = environment.run(&there).expect(78);
    let text = environment.normal(&said);
    assert!(text.contains("it was made in "), "{text}");
    assert!(text.contains("`--trust-state` trusts it"), "{text}");
    let new = ["run", "task.md", "--agent", "rehearsal", "--new", "-m", "1"];
    environment
        .run(&[&new[..], &["--work-dir", &dir]].concat())
        .expect(78);
    environment.run(&["status", "--work-dir", &dir]).expect(0);
    environment
        .run(&[&there[..], &["--trust-state"]].concat())
        .expect(3);
    environment.run(&there).expect(3);
    // Where it was made it is still believed, and not by somebody who knows nothing of it.
    environment.run(&["resume", "-m", "1"]).expect(3);
    let stranger = environment.with("XDG_STATE_HOME", "/nowhere/at/all");
    let said = stranger.run(&["resume", "-m", "1"]).expect(78);
    assert!(
        said.stderr
            .contains("there is no record that you made it here"),
        "{said}"
    );
}

// shows: SEC-10
#[test]
fn a_repository_can_be_moved_with_its_state() {
    let environment = Environment::with_git();
    environment.write("task.md", &crate::environment::items(20));
    let begin = ["run", "task.md", "--agent", "rehearsal", "-m", "1"];
    environment.run(&begin).expect(3);
    environment.shell("mkdir ../moved && cp -a . ../moved/");
    let dir = environment.path("moved").to_string_lossy().into_owned();
    environment
        .run(&["resume", "--work-dir", &dir, "-m", "1"])
        .expect(3);
}

/// Many a task begins with `git init`.
// shows: RUN-11, SEC-10
#[test]
fn a_run_goes_on_where_its_agent_makes_a_repository() {
    let environment = Environment::new();
    environment.write("task.md", &crate::environment::items(20));
    let begin = ["run", "task.md", "--agent", "rehearsal", "-m", "1"];
    environment.run(&begin).expect(3);
    environment.git(&["init", "--quiet"]);
    let told = environment.run(&["status"]).expect(0);
    assert!(told.stdout.contains("all its sessions are used"), "{told}");
    environment.run(&["resume", "-m", "1"]).expect(3);
    // A clone can bring such a state.
    let stranger = environment.with("XDG_STATE_HOME", "/nowhere/at/all");
    stranger.run(&["resume", "-m", "1"]).expect(66);
}
