//! An edited task, follow-up work, and going on from an earlier session.

use expect_test::expect;

use super::track::Track;
use super::{after, check};
use crate::outcome::Outcome;
use crate::prompt::Author;
use crate::time::Millis;

fn notes(track: &Track) -> (String, String) {
    let notes = &track.relay().last.as_ref().unwrap().notes;
    assert_ne!(notes.by, Author::Rescue);
    (notes.progress.clone(), notes.next_prompt.clone())
}

/// The closing request of the attempt at work.
fn now(track: &Track) -> String {
    let prompt = track.prompt();
    prompt[prompt.find("# Now").unwrap()..].to_owned()
}

// shows: RUN-13
#[test]
fn a_complete_run_goes_on_with_follow_up_work() {
    check(
        "git check max=2",
        "survey verify:fail well survey verify:pass continue survey verify:pass well survey verify:pass",
        expect![[r#"
            publish, survey
            survey: publish, verify
                before: verification
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey: publish, verify
                after 1.1: verification
            verify:pass: publish durably, end
                ended: verified complete; next: 2.1
            continue: publish, survey
                before: survey
            survey: publish, verify
                before: verification
            verify:pass: publish, start 2.1
                at work: 2.1
            up: -
            turn: close
            ends:done: publish, survey, archive 2.1
                after 2.1: survey
            survey: publish, verify
                after 2.1: verification
            verify:pass: publish, start 3.1
                at work: 3.1
        "#]],
    );
}

/// A stop or a pause that came too late to hold the work before says nothing about more work.
// shows: RUN-13, RUN-14
#[test]
fn what_was_asked_too_late_of_the_work_before_does_not_concern_a_follow_up() {
    for asked in ["ctrl-c", "stop", "pause"] {
        let run = after(
            "",
            &format!("up works {asked} writes:claim turn ends:done continue"),
        )
        .run;
        assert!(!run.is_stopping() && !run.is_paused(), "{asked}");
    }
}

// shows: RUN-13
#[test]
fn sessions_count_from_a_continuation() {
    check(
        "max=2",
        "well up writes:claim turn ends:done continue:1 well",
        expect![[r#"
        publish, start 1.1
        up: -
        turn: close
        ends:done: publish, start 2.1, archive 1.1
            at work: 2.1
        up: -
        turn: close
        ends:done: publish durably, archive 2.1, end
            ended: complete; next: 3.1
        continue:1: publish, start 3.1
            at work: 3.1
        up: -
        turn: close
        ends:done: publish durably, archive 3.1, end
            ended: session limit; next: 4.1
    "#]],
    );
}

// shows: RUN-13
#[test]
fn only_a_complete_run_is_continued() {
    check(
        "max=1",
        "up continue writes turn ends:done continue",
        expect![[r#"
        publish, start 1.1
        up: -
        continue: -
        turn: close
        ends:done: publish durably, archive 1.1, end
            ended: session limit; next: 2.1
        continue: -
    "#]],
    );
}

// shows: RUN-13
#[test]
fn a_follow_up_begins_with_its_task_what_is_known_and_what_was_done() {
    let track = after("", "well up works writes:claim turn ends:done continue");
    let (progress, next_prompt) = notes(&track);
    expect![[r#"
        # Progress

        STATUS: IN_PROGRESS

        ## Done

        Nothing of the new task yet.

        ## Stopped at

        Before its first step.

        ## Issues

        none
    "#]]
    .assert_eq(&progress);
    expect![[r###"
        ## Task

        The new task, from its beginning.

        ## State

        The task before this one is complete, as the agent said, after session 2. It began:

        > Convert the tests to plain functions.

        The report of session 2:

        > # Progress
        > 
        > STATUS: ALL_COMPLETE
        > 
        > ## Done
        > 
        > - Converted `tests/test_users.py` (`pytest tests/test_users.py -q`: 41 passed).
        > - Converted `tests/test_charge.py` (`pytest tests/test_charge.py -q`: 18 passed). Not checked on Python 3.9.
        > 
        > ## Stopped at
        > 
        > `tests/test_billing.py`, item "convert billing": the fixtures are moved, the tests are not. It builds.
        > 
        > ## Issues
        > 
        > `tests/test_refunds.py` expects banker's rounding, the task says half up. Which one is right?
        > 
        > ## Open items
        > 
        > - [x] convert users
        > - [x] convert charge
        > - [x] convert billing
        > - [x] convert refunds
        > 
        > This was session 2.

        ## Resume at

        git status and log.
    "###]].assert_eq(&next_prompt);
    expect![[r##"
        # Task

        Convert the docs too.

        # What the relay knows

        Facts that earlier sessions recorded, oldest first; if no lines follow, there are none yet.
        ¦ - The CI image has no network; fixtures must not download anything.
        ¦ - pinned: run the tests with `TZ=UTC`, else the billing tests fail after 22:00.
        ¦ - the fact of session 1

        # Log of the last sessions

        ¦ ### Session 1 - 2026-11-21
        ¦ - Converted users and charge, began billing.

        # Measured by ekiden

        Commits since the last session began:
        ¦ [nothing]
        Changed files in the work dir; those that were uncommitted before the relay began come last:
        ¦ [nothing]
        Open items:
        ¦ no list

        # Notes of the previous session

        The task before this one is done; ekiden put together what is left of it.
        ¦ ## Task
        ¦ 
        ¦ The new task, from its beginning.
        ¦ 
        ¦ ## State
        ¦ 
        ¦ The task before this one is complete, as the agent said, after session 2. It began:
        ¦ 
        ¦ > Convert the tests to plain functions.
        ¦ 
        ¦ The report of session 2:
        ¦ 
        ¦ > # Progress
        ¦ > 
        ¦ > STATUS: ALL_COMPLETE
        ¦ > 
        ¦ > ## Done
        ¦ > 
        ¦ > - Converted `tests/test_users.py` (`pytest tests/test_users.py -q`: 41 passed).
        ¦ > - Converted `tests/test_charge.py` (`pytest tests/test_charge.py -q`: 18 passed). Not checked on Python 3.9.
        ¦ > 
        ¦ > ## Stopped at
        ¦ > 
        ¦ > `tests/test_billing.py`, item "convert billing": the fixtures are moved, the tests are not. It builds.
        ¦ > 
        ¦ > ## Issues
        ¦ > 
        ¦ > `tests/test_refunds.py` expects banker's rounding, the task says half up. Which one is right?
        ¦ > 
        ¦ > ## Open items
        ¦ > 
        ¦ > - [x] convert users
        ¦ > - [x] convert charge
        ¦ > - [x] convert billing
        ¦ > - [x] convert refunds
        ¦ > 
        ¦ > This was session 2.
        ¦ 
        ¦ ## Resume at
        ¦ 
        ¦ git status and log.

        # Now

        This is session 3.
        The task before this one is done. The text under "Task" is new; the notes tell what was there before. Only this session sees them: what later sessions need from them goes into KNOWLEDGE.md.
        Get to know the project, note the task's parts ("Open items" when you hand off), then begin with the first.
    "##]].assert_eq(&track.prompt());
    assert_eq!(track.relay().session_max(), 12);
}

// shows: RUN-13, REL-06
#[test]
fn after_a_follow_ups_session_without_a_handoff_the_next_knows_the_work_before() {
    let mut track = after(
        "",
        "well up works writes:claim turn ends:done continue up works ends:done",
    );
    let prompt = track.prompt();
    assert!(
        prompt.contains("\n¦     > Convert the tests to plain functions.\n"),
        "{prompt}"
    );
    expect![[r##"
        # Now

        This is session 4.
        The task before this one is done. The text under "Task" is new; the notes tell what was there before. Only this session sees them: what later sessions need from them goes into KNOWLEDGE.md.
        Look at the tree, and see from it how far the work got; then take the next unfinished part of the task.
    "##]].assert_eq(&now(&track));
    track.words("well");
    assert!(!now(&track).contains("before this one"), "{}", now(&track));
}

// shows: RUN-13
#[test]
fn a_stop_before_the_first_session_of_a_follow_up_forgets_nothing() {
    check(
        "git",
        "survey up writes:claim turn ends:done survey continue ctrl-c survey resume survey",
        expect![[r#"
            publish, survey
            survey: publish, start 1.1
                at work: 1.1
            up: -
            turn: close
            ends:done: publish, survey, archive 1.1
                after 1.1: survey
            survey: publish durably, end
                ended: complete; next: 2.1
            continue: publish, survey
                before: survey
            ctrl-c: cancel
            survey: publish durably, end
                ended: stopped gently; next: prepare
            resume: publish, survey
                before: survey
            survey: publish, start 2.1
                at work: 2.1
        "#]],
    );
    let track = after(
        "git",
        "survey up writes:claim turn ends:done survey continue ctrl-c survey resume survey",
    );
    assert!(
        now(&track).contains("The task before this one is done."),
        "{}",
        now(&track)
    );
}

// shows: RUN-16
#[test]
fn an_edited_task_is_told_to_the_next_session_and_only_to_that() {
    let mut track = after("", "well ctrl-c ends:killed+ resume:task=docs");
    expect![[r##"
        # Now

        This is session 2.
        The user has changed the task, and notes may follow the old one.
        This session was interrupted before; the tree may hold part of its work. Compare git status and diff with the notes, and do not redo what is there.
        Look at the tree, then continue at "Resume at" if it names a place that still holds; else take the next unfinished part of the task.
    "##]].assert_eq(&now(&track));
    assert!(
        track
            .prompt()
            .starts_with("# Task\n\nConvert the docs too.\n"),
        "{}",
        track.prompt()
    );
    track.words("well");
    expect![[r##"
        # Now

        This is session 3.
        Look at the tree, then continue at "Resume at" if it names a place that still holds; else take the next unfinished part of the task.
    "##]].assert_eq(&now(&track));
}

// shows: RUN-16
#[test]
fn a_conversation_about_the_old_task_does_not_go_on() {
    check(
        "",
        "up works ctrl-c ends:killed+ resume:task=docs",
        expect![[r#"
        publish, start 1.1
        up: -
        ctrl-c: say hand off (operator)
        ends:killed+: publish durably, archive 1.1, end
            ended: stopped gently; next: 1.2 in the same conversation
        resume:task=docs: publish, start 1.2
            at work: 1.2
    "#]],
    );
    check(
        "",
        "up works resume:task=docs ends:lost+ up works ends:crash+ wake",
        expect![[r#"
        publish, start 1.1
        up: -
        resume:task=docs: -
        ends:lost+: publish, start 1.2, archive 1.1
            at work: 1.2
        up: -
        ends:crash+: publish durably, archive 1.2
            waiting 2s (failure) for 1.3 in the same conversation
        wake: publish, start 1.3 in the same conversation
            at work: 1.3
    "#]],
    );
    check(
        "",
        "up works ends:limit=90+ resume:task=docs wake",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=90+: publish durably, archive 1.1
            waiting 2m (usagelimit) for 1.2 in the same conversation
        resume:task=docs: -
        wake: publish, start 1.2
            at work: 1.2
    "#]],
    );
}

// shows: RUN-16
#[test]
fn a_conversation_about_a_new_task_has_all_its_time_and_turns() {
    let lost = "up works spends:1 +550s heard resume:task=docs ends:lost+ up";
    let track = after("timeout=600 turns=9", lost);
    assert_eq!(track.waits_for(), Millis::from_secs(600));
    assert_eq!(track.relay().share().unwrap().turns, Some(9));
}

// shows: RUN-16
#[test]
fn what_was_claimed_of_the_old_task_does_not_end_the_run() {
    check(
        "",
        "up works writes:claim resume:task=docs ends:lost",
        expect![[r#"
        publish, start 1.1
        up: -
        resume:task=docs: -
        ends:lost: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
    check(
        "check",
        "verify:fail up works writes:blocked resume:task=docs ends:lost verify:pass",
        expect![[r#"
            publish, verify
            verify:fail: publish, start 1.1
                at work: 1.1
            up: -
            resume:task=docs: -
            ends:lost: publish, verify, archive 1.1
                after 1.1: verification
            verify:pass: publish, start 2.1
                at work: 2.1
        "#]],
    );
}

/// Session 1 may have made the verification pass, so a pass alone says nothing of the new task.
// shows: RUN-16, REL-08
#[test]
fn a_pass_alone_does_not_end_a_run_whose_task_was_edited() {
    let edited = "verify:fail up works writes resume:task=docs ends:lost verify:pass up works";
    let track = after(
        "check",
        &format!("{edited} writes turn ends:done verify:pass"),
    );
    assert!(track.told().ends_with("at work: 3.1\n"), "{}", track.told());
    let track = after(
        "check",
        &format!("{edited} writes:claim turn ends:done verify:pass"),
    );
    let outcome = track.relay().outcome();
    assert_eq!(outcome, Some(&Outcome::Complete { verified: true }));
}

// shows: RUN-16
#[test]
fn items_of_the_old_task_are_not_missed() {
    let mut track = after("", "well ctrl-c ends:killed+ resume:task=docs");
    assert!(
        track.prompt().contains("Open items:\n¦ no list\n"),
        "{}",
        track.prompt()
    );
    track.words("well");
    assert_eq!(
        track.relay().last.as_ref().unwrap().vanished,
        Vec::<String>::new()
    );
}

// shows: RUN-16
#[test]
fn the_same_task_again_is_no_change() {
    let mut track = after(
        "",
        "well ctrl-c ends:killed resume:task=docs well ctrl-c ends:killed",
    );
    track.words("resume:task=docs");
    assert!(!now(&track).contains("changed the task"), "{}", now(&track));
}

// shows: RUN-16
#[test]
fn a_run_from_an_earlier_session_has_the_number_after_it() {
    let before = after("max=2", "well well");
    let mut track = before.branch(true, false);
    track.words("well well");
    track.assert_folds();
    expect![[r#"
        publish, start 3.1
        up: -
        turn: close
        ends:done: publish, start 4.1, archive 3.1
            at work: 4.1
        up: -
        turn: close
        ends:done: publish durably, archive 4.1, end
            ended: session limit; next: 5.1
    "#]]
    .assert_eq(&track.told());
}

// shows: RUN-16
#[test]
fn a_run_from_an_earlier_session_knows_what_that_one_left() {
    let before = after("", "well well");
    let track = before.branch(true, true);
    assert_eq!(track.relay().knowledge.core, before.relay().knowledge.core);
    assert_eq!(notes(&track), notes(&before));
    // Nobody has looked at what that session did.
    assert!(!track.prompt().contains("Commits since"));
    expect![[r##"
        # Now

        This is session 3.
        The user has changed the task, and notes may follow the old one.
        The user went back to these notes: later sessions worked on the tree; git status and log show what they left.
        Look at the tree, then continue at "Resume at" if it names a place that still holds; else take the next unfinished part of the task.
    "##]].assert_eq(&now(&track));
    let plain = now(&before.branch(false, false));
    assert!(
        !plain.contains("went back") && !plain.contains("changed the task"),
        "{plain}"
    );
}
