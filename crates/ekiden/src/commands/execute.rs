//! `ekiden execute`: carries out a plan and watches it to its end.

use std::path::PathBuf;

use clap::Args;
use ekiden_core::manifest::Fault;
use ekiden_core::settings::{RunStarted, Settings};
use ekiden_engine::clock::{self, Clock, SystemClock};
use ekiden_engine::observer::Observer as _;
use ekiden_engine::runner::{self, Unfinished};
use ekiden_engine::workspace::Workspace;

use super::Scene;
use super::run::{check_agent, new_id, settle_permissions};
use crate::client::settings::ClientSettings;
use crate::client::window;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::plan::read::ManifestFile;
use crate::plan::resolve::{self, Around};
use crate::plan::select::{Selection, select};
use crate::plan::{approve, ground, read, show};
use crate::settings::flags::{Starting, Typed};
use crate::settings::{chosen, table};

const EXAMPLES: &str = "\
Examples:
  ekiden execute plan.toml --dry-run      what it would do, without doing it
  ekiden execute plan.toml                at most three stages at a time
  ekiden execute plan.toml --jobs 1 --run-budget 20
  ekiden execute plan.toml --from S04     after a repair by hand; what lies before is checked
  ekiden execute plan.toml --agent rehearsal --yes
";

/// Carry out a plan, and watch it to its end
///
/// The manifest names stages, what each needs of others, and how it is told that one is done. Each stage
/// is a relay of its own; stages that need nothing of each other work side by side, each in a git worktree.
/// What a stage did is merged when its validation passes, and the result is validated again; what needs it
/// starts from there. In the end your branch is moved forward, if it is clean and has not moved.
///
/// Manifests of CASM (JSON) and pipelines of cleave (YAML) are read as they are. `ekiden resume` carries on
/// after any end.
#[derive(Args)]
#[command(before_help = EXAMPLES)]
pub struct ExecuteArgs {
    /// The manifest: TOML, JSON or YAML; `-` reads standard input
    #[arg(value_name = "MANIFEST")]
    manifest: PathBuf,
    /// Show waves, estimates and commands, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Begin with this stage; what comes before must pass its validation
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// Only this stage; what it needs must pass its validation (may be repeated)
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    only: Vec<String>,
    /// Not this stage, nor what needs it (may be repeated)
    #[arg(long, value_name = "ID")]
    skip: Vec<String>,
    /// Stages at the same time [default: the manifest's, else 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: Option<u32>,
    /// Run the manifest's commands without asking
    #[arg(long)]
    yes: bool,
    /// Start anew though a run here is unfinished; that one is kept
    #[arg(long)]
    new: bool,
    #[command(flatten)]
    typed: Typed<Starting>,
}

/// How a plan is carried out.
#[derive(Debug, Default)]
pub(super) struct How<'a> {
    /// Stages at the same time, if that was typed.
    pub(super) jobs: Option<u32>,
    /// Which stages.
    pub(super) selection: Selection<'a>,
    /// Nobody is asked.
    pub(super) yes: bool,
    /// An unfinished run is set aside.
    pub(super) new: bool,
    /// Nothing is started.
    pub(super) dry_run: bool,
}

/// A plan that could begin.
pub(super) struct Ready {
    header: RunStarted,
    client: ClientSettings,
    /// What the manifest wants to be run in each worktree, be there any or not.
    setup: Option<String>,
    /// What the person should know of its ground.
    note: Option<String>,
    /// What may be a slip in the manifest.
    slips: Vec<Fault>,
}

/// Runs the command.
///
/// # Errors
///
/// If something is missing or wrong, before anything is created; or if the run cannot go on.
pub fn execute(args: &ExecuteArgs, output: &mut Output) -> Result<Exit, Failure> {
    let scene = Scene::set(args.typed.flags())?;
    let workspace = scene.workspace()?;
    let file = read::read(&args.manifest, &scene.given, &scene.here, &workspace)?;
    let mut settings = chosen::settings(&scene.given, &scene.here)?;
    settings.bounds.utc_offset_secs = clock::utc_offset_secs(SystemClock.now());
    refuse_what_needs_one_place(&settings, &scene)?;
    let selection = Selection { from: args.from.as_deref(), only: &args.only, skip: &args.skip };
    let how = How { jobs: args.jobs, selection, yes: args.yes, new: args.new, dry_run: args.dry_run };
    let ready = prepare(&scene, &workspace, settings, file, &how)?;
    if args.dry_run {
        return Ok(show_only(&ready, scene.json()?, output));
    }
    ready.approve(&scene, &workspace, &how, output)?;
    ready.carry_out(&scene, &workspace, &how, output)
}

