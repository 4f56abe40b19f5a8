//! `ekiden continue`: follow-up work on a complete run.

use clap::Args;
use ekiden_core::event::Continued;
use ekiden_engine::runner;

use super::start::Continuing;
use super::task::Task;
use super::{Invocation, start};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::chosen;
use crate::settings::flags::{Resuming, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden continue 'Now add rate limiting to the API'
  ekiden continue -f next.md -m 5
  ekiden continue -f - < next.md
";

/// Give a complete run follow-up work
///
/// The same run continues with its session numbers, its knowledge and its settings. Its next session gets the
/// new task, what was done before, and what the last session said about it. The verification runs before
/// that session: if it passes already, a pass alone does not end the follow-up work. `--max-sessions`
/// counts from here.
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
    /// Continue in the background: print the run's id and return once it works
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    typed: Typed<Resuming>,
}

pub fn continue_run(args: &ContinueArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let workspace = invocation.workspace()?;
    let prefix = args.run.as_deref();
    let named = args.file.as_deref().or(args.prompt.as_deref());
    let task = Task::read(named.unwrap_or_default(), output)?;
    let asked = Continuing {
        prefix,
        not_in_plans: Some("give it follow-up work"),
        detach: args.detach,
    };
    let limits = chosen::limits_typed(&invocation.given)?;
    let driving = invocation.driving()?;
    start::continue_with(
        &invocation,
        workspace,
        &asked,
        limits,
        output,
        |workspace, limits, live| {
            let continued = Continued {
                ekiden: env!("CARGO_PKG_VERSION").to_owned(),
                task: task.replacement(),
                limits,
            };
            runner::continue_with(workspace, prefix, continued, driving, live)
        },
    )
}
