//! Which notices a person who is elsewhere gets, and when.

use expect_test::expect;

use super::judging::same;
use super::{after, check};
use crate::effect::{Effect, RelayEffect};

fn notices(given: &str, events: &str) -> String {
    let track = after(given, events);
    let effects = track.records.iter().flat_map(|record| &record.effects);
    let notices = effects.filter_map(|effect| match effect {
        Effect::Stage {
            effect: RelayEffect::Notify { about, text },
            ..
        } => Some(format!("{about}: {text}\n")),
        Effect::Stage { .. }
        | Effect::Worktree { .. }
        | Effect::Deliver
        | Effect::EndRun { .. } => None,
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
        .map(|(given, events)| {
            format!(
                "{events}: {}",
                notices(&format!("{given} notify"), events).trim()
            )
        })
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect();
    expect![[r#"
        verify:fail well verify:pass: done: verified complete after 1 session
        up works writes:claim turn ends:done: done: complete (not verified) after 1 session
        well up works writes:blocked turn ends:done: needs_you: blocked: it needs your input
        well: limit: stopped: all its sessions are used
        up ends:limit=9000: limit: stopped: a usage limit was reached
        ends:never: failed: failed: the agent cannot work
        crashes wake crashes wake crashes: failed: failed: too many sessions in a row failed
        up ctrl-c ends:done:
        sigterm verify:cancelled:
    "#]]
    .assert_eq(&told);
}

// shows: REL-19
#[test]
fn a_loop_is_told_at_the_first_repeat_and_when_it_ends_the_run() {
    let again = format!("survey verify:fail {}", same(4));
    let told = |stall: u32| notices(&format!("judged git check stall={stall} notify"), &again);
    expect![[r#"
        loop: session 2 repeated the handoff of session 1 and nothing changed
        loop: stopped: its handoffs repeated and nothing changed
    "#]]
    .assert_eq(&told(0));
    assert_eq!(told(1), "loop: stopped: nothing changed\n");
}

// shows: REL-35
#[test]
fn a_question_stands_in_a_notice_only_for_who_wants_it() {
    let asks = "well up works writes:blocked turn ends:done";
    let notice = notices("notify text", asks);
    assert!(notice.starts_with("needs_you: blocked: "), "{notice}");
    assert_ne!(notice, notices("notify", asks));
}

// shows: REL-19
#[test]
fn a_limit_is_told_once_however_often_it_is_met() {
    expect![[r#"
        limit: usage limit reached: session 1 continues in 5m
        limit: usage limit reached: session 1 continues in 2m
    "#]]
    .assert_eq(&notices(
        "notify",
        "up ends:limit wake up ends:limit wake up works ends:limit=90",
    ));
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
            ends:done: publish durably, notify (stopped: all its sessions are used), archive 1.1, end
                ended: session limit; next: 2.1
        "#]],
    );
}

// shows: REL-19
#[test]
fn who_wants_no_notices_gets_none() {
    assert_eq!(notices("max=1", "up ends:limit wake well"), "");
}
