//! A million observations with the words of this repository: how long building and searching take, how large the index
//! is. `EKIDEN_BENCH_COUNT` makes it fewer, `EKIDEN_BENCH_DIR` keeps what was made for the next time.
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

use std::path::{Path, PathBuf};
use std::time::Instant;

use chance::Chance;
use ekiden_core::observation::{Observation, ObservationKind, Origin};
use ekiden_core::time::Timestamp;
use ekiden_memory::{Filter, Memory, Query};
use ekiden_store::memory::MemoryFiles;
use rusqlite::Connection;

const START: u64 = 1_700_000_000_000;
const QUESTIONS: u64 = 2_000;

/// The words of the repository's documents and code in their order.
fn words() -> Vec<String> {
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
    text.split_whitespace().map(str::to_owned).collect()
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

fn make(files: &MemoryFiles, count: usize, words: &[String]) {
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

fn question(chance: &mut Chance, count: usize, words: &[String]) -> (&'static str, Query) {
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

fn at(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// What the process has in memory now, in MB.
fn resident(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with(field))
        .unwrap_or_default();
    let kib = line
        .split_whitespace()
        .nth(1)
        .and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0_u64) / 1024
}

fn main() {
    let count = std::env::var("EKIDEN_BENCH_COUNT")
        .ok()
        .and_then(|count| count.parse().ok());
    let count: usize = count.unwrap_or(1_000_000);
    let temp = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("EKIDEN_BENCH_DIR").map(PathBuf::from);
    let home = kept.unwrap_or_else(|| temp.path().to_owned());
    let files = MemoryFiles::of(&home);
    let words = words();
    if files.segments().is_empty() {
        make(&files, count, &words);
        println!("made");
        // Words, of which the process needs none any more, are not counted with the memory.
    }
    if std::env::var_os("EKIDEN_BENCH_KEEP").is_none() {
        let begin = Instant::now();
        let mut memory = Memory::rebuild(&files).unwrap();
        println!("rebuild_s {:.1}", begin.elapsed().as_secs_f64());
        println!("rebuild_peak_mb {}", resident("VmHWM"));
        let stats = memory.stats().unwrap();
        #[expect(clippy::cast_precision_loss, reason = "bytes")]
        let share = stats.index_bytes as f64 / stats.text_bytes as f64;
        println!(
            "count {} text_mb {} index_share {share:.3}",
            stats.observations,
            stats.text_bytes / 1_000_000
        );
    }
    let begin = Instant::now();
    let mut memory = Memory::open(files.clone()).unwrap();
    println!("open_ms {:.1}", begin.elapsed().as_secs_f64() * 1000.0);
    let mut all: Vec<(&str, f64)> = Vec::new();
    for round in 0..2 {
        let mut chance = Chance(7);
        all.clear();
        for _ in 0..QUESTIONS {
            let (kind, query) = question(&mut chance, count, &words);
            let begin = Instant::now();
            let found = memory.search(&query).unwrap();
            let took = begin.elapsed().as_secs_f64() * 1000.0;
            if took > 20.0 && round == 1 && std::env::var_os("EKIDEN_BENCH_SLOW").is_some() {
                println!("slow {took:.0} {kind} {query:?} {}", found.len());
            }
            all.push((kind, took));
        }
    }
    println!("resident_mb {}", resident("VmRSS"));
    for kind in [
        "rare",
        "two words",
        "common",
        "phrase",
        "prefix",
        "file",
        "dates",
        "four words",
        "",
    ] {
        let mut times: Vec<f64> = all
            .iter()
            .filter(|(of, _)| kind.is_empty() || *of == kind)
            .map(|(_, took)| *took)
            .collect();
        times.sort_by(f64::total_cmp);
        let name = if kind.is_empty() { "all" } else { kind };
        println!(
            "{} p50 {:.2} p99 {:.2} max {:.2}",
            name.replace(' ', "_"),
            at(&times, 50),
            at(&times, 99),
            times.last().unwrap()
        );
    }
    // What the library alone takes with its own ranking.
    let db = Connection::open(files.path("index.db")).unwrap();
    let mut own = db
        .prepare("SELECT rowid FROM fts WHERE fts MATCH ?1 ORDER BY rowid DESC LIMIT 10")
        .unwrap();
    let begin = Instant::now();
    for _ in 0..100 {
        let rows: Vec<i64> = own
            .query_map(["session AND zzp1"], |row| row.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(!rows.is_empty());
    }
    println!("fts5_newest_ms {:.3}", begin.elapsed().as_secs_f64() * 10.0);
}
