//! `.ekiden/` in the work dir: what people and the agent see.
//!
//! Everything here is derived from the state directory or copied from it, but for the settings and
//! for what the agent writes into `handoff/`. It stays out of git twice (OPS-04): by a `.gitignore`
//! of its own, which works in every clone and worktree, and by the repository's exclude file, which
//! works although somebody deletes `.ekiden/`.

use std::path::{Path, PathBuf};

use ekiden_core::handoff::HandoffFile;

use crate::archive::make_dir;
use crate::disk::{Disk, DiskResult, Kind, Reach};
use crate::handoff::move_aside;
use crate::layout::{Published, StateLayout};
use crate::limits::EXCLUDE_BYTES_MAX;
use crate::replace::{Durability, replace, replace_foreign};

const GITIGNORE: &str = "\
# Made by ekiden. Only the settings belong into the repository.
*
!config.toml
";

/// What the exclude file of a repository must hold.
const EXCLUDES: [&str; 2] = ["**/.ekiden/*", "!**/.ekiden/config.toml"];

/// What became of the link to the runs. It is a convenience, so a run goes on without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsLink {
    /// It leads to the runs.
    Ready,
    /// A file or directory has its name, and was left alone.
    Occupied,
}

/// Makes `.ekiden/`, its `handoff/`, its `.gitignore` and the link to the runs, as far as they are
/// missing. What a person has put there stays. Safe to repeat; nothing is synced, since all of it is
/// made again at the next start.
pub fn prepare_published(
    disk: &dyn Disk,
    published: &Published,
    state: &StateLayout,
) -> DiskResult<RunsLink> {
    make_dir(disk, &published.dir())?;
    make_dir(disk, &published.handoff())?;
    if disk.stat(&published.gitignore())?.is_none() {
        replace(disk, &published.gitignore(), GITIGNORE.as_bytes(), Durability::Derived)?;
    }
    link_runs(disk, published, state)
}

/// Puts back what an agent has made of the published places: its directories are there again, and no
/// published file has a link or a directory in its place. A link is removed, since nothing may be
/// written through it; anything else is moved aside. As with [`prepare_published`], nothing is synced.
pub fn restore_places(disk: &dyn Disk, published: &Published) -> DiskResult<()> {
    restore_dirs(disk, published)?;
    let files = HandoffFile::ALL.map(|file| published.file(file));
    for file in files.into_iter().chain([published.task(), published.status()]) {
        clear(disk, &file, Kind::File)?;
    }
    Ok(())
}

/// The same for the directories alone.
pub fn restore_dirs(disk: &dyn Disk, published: &Published) -> DiskResult<()> {
    for dir in [published.dir(), published.handoff()] {
        if clear(disk, &dir, Kind::Dir)? {
            make_dir(disk, &dir)?;
        }
    }
    Ok(())
}

/// Publishes a file: the agent and people read it, only the engine writes it.
///
/// It is whole after every crash, but may be the older one after a power cut; the engine publishes
/// again at the next start. One sync.
pub fn publish(disk: &dyn Disk, path: &Path, text: &str) -> DiskResult<()> {
    replace(disk, path, text.as_bytes(), Durability::Whole)
}

