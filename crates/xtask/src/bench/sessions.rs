//! The cost of ten thousand sessions: memory that stays, effort that must not grow, and a log that is read
//! again.
//!
//! This uses the real program with a shell script as its agent, which only hands off, and keeps all files
//! in memory if possible. The run's own log says when a session began. Memory and CPU are read from
//! outside, where the system reports them.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::{IN_MEMORY, Row, median};
use crate::shell::{self, Program};

const SESSIONS: usize = 10_000;
/// Sessions that represent the tenth, and as many for the last one.
const EARLY: Range<usize> = 10..110;
const LATE: Range<usize> = SESSIONS - 101..SESSIONS - 1;
/// The memory that a run may hold after them, including the mapped file of the program itself: 13 MB.
const MEMORY_BYTES_MAX: u64 = 32_000_000;
/// How long `ekiden status` may take, which reads and folds the whole log.
const REPLAY_MAX: Duration = Duration::from_secs(1);
/// By how much a late session may cost more than an early one. The two are seconds apart, and other
/// programs alone change the figure by a quarter; a cost that grows with the sessions shows up in
/// multiples.
const GROWTH_MAX: f64 = 1.5;
/// The exit code of a run whose sessions are used up.
pub(super) const STOPPED_EARLY: i32 = 3;
/// How often the program is sampled.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) const TASK: &str = "# Nothing\n\n- [ ] Hand off for ever\n";
/// Each handoff differs and brings one of 40 facts, and a file changes: ekiden would end a run that changes
/// nothing. The file stays small, since ekiden reads what changed: what an agent writes is not what a session
/// costs.
pub(super) const AGENT: &str = r#"cat > /dev/null
read -r n < ../n || exit 1
n=$((n + 1))
echo "$n" > ../n
echo "$n" > items.txt
cd "$EKIDEN_HANDOFF" || exit 1
cat > PROGRESS.md << END
STATUS: IN_PROGRESS
## Done
Item $n, shown by true.
## Stopped at
The list of items, between two of them.
## Issues
none
END
cat > NEXT_PROMPT.md << END
## Task
Hand off for ever.
## State
Item $n is done. There are no files, no decisions and no facts but this one: it goes on.
## Resume at
The next item of the list in the task, which is the only list that there is.
## What works
true
## What to avoid
nothing so far
## How to verify
Run true and see that it exits with 0.
END
cat > KNOWLEDGE.md << END
## Core Knowledge
- Item $((n % 40)) was done as every item before it, by doing nothing at all.
## Session Log
- Session $n brought a fact.
END
"#;

/// A sample of the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Milliseconds since 1970, as in the log.
    pub(super) at_ms: f64,
    /// All threads, including kernel time.
    pub(super) cpu_ms: f64,
    /// Peak resident memory.
    pub(super) memory_bytes: u64,
}

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let directory = place();
    shell::clear(&directory)?;
    let rows = measure_in(&directory);
    shell::remove(&directory)?;
    rows
}

/// Separate for each checkout's process, since all of them share this memory.
pub(super) fn place() -> PathBuf {
    let memory = Path::new(IN_MEMORY);
    let parent = if memory.is_dir() {
        memory.to_owned()
    } else {
        shell::target_dir()
    };
    parent.join(format!("ekiden-bench-{}", std::process::id()))
}

fn measure_in(directory: &Path) -> Result<Vec<Row>, String> {
    let (task, agent, work) = (
        directory.join("task.md"),
        directory.join("agent.sh"),
        directory.join("work"),
    );
    shell::write(&task, TASK)?;
    shell::write(&agent, AGENT)?;
    shell::write(&directory.join("n"), "0\n")?;
    shell::write(&work.join("nothing.txt"), "")?;
    let run = Program::new(shell::target_dir().join("release/ekiden"), &["run"])
        .arg(&task)
        .arg("--max-sessions")
        .arg(SESSIONS.to_string())
        .arg("--work-dir")
        .arg(&work)
        .arg("--agent-command")
        .arg(format!("sh '{}'", agent.display()))
        // Measured outside a repository, wherever the directory is.
        .with("GIT_CEILING_DIRECTORIES", directory);
    let mut looks = Vec::new();
    run.watch(STOPPED_EARLY, LOOK_EVERY, |pid| looks.extend(look(pid)))?;
    let mut rows = rows(&starts(&shell::read(&find_log(&work)?)?)?, &looks)?;
    let status =
        Program::new(shell::target_dir().join("release/ekiden"), &["status"]).within(&work);
    let times: Result<Vec<f64>, String> = (0..5)
        .map(|_| status.time().map(|took| took.as_secs_f64() * 1e3))
        .collect();
    rows.push(replay(median(times?)));
    Ok(rows)
}

