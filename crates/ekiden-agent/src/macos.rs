//! macOS: process groups and the control socket. Weaker than Linux, and `doctor` says so.
//!
//! There are no subreapers and no parent-death signal here:
//!
//! - A descendant that left the agent's process group *and* whose parent has died belongs to launchd, and we
//!   can no longer find it. We find descendants that only left the group while their parents live.
//! - If both keepers are killed at the same instant, the engine still kills the agent's process
//!   group; if the engine dies with them, the agent lives until it notices its closed pipes.
//! - [`kill_marked`] finds nothing, since we cannot read other processes' environments.
//!
//! Everything else is as on Linux: the death of the engine, of one keeper, or of both the engine and
//! one keeper ends the agent's group within the grace time.

#![expect(unsafe_code, reason = "libproc has no safe binding")]

use std::collections::BTreeSet;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, getpgid, test_kill_process_group};

use crate::ending::Process;
use crate::lineage::Ancestor;
use crate::unix::{Deadline, pid_of};

/// How many processes are listed at once.
const PIDS_MAX: usize = 4096;

/// Only launchd adopts orphans here.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

pub(crate) fn adopts_orphans() -> bool {
    false
}

pub(crate) fn die_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}

/// A process cannot be renamed here; its arguments identify it.
pub(crate) fn show_as_keeper() {}

/// A process and its parent's pid. Keepers look like every other process of ekiden here.
pub(crate) fn ancestor(pid: Pid) -> Option<(Option<Pid>, Ancestor)> {
    let mut info = MaybeUninit::<libc::proc_bsdinfo>::zeroed();
    let size = libc::c_int::try_from(size_of::<libc::proc_bsdinfo>()).ok()?;
    let raw = pid.as_raw_nonzero().get();
    // SAFETY: the buffer has the size that is passed.
    let read = unsafe {
        libc::proc_pidinfo(
            raw,
            libc::PROC_PIDTBSDINFO,
            0,
            info.as_mut_ptr().cast(),
            size,
        )
    };
    if read != size {
        return None;
    }
    // SAFETY: it was filled, and holds only numbers and bytes.
    let info = unsafe { info.assume_init() };
    let ancestor = Ancestor {
        pid: raw,
        started: info.pbi_start_tvsec * 1_000_000 + info.pbi_start_tvusec,
        is_keeper: false,
    };
    Some((pid_of(info.pbi_ppid.cast_signed()), ancestor))
}

/// Here we know nothing about sockets, nor which processes are keepers.
pub(crate) fn may_be_kept(_client: SocketAddr, _ours: SocketAddr) -> bool {
    true
}

pub(crate) fn peer(socket: &UnixStream) -> Option<i32> {
    let mut pid: libc::pid_t = 0;
    let mut size = libc::socklen_t::try_from(size_of::<libc::pid_t>()).ok()?;
    let into = (&raw mut pid).cast();
    // SAFETY: the buffer has the size that is passed.
    let asked = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_LOCAL,
            libc::LOCAL_PEERPID,
            into,
            &raw mut size,
        )
    };
    (asked == 0).then_some(pid)
}

/// Whether a keeper without children has nothing left to end: the agent's group may outlive it.
pub(crate) fn childless_is_done(agent: Option<Pid>) -> bool {
    agent.is_none_or(|group| test_kill_process_group(group).is_err())
}

/// The descendants of the keeper `root` that can be found: the agent's process group, and everything below the
/// keeper and the group whose parent lives.
pub(crate) fn family(root: Pid, agent: Option<Pid>) -> Vec<Process> {
    let mut found = BTreeSet::new();
    let mut open = agent.map(group_members).unwrap_or_default();
    open.extend(children(root));
    while let Some(pid) = open.pop() {
        if found.insert(pid.as_raw_nonzero().get()) {
            open.extend(children(pid));
        }
    }
    let process = |pid| Process {
        pid,
        group: getpgid(Some(pid)).ok(),
        zombie: false,
    };
    found.into_iter().filter_map(pid_of).map(process).collect()
}

/// The engine gets no orphans here.
pub(crate) fn orphans(_root: Pid, _spared: &BTreeSet<i32>) -> Vec<Process> {
    Vec::new()
}

pub(crate) fn kill_marked(
    _is_mark: &dyn Fn(&[u8]) -> bool,
    _is_spared: &dyn Fn(Pid) -> bool,
    _until: Deadline,
) -> io::Result<(usize, usize)> {
    Ok((0, 0))
}

fn children(pid: Pid) -> Vec<Pid> {
    // SAFETY: the buffer has the size that is passed.
    list(|buffer, bytes| unsafe {
        libc::proc_listchildpids(pid.as_raw_nonzero().get(), buffer, bytes)
    })
}

fn group_members(group: Pid) -> Vec<Pid> {
    // SAFETY: the buffer has the size that is passed.
    list(|buffer, bytes| unsafe {
        libc::proc_listpgrppids(group.as_raw_nonzero().get(), buffer, bytes)
    })
}

/// The pids that `call` writes; it returns their number.
fn list(call: impl FnOnce(*mut libc::c_void, libc::c_int) -> libc::c_int) -> Vec<Pid> {
    let mut pids = vec![0_i32; PIDS_MAX];
    let bytes = libc::c_int::try_from(size_of_val(pids.as_slice())).unwrap_or(libc::c_int::MAX);
    let count = call(pids.as_mut_ptr().cast(), bytes);
    pids.truncate(usize::try_from(count).unwrap_or(0));
    pids.into_iter().filter_map(pid_of).collect()
}
