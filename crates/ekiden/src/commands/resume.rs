//! `ekiden resume`: continues an unfinished run.

use clap::Args;
use ekiden_core::event::RunResumed;
use ekiden_core::ids::SessionNumber;
use ekiden_engine::log_check::ChangedLog;

use super::launch::{Continuing, With};
use super::task::Task;
use super::{Invocation, going_back, guide, launch};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::chosen;
use crate::settings::flags::{Resuming, Typed};

/// Continue an unfinished run
///
/// It does not matter what ended the run: a limit, ctrl-c, a crash, a reboot. Session numbers continue, and ekiden
/// repeats nothing that it did. A session that was cut off may repeat its last commands; ekiden tells it to check
/// first. The run keeps the settings that it was started with, except those that you give here. What you changed or
/// committed since it stopped counts as the next session's work.
///
/// With `-r N`, a new run starts from the handoff of session N of this one, and its first session has the number
/// after N. Later sessions stay where they are. The work tree does not change.
#[derive(Args)]
pub struct ResumeArgs {
    /// The beginning of the run's id [default: the unfinished run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Use this task instead; the next session learns that it has changed
    #[arg(long, value_name = "FILE")]
    task: Option<String>,
    /// Continue from what session N left, in a new run; this run may be finished
    #[arg(short, long, value_name = "N")]
    resume_from: Option<SessionNumber>,
    /// Continue from a log that was changed since ekiden wrote it; look at it first with `ekiden log`
    #[arg(long)]
    accept_log: bool,
    /// Continue without the review that the run was started with
    #[arg(long)]
    no_review: bool,
    /// Continue in the background: print the run's id and return once it works
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    typed: Typed<Resuming>,
}

pub fn resume(args: &ResumeArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::of_runs(args.typed.flags())?;
    let mut workspace = invocation.workspace()?;
    let prefix = args.run.as_deref();
    let mut limits = chosen::limits_typed(&invocation.given)?;
    limits.no_review = args.no_review;
    let task = args.task.as_deref();
    let task = task.map(|task| Task::of_run(task, &workspace.dir, output));
    let task = task.transpose()?;
    let environment = &invocation.environment;
    let refuse = || environment.refuse_a_session("accept a changed log");
    args.accept_log.then(refuse).transpose()?;
    let changed_log = match args.accept_log {
        true => ChangedLog::Accept,
        false => ChangedLog::Refuse,
    };
    if let Some(session) = args.resume_from {
        let header = going_back::header(
            &invocation,
            &mut workspace,
            (prefix, session),
            changed_log,
            task.as_ref(),
            &limits,
            output,
        )?;
        let settings = &header.settings;
        match args.detach {
            true => launch::check_detached(settings.agent.interface, settings.guided)?,
            false => launch::check_terminal(&settings.agent, invocation.json()?)?,
        }
        if header.settings.guided {
            guide::check(&invocation, header.settings.agent.interface)?;
        }
        return launch::begin(
            &invocation,
            &workspace,
            header,
            true,
            args.detach,
            &[],
            output,
        );
    }
    let not_in_plans = match &task {
        Some(_) => Some("change the task"),
        None => (limits.guided == Some(true)).then_some("guide it"),
    };
    let resumed = RunResumed {
        task: task.map(Task::replacement),
        ..launch::resumed(limits)
    };
    let asked = Continuing {
        prefix,
        not_in_plans,
        detach: args.detach,
        with: With::Resume(resumed, changed_log),
    };
    launch::continue_with(&invocation, workspace, asked, output)
}
