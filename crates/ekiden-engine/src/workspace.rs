//! Where a run works, and where its state is kept.
//!
//! In a git repository the state is in the common git directory: there it survives `git clean -fdx`, moves with the
//! project, and all worktrees share it. Elsewhere it is in `.ekiden/state/`. It stays there if the directory becomes a
//! repository, since many tasks begin with `git init`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ekiden_agent::child::SpawnError;
use ekiden_core::settings::Place;
use ekiden_store::disk::{DiskError, RealDisk};
use ekiden_store::documents::Documents;
use ekiden_store::layout::{Published, StateLayout};
use ekiden_store::place::{ProjectPlace, project_name};
use ekiden_store::published::prepare_project;
use serde::{Deserialize, Serialize};

use crate::git::{self, GitError};

const NO_REPOSITORY: &str = "not a git repository";
/// Where the state of a work dir in no repository is.
pub(crate) const OWN_STATE: &str = ".ekiden/state";

/// A work dir and its surroundings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// The work dir, absolute, with links resolved.
    pub dir: PathBuf,
    pub git: Option<GitPlace>,
    pub state_dir: PathBuf,
    /// Ekiden's directory in the user's own state directory, which no project writes to; none without a home.
    pub user_dir: Option<PathBuf>,
    /// Where sessions' usage limits are noted: see [`crate::known_limits`].
    pub limits_dir: Option<PathBuf>,
    /// A person trusts the state here, whatever is known about it.
    pub is_trusted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitPlace {
    /// The directory that all worktrees share.
    pub common_dir: PathBuf,
    /// The linked worktree's name; none in the main one.
    pub worktree: Option<String>,
    /// The work dir's path from the root of its worktree, without a slash at its end; empty at the root.
    pub prefix: String,
}

/// ekiden cannot work in a directory. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("work in {}", path.display())]
    Dir { path: PathBuf, source: io::Error },
    #[error("tell whether {} lies in a repository", path.display())]
    Git { path: PathBuf, source: io::Error },
}

impl WorkspaceError {
    pub fn lacks_git(&self) -> bool {
        let Self::Git { source, .. } = self else {
            return false;
        };
        let error = source.get_ref().and_then(|error| error.downcast_ref());
        matches!(error, Some(GitError::Spawn(SpawnError::NoProgram { .. })))
    }
}

impl Workspace {
    /// Looks at a directory; creates nothing. `state_dir` puts the state elsewhere, with a separate directory
    /// for each work dir. It asks git and waits, so it panics within a runtime.
    ///
    /// It is an error if git is missing, does not answer or refuses the repository that is there, since we would look for
    /// the state in the wrong place. Outside a repository none of these is an error.
    pub fn find(dir: &Path, state_dir: Option<&Path>) -> Result<Self, WorkspaceError> {
        let named = dir;
        let failed = |source| WorkspaceError::Dir {
            path: named.to_owned(),
            source,
        };
        let dir = dir.canonicalize().map_err(failed)?;
        if !dir.is_dir() {
            return Err(failed(io::ErrorKind::NotADirectory.into()));
        }
        // The keeper gets the directory as text, and git's answers are lines.
        if dir.to_str().is_none_or(|dir| dir.contains('\n')) {
            let source = io::Error::other("its path is not UTF-8 text, or has a line end in it");
            return Err(WorkspaceError::Git { path: dir, source });
        }
        let unknown = |error| WorkspaceError::Git {
            path: named.to_owned(),
            source: io::Error::other(error),
        };
        let git = GitPlace::find(&dir).map_err(unknown)?;
        let state_dir = match (state_dir, &git) {
            (Some(elsewhere), _) => elsewhere.join(project_name(&dir.to_string_lossy())),
            (None, Some(place)) => place
                .common_dir
                .join("ekiden")
                .join(project_name(&place.prefix)),
            (None, None) => dir.join(OWN_STATE),
        };
        Ok(Self::at(dir, git, state_dir))
    }

    /// A workspace of which only the place is known.
    pub fn at(dir: PathBuf, git: Option<GitPlace>, state_dir: PathBuf) -> Self {
        Self {
            dir,
            git,
            state_dir,
            user_dir: None,
            limits_dir: None,
            is_trusted: false,
        }
    }

    /// The same for a user whose programs keep their state here.
    pub fn of_user(self, state_home: Option<PathBuf>) -> Self {
        let user_dir = state_home.map(|home| home.join("ekiden"));
        let limits_dir = user_dir.as_ref().map(|dir| dir.join("limits"));
        Self {
            user_dir,
            limits_dir,
            ..self
        }
    }

    /// The disk, with a fence around the work dir.
    pub fn disk(&self) -> RealDisk {
        RealDisk::fenced(&self.dir)
    }

    pub fn layout(&self) -> StateLayout {
        StateLayout::new(&self.state_dir)
    }

