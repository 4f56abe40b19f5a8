//! The memory over its files: what is found, what a crash or bad input costs, what is forgotten.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests break the files that they read, and their helpers fail as tests do"
)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ekiden_core::observation::{Observation, ObservationKind as Kind, Origin};
use ekiden_core::time::Timestamp;
use ekiden_memory::{Filter, Forget, Here, Memory, MemoryError, Query, ask};
use ekiden_store::disk::{Cause, DiskError};
use ekiden_store::memory::MemoryFiles;
use rusqlite::Connection;

const DAY: u64 = 24 * 60 * 60 * 1000;
const START: u64 = 12_000 * DAY;

struct Home {
    _dir: tempfile::TempDir,
    files: MemoryFiles,
}

impl Home {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let files = MemoryFiles::of(dir.path());
        Self { _dir: dir, files }
    }

    fn database(&self) -> PathBuf {
        self.files.path("index-2.db")
    }

    fn segment(&self) -> PathBuf {
        self.files.path(&self.files.segments().unwrap()[0].0)
    }

    fn add(&self, title: &str, text: &str, day: u64) -> Observation {
        self.keep(made(title, text, day))
    }

    fn keep(&self, observation: Observation) -> Observation {
        self.files
            .append(std::slice::from_ref(&observation))
            .unwrap();
        observation
    }

    fn titles(&self, text: &str, filter: Filter) -> Vec<String> {
        let query = Query {
            text: text.to_owned(),
            filter,
            limit: 10,
            now: Timestamp(START + 400 * DAY),
            ..Query::default()
        };
        let (found, _) = ask(&self.files, |memory| memory.search(&query)).unwrap();
        found.into_iter().map(|found| found.title).collect()
    }

    fn found(&self, text: &str) -> Vec<String> {
        self.titles(text, Filter::default())
    }
}

fn made(title: &str, text: &str, day: u64) -> Observation {
    let from = Origin {
        project: "/p".to_owned(),
        branch: Some("main".to_owned()),
        ..Origin::default()
    };
    Observation::new(
        &from,
        Timestamp(START + day * DAY),
        Kind::Change,
        title,
        text,
    )
    .unwrap()
}

// shows: MEM-08
#[test]
fn words_phrases_prefixes_identifiers_and_paths_are_found() {
    let home = Home::new();
    home.add(
        "The keeper holds attempt.lock",
        "It calls take_handoff(dir) of WorkDirLock",
        1,
    );
    home.add(
        "Lock of an attempt",
        "sha256 of crates/store/src/lock.rs",
        2,
    );
    home.keep(made("A file", "nothing else", 3).about(["crates/core/src/guard_view.rs"]));
    let keeper = ["The keeper holds attempt.lock"];
    let lock = ["Lock of an attempt"];
    for (query, found) in [
        ("keeper", &keeper[..]),
        ("keepers", &keeper),
        ("\"attempt lock\"", &keeper),
        ("take_handoff", &keeper),
        ("handoff", &keeper),
        ("WorkDirLock", &keeper),
        ("workdirlock", &keeper),
        ("work", &keeper),
        ("keep*", &keeper),
        ("sha256", &lock),
        ("256", &lock),
        ("store/src/lock.rs", &lock),
        ("guard_view.rs", &["A file"]),
        ("view", &["A file"]),
        ("nowhere", &[]),
        ("\"attempt keeper\"", &[]),
        ("zzp1", &[]),
    ] {
        assert_eq!(home.found(query), found, "{query}");
    }
    let common = home.found("the");
    assert_eq!(common[0], "A file", "words that say nothing: the newest");
}

