//! Reads runs without working on them: for status, log, and finding the run to resume.

mod newest;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::event::Event;
use ekiden_core::handoff::{self, FileText, HandoffFile, HandoffFiles};
use ekiden_core::ids::{AttemptNumber, RunId, SessionNumber};
use ekiden_core::manifest::{Manifest, Stage};
use ekiden_core::outcome::Outcome;
use ekiden_core::record::Record;
use ekiden_core::relay::goal_of_list;
use ekiden_core::renewal::{LastSession, NewTask, StartingPoint};
use ekiden_core::run::Run;
use ekiden_core::settings::RunStarted;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::disk::Disk;
use ekiden_store::error::{FileFault, StoreError};
use ekiden_store::format::{self, Access};
use ekiden_store::lock::{Holder, WorkDirLock};
use ekiden_store::log::LogReader;
use ekiden_store::state::StateDir;

pub use self::newest::{newest_of_project, newest_run};
use crate::clock::{Clock as _, SystemClock};
use crate::error::{EngineError, UnfinishedTask};
use crate::journal::Journal;
pub use crate::journal::RunSummary;
use crate::session_archive::{Part, SessionArchive};
use crate::workspace::Workspace;
use crate::worktrees::check::is_apart;

/// A run that began so much later than now is from the future; less may be this clock's fault.
const CLOCK_SLACK: Millis = Millis::from_secs(24 * 60 * 60);

/// What the beginning of a run's log says.
#[derive(Debug)]
pub struct Listed {
    pub run: RunId,
    /// When it was started, if that can be read.
    pub started: Option<Timestamp>,
    /// Why its log cannot be read, if its beginning shows that.
    pub unreadable: Option<EngineError>,
    /// Where it worked. None if that cannot be read; then it may have been anywhere.
    worktree: Option<Option<String>>,
}

impl Listed {
    /// The oldest run is the least. One whose first record cannot be read counts as the oldest, so that it does not
    /// hide those that came after it. So does one from the future: its clock was wrong.
    pub fn order(&self) -> (bool, Option<Timestamp>) {
        let latest = Some(SystemClock.now() + CLOCK_SLACK);
        (self.started <= latest, self.started)
    }
}

/// Whether a log that begins with this line is of a format that only a newer program writes.
pub fn is_newer(first_line: &str) -> bool {
    let (path, line) = (Path::new("log.jsonl"), first_line.as_bytes());
    matches!(
        format::LOG.check_line(path, line),
        Ok(Access::ReadOnly)
            | Err(StoreError::File {
                source: FileFault::TooNew { .. },
                ..
            })
    )
}

/// All runs of this work dir, oldest first. Empty where nothing ever ran. A run that cannot be read is in the
/// list with the reason.
///
/// Only the beginning of each log is read, so the list is quick however long the runs are.
pub fn list(workspace: &Workspace) -> Result<Vec<Listed>, EngineError> {
    match open(workspace)? {
        Some(state) => listed(&state, workspace.worktree()),
        None => Ok(Vec::new()),
    }
}

/// Reads a whole run; `show` sees every record with the state after it.
pub fn read(
    workspace: &Workspace,
    run: &RunId,
    show: impl FnMut(&Record, &Run),
) -> Result<RunSummary, EngineError> {
    let state = open(workspace)?.ok_or(EngineError::NoRuns)?;
    RunSummary::read(&state, run, show).map_err(|cause| unreadable(run.clone(), cause))
}

/// Follows a run's log while an engine writes it: each record is read once, however long the log is.
pub struct Follower {
    state: StateDir,
    log: LogReader<Record>,
}

/// Reads a whole run, as [`read`] does, and stays at the end of its log.
pub fn follow(
    workspace: &Workspace,
    run: &RunId,
    mut show: impl FnMut(&Record, &Run),
) -> Result<(RunSummary, Follower), EngineError> {
    let state = open(workspace)?.ok_or(EngineError::NoRuns)?;
    let cannot = |cause: EngineError| unreadable(run.clone(), cause);
    let mut log = state.read_log(run).map_err(|cause| cannot(cause.into()))?;
    let summary = RunSummary::read_first(run, &mut log, &mut show).map_err(cannot)?;
    Ok((summary, Follower { state, log }))
}

impl Follower {
    pub fn read_on(
        &mut self,
        summary: &mut RunSummary,
        mut show: impl FnMut(&Record, &Run),
    ) -> Result<(), EngineError> {
        self.state.read_on(&mut self.log)?;
        let run = summary.id().clone();
        let read = summary.read_on(&mut self.log, &mut show);
        read.map_err(|cause| unreadable(run, cause))
    }
}

