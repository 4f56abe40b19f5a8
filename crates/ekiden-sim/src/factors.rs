//! All losses of a disk that is too full of unsynced files to try them all together.
//!
//! What may survive falls into **parts** that a power cut treats independently: a file's chain of
//! names (a later change of a name needs the earlier ones) with its unsynced bytes. The number of
//! losses is the product over the parts, and files that are never synced on purpose make it millions.
//!
//! But most of those files are *derived*: written again from what else is there, each looked at by
//! itself, and deciding nothing. So it is enough to try
//!
//! 1. every combination of the parts that decide, each with all derived parts lost and all kept;
//! 2. every state of each derived part, with all others lost and all others kept.
//!
//! That no derived file decides is not taken on trust: the disks come in groups that differ in derived
//! parts only, and what is done on two disks of one group must be the same ([`Survivor::group`]).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::SimDisk;
use super::file::FileLoss;
use super::loss::Loss;
use super::tree::{Ino, Tree};

/// More combinations of deciding parts than this are not tried.
const COMBINATIONS_MAX: usize = 100_000;

/// The plan has each loss twice in a row: with the other derived parts lost, and with them kept.
const PAIR: usize = 2;

/// A disk that may be found after a power cut.
pub struct Survivor {
    /// What survives of the parts that decide: the same number, the same survival.
    pub group: usize,
    pub disk: SimDisk,
}

/// The losses of a disk, as a plan to try them.
pub struct Factored {
    disk: SimDisk,
    plan: Vec<(usize, Loss)>,
    /// How many losses are legal in all.
    pub legal: u128,
    /// Every combination of deciding parts is among them.
    pub is_complete: bool,
}

/// Names and files whose survival hangs together.
struct Part {
    /// Indices of pending changes of names.
    ops: Vec<usize>,
    files: Vec<Ino>,
    derived: bool,
    /// All that may become of it; the first is that all is lost, the last that all survives.
    outcomes: Vec<Outcome>,
}

/// Which of a part's changes survive, and what of its files.
#[derive(Clone, Default)]
struct Outcome {
    kept: Vec<usize>,
    files: Vec<(Ino, FileLoss)>,
}

impl SimDisk {
    /// The disks that may be found after a power cut now, where `derived` tells the files that are
    /// written again from others and decide nothing. What that leaves out stands at the top of the
    /// module `factors.rs`.
    pub fn factored(&self, derived: impl Fn(&Path) -> bool) -> Factored {
        let disk = self.after_kill();
        let tree = disk.lock().tree.clone();
        let parts = parts(&tree, &derived);
        let legal = parts
            .iter()
            .map(|part| part.outcomes.len() as u128)
            .product();
        let (plan, is_complete) = plan(&tree, &parts);
        Factored {
            disk,
            plan,
            legal,
            is_complete,
        }
    }

    /// A number that is the same for disks on which everything reads the same.
    pub fn fingerprint(&self) -> u64 {
        self.lock().tree.fingerprint()
    }
}

impl Iterator for Factored {
    type Item = Survivor;