// shows: MEM-08
// shows: MEM-006
#[test]
fn filters_hold_by_project_type_concept_file_and_date() {
    let home = Home::new();
    home.keep(made("Context Checkpoint L2 at 87%", "", 10).concept("checkpoint"));
    home.keep(made("with a file", "checkpoint", 20).about(["crates/core/src/a.rs", "b.md"]));
    let from = Origin {
        project: "/q".to_owned(),
        ..Origin::default()
    };
    let at = Timestamp(START + 30 * DAY);
    home.keep(Observation::new(&from, at, Kind::Failure, "checkpoint failed", "").unwrap());
    let all = Filter::default();
    let project = |path: &str| Filter {
        project: Some(path.to_owned()),
        ..Filter::default()
    };
    let file = |path: &str| Filter::default().about(&[path.to_owned()]);
    let with = |filter| home.titles("checkpoint", filter);
    assert_eq!(with(all.clone()).len(), 3);
    assert_eq!(with(project("/q")), ["checkpoint failed"]);
    assert!(with(project("/none")).is_empty());
    assert_eq!(
        with(Filter {
            kind: Some(Kind::Failure),
            ..all.clone()
        }),
        ["checkpoint failed"]
    );
    let concepts = vec!["checkpoint".to_owned()];
    assert_eq!(
        home.titles(
            "L2",
            Filter {
                concepts,
                ..all.clone()
            }
        ),
        ["Context Checkpoint L2 at 87%"]
    );
    for path in [
        "a.rs",
        "core/src",
        "crates/core/src/a.rs",
        "b.md",
        "./b.md",
        "../core/src/",
    ] {
        assert_eq!(with(file(path)), ["with a file"], "{path}");
    }
    let absolute = |path| with(project(path).about(&["/p/b.md".to_owned()]));
    assert_eq!(absolute("/p"), ["with a file"]);
    assert!(absolute("/q").is_empty());
    assert!(with(file("src/core")).is_empty());
    assert_eq!(with(file(".")).len(), 3, "the project");
    let (since, until) = (
        Some(Timestamp(START + 15 * DAY)),
        Some(Timestamp(START + 25 * DAY)),
    );
    assert_eq!(
        with(Filter {
            since,
            until,
            ..all.clone()
        }),
        ["with a file"]
    );
    let early = Some(Timestamp(START + 15 * DAY));
    assert_eq!(
        with(Filter {
            until: early,
            ..all
        }),
        ["Context Checkpoint L2 at 87%"]
    );
}

/// What is not asked for must not take the place of what is: only so many texts are read.
// shows: MEM-08
#[test]
fn many_observations_of_a_day_hide_none_of_the_day_before() {
    let home = Home::new();
    home.add("before", "busy", 1);
    let busy = (0..300).map(|number| made(&format!("number{number}"), "busy", 2));
    home.files.append(&busy.collect::<Vec<_>>()).unwrap();
    let from = Origin {
        project: "/p".to_owned(),
        ..Origin::default()
    };
    let late = Timestamp(START + 3 * DAY - 1);
    home.keep(Observation::new(&from, late, Kind::Change, "after", "busy").unwrap());
    let within = |since, until| Filter {
        since: Some(Timestamp(since)),
        until: Some(Timestamp(until)),
        ..Filter::default()
    };
    let until = within(0, START + 2 * DAY);
    let (recent, _) = ask(&home.files, |memory| memory.recent(&until, 10)).unwrap();
    assert_eq!(recent.len(), 1);
    assert_eq!(home.titles("busy", until), ["before"]);
    let since = within(START + 2 * DAY + 1, START + 3 * DAY);
    assert_eq!(home.titles("busy", since), ["after"]);
    let between = within(START + 2 * DAY + 1, START + 2 * DAY + 2);
    assert_eq!(home.titles("busy", between), [""; 0]);
}

// shows: MEM-08
#[test]
fn as_many_are_found_as_are_asked_for() {
    let home = Home::new();
    let all = (0..120).map(|number| made(&format!("number{number}"), "busy", 1));
    home.files.append(&all.collect::<Vec<_>>()).unwrap();
    let query = Query {
        text: "busy".to_owned(),
        limit: 100,
        now: Timestamp(START + 400 * DAY),
        ..Query::default()
    };
    let (found, _) = ask(&home.files, |memory| memory.search(&query)).unwrap();
    assert_eq!(found.len(), 100);
}

