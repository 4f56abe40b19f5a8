//! A world to run an engine in: a simulated disk, a clock that jumps, agents that are scripts.
//!
//! What is in [`World`] survives a crash of the machine: the user's tree (how many items are done)
//! and the memory of what agents did, for the checkers. Everything else is on the disk or lost.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use crate::checks::named;
use ekiden_agent::attempt::{Activity, AgentCommand, HookAnswer, Report};
use ekiden_core::agent::{AgentKind, AgentSpec, Interface, Permissions};
use ekiden_core::bounds::Bounds;
use ekiden_core::budget::{Prices, Spend};
use ekiden_core::effect::WorktreeEffect;
use ekiden_core::ends::{EndCause, LimitKind};
use ekiden_core::event::{
    AttemptEnded, Check, CheckOutcome, Commit, Continued, Counters, Event, RunResumed, Survey,
    TaskOutcome,
};
use ekiden_core::guard::{HookInput, Profile};
use ekiden_core::handoff::{HandoffFile, Marker};
use ekiden_core::ids::{AttemptId, EffectId, MessageId, RunId, StageId};
use ekiden_core::limits;
use ekiden_core::manifest::{Manifest, Part, Stage, Verification};
use ekiden_core::outcome::Outcome;
use ekiden_core::relay::{Phase, Relay};
use ekiden_core::renewal::NewTask;
use ekiden_core::settings::{CommitPlan, Judging, LimitsChanged, Place, RunStarted, Settings};
use ekiden_core::steering::{Steered, Steering};
use ekiden_core::time::{Millis, Timestamp};
use ekiden_engine::EngineError;
use ekiden_engine::effect_runner::{ArchiveJob, EffectRunner, Input, Launch, Since, VerifyJob};
use ekiden_engine::engine::Engine;
use ekiden_engine::git::commit::CommitJob;
use ekiden_engine::journal::Journal;
use ekiden_engine::notify::Notice;
use ekiden_engine::observer::Observer;
use ekiden_engine::paths::RunPaths;
use ekiden_engine::run_files::RunFiles;
use ekiden_engine::workspace::Workspace;
use ekiden_engine::worktrees::StageJob;
use ekiden_sim::{SimDisk, lock};
use ekiden_store::disk::{Disk, Reach};
use ekiden_store::layout::{Published, StateLayout};
use ekiden_store::lock::Holder;
use ekiden_store::published::prepare_published;
use ekiden_store::replace::{Durability, replace};
use ekiden_store::state::{LockedStateDir, create_state_root};
use tokio::sync::oneshot;

/// The task of a follow-up.
const MORE: &str = "Make as many more.";
/// What a person knows.
pub(crate) const EDIT: &str = "A person says so.";
pub(crate) const WORK_DIR: &str = "/p";
pub(crate) const STATE_DIR: &str = "/p/.git/ekiden/root";

/// What an agent does, by the number of its start in this world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    /// One item, then a handoff.
    Work,
    /// Dies without a handoff.
    Crash,
    /// Ends in good order, without a word, a call or a file.
    Nothing,
    /// Meets a usage limit that resets in a minute.
    Limit,
    /// Meets one that resets in a month.
    FarLimit,
    /// Says that all is done though it is not.
    ClaimEarly,
    /// Works and hands off as soon as its process runs, before it was told anything.
    Hasty,
}

/// What is to happen.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) items: u32,
    pub(crate) verified: bool,
    pub(crate) git: bool,
    pub(crate) commits: bool,
    pub(crate) deeds: Vec<(u32, Deed)>,
    /// When all is done, a person wants as many items more.
    pub(crate) follow_up: bool,
    /// What a person asks for, by the number of the start in which they do.
    pub(crate) steering: Vec<(u32, Steering)>,
    /// What stands where `KNOWLEDGE.md` is published before the run begins.
    pub(crate) found: Option<&'static str>,
    /// A person writes into `KNOWLEDGE.md` while the run waits.
    pub(crate) edits: bool,
    pub(crate) bounds: Bounds,
    /// The limits that a person gives with each resume.
    pub(crate) limits: LimitsChanged,
    /// A limit of sessions that ends the run before all is done.
    pub(crate) sessions_max: Option<u32>,
    /// How far the clock goes back each time that a few things have happened.
    pub(crate) clock_back: Millis,
}

