//! How busy a plan keeps the workers of a fleet, and what a stage costs the server: with workers that
//! sleep, on Temporal's development server. Also the gap between two agents on two workers, with git.
//!
//! `EKIDEN_BENCH_FLEET="200 5000 20"` sets workers, stages, and the seconds that a stage takes. Without it
//! the bench runs fewer than five thousand stages.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{IN_MEMORY, Row};
use crate::shell::Program;

const SIZE: &str = "200 1000 20";
const BUSY_MIN: f64 = 0.95;
/// From a stage's end to the next one's start, minus Temporal's own round trip.
const NEXT_MS_MAX: f64 = 1000.0;
/// Of the server's history, for a stage and its merge.
const EVENTS_MAX: f64 = 13.0;
/// Stages that real workers run, one after the other.
const CHAIN: &str = "12";
const WORKER_KB_MAX: u32 = 30_000;

#[derive(Debug, Deserialize)]
struct Figures {
    workers: u64,
    stages: u64,
    busy: f64,
    events_per_stage: f64,
    histories: u64,
    round_trip_ms: f64,
    next_ms: f64,
}

/// With workers that are separate programs.
#[derive(Debug, Deserialize)]
struct Workers {
    agent_to_agent_ms: f64,
    worker_kb: u32,
}

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let size = std::env::var("EKIDEN_BENCH_FLEET").unwrap_or_else(|_| SIZE.to_owned());
    let target = ["--bin", "ekiden-fleet", "load::measure"];
    let sleepers = told(&test(&target).with("EKIDEN_BENCH_FLEET", size))?;
    let name = "measure_what_lies_between_two_agents";
    let mut chain = test(&["--test", "fleet", name]).with("EKIDEN_BENCH_CHAIN", CHAIN);
    if Path::new(IN_MEMORY).is_dir() {
        chain = chain.with("TMPDIR", IN_MEMORY);
    }
    // Without Temporal's server there is nothing to measure.
    let Some(sleepers) = sleepers else {
        return Ok(Vec::new());
    };
    let workers = told(&chain)?;
    Ok(rows(&sleepers, workers.as_ref()))
}

fn test(target: &[&str]) -> Program {
    let cargo = ["test", "--release", "--locked", "--package", "ekiden-fleet"];
    Program::cargo(&[&cargo[..], target, &["--", "--nocapture"]].concat())
}

/// The result of a measurement, unless it was left out.
fn told<T: DeserializeOwned>(measure: &Program) -> Result<Option<T>, String> {
    let said = measure.output()?;
    let told = said.lines().find(|line| line.starts_with('{'));
    told.map(serde_json::from_str)
        .transpose()
        .map_err(|error| format!("cannot understand what `{measure}` says: {error}"))
}

// shows: FLT-06
fn rows(figures: &Figures, chain: Option<&Workers>) -> Vec<Row> {
    let row = |what: String, figure: String, baseline: String, promise: String, kept| Row {
        what,
        figure,
        baseline,
        promise,
        kept,
    };
    let Figures {
        workers, stages, ..
    } = figures;
    let beside = figures.next_ms - figures.round_trip_ms;
    let histories = figures.histories;
    let trip = format!("Temporal's round trip {:.0} ms", figures.round_trip_ms);
    let mut rows = vec![
        row(
            format!("{stages} stages on {workers} workers"),
            format!("{:.1} % of the ideal", figures.busy * 100.0),
            format!("{histories} histories"),
            format!("at least {:.0} %", BUSY_MIN * 100.0),
            figures.busy >= BUSY_MIN,
        ),
        row(
            "from a stage to the next on another worker".to_owned(),
            format!("{:.0} ms", figures.next_ms),
            trip.clone(),
            format!("at most {NEXT_MS_MAX} ms more"),
            beside <= NEXT_MS_MAX,
        ),
        row(
            "events of the server's history for a stage".to_owned(),
            format!("{:.1}", figures.events_per_stage),
            "-".to_owned(),
            format!("at most {EVENTS_MAX}"),
            figures.events_per_stage <= EVENTS_MAX,
        ),
    ];
    if let Some(chain) = chain {
        let mb = |kb| f64::from(kb) / 1000.0;
        rows.push(row(
            "from an agent's end to the next one's start, with git".to_owned(),
            format!("{:.0} ms", chain.agent_to_agent_ms),
            trip,
            format!("at most {NEXT_MS_MAX} ms more"),
            chain.agent_to_agent_ms - figures.round_trip_ms <= NEXT_MS_MAX,
        ));
        rows.push(row(
            "memory of a worker".to_owned(),
            format!("{:.1} MB", mb(chain.worker_kb)),
            "-".to_owned(),
            format!("at most {:.0} MB", mb(WORKER_KB_MAX)),
            chain.worker_kb <= WORKER_KB_MAX,
        ));
    }
    rows
}