// shows: MEM-08
#[test]
fn what_is_near_is_ranked_higher_but_never_above_a_better_match() {
    let home = Home::new();
    home.add("Parser rewritten", "old", 1);
    home.add("Parser rewritten", "new, on the same day as now", 399);
    home.add(
        "Something else",
        "the parser is named once among many other words that say nothing of it",
        400,
    );
    let query = Query {
        text: "parser".to_owned(),
        limit: 10,
        now: Timestamp(START + 400 * DAY),
        here: Here {
            branch: Some("main".to_owned()),
            files: Vec::new(),
        },
        ..Query::default()
    };
    let (found, _) = ask(&home.files, |memory| memory.search(&query)).unwrap();
    let texts: Vec<&str> = found.iter().map(|found| &found.text[..3]).collect();
    assert_eq!(texts, ["new", "old", "the"]);
}

// shows: MEM-08
#[test]
fn what_is_about_the_files_in_hand_is_ranked_higher() {
    let home = Home::new();
    for (file, day) in [("a.rs", 1), ("b.rs", 2)] {
        home.keep(made("Parser rewritten", file, day).about([file]));
    }
    let first = |home: &Home| {
        let query = Query {
            text: "parser".to_owned(),
            limit: 1,
            now: Timestamp(START + 3 * DAY),
            ..Query::default()
        };
        let near = ask(&home.files, |memory| memory.search_near(&query, None));
        near.unwrap().0[0].text.clone()
    };
    assert_eq!(first(&home), "b.rs");
    for nth in 0..5 {
        home.keep(made("Lexer", &format!("{nth}"), 3).about(["a.rs"]));
    }
    assert_eq!(first(&home), "a.rs");
}

// shows: MEM-005
#[test]
fn a_timeline_has_both_sides_and_ids_may_be_short() {
    let home = Home::new();
    let all: Vec<Observation> = (0..9)
        .map(|day| home.add(&format!("day {day}"), "", day))
        .collect();
    let mut memory = Memory::open(home.files.clone()).unwrap();
    let short = &all[4].id.to_string()[..10];
    let found = memory.timeline(short, 2, 1).unwrap();
    let titles: Vec<&str> = found.iter().map(|found| found.title.as_str()).collect();
    assert_eq!(titles, ["day 2", "day 3", "day 4", "day 5"]);
    assert_eq!(memory.get(short).unwrap(), all[4]);
    for unknown in ["", "xyz", "00000000000000000", "../x"] {
        assert!(
            matches!(memory.get(unknown), Err(MemoryError::Unknown(_))),
            "{unknown}"
        );
    }
    let more: Vec<Observation> = (0..40)
        .map(|day| home.add(&format!("more {day}"), "", day))
        .collect();
    let first = more[0].id.to_string()[..1].to_owned();
    let mut memory = Memory::open(home.files.clone()).unwrap();
    assert!(matches!(
        memory.get(&first),
        Err(MemoryError::Ambiguous { .. })
    ));
}

// shows: MEM-07
#[test]
fn lines_that_are_none_of_ours_are_skipped_and_counted() {
    let home = Home::new();
    home.add("before", "", 1);
    let mut text = std::fs::read(home.segment()).unwrap();
    text.extend(b"{\"id\":\"torn\n\xff\xfe\x00binary\n{\"a\":1}\n");
    let far = Timestamp(u64::MAX);
    let far = Observation {
        time: far,
        ..made("far", "", 1)
    };
    text.extend(serde_json::to_vec(&far).unwrap());
    text.extend(b"\n");
    text.extend(vec![b'x'; 10 * 1024 * 1024]);
    text.extend(b"\n");
    std::fs::write(home.segment(), text).unwrap();
    home.add("after", "", 2);
    let (stats, _) = ask(&home.files, Memory::stats).unwrap();
    assert_eq!((stats.observations, stats.skipped_lines), (2, 5));
    assert_eq!(home.found("after"), ["after"]);
    // A line without its end is not read before it has one.
    let mut text = std::fs::read(home.segment()).unwrap();
    let line = serde_json::to_vec(&made("half", "", 3)).unwrap();
    let (begin, end) = line.split_at(20);
    text.extend(begin);
    std::fs::write(home.segment(), &text).unwrap();
    assert!(home.found("half").is_empty());
    text.extend(end);
    text.push(b'\n');
    std::fs::write(home.segment(), &text).unwrap();
    assert_eq!(home.found("half"), ["half"]);
}

