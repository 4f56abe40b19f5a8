//! One run in this process: its work dir, its log, the runtime and the signals.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ekiden_agent::address::Socket;
use ekiden_core::event::{Continued, Event, RunResumed};
use ekiden_core::issue::TrackerKind;
use ekiden_core::manifest::Isolation;
use ekiden_core::outcome::Outcome;
use ekiden_core::run::Run;
use ekiden_core::settings::{CommitPlan, RunStarted};
use ekiden_core::steering::{Steered, StopRequest};
use ekiden_store::disk::Disk;
use ekiden_store::error::StoreError;
use ekiden_store::lock::{Holder, WorkDirLock, lock_attempt};
use ekiden_store::published::{exclude_from_git, hide_state, prepare_published};
use ekiden_store::state::{LockedStateDir, create_state_root};
use tokio::sync::mpsc;

use crate::clock::{Clock, SystemClock};
use crate::effect_runner::Input;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::branch;
use crate::git::status::under_way;
use crate::git::{Git, dirty};
use crate::history;
use crate::journal::Journal;
use crate::leftovers;
use crate::log_check::{self, ChangedLog};
use crate::main_loop::run_to_end;
use crate::notify::Endpoint;
use crate::observer::Observer;
use crate::overlap;
use crate::paths::RunPaths;
use crate::process_runner::ProcessRunner;
use crate::registry;
use crate::run_files::RunFiles;
use crate::runtime::{runtime, system};
pub use crate::signals::OnHangup;
use crate::signals::Signals;
use crate::state_trust;
use crate::steering;
use crate::steering_socket;
use crate::workspace::Workspace;
use crate::worktrees::{SUBJECT, Worktrees};

/// Inputs that wait for the loop; a full channel makes their senders wait.
const INPUTS_MAX: usize = 256;
/// How long to wait for processes that an engine left behind: the keeper's grace time and some more.
pub(crate) const KEEPER_PATIENCE: Duration = Duration::from_secs(10);

/// How this process drives a run. It is not part of the run, so it is not in its log.
#[derive(Debug, Clone)]
pub struct Driving {
    pub on_hangup: OnHangup,
    /// Where notices go.
    pub endpoints: Vec<Endpoint>,
    /// The subject of commits, in which `{subject}` and `{issue}` stand for ekiden's own and the run's issue.
    pub commit_subject: String,
    /// Where the project has issues in files, from the work dir.
    pub issues_dir: String,
    /// What people said to it before this process began, except what its log already has.
    pub messages: Vec<Steered>,
}

impl Driving {
    /// Continues when the terminal goes away, and notifies nobody.
    pub fn alone() -> Self {
        Self {
            on_hangup: OnHangup::Continue,
            endpoints: Vec::new(),
            commit_subject: SUBJECT.to_owned(),
            issues_dir: String::new(),
            messages: Vec::new(),
        }
    }
}

/// Starts a run and drives it to its end. It is an error if another engine works here or an unfinished run is here. A run
/// that has begun can be resumed after an error.
pub fn start(
    workspace: &Workspace,
    header: RunStarted,
    set_aside: bool,
    driving: Driving,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let disk = real_disk(workspace, &header);
    start_on(disk, workspace, header, set_aside, driving, observer)
}

/// Like [`start`], on the caller's disk, which counts its syncs.
pub fn start_on(
    disk: Arc<dyn Disk>,
    workspace: &Workspace,
    header: RunStarted,
    set_aside: bool,
    driving: Driving,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let mut work_dir = LockedWorkDir::take(disk, workspace)?;
    leftovers::warn(work_dir.left_behind, observer);
    if !set_aside {
        let (place, wanted) = (&header.place, Some(&header.manifest));
        history::refuse_unfinished(work_dir.state.view(), place.worktree.as_deref(), wanted)?;
    }
    let header = work_dir.ready(header)?;
    let on_hangup = driving.on_hangup.of(&header);
    work_dir.state.lock_mut().name_run(header.run.clone())?;
    work_dir.drive(on_hangup, |work_dir| {
        let (journal, effects) = Journal::create(&work_dir.state, SystemClock.now(), header)?;
        let is_imported = journal.run().header().imported.is_some();
        let (mut engine, inputs, socket) = work_dir.engine(journal, &driving, observer)?;
        engine.begin(effects)?;
        if is_imported {
            let stop = Event::StopRequested(StopRequest::Gently);
            engine.take(SystemClock.now(), Input::Event(stop))?;
        }
        for message in driving.messages {
            engine.note(SystemClock.now(), Event::Steered(message))?;
        }
        Ok((engine, inputs, socket))
    })
}

