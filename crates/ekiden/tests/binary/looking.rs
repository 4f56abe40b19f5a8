//! Commands that only look at runs: what they answer while a run works, after it, and where settings are wrong.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Environment, items};
use crate::running::wait_until;

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

/// A task whose first item waits for the file `go`.
fn waiting(environment: &Environment, count: u32) {
    let waits = "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made";
    environment.write("task.md", &items(count).replacen("echo made", waits, 1));
}

// shows: UIX-11
#[test]
fn status_tells_what_the_session_is_doing_and_since_when_the_run_works() {
    let environment = Environment::with_git();
    waiting(&environment, 4);
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    let told = environment.told(&["status"]);
    let (head, moving) = told.split_once('\n').unwrap();
    assert_eq!(
        head,
        "RUN  relay  running  session 1 of 10 · since CLOCK, TIME   working   task.md"
    );
    assert!(
        moving.starts_with("  1 of 10 ▕") && moving.contains("  Bash touch started;"),
        "{told}"
    );
    let answer = environment.run(&["status", "--json"]).expect(0).stdout;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let run_now = &answer["runs"][0];
    assert!(run_now["percent"].as_u64().unwrap() > 0, "{run_now}");
    assert!(run_now["tokens"].as_u64().unwrap() > 0, "{run_now}");
    assert!(
        run_now["activity"]
            .as_str()
            .unwrap()
            .starts_with("Bash touch")
    );
    environment.write("go", "");
    run.end().expect(0);
    let told = environment.told(&["status", "--all"]);
    assert!(
        told.starts_with("RUN  relay  complete  session 2 of 10 · CLOCK to CLOCK   not verified"),
        "{told}"
    );
}

// shows: UIX-03, UIX-11
#[test]
fn a_run_elsewhere_is_told_with_paths_and_commands_that_work_here() {
    let environment = Environment::with_git();
    let item = |name: &str, run: &str| format!("- [ ] {name}\n\n  ```sh\n  {run}\n  ```\n");
    let items = [item("a", "echo a > a.txt"), item("b", "test -e ok")];
    environment.write("task.md", &items.concat());
    environment.shell("mkdir other && git -C other init -q");
    let lines = |args: &[&str], exit: i32, wanted: &[&str]| {
        let said = environment.run(args).expect(exit);
        let told = said.stdout + &said.stderr;
        for line in wanted {
            let is_there = told.lines().any(|told| told.contains(line));
            assert!(is_there, "{line}\n{told}");
        }
    };
    lines(
        &["run", "task.md", "-d", "other", "--agent", "rehearsal"],
        4,
        &[
            "handoff    other/.ekiden/PROGRESS.md",
            "in other/.ekiden/KNOWLEDGE.md",
            "answer     ekiden answer -d other 'TEXT'     or: ekiden answer -d other ",
        ],
    );
    let asked = ["  - failed: b", "    It failed in two sessions."];
    lines(&["status", "-d", "other"], 0, &asked);
    lines(
        &["status", "-d", "other"],
        0,
        &["next  ekiden answer -d other"],
    );
    environment.shell("touch other/ok");
    let answer = ["answer", "it is there now", "-d", "other"];
    lines(&answer, 0, &["next       git -C other status"]);
    lines(
        &["show", "-d", "other"],
        0,
        &["ekiden show 3 -d other --prompt"],
    );
    lines(
        &["sessions", "-d", "other"],
        0,
        &["next  ekiden show 3 -d other"],
    );
    for (typed, next) in [
        ("orient", "ekiden handoff -d other"),
        ("issue list", "ekiden issue new 'TITLE' -d other"),
        ("issue new do", "ekiden run --issue do -d other"),
        ("ralph init", "ekiden ralph run -d other --verify"),
        (
            "setup --project",
            "`ekiden setup --project -d other --remove`",
        ),
        ("config set pause 3", "next  ekiden config show -d other"),
    ] {
        let args: Vec<&str> = typed.split(' ').chain(["-d", "other"]).collect();
        lines(&args, 0, &[next]);
    }
}

// shows: RUN-07, UIX-01
#[test]
fn what_would_stop_or_continue_a_run_elsewhere_names_where_it_is() {
    let environment = Environment::with_git();
    waiting(&environment, 2);
    environment.shell("mkdir other && git -C other init -q");
    let run = environment.start(&[&RUN[..], &["-d", "other"]].concat());
    wait_until("work", || environment.exists("other/started"));
    let mut attached = environment.start(&["attach", "-d", "other"]);
    attached.wait_for("session 1 · ");
    environment.run(&["pause", "-d", "other"]).expect(0);
    attached.wait_for("`ekiden unpause -d other` takes that back");
    let stop = ["stop", "--wait", "0s", "-d", "other"];
    environment.run(&stop).expect(0);
    attached.wait_for("`ekiden stop --now -d other` stops at once");
    let again = environment.run(&stop).expect(0).stdout;
    let told = "`ekiden stop --now -d other` stops at once; `ekiden status -d other` shows";
    assert!(again.contains(told), "{again}");
    environment.write("other/go", "");
    run.end().expect(3);
    attached.end();
}