    fn next(&mut self) -> Option<Survivor> {
        let (group, loss) = self.plan.pop()?;
        let state = self.disk.lock();
        Some(Survivor {
            group,
            disk: SimDisk::with(loss.apply(&state.tree), &state),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.plan.len(), Some(self.plan.len()))
    }
}

impl ExactSizeIterator for Factored {}

impl Factored {
    /// About `max` of them at even distances, other ones with another `seed`. Two disks that differ in derived
    /// parts only stay together, so that they can be compared.
    pub fn drawn(mut self, max: usize, seed: u64) -> Self {
        let pairs = self.plan.chunks(PAIR);
        let step = pairs.len().div_ceil(max.div_ceil(PAIR).max(1));
        let skipped = (seed % step as u64) as usize;
        self.plan = pairs
            .skip(skipped)
            .step_by(step)
            .flatten()
            .cloned()
            .collect();
        self
    }
}

impl Part {
    fn of(ops: Vec<usize>, files: Vec<Ino>) -> Self {
        Self {
            ops,
            files,
            derived: false,
            outcomes: Vec::new(),
        }
    }
}

fn parts(tree: &Tree, derived: &impl Fn(&Path) -> bool) -> Vec<Part> {
    let paths = tree.paths();
    let path = |dir: Ino, name: &OsStr| {
        paths
            .get(&dir)
            .map(|dir| dir.join(name))
            .unwrap_or_default()
    };
    let mut parts: Vec<Part> = Vec::new();
    for (at, op) in tree.pending().iter().enumerate() {
        let needs = |part: &Part| {
            part.ops
                .iter()
                .any(|earlier| op.needs(&tree.pending()[*earlier]))
        };
        let mut ops: Vec<usize> = parts
            .extract_if(.., |part| needs(part))
            .flat_map(|part| part.ops)
            .collect();
        ops.sort_unstable();
        ops.push(at);
        parts.push(Part::of(ops, Vec::new()));
    }
    for (ino, _) in tree.files().filter(|(_, file)| !file.losses().is_empty()) {
        let named = |part: &&mut Part| part.ops.iter().any(|op| tree.pending()[*op].leads_to(ino));
        match parts.iter_mut().find(named) {
            Some(part) => part.files.push(ino),
            None => parts.push(Part::of(Vec::new(), vec![ino])),
        }
    }
    for part in &mut parts {
        let of_ops = part.ops.iter().flat_map(|op| tree.pending()[*op].names());
        let mut names: Vec<PathBuf> = of_ops.map(|(dir, name)| path(dir, name)).collect();
        names.extend(part.files.iter().filter_map(|ino| paths.get(ino).cloned()));
        part.derived = names.iter().all(|name| derived(name));
        part.outcomes = outcomes(tree, part);
    }
    parts
}

/// The part's changes survive up to one of them, since each needs those before it or is free of them.
fn outcomes(tree: &Tree, part: &Part) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for kept in legal_subsets(tree, &part.ops) {
        let names: Vec<bool> = (0..tree.pending().len())
            .map(|at| kept.contains(&at) || !part.ops.contains(&at))
            .collect();
        let left = tree.with_names(&names);
        let mut found = vec![Outcome {
            kept,
            files: Vec::new(),
        }];
        for (ino, file) in left.files().filter(|(ino, _)| part.files.contains(ino)) {
            let with = |begun: &Outcome, loss| {
                let files = [begun.files.as_slice(), &[(ino, loss)]].concat();
                Outcome {
                    kept: begun.kept.clone(),
                    files,
                }
            };
            let losses = file.losses();
            found = found
                .iter()
                .flat_map(|begun| losses.iter().map(move |loss| with(begun, *loss)))
                .collect();
        }
        outcomes.extend(found);
    }
    outcomes
}

/// The subsets of these changes in which no change lacks one that it needs, from none to all.
fn legal_subsets(tree: &Tree, ops: &[usize]) -> Vec<Vec<usize>> {
    let mut subsets: Vec<Vec<usize>> = vec![Vec::new()];
    for (at, op) in ops.iter().enumerate() {
        let pending = tree.pending();
        let needed: Vec<usize> = ops[..at]
            .iter()
            .copied()
            .filter(|earlier| pending[*op].needs(&pending[*earlier]))
            .collect();
        let more: Vec<Vec<usize>> = subsets
            .iter()
            .filter(|subset| needed.iter().all(|earlier| subset.contains(earlier)))
            .map(|subset| [subset.as_slice(), &[*op]].concat())
            .collect();
        subsets.extend(more);
    }
    subsets
}

fn plan(tree: &Tree, parts: &[Part]) -> (Vec<(usize, Loss)>, bool) {
    let deciding: Vec<&Part> = parts.iter().filter(|part| !part.derived).collect();
    let derived: Vec<&Part> = parts.iter().filter(|part| part.derived).collect();
    let (combinations, is_complete) = combinations(&deciding);
    let lost: Vec<&Outcome> = derived
        .iter()
        .filter_map(|part| part.outcomes.first())
        .collect();
    let kept: Vec<&Outcome> = derived
        .iter()
        .filter_map(|part| part.outcomes.last())
        .collect();
    let mut plan = Vec::new();
    let mut add = |group: usize, of_derived: &[&Outcome]| {
        plan.push((
            group,
            loss(
                tree,
                combinations[group]
                    .iter()
                    .copied()
                    .chain(of_derived.iter().copied()),
            ),
        ));
    };
    for group in 0..combinations.len() {
        add(group, &lost);
        add(group, &kept);
    }
    let all_kept = combinations.len() - 1;
    for (at, part) in derived.iter().enumerate() {
        for outcome in &part.outcomes {
            for mut others in [lost.clone(), kept.clone()] {
                others[at] = outcome;
                add(all_kept, &others);
            }
        }
    }
    (plan, is_complete)
}

/// Every combination of outcomes, the last being that all survives; whether these are all.
fn combinations<'p>(parts: &[&'p Part]) -> (Vec<Vec<&'p Outcome>>, bool) {
    let mut combinations: Vec<Vec<&Outcome>> = vec![Vec::new()];
    for part in parts {
        if combinations.len() * part.outcomes.len() > COMBINATIONS_MAX {
            let all: Vec<_> = parts
                .iter()
                .filter_map(|part| part.outcomes.last())
                .collect();
            return (vec![all], false);
        }
        combinations = combinations
            .iter()
            .flat_map(|begun| {
                part.outcomes
                    .iter()
                    .map(move |outcome| [begun.as_slice(), &[outcome]].concat())
            })
            .collect();
    }
    (combinations, true)
}

