//! Carrying on: after each end, and after a crash of the engine in each phase.

use expect_test::expect;

use super::track::Track;
use super::{after, check};
use crate::limits;

// shows: RUN-11
#[test]
fn a_crash_while_a_session_works_makes_a_second_attempt() {
    check(
        "",
        "up works resume ends:lost",
        expect![[r#"
        publish, start 1.1
        up: -
        resume: -
        ends:lost: publish, start 1.2, archive 1.1
            at work: 1.2
    "#]],
    );
}

// shows: RUN-11
#[test]
fn a_crash_in_a_stop_forgets_the_stop_and_its_deadline() {
    check(
        "",
        "up works ctrl-c resume wake ends:lost up",
        expect![[r#"
            publish, start 1.1
            up: -
            ctrl-c: say hand off (operator)
            resume: -
            wake: nothing is due
            ends:lost: publish, start 1.2, archive 1.1
                at work: 1.2
            up: -
        "#]],
    );
}

/// As `ekiden next --help` says.
// shows: RUN-11, UIX-01
#[test]
fn a_crash_forgets_that_the_handoff_was_asked_for() {
    check(
        "",
        "up works hand-off heard resume ends:lost+ up heard works asks",
        expect![[r#"
            publish, start 1.1
            up: -
            hand-off: say hand off (asked)
            heard: -
            resume: -
            ends:lost+: publish, start 1.2 in the same conversation, archive 1.1
                at work: 1.2
            up: -
            heard: -
            asks: hold: go on
        "#]],
    );
}

/// A person who resumes the run has put something right.
// shows: RUN-11, REL-15
#[test]
fn a_resumed_session_has_three_attempts_again() {
    let track = after(
        "",
        "up ends:never wake up ends:never wake up ends:never resume up works ends:crash+",
    );
    let told = track.told();
    assert!(
        told.ends_with("waiting 2s (failure) for 1.5 in the same conversation\n"),
        "{told}"
    );
}

// shows: RUN-11
#[test]
fn a_handoff_that_lies_there_after_a_crash_is_accepted() {
    check(
        "",
        "up works writes resume ends:lost",
        expect![[r#"
        publish, start 1.1
        up: -
        resume: -
        ends:lost: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

// shows: RUN-11
#[test]
fn a_crash_during_a_review_goes_on_with_it() {
    check(
        "git check",
        "survey verify:fail well survey resume verify:fail",
        expect![[r#"
            publish, survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey: publish, verify
                after 1.1: verification
            resume: -
            verify:fail: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

// shows: RUN-11, REL-12
#[test]
fn limits_of_a_resume_count_for_a_wait_that_a_crash_cut_off() {
    check(
        "quiet=20:00-21:00",
        "resume:quiet=20:00-20:30 resume:5 resume:quiet=01:00-02:00",
        expect![[r#"
            publish durably
            resume:quiet=20:00-20:30: publish durably
                waiting 26m (quiethours) for 1.1
            resume:5: -
            resume:quiet=01:00-02:00: publish, start 1.1
                at work: 1.1
        "#]],
    );
    check(
        "pause=600",
        "well resume:pause=60 resume:pause=0",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1
                waiting 10m (pause) for 2.1
            resume:pause=60: publish durably
                waiting 60s (pause) for 2.1
            resume:pause=0: publish, start 2.1
                at work: 2.1
        "#]],
    );
    check(
        "",
        "up works ends:limit=600 resume:budget=5 resume:no-waiting",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:limit=600: publish durably, archive 1.1
                waiting 11m (usagelimit) for 1.2
            resume:budget=5: -
            resume:no-waiting: publish durably, end
                ended: rate limited; next: 1.2
        "#]],
    );
    check(
        "guided",
        "well resume:budget=5 resume:pause=60",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1
                waiting 10s (guided) for 2.1
            resume:budget=5: -
            resume:pause=60: -
        "#]],
    );
}

// shows: RUN-11
#[test]
fn a_crash_before_session_1_goes_on_with_the_first_look() {
    check(
        "git check",
        "resume survey resume verify:fail",
        expect![[r#"
        publish, survey
        resume: -
        survey: publish, verify
            before: verification
        resume: -
        verify:fail: publish, start 1.1
            at work: 1.1
    "#]],
    );
}

// shows: RUN-11
#[test]
fn a_stop_that_a_crash_cut_off_is_forgotten() {
    check(
        "check",
        "verify:fail well ctrl-c resume verify:fail",
        expect![[r#"
        publish, verify
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        ctrl-c: cancel
        resume: -
        verify:fail: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-23, RUN-11
#[test]
fn sessions_count_from_a_resume_after_an_end() {
    check(
        "max=2",
        "well ctrl-c ends:killed resume well well",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            ctrl-c: -
            ends:killed: publish durably, archive 2.1, end
                ended: stopped gently; next: 2.2
            resume: publish, start 2.2
                at work: 2.2
            up: -
            turn: close
            ends:done: publish, start 3.1, archive 2.2
                at work: 3.1
            up: -
            turn: close
            ends:done: publish durably, archive 3.1, end
                ended: session limit; next: 4.1
        "#]],
    );
}

// shows: REL-23, RUN-11
#[test]
fn sessions_go_on_counting_through_a_crash() {
    check(
        "max=2",
        "well resume ends:lost well",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            resume: -
            ends:lost: publish, start 2.2, archive 2.1
                at work: 2.2
            up: -
            turn: close
            ends:done: publish durably, archive 2.2, end
                ended: session limit; next: 3.1
        "#]],
    );
}

// shows: REL-23
#[test]
fn a_crash_with_a_new_number_counts_from_there() {
    check(
        "max=2",
        "well resume:2 ends:lost well well",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            resume:2: -
            ends:lost: publish, start 2.2, archive 2.1
                at work: 2.2
            up: -
            turn: close
            ends:done: publish, start 3.1, archive 2.2
                at work: 3.1
            up: -
            turn: close
            ends:done: publish durably, archive 3.1, end
                ended: session limit; next: 4.1
        "#]],
    );
}

// shows: REL-15, RUN-11
#[test]
fn a_resume_after_crashes_counts_them_anew() {
    check(
        "",
        "crashes crashes crashes resume up ends:crash",
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
            ends:crash: publish, start 2.1, archive 1.3
                at work: 2.1
            up: -
            ends:crash: publish durably, archive 2.1
                waiting 4s (failure) for 2.2
            wake: publish, start 2.2
                at work: 2.2
            up: -
            ends:crash: publish durably, archive 2.2
                waiting 8s (failure) for 2.3
            wake: publish, start 2.3
                at work: 2.3
            up: -
            ends:crash: publish, start 3.1, archive 2.3
                at work: 3.1
            up: -
            ends:crash: publish durably, archive 3.1
                waiting 8s (failure) for 3.2
            wake: publish, start 3.2
                at work: 3.2
            up: -
            ends:crash: publish durably, archive 3.2
                waiting 16s (failure) for 3.3
            wake: publish, start 3.3
                at work: 3.3
            up: -
            ends:crash: publish durably, archive 3.3, end
                ended: too many crashes; next: 4.1
            resume: publish, start 4.1
                at work: 4.1
            up: -
            ends:crash: publish durably, archive 4.1
                waiting 2s (failure) for 4.2
        "#]],
    );
}

// shows: RUN-11
#[test]
fn a_resume_that_ends_the_run_says_so() {
    check(
        "",
        "up works writes:claim sigterm ends:killed resume",
        expect![[r#"
        publish, start 1.1
        up: -
        sigterm: terminate
        ends:killed: publish durably, archive 1.1, end
            ended: stopped now { signal: 15 }; next: review 1.1
        resume: publish durably, end
            ended: complete; next: 2.1
    "#]],
    );
}

// shows: RUN-11
#[test]
fn a_resume_after_a_resume_changes_nothing() {
    check(
        "max=1",
        "well resume resume up",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: session limit; next: 2.1
        resume: publish, start 2.1
            at work: 2.1
        resume: -
        up: -
    "#]],
    );
}

#[test]
fn other_logic_changes_nothing() {
    check(
        "",
        "up newer L2",
        expect![[r#"
        publish, start 1.1
        up: -
        newer: -
        L2: say hand off (context)
    "#]],
    );
}

// shows: RUN-11
#[test]
fn the_session_is_told_wherever_the_run_stands() {
    let session = |events: &str| after("git", events).relay().session().get();
    assert_eq!(session("ctrl-c survey"), 1);
    assert_eq!(session("survey up works sigterm ends:killed"), 1);
    let second = "survey well survey up";
    assert_eq!(session(second), 2);
    assert_eq!(session(&format!("{second} works sigterm ends:killed")), 2);
    assert_eq!(session(&format!("{second} writes sigterm ends:killed")), 2);
    assert_eq!(
        session(&format!("{second} writes ctrl-c ends:done survey")),
        2
    );
}

/// The rules stand beside those that the run was started with, in every later attempt.
// shows: AGT-13, RUN-11
#[test]
fn a_run_that_was_denied_goes_on_with_the_rules_that_were_missing() {
    let track = after(
        "",
        "up works ends:denied resume:allow=Edit resume:allow=Bash(make:*) resume:allow=Edit",
    );
    assert_eq!(
        track.relay().settings.agent.permissions.allowed_tools,
        ["Edit", "Bash(make:*)"]
    );
}

// shows: REL-37
#[test]
fn a_session_that_is_cut_off_late_is_resumed_only_to_hand_off() {
    check(
        "max=3",
        "up window works L2 ends:limit=90+ wake",
        expect![[r#"
            publish, start 1.1
            up: -
            window: -
            L2: say hand off (context)
            ends:limit=90+: publish durably, archive 1.1
                waiting 2m (usagelimit) for 1.2 in the same conversation
            wake: publish, start 1.2 in the same conversation
                at work: 1.2
        "#]],
    );
    let track = after("max=3", "up window works L2 ends:limit=90+ wake");
    assert!(track.prompt().starts_with("ekiden: please hand off now."));
    // The order stands in its first message, so it is not given again.
    check(
        "max=3",
        "up window works L2 ends:lost+ up L2 writes turn ends:done",
        expect![[r#"
            publish, start 1.1
            up: -
            window: -
            L2: say hand off (context)
            ends:lost+: publish, start 1.2 in the same conversation, archive 1.1
                at work: 1.2
            up: -
            L2: -
            turn: close
            ends:done: publish, start 2.1, archive 1.2
                at work: 2.1
        "#]],
    );
    // What cuts off this attempt before it did anything leaves the conversation as it was.
    check(
        "max=3",
        "up window works L2 ends:limit=90+ wake up ends:limit=90 wake",
        expect![[r#"
            publish, start 1.1
            up: -
            window: -
            L2: say hand off (context)
            ends:limit=90+: publish durably, archive 1.1
                waiting 2m (usagelimit) for 1.2 in the same conversation
            wake: publish, start 1.2 in the same conversation
                at work: 1.2
            up: -
            ends:limit=90: publish durably, archive 1.2
                waiting 2m (usagelimit) for 1.3 in the same conversation
            wake: publish, start 1.3 in the same conversation
                at work: 1.3
        "#]],
    );
}

// shows: REL-37
#[test]
fn a_late_session_that_cannot_be_resumed_is_rescued_and_not_begun_again() {
    for words in [
        "up window works L2 ends:limit=90",
        "up window works L2 ends:lost",
        "up window works L2 ends:refusal+",
        "up window works L2 ctrl-c ends:lost resume",
        // Nobody knows how large its window is.
        "up works L3 ends:lost+",
    ] {
        let track = after("max=3", words);
        let prompt = track.prompt();
        assert!(prompt.contains("last words of 1.1"), "{words}: {prompt}");
    }
}

// shows: REL-35
#[test]
fn an_answer_continues_a_blocked_run_and_stands_in_the_next_prompt_as_the_users() {
    const BLOCKED: &str = "up works writes:blocked turn ends:done";
    let track = after("max=3", &format!("{BLOCKED} resume:answer=blue"));
    let prompt = track.prompt();
    let (_, words) = prompt.split_once("# From the user\n").unwrap();
    assert!(words.contains("Which one is right?\nblue\n"), "{prompt}");
    assert!(
        words.starts_with("\nAnswer to this question:\n¦ "),
        "{prompt}"
    );
    assert_eq!(track.relay().session().get(), 2);
    // What is asked stands at the end.
    let mut long = Track::begin("");
    let issues = format!("## Issues\n\n{}Which one?\n", "a finding\n".repeat(900));
    long.words("up works")
        .leaves(&format!("STATUS: BLOCKED\n\n{issues}"), "", "");
    long.words("turn ends:done resume:answer=blue");
    let prompt = long.prompt();
    assert!(
        prompt.contains("lines left out here; the whole is in .ekiden/PROGRESS.md]\n¦ a finding\n"),
        "{prompt}"
    );
    assert!(prompt.contains("\n¦ Which one?\nblue\n"), "{prompt}");
    // Nobody asked: the words would answer nothing.
    let track = after("max=3", "well ctrl-c ends:killed resume:answer=blue");
    assert!(!track.prompt().contains("blue"));
}

/// Nobody says them again.
// shows: REL-25, REL-35, REL-06
#[test]
fn words_stay_in_the_prompts_until_a_session_has_handed_off() {
    const LOST: &str = "up works ends:full";
    let mut track = after(
        "max=90",
        &format!(
            "up works writes:blocked turn ends:done resume:answer=blue {LOST} up works say:red ends:full"
        ),
    );
    for _ in 0..2 {
        let prompt = track.prompt();
        let (_, words) = prompt.split_once("# From the user\n").unwrap();
        assert!(words.contains("?\nblue\nred\n"), "{prompt}");
        assert_eq!(words.matches("blue").count(), 1, "{prompt}");
        track.words(LOST);
    }
    track.words("well");
    assert!(!track.prompt().contains("# From the user"));
    // However many there are.
    let long = format!("say:{}", "x".repeat(limits::OPERATOR_CHARS_MAX));
    for _ in 0..20 {
        track.words(&format!("up works {long} ends:full"));
    }
    let prompt = track.prompt();
    let (_, words) = prompt.split_once("# From the user\n").unwrap();
    assert!(
        words.len() < 3 * limits::OPERATOR_CHARS_MAX,
        "{}",
        words.len()
    );
}

/// Meanwhile a person may have changed both.
// shows: RUN-11, REL-08
#[test]
fn a_resume_looks_at_the_tree_and_the_check_again() {
    const STOPPED: &str = "survey verify:fail well survey:one verify:fail resume";
    check(
        "git check max=1",
        &format!("{STOPPED} survey:two verify:other"),
        expect![[r#"
            publish, survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey:one: publish, verify
                after 1.1: verification
            verify:fail: publish durably, end
                ended: session limit; next: 2.1
            resume: publish, survey
                before: survey
            survey:two: publish, verify
                before: verification
            verify:other: publish, start 2.1
                at work: 2.1
        "#]],
    );
    let track = after(
        "git check max=1",
        &format!("{STOPPED} survey:two verify:other"),
    );
    let prompt = track.prompt();
    let measured = "began:\n¦ two\n¦ one\nChanged";
    assert!(prompt.contains(measured), "{prompt}");
    assert!(prompt.contains("(exit code 2)"), "{prompt}");
}

/// Where a pass alone ends a run, it does so without a session.
// shows: RUN-11, REL-08
#[test]
fn a_check_that_passes_after_a_resume_ends_the_run_unless_there_is_more_to_do() {
    let told = |given: &str, first: &str, resume: &str| {
        let events =
            format!("survey verify:{first} well survey verify:fail {resume} survey verify:pass");
        after(given, &events).told()
    };
    let ends = |told: String| told.ends_with("ended: verified complete; next: 2.1\n");
    const GIVEN: &str = "git check max=1";
    assert!(ends(told(GIVEN, "fail", "resume")));
    assert!(!ends(told(GIVEN, "pass", "resume")), "the claim is needed");
    assert!(!ends(told("git check claim max=1", "fail", "resume")));
    assert!(!ends(told("git check reviewed max=1", "fail", "resume")));
    assert!(!ends(told(GIVEN, "fail", "say:blue resume")));
    assert!(!ends(told(GIVEN, "fail", "resume:task=docs")));
    let gone = "survey verify:fail well survey verify:fail resume survey verify:absent";
    let track = after(GIVEN, gone);
    assert!(track.told().ends_with("at work: 2.1\n"), "{}", track.told());
}

/// As a worker of a fleet does: no agent there has the earlier conversations.
// shows: FLT-02
#[test]
fn on_another_machine_no_conversation_goes_on() {
    check(
        "",
        "up works resume:elsewhere ends:lost+ up works ends:limit=90+ resume:elsewhere wake",
        expect![[r#"
            publish, start 1.1
            up: -
            resume:elsewhere: -
            ends:lost+: publish, start 1.2, archive 1.1
                at work: 1.2
            up: -
            ends:limit=90+: publish durably, archive 1.2
                waiting 2m (usagelimit) for 1.3 in the same conversation
            resume:elsewhere: -
                waiting 2m (usagelimit) for 1.3
            wake: publish, start 1.3
                at work: 1.3
        "#]],
    );
    check(
        "",
        "up works ctrl-c ends:killed+ resume:elsewhere",
        expect![[r#"
            publish, start 1.1
            up: -
            ctrl-c: say hand off (operator)
            ends:killed+: publish durably, archive 1.1, end
                ended: stopped gently; next: 1.2 in the same conversation
            resume:elsewhere: publish, start 1.2
                at work: 1.2
        "#]],
    );
    check(
        "max=3",
        "up window works L2 ends:limit=90+ resume:elsewhere wake up ends:never",
        expect![[r#"
            publish, start 1.1
            up: -
            window: -
            L2: say hand off (context)
            ends:limit=90+: publish durably, archive 1.1
                waiting 2m (usagelimit) for 1.2 in the same conversation
            resume:elsewhere: -
            wake: publish, start 1.2 in the same conversation
                at work: 1.2
            up: -
            ends:never: publish, start 2.1, archive 1.2
                at work: 2.1
        "#]],
    );
    // The next session gets what it knew instead.
    let track = after("max=3", "up window works L2 resume:elsewhere ends:lost+");
    assert!(track.prompt().contains("last words of 1.1"));
}
