//! The engine in a simulated world: crash it everywhere, take it up again, and look whether anything
//! was lost or done twice. How to read a failure is said in `docs/testing.md`.
#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::disallowed_macros,
    reason = "a test may stop at what it does not expect, and tell how much it tried"
)]

mod checks;
mod long;
mod plans;
mod world;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ekiden_core::bounds::Bounds;
use ekiden_core::budget::Budget;
use ekiden_core::outcome::Outcome;
use ekiden_core::steering::Steering;
use ekiden_core::time::Millis;
use ekiden_engine::EngineError;
use ekiden_store::sim::{AtCrash, SimDisk, Survivor};

use world::{Deed, Scenario, World, live_unless, machine, published};

/// Files that are written again from the log, each by itself, and decide nothing: what people and
/// other programs read. That they decide nothing is checked.
fn is_derived(path: &Path) -> bool {
    let above = published().dir();
    let is_published = path != above && path.starts_with(above) && !path.starts_with(published().handoff());
    is_published || path.file_name().is_some_and(|name| name.to_string_lossy().contains("verify.log"))
}

/// At most this many losses at each crash, at even distances: for a quick look. Usually all.
fn losses_max() -> Option<usize> {
    std::env::var("EKIDEN_LOSSES").ok().and_then(|n| n.parse().ok())
}

/// How much of one scenario was tried.
#[derive(Debug, Default)]
struct Tried {
    crashes: usize,
    /// Losses that are legal, over all crashes.
    legal: u128,
    /// Disks that were found.
    losses: usize,
    /// Those of them that differed from every other, with the world around them.
    worlds: HashSet<(u64, u64)>,
    futures: Futures,
}

/// How runs go on, by all that decides it, and the log in which it ends: that was checked when it was
/// first seen.
type Futures = HashMap<u64, Rc<str>>;

/// Runs a scenario with a crash of the machine at every operation of the disk; then takes the run up
/// again, once where only the process died and once for each legal loss of a power cut, as far as
/// one can be told from another, and checks everything.
fn crash_everywhere(scenario: &Scenario) {
    let undisturbed = Arc::new(machine(scenario));
    let begun = undisturbed.ops();
    live_on(&undisturbed, &Rc::default(), scenario).expect("an undisturbed run");
    let mut tried = Tried::default();
    for op in begun..=undisturbed.ops() {
        for at in [AtCrash::NotDone, AtCrash::Done] {
            let disk = Arc::new(machine(scenario));
            disk.crash_at(op, at);
            let world = Rc::new(RefCell::new(World::default()));
            let _ = live_on(&disk, &world, scenario);
            tried.crashes += 1;
            go_on(disk.after_kill(), &world.borrow(), scenario, true, &mut Futures::new());
            lose_everything_possible(&disk, &world.borrow(), scenario, &mut tried);
        }
    }
    let Tried { crashes, legal, losses, worlds, futures } = &tried;
    let (worlds, futures) = (worlds.len(), futures.len());
    println!("{crashes} crashes, {legal} legal losses, {losses} tried, {worlds} worlds, {futures} futures");
    assert!(worlds > 500 || losses_max().is_some(), "only {worlds} worlds");
}

