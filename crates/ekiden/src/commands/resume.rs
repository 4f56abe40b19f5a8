//! `ekiden resume`: carries a run on, after whatever end.

use clap::Args;
use ekiden_core::event::{LimitsChanged, RunResumed};
use ekiden_core::ids::SessionNumber;
use ekiden_core::renewal::NewTask;
use ekiden_engine::runner::Unfinished;
use ekiden_engine::{history, runner};

use super::task::Task;
use super::{Scene, going_back, guide, refuse_plan};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::flags::{Resuming, Typed};
use crate::settings::given::Given;
use crate::settings::{chosen, table};

const EXAMPLES: &str = "\
Examples:
  ekiden resume                  the unfinished run here
  ekiden resume -m 10            and let it take 10 more sessions
  ekiden resume --allowed-tool 'Bash(make:*)'    and let the agent run make
  ekiden resume --task task.md   with an edited task
  ekiden resume -r 3             from what session 3 left, as a new run
  ekiden resume 7f3a             the run whose id begins so
";

/// Carry an unfinished run on, after any end
///
/// Whatever ended it: a limit, ctrl-c, a crash, a reboot. Session numbers go on, and nothing that was
/// done is repeated. The settings are those that the run was started with, but for what is typed
/// here.
///
/// With `-r N` a new run begins where session N of this one handed over, with the number after it;
/// what came later stays where it is. The work tree is left as it stands.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct ResumeArgs {
    /// The beginning of the run's id [default: the unfinished run here]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// Take this task instead; the next session is told that it has changed
    #[arg(long, value_name = "FILE")]
    task: Option<String>,
    /// Go on from what session N left, in a new run; the run may be finished
    #[arg(short, long, value_name = "N")]
    resume_from: Option<SessionNumber>,
    #[command(flatten)]
    typed: Typed<Resuming>,
}

/// Runs the command.
///
/// # Errors
///
/// If there is no such run, it is complete, another engine holds it, or it cannot go on.
pub fn resume(args: &ResumeArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let prefix = args.run.as_deref();
    let mut limits = limits(&scene.given)?;
    let task = args.task.as_deref().map(|task| Task::read(task, output)).transpose()?;
    if let Some(session) = args.resume_from {
        let header = going_back::header(&workspace, prefix, session, task.as_ref(), &limits)?;
        let mut live = scene.live(output, &workspace)?;
        if header.settings.guided {
            guide::check(&scene, header.settings.agent.interface)?;
            live.guide(guide::listen(&workspace, &header.run));
        }
        let outcome = runner::start(&workspace, header, Unfinished::SetAside, &mut live)?;
        return Ok(Exit::of(&outcome));
    }
    let (run, _) = history::find(&workspace, prefix)?;
    let mut live = scene.live(output, &workspace)?;
    let summary = history::read(&workspace, &run, |record, run| live.catch_up(record, run))?;
    if task.is_some() {
        refuse_plan(&summary.run, "change the task")?;
    }
    if limits.guided == Some(true) {
        refuse_plan(&summary.run, "guide it")?;
    }
    if guide::goes_on(&scene, &summary, &mut limits, &mut live)? {
        live.guide(guide::listen(&workspace, &run));
    }
    let task = task.map(|task| NewTask { text: task.text, name: task.name });
    let resumed = RunResumed { ekiden: env!("CARGO_PKG_VERSION").to_owned(), limits, task };
    let outcome = runner::resume(&workspace, prefix, resumed, &mut live)?;
    Ok(Exit::of(&outcome))
}

/// The limits that were typed.
///
/// # Errors
///
/// If one of them is not a limit.
pub fn limits(given: &Given) -> Result<LimitsChanged, Failure> {
    Ok(LimitsChanged {
        sessions_max: given.typed(&table::MAX_SESSIONS)?,
        wait_max: given.typed(&table::MAX_WAIT)?,
        pause: given.typed(&table::PAUSE)?,
        stall_sessions: given.typed(&table::STALL_SESSIONS)?,
        research: given.typed(&table::RESEARCH)?,
        guided: given.typed(&table::GUIDED)?,
        bounds: chosen::bounds_typed(given)?,
        permissions: chosen::permissions_typed(given)?,
    })
}
