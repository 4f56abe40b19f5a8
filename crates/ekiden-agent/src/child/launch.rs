//! Starts a child: pipes, and a keeper that gets the command.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::child::spec::{ChildSpec, SpawnError, StdinKind, find_on_path};
use crate::keeper::{self, ChildCommand, ChildFiles};
use crate::orphans::{self, Keeper};

/// Whether standard output and standard error are two pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    Apart,
    /// One pipe, so that the order of what is written to both is kept.
    Merged,
}

/// Our ends of a child's streams.
#[derive(Debug, Default)]
pub(crate) struct OurEnds {
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
}

/// A keeper that was killed before it received its command has started nothing, so we can start another one.
const KEEPER_STARTS_MAX: u32 = 3;

/// Starts a keeper and gives it the command.
pub(crate) fn launch(spec: ChildSpec, streams: Streams) -> Result<(Keeper, OurEnds), SpawnError> {
    let program = check(&spec.dir, &spec.program)?;
    let (files, ends) = open(spec.stdin, streams, spec.lock).map_err(SpawnError::Pipe)?;
    let command = ChildCommand {
        grace: spec.grace.into(),
        on_terminal: spec.stdin == StdinKind::Terminal,
        program,
        args: spec.args,
        dir: spec.dir,
        env_set: spec.env_set,
    };
    let failed = |source| SpawnError::Keeper {
        path: spec.keeper.clone(),
        source,
    };
    for starts_left in (0..KEEPER_STARTS_MAX).rev() {
        let keeper = orphans::start_keeper(&spec.keeper).map_err(failed)?;
        match keeper::send(&keeper.control, &command, &files) {
            Ok(()) => return Ok((keeper, ends)),
            Err(error) => {
                orphans::drop_keeper(keeper.process);
                let is_gone = matches!(
                    error.kind(),
                    ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                );
                if !is_gone || starts_left == 0 {
                    return Err(failed(error));
                }
            }
        }
    }
    Err(failed(ErrorKind::BrokenPipe.into()))
}

/// Finds the program and its directory before anything is created, so that the most common mistakes give a plain
/// error.
fn check(dir: &Path, program: &OsStr) -> Result<PathBuf, SpawnError> {
    check_dir(dir).map_err(|source| SpawnError::Dir {
        dir: dir.to_owned(),
        source,
    })?;
    find_on_path(program).ok_or_else(|| SpawnError::NoProgram {
        program: program.to_owned(),
    })
}

fn check_dir(dir: &Path) -> io::Result<()> {
    if fs::metadata(dir)?.is_dir() {
        Ok(())
    } else {
        Err(ErrorKind::NotADirectory.into())
    }
}

fn open(
    stdin: StdinKind,
    streams: Streams,
    lock: Option<File>,
) -> io::Result<(ChildFiles, OurEnds)> {
    let (childs_stdin, stdin) = match stdin {
        StdinKind::Null => (OwnedFd::from(File::open("/dev/null")?), None),
        StdinKind::Piped => {
            let (read, write) = io::pipe()?;
            (read.into(), Some(write.into()))
        }
        StdinKind::Terminal => return Ok((on_terminal(lock)?, OurEnds::default())),
    };
    let (stdout, childs_stdout) = io::pipe()?;
    let (stderr, childs_stderr) = match streams {
        Streams::Merged => (None, childs_stdout.try_clone()?),
        Streams::Apart => {
            let (read, write) = io::pipe()?;
            (Some(read.into()), write)
        }
    };
    let files = ChildFiles {
        stdin: childs_stdin,
        stdout: childs_stdout.into(),
        stderr: childs_stderr.into(),
        lock,
    };
    let stdout = Some(stdout.into());
    Ok((
        files,
        OurEnds {
            stdin,
            stdout,
            stderr,
        },
    ))
}

fn on_terminal(lock: Option<File>) -> io::Result<ChildFiles> {
    Ok(ChildFiles {
        stdin: io::stdin().as_fd().try_clone_to_owned()?,
        stdout: io::stdout().as_fd().try_clone_to_owned()?,
        stderr: io::stderr().as_fd().try_clone_to_owned()?,
        lock,
    })
}