// shows: MEM-07
#[test]
fn nothing_is_doubled_and_the_index_can_be_thrown_away() {
    let home = Home::new();
    let one = home.add("one", "text", 1);
    home.add("two", "text", 2);
    let before = home.found("text");
    home.keep(one.clone());
    assert_eq!(home.found("text"), before);
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(home.files.path(&format!("index-2.db{end}")));
    }
    assert_eq!(home.found("text"), before);
    let mut memory = Memory::rebuild(&home.files).unwrap();
    let stats = memory.stats().unwrap();
    assert_eq!((stats.observations, stats.set_aside), (2, None));
    // The files were cut by somebody: the index follows them.
    std::fs::write(
        home.segment(),
        format!("{}\n", serde_json::to_string(&one).unwrap()),
    )
    .unwrap();
    assert_eq!(home.found("text"), ["one"]);
}

// shows: MEM-07
#[test]
fn indexers_at_the_same_time_find_each_observation_once() {
    let home = Home::new();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let home = &home;
            scope.spawn(move || {
                for turn in 0..20 {
                    home.add(&format!("writer{writer} turn{turn}"), "shared", turn);
                    Memory::open(home.files.clone()).unwrap();
                }
            });
        }
    });
    let (stats, _) = ask(&home.files, Memory::stats).unwrap();
    assert_eq!((stats.observations, stats.skipped_lines), (80, 0));
}

