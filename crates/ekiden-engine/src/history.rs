//! Looking at runs without working on them: status, log, and which run a resume means.

use std::sync::Arc;

use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::RunId;
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::settings::{Manifest, RunStarted};
use ekiden_core::time::Timestamp;
use ekiden_store::disk::RealDisk;
use ekiden_store::layout::StateLayout;
use ekiden_store::lock::{Holder, WorkDirLock};
use ekiden_store::state::StateDir;

use crate::error::EngineError;
use crate::journal::{Folded, Journal};
use crate::workspace::Workspace;

/// A run as its log tells it.
#[derive(Debug)]
pub struct RunSummary {
    /// The run's state after its newest record.
    pub run: Run,
    /// When that was.
    pub last: Timestamp,
}

impl RunSummary {
    /// The run's id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.run.header().run
    }
}

/// All runs of this work dir, oldest first. None where nothing ever ran.
///
/// # Errors
///
/// If a log cannot be read.
pub fn runs(workspace: &Workspace) -> Result<Vec<RunSummary>, EngineError> {
    match open(workspace)? {
        Some(state) => runs_of(&state, worktree(workspace)),
        None => Ok(Vec::new()),
    }
}

/// One run, by the beginning of its id, or the newest; `show` sees every record with the state after
/// it.
///
/// # Errors
///
/// If there is no such run, or its log cannot be read.
pub fn read_run(
    workspace: &Workspace,
    prefix: Option<&str>,
    show: impl FnMut(&Record, &Run),
) -> Result<RunSummary, EngineError> {
    let state = open(workspace)?.ok_or(EngineError::NoRuns)?;
    let run = match prefix {
        Some(prefix) => state.find_run(prefix)?,
        None => {
            let newest = runs_of(&state, worktree(workspace))?.pop().ok_or(EngineError::NoRuns)?;
            newest.id().clone()
        }
    };
    Ok(summary(Folded::read(&state, &run, show)?))
}

/// Who works here now.
#[must_use]
pub fn holder(workspace: &Workspace) -> Option<Holder> {
    WorkDirLock::holder_of(&StateLayout::new(&workspace.state_dir).lock(worktree(workspace)))
}

/// An unfinished run of this place is an error for whoever wants to start another.
pub(crate) fn refuse_unfinished(state: &StateDir, header: &RunStarted) -> Result<(), EngineError> {
    // A new run supersedes what came before it, so only the newest can be unfinished.
    let newest = runs_of(state, header.place.worktree.as_deref())?.pop();
    let Some(last) = newest.filter(|newest| !is_complete(&newest.run)) else { return Ok(()) };
    let same_task = task_hash(&last.run.header().manifest) == task_hash(&header.manifest);
    Err(EngineError::Unfinished { run: last.id().clone(), same_task })
}

/// The run that a resume means.
pub(crate) fn resumable(
    state: &StateDir,
    workspace: &Workspace,
    prefix: Option<&str>,
) -> Result<RunId, EngineError> {
    let Some(prefix) = prefix else {
        let newest = runs_of(state, worktree(workspace))?.pop().ok_or(EngineError::NothingToResume)?;
        let folded = Folded::read(state, newest.id(), |_, _| {})?;
        return if is_done(&folded) { Err(EngineError::NothingToResume) } else { Ok(newest.id().clone()) };
    };
    let run = state.find_run(prefix)?;
    let found = Folded::read(state, &run, |_, _| {})?;
    if is_done(&found) { Err(EngineError::Complete { run }) } else { Ok(run) }
}

/// Another run has worked in the same place since this one last did. One that cannot be read is no
/// reason to leave this one.
pub(crate) fn is_superseded(state: &StateDir, journal: &Journal) -> Result<bool, EngineError> {
    let (ours, last) = (journal.run().header(), journal.last().time);
    let others = state.runs()?.into_iter().filter(|id| *id != ours.run);
    let mut read = others.filter_map(|id| Folded::read(state, &id, |_, _| {}).ok());
    let same_place = |run: &Run| run.header().place.worktree == ours.place.worktree;
    Ok(read.any(|other| other.last().time > last && same_place(other.run())))
}

/// Complete, and nothing of it is left to do: an engine may have died before it archived the last
/// handoff.
fn is_done(folded: &Folded) -> bool {
    is_complete(folded.run()) && folded.is_settled()
}

fn is_complete(run: &Run) -> bool {
    matches!(run.outcome(), Some(Outcome::Complete { .. }))
}

fn runs_of(state: &StateDir, worktree: Option<&str>) -> Result<Vec<RunSummary>, EngineError> {
    let mut runs = Vec::new();
    for id in state.runs()? {
        runs.push(summary(Folded::read(state, &id, |_, _| {})?));
    }
    runs.retain(|summary| summary.run.header().place.worktree.as_deref() == worktree);
    runs.sort_by_key(|summary| summary.run.started_at());
    Ok(runs)
}

fn summary(folded: Folded) -> RunSummary {
    let last = folded.last().time;
    RunSummary { run: folded.into_run(), last }
}

fn open(workspace: &Workspace) -> Result<Option<StateDir>, EngineError> {
    let disk = Arc::new(RealDisk::fenced(&workspace.dir));
    Ok(StateDir::open(disk, StateLayout::new(&workspace.state_dir))?)
}

fn worktree(workspace: &Workspace) -> Option<&str> {
    workspace.git.as_ref().and_then(|git| git.worktree.as_deref())
}

fn task_hash(manifest: &Manifest) -> String {
    let tasks: String = manifest.stages.iter().map(|stage| stage.task.as_str()).collect();
    sha256_hex(tasks.as_bytes())
}
