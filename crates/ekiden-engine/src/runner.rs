//! One run in this process: the runtime, the signals, the clock and the loop around an [`Engine`].
//!
//! ```text
//!  agents, tasks ──► inputs ─┐
//!  SIGINT, SIGTERM, SIGHUP ──┼─► next_input ──► Engine::take
//!  time, the inbox ──────────┘
//! ```
//!
//! The loop only receives and hands on. It ends when the run is over and everything that was started
//! has ended too.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ekiden_agent::workers::Workers;
use ekiden_core::effect::{Effect, RelayEffect};
use ekiden_core::event::{Event, RunResumed, StopRequest};
use ekiden_core::ids::RunId;
use ekiden_core::limits::KILL_GRACE;
use ekiden_core::manifest::Ground;
use ekiden_core::outcome::Outcome;
use ekiden_core::renewal::Continued;
use ekiden_core::settings::RunStarted;
use ekiden_core::time::Timestamp;
use ekiden_store::disk::{Disk, RealDisk};
use ekiden_store::layout::{Published, StateLayout};
use ekiden_store::lock::{AttemptLock, Holder, LockError, WorkDirLock};
use ekiden_store::published::{exclude_from_git, prepare_published};
use ekiden_store::state::{LockedStateDir, create_state_root};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use crate::branch;
use crate::changes;
use crate::clock::{Clock, SystemClock};
use crate::desk::Desk;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::git::Git;
use crate::grounds::Grounds;
use crate::hands::Input;
use crate::history;
use crate::journal::Journal;
use crate::observer::Observer;
use crate::places::Places;
use crate::processes::{ProcessHands, TASK_MARK, task_mark};
use crate::session_files::SessionFiles;
use crate::workspace::Workspace;

/// Inputs that wait for the loop; a full channel holds their senders back.
const INPUTS_MAX: usize = 256;
/// How often time is looked at while nothing else happens.
const TICK: Duration = Duration::from_secs(1);
/// How often the inbox is looked into: a person who pauses a run waits for the answer, and a look at an
/// empty directory costs microseconds.
const INBOX_LOOK: Duration = Duration::from_millis(250);
/// How long the end of what an engine left behind is waited for. The keeper's grace and some.
const KEEPER_PATIENCE: Duration = Duration::from_secs(10);

/// What to do about an unfinished run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfinished {
    /// Leave it and start nothing.
    Refuse,
    /// Leave it in the archive and start anew.
    SetAside,
}

/// Starts a run and carries it to its end.
///
/// # Errors
///
/// If another engine works here, an unfinished run lies here, or the state cannot be written. A run
/// that was begun can be resumed after an error.
pub fn start(
    workspace: &Workspace,
    header: RunStarted,
    unfinished: Unfinished,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    start_on(real_disk(workspace, &header), workspace, header, unfinished, observer)
}

/// As [`start`], on a disk that the caller may watch: it counts its syncs.
///
/// # Errors
///
/// As [`start`].
pub fn start_on(
    disk: Arc<dyn Disk>,
    workspace: &Workspace,
    header: RunStarted,
    unfinished: Unfinished,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let place = Place::take(disk, workspace)?;
    if unfinished == Unfinished::Refuse {
        history::refuse_unfinished(place.state.view(), &header)?;
    }
    let header = place.ready(header)?;
    place.drive(header.run.clone(), observer, |place, observer| {
        let at = SystemClock.now();
        let (journal, effects) = Journal::create(&place.state, at, header)?;
        let (mut engine, inputs) = place.engine(journal)?;
        engine.begin(at, effects, observer)?;
        Ok((engine, inputs))
    })
}

/// Carries a run on, after whatever end.
///
/// # Errors
///
/// As [`start`]; and if there is no such run, or it is complete.
pub fn resume(
    workspace: &Workspace,
    prefix: Option<&str>,
    resumed: RunResumed,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let place = Place::take(fenced(workspace), workspace)?;
    let run = history::resumable(place.state.view(), workspace, prefix)?;
    carry_on(place, &run, Event::RunResumed(resumed), observer)
}

/// Carries a complete run on with follow-up work.
///
/// # Errors
///
/// As [`start`]; and if there is no such run, or it is not complete.
pub fn continue_with(
    workspace: &Workspace,
    prefix: Option<&str>,
    continued: Continued,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let place = Place::take(fenced(workspace), workspace)?;
    let run = history::continuable(place.state.view(), workspace, prefix)?;
    carry_on(place, &run, Event::Continued(continued), observer)
}

fn carry_on(
    mut place: Place,
    run: &RunId,
    event: Event,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let header = history::header(place.state.view(), run)?;
    place.disk = real_disk(&place.workspace, &header);
    if let Some(branch) = &header.place.branch {
        branch::switch(&place.workspace, branch)?;
    }
    let journal = Journal::open(&place.state, run)?;
    place.end_leftovers(&journal)?;
    place.restore_grounds(&journal, observer)?;
    place.drive(run.clone(), observer, |place, observer| {
        place.reclaim(&journal)?;
        let differs = journal.differs();
        let (mut engine, inputs) = place.engine(journal)?;
        let at = SystemClock.now();
        if let Some(seq) = differs {
            engine.note(at, Event::LogicChanged { seq }, observer)?;
        }
        engine.take_up(at, event, observer)?;
        Ok((engine, inputs))
    })
}

