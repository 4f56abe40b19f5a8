//! Where a process comes from. A session may not steer its own run. We recognize it by its ancestors: a process
//! can unset a variable, but it cannot choose its ancestors.
//!
//! ```text
//! shell ──► engine ──► keeper ──► agent ──► its tools ──► ekiden stop      from the run's own session
//!   └─────► ekiden stop                                                    from outside
//! ```
//!
//! All children of an engine are keepers, and on Linux a keeper adopts the orphans among its descendants. So
//! every process that descends from the engine comes from one of its sessions, detached or not. An agent can
//! leave that tree only through another program that starts things for it, such as `systemd-run`, `at` or ssh.
//!
//! On macOS orphans belong to launchd, and keepers look like any other process.

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, getpid};

use crate::platform;
use crate::unix::pid_of;

/// No process has more ancestors.
const ANCESTORS_MAX: usize = 4096;

/// A process on the way up from another. A pid alone may have been reused.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ancestor {
    pub(crate) pid: i32,
    /// In the system's own unit; only compared.
    pub(crate) started: u64,
    pub(crate) is_keeper: bool,
}

impl Ancestor {
    fn is(&self, other: &Self) -> bool {
        (self.pid, self.started) == (other.pid, other.started)
    }
}

/// Where a process comes from, as an engine sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Engine,
    /// From no session of a run.
    Outside,
    /// From the session that started this run.
    StartingSession,
    OwnSession,
    /// From a session of another run, which did not start this one.
    OtherSession,
    /// It is gone, or in a place that we cannot see from here.
    Unknown,
}

/// Where the process `peer` comes from, as this process, an engine, sees it.
pub fn origin(peer: i32) -> Origin {
    let peer = pid_of(peer).map(ancestry).unwrap_or_default();
    judge(&peer, &ancestry(getpid()))
}

/// Whether this process comes from a session of any run. Always false on macOS.
pub fn is_inside_a_session() -> bool {
    ancestry(getpid()).iter().any(|ancestor| ancestor.is_keeper)
}

/// Whether a keeper is among a process's ancestors, or we cannot tell.
pub(crate) fn is_kept(pid: Pid) -> bool {
    let found = ancestry(pid);
    found.is_empty() || found.iter().any(|ancestor| ancestor.is_keeper)
}

/// Whether [`may_be_kept`] can tell anything here. It cannot where keepers look like any other process.
pub const TELLS_KEPT_CLIENTS: bool = cfg!(target_os = "linux");

/// Whether a process below a keeper may hold the client's end of a TCP connection to this process. No for a
/// client on another machine. Yes for one on this machine whose end cannot be found, such as one that has
/// already closed it.
pub fn may_be_kept(client: SocketAddr, ours: SocketAddr) -> bool {
    platform::may_be_kept(client, ours)
}

/// The process at the other end of a socket: for a caller, the one that listens.
pub fn peer(socket: &UnixStream) -> Option<i32> {
    platform::peer(socket)
}

/// The process and all its ancestors, as far as we can see them. Empty if it is gone.
fn ancestry(pid: Pid) -> Vec<Ancestor> {
    let (mut found, mut next) = (Vec::<Ancestor>::new(), Some(pid));
    while let Some((parent, ancestor)) = next.and_then(platform::ancestor) {
        let is_younger = |last: &Ancestor| last.started < ancestor.started;
        if found.last().is_some_and(is_younger) || found.len() == ANCESTORS_MAX {
            // A pid was reused while we looked.
            return Vec::new();
        }
        found.push(ancestor);
        next = parent;
    }
    found
}

fn judge(peer: &[Ancestor], engine: &[Ancestor]) -> Origin {
    let ([peer_itself, above @ ..], [this, ..]) = (peer, engine) else {
        return Origin::Unknown;
    };
    if peer_itself.is(this) {
        return Origin::Engine;
    }
    if above.iter().any(|ancestor| ancestor.is(this)) {
        return Origin::OwnSession;
    }
    // The innermost one: every process below it belongs to that session.
    match above.iter().find(|ancestor| ancestor.is_keeper) {
        None => Origin::Outside,
        Some(keeper) if engine.iter().any(|above| above.is(keeper)) => Origin::StartingSession,
        Some(_) => Origin::OtherSession,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ancestors by pid, from the process upwards; keepers are those from 100 on.
    fn line(pids: &[i32]) -> Vec<Ancestor> {
        let ancestor = |&pid: &i32| Ancestor {
            pid,
            started: 1,
            is_keeper: pid >= 100,
        };
        pids.iter().map(ancestor).collect()
    }

    // shows: SEC-07
    #[test]
    fn whoever_descends_from_an_engine_comes_from_its_session() {
        let engine = line(&[10, 2, 1]);
        let of = |pids: &[i32]| judge(&line(pids), &engine);
        assert_eq!(of(&[30, 20, 101, 100, 10, 2, 1]), Origin::OwnSession);
        // Its parent has died, and the keeper has adopted it.
        assert_eq!(of(&[30, 100, 10, 2, 1]), Origin::OwnSession);
        assert_eq!(of(&[30, 2, 1]), Origin::Outside);
        // A person types to the engine itself.
        assert_eq!(of(&[10, 2, 1]), Origin::Engine);
        assert_eq!(of(&[]), Origin::Unknown);
        let mut reused = line(&[30, 20, 10, 2, 1]);
        reused[2].started = 7;
        assert_eq!(judge(&reused, &engine), Origin::Outside);
    }

    // shows: SEC-07
    #[test]
    fn a_session_steers_the_runs_that_it_started_and_no_others() {
        // The run 11 was started by the session of keeper 100 of the run 10.
        let inner = line(&[11, 21, 101, 100, 10, 2, 1]);
        let of = |pids: &[i32]| judge(&line(pids), &inner);
        let starting = Origin::StartingSession;
        assert_eq!(of(&[22, 21, 101, 100, 10, 2, 1]), starting);
        assert_eq!(of(&[23, 100, 10, 2, 1]), starting);
        assert_eq!(of(&[3, 2, 1]), Origin::Outside);
        // Another session of the run around it, and its own session.
        assert_eq!(of(&[24, 103, 102, 10, 2, 1]), Origin::OtherSession);
        let own = [25, 105, 104, 11, 21, 101, 100, 10, 2, 1];
        assert_eq!(of(&own), Origin::OwnSession);
        // A run of the person's own.
        assert_eq!(
            judge(&line(&[24, 103, 102, 10, 2, 1]), &line(&[4, 2, 1])),
            Origin::OtherSession
        );
        // The inner run's session may not steer the outer run either.
        assert_eq!(judge(&line(&own), &line(&[10, 2, 1])), Origin::OwnSession);
    }

    #[test]
    fn the_real_ancestors_are_found() {
        let own = ancestry(getpid());
        assert_eq!(own[0].pid, getpid().as_raw_nonzero().get());
        assert!(own.len() > 1);
        assert_eq!(origin(own[0].pid), Origin::Engine);
        assert_eq!(origin(0), Origin::Unknown);
    }
}
