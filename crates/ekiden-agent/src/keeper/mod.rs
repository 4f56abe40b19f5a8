//! The hidden process between the engine and a child, which lets nothing outlive them while a keeper lives.
//!
//! # Theory of operation
//!
//! A keeper is ekiden's own executable in a role that starts before anything else in `main`
//! ([`run_if_asked`]). It reads what to start from the control socket, and is two processes
//! that watch each other from then on:
//!
//! ```text
//! engine ──control──┬──► outer ──link──► inner ──► agent ──► tools
//!                   └───────────────────►
//! ```
//!
//! - The **inner** keeper starts the agent, obeys the engine's commands, reports, and ends what is
//!   left when the agent is gone (`watch`).
//! - The **outer** keeper does nothing (`outer`) until the inner one dies. Then, as a subreaper,
//!   it inherits the agent and everything below it, and does what the inner one would have done.
//! - An agent in its own interface uses the user's terminal (`terminal`). Afterwards the keeper restores
//!   the terminal, however the agent ended.
//! - Both see the engine's death as the end of the control socket, and the inner one sees the
//!   outer's death as the end of the link.
//!
//! So any two of engine, outer and inner may be killed at the same instant: the third ends the rest.
//! If both keepers are dead, the engine is the subreaper that adopts the rest (`orphans`). Only if all
//! three are killed at the same instant is none left. Then the agent gets SIGTERM as its parent-death
//! signal, and a later engine looks for processes with the session's marker.
//!
//! # Invariants
//!
//! 1. Agent and tools inherit neither the control socket, nor the link, nor the lock. So the end of one of
//!    these means the death of the engine or a keeper, whatever the agent does.
//! 2. A keeper exits only when it has no descendants left, or only ones that it may not kill. So a free lock
//!    means that nothing of the attempt is alive.
//! 3. The agent's own end is reported before the keepers' end, and never guessed from it.
//! 4. A keeper stays single-threaded: it forks without exec.
//! 5. Every wait ends with an event or a deadline; nothing is polled while the agent works.

mod files;
mod outer;
mod report;
mod start;
mod terminal;
mod watch;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use files::{ChildFiles, send};
pub use report::ChildEnd;
pub(crate) use report::{KeeperReport, Reports, TERMINATE};

/// The first argument that makes ekiden a keeper.
pub const ROLE: &str = "__keeper";
/// The exit code of a keeper that somebody started by hand or that could not begin.
const EXIT_USAGE: i32 = 2;

/// If the command line says so, becomes a keeper and never returns; else does nothing.
///
/// Call it first in `main`, before any thread, handler or runtime exists: a keeper forks, and
/// its start is part of every session's start.
pub fn run_if_asked() {
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new(ROLE)) {
        std::process::exit(start::run());
    }
}

/// The path of the running executable, which has the keeper's role if its `main` calls
/// [`run_if_asked`]. Stays right if a newer version replaces the file meanwhile (Linux).
pub fn executable() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok(PathBuf::from("/proc/self/exe"))
    } else {
        path_of_executable()
    }
}

/// The path of this program, for other processes to start: there `/proc/self/exe` is their own program. If a newer
/// version has replaced the file, it is the path of that one.
pub fn path_of_executable() -> std::io::Result<PathBuf> {
    std::env::current_exe().map(upgraded)
}

/// Linux appends this to the path of a file that was removed or replaced.
const REPLACED: &[u8] = b" (deleted)";

fn upgraded(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(REPLACED) {
        Some(before) if !path.exists() => OsStr::from_bytes(before).into(),
        _ => path,
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildCommand {
    pub(crate) grace: Duration,
    /// The agent is on the engine's terminal, in the engine's own process group. So the person suspends and
    /// resumes both as one job, and a terminal that goes away is lost to both. Otherwise it is in a separate
    /// session, without a terminal.
    pub(crate) on_terminal: bool,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) dir: PathBuf,
    /// Variables in addition to the keeper's own.
    pub(crate) env_set: Vec<(OsString, OsString)>,
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test replaces a file")]
mod tests {
    use super::*;

    // shows: OPS-05
    #[test]
    fn a_program_that_was_replaced_is_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let (program, replaced) = (dir.path().join("e"), dir.path().join("e (deleted)"));
        assert_eq!(upgraded(replaced.clone()), program);
        assert_eq!(upgraded(program.clone()), program);
        std::fs::write(&replaced, "").unwrap();
        assert_eq!(upgraded(replaced.clone()), replaced, "its own name");
    }
}
