//! On with another agent.

use expect_test::expect;

use super::{after, check};
use crate::outcome::Outcome;
use crate::relay::{Phase, Prompt};

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

/// It was resumed only to hand off, so there is no room to do its work again.
// shows: REL-37
#[test]
fn a_late_session_is_reported_and_not_begun_again_by_another_agent() {
    let track = after(
        "fallback=codex",
        "up ends:limit=9000 up works L2 ends:limit=600+ +9100s tick up ends:limit=600+",
    );
    assert_eq!(track.relay().settings.agent.name, "claude");
    assert_eq!(track.relay().session().get(), 2, "{}", track.told());
    assert!(track.prompt().contains("last words of 1.3"), "a rescue");
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
    let killed = "up ends:login up works resume ends:lost";
    assert_eq!(at_work("fallback=codex", killed), "claude");
    let limited = "up ends:limit=18000 up works resume ends:lost";
    assert_eq!(at_work("fallback=codex", limited), "codex");
    let complete = "up ends:login up works writes:claim turn ends:done continue";
    assert_eq!(at_work("fallback=codex", complete), "claude");
}

// shows: REL-39
#[test]
fn an_agent_hands_off_at_90_percent_of_its_own_budget_and_the_next_one_goes_on() {
    check(
        "fallback=codex of-claude=10",
        "up works spends:9 heard writes turn ends:done",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:9: say hand off (budget)
            heard: -
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
        "#]],
    );
    let events = "up works spends:9 heard writes turn ends:done";
    assert_eq!(at_work("fallback=codex of-claude=10", events), "codex");
    assert_eq!(at_work("fallback=codex of-claude=11", "well"), "claude");
    // It has none, so it spends no budget of the other's.
    let more = format!("{events} up works spends:50 writes turn ends:done");
    assert_eq!(at_work("fallback=codex of-claude=10", &more), "codex");
}

// shows: REL-39
#[test]
fn an_agent_that_goes_on_beyond_its_budget_is_ended_and_another_works_from_a_rescue() {
    let events = "up works spends:9 heard spends:2 turn ends:killed";
    let track = after("fallback=codex of-claude=10", events);
    assert_eq!(track.relay().settings.agent.name, "codex");
    assert!(matches!(track.relay().prompt(), Some(Prompt::Fresh(_))));
    assert!(track.prompt().contains("last words of 1.1"), "a rescue");
}

