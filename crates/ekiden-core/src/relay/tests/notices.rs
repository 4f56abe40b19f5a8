//! What a person who is elsewhere is told, and when.

use expect_test::expect;

use super::{after, check};
use crate::effect::{Effect, RelayEffect};

/// Every notice, in order.
fn notices(given: &str, events: &str) -> String {
    let track = after(given, events);
    let effects = track.records.iter().flat_map(|record| &record.effects);
    let notices = effects.filter_map(|effect| match effect {
        Effect::Stage { effect: RelayEffect::Notify { text }, .. } => Some(format!("{text}\n")),
        Effect::Stage { .. } | Effect::Ground { .. } | Effect::Deliver | Effect::EndRun { .. } => None,
    });
    notices.collect()
}

// shows: REL-19
#[test]
fn every_end_is_told_but_for_a_stop() {
    let ends = [
        ("check", "verify:fail well verify:pass"),
        ("", "up works writes:claim turn ends:done"),
        ("", "well up works writes:blocked turn ends:done"),
        ("max=1", "well"),
        ("wait=60", "up ends:limit=9000"),
        ("", "ends:never"),
        ("", "crashes wake crashes wake crashes"),
        ("", "up ctrl-c ends:done"),
        ("check", "sigterm verify:cancelled"),
    ];
    let told: String = ends
        .iter()
        .map(|(given, events)| format!("{events}: {}", notices(&format!("{given} notify"), events).trim()))
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    expect![[r#"
        verify:fail well verify:pass: verified complete after 1 session
        up works writes:claim turn ends:done: complete, as the agent says, after 1 session
        well up works writes:blocked turn ends:done: blocked: a person is needed
        well: stopped: all sessions are used, 1 in all
        up ends:limit=9000: stopped: the usage limit resets too late to wait for it
        ends:never: failed: the agent cannot work
        crashes wake crashes wake crashes: failed: too many sessions in a row crashed
        up ctrl-c ends:done:
        sigterm verify:cancelled:
    "#]]
    .assert_eq(&told);
}

// shows: REL-19
#[test]
fn a_limit_is_told_once_however_often_it_is_met() {
    expect![[r#"
        usage limit reached: session 1 goes on in 5m
        usage limit reached: session 1 goes on in 2m
    "#]]
    .assert_eq(&notices("notify", "up ends:limit wake up ends:limit wake up works ends:limit=90"));
}

// shows: REL-19
#[test]
fn a_notice_is_ordered_with_the_end_and_waited_for_by_nobody() {
    check(
        "max=1 notify",
        "well",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, notify (stopped: all sessions are used, 1 in all), archive 1.1, end
            ended: session limit; next: 2.1
    "#]],
    );
}

// shows: REL-19
#[test]
fn who_wants_no_notices_gets_none() {
    assert_eq!(notices("max=1", "up ends:limit wake well"), "");
}
