//! Crashing a piece of work everywhere.

use std::sync::Arc;

use super::{AtCrash, SimDisk};

/// Where a crash happened and what it took, for the message of a failing test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrashPoint {
    /// The operation, from 0; the number of all operations if the work was done.
    pub op: u64,
    /// Whether that operation still reached the cache.
    pub at: AtCrash,
    /// Which of the survivors it is; `None` where only the process died.
    pub survivor: Option<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Explored {
    pub crashes: usize,
    /// Disks that were found after one.
    pub worlds: usize,
    /// Crashes whose losses were too many to try all.
    pub sampled: usize,
}

/// Does `work` on copies of `start`, with a crash at each of its operations and one after the last,
/// and shows `check` every disk that may be found then: one where only the process died, and one for
/// each legal loss of a power cut. `check` also sees what `work` returned.
///
/// # Panics
///
/// If `check` does, after telling where.
pub fn every_crash<T>(
    start: &SimDisk,
    work: impl Fn(&Arc<SimDisk>) -> T,
    check: impl Fn(&SimDisk, &T, CrashPoint),
) -> Explored {
    let undisturbed = Arc::new(start.clone());
    work(&undisturbed);
    let ops = undisturbed.ops() - start.ops();
    let mut explored = Explored::default();
    for op in 0..=ops {
        for at in [AtCrash::NotDone, AtCrash::Done] {
            let disk = Arc::new(start.clone());
            disk.crash_at(start.ops() + op, at);
            let returned = work(&disk);
            explored.crashes += 1;
            check(
                &disk.after_kill(),
                &returned,
                CrashPoint {
                    op,
                    at,
                    survivor: None,
                },
            );
            let survivors = disk.survivors();
            explored.sampled += usize::from(!survivors.is_complete());
            for (survivor, disk) in survivors.enumerate() {
                explored.worlds += 1;
                check(
                    &disk,
                    &returned,
                    CrashPoint {
                        op,
                        at,
                        survivor: Some(survivor),
                    },
                );
            }
        }
    }
    explored
}
