//! `ekiden execute`: runs a plan.

use std::path::{Path, PathBuf};

use clap::Args;
use ekiden_agent::with_default_signals;
use ekiden_core::agent::Interface;
use ekiden_core::budget::Prices;
use ekiden_core::manifest::Manifest;
use ekiden_core::settings::{RunStarted, Settings};
use ekiden_core::time::Timestamp;
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use ekiden_engine::worktrees::check::check_git;
use ekiden_manifest::Fault;

use super::fleet::Placement;
use super::issue::PlanIssue;
use super::run::{check_agents, settle_all_permissions};
use super::{Invocation, check_command, launch};
use crate::client::settings::ClientSettings;
use crate::client::window;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::import::plan::Done;
use crate::output::Output;
use crate::plan::select::{Selection, select};
use crate::plan::{approve, isolation, read, show};
use crate::settings::flags::{Executing, Typed};
use crate::settings::given::Origin;
use crate::settings::{chosen, table};

/// Run a plan, and watch it
///
/// The manifest lists stages, which stages each one needs, and how to tell that it is done. Each stage is a separate relay.
/// Stages that do not need each other run in parallel, each in a git worktree. ekiden merges a stage when its validation
/// passes, and validates the result again; the stages that need it start from there. At the end ekiden fast-forwards your
/// branch, if it is clean and has not moved.
///
/// ekiden also reads CASM manifests (JSON) and cleave pipelines (YAML). `ekiden resume` continues a plan, however it ended.
#[derive(Args)]
pub struct ExecuteArgs {
    /// The manifest: TOML, JSON or YAML; `-` reads standard input
    #[arg(value_name = "MANIFEST")]
    manifest: PathBuf,
    /// Show waves, estimates and commands, and start nothing
    #[arg(long)]
    dry_run: bool,
    /// Leave out the stages that this one needs; they must pass their validation
    #[arg(long, value_name = "ID")]
    from: Option<String>,
    /// Run only this stage; those it needs must pass their validation (may be repeated)
    #[arg(long, value_name = "ID", conflicts_with = "from")]
    only: Vec<String>,
    /// Skip this stage and those that need it (may be repeated)
    #[arg(long, value_name = "ID")]
    skip: Vec<String>,
    /// Stages in parallel [default: the manifest's, else `plan.jobs`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: Option<u32>,
    /// Run the manifest's commands without asking
    #[arg(long)]
    yes: bool,
    /// Start a new run even if one is unfinished here; ekiden keeps the old one
    #[arg(long)]
    new: bool,
    /// Run in the background: print the run's id and return once it works
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    #[command(flatten)]
    place: Placement,
    #[command(flatten)]
    issue: PlanIssue,
    #[command(flatten)]
    typed: Typed<Executing>,
}

/// How a plan is run.
#[derive(Debug, Default)]
pub(super) struct How<'a> {
    pub(super) jobs: Option<u32>,
    pub(super) selection: Selection<'a>,
    /// Do not ask for an approval.
    pub(super) yes: bool,
    /// Set an unfinished run aside.
    pub(super) new: bool,
    pub(super) dry_run: bool,
    /// Run it in the background.
    pub(super) detach: bool,
    pub(super) issue: Option<&'a PlanIssue>,
    /// What planning taught.
    pub(super) prices: Option<Prices>,
    /// Comments up to this time are in the plan.
    pub(super) issue_read: Option<Timestamp>,
    /// Who carries it out, if that was asked.
    pub(super) place: Option<&'a Placement>,
    /// What another program did of it.
    pub(super) done: Option<&'a Done>,
}

