//! Plans in the simulated world: several agents at work at once, merges, conflicts and second tries, with
//! a crash at every operation of the disk.

mod checks;
mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ekiden_core::event::{Event, RunResumed};
use ekiden_core::ids::StageId;
use ekiden_core::limits;
use ekiden_core::manifest::{Isolation, Manifest, Need, Part, PlanRules, Stage, Verification};
use ekiden_core::outcome::Outcome;
use ekiden_core::settings::RunStarted;
use ekiden_core::time::Timestamp;
use ekiden_engine::EngineError;
use ekiden_engine::effect_runner::Input;
use ekiden_engine::engine::Engine;
use ekiden_engine::journal::Journal;
use ekiden_engine::paths::RunPaths;
use ekiden_engine::run_files::RunFiles;
use ekiden_sim::{AtCrash, Fault, SimDisk};
use ekiden_store::disk::Disk;

use crate::losses_max;
use crate::seeds::{Dice, Disturbance, for_each_seed};
use crate::world::{Deed, Scenario, blind, header, layout, machine, open_state, workspace};
use world::{Next, PlanRunner, PlanWorld};

/// Losses that are tried at each crash, drawn: a plan has so many files that its legal losses are beyond
/// counting. What one relay does with them is tried in full elsewhere.
const LOSSES: usize = 3;
const TREES: &str = "/trees";

/// Stages as `id items: needs`, and what happens to them.
#[derive(Debug, Clone)]
pub(crate) struct PlanScenario {
    pub(crate) jobs: u32,
    stages: Vec<Stage>,
    items: BTreeMap<StageId, u32>,
    /// Stages that change the same lines.
    clashes: Vec<(&'static str, &'static str)>,
    /// What agents do, by the number of the start in their stage.
    deeds: Vec<(&'static str, usize, Deed)>,
    /// Stages that are never done, with those that need them.
    fail: Vec<&'static str>,
}

impl PlanScenario {
    fn of(stages: &str) -> Self {
        let mut items = BTreeMap::new();
        let mut all = Vec::new();
        for line in stages.split(';') {
            let (name, needs) = line.split_once(':').unwrap();
            let words: Vec<&str> = name.split_whitespace().collect();
            items.insert(id(words[0]), words[1].parse().unwrap());
            let need = |name| Need {
                stage: id(name),
                optional: false,
            };
            let needs = needs.split_whitespace().map(need).collect();
            let sessions_max = words.get(2).map_or(20, |max| max.parse().unwrap());
            all.push(Stage {
                id: id(words[0]),
                task: format!("Make the items of {}.", words[0]),
                task_name: words[0].to_owned(),
                verification: Some(Verification::by_command(
                    "check".to_owned(),
                    limits::VERIFY_TIMEOUT_DEFAULT,
                )),
                claim_needed: false,
                sessions_max,
                part: Part {
                    needs,
                    retries: 2,
                    ..Part::default()
                },
            });
        }
        Self {
            jobs: 2,
            stages: all,
            items,
            clashes: Vec::new(),
            deeds: Vec::new(),
            fail: Vec::new(),
        }
    }

    fn without_retries(mut self) -> Self {
        self.stages
            .iter_mut()
            .for_each(|stage| stage.part.retries = 0);
        self
    }

    fn deed(&self, stage: &StageId, nth: usize) -> Deed {
        let found = self
            .deeds
            .iter()
            .find(|(of, at, _)| *of == stage.as_str() && *at == nth);
        found.map_or(Deed::Work, |(_, _, deed)| *deed)
    }

    fn items(&self, stage: &StageId) -> u32 {
        self.items[stage]
    }

    /// The stages that are done in the end.
    fn done(&self) -> BTreeSet<StageId> {
        let fails = |stage: &&StageId| self.fail.contains(&stage.as_str());
        let stages = self.items.keys().filter(|stage| !fails(stage));
        stages.cloned().collect()
    }

    fn may_end_as(&self, outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Complete { verified } => *verified && self.fail.is_empty(),
            Outcome::StagesFailed { .. } => !self.fail.is_empty(),
            _ => false,
        }
    }