// shows: REL-39
#[test]
fn a_spent_budget_is_an_outage_without_an_end() {
    let spent = "up works spends:9 heard writes turn ends:done";
    // A reset does not bring it back, so ekiden waits only for the agent that is at a limit.
    check(
        "fallback=codex of-claude=10",
        &format!("{spent} up works ends:limit=600 wake"),
        expect![[r#"
            publish, start 1.1
            up: -
            spends:9: say hand off (budget)
            heard: -
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            ends:limit=600: publish durably, archive 2.1
                waiting 11m (usagelimit) for 3.1
            wake: publish, start 3.1
                at work: 3.1
        "#]],
    );
    let later = format!("{spent} +90000s well well well");
    assert_eq!(at_work("fallback=codex of-claude=10", &later), "codex");
}

// shows: REL-39, REL-25
#[test]
fn more_budget_of_an_agent_ends_the_wait_for_another_ones_limit() {
    let given = "fallback=codex of-codex=10";
    let waits = "up works ends:limit=18000 up works spends:9 heard writes turn ends:done";
    check(
        given,
        &format!("{waits} +600s limit:of-codex=11 limit:of-codex=20"),
        expect![[r#"
            publish, start 1.1
            up: -
            ends:limit=18000: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            spends:9: say hand off (budget)
            heard: -
            turn: close
            ends:done: publish durably, archive 2.1
                waiting 5h 00m (usagelimit) for 3.1
            limit:of-codex=11: -
            limit:of-codex=20: publish, start 3.1
                at work: 3.1
        "#]],
    );
    let resumed = format!("{waits} resume:of-codex=20");
    assert_eq!(at_work(given, &resumed), "codex");
    // The conversation is the other agent's, which is still at its limit.
    let goes_on = "up ends:limit=18000 up works ends:limit=600+ limit:of-codex=20";
    let track = after(given, goes_on);
    assert!(matches!(track.relay().phase, Phase::Waiting { .. }));
}

// shows: REL-39, REL-22
#[test]
fn the_run_ends_when_the_budgets_of_all_its_agents_are_spent() {
    let spent = "up works spends:9 heard writes turn ends:done";
    let all = format!("{spent} {spent}");
    let track = after("fallback=codex of-claude=10 of-codex=10", &all);
    let Some(Outcome::BudgetSpent { agents, budget, .. }) = track.relay().outcome() else {
        panic!("{:?}", track.relay().outcome());
    };
    assert!(budget.is_unlimited());
    let spent: Vec<_> = agents
        .iter()
        .map(|one| (&*one.agent, one.spent.micro_usd, one.is_spent))
        .collect();
    assert_eq!(
        spent,
        [("claude", 9_000_000, true), ("codex", 9_000_000, true)]
    );
    // What they spent still counts; more for one of them is enough.
    let given = "fallback=codex of-claude=10 of-codex=10";
    let track = after(given, &format!("{all} resume"));
    assert!(matches!(
        track.relay().outcome(),
        Some(Outcome::BudgetSpent { .. })
    ));
    assert_eq!(
        at_work(given, &format!("{all} resume:of-codex=20")),
        "codex"
    );
    let more = format!("{all} resume:of-codex=20 up");
    let share = after(given, &more).relay().share().unwrap();
    assert_eq!(share.budget.micro_usd, Some(11_000_000));
    assert_eq!(
        at_work(given, &format!("{all} resume:of-claude=20")),
        "claude"
    );
}

/// The header's agents may do everything; then a person resumes the run with less.
// shows: REL-39
#[test]
fn an_agent_that_goes_on_has_the_permissions_of_now() {
    let given = "skip fallback=script,codex";
    let limited = "up works ends:limit=18000";
    assert_eq!(at_work(given, limited), "script");
    let events = format!("up works sigterm ends:killed resume:safe {limited}");
    let track = after(given, &events);
    let agent = &track.relay().settings.agent;
    assert_eq!(agent.name, "codex", "a script asks nobody");
    assert!(!agent.permissions.skip);
}

/// A small budget of one agent is not measured by what another one costs a session.
// shows: REL-39
#[test]
fn budgets_of_agents_and_of_the_run_hold_beside_each_other() {
    let spent = "up works spends:18 heard writes turn ends:done";
    let given = "fallback=codex of-claude=20 of-codex=2";
    assert_eq!(at_work(given, spent), "codex");
    let given = "fallback=codex of-claude=20 of-codex=9 budget=21";
    let share = after(given, spent).relay().share();
    // The run has three dollars left, a sixth of what a session cost, so the run ends for lack of budget.
    assert_eq!(share, None);
    let given = "fallback=codex of-claude=20 of-codex=9 budget=24";
    let share = after(given, spent).relay().share().unwrap();
    assert_eq!(share.budget.micro_usd, Some(6_000_000));
}

/// A crash cut a conversation off, and its agent's budget was lowered before the next attempt.
// shows: REL-39
#[test]
fn a_conversation_whose_agent_has_nothing_left_is_not_resumed() {
    let crashed = "up works spends:5 ends:crash+";
    let resumed = after("fallback=codex of-claude=10", &format!("{crashed} wake"));
    assert!(matches!(resumed.relay().prompt(), Some(Prompt::Resume(_))));
    let events = format!("{crashed} limit:of-claude=5 wake");
    let track = after("of-claude=10", &events);
    let outcome = track.relay().outcome();
    assert!(matches!(outcome, Some(Outcome::BudgetSpent { .. })));
    let track = after("fallback=codex of-claude=10", &events);
    assert_eq!(track.relay().settings.agent.name, "codex");
    assert!(matches!(track.relay().prompt(), Some(Prompt::Fresh(_))));
}

// shows: REL-39, REL-38
#[test]
fn a_reviewer_spends_its_agents_budget_too() {
    let claim =
        "survey verify:fail works up writes:claim turn ends:done tree:t2 survey verify:pass";
    let given = "check max=9 reviewed of-claude=10";
    let share = |events: &str| {
        let share = after(given, events).relay().share();
        share.unwrap().budget.micro_usd
    };
    assert_eq!(
        share(&format!("{claim} survey up spends:4")),
        Some(9_500_000)
    );
    let faulty = format!("{claim} survey up spends:4 answers:fault turn ends:done survey");
    assert_eq!(share(&faulty), Some(5_500_000));
}

// shows: REL-11
#[test]
fn nobody_gives_way_to_an_agent_that_is_out_too() {
    let events = "up works ends:overload+ survey up +60s works ends:overload+";
    check(
        "fallback=codex judged",
        &format!("survey {events} wake"),
        expect![[r#"
            publish, survey
            survey: publish, start 1.1
                at work: 1.1
            up: -
            ends:overload+: publish, survey, archive 1.1
                after 1.1: survey
            survey: publish, start 2.1
                at work: 2.1
            up: -
            ends:overload+: publish durably, archive 2.1
                waiting 5m (failure) for 2.2 in the same conversation
            wake: publish, start 2.2 in the same conversation
                at work: 2.2
        "#]],
    );
    // Its limit is lifted at a known time, and only a person can log in, or install what is missing.
    for end in ["up ends:login", "ends:never"] {
        let events = format!("up ends:limit=600 {end} wake");
        assert_eq!(at_work("fallback=codex", &events), "claude");
    }
    assert_eq!(at_work("fallback=codex", "ends:never"), "codex");
}

// shows: REL-11
#[test]
fn an_outage_of_all_is_asked_after_ever_more_seldom_and_ends_the_run() {
    let mut track = after("fallback=codex wait=300", "");
    let mut waits = Vec::new();
    for _ in 0..50 {
        track.words("up +3s ends:outage");
        match &track.relay().phase {
            Phase::Waiting { .. } => {
                waits.push(track.waits_for());
                track.words("wake");
            }
            Phase::Ended { outcome, .. } => {
                assert!(
                    matches!(outcome, Outcome::AgentFailed { .. }),
                    "{outcome:?}"
                );
                assert!(waits.len() > 2 && waits.is_sorted(), "{waits:?}");
                return;
            }
            Phase::Planned | Phase::Running(_) | Phase::Reviewing { .. } | Phase::Paused { .. } => {
            }
        }
    }
    panic!("it is asked for ever: {waits:?}");
}
