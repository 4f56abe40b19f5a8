//! Looking at runs without working on them: status, log, and which run a resume means.

use std::collections::BTreeMap;
use std::sync::Arc;

use ekiden_core::budget::Prices;
use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::event::Event;
use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::{RunId, SessionNumber};
use ekiden_core::manifest::Manifest;
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::relay::Relay;
use ekiden_core::renewal::StartingPoint;
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::{Disk, RealDisk};
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
    /// Every recorded effect has its outcome.
    pub is_settled: bool,
}

impl RunSummary {
    /// The run's id.
    #[must_use]
    pub fn id(&self) -> &RunId {
        &self.run.header().run
    }
}

/// A run as the beginning of its log tells it.
#[derive(Debug)]
pub struct Listed {
    /// The run.
    pub run: RunId,
    /// When it was started, if that can be read.
    pub started: Option<Timestamp>,
    /// Why its log cannot be read, if that shows at its beginning.
    pub unreadable: Option<EngineError>,
    /// Where it worked. Nothing if that cannot be read; then it may have been anywhere.
    worktree: Option<Option<String>>,
}

/// All runs of this work dir, oldest first. None where nothing ever ran. A run is its own fault domain:
/// one that cannot be read is in the list with the reason, and the others are as they are.
///
/// Only the beginning of each log is read, so the list is quick however long the runs are.
///
/// # Errors
///
/// If the state directory cannot be read.
pub fn list(workspace: &Workspace) -> Result<Vec<Listed>, EngineError> {
    match open(workspace)? {
        Some(state) => listed(&state, worktree(workspace)),
        None => Ok(Vec::new()),
    }
}

/// One run, whole; `show` sees every record with the state after it.
///
/// # Errors
///
/// If there is no such run, or its log cannot be read.
pub fn read(
    workspace: &Workspace,
    run: &RunId,
    show: impl FnMut(&Record, &Run),
) -> Result<RunSummary, EngineError> {
    let state = open(workspace)?.ok_or(EngineError::NoRuns)?;
    let folded = Folded::read(&state, run, show);
    folded.map(summary).map_err(|cause| EngineError::Unreadable { run: run.clone(), cause: Box::new(cause) })
}

/// The run that a question is about: by the beginning of its id, or the newest that can be read. Runs
/// that are newer and cannot be read are told as well.
///
/// # Errors
///
/// If there is no such run.
pub fn find(workspace: &Workspace, prefix: Option<&str>) -> Result<(RunId, Vec<Listed>), EngineError> {
    let state = open(workspace)?.ok_or(EngineError::NoRuns)?;
    if let Some(prefix) = prefix {
        return Ok((state.find_run(prefix)?, Vec::new()));
    }
    let mut newer = Vec::new();
    let mut runs = listed(&state, worktree(workspace))?;
    while let Some(run) = runs.pop() {
        if run.unreadable.is_none() {
            return Ok((run.run, newer));
        }
        newer.push(run);
    }
    Err(newer.into_iter().next().map_or(EngineError::NoRuns, unreadable))
}

/// How long a run's log is, in bytes: a cheap way to see that something happened.
///
/// # Errors
///
/// If there is no such log, or the disk refuses.
pub fn log_bytes(workspace: &Workspace, run: &RunId) -> Result<u64, EngineError> {
    let path = StateLayout::new(&workspace.state_dir).run(run).log();
    let stat = RealDisk::fenced(&workspace.dir).stat(&path)?;
    stat.map(|stat| stat.len).ok_or(EngineError::NoRuns)
}

/// What a session of a run left, for another run to go on from; and that run as it stands. The
/// texts are taken from the log, at the record after which the session's handoff was accepted or its
/// rescue written.
///
/// # Errors
///
/// If there is no such run, its log cannot be read, or the session left nothing.
pub fn starting_point(
    workspace: &Workspace,
    prefix: Option<&str>,
    session: SessionNumber,
) -> Result<(StartingPoint, RunSummary), EngineError> {
    let (run, _) = find(workspace, prefix)?;
    let (mut points, mut overtaken) = (BTreeMap::new(), false);
    let summary = read(workspace, &run, |record, run| {
        overtaken |= starts_after(record, session);
        let relay = run.relays().next().map(|(_, relay)| relay);
        if let Some(last) = relay.and_then(|relay| relay.last()) {
            points.entry(last.session).or_insert_with(|| relay.and_then(Relay::starting_point));
        }
    })?;
    match points.remove(&session).flatten() {
        Some(point) => Ok((StartingPoint { overtaken, ..point }, summary)),
        None => Err(EngineError::NoHandoff { run, session, sessions: points.into_keys().collect() }),
    }
}

fn starts_after(record: &Record, session: SessionNumber) -> bool {
    record.effects.iter().any(|effect| match effect {
        Effect::Stage { effect: RelayEffect::StartAttempt(start), .. } => start.attempt.session > session,
        Effect::Stage { .. } | Effect::Ground { .. } | Effect::Deliver | Effect::EndRun { .. } => false,
    })
}

/// What models cost, as the newest run here has learned it. Nothing if there is none that can be read: a
/// price is only a better guess.
#[must_use]
pub fn prices(workspace: &Workspace) -> Prices {
    let newest = find(workspace, None).and_then(|(newest, _)| read(workspace, &newest, |_, _| {}));
    newest.map(|newest| newest.run.prices()).unwrap_or_default()
}

/// Who works here now.
#[must_use]
pub fn holder(workspace: &Workspace) -> Option<Holder> {
    WorkDirLock::holder_of(&StateLayout::new(&workspace.state_dir).lock(worktree(workspace)))
}

