//! What to start: program, directory, environment.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use ekiden_core::limits::KILL_GRACE;
use ekiden_core::time::Millis;
use rustix::fs::{Access, access};

/// The child's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdinKind {
    /// A pipe from the engine.
    Piped,
    Null,
    /// This process's terminal, which is also the child's standard output and standard error. Then no stream of
    /// the child reaches this process.
    Terminal,
}

/// A program to start under a keeper.
#[derive(Debug)]
pub struct ChildSpec {
    /// The executable that has the keeper's role: [`crate::keeper::executable`].
    pub keeper: PathBuf,
    /// A path, or a name that is looked up on this process's `PATH`.
    pub program: OsString,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
    pub dir: PathBuf,
    /// Variables that it gets in addition to, or in place of, this process's. It never gets those that belong
    /// to the process that started ekiden: [`OUTER_AGENT_ENV`](super::OUTER_AGENT_ENV) and
    /// [`OUTER_GIT_ENV`](super::OUTER_GIT_ENV).
    pub env_set: Vec<(OsString, OsString)>,
    /// A file that this process has locked. The keepers get it, so the lock is held while anything of the child
    /// is alive, whatever happens to this process. The child does not get it.
    pub lock: Option<File>,
    /// The time between SIGTERM and SIGKILL.
    pub grace: Millis,
    pub stdin: StdinKind,
}

impl ChildSpec {
    /// `program` without arguments in `dir`: no input, no lock, the usual grace time.
    pub fn new(
        keeper: impl Into<PathBuf>,
        program: impl Into<OsString>,
        dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            keeper: keeper.into(),
            program: program.into(),
            args: Vec::new(),
            dir: dir.into(),
            env_set: Vec::new(),
            lock: None,
            grace: KILL_GRACE,
            stdin: StdinKind::Null,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("find the program `{}`", program.display())]
    NoProgram { program: OsString },
    /// The directory does not exist or cannot be examined.
    #[error("start a program in {}", dir.display())]
    Dir { dir: PathBuf, source: io::Error },
    /// The system refused a pipe, a socket or the null device.
    #[error("make pipes for a program")]
    Pipe(#[source] io::Error),
    /// The system refused to start the keeper.
    #[error("start the keeper {}", path.display())]
    Keeper { path: PathBuf, source: io::Error },
    /// The system refused what is needed to wait for it.
    #[error("wait for a program")]
    Wait(#[source] io::Error),
}

/// Looks a program up as a shell does: a name with a `/` is a path; any other name is searched for in the
/// directories of `path_var`. The result is absolute, so it means the same from any directory.
pub fn find_program(name: &OsStr, path_var: &OsStr) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 || name.as_encoded_bytes().contains(&b'/') {
        return runnable(PathBuf::from(name));
    }
    if name.is_empty() {
        return None;
    }
    env::split_paths(path_var)
        .map(|dir| dir.join(name))
        .find_map(runnable)
}

/// The same in this process's own `PATH`.
pub fn find_on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    find_program(name.as_ref(), &env::var_os("PATH").unwrap_or_default())
}

fn runnable(path: PathBuf) -> Option<PathBuf> {
    let fits = path.is_file() && access(&path, Access::EXEC_OK).is_ok();
    fits.then(|| std::path::absolute(path).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str, path_var: &str) -> Option<PathBuf> {
        find_program(OsStr::new(name), OsStr::new(path_var))
    }

    #[test]
    fn names_are_looked_up_and_paths_are_not() {
        assert_eq!(find("sh", "/nowhere:/bin"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("sh", "/nowhere"), None);
        assert_eq!(find("/bin/sh", ""), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("./sh", "/bin"), None);
    }

    #[test]
    fn what_cannot_run_is_not_found() {
        for (name, path) in [
            ("", "/bin"),
            ("passwd", "/etc"),
            ("/etc/passwd", ""),
            ("bin", "/"),
            ("/bin", ""),
        ] {
            assert_eq!(find(name, path), None, "{name} in {path}");
        }
    }
}
