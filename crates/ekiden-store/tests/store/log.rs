use std::path::Path;
use std::sync::Arc;

use ekiden_core::text::in_full;
use ekiden_sim::{Fault, SimDisk, every_crash};
use ekiden_store::disk::{Disk, Reach};
use ekiden_store::error::{FileFault, StoreError};
use ekiden_store::log::*;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};

const LOG: &str = "/run/log.jsonl";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    seq: u64,
    event: String,
}

impl Numbered for Note {
    fn seq(&self) -> u64 {
        self.seq
    }
}

fn note(seq: u64, event: &str) -> Note {
    Note {
        seq,
        event: event.to_owned(),
    }
}

fn empty() -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new("/run"));
    disk
}

fn with_log(content: &str) -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_file(Path::new(LOG), content.as_bytes());
    disk
}

fn log_of(events: &[&str]) -> String {
    let mut text = ekiden_store::format::LOG.line();
    for (seq, event) in (1..).zip(events) {
        text += &serde_json::to_string(&note(seq, event)).unwrap();
        text.push('\n');
    }
    text
}

fn events(disk: &SimDisk) -> Result<Vec<String>, StoreError> {
    read_log::<Note>(disk, Path::new(LOG))?
        .map(|record| Ok(record?.event))
        .collect()
}

fn is_missing(error: &StoreError) -> bool {
    matches!(error, StoreError::Disk(error) if error.is_not_found())
}

/// Opens the log of a copy, adds a record, and tells how many there were and what the log holds then.
fn go_on(disk: &SimDisk) -> Result<(u64, Vec<String>), StoreError> {
    let disk = Arc::new(disk.clone());
    let mut log = LogWriter::<Note>::open(disk.clone(), Path::new(LOG), |_| ())?;
    let records = log.next_seq() - 1;
    log.append(&note(log.next_seq(), "more"))?;
    Ok((records, events(&disk)?))
}

fn error(content: &str) -> String {
    let read = events(&with_log(content)).unwrap_err();
    let opened = go_on(&with_log(content)).unwrap_err();
    let told = in_full(&read);
    assert_eq!(told, in_full(&opened), "readers and writers agree");
    format!("cannot {told}\nhint: {}", read.hint().unwrap_or("none"))
}

// shows: DUR-01
#[test]
fn records_are_durable_when_append_returns() {
    let explored = every_crash(
        &empty(),
        |disk| write_three(disk.clone()),
        |disk, acknowledged, at| {
            let found = match events(disk) {
                Ok(found) => found,
                Err(error) => {
                    assert!(
                        is_missing(&error) && acknowledged.is_none(),
                        "{error} at {at:?}"
                    );
                    return;
                }
            };
            let acknowledged = acknowledged.unwrap_or(0);
            assert!(found.len() >= acknowledged, "{found:?} at {at:?}");
            assert_eq!(found, ["one", "two", "three"][..found.len()], "{at:?}");
            let (records, then) = go_on(disk).expect("every crash leaves a log to go on with");
            assert_eq!(records as usize, found.len());
            assert_eq!(then.len(), found.len() + 1);
        },
    );
    assert!(
        explored.worlds > 40 && explored.sampled == 0,
        "{explored:?}"
    );
}

/// How many records were acknowledged; `None` if the log itself was not.
fn write_three(disk: Arc<SimDisk>) -> Option<usize> {
    let mut log = LogWriter::create(disk, Path::new(LOG), None, &note(1, "one")).ok()?;
    let written = ["two", "three"];
    Some(
        1 + written
            .iter()
            .take_while(|event| log.append(&note(log.next_seq(), event)).is_ok())
            .count(),
    )
}

// shows: DUR-02
#[test]
fn what_was_read_at_the_opening_is_durable_before_anybody_acts_on_it() {
    let disk = with_log(&log_of(&["one"]));
    let line = serde_json::to_string(&note(2, "two")).unwrap() + "\n";
    let len = log_of(&["one"]).len() as u64;
    disk.append(Path::new(LOG), len, line.as_bytes(), Reach::Cache)
        .unwrap();
    let next = Arc::new(disk.after_kill());
    let log = LogWriter::<Note>::open(next.clone(), Path::new(LOG), |_| ()).unwrap();
    assert_eq!(log.next_seq(), 3);
    for left in next.survivors() {
        assert_eq!(events(&left).unwrap(), ["one", "two"]);
    }
}

// shows: DUR-04
#[test]
fn a_tail_torn_at_any_byte_is_passed_over_and_cut_off() {
    let before = log_of(&["one", "two"]);
    let whole = log_of(&["one", "two", "three, \\ and \" and é"]);
    for len in before.len()..whole.len() {
        let disk = SimDisk::new();
        disk.plant_file(Path::new(LOG), &whole.as_bytes()[..len]);
        assert_eq!(events(&disk).unwrap(), ["one", "two"]);
        let (records, then) = go_on(&disk).unwrap();
        assert_eq!(records, 2);
        assert_eq!(then, ["one", "two", "more"]);
    }
}

