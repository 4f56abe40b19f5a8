//! The gap between the exit of one agent and the start of the next.

use std::path::Path;

use serde::Deserialize;

use super::{IN_MEMORY, Row, median};
use crate::shell::Program;

/// Every sync is a wait for the disk.
const SYNCS_MAX: u64 = 3;
const CPU_MS_MAX: f64 = 3.0;

/// The output of `ekiden-engine`'s bench, one figure for each handoff.
#[derive(Debug, Deserialize)]
struct Figures {
    syncs: Vec<u64>,
    /// The engine's process, all threads, including kernel time.
    cpu_ms: Vec<f64>,
    /// The same files with the same syncs, by bare calls.
    bare_cpu_ms: Vec<f64>,
    time_ms: Vec<f64>,
    /// `/bin/true`, to its end.
    spawn_ms: Vec<f64>,
}

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let measure = Program::cargo(&[
        "bench",
        "--locked",
        "--package",
        "ekiden-engine",
        "--bench",
        "handoff",
    ]);
    let on_disk = figures(&measure)?;
    let mut rows = vec![syncs(&on_disk), time(&on_disk), cpu("own CPU", &on_disk)];
    if Path::new(IN_MEMORY).is_dir() {
        let in_memory = figures(&measure.with("EKIDEN_BENCH_DIR", IN_MEMORY))?;
        rows.push(cpu("own CPU, files in memory", &in_memory));
    }
    Ok(rows)
}

fn figures(measure: &Program) -> Result<Figures, String> {
    serde_json::from_str(&measure.output()?)
        .map_err(|error| format!("cannot understand what `{measure}` says: {error}"))
}

fn syncs(figures: &Figures) -> Row {
    let most = figures.syncs.iter().copied().max().unwrap_or(u64::MAX);
    Row {
        what: "from agent to agent: syncs".to_owned(),
        figure: format!("{most} at most"),
        baseline: "-".to_owned(),
        promise: format!("at most {SYNCS_MAX}"),
        kept: most <= SYNCS_MAX,
    }
}

fn cpu(what: &str, figures: &Figures) -> Row {
    let (cpu, bare) = (
        median(figures.cpu_ms.clone()),
        median(figures.bare_cpu_ms.clone()),
    );
    Row {
        what: format!("from agent to agent: {what}"),
        figure: format!("{cpu:.2} ms"),
        baseline: format!(
            "the same files by bare calls {bare:.2} ms, {:.1} times",
            cpu / bare
        ),
        promise: format!("at most {CPU_MS_MAX} ms"),
        kept: cpu <= CPU_MS_MAX,
    }
}

fn time(figures: &Figures) -> Row {
    let (time, spawn) = (
        median(figures.time_ms.clone()),
        median(figures.spawn_ms.clone()),
    );
    Row {
        what: "from agent to agent: time".to_owned(),
        figure: format!("{time:.1} ms"),
        baseline: format!(
            "spawning `/bin/true` {spawn:.1} ms, {:.1} times",
            time / spawn
        ),
        promise: "none".to_owned(),
        kept: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sync_too_many_is_one_too_many() {
        let figures = |syncs| Figures {
            syncs,
            cpu_ms: vec![0.5],
            bare_cpu_ms: vec![0.1],
            time_ms: vec![8.0],
            spawn_ms: vec![1.0],
        };
        assert!(syncs(&figures(vec![3, 1, 2])).kept);
        assert!(!syncs(&figures(vec![3, 4, 1])).kept);
        assert!(!syncs(&figures(Vec::new())).kept);
        assert_eq!(
            time(&figures(vec![1])).baseline,
            "spawning `/bin/true` 1.0 ms, 8.0 times"
        );
        assert_eq!(
            cpu("own CPU", &figures(vec![1])).baseline,
            "the same files by bare calls 0.10 ms, 5.0 times"
        );
    }
}