impl Deed {
    /// When the usage limit resets that it meets.
    pub(crate) fn resets_in(self) -> Millis {
        let days = if self == Self::FarLimit { 30 } else { 0 };
        Millis::from_secs(60 + days * 24 * 60 * 60)
    }
}

impl Scenario {
    pub(crate) fn of_items(items: u32) -> Self {
        let (deeds, steering) = (Vec::new(), Vec::new());
        Self {
            items,
            verified: false,
            git: false,
            commits: false,
            deeds,
            steering,
            found: None,
            edits: false,
            follow_up: false,
            bounds: Bounds::default(),
            limits: LimitsChanged::default(),
            sessions_max: None,
            clock_back: Millis(0),
        }
    }

    /// Whether a run may end so: there is something in the scenario that ends it before all is done.
    pub(crate) fn may_end_as(&self, outcome: &Outcome) -> bool {
        let stop = |(_, steering): &(u32, Steering)| matches!(steering, Steering::Stop { .. });
        match outcome {
            Outcome::Complete { .. } => true,
            Outcome::Stopped { .. } => self.steering.iter().any(stop),
            Outcome::SessionLimit => self.sessions_max.is_some(),
            Outcome::LimitTooFar { .. } => {
                self.deeds.iter().any(|(_, deed)| *deed == Deed::FarLimit)
            }
            _ => false,
        }
    }

    fn deed(&self, start: u32) -> Deed {
        self.deeds
            .iter()
            .find(|(at, _)| *at == start)
            .map_or(Deed::Work, |(_, deed)| *deed)
    }
}

/// What survives every crash.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) items_done: u32,
    /// Every process that was started.
    pub(crate) started: Vec<(AttemptId, u32)>,
    /// Handoffs that stand there written to their end, by the number of the start.
    pub(crate) written: Vec<u32>,
    /// Messages that are in the log, as their senders were told.
    pub(crate) sent: Vec<MessageId>,
    /// The repository's commits, by what their trailers say.
    pub(crate) commits: Vec<String>,
    /// The effect of every notification that was shown.
    pub(crate) notices: Vec<EffectId>,
    /// Items that the task of now wants.
    pub(crate) goal: u32,
    pub(crate) now: u64,
    pub(crate) lives: u32,
}

/// The effect runner of one life of the engine.
struct SimRunner {
    disk: Arc<SimDisk>,
    world: Rc<RefCell<World>>,
    scenario: Scenario,
    queue: Rc<RefCell<VecDeque<Next>>>,
    agent: Option<Agent>,
    /// How many syncs there were when the engine heard of an agent's end, where nothing but the next one's
    /// start may follow.
    syncs_at_end: Option<u64>,
}

/// What happens next in this life.
#[derive(Debug)]
enum Next {
    Input(Box<Input>),
    /// The agent at work writes its handoff and wants to end its turn.
    HandOff,
    /// A person leaves a message.
    Send(Steered),
}

#[derive(Debug, Clone)]
struct Agent {
    stage: StageId,
    attempt: AttemptId,
    start: u32,
    deed: Deed,
}

impl SimRunner {
    fn push(&self, input: Input) {
        self.queue
            .borrow_mut()
            .push_back(Next::Input(Box::new(input)));
    }

    fn report(&self, report: Report) {
        if let Some(agent) = &self.agent {
            self.push(Input::Agent {
                stage: agent.stage.clone(),
                attempt: agent.attempt,
                report,
            });
        }
    }

    fn ended(&mut self, cause: EndCause) {
        let ended = AttemptEnded {
            // It did not live to report what it cost.
            counters: Counters {
                spend: Spend {
                    estimated: true,
                    ..Spend::default()
                },
                ..Counters::default()
            },
            ..AttemptEnded::bare(cause)
        };
        self.report(Report::Ended(Box::new(ended)));
        self.agent = None;
    }