/// Whoever follows a log reads each record once, wherever the write was at the last look.
// shows: UIX-11
#[test]
fn a_log_is_read_on_from_where_it_ended() {
    let header = log_of(&[]).len();
    let whole = log_of(&["one", "two", "é"]);
    for len in header..=whole.len() {
        let disk = SimDisk::new();
        disk.plant_file(Path::new(LOG), &whole.as_bytes()[..len]);
        let mut log = read_log::<Note>(&disk, Path::new(LOG)).unwrap();
        let mut seen: Vec<String> = log.by_ref().map(|note| note.unwrap().event).collect();
        for rest in ["", "{\"damage\"\n"] {
            let grown = with_log(&format!("{whole}{rest}{rest}"));
            log.go_on(&grown).unwrap();
            let read = log.by_ref().map_while(Result::ok);
            seen.extend(read.map(|note| note.event));
            assert_eq!(seen, ["one", "two", "é"], "{len}");
        }
        log.go_on(&with_log(&whole)).unwrap();
        assert!(log.next().is_none(), "after an error there is nothing more");
    }
}

// shows: DUR-04
#[test]
fn a_last_line_of_zeros_with_its_newline_is_torn_too() {
    let disk = with_log(&(log_of(&["one"]) + "\0\0\0\0\0ent\":\"two\"}\n"));
    let (records, then) = go_on(&disk).unwrap();
    assert_eq!(records, 1);
    assert_eq!(then, ["one", "more"]);
}