pub fn execute(args: &ExecuteArgs, output: &mut Output) -> Result<Exit, Failure> {
    let invocation = Invocation::new(args.typed.flags())?;
    let workspace = invocation.workspace_here()?;
    let mut settings = chosen::settings(&invocation.given, &invocation.here)?;
    without_what_needs_one_place(&mut settings, &invocation, output)?;
    let how = How {
        jobs: args.jobs,
        selection: Selection {
            from: args.from.as_deref(),
            only: &args.only,
            skip: &args.skip,
        },
        yes: args.yes,
        new: args.new,
        dry_run: args.dry_run,
        detach: args.detach,
        issue: Some(&args.issue),
        place: Some(&args.place),
        ..How::default()
    };
    carry_out(
        &invocation,
        &workspace,
        settings,
        &args.manifest,
        &how,
        output,
    )
}

/// Shows a plan, or has it approved and runs it.
pub(super) fn carry_out(
    invocation: &Invocation,
    workspace: &Workspace,
    mut settings: Settings,
    path: &Path,
    how: &How<'_>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let (given, environment) = (&invocation.given, &invocation.environment);
    invocation.warn_of_held_back(output);
    let file = read::read(path, given, &settings, workspace)?;
    let state_dir = chosen::state_dir(given, &invocation.here)?;
    let isolation = isolation::isolation(&file.document, workspace, environment, state_dir);
    let (isolation, mut notes) = match isolation {
        // A dry run still shows the plan.
        Err(failure) if how.dry_run => (
            isolation::shown(&file.document, workspace),
            vec![cannot_start(&failure)],
        ),
        isolation => isolation?,
    };
    let isolated = settings.agent.permissions.isolated;
    let client = ClientSettings::read(environment, &workspace.dir, isolated);
    window::lower(&mut settings, &client);
    // A command of the plan needs approval even if there is no worktree to set up.
    let setup = file.document.setup.clone();
    let slips = file.document.slips.clone();
    let mut manifest = file.into_manifest(how.jobs, isolation);
    select(&mut manifest, &how.selection)?;
    how.done.iter().for_each(|done| done.mark(&mut manifest));
    notes.extend(isolation::ignored(&manifest, workspace));
    if !how.place.is_some_and(Placement::is_fleet) {
        notes.extend(check_command::of_plan(&manifest, &workspace.dir));
    }
    let mut in_the_way = in_the_way(&manifest, &settings, how, invocation, workspace);
    if how.dry_run {
        show_only(&manifest, invocation.json()?, output);
        notes.extend(in_the_way.iter().map(cannot_start));
        notes.iter().for_each(|note| output.warn(note));
        warn_of_slips(&slips, output);
        return Ok(Exit::Done);
    }
    warn_of_slips(&slips, output);
    if !in_the_way.is_empty() {
        return Err(in_the_way.remove(0));
    }
    if !how.yes {
        let setup = setup.as_deref();
        have_approved(&manifest, setup, path, how, invocation, workspace, output)?;
    }
    settle_all_permissions(invocation, &client, &mut settings, Some(&manifest), output)?;
    let header = launch::header(workspace, manifest, settings);
    let mut header = RunStarted {
        prices: how.prices.clone().unwrap_or(header.prices),
        imported: how.done.map(|done| done.imported.clone()),
        issue_read: how.issue_read,
        ..header
    };
    if let Some(issue) = how.issue {
        issue.settle(&mut header, invocation, workspace)?;
    }
    let notes = notes.as_slice();
    if let Some(placement) = how.place.filter(|place| place.is_fleet()) {
        let how = (how.new, how.detach);
        return launch::with_fleet(invocation, workspace, header, placement, how, notes, output);
    }
    launch::begin(
        invocation, workspace, header, how.new, how.detach, notes, output,
    )
}

/// Why the plan cannot begin here now. A fleet has its own agents and its own git.
fn in_the_way(
    manifest: &Manifest,
    settings: &Settings,
    how: &How<'_>,
    invocation: &Invocation,
    workspace: &Workspace,
) -> Vec<Failure> {
    let agents = settings.agents().skip(manifest.unused());
    let agents = agents.chain(manifest.agents());
    let (agents, git, verifications) = match how.place.is_some_and(Placement::is_fleet) {
        true => (Ok(()), Ok(()), Ok(())),
        false => (
            check_agents(agents, invocation, &workspace.dir),
            check_git(workspace, manifest).map_err(Failure::from),
            check_command::to_run(manifest).try_for_each(check_command::parse),
        ),
    };
    let unfinished = match how.new {
        true => Ok(()),
        false => history::check_unfinished(workspace, Some(manifest)).map_err(Failure::from),
    };
    let checks = [agents, unfinished, git, verifications];
    checks.into_iter().filter_map(Result::err).collect()
}

