//! What Linux and macOS have in common: forking, signals, deadlines, waiting for descriptors.
//!
//! It has all `unsafe` code that both platforms share, and this crate's monotonic clock.

#![expect(
    unsafe_code,
    reason = "fork, signal dispositions and pre_exec have no safe counterpart"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a keeper has no engine to ask for the time"
)]

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, setpgid, setsid, wait,
};

use crate::platform;

/// What people and terminals send. The last two mean that another process has the terminal.
const REQUESTS: [i32; 7] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
];
/// One past the highest signal number of any platform.
const SIGNALS_END: i32 = 65;

/// A point on the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(length: Duration) -> Self {
        Self(Instant::now() + length)
    }

    pub(crate) fn passed(self) -> bool {
        self.left().is_zero()
    }

    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }
}

pub(crate) enum Forked {
    Child,
    Parent(Pid),
}

/// Forks. Only for single-threaded processes.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: neither a keeper nor a command in the background has started a thread, so no thread that is
    // missing in the child can hold a lock, and the child may do everything that the parent may.
    match unsafe { libc::fork() } {
        0 => Ok(Forked::Child),
        raw => pid_of(raw)
            .map(Forked::Parent)
            .ok_or_else(io::Error::last_os_error),
    }
}

/// The pid with this number. None for numbers below 1, which mean "nobody", "any" or an error to the kernel:
/// signals to these would reach everybody.
pub(crate) fn pid_of(raw: i32) -> Option<Pid> {
    if raw > 0 { Pid::from_raw(raw) } else { None }
}

/// Ignores the signals that people and terminals send. The engine gets them too, and only the engine decides
/// what they mean; a keeper that died of one would only cost the grace time.
pub(crate) fn ignore_requests() {
    for signal in REQUESTS {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// A file that may not grow is an error, like a full disk, and no reason to be killed.
pub fn expect_full_files() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// For a process that only waits for another one on the same terminal. What a terminal sends reaches both;
/// signals sent only to us are passed on.
pub(crate) fn pass_on_requests(to: Pid) {
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: ignoring a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    pass_on(&[Signal::TERM, Signal::HUP], to);
}

pub(crate) fn pass_on(signals: &[Signal], to: Pid) {
    for &signal in signals {
        let pass_on = move || {
            let _ = kill_process(to, signal);
        };
        // SAFETY: the handler makes one system call. Without it the signal ends us, and the run leaves the terminal.
        let _ = unsafe { signal_hook::low_level::register(signal.as_raw(), pass_on) };
    }
}

/// Starts the command in a session of its own, so that ending this process's group never ends it.
pub(crate) fn in_own_session(command: &mut Command) {
    // SAFETY: the closure makes one system call; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(|| Ok(setsid().map(drop)?)) };
}

/// Prepares the agent's process between fork and exec. It gets a separate session (no terminal, and a process
/// group without a keeper) or the terminal's foreground in `group`, every signal at its default, and SIGTERM
/// when the keeper dies. The standard library empties the signal mask.
pub(crate) fn prepare_agent(command: &mut Command, group: Option<Pid>) {
    let keeper = getpid();
    // SAFETY: the closure makes only system calls; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            match group {
                Some(group) => setpgid(None, Some(group))?,
                None => drop(setsid()?),
            }
            default_signals();
            platform::die_with(keeper)
        });
    }
}

fn default_signals() {
    for signal in 1..SIGNALS_END {
        // SAFETY: `signal` is async-signal-safe; it refuses numbers that may not be set.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The process that started this one wants it to outlive its terminal, as `nohup` does.
pub fn hangup_is_ignored() -> bool {
    // SAFETY: without a new action the call only fills in the current one, for which zeros are valid.
    let current = unsafe {
        let mut current: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &raw mut current);
        current
    };
    current.sa_sigaction == libc::SIG_IGN
}

/// Raised by ctrl-c, a request to end or a lost terminal, which then do nothing else.
#[derive(Debug, Clone, Default)]
pub struct SignalFlag(Arc<AtomicBool>);

impl SignalFlag {
    pub fn listen() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))?;
        }
        Ok(Self(flag))
    }

    /// Raised whenever this process continues after it was suspended.
    pub fn of_going_on() -> io::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(libc::SIGCONT, Arc::clone(&flag))?;
        Ok(Self(flag))
    }

    /// Raises it as a signal would.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Lowers it, and returns whether it was raised.
    pub fn lower(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs `work` with the default action of ctrl-c and of requests to end, even if a runtime listened to them
/// before and will again: while a person answers a question, nobody runs the loop that would receive them.
pub fn with_default_signals<T>(work: impl FnOnce() -> T) -> T {
    let signals = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
    // SAFETY: an action of zeros is the default one without flags; both pointers are valid for the call, and
    // we restore what the system returned.
    let before = signals.map(|signal| unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, &raw mut before);
        before
    });
    let done = work();
    for (signal, before) in signals.into_iter().zip(&before) {
        // SAFETY: as above.
        unsafe { libc::sigaction(signal, std::ptr::from_ref(before), std::ptr::null_mut()) };
    }
    done
}

/// Reads from a pipe that does not block; none if nothing is there now.
///
/// It asks the kernel. A runtime knows only the events it has seen, and it can see a child's end before its
/// last output.
pub(crate) fn read_now(pipe: impl AsFd, bytes: &mut [u8]) -> Option<usize> {
    let read = rustix::io::retry_on_intr(|| rustix::io::read(&pipe, &mut *bytes));
    read.ok().filter(|count| *count > 0)
}

/// A descriptor that becomes readable when a child of this process ends.
pub(crate) struct ChildExits(UnixStream);

impl ChildExits {
    /// Reports every end from now on. [`reap`] finds earlier ones.
    pub(crate) fn new() -> io::Result<Self> {
        let (heard, told) = UnixStream::pair()?;
        heard.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(libc::SIGCHLD, told)?;
        Ok(Self(heard))
    }

    /// Call this before [`reap`], so that no end is missed.
    pub(crate) fn clear(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.0.read(&mut bytes), Ok(count) if count > 0) {}
    }
}

impl AsFd for ChildExits {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) enum Reaped {
    One(Pid, WaitStatus),
    AllRunning,
    NoChildren,
}

/// Reaps one child, without waiting.
pub(crate) fn reap() -> Reaped {
    match rustix::io::retry_on_intr(|| wait(WaitOptions::NOHANG)) {
        Ok(Some((pid, status))) => Reaped::One(pid, status),
        Ok(None) => Reaped::AllRunning,
        Err(_no_children) => Reaped::NoChildren,
    }
}

/// Waits until one of `fds` is ready or `until` has come. Also returns after an interruption: the caller
/// checks everything again anyway.
pub(crate) fn poll_until(fds: &mut [PollFd<'_>], until: Option<Deadline>) -> io::Result<()> {
    let left = until.map(|deadline| timespec(deadline.left()));
    match poll(fds, left.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn timespec(length: Duration) -> Timespec {
    // A deadline beyond the type's range is as good as none.
    Timespec::try_from(length).unwrap_or(Timespec {
        tv_sec: i32::MAX.into(),
        tv_nsec: 0,
    })
}

/// Sends SIGTERM, and SIGCONT so that a stopped process can act on it.
pub(crate) fn ask_to_go(pid: Pid) {
    // The process may already be gone, or may belong to another user: the kill that follows
    // settles both.
    let _ = kill_process(pid, Signal::TERM);
    let _ = kill_process(pid, Signal::CONT);
}