/// Adds ekiden's patterns to a repository's exclude file, once. What others have written there stays
/// byte for byte, and so do the file's permissions. Durable.
///
/// The path is git's own (`git rev-parse --git-path info/exclude`), so links in it are the user's.
pub fn exclude_from_git(disk: &dyn Disk, info_exclude: &Path) -> DiskResult<()> {
    let before = match disk.read(info_exclude, EXCLUDE_BYTES_MAX) {
        Ok(before) => before,
        Err(error) if error.is_not_found() => {
            make_dir(disk, crate::disk::parent(info_exclude))?;
            match disk.create_file(info_exclude, b"", Reach::Cache) {
                Err(error) if error.is_already_there() => disk.read(info_exclude, EXCLUDE_BYTES_MAX)?,
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

/// The exclude file with what it lacks, or `None` if it lacks nothing.
fn with_excludes(before: &[u8]) -> Option<Vec<u8>> {
    let holds = |pattern: &str| {
        before.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_end() == pattern.as_bytes())
    };
    let missing: Vec<_> = EXCLUDES.into_iter().filter(|pattern| !holds(pattern)).collect();
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

fn link_runs(disk: &dyn Disk, published: &Published, state: &StateLayout) -> DiskResult<RunsLink> {
    let (link, target) = (published.runs(), runs_target(published, state));
    match disk.stat(&link)?.map(|found| found.kind) {
        Some(Kind::Link) if disk.read_link(&link)? == target => return Ok(RunsLink::Ready),
        Some(Kind::Link) => disk.remove(&link)?,
        Some(Kind::File | Kind::Dir | Kind::Other) => return Ok(RunsLink::Occupied),
        None => {}
    }
    disk.create_link(&link, &target)?;
    Ok(RunsLink::Ready)
}

/// Relative where the state lies in the work dir, so that both can be moved together.
fn runs_target(published: &Published, state: &StateLayout) -> PathBuf {
    let runs = state.runs();
    if let Ok(inside) = runs.strip_prefix(published.dir()) {
        return inside.to_owned();
    }
    match runs.strip_prefix(published.work_dir()) {
        Ok(beside) => Path::new("..").join(beside),
        Err(_) => runs,
    }
}

/// Takes away what stands there and is not of this kind. Whether the place is free now.
fn clear(disk: &dyn Disk, path: &Path, wanted: Kind) -> DiskResult<bool> {
    match disk.stat(path)?.map(|found| found.kind) {
        None => Ok(true),
        Some(kind) if kind == wanted => Ok(false),
        Some(Kind::Link) => disk.remove(path).map(|()| true),
        Some(Kind::File | Kind::Dir | Kind::Other) => move_aside(disk, path).map(|_aside| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimDisk, every_crash};

    const EXCLUDE: &str = "/p/.git/info/exclude";

    fn project() -> SimDisk {
        let disk = SimDisk::new().fenced(Path::new("/p"));
        disk.plant_dir(Path::new("/p/.git/ekiden/main/runs"));
        disk
    }

    fn prepare(disk: &SimDisk, state: &str) -> DiskResult<RunsLink> {
        prepare_published(disk, &Published::new(Path::new("/p")), &StateLayout::new(Path::new(state)))
    }

    fn text(disk: &SimDisk, path: &str) -> String {
        String::from_utf8(disk.read(Path::new(path), 1000).unwrap()).unwrap()
    }

    // shows: OPS-04
    #[test]
    fn the_published_directory_is_made_once_and_what_a_person_put_there_stays() {
        let disk = project();
        assert_eq!(prepare(&disk, "/p/.git/ekiden/main").unwrap(), RunsLink::Ready);
        assert_eq!(disk.list(Path::new("/p/.ekiden")).unwrap(), [".gitignore", "handoff", "runs"]);
        expect_test::expect![[r#"
            # Made by ekiden. Only the settings belong into the repository.
            *
            !config.toml
        "#]]
        .assert_eq(&text(&disk, "/p/.ekiden/.gitignore"));
        assert_eq!(
            disk.read_link(Path::new("/p/.ekiden/runs")).unwrap(),
            Path::new("../.git/ekiden/main/runs")
        );
        assert!(disk.list(Path::new("/p/.ekiden/runs")).unwrap().is_empty(), "the link leads there");

        let ops = disk.ops();
        replace(&disk, Path::new("/p/.ekiden/.gitignore"), b"mine", Durability::Full).unwrap();
        let changed = disk.ops();
        prepare(&disk, "/p/.git/ekiden/main").unwrap();
        assert_eq!(text(&disk, "/p/.ekiden/.gitignore"), "mine");
        assert_eq!(disk.ops() - changed, 2, "two attempts to make a directory");
        assert!(ops < changed);
    }

    #[test]
    fn the_link_follows_the_state_directory_and_spares_what_is_no_link() {
        let disk = project();
        prepare(&disk, "/p/.git/ekiden/main").unwrap();
        let link = Path::new("/p/.ekiden/runs");
        for (state, target) in [("/var/state", "/var/state/runs"), ("/p/.ekiden/state", "state/runs")] {
            assert_eq!(prepare(&disk, state).unwrap(), RunsLink::Ready);
            assert_eq!(disk.read_link(link).unwrap(), Path::new(target));
        }
        disk.remove(link).unwrap();
        disk.create_dir(link).unwrap();
        assert_eq!(prepare(&disk, "/var/state").unwrap(), RunsLink::Occupied);
    }

    // shows: SEC-02
    #[test]
    fn nothing_is_written_through_a_link_that_stands_in_the_project() {
        let disk = project();
        disk.plant_dir(Path::new("/home/.ssh"));
        disk.create_link(Path::new("/p/.ekiden"), Path::new("/home/.ssh")).unwrap();
        let error = prepare(&disk, "/var/state").unwrap_err();
        expect_test::expect!["create directory `/p/.ekiden`: `/p/.ekiden` is a symbolic link to `/home/.ssh`, and ekiden does not write through links"]
            .assert_eq(&format!("{error}: {}", error.cause));
        publish(&disk, Path::new("/p/.ekiden/PROGRESS.md"), "x").unwrap_err();
        assert!(disk.list(Path::new("/home/.ssh")).unwrap().is_empty());
    }

    // shows: SEC-02
    #[test]
    fn a_link_in_place_of_a_published_file_is_refused() {
        let disk = project();
        prepare(&disk, "/var/state").unwrap();
        disk.plant_file(Path::new("/home/.bashrc"), b"mine");
        let published = Path::new("/p/.ekiden/PROGRESS.md");
        disk.create_link(published, Path::new("/home/.bashrc")).unwrap();
        let error = publish(&disk, published, "x").unwrap_err();
        assert!(error.cause.to_string().contains("/home/.bashrc"), "{}", error.cause);
        assert_eq!(text(&disk, "/home/.bashrc"), "mine");
    }

    // shows: SEC-02, REL-17
    #[test]
    fn what_an_agent_made_of_the_published_places_is_put_right() {
        let disk = project();
        let published = Published::new(Path::new("/p"));
        prepare(&disk, "/var/state").unwrap();
        disk.plant_file(Path::new("/home/.bashrc"), b"mine");
        disk.rename(&published.handoff(), Path::new("/p/.ekiden/old")).unwrap();
        for link in [published.handoff(), published.status()] {
            disk.create_link(&link, Path::new("/home/.bashrc")).unwrap();
        }
        disk.plant_dir(&published.task());
        restore_places(&disk, &published).unwrap();
        let kind = |path: &Path| disk.stat(path).unwrap().map(|found| found.kind);
        assert_eq!(kind(&published.handoff()), Some(Kind::Dir));
        assert_eq!((kind(&published.status()), kind(&published.task())), (None, None));
        assert_eq!(kind(Path::new("/p/.ekiden/aside-TASK.md")), Some(Kind::Dir));
        assert_eq!(text(&disk, "/home/.bashrc"), "mine");
    }

    // shows: OPS-04
    #[test]
    fn the_exclude_file_keeps_every_foreign_byte() {
        let ours = "**/.ekiden/*\n!**/.ekiden/config.toml\n";
        for (before, between) in [("", ""), ("*.log\n", ""), ("*.log", "\n"), ("\u{feff}# x\r\n\r\n", "")] {
            let disk = project();
            disk.plant_file(Path::new(EXCLUDE), before.as_bytes());
            for _ in 0..2 {
                exclude_from_git(&disk, Path::new(EXCLUDE)).unwrap();
                assert_eq!(text(&disk, EXCLUDE), format!("{before}{between}{ours}"));
            }
        }
        let disk = project();
        exclude_from_git(&disk, Path::new(EXCLUDE)).unwrap();
        assert_eq!(text(&disk, EXCLUDE), ours, "made where it is missing");
    }

    #[test]
    fn the_exception_comes_last() {
        let before = "!**/.ekiden/config.toml\n";
        let after = String::from_utf8(with_excludes(before.as_bytes()).unwrap()).unwrap();
        assert!(after.ends_with("**/.ekiden/*\n!**/.ekiden/config.toml\n"));
        assert!(with_excludes(after.as_bytes()).is_none());
    }

    // shows: DUR-02
    #[test]
    fn the_exclude_file_is_old_or_new_after_every_crash() {
        let disk = project();
        disk.plant_file(Path::new(EXCLUDE), b"*.log");
        let done = "*.log\n**/.ekiden/*\n!**/.ekiden/config.toml\n";
        every_crash(
            &disk,
            |disk| exclude_from_git(&**disk, Path::new(EXCLUDE)).is_ok(),
            |disk, returned, _| {
                let found = text(disk, EXCLUDE);
                assert!(found == done || (found == "*.log" && !returned), "{found:?}");
            },
        );
    }
}
