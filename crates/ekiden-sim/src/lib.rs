//! A machine in memory that can be crashed at any operation, losing anything it legally may.
//!
//! # The fault model
//!
//! What is written goes into a cache. It reaches the disk when it is synced, and at any other moment
//! that the machine likes. A power cut leaves the disk and takes the cache.
//!
//! **Bytes.** What was appended or cut since the file's last sync survives wholly, not at all, up to
//! any byte, or with its full length and zeros in place of some bytes (the length is on the disk, a
//! block is not: ext4, xfs and apfs allocate late). Bytes that were synced never change. A file whose
//! name survives may so be empty or torn, and a torn line may end in a perfect newline.
//!
//! **Names.** Creations, renames, removals and new directories survive each on its own, as long as
//! their directory has not been synced since. A later change of a name needs the earlier ones of the
//! same name. A rename is one change: both names or none (POSIX promises it to other processes; the
//! journals of ext4, xfs, btrfs and apfs promise it after a crash). Syncing a file says nothing about
//! its name, and syncing a directory nothing about its own name in its parent. A rename between two
//! directories is on the disk when either is synced. Real file systems keep more order than this;
//! what is right here is right there.
//!
//! **Processes.** When only the process dies ([`SimDisk::after_kill`]) the cache stays, still
//! unsynced: the next process may read what a power cut takes away later.
//!
//! **Errors** ([`Fault`]): a full disk writes half of the bytes; a failed sync makes each later sync
//! of that file worthless although it reports success, as Linux does; a read-only disk refuses.
//!
//! **Not modelled**: damage to synced bytes (a bad disk), stale blocks of other files in place of
//! unsynced bytes (ext4 `data=writeback`), a disk that lies about its sync, permissions (but for
//! [`SimDisk::forbid`]), hard links, more than one machine. Locks are the kernel's and are not part of the disk: see `ekiden_store::lock`.
//!
//! # Use
//!
//! [`every_crash`] does it all. By hand: [`SimDisk::crash_at`], do the work, then look at each of
//! [`SimDisk::survivors`]. Where too many files are unsynced for that, [`SimDisk::factored`] tries
//! those that decide in every combination and the others one by one. Long worlds take
//! [`SimDisk::survive_seeded`].

mod chance;
mod explore;
mod factors;
mod file;
mod loss;
mod ops;
mod tree;
mod walk;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ekiden_store::disk::{Cause, Operation};
use ekiden_store::lock::{Holder, WorkDirLock};

pub use chance::Chance;
pub use explore::{CrashPoint, Explored, every_crash};
pub use factors::{Factored, Survivor};
use file::SimFile;
use loss::{Loss, Losses};
use tree::{Node, Tree, refused};

/// Whether the operation at which the machine crashed was still done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AtCrash {
    NotDone,
    /// It was, but nobody was told.
    Done,
}

/// How an operation may fail without a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No space is left. Half of the bytes may be written.
    DiskFull,
    /// The device fails. A sync that fails so is never made good.
    Io,
    /// The file system has become read-only.
    ReadOnly,
    /// Another user owns the place now.
    NotPermitted,
}

impl Fault {
    fn cause(self) -> Cause {
        refused(match self {
            Self::DiskFull => io::ErrorKind::StorageFull,
            Self::Io => io::ErrorKind::Other,
            Self::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            Self::NotPermitted => io::ErrorKind::PermissionDenied,
        })
    }
}

/// A disk in memory. A clone is a copy that goes its own way; share one by reference.
///
/// Operations that change something are counted from 0, and each is a point at which the machine
/// can crash. Making a file with bytes and a sync is three: the name, the bytes, the sync.
#[derive(Debug)]
pub struct SimDisk {
    state: Mutex<State>,
}

#[derive(Debug, Clone)]
struct State {
    tree: Tree,
    fence: Option<PathBuf>,
    ops: u64,
    syncs: u64,
    crash: Option<(u64, AtCrash)>,
    crashed: bool,
    faults: Vec<PlannedFault>,
    forbidden: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy)]
struct PlannedFault {
    from: u64,
    lasting: bool,
    fault: Fault,
}

/// The disks that may be found after a power cut.
pub struct Survivors {
    disk: SimDisk,
    losses: std::vec::IntoIter<Loss>,
    complete: bool,
}

