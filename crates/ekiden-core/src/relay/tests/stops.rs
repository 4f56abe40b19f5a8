//! Stopping, gently and now, in every phase.

use expect_test::expect;

use super::check;

// shows: RUN-09
#[test]
fn a_gentle_stop_orders_the_handoff_and_ends_resumably() {
    check("", "up works ctrl-c heard writes asks turn ends:done", expect![[""]]);
}

// shows: RUN-09
#[test]
fn who_does_not_hand_over_within_the_grace_is_ended() {
    check("", "up works ctrl-c heard wake ends:killed+", expect![[""]]);
}

// shows: RUN-09
#[test]
fn an_agent_without_messages_has_the_grace_to_end_by_itself() {
    check("exec", "up works ctrl-c wake ends:killed", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_second_ctrl_c_ends_the_session_at_once() {
    check("", "up works ctrl-c heard sigterm ends:killed", expect![[""]]);
}

// shows: RUN-09, RUN-11
#[test]
fn sigterm_ends_the_session_and_a_resume_goes_on_with_it() {
    check("", "up works sigterm ends:killed+ resume", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_handoff_that_was_there_when_sigterm_came_is_kept() {
    check("", "up works writes sigterm ends:killed resume", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_gentle_stop_after_the_order_does_not_repeat_it() {
    check("", "up L2 ctrl-c heard writes turn ends:done", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_gentle_stop_twice_is_one_and_keeps_its_deadline() {
    check("", "up works ctrl-c +119s ctrl-c +1s wake", expect![[""]]);
}

// shows: RUN-09
#[test]
fn sigterm_is_not_taken_back_by_a_gentle_stop() {
    check("", "up works sigterm ctrl-c ends:killed", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_stop_before_the_process_runs_reaches_it_when_it_does() {
    check("", "ctrl-c up heard writes turn ends:done", expect![[""]]);
}

// shows: RUN-09
#[test]
fn sigterm_before_the_process_runs_ends_it() {
    check("", "sigterm up ends:killed resume", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_stop_during_the_first_survey_starts_nothing() {
    check("git check", "ctrl-c survey resume", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_stop_during_the_first_verification_starts_nothing() {
    check("git check", "survey ctrl-c verify:cancelled resume", expect![[""]]);
}

#[test]
fn a_first_verification_that_was_faster_than_the_stop_starts_nothing_either() {
    check("check", "ctrl-c verify:fail resume", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_gentle_stop_of_a_session_still_has_it_reviewed() {
    check(
        "git check",
        "survey verify:fail up works ctrl-c heard writes turn ends:done survey verify:pass",
        expect![[""]],
    );
}

// shows: RUN-09
#[test]
fn a_gentle_stop_ends_after_the_review_with_the_next_session_ahead() {
    check(
        "git check",
        "survey verify:fail up works ctrl-c heard writes turn ends:done survey verify:fail resume",
        expect![[""]],
    );
}

// shows: RUN-09
#[test]
fn a_stop_during_the_survey_is_reviewed_by_the_resume() {
    check(
        "git check",
        "survey verify:fail up works writes turn ends:done ctrl-c survey:failed resume survey verify:pass",
        expect![[""]],
    );
}

// shows: RUN-09
#[test]
fn a_stop_during_the_verification_is_reviewed_by_the_resume() {
    check(
        "git check",
        "survey verify:fail up works writes:claim turn ends:done survey sigterm verify:cancelled resume survey verify:pass",
        expect![[""]],
    );
}

// shows: RUN-09
#[test]
fn sigterm_after_the_survey_verifies_nothing_more() {
    check(
        "git check",
        "survey verify:fail up works writes turn ends:done ctrl-c sigterm survey",
        expect![[""]],
    );
}

#[test]
fn a_verification_that_was_faster_than_the_stop_counts() {
    check("check", "verify:fail up works writes:claim turn ends:done ctrl-c verify:pass", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_stop_while_waiting_ends_at_once() {
    check("", "up works ends:limit=600+ +10s ctrl-c resume", expect![[""]]);
}

#[test]
fn a_stop_in_the_pause_ends_with_the_next_session_ahead() {
    check("pause=60", "up works writes turn ends:done sigterm resume", expect![[""]]);
}

#[test]
fn a_stop_right_after_the_end_changes_nothing() {
    check("max=1", "up works writes turn ends:done ctrl-c sigterm resume up", expect![[""]]);
}

// shows: REL-07, RUN-09
#[test]
fn a_question_is_heard_although_a_stop_was_asked_for() {
    check("", "up works ctrl-c heard writes:blocked turn ends:done", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_claim_is_complete_although_a_stop_was_asked_for() {
    check("", "up works ctrl-c heard writes:claim turn ends:done", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_limit_during_a_stop_is_not_waited_for() {
    check("", "up works ctrl-c ends:limit=600", expect![[""]]);
}

// shows: RUN-09
#[test]
fn a_crash_during_a_stop_is_tried_again_by_the_resume() {
    check("", "up works ctrl-c ends:crash resume", expect![[""]]);
}
