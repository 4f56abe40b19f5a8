//! The cost of the web pages with a hundred runs at work and one that has ten thousand sessions behind it.
//!
//! This uses the real program: runs whose agent sleeps, and one whose agent only hands off. The bench
//! requests pages like a browser, and reports the peak memory of the dash's process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

use super::sessions::{self, AGENT, TASK};
use super::{Row, median};
use crate::shell::{self, Program};

const RUNS: usize = 100;
const SESSIONS: usize = 10_000;
/// How often each page is requested. The first request reads the runs and is not counted.
const LOOKS: usize = 20;
const FIRST_BYTE_MAX: Duration = Duration::from_millis(50);
const PAGE_BYTES_MAX: usize = 300_000;
const MEMORY_BYTES_MAX: u64 = 40_000_000;

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let directory = sessions::place();
    shell::clear(&directory)?;
    let rows = measure_in(&directory);
    for run in 0..RUNS {
        // Those that were not started are not running.
        let _ = ekiden(&directory, &["stop", "--now"], &work(run)).output();
    }
    shell::remove(&directory)?;
    rows
}

fn measure_in(directory: &Path) -> Result<Vec<Row>, String> {
    long_run(directory)?;
    shell::write(&directory.join("task.md"), "Wait for it.\n")?;
    for run in 0..RUNS {
        shell::write(&directory.join(work(run)).join("nothing.txt"), "")?;
        let run = ekiden(directory, &["run"], &work(run));
        let run = run.arg(directory.join("task.md"));
        run.arg("--detach")
            .arg("--agent-command")
            .arg("sleep 600")
            .output()?;
    }
    let mut dash = ekiden(directory, &["dash", "--port", "0"], "").started()?;
    let rows = look(&mut dash);
    let _ = dash.kill();
    let _ = dash.wait();
    rows
}

/// A run that has used up its sessions.
fn long_run(directory: &Path) -> Result<(), String> {
    shell::write(&directory.join("long/nothing.txt"), "")?;
    shell::write(&directory.join("long.md"), TASK)?;
    shell::write(&directory.join("agent.sh"), AGENT)?;
    shell::write(&directory.join("n"), "0\n")?;
    let agent = format!("sh '{}'", directory.join("agent.sh").display());
    ekiden(directory, &["run"], "long")
        .arg(directory.join("long.md"))
        .arg("--max-sessions")
        .arg(SESSIONS.to_string())
        .arg("--agent-command")
        .arg(agent)
        .watch(sessions::STOPPED_EARLY, Duration::from_millis(100), |_| {})
}

fn work(run: usize) -> String {
    format!("work-{run}")
}

/// For a person who has no other runs. Each command gets its work dir, unless that is empty.
fn ekiden(directory: &Path, words: &[&str], work: &str) -> Program {
    let program = Program::new(shell::target_dir().join("release/ekiden"), words)
        .with("HOME", directory.join("home"))
        .with("XDG_STATE_HOME", directory.join("home/state"))
        .with("GIT_CEILING_DIRECTORIES", directory);
    match work {
        "" => program,
        work => program.arg("--work-dir").arg(directory.join(work)),
    }
}

fn look(dash: &mut Child) -> Result<Vec<Row>, String> {
    let mut address = String::new();
    let stdout = dash.stdout.take().ok_or("the dash has no output")?;
    let read = BufReader::new(stdout).read_line(&mut address);
    read.map_err(|error| format!("cannot read the dash's address: {error}"))?;
    let browser = Browser::enter(address.trim())?;
    let (_, index) = browser.get("")?;
    let links = index.matches("href=\"run/").count();
    // All runs except the long one are at work.
    let long = index
        .rsplit_once("href=\"run/")
        .and_then(|(_, rest)| rest.split_once('"'));
    let (long, _) = long.ok_or("the index links no run")?;
    if links != RUNS + 1 {
        return Err(format!("the index links {links} runs, not {}", RUNS + 1));
    }
    let mut rows = Vec::new();
    let mut largest = 0;
    for (what, path) in [
        (format!("dash: index of {RUNS} runs at work"), String::new()),
        (
            format!("dash: run of {SESSIONS} sessions"),
            format!("run/{long}"),
        ),
    ] {
        browser.get(&path)?;
        let mut times = Vec::new();
        for _ in 0..LOOKS {
            let (took, page) = browser.get(&path)?;
            times.push(took.as_secs_f64() * 1000.0);
            largest = largest.max(page.len());
        }
        rows.push(first_byte(&what, median(times)));
    }
    rows.push(page(largest));
    rows.extend(sessions::look(dash.id()).map(|look| memory(look.memory_bytes)));
    Ok(rows)
}