/// Fits a manifest to settings and project.
pub(super) fn prepare(
    scene: &Scene,
    workspace: &Workspace,
    mut settings: Settings,
    file: ManifestFile,
    how: &How<'_>,
) -> Result<Ready, Failure> {
    let state_dir = chosen::state_dir(&scene.given, &scene.here)?;
    let ground = ground::ground(&file.document, workspace, &scene.environment, state_dir);
    let (ground, note) = match ground {
        // It starts nothing, and shows what could start.
        Err(failure) if how.dry_run => (
            ground::shown(&file.document, workspace),
            Some(format!("it could not begin now: {}", failure.error())),
        ),
        ground => ground?,
    };
    let setup = file.document.worktree.setup.clone();
    let isolated = settings.agent.permissions.isolated;
    let client = ClientSettings::read(&scene.environment, &workspace.dir, isolated);
    window::lower(&mut settings, &client);
    let around = Around { given: &scene.given, workspace, settings, jobs: how.jobs };
    let slips = file.document.slips.clone();
    let mut header = resolve::header(file, around, new_id(), ground)?;
    select(&mut header.manifest, &how.selection)?;
    Ok(Ready { header, client, setup, note, slips })
}

impl Ready {
    /// Makes sure that its agents are there and that somebody approved it.
    pub(super) fn approve(
        &self,
        scene: &Scene,
        workspace: &Workspace,
        how: &How<'_>,
        output: &mut Output,
    ) -> Result<(), Failure> {
        tell_slips(&self.slips, output);
        check_agent(&self.header.settings.agent)?;
        for stage in &self.header.manifest.stages {
            stage.part.agent.as_deref().map_or(Ok(()), check_agent)?;
        }
        let (manifest, setup) = (&self.header.manifest, self.setup.as_deref());
        approve::approve(manifest, setup, workspace, &scene.environment, how.yes, output)
    }

    /// Carries it out.
    pub(super) fn carry_out(
        mut self,
        scene: &Scene,
        workspace: &Workspace,
        how: &How<'_>,
        output: &mut Output,
    ) -> Result<Exit, Failure> {
        settle_permissions(scene, &self.client, &mut self.header.settings.agent, output)?;
        let unfinished = if how.new { Unfinished::SetAside } else { Unfinished::Refuse };
        let mut live = scene.live(output, workspace)?;
        self.note.iter().for_each(|note| live.warn(note));
        let outcome = runner::start(workspace, self.header, unfinished, &mut live)?;
        Ok(Exit::of(&outcome))
    }
}

fn show_only(ready: &Ready, json: bool, output: &mut Output) -> Exit {
    let manifest = &ready.header.manifest;
    if json {
        output.json(&show::answer(manifest));
    } else {
        show::lines(manifest).iter().for_each(|line| output.line(line));
    }
    ready.note.iter().for_each(|note| output.warn(note));
    tell_slips(&ready.slips, output);
    Exit::Done
}

fn tell_slips(slips: &[Fault], output: &mut Output) {
    for slip in slips {
        let line = slip.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        let hint = slip.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        output.warn(&format!("{line}{}{hint}", slip.text));
    }
}

/// Several agents cannot have one terminal, and nobody can guide several relays at once.
pub(super) fn refuse_what_needs_one_place(settings: &Settings, scene: &Scene) -> Result<(), Failure> {
    use ekiden_core::settings::Interface;
    let refuse = |what: &str| {
        let text = format!("a plan's stages cannot work with `{what}`");
        Err(Failure::new(Exit::Settings, text).hint(format!("leave out `{what}`; `ekiden run` takes it")))
    };
    if settings.agent.interface == Interface::Terminal {
        return refuse("--tui");
    }
    if settings.guided {
        return refuse("--guided");
    }
    if scene.given.get(&table::BRANCH)?.is_some() {
        return refuse("--branch");
    }
    if scene.given.get(&table::VERIFY)?.is_some() {
        return refuse("--verify");
    }
    Ok(())
}
