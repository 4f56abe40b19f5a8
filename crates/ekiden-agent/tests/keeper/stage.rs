//! A stage on which an engine, its keepers, an agent and tools play, and can be killed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use ekiden_agent::end_marked;
use ekiden_core::time::Millis;
use rustix::process::{Pid, Signal, kill_process};

pub(crate) const ACTOR: &str = env!("CARGO_BIN_EXE_ekiden-agent-actor");
/// How long anything may take that is not a promise: generous, since machines can be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// RUN-10.
pub(crate) const PROMISE: Duration = Duration::from_secs(5);

/// One engine and what it started. Whatever is left of it is killed when this is dropped.
pub(crate) struct Stage {
    engine: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    marker: String,
}

impl Stage {
    /// Starts the actor as an engine with these arguments.
    pub(crate) fn new(args: &[impl AsRef<OsStr>]) -> Self {
        Self::of("engine", args)
    }

    /// The same for another kind of engine.
    pub(crate) fn of(engine: &str, args: &[impl AsRef<OsStr>]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let marker = format!(
            "{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let (read, write) = std::io::pipe().expect("a pipe");
        let mut command = Command::new(ACTOR);
        command
            .arg(engine)
            .args(args)
            .env("EKIDEN_SESSION_ID", &marker)
            .stdin(Stdio::from(write));
        let engine = command.spawn().expect("an engine");
        drop(command);
        Self {
            engine,
            lines: lines_of(read),
            said: Vec::new(),
            marker,
        }
    }

    /// Waits until each of these parts has been announced so many times.
    pub(crate) fn wait_for(&mut self, parts: &[(&str, usize)]) {
        let until = Instant::now() + PATIENCE;
        while parts
            .iter()
            .any(|(part, count)| self.pids(part).len() < *count)
        {
            let line = self
                .lines
                .recv_timeout(until.saturating_duration_since(Instant::now()));
            self.said.push(
                line.unwrap_or_else(|_| panic!("waited for {parts:?}, heard {:?}", self.said)),
            );
        }
    }

    /// Waits until the lifeline ends and every process that has held it is dead: the end comes a
    /// moment before a process is. Returns how long that took.
    pub(crate) fn wait_for_end(&mut self, within: Duration) -> Result<Duration, String> {
        let start = Instant::now();
        let until = start + within;
        loop {
            match self
                .lines
                .recv_timeout(until.saturating_duration_since(Instant::now()))
            {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) if self.alive().is_empty() => {
                    return Ok(start.elapsed());
                }
                Err(RecvTimeoutError::Disconnected) if Instant::now() < until => {
                    std::thread::yield_now();
                }
                Err(_time_over) => return Err(format!("alive: {:?}", self.alive())),
            }
        }
    }

    /// Waits until nobody who plays this part is alive. There is no event for the death of a process
    /// that is not ours, so it is looked for again and again.
    pub(crate) fn wait_for_death_of(&self, part: &str, within: Duration) {
        let until = Instant::now() + within;
        while self.alive().values().any(|alive| alive == part) {
            assert!(Instant::now() < until, "the {part} is alive");
            std::thread::yield_now();
        }
    }

    /// The pids of everybody who plays this part.
    pub(crate) fn pids(&self, part: &str) -> Vec<Pid> {
        let of_part =
            |line: &String| Pid::from_raw(line.strip_prefix(part)?.trim_start().parse().ok()?);
        self.said.iter().filter_map(of_part).collect()
    }

    /// What the engine said about the end, if it lived to say it.
    pub(crate) fn end(&self) -> Option<&str> {
        self.said.iter().find_map(|line| line.strip_prefix("end "))
    }

    /// Kills these so that none of them can react to another's death.
    pub(crate) fn kill(&self, parts: &[&str]) {
        let victims = parts
            .iter()
            .flat_map(|part| self.pids(part))
            .collect::<Vec<_>>();
        for victim in &victims {
            kill_process(*victim, Signal::STOP).expect("a living victim");
        }
        for victim in &victims {
            // The agent's keeper may be among them, and somebody else may be faster with the agent.
            let _ = kill_process(*victim, Signal::KILL);
        }
    }

    /// What has been announced and is alive. A zombie is not: it waits for its parent only.
    pub(crate) fn alive(&self) -> BTreeMap<u32, String> {
        let alive = |line: &String| {
            let (part, pid) = line.split_once(' ')?;
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let dead = status.contains("State:\tZ") || status.contains("State:\tX");
            (!dead).then_some((pid.parse().ok()?, part.to_owned()))
        };
        self.said.iter().filter_map(alive).collect()
    }

    /// Kills what bears this stage's mark, and returns how many did.
    pub(crate) fn end_marked(&self) -> usize {
        end_marked("EKIDEN_SESSION_ID", &self.marker, Millis::from_secs(20))
            .expect("all of them ended")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = end_marked("EKIDEN_SESSION_ID", &self.marker, Millis::from_secs(5));
        let _ = self.engine.wait();
    }
}

fn lines_of(pipe: PipeReader) -> Receiver<String> {
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    receive
}
