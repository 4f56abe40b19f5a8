//! Waiting: limits, failures, pauses.

use expect_test::expect;

use super::{after, check};
use crate::outcome::Outcome;
use crate::time::{Millis, Timestamp};

// shows: REL-11
#[test]
fn a_limit_is_waited_for_until_its_reset_and_30_seconds() {
    check(
        "",
        "up works ends:limit=600 wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=600: publish durably, archive 1.1
            waiting 11m (usagelimit) for 1.2
        wake: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

// shows: REL-11
#[test]
fn a_limit_without_a_reset_is_waited_for_5_minutes() {
    check(
        "",
        "up works ends:limit wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit: publish durably, archive 1.1
            waiting 5m (usagelimit) for 1.2
        wake: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

// shows: REL-11
#[test]
fn a_reset_beyond_the_longest_wait_ends_the_run_at_once() {
    check(
        "wait=600",
        "up works ends:limit=601 resume",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=601: publish durably, archive 1.1, end
            ended: limit too far; next: 1.2
        resume: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

/// The wait for a usage limit ends at a time of day, so it does not end when the clock is set back.
// shows: REL-11
#[test]
fn a_clock_that_is_set_back_lengthens_no_pause() {
    check(
        "",
        "up works ends:crash -3600s tick up works ends:limit=90 -3600s tick",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:crash: publish durably, archive 1.1
                waiting 2s (failure) for 1.2
            tick: publish, start 1.2
                at work: 1.2
            up: -
            ends:limit=90: publish durably, archive 1.2
                waiting 2m (usagelimit) for 1.3
            tick: nothing is due
        "#]],
    );
    check(
        "guided",
        "well -3600s tick",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1
                waiting 10s (guided) for 2.1
            tick: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

// shows: REL-11
#[test]
fn a_reset_that_is_past_is_no_reason_to_hurry() {
    check(
        "",
        "up works ends:limit=past",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=past: publish durably, archive 1.1
            waiting 30s (usagelimit) for 1.2
    "#]],
    );
    // A clock that is an hour ahead: the service is asked ever more seldom.
    let mut track = after("", "up works ends:limit=past");
    let waits = [(); 7].map(|()| {
        let waits = track.waits_for();
        track.words("wake up ends:limit=past");
        waits.as_secs()
    });
    assert_eq!(waits, [30, 30, 60, 120, 240, 300, 300]);
}

// defect: W3
// shows: REL-11, REL-15
#[test]
fn limits_in_a_row_run_the_same_session_and_are_no_crashes() {
    check(
        "max=1",
        "up works ends:limit=60 wake up works ends:limit=60 wake up works ends:limit=60 wake well",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:limit=60: publish durably, archive 1.1
                waiting 90s (usagelimit) for 1.2
            wake: publish, start 1.2
                at work: 1.2
            up: -
            ends:limit=60: publish durably, archive 1.2
                waiting 90s (usagelimit) for 1.3
            wake: publish, start 1.3
                at work: 1.3
            up: -
            ends:limit=60: publish durably, archive 1.3
                waiting 90s (usagelimit) for 1.4
            wake: publish, start 1.4
                at work: 1.4
            up: -
            turn: close
            ends:done: publish durably, archive 1.4, end
                ended: session limit; next: 2.1
        "#]],
    );
}

// shows: REL-11
#[test]
fn a_limit_that_is_never_lifted_ends_the_run() {
    check(
        "wait=600",
        "up works ends:limit wake up ends:limit wake up ends:limit",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit: publish durably, archive 1.1
            waiting 5m (usagelimit) for 1.2
        wake: publish, start 1.2
            at work: 1.2
        up: -
        ends:limit: publish durably, archive 1.2
            waiting 5m (usagelimit) for 1.3
        wake: publish, start 1.3
            at work: 1.3
        up: -
        ends:limit: publish durably, archive 1.3, end
            ended: limit too far; next: 1.4
    "#]],
    );
}

// shows: REL-11
#[test]
fn work_between_two_limits_begins_the_longest_wait_anew() {
    check(
        "wait=600",
        "up works ends:limit wake up works ends:limit wake up works ends:limit",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit: publish durably, archive 1.1
            waiting 5m (usagelimit) for 1.2
        wake: publish, start 1.2
            at work: 1.2
        up: -
        ends:limit: publish durably, archive 1.2
            waiting 5m (usagelimit) for 1.3
        wake: publish, start 1.3
            at work: 1.3
        up: -
        ends:limit: publish durably, archive 1.3
            waiting 5m (usagelimit) for 1.4
    "#]],
    );
}

// shows: REL-11
#[test]
fn after_a_limit_the_conversation_goes_on_even_if_the_limit_cuts_it_off_again() {
    check(
        "",
        "up works ends:limit+ wake ends:limit wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit+: publish durably, archive 1.1
            waiting 5m (usagelimit) for 1.2 in the same conversation
        wake: publish, start 1.2 in the same conversation
            at work: 1.2
        ends:limit: publish durably, archive 1.2
            waiting 5m (usagelimit) for 1.3 in the same conversation
        wake: publish, start 1.3 in the same conversation
            at work: 1.3
    "#]],
    );
}

// shows: REL-15
#[test]
fn an_overloaded_service_is_waited_for_and_no_crash() {
    check(
        "",
        "up works ends:overload wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:overload: publish durably, archive 1.1
            waiting 5m (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

// shows: REL-11
#[test]
fn a_handoff_before_the_limit_is_accepted() {
    check(
        "",
        "up works writes ends:limit=600",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=600: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-11
#[test]
fn a_wait_survives_a_restart() {
    check(
        "",
        "up works ends:limit=600 +100s resume +100s resume wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=600: publish durably, archive 1.1
            waiting 11m (usagelimit) for 1.2
        resume: -
        resume: -
        wake: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

#[test]
fn nobody_wakes_too_early() {
    check(
        "",
        "up works ends:limit=600 resume +629s tick woke +1s tick",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:limit=600: publish durably, archive 1.1
                waiting 11m (usagelimit) for 1.2
            resume: -
            tick: nothing is due
            woke: -
            tick: publish, start 1.2
                at work: 1.2
        "#]],
    );
}

#[test]
fn the_pause_between_sessions_is_kept() {
    check(
        "pause=5",
        "well wake",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1
            waiting 5s (pause) for 2.1
        wake: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-11
#[test]
fn only_the_time_that_was_waited_is_counted() {
    let waited = |events| after("", events).relay().totals.waiting;
    assert_eq!(
        waited("up works ends:limit=600 wake"),
        Millis::from_secs(630)
    );
    assert_eq!(
        waited("up works ends:limit=600 +100s ctrl-c"),
        Millis::from_secs(100)
    );
    assert_eq!(
        waited("up works ends:limit=600 +100s ctrl-c resume up works ends:limit +300s wake"),
        Millis::from_secs(400)
    );
}

// shows: REL-11
#[test]
fn a_limit_that_resets_too_late_is_told_with_its_time() {
    let track = after("wait=600", "up works ends:limit=601");
    let until = Timestamp(1_795_291_440_000) + Millis::from_secs(601 + 30);
    assert_eq!(track.run.outcome(), Some(&Outcome::LimitTooFar { until }));
}

// shows: REL-11
#[test]
fn a_resume_may_wait_longer() {
    check(
        "wait=600",
        "up works ends:limit=601 resume:wait=900 up works ends:limit=601",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=601: publish durably, archive 1.1, end
            ended: limit too far; next: 1.2
        resume:wait=900: publish, start 1.2
            at work: 1.2
        up: -
        ends:limit=601: publish durably, archive 1.2
            waiting 11m (usagelimit) for 1.3
    "#]],
    );
}

// shows: REL-15
#[test]
fn an_agent_that_never_got_a_process_is_not_waited_for() {
    check(
        "",
        "ends:never resume",
        expect![[r#"
        publish, start 1.1
        ends:never: publish durably, archive 1.1, end
            ended: agent failed; next: 1.2
        resume: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

/// An outage is not a crash of the session: ekiden tries again at once, then less and less often.
// shows: REL-10, REL-15
#[test]
fn an_outage_is_waited_out_in_the_same_session() {
    check(
        "",
        "up works ends:outage+ wake up ends:outage wake up ends:outage wake well",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:outage+: publish durably, archive 1.1
            waiting 2s (failure) for 1.2 in the same conversation
        wake: publish, start 1.2 in the same conversation
            at work: 1.2
        up: -
        ends:outage: publish durably, archive 1.2
            waiting 2s (failure) for 1.3 in the same conversation
        wake: publish, start 1.3 in the same conversation
            at work: 1.3
        up: -
        ends:outage: publish durably, archive 1.3
            waiting 4s (failure) for 1.4 in the same conversation
        wake: publish, start 1.4 in the same conversation
            at work: 1.4
        up: -
        turn: close
        ends:done: publish, start 2.1, archive 1.4
            at work: 2.1
    "#]],
    );
}

// shows: RUN-06
#[test]
fn an_outage_that_does_not_end_ends_the_run_and_is_no_limit() {
    check(
        "wait=3",
        "up ends:outage wake up ends:overload",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:outage: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
        up: -
        ends:overload: publish durably, archive 1.2, end
            ended: agent failed; next: 1.3
    "#]],
    );
}

/// In the same conversation the model would refuse the same thing again.
// shows: REL-10
#[test]
fn a_refusal_is_asked_anew_in_a_fresh_conversation() {
    check(
        "",
        "up works ends:refusal+ wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:refusal+: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

/// A client that does not even start leaves nothing for a rescue to report.
#[test]
fn an_agent_that_never_starts_ends_the_run_after_three_attempts() {
    check(
        "",
        "up ends:never wake up ends:never wake up ends:never",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:never: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
        up: -
        ends:never: publish durably, archive 1.2
            waiting 4s (failure) for 1.3
        wake: publish, start 1.3
            at work: 1.3
        up: -
        ends:never: publish durably, archive 1.3, end
            ended: agent failed; next: 1.4
    "#]],
    );
}

// shows: AGT-13
#[test]
fn a_session_that_was_refused_and_changed_nothing_ends_the_run_without_a_rescue() {
    check(
        "",
        "up works ends:denied",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:denied: publish durably, archive 1.1, end
            ended: denied Bash(make:*); next: 2.1
    "#]],
    );
    check(
        "git",
        "survey up works ends:denied survey resume survey",
        expect![[r#"
            publish, survey
            survey: publish, start 1.1
                at work: 1.1
            up: -
            ends:denied: publish, survey, archive 1.1
                after 1.1: survey
            survey: publish durably, end
                ended: denied Bash(make:*); next: 2.1
            resume: publish, survey
                before: survey
            survey: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

/// Its handoff or claim counts before what it was refused.
// shows: AGT-13
#[test]
fn a_claim_or_a_question_comes_before_refusals() {
    check(
        "",
        "up works writes:claim ends:denied",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:denied: publish durably, archive 1.1, end
            ended: complete; next: 2.1
    "#]],
    );
    check(
        "",
        "up works writes:blocked ends:denied",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:denied: publish durably, archive 1.1, end
            ended: blocked; next: 2.1
    "#]],
    );
    check(
        "",
        "up works writes ends:denied",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:denied: publish durably, archive 1.1, end
            ended: denied Bash(make:*); next: 2.1
    "#]],
    );
}
