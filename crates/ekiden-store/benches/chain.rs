//! What the chain costs a record: `cargo bench -p ekiden-store`.
//!
//! Prints one line of JSON, which `cargo xtask bench` reads: microseconds for each record, by the log's writer
//! with its links and their copy, and in turns by a bare append of the same JSON. In memory where there is such a
//! place, so that no disk's mood hides the difference.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a measure makes its own place, reads the clock and prints; nothing of this is shipped"
)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ekiden_store::disk::{Disk, Reach, RealDisk};
use ekiden_store::log::{LogWriter, Numbered};
use serde::{Deserialize, Serialize};

const IN_MEMORY: &str = "/dev/shm";
/// The sizes of records as runs have them, and how many of each.
const BYTES: [usize; 3] = [500, 4_000, 20_000];
const RECORDS: u64 = 1_000;

#[derive(Serialize, Deserialize)]
struct Record {
    seq: u64,
    event: String,
}

impl Numbered for Record {
    fn seq(&self) -> u64 {
        self.seq
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let memory = Path::new(IN_MEMORY);
    let place = match memory.is_dir() {
        true => memory,
        false => Path::new(env!("CARGO_TARGET_TMPDIR")),
    };
    let (mut chained, mut bare) = (Vec::new(), Vec::new());
    for bytes in BYTES {
        let dir = tempfile::tempdir_in(place)?;
        let (of_chained, of_bare) = measured(dir.path(), bytes)?;
        chained.push(of_chained);
        bare.push(of_bare);
    }
    let figures = serde_json::json!({ "chained_us": chained, "bare_us": bare });
    println!("{figures}");
    Ok(())
}

/// The medians for records of this size.
fn measured(dir: &Path, bytes: usize) -> Result<(f64, f64), Box<dyn Error>> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::fenced(dir));
    let (log, bare) = (dir.join("log.jsonl"), dir.join("bare.jsonl"));
    let record = |seq| Record {
        seq,
        event: "x".repeat(bytes),
    };
    let copy = Some(dir.join("links"));
    let mut writer = LogWriter::create(Arc::clone(&disk), &log, copy, &record(1))?;
    disk.create_file(&bare, b"", Reach::Disk)?;
    let (mut of_chained, mut of_bare, mut len) = (Vec::new(), Vec::new(), 0);
    for seq in 2..RECORDS {
        let record = record(seq);
        let began = Instant::now();
        writer.append(&record)?;
        of_chained.push(began.elapsed());
        let began = Instant::now();
        let mut line = serde_json::to_vec(&record)?;
        line.push(b'\n');
        disk.append(&bare, len, &line, Reach::Disk)?;
        of_bare.push(began.elapsed());
        len += line.len() as u64;
    }
    Ok((median_us(of_chained), median_us(of_bare)))
}

fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}
