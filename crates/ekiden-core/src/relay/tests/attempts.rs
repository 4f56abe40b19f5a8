//! Attempts at a session: crashes, retries, rescue.

use expect_test::expect;

use super::check;

// shows: REL-15
#[test]
fn a_crash_is_tried_again_after_a_pause() {
    check("", "up works ends:crash wake", expect![[""]]);
}

#[test]
fn a_crashed_conversation_goes_on_if_the_agent_kept_it() {
    check("", "up works ends:crash+ wake", expect![[""]]);
}

#[test]
fn above_l2_a_crashed_conversation_does_not_go_on() {
    check("", "up works L2 ends:crash+ wake", expect![[""]]);
}

// shows: REL-05, REL-15
#[test]
fn after_three_attempts_the_session_is_rescued() {
    check("", "up ends:crash wake up ends:crash wake up ends:crash", expect![[""]]);
}

// shows: REL-15
#[test]
fn a_handoff_that_was_valid_before_the_crash_is_accepted() {
    check("", "up works writes ends:crash", expect![[""]]);
}

#[test]
fn a_handoff_in_a_resumed_conversation_is_accepted() {
    check("", "up works writes:half ends:crash+ wake up writes turn ends:done", expect![[""]]);
}

#[test]
fn a_fresh_attempt_does_not_inherit_a_handoff() {
    check("", "up works writes:half ends:crash wake up turn", expect![[""]]);
}

// shows: REL-15
#[test]
fn three_crashed_sessions_in_a_row_end_the_run() {
    check(
        "",
        "up ends:crash wake up ends:crash wake up ends:crash up ends:crash wake up ends:crash wake up ends:crash up ends:crash wake up ends:crash wake up ends:crash",
        expect![[""]],
    );
}

// shows: REL-15
#[test]
fn a_handoff_in_between_breaks_the_row_of_crashes() {
    check(
        "",
        "up ends:crash wake up ends:crash wake up ends:crash up ends:crash wake up ends:crash wake up ends:crash up writes ends:done up ends:crash wake up ends:crash wake up ends:crash",
        expect![[""]],
    );
}

// shows: REL-15, RUN-11
#[test]
fn a_killed_engine_is_nobodys_crash() {
    check(
        "",
        "up works resume ends:lost up resume ends:lost+ up resume ends:lost up resume ends:lost",
        expect![[""]],
    );
}

// shows: REL-15
#[test]
fn a_killed_engine_leaves_the_agents_crashes_counted() {
    check("", "up ends:crash wake up resume ends:lost up ends:crash wake up ends:crash", expect![[""]]);
}

// shows: REL-15, REL-05
#[test]
fn a_full_window_is_rescued_at_once_and_no_crash() {
    check(
        "max=9",
        "up works L3 ends:full up works L3 ends:full up works L3 ends:full up works L3 ends:full",
        expect![[""]],
    );
}

// shows: REL-15
#[test]
fn an_agent_that_does_nothing_at_all_is_broken() {
    check("", "up ends:empty wake up ends:empty wake up ends:empty", expect![[""]]);
}

// shows: REL-15
#[test]
fn an_agent_that_says_nothing_but_hands_over_is_not() {
    check("", "up writes ends:empty", expect![[""]]);
}

#[test]
fn what_only_a_person_can_mend_ends_the_run_at_once() {
    check("", "up ends:login resume up", expect![[""]]);
}

// shows: REL-05, REL-28
#[test]
fn an_end_in_order_without_a_handoff_is_rescued() {
    check("", "up works turn ends:done", expect![[""]]);
}

#[test]
fn the_second_end_of_an_attempt_is_void() {
    check("", "up writes ends:done old:ends:done old:ends:crash", expect![[""]]);
}
