//! The live view on a real terminal: what stays, which keys do what, and how the terminal is left.

use std::time::Duration;

use ekiden_testkit::pty::Pty;
use rustix::process::{Pid, Signal, kill_process};

use crate::dash::Dash;
use crate::environment::{Environment, items};
use crate::plan;
use crate::running::wait_until;

const RUN: [&str; 4] = ["run", "task.md", "--agent", "rehearsal"];
const WITHIN: Duration = Duration::from_secs(60);
const KEYS: &str = "p pause  n next  s stop";

/// A task that waits in its first item until the file `go` is there, a minute at most.
fn waiting(count: u32) -> Environment {
    let environment = Environment::with_git()
        .with("TERM", "xterm")
        .with("LC_ALL", "C.UTF-8");
    let wait =
        "touch started; for i in $(seq 3000); do [ -e go ] && break; sleep 0.02; done; echo made";
    environment.write("task.md", &items(count).replacen("echo made", wait, 1));
    environment
}

fn on_terminal(environment: &Environment, words: &[&str]) -> Pty {
    Pty::spawn(environment.command(words)).unwrap()
}

#[track_caller]
fn shows(pty: &mut Pty, text: &str) {
    let shown = pty.wait_until(WITHIN, |pty| pty.written().contains(text));
    assert!(shown, "`{text}` never came:\n{}", pty.written());
}

#[track_caller]
fn on_screen(pty: &mut Pty, text: &str, is_there: bool) {
    let is_so = pty.wait_until(WITHIN, |pty| pty.screen().contains(text) == is_there);
    assert!(is_so, "`{text}` on the screen:\n{}", pty.screen());
}

#[track_caller]
fn ends(pty: &mut Pty, code: i32) {
    let end = pty.wait(WITHIN);
    assert_eq!(
        end.and_then(|end| end.code()),
        Some(code),
        "{}",
        pty.written()
    );
    assert!(pty.is_sane(), "the terminal was not given back");
}

/// What a terminal of this size shows at the end, with what has scrolled away.
fn kept(written: &str, columns: u16) -> String {
    let mut terminal = vt100::Parser::new(500, columns, 0);
    terminal.process(written.as_bytes());
    terminal.screen().contents().trim_end().to_owned() + "\n"
}

/// What stays is what `ekiden log` prints, and the view leaves nothing behind.
// shows: UIX-01
#[test]
fn the_lines_that_stay_are_the_plain_ones() {
    let environment = waiting(5);
    let mut pty = on_terminal(&environment, &RUN);
    shows(&mut pty, KEYS);
    assert!(!pty.is_sane(), "keys come one by one");
    environment.write("go", "");
    ends(&mut pty, 0);
    let log = environment.run(&["log"]).expect(0).stdout;
    let (_, log) = log.split_once('\n').unwrap();
    assert_eq!(kept(&pty.written(), 100), log);
}

// shows: UIX-01
#[test]
fn ctrl_c_stops_as_ever_and_gives_the_terminal_back() {
    let environment = waiting(5);
    let mut pty = on_terminal(&environment, &RUN);
    shows(&mut pty, KEYS);
    pty.press("\u{3}").unwrap();
    environment.write("go", "");
    ends(&mut pty, 3);
    assert!(!kept(&pty.written(), 100).contains(KEYS));
}