// shows: MEM-07
#[test]
fn a_pipe_in_the_place_of_a_file_blocks_nobody_and_is_told() {
    let home = Home::new();
    home.add("kept", "", 1);
    assert_eq!(home.found("kept"), ["kept"]);
    let refused = || {
        let refused = ask(&home.files, Memory::stats).unwrap_err();
        assert!(matches!(refused, MemoryError::Disk(_)), "{refused:?}");
    };
    let mkfifo = |name: &str| {
        let path = home.files.path(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap();
    };
    mkfifo("2030-01.jsonl");
    refused();
    assert!(home.files.newest_of("/p", None, 5).is_empty());
    std::fs::remove_file(home.files.path("2030-01.jsonl")).unwrap();
    std::fs::remove_file(home.database()).unwrap();
    mkfifo("index-2.db");
    refused();
}

/// It would seem that nothing was ever recorded.
// shows: MEM-07
#[test]
fn a_file_that_cannot_be_read_is_an_error_and_costs_nothing() {
    let home = Home::new();
    home.add("kept", "", 1);
    assert_eq!(home.found("kept"), ["kept"]);
    let (file, away) = (home.segment(), home.files.path("away"));
    std::fs::rename(&file, &away).unwrap();
    // A user with all rights reads every file, but no directory.
    std::fs::create_dir(&file).unwrap();
    let told = ask(&home.files, Memory::stats).unwrap_err().to_string();
    assert!(
        told.contains("read `") && told.contains(".jsonl`"),
        "{told}"
    );
    Memory::rebuild(&home.files).unwrap_err();
    std::fs::remove_dir(&file).unwrap();
    std::fs::rename(&away, &file).unwrap();
    assert_eq!(home.found("kept"), ["kept"]);
}

// shows: MEM-07
#[test]
fn a_database_that_is_damaged_is_set_aside_and_built_again() {
    let home = Home::new();
    home.add("kept", "", 1);
    assert_eq!(home.found("kept"), ["kept"]);
    std::fs::write(home.database(), "no database at all".repeat(99)).unwrap();
    let (stats, told) = ask(&home.files, Memory::stats).unwrap();
    assert_eq!(stats.observations, 1);
    assert!(told.unwrap().contains("index-2.aside.db"));
    assert!(stats.set_aside.is_some());
}

/// Otherwise two that work beside each other would build it in turn.
// shows: MEM-07, DUR-05
#[test]
fn the_index_of_another_version_is_left_alone() {
    let home = Home::new();
    home.add("kept", "", 1);
    let others = ["index.db", "index-9.db"].map(|name| home.files.path(name));
    for other in &others {
        let other = Connection::open(other).unwrap();
        other.pragma_update(None, "user_version", 9).unwrap();
    }
    let (stats, told) = ask(&home.files, Memory::stats).unwrap();
    assert_eq!((stats.observations, told), (1, None));
    assert!(others.iter().all(|other| other.exists()));
    Memory::rebuild(&home.files).unwrap();
    assert!(!others.iter().any(|other| other.exists()));
}

// shows: MEM-08
#[test]
fn what_is_forgotten_is_in_no_file_any_more() {
    let home = Home::new();
    let secret = home.add("Xylophone", "quetzalcoatl twice", 1);
    home.keep(secret.clone());
    home.add("other", "stays", 2);
    assert_eq!(home.found("quetzalcoatl"), ["Xylophone"]);
    // Indexes that were set aside or are of other versions, with all that they know.
    for name in ["index-2.aside.db", "index.db", "index-9.db"] {
        std::fs::copy(home.database(), home.files.path(name)).unwrap();
    }
    // A server of another session keeps the journal of the index open.
    let server = Memory::open(home.files.clone()).unwrap();
    let mut memory = Memory::open(home.files.clone()).unwrap();
    let these = Forget::These(vec![secret.id.to_string()]);
    assert_eq!(memory.forget(&these).unwrap(), 1);
    drop(memory);
    assert!(home.found("quetzalcoatl").is_empty());
    for entry in std::fs::read_dir(home.files.dir()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for word in ["quetzalcoatl", "ylophone"] {
            let has = bytes
                .windows(word.len())
                .any(|found| found == word.as_bytes());
            assert!(!has, "{word} in {}", path.display());
        }
    }
    drop(server);
    Memory::rebuild(&home.files).unwrap();
    assert!(home.found("quetzalcoatl").is_empty());
    assert_eq!(home.found("stays"), ["other"]);
    home.add("late", "", 50);
    let mut memory = Memory::open(home.files.clone()).unwrap();
    assert_eq!(
        memory
            .forget(&Forget::Before(Timestamp(START + 9 * DAY)))
            .unwrap(),
        1
    );
    assert_eq!(
        memory.forget(&Forget::Project("/none".to_owned())).unwrap(),
        0
    );
    assert_eq!(memory.forget(&Forget::Project("/p".to_owned())).unwrap(), 1);
    assert_eq!(memory.stats().unwrap().observations, 0);
}

// shows: MEM-08
#[test]
fn what_another_project_left_is_not_forgotten() {
    let home = Home::new();
    home.add("teapot", "", 1);
    let from = Origin {
        project: "/q".to_owned(),
        ..Origin::default()
    };
    let at = Timestamp(START + 2 * DAY);
    home.keep(Observation::new(&from, at, Kind::Change, "kettle", "").unwrap());
    let mut memory = Memory::open(home.files.clone()).unwrap();
    assert_eq!(memory.forget(&Forget::Project("/p".to_owned())).unwrap(), 1);
    drop(memory);
    assert_eq!(home.found("kettle"), ["kettle"]);
    assert!(home.found("teapot").is_empty());
    let text = std::fs::read_to_string(home.segment()).unwrap();
    assert!(
        text.contains("kettle") && !text.contains("teapot"),
        "{text}"
    );
}

/// One file is blank then and the other is not, and the next process has to make the index again.
// shows: MEM-08
#[test]
fn forgetting_that_fails_halfway_is_known_to_the_next_process() {
    let home = Home::new();
    home.add("one", "", 1);
    home.add("two", "", 40);
    let mut memory = Memory::open(home.files.clone()).unwrap();
    let segment = home.segment();
    let away = home.files.path("away");
    std::fs::rename(&segment, &away).unwrap();
    std::os::unix::fs::symlink(&away, &segment).unwrap();
    let all = Forget::Project("/p".to_owned());
    memory.forget(&all).unwrap_err();
    drop(memory);
    let count: u32 = Connection::open(home.database())
        .unwrap()
        .query_row("SELECT count(*) FROM forgetting", [], |row| row.get(0))
        .unwrap();
    assert_eq!(count, 1);
    std::fs::rename(&away, &segment).unwrap();
    ask(&home.files, |memory| memory.forget(&all)).unwrap();
    let (stats, _) = ask(&home.files, Memory::stats).unwrap();
    assert_eq!(stats.observations, 0);
}

/// It was open when the index in use was set aside.
// shows: MEM-08
#[test]
fn what_is_forgotten_beside_a_rebuild_is_not_in_the_new_index() {
    let home = Home::new();
    let secret = home.add("Xylophone", "", 1);
    home.add("other", "", 2);
    let mut memory = Memory::open(home.files.clone()).unwrap();
    Memory::rebuild(&home.files).unwrap();
    let these = Forget::These(vec![secret.id.to_string()]);
    assert_eq!(memory.forget(&these).unwrap(), 1);
    let stats = Memory::open(home.files.clone()).unwrap().stats().unwrap();
    assert_eq!(stats.observations, 1);
}

/// Another process had the right to write, and built the index again.
// shows: MEM-07
#[test]
fn rows_that_got_other_numbers_while_one_waited_are_not_forgotten_for_others() {
    let home = Home::new();
    home.add("gone before", "", 1);
    let two = home.add("two", "", 2);
    home.add("three", "", 3);
    let mut memory = Memory::open(home.files.clone()).unwrap();
    let lock = home.files.lock(Duration::ZERO).unwrap();
    std::thread::scope(|scope| {
        let forgotten = Forget::These(vec![two.id.to_string()]);
        let waits = scope.spawn(move || memory.forget(&forgotten).unwrap());
        // Long enough to look rows up, if it does that before it has the lock.
        std::thread::sleep(Duration::from_millis(200));
        Connection::open(home.database())
            .unwrap()
            .execute_batch("DELETE FROM obs WHERE seq = 1; UPDATE obs SET seq = seq - 1;")
            .unwrap();
        drop(lock);
        assert_eq!(waits.join().unwrap(), 1);
    });
    let text = std::fs::read_to_string(home.segment()).unwrap();
    assert!(text.contains("three") && !text.contains("two"), "{text}");
}

// shows: MEM-07
#[test]
fn a_crash_between_file_and_index_while_forgetting_is_made_good() {
    let home = Home::new();
    let one = home.add("gone", "", 1);
    home.add("kept", "", 2);
    home.found("kept");
    Connection::open(home.database())
        .unwrap()
        .execute("INSERT INTO forgetting VALUES(1)", [])
        .unwrap();
    let text = std::fs::read(home.segment()).unwrap();
    let line = serde_json::to_vec(&one).unwrap();
    let at = text
        .windows(line.len())
        .position(|found| found == line)
        .unwrap();
    let (name, _) = home.files.segments().unwrap()[0].clone();
    home.files.blank(&name, &[(at as u64, line)]).unwrap();
    let (stats, _) = ask(&home.files, Memory::stats).unwrap();
    assert_eq!(stats.observations, 1);
    assert!(home.found("gone").is_empty());
}

// shows: MEM-07
#[test]
fn a_rebuild_that_fails_leaves_the_index_as_it_was() {
    let home = Home::new();
    home.add("one", "text", 1);
    let found = home.found("text");
    let before = std::fs::read(home.database()).unwrap();
    // A new database needs this name.
    let journal = home.files.path("index-2.db-journal");
    std::fs::create_dir(&journal).unwrap();
    Memory::rebuild(&home.files).unwrap_err();
    assert_eq!(std::fs::read(home.database()).unwrap(), before);
    std::fs::remove_dir(&journal).unwrap();
    assert_eq!(home.found("text"), found);
}

/// The other process of the next test.
#[test]
fn a_rebuild_that_will_be_killed() {
    if let Some(home) = std::env::var_os("EKIDEN_TEST_REBUILD") {
        Memory::rebuild(&MemoryFiles::of(Path::new(&home))).unwrap();
    }
}

// shows: MEM-07
#[test]
fn a_rebuild_that_is_killed_in_the_middle_loses_and_doubles_nothing() {
    let home = Home::new();
    let text = "word ".repeat(40) + &"x".repeat(2_700);
    let all: Vec<Observation> = (0..12_000)
        .map(|number| made(&format!("number{number}"), &text, 1))
        .collect();
    home.files.append(&all).unwrap();
    let dir = home.files.dir().parent().unwrap();
    let mut killed = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_rebuild_that_will_be_killed"])
        .env("EKIDEN_TEST_REBUILD", dir)
        .spawn()
        .unwrap();
    // A first chunk is in, the last is not.
    let indexed = || {
        let db = Connection::open(home.database()).ok()?;
        db.query_row("SELECT count(*) FROM obs", [], |row| row.get::<_, u64>(0))
            .ok()
    };
    while indexed().unwrap_or(0) == 0 && killed.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let left = indexed().unwrap();
    assert!(0 < left && left < 12_000, "{left}");
    let (stats, told) = ask(&home.files, Memory::stats).unwrap();
    assert_eq!((stats.observations, told), (12_000, None));
    assert_eq!(home.found("number7 number11999").len(), 2);
}

/// A small file system in memory, where one may mount.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new() -> Option<Self> {
        let mounted = Self(tempfile::tempdir().unwrap());
        let is_there = mounted.mount(&["-t", "tmpfs", "-o", "size=1m", "tmpfs"]);
        if !is_there {
            // Past the test harness, which would keep it from view.
            let line = "left out: a full disk under the memory: nothing can be mounted here";
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        is_there.then_some(mounted)
    }

    fn mount(&self, args: &[&str]) -> bool {
        let mount = Command::new("mount").args(args).arg(self.0.path()).output();
        mount.is_ok_and(|ended| ended.status.success())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

fn is_of(error: &DiskError, kind: std::io::ErrorKind) -> bool {
    matches!(&error.cause, Cause::Io(error) if error.kind() == kind)
}

// shows: MEM-07
#[test]
fn a_full_and_a_read_only_disk_are_told_and_cost_no_more_than_what_did_not_fit() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let files = MemoryFiles::of(mounted.0.path());
    let text = "word ".repeat(700);
    let mut kept = 0;
    let full = loop {
        let next = made(&format!("number{kept}"), &text, 1);
        match files.append(&[next]) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(is_of(&full, std::io::ErrorKind::StorageFull), "{full:?}");
    assert!(ask(&files, Memory::stats).is_err(), "no room for an index");
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(files.path(&format!("index-2.db{end}")));
    }
    assert!(mounted.mount(&["-o", "remount,size=9m"]));
    files.append(&[made("later", "", 2)]).unwrap();
    let stats = ask(&files, Memory::stats).unwrap().0;
    assert_eq!(stats.observations, kept + 1);
    assert!(stats.skipped_lines <= 1, "what was torn by the full disk");

    let mut fill = std::fs::File::create(files.path("fill")).unwrap();
    while fill.write(&[0; 4096]).is_ok_and(|written| written > 0) {}
    let query = Query {
        text: "later".to_owned(),
        limit: 10,
        now: Timestamp(START + 400 * DAY),
        ..Query::default()
    };
    let (found, told) = ask(&files, |memory| memory.search(&query)).unwrap();
    assert_eq!(found.len(), 1, "{told:?}");
    assert!(told.is_some_and(|told| told.contains("what is newest may be missing")));
    drop(fill);
    std::fs::remove_file(files.path("fill")).unwrap();

    assert!(mounted.mount(&["-o", "remount,ro"]));
    let refused = files.append(&[made("more", "", 3)]).unwrap_err();
    assert!(
        is_of(&refused, std::io::ErrorKind::ReadOnlyFilesystem),
        "{refused:?}"
    );
    let (stats, told) = ask(&files, Memory::stats).unwrap();
    assert_eq!(stats.observations, kept + 1);
    let told = told.expect("why it may not be the newest");
    assert!(told.contains("Read-only file system"), "{told}");
    assert_eq!(files.newest_of("/p", Some("main"), 1)[0].title, "later");
}
