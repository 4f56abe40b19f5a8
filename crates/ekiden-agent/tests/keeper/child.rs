//! What a keeper passes on, keeps to itself, and promises while nobody is killed.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use ekiden_agent::child::{
    Child, ChildEnd, ChildSpec, OUTER_AGENT_ENV, OUTER_GIT_ENV, SpawnError, StdinKind, spawn,
};
use ekiden_agent::task::{Output, run_output};
use ekiden_core::time::Millis;
use expect_test::expect;
use rustix::process::test_kill_process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::stage::{ACTOR, PATIENCE, PROMISE, Stage};

pub(crate) fn spec(program: &str, args: &[&str]) -> ChildSpec {
    ChildSpec {
        args: args.iter().map(Into::into).collect(),
        grace: Millis(300),
        ..ChildSpec::new(ACTOR, program, "/")
    }
}

fn shell(script: &str) -> ChildSpec {
    spec("sh", &["-c", script])
}

async fn end_of(child: &mut Child) -> ChildEnd {
    timeout(PATIENCE, child.wait())
        .await
        .expect("an end in time")
}

async fn output(spec: ChildSpec) -> Output {
    run_output(spec, b"", tokio::time::sleep(PATIENCE), 64 * 1024)
        .await
        .expect("it starts")
}

#[tokio::test]
async fn exit_codes_and_signals_are_passed_on() {
    for (script, end) in [
        ("exit 0", ChildEnd::Exited(0)),
        ("exit 7", ChildEnd::Exited(7)),
        ("exit 255", ChildEnd::Exited(255)),
        ("kill -TERM $$", ChildEnd::Signaled(15)),
        ("kill -KILL $$", ChildEnd::Signaled(9)),
        ("kill -PIPE $$", ChildEnd::Signaled(13)),
    ] {
        let mut child = spawn(shell(script)).expect("it starts");
        assert_eq!(end_of(&mut child).await, end, "{script}");
        assert_eq!(end_of(&mut child).await, end, "asked again: {script}");
    }
}

#[tokio::test]
async fn the_pid_is_that_of_the_program() {
    let mut child = spawn(shell("echo $$; read line")).expect("it starts");
    let agent = child.started().await.expect("it runs");
    let mut text = String::new();
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_string(&mut text)
        .await
        .expect("text");
    assert_eq!(text, format!("{agent}\n"));
    assert_eq!(end_of(&mut child).await, ChildEnd::Exited(1));
}

#[tokio::test]
async fn streams_are_the_childs_own() {
    let mut child = spawn(ChildSpec {
        stdin: StdinKind::Piped,
        ..shell("cat; echo done >&2")
    })
    .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"there and back").await.expect("written");
    drop(stdin);
    let (mut out, mut err) = (String::new(), String::new());
    child
        .stdout
        .take()
        .expect("a pipe")
        .read_to_string(&mut out)
        .await
        .expect("text");
    child
        .stderr
        .take()
        .expect("a pipe")
        .read_to_string(&mut err)
        .await
        .expect("text");
    assert_eq!((out.as_str(), err.as_str()), ("there and back", "done\n"));
    assert_eq!(end_of(&mut child).await, ChildEnd::Exited(0));
}

#[tokio::test]
async fn what_cannot_start_is_told_before_anything_happens() {
    let error = spawn(spec("no-such-agent", &[])).expect_err("there is none");
    expect!["find the program `no-such-agent`"].assert_eq(&error.to_string());
    let error = spawn(ChildSpec {
        dir: "/nowhere".into(),
        ..shell("exit 0")
    })
    .expect_err("no place");
    expect!["start a program in /nowhere"].assert_eq(&error.to_string());
    let error = spawn(ChildSpec {
        keeper: "/nowhere".into(),
        ..shell("exit 0")
    })
    .expect_err("no keeper");
    assert!(matches!(error, SpawnError::Keeper { .. }), "{error:?}");
}

#[tokio::test]
async fn a_failed_exec_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("agent");
    fs::write(&script, "#!/nowhere/interpreter\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("made executable");
    let mut child = spawn(spec(script.to_str().expect("plain"), &[])).expect("the keeper starts");
    assert_eq!(child.started().await, None);
    let ChildEnd::NotStarted(why) = end_of(&mut child).await else {
        panic!("it cannot run")
    };
    expect!["No such file or directory (os error 2)"].assert_eq(&why);
}

/// It may exit before it gets the command or after. Either is an error, and nothing hangs.
#[tokio::test]
async fn a_keeper_that_is_another_program_is_an_error() {
    let spawned = spawn(ChildSpec {
        keeper: "/bin/true".into(),
        ..shell("exit 0")
    });
    match spawned {
        Ok(mut child) => assert_eq!(end_of(&mut child).await, ChildEnd::KeeperLost),
        Err(error) => assert!(matches!(error, SpawnError::Keeper { .. }), "{error:?}"),
    }
}