    fn needs(&self, stage: &StageId) -> BTreeSet<StageId> {
        let stage = self.stages.iter().find(|one| one.id == *stage).unwrap();
        stage
            .part
            .needs
            .iter()
            .map(|need| need.stage.clone())
            .collect()
    }

    fn clash(&self, one: &StageId, other: &StageId) -> bool {
        let pair = (one.as_str(), other.as_str());
        self.clashes
            .iter()
            .any(|(a, b)| (*a, *b) == pair || (*b, *a) == pair)
    }

    fn header(&self, life: u32) -> RunStarted {
        let ground = Isolation::Worktrees {
            dir: TREES.to_owned(),
            base: "abc".to_owned(),
            branch: None,
            copy: Vec::new(),
            setup: None,
        };
        let rules = PlanRules {
            project: "demo".to_owned(),
            file: "demo.toml".to_owned(),
            hash: String::new(),
            jobs: self.jobs,
            isolation: ground,
            architecture: String::new(),
            document: String::new(),
        };
        let manifest = Manifest {
            stages: self.stages.clone(),
            plan: Some(Box::new(rules)),
        };
        let alone = header(
            &Scenario {
                git: true,
                ..Scenario::of_items(1)
            },
            life,
        );
        RunStarted { manifest, ..alone }
    }
}

fn id(name: &str) -> StageId {
    StageId::try_from(name.to_owned()).unwrap()
}

fn empty_machine() -> SimDisk {
    let disk = machine(&Scenario::of_items(1));
    disk.plant_dir(Path::new(TREES));
    disk
}

/// One life of the engine, until the run or the machine ends. What happens next is drawn by the dice, or
/// comes in turn.
fn live(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<PlanWorld>>,
    scenario: &PlanScenario,
    dice: &mut Option<Dice>,
) -> Result<Outcome, EngineError> {
    world.borrow_mut().lives += 1;
    let state = open_state(disk)?;
    let queue = Rc::new(RefCell::new(VecDeque::new()));
    let (at, life) = (Timestamp(world.borrow().now), world.borrow().lives);
    let engine = |journal: Journal| -> Result<Engine<'static, PlanRunner>, EngineError> {
        let shared: Arc<dyn Disk> = disk.clone();
        let header = journal.run().header();
        let paths = RunPaths::new(workspace(), layout().run(&header.run), header);
        let runner = PlanRunner {
            disk: Arc::clone(disk),
            world: Rc::clone(world),
            scenario: scenario.clone(),
            paths: paths.clone(),
            queue: Rc::clone(&queue),
            agents: BTreeMap::new(),
        };
        let files = RunFiles::new(shared, paths)?;
        let mut engine = Engine::new(journal, files, runner, blind());
        engine.utc_offset_secs = |_| 0;
        Ok(engine)
    };
    let mut engine = match state.view().runs()?.first() {
        None => {
            let (journal, effects) = Journal::create(&state, at, scenario.header(life))?;
            let mut engine = engine(journal)?;
            engine.begin(effects)?;
            engine
        }
        Some(run) => taken_up(engine(Journal::open(&state, run)?)?, at)?,
    };
    run_to_end(&mut engine, world, &queue, dice)
}

/// As the next process does it: worktrees are looked at before the run goes on.
fn taken_up(
    mut engine: Engine<'static, PlanRunner>,
    at: Timestamp,
) -> Result<Engine<'static, PlanRunner>, EngineError> {
    assert_eq!(
        engine.journal().differs(),
        None,
        "the same logic decides the same"
    );
    for stage in engine.journal().run().with_worktrees() {
        engine.runner.furnish(stage)?;
    }
    let resumed = RunResumed {
        ekiden: "0.1.0".to_owned(),
        ..RunResumed::default()
    };
    engine.resume(at, Event::RunResumed(resumed))?;
    Ok(engine)
}

