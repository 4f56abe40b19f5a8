//! Runs that outlive their terminal, and runs that never had one.

use std::io::Write as _;
use std::process::Command;
use std::time::Duration;

use ekiden_testkit::pty::Pty;
use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{Environment, items};
use crate::processes::expect_nothing_alive;
use crate::running::{PATIENCE, Running, wait_until};

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];

/// An environment with a task that waits in its first item until the file `go` is there, 20 s at most.
fn waiting() -> Environment {
    let environment = Environment::with_git();
    let wait =
        "touch started; for i in $(seq 1000); do [ -e go ] && break; sleep 0.02; done; echo made";
    environment.write("task.md", &items(4).replacen("echo made", wait, 1));
    environment
}

fn expect_complete(environment: &Environment) {
    assert_eq!(environment.read("item-4.txt"), "made\n");
    let log = environment.told(&["log"]);
    assert!(log.contains("complete (not verified)"), "{log}");
}

// shows: RUN-18
#[test]
fn a_run_goes_on_when_its_window_is_closed() {
    let environment = waiting().with("TERM", "xterm");
    let mut pty = Pty::spawn(environment.command(&RUN)).unwrap();
    wait_until("work", || environment.exists("started"));
    pty.hang_up();
    environment.write("go", "");
    let end = pty.wait(PATIENCE);
    assert_eq!(end.and_then(|end| end.code()), Some(0));
    expect_complete(&environment);
}

// shows: RUN-18
#[test]
fn a_hangup_stops_a_run_that_was_told_so() {
    let environment = waiting().with("EKIDEN_ON_HANGUP", "stop");
    let mut pty = Pty::spawn(environment.command(&RUN)).unwrap();
    wait_until("work", || environment.exists("started"));
    kill_process(Pid::from_raw(pty.pid().cast_signed()).unwrap(), Signal::HUP).unwrap();
    let end = pty.wait(PATIENCE);
    let written = pty.written();
    assert_eq!(end.and_then(|end| end.code()), Some(3), "{written}");
    assert!(
        written.contains("stopped (3): the terminal went away"),
        "{written}"
    );
    expect_nothing_alive(&environment);
    environment.write("go", "");
    environment.run(&["resume"]).expect(0);
    expect_complete(&environment);
}