/// Tries the losses of one crash. Disks that read the same, in worlds that are the same, are one.
fn lose_everything_possible(disk: &SimDisk, world: &World, scenario: &Scenario, tried: &mut Tried) {
    let factored = disk.factored(is_derived);
    assert!(factored.is_complete, "too many losses");
    tried.legal += factored.legal;
    let about = hash(&format!("{world:?}"));
    let mut logs: BTreeMap<usize, Rc<str>> = BTreeMap::new();
    let step = losses_max().map_or(1, |max| factored.len().div_ceil(max).max(1));
    for Survivor { group, disk: found } in factored.step_by(step) {
        tried.losses += 1;
        if tried.worlds.insert((found.fingerprint(), about)) {
            let log = go_on(found, world, scenario, false, &mut tried.futures);
            let before = logs.entry(group).or_insert_with(|| Rc::clone(&log));
            let differs = before.lines().zip(log.lines()).find(|(before, now)| before != now);
            assert_eq!(differs, None, "a derived file has decided something");
        }
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Takes a run up again, carries it to its end, checks everything, and gives its log. Goes on only as
/// long as it is not known how.
fn go_on(
    found: SimDisk,
    world: &World,
    scenario: &Scenario,
    kill_only: bool,
    futures: &mut Futures,
) -> Rc<str> {
    let disk = Arc::new(found);
    let world = Rc::new(RefCell::new(world.clone()));
    let mut passed = Vec::new();
    let known = &mut |future| {
        passed.push(future);
        futures.contains_key(&future)
    };
    let lived = live_on_unless(&disk, &world, scenario, known);
    let log = match lived.unwrap_or_else(|error| panic!("{error}: {error:?}")) {
        Some(outcome) => {
            checks::hold(&disk, &world.borrow(), scenario, &outcome, kill_only);
            Rc::from(checks::log_of(&disk))
        }
        None => Rc::clone(&futures[passed.last().expect("the one that is known")]),
    };
    futures.extend(passed.into_iter().map(|future| (future, Rc::clone(&log))));
    log
}

/// Lives on until the run is complete: a person may have stopped it meanwhile, or want more of it.
fn live_on(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<World>>,
    scenario: &Scenario,
) -> Result<Outcome, EngineError> {
    Ok(live_on_unless(disk, world, scenario, &mut |_| false)?.expect("an end that nobody knew before"))
}

/// The same, but nothing once it is known how it goes on.
fn live_on_unless(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<World>>,
    scenario: &Scenario,
    known: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Outcome>, EngineError> {
    loop {
        let Some(outcome) = live_unless(disk, world, scenario, known)? else { return Ok(None) };
        let goal = if scenario.follow_up { scenario.items * 2 } else { scenario.items };
        if !matches!(outcome, Outcome::Stopped { .. }) && world.borrow().goal == goal {
            return Ok(Some(outcome));
        }
    }
}

// shows: DUR-01, DUR-02
#[test]
fn three_sessions() {
    crash_everywhere(&Scenario::of_items(3));
}

// shows: DUR-01, DUR-02
#[test]
fn an_agent_that_does_not_wait_for_its_task() {
    crash_everywhere(&Scenario { deeds: vec![(2, Deed::Hasty)], ..Scenario::of_items(2) });
}

// shows: DUR-02
#[test]
fn a_crash_of_the_agent() {
    crash_everywhere(&Scenario { deeds: vec![(1, Deed::Crash)], ..Scenario::of_items(2) });
}

// shows: DUR-02, REL-07
#[test]
fn a_failing_verification() {
    crash_everywhere(&Scenario { verified: true, git: true, ..Scenario::of_items(2) });
}

// shows: DUR-02, REL-18
#[test]
fn commits_after_sessions() {
    let deeds = vec![(2, Deed::Crash)];
    crash_everywhere(&Scenario { git: true, commits: true, deeds, ..Scenario::of_items(2) });
}

// shows: DUR-02, REL-11
#[test]
fn a_usage_limit() {
    crash_everywhere(&Scenario { deeds: vec![(1, Deed::Limit)], ..Scenario::of_items(2) });
}

// shows: DUR-02, REL-07
#[test]
fn a_claim_that_is_vetoed() {
    let deeds = vec![(1, Deed::ClaimEarly)];
    crash_everywhere(&Scenario { verified: true, deeds, ..Scenario::of_items(2) });
}

// shows: DUR-01, DUR-02, RUN-14
#[test]
fn a_pause_and_a_stop_by_message() {
    let steering = vec![(1, Steering::Pause), (2, Steering::Stop { now: true })];
    crash_everywhere(&Scenario { steering, ..Scenario::of_items(2) });
}

// shows: RUN-12
#[test]
fn what_a_person_left_where_we_publish() {
    crash_everywhere(&Scenario { found: Some("a person's own\n"), ..Scenario::of_items(1) });
}

// shows: DUR-01, DUR-02, RUN-13
#[test]
fn follow_up_work() {
    crash_everywhere(&Scenario { follow_up: true, verified: true, ..Scenario::of_items(1) });
}

/// Each session is asked to hand off by its budget, and every other minute is quiet.
// shows: DUR-02, REL-12, REL-22
#[test]
fn budgets_and_quiet_hours() {
    let bounds = Bounds {
        session: Budget { micro_usd: Some(1_000_000), tokens: None },
        session_timeout: Some(Millis::from_secs(20)),
        quiet_hours: "01:00-01:30".parse().unwrap(),
        ..Bounds::default()
    };
    let deeds = vec![(1, Deed::Crash)];
    crash_everywhere(&Scenario { bounds, deeds, ..Scenario::of_items(2) });
}

/// Long relays with several crashes each, drawn by chance. A failure prints its seed.
// shows: DUR-02
#[test]
fn seeded_crashes_of_long_relays() {
    let seeds = std::env::var("EKIDEN_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(200);
    for seed in 0..seeds {
        seeded_world(seed);
    }
}

fn seeded_world(seed: u64) {
    let mut dice = Dice(seed.wrapping_mul(2) + 1);
    let deeds = (1..40).filter_map(|start| match dice.roll(8) {
        0 => Some((start, Deed::Crash)),
        1 => Some((start, Deed::Limit)),
        2 => Some((start, Deed::ClaimEarly)),
        _ => None,
    });
    let deeds = deeds.collect();
    let steering = (1..40).filter_map(|start| match dice.roll(12) {
        0 => Some((start, Steering::Pause)),
        1 => Some((start, Steering::Stop { now: false })),
        2 => Some((start, Steering::Stop { now: true })),
        3 => Some((start, Steering::Instruct { words: "Mind the fixtures.".to_owned() })),
        4 => Some((start, Steering::ChangeLimits(Box::default()))),
        _ => None,
    });
    let scenario = Scenario {
        steering: steering.collect(),
        deeds,
        verified: true,
        git: seed.is_multiple_of(2),
        commits: seed.is_multiple_of(4),
        ..Scenario::of_items(12)
    };
    let world = Rc::new(RefCell::new(World::default()));
    let mut disk = Arc::new(machine(&scenario));
    let mut kill_only = true;
    for _ in 0..dice.roll(6) {
        disk.crash_at(disk.ops() + u64::from(dice.roll(900)), AtCrash::Done);
        if live_on(&disk, &world, &scenario).is_ok() {
            break;
        }
        let power_cut = dice.roll(2) == 0;
        kill_only &= !power_cut;
        let found: SimDisk =
            if power_cut { disk.survive_seeded(u64::from(dice.roll(u32::MAX))) } else { disk.after_kill() };
        disk = Arc::new(found);
    }
    let undisturbed = Arc::new(SimDisk::clone(&disk.after_kill()));
    let outcome =
        live_on(&undisturbed, &world, &scenario).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let world = world.borrow();
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        checks::hold(&undisturbed, &world, &scenario, &outcome, kill_only);
    }));
    assert!(checked.is_ok(), "seed {seed} fails; repeat it with `seeded_world({seed})`");
}

/// A small generator: the same seed gives the same world on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 16) % u64::from(sides)).unwrap_or(0)
    }
}
