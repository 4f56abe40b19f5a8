//! Worlds that are drawn by chance, and what goes wrong in them.

use ekiden_sim::{AtCrash, Fault, SimDisk};

/// Operations of the disk within which something goes wrong.
const SOON: u32 = 900;

/// Tries a world for each seed: `EKIDEN_SEEDS` of them (200 unless it says otherwise) from
/// `EKIDEN_FIRST_SEED` on, or as many as `EKIDEN_SEED_SECONDS` allow.
#[expect(
    clippy::disallowed_methods,
    reason = "how long this may take is real time, not the world's"
)]
pub(crate) fn for_each_seed(world: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let first = first_seed();
    let seconds: Option<u64> = number("EKIDEN_SEED_SECONDS");
    let count = number("EKIDEN_SEEDS").unwrap_or(seconds.map_or(200, |_| u64::MAX));
    let begun = std::time::Instant::now();
    let is_time = || seconds.is_none_or(|max| begun.elapsed().as_secs() < max);
    let mut tried = 0;
    while tried < count && is_time() {
        let seed = first.wrapping_add(tried);
        let checked = std::panic::catch_unwind(|| world(seed));
        assert!(
            checked.is_ok(),
            "seed {seed} fails; repeat it with EKIDEN_FIRST_SEED={seed} EKIDEN_SEEDS=1"
        );
        tried += 1;
    }
    assert!(tried > 0, "no seed was tried");
    println!("{tried} seeds from {first}");
}

pub(crate) fn first_seed() -> u64 {
    number("EKIDEN_FIRST_SEED").unwrap_or(0)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// What ends one life after the other.
#[derive(Debug, Default)]
pub(crate) struct Disturbance {
    fault: Option<Fault>,
    power_was_cut: bool,
    /// A sync has failed since the machine was started: what is in the cache may never reach the disk, and a
    /// process that reads it cannot know. No program helps against a power cut then, so none is drawn.
    is_suspect: bool,
}

impl Disturbance {
    /// Soon the machine crashes, or its disk is full, broken or read-only.
    pub(crate) fn comes(&mut self, disk: &SimDisk, dice: &mut Dice) {
        let op = disk.ops() + u64::from(dice.roll(SOON));
        let faults = [Fault::DiskFull, Fault::Io, Fault::ReadOnly];
        self.fault = faults.get(dice.roll(6) as usize).copied();
        match self.fault {
            Some(fault) => disk.fail_from(op, fault),
            None => disk.crash_at(op, AtCrash::Done),
        }
    }

    /// The disk that the next life finds.
    pub(crate) fn leaves(&mut self, disk: &SimDisk, dice: &mut Dice) -> SimDisk {
        let power_cut = dice.roll(2) == 0 && !self.is_suspect;
        let seed = u64::from(dice.roll(u32::MAX));
        if power_cut {
            self.power_was_cut = true;
            return disk.survive_seeded(seed);
        }
        self.is_suspect |= self.fault.is_some();
        disk.after_kill()
    }

    /// Nothing but processes died.
    pub(crate) fn killed_only(&self) -> bool {
        !self.power_was_cut
    }
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
