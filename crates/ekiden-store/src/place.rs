//! Finds a project's state from the project's files alone.
//!
//! In a git repository the state is in the git directory that all worktrees share, elsewhere in `.ekiden/state/`.
//! Other code asks git. Hooks have only a millisecond, so they use this module, which finds the same place in every
//! repository whose layout git wrote.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;

use crate::disk::{Disk as _, RealDisk};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::reftable;

/// A project as its files show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPlace {
    /// The directory, with links resolved.
    pub dir: PathBuf,
    pub state_dir: PathBuf,
    /// Git's own directory for this worktree, if there is one.
    pub git_dir: Option<PathBuf>,
    /// The one that all its worktrees share.
    pub common_dir: Option<PathBuf>,
}

impl ProjectPlace {
    /// The place of a directory; none if it does not exist. `state_dir` puts the state elsewhere.
    pub fn find(dir: &Path, state_dir: Option<&Path>) -> Option<Self> {
        let dir = dir.canonicalize().ok()?;
        let repository = dir.ancestors().find_map(|top| Some((top, git_dir(top)?)));
        let common_dir = repository.as_ref().map(|(_, git)| common_dir(git));
        let state_dir = match (state_dir, &repository, &common_dir) {
            (Some(elsewhere), ..) => elsewhere.join(project_name(&dir.to_string_lossy())),
            (None, Some((top, _)), Some(common)) => {
                let prefix = dir
                    .strip_prefix(top)
                    .unwrap_or(Path::new(""))
                    .to_string_lossy();
                common.join("ekiden").join(project_name(&prefix))
            }
            (None, _, _) => dir.join(".ekiden").join("state"),
        };
        Some(Self {
            state_dir,
            git_dir: repository.map(|(_, git)| git),
            common_dir,
            dir,
        })
    }

    /// How the memory identifies the project: the main worktree of its repository, else the directory.
    pub fn project(&self) -> &Path {
        let main = self.common_dir.as_deref();
        let main = main.filter(|common| common.ends_with(".git"));
        main.and_then(Path::parent).unwrap_or(&self.dir)
    }

    pub fn branch(&self) -> Option<String> {
        let git_dir = self.git_dir.as_ref()?;
        let head = fs::read_to_string(git_dir.join("HEAD")).ok()?;
        match head.trim().strip_prefix("ref: refs/heads/")? {
            // What git writes there if the branch is elsewhere.
            ".invalid" => reftable::branch(git_dir),
            branch => Some(branch.to_owned()),
        }
    }
}

/// A directory name for a path: readable, and never the same for two paths.
pub fn project_name(path: &str) -> String {
    if path.is_empty() {
        return "root".to_owned();
    }
    let readable = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let from = path.char_indices().rev().nth(39).map_or(0, |(at, _)| at);
    let tail: String = path[from..].chars().map(readable).collect();
    let hash = &sha256_hex(path.as_bytes())[..8];
    format!("{}-{hash}", tail.trim_matches('-'))
}

/// Where git keeps what belongs to the worktree with this top alone: `.git`, or what that file names. Read directly, as
/// git documents it (gitrepository-layout), since it is asked often.
pub fn git_dir_of(top: &Path) -> Option<PathBuf> {
    let entry = top.join(".git");
    if entry.is_dir() {
        return Some(entry);
    }
    let file = RealDisk::new().read(&entry, SMALL_FILE_BYTES_MAX).ok()?;
    let path = file.strip_prefix(b"gitdir: ")?.trim_ascii_end();
    Some(top.join(OsStr::from_bytes(path)))
}

/// The same with links resolved, if there is a repository.
fn git_dir(top: &Path) -> Option<PathBuf> {
    let dir = git_dir_of(top)?.canonicalize().ok()?;
    dir.join("HEAD").exists().then_some(dir)
}

/// The directory that a linked worktree shares with all others; the main worktree's is its own.
fn common_dir(git_dir: &Path) -> PathBuf {
    let shared = fs::read_to_string(git_dir.join("commondir")).ok();
    let shared = shared.and_then(|path| git_dir.join(path.trim()).canonicalize().ok());
    shared.unwrap_or_else(|| git_dir.to_owned())
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test lays out the files that are read"
)]
mod tests {
    use super::*;