/// Has a person approve the plan.
fn have_approved(
    manifest: &Manifest,
    setup: Option<&str>,
    path: &Path,
    how: &How<'_>,
    invocation: &Invocation,
    workspace: &Workspace,
    output: &mut Output,
) -> Result<(), Failure> {
    // The other commands execute what was there before.
    let is_new = how.done.is_none() && how.place.is_none();
    let nobody = !invocation.can_ask()?;
    let nobody = nobody.then(|| to_approve(path, is_new, invocation, workspace));
    let environment = &invocation.environment;
    // A planner may have been listening for signals; a person who is asked may want to leave.
    with_default_signals(|| {
        approve::approve(
            manifest,
            is_new,
            setup,
            workspace,
            environment,
            nobody,
            output,
        )
    })
}

/// What to do where nobody can be asked for an approval. A plan that was just made is not planned again.
fn to_approve(
    path: &Path,
    is_new: bool,
    invocation: &Invocation,
    workspace: &Workspace,
) -> [String; 2] {
    let words = invocation.word(path) + &invocation.in_work_dir(&workspace.dir);
    // The flags count: another agent would run the commands.
    let yes = match is_new {
        true => format!("`ekiden execute {words} --yes` with the same flags"),
        false => "add `--yes`".to_owned(),
    };
    [
        format!("`ekiden execute {words} --dry-run` shows it"),
        format!("run it once on a terminal and answer yes, or {yes}"),
    ]
}

fn cannot_start(failure: &Failure) -> String {
    format!("it could not start now: {}", failure.error())
}

fn show_only(manifest: &Manifest, json: bool, output: &mut Output) {
    if json {
        output.json(&show::answer(manifest));
    } else {
        let lines = show::lines(manifest);
        lines.iter().for_each(|line| output.line(line));
    }
}

/// Likely mistakes in the manifest.
fn warn_of_slips(slips: &[Fault], output: &mut Output) {
    for slip in slips {
        let line = slip.line.map(|line| format!("line {line}: "));
        let hint = slip.hint.as_ref().map(|hint| format!("; {hint}"));
        let (line, hint) = (line.unwrap_or_default(), hint.unwrap_or_default());
        output.warn(&format!("{line}{}{hint}", slip.text));
    }
}

/// Several agents cannot share one terminal, nobody can guide several relays at once, and a stage has a branch
/// and a validation of its own. A typed flag is refused; settings that are meant for other runs are ignored.
pub(super) fn without_what_needs_one_place(
    settings: &mut Settings,
    invocation: &Invocation,
    output: &mut Output,
) -> Result<(), Failure> {
    let given = &invocation.given;
    let asked = [
        (&table::TUI.row, given.need(&table::TUI)?),
        (&table::GUIDED.row, settings.guided),
        (&table::BRANCH.row, given.get(&table::BRANCH)?.is_some()),
        (&table::VERIFY.row, given.get(&table::VERIFY)?.is_some()),
    ];
    for (row, _) in asked.into_iter().filter(|(_, asked)| *asked) {
        let name = row.name;
        if given.origin(row) == Origin::Flag {
            let text = format!("a plan's stages cannot work with `--{name}`");
            return Err(Failure::new(Exit::Settings, text)
                .hint(format!("leave out `--{name}`; `ekiden run` takes it")));
        }
        output.warn(&format!(
            "the setting `{name}` is for `ekiden run`, and means nothing to a plan"
        ));
    }
    settings.guided = false;
    settings.agent.interface = Interface::Headless;
    Ok(())
}
