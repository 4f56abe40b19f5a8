//! Workers: what a command gets and gives, who runs it, and that nothing outlives it.

use std::future::pending;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ekiden_agent::child::{ChildEnd, SpawnError};
use ekiden_agent::task::Output;
use ekiden_agent::workers::{ShortCommand, Workers};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::time::sleep;

use crate::stage::{ACTOR, PATIENCE, PROMISE, Stage};

const BYTES_MAX: usize = 4 * 1024 * 1024;

fn workers() -> Workers {
    Workers::new(PathBuf::from(ACTOR))
}

fn shell(script: &str) -> ShortCommand {
    let args = ["-c", script].map(Into::into).to_vec();
    ShortCommand { program: "sh".into(), args, dir: PathBuf::from("/"), env: Vec::new() }
}

async fn run(workers: &Workers, script: &str) -> Output {
    workers.run(shell(script), b"", sleep(PATIENCE), BYTES_MAX).await.expect("it starts")
}

/// The first number that a script printed.
async fn number(workers: &Workers, script: &str) -> i32 {
    let said = run(workers, script).await.stdout;
    String::from_utf8_lossy(&said).trim().parse().expect("a number")
}

fn pid(raw: i32) -> Pid {
    Pid::from_raw(raw).expect("a process")
}

#[tokio::test]
async fn a_command_gets_what_it_was_given_and_its_end_and_both_streams_are_told() {
    let workers = workers();
    let script = "pwd; printf '%s\\n' \"$NOTE\"; cat; echo error >&2; exit 3";
    let command = ShortCommand {
        dir: PathBuf::from("/tmp"),
        env: vec![("NOTE".into(), "a b".into())],
        ..shell(script)
    };
    let output = workers.run(command, b"in\xff\n", sleep(PATIENCE), BYTES_MAX).await.expect("it starts");
    let expected = Output {
        end: ChildEnd::Exited(3),
        stdout: b"/tmp\na b\nin\xff\n".to_vec(),
        stderr: b"error\n".to_vec(),
        cut: false,
        timed_out: false,
    };
    assert_eq!(output, expected);
    assert_eq!(run(&workers, "cat; kill -9 $$").await.end, ChildEnd::Signaled(9));
}

#[tokio::test]
async fn what_cannot_be_started_is_told() {
    let workers = workers();
    let at =
        |dir: &str, program: &str| ShortCommand { dir: dir.into(), program: program.into(), ..shell("true") };
    for (dir, program) in [("/nowhere", "sh"), ("/", "no-such-program")] {
        let refused = workers.run(at(dir, program), b"", pending(), 0).await;
        assert!(matches!(refused, Err(SpawnError::Dir { .. } | SpawnError::NoProgram { .. })), "{refused:?}");
    }
    let text = tempfile::NamedTempFile::new().expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::write(text.path(), [0x7f, b'E'])
        .and_then(|()| text.as_file().set_permissions(mode))
        .expect("a file");
    let program = text.path().to_str().expect("a path");
    let output = workers.run(at("/", program), b"", pending(), 0).await.expect("a worker");
    assert!(matches!(output.end, ChildEnd::NotStarted(_)), "{output:?}");
}

#[tokio::test]
async fn one_worker_runs_one_command_after_the_other_and_another_one_at_the_same_time() {
    let workers = workers();
    let first = number(&workers, "echo $PPID").await;
    assert_eq!(number(&workers, "echo $PPID").await, first);
    let both = tokio::join!(number(&workers, "sleep 0.2; echo $PPID"), number(&workers, "echo $PPID"));
    assert!(both.0 == first && both.1 != first, "{first} {both:?}");
}

