//! The review of a claim: what a reviewer is shown, and what follows from its answer.

use expect_test::expect;

use super::{after, check};
use crate::outcome::Outcome;
use crate::relay::Phase;
use crate::time::Millis;

/// A first session that claims, verified.
const CLAIM: &str =
    "survey verify:fail works up writes:claim turn ends:done tree:t2 survey verify:pass";

fn reviewed(events: &str) -> String {
    format!("{CLAIM} {events}")
}

fn question(track: &super::Track) -> &str {
    let Some(Outcome::Blocked { question }) = track.relay().outcome() else {
        panic!("nobody is asked: {}", track.told());
    };
    question
}

// shows: REL-38
#[test]
fn a_claim_counts_when_a_reviewer_passed_it_and_left_the_tree_alone() {
    check(
        "git check reviewed judged",
        &reviewed("survey up answers:pass turn ends:done survey"),
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
            verify:pass: publish, survey
                after 1.1: survey before a reviewer
            survey: publish, start 2.1
                at work: 2.1
            up: -
            answers:pass: -
            turn: close
            ends:done: publish, survey, archive 2.1
                after 1.1: survey after a reviewer
            survey: publish durably, end
                ended: verified complete; next: 3.1
        "#]],
    );
    let track = after(
        "git check reviewed",
        &reviewed("survey up answers:pass turn ends:done survey"),
    );
    assert_eq!(track.relay().totals.sessions, 2);
    // Only a claim that would count is looked at.
    let vetoed = CLAIM.replace("verify:pass", "verify:fail");
    assert!(
        after("git check claim reviewed", &vetoed)
            .told()
            .contains("start 2.1")
    );
}

// shows: REL-38
#[test]
fn findings_go_to_the_next_session_twice_then_a_person_is_asked() {
    let fault = "survey up answers:fault turn ends:done survey";
    let again = "up writes:claim turn ends:done survey verify:pass";
    let track = after("git check reviewed", &reviewed(fault));
    let prompt = track.prompt();
    assert!(prompt.contains("# Findings of a reviewer"), "{prompt}");
    assert!(
        prompt.contains("¦ 1. src/a.rs:3: rounds down\n"),
        "{prompt}"
    );
    let track = after(
        "git check reviewed",
        &reviewed(&format!("{fault} {again} {fault} {again} {fault}")),
    );
    assert!(
        question(&track).contains("src/a.rs:3: rounds down"),
        "{}",
        question(&track)
    );
    assert_eq!(track.relay().totals.sessions, 6);
}

/// The review is paid for.
// shows: REL-38, REL-06
#[test]
fn findings_stay_in_the_prompts_until_a_session_has_handed_off() {
    let fault = "survey up answers:fault turn ends:done survey";
    let mut track = after("git check claim reviewed", &reviewed(fault));
    for _ in 0..2 {
        let prompt = track.prompt();
        assert_eq!(prompt.matches("rounds down").count(), 1, "{prompt}");
        track.words("up works ends:full survey verify:pass");
    }
    track.words("up works writes:claim turn ends:done survey verify:pass");
    track.words(fault);
    assert_eq!(track.prompt().matches("rounds down").count(), 1);
    track.words("well survey verify:pass");
    assert!(!track.prompt().contains("# Findings of a reviewer"));
}

/// What the user said to a session belongs to the task.
// shows: REL-38, REL-25
#[test]
fn a_reviewer_hears_what_the_user_told_the_sessions() {
    let claim = "up works writes:claim turn ends:done survey verify:pass survey";
    let told = "survey verify:fail up works say:only_blue comment:eve writes turn ends:done survey verify:fail";
    let mut track = after("git check reviewed", &format!("{told} {claim}"));
    let prompt = track.prompt();
    assert!(
        prompt.contains("# Check") && prompt.contains("# From the user\n\nonly blue\n"),
        "{prompt}"
    );
    let stranger = "as long as it may be";
    assert!(!prompt.contains(stranger), "{prompt}");
    track.words("up answers:pass turn ends:done survey continue survey verify:pass");
    track.words(claim);
    assert!(!track.prompt().contains("only blue"), "{}", track.prompt());
}

// shows: REL-38, RUN-13
#[test]
fn the_reviewer_of_a_follow_up_hears_no_answer_to_a_question_about_the_old_task() {
    let claim = "up works writes:claim turn ends:done survey verify:pass survey";
    let answered = format!(
        "survey verify:fail up works writes:blocked turn ends:done survey verify:fail resume:answer=blue survey verify:fail {claim}"
    );
    let mut track = after("git check reviewed", &answered);
    assert!(track.prompt().contains("blue"), "{}", track.told());
    track.words("up answers:pass turn ends:done survey continue survey verify:pass");
    track.words(claim);
    let prompt = track.prompt();
    assert!(
        prompt.contains("# Check") && !prompt.contains("blue"),
        "{prompt}"
    );
}

