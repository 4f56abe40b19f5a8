//! `ekiden log`: prints what a run printed, and with `-f` what it prints from now on.
//!
//! Following asks nothing of the engine: the log is read again when it has grown.

use std::thread;

use clap::Args;
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::history;
use jiff::tz::TimeZone;

use super::watch::{PAUSE, look_at_work};
use super::{Invocation, asked_run, run_ids};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::line::{Line, Tone};
use crate::output::live::Live;
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden log                 the newest run here
  ekiden log 7f3a            the run whose id begins so
  ekiden log -f              and then each new line, until the run is over
  ekiden log --json | jq     for programs, one JSON object a line
";

/// Print what happened in a run, word for word as `ekiden run` did
///
/// With `-f` it stays, and on a terminal shows what the session at work is doing. Leaving it ends nothing.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct LogArgs {
    /// The beginning of the run's id [default: the newest run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Print each new line as it comes, until no engine works on the run
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn log(args: &LogArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(args.typed.flags(), output)?;
    let workspace = invocation.workspace()?;
    let json = invocation.json()?;
    let asked = asked_run(&workspace, args.run.as_deref(), output)?;
    let mut live = Live::new(output, json, false, run_ids(&workspace)?);
    let (mut log_bytes, mut seq_printed) = (0, 0);
    let mut read = None;
    let mut tail = None;
    loop {
        // Looked at before the log, so that the last records of a run that ends are not missed.
        let holder = history::holder(&workspace).and_then(|holder| holder.run);
        let is_over = !args.follow || holder.as_ref() != Some(&asked);
        let bytes = history::log_bytes(&workspace, &asked)?;
        if bytes != log_bytes {
            log_bytes = bytes;
            let summary = history::read(&workspace, &asked, |record, run| {
                if seq_printed == 0 && !json {
                    let day = phrase::day_and_time(run.started_at(), &TimeZone::system());
                    live.line(&Line::new(Tone::Quiet, format!("started {day}")));
                }
                if record.seq > seq_printed {
                    seq_printed = record.seq;
                    live.print_record(record, run);
                }
            })?;
            read = Some(summary.run);
        }
        if is_over {
            return Ok(Exit::Done);
        }
        if let Some(run) = &read {
            live.look(SystemClock.now(), |moving| {
                look_at_work(&workspace, run, moving, &mut tail);
            });
        }
        thread::sleep(PAUSE);
    }
}
