//! `.ekiden/` in the work dir: what people and the agent see.
//!
//! Everything here is derived or copied from the state directory, except the settings and what the agent writes
//! into `handoff/`. Two things keep it out of git (OPS-04): its own `.gitignore`, which works in every clone and
//! worktree, and the repository's exclude file, which works even if somebody deletes `.ekiden/`.

use std::path::{Path, PathBuf};

use ekiden_core::handoff::HandoffFile;

use crate::archive::make_dir;
use crate::disk::{Disk, DiskResult, Kind, Reach, if_there};
use crate::handoff::move_aside;
use crate::layout::{Published, StateLayout};
use crate::limits::EXCLUDE_BYTES_MAX;
use crate::replace::{replace_at_once, replace_foreign};
use crate::state::create_state_root;

const GITIGNORE: &str = "\
# Made by ekiden. Only the settings belong in the repository.
*
!config.toml
";

/// The patterns that the exclude file of a repository must have.
const EXCLUDES: [&str; 2] = ["**/.ekiden/*", "!**/.ekiden/config.toml"];

/// Makes `.ekiden/`, its `handoff/`, its `.gitignore` and the link to the runs, if they are missing.
/// Anything that a person has put there stays. Safe to repeat. Nothing is synced, since the next start makes
/// all of it again. Several processes may do it at once: hooks of one session do.
pub fn prepare_published(
    disk: &dyn Disk,
    published: &Published,
    state: &StateLayout,
) -> DiskResult<()> {
    make_dir(disk, published.dir())?;
    make_dir(disk, &published.handoff())?;
    if disk.stat(&published.gitignore())?.is_none() {
        replace_at_once(disk, &published.gitignore(), GITIGNORE.as_bytes())?;
    }
    link_runs(disk, published, state)
}

/// Makes the state directory and `.ekiden/` of a project in which no run has begun, and hides them from git if
/// there is a repository.
pub fn prepare_project(
    disk: &dyn Disk,
    work_dir: &Path,
    state_dir: &Path,
    common_dir: Option<&Path>,
) -> DiskResult<()> {
    let state = StateLayout::new(state_dir);
    create_state_root(disk, &state)?;
    prepare_published(disk, &Published::new(work_dir), &state)?;
    if let Some(git) = common_dir {
        hide_state(disk, state_dir, work_dir, git)?;
        // If the repository is not writable, the `.gitignore` beside the documents has to be enough.
        let _ = exclude_from_git(disk, &git.join("info").join("exclude"));
    }
    Ok(())
}

/// Keeps a state directory that a user put into the work dir out of its commits: it holds what agents said, unmasked.
/// Elsewhere nothing commits it but a fleet's worker, which wants all of it.
pub fn hide_state(
    disk: &dyn Disk,
    state_dir: &Path,
    work_dir: &Path,
    common_dir: &Path,
) -> DiskResult<()> {
    let rules = state_dir.join(".gitignore");
    let is_in_commits = state_dir.starts_with(work_dir) && !state_dir.starts_with(common_dir);
    if !is_in_commits || disk.stat(&rules)?.is_some() {
        return Ok(());
    }
    replace_at_once(disk, &rules, b"*\n")
}

/// Restores the published places after an agent: the directories exist again, and no published file has a link
/// or a directory in its place. A link is removed, since nothing may be written through it; anything else is
/// moved aside. As with [`prepare_published`], nothing is synced.
pub fn restore_places(disk: &dyn Disk, published: &Published) -> DiskResult<()> {
    restore_dirs(disk, published)?;
    let files = HandoffFile::ALL.map(|file| published.file(file));
    for file in files
        .into_iter()
        .chain([published.task(), published.status()])
    {
        clear(disk, &file, Kind::File)?;
    }
    Ok(())
}

/// The same for the directories only.
pub fn restore_dirs(disk: &dyn Disk, published: &Published) -> DiskResult<()> {
    for dir in [published.dir(), &published.handoff()] {
        if clear(disk, dir, Kind::Dir)? {
            make_dir(disk, dir)?;
        }
    }
    Ok(())
}

/// Adds ekiden's patterns to a repository's exclude file, once. What others have written there stays
/// byte for byte, and the file keeps its permissions. Durable.
///
/// The path is git's own (`git rev-parse --git-path info/exclude`), so links in it are the user's.
pub fn exclude_from_git(disk: &dyn Disk, info_exclude: &Path) -> DiskResult<()> {
    let before = match disk.read(info_exclude, EXCLUDE_BYTES_MAX) {
        Ok(before) => before,
        Err(error) if error.is_not_found() => {
            make_dir(disk, crate::disk::parent(info_exclude))?;
            match disk.create_file(info_exclude, b"", Reach::Cache) {
                Err(error) if error.is_already_there() => {
                    disk.read(info_exclude, EXCLUDE_BYTES_MAX)?
                }
                created => created.map(|()| Vec::new())?,
            }
        }
        Err(error) => return Err(error),
    };
    match with_excludes(&before) {
        None => Ok(()),
        Some(after) => replace_foreign(disk, info_exclude, &after),
    }
}

/// The exclude file with the missing patterns, or `None` if none is missing.
fn with_excludes(before: &[u8]) -> Option<Vec<u8>> {
    let holds = |pattern: &str| {
        before
            .split(|byte| *byte == b'\n')
            .any(|line| line.trim_ascii_end() == pattern.as_bytes())
    };
    let missing: Vec<_> = EXCLUDES
        .into_iter()
        .filter(|pattern| !holds(pattern))
        .collect();
    if missing.is_empty() {
        return None;
    }
    let mut after = before.to_vec();
    if !before.is_empty() && !before.ends_with(b"\n") {
        after.push(b'\n');
    }
    // All of them again: git lets the last match decide, so the exception must come last.
    for pattern in EXCLUDES {
        after.extend_from_slice(pattern.as_bytes());
        after.push(b'\n');
    }
    Some(after)
}

/// Links to the runs. A file or directory of that name is left alone.
fn link_runs(disk: &dyn Disk, published: &Published, state: &StateLayout) -> DiskResult<()> {
    let (link, target) = (published.runs(), runs_target(published, state));
    match disk.stat(&link)?.map(|found| found.kind) {
        Some(Kind::Link) if disk.read_link(&link)? == target => return Ok(()),
        Some(Kind::Link) => if_there(disk.remove(&link)).map(drop)?,
        Some(Kind::File | Kind::Dir | Kind::Other) => return Ok(()),
        None => {}
    }
    match disk.create_link(&link, &target) {
        // Another process was faster.
        Err(error) if error.is_already_there() => Ok(()),
        made => made,
    }
}

/// Relative if the state directory is in the work dir, so that both can be moved together.
fn runs_target(published: &Published, state: &StateLayout) -> PathBuf {
    let runs = state.runs();
    if let Ok(inside) = runs.strip_prefix(published.dir()) {
        return inside.to_owned();
    }
    match runs.strip_prefix(&published.work_dir) {
        Ok(beside) => Path::new("..").join(beside),
        Err(_) => runs,
    }
}

/// Removes what is there if it is not of this kind. Returns whether the place is now free.
fn clear(disk: &dyn Disk, path: &Path, wanted: Kind) -> DiskResult<bool> {
    match disk.stat(path)?.map(|found| found.kind) {
        None => Ok(true),
        Some(kind) if kind == wanted => Ok(false),
        Some(Kind::Link) => disk.remove(path).map(|()| true),
        Some(Kind::File | Kind::Dir | Kind::Other) => move_aside(disk, path).map(|()| true),
    }
}
