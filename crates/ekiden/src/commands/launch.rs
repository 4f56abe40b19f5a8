//! What the commands that start or continue a run share.

use std::io::{self, IsTerminal as _};
use std::ops::ControlFlow;

use ekiden_agent::background::{self, Background, Begun, Detach};
use ekiden_core::agent::{AgentKind, AgentSpec, Interface};
use ekiden_core::event::{Continued, RunResumed};
use ekiden_core::ids::RunId;
use ekiden_core::manifest::Manifest;
use ekiden_core::outcome::Outcome;
use ekiden_core::run::Run;
use ekiden_core::settings::{LimitsChanged, RunStarted, Settings};
use ekiden_engine::git::branch;
use ekiden_engine::log_check::ChangedLog;
use ekiden_engine::observer::Observer as _;
use ekiden_engine::runner;
use ekiden_engine::{history, workspace::Workspace};

use super::fleet::{self, Placement};
use super::{Invocation, attach, guide, refuse_plan, repository, run_ids, unenforced};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::memory;
use crate::output::Output;
use crate::output::json::Fields;
use crate::output::keys;
use crate::output::line::one_line;
use crate::output::live::Live;
use crate::output::phrase;
use crate::output::shown_work_dir::ShownWorkDir;
use crate::output::view_thread::Leave;
use crate::past;
use crate::plan::read;
use crate::settings::agents;
use crate::settings::chosen::WITHOUT_INTERFACE;
use crate::tracker::Feed;

pub(super) fn header(workspace: &Workspace, manifest: Manifest, settings: Settings) -> RunStarted {
    let before = history::newest_of_project(workspace);
    let before = before.as_ref();
    RunStarted {
        run: new_id(),
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        place: workspace.place(),
        manifest,
        from: None,
        imported: None,
        issue: None,
        issue_read: None,
        sub_issues: false,
        pull_request: None,
        fleet: None,
        before: None,
        in_session: false,
        prices: before.map(Run::prices).unwrap_or_default(),
        handoff_spend: before
            .map(|run| run.handoff_spend(&settings.agent))
            .unwrap_or_default(),
        settings,
    }
}

pub fn new_id() -> RunId {
    let (bits, _, _, _) = uuid::Uuid::new_v4().as_fields();
    RunId::from_bits(bits)
}

/// Only Claude Code has an interface that hooks can lead, and it needs the whole terminal.
pub(super) fn check_terminal(agent: &AgentSpec, json: bool) -> Result<(), Failure> {
    let has_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let (what, hint) = match agent.interface {
        Interface::Terminal if agent.kind != AgentKind::Claude => {
            let kind = agent.kind.name();
            let text = format!("cannot start a session: agents of kind `{kind}` have no interface");
            return Err(Failure::new(Exit::Settings, text).hint(WITHOUT_INTERFACE));
        }
        Interface::Terminal if json => (
            "and print JSON lines",
            "leave out `--json`; or leave out `--tui`, or set `tui` to false",
        ),
        Interface::Terminal if !has_terminal => (
            "without a terminal",
            "give the command on a terminal; a new run can leave out `--tui`, or set `tui` to false",
        ),
        Interface::Terminal | Interface::Headless => return Ok(()),
    };
    let text = format!("cannot show the agent's interface {what}");
    Err(Failure::new(Exit::Settings, text).hint(hint))
}

/// Refuses what needs a person: nobody sits at a run in the background.
pub(super) fn check_detached(interface: Interface, guided: bool) -> Result<(), Failure> {
    let name = match (interface, guided) {
        (Interface::Terminal, _) => "tui",
        (Interface::Headless, true) => "guided",
        (Interface::Headless, false) => return Ok(()),
    };
    let text = format!("`{name}` needs a terminal, and a run in the background has none");
    let hint = format!("leave out `--{name}`, or set `{name}` to false");
    Err(Failure::new(Exit::Settings, text).hint(hint))
}

/// The id is the answer, so that a script can use it; how to go on is for people.
fn detached(run: &RunId, there: &ShownWorkDir, json: bool, output: &mut Output) -> Exit {
    if json {
        output.json(&Fields::versioned().with("run", run));
    } else {
        output.answer(&format!("{run}\n"));
        let flag = there.flag();
        let hint = format!(
            "to watch it  ekiden attach {run}{flag}\nto stop it   ekiden stop {run}{flag}\n"
        );
        output.message(&hint);
    }
    Exit::Done
}

