//! `-r N` of `run` and `resume`: a new run that goes on from what an earlier session left.

use ekiden_core::event::LimitsChanged;
use ekiden_core::ids::SessionNumber;
use ekiden_core::manifest::Manifest;
use ekiden_core::renewal::StartingPoint;
use ekiden_core::run::Run;
use ekiden_core::settings::{Place, RunStarted};
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;

use super::refuse_plan;
use super::run::new_id;
use super::task::Task;
use crate::failure::Failure;

/// Where a run of this manifest begins that goes on from the newest run's session.
///
/// # Errors
///
/// If there is no such run, or the session left nothing.
pub fn from(
    workspace: &Workspace,
    session: SessionNumber,
    manifest: &Manifest,
) -> Result<StartingPoint, Failure> {
    let (point, summary) = history::starting_point(workspace, None, session)?;
    refuse_plan(&summary.run, "go back to a session")?;
    Ok(StartingPoint { task_changed: differ(&summary.run, manifest), ..point })
}

/// The run that goes on from another's session as that one would: its settings and its task, but for
/// what is given here.
///
/// # Errors
///
/// As [`from`].
pub fn header(
    workspace: &Workspace,
    run: Option<&str>,
    session: SessionNumber,
    task: Option<&Task>,
    limits: &LimitsChanged,
) -> Result<RunStarted, Failure> {
    let (point, summary) = history::starting_point(workspace, run, session)?;
    refuse_plan(&summary.run, "go back to a session")?;
    let mut header = summary.run.header().clone();
    for stage in &mut header.manifest.stages {
        if let Some(relay) = summary.run.relay(&stage.id) {
            stage.clone_from(relay.stage());
        }
        if let Some(task) = task {
            stage.task.clone_from(&task.text);
            stage.task_name.clone_from(&task.name);
        }
        stage.sessions_max = limits.sessions_max.unwrap_or(stage.sessions_max);
    }
    header.settings.wait_max = limits.wait_max.unwrap_or(header.settings.wait_max);
    header.settings.pause = limits.pause.unwrap_or(header.settings.pause);
    header.settings.bounds.change(&limits.bounds);
    header.settings.agent.permissions.change(&limits.permissions);
    header.settings.guided = limits.guided.unwrap_or(header.settings.guided);
    if let Some(judging) = &mut header.settings.judging {
        judging.stall_sessions = limits.stall_sessions.unwrap_or(judging.stall_sessions);
        judging.research = limits.research.unwrap_or(judging.research);
    }
    let task_changed = differ(&summary.run, &header.manifest);
    Ok(RunStarted {
        run: new_id(),
        ekiden: env!("CARGO_PKG_VERSION").to_owned(),
        place: Place { branch: header.place.branch.clone(), ..workspace.place() },
        from: Some(Box::new(StartingPoint { task_changed, ..point })),
        ..header
    })
}

/// The tasks of a run as it stands are not those of a manifest.
fn differ(run: &Run, manifest: &Manifest) -> bool {
    let now = run.relays().map(|(_, relay)| &relay.stage().task);
    !now.eq(manifest.stages.iter().map(|stage| &stage.task))
}
