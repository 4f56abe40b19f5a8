//! The hidden role that carries out one stage: an engine of its own, in a process of its own.
//!
//! It reads what to do from standard input, writes a line whenever a session's handoff is accepted, and the
//! outcome as its last line. SIGTERM stops it as it stops any run.

use std::io::{Write as _, stdin, stdout};
use std::path::PathBuf;

use ekiden_core::event::{Event, RelayEvent, RunResumed, TaskOutcome};
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::text::in_full;
use ekiden_engine::log_check::ChangedLog;
use ekiden_engine::observer::Observer;
use ekiden_engine::runner::{self, Driving, Unfinished};
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{EngineError, history};
use serde::{Deserialize, Serialize};

/// The first argument that asks for this role.
pub(crate) const ROLE: &str = "__stage";
/// The work dir's state is kept here, in the attempt's place.
pub(crate) const STATE: &str = "state";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StageJob {
    pub(crate) header: RunStarted,
    pub(crate) work_dir: PathBuf,
    pub(crate) state_dir: PathBuf,
    /// There is a log to go on from.
    pub(crate) goes_on: bool,
}

/// A line of its output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// A handoff was accepted.
    Handoff,
    Ended(Outcome),
    Failed(String),
}

pub(crate) fn run() -> i32 {
    let ended = serde_json::from_reader(stdin().lock())
        .map_err(|error| error.to_string())
        .and_then(|job: StageJob| carry_out(job).map_err(|error| in_full(&error)));
    let (told, code) = match ended {
        Ok(outcome) => (Line::Ended(outcome), 0),
        Err(why) => (Line::Failed(why), 1),
    };
    tell(&told);
    code
}

fn carry_out(job: StageJob) -> Result<Outcome, EngineError> {
    // What the log's chain is compared with stays on the machine where it was made, so it is not asked here. The
    // remote's own access rules say who can write a log.
    let workspace = Workspace {
        state_dir: job.state_dir,
        is_trusted: true,
        ..Workspace::find(&job.work_dir, None)?
    };
    let run = job.header.run.clone();
    let mut teller = Teller;
    if !job.goes_on {
        let set_aside = Unfinished::SetAside;
        return runner::start(
            &workspace,
            job.header,
            set_aside,
            Driving::alone(),
            &mut teller,
        );
    }
    let found = history::read(&workspace, &run, |_, _| {})?;
    if let Some(outcome) = found.run.outcome().filter(|outcome| outcome.is_final()) {
        return Ok(outcome.clone());
    }
    let resumed = RunResumed {
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        ..RunResumed::default()
    };
    let (id, accept) = (Some(run.as_str()), ChangedLog::Accept);
    runner::resume(
        &workspace,
        id,
        resumed,
        accept,
        Driving::alone(),
        &mut teller,
    )
}

struct Teller;

impl Observer for Teller {
    fn recorded(&mut self, record: &Record, _run: &Run) {
        if let Event::Stage {
            event:
                RelayEvent::Task {
                    outcome: TaskOutcome::Archived,
                    ..
                },
            ..
        } = &record.event
        {
            tell(&Line::Handoff);
        }
    }
}

/// The worker reads these lines. If it is gone, the keeper ends us.
fn tell(told: &Line) {
    if let Ok(mut line) = serde_json::to_vec(told) {
        line.push(b'\n');
        let _ = stdout().write_all(&line).and_then(|()| stdout().flush());
    }
}
