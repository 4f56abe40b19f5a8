//! After a session: survey, verification, and what they decide.

use expect_test::expect;

use super::{after, check};
use crate::outcome::Outcome;

// shows: REL-08
#[test]
fn before_session_1_tree_and_verification_are_looked_at() {
    check(
        "git check",
        "survey verify:fail",
        expect![[r#"
        publish, survey
        survey: publish, verify
            before: verification
        verify:fail: publish, start 1.1
            at work: 1.1
    "#]],
    );
}

#[test]
fn without_git_and_verification_session_1_starts_at_once() {
    check(
        "",
        "",
        expect![[r#"
        publish, start 1.1
    "#]],
    );
}

#[test]
fn a_survey_that_fails_stops_nothing() {
    check(
        "git check",
        "survey:failed verify:fail well survey:failed verify:fail",
        expect![[r#"
            publish, survey
            survey:failed: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey:failed: publish, verify
                after 1.1: verification
            verify:fail: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

// shows: REL-08
#[test]
fn a_pass_after_a_failure_ends_the_run_without_a_claim() {
    check(
        "git check",
        "survey verify:fail well survey verify:pass",
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
        verify:pass: publish durably, end
            ended: verified complete; next: 2.1
    "#]],
    );
}

// shows: REL-08
#[test]
fn where_it_passed_already_a_pass_alone_proves_nothing() {
    check(
        "check",
        "verify:pass well verify:pass",
        expect![[r#"
        publish, verify
        verify:pass: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        verify:pass: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-07, REL-08
#[test]
fn where_it_passed_already_claim_and_pass_end_the_run() {
    check(
        "check",
        "verify:pass up works writes:claim turn ends:done verify:pass",
        expect![[r#"
        publish, verify
        verify:pass: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        verify:pass: publish durably, end
            ended: verified complete; next: 2.1
    "#]],
    );
}

// shows: REL-08
#[test]
fn a_verification_that_took_too_long_before_has_not_failed() {
    // For example, everything had to be built first.
    check(
        "check",
        "verify:late well verify:pass",
        expect![[r#"
        publish, verify
        verify:late: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        verify:pass: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-08
#[test]
fn a_verification_that_could_not_run_before_has_not_failed() {
    check(
        "check",
        "verify:missing well verify:pass",
        expect![[r#"
        publish, verify
        verify:missing: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        verify:pass: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

/// No later session would install what this one claims to be done without.
// shows: REL-07
#[test]
fn a_claim_without_the_verifications_program_ends_the_relay() {
    check(
        "check",
        "verify:fail up works writes:claim turn ends:done verify:absent",
        expect![[r#"
        publish, verify
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        verify:absent: publish durably, end
            ended: no check pytest; next: 2.1
    "#]],
    );
}

// shows: REL-08
#[test]
fn a_stage_that_needs_the_claim_needs_it_always() {
    check(
        "check claim",
        "verify:fail well verify:pass up works writes:claim turn ends:done verify:pass",
        expect![[r#"
            publish, verify
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, verify, archive 1.1
                after 1.1: verification
            verify:pass: publish, start 2.1
                at work: 2.1
            up: -
            turn: close
            ends:done: publish, verify, archive 2.1
                after 2.1: verification
            verify:pass: publish durably, end
                ended: verified complete; next: 3.1
        "#]],
    );
}

// shows: REL-07
#[test]
fn a_verification_that_takes_too_long_vetoes_the_claim() {
    check(
        "check",
        "verify:fail up works writes:claim turn ends:done verify:late",
        expect![[r#"
        publish, verify
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        verify:late: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// defect: W10
// shows: REL-07
#[test]
fn a_failing_verification_vetoes_the_claim() {
    check(
        "check",
        "verify:fail up works writes:claim turn ends:done verify:fail",
        expect![[r#"
        publish, verify
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        verify:fail: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// defect: W9
// shows: REL-07
#[test]
fn a_claim_without_any_verification_is_complete() {
    check(
        "",
        "up works writes:claim turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: complete; next: 2.1
    "#]],
    );
}

// shows: REL-07
#[test]
fn blocked_ends_the_run_and_can_go_on() {
    check(
        "",
        "up works writes:blocked turn ends:done resume",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: blocked; next: 2.1
        resume: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-07
#[test]
fn a_question_comes_before_a_pass() {
    check(
        "check",
        "verify:fail up works writes:blocked turn ends:done verify:pass resume verify:pass",
        expect![[r#"
            publish, verify
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, verify, archive 1.1
                after 1.1: verification
            verify:pass: publish durably, end
                ended: blocked; next: 2.1
            resume: publish, verify
                before: verification
            verify:pass: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

// shows: REL-08
#[test]
fn a_pass_ends_the_run_though_the_agent_left_no_handoff() {
    check(
        "check",
        "verify:fail up works ends:full verify:pass",
        expect![[r#"
        publish, verify
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        ends:full: publish, verify, archive 1.1
            after 1.1: verification
        verify:pass: publish durably, end
            ended: verified complete; next: 2.1
    "#]],
    );
}

// shows: REL-08
#[test]
fn a_pass_ends_the_run_though_the_agent_crashed() {
    check(
        "check",
        "verify:fail crashes verify:pass",
        expect![[r#"
            publish, verify
            verify:fail: publish, start 1.1
                at work: 1.1
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
            ends:crash: publish, verify, archive 1.3
                after 1.3: verification
            verify:pass: publish durably, end
                ended: verified complete; next: 2.1
        "#]],
    );
}

// shows: REL-07
#[test]
fn a_cancelled_verification_passes_for_nothing() {
    // Nobody asked for a stop, and an earlier pass is on record.
    check(
        "check",
        "verify:pass up works writes:claim turn ends:done verify:cancelled",
        expect![[r#"
        publish, verify
        verify:pass: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        verify:cancelled: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

#[test]
fn late_results_are_void() {
    check(
        "git check",
        "survey verify:fail up survey verify:pass",
        expect![[r#"
        publish, survey
        survey: publish, verify
            before: verification
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        survey: -
        verify:pass: -
    "#]],
    );
}

// shows: REL-23
#[test]
fn the_limit_of_sessions_ends_the_run_and_a_resume_goes_on() {
    check(
        "max=2",
        "well well resume:1 well",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            turn: close
            ends:done: publish durably, archive 2.1, end
                ended: session limit; next: 3.1
            resume:1: publish, start 3.1
                at work: 3.1
            up: -
            turn: close
            ends:done: publish durably, archive 3.1, end
                ended: session limit; next: 4.1
        "#]],
    );
}

// shows: REL-23
#[test]
fn one_session_is_one_session() {
    check(
        "max=1",
        "well resume well",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: session limit; next: 2.1
        resume: publish, start 2.1
            at work: 2.1
        up: -
        turn: close
        ends:done: publish durably, archive 2.1, end
            ended: session limit; next: 3.1
    "#]],
    );
}

// shows: RUN-11
#[test]
fn a_complete_run_does_not_go_on() {
    check(
        "",
        "up works writes:claim turn ends:done resume resume:5 ctrl-c wake",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1, end
                ended: complete; next: 2.1
            resume: -
            resume:5: -
            ctrl-c: -
            wake: nothing is due
        "#]],
    );
}

// shows: REL-07
#[test]
fn the_question_is_the_outcome() {
    let track = after("", "up works writes:blocked turn ends:done");
    let Some(Outcome::Blocked { question }) = track.run.outcome() else {
        panic!("{:?}", track.run.outcome())
    };
    assert!(question.ends_with("Which one is right?"), "{question}");
}

// shows: REL-07
#[test]
fn a_veto_is_told_once_with_the_checks_output() {
    let mut track = after(
        "check",
        "verify:fail up works writes:claim turn ends:done verify:fail",
    );
    let (vetoed, tail) = ("but the check failed", "¦ the end of");
    assert!(
        track.prompt().contains(vetoed) && track.prompt().contains(tail),
        "{}",
        track.prompt()
    );
    track.words("well verify:fail");
    assert!(!track.prompt().contains(vetoed), "{}", track.prompt());
}

// shows: REL-07
#[test]
fn a_stop_does_not_swallow_the_veto() {
    let track = after(
        "check",
        "verify:fail up works ctrl-c writes:claim turn ends:done verify:fail resume verify:fail",
    );
    assert!(
        track.prompt().contains("but the check failed"),
        "{}",
        track.prompt()
    );
}

// shows: REL-01
#[test]
fn a_second_look_at_the_same_session_adds_to_the_first() {
    let track = after(
        "git check",
        "survey verify:fail well survey:one sigterm verify:cancelled resume survey:two verify:fail",
    );
    let commits = &track.relay().seen.survey.as_ref().unwrap().commits;
    assert_eq!(*commits, ["two", "one"]);
    let track = after("git", "survey well survey:one well survey:two");
    assert_eq!(track.relay().seen.survey.as_ref().unwrap().commits, ["two"]);
}

#[test]
fn what_could_not_be_seen_is_not_told_from_before() {
    let track = after("git", "survey well survey:one well survey:failed");
    assert_eq!(track.relay().seen.survey.as_ref(), None);
}