/// A run is paused, told something, limited and stopped by its own keys; a stop is asked about first.
// shows: UIX-01, REL-25
#[test]
fn a_run_is_steered_by_keys() {
    let environment = waiting(9);
    let mut pty = on_terminal(&environment, &RUN);
    shows(&mut pty, KEYS);
    pty.press("l-m many\n").unwrap();
    shows(&mut pty, "must be a whole number");
    pty.press("l-m 7\n").unwrap();
    shows(&mut pty, "up to session 7");
    pty.press("mspare the docs\n").unwrap();
    shows(&mut pty, "the next session will read: ");
    pty.press("munsent").unwrap();
    on_screen(&mut pty, "unsent▏", true);
    pty.press("\u{1b}").unwrap();
    on_screen(&mut pty, "unsent▏", false);
    pty.press("f").unwrap();
    on_screen(&mut pty, "> session 1", true);
    pty.press("l-m few\n").unwrap();
    on_screen(&mut pty, "not `few`", true);
    pty.press("\u{1b}[A").unwrap();
    on_screen(&mut pty, "not `few`", false);
    pty.press("f").unwrap();
    pty.press("p").unwrap();
    shows(&mut pty, "p unpause");
    pty.press("sn").unwrap();
    pty.press("sy").unwrap();
    environment.write("go", "");
    ends(&mut pty, 3);
    let log = environment.run(&["log"]).expect(0).stdout;
    assert!(log.contains("spare the docs"), "{log}");
    assert!(!log.contains("unsent"), "{log}");
}

/// A suspended run answers nothing, and a person who leaves waits for what is under way.
// shows: UIX-01, RUN-14
#[test]
fn what_a_run_does_not_answer_is_told_and_what_was_sent_before_leaving_arrives() {
    let environment = waiting(5);
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    let mut attached = on_terminal(&environment, &["attach"]);
    shows(&mut attached, "q leave");
    run.signal(Signal::STOP);
    attached.press("p").unwrap();
    shows(&mut attached, "the run has not answered within 10s");
    attached.press("mspare the docs\nq").unwrap();
    let left = attached.wait(Duration::from_secs(1));
    assert!(left.is_none(), "it left before its message arrived");
    run.signal(Signal::CONT);
    ends(&mut attached, 0);
    let log = environment.run(&["log"]).expect(0).stdout;
    assert!(log.contains("spare the docs"), "{log}");

    let mut attached = on_terminal(&environment, &["attach"]);
    shows(&mut attached, "q leave");
    attached.press("l-m many\nq").unwrap();
    ends(&mut attached, 0);
    let kept = kept(&attached.written(), 100);
    assert!(kept.contains("warning: not taken: "), "{kept}");
    environment.run(&["stop", "--now"]).expect(0);
    run.end().expect(130);
}

/// A terminal of 20 rows has room for the view.
// shows: UIX-01
#[test]
fn a_terminal_of_19_rows_has_one_line() {
    let environment = waiting(5);
    let mut pty = on_terminal(&environment, &RUN);
    pty.resize(19, 100).unwrap();
    shows(&mut pty, "1 of 10");
    assert!(!pty.written().contains(KEYS), "{}", pty.written());
    pty.resize(20, 100).unwrap();
    shows(&mut pty, KEYS);
    environment.write("go", "");
    ends(&mut pty, 0);
}

/// The program that had the terminal meanwhile may have taken that back.
// shows: UIX-01
#[test]
fn after_a_suspension_pastes_are_marked_again() {
    let environment = waiting(5);
    let run = environment.start(&RUN);
    wait_until("work", || environment.exists("started"));
    let mut attached = on_terminal(&environment, &["attach"]);
    shows(&mut attached, "q leave");
    let marks = |pty: &Pty| pty.written().matches("\u{1b}[?2004h").count();
    assert_eq!(marks(&attached), 1);
    let pid = Pid::from_raw(attached.pid().cast_signed()).unwrap();
    for signal in [Signal::STOP, Signal::CONT] {
        kill_process(pid, signal).unwrap();
    }
    assert!(attached.wait_until(WITHIN, |pty| marks(pty) == 2));
    attached.press("q").unwrap();
    ends(&mut attached, 0);
    environment.write("go", "");
    run.end().expect(0);
}

