//! The hidden process between the engine and a child, which lets nothing outlive them.
//!
//! # Theory of operation
//!
//! A keeper is ekiden's own executable in a role that starts before anything else in `main`
//! ([`run_if_asked`]). It is two processes that watch each other:
//!
//! ```text
//! engine ──control──┬──► outer ──link──► inner ──► agent ──► tools
//!                   └───────────────────►
//! ```
//!
//! - The **inner** keeper starts the agent, obeys the engine's orders, reports, and ends what is
//!   left when the agent is gone (`watch`).
//! - The **outer** keeper does nothing (`outer`) until the inner one dies. Then, as a subreaper,
//!   it inherits the agent and everything below it, and does what the inner one would have done.
//! - An agent in its own interface stands on the user's terminal (`terminal`), which is put in order
//!   after it, however it ended.
//! - Either sees the engine's death as the end of the control socket, and the inner one sees the
//!   outer's death as the end of the link.
//!
//! So of engine, outer and inner any two may be killed at the same instant: the third ends the rest.
//! Both keepers dead, the engine is the subreaper that the rest comes to (`orphans`). Only if all
//! three are killed at the same instant nobody is left; then the agent gets SIGTERM as its
//! parent-death signal, and a later engine looks for what bears the session's marker.
//!
//! # Invariants
//!
//! 1. Agent and tools inherit neither the control socket, nor the link, nor the lock. So the ends of
//!    these mean deaths of engine and keepers, whatever the agent does.
//! 2. A keeper exits only when it has no descendants left, or only such that it may not kill, and
//!    says which. So a free lock means that nothing of the attempt is alive.
//! 3. The agent's own end is reported before the keepers' end, and never guessed from it.
//! 4. A keeper stays single-threaded: it forks without exec.
//! 5. Every wait ends by an event or a deadline; nothing is polled while the agent works.

mod files;
mod outer;
mod report;
mod start;
mod terminal;
mod watch;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use files::ChildFiles;
pub(crate) use report::{Order, Report, Reports};

/// The first argument that makes ekiden a keeper.
pub const ROLE: &str = "__keeper";
/// The exit code of a keeper that was started by hand or could not begin.
const EXIT_USAGE: i32 = 2;

/// Becomes a keeper and never returns, if the command line says so; else does nothing.
///
/// To be called first in `main`, before any thread, handler or runtime exists: a keeper forks, and
/// its start is part of every session's start.
pub fn run_if_asked() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() == Some(OsStr::new(ROLE)) {
        let errand = Errand::parse(args);
        std::process::exit(errand.map_or(EXIT_USAGE, start::run));
    }
}

/// The path of the running executable, which has the keeper's role if its `main` calls
/// [`run_if_asked`]. Stays right when the file is replaced by a newer version meanwhile (Linux).
///
/// # Errors
///
/// The system does not tell it (macOS).
pub fn executable() -> std::io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok(PathBuf::from("/proc/self/exe")) } else { std::env::current_exe() }
}

/// Among which processes the agent stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentPlace {
    /// In a session of its own, without a terminal.
    Alone,
    /// On the engine's terminal, in the engine's own process group: so the person suspends and resumes
    /// both as one job, and a terminal that is taken away is taken from both.
    Terminal,
}

impl AgentPlace {
    const ALL: [Self; 2] = [Self::Alone, Self::Terminal];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Terminal => "terminal",
        }
    }
}

/// What a keeper is told on its command line, where `ps` shows it: `GRACE_MS PLACE PROGRAM ARGS...`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Errand {
    pub(crate) grace: Duration,
    pub(crate) place: AgentPlace,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

impl Errand {
    /// The arguments, the role included.
    pub(crate) fn into_args(self) -> Vec<OsString> {
        let grace = self.grace.as_millis().to_string();
        let mut args = vec![ROLE.into(), grace.into(), self.place.name().into(), self.program];
        args.extend(self.args);
        args
    }

    /// Reads what follows the role.
    fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let grace_ms = args.next()?.to_str()?.parse().ok()?;
        let place = args.next()?;
        let place = AgentPlace::ALL.into_iter().find(|known| place == known.name())?;
        Some(Self {
            grace: Duration::from_millis(grace_ms),
            place,
            program: args.next()?,
            args: args.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errand_survives_the_command_line() {
        let errand = |place| Errand {
            grace: Duration::from_millis(3000),
            place,
            program: "/bin/sh".into(),
            args: vec!["-c".into(), String::new().into()],
        };
        for place in AgentPlace::ALL {
            assert_eq!(Errand::parse(errand(place).into_args().into_iter().skip(1)), Some(errand(place)));
        }
    }

    #[test]
    fn other_command_lines_are_no_errands() {
        for bad in [&[][..], &["3000"], &["3000", "alone"], &["3000", "away", "sh"], &["soon", "alone", "sh"]]
        {
            assert_eq!(Errand::parse(bad.iter().map(OsString::from)), None, "{bad:?}");
        }
    }
}