/// A client with access.
struct Browser {
    host: String,
    base: String,
    cookie: String,
}

impl Browser {
    fn enter(address: &str) -> Result<Self, String> {
        let rest = address
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'));
        let (host, path) = rest.ok_or_else(|| format!("`{address}` is no address"))?;
        let mut browser = Self {
            host: host.to_owned(),
            base: String::new(),
            cookie: String::new(),
        };
        let (_, answer) = browser.get(&format!("/{path}"))?;
        let header = |name: &str| {
            let mut lines = answer.lines().filter_map(|line| line.split_once(": "));
            let found = lines.find(|(found, _)| *found == name);
            found.map(|(_, value)| value.to_owned())
        };
        let (base, cookie) = (header("location"), header("set-cookie"));
        browser.base = base.ok_or("the token lets nobody in")?;
        browser.cookie = cookie.ok_or("no cookie is set")?;
        Ok(browser)
    }

    /// The answer, and the time until its first byte.
    fn get(&self, path: &str) -> Result<(Duration, String), String> {
        let Self { host, base, cookie } = self;
        let failed = |error: std::io::Error| format!("cannot read `{path}` of the dash: {error}");
        let mut text = vec![0];
        let (stream, took) = shell::timed(|| {
            let mut stream = TcpStream::connect(host)?;
            stream.write_all(
                format!("GET {base}{path} HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n\r\n")
                    .as_bytes(),
            )?;
            stream.read_exact(&mut text)?;
            Ok(stream)
        });
        stream
            .map_err(failed)?
            .read_to_end(&mut text)
            .map_err(failed)?;
        Ok((took, String::from_utf8_lossy(&text).into_owned()))
    }
}

fn first_byte(what: &str, ms: f64) -> Row {
    let max = FIRST_BYTE_MAX.as_secs_f64() * 1000.0;
    Row {
        what: format!("{what}: first byte"),
        figure: format!("{ms:.1} ms"),
        baseline: "-".to_owned(),
        promise: format!("less than {max:.0} ms"),
        kept: ms < max,
    }
}

fn page(bytes: usize) -> Row {
    Row {
        what: "dash: the larger of both pages".to_owned(),
        figure: format!("{} kB", bytes.div_ceil(1000)),
        baseline: "-".to_owned(),
        promise: format!("less than {} kB", PAGE_BYTES_MAX / 1000),
        kept: bytes < PAGE_BYTES_MAX,
    }
}

fn memory(bytes: u64) -> Row {
    Row {
        what: "dash: memory after both".to_owned(),
        figure: format!("{} MB", bytes.div_ceil(1_000_000)),
        baseline: "-".to_owned(),
        promise: format!("less than {} MB", MEMORY_BYTES_MAX / 1_000_000),
        kept: bytes < MEMORY_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_can_be_missed() {
        let kept = |row: Row| row.kept;
        let first = |ms| kept(first_byte("", ms));
        assert!(first(49.9) && !first(50.0) && !first(f64::NAN));
        assert!(kept(page(299_999)) && !kept(page(300_000)));
        assert!(kept(memory(39_999_999)) && !kept(memory(40_000_000)));
    }
}
