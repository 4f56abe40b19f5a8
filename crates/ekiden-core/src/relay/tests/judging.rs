//! What is said of sessions: warnings, the end of a run that stands still, crashes, weakened tests.

use expect_test::expect;

use super::track::Track;
use super::{after, check};
use crate::handoff::tests::{NEXT_PROMPT, PROGRESS};
use crate::outcome::Outcome;

/// The same handoff with the same tree, this many times.
pub(super) fn same(times: usize) -> String {
    "up works writes:same turn heard turn ends:done survey: verify:fail ".repeat(times)
}

fn warned(given: &str, words: &str) -> Vec<String> {
    after(given, words).warned()
}

// shows: REL-13
#[test]
fn handoffs_that_repeat_warn_and_the_third_in_a_row_ends_the_run() {
    let track = after(
        "judged git check",
        &format!("survey verify:fail {}", same(4)),
    );
    assert_eq!(
        track.warned(),
        [
            "2 repeats 1 (100%, 1 of 3)",
            "3 repeats 2 (100%, 2 of 3)",
            "4 repeats 3 (100%, 3 of 3)"
        ]
    );
    assert_eq!(
        track.run.outcome(),
        Some(&Outcome::Stuck {
            repeats: 3,
            percent: Some(100)
        })
    );
}

// shows: REL-13
#[test]
fn a_repeat_beside_another_tree_warns_and_counts_for_nothing() {
    let words = format!(
        "survey verify:fail {}tree:b {}{}",
        same(2),
        same(1),
        same(2)
    );
    assert_eq!(
        warned("judged git check stall=0", &words),
        [
            "2 repeats 1 (100%, 1 of 3)",
            "3 repeats 2 (100%, 0 of 3)",
            "4 repeats 3 (100%, 1 of 3)",
            "5 repeats 4 (100%, 2 of 3)"
        ]
    );
}

// shows: REL-13
#[test]
fn a_handoff_is_never_compared_with_its_own_copy() {
    // The review of one session is broken off and taken up again: still one session.
    let words = "survey verify:fail up works writes:same turn heard turn ends:done survey: sigterm \
                 verify:cancelled resume survey: verify:fail";
    assert_eq!(warned("judged git check", words), [""; 0]);
    // A rescue keeps the notes of the session before: no comparison with itself.
    let words = format!(
        "survey verify:fail {}up works ends:full survey: verify:fail",
        same(1)
    );
    assert_eq!(warned("judged git check", &words), ["2 idle (1 of 3)"]);
}

// shows: REL-13
#[test]
fn the_next_session_is_told_to_take_another_way() {
    let track = after(
        "judged git check",
        &format!("survey verify:fail {}", same(3)),
    );
    assert!(
        track
            .prompt()
            .contains("The last 3 handoffs were almost the same"),
        "{}",
        track.prompt()
    );
}

