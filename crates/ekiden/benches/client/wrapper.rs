//! Runs in front of the client and records when it started and ended.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
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
    let (times, program) = (
        args.next().unwrap_or_default(),
        args.next().unwrap_or_default(),
    );
    let ended = Command::new(program).args(args).status();
    let line = format!("{began} {}\n", now_ms());
    let told = OpenOptions::new().append(true).create(true).open(times);
    let told = told.and_then(|mut file| file.write_all(line.as_bytes()));
    std::process::exit(code(&ended, told.is_ok()));
}

fn code(ended: &io::Result<std::process::ExitStatus>, told: bool) -> i32 {
    ended
        .as_ref()
        .ok()
        .filter(|_| told)
        .and_then(std::process::ExitStatus::code)
        .unwrap_or(1)
}

/// From each client's end to the next one's start.
pub(crate) fn gaps(times: &str) -> Vec<f64> {
    let lives: Vec<(f64, f64)> = times
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(began, ended)| Some((began.parse().ok()?, ended.parse().ok()?)))
        .collect();
    lives.windows(2).map(|pair| pair[1].0 - pair[0].1).collect()
}

/// How long this wrapper takes from its exec to its start: `spawn` returns when the exec is done. The
/// median of as many starts as there are sessions, in front of a program that does nothing.
pub(crate) fn start_ms(own: &str, times: &Path, count: u32) -> io::Result<f64> {
    let mut starts = Vec::new();
    for _ in 0..count {
        let mut wrapper = Command::new(own).arg(ROLE).arg(times).arg("true").spawn()?;
        starts.push(now_ms());
        wrapper.wait()?;
    }
    let told = std::fs::read_to_string(times)?;
    let began = told
        .lines()
        .filter_map(|line| line.split_once(' ')?.0.parse::<f64>().ok());
    let mut taken: Vec<f64> = began
        .zip(starts)
        .map(|(began, started)| began - started)
        .collect();
    taken.sort_by(f64::total_cmp);
    Ok(taken.get(taken.len() / 2).copied().unwrap_or(0.0).max(0.0))
}

/// On the clock that all processes share.
fn now_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64() * 1e3)
}