    /// The first message has come: what the agent does with it.
    fn work(&mut self) {
        let Some(deed) = self.agent.as_ref().map(|agent| agent.deed) else {
            return;
        };
        // Nine tenths of a dollar, whatever comes of it.
        let spend = Spend {
            micro_usd: 900_000,
            tokens: 9,
            estimated: true,
        };
        self.report(Report::Spend {
            spend,
            turns: 1,
            subscription: false,
        });
        match deed {
            Deed::Crash => self.ended(EndCause::Crashed { exit: 1 }),
            Deed::Hasty => self.ended(EndCause::Completed),
            Deed::Nothing => self.ended(EndCause::Completed),
            Deed::Limit | Deed::FarLimit => {
                let wait = deed.resets_in();
                let resets_at = Some(Timestamp(self.world.borrow().now) + wait);
                self.ended(EndCause::RateLimited {
                    resets_at,
                    kind: LimitKind::FiveHour,
                });
            }
            Deed::Work | Deed::ClaimEarly => {
                if deed == Deed::Work {
                    self.world.borrow_mut().items_done += 1;
                }
                self.report(Report::Window {
                    model_tokens: 1000,
                    compaction_tokens: None,
                    model: None,
                    filled_by: Vec::new(),
                });
                self.report(Report::Usage {
                    context_tokens: 100,
                });
                let tool = Activity::Tool {
                    call: String::new(),
                    name: "Bash".to_owned(),
                    target: "touch item".to_owned(),
                };
                self.report(Report::Activity(tool));
                let last = self.world.borrow().items_done >= self.world.borrow().goal;
                if last || deed == Deed::ClaimEarly {
                    self.queue.borrow_mut().push_back(Next::HandOff);
                } else {
                    self.report(Report::Usage {
                        context_tokens: 650,
                    });
                }
            }
        }
    }

    /// Whether the handoff stands there, written to its end.
    fn write_handoff(&self, agent: &Agent) -> bool {
        let done = agent.deed == Deed::ClaimEarly
            || self.world.borrow().items_done >= self.world.borrow().goal;
        let dir = Path::new(WORK_DIR).join(".ekiden/handoff");
        let files = handoff_texts(agent.start, done);
        files
            .iter()
            .all(|(name, text)| write(&self.disk, &dir.join(name), text))
    }

    fn hand_off(&mut self) {
        let Some(agent) = self.agent.clone() else {
            return;
        };
        // Who writes it anew has taken the old one away.
        self.world
            .borrow_mut()
            .written
            .retain(|start| *start != agent.start);
        if self.write_handoff(&agent) {
            self.world.borrow_mut().written.push(agent.start);
        }
        let input = HookInput::Stop { background: false };
        self.report(Report::Hook {
            callback: "stop".to_owned(),
            input,
        });
    }
}

fn message(id: &str, steering: Steering) -> Steered {
    let message = MessageId::try_from(id.to_owned()).expect("a plain id");
    Steered {
        message,
        from: None,
        steering,
    }
}

/// As an agent writes: without any sync.
pub(crate) fn write(disk: &SimDisk, path: &Path, text: &str) -> bool {
    let removed = match disk.stat(path) {
        Ok(Some(_)) => disk.remove(path).is_ok(),
        Ok(None) => true,
        Err(_) => false,
    };
    removed
        && disk
            .create_file(path, text.as_bytes(), Reach::Cache)
            .is_ok()
}

/// The handoff of the n-th agent of this world; each can be told from every other.
pub(crate) fn handoff_texts(start: u32, done: bool) -> Vec<(&'static str, String)> {
    let status = if done { "ALL_COMPLETE" } else { "IN_PROGRESS" };
    let progress = format!(
        "STATUS: {status}\n\n## Done\n\nitem of start {start}, shown by `test -e item`\n\n\
         ## Stopped at\n\nthe end of an item\n\n## Issues\n\nnone\n"
    );
    let more =
        "The tree holds what is done, one file for each item, and each was looked at once more. ";
    let next = format!(
        "## Task\n\nthe next item\n\n## State\n\nstart {start} is over. {}\n\n## Resume at\n\nthe next file\n\n\
         ## What works\n\n`touch`\n\n## What to avoid\n\nnothing so far\n\n## How to verify\n\n`test -e item`\n",
        more.repeat(2)
    );
    let knowledge = format!("## Core Knowledge\n\n- the fact of start {start} is worth keeping\n");
    vec![
        ("PROGRESS.md", progress),
        ("NEXT_PROMPT.md", next),
        ("KNOWLEDGE.md", knowledge),
    ]
}

