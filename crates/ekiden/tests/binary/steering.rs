//! Steering a run from another terminal: stop, pause, unpause; and what becomes of a message when ekiden
//! is killed.

use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::environment::{Environment, items, slow_items};
use crate::processes::expect_nothing_alive;
use crate::running::{Running, wait_until};

/// A run whose first item is done as soon as there is a file `go`.
fn at_work(environment: &Environment) -> Running {
    let task =
        items(4).replacen("echo made", "touch started; while [ ! -e go ]; do sleep 0.02; done; echo made", 1);
    environment.write("task.md", &task);
    let run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    run
}

fn status_word(environment: &Environment) -> (String, String) {
    let status: Value = serde_json::from_str(&environment.read(".ekiden/status.json")).unwrap();
    let text = |key: &str| status[key].as_str().unwrap().to_owned();
    (text("status"), text("message"))
}

fn messages(environment: &Environment) -> Vec<PathBuf> {
    let inbox = environment.run_dir().join("inbox");
    inbox.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn steered(environment: &Environment) -> Vec<Value> {
    let events = environment.log().into_iter().map(|record| record["event"].clone());
    events.filter(|event| event["kind"] == "steered").collect()
}

// shows: RUN-14
#[test]
fn a_stop_lets_the_session_hand_over() {
    let environment = Environment::with_git();
    let mut run = at_work(&environment);
    let stop = environment.start(&["stop"]);
    run.wait_for("is asked to hand off");
    environment.write("go", "");
    insta::assert_snapshot!(environment.normal(&stop.end()), @r"
    RUN  relay  stopped  session 1 of 10   as you asked   task.md
    next  ekiden resume
    --- standard error
    run RUN is asked to stop; waiting up to TIME
    --- exit code 0
    ");
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
    to go on:  ekiden resume
    --- exit code 3
    "#);
    expect_nothing_alive(&environment);
    assert_eq!(messages(&environment), Vec::<PathBuf>::new());
    environment.run(&["resume"]).expect(0);
    assert_eq!(environment.read("item-4.txt"), "made\n");
}

// shows: RUN-14, RUN-10
#[test]
fn a_stop_now_stops_at_once() {
    let environment = Environment::with_git();
    environment.write("task.md", &slow_items(2));
    let run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    let id = environment.runs()[0].clone();
    insta::assert_snapshot!(environment.told(&["stop", &id[..4], "--now"]), @r"
    RUN  relay  stopped  session 1 of 10   at once, as you asked   task.md
    next  ekiden resume
    --- standard error
    run RUN is asked to stop; waiting up to TIME
    --- exit code 0
    ");
    insta::assert_snapshot!(environment.normal(&run.end()), @r"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      ! stopping at once
      USAGE  stopped after TIME · 1 tool call

    stopped (130): at once, as you asked · 0 sessions · TIME · 1 file not committed
    to go on:  ekiden resume
    --- exit code 130
    ");
    expect_nothing_alive(&environment);
    environment.run(&["resume"]).expect(0);
}

// shows: RUN-14
#[test]
fn after_a_stop_from_elsewhere_the_first_ctrl_c_stops_at_once() {
    let environment = Environment::with_git();
    environment.write("task.md", &slow_items(2));
    let mut run = environment.start(&["run", "task.md", "--agent", "rehearsal"]);
    wait_until("work", || environment.exists("started"));
    insta::assert_snapshot!(environment.told(&["stop", "--wait", "0s"]), @r"
    run RUN is asked to stop; `ekiden status` shows when it does
    --- exit code 0
    ");
    run.wait_for("ctrl-c again stops at once");
    run.signal(Signal::INT);
    run.end().expect(130);
}

// shows: RUN-14
#[test]
fn a_pause_holds_the_next_session_until_it_is_taken_back() {
    let environment = Environment::with_git();
    let mut run = at_work(&environment);
    insta::assert_snapshot!(environment.told(&["pause"]), @r"
    RUN  relay  running  session 1 of 10   working, then paused   task.md
    --- exit code 0
    ");
    assert_eq!(status_word(&environment).0, "running");
    environment.write("go", "");
    run.wait_for("paused before session 2");
    insta::assert_snapshot!(environment.told(&["status"]), @r"
    RUN  relay  paused  session 2 of 10   nothing begins   task.md
    next  ekiden unpause
    --- exit code 0
    ");
    // The line is told before the file is written.
    let paused = ("paused".to_owned(), "Paused; `ekiden unpause` goes on".to_owned());
    wait_until("status.json", || status_word(&environment) == paused);
    let json: Value = serde_json::from_str(&environment.run(&["pause", "--json"]).expect(0).stdout).unwrap();
    assert_eq!((&json["v"], &json["runs"][0]["state"]), (&1.into(), &"paused".into()));
    environment.run(&["unpause"]).expect(0);
    // A pause of a second and more is told, and this one took as long as the machine pleased.
    let told = environment.normal(&run.end()).replace(", of which TIME waiting", "");
    insta::assert_snapshot!(told, @r#"
    run RUN · relay, at most 10 sessions · rehearsal, hands off at 60% · task.md
    session 1 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      ! nothing begins after session 1; `ekiden unpause` takes that back
      USAGE  handed off after TIME · 6 tool calls
      items     3 of 4 done
      next      The item "Item 4", with `echo made > item-4.txt`.
      ! paused before session 2; `ekiden unpause` goes on
    unpaused · CLOCK
    session 2 · CLOCK
      USAGE  says that all is done after TIME · 3 tool calls
      items     4 of 4 done

    complete, as the agent says; nothing verified it · 2 sessions · TIME · 7 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    next       git status
    --- exit code 0
    "#);
    assert_eq!(environment.run(&["log"]).expect(0).stdout.matches("unpaused").count(), 1);
}

// shows: RUN-14, RUN-11
#[test]
fn a_pause_outlasts_a_kill() {
    let environment = Environment::with_git();
    let mut run = at_work(&environment);
    environment.run(&["pause"]).expect(0);
    environment.write("go", "");
    run.wait_for("paused before session 2");
    run.signal(Signal::KILL);
    run.end().expect(137);
    insta::assert_snapshot!(environment.told(&["unpause"]), @r"
    --- standard error
    error: run RUN is not running: its engine is gone without an end
    hint: `ekiden resume` carries it on
    --- exit code 66
    ");
    let resumed = environment.start(&["resume"]);
    wait_until("the pause", || environment.run(&["status"]).stdout.contains("  paused  "));
    environment.run(&["unpause"]).expect(0);
    insta::assert_snapshot!(environment.normal(&resumed.end()), @r"
    run RUN goes on · CLOCK · up to session 10
      ! paused before session 2; `ekiden unpause` goes on
    unpaused · CLOCK
    session 2 · CLOCK
      window    40k tokens (rehearsal), hands off at 24k
      USAGE  says that all is done after TIME · 3 tool calls
      items     4 of 4 done

    complete, as the agent says; nothing verified it · 2 sessions · TIME · 7 files not committed
    knowledge  2 facts in .ekiden/KNOWLEDGE.md
    next       git status
    --- exit code 0
    ");
}

// A stopped engine hears nothing; then it is killed, and the next one finds what was left.
// shows: RUN-14, DUR-01, DUR-03
#[test]
fn what_nobody_heard_is_late() {
    for (steering, ends) in [("stop", 0), ("pause", 130)] {
        let environment = Environment::with_git();
        let run = at_work(&environment);
        run.signal(Signal::STOP);
        environment.run(&[steering, "--wait", "0s"]).expect(0);
        let refused = environment.run(&["pause", "--wait", "1s"]).expect(1);
        assert!(refused.stderr.contains("has not answered within 1s"), "{refused}");
        let mut left = messages(&environment);
        left.sort_unstable();
        // The second was only there to be refused.
        std::fs::remove_file(&left[1]).unwrap();
        run.signal(Signal::KILL);
        run.end().expect(137);
        expect_nothing_alive(&environment);
        environment.write("go", "");
        let mut resumed = environment.start(&["resume"]);
        if steering == "pause" {
            resumed.wait_for("paused before session 1");
            environment.run(&["stop", "--now"]).expect(0);
        }
        resumed.end().expect(ends);
        assert_eq!(steered(&environment)[0]["late"], true);
        assert_eq!(messages(&environment), Vec::<PathBuf>::new());
    }
}

// As if ekiden had been killed after it recorded the message and before it removed it.
// shows: RUN-14, DUR-01
#[test]
fn a_message_that_is_in_the_log_already_acts_no_more() {
    let environment = Environment::with_git();
    let run = at_work(&environment);
    run.signal(Signal::STOP);
    environment.run(&["pause", "--wait", "0s"]).expect(0);
    let path = messages(&environment).remove(0);
    let text = std::fs::read(&path).unwrap();
    run.signal(Signal::CONT);
    wait_until("the message to be taken", || messages(&environment).is_empty());
    environment.run(&["unpause"]).expect(0);
    run.signal(Signal::KILL);
    run.end().expect(137);
    expect_nothing_alive(&environment);
    std::fs::write(&path, text).unwrap();
    environment.write("go", "");
    environment.run(&["resume"]).expect(0);
    assert_eq!(steered(&environment).len(), 2);
    assert_eq!(messages(&environment), Vec::<PathBuf>::new());
}

// shows: RUN-14
#[test]
fn a_run_that_does_not_run_cannot_be_steered() {
    let environment = Environment::with_git();
    insta::assert_snapshot!(environment.told(&["stop"]), @r"
    --- standard error
    error: cannot find a run: there is none here
    hint: `ekiden run TASK` starts one
    --- exit code 66
    ");
    environment.write("task.md", &items(7));
    environment.run(&["run", "task.md", "--agent", "rehearsal", "-m", "1"]).expect(3);
    insta::assert_snapshot!(environment.told(&["pause"]), @r"
    --- standard error
    error: run RUN is not running: it has stopped early
    hint: `ekiden resume` carries it on
    --- exit code 66
    ");
    insta::assert_snapshot!(environment.told(&["stop", "ffff0000"]), @r"
    --- standard error
    error: cannot find run `ffff0000`: there is no such run here
    --- exit code 66
    ");
    environment.run(&["resume", "-m", "5"]).expect(0);
    insta::assert_snapshot!(environment.told(&["stop"]), @r"
    --- standard error
    error: run RUN is not running: it is complete
    hint: `ekiden log RUN` tells what it did
    --- exit code 66
    ");
    insta::assert_snapshot!(environment.told(&["stop", "--wait", "soon"]), @r"
    --- standard error
    error: invalid value 'soon' for '--wait <DURATION>': a duration such as TIME, TIME, TIME or TIME

    For more information, try '--help'.
    --- exit code 2
    ");
    assert_eq!(messages(&environment), Vec::<PathBuf>::new());
}

// shows: RUN-14, DUR-04
#[test]
fn what_is_no_message_is_set_aside() {
    let environment = Environment::with_git();
    let run = at_work(&environment);
    std::fs::write(environment.run_dir().join("inbox/0-torn.json"), "{\"id\":\"a").unwrap();
    let bad = environment.run_dir().join("inbox/bad/0-torn.json");
    wait_until("it to be set aside", || bad.exists());
    environment.write("go", "");
    let said = run.end().expect(0);
    assert!(said.stderr.contains("a message in the inbox is set aside (`bad/0-torn.json`)"), "{said}");
}