/// The run whose id begins with the prefix, or the newest readable one, with the newer ones that are unreadable.
pub fn find(
    workspace: &Workspace,
    prefix: Option<&str>,
) -> Result<(RunId, Vec<Listed>), EngineError> {
    let state = open(workspace)?.ok_or(EngineError::NoRuns)?;
    if let Some(prefix) = prefix {
        return Ok((state.find_run(prefix)?, Vec::new()));
    }
    let mut newer = Vec::new();
    let mut runs = listed(&state, workspace.worktree())?;
    while let Some(run) = runs.pop() {
        if run.unreadable.is_none() {
            return Ok((run.run, newer));
        }
        newer.push(run);
    }
    let newest = newer.into_iter().next();
    let cause = newest.and_then(|newest| Some(unreadable(newest.run, newest.unreadable?)));
    Err(cause.unwrap_or(EngineError::NoRuns))
}

/// How long a run's log is, in bytes: a cheap way to see that something happened.
pub fn log_bytes(workspace: &Workspace, run: &RunId) -> Result<u64, EngineError> {
    let path = workspace.layout().run(run).log();
    let stat = workspace.disk().stat(&path)?;
    stat.map(|stat| stat.len).ok_or(EngineError::NoRuns)
}

/// What a run worked on at a session.
#[derive(Debug, Default)]
pub struct TaskThen {
    pub task: NewTask,
    /// It worked through a list of items.
    pub is_list: bool,
}

/// What a session of a run left for another run to continue from, the task of that time, and that run. The texts come
/// from the log, at the record after which the session's handoff was accepted or its rescue written.
pub fn starting_point(
    workspace: &Workspace,
    prefix: Option<&str>,
    session: SessionNumber,
) -> Result<(StartingPoint, TaskThen, RunSummary), EngineError> {
    let (run, _) = find(workspace, prefix)?;
    let (mut points, mut overtaken) = (BTreeMap::new(), false);
    let (mut then, mut is_followed_up) = (TaskThen::default(), false);
    let summary = read(workspace, &run, |record, run| {
        overtaken |= starts_after(record, session);
        let Some((_, relay)) = run.relays().next() else {
            return;
        };
        // A task that was only edited is still the task.
        let is_follow_up = matches!(record.event, Event::Continued(_));
        let newest = points.last_key_value().map(|(session, _)| *session);
        is_followed_up |= is_follow_up && newest >= Some(session);
        if !is_followed_up {
            then.is_list = relay.items.is_some();
            if then.task.text != relay.stage.task {
                then.task = relay.task();
            }
        }
        if let Some(last) = relay.last.as_ref() {
            points
                .entry(last.session)
                .or_insert_with(|| relay.starting_point());
        }
    })?;
    match points.remove(&session).flatten() {
        Some(point) => Ok((StartingPoint { overtaken, ..point }, then, summary)),
        None => match imported_point(workspace, &summary.run, session)? {
            Some(point) => Ok((point, then, summary)),
            None => Err(EngineError::NoHandoff {
                run,
                session,
                sessions: points.into_keys().collect(),
            }),
        },
    }
}

/// What a session left in another program before the run took over its relay; none if it is not such a session,
/// or if nothing was kept of it.
fn imported_point(
    workspace: &Workspace,
    run: &Run,
    session: SessionNumber,
) -> Result<Option<StartingPoint>, EngineError> {
    let header = run.header();
    let imported = header.imported.as_ref();
    let is_of = imported.is_some_and(|imported| imported.sessions.contains(&session));
    let Some(begun) = header.from.as_ref().filter(|_| is_of) else {
        return Ok(None);
    };
    let archive = SessionArchive::of(workspace, &header.run, None, session);
    let text = |file| -> Result<FileText, EngineError> {
        let bytes = archive.read(Part::Handoff(file), AttemptNumber::FIRST)?;
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(text.map_or(FileText::Absent, FileText::Text))
    };
    let files = HandoffFiles {
        progress: text(HandoffFile::Progress)?,
        next_prompt: text(HandoffFile::NextPrompt)?,
        knowledge: FileText::Absent,
    };
    if files.progress.text().or(files.next_prompt.text()).is_none() {
        return Ok(None);
    }
    let inspection = handoff::inspect(&files, &header.settings.marker);
    let known = text(HandoffFile::Knowledge)?;
    Ok(Some(StartingPoint {
        run: header.run.clone(),
        last: LastSession::of_files(session, &files, &inspection),
        knowledge: known.text().unwrap_or(&begun.knowledge).to_owned(),
        overtaken: true,
        task_changed: false,
    }))
}

