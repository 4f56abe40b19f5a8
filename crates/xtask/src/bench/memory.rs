//! How long a search of the memory takes, compared to FTS5's full-text search of the same texts.
//!
//! Uses fewer than a million observations unless `EKIDEN_BENCH_COUNT` says otherwise: making and indexing a
//! million takes minutes.

use std::ffi::OsString;
use std::time::Duration;

use serde::Deserialize;

use super::start::empty_program;
use super::{Row, median, sessions};
use crate::shell::{self, Program};

const COUNT: &str = "200000";
const P99_MS_MAX: f64 = 10.0;
const START_MS_MAX: f64 = 40.0;
const INDEX_SHARE_MAX: f64 = 0.6;
const MEMORY_BYTES_MAX: u64 = 50_000_000;
/// For a million.
const REBUILD_S_MAX: f64 = 120.0;
const APPEND_US_MAX: f64 = 500.0;
const STARTS: usize = 20;
/// A search takes some milliseconds.
const LOOK_EVERY: Duration = Duration::from_micros(100);

/// The output of `ekiden-memory`'s bench. Pairs are median and 99th percentile, in milliseconds.
#[derive(Debug, Deserialize)]
struct Figures {
    observations: f64,
    all: [f64; 2],
    fts5: [f64; 2],
    rebuild_s: f64,
    index_share: f64,
    rebuild_mb: u64,
    append_us: f64,
}

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let state = shell::target_dir().join("bench/memory");
    shell::clear(&state)?;
    let count = std::env::var_os("EKIDEN_BENCH_COUNT").unwrap_or_else(|| OsString::from(COUNT));
    let measure = Program::cargo(&[
        "bench",
        "--locked",
        "--package",
        "ekiden-memory",
        "--bench",
        "search",
    ])
    .with("EKIDEN_BENCH_DIR", state.join("ekiden"))
    .with("EKIDEN_BENCH_COUNT", count);
    let figures: Figures = serde_json::from_str(&measure.output()?)
        .map_err(|error| format!("cannot understand what `{measure}` says: {error}"))?;
    let words = ["memory", "search", "session handoff", "--all-projects"];
    let search = Program::new(shell::target_dir().join("release/ekiden"), &words)
        .with("XDG_STATE_HOME", &state);
    let empty = Program::new(empty_program()?, &[]);
    let (mut searches, mut empties) = (Vec::new(), Vec::new());
    let mut memory_bytes = 0;
    for _ in 0..STARTS {
        search.watch(0, LOOK_EVERY, |pid| {
            let most = sessions::look(pid).map_or(0, |look| look.memory_bytes);
            memory_bytes = memory_bytes.max(most);
        })?;
        searches.push(search.time()?.as_secs_f64() * 1e3);
        empties.push(empty.time()?.as_secs_f64() * 1e3);
    }
    shell::remove(&state)?;
    let mut rows = rows(&figures);
    rows.push(memory(memory_bytes));
    rows.push(start(median(searches), median(empties)));
    Ok(rows)
}

// shows: MEM-10
fn rows(figures: &Figures) -> Vec<Row> {
    let [own, fts5] = [figures.all, figures.fts5].map(|[_, p99]| p99);
    let millions = figures.observations / 1e6;
    let row = |what: &str, figure: String, promise: String, kept| Row {
        what: what.to_owned(),
        figure,
        baseline: "-".to_owned(),
        promise,
        kept,
    };
    vec![
        Row {
            baseline: format!("SQLite's own {fts5:.0} ms, {:.0} times", fts5 / own),
            ..row(
                &format!("search of {:.0} observations", figures.observations),
                format!("{:.1} ms, p99 {own:.1} ms", figures.all[0]),
                format!("p99 at most {P99_MS_MAX} ms, less than SQLite's own"),
                own <= P99_MS_MAX && own < fts5,
            )
        },
        row(
            "their index, beside their texts",
            format!("{:.2}", figures.index_share),
            format!("at most {INDEX_SHARE_MAX}"),
            figures.index_share <= INDEX_SHARE_MAX,
        ),
        row(
            "building it again",
            format!("{:.1} s", figures.rebuild_s),
            format!("at most {REBUILD_S_MAX} s for a million"),
            figures.rebuild_s <= REBUILD_S_MAX * millions,
        ),
        row(
            "memory for building it",
            format!("{} MB", figures.rebuild_mb),
            "none".to_owned(),
            true,
        ),
        row(
            "recording a prompt, in a hook",
            format!("{:.0} µs", figures.append_us),
            format!("at most {APPEND_US_MAX} µs"),
            figures.append_us <= APPEND_US_MAX,
        ),
    ]
}

/// Of a process that a person starts.
fn memory(bytes: u64) -> Row {
    Row {
        what: "memory of `ekiden memory search`".to_owned(),
        figure: format!("{} MB", bytes / 1_000_000),
        baseline: "-".to_owned(),
        promise: format!("at most {} MB", MEMORY_BYTES_MAX / 1_000_000),
        kept: (1..=MEMORY_BYTES_MAX).contains(&bytes),
    }
}

fn start(search_ms: f64, empty_ms: f64) -> Row {
    Row {
        what: "`ekiden memory search` of them".to_owned(),
        figure: format!("{search_ms:.1} ms"),
        baseline: format!("empty program {empty_ms:.1} ms"),
        promise: format!("at most {START_MS_MAX} ms"),
        kept: search_ms <= START_MS_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_can_be_missed() {
        let figures = |own, limit: f64| Figures {
            observations: 500_000.0,
            all: [1.0, own],
            fts5: [300.0, 900.0],
            rebuild_s: 60.0 * limit,
            index_share: 0.6 * limit,
            rebuild_mb: 0,
            append_us: 500.0 * limit,
        };
        assert!(rows(&figures(10.0, 1.0)).iter().all(|row| row.kept));
        let missed = rows(&figures(10.1, 1.1));
        assert!(missed.iter().all(|row| !row.kept || row.promise == "none"));
        assert!(memory(50_000_000).kept && !memory(50_000_001).kept && !memory(0).kept);
        assert!(start(40.0, 1.0).kept && !start(41.0, 1.0).kept);
    }
}
