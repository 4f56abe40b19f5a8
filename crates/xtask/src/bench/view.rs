//! The cost of the live view: for the process that watches a busy plan, and for the run that it watches.
//!
//! The view needs a terminal, which `script` provides. Its output is thrown away.

use std::fs::FileType;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::Duration;

use super::plan::{self, gaps};
use super::sessions::{self, Look};
use super::{Row, median};
use crate::shell::{self, Program};

const STAGES: usize = 32;
/// The time between two responses of a stage's agent: together they make more than 200 events a second.
const STEP_MS: &str = "500";
const EVENTS_A_SECOND: f64 = 200.0;
const WATCHED: Duration = Duration::from_secs(10);
const CPU_PERCENT_MAX: f64 = 2.0;
/// How often the chain of stages is run with a view and without one.
const ROUNDS: usize = 3;
/// Room only for the machine's noise.
const GAP_TIMES_MAX: f64 = 1.5;

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let mut rows = vec![gap()?];
    let place = shell::target_dir().join("bench/view");
    shell::clear(&place)?;
    shell::write(&place.join("project/plan.toml"), &busy_plan())?;
    // Without a repository stages work one at a time.
    plan::begin_repository(&place.join("project"))?;
    let run = ekiden(&place, "execute")
        .arg("--agent")
        .arg("rehearsal")
        .arg("--yes")
        .arg("--no-notify")
        .arg("--detach")
        .arg("--jobs")
        .arg(STAGES.to_string())
        .arg(place.join("project/plan.toml"));
    run.with("EKIDEN_REHEARSAL_STEP_MS", STEP_MS).output()?;
    let row = watch(&place);
    let _ = ekiden(&place, "stop").arg("--now").output();
    rows.push(row?);
    Ok(rows)
}

// shows: UIX-01
fn gap() -> Result<Row, String> {
    let place = shell::target_dir().join("bench/view-gap");
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.extend(gaps(&place.join("without"), plan::Place::Plain)?);
        with.extend(gaps(&place.join("with"), plan::Place::Terminal)?);
    }
    let (without, with) = (median(without), median(with));
    Ok(Row {
        what: "from a stage's end to the next one's agent, with a view".to_owned(),
        figure: format!("{with:.1} ms"),
        baseline: format!("without {without:.1} ms, {:.2} times", with / without),
        promise: format!("at most {GAP_TIMES_MAX} times"),
        kept: with / without <= GAP_TIMES_MAX,
    })
}

// shows: UIX-01
fn watch(place: &Path) -> Result<Row, String> {
    let mut watching = ekiden(place, "attach").on_terminal().started()?;
    let looked = look_for_a_while(place, &mut watching);
    let _ = watching.kill();
    let _ = watching.wait();
    let (begin, end, events) = looked?;
    let seconds = (end.at_ms - begin.at_ms) / 1e3;
    let cpu_seconds = (end.cpu_ms - begin.cpu_ms) / 1e3;
    let (rate, percent) = (events as f64 / seconds, 100.0 * cpu_seconds / seconds);
    if rate < EVENTS_A_SECOND {
        return Err(format!("the agents made {rate:.0} events a second only"));
    }
    Ok(Row {
        what: format!("watching {STAGES} stages at {rate:.0} events a second"),
        figure: format!("{percent:.1} % of a core"),
        baseline: format!(
            "a whole core has room for {:.0} a second",
            events as f64 / cpu_seconds
        ),
        promise: format!("less than {CPU_PERCENT_MAX} %"),
        kept: percent < CPU_PERCENT_MAX,
    })
}

/// What the watching process used, and how many events there were in that time.
fn look_for_a_while(place: &Path, script: &mut Child) -> Result<(Look, Look, u64), String> {
    let shown = script.stdout.take().ok_or("`script` has no output")?;
    thread::spawn(move || std::io::copy(&mut { shown }, &mut std::io::sink()));
    thread::sleep(Duration::from_secs(2));
    let children = format!("/proc/{0}/task/{0}/children", script.id());
    let pid = shell::read(Path::new(&children))?;
    let pid = pid.split(' ').next().and_then(|pid| pid.parse().ok());
    let look = || pid.and_then(sessions::look);
    let gone = "nothing watches any more";
    let (begin, events) = (look().ok_or(gone)?, events_below(place));
    thread::sleep(WATCHED);
    let (end, all) = (look().ok_or(gone)?, events_below(place));
    Ok((begin, end, all - events))
}

/// The lines of all event streams.
fn events_below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    // A directory, not a link to one: files behind a link would be counted twice.
    let of = |(path, kind): (PathBuf, FileType)| match kind.is_dir() {
        true => events_below(&path),
        false if path.file_name().is_some_and(|name| name == "events.jsonl") => {
            let stream = std::fs::read(path).unwrap_or_default();
            stream.iter().filter(|byte| **byte == b'\n').count() as u64
        }
        false => 0,
    };
    let entries = entries.flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.file_type().ok()?)))
        .map(of)
        .sum()
}

fn busy_plan() -> String {
    let items: String = (0..100)
        .map(|at| format!("- [ ] Item {at}\n  ```sh\n  true\n  ```\n"))
        .collect();
    let stages = (0..STAGES).map(|at| {
        format!("[[stage]]\nid = \"S{at}\"\nname = \"Stage {at}\"\nprompt = '''\n{items}'''\n\n")
    });
    format!(
        "format = 1\nproject = \"busy\"\n\n{}",
        stages.collect::<String>()
    )
}

fn ekiden(place: &Path, command: &str) -> Program {
    Program::new(shell::target_dir().join("release/ekiden"), &[command])
        .with("HOME", place.join("home"))
        .with("EKIDEN_STATE_DIR", place.join("home/state"))
        .with("EKIDEN_REHEARSAL_WINDOW", "1000000")
        .with("GIT_CEILING_DIRECTORIES", place)
        .arg("--work-dir")
        .arg(place.join("project"))
}
