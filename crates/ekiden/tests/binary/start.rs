//! Starting: what a task may be, what is refused before anything is created, what programs are told.

use serde_json::Value;

use crate::environment::{Environment, items};

const REHEARSAL: [&str; 2] = ["--agent", "rehearsal"];

fn run(args: &[&'static str]) -> Vec<&'static str> {
    [args, &REHEARSAL].concat()
}

// shows: RUN-01
#[test]
fn a_task_is_a_file_standard_input_or_words() {
    let task = items(1);
    let ways: [&[&str]; 4] = [
        &["run", "task.md"],
        &["task.md"],
        &["run", "-"],
        &["run", &task],
    ];
    for way in ways {
        let environment = Environment::new();
        environment.write("task.md", &task);
        environment
            .fed(&[way, &REHEARSAL].concat(), &task)
            .expect(0);
        assert_eq!(environment.read(".ekiden/TASK.md"), task, "{way:?}");
        assert_eq!(environment.read("item-1.txt"), "made\n", "{way:?}");
    }
}

// shows: RUN-07, REL-07
#[test]
fn a_verification_that_can_never_run_begins_no_session() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    let verified_by =
        |command: &'static str| environment.run(&run(&["run", "task.md", "--verify", command]));
    let said = verified_by("pytets -q").expect(78);
    assert!(said.stderr.contains("`pytets` is not on PATH"), "{said}");
    let said = verified_by("grep -q 'x item-1.txt").expect(78);
    let why = "cannot verify by `grep -q 'x item-1.txt`: sh: ";
    assert!(said.stderr.contains(why), "{said}");
    assert!(environment.runs().is_empty());
    // Only the shell can tell here: the run ends before its first session, and is not in the way.
    let said = verified_by("cd . && pytets -q").expect(78);
    assert!(
        said.stdout.contains("there is no program `pytets`"),
        "{said}"
    );
    assert!(!said.stdout.contains("session 1"), "{said}");
    let follow_up = environment.run(&["continue", "And more."]).expect(1);
    let hint = "hint: it began nothing; `ekiden run TASK --verify 'COMMAND'` starts again";
    assert!(follow_up.stderr.contains(hint), "{follow_up}");
    assert_eq!(environment.runs().len(), 1);
    insta::assert_snapshot!(environment.told(&["stop"]), @r"
    --- standard error
    error: run RUN is not running: it began nothing
    hint: `ekiden run TASK --verify 'COMMAND'` starts again
    --- exit code 66
    ");
    let said = environment.run(&["resume"]);
    assert!(
        said.stderr.contains("there is no unfinished run here"),
        "{said}"
    );
    let status = environment.run(&["status"]).stdout;
    assert!(
        status.ends_with("next  ekiden run TASK --verify 'COMMAND'\n"),
        "{status}"
    );
    environment.write("not-executable.sh", "");
    let said = verified_by("./not-executable.sh").expect(78);
    assert!(
        said.stderr.contains("`chmod +x ./not-executable.sh`"),
        "{said}"
    );
    // What the work is about to make is waited for.
    environment.write(
        "task.md",
        "- [ ] It\n\n  ```sh\n  printf '#!/bin/sh\\n' > made.sh; chmod +x made.sh\n  ```\n",
    );
    let said = verified_by("./made.sh").expect(0);
    assert!(
        said.stderr
            .contains("`./made.sh` of the verification does not exist yet"),
        "{said}"
    );
}

// shows: RUN-01, RUN-07
#[test]
fn what_cannot_begin_says_why_and_creates_nothing() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    environment.write("empty.md", " \n");
    environment.write("good.md", &items(1));
    environment.write("agent.sh", "exit 0\n");
    environment.write("check.sh", "exit 0\n");
    std::fs::write(environment.dir().join("latin-1.md"), b"caf\xe9 au lait").unwrap();
    let told = |args: &[&'static str]| {
        let said = environment.told(&run(args));
        assert!(
            !environment.exists(".ekiden") && !environment.exists(".git/ekiden"),
            "{args:?}"
        );
        said
    };
    insta::assert_snapshot!(told(&["run", "tidy"]), @r"
    --- standard error
    error: there is no file `tidy`
    hint: name the task by a file, `-` for standard input, or more than one word in quotes
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["run", "good"]), @r"
    --- standard error
    error: there is no file `good`
    hint: did you mean `good.md`?
    hint: name the task by a file, `-` for standard input, or more than one word in quotes
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["run", "godo.md"]), @r"
    --- standard error
    error: there is no file `godo.md`
    hint: did you mean `good.md`?
    hint: name the task by a file, `-` for standard input, or more than one word in quotes
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["run", "good.md", "--work-dir", "/"]), @r"
    --- standard error
    error: the work dir cannot be the root of the file system
    hint: name the project's directory with `--work-dir`
    --- exit code 78
    ");
    insta::assert_snapshot!(told(&["run", "good.md", "--verify", "./check.sh"]), @r"
    --- standard error
    error: cannot verify by `./check.sh`: `./check.sh` is not executable
    hint: `chmod +x ./check.sh`, or name the program that runs it: `sh ./check.sh`
    --- exit code 78
    ");
    insta::assert_snapshot!(environment.told(&["run", "good.md", "--agent-command", "./agent.sh"]), @r"
    --- standard error
    error: cannot start a session: agent `agent.sh`: `PROJECT/./agent.sh` is not executable
    hint: `chmod +x PROJECT/./agent.sh`
    --- exit code 69
    ");
    insta::assert_snapshot!(told(&["stauts"]), @r"
    --- standard error
    error: there is no file `stauts`
    hint: did you mean `ekiden status`?
    hint: name the task by a file, `-` for standard input, or more than one word in quotes
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["run", "."]), @r"
    --- standard error
    error: cannot read the task .: it is a directory
    hint: name a file; `--work-dir DIR` says where the agent works
    --- exit code 65
    ");
    insta::assert_snapshot!(told(&["run", "empty.md"]), @r"
    --- standard error
    error: the task is empty: empty.md
    hint: write down what to do and how to check that it is done
    --- exit code 65
    ");
    insta::assert_snapshot!(told(&["run", "latin-1.md"]), @r"
    --- standard error
    error: cannot read the task latin-1.md: it is not UTF-8 text
    hint: name a text file that says what the task is
    --- exit code 65
    ");
    insta::assert_snapshot!(told(&["run", "task.md", "--work-dir", "elsewhere"]), @r"
    --- standard error
    error: cannot work in elsewhere: No such file or directory (os error 2)
    hint: create it, or name another directory with `--work-dir`
    --- exit code 66
    ");
    insta::assert_snapshot!(told(&["run", "task.md", "-m", "0"]), @r"
    --- standard error
    error: `--max-sessions` must be a whole number from 1 to 10000, not `0`
    --- exit code 2
    ");
}

// shows: RUN-07
#[test]
fn no_task_or_document_is_waited_for() {
    let environment = Environment::new();
    environment.shell("mkfifo f.md");
    for (command, word) in [("run", "task"), ("plan", "idea"), ("split", "document")] {
        for (name, what) in [("f.md", "a pipe"), ("/dev/null", "a device")] {
            let said = environment
                .run(&[command, name, "--agent", "rehearsal"])
                .expect(65);
            let told = format!("error: cannot read the {word} {name}: it is {what}\n");
            assert!(said.stderr.starts_with(&told), "{said}");
        }
    }
}

// shows: RUN-07
#[test]
fn an_agent_that_is_not_there_is_told_before_anything_is_created() {
    let environment = Environment::new();
    let empty = environment.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let environment = environment.with("PATH", empty.to_str().unwrap());
    environment.write("task.md", &items(1));
    insta::assert_snapshot!(environment.told(&["run", "task.md"]), @r"
    --- standard error
    error: cannot start a session: agent `claude`: `claude` is not on PATH
    hint: install it (npm install -g @anthropic-ai/claude-code), name another with `--agent` (codex, opencode and others), or try for free with `--agent rehearsal`
    --- exit code 69
    ");
    insta::assert_snapshot!(environment.told(&["run", "task.md", "--agent", "nobody"]), @r"
    --- standard error
    error: there is no agent `nobody`
    hint: there are: claude, rehearsal, codex, opencode, qwen, gemini, copilot
    hint: any other program works for one run with `--agent-command 'PROGRAM ARGUMENTS'`, without `--agent`
    --- exit code 78
    ");
    insta::assert_snapshot!(environment.told(&["run", "task.md", "--agent-command", "./agent.sh"]), @r"
    --- standard error
    error: cannot start a session: agent `agent.sh`: `PROJECT/./agent.sh` is not there
    hint: correct its command (spaces separate words), or name another with `--agent`
    --- exit code 69
    ");
    assert!(!environment.exists(".ekiden"));
}

// A repository that cannot be seen must not pass for none: the run's state would lie elsewhere.
// shows: RUN-07
#[test]
fn a_git_that_does_not_answer_is_an_error() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    environment.script("bin/git", "kill -9 $$\n");
    let path = format!(
        "{}:{}",
        environment.dir().join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let environment = environment.with("PATH", &path);
    insta::assert_snapshot!(environment.told(&run(&["run", "task.md"])), @r"
    --- standard error
    error: cannot tell whether . lies in a repository: `git rev-parse` gave no answer: signal 9 ended it
    --- exit code 74
    ");
    assert!(!environment.exists(".ekiden") && !environment.exists(".git/ekiden"));
}

// Neither may one that git refuses to read, such as another user's.
// shows: RUN-07
#[test]
fn a_repository_that_git_refuses_is_an_error() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    environment.shell("echo '[core' > .git/config");
    insta::assert_snapshot!(environment.told(&run(&["run", "task.md"])), @r"
    --- standard error
    error: cannot tell whether . lies in a repository: `git rev-parse` failed: fatal: bad config line 1 in file .git/config
    --- exit code 74
    ");
    assert!(!environment.exists(".ekiden") && !environment.exists(".git/ekiden"));
}

// shows: UIX-02
#[test]
fn json_is_one_object_a_line_and_the_log_says_it_again() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    let args = ["run", "task.md", "--json", "--verify", "test -e item-5.txt"];
    let said = environment.run(&[&args[..], &REHEARSAL].concat()).expect(0);
    let lines: Vec<Value> = said
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let run = &environment.runs()[0];
    assert!(
        lines
            .iter()
            .all(|line| line["v"] == 1 && line["run"] == **run),
        "{said}"
    );
    assert_eq!(said.stderr, "");
    let events: Vec<&str> = lines
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect();
    insta::assert_snapshot!(events.join("\n"), @r"
    run_started
    first_check
    session_started
    window
    level
    level
    attempt_ended
    handoff
    check
    session_started
    level
    attempt_ended
    handoff
    check
    run_ended
    ");
    assert_eq!(
        environment.run(&["log", "--json"]).expect(0).stdout,
        said.stdout
    );
}

// shows: OPS-06, REL-26
#[test]
fn an_unfilled_template_is_no_task() {
    let environment = Environment::new();
    environment.run(&["init"]).expect(0);
    insta::assert_snapshot!(environment.told(&run(&["run", "task.md"])), @r"
    --- standard error
    error: the task is still the template: task.md
    hint: replace everything in angle brackets by what you want
    --- exit code 65
    ");
}

// shows: RUN-07
#[test]
fn a_manifest_is_no_task() {
    let environment = Environment::new();
    environment.write("plan.toml", "[[stage]]\nid = \"a\"\ntask = \"Make tea\"\n");
    insta::assert_snapshot!(environment.told(&run(&["run", "plan.toml"])), @r"
    --- standard error
    error: plan.toml is a manifest, not a task
    hint: `ekiden execute plan.toml` carries it out
    --- exit code 2
    ");
    environment.write("notes.toml", "goal = \"Make tea\"\n");
    environment.run(&run(&["run", "notes.toml"])).expect(4);
}

// shows: AGT-15, AGT-16
#[test]
fn an_agent_is_not_used_with_settings_that_it_cannot_keep() {
    let environment = Environment::new();
    let with = |flags: &[&str]| {
        let words = ["run", "Make tea.", "--agent", "codex"];
        environment.told(&[&words, flags].concat())
    };
    insta::assert_snapshot!(with(&["--isolated"]), @r"
    --- standard error
    error: cannot use agent `codex` like this: it cannot leave out your own settings of it (`isolated`)
    hint: leave out `isolated`, or choose another agent
    --- exit code 78
    ");
    insta::assert_snapshot!(with(&["--permission-mode", "acceptEditz"]), @r"
    --- standard error
    error: `acceptEditz` is no permission mode that ekiden knows for Codex
    hint: choose one of default, plan, dontAsk, acceptEdits, auto, bypassPermissions
    --- exit code 78
    ");
}

/// A power cut may leave an empty file.
// shows: RUN-07
#[test]
fn a_damaged_repository_with_runs_is_not_taken_for_none() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    environment.run(&run(&["run", "task.md"])).expect(0);
    environment.shell(": > .git/HEAD");
    for words in [&["status"][..], &["resume"], &run(&["run", "task.md"])] {
        let told = environment.told(words);
        assert!(
            told.contains("lies in a repository: `git rev-parse` failed"),
            "{told}"
        );
    }
    assert!(!environment.exists(".ekiden/state"));
}
