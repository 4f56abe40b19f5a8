//! `ekiden continue`: follow-up work on a complete run.

use clap::Args;
use ekiden_core::renewal::{Continued, NewTask};
use ekiden_engine::{history, runner};

use super::resume::limits;
use super::task::Task;
use super::{Scene, guide, refuse_plan};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::flags::{Resuming, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden continue 'Now add rate limiting to the API'
  ekiden continue -f next.md -m 5
  ekiden continue -f - < next.md
";

/// Give a complete run follow-up work
///
/// The same run goes on: its sessions' numbers, what it knows, its settings. The first session is
/// given the new task, what was done before and what the last session said of it; that session's
/// own files stay in the archive. The verification runs again before it: if it passes already, a
/// pass alone does not end the follow-up. `--max-sessions` counts from here.
#[derive(Args)]
#[command(before_help = EXAMPLES, override_usage = "ekiden continue <PROMPT | -f FILE> [OPTIONS]")]
pub struct ContinueArgs {
    /// The new task in quotes, a file, or `-` for standard input
    #[arg(value_name = "PROMPT", required_unless_present = "file")]
    prompt: Option<String>,
    /// A file with the new task; `-` for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<String>,
    /// The beginning of the run's id [default: the newest run here]
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    typed: Typed<Resuming>,
}

/// Runs the command.
///
/// # Errors
///
/// If there is no such run, it is not complete, another engine works here, or it cannot go on.
pub fn continue_run(args: &ContinueArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let prefix = args.run.as_deref();
    let named = args.file.as_deref().or(args.prompt.as_deref()).unwrap_or_default();
    let task = Task::read(named, output)?;
    let mut limits = limits(&scene.given)?;
    let (run, _) = history::find(&workspace, prefix)?;
    let mut live = scene.live(output, &workspace)?;
    let summary = history::read(&workspace, &run, |record, run| live.catch_up(record, run))?;
    refuse_plan(&summary.run, "give it follow-up work")?;
    if guide::goes_on(&scene, &summary, &mut limits, &mut live)? {
        live.guide(guide::listen(&workspace, &run));
    }
    let continued = Continued {
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        task: NewTask { text: task.text, name: task.name },
        limits,
    };
    let outcome = runner::continue_with(&workspace, prefix, continued, &mut live)?;
    Ok(Exit::of(&outcome))
}