/// Continues an unfinished run.
pub fn resume(
    workspace: &Workspace,
    prefix: Option<&str>,
    resumed: RunResumed,
    changed_log: ChangedLog,
    driving: Driving,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let mut work_dir = LockedWorkDir::take(Arc::new(workspace.disk()), workspace)?;
    let found = history::resumable(work_dir.state.view(), workspace, prefix)?;
    let differs = work_dir.check_log(found.id(), changed_log)?;
    let accepted = differs.map(|seq| Event::LogAccepted { seq });
    let events = accepted.into_iter().collect();
    go_on(
        work_dir,
        &found.run,
        events,
        Event::RunResumed(resumed),
        driving,
        observer,
    )
}

/// Continues a complete run with follow-up work.
pub fn continue_with(
    workspace: &Workspace,
    prefix: Option<&str>,
    mut continued: Continued,
    driving: Driving,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let mut work_dir = LockedWorkDir::take(Arc::new(workspace.disk()), workspace)?;
    let found = history::continuable(work_dir.state.view(), workspace, prefix)?;
    work_dir.check_log(found.id(), ChangedLog::Refuse)?;
    // Its branch may have been merged and deleted.
    work_dir.switch(found.run.header(), None)?;
    if found.run.header().settings.commit.is_some() {
        continued.commit = Some(work_dir.uncommitted()?);
    }
    let event = Event::Continued(continued);
    go_on(work_dir, &found.run, Vec::new(), event, driving, observer)
}

fn go_on(
    mut work_dir: LockedWorkDir,
    found: &Run,
    mut notes: Vec<Event>,
    event: Event,
    mut driving: Driving,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let header = found.header();
    let on_hangup = driving.on_hangup.of(header);
    work_dir.disk = real_disk(&work_dir.workspace, header);
    work_dir.state.lock_mut().name_run(header.run.clone())?;
    let journal = Journal::open(&work_dir.state, &header.run)?;
    let ended = work_dir.end_leftovers(&journal)?;
    leftovers::warn(work_dir.left_behind + ended, observer);
    match work_dir.switch(header, last_commit(found)) {
        // A session left a rebase unfinished. The next one finds it, and commits wait for the branch.
        Err(EngineError::Branch(refused)) if has_worked(found) && work_dir.is_git_busy() => {
            observer.warn(&format!("cannot {refused}"));
        }
        switched => switched?,
    }
    work_dir.restore_worktrees(&journal)?;
    work_dir.drive(on_hangup, |work_dir| {
        work_dir.reclaim(&journal)?;
        notes.extend(journal.differs().map(|seq| Event::LogicChanged { seq }));
        notes.extend(driving.messages.drain(..).map(Event::Steered));
        let (mut engine, inputs, socket) = work_dir.engine(journal, &driving, observer)?;
        let at = SystemClock.now();
        for note in notes {
            engine.note(at, note)?;
        }
        engine.resume(at, event)?;
        Ok((engine, inputs, socket))
    })
}

fn has_worked(run: &Run) -> bool {
    let mut relays = run.relays();
    relays.any(|(_, relay)| relay.totals.sessions > 0 || relay.has_started())
}

/// The last commit of a run that has worked on its branch. A plan's stages have others.
fn last_commit(run: &Run) -> Option<&str> {
    let has_worked = has_worked(run) && run.header().manifest.plan.is_none();
    let mut relays = run.relays().filter(|_| has_worked);
    relays.find_map(|(_, relay)| relay.seen.survey.as_ref()?.head.as_deref())
}

/// An engine that has begun, its inputs, and the socket on which it is steered.
type Started<'o> = (
    Engine<'o, ProcessRunner>,
    mpsc::Receiver<Input>,
    Option<Socket>,
);

/// A work dir that only this process may work in, for a run or for planning.
pub(crate) struct LockedWorkDir {
    pub(crate) workspace: Workspace,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) state: LockedStateDir,
    /// Our own executable, which has the hidden roles.
    pub(crate) ekiden: PathBuf,
    /// How many processes of an earlier run were ended.
    pub(crate) left_behind: usize,
}

