//! A second run where one is already: unfinished, at work, or dead.

use rustix::process::Signal;

use crate::environment::{Environment, items, slow_items};
use crate::processes::expect_nothing_alive;
use crate::running::{Running, wait_until};

const REHEARSAL: [&str; 2] = ["--agent", "rehearsal"];

fn run(args: &[&'static str]) -> Vec<&'static str> {
    [args, &REHEARSAL].concat()
}

// shows: RUN-12
#[test]
fn an_unfinished_run_is_in_the_way_until_it_is_set_aside() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(9));
    environment.write("other.md", &items(1));
    environment
        .run(&run(&["run", "task.md", "-m", "1"]))
        .expect(3);
    insta::assert_snapshot!(environment.told(&run(&["run", "task.md"])), @r"
    --- standard error
    error: a run of this task is unfinished here: RUN
    hint: `ekiden resume` continues it
    hint: `--new` starts a new run and keeps that one as it is
    --- exit code 3
    ");
    insta::assert_snapshot!(environment.told(&run(&["run", "other.md"])), @r"
    --- standard error
    error: a run of another task is unfinished here: RUN
    hint: `ekiden resume` continues it
    hint: `--new` starts a new run and keeps that one as it is
    --- exit code 1
    ");

    let (first, left) = (
        environment.run_dir(),
        environment.read(".ekiden/handoff/NEXT_PROMPT.md"),
    );
    let kept = |name: &str| std::fs::read_to_string(first.join(name)).unwrap();
    let log = kept("log.jsonl");
    assert_eq!(kept("sessions/1/next_prompt.md"), left);
    environment
        .run(&run(&["run", "other.md", "--new"]))
        .expect(0);
    assert_eq!(environment.runs().len(), 2);
    assert_eq!(kept("log.jsonl"), log);
    assert_eq!(kept("sessions/1/next_prompt.md"), left);

    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    --- standard error
    error: cannot resume: there is no unfinished run here
    hint: `ekiden status` shows what ran here
    --- exit code 66
    ");
    insta::assert_snapshot!(environment.told(&["resume", &environment.runs()[0], "-m", "1"]), @r#"
    run RUN continues · CLOCK · up to session 2
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     6 of 9 done
      next      The item "Item 7", with `echo made > item-7.txt`.

    stopped (3): session limit reached after 2 of 2 sessions · TIME · 6 of 9 items done · 8 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume RUN -m 1
    --- exit code 3
    "#);
    for command in ["log", "attach"] {
        let told = environment.told(&[command, &environment.runs()[0]]);
        assert!(told.contains("ekiden resume RUN -m 1"), "{told}");
    }
    assert_eq!(environment.read("item-6.txt"), "made\n");
}

// defect: W6
// shows: RUN-08
#[test]
fn a_second_run_is_refused_while_the_first_lives_and_no_longer() {
    let environment = Environment::with_git();
    environment.write("task.md", &slow_items(1));
    let first = environment.start(&run(&["run", "task.md"]));
    wait_until("work", || environment.exists("started"));
    let pid = first.pid().as_raw_nonzero().to_string();
    for args in [
        run(&["run", "task.md"]),
        run(&["run", "task.md", "--new"]),
        vec!["resume"],
    ] {
        let second = environment.run(&args).expect(75);
        let host = rustix::system::uname()
            .nodename()
            .to_str()
            .unwrap()
            .to_owned();
        assert!(
            second
                .stderr
                .contains(&format!("pid {pid} on {host}, since ")),
            "{second}"
        );
    }
    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    --- standard error
    error: another run works in this directory: RUN, pid PID on HOST, since DATE
    hint: `ekiden status` shows it, `ekiden stop` ends it
    --- exit code 75
    ");
    let status = environment.told(&["status"]);
    assert_eq!(
        status.lines().next(),
        Some("RUN  relay  running  session 1 of 10 · since CLOCK, TIME   working   task.md")
    );

    first.signal(Signal::KILL);
    first.end().expect(137);
    expect_nothing_alive(&environment);
    insta::assert_snapshot!(environment.told(&["status"]), @r"
    RUN  relay  killed  session 1 of 10 · CLOCK to CLOCK   was working   task.md
    next  ekiden resume
    --- exit code 0
    ");
    insta::assert_snapshot!(environment.told(&["answer", "yes"]), @r"
    --- standard error
    error: run RUN has no question
    hint: `ekiden resume` continues it
    --- exit code 66
    ");
    environment.run(&["resume"]).expect(0);
}

/// Linked worktrees share the repository's exclude file and the directory of all state.
// shows: RUN-08, OPS-04
#[test]
fn runs_in_several_worktrees_begin_at_once() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    environment.commit_all();
    environment.shell("rm -r .git/info");
    let trees: Vec<String> = (0..6).map(|tree| format!("../tree-{tree}")).collect();
    for tree in &trees {
        environment.git(&["worktree", "add", "--quiet", tree]);
    }
    let started = trees.iter().map(|tree| {
        let mut command = environment.command(&run(&["run", "task.md"]));
        command.current_dir(environment.dir().join(tree));
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    });
    for run in started.collect::<Vec<_>>() {
        let said = run.wait_with_output().unwrap();
        assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        );
    }
    let exclude = environment.read(".git/info/exclude");
    assert_eq!(exclude.matches("/.ekiden/*").count(), 1, "{exclude}");
}

// shows: RUN-08
#[test]
fn a_run_that_keeps_its_state_elsewhere_is_in_the_way_all_the_same() {
    let environment = Environment::with_git();
    environment.write("task.md", &slow_items(1));
    let first = environment.start(&run(&["run", "task.md"]));
    wait_until("work", || environment.exists("started"));
    let mut second = environment.command(&run(&["run", "task.md"]));
    second.env("EKIDEN_STATE_DIR", environment.path("elsewhere"));
    let second = Running::of(second.spawn().unwrap()).end().expect(75);
    let stop = format!("`kill {}`", first.pid().as_raw_nonzero());
    insta::assert_snapshot!(environment.normal(&second).replace(&stop, "`kill PID`"), @r"
    --- standard error
    error: another run works in PROJECT, with its state in PROJECT/.git/ekiden/root: RUN, pid PID on HOST, since DATE
    hint: `ekiden status --everywhere` shows it; `kill PID` stops it, and it can be resumed
    --- exit code 75
    ");
    first.signal(Signal::KILL);
    first.end().expect(137);
}