// shows: REL-13, REL-14
#[test]
fn after_a_standstill_a_resume_counts_anew_and_may_change_the_rule() {
    let given = "judged git check";
    let begin = format!("survey verify:fail {}", same(4));
    check(
        given,
        &format!("{begin} resume:research survey verify:fail"),
        expect![[r#"
            publish, survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            heard: -
            turn: -
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey:: publish, verify
                after 1.1: verification
            verify:fail: publish, start 2.1
                at work: 2.1
            up: -
            turn: say mend 1
            heard: -
            turn: close
            ends:done: publish, survey, archive 2.1
                after 2.1: survey
            survey:: publish, verify
                after 2.1: verification
            verify:fail: warn 2 repeats 1 (100%, 1 of 3), publish, start 3.1
                at work: 3.1
            up: -
            turn: say mend 1
            heard: -
            turn: close
            ends:done: publish, survey, archive 3.1
                after 3.1: survey
            survey:: publish, verify
                after 3.1: verification
            verify:fail: warn 3 repeats 2 (100%, 2 of 3), publish, start 4.1
                at work: 4.1
            up: -
            turn: say mend 1
            heard: -
            turn: close
            ends:done: publish, survey, archive 4.1
                after 4.1: survey
            survey:: publish, verify
                after 4.1: verification
            verify:fail: warn 4 repeats 3 (100%, 3 of 3), publish durably, end
                ended: stuck; next: 5.1
            resume:research: publish, survey
                before: survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 5.1
                at work: 5.1
        "#]],
    );
    assert_eq!(
        after(
            given,
            &format!("{begin}resume survey verify:fail {}", same(2))
        )
        .run
        .outcome(),
        None
    );
    assert!(
        after(
            given,
            &format!("{begin}resume survey verify:fail {}", same(3))
        )
        .run
        .outcome()
        .is_some()
    );
    assert!(
        after(
            given,
            &format!("{begin}resume:stall=1 survey verify:fail {}", same(1))
        )
        .run
        .outcome()
        .is_some()
    );
}

// shows: REL-14
#[test]
fn sessions_in_which_nothing_moves_warn_and_the_third_in_a_row_ends_the_run() {
    let idle = |track: &mut Track, session: usize| {
        let words = ["a", "b", "c", "d", "e", "f", "g"][session];
        let pages = (1..40).map(|line| format!("- {}\n", words.repeat(line)));
        let next_prompt = format!("{NEXT_PROMPT}\n{}", pages.collect::<String>());
        track.words("up works").leaves(PROGRESS, &next_prompt, "");
        track.words("turn heard turn ends:done survey: verify:fail");
    };
    let mut track = Track::begin("judged git check");
    track.words("survey verify:fail");
    (1..5).for_each(|session| idle(&mut track, session));
    assert_eq!(
        track.warned(),
        ["2 idle (1 of 3)", "3 idle (2 of 3)", "4 idle (3 of 3)"]
    );
    assert_eq!(track.run.outcome(), Some(&Outcome::Stalled { sessions: 3 }));
    let mut moved = Track::begin("judged git check");
    moved.words("survey verify:fail");
    (1..4).for_each(|session| idle(&mut moved, session));
    moved.words("tree:b");
    (4..7).for_each(|session| idle(&mut moved, session));
    assert_eq!(moved.run.outcome(), None);
}

/// The warnings count to the end that comes.
// shows: REL-14
#[test]
fn notes_that_repeat_later_do_not_hide_that_nothing_moves() {
    let mut track = Track::begin("judged git check");
    track.words("survey verify:fail");
    for own in ["a first view", "another one", "another one", "another one"] {
        let next_prompt = format!("{NEXT_PROMPT}\n{}", format!("- {own}\n").repeat(40));
        track.words("up works").leaves(PROGRESS, &next_prompt, "");
        track.words("turn heard turn ends:done survey: verify:fail");
    }
    assert_eq!(
        track.warned(),
        [
            "2 idle (1 of 3)",
            "3 repeats 2 (100%, 1 of 3)",
            "3 idle (2 of 3)",
            "4 repeats 3 (100%, 2 of 3)",
            "4 idle (3 of 3)"
        ]
    );
    assert_eq!(track.run.outcome(), Some(&Outcome::Stalled { sessions: 3 }));
}

// shows: REL-14
#[test]
fn without_git_the_tree_is_looked_at_too() {
    check(
        "judged",
        "",
        expect![[r#"
        publish, survey
    "#]],
    );
}

// shows: REL-14
#[test]
fn items_that_vanish_without_a_tick_are_told() {
    let words = "survey up works writes turn ends:done survey tree:b up works writes:bare turn ends:done survey";
    assert_eq!(
        warned("judged git", words),
        ["2 repeats 1 (100%, 0 of 3)", "2 lost 2 items"]
    );
}

// shows: REL-15
#[test]
fn a_session_that_did_nothing_is_a_crash_and_the_next_waits() {
    check(
        "judged exec",
        "survey up ends:empty survey: wake up ends:empty survey: wake up ends:empty survey:",
        expect![[r#"
            publish, survey
            survey: publish, start 1.1
                at work: 1.1
            up: -
            ends:empty: publish, survey, archive 1.1
                after 1.1: survey
            survey:: publish durably
                waiting 2s (failure) for 2.1
            wake: publish, start 2.1
                at work: 2.1
            up: -
            ends:empty: publish, survey, archive 2.1
                after 2.1: survey
            survey:: warn 2 idle (1 of 3), publish durably
                waiting 4s (failure) for 3.1
            wake: publish, start 3.1
                at work: 3.1
            up: -
            ends:empty: publish, survey, archive 3.1
                after 3.1: survey
            survey:: warn 3 idle (2 of 3), publish durably, end
                ended: too many crashes; next: 4.1
        "#]],
    );
}

// shows: REL-15
#[test]
fn an_agent_without_figures_that_changed_the_tree_or_spoke_did_something() {
    let changed = after(
        "judged exec",
        "survey up ends:empty tree:b survey: up ends:empty tree:c survey: up ends:empty tree:d survey:",
    );
    assert_eq!(changed.run.outcome(), None);
    let spoke = after(
        "judged exec stall=0",
        &format!("survey {}", "up ends:spoke survey: ".repeat(5)),
    );
    assert_eq!(spoke.run.outcome(), None);
    // In a handoff file, though the handoff is not complete.
    let mut wrote = Track::begin("judged exec stall=0");
    wrote.words("survey");
    for _ in 0..5 {
        wrote.words("up").leaves(PROGRESS, "", "");
        wrote.words("ends:empty survey:");
    }
    assert_eq!(wrote.run.outcome(), None);
    assert!(!wrote.prompt().contains("had done nothing"));
}

// shows: REL-15
#[test]
fn too_many_sessions_that_did_nothing_are_called_so() {
    let track = after(
        "judged",
        &format!(
            "survey {}",
            "up ends:empty wake up ends:empty wake up ends:empty survey: ".repeat(3)
        ),
    );
    let Some(Outcome::TooManyCrashes { cause }) = track.run.outcome() else {
        panic!("{:?}", track.run.outcome())
    };
    assert_eq!(
        cause.to_string(),
        "the agent ended at once and had done nothing"
    );
}

// shows: REL-15
#[test]
fn a_stop_during_the_last_crash_does_not_allow_a_fourth_attempt() {
    check(
        "",
        "up ends:crash wake up ends:crash wake up ctrl-c ends:crash resume",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:crash: publish durably, archive 1.1
                waiting 2s (failure) for 1.2
            wake: publish, start 1.2
                at work: 1.2
            up: -
            ends:crash: publish durably, archive 1.2
                waiting 4s (failure) for 1.3
            wake: publish, start 1.3
                at work: 1.3
            up: -
            ctrl-c: say hand off (operator)
            ends:crash: publish durably, archive 1.3, end
                ended: stopped gently; next: 2.1
            resume: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

// shows: REL-32
#[test]
fn weakened_tests_are_told_with_the_claim_beside_a_pass() {
    let begin = "weakens:tests/before.py survey verify:fail weakens:tests/a.py";
    let claim = "up works writes:claim turn ends:done survey:";
    assert_eq!(
        warned("judged git check", &format!("{begin} {claim} verify:pass")),
        ["1 weakened 1"]
    );
    assert_eq!(
        warned("judged git check", &format!("{begin} {claim} verify:fail")),
        [""; 0]
    );
    let pass = "up works writes turn ends:done survey: verify:pass";
    assert_eq!(
        warned("judged git check", &format!("{begin} {pass}")),
        ["1 weakened 1"]
    );
    assert_eq!(
        after("judged git check", &format!("{begin} {claim} verify:pass"))
            .run
            .outcome(),
        Some(&Outcome::Complete { verified: true })
    );
}

// shows: REL-32
#[test]
fn tests_that_could_not_be_compared_are_told_with_the_claim() {
    let claim = "survey verify:fail unread:lost up works writes:claim turn ends:done survey:";
    let told = |check| warned("judged git check", &format!("{claim} verify:{check}"));
    assert_eq!(told("pass"), ["1 unread: lost"]);
    assert_eq!(told("fail"), [""; 0]);
}

// shows: REL-30
#[test]
fn knowledge_over_its_budget_is_told_when_it_changes() {
    let mut track = super::Track::begin("judged");
    track.words("survey");
    let fact = |n: usize| {
        format!(
            "- fact {n}: {}\n",
            "something that takes much room ".repeat(12)
        )
    };
    for session in 0..4 {
        track.words("up works writes");
        let facts: String = (0..20).map(|n| fact(session * 20 + n)).collect();
        track.learns(&format!("## Core Knowledge\n\n{facts}"));
        track.words(&format!("turn ends:done tree:{session} survey:"));
    }
    let warned: Vec<String> = track
        .warned()
        .into_iter()
        .filter(|warning| warning.contains("facts"))
        .collect();
    expect![[r#"
        24 of 40 facts left out
        39 of 60 facts left out
        63 of 80 facts left out"#]]
    .assert_eq(&warned.join("\n"));
}

// shows: DUR-05
#[test]
fn a_log_from_before_there_were_rules_is_not_judged() {
    let track = after("git check", &format!("survey verify:fail {}", same(6)));
    assert_eq!((track.warned(), track.run.outcome()), (Vec::new(), None));
}

// shows: REL-14
#[test]
fn a_session_that_only_confirms_is_not_idle() {
    let first = "survey up works tree:2 writes:bare ends:done survey";
    let claim = "up works writes:claim turn ends:done survey";
    let words = format!("{first} {claim}");
    assert_eq!(warned("judged git", &words), Vec::<String>::new());
    // A claim that is vetoed is no progress.
    let claim = "up works writes:claim turn ends:done survey verify:fail";
    let words = format!("survey verify:fail {claim} {claim}");
    assert_eq!(warned("judged git check", &words), ["2 idle (1 of 3)"]);
}