/// Where a run goes on: in the background, or on a terminal that it can leave.
type Split = (Option<Begun>, Option<Detach>);

/// Splits the process if the run is to continue without this terminal, or may do so. Breaks with the exit in
/// the process that is not the run.
fn split(
    invocation: &Invocation,
    workspace: &Workspace,
    run: &RunId,
    (detach, interface): (bool, Interface),
    output: &mut Output,
) -> Result<ControlFlow<Exit, Split>, Failure> {
    let failed = |error| Failure::caused(Exit::Bug, "cannot continue in the background", &error);
    let (json, there) = (invocation.json()?, invocation.shown_work_dir(workspace)?);
    if detach {
        return Ok(match background::begin().map_err(failed)? {
            Background::Here(begun) => ControlFlow::Continue((Some(begun), None)),
            Background::Works => ControlFlow::Break(detached(run, &there, json, output)),
            Background::Ended(code) => ControlFlow::Break(Exit::of_code(code)),
            Background::Killed(signal) => return Err(killed(signal, &there)),
        });
    }
    let has_keys = output.has_screen() && !json && invocation.can_ask()?;
    if !has_keys || interface == Interface::Terminal {
        return Ok(ControlFlow::Continue((None, None)));
    }
    let restore = keys::restorer();
    Ok(match background::begin_on_terminal().map_err(failed)? {
        Background::Here(detach) => ControlFlow::Continue((None, Some(detach))),
        Background::Works => {
            let id = phrase::short_id(run, &run_ids(workspace)?);
            output.message(&attach::left_alone(workspace, run, &id, &there.flag()));
            ControlFlow::Break(Exit::Done)
        }
        Background::Ended(code) => ControlFlow::Break(Exit::of_code(code)),
        Background::Killed(signal) => {
            restore();
            return Err(killed(signal, &there));
        }
    })
}

/// The process that worked on the run is gone: by `kill -9`, or for lack of memory.
fn killed(signal: i32, there: &ShownWorkDir) -> Failure {
    let text = format!("ekiden was killed (signal {signal})");
    let hint = format!("`ekiden resume{}` continues the run", there.flag());
    Failure::new(Exit::Signal(signal), text).hint(hint)
}