    /// What people and the agent see: `.ekiden/` in the work dir.
    pub fn published(&self) -> Published {
        Published::new(&self.dir)
    }

    /// Makes `.ekiden/` and the state directory as a run does.
    pub fn prepare(&self) -> Result<(), DiskError> {
        let common_dir = self.git.as_ref().map(|git| git.common_dir.as_path());
        prepare_project(&self.disk(), &self.dir, &self.state_dir, common_dir)
    }

    pub fn documents(&self) -> Documents {
        Documents::of(Arc::new(self.disk()), &self.dir, &self.state_dir)
    }

    /// The linked worktree's name; none in the main one.
    pub fn worktree(&self) -> Option<&str> {
        self.git.as_ref()?.worktree.as_deref()
    }

    /// It is where git keeps its own files. Its state is that of the project.
    pub(crate) fn is_inside_git(&self) -> bool {
        self.git.as_ref().is_some_and(|git| {
            let common = &git.common_dir;
            git.worktree.is_none() && common.ends_with(".git") && self.dir.starts_with(common)
        })
    }

    /// It is in a directory of a project that only ekiden and its sessions write.
    pub(crate) fn is_inside_published(&self) -> bool {
        let mut above = self.dir.ancestors();
        above.any(|dir| dir.ends_with(".ekiden") && dir.join(".gitignore").is_file())
    }

    /// The work dir's path from the root of its worktree; empty at the root and without git.
    pub fn prefix(&self) -> &str {
        self.git.as_ref().map_or("", |git| &git.prefix)
    }

    /// The place as the log holds it.
    pub fn place(&self) -> Place {
        Place {
            work_dir: self.dir.to_string_lossy().into_owned(),
            worktree: self.worktree().map(str::to_owned),
            git: self.git.is_some(),
            branch: None,
        }
    }
}

/// The place in a repository, whatever git thinks of it.
fn place_in_repository(dir: &Path) -> Option<ProjectPlace> {
    ProjectPlace::find(dir, None).filter(|place| place.git_dir.is_some())
}

/// Whether anything may have run in this directory while it was in no repository.
pub fn ran_before_git(dir: &Path) -> bool {
    has_runs(&dir.join(OWN_STATE))
}

/// Whether anything has run. A run that was refused leaves the directory, and nothing in it.
pub fn has_runs(state_dir: &Path) -> bool {
    let runs = StateLayout::new(state_dir).runs().read_dir();
    runs.is_ok_and(|mut runs| runs.next().is_some())
}

impl GitPlace {
    /// The place of `dir`. None where there is no repository.
    fn find(dir: &Path) -> Result<Option<Self>, GitError> {
        let ask =
            "rev-parse --path-format=absolute --git-common-dir --absolute-git-dir --show-prefix";
        match git::ask(dir, ask, &[]) {
            Ok(text) => Self::read(&text)
                .map(Some)
                .ok_or_else(|| GitError::NoAnswer {
                    command: "rev-parse".to_owned(),
                    why: "it said nothing".to_owned(),
                }),
            Err(GitError::Spawn(SpawnError::NoProgram { .. }))
                if place_in_repository(dir).is_none() =>
            {
                Ok(None)
            }
            // Git has the last word, unless runs are there: a crash may have damaged the repository.
            Err(GitError::Failed { said, .. })
                if place_in_repository(dir).is_none_or(|place| {
                    said.contains(NO_REPOSITORY) && !has_runs(&place.state_dir)
                }) =>
            {
                Ok(None)
            }
            // Such as one that belongs to another user, or whose settings git cannot read.
            Err(error) => Err(error),
        }
    }

    /// Reads the three lines that git answers.
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let common_dir = PathBuf::from(lines.next()?);
        let git_dir = PathBuf::from(lines.next()?);
        let prefix = lines
            .next()
            .unwrap_or_default()
            .trim_end_matches('/')
            .to_owned();
        let linked = git_dir != common_dir;
        let worktree = linked.then(|| {
            git_dir
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        });
        Some(Self {
            common_dir,
            worktree,
            prefix,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use ekiden_core::text::in_full;

    use super::*;

    // shows: RUN-07
    #[test]
    fn a_missing_work_dir_is_an_error_and_nothing_is_created() {
        let error = Workspace::find(Path::new("/no/such/place"), None).unwrap_err();
        assert_eq!(error.to_string(), "work in /no/such/place");
    }

    // shows: RUN-07
    #[test]
    fn a_path_that_is_no_line_of_text_is_told() {
        for name in [&b"\xff"[..], b"a\nb"] {
            let name = OsStr::from_bytes(name);
            let dir = tempfile::Builder::new().prefix(name).tempdir().unwrap();
            let error = Workspace::find(dir.path(), None).unwrap_err();
            let told = in_full(&error);
            assert!(told.contains(": its path is not UTF-8 text, or"), "{told}");
        }
    }
}
