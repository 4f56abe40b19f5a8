//! `ekiden build`: plans an idea, has the plan approved, and carries it out.

use clap::Args;
use ekiden_agent::with_default_signals;
use ekiden_engine::clock::{self, Clock, SystemClock};

use super::Scene;
use super::execute::{self, How};
use super::plan::{Desk, Writing};
use super::task::Task;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan::{ground, read};
use crate::settings::chosen;
use crate::settings::flags::{Starting, Typed};

const EXAMPLES: &str = "\
Examples:
  ekiden build idea.md                     plan, show the plan, ask, carry it out
  ekiden build idea.md --dry-run           plan and show; the same as `ekiden plan`
  ekiden build 'A shop for tea, in Django' --planning-model opus --run-budget 40
  ekiden build idea.md --agent rehearsal --yes
";

/// Plan an idea, have the plan approved, and carry it out
///
/// The same as `ekiden plan IDEA` and then `ekiden execute plan.json`. In between the plan is shown with every
/// command that it would run, and you are asked; where nobody can be asked it ends there, with the plan
/// written.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct BuildArgs {
    /// A file, `-` for standard input, or the idea itself in quotes
    #[arg(value_name = "IDEA")]
    idea: String,
    /// Plan and show the plan, and carry nothing out
    #[arg(long)]
    dry_run: bool,
    /// Run the plan's commands without asking
    #[arg(long)]
    yes: bool,
    /// Start anew though a run here is unfinished; that one is kept
    #[arg(long)]
    new: bool,
    /// Stages at the same time [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: Option<u32>,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    typed: Typed<Starting>,
}

/// Runs the command.
///
/// # Errors
///
/// As `ekiden plan`, then as `ekiden execute`.
pub fn build(args: &BuildArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let idea = Task::read_as("idea", &args.idea, output)?;
    let mut settings = chosen::settings(&scene.given, &scene.here)?;
    settings.bounds.utc_offset_secs = clock::utc_offset_secs(SystemClock.now());
    execute::refuse_what_needs_one_place(&settings, &scene)?;
    if !args.dry_run {
        // Before anything is spent on a plan that could not be carried out.
        ground::refuse_changes(&workspace)?;
    }
    let desk = Desk { scene: &scene, workspace: &workspace, writing: &args.writing };
    let written = desk.plan_idea(&idea, &mut settings, output)?;
    if args.dry_run {
        desk.tell(&written, settings, output)?;
        return Ok(Exit::Done);
    }
    let file = read::read(&written.manifest, &scene.given, &scene.here, &workspace)?;
    let how = How { jobs: args.jobs, yes: args.yes, new: args.new, ..How::default() };
    let ready = execute::prepare(&scene, &workspace, settings, file, &how)?;
    // The planner has listened to signals; a person who is asked may want to leave.
    with_default_signals(|| ready.approve(&scene, &workspace, &how, output))?;
    ready.carry_out(&scene, &workspace, &how, output)
}