/// A view that panics is gone, with the terminal as it was; what the run prints is the same.
// shows: UIX-01
#[test]
fn a_view_that_fails_changes_nothing_for_the_run() {
    let environment = waiting(5).with("TEST_EKIDEN_VIEW_FAILS", "lines");
    let mut pty = on_terminal(&environment, &RUN);
    shows(&mut pty, "the live view failed");
    let is_sane = pty.wait_until(WITHIN, |pty| pty.is_sane());
    assert!(is_sane, "the terminal was not given back");
    environment.write("go", "");
    ends(&mut pty, 0);
    assert_eq!(environment.read("item-5.txt"), "made\n");
    let kept = kept(&pty.written(), 100);
    let lines = kept
        .lines()
        .filter(|line| !line.contains("as a test wants"));
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    let log = environment.run(&["log"]).expect(0).stdout;
    let (_, log) = log.split_once('\n').unwrap();
    assert_eq!(lines, log);
}

/// The same on the whole screen: the terminal has its lines again.
// shows: UIX-01
#[test]
fn a_view_that_fails_on_the_whole_screen_gives_the_terminal_back() {
    let environment = waiting(5).with("TEST_EKIDEN_VIEW_FAILS", "full");
    let mut pty = on_terminal(&environment, &RUN);
    shows(&mut pty, KEYS);
    pty.press("f").unwrap();
    shows(&mut pty, "the live view failed");
    environment.write("go", "");
    ends(&mut pty, 0);
    let written = pty.written();
    let last = |sequence| written.rfind(sequence).unwrap();
    assert!(last("\u{1b}[?1049l") > last("\u{1b}[?1049h"));
    assert!(kept(&written, 100).contains("complete (not verified)"));
}

/// Whoever watches from elsewhere leaves, is killed or has another size: the run goes on.
// shows: UIX-01, RUN-18
#[test]
fn views_come_and_go_and_the_run_goes_on() {
    let environment = waiting(5);
    environment
        .run(&[&RUN[..], &["--detach"]].concat())
        .expect(0);
    wait_until("work", || environment.exists("started"));
    let mut killed = on_terminal(&environment, &["attach"]);
    let mut leaves = on_terminal(&environment, &["attach"]);
    let mut narrow = on_terminal(&environment, &["attach"]);
    narrow.resize(24, 20).unwrap();
    for pty in [&mut killed, &mut leaves] {
        shows(pty, "q leave");
        // What the session at work has used, which no record tells yet.
        shows(pty, "k tokens · ");
    }
    kill_process(
        Pid::from_raw(killed.pid().cast_signed()).unwrap(),
        Signal::KILL,
    )
    .unwrap();
    killed.wait(WITHIN).unwrap();
    leaves.press("q").unwrap();
    ends(&mut leaves, 0);
    assert!(leaves.written().contains("continues; to stop it"));
    let mut log = on_terminal(&environment, &["log", "-f"]);
    shows(&mut log, "1 of 10");
    log.press("\u{3}").unwrap();
    ends(&mut log, 0);
    assert!(!kept(&log.written(), 100).contains("1 of 10"));
    // Before it listens, a key would be lost.
    shows(&mut narrow, "1 of 10");
    narrow.press("f").unwrap();
    shows(&mut narrow, "  full screen");
    narrow.resize(40, 150).unwrap();
    shows(&mut narrow, "full screen needs 60 columns, 12 rows");
    narrow.press(" ").unwrap();
    shows(&mut narrow, "q leave");
    environment.write("go", "");
    ends(&mut narrow, 0);
    assert!(!narrow.written().contains("\u{1b}[?1049h"));
    assert_eq!(environment.read("item-5.txt"), "made\n");
}

/// Where no line can move, everything is as it was without the view.
// shows: UIX-01, UIX-02
#[test]
fn a_dumb_terminal_and_none_have_the_plain_lines() {
    let environment = waiting(3).with("TERM", "dumb");
    environment.write("go", "");
    let mut pty = on_terminal(&environment, &RUN);
    ends(&mut pty, 0);
    let written = pty.written().replace("\r\n", "\n");
    let log = environment.run(&["log"]).expect(0).stdout;
    let (_, log) = log.split_once('\n').unwrap();
    assert!(!written.contains('\u{1b}'), "{written}");
    assert_eq!(written, log);
}

