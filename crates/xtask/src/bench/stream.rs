//! How fast an agent's event stream is read and shown, and in how much memory.

use serde::Deserialize;

use super::{Row, median};
use crate::shell::Program;

const MEGABYTES_A_SECOND_MIN: f64 = 300.0;
/// How much memory reading may hold, however long the stream is.
const MEMORY_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// How much slower masking secrets makes the display of a stream.
const MASKING_PERCENT_MAX: f64 = 5.0;

/// The output of `ekiden-wire`'s bench.
#[derive(Debug, Deserialize)]
struct Figures {
    /// Megabytes per second, read as the engine does.
    read: Vec<f64>,
    /// Megabytes per second, only looking for the ends of lines.
    split: Vec<f64>,
    /// Megabytes per second, including the lines that are shown.
    shown: Vec<f64>,
    /// The same with secrets masked in these lines.
    masked: Vec<f64>,
    /// By how much the peak of memory grew while reading; `None` if the system does not report it.
    memory_bytes: Option<u64>,
}

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let measure = Program::cargo(&[
        "bench",
        "--locked",
        "--package",
        "ekiden-wire",
        "--bench",
        "stream",
    ]);
    let figures: Figures = serde_json::from_str(&measure.output()?)
        .map_err(|error| format!("cannot understand what `{measure}` says: {error}"))?;
    let held = figures.memory_bytes.map(held);
    let (shown, masked) = (figures.shown.clone(), figures.masked.clone());
    let rows = [speed(figures), masking(median(shown), median(masked))];
    Ok(rows.into_iter().chain(held).collect())
}

fn speed(figures: Figures) -> Row {
    let (read, split) = (median(figures.read), median(figures.split));
    Row {
        what: "event stream of 100 MB".to_owned(),
        figure: format!("{read:.0} MB/s"),
        baseline: format!(
            "ends of lines alone {split:.0} MB/s, {:.1} times as fast",
            split / read
        ),
        promise: format!("at least {MEGABYTES_A_SECOND_MIN} MB/s"),
        kept: read >= MEGABYTES_A_SECOND_MIN,
    }
}

fn masking(shown: f64, masked: f64) -> Row {
    let percent = (shown / masked - 1.0) * 100.0;
    Row {
        what: "the same, shown with secrets masked".to_owned(),
        figure: format!("{masked:.0} MB/s"),
        baseline: format!("not masked {shown:.0} MB/s, {percent:.1} % more time"),
        promise: format!("at most {MASKING_PERCENT_MAX} % more"),
        kept: percent <= MASKING_PERCENT_MAX,
    }
}

fn held(bytes: u64) -> Row {
    Row {
        what: "memory for reading it".to_owned(),
        figure: format!("{} KiB", bytes.div_ceil(1024)),
        baseline: "-".to_owned(),
        promise: format!("at most {} KiB", MEMORY_BYTES_MAX / 1024),
        kept: bytes <= MEMORY_BYTES_MAX,
    }
}
