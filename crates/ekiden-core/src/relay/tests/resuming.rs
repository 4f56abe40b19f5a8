//! Carrying on: after each end, and after a crash of the engine in each phase.

use expect_test::expect;

use super::after;
use super::check;

// shows: RUN-11
#[test]
fn a_crash_while_a_session_works_makes_a_second_attempt() {
    check("", "up works resume ends:lost", expect![[""]]);
}

// shows: RUN-11
#[test]
fn a_crash_in_a_stop_forgets_the_stop_and_its_deadline() {
    check("", "up works ctrl-c resume wake ends:lost up", expect![[""]]);
}

// shows: RUN-11
#[test]
fn a_handoff_that_lies_there_after_a_crash_is_accepted() {
    check("", "up works writes resume ends:lost", expect![[""]]);
}

// shows: RUN-11
#[test]
fn a_crash_during_a_review_goes_on_with_it() {
    check(
        "git check",
        "survey verify:fail up works writes turn ends:done survey resume verify:fail",
        expect![[""]],
    );
}

// shows: RUN-11
#[test]
fn a_crash_before_session_1_goes_on_with_the_first_look() {
    check("git check", "resume survey resume verify:fail", expect![[""]]);
}

// shows: RUN-11
#[test]
fn a_stop_that_a_crash_cut_off_is_forgotten() {
    check("check", "verify:fail up works writes turn ends:done ctrl-c resume verify:fail", expect![[""]]);
}

// shows: REL-23, RUN-11
#[test]
fn sessions_count_from_a_resume_after_an_end() {
    check(
        "max=2",
        "up works writes turn ends:done ctrl-c ends:killed resume up works writes turn ends:done up works writes turn ends:done",
        expect![[""]],
    );
}

// shows: REL-23, RUN-11
#[test]
fn sessions_go_on_counting_through_a_crash() {
    check(
        "max=2",
        "up works writes turn ends:done resume ends:lost up works writes turn ends:done",
        expect![[""]],
    );
}

// shows: REL-23
#[test]
fn a_crash_with_a_new_number_counts_from_there() {
    check(
        "max=2",
        "up works writes turn ends:done resume:2 ends:lost up works writes turn ends:done up works writes turn ends:done",
        expect![[""]],
    );
}

// shows: REL-15, RUN-11
#[test]
fn a_resume_after_crashes_counts_them_anew() {
    check(
        "",
        "up ends:crash wake up ends:crash wake up ends:crash up ends:crash wake up ends:crash wake up ends:crash up ends:crash wake up ends:crash wake up ends:crash resume up ends:crash",
        expect![[""]],
    );
}

// shows: RUN-11
#[test]
fn a_resume_that_ends_the_run_says_so() {
    check("", "up works writes:claim sigterm ends:killed resume", expect![[""]]);
}

// shows: RUN-11
#[test]
fn a_resume_after_a_resume_changes_nothing() {
    check("max=1", "up works writes turn ends:done resume resume up", expect![[""]]);
}

#[test]
fn other_logic_changes_nothing() {
    check("", "up newer L2", expect![[""]]);
}

// shows: RUN-11
#[test]
fn the_session_is_told_wherever_the_run_stands() {
    let session = |events| after("git", events).relay().session().get();
    assert_eq!(session("ctrl-c survey"), 1);
    assert_eq!(session("survey up works sigterm ends:killed"), 1);
    let second = "survey up works writes turn ends:done survey up";
    assert_eq!(session(second), 2);
    assert_eq!(session(&format!("{second} works sigterm ends:killed")), 2);
    assert_eq!(session(&format!("{second} writes sigterm ends:killed")), 2);
    assert_eq!(session(&format!("{second} writes ctrl-c ends:done survey")), 2);
}