    #[test]
    fn project_names_are_readable_and_differ() {
        assert_eq!(project_name(""), "root");
        assert!(project_name("apps/web").starts_with("apps-web-"));
        assert_ne!(project_name("apps/web"), project_name("apps-web"));
    }

    fn repository(dir: &Path) {
        fs::create_dir_all(dir.join(".git")).expect("a directory");
        fs::write(dir.join(".git/HEAD"), "ref: refs/heads/feature/ANV-123\n").expect("written");
    }

    fn find(dir: &Path) -> ProjectPlace {
        ProjectPlace::find(dir, None).expect("it exists")
    }

    #[test]
    fn in_a_repository_the_state_lies_in_its_git_directory() {
        let temp = tempfile::tempdir().expect("a directory");
        let top = temp.path().canonicalize().expect("resolved");
        repository(&top);
        fs::create_dir_all(top.join("apps/web")).expect("a directory");
        assert_eq!(find(&top).state_dir, top.join(".git/ekiden/root"));
        assert_eq!(find(&top).branch().as_deref(), Some("feature/ANV-123"));
        let below = find(&top.join("apps/web")).state_dir;
        assert_eq!(
            below,
            top.join(".git/ekiden").join(project_name("apps/web"))
        );
    }

    #[test]
    fn a_linked_worktree_shares_it() {
        let temp = tempfile::tempdir().expect("a directory");
        let top = temp.path().canonicalize().expect("resolved");
        repository(&top.join("main"));
        let linked = top.join("main/.git/worktrees/other");
        fs::create_dir_all(&linked).expect("a directory");
        fs::write(linked.join("HEAD"), "ref: refs/heads/other\n").expect("written");
        fs::write(linked.join("commondir"), "../..\n").expect("written");
        fs::create_dir(top.join("other")).expect("a directory");
        fs::write(
            top.join("other/.git"),
            format!("gitdir: {}\n", linked.display()),
        )
        .expect("written");
        let place = find(&top.join("other"));
        assert_eq!(place.state_dir, top.join("main/.git/ekiden/root"));
        assert_eq!(place.branch().as_deref(), Some("other"));
    }

    // shows: HND-07
    #[test]
    fn the_branch_of_a_repository_with_reftables_is_known() {
        let temp = tempfile::tempdir().expect("a directory");
        let top = temp.path().canonicalize().expect("resolved");
        repository(&top);
        let git = top.join(".git");
        fs::create_dir(git.join("reftable")).expect("a directory");
        fs::write(git.join("HEAD"), "ref: refs/heads/.invalid\n").expect("written");
        assert_eq!(find(&top).branch(), None);
        for (name, branch) in [("1.ref", "old"), ("2.ref", "new")] {
            let table = reftable::tests::naming(branch);
            fs::write(git.join("reftable").join(name), table).expect("written");
        }
        fs::write(git.join("reftable/tables.list"), "1.ref\n2.ref\n").expect("written");
        assert_eq!(find(&top).branch().as_deref(), Some("new"));
    }

    #[test]
    fn elsewhere_it_lies_in_the_project() {
        let temp = tempfile::tempdir().expect("a directory");
        let top = temp.path().canonicalize().expect("resolved");
        fs::create_dir(top.join(".git")).expect("no repository: it has no HEAD");
        assert_eq!(find(&top).state_dir, top.join(".ekiden/state"));
        let (piped, mode) = (top.join("piped"), rustix::fs::Mode::RUSR);
        fs::create_dir(&piped).expect("a directory");
        rustix::fs::mkfifoat(rustix::fs::CWD, piped.join(".git"), mode).expect("a pipe");
        assert_eq!(find(&piped).git_dir, None);
        let elsewhere = ProjectPlace::find(&top, Some(Path::new("/s")))
            .expect("it exists")
            .state_dir;
        assert!(elsewhere.starts_with("/s"));
        assert_eq!(ProjectPlace::find(&top.join("missing"), None), None);
    }
}