// shows: DUR-04
#[test]
fn damage_in_the_middle_is_an_error_with_its_place() {
    let damaged = log_of(&["one", "two", "three"]).replace("two\"", "tw\0\"");
    expect_test::expect![[r#"
        cannot read the log `/run/log.jsonl`: line 3 is not a record: control character (\u0000-\u001F) found while parsing a string
        hint: the log was damaged, edited, or written by another version of ekiden, and nothing was changed; use that version, restore the file, or start again with `--new`"#]]
    .assert_eq(&error(&damaged));
}

// shows: DUR-05
#[test]
fn a_last_record_of_another_version_is_never_cut_off() {
    let content = log_of(&["one"]) + "{\"seq\":2,\"happening\":true}\n";
    let told = error(&content);
    assert!(
        told.starts_with("cannot read the log `/run/log.jsonl`: line 3 is not a record"),
        "{told}"
    );
}

#[test]
fn a_gap_and_a_repetition_are_errors() {
    let all = log_of(&["one", "two", "three"]);
    let gap: Vec<_> = all.lines().filter(|line| !line.contains("two")).collect();
    expect_test::expect![[r#"
        cannot read the log `/run/log.jsonl`: line 3 is record 3 where 2 should be
        hint: the log was damaged, edited, or written by another version of ekiden, and nothing was changed; use that version, restore the file, or start again with `--new`"#]]
    .assert_eq(&error(&(gap.join("\n") + "\n")));
    let twice = log_of(&["one"]) + log_of(&["one"]).lines().nth(1).unwrap() + "\n";
    assert!(error(&twice).contains("line 3 is record 1 where 2 should be"));
}

// shows: DUR-05
#[test]
fn a_newer_log_is_read_where_it_allows_it_and_never_written() {
    let line = |header: &str| {
        log_of(&["one"]).replace(ekiden_store::format::LOG.line().trim_end(), header)
    };
    let compatible = with_log(&line(
        r#"{"format":"ekiden-log","version":2,"readable_from":1}"#,
    ));
    assert_eq!(events(&compatible).unwrap(), ["one"]);
    expect_test::expect!["write to `/run/log.jsonl`: it belongs to a newer ekiden"]
        .assert_eq(&in_full(&go_on(&compatible).unwrap_err()));
    expect_test::expect![[r#"
        cannot read `/run/log.jsonl`: it has version 2, this program knows up to 1
        hint: nothing was changed; use the newer ekiden"#]]
    .assert_eq(&error(&line(r#"{"format":"ekiden-log","version":2}"#)));
}

// shows: DUR-04
#[test]
fn an_empty_foreign_or_missing_log_is_never_an_empty_run() {
    for foreign in [
        "",
        "{\"format\":\"ekiden-lo",
        "hello\n",
        "{\"seq\":1,\"event\":\"x\"}\n",
    ] {
        assert!(
            error(foreign)
                .starts_with("cannot read `/run/log.jsonl`: it is not an `ekiden-log` file")
        );
    }
    let missing = events(&empty()).unwrap_err();
    assert!(is_missing(&missing));
    assert!(missing.hint().unwrap().contains("removed"));
}

// shows: DUR-04
#[test]
fn after_a_failed_write_the_writer_refuses_and_the_next_one_goes_on() {
    for fault in [Fault::DiskFull, Fault::Io, Fault::ReadOnly] {
        for op in [0, 1] {
            let disk = Arc::new(with_log(&log_of(&["one"])));
            let mut log = LogWriter::<Note>::open(disk.clone(), Path::new(LOG), |_| ()).unwrap();
            disk.fail_at(disk.ops() + op, fault);
            log.append(&note(2, "two")).unwrap_err();
            let again = log.append(&note(2, "two")).unwrap_err();
            assert!(matches!(
                again,
                StoreError::File {
                    source: FileFault::Broken,
                    ..
                }
            ));
            let (_, then) = go_on(&disk).unwrap();
            assert!(
                then == ["one", "more"] || then == ["one", "two", "more"],
                "{then:?}"
            );
        }
    }
}

// shows: DUR-04
#[test]
fn a_second_writer_and_a_removed_log_are_noticed() {
    let disk = Arc::new(with_log(&log_of(&["one"])));
    let mut log = LogWriter::<Note>::open(disk.clone(), Path::new(LOG), |_| ()).unwrap();
    disk.append(
        Path::new(LOG),
        log_of(&["one"]).len() as u64,
        b"\n",
        Reach::Cache,
    )
    .unwrap();
    assert!(log.append(&note(2, "two")).is_err());

    let disk = Arc::new(with_log(&log_of(&["one"])));
    let mut log = LogWriter::<Note>::open(disk.clone(), Path::new(LOG), |_| ()).unwrap();
    disk.remove(Path::new(LOG)).unwrap();
    assert!(is_missing(&log.append(&note(2, "two")).unwrap_err()));
}

#[test]
fn an_append_is_one_sync() {
    let disk = Arc::new(empty());
    let mut log = LogWriter::create(disk.clone(), Path::new(LOG), None, &note(1, "one")).unwrap();
    let before = disk.syncs();
    log.append(&note(2, "two")).unwrap();
    assert_eq!(disk.syncs() - before, 1);
    LogWriter::create(disk, Path::new(LOG), None, &note(1, "one"))
        .expect_err("a log that exists is never begun anew");
}

// shows: SEC-08
#[test]
fn copying_links_costs_no_sync_and_begins_before_the_log() {
    let copy = Path::new("/run/copies/links");
    let syncs = |copy: Option<&Path>| {
        let (disk, copy) = (Arc::new(empty()), copy.map(Path::to_owned));
        let first = note(1, "one");
        let mut log = LogWriter::create(disk.clone(), Path::new(LOG), copy, &first).unwrap();
        let before = disk.syncs();
        log.append(&note(2, "two")).unwrap();
        (disk.syncs() - before, log.copies_links())
    };
    let (copied, bare) = (syncs(Some(copy)), syncs(None));
    assert_eq!((copied, bare), ((bare.0, true), (copied.0, false)));
    // Whatever keeps the log from being made, it is never there without its copy.
    let (disk, nowhere) = (Arc::new(empty()), Path::new("/nowhere/log.jsonl"));
    let first = note(1, "one");
    LogWriter::create(disk.clone(), nowhere, Some(copy.to_owned()), &first).unwrap_err();
    assert!(disk.stat(copy).unwrap().is_some());
}

/// Without a beginning of its copy, a log could not be told from one that an archive brought.
// shows: SEC-08, DUR-02
#[test]
fn no_power_cut_leaves_a_log_without_the_beginning_of_its_copy() {
    let copy = Path::new("/run/copies/links");
    every_crash(
        &empty(),
        |disk| {
            let (disk, copy) = (disk.clone(), Some(copy.to_owned()));
            LogWriter::create(disk, Path::new(LOG), copy, &note(1, "one")).is_ok()
        },
        |disk, _, at| {
            let is_there = |path| disk.stat(path).unwrap().is_some();
            if is_there(Path::new(LOG)) {
                let found = ChainCheck::make(disk, Path::new(LOG), Some(copy)).unwrap();
                assert_eq!(found.continuity, Continuity::Same, "{at:?}");
            }
        },
    );
}

proptest! {
    #[test]
    fn any_records_round_trip(texts in proptest::collection::vec(".*", 1..8), cut in 0_usize..400) {
        let disk = Arc::new(empty());
        let mut log = LogWriter::create(disk.clone(), Path::new(LOG), None, &note(1, &texts[0])).unwrap();
        for (seq, text) in (1..).zip(&texts).skip(1) {
            log.append(&note(seq, text)).unwrap();
        }
        prop_assert_eq!(&events(&disk).unwrap(), &texts);

        let content = disk.read(Path::new(LOG), 1 << 20).unwrap();
        let header = ekiden_store::format::LOG.line().len();
        let kept = &content[..content.len() - cut.min(content.len() - header)];
        let torn = SimDisk::new();
        torn.plant_file(Path::new(LOG), kept);
        let whole = kept.iter().filter(|byte| **byte == b'\n').count() - 1;
        let (records, then) = go_on(&torn).unwrap();
        prop_assert_eq!(records as usize, whole);
        prop_assert_eq!(&then[..whole], &texts[..whole]);
    }
}
