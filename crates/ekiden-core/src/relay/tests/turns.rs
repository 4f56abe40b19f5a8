//! The conversation: order, go on, ask again, close.

use expect_test::expect;

use super::{after, check};
use crate::prompt::Author;

// shows: REL-02
#[test]
fn a_good_session_is_ordered_at_l2_and_closed_when_its_handoff_is_there() {
    check(
        "",
        "up window L1 L2 heard writes asks turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        window: -
        L1: -
        L2: say hand off (context)
        heard: -
        asks: let end
        turn: close
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-02
#[test]
fn l1_is_only_noted() {
    check(
        "",
        "up L1",
        expect![[r#"
        publish, start 1.1
        up: -
        L1: -
    "#]],
    );
}

// shows: REL-02
#[test]
fn a_jump_to_l3_orders_as_well() {
    check(
        "",
        "up L3 heard",
        expect![[r#"
        publish, start 1.1
        up: -
        L3: say hand off (context)
        heard: -
    "#]],
    );
}

// shows: REL-02
#[test]
fn the_order_is_given_once_whatever_crosses_later() {
    check(
        "",
        "up L2 heard L3 L2",
        expect![[r#"
        publish, start 1.1
        up: -
        L2: say hand off (context)
        heard: -
        L3: -
        L2: -
    "#]],
    );
}

#[test]
fn a_level_that_was_crossed_before_the_process_was_told_of_waits_for_it() {
    check(
        "",
        "L2 up",
        expect![[r#"
        publish, start 1.1
        L2: -
        up: say hand off (context)
    "#]],
    );
}

// shows: REL-02
#[test]
fn an_order_waits_for_the_message_before_it() {
    // The message to go on is on its way when L2 is crossed.
    check(
        "",
        "up turn L2 heard",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: say go on
        L2: -
        heard: say hand off (context)
    "#]],
    );
}

// shows: REL-02
#[test]
fn an_order_that_waits_gets_its_turn_after_one_that_failed() {
    check(
        "",
        "up L2 turn:failed heard writes asks turn ends:done",
        expect![[r#"
            publish, start 1.1
            up: -
            L2: say hand off (context)
            turn:failed: -
            heard: -
            asks: let end
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
        "#]],
    );
}

// shows: REL-02
#[test]
fn a_stop_callback_carries_the_order_that_waits() {
    check(
        "",
        "up turn L2 asks heard",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: say go on
        L2: -
        asks: hold: hand off (context)
        heard: -
    "#]],
    );
}

// shows: REL-02
#[test]
fn a_turn_that_ends_before_the_order_is_heard_is_followed_by_the_orders_own() {
    check(
        "",
        "up L2 asks turn heard writes asks turn",
        expect![[r#"
        publish, start 1.1
        up: -
        L2: say hand off (context)
        asks: let end
        turn: -
        heard: -
        asks: let end
        turn: close
    "#]],
    );
}

// shows: REL-05
#[test]
fn an_early_end_is_told_to_go_on_twice_then_asked() {
    check(
        "",
        "up asks works asks works asks",
        expect![[r#"
        publish, start 1.1
        up: -
        asks: hold: go on
        asks: hold: go on
        asks: hold: mend 2
    "#]],
    );
}

// shows: REL-05
#[test]
fn an_early_end_by_messages_is_told_to_go_on_twice_then_asked() {
    check(
        "",
        "up turn heard works turn heard works turn",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: say go on
        heard: -
        turn: say go on
        heard: -
        turn: say mend 2
    "#]],
    );
}

// shows: REL-05
#[test]
fn who_did_nothing_since_told_to_go_on_is_asked_for_the_handoff() {
    check(
        "",
        "up asks asks",
        expect![[r#"
        publish, start 1.1
        up: -
        asks: hold: go on
        asks: hold: mend 2
    "#]],
    );
}

// shows: REL-05
#[test]
fn above_l1_nobody_is_told_to_go_on() {
    check(
        "",
        "up L1 works asks",
        expect![[r#"
        publish, start 1.1
        up: -
        L1: -
        asks: hold: mend 2
    "#]],
    );
}

// shows: REL-05
#[test]
fn a_handoff_that_was_begun_is_asked_for_not_told_to_go_on() {
    check(
        "",
        "up works writes:half asks",
        expect![[r#"
        publish, start 1.1
        up: -
        asks: hold: mend 1
    "#]],
    );
}

// shows: HND-08, REL-05
#[test]
fn a_turn_is_held_three_times_and_asked_twice_then_the_session_is_rescued() {
    check(
        "",
        "up L2 heard asks asks asks asks turn heard asks turn heard asks turn ends:done",
        expect![[r#"
            publish, start 1.1
            up: -
            L2: say hand off (context)
            heard: -
            asks: hold: mend 2
            asks: hold: mend 2
            asks: hold: mend 2
            asks: let end
            turn: say mend 2
            heard: -
            asks: let end
            turn: say mend 2
            heard: -
            asks: let end
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
        "#]],
    );
}

// shows: REL-05
#[test]
fn a_fault_that_is_asked_for_once_is_asked_for_once() {
    check(
        "",
        "up L2 heard writes:thin asks asks turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        L2: say hand off (context)
        heard: -
        asks: hold: mend 1
        asks: let end
        turn: close
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

/// Nobody mentioned it while files were missing, in which it is now.
// shows: REL-04, REL-05
#[test]
fn a_fault_that_is_asked_for_once_is_asked_for_after_graver_ones() {
    check(
        "",
        "up L2 heard asks writes:thin asks asks",
        expect![[r#"
            publish, start 1.1
            up: -
            L2: say hand off (context)
            heard: -
            asks: hold: mend 2
            asks: hold: mend 1
            asks: let end
        "#]],
    );
}

// shows: REL-05
#[test]
fn a_failed_turn_is_not_asked_anything() {
    check(
        "",
        "up L2 turn:failed ends:full",
        expect![[r#"
            publish, start 1.1
            up: -
            L2: say hand off (context)
            turn:failed: -
            ends:full: publish, start 2.1, archive 1.1
                at work: 2.1
        "#]],
    );
}

#[test]
fn background_work_lets_a_turn_end_without_a_handoff() {
    check(
        "",
        "up L2 heard asks:busy",
        expect![[r#"
        publish, start 1.1
        up: -
        L2: say hand off (context)
        heard: -
        asks:busy: let end
    "#]],
    );
}

// shows: REL-05
#[test]
fn refusals_at_l3_interrupt_and_ask_once_more() {
    check(
        "",
        "up L3 heard refused turn heard turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        L3: say hand off (context)
        heard: -
        refused: interrupt
        turn: say mend 2
        heard: -
        turn: close
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

#[test]
fn refusals_before_the_order_is_heard_leave_it_a_turn_of_its_own() {
    check(
        "",
        "up L3 refused turn heard turn heard turn",
        expect![[r#"
        publish, start 1.1
        up: -
        L3: say hand off (context)
        refused: interrupt
        turn: -
        heard: -
        turn: say mend 2
        heard: -
        turn: close
    "#]],
    );
}

#[test]
fn after_the_close_nothing_more_is_said() {
    check(
        "",
        "up writes turn L2 asks turn refused",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        L2: -
        asks: let end
        turn: -
        refused: -
    "#]],
    );
}

#[test]
fn an_agent_without_messages_gets_none() {
    check(
        "exec",
        "up L2 turn asks works ctrl-c",
        expect![[r#"
        publish, start 1.1
        up: -
        L2: -
        turn: close
        asks: let end
        ctrl-c: -
    "#]],
    );
}

#[test]
fn late_news_of_an_attempt_before_is_void() {
    check(
        "",
        "up ends:crash wake old:L2 old:turn old:asks old:heard old:refused old:up old:ends:done up",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:crash: publish durably, archive 1.1
                waiting 2s (failure) for 1.2
            wake: publish, start 1.2
                at work: 1.2
            old:L2: -
            old:turn: -
            old:asks: -
            old:heard: -
            old:refused: -
            old:up: -
            old:ends:done: -
            up: -
        "#]],
    );
}

#[test]
fn news_of_an_attempt_that_is_over_is_void() {
    check(
        "",
        "up ends:crash L2 turn asks heard refused up ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:crash: publish durably, archive 1.1
            waiting 2s (failure) for 1.2
        L2: -
        turn: -
        asks: -
        heard: -
        refused: -
        up: -
        ends:done: -
    "#]],
    );
}

#[test]
fn a_valid_handoff_counts_without_any_order() {
    check(
        "",
        "up works writes asks turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        asks: let end
        turn: close
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-07
#[test]
fn blocked_without_more_words_is_a_handoff_like_any_other() {
    check(
        "",
        "up works writes:blocked asks turn",
        expect![[r#"
        publish, start 1.1
        up: -
        asks: let end
        turn: close
    "#]],
    );
}

/// After a compaction the agent knows only a summary, so it hands off at once, and is told so once.
// shows: AGT-04
#[test]
fn a_compaction_is_a_handoff_that_came_too_late() {
    check(
        "",
        "up compacts heard compacts L2",
        expect![[r#"
        publish, start 1.1
        up: -
        compacts: say hand off (context)
        heard: -
        compacts: -
        L2: -
    "#]],
    );
}

// shows: AGT-04, RUN-11
#[test]
fn a_compacted_conversation_is_resumed_only_to_hand_off() {
    let track = after("", "up window works compacts heard ends:crash+ wake");
    assert!(track.prompt().contains("hand off"), "{}", track.prompt());
}

// shows: AGT-04, REL-06
#[test]
fn a_rescue_tells_of_a_compaction_in_an_earlier_attempt_too() {
    let told = |events: &str| {
        let notes = after("", events)
            .relay()
            .last
            .as_ref()
            .unwrap()
            .notes
            .clone();
        assert_eq!(notes.by, Author::Rescue);
        notes.next_prompt.contains("Its context was compacted")
    };
    assert!(told("up compacts ends:full"));
    assert!(told("up compacts ends:lost+ up ends:full"));
    assert!(
        !told("up compacts ends:lost up ends:full"),
        "a fresh conversation was not compacted"
    );
    assert!(!told("up ends:full"));
}

// shows: REL-02
#[test]
fn last_words_after_a_complete_handoff_are_not_answered_with_an_order() {
    check(
        "",
        "up works writes:claim L2 turn ends:done",
        expect![[r#"
        publish, start 1.1
        up: -
        L2: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: complete; next: 2.1
    "#]],
    );
}