impl EffectRunner for SimRunner {
    fn start(&mut self, launch: Launch) -> Result<(), EngineError> {
        assert!(self.agent.is_none(), "two agents at once");
        let start = {
            let mut world = self.world.borrow_mut();
            let start = u32::try_from(world.started.len()).unwrap() + 1;
            world.started.push((launch.attempt, start));
            start
        };
        if let Some(syncs) = self.syncs_at_end.take() {
            assert_eq!(
                self.disk.syncs() - syncs,
                1,
                "between the agent before and start {start}"
            );
        }
        let session = layout()
            .run(&launch.run)
            .relay(None)
            .session(launch.attempt.session);
        let prompt = session
            .dir()
            .join(named("prompt.md", launch.attempt.attempt));
        assert!(
            self.disk.stat(&prompt).unwrap().is_some(),
            "start {start} has no prompt in the archive"
        );
        let deed = self.scenario.deed(start);
        let agent = Agent {
            stage: launch.stage,
            attempt: launch.attempt,
            start,
            deed,
        };
        if deed == Deed::Hasty {
            self.world.borrow_mut().items_done += 1;
            // What came of it before it counts as begun is kept, and decides nothing.
            let _ = self.write_handoff(&agent);
        }
        self.agent = Some(agent);
        self.report(Report::Started { pid: 1000 + start });
        for (number, (_, steering)) in self
            .scenario
            .steering
            .iter()
            .enumerate()
            .filter(|(_, (at, _))| *at == start)
        {
            // Each comes twice, as if its sender had seen no answer.
            let message = message(&format!("m-{number}"), steering.clone());
            self.queue
                .borrow_mut()
                .extend([Next::Send(message.clone()), Next::Send(message)]);
        }
        Ok(())
    }

    fn tell(&mut self, _stage: &StageId, order: AgentCommand) {
        match order {
            AgentCommand::Begin => self.work(),
            AgentCommand::Say(_) => {
                self.report(Report::Delivered);
                self.queue.borrow_mut().push_back(Next::HandOff);
            }
            AgentCommand::Answer {
                answer: HookAnswer::Pass,
                ..
            } => {
                self.report(Report::TurnEnded { failed: false });
            }
            AgentCommand::Answer { .. } => self.queue.borrow_mut().push_back(Next::HandOff),
            AgentCommand::Close => self.ended(EndCause::Completed),
            AgentCommand::Terminate => self.ended(EndCause::Stopped),
            AgentCommand::Interrupt => {}
        }
    }

    fn survey(&mut self, stage: &StageId, effect: EffectId, _since: Since) {
        let tree = format!("{} items", self.world.borrow().items_done);
        let survey = Ok(Survey {
            head: Some("abc".to_owned()),
            tree,
            ..Survey::default()
        });
        self.push(Input::task(stage, effect, TaskOutcome::Surveyed { survey }));
    }

    /// Whatever is looked at has changed since, so a commit that is not looked for is made again; and it is
    /// looked for only where the engine says that it may have been made.
    fn commit(&mut self, stage: &StageId, effect: EffectId, job: CommitJob) {
        let mut world = self.world.borrow_mut();
        if !(job.is_repeated && world.commits.contains(&job.effect)) {
            world.commits.push(job.effect.clone());
        }
        drop(world);
        let commit = Commit::Made {
            id: job.effect,
            files: 1,
            elsewhere: None,
            left_out: Vec::new(),
        };
        self.push(Input::task(
            stage,
            effect,
            TaskOutcome::Committed { commit },
        ));
    }

