//! What is left of worktrees that are not whole or not needed, and of a git that was killed.
//!
//! What somebody may have made is moved aside and told, never removed. Only what is ours is touched: a
//! worktree of the user's that is gone for the moment, on a drive that is not mounted, stays known to git.

use std::path::{Path, PathBuf};

use ekiden_store::disk::{Disk, DiskResult, Kind};

use super::{Cancelled, Grounds, patiently};
use crate::error::in_full;

/// Locks that a git which was killed leaves in the git directory of a worktree.
const LOCKS: [&str; 5] = ["index.lock", "HEAD.lock", "ORIG_HEAD.lock", "AUTO_MERGE.lock", "logs/HEAD.lock"];
/// Where branches and their logs are.
const OF_BRANCHES: [&str; 2] = ["refs/heads", "logs/refs/heads"];

impl Grounds {
    /// Removes the locks of a git that was killed in one of our worktrees. Only for when nobody works there.
    pub(super) fn unlock(&self, tree: &Path) -> Result<(), String> {
        let Some(git_dir) = self.git_dir(tree) else { return Ok(()) };
        for lock in LOCKS.map(|name| git_dir.join(name)) {
            if self.is_there(&lock) {
                self.disk.remove(&lock).map_err(|error| in_full(&error))?;
            }
        }
        Ok(())
    }