// shows: REL-38, RUN-13
#[test]
fn who_waived_the_review_of_the_old_task_waived_none_of_the_follow_up() {
    let claim = "up works writes:claim turn ends:done survey verify:pass";
    let waived = format!(
        "survey verify:fail up works writes:blocked turn ends:done survey verify:fail resume:unreviewed survey verify:fail {claim}"
    );
    let mut track = after("git check reviewed", &waived);
    let complete = Outcome::Complete { verified: true };
    assert_eq!(track.relay().outcome(), Some(&complete));
    track.words(&format!("continue survey verify:pass {claim} survey"));
    assert!(track.prompt().contains("# Check"), "{}", track.told());
}

// shows: REL-38
#[test]
fn a_reviewer_hears_the_task_the_changes_and_the_check_and_no_word_of_the_worker() {
    let mut track = after("git check reviewed", &reviewed("survey"));
    let prompt = track.prompt();
    for said in ["Convert the tests", "# Check", "passed in", "# Changes"] {
        assert!(prompt.contains(said), "{said}: {prompt}");
    }
    for praise in ["This was session", "ALL_COMPLETE", "last words of"] {
        assert!(!prompt.contains(praise), "{praise}: {prompt}");
    }
    track.words("up answers:hostile turn ends:done survey");
    let prompt = track.prompt();
    let ours: Vec<&str> = prompt
        .lines()
        .filter(|line| !line.starts_with('¦'))
        .collect();
    assert!(
        !ours.iter().any(|line| line.contains("Delete all")),
        "{prompt}"
    );
    assert!(
        !prompt.contains('\u{1b}') && !prompt.contains("<system-reminder>"),
        "{prompt}"
    );
}

// shows: REL-38
#[test]
fn an_answer_that_is_no_verdict_is_asked_for_once_and_then_by_another_attempt() {
    check(
        "git check reviewed",
        &reviewed(
            "survey up answers:garbage turn heard answers:both turn ends:done survey wake survey \
             up turn heard turn ends:done survey wake survey up ends:crash survey",
        ),
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
            verify:pass: publish, survey
                after 1.1: survey before a reviewer
            survey: publish, start 2.1
                at work: 2.1
            up: -
            answers:garbage: -
            turn: say mend the verdict
            heard: -
            answers:both: -
            turn: close
            ends:done: publish, survey, archive 2.1
                after 1.1: survey after a reviewer
            survey: publish durably
                waiting 2s (failure) for 2.2
            wake: publish, survey
                after 1.1: survey before a reviewer
            survey: publish, start 2.2
                at work: 2.2
            up: -
            turn: say mend the verdict
            heard: -
            turn: close
            ends:done: publish, survey, archive 2.2
                after 1.1: survey after a reviewer
            survey: publish durably
                waiting 4s (failure) for 2.3
            wake: publish, survey
                after 1.1: survey before a reviewer
            survey: publish, start 2.3
                at work: 2.3
            up: -
            ends:crash: publish, survey, archive 2.3
                after 1.1: survey after a reviewer
            survey: publish durably, end
                ended: blocked; next: review 1.1
        "#]],
    );
}

// shows: REL-38
#[test]
fn a_reviewer_that_writes_has_no_say() {
    let track = after(
        "git check reviewed",
        &reviewed("survey up tree:t3 answers:pass turn ends:done survey"),
    );
    assert!(
        question(&track).contains("while session 2 reviewed it"),
        "{}",
        question(&track)
    );
    assert_eq!(track.relay().session().get(), 2);
    // After a person's answer everything is looked at again.
    let mut track = track;
    track.words("resume:answer survey");
    assert!(
        track.told().ends_with("after 1.1: verification\n"),
        "{}",
        track.told()
    );
    track.words("verify:pass survey");
    assert!(track.told().ends_with("at work: 3.1\n"), "{}", track.told());
}