type Started = (Engine<ProcessHands>, mpsc::Receiver<Input>);

/// The locked place of a run, or of planning.
pub(crate) struct Place {
    pub(crate) workspace: Workspace,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) state: LockedStateDir,
    /// Our own executable, which has the hidden roles.
    pub(crate) ekiden: PathBuf,
}

impl Place {
    /// Takes the lock and makes ready what a run needs on the disk.
    pub(crate) fn take(disk: Arc<dyn Disk>, workspace: &Workspace) -> Result<Self, EngineError> {
        let published = Published::new(&workspace.dir);
        let layout = StateLayout::new(&workspace.state_dir);
        create_state_root(&*disk, &layout)?;
        let worktree = workspace.git.as_ref().and_then(|git| git.worktree.as_deref());
        let lock = WorkDirLock::take(&layout.lock(worktree), us()).map_err(held)?;
        let state = LockedStateDir::open(Arc::clone(&disk), layout, lock)?;
        prepare_published(&*disk, &published, state.view().layout())?;
        if let Some(git) = &workspace.git {
            exclude_from_git(&*disk, &git.common_dir.join("info").join("exclude"))?;
        }
        let ekiden = ekiden_agent::keeper::executable()
            .map_err(|source| EngineError::System { what: "find the own executable", source })?;
        Ok(Self { workspace: workspace.clone(), disk, state, ekiden })
    }

    /// Takes the run's branch, and notes what commits will leave alone.
    fn ready(&self, mut header: RunStarted) -> Result<RunStarted, EngineError> {
        if let Some(branch) = &header.place.branch {
            branch::switch(&self.workspace, branch)?;
        }
        runtime()?.block_on(self.grounds(&header).check())?;
        if header.settings.commit.is_some() {
            let git = Git::new(Arc::new(Workers::new(self.ekiden.clone())), self.workspace.dir.clone());
            let unknown = |error| EngineError::System {
                what: "tell what is not committed yet",
                source: std::io::Error::other(error),
            };
            header.settings.commit = Some(runtime()?.block_on(changes::plan(&git)).map_err(unknown)?);
        }
        Ok(header)
    }

    /// Runs to the end whatever `begin` starts.
    fn drive(
        mut self,
        run: RunId,
        observer: &mut dyn Observer,
        begin: impl FnOnce(&Self, &mut dyn Observer) -> Result<Started, EngineError>,
    ) -> Result<Outcome, EngineError> {
        self.state.lock_mut().name_run(run)?;
        let runtime = runtime()?;
        // Orphans of keepers that somebody killed come to us.
        let _ = ekiden_agent::become_subreaper();
        runtime.block_on(async {
            let signals = Signals::listen()?;
            let (engine, inputs) = begin(&self, observer)?;
            run_to_end(engine, inputs, signals, observer).await
        })
    }

    fn engine(&self, journal: Journal) -> Result<Started, EngineError> {
        let header = journal.run().header();
        let (places, disk) = (self.places(header), || Arc::clone(&self.disk));
        let desk = Desk::new(disk(), places.clone())?;
        let (sender, inputs) = mpsc::channel(INPUTS_MAX);
        let files = SessionFiles::new(header.run.clone(), disk(), places);
        let grounds = self.grounds(header);
        let hands = ProcessHands::new(self.ekiden.clone(), files, grounds, disk(), sender);
        Ok((Engine::new(journal, desk, hands), inputs))
    }

    fn grounds(&self, header: &RunStarted) -> Grounds {
        let ground = header.manifest.plan.as_ref().map_or(Ground::InPlace, |rules| rules.ground.clone());
        Grounds::new(self.ekiden.clone(), Arc::clone(&self.disk), self.places(header), ground)
    }

    /// Sees that stages find their worktrees again.
    fn restore_grounds(&self, journal: &Journal, observer: &mut dyn Observer) -> Result<(), EngineError> {
        let run = journal.run();
        let grounds = self.grounds(run.header());
        let stages: Vec<_> = run.grounded().cloned().collect();
        let restored = runtime()?.block_on(grounds.restore(&stages, run.whole()));
        grounds.notes().iter().for_each(|text| observer.warn(text));
        restored.map_err(|why| EngineError::Ground { run: run.header().run.clone(), why })
    }

    fn places(&self, header: &RunStarted) -> Places {
        Places::new(self.workspace.clone(), self.state.view().layout().run(&header.run), header)
    }

    /// Where another run has worked since, what it published must not pass for a person's edit.
    fn reclaim(&self, journal: &Journal) -> Result<(), EngineError> {
        if !history::is_superseded(self.state.view(), journal)? {
            return Ok(());
        }
        let run = journal.run();
        let desk = Desk::new(Arc::clone(&self.disk), self.places(run.header()))?;
        run.relays().try_for_each(|(_, relay)| Ok(desk.publish(relay, false)?))
    }

