//! `ekiden continue`: follow-up work on a complete run.

use clap::Args;
use ekiden_core::event::Continued;
use ekiden_core::ids::RunId;
use ekiden_core::prompt::review_task;
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use ekiden_tracker::of_people;

use super::launch::{Continuing, With};
use super::task::Task;
use super::{Invocation, launch};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::output::line::one_line;
use crate::settings::flags::{Resuming, Typed};
use crate::settings::{chosen, table};
use crate::tracker::failure;

/// Give a complete run follow-up work
///
/// The same run continues with its session numbers, knowledge and settings. Its next session gets the new task, what
/// was done before, and what the last session said about it. The verification runs before that session: if it already
/// passes, a pass alone does not end the follow-up work. `--max-sessions` counts from here.
#[derive(Args)]
#[command(override_usage = "ekiden continue <PROMPT | -f FILE | --from-pr> [OPTIONS]")]
pub struct ContinueArgs {
    /// The new task in quotes, a file, or `-` for standard input
    #[arg(value_name = "PROMPT", required_unless_present_any = ["file", "from_pr"])]
    prompt: Option<String>,
    /// A file with the new task; `-` for standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "prompt")]
    file: Option<String>,
    /// Work on what the pull request of the run's branch waits for: failing checks and review comments, as data; PROMPT
    /// then says which of it you want [default: all of it]
    #[arg(long)]
    from_pr: bool,
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
    let invocation = Invocation::of_runs(args.typed.flags())?;
    let workspace = invocation.workspace()?;
    let prefix = args.run.as_deref();
    // While the pull request is read, another run may begin.
    let found = args.from_pr.then(|| history::find(&workspace, prefix));
    let found = found.transpose()?.map(|(run, _)| run);
    let named = args.file.as_deref().or(args.prompt.as_deref());
    let task = named.map(|named| Task::of_run(named, &workspace.dir, output));
    let task = task.transpose()?;
    let task = match (&found, task) {
        (None, task) => task.unwrap_or_default(),
        (Some(run), own) => from_pull_request(&invocation, &workspace, run, own.as_ref())?,
    };
    let continued = Continued {
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        task: task.replacement(),
        commit: None,
        limits: chosen::limits_typed(&invocation.given)?,
    };
    let asked = Continuing {
        prefix: found.as_ref().map_or(prefix, |run| Some(run.as_str())),
        not_in_plans: Some("give it follow-up work"),
        detach: args.detach,
        with: With::FollowUp(continued),
    };
    launch::continue_with(&invocation, workspace, asked, output)
}

/// What the pull request of the run's branch waits for, as a task; `own` is what the user wants of it.
fn from_pull_request(
    invocation: &Invocation,
    workspace: &Workspace,
    run: &RunId,
    own: Option<&Task>,
) -> Result<Task, Failure> {
    let summary = history::read(workspace, run, |_, _| {})?;
    let header = summary.run.header();
    let trackers = invocation.trackers(workspace);
    let pull = match (&header.pull_request, &header.place.branch) {
        (Some(pull), _) => pull.clone(),
        (None, Some(branch)) => trackers.pull_request(branch.clone())?,
        (None, None) => {
            let text = "the run did not create a branch, so it has no pull request";
            return Err(Failure::new(Exit::MissingInput, text)
                .hint("`ekiden run --pull-request` makes both"));
        }
    };
    let found = trackers
        .open(&pull)
        .and_then(|tracker| tracker.review(&pull.id));
    let mut found =
        found.map_err(|fault| failure("read the pull request", pull.tracker, &fault))?;
    found.comments = of_people(found.comments);
    if found.text.trim().is_empty() && found.comments.is_empty() {
        let text = format!("the pull request {} needs no work", one_line(&found.name));
        return Err(Failure::new(Exit::MissingInput, text).hint(
            "no check failed, and nobody commented; `ekiden continue PROMPT` gives it other work",
        ));
    }
    let trust = invocation.given.get(&table::TRACKER_TRUST)?;
    let own = own.map(|own| own.text.as_str());
    Ok(Task {
        text: review_task(&found, own, &trust.unwrap_or_default()),
        name: one_line(&format!("review of {}", found.name)),
    })
}