fn run_to_end(
    engine: &mut Engine<'static, PlanRunner>,
    world: &Rc<RefCell<PlanWorld>>,
    queue: &Rc<RefCell<VecDeque<Next>>>,
    dice: &mut Option<Dice>,
) -> Result<Outcome, EngineError> {
    for _ in 0..10_000 {
        world.borrow_mut().now += 100;
        let next = draw(&mut queue.borrow_mut(), dice);
        let now = Timestamp(world.borrow().now);
        match next {
            Some(Next::Input(input)) => engine.take(now, *input)?,
            Some(Next::HandOff(stage)) => engine.runner.hand_off(&stage),
            None => match (engine.outcome().cloned(), engine.wakes_at()) {
                (Some(outcome), _) => return Ok(outcome),
                (None, Some(wakes)) => {
                    world.borrow_mut().now = wakes.0.max(now.0);
                    engine.take(wakes.max(now), Input::Tick)?;
                }
                (None, None) => panic!("nothing happens and nothing will"),
            },
        }
    }
    panic!("the run does not end");
}

/// What happens next: in turn, or the next of a stage that is drawn.
fn draw(queue: &mut VecDeque<Next>, dice: &mut Option<Dice>) -> Option<Next> {
    let Some(dice) = dice else {
        return queue.pop_front();
    };
    let stages: BTreeSet<Option<StageId>> =
        queue.iter().map(|next| next.stage().cloned()).collect();
    let drawn = dice.roll(u32::try_from(stages.len()).unwrap().max(1));
    let stage = stages.into_iter().nth(drawn as usize)?;
    let at = queue
        .iter()
        .position(|next| next.stage() == stage.as_ref())?;
    queue.remove(at)
}

fn crash_everywhere(scenario: &PlanScenario) {
    let undisturbed = Arc::new(empty_machine());
    let begun = undisturbed.ops();
    let world = Rc::default();
    let outcome = live(&undisturbed, &world, scenario, &mut None).expect("an undisturbed run");
    checks::hold(&undisturbed, &world.borrow(), scenario, &outcome, true);
    let (mut crashes, mut losses) = (0, 0);
    for op in begun..=undisturbed.ops() {
        // Before one operation is after another.
        let at = if op.is_multiple_of(2) {
            AtCrash::Done
        } else {
            AtCrash::NotDone
        };
        let disk = Arc::new(empty_machine());
        disk.crash_at(op, at);
        let world = Rc::new(RefCell::new(PlanWorld::default()));
        let _ = live(&disk, &world, scenario, &mut None);
        crashes += 1;
        go_on(disk.after_kill(), &world.borrow(), scenario, true);
        for seed in 0..LOSSES.min(losses_max().unwrap_or(LOSSES)) as u64 {
            losses += 1;
            go_on(
                disk.survive_seeded(op.wrapping_mul(31) + seed),
                &world.borrow(),
                scenario,
                false,
            );
        }
    }
    println!("{crashes} crashes, {losses} losses tried");
}

fn go_on(found: SimDisk, world: &PlanWorld, scenario: &PlanScenario, kill_only: bool) {
    let disk = Arc::new(found);
    let world = Rc::new(RefCell::new(world.clone()));
    let lived = live(&disk, &world, scenario, &mut None);
    let outcome = lived.unwrap_or_else(|error| panic!("{error}: {error:?}"));
    checks::hold(&disk, &world.borrow(), scenario, &outcome, kill_only);
}

/// Two stages side by side change the same lines; the later one puts that right in a second session.
// shows: DUR-01, DUR-02, PLN-08, PLN-09
#[test]
fn a_diamond_with_a_conflict() {
    let scenario = PlanScenario::of("A 1:; B 1: A; C 2: A; D 1: B C");
    crash_everywhere(&PlanScenario {
        clashes: vec![("B", "C")],
        ..scenario
    });
}

/// One item a session, one session a try, two items.
// shows: DUR-02, PLN-12
#[test]
fn a_stage_that_is_tried_again() {
    crash_everywhere(&PlanScenario::of("A 2 1:; B 1:"));
}

// shows: DUR-02, PLN-08, REL-11
#[test]
fn a_usage_limit_that_one_stage_meets() {
    let scenario = PlanScenario::of("A 1:; B 2:; C 1:");
    crash_everywhere(&PlanScenario {
        deeds: vec![("A", 1, Deed::Limit)],
        ..scenario
    });
}

