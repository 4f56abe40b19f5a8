//! `ekiden log`: prints what a run printed, and with `-f` what it prints from now on.

use clap::Args;
use ekiden_agent::SignalFlag;
use ekiden_core::run::Run;
use jiff::tz::TimeZone;

use super::follow::Follow;
use super::{Invocation, asked_run, attach, run_ids};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::line::{Line, Tone};
use crate::output::live::{Live, Reports};
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

/// Print what happened in a run, word for word as `ekiden run` did
///
/// With `-f` it waits for new lines, on a terminal shows what the current session does, and exits as the run does.
/// Leaving it ends nothing.
#[derive(Args)]
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
    let day = |run: &Run| {
        let day = phrase::day_and_time(run.started_at(), &TimeZone::system());
        Line::new(Tone::Quiet, format!("started {day}"))
    };
    let (ids, there) = (run_ids(&workspace)?, invocation.shown_work_dir(&workspace)?);
    let which = phrase::short_id(&asked, &ids) + &there.flag();
    let mut live = Live::new(output, json, false, ids);
    live.is_in(there);
    live.reports = Reports::FindIn(workspace.clone());
    let mut follow = Follow::begin(&workspace, &asked, |record, run| {
        if record.seq == 1 && !json {
            live.line(&day(run));
        }
        live.print_record(record, run);
    })?;
    if args.follow {
        // Leaving erases the live lines, from the first on.
        let left = SignalFlag::listen().or_fail(Exit::Bug, "cannot listen to signals")?;
        live.with_view(|| None, |live| follow.show_on(live, &left))?;
        if !follow.status.is_held() {
            return Ok(attach::over(&follow.status, &which, &live));
        }
    }
    Ok(Exit::Done)
}