// shows: AGT-02, RUN-20
#[test]
fn a_run_in_the_agents_own_interface_is_not_resumed_without_a_terminal() {
    let environment = Environment::with_git().with("TERM", "xterm");
    environment.script("client.sh", "exec sleep 60");
    let run = ["run", "Wait here.", "--tui", "--skip-permissions"];
    let client = ["--agent", "claude", "--agent-command", "./client.sh"];
    let mut pty = Pty::spawn(environment.command(&[&run[..], &client].concat())).unwrap();
    let works = pty.wait_until(PATIENCE, |pty| pty.written().contains("session 1"));
    assert!(works, "{}", pty.written());
    kill_process(
        Pid::from_raw(pty.pid().cast_signed()).unwrap(),
        Signal::TERM,
    )
    .unwrap();
    pty.wait(PATIENCE).unwrap();
    let log = environment.log().len();
    insta::assert_snapshot!(environment.told(&["resume"]), @r"
    --- standard error
    error: cannot show the agent's interface without a terminal
    hint: give the command on a terminal; a new run can leave out `--tui`, or set `tui` to false
    --- exit code 78
    ");
    assert_eq!(environment.log().len(), log);
}

// shows: RUN-18
#[test]
fn a_hangup_that_was_ignored_before_stays_ignored() {
    let environment = waiting().with("EKIDEN_ON_HANGUP", "stop");
    let plain = environment.command(&RUN);
    let mut nohup = Command::new("sh");
    nohup
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh"])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(plain.get_current_dir().unwrap())
        .env_clear()
        .envs(
            plain
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let run = Running::of(nohup.spawn().unwrap());
    wait_until("work", || environment.exists("started"));
    run.signal(Signal::HUP);
    environment.write("go", "");
    run.end().expect(0);
    expect_complete(&environment);
}

// shows: RUN-18
#[test]
fn a_detached_run_is_shown_by_attach_which_has_its_exit_code() {
    let environment = waiting();
    let said = environment
        .run(&[&RUN[..], &["--detach", "-m", "1"]].concat())
        .expect(0);
    let id = said.stdout.trim();
    assert_eq!(id.len(), 8, "{said}");
    assert!(
        said.stderr.contains(&format!("ekiden attach {id}")),
        "{said}"
    );
    wait_until("work", || environment.exists("started"));
    // Whatever refuses a run refuses it before the command returns.
    environment
        .run(&[&RUN[..], &["--detach"]].concat())
        .expect(75);
    let mut leaves = environment.start(&["attach"]);
    let mut stays = environment.start(&["attach", id]);
    leaves.wait_for("session 1");
    stays.wait_for("session 1");
    // What follows in a script must not take it for a run that ended well.
    leaves.signal(Signal::TERM);
    leaves.end().expect(143);
    environment.write("go", "");
    let said = stays.end().expect(3);
    let (shown, log) = (said.stdout, environment.run(&["log"]).stdout);
    assert_eq!(
        log.split_once('\n').unwrap().1,
        shown,
        "it is the log's words"
    );
    expect_nothing_alive(&environment);
}

/// A job that is cancelled leaves no agent behind whose run nobody was told of.
// shows: RUN-18
#[test]
fn a_request_to_end_that_comes_before_the_run_has_begun_reaches_it() {
    let environment = waiting();
    let hook = "#!/bin/sh\ntouch switching; sleep 3\n";
    environment.write(".git/hooks/post-checkout", hook);
    environment.shell("chmod +x .git/hooks/post-checkout");
    let begins = environment.start(&[&RUN[..], &["--detach", "--branch", "new"]].concat());
    wait_until("the branch", || environment.exists("switching"));
    begins.signal(Signal::TERM);
    begins.end().expect(143);
    expect_nothing_alive(&environment);
    assert!(!environment.exists("started"));
}

/// A log collector that hangs, or a pager that nobody scrolls.
// shows: RUN-18, UIX-02
#[test]
fn a_reader_that_takes_nothing_keeps_no_one_who_asks_it_to_end() {
    let environment = waiting();
    let (_reader, mut full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while full.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    for args in [&RUN[..], &["attach"]] {
        let mut child = environment.command(args);
        let mut child = child.stdout(full.try_clone().unwrap()).spawn().unwrap();
        wait_until("work", || environment.exists("started"));
        if args != RUN {
            // Until it prints.
            std::thread::sleep(Duration::from_millis(500));
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        wait_until("its end", || child.try_wait().unwrap().is_some());
        if args == RUN {
            environment.shell("rm started");
            environment.run(&["resume", "--detach"]).expect(0);
        }
    }
    environment.run(&["stop", "--now"]);
    expect_nothing_alive(&environment);
}

// shows: RUN-18
#[test]
fn what_needs_a_terminal_is_not_detached() {
    let environment = Environment::with_git();
    environment.write("task.md", &items(1));
    insta::assert_snapshot!(environment.told(&[&RUN[..], &["--detach", "--guided"]].concat()), @r"
    --- standard error
    error: `guided` needs a terminal, and a run in the background has none
    hint: leave out `--guided`, or set `guided` to false
    --- exit code 78
    ");
    let tui = ["run", "task.md", "--detach", "--tui"];
    environment.run(&tui).expect(78);
    assert!(!environment.exists(".ekiden"), "nothing was begun");
}

/// By `kill -9`, or for lack of memory.
// shows: RUN-18
#[test]
fn a_run_that_is_killed_gives_the_terminal_back_and_says_how_to_continue() {
    let environment = waiting().with("TERM", "xterm");
    let mut pty = Pty::spawn(environment.command(&RUN)).unwrap();
    wait_until("work", || environment.exists("started"));
    wait_until("keys", || !pty.is_sane());
    let mut works = pty.processes();
    works.retain(|pid| *pid != pty.pid());
    let [works] = works[..] else {
        panic!("{works:?}")
    };
    kill_process(Pid::from_raw(works.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let end = pty.wait(PATIENCE);
    let written = pty.written();
    assert_eq!(end.and_then(|end| end.code()), Some(137), "{written}");
    assert!(pty.is_sane(), "{written}");
    let told = [
        "ekiden was killed (signal 9)",
        "`ekiden resume` continues the run",
    ];
    assert!(told.iter().all(|told| written.contains(told)), "{written}");
    environment.write("go", "");
    environment.run(&["resume"]).expect(0);
    expect_complete(&environment);
}

// shows: RUN-18
#[test]
fn attach_to_a_run_whose_ekiden_was_killed_says_so() {
    let environment = waiting();
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    let mut attached = environment.start(&["attach"]);
    attached.wait_for("session 1");
    run.signal(Signal::KILL);
    let said = attached.end().expect(3);
    let told = "ekiden was killed; `ekiden resume ";
    assert!(said.stderr.contains(told), "{said}");
    environment.write("go", "");
}

// shows: RUN-18
#[test]
fn a_stopped_run_continues_in_the_background() {
    let environment = waiting();
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    run.signal(Signal::TERM);
    run.end();
    let said = environment.run(&["resume", "--detach"]).expect(0);
    let id = said.stdout.trim();
    assert_eq!(id.len(), 8, "{said}");
    // Whatever refuses to continue it refuses before the command returns.
    environment.run(&["resume", "--detach"]).expect(75);
    environment
        .run(&["resume", "--detach", "--guided"])
        .expect(78);
    environment.write("go", "");
    environment.run(&["attach", id]).expect(0);
    expect_complete(&environment);
}

// shows: RUN-18
#[test]
fn attach_to_a_long_run_shows_its_last_lines() {
    let environment = Environment::with_git();
    let wait = "touch started; for i in $(seq 1000); do [ -e go ] && break; sleep 0.02; done";
    let items = items(30).replace("echo made > item-30.txt", wait);
    environment.write("task.md", &items);
    environment
        .run(&[&RUN[..], &["--detach", "-m", "30"]].concat())
        .expect(0);
    wait_until("the last item", || environment.exists("started"));
    let attached = environment.start(&["attach"]);
    environment.write("go", "");
    let shown = attached.end().expect(0).stdout;
    let log = environment.run(&["log"]).expect(0).stdout;
    let mut lines = shown.lines();
    assert!(lines.next().unwrap().starts_with("run "), "{shown}");
    let left_out = lines.next().unwrap();
    assert!(
        left_out.contains("lines before these: ekiden log"),
        "{left_out}"
    );
    let rest: String = lines.map(|line| format!("{line}\n")).collect();
    assert!(log.ends_with(&rest), "{shown}");
    assert!(rest.lines().count() < 30, "{shown}");
}

/// A pause is no end, nor is a killed ekiden behind it.
// shows: RUN-18, RUN-14
#[test]
fn a_paused_run_is_attached_to_and_watched_until_it_is_over() {
    let environment = waiting();
    let mut run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    environment.run(&["pause"]).expect(0);
    environment.write("go", "");
    run.wait_for("paused before session 2");
    let mut attached = environment.start(&["attach"]);
    let mut watched = environment.start(&["status", "--watch"]);
    attached.wait_for("paused before session 2");
    watched.wait_for("  paused  ");
    // Each looks again, and more than once.
    std::thread::sleep(std::time::Duration::from_millis(3_200));
    assert!(!attached.is_over() && !watched.is_over());
    environment.run(&["unpause"]).expect(0);
    run.end().expect(0);
    let said = attached.end().expect(0);
    assert!(!said.stderr.contains("killed"), "{said}");
    assert!(said.stdout.contains("session 2"), "{said}");
    let said = watched.end().expect(0);
    assert!(said.stdout.contains("  complete  "), "{said}");
    // A line for what happens (the pause, and its end), and none for time that passes.
    assert!(said.stdout.matches("  paused  ").count() <= 2, "{said}");
}