// shows: UIX-11
#[test]
fn log_follows_a_run_to_its_end() {
    let environment = Environment::with_git();
    waiting(&environment, 2);
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    let mut log = environment.start(&["log", "-f"]);
    log.wait_for("session 1 · ");
    environment.write("go", "");
    let said = run.end().expect(0);
    let followed = log.end().expect(0);
    let (_, printed) = followed.stdout.split_once('\n').unwrap();
    assert_eq!(printed, said.stdout);
    // A run that is over is printed once.
    let again = environment.run(&["log", "-f"]).expect(0);
    assert_eq!(again.stdout, followed.stdout);
}

// shows: UIX-11
#[test]
fn log_says_that_a_run_that_it_follows_was_killed() {
    let environment = Environment::with_git();
    waiting(&environment, 2);
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    let mut log = environment.start(&["log", "-f"]);
    log.wait_for("session 1 · ");
    run.signal(Signal::KILL);
    run.end().expect(137);
    let said = log.end().expect(3);
    assert!(
        said.stderr.contains("ekiden was killed; `ekiden resume "),
        "{said}"
    );
}

// shows: UIX-11
#[test]
fn a_fault_in_a_settings_file_does_not_keep_anybody_from_looking_and_steering() {
    let environment = Environment::with_git();
    waiting(&environment, 2);
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    environment.write(".ekiden/config.toml", "max_sesions = 3\n");
    for command in ["pause", "unpause", "limits -m 4"] {
        let words: Vec<&str> = command.split(' ').collect();
        environment.run(&words).expect(0);
    }
    environment.write("go", "");
    run.end().expect(0);
    let looks = [
        "status",
        "log",
        "attach",
        "sessions",
        "show",
        "diff",
        "orient",
        "knowledge show",
    ];
    for command in looks {
        let words: Vec<&str> = command.split(' ').collect();
        let said = environment.run(&words).expect(0);
        assert!(!said.stdout.is_empty(), "{said}");
        assert!(
            said.stderr.contains("max_sesions") && said.stderr.contains("no settings file is used"),
            "{said}"
        );
    }
    environment.run(&[&RUN[..], &["--new"]].concat()).expect(78);
}

// shows: UIX-11
#[test]
fn without_a_number_the_newest_session_is_shown() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(5));
    environment.run(&RUN).expect(0);
    for command in ["show", "diff"] {
        let newest = environment.run(&[command]).expect(0).stdout;
        assert_eq!(newest, environment.run(&[command, "2"]).expect(0).stdout);
    }
}

// shows: UIX-11
#[test]
fn the_events_of_an_exec_agent_are_what_it_printed() {
    let environment = Environment::with_git();
    environment.script("agent.sh", "cat > /dev/null\necho one\necho two\n");
    let agent = ["run", "Do it.", "--agent-command", "./agent.sh", "-m", "1"];
    environment.run(&agent);
    let shown = environment.run(&["show", "1", "--events"]).expect(0);
    assert_eq!(shown.stdout, "one\ntwo\n");
}

// shows: UIX-11
#[test]
fn a_shell_completes_ids_of_runs_stages_and_agents() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(2));
    environment.run(&RUN).expect(0);
    let offered = |words: &[&str]| {
        let index = (words.len() - 1).to_string();
        let mut command = environment.command(&[&["--"], words].concat());
        command
            .env("EKIDEN_COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", index)
            .env("_CLAP_IFS", "\n");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let run = &environment.runs()[0][..4];
    let runs = offered(&["ekiden", "log", ""]);
    assert!(runs.lines().any(|line| line == run), "{runs}");
    assert!(offered(&["ekiden", "show", "--stage", ""]).contains("main"));
    let agents = offered(&["ekiden", "run", "--agent", ""]);
    assert!(
        agents.contains("claude") && agents.contains("rehearsal"),
        "{agents}"
    );
    assert!(offered(&["ekiden", "kno"]).contains("knowledge"));
}