/// What needs the stage that fails is never begun; what does not is done. Taken up again it fails again.
// shows: DUR-02, PLN-12
#[test]
fn a_stage_that_fails() {
    let scenario = PlanScenario::of("A 1:; B 9 1: A; C 1: B; D 1:");
    crash_everywhere(&PlanScenario {
        fail: vec!["B", "C"],
        ..scenario.without_retries()
    });
}

/// Like a disk that refuses a relay: the engine stops or goes on, also where stages fail by it. Once the disk
/// works again, a resume finishes the plan.
// shows: DUR-02, DUR-04
#[test]
fn a_disk_that_refuses_a_plan() {
    let scenario = PlanScenario::of("A 1:; B 1: A; C 1: A");
    let undisturbed = Arc::new(empty_machine());
    let begun = undisturbed.ops();
    live(&undisturbed, &Rc::default(), &scenario, &mut None).expect("an undisturbed run");
    let mut stopped = 0;
    for fault in [Fault::DiskFull, Fault::Io, Fault::ReadOnly] {
        for op in begun..=undisturbed.ops() {
            let disk = Arc::new(empty_machine());
            match fault {
                Fault::DiskFull | Fault::Io | Fault::NotPermitted => disk.fail_at(op, fault),
                Fault::ReadOnly => disk.fail_from(op, fault),
            }
            let world = Rc::new(RefCell::new(PlanWorld::default()));
            let lived = live(&disk, &world, &scenario, &mut None);
            stopped += usize::from(lived.is_err());
            go_on(disk.after_kill(), &world.borrow(), &scenario, true);
        }
    }
    println!("{stopped} runs were stopped by the disk");
    assert!(stopped > 100, "only {stopped} were stopped");
}

/// Larger plans in every order of what happens, with up to four crashes. A failure prints its seed.
// shows: DUR-02
#[test]
fn seeded_crashes_of_plans() {
    for_each_seed(seeded_world);
}

fn seeded_world(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(2) + 1);
    let stages = "A 1:; B 2: A; C 1: A; D 3 2: A; E 1: B C; F 1:; G 1: D E F";
    let mut deeds = Vec::new();
    for stage in ["A", "B", "C", "D", "E", "F", "G"] {
        match dice.roll(5) {
            0 => deeds.push((stage, 1, Deed::Crash)),
            1 => deeds.push((stage, 1 + dice.roll(2) as usize, Deed::Limit)),
            _ => {}
        }
    }
    let clashes = vec![("B", "C"), ("D", "E")];
    let scenario = PlanScenario {
        jobs: 1 + dice.roll(4),
        deeds,
        clashes,
        ..PlanScenario::of(stages)
    };
    let world = Rc::new(RefCell::new(PlanWorld::default()));
    let mut disk = Arc::new(empty_machine());
    let mut disturbance = Disturbance::default();
    let mut order = Some(Dice(seed.wrapping_mul(7919) + 3));
    for _ in 0..dice.roll(5) {
        disturbance.comes(&disk, &mut dice);
        if live(&disk, &world, &scenario, &mut order).is_ok() {
            break;
        }
        disk = Arc::new(disturbance.leaves(&disk, &mut dice));
    }
    let undisturbed = Arc::new(disk.after_kill());
    let outcome = if is_complete(&undisturbed) {
        Outcome::Complete { verified: true }
    } else {
        live(&undisturbed, &world, &scenario, &mut order).unwrap()
    };
    checks::hold(
        &undisturbed,
        &world.borrow(),
        &scenario,
        &outcome,
        disturbance.killed_only(),
    );
}

/// The run was complete before the machine could crash.
fn is_complete(disk: &Arc<SimDisk>) -> bool {
    let state = open_state(disk).unwrap();
    let run = state.view().runs().unwrap().into_iter().next();
    run.is_some_and(|run| {
        Journal::open(&state, &run)
            .unwrap()
            .run()
            .outcome()
            .is_some_and(Outcome::is_complete)
    })
}
