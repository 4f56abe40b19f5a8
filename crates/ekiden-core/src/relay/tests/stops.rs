//! Stopping, gently and now, in every phase.

use expect_test::expect;

use super::check;

// shows: RUN-09
#[test]
fn a_gentle_stop_orders_the_handoff_and_ends_resumably() {
    check(
        "",
        "up works ctrl-c heard writes asks turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        heard: -
        asks: let end
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: stopped gently; next: 2.1
    "#]],
    );
}

// shows: UIX-01
#[test]
fn a_session_that_is_asked_for_its_handoff_is_followed_by_the_next_one() {
    check(
        "",
        "up works hand-off hand-off heard writes asks turn ends:done well",
        expect![[r#"
            publish, start 1.1
            up: -
            hand-off: say hand off (asked)
            hand-off: -
            heard: -
            asks: let end
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            turn: close
            ends:done: publish, start 3.1, archive 2.1
                at work: 3.1
        "#]],
    );
}

/// It was told to stop, or is over: nothing more is asked of it.
// shows: UIX-01
#[test]
fn a_request_for_the_handoff_changes_no_stop_and_begins_nothing() {
    check(
        "",
        "up works ctrl-c hand-off heard writes asks turn ends:done hand-off",
        expect![[r#"
            publish, start 1.1
            up: -
            ctrl-c: say hand off (operator)
            hand-off: -
            heard: -
            asks: let end
            turn: close
            ends:done: publish durably, archive 1.1, end
                ended: stopped gently; next: 2.1
            hand-off: -
        "#]],
    );
    check(
        "pause=9",
        "up writes turn ends:done hand-off",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1
                waiting 9s (pause) for 2.1
            hand-off: -
        "#]],
    );
}

// shows: UIX-01
#[test]
fn an_agent_without_messages_cannot_be_asked_for_its_handoff() {
    check(
        "exec",
        "up works hand-off ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        hand-off: -
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

// shows: RUN-09
#[test]
fn who_does_not_hand_off_within_the_grace_is_ended() {
    check(
        "",
        "up works ctrl-c heard wake ends:killed+",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        heard: -
        wake: terminate
        ends:killed+: publish durably, archive 1.1, end
            ended: stopped gently; next: 1.2 in the same conversation
    "#]],
    );
}

// shows: RUN-09
#[test]
fn an_agent_without_messages_has_the_grace_to_end_by_itself() {
    check(
        "exec",
        "up works ctrl-c wake ends:killed",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: -
        wake: terminate
        ends:killed: publish durably, archive 1.1, end
            ended: stopped gently; next: 1.2
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_second_ctrl_c_ends_the_session_at_once() {
    check(
        "",
        "up works ctrl-c heard sigterm ends:killed",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        heard: -
        sigterm: terminate
        ends:killed: publish durably, archive 1.1, end
            ended: stopped now { signal: 15 }; next: 1.2
    "#]],
    );
}

// shows: RUN-09, RUN-11
#[test]
fn sigterm_ends_the_session_and_a_resume_goes_on_with_it() {
    check(
        "",
        "up works sigterm ends:killed+ resume",
        expect![[r#"
        publish, start 1.1
        up: -
        sigterm: terminate
        ends:killed+: publish durably, archive 1.1, end
            ended: stopped now { signal: 15 }; next: 1.2 in the same conversation
        resume: publish, start 1.2 in the same conversation
            at work: 1.2
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_handoff_that_was_there_when_sigterm_came_is_kept() {
    check(
        "",
        "up works writes sigterm ends:killed resume",
        expect![[r#"
        publish, start 1.1
        up: -
        sigterm: terminate
        ends:killed: publish durably, archive 1.1, end
            ended: stopped now { signal: 15 }; next: review 1.1
        resume: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_gentle_stop_after_the_order_does_not_repeat_it() {
    check(
        "",
        "up L2 ctrl-c heard writes turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        L2: say hand off (context)
        ctrl-c: -
        heard: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: stopped gently; next: 2.1
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_gentle_stop_twice_is_one_and_keeps_its_deadline() {
    check(
        "",
        "up works ctrl-c +119s ctrl-c +1s wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        ctrl-c: -
        wake: terminate
    "#]],
    );
}

// shows: RUN-09
#[test]
fn sigterm_is_not_taken_back_by_a_gentle_stop() {
    check(
        "",
        "up works sigterm ctrl-c ends:killed",
        expect![[r#"
        publish, start 1.1
        up: -
        sigterm: terminate
        ctrl-c: -
        ends:killed: publish durably, archive 1.1, end
            ended: stopped now { signal: 15 }; next: 1.2
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_stop_before_the_process_runs_reaches_it_when_it_does() {
    check(
        "",
        "ctrl-c up heard writes turn ends:done",
        expect![[r#"
        publish, start 1.1
        ctrl-c: -
        up: say hand off (operator)
        heard: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: stopped gently; next: 2.1
    "#]],
    );
}

// shows: RUN-09
#[test]
fn sigterm_before_the_process_runs_ends_it() {
    check(
        "",
        "sigterm up ends:killed resume",
        expect![[r#"
        publish, start 1.1
        sigterm: terminate
        up: -
        ends:killed: publish durably, archive 1.1, end
            ended: stopped now { signal: 15 }; next: 1.2
        resume: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_stop_during_the_first_survey_starts_nothing() {
    check(
        "git check",
        "ctrl-c survey resume",
        expect![[r#"
        publish, survey
        ctrl-c: cancel
        survey: publish durably, end
            ended: stopped gently; next: prepare
        resume: publish, survey
            before: survey
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_stop_during_the_first_verification_starts_nothing() {
    check(
        "git check",
        "survey ctrl-c verify:cancelled resume",
        expect![[r#"
        publish, survey
        survey: publish, verify
            before: verification
        ctrl-c: cancel
        verify:cancelled: publish durably, end
            ended: stopped gently; next: prepare
        resume: publish, survey
            before: survey
    "#]],
    );
}

#[test]
fn a_first_verification_that_was_faster_than_the_stop_starts_nothing_either() {
    check(
        "check",
        "ctrl-c verify:fail resume",
        expect![[r#"
        publish, verify
        ctrl-c: cancel
        verify:fail: publish durably, end
            ended: stopped gently; next: prepare
        resume: publish, verify
            before: verification
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_gentle_stop_of_a_session_still_has_it_reviewed() {
    check(
        "git check",
        "survey verify:fail up works ctrl-c heard writes turn ends:done survey verify:pass",
        expect![[r#"
            publish, survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            ctrl-c: say hand off (operator)
            heard: -
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

// shows: RUN-09
#[test]
fn a_gentle_stop_ends_after_the_review_with_the_next_session_ahead() {
    check(
        "git check",
        "survey verify:fail up works ctrl-c heard writes turn ends:done survey verify:fail resume survey verify:fail",
        expect![[r#"
            publish, survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            ctrl-c: say hand off (operator)
            heard: -
            turn: close
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey: publish, verify
                after 1.1: verification
            verify:fail: publish durably, end
                ended: stopped gently; next: 2.1
            resume: publish, survey
                before: survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

// shows: RUN-09
#[test]
fn a_stop_during_the_survey_is_reviewed_by_the_resume() {
    check(
        "git check",
        "survey verify:fail well ctrl-c survey:failed resume survey verify:pass",
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
            ctrl-c: cancel
            survey:failed: publish durably, end
                ended: stopped gently; next: review 1.1
            resume: publish, survey
                after 1.1: survey
            survey: publish, verify
                after 1.1: verification
            verify:pass: publish durably, end
                ended: verified complete; next: 2.1
        "#]],
    );
}

// shows: RUN-09
#[test]
fn a_stop_during_the_verification_is_reviewed_by_the_resume() {
    check(
        "git check",
        "survey verify:fail up works writes:claim turn ends:done survey sigterm verify:cancelled resume survey verify:pass",
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
            sigterm: cancel
            verify:cancelled: publish durably, end
                ended: stopped now { signal: 15 }; next: review 1.1
            resume: publish, survey
                after 1.1: survey
            survey: publish, verify
                after 1.1: verification
            verify:pass: publish durably, end
                ended: verified complete; next: 2.1
        "#]],
    );
}

// shows: RUN-09
#[test]
fn sigterm_after_the_survey_verifies_nothing_more() {
    check(
        "git check",
        "survey verify:fail well ctrl-c sigterm survey",
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
            ctrl-c: cancel
            sigterm: cancel
            survey: publish durably, end
                ended: stopped now { signal: 15 }; next: review 1.1
        "#]],
    );
}

#[test]
fn a_verification_that_was_faster_than_the_stop_counts() {
    check(
        "check",
        "verify:fail up works writes:claim turn ends:done ctrl-c verify:pass",
        expect![[r#"
        publish, verify
        verify:fail: publish, start 1.1
            at work: 1.1
        up: -
        turn: close
        ends:done: publish, verify, archive 1.1
            after 1.1: verification
        ctrl-c: cancel
        verify:pass: publish durably, end
            ended: verified complete; next: 2.1
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_stop_while_waiting_ends_at_once() {
    check(
        "",
        "up works ends:limit=600+ +10s ctrl-c resume",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=600+: publish durably, archive 1.1
            waiting 11m (usagelimit) for 1.2 in the same conversation
        ctrl-c: publish durably, end
            ended: stopped gently; next: 1.2 in the same conversation
        resume: publish, start 1.2 in the same conversation
            at work: 1.2
    "#]],
    );
}

#[test]
fn a_stop_in_the_pause_ends_with_the_next_session_ahead() {
    check(
        "pause=60",
        "well sigterm resume",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1
            waiting 60s (pause) for 2.1
        sigterm: publish durably, end
            ended: stopped now { signal: 15 }; next: 2.1
        resume: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

#[test]
fn a_stop_right_after_the_end_changes_nothing() {
    check(
        "max=1",
        "well ctrl-c sigterm resume up",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: session limit; next: 2.1
        ctrl-c: -
        sigterm: -
        resume: publish, start 2.1
            at work: 2.1
        up: -
    "#]],
    );
}

// shows: REL-07, RUN-09
#[test]
fn a_question_is_heard_although_a_stop_was_asked_for() {
    check(
        "",
        "up works ctrl-c heard writes:blocked turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        heard: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: blocked; next: 2.1
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_claim_is_complete_although_a_stop_was_asked_for() {
    check(
        "",
        "up works ctrl-c heard writes:claim turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        heard: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: complete; next: 2.1
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_limit_during_a_stop_is_not_waited_for() {
    check(
        "",
        "up works ctrl-c ends:limit=600",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        ends:limit=600: publish durably, archive 1.1, end
            ended: stopped gently; next: 1.2
    "#]],
    );
}

// shows: RUN-09
#[test]
fn a_crash_during_a_stop_is_tried_again_by_the_resume() {
    check(
        "",
        "up works ctrl-c ends:crash resume",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        ends:crash: publish durably, archive 1.1, end
            ended: stopped gently; next: 1.2
        resume: publish, start 1.2
            at work: 1.2
    "#]],
    );
}
