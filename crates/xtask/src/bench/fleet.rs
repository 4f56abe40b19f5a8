//! How busy a plan keeps the workers of a fleet, and what a stage costs the server: workers that sleep, on Temporal's
//! development server.
//!
//! Fewer stages than five thousand, unless `EKIDEN_BENCH_FLEET="200 5000 20"` says otherwise: workers, stages, and the seconds
//! that a stage takes.

use serde::Deserialize;

use super::Row;
use crate::shell::Program;

const SIZE: &str = "200 1000 20";
const BUSY_MIN: f64 = 0.95;
/// From a stage's end to the next one's beginning, less what Temporal itself takes for one round trip.
const NEXT_MS_MAX: f64 = 1000.0;
/// Of the server's history, for a stage and its merge.
const EVENTS_MAX: f64 = 13.0;

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

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let size = std::env::var("EKIDEN_BENCH_FLEET").unwrap_or_else(|_| SIZE.to_owned());
    let measure = Program::cargo(&[
        "test",
        "--release",
        "--locked",
        "--package",
        "ekiden-fleet",
        "--bin",
        "ekiden-fleet",
        "load::measure",
        "--",
        "--nocapture",
    ])
    .with("EKIDEN_BENCH_FLEET", size);
    let said = measure.output()?;
    // Without Temporal's server there is nothing to measure.
    let Some(told) = said.lines().find(|line| line.starts_with('{')) else {
        return Ok(Vec::new());
    };
    let figures = serde_json::from_str(told)
        .map_err(|error| format!("cannot understand what `{measure}` says: {error}"))?;
    Ok(rows(&figures))
}

// shows: FLT-06
fn rows(figures: &Figures) -> Vec<Row> {
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
    vec![
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
            format!("Temporal's round trip {:.0} ms", figures.round_trip_ms),
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
    ]
}