impl Clone for SimDisk {
    fn clone(&self) -> Self {
        Self {
            state: Mutex::new(self.lock().clone()),
        }
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State::with_tree(Tree::new(), None)),
        }
    }

    /// The same disk, where nothing is written through a link beneath `project`.
    pub fn fenced(self, project: &Path) -> Self {
        self.lock().fence = Some(project.to_owned());
        self
    }

    /// Puts a directory, and those above it, on the disk: not an operation.
    ///
    /// # Panics
    ///
    /// If a file is in the way.
    pub fn plant_dir(&self, path: &Path) {
        let tree = &mut self.lock().tree;
        let mut above: Vec<_> = path
            .ancestors()
            .filter(|dir| dir.parent().is_some())
            .collect();
        above.reverse();
        for dir in above {
            if !matches!(tree.look(dir), Ok(Some(_))) {
                tree.create(dir, None, Node::Dir(Arc::default()))
                    .expect("a free place");
            }
        }
        tree.sync_all();
    }

    /// Puts a file on the disk, with the directories above it: not an operation.
    ///
    /// # Panics
    ///
    /// If something of that name is there.
    pub fn plant_file(&self, path: &Path, bytes: &[u8]) {
        self.plant_dir(ekiden_store::disk::parent(path));
        let tree = &mut self.lock().tree;
        tree.create(path, None, Node::File(Arc::new(SimFile::durable(bytes))))
            .expect("a free place");
        tree.sync_all();
    }

    /// Makes this another user's: what it holds cannot be read, and its permissions not changed. Its name can be.
    pub fn forbid(&self, path: &Path) {
        self.lock().forbidden.push(path.to_owned());
    }

    /// How many changing operations there were.
    pub fn ops(&self) -> u64 {
        self.lock().ops
    }

    /// The machine will crash at this operation: it and all later ones fail, reads too.
    pub fn crash_at(&self, op: u64, at: AtCrash) {
        self.lock().crash = Some((op, at));
    }

    pub fn has_crashed(&self) -> bool {
        self.lock().crashed
    }

    /// This one operation will fail.
    pub fn fail_at(&self, op: u64, fault: Fault) {
        self.lock().faults.push(PlannedFault {
            from: op,
            lasting: false,
            fault,
        });
    }

    /// This operation and all later ones will fail.
    pub fn fail_from(&self, op: u64, fault: Fault) {
        self.lock().faults.push(PlannedFault {
            from: op,
            lasting: true,
            fault,
        });
    }

    /// The disk that the next process finds if only this one died: the cache stays, unsynced.
    pub fn after_kill(&self) -> Self {
        let state = self.lock();
        Self::with(state.tree.clone(), &state)
    }

    /// The disks that may be found after a power cut now: every legal loss while they are at most
    /// 4096 and at most 10 name changes are pending, with files torn at none, half and all of their
    /// unsynced bytes; otherwise the two extremes and 254 drawn ones.
    pub fn survivors(&self) -> Survivors {
        let losses = Losses::of(&self.lock().tree);
        Survivors {
            disk: self.clone(),
            losses: losses.losses.into_iter(),
            complete: losses.complete,
        }
    }

    /// One disk that may be found after a power cut now, drawn by chance, files torn at any byte.
    pub fn survive_seeded(&self, seed: u64) -> Self {
        let state = self.lock();
        Self::with(Loss::drawn(&state.tree, seed).apply(&state.tree), &state)
    }

    fn with(tree: Tree, before: &State) -> Self {
        Self {
            state: Mutex::new(State::with_tree(tree, before.fence.clone())),
        }
    }

    /// A test that panicked has told its fault already; the state itself is never half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn with_tree(tree: Tree, fence: Option<PathBuf>) -> Self {
        Self {
            tree,
            fence,
            ops: 0,
            syncs: 0,
            crash: None,
            crashed: false,
            faults: Vec::new(),
            forbidden: Vec::new(),
        }
    }

    fn check_permission(&self, operation: Operation, path: &Path) -> Result<(), Cause> {
        let is_inner = |operation| match operation {
            Operation::Read | Operation::List | Operation::CopyMode | Operation::Append => true,
            Operation::Look
            | Operation::Open
            | Operation::CreateDir
            | Operation::Create
            | Operation::Truncate
            | Operation::Rename
            | Operation::Remove
            | Operation::Link
            | Operation::Sync
            | Operation::Lock => false,
        };
        let is_refused = |forbidden: &PathBuf| {
            path.starts_with(forbidden) && (path != forbidden || is_inner(operation))
        };
        match self.forbidden.iter().any(is_refused) {
            true => Err(refused(io::ErrorKind::PermissionDenied)),
            false => Ok(()),
        }
    }
}

impl Survivors {
    /// Every loss of the model is among them, not a sample.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl Iterator for Survivors {
    type Item = SimDisk;

    fn next(&mut self) -> Option<SimDisk> {
        let loss = self.losses.next()?;
        let state = self.disk.lock();
        Some(SimDisk::with(loss.apply(&state.tree), &state))
    }
}

/// A real lock, for a state directory on a simulated disk, whose processes cannot compete.
pub fn lock(holder: Holder) -> WorkDirLock {
    // In memory where that can be had: ext4 writes a truncated file out when it is closed.
    let memory = Path::new("/dev/shm");
    let dir = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let dir = dir.expect("a temporary directory");
    WorkDirLock::take(&dir.path().join("lock"), holder).expect("nobody else has it")
}

#[cfg(test)]
mod tests;
