//! `ekiden log`: tells a run's story again.

use clap::Args;
use ekiden_engine::history;
use jiff::tz::TimeZone;

use super::{Scene, asked_run, run_ids};
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
  ekiden log --json | jq     for programs, one JSON object a line
";

/// Tell the story of a run, word for word as `ekiden run` told it
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct LogArgs {
    /// The beginning of the run's id [default: the newest run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    typed: Typed<Asking>,
}

/// Runs the command.
///
/// # Errors
///
/// If there is no such run, or its log cannot be read.
pub fn log(args: &LogArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let json = scene.json()?;
    let asked = asked_run(&workspace, args.run.as_deref(), output)?;
    let mut first = !json;
    let mut live = Live::new(output, json, run_ids(&workspace)?);
    history::read(&workspace, &asked, |record, run| {
        if std::mem::take(&mut first) {
            let day = phrase::day_and_time(run.started_at(), &TimeZone::system());
            live.say(&Line::new(Tone::Quiet, format!("started {day}")));
        }
        live.tell(record, run);
    })?;
    Ok(Exit::Done)
}
