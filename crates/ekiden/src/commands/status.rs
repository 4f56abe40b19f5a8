//! `ekiden status`: what runs here, and how far along it is.

use clap::Args;
use ekiden_engine::clock::{Clock, SystemClock};
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use ekiden_store::guard::last_error;
use jiff::tz::TimeZone;

use super::run_status::{self, State};
use super::{Invocation, everywhere, run_ids, watch};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::json::Fields;
use crate::output::line::{Line, one_line};
use crate::settings::flags::{Asking, Typed};

/// Show what runs here, and its progress
///
/// Prints one line for the newest run of the work dir: id, state, session, times, cost, task. While a session works, a
/// second line says how full its context is and what it is doing. `--json` lists all runs, newest first. If ekiden
/// cannot read a run, it shows the reason; other runs are not affected.
///
/// `--everywhere` shows the runs of every project in which you used ekiden on this machine: running ones first, then the
/// 20 newest, or all with `--all`. If ekiden does not trust the state of a project, it shows the reason.
#[derive(Args)]
pub struct StatusArgs {
    /// Show every run here, not only the newest
    #[arg(long)]
    all: bool,
    /// Show the runs of all your projects on this machine
    #[arg(long, conflicts_with = "watch")]
    everywhere: bool,
    /// Watch the newest run until it ends, on a terminal with the keys of `ekiden attach`; then exit as that run did, or with
    /// 1 if you leave before that
    #[arg(long, conflicts_with = "all")]
    watch: bool,
    #[command(flatten)]
    typed: Typed<Asking>,
}

pub fn status(args: &StatusArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(args.typed.flags(), output)?;
    if args.everywhere {
        return everywhere::everywhere(&invocation, args.all, output);
    }
    let workspace = invocation.workspace()?;
    if args.watch {
        return watch::watch(&invocation, &workspace, invocation.json()?, output);
    }
    let holder = history::holder(&workspace);
    let newest_first = history::list(&workspace)?.into_iter().rev();
    let mut runs = newest_first.map(|listed| {
        run_status::look(&workspace, listed, holder.clone()).map(|mut status| {
            status.look_at_work(&workspace);
            status
        })
    });
    if invocation.json()? {
        let runs: Vec<Fields> = runs.map(|run| run_status::json(&run)).collect();
        return output.answer_json(&Fields::versioned().with("runs", runs));
    }
    let (ids, zone) = (run_ids(&workspace)?, TimeZone::system());
    let there = invocation.shown_work_dir(&workspace)?;
    let mut shown = 0;
    // The newest run, and everything newer that is unreadable.
    let mut found = false;
    while let Some(run) = runs.next().filter(|_| args.all || !found) {
        found = run.is_ok();
        shown += 1;
        let lines = match &run {
            Ok(run) => {
                let mut lines = run.lines(&ids, &zone, Some(&there).filter(|_| !args.all));
                if run.state() == State::Running {
                    lines.extend(run.board.lines(SystemClock.now(), &zone));
                }
                lines
            }
            Err(unreadable) => unreadable.lines(&ids),
        };
        for line in lines {
            output.line(&line);
        }
    }
    warn_of_problem(&workspace, output);
    if shown == 0 {
        output.line("nothing has run here yet");
        output.line(Line::next(format!("ekiden run TASK{}", there.flag())));
    }
    Ok(Exit::Done)
}

/// What hooks or the memory could not do.
fn warn_of_problem(workspace: &Workspace, output: &mut Output) {
    if let Some((_, error)) = last_error(&workspace.state_dir) {
        let error = one_line(&error);
        output.warn(&format!(
            "the last problem of hooks or the memory: {error} (`ekiden doctor` explains)"
        ));
    }
}