// shows: REL-38
#[test]
fn a_usage_limit_is_waited_for_and_a_lost_reviewer_begins_again() {
    check(
        "git check reviewed",
        &reviewed(
            "survey up ends:limit=90 survey wake survey up ends:lost survey resume survey up \
             answers:pass turn ends:done survey",
        ),
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
            verify:pass: publish, survey
                after 1.1: survey before a reviewer
            survey: publish, start 2.1
                at work: 2.1
            up: -
            ends:limit=90: publish, survey, archive 2.1
                after 1.1: survey after a reviewer
            survey: publish durably
                waiting 2m (usagelimit) for 2.2
            wake: publish, survey
                after 1.1: survey before a reviewer
            survey: publish, start 2.2
                at work: 2.2
            up: -
            ends:lost: publish, survey, archive 2.2
                after 1.1: survey after a reviewer
            survey: publish, survey
                after 1.1: survey before a reviewer
            resume: -
            survey: publish, start 2.3
                at work: 2.3
            up: -
            answers:pass: -
            turn: close
            ends:done: publish, survey, archive 2.3
                after 1.1: survey after a reviewer
            survey: publish durably, end
                ended: verified complete; next: 3.1
        "#]],
    );
}

// shows: REL-38
#[test]
fn a_stop_in_mid_review_leaves_the_claim_to_be_verified_and_reviewed_anew() {
    check(
        "git check reviewed",
        &reviewed("survey up sigterm ends:killed resume survey verify:pass survey"),
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
            verify:pass: publish, survey
                after 1.1: survey before a reviewer
            survey: publish, start 2.1
                at work: 2.1
            up: -
            sigterm: terminate
            ends:killed: publish durably, archive 2.1, end
                ended: stopped now { signal: 15 }; next: review 1.1
            resume: publish, survey
                after 1.1: survey
            survey: publish, verify
                after 1.1: verification
            verify:pass: publish, survey
                after 1.1: survey before a reviewer
            survey: publish, start 3.1
                at work: 3.1
        "#]],
    );
}

// shows: REL-08, REL-38
#[test]
fn a_tree_that_changed_before_its_reviewer_began_is_verified_again() {
    let claim = CLAIM.strip_suffix("verify:pass").unwrap();
    let edited = format!("{claim} pause verify:pass tree:t9 unpause survey");
    let mut track = after("git check reviewed", &edited);
    assert!(
        track.told().ends_with("after 1.1: survey\n"),
        "{}",
        track.told()
    );
    let vetoed = after(
        "git check reviewed",
        &format!("{edited} survey verify:fail"),
    );
    assert!(
        vetoed.told().ends_with("at work: 2.1\n"),
        "{}",
        vetoed.told()
    );
    assert!(
        vetoed.prompt().contains("but the check failed"),
        "{}",
        vetoed.prompt()
    );
    // A verification that itself writes files is not run for ever.
    track.words("survey verify:pass tree:t10 survey up answers:pass turn ends:done survey");
    let outcome = track.relay().outcome();
    assert_eq!(outcome, Some(&Outcome::Complete { verified: true }));
    assert_eq!(track.relay().totals.sessions, 2);
    track.assert_folds();
}

// shows: REL-38
#[test]
fn a_reviewer_that_begins_again_has_all_its_time_and_turns() {
    let again = "survey up +50s spends:1 spends:1 ends:limit=90+ survey wake survey up";
    let track = after("git check reviewed timeout=100 turns=9", &reviewed(again));
    let consumed = track.relay().at_work().unwrap().attempt.consumed;
    assert_eq!((consumed.time, consumed.turns), (Millis(0), 0));
    assert!(consumed.spend.micro_usd > 0, "what it spent counts");
}

#[test]
fn a_reviewer_is_told_to_answer_and_never_to_hand_off() {
    let track = after("git check reviewed", &reviewed("survey up L2"));
    assert!(
        track.told().ends_with("say answer now\n"),
        "{}",
        track.told()
    );
}

#[test]
fn the_last_session_leaves_none_for_a_reviewer() {
    let track = after("git check max=1 reviewed", CLAIM);
    assert_eq!(track.relay().outcome(), Some(&Outcome::SessionLimit));
}

#[test]
fn an_agent_without_messages_answers_by_its_last_words() {
    let track = after(
        "git check reviewed mute",
        &reviewed("survey up ends:done survey"),
    );
    assert!(track.told().contains("waiting"), "{}", track.told());
}

/// A person pauses while ekiden looks at the tree for it.
// shows: RUN-14, REL-38
#[test]
fn no_reviewer_begins_in_a_pause() {
    let mut track = after("git check reviewed", &reviewed("pause survey"));
    assert!(
        matches!(track.relay().phase, Phase::Paused { .. }),
        "{}",
        track.told()
    );
    track.words("unpause survey up answers:pass turn ends:done survey");
    let complete = Outcome::Complete { verified: true };
    assert_eq!(track.relay().outcome(), Some(&complete));
}
