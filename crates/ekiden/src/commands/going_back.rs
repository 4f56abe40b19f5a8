//! `-r N` of `run` and `resume`: a new run that continues from the state an earlier session left.

use ekiden_core::ids::SessionNumber;
use ekiden_core::manifest::Manifest;
use ekiden_core::renewal::{NewTask, StartingPoint};
use ekiden_core::settings::{LimitsChanged, Place, RunStarted, Settings};
use ekiden_engine::log_check::ChangedLog;
use ekiden_engine::workspace::Workspace;
use ekiden_engine::{history, log_check};

use super::launch::new_id;
use super::task::Task;
use super::{Invocation, refuse_plan};
use crate::failure::Failure;
use crate::output::Output;
use crate::settings::agents;

/// Where a new run of this manifest starts if it continues from a session of the newest run.
pub fn from(
    invocation: &Invocation,
    workspace: &mut Workspace,
    session: SessionNumber,
    manifest: &Manifest,
    output: &mut Output,
) -> Result<StartingPoint, Failure> {
    let (point, then, summary) = history::starting_point(workspace, None, session)?;
    invocation.settle_state(workspace, Some(summary.id()), output)?;
    log_check::refuse_changed(workspace, summary.id())?;
    refuse_plan(&summary.run, "go back to a session")?;
    Ok(StartingPoint {
        task_changed: differ(&then.task, manifest),
        ..point
    })
}

/// A new run that continues from a session of another run, with that run's present settings and the task of that
/// session, except for what is given here.
pub fn header(
    invocation: &Invocation,
    workspace: &mut Workspace,
    (run, session): (Option<&str>, SessionNumber),
    changed_log: ChangedLog,
    task: Option<&Task>,
    limits: &LimitsChanged,
    output: &mut Output,
) -> Result<RunStarted, Failure> {
    let (point, then, summary) = history::starting_point(workspace, run, session)?;
    invocation.refuse_a_persons_run(&summary.run)?;
    invocation.settle_state(workspace, Some(summary.id()), output)?;
    if changed_log == ChangedLog::Refuse {
        log_check::refuse_changed(workspace, summary.id())?;
    }
    refuse_plan(&summary.run, "go back to a session")?;
    let mut header = summary.run.header().clone();
    header.prices = summary.run.prices();
    // That the last claim counts without a review says nothing about others.
    header.settings = Settings {
        no_review: header.settings.no_review,
        ..summary.run.settings().clone()
    };
    let (given, budgets) = (&invocation.given, &limits.bounds.agents);
    agents::check_budgets(given, budgets, |name| header.has_agent(name))?;
    for stage in &mut header.manifest.stages {
        if let Some(relay) = summary.run.relay(&stage.id) {
            stage.clone_from(&relay.stage);
        }
        let (text, name) = match task {
            Some(task) => (&task.text, &task.name),
            None => (&then.task.text, &then.task.name),
        };
        stage.part.items &= then.is_list;
        stage.task.clone_from(text);
        stage.task_name.clone_from(name);
        stage.sessions_max = limits.sessions_max.unwrap_or(stage.sessions_max);
    }
    header.settings.change(limits);
    if let Some(judging) = &mut header.settings.judging {
        judging.stall_sessions = limits.stall_sessions.unwrap_or(judging.stall_sessions);
        judging.research = limits.research.unwrap_or(judging.research);
    }
    let task_changed = differ(&then.task, &header.manifest);
    Ok(RunStarted {
        run: new_id(),
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        place: Place {
            branch: header.place.branch.clone(),
            ..workspace.place()
        },
        from: Some(Box::new(StartingPoint {
            task_changed,
            ..point
        })),
        // Unlike an imported run, it does not wait for a resume.
        imported: None,
        ..header
    })
}

/// Whether a manifest has another task than the run had then.
fn differ(then: &NewTask, manifest: &Manifest) -> bool {
    manifest.stages.iter().any(|stage| stage.task != then.text)
}
