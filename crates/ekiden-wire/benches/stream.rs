//! How fast an agent's event stream is read, and in how much memory: `cargo bench -p ekiden-wire`.
//!
//! Prints one line of JSON, which `cargo xtask bench` reads. Every reading has a baseline beside it, the
//! search for the ends of lines alone; and showing it, with its secrets masked, has the same without that. The stream is in memory before the measure begins, so what the
//! peak of memory grows by afterwards is what reading needs.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a measure reads the clock and prints; nothing of this is shipped"
)]

use std::time::{Duration, Instant};

use std::hint::black_box;

use ekiden_core::secrets::mask;
use ekiden_testkit::stream_sample::{bench_shown, bench_stream, sample_stream};

/// A long session's stream.
const STREAM_BYTES: usize = 100_000_000;
/// Pairs of readings.
const PAIRS: usize = 7;

fn main() {
    let stream = sample_stream(STREAM_BYTES);
    let before = memory_peak_bytes();
    let counts = bench_stream(&stream);
    assert_eq!(
        counts.malformed, 0,
        "every line of the sample is understood"
    );
    let memory_bytes = memory_peak_bytes()
        .zip(before)
        .map(|(after, before)| after - before);

    let (mut read, mut split) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let (counts, took) = timed(|| bench_stream(&stream));
        read.push(megabytes_a_second(took));
        let (lines, took) = timed(|| memchr::memchr_iter(b'\n', &stream).count());
        split.push(megabytes_a_second(took));
        assert_eq!(
            usize::try_from(counts.lines),
            Ok(lines),
            "every line is read"
        );
    }
    let (mut shown, mut masked) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        let show = |line: &str| drop(black_box(line.to_owned()));
        shown.push(megabytes_a_second(timed(|| bench_shown(&stream, show)).1));
        let show = |line: &str| drop(black_box(mask(line).into_owned()));
        masked.push(megabytes_a_second(timed(|| bench_shown(&stream, show)).1));
    }
    let figures = serde_json::json!({
        "read": read,
        "split": split,
        "shown": shown,
        "masked": masked,
        "memory_bytes": memory_bytes,
    });
    println!("{figures}");
}

fn timed<T>(act: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = act();
    (result, start.elapsed())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a hundred million is exact in a float"
)]
fn megabytes_a_second(took: Duration) -> f64 {
    STREAM_BYTES as f64 / 1e6 / took.as_secs_f64()
}

/// The most memory that this process ever held, where the system tells it.
fn memory_peak_bytes() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes * 1024)
}