#[tokio::test]
async fn much_goes_through_in_both_directions_at_once_and_is_kept_up_to_a_bound() {
    let workers = workers();
    let input: Vec<u8> = (0..2_000_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let output = workers.run(shell("tee /dev/stderr"), &input, sleep(PATIENCE), BYTES_MAX).await;
    let output = output.expect("it starts");
    assert!(output.stdout == input && output.stderr == input && !output.cut);
    let output = workers.run(shell("cat"), &input, sleep(PATIENCE), 1000).await.expect("it starts");
    assert!(output.stdout == input[..1000] && output.cut && output.end == ChildEnd::Exited(0));
    // Who does not read it all has its reasons.
    let output = workers.run(shell("exit 4"), &input, sleep(PATIENCE), 1000).await.expect("it starts");
    assert_eq!(output.end, ChildEnd::Exited(4));
}

#[tokio::test]
async fn what_a_command_leaves_running_is_ended_before_its_end_is_told() {
    let workers = workers();
    let first = number(&workers, "echo $PPID").await;
    let left = number(&workers, "setsid sleep 60 & echo $!").await;
    assert!(test_kill_process(pid(left)).is_err(), "it is dead");
    assert_ne!(number(&workers, "echo $PPID").await, first);
}

#[tokio::test]
async fn what_takes_too_long_is_told_to_end_and_says_how() {
    let workers = workers();
    let started = Instant::now();
    for (script, end) in [
        ("echo before; sleep 60", ChildEnd::Signaled(15)),
        ("trap 'echo after; exit 0' TERM; echo before; sleep 60 & wait", ChildEnd::Exited(0)),
    ] {
        let soon = sleep(Duration::from_millis(300));
        let output = workers.run(shell(script), b"", soon, BYTES_MAX).await.expect("it starts");
        assert!(output.timed_out && output.stdout.starts_with(b"before\n"), "{output:?}");
        assert_eq!(output.end, end);
    }
    assert!(started.elapsed() < PATIENCE);
}

#[tokio::test]
async fn a_worker_that_is_killed_is_replaced() {
    let workers = workers();
    let output = run(&workers, "kill -9 $PPID; sleep 60").await;
    assert_eq!(output.end, ChildEnd::Signaled(9));
    let idle = number(&workers, "echo $PPID").await;
    kill_process(pid(idle), Signal::KILL).expect("killed");
    while test_kill_process(pid(idle)).is_ok() {
        std::thread::yield_now();
    }
    assert_ne!(number(&workers, "echo $PPID").await, idle, "nothing was lost");
}

#[tokio::test]
async fn a_worker_that_hangs_takes_no_longer_than_its_command_may() {
    let workers = workers();
    let idle = number(&workers, "echo $PPID").await;
    kill_process(pid(idle), Signal::STOP).expect("stopped");
    let (started, soon) = (Instant::now(), sleep(Duration::from_millis(300)));
    // More than a pipe holds.
    let input = vec![b'x'; 1_000_000];
    let output = workers.run(shell("cat"), &input, soon, BYTES_MAX).await.expect("it was started");
    assert!(output.timed_out && output.end != ChildEnd::Exited(0), "{:?}", output.end);
    assert!(started.elapsed() < PATIENCE);
}

#[tokio::test]
async fn a_command_ends_with_whoever_waited_for_it_and_a_worker_with_the_last_of_all() {
    let workers = workers();
    let idle = number(&workers, "echo $PPID").await;
    let file = tempfile::NamedTempFile::new().expect("a file");
    let script = format!("echo $$ > {}; exec sleep 60", file.path().display());
    let running = run(&workers, &script);
    let _ = tokio::time::timeout(Duration::from_millis(500), running).await.expect_err("it takes longer");
    let text = std::fs::read_to_string(file.path()).expect("its number");
    let sleeper = pid(text.trim().parse().expect("a number"));
    drop(workers);
    let until = Instant::now() + PROMISE;
    while [sleeper, pid(idle)].into_iter().any(|pid| test_kill_process(pid).is_ok()) {
        assert!(Instant::now() < until, "somebody is alive");
        std::thread::yield_now();
    }
}

// shows: RUN-10
#[test]
fn nothing_outlives_a_kill_where_a_worker_is_at_work() {
    const TOOLS: [&str; 3] = ["child", "setsid", "daemon"];
    let cases: [&[&str]; 11] = [
        &["engine"],
        &["outer"],
        &["inner"],
        &["worker"],
        &["agent"],
        &["engine", "outer"],
        &["engine", "inner"],
        &["engine", "worker"],
        &["outer", "inner"],
        &["inner", "worker"],
        &["worker", "agent"],
    ];
    for manners in ["deaf", "polite"] {
        let args = [&["command", manners][..], &TOOLS].concat();
        let mut stages = cases.map(|_| Stage::of("orders", &args));
        for stage in &mut stages {
            let parts = ["engine", "outer", "inner", "worker", "agent"].map(|part| (part, 1));
            stage.wait_for(&[&parts[..], &[("tool", TOOLS.len())]].concat());
        }
        stages.iter().zip(cases).for_each(|(stage, victims)| stage.kill(victims));
        for (stage, victims) in stages.iter_mut().zip(cases) {
            let ended = stage.wait_for_end(PROMISE);
            assert!(ended.is_ok(), "{victims:?} of {manners} ones were killed: {ended:?}");
        }
    }
}

// shows: RUN-10
#[test]
fn a_command_is_told_to_end_if_only_its_worker_is_left() {
    let mut stage = Stage::of("orders", &["command", "polite"]);
    stage.wait_for(&["engine", "outer", "inner", "worker", "agent"].map(|part| (part, 1)));
    stage.kill(&["engine", "outer", "inner"]);
    let ended = stage.wait_for_end(PROMISE);
    assert!(ended.is_ok(), "{ended:?}");
}
