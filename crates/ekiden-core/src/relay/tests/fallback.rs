//! On with another agent.

use expect_test::expect;

use super::{after, check};
use crate::outcome::Outcome;
use crate::relay::Prompt;

/// Who works after these events.
fn at_work(given: &str, events: &str) -> String {
    after(given, events).relay().settings.agent.name.clone()
}

#[test]
fn a_limit_ends_the_session_and_the_next_agent_goes_on_at_once() {
    check(
        "fallback=codex",
        "up works ends:limit=18000+",
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=18000+: publish, start 2.1, archive 1.1
            at work: 2.1
    "#]],
    );
    let track = after("fallback=codex", "up works ends:limit=18000+");
    assert_eq!(track.relay().settings.agent.name, "codex");
    let is_fresh = matches!(track.relay().prompt(), Some(Prompt::Fresh(_)));
    assert!(is_fresh, "never the same conversation");
    assert!(track.prompt().contains("last words of 1.1"), "a rescue");
}

#[test]
fn an_agent_that_did_nothing_leaves_its_session_to_the_next() {
    for end in ["limit=600", "outage", "overload", "login"] {
        let track = after("fallback=codex", &format!("up ends:{end}"));
        assert_eq!(track.relay().settings.agent.name, "codex", "{end}");
        assert_eq!(track.relay().totals.sessions, 0, "{end}");
    }
    assert_eq!(at_work("fallback=codex", "up ends:crash wake"), "claude");
}

#[test]
fn the_first_is_taken_again_when_its_reset_has_come() {
    let met = "up works ends:limit=600";
    assert_eq!(at_work("fallback=codex", &format!("{met} well")), "codex");
    let later = format!("{met} up +700s works writes turn ends:done");
    assert_eq!(at_work("fallback=codex", &later), "claude");
    assert_eq!(at_work("fallback=codex stays", &later), "codex");
}

#[test]
fn all_at_their_limits_wait_for_the_earliest_reset() {
    let events = "up works ends:limit=600 up works ends:limit=9000";
    check(
        "fallback=codex",
        &format!("{events} wake"),
        expect![[r#"
        publish, start 1.1
        up: -
        ends:limit=600: publish, start 2.1, archive 1.1
            at work: 2.1
        up: -
        ends:limit=9000: publish durably, archive 2.1
            waiting 11m (usagelimit) for 3.1
        wake: publish, start 3.1
            at work: 3.1
    "#]],
    );
    assert_eq!(
        at_work("fallback=codex", &format!("{events} wake")),
        "claude"
    );
    let events = "up works ends:limit=9000 up works ends:limit=600+ wake";
    assert_eq!(at_work("fallback=codex", events), "codex");
    let track = after(
        "fallback=codex wait=300",
        "up works ends:limit=600 up works ends:limit=9000",
    );
    let outcome = track.relay().outcome();
    assert!(
        matches!(outcome, Some(Outcome::LimitTooFar { .. })),
        "{outcome:?}"
    );
}

#[test]
fn logins_that_are_all_refused_end_the_run_and_are_tried_again_when_a_person_resumes_it() {
    let events = "up ends:login up ends:login";
    let track = after("fallback=codex", events);
    let outcome = track.relay().outcome();
    assert!(
        matches!(outcome, Some(Outcome::AgentFailed { .. })),
        "{outcome:?}"
    );
    assert_eq!(
        at_work("fallback=codex", &format!("{events} resume")),
        "claude"
    );
}
