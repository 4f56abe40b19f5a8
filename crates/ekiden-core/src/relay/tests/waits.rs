//! Waiting: limits, failures, pauses.

use expect_test::expect;

use super::after;
use super::check;
use crate::time::Millis;

// shows: REL-11
#[test]
fn a_limit_is_waited_for_until_its_reset_and_30_seconds() {
    check("", "up works ends:limit=600 wake", expect![[""]]);
}

// shows: REL-11
#[test]
fn a_limit_without_a_reset_is_waited_for_5_minutes() {
    check("", "up works ends:limit wake", expect![[""]]);
}

// shows: REL-11
#[test]
fn a_reset_beyond_the_longest_wait_ends_the_run_at_once() {
    check("wait=600", "up works ends:limit=601 resume", expect![[""]]);
}

// shows: REL-11
#[test]
fn a_reset_that_is_past_is_no_reason_to_hurry() {
    check("", "up works ends:limit=past", expect![[""]]);
}

// shows: REL-11, REL-15
#[test]
fn limits_in_a_row_run_the_same_session_and_are_no_crashes() {
    check(
        "max=1",
        "up works ends:limit=60 wake up works ends:limit=60 wake up works ends:limit=60 wake up works writes turn ends:done",
        expect![[""]],
    );
}

// shows: REL-11
#[test]
fn a_limit_that_is_never_lifted_ends_the_run() {
    check("wait=600", "up works ends:limit wake up ends:limit wake up ends:limit", expect![[""]]);
}

// shows: REL-11
#[test]
fn work_between_two_limits_begins_the_longest_wait_anew() {
    check("wait=600", "up works ends:limit wake up works ends:limit wake up works ends:limit", expect![[""]]);
}

// shows: REL-11
#[test]
fn after_a_limit_the_conversation_goes_on_even_if_the_limit_cuts_it_off_again() {
    check("", "up works ends:limit+ wake ends:limit wake", expect![[""]]);
}

// shows: REL-15
#[test]
fn an_overloaded_service_is_waited_for_and_no_crash() {
    check("", "up works ends:overload wake", expect![[""]]);
}

// shows: REL-11
#[test]
fn a_handoff_before_the_limit_is_accepted() {
    check("", "up works writes ends:limit=600", expect![[""]]);
}

// shows: REL-11
#[test]
fn a_wait_survives_a_restart() {
    check("", "up works ends:limit=600 +100s resume +100s resume wake", expect![[""]]);
}

#[test]
fn nobody_wakes_too_early() {
    check("", "up works ends:limit=600 resume +629s", expect![[""]]);
}

#[test]
fn the_pause_between_sessions_is_kept() {
    check("pause=5", "up works writes turn ends:done wake", expect![[""]]);
}

// shows: REL-11
#[test]
fn only_the_time_that_was_waited_is_counted() {
    let waited = |events| after("", events).relay().tally().waiting;
    assert_eq!(waited("up works ends:limit=600 wake"), Millis::from_secs(630));
    assert_eq!(waited("up works ends:limit=600 +100s ctrl-c"), Millis::from_secs(100));
    assert_eq!(
        waited("up works ends:limit=600 +100s ctrl-c resume up works ends:limit +300s wake"),
        Millis::from_secs(400)
    );
}
