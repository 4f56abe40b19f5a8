//! A log of version 1, kept as it was written: whoever reads logs must still read this one.
//!
//! `fixtures/log-v1.jsonl` holds the events and effects of a relay, but not those of plans, commits and steering. Until
//! the first release a change of the format converts it; after that it stays, and a new version adds a log beside it.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::Value;

use super::notation;
use super::track::{fold, records_of};
use crate::effect::Effect;
use crate::record::Outstanding;

const LOG_V1: &str = include_str!("../../../fixtures/log-v1.jsonl");

/// The innermost kind of an event or effect.
fn kinds(value: &Value) -> String {
    let kind = value["kind"].as_str().unwrap();
    let inner = match kind {
        "task" => &value["outcome"],
        "stage" | "attempt" if value.get("event").is_some() => &value["event"],
        "stage" | "attempt" => &value["effect"],
        _ => return kind.to_owned(),
    };
    kinds(inner)
}

fn kinds_of(effects: &[Effect]) -> Vec<String> {
    effects
        .iter()
        .map(|effect| kinds(&serde_json::to_value(effect).unwrap()))
        .collect()
}

// shows: DUR-05
#[test]
fn a_log_of_version_1_still_folds_to_its_end() {
    let records = records_of(LOG_V1);
    let (run, _) = fold(&records);
    let (_, relay) = run.relays().next().unwrap();
    let facts: Vec<&str> = relay
        .knowledge
        .core
        .iter()
        .map(|fact| fact.text.as_str())
        .collect();
    let end = notation::phase(relay, records.last().unwrap().time);
    expect![[r#"
        ended: verified complete; next: 7.1
        Totals {
            sessions: 6,
            spend: Spend {
                micro_usd: 5000000,
                tokens: 0,
                estimated: false,
            },
            running: Millis(
                600000,
            ),
            waiting: Millis(
                652000,
            ),
            tool_calls: 8,
            subscription: false,
        }
        [
            "mine",
            "The CI image has no network; fixtures must not download anything.",
            "run the tests with `TZ=UTC`, else the billing tests fail after 22:00.",
            "the fact of session 6",
        ]
    "#]]
    .assert_eq(&format!("{end}\n{:#?}\n{facts:#?}\n", relay.totals));
}

// shows: DUR-05
#[test]
fn a_log_of_version_1_is_decided_as_it_was() {
    // Wordings may change, so texts and the prompt's hash are left out.
    let records = records_of(LOG_V1);
    let (_, effects) = fold(&records);
    for (record, effects) in records.iter().zip(effects) {
        assert_eq!(
            kinds_of(&effects),
            kinds_of(&record.effects),
            "record {}",
            record.seq
        );
    }
}

// shows: DUR-05
#[test]
fn a_log_of_version_1_has_nothing_outstanding_at_its_end() {
    let mut outstanding = Outstanding::default();
    records_of(LOG_V1)
        .iter()
        .for_each(|record| outstanding.fold(record));
    assert_eq!(outstanding, Outstanding::default());
}

#[test]
fn the_kept_log_has_all_kinds_of_version_1() {
    let lines: Vec<Value> = LOG_V1
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events: BTreeSet<String> = lines.iter().map(|line| kinds(&line["event"])).collect();
    let effects: BTreeSet<String> = lines
        .iter()
        .flat_map(|line| line["effects"].as_array().unwrap())
        .map(kinds)
        .collect();
    let lines = |kinds: BTreeSet<String>| {
        kinds
            .into_iter()
            .map(|kind| kind + "\n")
            .collect::<String>()
    };
    expect![[r#"
        archived
        ended
        knowledge_edited
        level_crossed
        logic_changed
        message_delivered
        published
        refusals_spent
        run_resumed
        run_started
        started
        stop_asked
        stop_requested
        surveyed
        turn_ended
        verified
        window_changed
        woke
    "#]]
    .assert_eq(&lines(events));
    expect![[r#"
        answer_stop
        archive
        cancel_tasks
        close
        end_run
        interrupt
        publish
        publish_durably
        say
        start_attempt
        survey
        terminate
        verify
    "#]]
    .assert_eq(&lines(effects));
}