fn loss<'o>(tree: &Tree, outcomes: impl Iterator<Item = &'o Outcome>) -> Loss {
    let mut names = vec![false; tree.pending().len()];
    let mut files = Vec::new();
    for outcome in outcomes {
        outcome.kept.iter().for_each(|at| names[*at] = true);
        files.extend(outcome.files.iter().copied());
    }
    Loss::new(names, files)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use ekiden_store::disk::{Disk, Reach};
    use ekiden_store::replace::{Durability, replace};

    /// Two files of each kind, none synced, and a directory.
    fn disk() -> SimDisk {
        let disk = SimDisk::new();
        disk.plant_dir(Path::new("/p"));
        disk.plant_dir(Path::new("/d"));
        disk.plant_file(Path::new("/p/old"), b"old");
        disk.create_dir(Path::new("/p/dir")).unwrap();
        disk.create_file(Path::new("/p/dir/a"), b"aa", Reach::Cache)
            .unwrap();
        disk.append(Path::new("/p/old"), 3, b" and new", Reach::Cache)
            .unwrap();
        for content in [b"one", b"two"] {
            replace(&disk, Path::new("/d/x"), content, Durability::Derived).unwrap();
        }
        replace(&disk, Path::new("/d/y"), b"yy", Durability::Whole).unwrap();
        disk
    }

    fn found(disks: impl Iterator<Item = SimDisk>) -> BTreeSet<u64> {
        disks.map(|disk| disk.fingerprint()).collect()
    }

    #[test]
    fn where_nothing_is_derived_every_legal_loss_is_tried() {
        let disk = disk();
        let all = disk.survivors();
        assert!(all.is_complete());
        let factored = disk.factored(|_| false);
        assert!(factored.is_complete);
        assert_eq!(found(factored.map(|survivor| survivor.disk)), found(all));
    }

    #[test]
    fn each_derived_file_is_found_in_every_state_and_with_each_deciding_one() {
        let disk = disk();
        let derived = |path: &Path| path.starts_with("/d");
        let read = |disk: &SimDisk, path: &str| disk.read(Path::new(path), 100).ok();
        let pairs = |disks: &mut dyn Iterator<Item = SimDisk>, paths: [&str; 2]| -> BTreeSet<_> {
            disks
                .map(|disk| paths.map(|path| read(&disk, path)))
                .collect()
        };
        let tried = || disk.factored(derived).map(|survivor| survivor.disk);
        for paths in [
            ["/d/x", "/d/x"],
            ["/d/y", "/d/.y.new"],
            ["/p/dir/a", "/p/old"],
        ] {
            assert_eq!(
                pairs(&mut tried(), paths),
                pairs(&mut disk.survivors(), paths),
                "{paths:?}"
            );
        }
        let together = pairs(&mut tried(), ["/p/old", "/d/x"]);
        assert!(together.contains(&[Some(b"old".to_vec()), None]));
        assert!(together.contains(&[Some(b"old".to_vec()), Some(b"two".to_vec())]));
        assert!(tried().count() < disk.survivors().count());
    }

    #[test]
    fn every_third_is_the_same_disk_as_among_all() {
        let disk = disk();
        let all: Vec<u64> = disk
            .factored(|_| false)
            .map(|survivor| survivor.disk.fingerprint())
            .collect();
        let found = disk.factored(|_| false).skip(1).step_by(3);
        let found: Vec<u64> = found.map(|survivor| survivor.disk.fingerprint()).collect();
        let wanted: Vec<u64> = all.into_iter().skip(1).step_by(3).collect();
        assert_eq!(found, wanted);
        assert_eq!(disk.factored(|_| false).skip(100_000).count(), 0);
    }

    #[test]
    fn a_group_differs_in_derived_files_only() {
        let disk = disk();
        let mut seen: std::collections::BTreeMap<usize, BTreeSet<_>> =
            std::collections::BTreeMap::new();
        for survivor in disk.factored(|path| path.starts_with("/d")) {
            let deciding =
                ["/p/dir/a", "/p/old"].map(|path| survivor.disk.read(Path::new(path), 100).ok());
            seen.entry(survivor.group).or_default().insert(deciding);
        }
        assert!(
            seen.values().all(|deciding| deciding.len() == 1),
            "{seen:?}"
        );
    }
}