    fn verify(&mut self, stage: &StageId, effect: EffectId, job: VerifyJob) {
        let passed = self.world.borrow().items_done >= self.world.borrow().goal;
        let outcome = if passed {
            CheckOutcome::Passed
        } else {
            CheckOutcome::Failed { code: 1 }
        };
        let check = Check {
            outcome,
            tree: job.tree,
            duration: Millis(1),
            tail: "the tail".to_owned(),
        };
        self.push(Input::task(stage, effect, TaskOutcome::Verified { check }));
    }

    fn cancel(&mut self) {}

    fn archive(&mut self, stage: &StageId, effect: EffectId, job: ArchiveJob) {
        self.push(match job.run(&*self.disk) {
            Ok(()) => Input::task(stage, effect, TaskOutcome::Archived),
            Err(error) => Input::Warning(error.to_string()),
        });
    }

    fn worktree(&mut self, _effect: EffectId, _what: WorktreeEffect, job: StageJob) {
        panic!("{} stands alone", job.stage.id)
    }

    fn deliver(&mut self, effect: EffectId, _tip: Option<String>, _is_repeated: bool) {
        panic!("{effect} has nothing to hand off")
    }

    fn notify(&mut self, effect: EffectId, _notice: Notice) {
        self.world.borrow_mut().notices.push(effect);
    }
}

/// An empty machine on which the project exists.
pub(crate) fn machine(scenario: &Scenario) -> SimDisk {
    let disk = SimDisk::new();
    disk.plant_dir(Path::new("/p/.git"));
    if let Some(text) = scenario.found {
        disk.plant_file(&published().file(HandoffFile::Knowledge), text.as_bytes());
    }
    disk
}

pub(crate) fn layout() -> StateLayout {
    StateLayout::new(Path::new(STATE_DIR))
}

pub(crate) fn workspace() -> Workspace {
    Workspace::at(PathBuf::from(WORK_DIR), None, PathBuf::from(STATE_DIR))
}

pub(crate) fn published() -> Published {
    Published::new(Path::new(WORK_DIR))
}

/// Opens the state as a process does at its start.
pub(crate) fn open_state(disk: &Arc<SimDisk>) -> Result<LockedStateDir, EngineError> {
    let shared: Arc<dyn Disk> = disk.clone();
    create_state_root(&*shared, &layout())?;
    let holder = Holder {
        pid: 1,
        host: "atlas".to_owned(),
        started: Timestamp(0),
        run: None,
    };
    let state = LockedStateDir::open(Arc::clone(&shared), layout(), lock(holder))?;
    prepare_published(&*shared, &published(), &layout())?;
    Ok(state)
}

/// One life of the engine: it starts the run, or carries it on, until the run or the machine ends.
pub(crate) fn live(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<World>>,
    scenario: &Scenario,
) -> Result<Outcome, EngineError> {
    Ok(
        live_unless(disk, world, scenario, &mut |_| false)?
            .expect("an end that nobody knew before"),
    )
}

