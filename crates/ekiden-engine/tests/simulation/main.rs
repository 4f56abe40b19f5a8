//! The engine in a simulated world: crash it everywhere, take it up again, and look whether anything
//! was lost or done twice. How to read a failure is said in `docs/testing.md`.

mod checks;
mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use ekiden_store::sim::{SimDisk, every_crash};

use world::{Deed, Scenario, World, live, machine};

/// Runs a scenario with a crash of the machine at every operation of the disk, with every legal
/// loss; then takes the run up again and checks everything.
fn crash_everywhere(scenario: &Scenario) {
    let explored = every_crash(
        &machine(),
        |disk| {
            let world = Rc::new(RefCell::new(World::default()));
            let _ = live(disk, &world, scenario);
            let world = world.borrow().clone();
            world
        },
        |disk, before, crash| {
            let disk = Arc::new(disk.clone());
            let world = Rc::new(RefCell::new(before.clone()));
            let outcome = live(&disk, &world, scenario).unwrap_or_else(|error| panic!("{error}: {error:?}"));
            checks::hold(&disk, &world.borrow(), &outcome, crash.survivor.is_none());
        },
    );
    assert!(explored.crashes > 100, "{explored:?}");
    println!("{scenario:?}: {explored:?}");
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
    let scenario =
        Scenario { deeds: deeds.collect(), verified: true, git: seed % 2 == 0, ..Scenario::of_items(12) };
    let world = Rc::new(RefCell::new(World::default()));
    let mut disk = Arc::new(machine());
    let mut kill_only = true;
    for _ in 0..dice.roll(6) {
        disk.crash_at(disk.ops() + u64::from(dice.roll(900)), ekiden_store::sim::AtCrash::Done);
        if live(&disk, &world, &scenario).is_ok() {
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
        live(&undisturbed, &world, &scenario).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
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