fn rows(starts: &[f64], looks: &[Look]) -> Result<Vec<Row>, String> {
    if starts.len() != SESSIONS {
        return Err(format!("{} sessions began, not {SESSIONS}", starts.len()));
    }
    let time = |sessions: Range<usize>| {
        median(
            sessions
                .map(|session| starts[session + 1] - starts[session])
                .collect(),
        )
    };
    let time = Growth {
        what: "time",
        early: time(EARLY),
        late: time(LATE),
    };
    let mut rows = vec![Row {
        promise: "none".to_owned(),
        kept: true,
        ..time.row()
    }];
    if let Some(last) = looks.last() {
        let cpu = |sessions: Range<usize>| {
            let count = f64::from(u32::try_from(sessions.len()).unwrap_or(u32::MAX));
            (cpu_at(looks, starts[sessions.end]) - cpu_at(looks, starts[sessions.start])) / count
        };
        rows.push(
            Growth {
                what: "own CPU",
                early: cpu(EARLY),
                late: cpu(LATE),
            }
            .row(),
        );
        rows.push(memory(last.memory_bytes));
    }
    Ok(rows)
}

/// The cost of a session, in milliseconds.
struct Growth {
    what: &'static str,
    early: f64,
    late: f64,
}

impl Growth {
    fn row(&self) -> Row {
        let times = self.late / self.early;
        Row {
            what: format!("session {SESSIONS}: {}", self.what),
            figure: format!("{:.1} ms", self.late),
            baseline: format!("session 10 {:.1} ms, {times:.2} times", self.early),
            promise: format!("at most {GROWTH_MAX} times"),
            kept: times <= GROWTH_MAX,
        }
    }
}

fn memory(bytes: u64) -> Row {
    let tenths = bytes.div_ceil(100_000);
    Row {
        what: format!("memory after {SESSIONS} sessions"),
        figure: format!("{}.{} MB", tenths / 10, tenths % 10),
        baseline: "-".to_owned(),
        promise: format!("at most {} MB", MEMORY_BYTES_MAX / 1_000_000),
        kept: bytes <= MEMORY_BYTES_MAX,
    }
}

fn replay(ms: f64) -> Row {
    Row {
        what: format!("`ekiden status` after {SESSIONS} sessions"),
        figure: format!("{ms:.0} ms"),
        baseline: "-".to_owned(),
        promise: format!("less than {} ms", REPLAY_MAX.as_millis()),
        kept: ms < REPLAY_MAX.as_secs_f64() * 1e3,
    }
}

/// The CPU time used up to a moment.
fn cpu_at(looks: &[Look], at_ms: f64) -> f64 {
    let after = looks.partition_point(|look| look.at_ms < at_ms);
    looks
        .get(after)
        .or(looks.last())
        .map_or(f64::NAN, |look| look.cpu_ms)
}

/// Samples a process; `None` if the system reports nothing.
pub(super) fn look(pid: u32) -> Option<Look> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let memory = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = memory.trim().trim_end_matches(" kB").parse().ok()?;
    let mut cpu_ms = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let told = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        cpu_ms += told.split(' ').next()?.parse::<f64>().ok()? / 1e6;
    }
    Some(Look {
        at_ms: shell::now_ms(),
        cpu_ms,
        memory_bytes: kibibytes * 1024,
    })
}

/// The log of the only run.
fn find_log(work: &Path) -> Result<PathBuf, String> {
    let runs = work.join(".ekiden/runs");
    let run = std::fs::read_dir(&runs)
        .ok()
        .and_then(|mut runs| runs.next()?.ok());
    run.map(|run| run.path().join("log.jsonl"))
        .ok_or_else(|| format!("no run in {}", runs.display()))
}

/// When each agent started, in milliseconds.
fn starts(log: &str) -> Result<Vec<f64>, String> {
    let mut starts = Vec::new();
    for line in log.lines() {
        let record: Value =
            serde_json::from_str(line).map_err(|error| format!("cannot read the log: {error}"))?;
        if record["event"]["event"]["event"]["kind"] == "started" {
            starts.extend(record["time"].as_f64());
        }
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(cpu_ms: impl Fn(f64) -> f64) -> Vec<Look> {
        let at = |at_ms| Look {
            at_ms,
            cpu_ms: cpu_ms(at_ms),
            memory_bytes: 9_950_000,
        };
        (0..10_001)
            .map(|session| at(f64::from(session) * 10.0))
            .collect()
    }

    #[test]
    fn what_grows_with_the_sessions_is_found() {
        let starts: Vec<f64> = (0..10_000)
            .map(|session| f64::from(session) * 10.0)
            .collect();
        let kept = |cpu_ms: fn(f64) -> f64| -> Vec<bool> {
            rows(&starts, &looks(cpu_ms))
                .unwrap()
                .iter()
                .map(|row| row.kept)
                .collect()
        };
        assert_eq!(kept(|at| at / 5.0), [true, true, true]);
        assert_eq!(kept(|at| at * at), [true, false, true]);
        assert_eq!(rows(&starts, &looks(|at| at)).unwrap()[2].figure, "10.0 MB");
        assert!(rows(&starts[..7], &[]).is_err());
    }

    #[test]
    fn starts_are_read_from_a_log() {
        let log = concat!(
            r#"{"format":"ekiden-log"}"#,
            "\n",
            r#"{"seq":2,"time":1500,"event":{"kind":"stage","event":{"kind":"attempt","event":{"kind":"started"}}}}"#,
            "\n",
            r#"{"seq":3,"time":1600,"event":{"kind":"stage","event":{"kind":"woke"}}}"#,
        );
        assert_eq!(starts(log), Ok(vec![1500.0]));
        assert!(starts("{").is_err());
    }
}
