//! `ekiden attach`: a run that works elsewhere, as if it had been started here.
//!
//! It only reads: the log, from which each line is made, and the end of the event stream of the session at
//! work. So it can begin and end at any time, in any number of terminals.

use std::thread;
use std::time::Duration;

use clap::Args;
use ekiden_agent::SignalFlag;
use ekiden_core::ids::RunId;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use jiff::tz::TimeZone;

use super::status::RunStatus;
use super::watch::look_at_work;
use super::{Invocation, asked_run, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::live::Live;
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden attach              the run that works here, else the newest
  ekiden attach 7f3a         the run whose id begins so
";

/// How often to look at the run.
const PAUSE: Duration = Duration::from_millis(250);

/// Show a run live, wherever it was started
///
/// Prints the last lines of what happened so far, then what happens, and exits as the run does. ctrl-c leaves
/// the run alone and exits with 0; `ekiden stop` stops it. `ekiden log` has all lines, as `--json` does here.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct AttachArgs {
    /// The beginning of the run's id [default: the run that works here, else the newest]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn attach(args: &AttachArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let (workspace, json) = (invocation.workspace()?, invocation.json()?);
    let here = history::holder(&workspace).and_then(|holder| holder.run);
    let prefix = args.run.as_deref().or(here.as_ref().map(RunId::as_str));
    let run = asked_run(&workspace, prefix, output)?;
    let left = SignalFlag::listen()
        .map_err(|error| Failure::caused(Exit::Bug, "cannot listen to signals", &error))?;
    let (ids, zone) = (run_ids(&workspace)?, TimeZone::system());
    let mut tail = None;
    let mut log_bytes = history::log_bytes(&workspace, &run)?;
    let mut status = RunStatus::read(&workspace, &run, history::holder(&workspace))?;
    let id = phrase::short_id(&run, &ids);
    output.hold();
    let mut printed = print_new(&workspace, &run, 0, json, output)?;
    let lines_max = if json { usize::MAX } else { output.rows() };
    output.release_last(lines_max, |left_out| {
        let earlier = format!("... {left_out} lines before these: ekiden log {id}");
        Line::new(Tone::Quiet, earlier)
    });
    loop {
        if status.is_over() {
            let outcome = status.summary.run.outcome();
            if outcome.is_none() {
                output.message("ekiden was killed; `ekiden resume` continues the run\n");
            }
            return Ok(outcome.map_or(Exit::StoppedEarly, Exit::of));
        }
        if left.is_raised() {
            output.message(&format!(
                "run {id} continues; to stop it: ekiden stop {id}\n"
            ));
            return Ok(Exit::Done);
        }
        let at_work = &status.summary.run;
        look_at_work(&workspace, at_work, &mut status.moving, &mut tail);
        if let Some(line) = status
            .moving
            .line(SystemClock.now(), &zone)
            .filter(|_| !json)
        {
            output.draw(&[line]);
        }
        thread::sleep(PAUSE);
        let (before, holder) = (log_bytes, history::holder(&workspace));
        log_bytes = history::log_bytes(&workspace, &run)?;
        if log_bytes == before {
            status.look_who_holds(holder);
        } else {
            status = RunStatus::read(&workspace, &run, holder)?;
            printed = print_new(&workspace, &run, printed, json, output)?;
        }
    }
}

/// Prints the lines of the records after this one; the number of the last.
fn print_new(
    workspace: &Workspace,
    run: &RunId,
    printed: u64,
    json: bool,
    output: &mut Output,
) -> Result<u64, Failure> {
    let mut live = Live::new(output, json, false, run_ids(workspace)?);
    let summary = history::read(workspace, run, |record, run| {
        if record.seq > printed {
            live.print_record(record, run);
        } else {
            live.catch_up(record, run);
        }
    })?;
    Ok(summary.last.seq)
}
