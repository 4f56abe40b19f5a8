//! The other bounds: time, hours of the day, a window that is full before the work begins.

use expect_test::expect;

use super::{after, check};
use crate::ends::EndCause;
use crate::event::{AttemptEvent, Event, RelayEvent};
use crate::outcome::Outcome;

// shows: AGT-09
#[test]
fn when_its_time_is_up_a_session_hands_off_first() {
    check(
        "timeout=600",
        "up works +599s tick wake heard writes turn ends:done",
        expect![[r#"
            publish, start 1.1
            up: -
            tick: nothing is due
            wake: say hand off (time)
            heard: -
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
        "#]],
    );
}

// shows: AGT-09
#[test]
fn who_does_not_hand_off_in_time_is_ended_and_rescued() {
    let track = after(
        "timeout=600",
        "up works wake heard +299s tick +1s tick ends:killed",
    );
    expect![[r#"
        publish, start 1.1
        up: -
        wake: say hand off (time)
        heard: -
        tick: nothing is due
        tick: terminate
        ends:killed: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]]
    .assert_eq(&track.told());
    let ended = track.records.iter().find_map(|record| {
        let Event::Stage {
            event:
                RelayEvent::Attempt {
                    event: AttemptEvent::Ended(ended),
                    ..
                },
            ..
        } = &record.event
        else {
            return None;
        };
        Some(&ended.cause)
    });
    assert_eq!(ended, Some(&EndCause::TimeUp));
    assert!(
        track.prompt().contains("the session's time is up"),
        "{}",
        track.prompt()
    );
}

// shows: AGT-09
#[test]
fn an_agent_without_messages_has_the_grace_to_end_by_itself() {
    check(
        "exec timeout=600",
        "up works wake wake ends:killed",
        expect![[r#"
            publish, start 1.1
            up: -
            wake: -
            wake: terminate
            ends:killed: publish, start 2.1, archive 1.1
                at work: 2.1
        "#]],
    );
}

// shows: AGT-09
#[test]
fn a_conversation_that_goes_on_has_the_rest_of_its_time() {
    check(
        "timeout=600",
        "up works +400s L1 ends:lost+ up +199s tick +1s tick",
        expect![[r#"
            publish, start 1.1
            up: -
            L1: -
            ends:lost+: publish, start 1.2 in the same conversation, archive 1.1
                at work: 1.2
            up: -
            tick: nothing is due
            tick: say hand off (time)
        "#]],
    );
}

// shows: AGT-09
#[test]
fn a_conversation_that_begins_anew_has_all_of_it() {
    check(
        "timeout=600",
        "up works +400s L1 ends:lost up +599s tick +1s tick",
        expect![[r#"
            publish, start 1.1
            up: -
            L1: -
            ends:lost: publish, start 1.2, archive 1.1
                at work: 1.2
            up: -
            tick: nothing is due
            tick: say hand off (time)
        "#]],
    );
}

// shows: AGT-09
#[test]
fn a_stop_by_the_user_is_not_put_off_by_the_time_of_the_session() {
    check(
        "timeout=60",
        "up works ctrl-c heard wake wake ends:killed",
        expect![[r#"
            publish, start 1.1
            up: -
            ctrl-c: say hand off (operator)
            heard: -
            wake: -
            wake: terminate
            ends:killed: publish durably, archive 1.1, end
                ended: stopped gently; next: 1.2
        "#]],
    );
}

// shows: REL-12
#[test]
fn no_session_starts_in_quiet_hours() {
    check(
        "quiet=22:00-07:00",
        "up works +7200s writes turn ends:done wake",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1
                waiting 8h 56m (quiethours) for 2.1
            wake: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

// shows: REL-12
#[test]
fn a_run_that_begins_in_quiet_hours_waits_for_their_end() {
    check(
        "quiet=20:00-21:00",
        "+60s tick wake up",
        expect![[r#"
            publish durably
            tick: nothing is due
            wake: publish, start 1.1
                at work: 1.1
            up: -
        "#]],
    );
}

// shows: REL-12
#[test]
fn quiet_hours_follow_local_time_when_it_changes() {
    check(
        "quiet=22:00-07:00",
        "up works +7200s writes turn ends:done offset:1 offset:-2 up",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1
                waiting 8h 56m (quiethours) for 2.1
            offset:1: publish durably
                waiting 7h 56m (quiethours) for 2.1
            offset:-2: publish, start 2.1
                at work: 2.1
            up: -
        "#]],
    );
}

// shows: REL-12
#[test]
fn a_limit_that_resets_in_quiet_hours_is_waited_for_to_their_end() {
    check(
        "quiet=21:00-22:00",
        "up works ends:limit=3600 wake wake",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:limit=3600: publish durably, archive 1.1
                waiting 1h 00m (usagelimit) for 1.2
            wake: publish durably
                waiting 56m (quiethours) for 1.2
            wake: publish, start 1.2
                at work: 1.2
        "#]],
    );
}

// shows: REL-12
#[test]
fn a_user_who_does_not_wait_for_limits_is_told_at_once() {
    let track = after("no-waiting", "up works ends:limit=600+");
    expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=600+: publish durably, archive 1.1, end
            ended: rate limited; next: 1.2 in the same conversation
    "#]]
    .assert_eq(&track.told());
    assert!(matches!(
        track.relay().outcome(),
        Some(Outcome::RateLimited { .. })
    ));
}

// shows: REL-12
#[test]
fn a_service_without_capacity_is_no_limit_of_the_account() {
    check(
        "no-waiting",
        "up works ends:overload",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:overload: publish durably, archive 1.1
                waiting 5m (failure) for 1.2
        "#]],
    );
}

// shows: REL-31
#[test]
fn a_window_above_l1_at_the_first_response_is_only_told() {
    check(
        "",
        "up full:L1 L1 works",
        expect![[r#"
            publish, start 1.1
            up: -
            full:L1: -
            L1: -
        "#]],
    );
}

// shows: REL-31
#[test]
fn a_window_above_l2_at_the_first_response_ends_the_run() {
    let track = after("max=5", "up full:L2 L2 turn ends:killed");
    expect![[r#"
        publish, start 1.1
        up: -
        full:L2: interrupt
        L2: -
        turn: close
        ends:killed: publish durably, archive 1.1, end
            ended: window too full; next: 1.2
    "#]]
    .assert_eq(&track.told());
    let Some(Outcome::WindowTooFull {
        usage_tokens,
        filled_by,
    }) = track.relay().outcome()
    else {
        panic!("{:?}", track.relay().outcome());
    };
    assert_eq!(
        (*usage_tokens, filled_by.as_slice()),
        (101_000, &[("MCP tools".to_owned(), 90_000)][..])
    );
}
