//! Checks, before a run continues, that its log is the one that was written.

use std::path::PathBuf;
use std::sync::Arc;

use ekiden_core::ids::RunId;
use ekiden_store::disk::Disk;
use ekiden_store::layout::StateLayout;
use ekiden_store::log::{ChainCheck, Continuity};
use ekiden_store::user_state::{StateId, UserState};

use crate::error::EngineError;
use crate::runner::LockedWorkDir;
use crate::workspace::Workspace;

/// What to do about a log that is not the one that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedLog {
    Refuse,
    /// A person has looked at it and wants to continue from it. That is recorded.
    Accept,
}

impl LockedWorkDir {
    /// Compares a run's log with what was kept of it, and keeps it as it is now. Returns the first record of
    /// an accepted log that differs.
    pub(crate) fn check_log(
        &mut self,
        run: &RunId,
        changed: ChangedLog,
    ) -> Result<Option<u64>, EngineError> {
        let found = self.state.check_chain(run)?;
        let differs = match (difference(&self.workspace, run, &found), changed) {
            (Err(EngineError::LogChanged { seq, .. }), ChangedLog::Accept) => Some(seq),
            (checked, _) => checked.map(|()| None)?,
        };
        self.state.keep_chain(run, &found);
        Ok(differs)
    }
}

/// Fails if a run's log is not the one that was written. Call it before beginning a run from what another left.
pub fn refuse_changed(workspace: &Workspace, run: &RunId) -> Result<(), EngineError> {
    difference(workspace, run, &look(workspace, run)?)
}

/// Whether nothing is known here about the content of a run's log.
pub(crate) fn is_unknown(workspace: &Workspace, run: &RunId) -> Result<bool, EngineError> {
    Ok(look(workspace, run)?.continuity == Continuity::Unknown)
}

fn look(workspace: &Workspace, run: &RunId) -> Result<ChainCheck, EngineError> {
    let layout = workspace.layout();
    let disk: Arc<dyn Disk> = Arc::new(workspace.disk());
    let id = StateId::of(&*disk, &layout)?;
    let copy = chains_of(&disk, workspace, id.as_ref()).map(|chains| chains.join(run.as_str()));
    Ok(ChainCheck::make(
        &*disk,
        &layout.run(run).log(),
        copy.as_deref(),
    )?)
}

fn difference(workspace: &Workspace, run: &RunId, found: &ChainCheck) -> Result<(), EngineError> {
    let (seq, what) = match found.continuity {
        Continuity::Same => return Ok(()),
        Continuity::Unknown if workspace.is_trusted => return Ok(()),
        Continuity::Unknown => {
            return Err(EngineError::StateDoubted {
                dir: workspace.state_dir.clone(),
                why: unknown(run),
            });
        }
        Continuity::Changed { seq } => (seq, format!("record {seq} was changed")),
        Continuity::Cut { records, held } => {
            let first = records + 1;
            let missing = match held - records {
                1 => format!("record {held} is missing"),
                _ => format!("records {first} to {held} are missing"),
            };
            (
                first,
                format!("{missing}, or the project was copied before"),
            )
        }
    };
    Err(EngineError::LogChanged {
        run: run.clone(),
        seq,
        what,
    })
}

/// Why we do not trust a log about which nothing is known.
pub(crate) fn unknown(run: &RunId) -> String {
    format!("there is no record outside the log of run {run} that ekiden wrote it")
}

/// Where the links of this project's logs are copied; none without a home.
pub(crate) fn chains(
    disk: &Arc<dyn Disk>,
    workspace: &Workspace,
    layout: &StateLayout,
) -> Result<Option<PathBuf>, EngineError> {
    if workspace.user_dir.is_none() {
        return Ok(None);
    }
    let id = StateId::ensure(&**disk, layout, uuid::Uuid::new_v4().as_u128())?;
    Ok(chains_of(disk, workspace, Some(&id)))
}

fn chains_of(disk: &Arc<dyn Disk>, workspace: &Workspace, id: Option<&StateId>) -> Option<PathBuf> {
    let kept = UserState::of(Arc::clone(disk), workspace.user_dir.as_ref()?, id?);
    Some(kept.dir().join("chains"))
}
