//! A person adds words and limits: between the sessions of a guided relay, and at any other time.

use expect_test::expect;

use super::{after, check};
use crate::limits;
use crate::outcome::Outcome;

const FROM_USER: &str = "# From the user";

// shows: REL-25
#[test]
fn a_guided_relay_counts_down_before_each_session_but_the_first() {
    check(
        "guided",
        "up works writes turn ends:done wake well wake",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1
                waiting 10s (guided) for 2.1
            wake: publish, start 2.1
                at work: 2.1
            up: -
            turn: close
            ends:done: publish durably, archive 2.1
                waiting 10s (guided) for 3.1
            wake: publish, start 3.1
                at work: 3.1
        "#]],
    );
}

// shows: REL-25
#[test]
fn whoever_steps_in_holds_the_countdown() {
    check(
        "guided",
        "well +4s pause +60s unpause",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1
            waiting 10s (guided) for 2.1
        pause: publish durably
            paused before 2.1
        unpause: publish, start 2.1
            at work: 2.1
    "#]],
    );
    let held = after("guided", "well +4s pause +60s unpause");
    assert_eq!(held.relay().totals.waiting.as_secs(), 64);
    check(
        "guided",
        "well +4s say:leave_it +60s limit:7 unpause",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1
            waiting 10s (guided) for 2.1
        say:leave_it: publish durably
            paused before 2.1
        limit:7: -
        unpause: publish, start 2.1
            at work: 2.1
    "#]],
    );
    check(
        "guided",
        "well +4s stop resume",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1
            waiting 10s (guided) for 2.1
        stop: publish durably, end
            ended: stopped gently; next: 2.1
        resume: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-25
#[test]
fn a_pause_that_was_wanted_before_needs_no_countdown() {
    check(
        "guided",
        "up works pause writes turn ends:done unpause",
        expect![[r#"
        publish, start 1.1
        up: -
        pause: -
        turn: close
        ends:done: publish durably, archive 1.1
            paused before 2.1
        unpause: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-25
#[test]
fn a_pause_of_the_users_is_no_shorter_than_the_countdown() {
    let waits = |given| {
        let track = after(given, "well");
        track.relay().totals.waiting
    };
    assert_eq!(waits("guided pause=3"), limits::GUIDED_COUNTDOWN);
    assert_eq!(waits("guided pause=90").as_secs(), 90);
}

// shows: REL-25
#[test]
fn words_are_given_to_one_session_as_the_users_own() {
    let track = after(
        "guided",
        "well say:leave_tests/legacy_alone say:use_the_new_client unpause",
    );
    let words = "# From the user\n\nleave tests/legacy alone\nuse the new client\n\n# Now";
    assert!(track.prompt().contains(words), "{}", track.prompt());
    assert!(track.prompt().contains("go before the notes"));
    let next = after("guided", "well say:leave_it unpause well wake");
    assert!(!next.prompt().contains(FROM_USER), "{}", next.prompt());
}

// shows: REL-25
#[test]
fn a_further_attempt_is_given_the_same_words_and_newer_ones() {
    let track = after(
        "guided",
        "well say:leave_it unpause up works say:hurry ends:crash wake",
    );
    assert!(
        track
            .prompt()
            .contains("# From the user\n\nleave it\nhurry\n"),
        "{}",
        track.prompt()
    );
}

/// A conversation that goes on is told nothing new, so the words wait for one that begins.
// shows: REL-25
#[test]
fn words_for_a_conversation_that_goes_on_wait_for_the_next() {
    let track = after("", "up works say:leave_it ends:crash+ wake");
    assert_eq!(track.relay().wishes.words, ["leave it"]);
    let track = after("", "up works say:leave_it ends:crash+ wake well");
    assert!(
        track.prompt().contains("# From the user\n\nleave it\n"),
        "{}",
        track.prompt()
    );
    assert!(track.relay().wishes.words.is_empty());
}

// shows: REL-25
#[test]
fn words_that_were_said_when_the_run_was_over_hold() {
    let track = after("", "up works ctrl-c ends:killed say:leave_it resume");
    assert!(
        track.prompt().contains("# From the user\n\nleave it\n"),
        "{}",
        track.prompt()
    );
}

/// The claim is of a session that did not read them.
// shows: REL-25, TRK-07
#[test]
fn words_that_wait_get_a_session_before_the_run_is_complete() {
    check(
        "check",
        "verify:fail up works say:and_the_docs writes:claim turn ends:done verify:pass up works writes:claim turn ends:done verify:pass",
        expect![[r#"
            publish, verify
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            say:and_the_docs: -
            turn: close
            ends:done: publish, verify, archive 1.1
                after 1.1: verification
            verify:pass: publish, start 2.1
                at work: 2.1
            up: -
            turn: close
            ends:done: publish, verify, archive 2.1
                after 2.1: verification
            verify:pass: publish durably, end
                ended: verified complete; next: 3.1
        "#]],
    );
    // A question goes first; the answer's session reads both.
    let asked = after("", "up works say:hurry writes:blocked turn ends:done");
    assert!(asked.run.outcome().is_some_and(Outcome::asks));
    let track = after(
        "",
        "up works say:hurry writes:blocked turn ends:done resume:answer=blue",
    );
    assert!(track.prompt().contains("\nblue\nhurry\n"));
}

// shows: REL-25
#[test]
fn words_are_clean_and_bounded() {
    let long = format!("say:{}", "x".repeat(limits::OPERATOR_CHARS_MAX - 10));
    let track = after(
        "",
        &format!("up works say:\u{1b}[31mred {long} say:eleven_long say:short"),
    );
    assert_eq!(
        track
            .relay()
            .wishes
            .words
            .iter()
            .map(String::len)
            .collect::<Vec<_>>(),
        [3, 3990, 5]
    );
    assert_eq!(track.relay().wishes.words[0], "red");
}

// shows: REL-25, TRK-07
#[test]
fn comments_by_strangers_leave_room_for_the_users_words() {
    let kept = |events: &str| {
        let track = after("", &format!("up works {events}"));
        let words = track.relay().wishes.words.iter();
        let who = words.map(|words| {
            let who = ["eve", "mia"].into_iter().find(|who| words.contains(who));
            who.unwrap_or("the user")
        });
        who.collect::<Vec<_>>()
    };
    let said = format!("say:{}", "x".repeat(1_000));
    assert_eq!(
        kept(&format!("comment:eve comment:eve {said}")),
        ["eve", "the user"]
    );
    assert_eq!(
        kept(&format!("comment:mia comment:eve comment:eve {said}")),
        ["mia", "the user"]
    );
    let long = format!("say:{}", "x".repeat(limits::OPERATOR_CHARS_MAX - 10));
    assert_eq!(kept(&format!("{long} comment:eve")), ["the user"]);
    let half = format!("say:{}", "y".repeat(limits::OPERATOR_CHARS_MAX / 2));
    let all = kept(&format!("{half} comment:eve {long}"));
    assert_eq!(all, ["the user", "eve"], "too long without her, too");
}

/// Nobody may be there to end the pause.
// shows: REL-25, TRK-07
#[test]
fn a_comment_does_not_hold_the_countdown() {
    check(
        "guided",
        "well +4s comment:eve wake",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish durably, archive 1.1
            waiting 10s (guided) for 2.1
        comment:eve: -
        wake: publish, start 2.1
            at work: 2.1
    "#]],
    );
}

// shows: REL-25
#[test]
fn limits_hold_for_the_session_at_work() {
    check(
        "max=1",
        "up works limit:2 writes turn ends:done well",
        expect![[r#"
        publish, start 1.1
        up: -
        limit:2: -
        turn: close
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
        up: -
        turn: close
        ends:done: publish durably, archive 2.1, end
            ended: session limit; next: 3.1
    "#]],
    );
    let order = |words| after("timeout=600", words).relay().wakes_at();
    let began = after("timeout=600", "up works").relay().wakes_at().unwrap();
    assert_eq!(
        order("up works +60s limit:timeout=1200")
            .unwrap()
            .since(began)
            .as_secs(),
        600
    );
    assert_eq!(order("up works +60s limit:timeout=0"), None);
    let share = |words| {
        after("budget=9", words)
            .relay()
            .share()
            .unwrap()
            .budget
            .micro_usd
    };
    assert_eq!(share("up works limit:budget=20"), Some(20_000_000));
}

// shows: REL-25
#[test]
fn limits_hold_for_a_wait_that_has_begun() {
    check(
        "quiet=20:00-21:00",
        "limit:7 limit:quiet=01:00-02:00",
        expect![[r#"
            publish durably
            limit:7: -
            limit:quiet=01:00-02:00: publish, start 1.1
                at work: 1.1
        "#]],
    );
    check(
        "pause=300",
        "well +60s limit:pause=90 +10s limit:pause=70",
        expect![[r#"
            publish, start 1.1
            up: -
            turn: close
            ends:done: publish durably, archive 1.1
                waiting 5m (pause) for 2.1
            limit:pause=90: publish durably
                waiting 30s (pause) for 2.1
            limit:pause=70: publish, start 2.1
                at work: 2.1
        "#]],
    );
    check(
        "",
        "up works ends:limit+ limit:wait=9",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit+: publish durably, archive 1.1
            waiting 5m (usagelimit) for 1.2 in the same conversation
        limit:wait=9: publish durably, end
            ended: limit too far; next: 1.2 in the same conversation
    "#]],
    );
    check(
        "",
        "up works ends:limit+ limit:no-waiting",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit+: publish durably, archive 1.1
            waiting 5m (usagelimit) for 1.2 in the same conversation
        limit:no-waiting: publish durably, end
            ended: rate limited; next: 1.2 in the same conversation
    "#]],
    );
}

/// The count of sessions starts again only where somebody gives their number.
// shows: REL-25
#[test]
fn other_limits_do_not_count_sessions_anew() {
    assert_eq!(
        after("max=3", "well limit:timeout=9").relay().session_max(),
        3
    );
    assert_eq!(after("max=3", "well limit:3").relay().session_max(), 4);
}