/// The newest handoff is read in the pager, clean, where the run works and elsewhere, and the view comes back
/// after it. A ctrl-c there is the pager's.
// shows: UIX-01
#[test]
fn the_newest_handoff_is_read_in_the_pager() {
    let wait = "touch started; for i in $(seq 3000); do [ -e go ] && break; sleep 0.02; done";
    let environment = waiting(9).with(
        "PAGER",
        "sh -c 'echo PAGED; grep -c .; read -r line < /dev/tty'",
    );
    let waits = format!("{wait}; echo made > item-6");
    environment.write(
        "task.md",
        &items(9).replacen("echo made > item-6", &waits, 1),
    );
    let mut run = on_terminal(&environment, &RUN);
    wait_until("work", || environment.exists("started"));
    let mut attached = on_terminal(&environment, &["attach"]);
    for pty in [&mut run, &mut attached] {
        shows(pty, "o handoff");
        pty.press("o").unwrap();
        shows(pty, "PAGED");
        let is_lent = pty.wait_until(WITHIN, |pty| pty.is_sane());
        assert!(is_lent, "the pager has the terminal");
        let before = pty.written().matches("o handoff").count();
        pty.press("\u{3}\n").unwrap();
        let is_back = pty.wait_until(WITHIN, |pty| {
            pty.written().matches("o handoff").count() > before
        });
        assert!(is_back, "{}", pty.written());
    }
    attached.press("q").unwrap();
    ends(&mut attached, 0);
    environment.write("go", "");
    ends(&mut run, 0);
}

/// Without colour the view says the same, in plain letters.
// shows: UIX-01
#[test]
fn no_color_takes_the_colour_away_from_the_view() {
    let environment = waiting(5).with("NO_COLOR", "1");
    let mut pty = on_terminal(&environment, &RUN);
    shows(&mut pty, KEYS);
    environment.write("go", "");
    ends(&mut pty, 0);
    let written = pty.written();
    let after_escapes = written.split("\u{1b}[").skip(1);
    let coloured = after_escapes
        .map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'))
        .any(|rest| rest.starts_with('m'));
    assert!(!coloured, "{written:?}");
}

/// The whole screen shows what an agent did, in a run, beside it and in what watches it; whoever leaves it has the
/// lines again, and one that is killed or fails changes nothing for the run.
// shows: UIX-01, UIX-03
#[test]
fn sessions_are_seen_on_the_whole_screen_and_the_run_goes_on() {
    let environment = waiting(5).with("NO_COLOR", "1");
    let mut run = on_terminal(&environment, &RUN);
    shows(&mut run, KEYS);
    wait_until("work", || environment.exists("started"));
    let mut attached = on_terminal(&environment, &["attach"]);
    let mut watched = on_terminal(&environment, &["status", "--watch"]);
    let mut killed = on_terminal(&environment, &["attach"]);
    let follows = environment.start(&["log", "-f"]);
    let dash = Dash::started(environment.start(&["dash", "--port", "0"]));
    for pty in [&mut run, &mut attached, &mut watched, &mut killed] {
        shows(pty, "f full screen");
        pty.press("f").unwrap();
        shows(pty, "\u{1b}[?1049h");
        shows(pty, "> session 1");
        shows(pty, "for i in $(seq 3000)");
    }
    let killed_pid = Pid::from_raw(killed.pid().cast_signed()).unwrap();
    kill_process(killed_pid, Signal::KILL).unwrap();
    killed.wait(WITHIN).unwrap();
    attached.press("f").unwrap();
    shows(&mut attached, "\u{1b}[?1049l");
    attached.press("q").unwrap();
    ends(&mut attached, 0);
    watched.press("q").unwrap();
    shows(&mut watched, "\u{1b}[?1049l");
    watched.press("q").unwrap();
    ends(&mut watched, 1);
    environment.write("go", "");
    ends(&mut run, 0);
    follows.end().expect(0);
    assert!(dash.page("").body.contains("complete</b> task.md"));
    let log = environment.run(&["log"]).expect(0).stdout;
    let (_, log) = log.split_once('\n').unwrap();
    let written = run.written();
    let (_, after) = written.rsplit_once("\u{1b}[?1049l").unwrap();
    let last = log.lines().last().unwrap();
    assert!(
        after.contains(last),
        "what came meanwhile is printed: {after}"
    );
}

