//! Which recorded effects still wait for their outcome.

use expect_test::{Expect, expect};

use super::{after, notation};

#[expect(
    clippy::needless_pass_by_value,
    reason = "`expect!` makes a value for each case"
)]
fn check(given: &str, events: &str, expected: Expect) {
    let track = after(given, events);
    let left: Vec<String> = track
        .outstanding
        .iter()
        .map(|(id, effect)| notation::line(&id.to_string(), std::slice::from_ref(effect)))
        .collect();
    expected.assert_eq(&left.join("\n"));
}

// shows: DUR-01
#[test]
fn the_first_look_is_outstanding_until_it_is_told() {
    check("git check", "", expect!["1.1: survey"]);
    check("git check", "survey", expect!["2.1: verify"]);
    check("git check", "survey verify:fail", expect!["3.1: start 1.1"]);
}

// shows: DUR-01
#[test]
fn a_started_attempt_is_outstanding_until_it_has_ended() {
    check("", "up L2 heard asks turn", expect!["1.1: start 1.1"]);
    check(
        "",
        "up ends:crash",
        expect![[r#"
        3.0: publish durably
        3.1: archive 1.1"#]],
    );
    check(
        "",
        "up ends:crash wake old:ends:done",
        expect![[r#"
        3.0: publish durably
        3.1: archive 1.1
        4.1: start 1.2"#]],
    );
}

// shows: DUR-01
#[test]
fn archives_and_published_files_are_settled_by_their_own_outcome() {
    let over = "up works writes turn ends:done";
    check(
        "max=1",
        over,
        expect![[r#"
        4.0: publish durably
        4.1: archive 1.1"#]],
    );
    check(
        "max=1",
        &format!("{over} published"),
        expect!["4.1: archive 1.1"],
    );
    check(
        "max=1",
        &format!("{over} archived published"),
        expect![[""]],
    );
}

/// A disk that was full for a moment wrote nothing; what is written later says all of it.
// shows: DUR-01, RUN-12
#[test]
fn files_that_are_published_settle_what_was_to_be_published_before() {
    let waits = "up ends:crash archived wake up ends:crash archived";
    check(
        "",
        waits,
        expect![[r#"
        3.0: publish durably
        7.0: publish durably"#]],
    );
    check("", &format!("{waits} published:last"), expect![[""]]);
    check(
        "",
        &format!("{waits} published"),
        expect!["7.0: publish durably"],
    );
}

// shows: DUR-01
#[test]
fn a_stop_leaves_the_cancelled_task_outstanding_until_it_is_told() {
    check("check", "ctrl-c", expect!["1.1: verify"]);
    check("check", "ctrl-c verify:cancelled published", expect![[""]]);
}

// shows: DUR-01
#[test]
fn messages_and_answers_die_with_their_attempt() {
    check(
        "",
        "up L2 ctrl-c asks refused sigterm",
        expect!["1.1: start 1.1"],
    );
}
