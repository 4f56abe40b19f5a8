//! A service that refuses, and accounts that reach their limits.

use std::thread;

use rustix::process::Signal;

use crate::environment::items;
use crate::running::Running;

use super::course::{course, play, stage, told, words};

fn failing(fail: &str) -> String {
    format!("[[act]]\nsession = 1\nattempt = 1\nat = 'call 2'\ndo = {{ {fail} }}\n")
}

/// Nobody waits longer than the user wants, and `resume` goes on with the same session.
// shows: REL-11
#[test]
fn a_limit_that_resets_too_late() {
    let stage = stage(4, &failing("limit = 18000"));
    insta::assert_snapshot!(play(&stage, &["--max-wait", "1h"]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause={"rate_limited":{"kind":"five_hour","resets_at":"TIME"}} goes_on=true left="nothing" session=1 subscription=true
    run_ended exit_code=3 outcome={"kind":"limit_too_far","until":"TIME"} subscription=true
    --- exit code 3
    "#);
    insta::assert_snapshot!(told(&stage, &stage.run(&["resume", "--json"])), @r#"
    run_resumed ekiden="0.1.0"
    session_started attempt=2 conversation="fresh" session=1
    window
    level level="L1" session=1
    level level="L2" session=1
    attempt_ended attempt=2 cause="completed" left="handoff" session=1
    handoff facts=1 items_done=3 items_open=1 next="The item \"Item 4\", with `echo made > item-4.txt`." session=1
    session_started attempt=1 conversation="fresh" session=2
    attempt_ended attempt=1 cause="completed" left="completion" session=2
    handoff facts=2 items_done=4 session=2
    run_ended facts=2 items_done=4 outcome={"kind":"complete","verified":false} sessions=2 subscription=true
    --- exit code 0
    "#);
}

/// The wait is interrupted here; that it ends by itself is shown on a simulated clock.
// shows: REL-11, RUN-09
#[test]
fn a_limit_that_is_waited_for() {
    let resets = ["limit = 60", "limit = -3600", "fail = 429"];
    let courses = thread::scope(|scope| {
        let play = |fail: &'static str| {
            scope.spawn(move || {
                let stage = stage(4, &failing(fail));
                let mut run = stage.start(&words(&[]));
                run.wait_for("\"event\":\"waiting\"");
                run.signal(Signal::INT);
                let before = told(&stage, &run.end());
                let after = told(&stage, &stage.run(&["resume", "--json"]));
                format!("{fail}\n{before}\n{}\n", after.lines().last().unwrap())
            })
        };
        let playing: Vec<_> = resets.into_iter().map(play).collect();
        playing
            .into_iter()
            .map(|run| run.join().unwrap())
            .collect::<String>()
    });
    insta::assert_snapshot!(courses, @r#"
    limit = 60
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause={"rate_limited":{"kind":"five_hour","resets_at":"TIME"}} goes_on=true left="nothing" session=1 subscription=true
    waiting attempt=2 cause={"rate_limited":{"kind":"five_hour","resets_at":"TIME"}} session=1 why="usage_limit"
    stop_requested request={"how":"gently"}
    run_ended exit_code=3 outcome={"kind":"stopped","request":{"how":"gently"}} problems={"limits":[1]} subscription=true
    --- exit code 3
    --- exit code 0
    limit = -3600
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause={"rate_limited":{"kind":"five_hour","resets_at":"TIME"}} goes_on=true left="nothing" session=1 subscription=true
    waiting attempt=2 cause={"rate_limited":{"kind":"five_hour","resets_at":"TIME"}} session=1 why="usage_limit"
    stop_requested request={"how":"gently"}
    run_ended exit_code=3 outcome={"kind":"stopped","request":{"how":"gently"}} problems={"limits":[1]} subscription=true
    --- exit code 3
    --- exit code 0
    fail = 429
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause={"rate_limited":{"kind":"five_hour","resets_at":null}} goes_on=true left="nothing" session=1 subscription=true
    waiting attempt=2 cause={"rate_limited":{"kind":"five_hour","resets_at":null}} session=1 why="usage_limit"
    stop_requested request={"how":"gently"}
    run_ended exit_code=3 outcome={"kind":"stopped","request":{"how":"gently"}} problems={"limits":[1]} subscription=true
    --- exit code 3
    --- exit code 0
    "#);
}

/// Only structured fields make a limit: an agent may talk about one as it likes.
// defect: W4
// shows: REL-11
#[test]
fn talk_of_a_limit_is_no_limit() {
    let scenario = r#"
[[act]]
at = "call 1"
do = { say = "Claude AI usage limit reached|1795332926. 429 rate_limit_error: try again in 5 hours." }

[[act]]
at = "call 1"
do = { run = "echo 'HTTP 429 Too Many Requests: rate limit' | tee /dev/stderr; false" }
"#;
    insta::assert_snapshot!(course(4, scenario, &[]), @r#"
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
}

/// What only a person can mend ends the run at once.
// shows: REL-15
#[test]
fn failures_that_need_a_person() {
    let courses = [401, 402, 404].map(|status| {
        let course = course(2, &failing(&format!("fail = {status}")), &[]);
        let ended = course
            .lines()
            .find(|line| line.starts_with("run_ended"))
            .unwrap()
            .to_owned();
        format!("{status} {ended} {}\n", course.lines().last().unwrap())
    });
    insta::assert_snapshot!(courses.concat(), @r#"
    401 run_ended exit_code=69 outcome={"cause":"authentication_failed","kind":"agent_failed"} --- exit code 69
    402 run_ended exit_code=69 outcome={"cause":"billing_failed","kind":"agent_failed"} --- exit code 69
    404 run_ended exit_code=69 outcome={"cause":"model_not_found","kind":"agent_failed"} --- exit code 69
    "#);
}

// shows: REL-15
#[test]
fn a_service_that_fails_once() {
    insta::assert_snapshot!(course(2, &failing("fail = 500"), &[]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause="server_error" goes_on=true left="nothing" session=1
    waiting attempt=2 cause="server_error" session=1 why="failure"
    session_started attempt=2 conversation="fresh" session=1
    level level="L1" session=1
    attempt_ended attempt=2 cause="completed" left="completion" session=1
    handoff facts=1 items_done=2 session=1
    run_ended facts=1 items_done=2 outcome={"kind":"complete","verified":false} problems={"outages":[1]} sessions=1
    --- exit code 0
    "#);
}

// shows: REL-11
#[test]
fn a_service_without_capacity() {
    insta::assert_snapshot!(course(2, &failing("fail = 529"), &["--max-wait", "1m"]), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    window
    attempt_ended attempt=1 cause="overloaded" goes_on=true left="nothing" session=1
    run_ended exit_code=69 outcome={"cause":"overloaded","kind":"agent_failed"}
    --- exit code 69
    "#);
}

/// A run of another project waits for it, and starts no session.
// shows: AGT-14
#[test]
fn a_limit_that_another_run_met() {
    let stage = stage(1, &failing("limit = 3600").replace("call 2", "prompt"));
    stage.run(&words(&["--on-rate-limit", "stop"])).expect(3);
    let other = stage.path("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("task.md"), items(1)).unwrap();
    std::fs::write(other.join("scenario.toml"), "").unwrap();
    let mut command = stage.command(&words(&[]));
    let mut run = Running::of(command.current_dir(&other).spawn().unwrap());
    run.wait_for("\"event\":\"waiting\"");
    let status = stage.run_in("other", &["status"]).expect(0);
    for said in [
        "waiting (usage limit) until",
        "the 5-hour limit is reached (another run met it)",
    ] {
        assert!(status.stdout.contains(said), "{status}");
    }
    let doctor = ["doctor", "--agent", "rehearsal"];
    let doctor = stage.run_in("other", &doctor).expect(0);
    let limit = "rehearsal: the 5-hour limit is reached (another run met it), until ";
    assert!(doctor.stdout.contains(limit), "{doctor}");
    run.signal(Signal::INT);
    insta::assert_snapshot!(told(&stage, &run.end()), @r#"
    run_started
    session_started attempt=1 conversation="fresh" session=1
    attempt_ended attempt=1 cause={"limit_known":{"kind":"five_hour","resets_at":"TIME"}} goes_on=true left="nothing" session=1
    waiting attempt=2 cause={"limit_known":{"kind":"five_hour","resets_at":"TIME"}} session=1 why="usage_limit"
    stop_requested request={"how":"gently"}
    run_ended exit_code=3 outcome={"kind":"stopped","request":{"how":"gently"}} problems={"limits":[1]}
    --- exit code 3
    "#);
    let log = stage.run_in("other", &["log", "--json"]).expect(0).stdout;
    assert!(!log.contains("\"pid\""), "a process ran: {log}");
    let log = stage.run_in("other", &["log"]).expect(0).stdout;
    let why = "not started: the 5-hour limit is reached (another run met it)";
    assert!(log.contains(why), "{log}");
    // Whoever met it tries again when a person wants that; what works then is open to all.
    stage.run(&["resume"]).expect(0);
    stage.run_in("other", &["resume"]).expect(0);
}