impl LockedWorkDir {
    /// Takes the lock and makes the directories and files that a run needs.
    pub(crate) fn take(disk: Arc<dyn Disk>, workspace: &Workspace) -> Result<Self, EngineError> {
        let layout = workspace.layout();
        create_state_root(&*disk, &layout)?;
        let lock = WorkDirLock::take(&layout.lock(workspace.worktree()), us());
        let lock = match lock {
            Err(StoreError::Held { holder, .. }) => return Err(EngineError::Held { holder }),
            lock => lock?,
        };
        state_trust::settle(workspace)?;
        let state = LockedStateDir::open(Arc::clone(&disk), layout, lock)?;
        let chains = log_check::chains(&disk, workspace, state.view().layout())?;
        let state = state.copying_chains(chains);
        // Only lists of all runs need it.
        let _ = registry::note(workspace, SystemClock.now());
        overlap::refuse(workspace)?;
        prepare_published(&*disk, &workspace.published(), state.view().layout())?;
        if let Some(git) = &workspace.git {
            exclude_from_git(&*disk, &git.common_dir.join("info").join("exclude"))?;
            hide_state(
                &*disk,
                &workspace.state_dir,
                &workspace.dir,
                &git.common_dir,
            )?;
        }
        Ok(Self {
            left_behind: leftovers::end_unkept(state.view()),
            workspace: workspace.clone(),
            disk,
            state,
            ekiden: ekiden_agent::keeper::executable()
                .map_err(system("find ekiden's executable"))?,
        })
    }

    /// Switches to the run's branch, and notes which files commits will leave alone.
    fn ready(&self, mut header: RunStarted) -> Result<RunStarted, EngineError> {
        self.switch(&header, None)?;
        if header.settings.commit.is_some() {
            header.settings.commit = Some(self.uncommitted()?);
        }
        Ok(header)
    }

    fn switch(&self, header: &RunStarted, last: Option<&str>) -> Result<(), EngineError> {
        if let Some(branch) = &header.place.branch {
            branch::switch(&self.workspace, branch, last)?;
        }
        Ok(())
    }

    /// Git is in the middle of an operation.
    fn is_git_busy(&self) -> bool {
        let git = Git::new(self.ekiden.clone(), self.workspace.dir.clone());
        git.git_dir().and_then(|dir| under_way(&dir)).is_some()
    }

    /// The files that commits will leave alone.
    fn uncommitted(&self) -> Result<CommitPlan, EngineError> {
        let git = Git::new(self.ekiden.clone(), self.workspace.dir.clone());
        let plan = runtime()?.block_on(dirty::plan(&git));
        let plan = plan.map_err(std::io::Error::other);
        plan.map_err(system("tell what is not committed yet"))
    }