    /// Waits until nothing of the last attempt lives, and ends what escaped even the keepers.
    fn end_leftovers(&self, journal: &Journal) -> Result<(), EngineError> {
        let run = journal.run();
        let places = self.places(run.header());
        for (id, effect) in journal.outstanding() {
            if matches!(
                effect,
                Effect::Ground { .. }
                    | Effect::Deliver
                    | Effect::Stage { effect: RelayEffect::Verify | RelayEffect::Commit { .. }, .. }
            ) {
                let _ = ekiden_agent::end_marked(TASK_MARK, &task_mark(&run.header().run, id), KILL_GRACE);
            }
        }
        let attempts = run.live().filter_map(|(stage, relay)| Some((stage, relay.attempt()?)));
        for (stage, (_, conversation)) in attempts {
            // Best effort: on a platform that cannot tell, the lock still says whether keepers live.
            let _ = ekiden_agent::end_marked("EKIDEN_SESSION_ID", &conversation.to_string(), KILL_GRACE);
            let path = places.relay(stage).attempt_lock();
            if self.disk.stat(&path)?.is_none() {
                continue;
            }
            match AttemptLock::wait_free(&path, KEEPER_PATIENCE) {
                Ok(_) => {}
                Err(LockError::Held { .. }) => {
                    return Err(EngineError::StillAlive { run: run.header().run.clone() });
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

pub(crate) fn runtime() -> Result<Runtime, EngineError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|source| EngineError::System { what: "start a runtime", source })
}

/// Files on which a run works: its work dir has a fence, and so have its worktrees.
fn real_disk(workspace: &Workspace, header: &RunStarted) -> Arc<dyn Disk> {
    let disk = RealDisk::fenced(&workspace.dir);
    match header.manifest.plan.as_deref().map(|rules| &rules.ground) {
        Some(Ground::Worktrees { dir, .. }) => Arc::new(disk.and_fenced(Path::new(dir))),
        Some(Ground::InPlace) | None => Arc::new(disk),
    }
}

fn fenced(workspace: &Workspace) -> Arc<dyn Disk> {
    Arc::new(RealDisk::fenced(&workspace.dir))
}

async fn run_to_end(
    mut engine: Engine<ProcessHands>,
    mut inputs: mpsc::Receiver<Input>,
    mut signals: Signals,
    observer: &mut dyn Observer,
) -> Result<Outcome, EngineError> {
    let mut inbox = tokio::time::interval(INBOX_LOOK);
    inbox.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if engine.hands.is_idle()
            && inputs.is_empty()
            && let Some(outcome) = engine.outcome()
        {
            return Ok(outcome.clone());
        }
        let input = next_input(&mut inputs, &mut signals, &mut inbox, engine.wakes_at()).await;
        let now = SystemClock.now();
        observer.tick(now);
        engine.take(now, input, observer)?;
        // Whoever asked first, the next ctrl-c insists.
        signals.interrupted |= engine.journal().run().is_stopping();
    }
}

/// Whatever comes first. Time is compared by the wall clock, since a monotonic timer stops while
/// the machine is suspended.
async fn next_input(
    inputs: &mut mpsc::Receiver<Input>,
    signals: &mut Signals,
    inbox: &mut Interval,
    wakes_at: Option<Timestamp>,
) -> Input {
    let until_wake = wakes_at.map(|wakes| Duration::from(wakes.since(SystemClock.now())));
    let pause = until_wake.unwrap_or(TICK).min(TICK);
    tokio::select! {
        Some(input) = inputs.recv() => input,
        request = signals.next() => Input::Stop(request),
        _ = inbox.tick() => Input::LookIntoInbox,
        () = tokio::time::sleep(pause) => Input::Tick,
    }
}

/// What people and systems use to stop a program.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    interrupted: bool,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self, EngineError> {
        let listen =
            |kind| signal(kind).map_err(|source| EngineError::System { what: "listen to signals", source });
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
            interrupted: false,
        })
    }

    /// The first Ctrl-C asks, every other signal insists. Cancel safe.
    pub(crate) async fn next(&mut self) -> StopRequest {
        tokio::select! {
            _ = self.interrupt.recv() => {
                let again = std::mem::replace(&mut self.interrupted, true);
                if again { now(SignalKind::interrupt()) } else { StopRequest::Gently }
            }
            _ = self.terminate.recv() => now(SignalKind::terminate()),
            _ = self.hangup.recv() => now(SignalKind::hangup()),
        }
    }
}

fn now(kind: SignalKind) -> StopRequest {
    StopRequest::Now { signal: kind.as_raw_value() }
}

fn held(error: LockError) -> EngineError {
    match error {
        LockError::Held { holder, .. } => EngineError::Held { holder },
        LockError::Disk(error) => EngineError::Disk(error),
    }
}

/// What others are told while we hold the lock.
fn us() -> Holder {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Holder { pid: std::process::id(), host, started: SystemClock.now(), run: None }
}
