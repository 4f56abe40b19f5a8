//! What ekiden adds to the real client: `cargo bench -p ekiden`.
//!
//! Prints one line of JSON, which `cargo xtask bench` reads, or `null` if the client is not installed. The
//! client talks to a fake Messages API in this process. Everything else but git is as a user has it,
//! including files on a real disk.
//!
//! - **From client to client.** A relay whose sessions only hand off. This program runs in front of the
//!   client ([`wrapper`]) and records when it started itself and when the client was gone. The time that it
//!   needs from its exec to its start is measured in the same run and left out. For comparison, the output
//!   also has the same gap by the log (from the record of an end to the record of the next start), and that
//!   gap for a relay of `rehearsal`.
//! - **CPU.** One session of sixty tool turns, all of which read a file, so that no tool costs anything.
//!   The bench samples all processes below this one ([`tree`]). Those that run ekiden's program (the engine
//!   and its keepers) count as ekiden, all others as the client.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a measure makes its own place, spawns and prints; nothing of this is shipped"
)]

mod model;
mod tree;
mod wrapper;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ekiden_testkit::client::{CleanEnvironment, find_real_client};
use ekiden_testkit::messages_api::MessagesApi;
use serde_json::{Value, json};

use tree::Tree;

const SESSIONS: u32 = 21;
const TURNS: usize = 60;
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The exit code of a run whose sessions are used up.
const STOPPED_EARLY: i32 = 3;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    wrapper::run_if_asked();
    let Some(client) = find_real_client() else {
        println!("null");
        return Ok(());
    };
    let handoff = from_client_to_client(&client)?;
    let rehearsal_ms = from_rehearsal_to_rehearsal()?;
    let Tree {
        ekiden_ms,
        client_ms,
    } = cpu(&client)?;
    let Handoff {
        exec_ms,
        start_ms,
        logged_ms,
    } = handoff;
    let figures = json!({
        "exec_ms": exec_ms, "wrapper_ms": start_ms, "logged_ms": logged_ms, "rehearsal_ms": rehearsal_ms,
        "ekiden_cpu_ms": ekiden_ms, "client_cpu_ms": client_ms,
    });
    println!("{figures}");
    Ok(())
}

/// The gaps between two clients, by their own clock and by the log's.
struct Handoff {
    exec_ms: Vec<f64>,
    /// The wrapper's share of each, which is left out.
    start_ms: f64,
    logged_ms: Vec<f64>,
}

fn from_client_to_client(client: &Path) -> Result<Handoff> {
    let dir = project()?;
    let times = dir.path().join("times");
    let work = work_dir(dir.path())?;
    let api = MessagesApi::start(model::hands_off(work.clone()));
    let wrapped = [
        own_path()?,
        wrapper::ROLE.to_owned(),
        text(&times)?,
        text(client)?,
    ];
    let sessions = SESSIONS.to_string();
    let mut command = with_client(&work, &api, &wrapped)?;
    let status = command
        .args(["-m", &sessions, "--stall-sessions", "0"])
        .status()?;
    expect(
        status.code() == Some(STOPPED_EARLY),
        "all sessions were used",
    )?;
    let start_ms = wrapper::start_ms(&own_path()?, &dir.path().join("starts"), SESSIONS)?;
    let exec_ms = wrapper::gaps(&std::fs::read_to_string(times)?)
        .into_iter()
        .map(|gap| gap - start_ms);
    Ok(Handoff {
        exec_ms: exec_ms.collect(),
        start_ms,
        logged_ms: gaps(&work)?,
    })
}

/// The same with `rehearsal`, whose window is full after two items.
fn from_rehearsal_to_rehearsal() -> Result<Vec<f64>> {
    let dir = project()?;
    let work = work_dir(dir.path())?;
    let item =
        |number| format!("- [ ] Item {number}\n\n  ```sh\n  touch item-{number}.txt\n  ```\n");
    let items: String = (0..3 * SESSIONS).map(item).collect();
    std::fs::write(work.join("task.md"), format!("Make some items.\n\n{items}"))?;
    std::fs::write(
        work.join("scenario.toml"),
        "[[act]]\nat = 'call 2'\ndo = { fill = 30000 }\n",
    )?;
    let sessions = SESSIONS.to_string();
    let mut command = ekiden(&work);
    command.args([
        "--agent",
        "rehearsal",
        "-m",
        &sessions,
        "--stall-sessions",
        "0",
    ]);
    command
        .env("EKIDEN_REHEARSAL_SCENARIO", "scenario.toml")
        .env("EKIDEN_REHEARSAL_WINDOW", "80000");
    command.env("EKIDEN_REHEARSAL_STEP_MS", "20");
    let status = command.status()?;
    expect(
        status.code() == Some(STOPPED_EARLY),
        "all sessions of `rehearsal` were used",
    )?;
    gaps(&work)
}