#[test]
fn a_keeper_started_by_hand_does_nothing() {
    for args in [&["__keeper"][..], &["__keeper", "3000", "/bin/sh"]] {
        let status = Command::new(ACTOR)
            .args(args)
            .stdin(std::process::Stdio::null())
            .status();
        assert_eq!(status.expect("it starts").code(), Some(2), "{args:?}");
    }
}

// shows: RUN-10
#[tokio::test]
async fn tools_end_with_their_agent() {
    let mut stage = Stage::new(&["3000", "agent", "polite", "daemon", "leave"]);
    stage.wait_for_end(PATIENCE).expect("an end");
    assert_eq!(stage.end(), Some("Exited(7)"));
    let mut stage = Stage::new(&["3000", "agent", "deaf", "setsid", "daemon", "leave"]);
    stage
        .wait_for_end(PROMISE)
        .expect("an end within the tools' own grace time");
    assert_eq!(stage.end(), Some("Exited(7)"));
}

#[tokio::test]
async fn a_deaf_child_is_killed_after_the_grace_time() {
    let mut child =
        spawn(shell("trap '' TERM; echo ready; while :; do sleep 1; done")).expect("it starts");
    ready(&mut child).await;
    let start = Instant::now();
    child.terminate();
    child.terminate();
    assert_eq!(end_of(&mut child).await, ChildEnd::Signaled(9));
    assert!(
        start.elapsed() >= Duration::from_millis(300),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_child_may_clean_up_in_the_grace_time() {
    let script = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut child = spawn(ChildSpec {
        grace: Millis::from_secs(60),
        ..shell(script)
    })
    .expect("it starts");
    ready(&mut child).await;
    child.terminate();
    assert_eq!(end_of(&mut child).await, ChildEnd::Exited(5));
}

#[tokio::test]
async fn a_stopped_child_goes_too() {
    let mut child = spawn(ChildSpec {
        grace: Millis::from_secs(60),
        ..shell("echo ready; kill -STOP $$")
    })
    .expect("it starts");
    ready(&mut child).await;
    child.terminate();
    assert_eq!(end_of(&mut child).await, ChildEnd::Signaled(15));
}

async fn ready(child: &mut Child) {
    let mut line = [0; 6];
    let stdout = child.stdout.as_mut().expect("a pipe");
    timeout(PATIENCE, stdout.read_exact(&mut line))
        .await
        .expect("in time")
        .expect("a line");
}

#[tokio::test]
async fn wait_may_be_cancelled() {
    let mut child = spawn(ChildSpec {
        stdin: StdinKind::Piped,
        ..shell("read line; exit 3")
    })
    .expect("it starts");
    for _ in 0..20 {
        assert!(
            timeout(Duration::from_millis(1), child.wait())
                .await
                .is_err(),
            "it waits for a line"
        );
    }
    drop(child.stdin.take());
    assert_eq!(end_of(&mut child).await, ChildEnd::Exited(3));
}

fn locked_file(path: &Path) -> File {
    let file = File::create(path).expect("a file");
    file.try_lock().expect("a free lock");
    file
}

fn is_free(path: &Path) -> bool {
    File::open(path).expect("the file").try_lock().is_ok()
}

// shows: RUN-10
#[tokio::test]
async fn the_lock_is_held_while_anything_lives() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("attempt.lock");
    let lock = Some(locked_file(&path));
    let script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo ready; sleep 60' & wait";
    let mut child = spawn(ChildSpec {
        lock,
        ..shell(script)
    })
    .expect("it starts");
    ready(&mut child).await;
    assert!(!is_free(&path), "the keepers hold it");
    child.terminate();
    end_of(&mut child).await;
    assert!(is_free(&path), "nothing is left that holds it");
}

#[tokio::test]
async fn a_dropped_handle_ends_the_child() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("attempt.lock");
    let lock = Some(locked_file(&path));
    let mut child = spawn(ChildSpec {
        lock,
        ..shell("echo ready; sleep 60 & wait")
    })
    .expect("it starts");
    ready(&mut child).await;
    let agent =
        rustix::process::Pid::from_raw(child.started().await.expect("it runs").cast_signed());
    drop(child);
    let freed = tokio::task::spawn_blocking(move || File::open(path).expect("the file").lock());
    timeout(PATIENCE, freed)
        .await
        .expect("in time")
        .expect("a thread")
        .expect("a lock");
    assert!(
        test_kill_process(agent.expect("a pid")).is_err(),
        "the agent is dead when the lock is free"
    );
}