    /// Removes the locks of our own branches, which nobody else moves. Only for when none of our processes
    /// lives. The lock of all branches may be anybody's; it is told.
    pub(super) fn unlock_branches(&self) -> DiskResult<()> {
        let Some(git) = &self.places.workspace().git else { return Ok(()) };
        let whole = self.places.whole_branch();
        let (above, run) = whole.split_once('/').unwrap_or(("", &whole));
        let is_ours = |name: &str| {
            let rest = name.strip_suffix(".lock").and_then(|name| name.strip_prefix(run));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        for dir in OF_BRANCHES.map(|dir| git.common_dir.join(dir).join(above)) {
            if !self.is_there(&dir) {
                continue;
            }
            for lock in self.disk.list(&dir)?.iter().filter(|name| name.to_str().is_some_and(is_ours)) {
                self.disk.remove(&dir.join(lock))?;
            }
        }
        let lock = git.common_dir.join("packed-refs.lock");
        if self.is_there(&lock) {
            let lock = lock.display();
            self.note(format!("{lock} keeps git from removing branches; if no git is at work, remove it"));
        }
        Ok(())
    }

    /// Makes room for a worktree where one is not whole. Where to, if there was something that somebody may
    /// have made.
    pub(super) async fn set_aside(
        &self,
        tree: &Path,
        cancelled: Cancelled,
    ) -> Result<Option<PathBuf>, String> {
        if !self.is_there(tree) {
            return Ok(None);
        }
        // Nobody worked yet in a checkout that was broken off, and never does anybody where the whole is made.
        let is_whole = self.places.whole_tree().is_some_and(|whole| *whole == *tree);
        if is_whole || (self.is_there(&tree.join(".git")) && !self.is_there(&self.ours_in(tree))) {
            // What git cannot remove is moved.
            let _ = self.forget(tree, cancelled).await;
            if !self.is_there(tree) {
                return Ok(None);
            }
        }
        self.move_aside(tree).map(Some).map_err(|error| in_full(&error))
    }

    /// Moves what is left of a worktree to a name that is free.
    fn move_aside(&self, tree: &Path) -> DiskResult<PathBuf> {
        let name = tree.to_string_lossy();
        let mut names = (1_u32..).map(|number| PathBuf::from(format!("{name}.saved-{number}")));
        let aside = names.find(|aside| !self.is_there(aside)).unwrap_or_default();
        self.disk.rename(tree, &aside)?;
        let file = aside.join(".git");
        if self.disk.stat(&file)?.is_some_and(|stat| stat.kind == Kind::File) {
            // It would lead git into the worktree that takes this one's place.
            self.disk.remove(&file)?;
        }
        Ok(aside)
    }

    /// Gives a new worktree what an agent left for us in the one before it. The rest stays where it is, and
    /// is told.
    pub(super) fn take_over(&self, aside: &Path, tree: &Path) -> Result<(), String> {
        let (from, to) = (self.ours_in(aside), self.ours_in(tree));
        if self.is_there(&from) && !self.is_there(&to) && self.is_there(&self.places.within(tree)) {
            self.disk.rename(&from, &to).map_err(|error| in_full(&error))?;
        }
        if self.is_bare(aside).map_err(|error| in_full(&error))? {
            return remove_all(&*self.disk, aside).map_err(|error| in_full(&error));
        }
        self.note(format!("{} has what was left of a worktree, which was made anew", aside.display()));
        Ok(())
    }

    /// Removes a worktree that nobody needs and what git knows of it.
    pub(super) async fn remove_tree(&self, tree: &Path, cancelled: Cancelled) {
        let removed = self.forget(tree, cancelled.clone()).await;
        if !self.is_there(tree) {
            return;
        }
        let cleared = match removed {
            Err(error) if self.is_there(&tree.join(".git")) => Err(error),
            // Git does not remove what has lost its `.git`.
            Ok(_) | Err(_) => self.clear(tree).map_err(|error| in_full(&error)),
        };
        match cleared {
            Ok(()) => {
                // It is gone now, and only to be forgotten. Git forgets it by itself in some months.
                let _ = self.forget(tree, cancelled).await;
            }
            Err(error) => self.note(format!("the worktree {} is left: {error}", tree.display())),
        }
    }

    fn clear(&self, tree: &Path) -> DiskResult<()> {
        let is_whole = self.places.whole_tree().is_some_and(|whole| *whole == *tree);
        if is_whole || self.is_bare(tree)? {
            return remove_all(&*self.disk, tree);
        }
        let aside = self.move_aside(tree)?;
        self.note(format!("{} has what was left of a worktree that nobody needs", aside.display()));
        Ok(())
    }

    /// Clears what is left of worktrees of this run that git does not know.
    pub(super) fn clear_remnants(&self, known: &[&str]) -> DiskResult<()> {
        let (Some(trees), Some(whole)) = (self.places.trees(), self.places.whole_tree()) else {
            return Ok(());
        };
        if !self.is_there(trees) {
            return Ok(());
        }
        let run = whole.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        for name in self.disk.list(trees)? {
            let rest = name.to_str().and_then(|name| name.strip_prefix(&run));
            let is_ours = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
            let tree = trees.join(&name);
            if is_ours && !known.iter().any(|known| tree == Path::new(known)) && self.is_bare(&tree)? {
                remove_all(&*self.disk, &tree)?;
            }
        }
        Ok(())
    }

    /// Has git remove a worktree. Of one that is gone, it removes what it knows.
    async fn forget(&self, tree: &Path, cancelled: Cancelled) -> Result<String, String> {
        let path = tree.to_string_lossy().into_owned();
        // What is locked is removed only if it is asked twice. `git worktree prune` would forget worktrees of
        // the user's, too.
        let args = ["worktree", "remove", "--force", "--force", &path];
        patiently(&self.users_git(), &args, cancelled).await
    }

    /// It holds nothing but what we put there.
    fn is_bare(&self, tree: &Path) -> DiskResult<bool> {
        is_bare(&*self.disk, tree, &self.ours_in(tree))
    }

    fn ours_in(&self, tree: &Path) -> PathBuf {
        self.places.within(tree).join(".ekiden")
    }

    pub(super) fn is_there(&self, path: &Path) -> bool {
        !matches!(self.disk.stat(path), Ok(None))
    }
}

fn is_bare(disk: &dyn Disk, path: &Path, ours: &Path) -> DiskResult<bool> {
    if path == ours {
        return Ok(true);
    }
    match disk.stat(path)?.map(|stat| stat.kind) {
        None => return Ok(true),
        Some(Kind::Dir) => {}
        Some(Kind::File | Kind::Link | Kind::Other) => return Ok(false),
    }
    for name in disk.list(path)? {
        if !is_bare(disk, &path.join(name), ours)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes a directory with all that is in it. No link is followed.
fn remove_all(disk: &dyn Disk, path: &Path) -> DiskResult<()> {
    match disk.stat(path)?.map(|stat| stat.kind) {
        None => Ok(()),
        Some(Kind::File | Kind::Link | Kind::Other) => disk.remove(path),
        Some(Kind::Dir) => {
            disk.list(path)?.iter().try_for_each(|name| remove_all(disk, &path.join(name)))?;
            disk.remove_dir(path)
        }
    }
}
