//! Stands before the client and tells when it came and went.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// The argument that makes this program the wrapper: `ROLE TIMES PROGRAM ARGS...`.
pub(crate) const ROLE: &str = "wrapper";

/// Becomes the wrapper and never returns, if the command line says so.
pub(crate) fn run_if_asked() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() != Some(ROLE.as_ref()) {
        return;
    }
    let began = now_ms();
    let (times, program) = (args.next().unwrap_or_default(), args.next().unwrap_or_default());
    let ended = Command::new(program).args(args).status();
    let line = format!("{began} {}\n", now_ms());
    let told = OpenOptions::new().append(true).create(true).open(times);
    let told = told.and_then(|mut file| file.write_all(line.as_bytes()));
    std::process::exit(code(&ended, told.is_ok()));
}

fn code(ended: &io::Result<std::process::ExitStatus>, told: bool) -> i32 {
    ended.as_ref().ok().filter(|_| told).and_then(std::process::ExitStatus::code).unwrap_or(1)
}

/// From each client's end to the next one's beginning.
pub(crate) fn gaps(times: &str) -> Vec<f64> {
    let lives: Vec<(f64, f64)> = times
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(began, ended)| Some((began.parse().ok()?, ended.parse().ok()?)))
        .collect();
    lives.windows(2).map(|pair| pair[1].0 - pair[0].1).collect()
}

/// On the clock that all processes share.
fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1e3)
}
