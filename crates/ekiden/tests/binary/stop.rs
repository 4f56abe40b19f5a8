//! Stopping early, and going on.

use rustix::process::Signal;

use crate::environment::{Environment, items, slow_items};
use crate::processes::expect_nothing_alive;
use crate::running::{Running, wait_until};

/// A run that works and will not end by itself for a while.
fn at_work(environment: &Environment) -> Running {
    environment.write("task.md", &slow_items(4));
    let run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    run
}

fn expect_resumes(environment: &Environment) {
    environment.run(&["resume"]).expect(0);
    assert_eq!(environment.read("item-4.txt"), "made\n");
    assert!(
        environment
            .read(".ekiden/PROGRESS.md")
            .contains("- [x] Item 4")
    );
}

// shows: RUN-09, RUN-11
#[test]
fn the_first_ctrl_c_asks_for_a_handoff() {
    let environment = Environment::with_git();
    let task = items(4).replacen(
        "echo made",
        "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made",
        1,
    );
    environment.write("task.md", &task);
    let mut run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    run.signal(Signal::INT);
    run.wait_for("ctrl-c again stops at once");
    // The prompt, and the order.
    wait_until("the agent has the order", || {
        environment
            .kept(1, "events.jsonl")
            .matches("\"queued\"")
            .count()
            == 2
    });
    environment.write("go", "");
    insta::assert_snapshot!(environment.normal(&run.end()), @r#"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      ! session 1 is asked to hand off within TIME; ctrl-c again stops at once
      USAGE  handed off after TIME · 4 tool calls
      items     1 of 4 done
      next      The item "Item 2", with `echo made > item-2.txt`.

    stopped (3): as you asked · 1 session · TIME · 1 of 4 items done · 4 files not committed
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume
    --- exit code 3
    "#);
    expect_nothing_alive(&environment);
    assert!(
        environment
            .read(".ekiden/PROGRESS.md")
            .contains("- [x] Item 1")
    );
    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    run RUN continues · CLOCK · up to session 11
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says all is done after TIME · 5 tool calls
      items     4 of 4 done

    complete (not verified) · 2 sessions · TIME · 7 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       git status
    --- exit code 0
    ");
    expect_nothing_alive(&environment);
}

// shows: RUN-09, RUN-10, RUN-11
#[test]
fn the_second_ctrl_c_stops_at_once() {
    let environment = Environment::with_git();
    let mut run = at_work(&environment);
    run.signal(Signal::INT);
    run.wait_for("ctrl-c again stops at once");
    run.signal(Signal::INT);
    insta::assert_snapshot!(environment.normal(&run.end()), @r"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      ! session 1 is asked to hand off within TIME; ctrl-c again stops at once
      ! stopping at once
      USAGE  stopped after TIME · 1 tool call

    stopped (130): at once, as you asked · 1 session · TIME · 1 file not committed
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume
    --- exit code 130
    ");
    expect_nothing_alive(&environment);
    expect_resumes(&environment);
}

// defect: W6, W7
// shows: RUN-09, RUN-10, RUN-11
#[test]
fn sigterm_stops_at_once() {
    let environment = Environment::with_git();
    let run = at_work(&environment);
    run.signal(Signal::TERM);
    insta::assert_snapshot!(environment.normal(&run.end()), @r"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      ! stopping at once
      USAGE  stopped after TIME · 1 tool call

    stopped (143): at once, by signal 15 · 1 session · TIME · 1 file not committed
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume
    --- exit code 143
    ");
    expect_nothing_alive(&environment);
    insta::assert_snapshot!(environment.told(&["status"]), @r"
    RUN  relay  stopped  session 1 of 10 · CLOCK to CLOCK   at once, by signal 15   task.md
    next  ekiden resume
    --- exit code 0
    ");
    expect_resumes(&environment);
}

// shows: RUN-10, RUN-11
#[test]
fn a_killed_run_goes_on() {
    let environment = Environment::new();
    let run = at_work(&environment);
    run.signal(Signal::KILL);
    run.end().expect(137);
    expect_nothing_alive(&environment);
    insta::assert_snapshot!(environment.told(&["resume"]), @r#"
    run RUN continues · CLOCK · up to session 10
      ended     without a handoff after TIME · 1 tool call
    session 1 · CLOCK · attempt 2
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 5 done
      next      The item "Item 3", with `echo made > item-3.txt`.
    session 2 · CLOCK
      USAGE  says all is done after TIME · 4 tool calls
      items     5 of 5 done

    complete (not verified) · 2 sessions · TIME
    problems   1 sudden end of ekiden (session 1)
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    next       ekiden log RUN
    --- exit code 0
    "#);
}

// defect: W5
// shows: REL-23, RUN-11
#[test]
fn a_session_limit_prints_the_command_that_goes_on() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(7));
    let said = environment
        .run(&["run", "task.md", "--agent", "rehearsal", "-m", "1"])
        .expect(3);
    insta::assert_snapshot!(environment.normal(&said), @r#"
    run RUN · relay, at most 1 session · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 7 done
      next      The item "Item 4", with `echo made > item-4.txt`.

    stopped (3): session limit reached after 1 of 1 sessions · TIME · 3 of 7 items done · 4 files not committed
    knowledge  1 fact in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume -m 1
    --- exit code 3
    "#);
    let command = said
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("to continue:  ekiden "))
        .unwrap();
    let args: Vec<&str> = command.split(' ').collect();
    insta::assert_snapshot!(environment.told(&args), @r#"
    run RUN continues · CLOCK · up to session 2
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  handed off after TIME · 6 tool calls
      items     6 of 7 done
      next      The item "Item 7", with `echo made > item-7.txt`.

    stopped (3): session limit reached after 2 of 2 sessions · TIME · 6 of 7 items done · 7 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    report     .ekiden/runs/RUN/report.html
    to continue:  ekiden resume -m 1
    --- exit code 3
    "#);
    environment.run(&args).expect(0);
    assert_eq!(environment.read("item-7.txt"), "made\n");
}

// shows: MON-07, REL-02
#[test]
fn levels_say_where_a_session_hands_off() {
    let sessions = |levels: &str| {
        let environment = Environment::new();
        environment.write("task.md", &items(6));
        let said = environment
            .run(&["run", "task.md", "--agent", "rehearsal", "--levels", levels])
            .expect(0);
        let window = said
            .stdout
            .lines()
            .find(|line| line.contains("window"))
            .unwrap()
            .trim()
            .to_owned();
        (window, said.stdout.matches("\nsession ").count())
    };
    let (early, late) = (sessions("20,45,95"), sessions("80,90,95"));
    assert_eq!(
        early.0,
        "window    40k tokens (rehearsal), hands off at 18k"
    );
    assert_eq!(late.0, "window    40k tokens (rehearsal), hands off at 36k");
    assert!(early.1 > late.1, "{early:?} {late:?}");
    let refused = Environment::new().told(&["run", "a task", "--levels", "60,50,70"]);
    insta::assert_snapshot!(refused, @r"
    --- standard error
    error: `--levels` must be three rising percentages from 1 to 99, such as 50,60,70, not `60,50,70`
    --- exit code 2
    ");
}
