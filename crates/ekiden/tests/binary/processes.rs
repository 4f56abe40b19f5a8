//! The processes of an environment: whoever bears its mark, wherever it has gone.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::environment::Environment;

/// RUN-10.
pub(crate) const PROMISE: Duration = Duration::from_secs(5);

/// A living process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// Its words, with blanks between.
    pub(crate) command: String,
}

/// Everything alive of an environment. Outside Linux nobody tells.
pub(crate) fn alive(environment: &Environment) -> Vec<Process> {
    let mark = environment.mark();
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .filter_map(|entry| marked(&entry.ok()?.file_name().into_string().ok()?, &mark))
        .collect()
}

/// Waits until nothing is left alive, for as long as is promised.
#[track_caller]
pub(crate) fn expect_nothing_alive(environment: &Environment) {
    let until = Instant::now() + PROMISE;
    loop {
        let left = alive(environment);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "still alive: {left:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A zombie is not alive: it waits for its parent only. It has no environment any more either.
fn marked(pid: &str, mark: &str) -> Option<Process> {
    let pid = Pid::from_raw(pid.parse().ok()?)?;
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
    let bears_mark = read("environ")?
        .split(|byte| *byte == 0)
        .any(|variable| variable == mark.as_bytes());
    let command = String::from_utf8_lossy(&read("cmdline")?).replace('\0', " ");
    bears_mark.then_some(Process { pid, command })
}