fn starts_after(record: &Record, session: SessionNumber) -> bool {
    record.effects.iter().any(|effect| {
        matches!(effect, Effect::Stage { effect: RelayEffect::StartAttempt(start), .. }
            if start.attempt.session > session)
    })
}

/// The newest run that was imported from exactly this.
pub fn imported(workspace: &Workspace, hash: &str) -> Result<Option<RunId>, EngineError> {
    let Some(state) = open(workspace)? else {
        return Ok(None);
    };
    let is_it = |run: &Listed| {
        let (_, header) = first_record(&state, &run.run).ok()?;
        header.imported.filter(|imported| imported.hash == hash)
    };
    let mut runs = listed(&state, workspace.worktree())?.into_iter();
    Ok(runs.rfind(|run| is_it(run).is_some()).map(|run| run.run))
}

pub fn holder(workspace: &Workspace) -> Option<Holder> {
    WorkDirLock::holder_of(&workspace.layout().lock(workspace.worktree()))
}

/// Fails if another run here prevents a new one; `wanted` is what that does, if known. Panics within a runtime: it may start one.
pub fn check_unfinished(
    workspace: &Workspace,
    wanted: Option<&Manifest>,
) -> Result<(), EngineError> {
    let holder = holder(workspace).map(Box::new);
    if holder.is_some() {
        return Err(EngineError::Held { holder });
    }
    let newest = match open(workspace)? {
        Some(state) => refuse_unfinished(&state, workspace.worktree(), wanted)?,
        None => None,
    };
    let newest = newest.filter(|run| !run.outcome().is_none_or(Outcome::is_delivered));
    let Some((run, wanted)) = newest.as_ref().zip(wanted) else {
        return Ok(());
    };
    let id = &run.header().run;
    if unfinished_task(run, wanted) == UnfinishedTask::SamePlan && is_apart(workspace, id)? {
        return Err(EngineError::Unfinished {
            run: id.clone(),
            asks: false,
            task: UnfinishedTask::Undelivered,
        });
    }
    Ok(())
}

/// Fails if an unfinished run is here, or an unreadable one, since it may be unfinished. Returns the newest run.
pub(crate) fn refuse_unfinished(
    state: &StateDir,
    worktree: Option<&str>,
    wanted: Option<&Manifest>,
) -> Result<Option<Run>, EngineError> {
    // A new run supersedes what came before it, so only the newest can be unfinished.
    let Some(newest) = listed(state, worktree)?.pop() else {
        return Ok(None);
    };
    let in_the_way = |cause| EngineError::UnreadableInTheWay {
        run: newest.run.clone(),
        cause: Box::new(cause),
    };
    if let Some(cause) = newest.unreadable {
        return Err(in_the_way(cause));
    }
    let last = RunSummary::read(state, &newest.run, |_, _| {}).map_err(in_the_way)?;
    if last.run.outcome().is_some_and(Outcome::is_final) {
        return Ok(Some(last.run));
    }
    Err(EngineError::Unfinished {
        run: newest.run,
        asks: asks(&last.run),
        task: wanted.map_or(UnfinishedTask::Unknown, |wanted| {
            unfinished_task(&last.run, wanted)
        }),
    })
}

fn unfinished_task(run: &Run, wanted: &Manifest) -> UnfinishedTask {
    let begun = &run.header().manifest;
    match (&begun.plan, &wanted.plan) {
        (Some(before), Some(now)) => {
            // Prompts may be in separate files.
            let same_tasks = tasks(&begun.stages).eq(tasks(&wanted.stages));
            match (
                before.hash == now.hash && same_tasks,
                before.file == now.file,
            ) {
                (true, _) => UnfinishedTask::SamePlan,
                (false, true) => UnfinishedTask::EditedPlan,
                (false, false) => UnfinishedTask::Another,
            }
        }
        (Some(_), None) | (None, Some(_)) => UnfinishedTask::Another,
        (None, None) => {
            // The task of a single relay may have changed since.
            let now = run.relays().map(|(_, relay)| told_apart_by(&relay.stage));
            match now.eq(wanted.stages.iter().map(told_apart_by)) {
                true => UnfinishedTask::Same,
                false => UnfinishedTask::Another,
            }
        }
    }
}

pub(crate) fn resumable(
    state: &StateDir,
    workspace: &Workspace,
    prefix: Option<&str>,
) -> Result<RunSummary, EngineError> {
    let found = named_or_newest(state, workspace, prefix, EngineError::NothingToResume)?;
    // An engine may have died before it archived the last handoff.
    let is_final = found.run.outcome().is_some_and(Outcome::is_final);
    if !(is_final && found.is_settled()) {
        return Ok(found);
    }
    Err(match prefix.filter(|_| is_complete(&found.run)) {
        Some(_) => EngineError::Complete {
            run: found.id().clone(),
            is_plan: found.run.header().is_plan(),
        },
        None => EngineError::NothingToResume,
    })
}

