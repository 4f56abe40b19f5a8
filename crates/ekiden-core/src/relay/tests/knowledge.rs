//! What sessions leave to each other: prompts, notes, knowledge.

use expect_test::expect;

use super::after;
use super::track::{Track, as_lines, fold, records_of};
use crate::handoff::tests::{KNOWLEDGE, NEXT_PROMPT, PROGRESS};
use crate::ids::StageId;
use crate::outcome::Outcome;
use crate::prompt::Author;

/// A session that ends without one.
const RESCUED: &str = "up works L3 ends:full";

fn facts(events: &str) -> Vec<String> {
    after("", events)
        .relay()
        .knowledge
        .core
        .iter()
        .map(|fact| fact.text.clone())
        .collect()
}

// shows: REL-01, REL-28
#[test]
fn the_task_stands_word_for_word_in_every_prompt() {
    let task = "Convert the tests to plain functions.\n";
    for events in [
        "",
        "well",
        RESCUED,
        "up works ends:crash wake",
        "up works sigterm ends:killed resume",
    ] {
        assert!(after("", events).prompt().contains(task), "{events}");
    }
}

// shows: REL-01
#[test]
fn the_prompt_follows_from_state() {
    let events = format!("survey:one well survey:two {RESCUED} survey:three up ends:crash wake");
    let track = after("git", &events);
    let (again, _) = fold(&records_of(&as_lines(&track.records)));
    let again = again.relay(&StageId::only()).unwrap();
    assert!(again.prompt().is_some());
    assert_eq!(again.prompt(), track.relay().prompt());
    assert_eq!(again.protocol(), after("git", "").relay().protocol());
}

// shows: REL-01
#[test]
fn a_resumed_conversation_gets_a_note_and_not_the_prompt_again() {
    let track = after("", "up works ends:crash+ wake");
    expect![[r#"
        ekiden: the program was interrupted and has resumed this conversation. The last call may or may not have taken effect: check before you repeat it. The tree may have changed since: look at git status and log, then go on.
        If you were asked to hand off, that no longer stands."#]].assert_eq(&track.prompt());
}

// shows: REL-01
#[test]
fn a_fresh_attempt_is_told_of_the_one_before() {
    let told = |events: &str| after("", events).prompt().contains("was interrupted");
    assert!(!told("up"));
    assert!(told("up works ends:crash wake"));
    assert!(!told("up works ends:crash wake well"));
}

// shows: REL-28
#[test]
fn notes_are_a_valid_handoff_else_a_rescue() {
    let notes = |events: &str| {
        after("", events)
            .relay()
            .last
            .as_ref()
            .unwrap()
            .notes
            .clone()
    };
    assert_eq!(notes("well").by, Author::Agent);
    let text = notes(RESCUED).next_prompt;
    assert!(
        text.contains("last words of 1.1") && text.contains("the handoff came too late"),
        "{text}"
    );
}

// shows: REL-06
#[test]
fn rescues_in_a_row_keep_the_last_valid_notes_and_items() {
    let track = after("", &format!("well {RESCUED} {RESCUED}"));
    let text = &track.relay().last.as_ref().unwrap().notes.next_prompt;
    assert!(
        text.contains("test_refund_rounds") && text.contains("convert billing"),
        "{text}"
    );
    assert_eq!(
        track
            .relay()
            .last
            .as_ref()
            .unwrap()
            .open_items
            .as_ref()
            .unwrap()
            .counts(),
        (2, 2)
    );
}

// shows: REL-05
#[test]
fn the_same_notes_again_are_a_fault_that_is_asked_about() {
    let track = after(
        "",
        "up works writes:same turn ends:done up works writes:same L2 heard turn",
    );
    assert!(
        track.told().trim_end().ends_with("say mend 1"),
        "{}",
        track.told()
    );
}

// shows: REL-16, DUR-01
#[test]
fn each_accepted_handoff_is_merged_once() {
    let facts = facts("well up works writes sigterm ends:killed resume well");
    let of = |session: u32| {
        facts
            .iter()
            .filter(|fact| **fact == format!("the fact of session {session}"))
            .count()
    };
    assert_eq!([of(1), of(2), of(3)], [1, 1, 1], "{facts:?}");
}

// shows: REL-16
#[test]
fn a_handoff_that_was_not_accepted_adds_nothing() {
    assert_eq!(facts("up works writes:half ends:full"), [""; 0]);
    assert_eq!(facts("up works old:ends:done"), [""; 0]);
}

// shows: REL-16
#[test]
fn the_log_keeps_the_last_five_sessions() {
    let track = after("", &["well"; 7].join(" "));
    let log: Vec<u32> = track
        .relay()
        .knowledge
        .log
        .iter()
        .map(|entry| entry.session)
        .collect();
    assert_eq!(log, [3, 4, 5, 6, 7]);
}

// shows: REL-17
#[test]
fn a_persons_edit_between_sessions_stands() {
    assert_eq!(
        facts("well ctrl-c ends:killed edited:mine resume"),
        ["mine"]
    );
    let next = after("", "well ctrl-c ends:killed edited:mine resume").prompt();
    assert!(
        next.contains("mine") && !next.contains("no network"),
        "{next}"
    );
}

// shows: REL-17
#[test]
fn an_edit_while_a_session_runs_is_not_merged() {
    let mut track = after("", "up works");
    let prompt = track.prompt();
    track.words("edited:planted");
    assert_eq!(track.prompt(), prompt);
    assert!(track.relay().knowledge.core.is_empty());
}

// shows: REL-36
#[test]
fn of_a_handoff_with_a_fault_the_rest_is_used() {
    let mut track = Track::begin("");
    let next_prompt = NEXT_PROMPT.replace("## State", "## Other");
    track
        .words("up works")
        .leaves(PROGRESS, &next_prompt, KNOWLEDGE);
    track.words("turn heard turn heard turn ends:done");
    let relay = track.relay();
    assert_eq!(relay.knowledge.core.len(), 2);
    let last = relay.last.as_ref().unwrap();
    assert_eq!(last.notes.by, Author::Both);
    assert_eq!(last.notes.progress, PROGRESS.trim());
    assert_eq!(last.open_items.as_ref().unwrap().counts(), (2, 2));
    let (own, rescue) = last.notes.next_prompt.split_once("Rescue:").unwrap();
    assert_eq!(own.trim(), next_prompt.trim());
    assert!(
        rescue.contains("\n## State\n") && !rescue.contains("\n## Resume at\n"),
        "{rescue}"
    );
    assert!(track.prompt().contains("Its handoff is not complete."));
}

// shows: REL-36, REL-07
#[test]
fn a_question_counts_without_the_other_file() {
    let mut track = Track::begin("");
    track
        .words("up works")
        .leaves(&PROGRESS.replace("IN_PROGRESS", "BLOCKED"), "", "");
    track.words("turn heard turn heard turn ends:done");
    let outcome = track.run.outcome();
    assert!(
        matches!(outcome, Some(Outcome::Blocked { .. })),
        "{outcome:?}"
    );
}

// shows: REL-36
#[test]
fn two_rescues_that_moved_nothing_are_stuck() {
    let rescued = "up works turn heard turn heard turn ends:done survey:";
    let track = after(
        "judged git",
        &format!("survey well survey: {rescued} {rescued}"),
    );
    let stuck = Outcome::Stuck {
        repeats: 2,
        percent: None,
    };
    assert_eq!(track.run.outcome(), Some(&stuck), "{}", track.told());
}
