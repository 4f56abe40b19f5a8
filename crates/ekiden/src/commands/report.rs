//! `ekiden report`: the result of a run, on one page.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_core::ids::RunId;
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;

use super::{Invocation, asked_run, debrief, run_ids};
use crate::exit::Exit;
use crate::failure::{Failure, OrFail as _};
use crate::output::json::{Fields, fields};
use crate::output::{Output, phrase};
use crate::report::{self, Report};
use crate::settings::flags::{Reporting, Typed};

/// What opens a file as the desktop does.
pub(super) const OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Write a run's report again: what was done, what it cost, what went wrong, how to continue
///
/// Each run writes its report when it ends, as `report.md` and `report.html` beside its log. This command makes both from
/// the current log, also for a run that is working or was killed. ekiden masks secrets in them.
#[derive(Args)]
pub struct ReportArgs {
    /// The beginning of the run's id [default: the newest run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Open it in the browser
    #[arg(long)]
    open: bool,
    /// Also run one last session, with the run's agent, that writes `DEBRIEF.md` in the work dir, for at most $1 unless
    /// `session_budget` says otherwise
    #[arg(long)]
    debrief: bool,
    #[command(flatten)]
    typed: Typed<Reporting>,
}

pub fn report(args: &ReportArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::looking(args.typed.flags(), output)?;
    let (workspace, json) = (invocation.workspace()?, invocation.json()?);
    let run = asked_run(&workspace, args.run.as_deref(), output)?;
    let report = report::write(&workspace, &run, &run_ids(&workspace)?)?;
    if let Some(left_out) = &report.left_out {
        output.warn(&format!(
            "the report is of the part of the log that could be read: nothing {left_out}"
        ));
    }
    let debrief = match args.debrief {
        true => Some(write_debrief(args, &workspace, &run, &report, output)?),
        false => None,
    };
    if json {
        output.json(&Fields::versioned().and(fields! {
            "run": run,
            "markdown": report.markdown,
            "html": report.html,
            "left_out": report.left_out,
            "debrief": debrief,
        }));
    } else {
        let html = phrase::path(&report.html);
        output.line(html);
        let rest = [report.markdown].into_iter().chain(debrief);
        rest.for_each(|path| output.line(phrase::path(&path)));
    }
    match args.open {
        true => open(&report.html),
        false => Ok(Exit::Done),
    }
}

fn write_debrief(
    args: &ReportArgs,
    workspace: &Workspace,
    run: &RunId,
    report: &Report,
    output: &mut Output,
) -> Result<PathBuf, Failure> {
    let summary = history::read(workspace, run, |_, _| {})?;
    let what = format!("cannot read {}", phrase::path(&report.markdown));
    let text = std::fs::read_to_string(&report.markdown).or_fail(Exit::State, what)?;
    debrief::write(args.typed.flags(), workspace, &summary.run, &text, output)
}

fn open(file: &Path) -> Result<Exit, Failure> {
    let args = [OsString::from(file)];
    let hint = "open the file that is named above in a browser";
    let status = ekiden_agent::foreground::run(OPENER.as_ref(), &args).map_err(|error| {
        let what = format!("cannot start `{OPENER}`");
        Failure::caused(Exit::MissingInput, &what, &error).hint(hint)
    })?;
    match status.success() {
        true => Ok(Exit::Done),
        false => {
            let what = format!("cannot open the report: `{OPENER}` ended with {status}");
            Err(Failure::new(Exit::Unfinished, what).hint(hint))
        }
    }
}
