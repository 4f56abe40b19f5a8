//! The start of a child: pipes, and a keeper that gets the errand.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::child::spec::{ChildSpec, SpawnError, StdinKind, find_program};
use crate::keeper::{AgentPlace, ChildFiles, Errand, hand_over};
use crate::orphans::{self, Keeper};

/// Whether standard output and standard error are two pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    /// Two.
    Apart,
    /// One, so that the order of what is written to both is kept.
    Merged,
}

/// A keeper that runs, and our ends of everything.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) keeper: Keeper,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

/// Gives a keeper its errand: one that waits for it already, or a new one.
pub(crate) fn launch(spec: ChildSpec, streams: Streams) -> Result<Launched, SpawnError> {
    let program = check(&spec.dir, &spec.program)?;
    let (files, stdin, stdout, stderr) = open(spec.stdin, streams, spec.lock).map_err(SpawnError::Pipe)?;
    let place = match spec.stdin {
        StdinKind::Piped | StdinKind::Null => AgentPlace::Alone,
        StdinKind::Terminal => AgentPlace::Terminal,
    };
    let errand = Errand {
        grace: spec.grace.into(),
        place,
        program,
        args: spec.args,
        dir: spec.dir,
        env_set: spec.env_set,
    };
    let failed = |source| SpawnError::Keeper { path: spec.keeper.clone(), source };
    if let Some(ready) = orphans::take_ready(&spec.keeper) {
        match hand_over(&ready.control, &errand, &files) {
            Ok(()) => return Ok(Launched { keeper: ready, stdin, stdout, stderr }),
            // Somebody killed it while it waited.
            Err(_) => orphans::drop_keeper(ready.process),
        }
    }
    let keeper = orphans::start_keeper(&spec.keeper).map_err(failed)?;
    match hand_over(&keeper.control, &errand, &files) {
        Ok(()) => Ok(Launched { keeper, stdin, stdout, stderr }),
        Err(error) => {
            orphans::drop_keeper(keeper.process);
            Err(failed(error))
        }
    }
}

/// Finds the program and its directory before anything is made, so that the commonest mistakes are
/// told plainly.
pub(crate) fn check(dir: &Path, program: &OsStr) -> Result<PathBuf, SpawnError> {
    check_dir(dir).map_err(|source| SpawnError::Dir { dir: dir.to_owned(), source })?;
    let path_var = std::env::var_os("PATH").unwrap_or_default();
    find_program(program, &path_var).ok_or_else(|| SpawnError::NoProgram { program: program.to_owned() })
}

fn check_dir(dir: &Path) -> io::Result<()> {
    if fs::metadata(dir)?.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// The child's files, and our ends: standard input, output, error.
type Ends = (ChildFiles, Option<OwnedFd>, Option<OwnedFd>, Option<OwnedFd>);

fn open(stdin: StdinKind, streams: Streams, lock: Option<File>) -> io::Result<Ends> {
    let (childs_stdin, stdin) = match stdin {
        StdinKind::Null => (OwnedFd::from(File::open("/dev/null")?), None),
        StdinKind::Piped => {
            let (read, write) = io::pipe()?;
            (read.into(), Some(write.into()))
        }
        StdinKind::Terminal => return on_terminal(lock),
    };
    let (stdout, childs_stdout) = io::pipe()?;
    let (stderr, childs_stderr) = match streams {
        Streams::Merged => (None, childs_stdout.try_clone()?),
        Streams::Apart => {
            let (read, write) = io::pipe()?;
            (Some(read.into()), write)
        }
    };
    let files =
        ChildFiles { stdin: childs_stdin, stdout: childs_stdout.into(), stderr: childs_stderr.into(), lock };
    Ok((files, stdin, Some(stdout.into()), stderr))
}

fn on_terminal(lock: Option<File>) -> io::Result<Ends> {
    let files = ChildFiles {
        stdin: io::stdin().as_fd().try_clone_to_owned()?,
        stdout: io::stdout().as_fd().try_clone_to_owned()?,
        stderr: io::stderr().as_fd().try_clone_to_owned()?,
        lock,
    };
    Ok((files, None, None, None))
}
