//! Money, tokens and turns: the share of a session, its marks, the end of a budget.

use expect_test::expect;
use proptest::prelude::*;
use proptest::sample::select;

use super::track::Track;
use super::{after, check};
use crate::effect::{AttemptEffect, Effect, RelayEffect};
use crate::event::{AttemptEvent, Event, RelayEvent};
use crate::outcome::Outcome;
use crate::relay::Phase;

// shows: REL-22
#[test]
fn at_90_percent_the_handoff_is_ordered_and_the_run_ends_resumably() {
    check(
        "budget=10",
        "up works spends:8 spends:1 heard writes turn ends:done",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:1: say hand off (budget)
            heard: -
            turn: close
            ends:done: publish durably, archive 1.1, end
                ended: budget spent; next: 2.1
        "#]],
    );
}

// shows: REL-22
#[test]
fn when_all_is_spent_the_turn_ends_and_nothing_is_asked_any_more() {
    check(
        "budget=10 max=5",
        "up works spends:9 heard spends:2 turn ends:killed",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:9: say hand off (budget)
            heard: -
            spends:2: interrupt
            turn: close
            ends:killed: publish durably, archive 1.1, end
                ended: budget spent; next: 2.1
        "#]],
    );
}

// shows: REL-22
#[test]
fn an_order_that_nobody_has_read_opens_no_turn_after_the_end() {
    check(
        "budget=10",
        "up works L2 spends:10 turn ends:killed",
        expect![[r#"
            publish, start 1.1
            up: -
            L2: say hand off (context)
            spends:10: interrupt
            turn: terminate
            ends:killed: publish durably, archive 1.1, end
                ended: budget spent; next: 2.1
        "#]],
    );
}

// shows: REL-22
#[test]
fn who_spends_on_after_the_end_is_ended_at_once() {
    check(
        "budget=10",
        "up works spends:10 spends:1 ends:killed",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:10: interrupt
            spends:1: terminate
            ends:killed: publish durably, archive 1.1, end
                ended: budget spent; next: 2.1
        "#]],
    );
}

// shows: REL-22
#[test]
fn who_does_not_end_its_turn_is_ended_after_a_grace() {
    check(
        "budget=10",
        "up works spends:10 asks wake ends:killed",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:10: interrupt
            asks: let end
            wake: terminate
            ends:killed: publish durably, archive 1.1, end
                ended: budget spent; next: 2.1
        "#]],
    );
}

// shows: REL-22
#[test]
fn a_sessions_budget_ends_the_session_and_not_the_run() {
    check(
        "each=3 budget=100",
        "up works spends:3 turn ends:killed up spends:2 spends:1",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:3: interrupt
            turn: close
            ends:killed: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            spends:1: interrupt
        "#]],
    );
}

// shows: REL-22
#[test]
fn the_last_session_gets_what_is_left_of_the_run() {
    check(
        "each=6 budget=10",
        "up works spends:6 writes turn ends:done up spends:3 spends:1",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:6: interrupt
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            spends:1: interrupt
        "#]],
    );
}

// shows: REL-22
#[test]
fn attempts_at_a_session_share_its_budget() {
    check(
        "each=10",
        "up works spends:6 ends:crash wake up spends:3 spends:1 turn ends:crash",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:crash: publish durably, archive 1.1
                waiting 2s (failure) for 1.2
            wake: publish, start 1.2
                at work: 1.2
            up: -
            spends:1: interrupt
            turn: close
            ends:crash: publish, start 2.1, archive 1.2
                at work: 2.1
        "#]],
    );
}

// shows: REL-22
#[test]
fn a_restart_keeps_the_sum() {
    check(
        "budget=10",
        "up works spends:6 ends:lost up spends:3 ends:lost resume up spends:1 ends:lost",
        expect![[r#"
            publish, start 1.1
            up: -
            ends:lost: publish, start 1.2, archive 1.1
                at work: 1.2
            up: -
            ends:lost: publish, start 1.3, archive 1.2
                at work: 1.3
            resume: -
            up: -
            spends:1: interrupt
            ends:lost: publish durably, archive 1.3, end
                ended: budget spent; next: 2.1
        "#]],
    );
}

// shows: REL-22
#[test]
fn a_resumption_goes_on_with_a_larger_budget_alone() {
    check(
        "budget=10",
        "up works spends:9 heard writes turn ends:done resume resume:budget=20 up spends:9 spends:1",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:9: say hand off (budget)
            heard: -
            turn: close
            ends:done: publish durably, archive 1.1, end
                ended: budget spent; next: 2.1
            resume: publish durably, end
            resume:budget=20: publish, start 2.1
                at work: 2.1
            up: -
            spends:1: say hand off (budget)
        "#]],
    );
}

// shows: REL-22
#[test]
fn a_session_that_could_hardly_begin_is_not_started() {
    let track = after(
        "budget=100",
        "up works spends:95 heard writes turn ends:done",
    );
    let Some(Outcome::BudgetSpent { spent, budget, .. }) = track.relay().outcome() else {
        panic!("{}", track.told());
    };
    assert_eq!(
        (spent.micro_usd, budget.micro_usd),
        (95_000_000, Some(100_000_000))
    );
    let track = after(
        "each=10 budget=100",
        "up works spends:9 heard writes turn ends:done",
    );
    assert_eq!(
        track.relay().outcome(),
        None,
        "nine tenths of a budget are left"
    );
}

// shows: REL-22
#[test]
fn a_budget_can_be_of_tokens() {
    check(
        "tokens=1000 each-tokens=500",
        "up works spends:0,450 heard writes turn ends:done up spends:0,500 turn ends:killed",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:0,450: say hand off (budget)
            heard: -
            turn: close
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            spends:0,500: interrupt
            turn: close
            ends:killed: publish durably, archive 2.1, end
                ended: budget spent; next: 3.1
        "#]],
    );
}

// shows: REL-02
#[test]
fn turns_order_the_handoff_and_then_end_the_session() {
    let spends = "spends:0 ".repeat(12);
    check(
        "turns=2",
        &format!("up works spends:0 spends:0 heard {spends} turn ends:killed"),
        expect![[r#"
            publish, start 1.1
            up: -
            spends:0: say hand off (time)
            heard: -
            spends:0: interrupt
            turn: close
            ends:killed: publish, start 2.1, archive 1.1
                at work: 2.1
        "#]],
    );
}

/// What an agent does with its budget, whatever it is told.
const HABITS: &[&str] = &[
    "works",
    "writes",
    "heard",
    "asks",
    "turn",
    "turn:failed",
    "L2",
    "wake",
    "ctrl-c",
    "ends:crash",
    "ends:lost",
    "ends:limit",
    "ends:done",
    "ends:killed+",
    "resume",
    "refused",
    "full:L2",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    // shows: REL-22
    #[test]
    fn no_course_of_events_overspends_by_more_than_one_turn(
        each in prop_oneof![Just(None), (1u64..20).prop_map(Some)],
        budget in 1u64..60,
        deeds in prop::collection::vec((0u64..=4, select(HABITS)), 0..150),
    ) {
        let each = each.map(|each| format!("each={each}")).unwrap_or_default();
        let mut track = Track::begin(&format!("{each} budget={budget} max=10000"));
        for (cost, deed) in deeds {
            match &track.relay().phase {
                Phase::Running(_) => {
                    let begun = track.relay().has_started();
                    let ended = told_to_end(&track);
                    match (begun, ended) {
                        (false, _) => track.words("up"),
                        // The simulated world obeys: an agent that was ended makes no other turn.
                        (true, true) => {
                            track.words("turn");
                            // A message that waits opens a turn, unless the process is ended first.
                            if track.effects().iter().any(is_close) && has_message(&track) {
                                track.words(&format!("spends:{cost}"));
                            }
                            track.words("ends:killed")
                        }
                        (true, false) => track.words(&format!("spends:{cost}")),
                    };
                    if begun && !ended && !told_to_end(&track) {
                        track.words(deed);
                    }
                }
                Phase::Waiting { .. } => {
                    track.words("wake");
                }
                Phase::Ended { outcome, .. } => {
                    let over = matches!(outcome, Outcome::BudgetSpent { .. });
                    if over {
                        break;
                    }
                    track.words("resume");
                }
                Phase::Planned | Phase::Reviewing { .. } | Phase::Paused { .. } => {
                    unreachable!("no checks, no pause")
                },
            }
            let spent = track.relay().totals.spend.micro_usd;
            prop_assert!(spent <= (budget + 4) * 1_000_000, "{spent} of {budget}:\n{}", track.told());
        }
        track.assert_folds();
    }
}

fn is_close(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Stage {
            effect: RelayEffect::Attempt {
                effect: AttemptEffect::Close,
                ..
            },
            ..
        }
    )
}

/// The attempt at work was told something that it has not read.
fn has_message(track: &Track) -> bool {
    track.records.iter().fold(false, |waits, record| {
        let heard = matches!(
            record.event,
            Event::Stage {
                event: RelayEvent::Attempt {
                    event: AttemptEvent::MessageDelivered,
                    ..
                },
                ..
            }
        );
        let says = |effect: &Effect| {
            matches!(
                effect,
                Effect::Stage {
                    effect: RelayEffect::Attempt {
                        effect: AttemptEffect::Say { .. },
                        ..
                    },
                    ..
                }
            )
        };
        let starts = |effect: &Effect| {
            matches!(
                effect,
                Effect::Stage {
                    effect: RelayEffect::StartAttempt(_),
                    ..
                }
            )
        };
        let any = |kind: fn(&Effect) -> bool| record.effects.iter().any(kind);
        (waits && !heard && !any(starts)) || any(says)
    })
}

/// Since its start the attempt at work was told to end its turn or its process.
fn told_to_end(track: &Track) -> bool {
    let mut ended = false;
    for effect in track.records.iter().flat_map(|record| &record.effects) {
        let Effect::Stage { effect, .. } = effect else {
            continue;
        };
        let ends = matches!(
            effect,
            RelayEffect::Attempt {
                effect: AttemptEffect::Interrupt | AttemptEffect::Terminate,
                ..
            }
        );
        ended = (ended || ends) && !matches!(effect, RelayEffect::StartAttempt(_));
    }
    ended
}

// shows: REL-22
#[test]
fn the_agents_own_figure_replaces_the_estimate() {
    let spent = |words: &str| after("budget=10", words).relay().totals.spend;
    let told = spent("up works guesses:9 costs:2 writes turn ends:done");
    assert_eq!((told.micro_usd, told.estimated), (2_000_000, false));
    // If an engine was killed, the end of the stream may be missing.
    let told = spent("up works guesses:9 costs:2 ends:lost");
    assert_eq!((told.micro_usd, told.estimated), (9_000_000, true));
}

// shows: REL-22
#[test]
fn what_a_handoff_cost_is_kept_for_the_next_one() {
    check(
        "each=10 max=2",
        "up works spends:1 L2 spends:3 writes turn ends:done up works spends:6 spends:1",
        expect![[r#"
            publish, start 1.1
            up: -
            L2: say hand off (context)
            turn: -
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            spends:1: say hand off (budget)
        "#]],
    );
}

// shows: REL-22
#[test]
fn what_a_handoff_cost_in_the_run_before_is_kept_until_one_is_known() {
    check(
        "each=10 max=2 handoff=4",
        "up works spends:6 spends:1 writes turn ends:done up works spends:8 spends:1",
        expect![[r#"
            publish, start 1.1
            up: -
            spends:6: say hand off (budget)
            turn: -
            ends:done: publish, start 2.1, archive 1.1
                at work: 2.1
            up: -
            spends:1: say hand off (budget)
        "#]],
    );
}

// shows: REL-15
#[test]
fn a_killed_attempt_ran_as_long_as_it_was_heard_of() {
    let track = after("max=2", "up +600s L1 ends:lost");
    assert!(track.relay().totals.running.as_secs() >= 600);
}