/// An unfinished run of this place is an error for whoever wants to start another. So is one that
/// cannot be read: nobody knows whether it is finished.
pub(crate) fn refuse_unfinished(state: &StateDir, header: &RunStarted) -> Result<(), EngineError> {
    // A new run supersedes what came before it, so only the newest can be unfinished.
    let Some(newest) = listed(state, header.place.worktree.as_deref())?.pop() else { return Ok(()) };
    let in_the_way =
        |cause| EngineError::UnreadableInTheWay { run: newest.run.clone(), cause: Box::new(cause) };
    if let Some(cause) = newest.unreadable {
        return Err(in_the_way(cause));
    }
    let last = Folded::read(state, &newest.run, |_, _| {}).map_err(in_the_way)?;
    if is_complete(last.run()) {
        return Ok(());
    }
    let tasks = |manifest: &Manifest| task_hash(manifest.stages.iter().map(|stage| stage.task.as_str()));
    // The task of a single relay may be another by now.
    let now = match &last.run().header().manifest.plan {
        Some(_) => tasks(&last.run().header().manifest),
        None => task_hash(last.run().relays().map(|(_, relay)| relay.stage().task.as_str())),
    };
    let same_task = now == tasks(&header.manifest);
    Err(EngineError::Unfinished { run: newest.run, same_task })
}

/// The run that a resume means.
pub(crate) fn resumable(
    state: &StateDir,
    workspace: &Workspace,
    prefix: Option<&str>,
) -> Result<RunId, EngineError> {
    let Some(prefix) = prefix else {
        let newest = listed(state, worktree(workspace))?.pop().ok_or(EngineError::NothingToResume)?;
        let run = newest.run.clone();
        if newest.unreadable.is_some() {
            return Err(unreadable(newest));
        }
        let folded = Folded::read(state, &run, |_, _| {})
            .map_err(|cause| EngineError::Unreadable { run: run.clone(), cause: Box::new(cause) })?;
        return if is_done(&folded) { Err(EngineError::NothingToResume) } else { Ok(run) };
    };
    let run = state.find_run(prefix)?;
    let found = Folded::read(state, &run, |_, _| {})?;
    if is_done(&found) { Err(EngineError::Complete { run }) } else { Ok(run) }
}

/// What a run was started with.
pub(crate) fn header(state: &StateDir, run: &RunId) -> Result<RunStarted, EngineError> {
    Ok(Folded::read(state, run, |_, _| {})?.run().header().clone())
}

/// The run that follow-up work means: the newest, unless it is named.
pub(crate) fn continuable(
    state: &StateDir,
    workspace: &Workspace,
    prefix: Option<&str>,
) -> Result<RunId, EngineError> {
    let run = match prefix {
        Some(prefix) => state.find_run(prefix)?,
        None => {
            let newest = listed(state, worktree(workspace))?.pop().ok_or(EngineError::NoRuns)?;
            if newest.unreadable.is_some() {
                return Err(unreadable(newest));
            }
            newest.run
        }
    };
    let found = Folded::read(state, &run, |_, _| {})
        .map_err(|cause| EngineError::Unreadable { run: run.clone(), cause: Box::new(cause) })?;
    if is_complete(found.run()) { Ok(run) } else { Err(EngineError::NotComplete { run }) }
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

/// The runs of a place by their beginnings, oldest first. One of which not even the start can be read
/// counts as the oldest: it must not stand in the way of all that comes after it.
fn listed(state: &StateDir, worktree: Option<&str>) -> Result<Vec<Listed>, EngineError> {
    let mut runs: Vec<Listed> = state.runs()?.into_iter().map(|id| look(state, id)).collect();
    runs.retain(|run| run.worktree.as_ref().is_none_or(|place| place.as_deref() == worktree));
    runs.sort_by_key(|run| run.started);
    Ok(runs)
}

/// A look at the beginning of a run's log. Where that cannot be read, what it says of time and place
/// is taken as it stands, whatever version wrote it.
fn look(state: &StateDir, run: RunId) -> Listed {
    match first_record(state, &run) {
        Ok((time, header)) => {
            Listed { run, started: Some(time), unreadable: None, worktree: Some(header.place.worktree) }
        }
        Err(error) => {
            let first = state.glance(&run).unwrap_or_default();
            let started = first["time"].as_u64().map(Timestamp);
            let place = started.map(|_| first["event"]["place"]["worktree"].as_str().map(str::to_owned));
            Listed { run, started, unreadable: Some(error), worktree: place }
        }
    }
}

fn first_record(state: &StateDir, run: &RunId) -> Result<(Timestamp, RunStarted), EngineError> {
    let first = state.read_log::<Record>(run)?.next().transpose()?;
    match first.map(|record| (record.time, record.event)) {
        Some((time, Event::RunStarted(header))) => Ok((time, *header)),
        Some(_) | None => Err(EngineError::Empty { run: run.clone() }),
    }
}

fn unreadable(run: Listed) -> EngineError {
    let cause = run.unreadable.unwrap_or(EngineError::Empty { run: run.run.clone() });
    EngineError::Unreadable { run: run.run, cause: Box::new(cause) }
}

fn summary(folded: Folded) -> RunSummary {
    let (last, is_settled) = (folded.last().time, folded.is_settled());
    RunSummary { run: folded.into_run(), last, is_settled }
}

fn open(workspace: &Workspace) -> Result<Option<StateDir>, EngineError> {
    let disk = Arc::new(RealDisk::fenced(&workspace.dir));
    Ok(StateDir::open(disk, StateLayout::new(&workspace.state_dir))?)
}

fn worktree(workspace: &Workspace) -> Option<&str> {
    workspace.git.as_ref().and_then(|git| git.worktree.as_deref())
}

fn task_hash<'a>(tasks: impl Iterator<Item = &'a str>) -> String {
    sha256_hex(tasks.collect::<String>().as_bytes())
}
