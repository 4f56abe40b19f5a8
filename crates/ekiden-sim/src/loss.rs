//! What a power cut may take: every legal loss, or one drawn by chance.

use super::file::FileLoss;
use super::tree::{Ino, Tree};
use crate::chance::Chance;

/// With more pending name changes than this their subsets are drawn instead of enumerated.
const NAMES_ENUMERATED_MAX: usize = 10;
/// With more possible losses than this they are drawn instead of enumerated.
const LOSSES_ENUMERATED_MAX: usize = 4096;
/// How many are drawn then, besides the two extremes.
const LOSSES_DRAWN: u64 = 254;

/// One way in which a power cut may end: which name changes and which bytes survive.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    names: Vec<bool>,
    files: Vec<(Ino, FileLoss)>,
}

pub(super) struct Losses {
    pub(super) losses: Vec<Loss>,
    /// These are all that the model has.
    pub(super) complete: bool,
}

impl Loss {
    pub(super) fn new(names: Vec<bool>, files: Vec<(Ino, FileLoss)>) -> Self {
        Self { names, files }
    }

    /// The tree that is found after the power cut.
    pub(super) fn apply(&self, tree: &Tree) -> Tree {
        let mut left = tree.with_names(&self.names);
        let survived: Vec<_> = left
            .files()
            .filter_map(|(ino, file)| {
                let lost = self.files.iter().find(|(lost, _)| *lost == ino);
                let dead = file.sync_is_dead().then_some(FileLoss::Whole);
                let loss = lost.map(|(_, loss)| *loss).or(dead)?;
                Some((ino, file.survive(loss)))
            })
            .collect();
        for (ino, file) in survived {
            left.set_file(ino, file);
        }
        left
    }

    /// A loss drawn by chance.
    pub(super) fn drawn(tree: &Tree, seed: u64) -> Self {
        let mut chance = Chance(seed);
        let mut names: Vec<bool> = Vec::new();
        for (at, op) in tree.pending().iter().enumerate() {
            let possible = tree.pending()[..at]
                .iter()
                .zip(&names)
                .all(|(earlier, kept)| *kept || !op.needs(earlier));
            names.push(possible && chance.below(2) == 0);
        }
        let mut draw = |count: usize| chance.below(count);
        let files = tree
            .files()
            .map(|(ino, file)| (ino, file.draw_loss(&mut draw)))
            .collect();
        Self { names, files }
    }

    fn extreme(tree: &Tree, survives: bool) -> Self {
        let loss = if survives {
            FileLoss::Whole
        } else {
            FileLoss::Lost
        };
        let names = vec![survives; tree.pending().len()];
        Self {
            names,
            files: tree.files().map(|(ino, _)| (ino, loss)).collect(),
        }
    }
}

impl Losses {
    /// Every loss that the model knows, or a sample where there are too many.
    pub(super) fn of(tree: &Tree) -> Self {
        match enumerate(tree) {
            Some(losses) => Self {
                losses,
                complete: true,
            },
            None => {
                let extremes = [Loss::extreme(tree, false), Loss::extreme(tree, true)];
                let drawn = (0..LOSSES_DRAWN).map(|seed| Loss::drawn(tree, seed));
                Self {
                    losses: extremes.into_iter().chain(drawn).collect(),
                    complete: false,
                }
            }
        }
    }
}

/// All losses, or `None` if they are too many.
fn enumerate(tree: &Tree) -> Option<Vec<Loss>> {
    let count = tree.pending().len();
    if count > NAMES_ENUMERATED_MAX {
        return None;
    }
    let mut losses = Vec::new();
    for subset in 0..1_u32 << count {
        let names: Vec<bool> = (0..count).map(|at| subset >> at & 1 == 1).collect();
        if !is_legal(tree, &names) {
            continue;
        }
        for files in file_losses(&tree.with_names(&names)) {
            losses.push(Loss {
                names: names.clone(),
                files,
            });
            if losses.len() > LOSSES_ENUMERATED_MAX {
                return None;
            }
        }
    }
    Some(losses)
}

/// No surviving change lacks one that it needs.
fn is_legal(tree: &Tree, names: &[bool]) -> bool {
    let pending = tree.pending();
    (0..names.len()).filter(|later| names[*later]).all(|later| {
        (0..later).all(|earlier| names[earlier] || !pending[later].needs(&pending[earlier]))
    })
}

/// All combinations of what may become of the files that still have a name.
fn file_losses(tree: &Tree) -> Vec<Vec<(Ino, FileLoss)>> {
    let mut combinations = vec![Vec::new()];
    for (ino, file) in tree.files() {
        let losses = file.losses();
        if losses.is_empty() || combinations.len() > LOSSES_ENUMERATED_MAX {
            continue;
        }
        combinations = combinations
            .iter()
            .flat_map(|begun| {
                losses
                    .iter()
                    .map(move |loss| [begun.as_slice(), &[(ino, *loss)]].concat())
            })
            .collect();
    }
    combinations
}