/// The same, but nothing if `known` knows how it goes on: it is asked once, when the first agent of this
/// life begins, with a number for all that decides from there on.
pub(crate) fn live_unless(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<World>>,
    scenario: &Scenario,
    known: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Outcome>, EngineError> {
    world.borrow_mut().lives += 1;
    world.borrow_mut().goal = scenario.items;
    let state = open_state(disk)?;
    let queue = Rc::new(RefCell::new(VecDeque::new()));
    let runner = SimRunner {
        disk: Arc::clone(disk),
        world: Rc::clone(world),
        scenario: scenario.clone(),
        queue: Rc::clone(&queue),
        agent: None,
        syncs_at_end: None,
    };
    let at = Timestamp(world.borrow().now);
    let mut engine = match state.view().runs()?.first() {
        None => {
            let (journal, effects) =
                Journal::create(&state, at, header(scenario, world.borrow().lives))?;
            let mut engine = engine(disk, journal, runner)?;
            engine.begin(effects)?;
            engine
        }
        Some(run) => {
            let journal = Journal::open(&state, run)?;
            assert_eq!(journal.differs(), None, "the same logic decides the same");
            let mut engine = engine(disk, journal, runner)?;
            let relay = engine.journal().run().relay(&StageId::only()).unwrap();
            let complete = relay.outcome().is_some_and(Outcome::is_complete);
            let continues = scenario.follow_up && complete && relay.stage.task != MORE;
            if continues || relay.stage.task == MORE {
                world.borrow_mut().goal = scenario.items * 2;
            }
            let resumed = RunResumed {
                ekiden: "0.1.0".to_owned(),
                limits: scenario.limits.clone(),
                ..RunResumed::default()
            };
            // An older program may have begun the run.
            engine.note(at, Event::LogicChanged { seq: 1 })?;
            let event = if continues {
                Event::Continued(more())
            } else {
                Event::RunResumed(resumed)
            };
            engine.resume(at, event)?;
            engine
        }
    };
    run_to_end(&mut engine, world, &queue, known)
}

/// A number for all that decides what follows. What an engine holds in memory follows from the log, and
/// what is published was written a moment ago, so it is all on the disk or in the world.
fn from_here(engine: &Engine<'static, SimRunner>, world: &World, queue: &VecDeque<Next>) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.runner.disk.fingerprint().hash(&mut hasher);
    format!(
        "{world:?} {queue:?} {:?} {:?}",
        engine.runner.agent,
        engine.wakes_at()
    )
    .hash(&mut hasher);
    hasher.finish()
}

fn engine(
    disk: &Arc<SimDisk>,
    journal: Journal,
    runner: SimRunner,
) -> Result<Engine<'static, SimRunner>, EngineError> {
    let shared: Arc<dyn Disk> = disk.clone();
    let header = journal.run().header();
    let paths = RunPaths::new(workspace(), layout().run(&header.run), header);
    let files = RunFiles::new(shared, paths)?;
    let mut engine = Engine::new(journal, files, runner, blind());
    engine.utc_offset_secs = zone;
    Ok(engine)
}

/// Nobody watches.
struct Blind;

impl Observer for Blind {}

pub(crate) fn blind() -> &'static mut dyn Observer {
    Box::leak(Box::new(Blind))
}

/// Local time whose offset changes every other minute: an hour to the east, and back.
fn zone(at: Timestamp) -> i32 {
    if (at.0 / 60_000).is_multiple_of(2) {
        0
    } else {
        3600
    }
}

