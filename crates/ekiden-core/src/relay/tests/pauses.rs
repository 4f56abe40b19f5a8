//! Steering by messages: stop, pause, unpause, in every phase.

use expect_test::expect;

use super::{after, check};

// shows: RUN-14
#[test]
fn a_pause_lets_the_session_hand_off_and_starts_nothing_after_it() {
    check(
        "git check",
        "survey verify:fail up works pause writes turn ends:done survey verify:fail +90s unpause",
        expect![[r#"
        publish, survey
        survey: publish, verify
            before: verification
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        pause: -
        turn: close
        ends:done: publish, survey, archive 1.1
            after 1.1: survey
        survey: publish, verify
            after 1.1: verification
        verify:fail: publish durably
            paused before 2.1
        unpause: publish, start 2.1
            at work: 2.1
    "#]],
    );
    assert_eq!(
        after("", "up pause writes turn ends:done +90s unpause")
            .relay()
            .totals
            .waiting
            .as_secs(),
        90
    );
}

// shows: RUN-14
#[test]
fn a_pause_holds_a_second_attempt_too() {
    check(
        "",
        "up works pause ends:crash+ wake unpause",
        expect![[r#"
        publish, start 1.1
        up: -
        pause: -
        ends:crash+: publish durably, archive 1.1
            waiting 2s (failure) for 1.2 in the same conversation
        wake: publish durably
            paused before 1.2 in the same conversation
        unpause: publish, start 1.2 in the same conversation
            at work: 1.2
    "#]],
    );
}

// shows: RUN-14
#[test]
fn a_pause_while_a_limit_is_waited_for_begins_when_the_wait_is_over() {
    check(
        "",
        "up works ends:limit=90 pause wake +9s unpause",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=90: publish durably, archive 1.1
            waiting 2m (usagelimit) for 1.2
        pause: -
        wake: publish durably
            paused before 1.2
        unpause: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

// shows: RUN-14
#[test]
fn a_pause_that_is_taken_back_in_time_changes_nothing() {
    check(
        "",
        "up works ends:limit=90 pause unpause wake pause unpause well",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=90: publish durably, archive 1.1
            waiting 2m (usagelimit) for 1.2
        pause: -
        unpause: -
        wake: publish, start 1.2
            at work: 1.2
        pause: -
        unpause: -
        up: -
        turn: close
        ends:done: publish, start 2.1, archive 1.2
            at work: 2.1
    "#]],
    );
}

// shows: RUN-14
#[test]
fn a_pause_before_session_1_holds_it() {
    check(
        "git",
        "pause survey unpause",
        expect![[r#"
        publish, survey
        pause: -
        survey: publish durably
            paused before 1.1
        unpause: publish, start 1.1
            at work: 1.1
    "#]],
    );
}

// shows: RUN-14, RUN-11
#[test]
fn a_pause_survives_a_crash_of_the_engine() {
    check(
        "",
        "up works pause resume ends:lost resume unpause",
        expect![[r#"
        publish, start 1.1
        up: -
        pause: -
        resume: -
        ends:lost: publish durably, archive 1.1
            paused before 1.2
        resume: -
        unpause: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

// shows: RUN-14
#[test]
fn time_without_an_engine_is_no_pause() {
    let track = after("", "up pause writes turn ends:done +5s resume +9s unpause");
    assert_eq!(track.relay().totals.waiting.as_secs(), 9);
}

// shows: RUN-14
#[test]
fn who_resumes_a_run_that_was_ended_in_a_pause_wants_it_to_go_on() {
    check(
        "",
        "pause well stop resume",
        expect![[r#"
        publish, start 1.1
        pause: -
        up: -
        turn: close
        ends:done: publish durably, archive 1.1
            paused before 2.1
        stop: publish durably, end
            ended: stopped gently; next: 2.1
        resume: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: RUN-14
#[test]
fn sigterm_in_a_pause_ends_the_run_at_once() {
    check(
        "",
        "pause well sigterm",
        expect![[r#"
        publish, start 1.1
        pause: -
        up: -
        turn: close
        ends:done: publish durably, archive 1.1
            paused before 2.1
        sigterm: publish durably, end
            ended: stopped now { signal: 15 }; next: 2.1
    "#]],
    );
}

// shows: RUN-14
#[test]
fn a_run_can_end_although_a_pause_was_asked_for() {
    check(
        "",
        "up works pause writes:claim turn ends:done resume pause unpause",
        expect![[r#"
        publish, start 1.1
        up: -
        pause: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: complete; next: 2.1
        resume: -
        pause: -
        unpause: -
    "#]],
    );
    check(
        "max=1",
        "pause well",
        expect![[r#"
        publish, start 1.1
        pause: -
        up: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: session limit; next: 2.1
    "#]],
    );
}

// shows: RUN-14
#[test]
fn a_stop_by_message_is_like_a_ctrl_c() {
    check(
        "",
        "up works stop heard writes asks turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        stop: say hand off (operator)
        heard: -
        asks: let end
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: stopped gently; next: 2.1
    "#]],
    );
    check(
        "",
        "up works stop heard stop! ends:killed+ resume",
        expect![[r#"
        publish, start 1.1
        up: -
        stop: say hand off (operator)
        heard: -
        stop!: terminate
        ends:killed+: publish durably, archive 1.1, end
            ended: stopped now { signal: 2 }; next: 1.2 in the same conversation
        resume: publish, start 1.2 in the same conversation
            at work: 1.2
    "#]],
    );
}

// shows: RUN-14, DUR-01
#[test]
fn a_message_that_comes_again_does_nothing() {
    check(
        "",
        "up pause unpause again:pause writes turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        pause: -
        unpause: -
        again:pause: -
        turn: close
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
    check(
        "",
        "up works stop resume again:stop",
        expect![[r#"
        publish, start 1.1
        up: -
        stop: say hand off (operator)
        resume: -
        again:stop: -
    "#]],
    );
}

// shows: REL-23
#[test]
fn a_resume_can_change_the_pause_between_sessions() {
    check(
        "",
        "up works resume:pause=9 ends:lost well",
        expect![[r#"
        publish, start 1.1
        up: -
        resume:pause=9: -
        ends:lost: publish, start 1.2, archive 1.1
            at work: 1.2
        up: -
        turn: close
        ends:done: publish durably, archive 1.2
            waiting 9s (pause) for 2.1
    "#]],
    );
}