    /// Drives the run that `begin` starts to its end.
    fn drive<'o>(
        self,
        on_hangup: OnHangup,
        begin: impl FnOnce(&Self) -> Result<Started<'o>, EngineError>,
    ) -> Result<Outcome, EngineError> {
        let runtime = runtime()?;
        // If somebody kills keepers, we adopt their orphans.
        let _ = ekiden_agent::become_subreaper();
        runtime.block_on(async {
            let signals = Signals::listen(on_hangup)?;
            let (engine, inputs, _socket) = begin(&self)?;
            run_to_end(engine, inputs, signals).await
        })
    }

    fn engine<'o>(
        &self,
        journal: Journal,
        driving: &Driving,
        observer: &'o mut dyn Observer,
    ) -> Result<Started<'o>, EngineError> {
        if !journal.is_copied() {
            let text = "cannot keep hashes of this run's log outside of it: ";
            observer.warn(&format!("{text}{}", self.uncopied()));
        }
        let header = journal.run().header();
        let (mut paths, disk) = (self.paths(header), || Arc::clone(&self.disk));
        paths.issue = self.issue_file(header, driving);
        let files = RunFiles::new(disk(), paths.clone())?;
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let (run, mut worktrees) = (header.run.clone(), self.worktrees(header));
        let has_issue = header.issue.is_some();
        let issue = header.issue.as_ref().map(ToString::to_string);
        worktrees.subject = driving
            .commit_subject
            .replace("{issue}", &issue.unwrap_or_default());
        let socket = steering_socket::of_run(paths.run_dir.socket(), &sender);
        let mut runner = ProcessRunner::new(
            self.ekiden.clone(),
            run,
            paths,
            worktrees,
            disk(),
            driving.endpoints.clone(),
            sender,
        );
        runner.hides_keys = has_issue;
        let engine = Engine::new(journal, files, runner, observer);
        Ok((engine, inputs, socket))
    }

    fn issue_file(&self, header: &RunStarted, driving: &Driving) -> Option<PathBuf> {
        let issue = header.issue.as_ref()?;
        let dir = match (issue.tracker, issue.repo.as_str()) {
            (TrackerKind::Local, "") => driving.issues_dir.as_str(),
            (TrackerKind::Local, dir) => dir,
            (TrackerKind::Linear | TrackerKind::Github, _) => return None,
        };
        let dir = self.workspace.dir.join(dir).canonicalize().ok()?;
        Some(dir.join(format!("{}.md", issue.id)))
    }

    /// Why links are not copied, and what that means.
    fn uncopied(&self) -> String {
        let why = match &self.workspace.user_dir {
            None => "there is no home directory".to_owned(),
            Some(dir) => format!("{} cannot be written", dir.display()),
        };
        format!("{why}; `ekiden resume` will need `--trust-state`")
    }

    fn worktrees(&self, header: &RunStarted) -> Worktrees {
        Worktrees::new(
            self.ekiden.clone(),
            Arc::clone(&self.disk),
            self.paths(header),
            &header.manifest,
        )
    }

    /// Recreates worktrees that stages need.
    fn restore_worktrees(&self, journal: &Journal) -> Result<(), EngineError> {
        let run = journal.run();
        let worktrees = self.worktrees(run.header());
        let stages = run.with_worktrees().filter_map(|id| run.stage(id));
        let all = run.header().manifest.stages.iter().map(|stage| &stage.id);
        let stages = stages.cloned().collect();
        let restoring = worktrees.restore(all, stages, run.integration_commit());
        runtime()?
            .block_on(restoring)
            .map_err(|why| EngineError::Worktree {
                run: run.header().run.clone(),
                why,
            })
    }

    pub(crate) fn paths(&self, header: &RunStarted) -> RunPaths {
        RunPaths::new(
            self.workspace.clone(),
            self.state.view().layout().run(&header.run),
            header,
        )
    }

    /// Publishes again if another run has worked here since: its files must not be taken for a person's edits. They are
    /// kept beside the session, since a person may have changed them.
    fn reclaim(&self, journal: &Journal) -> Result<(), EngineError> {
        if !history::is_superseded(self.state.view(), journal)? {
            return Ok(());
        }
        let run = journal.run();
        let files = RunFiles::new(Arc::clone(&self.disk), self.paths(run.header()))?;
        run.relays().try_for_each(|(stage, relay)| {
            let mut touched = files.touched(relay);
            // The task of another run is in its log.
            touched.retain(|found| found.file.is_some());
            files.keep_touched(stage, relay.session(), &touched)?;
            Ok(files.publish(relay, false)?)
        })
    }

    /// Waits until no keeper of the last attempt lives, and ends what escaped even the keepers. Returns how many processes
    /// were ended.
    fn end_leftovers(&self, journal: &Journal) -> Result<usize, EngineError> {
        let run = journal.run();
        let paths = self.paths(run.header());
        let tasks = leftovers::end_tasks(run, journal.outstanding());
        let attempted = run.live().filter(|(_, relay)| relay.attempt().is_some());
        for (stage, _) in attempted {
            let path = paths.relay(stage).attempt_lock();
            if self.disk.stat(&path)?.is_none() {
                continue;
            }
            match lock_attempt(&path, KEEPER_PATIENCE) {
                Err(StoreError::Held { .. }) => {
                    let run = run.header().run.clone();
                    return Err(EngineError::StillAlive { run });
                }
                locked => drop(locked?),
            }
        }
        Ok(tasks + leftovers::end_unkept(self.state.view()))
    }
}

/// The disk of a run, with fences around its work dir and its worktrees.
fn real_disk(workspace: &Workspace, header: &RunStarted) -> Arc<dyn Disk> {
    let disk = workspace.disk();
    let rules = header.manifest.plan.as_deref();
    match rules.map(|rules| &rules.isolation) {
        Some(Isolation::Worktrees { dir, .. }) => Arc::new(disk.and_fenced(Path::new(dir))),
        Some(Isolation::InPlace) | None => Arc::new(disk),
    }
}

/// What others read while we hold the lock.
fn us() -> Holder {
    Holder {
        pid: std::process::id(),
        host: steering::host(),
        started: SystemClock.now(),
        run: None,
    }
}
