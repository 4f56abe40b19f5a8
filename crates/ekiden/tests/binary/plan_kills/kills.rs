//! kill -9 and ctrl-c in the middle of a plan.

use std::path::Path;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::Diamond;
use crate::processes::{alive, expect_nothing_alive};
use crate::running::wait_until;

// shows: PLN-08, DUR-01, RUN-10, RUN-11, UIX-03
#[test]
fn a_plan_that_is_killed_while_two_stages_work_goes_on() {
    let diamond = Diamond::new().slow("B").slow("C").ready();
    let run = diamond.start();
    diamond.wait_for_gates(&["B", "C"]);
    run.signal(Signal::KILL);
    run.end().expect(137);
    expect_nothing_alive(&diamond.environment);
    let status = diamond.environment.run(&["status"]).expect(0).stdout;
    let stages = "killed   4 stages · 1 done · 1 waiting · 2 interrupted ";
    assert!(status.contains(stages), "{status}");
    diamond.environment.run(&["report"]).expect(0);
    let report = std::fs::read_to_string(diamond.environment.run_dir().join("report.md")).unwrap();
    let done = "- done: 1 of 4 stages, 3 not finished\n";
    assert!(report.contains(done), "{report}");
    diamond.resume().expect(0);
    diamond.expect_complete();
}

/// The validation of the merge outlives even its keepers; a resume ends it.
// shows: PLN-08, DUR-01, RUN-11
#[test]
fn a_plan_that_is_killed_while_a_merge_is_validated_goes_on() {
    for keepers_too in [false, true] {
        let diamond = Diamond::new().slow_merge("B").ready();
        let run = diamond.start();
        diamond.wait_for_gates(&["B"]);
        let living = alive(&diamond.environment);
        let keepers = living
            .iter()
            .filter(|one| keepers_too && one.command.contains(" __keeper"));
        let victims: Vec<_> = keepers.map(|one| one.pid).chain([run.pid()]).collect();
        for signal in [Signal::STOP, Signal::KILL] {
            // An error says that it has ended meanwhile.
            let _ = victims
                .iter()
                .map(|victim| kill_process(*victim, signal))
                .collect::<Vec<_>>();
        }
        run.end().expect(137);
        diamond.resume().expect(0);
        diamond.expect_complete();
    }
}

/// A git that was killed while it made or removed the worktree of the whole.
// shows: PLN-08, RUN-11
#[test]
fn a_worktree_of_the_whole_with_half_a_git_file_is_made_again() {
    for half in ["", "gone", "early", "empty"] {
        let diamond = Diamond::new().slow_merge("B").ready();
        let run = diamond.start();
        diamond.wait_for_gates(&["B"]);
        run.signal(Signal::KILL);
        run.end().expect(137);
        expect_nothing_alive(&diamond.environment);
        let id = diamond.environment.runs().pop().unwrap();
        let mut trees = diamond.worktrees().into_iter();
        let git_file = trees.find(|tree| tree.ends_with(&id)).unwrap().join(".git");
        match half {
            "gone" => std::fs::remove_file(git_file).unwrap(),
            "early" | "empty" => {
                let file = std::fs::read_to_string(&git_file).unwrap();
                let git_dir = Path::new(file.strip_prefix("gitdir: ").unwrap().trim_end());
                for name in ["HEAD", "commondir", "index"] {
                    std::fs::remove_file(git_dir.join(name)).unwrap();
                }
                if half == "empty" {
                    std::fs::write(git_dir.join("HEAD"), "").unwrap();
                }
                std::fs::write(git_file, "").unwrap();
            }
            half => std::fs::write(git_file, half).unwrap(),
        }
        diamond.resume().expect(0);
        diamond.expect_complete();
    }
}

