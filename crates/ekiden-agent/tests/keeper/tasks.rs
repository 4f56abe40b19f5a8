//! Commands of which only the end and the output matter.

use std::io::Write as _;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use ekiden_agent::child::{ChildEnd, ChildSpec, StdinKind};
use ekiden_agent::task::{TaskOutcome, run_output, run_task};
use ekiden_core::time::Millis;
use tokio::time::sleep;

use crate::child::spec;
use crate::stage::{ACTOR, PATIENCE};

async fn verify(script: &str, timeout: Millis, tail_bytes: usize) -> TaskOutcome {
    run_task(spec("sh", &["-c", script]), timeout, tail_bytes)
        .await
        .expect("it starts")
}

// shows: RUN-09
#[test]
fn a_socket_outlives_a_moment_without_room_for_a_caller() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let script = r#"ulimit -n 24; exec "$0" listener "$1""#;
    let mut listener = Command::new("sh")
        .args(["-c", script, ACTOR])
        .arg(&path)
        .spawn()
        .unwrap();
    let until = Instant::now() + PATIENCE;
    while UnixStream::connect(&path).is_err() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let idle: Vec<_> = (0..40).map(|_| UnixStream::connect(&path)).collect();
    // Until it has refused one of them.
    std::thread::sleep(Duration::from_millis(300));
    drop(idle);
    let answered = || {
        let mut caller = UnixStream::connect(&path)?;
        caller.set_read_timeout(Some(PATIENCE))?;
        caller.write_all(b"hello")?;
        caller.shutdown(Shutdown::Write)?;
        std::io::read_to_string(caller)
    };
    let answer = answered();
    listener.kill().unwrap();
    listener.wait().unwrap();
    assert_eq!(answer.expect("it still listens"), "hello");
}

#[tokio::test]
async fn both_streams_are_told_in_their_order() {
    let outcome = verify(
        "echo one; echo two >&2; echo three; exit 4",
        Millis::from_secs(30),
        4000,
    )
    .await;
    let expected = TaskOutcome {
        end: ChildEnd::Exited(4),
        tail: "one\ntwo\nthree\n".to_owned(),
        timed_out: false,
    };
    assert_eq!(outcome, expected);
}

#[tokio::test]
async fn a_flood_is_read_and_its_end_kept() {
    let outcome = verify("seq 1 300000; echo last", Millis::from_secs(30), 12).await;
    assert_eq!(
        (outcome.end, outcome.tail.as_str()),
        (ChildEnd::Exited(0), "300000\nlast\n")
    );
}

#[tokio::test]
async fn what_takes_too_long_is_ended_with_all_that_it_started() {
    let start = Instant::now();
    let script = "trap '' TERM; setsid sleep 60 & echo waiting; sleep 60";
    let outcome = verify(script, Millis(200), 4000).await;
    assert!(outcome.timed_out);
    assert_eq!(
        (outcome.end, outcome.tail.as_str()),
        (ChildEnd::Signaled(9), "waiting\n")
    );
    assert!(start.elapsed() < PATIENCE);
}

#[tokio::test]
async fn a_server_left_running_does_not_hold_a_verification_up() {
    let start = Instant::now();
    let outcome = verify(
        "setsid sleep 60 & echo started",
        Millis::from_secs(50),
        4000,
    )
    .await;
    assert_eq!(
        (outcome.end, outcome.tail.as_str()),
        (ChildEnd::Exited(0), "started\n")
    );
    assert!(start.elapsed() < PATIENCE);
}

#[tokio::test]
async fn output_is_kept_apart_and_bounded() {
    let script = ["-c", "seq 1 100000; echo error >&2; cat"];
    let spec = ChildSpec {
        stdin: StdinKind::Piped,
        ..spec("sh", &script)
    };
    let output = run_output(spec, b"", sleep(PATIENCE), 10)
        .await
        .expect("it starts");
    assert_eq!(output.end, ChildEnd::Exited(0));
    assert_eq!(
        (output.stdout.as_slice(), output.stderr.as_slice()),
        (&b"1\n2\n3\n4\n5\n"[..], &b"error\n"[..])
    );
    assert!(output.cut);
}

#[tokio::test]
async fn much_goes_through_in_both_directions_at_once_and_is_kept_up_to_a_bound() {
    const BYTES_MAX: usize = 4 * 1024 * 1024;
    let input: Vec<u8> = (0..2_000_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let run = async |script, bytes_max| {
        let spec = spec("sh", &["-c", script]);
        run_output(spec, &input, sleep(PATIENCE), bytes_max)
            .await
            .expect("it starts")
    };
    let output = run("tee /dev/stderr", BYTES_MAX).await;
    assert!(output.stdout == input && output.stderr == input && !output.cut);
    let output = run("cat", 1000).await;
    assert!(output.stdout == input[..1000] && output.cut);
    assert_eq!(output.end, ChildEnd::Exited(0));
    // A command need not read all of its input.
    assert_eq!(run("exit 4", 1000).await.end, ChildEnd::Exited(4));
}

#[tokio::test]
async fn what_takes_too_long_is_told_to_end_and_says_how() {
    for (script, end) in [
        ("echo before; sleep 60", ChildEnd::Signaled(15)),
        (
            "trap 'echo after; exit 0' TERM; echo before; sleep 60 & wait",
            ChildEnd::Exited(0),
        ),
    ] {
        let soon = sleep(std::time::Duration::from_millis(300));
        let output = run_output(spec("sh", &["-c", script]), b"", soon, 100)
            .await
            .expect("it starts");
        assert!(
            output.timed_out && output.stdout.starts_with(b"before\n"),
            "{output:?}"
        );
        assert_eq!(output.end, end);
    }
}

#[test]
fn a_short_command_needs_no_runtime() {
    let output = Command::new(ACTOR)
        .arg("quick")
        .output()
        .expect("the actor");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        r#"Exited(3) "/tmp\n" "error\n""#
    );
}
