//! A log of version 1, kept as it was written: every reader of logs must still be able to read it.
//!
//! `fixtures/log-v1.jsonl` is from the first days. The others are logs of real runs with `rehearsal`, in which paths
//! and process ids were replaced: what plans, commits, spending, steering, reviews and loops write. Until the first
//! release a change of the format converts them; after that they stay, and a new version adds logs beside them.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::{Value, json};

use super::notation;
use super::track::{fold, records_of};
use crate::effect::Effect;
use crate::record::{Outstanding, Record};

const LOG_V1: &str = include_str!("../../../fixtures/log-v1.jsonl");

/// All kept logs, with what happens in them.
const KEPT: [(&str, &str); 5] = [
    ("the first days", LOG_V1),
    // A stage is tried again, two conflict, one asks and is answered; limits, a pause, a stop and a resume.
    ("plan", include_str!("../../../fixtures/log-v1-plan.jsonl")),
    // `--from`; a merge breaks, one is cut off, one fails; the work is not delivered.
    (
        "plan from a stage on",
        include_str!("../../../fixtures/log-v1-plan-from.jsonl"),
    ),
    // Commits, a fallback, budgets, reviews with findings, an answer, more work.
    (
        "relay",
        include_str!("../../../fixtures/log-v1-relay.jsonl"),
    ),
    ("loop", include_str!("../../../fixtures/log-v1-loop.jsonl")),
];

/// The kind of an event or effect, without the stage and the attempt that it is about.
fn kinds(value: &Value) -> String {
    let Some(kind) = value["kind"].as_str() else {
        return value.as_str().unwrap().to_owned();
    };
    let inner = match kind {
        "task" => &value["outcome"],
        "stage" | "attempt" if value.get("event").is_some() => &value["event"],
        "stage" | "attempt" => &value["effect"],
        _ => return kind.to_owned() + &more_of(kind, value),
    };
    kinds(inner)
}

/// What an event or effect of this kind is about, where there are several.
fn more_of(kind: &str, value: &Value) -> String {
    let inner = match kind {
        "steered" => &value["steering"],
        "delivered" => &value["delivery"],
        "merged" => &value["merge"],
        "committed" => &value["commit"],
        "spend_crossed" => &value["crossing"]["mark"],
        "worktree" if value.get("event").is_some() => &value["event"],
        "worktree" => &value["effect"],
        _ => return String::new(),
    };
    format!(" {}", kinds(inner))
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
    for (name, log) in KEPT {
        let records = records_of(log);
        let (_, effects) = fold(&records);
        for (record, effects) in records.iter().zip(effects) {
            let kept = kinds_of(&record.effects);
            assert_eq!(kinds_of(&effects), kept, "{name}, record {}", record.seq);
        }
    }
}

// shows: DUR-05
#[test]
fn a_log_of_version_1_has_nothing_outstanding_at_its_end() {
    for (name, log) in KEPT {
        let mut outstanding = Outstanding::default();
        let records = records_of(log);
        records.iter().for_each(|record| outstanding.fold(record));
        assert_eq!(outstanding, Outstanding::default(), "{name}");
    }
}

/// What a kept line says and its reader drops, such as fields that have another name now.
fn dropped(place: &str, kept: &Value, read: &Value) -> Vec<String> {
    match (kept, read) {
        (Value::Object(kept), Value::Object(read)) => {
            let of_key = |(key, kept): (&String, &Value)| {
                let read = read.get(key).unwrap_or(&Value::Null);
                dropped(&format!("{place}.{key}"), kept, read)
            };
            kept.iter().flat_map(of_key).collect()
        }
        (Value::Array(kept), Value::Array(read)) if kept.len() == read.len() => {
            let pairs = kept.iter().zip(read);
            let of_pair = |(kept, read)| dropped(place, kept, read);
            pairs.flat_map(of_pair).collect()
        }
        _ if kept == read || (is_nothing(kept) && is_nothing(read)) => Vec::new(),
        _ => vec![format!("{place}: {kept} is read as {read}")],
    }
}

fn is_nothing(value: &Value) -> bool {
    *value == Value::Null || *value == json!([]) || *value == json!({}) || *value == json!("")
}

/// An optional field that was renamed still parses, as nothing.
// shows: DUR-05
#[test]
fn nothing_that_a_kept_log_says_is_dropped() {
    let mut all = Vec::new();
    for (name, log) in KEPT {
        for line in log.lines() {
            let kept: Value = serde_json::from_str(line).unwrap();
            let record: Record = serde_json::from_str(line).unwrap();
            let read = serde_json::to_value(&record).unwrap();
            all.extend(dropped(&format!("{name} {}", record.seq), &kept, &read));
        }
    }
    assert_eq!(all, Vec::<String>::new());
}

#[test]
fn the_kept_logs_have_these_kinds_of_version_1() {
    let lines: Vec<Value> = KEPT
        .iter()
        .flat_map(|(_, log)| log.lines())
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
        answered
        archived
        committed made
        committed nothing
        continued
        delivered given
        delivered kept
        ended
        knowledge_edited
        level_crossed
        logic_changed
        message_delivered
        published
        refusals_spent
        run_resumed
        run_started
        spend_crossed nearly
        spend_crossed spent
        started
        steered answer
        steered change_limits
        steered hand_off
        steered pause
        steered stop
        steered unpause
        stop_asked
        stop_requested
        surveyed
        turn_ended
        verified
        window_changed
        woke
        worktree confirmed
        worktree merged broken
        worktree merged cancelled
        worktree merged conflict
        worktree merged done
        worktree merged failed
        worktree prepared
    "#]]
    .assert_eq(&lines(events));
    expect![[r#"
        answer_stop
        archive
        cancel_tasks
        close
        commit
        deliver
        end_run
        interrupt
        notify
        publish
        publish_durably
        say
        start_attempt
        survey
        terminate
        verify
        warn
        worktree confirm
        worktree merge
        worktree prepare
    "#]]
    .assert_eq(&lines(effects));
}