/// The run that follow-up work continues.
pub(crate) fn continuable(
    state: &StateDir,
    workspace: &Workspace,
    prefix: Option<&str>,
) -> Result<RunSummary, EngineError> {
    let found = named_or_newest(state, workspace, prefix, EngineError::NoRuns)?;
    if is_complete(&found.run) {
        return Ok(found);
    }
    Err(EngineError::NotComplete {
        run: found.id().clone(),
        outcome: found.run.outcome().cloned().map(Box::new),
    })
}

fn asks(run: &Run) -> bool {
    run.outcome().is_some_and(Outcome::asks)
}

/// The run whose id begins with the prefix, else the newest; `none` if there is no run.
fn named_or_newest(
    state: &StateDir,
    workspace: &Workspace,
    prefix: Option<&str>,
    none: EngineError,
) -> Result<RunSummary, EngineError> {
    let run = match prefix {
        Some(prefix) => state.find_run(prefix)?,
        None => {
            let newest = listed(state, workspace.worktree())?.pop().ok_or(none)?;
            if let Some(cause) = newest.unreadable {
                return Err(unreadable(newest.run, cause));
            }
            newest.run
        }
    };
    RunSummary::read(state, &run, |_, _| {}).map_err(|cause| unreadable(run, cause))
}

/// Another run has worked in the same place since this one last did. Unreadable runs do not count. The logs are only
/// read, not folded: they are as many as ever ran here.
pub(crate) fn is_superseded(state: &StateDir, journal: &Journal) -> Result<bool, EngineError> {
    let (ours, last) = (journal.run().header(), journal.last().time);
    let mut others = listed(state, ours.place.worktree.as_deref())?.into_iter();
    Ok(others.any(|other| {
        let log = state.read_log::<Record>(&other.run).into_iter().flatten();
        other.run != ours.run && log.flatten().any(|record| record.time > last)
    }))
}

fn is_complete(run: &Run) -> bool {
    run.outcome().is_some_and(Outcome::is_complete)
}

/// The runs of a worktree, oldest first.
fn listed(state: &StateDir, worktree: Option<&str>) -> Result<Vec<Listed>, EngineError> {
    let is_here = |run: &Listed| {
        let place = run.worktree.as_ref();
        place.is_none_or(|place| place.as_deref() == worktree)
    };
    let ids = state.runs()?.into_iter();
    let mut runs: Vec<Listed> = ids.map(|id| look(state, id)).filter(is_here).collect();
    runs.sort_by_cached_key(Listed::order);
    Ok(runs)
}

/// Reads the beginning of a run's log. If that is not a record of ours, its time and place are taken as they are,
/// whatever version wrote them.
fn look(state: &StateDir, run: RunId) -> Listed {
    let (started, worktree, unreadable) = match first_record(state, &run) {
        Ok((time, header)) => (Some(time), Some(header.place.worktree), None),
        Err(error) => {
            let first = state.glance(&run).unwrap_or_default();
            let started = first["time"].as_u64().map(Timestamp);
            let worktree = first["event"]["place"]["worktree"].as_str();
            let worktree = started.map(|_| worktree.map(str::to_owned));
            (started, worktree, Some(error))
        }
    };
    Listed {
        run,
        started,
        unreadable,
        worktree,
    }
}

fn first_record(state: &StateDir, run: &RunId) -> Result<(Timestamp, RunStarted), EngineError> {
    let first = state.read_log::<Record>(run)?.next().transpose()?;
    match first.map(|record| (record.time, record.event)) {
        Some((time, Event::RunStarted(header))) => {
            EngineError::refuse_another(run, &header.run)?;
            Ok((time, *header))
        }
        Some(_) | None => Err(EngineError::Empty { run: run.clone() }),
    }
}

fn unreadable(run: RunId, cause: EngineError) -> EngineError {
    let cause = Box::new(cause);
    EngineError::Unreadable { run, cause }
}

/// The state here; none before anything has run.
pub fn open(workspace: &Workspace) -> Result<Option<StateDir>, EngineError> {
    Ok(StateDir::open(
        Arc::new(workspace.disk()),
        workspace.layout(),
    )?)
}

fn told_apart_by(stage: &Stage) -> (bool, &str) {
    let task = &stage.task;
    match stage.part.items {
        true => (true, goal_of_list(task)),
        false => (false, task),
    }
}

fn tasks(stages: &[Stage]) -> impl Iterator<Item = &String> {
    stages.iter().map(|stage| &stage.task)
}