/// A plan's stages are seen there, with paths from where each works, and all of them hear what a person says.
// shows: UIX-01
#[test]
fn a_plans_stages_are_seen_on_the_whole_screen_and_told_something() {
    let environment = plan::repository()
        .with("NO_COLOR", "1")
        .with("TERM", "xterm")
        .with("LC_ALL", "C.UTF-8");
    let wait = format!(
        "while [ ! -e {} ]; do sleep 0.02; done",
        environment.path("go").display()
    );
    let stages = [
        plan::stage("A", "", "true", "true"),
        plan::stage("B", "needs = [\"A\"]", &wait, "true"),
        plan::stage("C", "needs = [\"B\"]", "true", "true"),
    ];
    environment.write("plan.toml", &plan::plan(&stages));
    let mut run = on_terminal(&environment, &plan::EXECUTE);
    // Keys that are not shown do nothing.
    on_screen(&mut run, "B  1 of 10", true);
    run.press("mspare the docs\n").unwrap();
    shows(
        &mut run,
        "the next session of each stage will read: spare the docs",
    );
    run.press("f").unwrap();
    shows(&mut run, "> B 1");
    shows(&mut run, "3 stages · 1 done");
    run.press("\u{1b}[D").unwrap();
    shows(&mut run, "Write     .ekiden/handoff/");
    run.press("f").unwrap();
    std::fs::write(environment.path("go"), "").unwrap();
    ends(&mut run, 0);
    let prompt = environment.run(&["show", "1", "--stage", "C", "--prompt"]);
    assert!(prompt.expect(0).stdout.contains("spare the docs"));
}

/// Who leaves a run has the prompt of the shell again, and the run goes on to its end.
// shows: UIX-01
#[test]
fn a_run_is_left_running() {
    let environment = waiting(5);
    let mut pty = on_terminal(&environment, &RUN);
    shows(&mut pty, "d detach");
    wait_until("work", || environment.exists("started"));
    pty.press("p").unwrap();
    shows(&mut pty, "p unpause");
    // What is typed for the shell already is no key for the run.
    pty.press("dn").unwrap();
    ends(&mut pty, 0);
    let kept = kept(&pty.written(), 100);
    assert!(
        kept.contains(" is paused; to continue it: ekiden unpause "),
        "{kept}"
    );
    assert!(!kept.contains(KEYS), "{kept}");
    pty.hang_up();
    environment.run(&["unpause"]).expect(0);
    let follows = environment.start(&["attach"]);
    environment.write("go", "");
    let followed = follows.end().expect(0);
    assert!(!followed.stdout.contains("hand off now"), "{followed}");
    assert_eq!(environment.read("item-5.txt"), "made\n");
}

/// What a person started is killed: the run leaves the terminal to the shell and goes on.
// shows: UIX-01, RUN-18
#[test]
fn a_run_goes_on_when_what_waits_for_it_is_killed() {
    let environment = waiting(5);
    let mut pty = on_terminal(&environment, &RUN);
    shows(&mut pty, KEYS);
    wait_until("work", || environment.exists("started"));
    let first = Pid::from_raw(pty.pid().cast_signed()).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    pty.wait(WITHIN).unwrap();
    let follows = environment.start(&["attach"]);
    environment.write("go", "");
    follows.end().expect(0);
    assert_eq!(environment.read("item-5.txt"), "made\n");
}
