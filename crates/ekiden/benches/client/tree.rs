//! The CPU time of a tree of processes, as Linux reports it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// CPU time used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tree {
    /// By ekiden: the engine and its keepers.
    pub(crate) ekiden_ms: f64,
    /// By all others.
    pub(crate) client_ms: f64,
}

/// Every process that was seen, with its highest use.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    processes: BTreeMap<u32, (bool, f64)>,
}

impl Seen {
    /// Samples a process and all below it. It misses what a process uses after the last sample.
    pub(crate) fn look(&mut self, root: u32, ekiden: &Path) {
        let Ok(ekiden) = ekiden.canonicalize() else {
            return;
        };
        let parents = parents();
        for pid in parents
            .keys()
            .copied()
            .filter(|pid| is_below(*pid, root, &parents))
        {
            let Some(cpu_ms) = cpu_ms(pid) else { continue };
            let is_ekiden =
                fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == ekiden);
            let seen = self.processes.entry(pid).or_default();
            // Between fork and exec a client is still a keeper, so the last sample decides. And Linux no
            // longer reports the use of a thread that is gone.
            *seen = (is_ekiden, seen.1.max(cpu_ms));
        }
    }

    pub(crate) fn sum(&self) -> Tree {
        self.processes.values().fold(
            Tree::default(),
            |tree, &(is_ekiden, cpu_ms)| match is_ekiden {
                true => Tree {
                    ekiden_ms: tree.ekiden_ms + cpu_ms,
                    ..tree
                },
                false => Tree {
                    client_ms: tree.client_ms + cpu_ms,
                    ..tree
                },
            },
        )
    }
}

/// The parent of each process.
fn parents() -> BTreeMap<u32, u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, parent(pid)?))).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in brackets and may contain anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

fn is_below(pid: u32, root: u32, parents: &BTreeMap<u32, u32>) -> bool {
    let mut at = Some(pid);
    while let Some(pid) = at {
        if pid == root {
            return true;
        }
        at = parents.get(&pid).copied();
    }
    false
}

/// All threads, including kernel time.
fn cpu_ms(pid: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let of_thread = |thread: &Path| -> Option<f64> {
        let told = fs::read_to_string(thread.join("schedstat")).ok()?;
        Some(told.split(' ').next()?.parse::<f64>().ok()? / 1e6)
    };
    Some(
        threads
            .filter_map(|thread| of_thread(&thread.ok()?.path()))
            .sum(),
    )
}
