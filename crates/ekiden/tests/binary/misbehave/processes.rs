//! Processes that end when they should not, or do not end when they should.

use std::thread;

use rustix::process::Signal;

use crate::running::wait_until;

use super::course::{left, play, stage, told, words};

/// Where an agent can crash, with how.
const CRASHES: [(&str, &str); 10] = [
    ("start", "{ exit = 3 }"),
    ("prompt", "{ exit = 0 }"),
    ("call 1", "{ exit = 1 }"),
    ("call 2", "{ die = 9 }"),
    ("message 1", "{ exit = 77 }"),
    ("file 1", "{ die = 6 }"),
    ("file 2", "{ exit = 255 }"),
    ("file 3", "{ exit = 143 }"),
    ("stop", "{ die = 15 }"),
    ("end", "{ exit = 2 }"),
];

/// A crash costs at most the session's own work, and a handoff that was whole before it counts.
// shows: REL-15, DUR-03
#[test]
fn a_crash_at_any_point() {
    let courses = thread::scope(|scope| {
        let play = |(at, deed): (&'static str, &'static str)| {
            let act = format!("[[act]]\nsession = 1\nattempt = 1\nat = '{at}'\ndo = {deed}\n");
            scope.spawn(move || {
                let stage = stage(7, &act);
                let course = play(&stage, &[]);
                assert_eq!(stage.read("item-7.txt"), "made\n", "{at}\n{course}");
                let cause = course
                    .lines()
                    .find_map(|line| line.strip_prefix("attempt_ended "));
                let cause = cause
                    .and_then(|line| line.split(" cause=").nth(1))
                    .unwrap_or_default();
                let cause = cause
                    .split(" left=")
                    .next()
                    .unwrap_or_default()
                    .split(" goes_on")
                    .next();
                format!(
                    "{at:10}{deed:15} {}\n{:10}{}\n",
                    left(&course),
                    "",
                    cause.unwrap_or_default()
                )
            })
        };
        let playing: Vec<_> = CRASHES.into_iter().map(play).collect();
        playing
            .into_iter()
            .map(|run| run.join().unwrap())
            .collect::<String>()
    });
    insta::assert_snapshot!(courses, @r#"
    start     { exit = 3 }    nothing, handoff, handoff, completion; exit code 0
              {"never_started":"exit code 3"}
    prompt    { exit = 0 }    nothing, handoff, handoff, completion; exit code 0
              {"protocol":"it exited without a result"}
    call 1    { exit = 1 }    nothing, handoff, handoff, completion; exit code 0
              {"crashed":{"exit":1}}
    call 2    { die = 9 }     nothing, handoff, handoff, completion; exit code 0
              {"killed":{"signal":9}} estimated=true
    message 1 { exit = 77 }   nothing, rescue, handoff, handoff, completion; exit code 0
              {"crashed":{"exit":77}} estimated=true
    file 1    { die = 6 }     nothing, rescue, handoff, handoff, completion; exit code 0
              {"killed":{"signal":6}} estimated=true
    file 2    { exit = 255 }  nothing, rescue, handoff, handoff, completion; exit code 0
              {"crashed":{"exit":255}} estimated=true
    file 3    { exit = 143 }  nothing, rescue, handoff, handoff, completion; exit code 0
              {"killed":{"signal":15}} estimated=true
    stop      { die = 15 }    handoff, handoff, completion; exit code 0
              {"killed":{"signal":15}} estimated=true
    end       { exit = 2 }    handoff, handoff, completion; exit code 0
              {"crashed":{"exit":2}}
    "#);
}

/// Deaf to everything: only SIGKILL ends it.
// shows: RUN-09, RUN-10
#[test]
fn an_agent_that_hangs_and_ignores_sigterm() {
    let scenario = r#"
[[act]]
at = "start"
do = "ignore_signals"

[[act]]
at = "call 2"
do = "hang"
"#;
    let stage = stage(4, scenario);
    let run = stage.start(&words(&[]));
    wait_until("work", || stage.exists("item-1.txt"));
    run.signal(Signal::TERM);
    insta::assert_snapshot!(told(&stage, &run.end()), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    stop_requested request={"how":"now","signal":15} session=1
    attempt_ended attempt=1 cause="stopped" estimated=true goes_on=true left="nothing" session=1
    run_ended estimated=true exit_code=143 outcome={"kind":"stopped","request":{"how":"now","signal":15}}
    --- exit code 143
    "#);
}

/// It has handed off and does not go: it is ended, and that is no crash.
// shows: REL-15
#[test]
fn an_agent_that_does_not_leave() {
    let scenario = r#"
[[act]]
session = 1
at = "start"
do = "ignore_signals"

[[act]]
session = 1
at = "end"
do = "hang"
"#;
    insta::assert_snapshot!(play(&stage(4, scenario), &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="completion" session=1
    handoff facts=1 items_done=4 session=1
    run_ended facts=1 items_done=4 outcome={"kind":"complete","verified":false} sessions=1
    --- exit code 0
    "#);
}

/// What a session leaves in the background ends with it, wherever it has gone.
// shows: RUN-10
#[test]
fn background_children_end_with_their_session() {
    let scenario = r#"
[[act]]
session = 1
at = "call 1"
do = { run = "sleep 1000 & echo $! > one; (setsid sleep 1000 & echo $! > two) > /dev/null 2>&1" }

[[act]]
session = 2
at = "call 1"
do = { run = "for child in one two; do kill -0 $(cat $child) 2> /dev/null && touch alive; done; true" }
"#;
    let stage = stage(4, scenario);
    insta::assert_snapshot!(play(&stage, &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=1 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause="completed" left="completion" session=2
    handoff facts=2 items_done=4 session=2
    run_ended facts=2 items_done=4 outcome={"kind":"complete","verified":false} sessions=2
    --- exit code 0
    "#);
    assert!(stage.exists("one") && stage.exists("two") && !stage.exists("alive"));
}
