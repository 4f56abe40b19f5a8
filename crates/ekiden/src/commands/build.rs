//! `ekiden build`: plans an idea, asks for approval of the plan, and executes it.

use clap::Args;
use ekiden_engine::history;

use super::execute::{self, How};
use super::issue::{OfIssue, PlanIssue};
use super::plan::{Planner, Writing};
use super::repository;
use super::task::Task;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan::isolation;
use crate::settings::flags::{Executing, Typed};

/// Plan an idea, ask for your approval, and execute the plan
///
/// The same as `ekiden plan IDEA` and then `ekiden execute plan.json`. In between ekiden shows the plan with every command
/// that it would run, and asks you. If it cannot ask, it ends there, and the plan is written.
#[derive(Args)]
pub struct BuildArgs {
    /// A file, `-` for standard input, or the idea itself in quotes; with `--issue` what you want of that [default: all of it]
    #[arg(value_name = "IDEA", required_unless_present = "issue")]
    idea: Option<String>,
    /// Plan and show the plan, and execute nothing
    #[arg(long)]
    dry_run: bool,
    /// Run the plan's commands without asking
    #[arg(long)]
    yes: bool,
    /// Start a new run even if one is unfinished here; ekiden keeps the old one
    #[arg(long)]
    new: bool,
    /// Stages in parallel [default: `plan.jobs`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: Option<u32>,
    #[command(flatten)]
    issue: PlanIssue,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    typed: Typed<Executing>,
}

pub fn build(args: &BuildArgs, output: &mut Output) -> Result<Exit, Failure> {
    let mut planner = Planner::new(args.typed.flags(), &args.writing)?;
    let own = args.idea.as_deref();
    let (idea, issue_read) = match &args.issue.issue {
        Some(name) => {
            let (invocation, workspace) = (&planner.invocation, &planner.workspace);
            let OfIssue { task, read, .. } =
                OfIssue::read(invocation, workspace, name, own, output)?;
            (task, Some(read))
        }
        None => (
            Task::read_as("idea", own.unwrap_or_default(), output)?,
            None,
        ),
    };
    execute::without_what_needs_one_place(&mut planner.settings, &planner.invocation, output)?;
    if !args.dry_run {
        // Before anything is spent on a plan that could not be executed.
        if !args.new {
            history::check_unfinished(&planner.workspace, None)?;
        }
        isolation::refuse_unready(&planner.workspace)?;
        planner.refuse_tracked()?;
        if args.issue.pull_request {
            repository::may_open_pull_request(&planner.invocation, &planner.workspace)?;
        }
    }
    let written = planner.plan_idea(&idea, output)?;
    if args.dry_run {
        return planner.show(&written, output);
    }
    if planner.settings.bounds.run.is_spent() {
        let next = planner.next(&written.manifest);
        let text = "planning has spent the budget of the run";
        return Err(Failure::new(Exit::StoppedEarly, text)
            .hint(format!("the plan is written; `{next}` runs it")));
    }
    let how = How {
        jobs: args.jobs,
        yes: args.yes,
        new: args.new,
        issue: Some(&args.issue),
        issue_read,
        prices: planner.prices,
        ..How::default()
    };
    execute::carry_out(
        &planner.invocation,
        &planner.workspace,
        planner.settings,
        &written.manifest,
        &how,
        output,
    )
}