// shows: RUN-10
#[tokio::test]
async fn the_lock_of_a_killed_engine_is_free_when_all_are_dead() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("attempt.lock");
    let args = [
        "300",
        "--lock",
        path.to_str().expect("plain"),
        "agent",
        "deaf",
        "daemon",
        "setsid",
    ];
    let mut stage = Stage::new(&args);
    stage.wait_for(&[("agent", 1), ("tool", 2)]);
    assert!(!is_free(&path), "the keepers hold it");
    stage.kill(&["engine"]);
    let freed = tokio::task::spawn_blocking(move || File::open(path).expect("the file").lock());
    timeout(PATIENCE, freed)
        .await
        .expect("in time")
        .expect("a thread")
        .expect("a lock");
    let of_the_agent = |part: &String| part == "agent" || part == "tool";
    assert!(
        !stage.alive().values().any(of_the_agent),
        "{:?}",
        stage.alive()
    );
}

// shows: RUN-05
#[test]
fn exactly_the_variables_of_an_outer_agent_and_an_outer_git_go() {
    let kept = [
        "ANTHROPIC_API_KEY",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "GIT_CONFIG_COUNT",
        "GIT_SSH_COMMAND",
    ];
    let mut command = Command::new(ACTOR);
    command
        .arg("environment")
        .env_clear()
        .env("PATH", "/bin:/usr/bin")
        .env("HOME", "/home");
    command
        .envs(kept.map(|name| (name, "kept")))
        .envs(OUTER_AGENT_ENV.map(|name| (name, "outer")));
    command
        .envs(OUTER_GIT_ENV.map(|name| (name, "outer")))
        .env("GIT_AUTHOR_NAME", "of the commit that a hook is about");
    let output = command.output().expect("the actor");
    let text = String::from_utf8(output.stdout).expect("text");
    let mut lines = text.lines().collect::<Vec<_>>();
    lines.sort_unstable();
    expect![[r#"
        ANTHROPIC_API_KEY=kept
        CLAUDE_CODE_MAX_OUTPUT_TOKENS=kept
        CLAUDE_CODE_USE_BEDROCK=kept
        CLAUDE_CONFIG_DIR=kept
        EKIDEN_RUN=7f3a0b1c
        GIT_CONFIG_COUNT=kept
        GIT_SSH_COMMAND=kept
        HOME=/elsewhere
        PATH=/bin:/usr/bin"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn closed_standard_streams_do_no_harm() {
    for closed in ["<&-", "2>&-", "<&- 2>&-"] {
        let script = format!("exec {ACTOR} environment {closed}");
        let output = Command::new("sh")
            .args(["-c", &script])
            .output()
            .expect("the actor");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("EKIDEN_RUN=7f3a0b1c"), "{closed}: {text}");
    }
}

#[tokio::test]
async fn no_descriptor_of_ours_is_passed_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let lock = Some(locked_file(&dir.path().join("attempt.lock")));
    let under_keeper = output(ChildSpec {
        lock,
        ..spec("ls", &["/proc/self/fd"])
    })
    .await;
    let direct = Command::new("ls")
        .arg("/proc/self/fd")
        .output()
        .expect("ls");
    assert_eq!(
        String::from_utf8_lossy(&under_keeper.stdout),
        String::from_utf8_lossy(&direct.stdout)
    );
}

#[tokio::test]
async fn signals_are_at_their_defaults() {
    // Rust ignores SIGPIPE, and the keepers ignore what people send.
    let output = output(spec("grep", &["-E", "^Sig(Ign|Blk)", "/proc/self/status"])).await;
    let text = String::from_utf8(output.stdout).expect("text");
    let masks = text
        .split_whitespace()
        .filter_map(|word| u64::from_str_radix(word, 16).ok());
    let ours = masks.map(|mask| mask & !LIBC_SIGNALS).collect::<Vec<_>>();
    assert_eq!(ours, [0, 0], "{text}");
}

/// Signals 32 and 33 belong to the C library, which lets nobody set them, and has a process that it
/// spawns ignore them.
const LIBC_SIGNALS: u64 = 0b11 << 31;

#[tokio::test]
async fn a_child_leads_a_session_without_a_terminal() {
    let script =
        "ps -o pgid=,sid= -p $$ | xargs echo $$ | tr ' ' '\\n' | sort -u | wc -l; ps -o tty= -p $$";
    let output = output(shell(script)).await;
    expect![[r#"
        1
        ?
    "#]]
    .assert_eq(&String::from_utf8_lossy(&output.stdout));
}
