//! Running runs whose work dir lies around or inside another's: their agents would change the same files.
//!
//! The work dir's own lock covers only that directory. So after taking it, ekiden also looks at the locks of the
//! directories above, and of the directories below that have an `.ekiden`, and at this user's other projects: their
//! state may be elsewhere. Of two runs that start at the same time, at least one sees the other. Two packages beside
//! each other have nothing in common.

use std::fs;
use std::path::{Path, PathBuf};

use ekiden_store::layout::StateLayout;
use ekiden_store::lock::WorkDirLock;
use ekiden_store::place::{ProjectPlace, project_name};

use crate::error::EngineError;
use crate::registry;
use crate::workspace::{OWN_STATE, Workspace};

/// How many directories the check looks into. Walking a larger tree costs more than the check is worth.
const DIRS_MAX: usize = 20_000;
/// Directories with many files and no work of their own.
const PASSED_OVER: [&str; 3] = [".git", "node_modules", "target"];

pub(crate) fn refuse(workspace: &Workspace) -> Result<(), EngineError> {
    // From there, this run's own lock looks like that of a run around it.
    let owner = match (workspace.is_inside_git(), workspace.is_inside_published()) {
        (true, _) => Some("git"),
        (false, true) => Some("ekiden"),
        (false, false) => None,
    };
    if let Some(owner) = owner {
        let dir = workspace.dir.clone();
        return Err(EngineError::NotForWork { dir, owner });
    }
    let above = workspace.dir.ancestors().skip(1).map(Path::to_owned);
    for dir in above.chain(below(&workspace.dir)) {
        // A run may have begun before its directory was in a repository.
        let before_git = StateLayout::new(&dir.join(OWN_STATE)).lock(None);
        let lock = WorkDirLock::holder_of(&lock_of(&dir, workspace));
        let lock = lock.or_else(|| WorkDirLock::holder_of(&before_git));
        if let Some(holder) = lock {
            let holder = Box::new(holder);
            let kept = None;
            return Err(EngineError::Overlaps { dir, holder, kept });
        }
    }
    kept_elsewhere(workspace).map_or(Ok(()), Err)
}

/// A run here, around or inside whose state is where we did not look, as with another `EKIDEN_STATE_DIR`.
fn kept_elsewhere(ours: &Workspace) -> Option<EngineError> {
    let lock_of = |known: &Workspace| known.layout().lock(known.worktree());
    let overlaps = |dir: &Path| dir.starts_with(&ours.dir) || ours.dir.starts_with(dir);
    let known = registry::projects(ours.user_dir.as_deref()?, overlaps).unwrap_or_default();
    let mut known = known.into_iter().filter_map(|known| known.found.ok());
    known.find_map(|known| {
        let lock = Some(lock_of(&known)).filter(|lock| *lock != lock_of(ours))?;
        Some(EngineError::Overlaps {
            holder: Box::new(WorkDirLock::holder_of(&lock)?),
            dir: known.dir,
            kept: Some(known.state_dir),
        })
    })
}

/// The directories inside this one in which something has run.
fn below(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut next, mut seen) = (Vec::new(), vec![top.to_owned()], 0);
    while let Some(dir) = next.pop().filter(|_| seen < DIRS_MAX) {
        seen += 1;
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if name == ".ekiden" {
                found.extend((dir != top).then(|| dir.clone()));
            } else if !PASSED_OVER.iter().any(|passed| name == *passed) {
                next.push(entry.path());
            }
        }
    }
    found
}

/// The lock that a run in `dir` would hold, if it keeps its state where this run does.
fn lock_of(dir: &Path, ours: &Workspace) -> PathBuf {
    let own = ours.state_dir.file_name().unwrap_or_default();
    let is_elsewhere = own == project_name(&ours.dir.to_string_lossy()).as_str();
    let elsewhere = ours.state_dir.parent().filter(|_| is_elsewhere);
    let Some(place) = ProjectPlace::find(dir, elsewhere) else {
        return PathBuf::new();
    };
    let worktree = match (&place.git_dir, &place.common_dir) {
        (Some(own), Some(common)) if own != common => own.file_name(),
        _ => None,
    };
    let worktree = worktree.map(|name| name.to_string_lossy().into_owned());
    StateLayout::new(&place.state_dir).lock(worktree.as_deref())
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test lays out the directories that are looked at"
)]
mod tests {
    use ekiden_core::time::Timestamp;
    use ekiden_store::lock::Holder;

    use super::*;
    use crate::workspace::GitPlace;

    // shows: RUN-19
    #[test]
    fn runs_around_and_inside_are_refused_and_those_beside_are_not() {
        let home = tempfile::tempdir().unwrap();
        let top = home.path().canonicalize().unwrap();
        let dir = |name: &str| {
            let dir = top.join(name);
            let state_dir = dir.join(".ekiden/state");
            fs::create_dir_all(&state_dir).unwrap();
            Workspace::at(dir, None, state_dir)
        };
        let (project, package, other) = (dir("p"), dir("p/a/package"), dir("p/a/other"));
        let hold = |workspace: &Workspace| {
            let holder = Holder {
                pid: 7,
                host: "atlas".to_owned(),
                started: Timestamp(0),
                run: None,
            };
            WorkDirLock::take(&lock_of(&workspace.dir, workspace), holder).unwrap()
        };
        let common_dir = top.join(".git");
        let git = GitPlace {
            common_dir: common_dir.clone(),
            worktree: None,
            prefix: String::new(),
        };
        let inside_git = Workspace {
            dir: common_dir.join("hooks"),
            git: Some(git),
            ..project.clone()
        };
        let error = refuse(&inside_git).unwrap_err();
        let error = error.to_string();
        assert!(error.ends_with("git keeps its own files there"), "{error}");
        refuse(&project).unwrap();
        fs::write(project.published().dir().join(".gitignore"), "*\n").unwrap();
        let inside_published = Workspace {
            dir: project.published().dir().join("handoff"),
            ..project.clone()
        };
        let error = refuse(&inside_published).unwrap_err().to_string();
        assert!(
            error.ends_with("ekiden keeps its own files there"),
            "{error}"
        );
        let held = hold(&package);
        refuse(&other).unwrap();
        let error = refuse(&project).unwrap_err();
        assert!(
            matches!(error, EngineError::Overlaps { dir, .. } if dir == package.dir),
            "the run inside"
        );
        drop(held);
        let _held = hold(&project);
        let error = refuse(&package).unwrap_err();
        assert!(
            matches!(error, EngineError::Overlaps { dir, .. } if dir == project.dir),
            "the run around"
        );
    }
}
