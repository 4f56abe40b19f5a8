//! A million observations with the words of this repository: how long building and searching take, and how
//! large the index is, compared to FTS5 with its own ranking. Prints JSON; pairs are median and 99th
//! percentile in milliseconds. `EKIDEN_BENCH_COUNT` sets a smaller number, `EKIDEN_BENCH_DIR` keeps the
//! observations for the next time, and `EKIDEN_BENCH_KEEP` the index too.
//!
//! The mix of questions: 20 % a rare identifier, 20 % two words, 10 % one common word, 15 % a phrase, 10 % a prefix,
//! 10 % a word with a file, 5 % a word with dates, 10 % four words. Nine of ten ask in one project.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    clippy::unwrap_used,
    reason = "a measurement"
)]

#[path = "../tests/chance/mod.rs"]
mod chance;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use chance::Chance;
use ekiden_core::observation::{Observation, ObservationKind, Origin};
use ekiden_core::time::Timestamp;
use ekiden_memory::{Filter, Memory, Query};
use ekiden_store::memory::MemoryFiles;
use rusqlite::Connection;

const START: u64 = 1_700_000_000_000;
const QUESTIONS: usize = 2_000;
/// How many of these FTS5 runs: it takes long.
const FTS5_QUESTIONS: usize = 100;
const KINDS: [&str; 8] = [
    "rare",
    "two words",
    "common",
    "phrase",
    "prefix",
    "file",
    "dates",
    "four words",
];

/// The repository's documents and code.
fn texts() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut text = String::new();
    let mut dirs: Vec<PathBuf> = vec![root.join("docs"), root.join("crates")];
    while let Some(dir) = dirs.pop() {
        let mut entries: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        entries.sort();
        for path in entries {
            let is_text = path
                .extension()
                .is_some_and(|end| end == "md" || end == "rs");
            if path.is_dir() {
                dirs.push(path);
            } else if is_text {
                text += &std::fs::read_to_string(path).unwrap();
            }
        }
    }
    text
}

fn rare(number: usize) -> String {
    format!(
        "call_{:x}_{}",
        number.wrapping_mul(2_654_435_761) % 0xfff_fff,
        number % 97
    )
}

fn file(number: usize) -> String {
    format!("crates/part{}/src/module{}.rs", number % 40, number % 700)
}

fn make(files: &MemoryFiles, count: usize, words: &[&str]) {
    let mut chance = Chance(1);
    let mut batch = Vec::new();
    for number in 0..count {
        let from = Origin {
            project: format!(
                "/home/user/project{}",
                if chance.below(10) < 6 {
                    0
                } else {
                    chance.below(20)
                }
            ),
            branch: Some("main".to_owned()),
            session: Some(format!("session-{}", number / 40)),
            ..Origin::default()
        };
        let snippet = |chance: &mut Chance, count: usize| {
            let at = chance.below(words.len() - count);
            words[at..at + count].join(" ")
        };
        let kind = ObservationKind::ALL[chance.below(ObservationKind::ALL.len())];
        let title = snippet(&mut chance, 8);
        let length = 30 + chance.below(120);
        let text = format!(
            "{} {} {}",
            snippet(&mut chance, length),
            rare(chance.below(300_000)),
            rare(number)
        );
        let time = Timestamp(START + number as u64 * 60_000);
        let about = [file(chance.below(100_000)), file(chance.below(100_000))];
        batch.extend(
            Observation::new(&from, time, kind, &title, &text).map(|made| made.about(about)),
        );
        if batch.len() == 1_000 {
            files.append(&batch).unwrap();
            batch.clear();
        }
    }
    files.append(&batch).unwrap();
}

fn question(chance: &mut Chance, count: usize, words: &[&str]) -> (&'static str, Query) {
    let common = [
        "session", "handoff", "agent", "files", "which", "run", "state", "test",
    ];
    let word = |chance: &mut Chance| words[chance.below(words.len())].replace(['"', '*'], " ");
    let mut filter = Filter {
        project: (chance.below(10) > 0).then(|| "/home/user/project0".to_owned()),
        ..Filter::default()
    };
    let (kind, text) = match chance.below(20) {
        0..4 => ("rare", rare(chance.below(300_000))),
        4..8 => ("two words", format!("{} {}", word(chance), word(chance))),
        8..10 => ("common", common[chance.below(common.len())].to_owned()),
        10..13 => {
            let at = chance.below(words.len() - 3);
            (
                "phrase",
                format!("\"{}\"", words[at..at + 2].join(" ").replace('"', " ")),
            )
        }
        13..15 => (
            "prefix",
            format!(
                "{}*",
                word(chance)
                    .chars()
                    .filter(|c| c.is_alphabetic())
                    .take(4)
                    .collect::<String>()
            ),
        ),
        15..17 => {
            filter.files.push(file(chance.below(100_000)));
            ("file", word(chance))
        }
        17 => {
            let day = chance.below(count / 1_440 + 1) as u64;
            filter.since = Some(Timestamp(START + day * 86_400_000));
            filter.until = Some(Timestamp(START + (day + 3) * 86_400_000));
            ("dates", word(chance))
        }
        _ => ("four words", [(); 4].map(|()| word(chance)).join(" ")),
    };
    let now = Timestamp(START + count as u64 * 60_000);
    (
        kind,
        Query {
            text,
            filter,
            limit: 10,
            now,
            ..Query::default()
        },
    )
}