/// Starts a run and shows it until it ends. `set_aside` keeps an unfinished run here as it is. `detach` lets
/// the run go on in the background as soon as it has begun.
pub(super) fn begin(
    invocation: &Invocation,
    workspace: &Workspace,
    mut header: RunStarted,
    set_aside: bool,
    detach: bool,
    notes: &[String],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let trackers = invocation.trackers(workspace);
    let of_branch = || trackers.of_branch(&repository::branch_of(&header, workspace)?);
    let issue = header.issue.clone().or_else(of_branch);
    header.settings.memory = memory::of_run(
        &invocation.given,
        &invocation.environment,
        &workspace.dir,
        &header.settings.agent,
    );
    let past = past::of_project(workspace, header.settings.agent.kind);
    past::expect(&mut header, workspace, &past);
    let mut warnings = past::warnings(&header, &past);
    let bounds = &header.settings.bounds;
    warnings.extend(unenforced::of(&invocation.given, &header, bounds));
    header.in_session = invocation.environment.is_inside_a_session();
    header.issue = issue;
    let workspace = &mut workspace.clone();
    invocation.settle_state(workspace, None, output)?;
    let (run, interface) = (header.run.clone(), header.settings.agent.interface);
    let how = (detach, interface, true);
    let mut watched = match Watched::begin(invocation, workspace, &run, how, output)? {
        ControlFlow::Continue(watched) => watched,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    let live = &mut watched.live;
    live.tracker = Feed::new(trackers, workspace, &header);
    let notes = notes.iter().chain(&warnings);
    notes.for_each(|note| live.warn(note));
    if header.settings.guided {
        live.guide(guide::listen(workspace, &header.run));
    }
    let driving = invocation.driving()?;
    let outcome = watched.drive(|live| runner::start(workspace, header, set_aside, driving, live));
    Ok(Exit::of(&outcome?))
}

/// Gives a plan to a fleet, and shows it until it ends, or leaves it alone. `set_aside` and `detach` as for [`begin`].
pub(super) fn with_fleet(
    invocation: &Invocation,
    workspace: &Workspace,
    header: RunStarted,
    placement: &Placement,
    (set_aside, detach): (bool, bool),
    notes: &[String],
    output: &mut Output,
) -> Result<Exit, Failure> {
    let run = header.run.clone();
    let tracker = Feed::new(invocation.trackers(workspace), workspace, &header);
    let program = placement.submit(invocation, header, workspace, (detach, set_aside))?;
    if detach {
        notes.iter().for_each(|note| output.warn(note));
        return program.become_it();
    }
    let how = (false, Interface::Headless, false);
    let mut watched = match Watched::begin(invocation, workspace, &run, how, output)? {
        ControlFlow::Continue(watched) => watched,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    watched.live.tracker = tracker;
    watched.live.notices = Some(invocation.notices(workspace)?);
    notes.iter().for_each(|note| watched.live.warn(note));
    watched.drive(|live| program.watch(workspace, 0, live))
}

/// What a command wants of the run that it continues.
pub(super) struct Continuing<'a> {
    /// The beginning of the run's id.
    pub(super) prefix: Option<&'a str>,
    /// What was asked for that only a single relay can do.
    pub(super) not_in_plans: Option<&'a str>,
    pub(super) detach: bool,
    pub(super) with: With,
}

/// What a run goes on with.
pub(super) enum With {
    Resume(RunResumed, ChangedLog),
    /// It was complete.
    FollowUp(Continued),
}

impl With {
    fn limits(&mut self) -> &mut LimitsChanged {
        match self {
            Self::Resume(resumed, _) => &mut resumed.limits,
            Self::FollowUp(continued) => &mut continued.limits,
        }
    }
}

pub(super) fn resumed(limits: LimitsChanged) -> RunResumed {
    RunResumed {
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        limits,
        ..RunResumed::default()
    }
}

/// Continues a run, and shows it until it ends.
pub(super) fn continue_with(
    invocation: &Invocation,
    mut workspace: Workspace,
    mut asked: Continuing<'_>,
    output: &mut Output,
) -> Result<Exit, Failure> {
    let (run, _) = history::find(&workspace, asked.prefix)?;
    invocation.settle_state(&mut workspace, Some(&run), output)?;
    let workspace = &workspace;
    let summary = history::read(workspace, &run, |_, _| {})?;
    invocation.refuse_a_persons_run(&summary.run)?;
    if let Some(what) = asked.not_in_plans {
        refuse_plan(&summary.run, what)?;
    }
    warn_of_edit(invocation, workspace, &summary.run, output);
    if let With::Resume(..) = asked.with {
        warn_of_branch(workspace, summary.run.header(), output);
    }
    let is_of_run = |name: &str| summary.run.header().has_agent(name);
    agents::check_budgets(
        &invocation.given,
        &asked.with.limits().bounds.agents,
        is_of_run,
    )?;
    let change = &asked.with.limits().bounds;
    unenforced::warn(&invocation.given, &summary.run, change, output);
    let mut program = fleet::go_on(workspace, &summary.run, &asked)?;
    if let Some(program) = program.take_if(|_| asked.detach) {
        return program.become_it();
    }
    let interface = summary.run.header().settings.agent.interface;
    match asked.detach {
        true => check_detached(interface, asked.with.limits().guided == Some(true))?,
        false => check_terminal(&summary.run.header().settings.agent, invocation.json()?)?,
    }
    let how = (asked.detach, interface, program.is_none());
    let mut watched = match Watched::begin(invocation, workspace, &run, how, output)? {
        ControlFlow::Continue(watched) => watched,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    let live = &mut watched.live;
    let header = summary.run.header();
    live.tracker = Feed::new(invocation.trackers(workspace), workspace, header);
    let mut known = 0;
    history::read(workspace, &run, |record, run| {
        known = record.seq;
        live.catch_up(record, run);
    })?;
    if guide::goes_on(invocation, &summary, asked.with.limits(), live)? {
        live.guide(guide::listen(workspace, &run));
    }
    let (mut driving, prefix) = (invocation.driving()?, asked.prefix);
    let unheard = live.tracker.as_ref().map(|feed| feed.unheard(&summary.run));
    driving.messages = unheard.unwrap_or_default();
    watched.drive(|live| {
        if let Some(program) = program {
            live.notices = Some(invocation.notices(workspace)?);
            return program.watch(workspace, known, live);
        }
        let outcome = match asked.with {
            With::Resume(resumed, changed_log) => {
                runner::resume(workspace, prefix, resumed, changed_log, driving, live)
            }
            With::FollowUp(continued) => {
                runner::continue_with(workspace, prefix, continued, driving, live)
            }
        };
        Ok(Exit::of(&outcome?))
    })
}

/// Says that another branch is checked out than the one that the run began on, which has its work so far.
fn warn_of_branch(workspace: &Workspace, header: &RunStarted, output: &mut Output) {
    let commits = header.settings.commit.as_ref();
    let begun = commits.and_then(|plan| plan.branch.as_ref());
    let begun = begun.filter(|_| header.place.branch.is_none());
    let found = branch::current(workspace);
    if let (Some(begun), Some(found)) = (begun, &found)
        && begun != found
    {
        let (begun, found) = (one_line(begun), one_line(found));
        output.warn(&format!(
            "this run began on `{begun}`, and `{found}` is checked out now"
        ));
    }
}

/// Says that a plan continues as it was, if its manifest is another one here: edited, or of another clone.
fn warn_of_edit(invocation: &Invocation, workspace: &Workspace, run: &Run, output: &mut Output) {
    let rules = run.header().manifest.plan.as_ref();
    let edited = rules.and_then(|rules| read::edited(rules, &workspace.dir));
    let is_final = run.outcome().is_some_and(Outcome::is_final);
    if let Some(file) = edited.filter(|_| !is_final) {
        let (shown, word) = (phrase::path(&file), invocation.word(&file));
        let there = invocation.in_work_dir(&workspace.dir);
        output.warn(&format!(
            "{shown} differs from the manifest of this run, which keeps to its own; `ekiden execute {word} --new{there}` takes it as it is now"
        ));
    }
}

/// A run in the foreground, and the terminal on which it is seen and steered.
struct Watched<'a, 'o> {
    invocation: &'a Invocation,
    workspace: &'a Workspace,
    run: &'a RunId,
    interface: Interface,
    detach: Option<Detach>,
    /// This process works on it, and no fleet does.
    is_here: bool,
    live: Live<'o>,
}

impl<'a, 'o> Watched<'a, 'o> {
    /// Breaks with the exit in the process that is not the run after a split.
    fn begin(
        invocation: &'a Invocation,
        workspace: &'a Workspace,
        run: &'a RunId,
        (detach, interface, is_here): (bool, Interface, bool),
        output: &'o mut Output,
    ) -> Result<ControlFlow<Exit, Self>, Failure> {
        let (begun, detach) = match split(invocation, workspace, run, (detach, interface), output)?
        {
            ControlFlow::Continue(split) => split,
            ControlFlow::Break(exit) => return Ok(ControlFlow::Break(exit)),
        };
        let mut live = invocation.live(output, workspace)?;
        live.begun = begun;
        Ok(ControlFlow::Continue(Self {
            invocation,
            workspace,
            run,
            interface,
            detach,
            is_here,
            live,
        }))
    }

    fn drive<T>(mut self, drive: impl FnOnce(&mut Live<'o>) -> T) -> T {
        let live = &mut self.live;
        let done = match self.interface {
            // The agent has the terminal.
            Interface::Terminal => drive(live),
            Interface::Headless => {
                let (invocation, workspace, run) = (self.invocation, self.workspace, self.run);
                let leave = self.detach.map_or(Leave::Never, Leave::Detach);
                let controls = || guide::controls(invocation, workspace, run, leave, self.is_here);
                live.with_view(controls, drive)
            }
        };
        live.finish_sending();
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_have_two_ids() {
        assert_ne!(new_id(), new_id());
    }
}
