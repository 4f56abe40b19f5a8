//! The engine in a simulated world: crash it everywhere, take it up again, and look whether anything
//! was lost or done twice. How to read a failure is said in `docs/testing.md`.
#![expect(
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test may stop at what it does not expect"
)]

mod checks;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use ekiden_core::outcome::Outcome;
use ekiden_core::steering::Steering;
use ekiden_engine::EngineError;
use ekiden_store::sim::{AtCrash, SimDisk};

use world::{Deed, Scenario, World, live, machine};

/// Losses tried at one crash. Where more are legal, this many of them are taken at even distances,
/// the two extremes among them.
fn losses_max() -> usize {
    std::env::var("EKIDEN_LOSSES").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

/// Runs a scenario with a crash of the machine at every operation of the disk; then takes the run up
/// again, once where only the process died and once for each legal loss of a power cut, and checks
/// everything.
fn crash_everywhere(scenario: &Scenario) {
    let undisturbed = Arc::new(machine());
    let begun = undisturbed.ops();
    live_on(&undisturbed, &Rc::default(), scenario).expect("an undisturbed run");
    let mut worlds = 0;
    for op in begun..=undisturbed.ops() {
        for at in [AtCrash::NotDone, AtCrash::Done] {
            let disk = Arc::new(machine());
            disk.crash_at(op, at);
            let world = Rc::new(RefCell::new(World::default()));
            let _ = live_on(&disk, &world, scenario);
            let world = world.borrow();
            go_on(disk.after_kill(), &world, scenario, true);
            let found: Vec<SimDisk> = disk.survivors().collect();
            let step = found.len().div_ceil(losses_max()).max(1);
            for found in found.into_iter().step_by(step) {
                worlds += 1;
                go_on(found, &world, scenario, false);
            }
        }
    }
    assert!(worlds > 1000, "only {worlds} worlds");
}

fn go_on(found: SimDisk, world: &World, scenario: &Scenario, kill_only: bool) {
    let disk = Arc::new(found);
    let world = Rc::new(RefCell::new(world.clone()));
    let outcome = live_on(&disk, &world, scenario).unwrap_or_else(|error| panic!("{error}: {error:?}"));
    checks::hold(&disk, &world.borrow(), &outcome, kill_only);
}

/// Lives on until the run is complete: a person may have stopped it meanwhile.
fn live_on(
    disk: &Arc<SimDisk>,
    world: &Rc<RefCell<World>>,
    scenario: &Scenario,
) -> Result<Outcome, EngineError> {
    loop {
        let outcome = live(disk, world, scenario)?;
        if !matches!(outcome, Outcome::Stopped { .. }) {
            return Ok(outcome);
        }
    }
}

// shows: DUR-01, DUR-02
#[test]
fn three_sessions() {
    crash_everywhere(&Scenario::of_items(3));
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
        _ => None,
    });
    let scenario = Scenario {
        steering: steering.collect(),
        deeds,
        verified: true,
        git: seed.is_multiple_of(2),
        ..Scenario::of_items(12)
    };
    let world = Rc::new(RefCell::new(World::default()));
    let mut disk = Arc::new(machine());
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
        checks::hold(&undisturbed, &world, &outcome, kill_only);
    }));
    assert!(checked.is_ok(), "seed {seed} fails; repeat it with `seeded_world({seed})`");
}

/// A small generator: the same seed gives the same world on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from((self.0 >> 16) % u64::from(sides)).unwrap_or(0)
    }
}