/// The peak memory of the process, in MB.
fn most_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap_or_default();
    let kib = line
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0_u64) / 1024
}

fn main() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .and_then(|count| count.parse().ok())
    };
    let count: usize = number("EKIDEN_BENCH_COUNT").unwrap_or(1_000_000);
    let temp = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("EKIDEN_BENCH_DIR").map(PathBuf::from);
    let home = kept.unwrap_or_else(|| temp.path().to_owned());
    let files = MemoryFiles::of(&home);
    // The bench must not measure itself: the words are dropped before memory is counted.
    let asked: Vec<(&str, Query)> = {
        let text = texts();
        let words: Vec<&str> = text.split_whitespace().collect();
        if files.segments().unwrap().is_empty() {
            make(&files, count, &words);
        }
        let mut chance = Chance(7);
        (0..QUESTIONS)
            .map(|_| question(&mut chance, count, &words))
            .collect()
    };
    let is_kept = std::env::var_os("EKIDEN_BENCH_KEEP").is_some();
    // Memory that was held before does not count.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (rebuild, took) = timed(|| {
        let memory = if is_kept {
            Memory::open(files.clone())
        } else {
            Memory::rebuild(&files)
        };
        memory.unwrap().stats().unwrap()
    });
    let rebuild_mb = most_resident();
    let share = rebuild.index_bytes as f64 / rebuild.text_bytes as f64;
    let mut memory = Memory::open(files.clone()).unwrap();
    let mut times: Vec<(&str, f64)> = Vec::new();
    for round in 0..2 {
        for (kind, query) in &asked {
            let (_, took) = timed(|| memory.search(query).unwrap());
            times.extend((round == 1).then_some((*kind, took)));
        }
    }
    drop(memory);
    let kinds: BTreeMap<&str, [f64; 2]> = KINDS
        .iter()
        .map(|kind| {
            let of_kind = times.iter().filter(|(of, _)| of == kind);
            let shown = percentiles(of_kind.map(|(_, took)| *took).collect());
            (*kind, shown)
        })
        .collect();
    let all = percentiles(times.into_iter().map(|(_, took)| took).collect());
    let figures = serde_json::json!({
        "observations": rebuild.observations,
        "text_mb": rebuild.text_bytes / 1_000_000,
        "rebuild_s": took / 1000.0,
        "index_share": share,
        "rebuild_mb": rebuild_mb,
        "append_us": append_us(&home),
        "kinds": kinds,
        "all": all,
        "fts5": (!is_kept).then(|| of_fts5(&files, &home, &asked)),
    });
    println!("{figures}");
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, f64) {
    let begin = Instant::now();
    let made = act();
    (made, begin.elapsed().as_secs_f64() * 1000.0)
}

/// The median and the 99th percentile, in milliseconds.
fn percentiles(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [50, 99].map(|percent| times[times.len() * percent / 100])
}

/// What recording a prompt adds to a hook.
fn append_us(home: &Path) -> f64 {
    let files = MemoryFiles::of(&home.join("hook"));
    let from = Origin::default();
    let prompt = "word ".repeat(200);
    let times = (0..1_000).map(|at| {
        let made = Observation::new(
            &from,
            Timestamp(at),
            ObservationKind::Prompt,
            "asked",
            &prompt,
        );
        timed(|| files.append(&[made.unwrap()]).unwrap()).1 * 1000.0
    });
    percentiles(times.collect())[0]
}

/// The same questions to an FTS5 table of the same texts, by its own ranking and without filters.
fn of_fts5(files: &MemoryFiles, home: &Path, asked: &[(&str, Query)]) -> [f64; 2] {
    let path = home.join("fts5.db");
    let is_new = !path.exists();
    let mut db = Connection::open(path).unwrap();
    if is_new {
        db.execute_batch("CREATE VIRTUAL TABLE found USING fts5(title, text, content='')")
            .unwrap();
        let add = db.transaction().unwrap();
        for (name, _) in files.segments().unwrap() {
            for line in std::fs::read_to_string(files.path(&name)).unwrap().lines() {
                let Ok(made) = serde_json::from_str::<Observation>(line) else {
                    continue;
                };
                add.prepare_cached("INSERT INTO found(title, text) VALUES(?1, ?2)")
                    .unwrap()
                    .execute([made.title, made.text])
                    .unwrap();
            }
        }
        add.commit().unwrap();
    }
    let mut own = db
        .prepare("SELECT rowid FROM found WHERE found MATCH ?1 ORDER BY rank LIMIT 10")
        .unwrap();
    let times = asked.iter().take(FTS5_QUESTIONS).map(|(_, query)| {
        let words = query.text.split(|c: char| !c.is_alphanumeric());
        let words: Vec<String> = words
            .filter(|word| !word.is_empty())
            .map(|word| format!("\"{word}\""))
            .collect();
        timed(|| {
            own.query_map([words.join(" OR ")], |row| row.get::<_, i64>(0))
                .unwrap()
                .count()
        })
        .1
    });
    percentiles(times.collect())
}