// shows: PLN-08, RUN-09, RUN-11
#[test]
fn the_first_ctrl_c_leaves_a_plan_that_a_resume_finishes() {
    let diamond = Diamond::new().slow_merge("C").slow("B").ready();
    let run = diamond.start();
    diamond.wait_for_gates(&["B", "C"]);
    run.signal(Signal::INT);
    // The item at work lasts longer than a stop waits, so a second one ends it here.
    std::thread::sleep(Duration::from_millis(300));
    run.signal(Signal::INT);
    let said = run.end().expect(130);
    assert!(said.stdout.contains("ekiden resume"), "{said}");
    expect_nothing_alive(&diamond.environment);
    let said = diamond.resume().expect(0);
    let continues = said
        .stdout
        .lines()
        .find(|line| line.contains(" continues "));
    assert!(continues.unwrap().contains(" · 4 stages · "), "{said}");
    diamond.expect_complete();
}

// shows: PLN-08, RUN-09, RUN-11
#[test]
fn one_ctrl_c_lets_stages_hand_off() {
    let gate = "while [ ! -e ../gate ]; do sleep 0.05; done";
    let diamond = Diamond::new();
    let go = diamond.environment.path("gate-go");
    let begun = diamond.gate("B");
    let wait = gate.replace("../gate", go.to_str().unwrap());
    let work = format!("touch {}; {wait}; echo B > b.txt", begun.display());
    let diamond = diamond.work("B", work).ready();
    let run = diamond.start();
    diamond.wait_for_gates(&["B"]);
    run.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(go, "").unwrap();
    run.end().expect(3);
    expect_nothing_alive(&diamond.environment);
    diamond.resume().expect(0);
    diamond.expect_complete();
}

// shows: PLN-12, PLN-13, RUN-11
#[test]
fn a_plan_goes_on_when_what_failed_a_stage_is_repaired() {
    let diamond = Diamond::new();
    let gate = diamond.gate("repaired");
    let check = format!("test -f b.txt -a -f {}", gate.display());
    let diamond = diamond
        .check("B", check)
        .rule("B", "retries = 0\nsessions_max = 1")
        .ready();
    let said = diamond.execute().expect(1);
    assert!(said.stdout.contains("D  blocked by B"), "{said}");
    assert_eq!(
        diamond
            .environment
            .git(&["log", "--format=%s", "-n", "1"])
            .trim(),
        "begin"
    );
    std::fs::write(gate, "").unwrap();
    diamond.resume().expect(0);
    diamond.expect_complete();
}

/// Kills of everybody at moments that fall where they fall. One that falls into the delivery's own git leaves what
/// only a person may mend: half a fast-forward, or a lock of git's. Then the command or the lock is named.
// shows: PLN-08, RUN-11
#[test]
fn a_plan_that_is_killed_again_and_again_is_complete_in_the_end() {
    let diamond = Diamond::new()
        .slow_merge("B")
        .work("C", "sleep 0.3; echo C > c.txt".to_owned())
        .ready();
    std::fs::write(diamond.gate("B"), "").unwrap();
    let mut run = diamond.start();
    for moment in [300, 900, 1400, 700, 1700, 1100] {
        let until = std::time::Instant::now() + Duration::from_millis(moment);
        let mut over = false;
        wait_until("a moment", || {
            over = run.is_over();
            over || std::time::Instant::now() >= until
        });
        if over {
            break;
        }
        let living: Vec<_> = alive(&diamond.environment)
            .into_iter()
            .map(|one| one.pid)
            .collect();
        for signal in [Signal::STOP, Signal::KILL] {
            // An error says that it has ended meanwhile.
            let _ = living
                .iter()
                .map(|victim| kill_process(*victim, signal))
                .collect::<Vec<_>>();
        }
        let begun = !diamond.environment.runs().is_empty();
        drop(std::mem::replace(
            &mut run,
            if begun {
                diamond.environment.start(&["resume"])
            } else {
                diamond.start()
            },
        ));
    }
    let said = run.end();
    assert!([0, 5, 66].contains(&said.code), "{said}");
    if said.code == 5 {
        diamond.follow_last_line(&said);
        diamond.expect_merged();
    } else if said.stderr.contains("unlocks it") {
        diamond.expect_merged();
    } else {
        diamond.expect_complete();
    }
}
