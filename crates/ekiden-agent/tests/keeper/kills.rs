//! RUN-10: whoever is killed, nothing that the agent started is alive after 5 s.

use std::time::Duration;

use crate::stage::{PATIENCE, PROMISE, Stage};

/// The real grace time, and tools of every kind.
const GRACE_MS: &str = "3000";
const TOOLS: [&str; 6] = ["child", "setsid", "daemon", "daemon", "child", "setsid"];

fn stage(manners: &str) -> Stage {
    let args = [&[GRACE_MS, "agent", manners][..], &TOOLS].concat();
    Stage::new(&args)
}

fn wait_until_all_play(stage: &mut Stage) {
    stage.wait_for(&[
        ("engine", 1),
        ("outer", 1),
        ("inner", 1),
        ("agent", 1),
        ("tool", TOOLS.len()),
    ]);
}

/// Kills each of these sets of processes, each set on a stage of its own, all stages at once.
fn kill_each(manners: &str, cases: &[&[&str]]) {
    let mut stages = cases.iter().map(|_| stage(manners)).collect::<Vec<_>>();
    stages.iter_mut().for_each(wait_until_all_play);
    for (stage, victims) in stages.iter().zip(cases) {
        stage.kill(victims);
    }
    for (stage, victims) in stages.iter_mut().zip(cases) {
        let ended = stage.wait_for_end(PROMISE);
        assert!(
            ended.is_ok(),
            "{victims:?} of {manners} ones were killed: {ended:?}"
        );
    }
}

const EACH_ALONE: [&[&str]; 4] = [&["engine"], &["outer"], &["inner"], &["agent"]];
const EACH_PAIR: [&[&str]; 6] = [
    &["engine", "outer"],
    &["engine", "inner"],
    &["engine", "agent"],
    &["outer", "inner"],
    &["outer", "agent"],
    &["inner", "agent"],
];

// shows: RUN-10
#[test]
fn nothing_outlives_a_kill_of_one_when_all_are_deaf() {
    kill_each("deaf", &EACH_ALONE);
}

// shows: RUN-10
#[test]
fn nothing_outlives_a_kill_of_two_when_all_are_deaf() {
    kill_each("deaf", &EACH_PAIR);
}

// shows: RUN-10
#[test]
fn nothing_outlives_a_kill_of_one_or_two_when_all_are_polite() {
    kill_each(
        "polite",
        &[EACH_ALONE.as_slice(), EACH_PAIR.as_slice()].concat(),
    );
}

// shows: RUN-10
#[test]
fn a_living_engine_is_told_what_was_killed() {
    for (victims, end) in [
        (&["agent"][..], "Signaled(9)"),
        (&["outer"], "KeeperLost"),
        (&["inner"], "KeeperLost"),
        (&["outer", "inner"], "KeeperLost"),
        (&["outer", "inner", "agent"], "KeeperLost"),
    ] {
        let mut stage = stage("polite");
        wait_until_all_play(&mut stage);
        stage.kill(victims);
        stage.wait_for_end(PATIENCE).expect("an end");
        assert_eq!(stage.end(), Some(end), "{victims:?}");
    }
}

#[test]
fn an_agent_that_lost_all_others_is_asked_to_go() {
    let mut stage = stage("polite");
    wait_until_all_play(&mut stage);
    stage.kill(&["engine", "outer", "inner"]);
    stage.wait_for_death_of("agent", PATIENCE);
    assert!(
        !stage.alive().is_empty(),
        "its tools are found by their mark only"
    );
}

#[test]
fn what_outlives_a_kill_of_all_is_found_by_its_mark() {
    for manners in ["deaf", "polite"] {
        for agent_too in [&[][..], &["agent"]] {
            let mut stage = stage(manners);
            wait_until_all_play(&mut stage);
            stage.kill(&[&["engine", "outer", "inner"], agent_too].concat());
            assert!(
                !stage.alive().is_empty(),
                "nobody was left to end the {manners} tools"
            );
            assert!(stage.end_marked() >= TOOLS.len(), "{manners}");
            stage.wait_for_end(PATIENCE).expect("all dead");
        }
    }
}

// shows: RUN-10
#[test]
fn an_engine_may_die_at_any_moment_of_the_start() {
    let delays = (0..40).map(|step| Duration::from_micros(step * 250));
    let mut stages = delays
        .map(|delay| kill_after("engine", delay))
        .collect::<Vec<_>>();
    for stage in &mut stages {
        stage
            .wait_for_end(PROMISE)
            .expect("nothing outlives an engine that died early");
    }
}

// shows: RUN-10
#[test]
fn a_keeper_may_die_at_any_moment_of_the_start() {
    let delays = (0..20).map(|step| Duration::from_micros(step * 200));
    let mut stages = delays
        .map(|delay| kill_after("outer", delay))
        .collect::<Vec<_>>();
    for stage in &mut stages {
        stage
            .wait_for_end(PROMISE)
            .expect("nothing outlives a keeper that died early");
    }
}

/// A stage whose `victim` is killed this long after it has begun.
fn kill_after(victim: &str, delay: Duration) -> Stage {
    let mut stage = stage("deaf");
    stage.wait_for(&[(victim, 1)]);
    // A stimulus, not a wait: each delay hits another moment.
    std::thread::sleep(delay);
    stage.kill(&[victim]);
    stage
}

// shows: RUN-10
#[test]
fn a_process_that_forks_on_and_on_is_caught() {
    for victims in [&["engine"][..], &["agent"], &["inner"]] {
        let mut stage = Stage::new(&["500", "agent", "deaf", "hopper", "hopper", "wild-hopper"]);
        stage.wait_for(&[("agent", 1), ("tool", 3)]);
        stage.kill(victims);
        stage.wait_for_end(PROMISE).expect("the chain was cut");
    }
}

// shows: RUN-10
#[test]
fn a_stopped_keeper_is_replaced() {
    let mut stage = Stage::new(&["3000", "agent", "deaf", "daemon"]);
    stage.wait_for(&[("inner", 1), ("agent", 1), ("tool", 1)]);
    for inner in stage.pids("inner") {
        rustix::process::kill_process(inner, rustix::process::Signal::STOP)
            .expect("a living keeper");
    }
    stage.kill(&["engine"]);
    stage
        .wait_for_end(PROMISE)
        .expect("the outer keeper steps in");
}