/// What a power cut may leave at the end of a file: a gigabyte of nothing, which takes no room on the disk.
// shows: UIX-01, UIX-05
#[test]
fn of_a_log_of_a_gigabyte_what_can_be_read_is_shown() {
    let environment = Environment::new();
    environment.write("task.md", &items(2));
    environment.run(&RUN).expect(0);
    let whole = environment.run(&["log"]).expect(0).stdout;
    let log = environment.run_dir().join("log.jsonl");
    let log = std::fs::OpenOptions::new().write(true).open(log).unwrap();
    log.set_len(1 << 30).unwrap();
    let shown = environment.run(&["log"]).expect(74);
    assert_eq!(shown.stdout, whole);
    insta::assert_snapshot!(environment.normal_text(&shown.stderr), @r"
    error: cannot read run RUN: read the log `PROJECT/.ekiden/state/runs/RUN/log.jsonl`: line 13 is longer than 64 MiB
    hint: the log was damaged, edited, or written by another version of ekiden, and nothing was changed; use that version, restore the file, or start again with `--new`
    hint: name another run by its id; `ekiden status --all` lists them
    ");
    let report = environment.run(&["report"]).expect(0).stderr;
    let why =
        "warning: the report is of the part of the log that could be read: nothing after record ";
    assert!(report.starts_with(why), "{report}");
    insta::assert_snapshot!(environment.told(&["status"]), @r"
    RUN  relay  unreadable   cannot read run RUN: read the log `PROJECT/.ekiden/state/runs/RUN/log.jsonl`: line 13 is longer than 64 MiB
    hint  the log was damaged, edited, or written by another version of ekiden, and nothing was changed; use that version, restore the file, or start again with `--new`
    --- exit code 0
    ");
}

/// As with `ekiden log -f | head -1`: whatever reads has what it wants, long before the run is over.
// shows: UIX-11
#[test]
fn who_follows_a_run_leaves_with_who_reads() {
    let environment = Environment::with_git();
    waiting(&environment, 2);
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    for follow in [&["log", "-f"][..], &["attach"], &["status", "--watch"]] {
        let mut child = environment.command(follow).spawn().unwrap();
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        reader.read_line(&mut line).unwrap();
        drop(reader);
        wait_until("the end of who follows", || {
            child.try_wait().unwrap().is_some()
        });
    }
    environment.write("go", "");
    run.end().expect(0);
}

// shows: MEM-08
#[test]
fn a_project_is_forgotten_and_the_others_are_not() {
    let environment = Environment::new();
    environment.write("task.md", &items(1));
    environment.run(&RUN).expect(0);
    let run = ["run", "../project/task.md", "--agent", "rehearsal"];
    environment.run_in("other", &run).expect(0);
    let left = || {
        let said = environment.run(&["memory", "recent", "--all-projects", "--json"]);
        let said: Value = serde_json::from_str(&said.expect(0).stdout).unwrap();
        let left = said["observations"].as_array().unwrap().iter();
        let projects = left.map(|left| left["from"]["project"].as_str().unwrap().to_owned());
        projects.collect::<BTreeSet<_>>()
    };
    let [ours, other] = ["project", "other"].map(|dir| environment.path(dir).display().to_string());
    assert_eq!(left(), BTreeSet::from([ours, other.clone()]));
    let said = environment.run(&["memory", "forget", "--project", "."]);
    let said = said.expect(0).stdout;
    assert!(said.starts_with("forgotten: "), "{said}");
    assert_eq!(left(), BTreeSet::from([other.clone()]));
    let all = ["memory", "recent", "--all-projects"];
    let said = environment.run(&all).expect(0).stdout;
    assert!(said.contains("  in other\n"), "{said}");
    std::fs::remove_dir_all(other).unwrap();
    let gone = ["memory", "forget", "--project", "../other/"];
    environment.run(&gone).expect(0);
    let said = environment.run(&all).expect(0).stdout;
    assert_eq!(said, "nothing found\n");
}

/// Its runs are in the state that git names: without git they would be in no list, and a second one would start.
// shows: RUN-12
#[test]
fn in_a_repository_without_a_git_program_no_command_guesses_where_the_state_is() {
    let environment = Environment::with_git().with("PATH", "/nonexistent");
    for args in [&["status"][..], &["run", "a b", "--agent", "rehearsal"]] {
        let told = environment.told(args);
        assert!(told.contains("cannot tell whether"), "{told}");
        assert!(told.contains("find the program `git`"), "{told}");
        assert!(
            told.contains("hint: install git, or put it on PATH"),
            "{told}"
        );
        assert!(told.contains("exit code 74"), "{told}");
    }
    assert!(!environment.exists(".ekiden"));
    let checked = environment.told(&["doctor", "--agent", "rehearsal"]);
    assert!(checked.contains("ok       agent"), "{checked}");
    assert!(checked.contains("failure  git"), "{checked}");
    assert!(
        checked.contains("install git, or put it on PATH"),
        "{checked}"
    );
}

/// A disk that takes nothing is not mended by an index that is made anew.
// shows: MEM-07
#[test]
fn an_index_that_cannot_be_written_is_told_without_a_way_that_fails_too() {
    let environment = Environment::new();
    environment.run(&["memory", "stats"]).expect(0);
    // A new database needs this name.
    let journal = environment.path("home/.local/state/ekiden/memory/index-2.db-journal");
    std::fs::create_dir(journal).unwrap();
    insta::assert_snapshot!(environment.told(&["memory", "rebuild"]), @r"
    --- standard error
    error: cannot use the index of the memory: unable to open database file: Error code 14: unable to open database file
    --- exit code 74
    ");
}
