//! `ekiden attach`: shows a run that works elsewhere as if it had been started here.
//!
//! It only reads, so you can attach and detach at any time, in any number of terminals.

use clap::Args;
use ekiden_agent::SignalFlag;
use ekiden_core::ids::RunId;
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;

use super::follow::Follow;
use super::run_status::RunStatus;
use super::{Invocation, asked_run, guide, run_ids};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::line::{Line, Tone};
use crate::output::live::{Live, Reports};
use crate::output::view_thread::Leave;
use crate::output::{Output, phrase};
use crate::settings::flags::{Asking, Typed};

/// Show a run live, wherever it was started
///
/// Prints the last lines of what happened so far, then new lines, and exits as the run does. On a terminal the last line
/// names the keys that steer the run; `q` or ctrl-c leaves the run alone and exits with 0. `ekiden stop` stops it.
/// `ekiden log` prints all lines, and so does `--json` here.
#[derive(Args)]
pub struct AttachArgs {
    /// The beginning of the run's id [default: the running run here, else the newest]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn attach(args: &AttachArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(args.typed.flags(), output)?;
    let (workspace, json) = (invocation.workspace()?, invocation.json()?);
    let here = history::holder(&workspace).and_then(|holder| holder.run);
    let prefix = args.run.as_deref().or(here.as_ref().map(RunId::as_str));
    let run = asked_run(&workspace, prefix, output)?;
    Ok(show(&invocation, &workspace, &run, json, output)?.unwrap_or(Exit::Done))
}

/// The message for a person who leaves a run alone.
pub(super) fn left_alone(workspace: &Workspace, run: &RunId, id: &str, flag: &str) -> String {
    let summary = history::read(workspace, run, |_, _| {});
    match summary.is_ok_and(|summary| summary.run.is_paused()) {
        true => format!("run {id} is paused; to continue it: ekiden unpause {id}{flag}\n"),
        false => format!("run {id} continues; to stop it: ekiden stop {id}{flag}\n"),
    }
}

/// Shows a run until it is over; none if the person who watches left earlier.
pub(super) fn show(
    invocation: &Invocation,
    workspace: &Workspace,
    run: &RunId,
    json: bool,
    output: &mut Output,
) -> Result<Option<Exit>, Failure> {
    // Without a screen a signal ends the process, so that no script takes it for a run that ended well.
    let left = match output.has_screen() {
        true => SignalFlag::listen().or_fail(Exit::Bug, "cannot listen to signals")?,
        false => SignalFlag::default(),
    };
    let ids = run_ids(workspace)?;
    let id = phrase::short_id(run, &ids);
    let mut live = Live::new(output, json, false, ids);
    let there = invocation.shown_work_dir(workspace)?;
    live.is_in(there.clone());
    live.reports = Reports::FindIn(workspace.clone());
    live.shown().output.hold();
    let mut follow = Follow::begin(workspace, run, |record, run| {
        live.print_record(record, run);
    })?;
    let flag = there.flag();
    let mut shown = live.shown();
    let lines_max = if json {
        usize::MAX
    } else {
        shown.output.rows()
    };
    shown.output.release_last(lines_max, |left_out| {
        let earlier = format!("... {left_out} lines before these: ekiden log {id}{flag}");
        Line::new(Tone::Quiet, earlier)
    });
    drop(shown);
    let controls = || {
        guide::controls(
            invocation,
            workspace,
            run,
            Leave::Watching(left.clone()),
            false,
        )
    };
    live.with_view(controls, |live| follow.show_on(live, &left))?;
    if follow.status.is_held() {
        let left = left_alone(workspace, run, &id, &flag);
        live.shown().output.message(&left);
        return Ok(None);
    }
    Ok(Some(over(&follow.status, &format!("{id}{flag}"), &live)))
}

/// The exit of a run on which no engine works any more. Says how it goes on, if it did not end.
pub(super) fn over(status: &RunStatus, which: &str, live: &Live<'_>) -> Exit {
    let run = &status.summary.run;
    if run.outcome().is_none() {
        let text = match run.header().fleet {
            Some(_) => format!("it is with the fleet; `ekiden fleet follow {which}` shows more\n"),
            None => format!("ekiden was killed; `ekiden resume {which}` continues the run\n"),
        };
        live.shown().output.message(&text);
    }
    status.exit()
}
