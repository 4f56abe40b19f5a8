//! Attempts at a session: crashes, retries, rescue.

use expect_test::expect;

use super::{after, check};
use crate::event::Traces;

// shows: REL-15
#[test]
fn a_crash_is_tried_again_after_a_pause() {
    check(
        "",
        "up works ends:crash wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:crash: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

#[test]
fn a_crashed_conversation_goes_on_if_the_agent_kept_it() {
    check(
        "",
        "up works ends:crash+ wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:crash+: publish durably, archive 1.1
            waiting 2s (failure) for 1.2 in the same conversation
        wake: publish, start 1.2 in the same conversation
            at work: 1.2
    "#]],
    );
}

#[test]
fn above_l2_a_crashed_conversation_goes_on_to_hand_off() {
    check(
        "",
        "up works L2 ends:crash+ wake",
        expect![[r#"
            publish, start 1.1
            up: -
            L2: say hand off (context)
            ends:crash+: publish durably, archive 1.1
                waiting 2s (failure) for 1.2 in the same conversation
            wake: publish, start 1.2 in the same conversation
                at work: 1.2
        "#]],
    );
}

// shows: REL-05, REL-15
#[test]
fn after_three_attempts_the_session_is_rescued() {
    check(
        "",
        "crashes",
        expect![[r#"
        publish, start 1.1
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
        ends:crash: publish, start 2.1, archive 1.3
            at work: 2.1
    "#]],
    );
}

// shows: REL-06, REL-37
#[test]
fn a_rescue_tells_what_each_attempt_of_its_session_did() {
    let track = after(
        "",
        "up edits:a.rs ends:crash+ wake up ends:crash+ wake up ends:crash",
    );
    let prompt = track.prompt();
    assert!(prompt.contains("Edit a.rs"), "{prompt}");
    assert!(prompt.contains("last words of 1.3"), "{prompt}");
    let mut track = track;
    track.words("crashes");
    let prompt = track.prompt();
    assert!(
        !prompt.contains("Edit a.rs"),
        "of the session before: {prompt}"
    );
}

#[test]
fn commands_of_all_attempts_are_kept_up_to_a_bound_and_refusals_of_the_last() {
    let of = |commands: std::ops::Range<u32>, denied: &str| Traces {
        succeeded: commands.map(|n| format!("run {n}")).collect(),
        denied: vec![denied.to_owned()],
        ..Traces::default()
    };
    let mut traces = of(0..6, "Bash(make:*)");
    traces.add(&of(6..10, "Read"));
    assert_eq!(traces, of(2..10, "Read"));
}

// defect: W9
// shows: REL-15
#[test]
fn a_handoff_that_was_valid_before_the_crash_is_accepted() {
    check(
        "",
        "up works writes ends:crash",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:crash: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

#[test]
fn a_handoff_in_a_resumed_conversation_is_accepted() {
    check(
        "",
        "up works writes:half ends:crash+ wake up writes turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:crash+: publish durably, archive 1.1
            waiting 2s (failure) for 1.2 in the same conversation
        wake: publish, start 1.2 in the same conversation
            at work: 1.2
        up: -
        turn: close
        ends:done: publish, start 2.1, archive 1.2
            at work: 2.1
    "#]],
    );
}

#[test]
fn a_fresh_attempt_does_not_inherit_a_handoff() {
    check(
        "",
        "up works writes:half ends:crash wake up turn",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:crash: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
        up: -
        turn: say go on
    "#]],
    );
}

// shows: REL-15
#[test]
fn three_crashed_sessions_in_a_row_end_the_run() {
    check(
        "",
        "crashes crashes crashes",
        expect![[r#"
            publish, start 1.1
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
            ends:crash: publish, start 2.1, archive 1.3
                at work: 2.1
            up: -
            ends:crash: publish durably, archive 2.1
                waiting 4s (failure) for 2.2
            wake: publish, start 2.2
                at work: 2.2
            up: -
            ends:crash: publish durably, archive 2.2
                waiting 8s (failure) for 2.3
            wake: publish, start 2.3
                at work: 2.3
            up: -
            ends:crash: publish, start 3.1, archive 2.3
                at work: 3.1
            up: -
            ends:crash: publish durably, archive 3.1
                waiting 8s (failure) for 3.2
            wake: publish, start 3.2
                at work: 3.2
            up: -
            ends:crash: publish durably, archive 3.2
                waiting 16s (failure) for 3.3
            wake: publish, start 3.3
                at work: 3.3
            up: -
            ends:crash: publish durably, archive 3.3, end
                ended: too many crashes; next: 4.1
        "#]],
    );
}

// shows: REL-15
#[test]
fn a_handoff_in_between_breaks_the_row_of_crashes() {
    check(
        "",
        "crashes crashes up writes ends:done crashes",
        expect![[r#"
            publish, start 1.1
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
            ends:crash: publish, start 2.1, archive 1.3
                at work: 2.1
            up: -
            ends:crash: publish durably, archive 2.1
                waiting 4s (failure) for 2.2
            wake: publish, start 2.2
                at work: 2.2
            up: -
            ends:crash: publish durably, archive 2.2
                waiting 8s (failure) for 2.3
            wake: publish, start 2.3
                at work: 2.3
            up: -
            ends:crash: publish, start 3.1, archive 2.3
                at work: 3.1
            up: -
            ends:done: publish, start 4.1, archive 3.1
                at work: 4.1
            up: -
            ends:crash: publish durably, archive 4.1
                waiting 2s (failure) for 4.2
            wake: publish, start 4.2
                at work: 4.2
            up: -
            ends:crash: publish durably, archive 4.2
                waiting 4s (failure) for 4.3
            wake: publish, start 4.3
                at work: 4.3
            up: -
            ends:crash: publish, start 5.1, archive 4.3
                at work: 5.1
        "#]],
    );
}

// shows: REL-15, RUN-11
#[test]
fn a_killed_engine_is_nobodys_crash() {
    check(
        "",
        "up works resume ends:lost up resume ends:lost+ up resume ends:lost up resume ends:lost",
        expect![[r#"
            publish, start 1.1
            up: -
            resume: -
            ends:lost: publish, start 1.2, archive 1.1
                at work: 1.2
            up: -
            resume: -
            ends:lost+: publish, start 1.3 in the same conversation, archive 1.2
                at work: 1.3
            up: -
            resume: -
            ends:lost: publish, start 1.4 in the same conversation, archive 1.3
                at work: 1.4
            up: -
            resume: -
            ends:lost: publish, start 1.5 in the same conversation, archive 1.4
                at work: 1.5
        "#]],
    );
}

// shows: REL-15
#[test]
fn a_killed_engine_leaves_the_agents_crashes_counted() {
    check(
        "",
        "up ends:crash wake up resume ends:lost up ends:crash wake up ends:crash",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:crash: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
        up: -
        resume: -
        ends:lost: publish, start 1.3, archive 1.2
            at work: 1.3
        up: -
        ends:crash: publish durably, archive 1.3
            waiting 4s (failure) for 1.4
        wake: publish, start 1.4
            at work: 1.4
        up: -
        ends:crash: publish, start 2.1, archive 1.4
            at work: 2.1
    "#]],
    );
}

// shows: REL-15, REL-05
#[test]
fn a_full_window_is_rescued_at_once_and_no_crash() {
    check(
        "max=9",
        "up works L3 ends:full up works L3 ends:full up works L3 ends:full up works L3 ends:full",
        expect![[r#"
            publish, start 1.1
            up: -
            L3: say hand off (context)
            ends:full: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            L3: say hand off (context)
            ends:full: publish, start 3.1, archive 2.1
                at work: 3.1
            up: -
            L3: say hand off (context)
            ends:full: publish, start 4.1, archive 3.1
                at work: 4.1
            up: -
            L3: say hand off (context)
            ends:full: publish, start 5.1, archive 4.1
                at work: 5.1
        "#]],
    );
}

// shows: REL-15
#[test]
fn an_agent_that_does_nothing_at_all_is_broken() {
    check(
        "",
        "up ends:empty wake up ends:empty wake up ends:empty",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:empty: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        wake: publish, start 1.2
            at work: 1.2
        up: -
        ends:empty: publish durably, archive 1.2
            waiting 4s (failure) for 1.3
        wake: publish, start 1.3
            at work: 1.3
        up: -
        ends:empty: publish, start 2.1, archive 1.3
            at work: 2.1
    "#]],
    );
}

// shows: REL-15
#[test]
fn an_agent_that_says_nothing_but_hands_off_is_not() {
    check(
        "",
        "up writes ends:empty",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:empty: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

#[test]
fn what_only_a_person_can_mend_ends_the_run_at_once() {
    check(
        "",
        "up ends:login resume up",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:login: publish durably, archive 1.1, end
            ended: agent failed; next: 1.2
        resume: publish, start 1.2
            at work: 1.2
        up: -
    "#]],
    );
}

// shows: REL-05, REL-28
#[test]
fn an_end_in_order_without_a_handoff_is_rescued() {
    check(
        "",
        "up works turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: say go on
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

#[test]
fn the_second_end_of_an_attempt_is_void() {
    check(
        "",
        "up writes ends:done old:ends:done old:ends:crash",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
        old:ends:done: -
        old:ends:crash: -
    "#]],
    );
}