fn run_to_end(
    engine: &mut Engine<'static, SimRunner>,
    world: &Rc<RefCell<World>>,
    queue: &Rc<RefCell<VecDeque<Next>>>,
    known: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Outcome>, EngineError> {
    let mut asked = false;
    let back = engine.runner.scenario.clock_back.0;
    for step in 1..10_000 {
        let begun = engine
            .journal()
            .run()
            .relays()
            .any(|(_, relay)| relay.has_started());
        if begun && !asked {
            asked = true;
            if known(from_here(engine, &world.borrow(), &queue.borrow())) {
                return Ok(None);
            }
        }
        world.borrow_mut().now += 1000;
        if step % 7 == 0 {
            let mut world = world.borrow_mut();
            world.now = world.now.saturating_sub(back);
        }
        let next = queue.borrow_mut().pop_front();
        let now = Timestamp(world.borrow().now);
        match next {
            Some(Next::Input(input)) => {
                engine.runner.syncs_at_end = syncs_at_end(engine, &input);
                engine.take(now, *input)?;
            }
            Some(Next::HandOff) => engine.runner.hand_off(),
            Some(Next::Send(message)) => {
                let (id, (recorded, mut told)) = (message.message.clone(), oneshot::channel());
                let steered = message;
                engine.take(now, Input::Steered { steered, recorded })?;
                told.try_recv()
                    .expect("a message that was taken is recorded");
                world.borrow_mut().sent.push(id);
            }
            None if is_paused(engine) => {
                let unpause = message(&format!("u-{}", now.0), Steering::Unpause);
                queue.borrow_mut().push_back(Next::Send(unpause));
            }
            None => match (engine.outcome().cloned(), engine.wakes_at()) {
                (Some(outcome), _) => return Ok(Some(outcome)),
                (None, Some(wakes)) => {
                    if engine.runner.scenario.edits {
                        edit(&engine.runner.disk);
                    }
                    world.borrow_mut().now = wakes.0.max(now.0);
                    engine.take(wakes.max(now), Input::Tick)?;
                }
                (None, None) => panic!("nothing happens and nothing will"),
            },
        }
    }
    panic!("the run does not end");
}

/// A fact of a person's in the published knowledge.
fn edit(disk: &SimDisk) {
    let path = published().file(HandoffFile::Knowledge);
    let text = String::from_utf8(disk.read(&path, u64::MAX).unwrap()).unwrap();
    if !text.contains(EDIT) {
        let (head, rest) = text.split_once("## Core Knowledge\n").unwrap();
        let text = format!("{head}## Core Knowledge\n\n- {EDIT}{rest}");
        replace(disk, &path, text.as_bytes(), Durability::Derived).unwrap();
    }
}

/// The promise of few syncs is one for runs without a look at the tree, verification, stop or pause.
fn syncs_at_end(engine: &Engine<'static, SimRunner>, input: &Input) -> Option<u64> {
    let scenario = &engine.runner.scenario;
    let alone =
        !scenario.git && !scenario.verified && scenario.steering.is_empty() && !scenario.follow_up;
    let is_end = matches!(input, Input::Agent { report: Report::Ended(ended), .. } if ended.cause == EndCause::Completed);
    (alone && is_end && scenario.bounds == Bounds::default()).then(|| engine.runner.disk.syncs())
}

fn is_paused(engine: &Engine<'static, SimRunner>) -> bool {
    let held = |relay: &Relay| matches!(relay.phase, Phase::Paused { .. });
    engine
        .journal()
        .run()
        .relays()
        .any(|(_, relay)| held(relay))
}

/// The follow-up.
fn more() -> Continued {
    let task = NewTask {
        text: MORE.to_owned(),
        name: "more.md".to_owned(),
    };
    Continued {
        ekiden: "0.1.0".to_owned(),
        task,
        commit: None,
        limits: LimitsChanged::default(),
    }
}

/// Each life that finds no run begins one of its own: what a crash left of a beginning stays.
pub(crate) fn header(scenario: &Scenario, life: u32) -> RunStarted {
    let verification = scenario
        .verified
        .then(|| Verification::by_command("check".to_owned(), limits::VERIFY_TIMEOUT_DEFAULT));
    RunStarted {
        run: RunId::from_bits(0x0e1d_de00 + life),
        from: None,
        imported: None,
        issue: None,
        issue_read: None,
        sub_issues: false,
        pull_request: None,
        fleet: None,
        before: None,
        in_session: false,
        ekiden: "0.1.0".to_owned(),
        place: Place {
            work_dir: WORK_DIR.to_owned(),
            worktree: None,
            git: scenario.git,
            branch: None,
        },
        manifest: Manifest::single(Stage {
            id: StageId::only(),
            task: "Make the items.".to_owned(),
            task_name: "task.md".to_owned(),
            verification,
            claim_needed: false,
            sessions_max: scenario.sessions_max.unwrap_or(scenario.items.max(50)),
            part: Part::default(),
        }),
        settings: Settings {
            marker: Marker::default(),
            levels: Profile::Relay.levels(),
            cap_tokens: None,
            pause: Millis(0),
            wait_max: limits::WAIT_MAX_DEFAULT,
            // Chance makes sessions that move nothing, too; these worlds go on to their end.
            judging: Some(Judging {
                stall_sessions: 0,
                research: false,
            }),
            reviewer: None,
            no_review: false,
            agent: AgentSpec {
                name: "scripted".to_owned(),
                kind: AgentKind::Rehearsal,
                command: vec!["scripted".to_owned()],
                model: None,
                account: None,
                permissions: Permissions::default(),
                interface: Interface::Headless,
            },
            commit: scenario.commits.then(CommitPlan::default),
            notify: true,
            notify_text: false,
            subagents: false,
            guided: false,
            fallback: ekiden_core::fallback::Fallback::default(),
            memory: ekiden_core::memory::MemoryUse::default(),
            bounds: scenario.bounds.clone(),
        },
        prices: Prices::default(),
        handoff_spend: Default::default(),
    }
}
