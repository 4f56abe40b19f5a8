//! The agent: goes on where the handoff before ended, hands off, and tells its times.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The argument that makes this program the agent.
pub(crate) const ROLE: &str = "agent";
/// Long enough for the engine to record the start and to archive the handoff before.
const REST: Duration = Duration::from_millis(100);
/// Precedes the number that a session hands to the next.
const ITEM: &str = "Item number ";

/// What an agent tells of its life, on the clock that all processes share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    /// Its first moment.
    pub(crate) began: Duration,
    /// How long `/bin/true` took.
    pub(crate) spawn: Duration,
    /// Its last moment.
    pub(crate) ended: Duration,
    /// The CPU time that the engine had used by then.
    pub(crate) engine_cpu: Duration,
}

impl Life {
    /// Reads what an agent left at its end.
    pub(crate) fn read(file: &Path) -> Option<Self> {
        let told = fs::read_to_string(file).ok()?;
        let mut times = told
            .split_whitespace()
            .map(|word| word.parse().map(Duration::from_nanos));
        let mut next = || times.next()?.ok();
        Some(Self {
            began: next()?,
            spawn: next()?,
            ended: next()?,
            engine_cpu: next()?,
        })
    }
}

/// Becomes the agent and never returns, if the command line says so: the engine's process and the file for its
/// own life follow.
pub(crate) fn run_if_asked() {
    if std::env::args().nth(1).as_deref() == Some(ROLE) {
        let began = now();
        std::process::exit(i32::from(live(began).is_err()));
    }
}

fn live(began: Duration) -> io::Result<()> {
    let mut prompt = String::new();
    io::stdin().read_to_string(&mut prompt)?;
    let start = now();
    Command::new("/bin/true")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()?;
    let spawn = now() - start;
    thread::sleep(REST);
    hand_off(last_item(&prompt) + 1)?;
    let (engine, file) = (argument(2)?, argument(3)?);
    let engine_cpu = cpu_of(&engine)?;
    // Not said aloud: to hear it would be work of the engine's, while this process still lives.
    let told = format!(
        "{} {} {} {engine_cpu}",
        began.as_nanos(),
        spawn.as_nanos(),
        now().as_nanos()
    );
    fs::write(file, told)
}

fn argument(at: usize) -> io::Result<String> {
    std::env::args()
        .nth(at)
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// What all its threads have used, in nanoseconds. They rest now, so the kernel knows it exactly; and none has
/// ended yet, since the whole measure takes less than the time for which the runtime keeps idle ones.
fn cpu_of(engine: &str) -> io::Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{engine}/task"))? {
        let stat = fs::read_to_string(thread?.path().join("schedstat"))?;
        sum += stat
            .split(' ')
            .next()
            .and_then(|cpu| cpu.parse::<u64>().ok())
            .unwrap_or_default();
    }
    Ok(sum)
}

/// The number in the notes of the session before.
fn last_item(prompt: &str) -> u32 {
    let number = prompt
        .rsplit(ITEM)
        .next()
        .filter(|rest| rest.len() < prompt.len());
    let digits = number.map(|rest| {
        rest.split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap_or_default()
    });
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

fn hand_off(item: u32) -> io::Result<()> {
    let dir = std::env::var_os("EKIDEN_HANDOFF")
        .map(PathBuf::from)
        .ok_or(io::ErrorKind::NotFound)?;
    let write = |name: &str, text: String| fs::write(Path::new(&dir).join(name), text);
    write(
        "PROGRESS.md",
        format!(
            "# Progress\n\nSTATUS: IN_PROGRESS\n\n## Done\n\n- {ITEM}{item} (`true`: exit code 0).\n\n\
             ## Stopped at\n\nBetween two items; nothing is half done.\n\n## Issues\n\nnone\n"
        ),
    )?;
    write(
        "KNOWLEDGE.md",
        format!(
            "## Core Knowledge\n\n- none\n\n## Session Log\n\n- Did the item with the number {item}.\n"
        ),
    )?;
    write(
        "NEXT_PROMPT.md",
        format!(
            "# Next\n\n## Task\n\nHand off for ever, one item in each session.\n\n## State\n\n\
             All items up to this one are done. There are no files and no decisions.\n\n\
             ## Resume at\n\nThe item after this one.\n\n## What works\n\n`true` exits with 0.\n\n\
             ## What to avoid\n\nnothing so far\n\n## How to verify\n\n`true` must exit with 0. {ITEM}{item}.\n"
        ),
    )
}

fn now() -> Duration {
    clock_gettime(ClockId::Monotonic)
        .try_into()
        .unwrap_or_default()
}