fn cpu(client: &Path) -> Result<Tree> {
    let dir = project()?;
    let work = work_dir(dir.path())?;
    let api = MessagesApi::start(model::reads(work.clone(), TURNS));
    let mut run = with_client(&work, &api, &[text(client)?])?
        .args(["-m", "1"])
        .spawn()?;
    let mut seen = tree::Seen::default();
    let status = loop {
        seen.look(run.id(), Path::new(env!("CARGO_BIN_EXE_ekiden")));
        if let Some(status) = run.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    expect(status.success(), "the session came to its end")?;
    expect(
        api.main_requests().len() >= TURNS,
        "there were as many turns",
    )?;
    Ok(seen.sum())
}

/// An empty directory on the disk that cargo builds on, since on another one a sync may cost nothing.
fn project() -> Result<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

/// A work dir in it, outside git: the time that git itself takes for a survey is the same in any case.
fn work_dir(dir: &Path) -> Result<PathBuf> {
    let work = dir.canonicalize()?.join("work");
    std::fs::create_dir(&work)?;
    std::fs::write(work.join("task.md"), "Make some items.\n")?;
    Ok(work)
}

/// `ekiden run` of the task in a work dir.
fn ekiden(work: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ekiden"));
    command
        .current_dir(work)
        .args(["run", "task.md", "--no-notify"]);
    keep_out_of_git(&mut command, work);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// The same with the client, in its own environment.
fn with_client(work: &Path, api: &MessagesApi, words: &[String]) -> Result<Command> {
    let environment = CleanEnvironment::new(api)?;
    let config = work.with_file_name("config");
    std::fs::create_dir_all(config.join("ekiden"))?;
    let agent = format!(
        "[agents.claude]\nkind = \"claude\"\ncommand = {}\n",
        json!(words)
    );
    std::fs::write(config.join("ekiden/config.toml"), agent)?;
    let home = work.with_file_name("home");
    std::fs::create_dir_all(&home)?;
    let mut command = ekiden(work);
    command
        .env_clear()
        .envs(environment.variables())
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", config);
    keep_out_of_git(&mut command, work);
    command.args(["--permission-mode", "acceptEdits"]);
    Ok(command)
}

/// Keeps git from finding a repository around it.
fn keep_out_of_git(command: &mut Command, work: &Path) {
    command.env("GIT_CEILING_DIRECTORIES", work.parent().unwrap_or(work));
}

/// What the log of the only run has between the end of an attempt and the start of the next.
fn gaps(work: &Path) -> Result<Vec<f64>> {
    let run = std::fs::read_dir(work.join(".ekiden/runs"))?
        .next()
        .ok_or("there is no run")??;
    let log = std::fs::read_to_string(run.path().join("log.jsonl"))?;
    let (mut gaps, mut ended) = (Vec::new(), None);
    for line in log.lines().skip(1) {
        let record: Value = serde_json::from_str(line)?;
        let time = record["time"].as_f64();
        match (record["event"]["event"]["event"]["kind"].as_str(), ended) {
            (Some("ended"), _) => ended = time,
            (Some("started"), Some(end)) => gaps.extend(time.map(|time| time - end)),
            (_, _) => {}
        }
    }
    Ok(gaps)
}

fn own_path() -> Result<String> {
    text(&std::env::current_exe()?)
}

fn text(path: &Path) -> Result<String> {
    Ok(path.to_str().ok_or("a path is no text")?.to_owned())
}

fn expect(so: bool, what: &str) -> Result<()> {
    if so {
        Ok(())
    } else {
        Err(format!("it is not so that {what}").into())
    }
}
