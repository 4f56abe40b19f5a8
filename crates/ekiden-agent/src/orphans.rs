//! The keepers of this process, and the end of children that lost both of theirs.
//!
//! The kernel keeps one list of children for the whole process, and adds orphans to a subreaper's list. To tell
//! orphans from keepers, this module keeps the keepers' pids. They are this crate's only global value, because
//! the kernel's list is global. ekiden starts every process under a keeper, so a child that is not a keeper is
//! the orphan of a lost one.
//!
//! This module also starts the keepers, so that a pid is in the list as soon as its process exists.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ekiden_core::time::Millis;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process_group, waitpid};
use tokio::signal::unix::{SignalKind, signal};

use crate::ending::{Killing, Process};
use crate::keeper::ROLE;
use crate::lineage;
use crate::platform;
use crate::unix::{Deadline, pid_of};

static KEEPERS: Mutex<Keepers> = Mutex::new(Keepers {
    living: BTreeSet::new(),
    dropped: Vec::new(),
});

/// A keeper's name in process lists.
const KEEPER_NAME: &str = "ekiden";

#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) process: Child,
    /// Our end. When it closes, the keeper takes us for dead.
    pub(crate) control: UnixStream,
}

/// Makes orphans of killed keepers come to this process, where [`crate::child::Child::wait`] ends them. The
/// engine calls it once at its start, before its first child. Does nothing on macOS.
///
/// From then on, this process must start other processes only through this crate: a child that is
/// not a keeper counts as an orphan.
pub fn become_subreaper() -> io::Result<()> {
    platform::adopt_orphans()
}

/// Ending processes by their marker failed.
#[derive(Debug, thiserror::Error)]
pub enum MarkedError {
    /// The list of processes cannot be read.
    #[error("list the running processes")]
    List(#[source] io::Error),
    /// They were killed, but are still alive.
    #[error("end {0} processes of an earlier attempt")]
    Living(usize),
}

/// Sends SIGKILL to every process of this user whose environment contains `name=value`, except this one and its
/// ancestors, and waits at most `within` for them to end. Returns their number. Blocks.
///
/// It backs up the keepers: if engine and both keepers were killed at the same instant, processes that the agent
/// started may still be alive. A restarted engine calls this with the session id of the attempt, whose lock it
/// holds. A program that has replaced its environment is not found. Finds nothing on macOS.
pub fn end_marked(name: &str, value: &str, within: Millis) -> Result<usize, MarkedError> {
    let marker = format!("{name}={value}");
    end(
        &|variable| variable == marker.as_bytes(),
        &|_| false,
        within,
    )
}

/// The same for processes that no keeper keeps any more, by any variable (`NAME=value`) that is a mark.
pub fn end_unkept(is_mark: &dyn Fn(&[u8]) -> bool, within: Millis) -> Result<usize, MarkedError> {
    end(is_mark, &lineage::is_kept, within)
}

fn end(
    is_mark: &dyn Fn(&[u8]) -> bool,
    is_spared: &dyn Fn(Pid) -> bool,
    within: Millis,
) -> Result<usize, MarkedError> {
    let until = Deadline::after(within.into());
    let killed = platform::kill_marked(is_mark, is_spared, until);
    match killed.map_err(MarkedError::List)? {
        (killed, 0) => Ok(killed),
        (_, living) => Err(MarkedError::Living(living)),
    }
}

/// Starts a keeper, which waits for its command.
pub(crate) fn start_keeper(executable: &Path) -> io::Result<Keeper> {
    keepers().start(executable)
}

/// Waits for a keeper that has closed its end of the control socket, which is the last thing a dying
/// process does before it becomes a zombie. None: other code has waited for it.
pub(crate) fn end_of_keeper(keeper: &mut Child) -> Option<ExitStatus> {
    let status = keeper.wait().ok();
    keepers().living.remove(&raw(keeper));
    status
}

/// Leaves a keeper to itself. Starting the next keeper waits for it.
pub(crate) fn drop_keeper(keeper: Child) {
    keepers().dropped.push(keeper);
}

/// Kills what a killed pair of keepers left. `agent` is the agent's pid, if known.
pub(crate) async fn end_orphans(agent: Option<u32>) {
    if !platform::adopts_orphans() {
        return kill_group(agent);
    }
    // Without the signal only the pauses space the rounds.
    let mut exits = signal(SignalKind::child()).ok();
    let mut killing = Killing::new(None);
    loop {
        if kill_orphans_once(&mut killing) == 0 || killing.gave_up() {
            return;
        }
        let pause = tokio::time::sleep(killing.next_round.left());
        match exits.as_mut() {
            Some(exits) => tokio::select! { () = pause => {}, _ = exits.recv() => {} },
            None => pause.await,
        }
    }
}

/// One round. The list stays locked meanwhile, so that a keeper that is just starting does not count as an
/// orphan. Returns how many orphans there were, including dead ones not yet reaped.
fn kill_orphans_once(killing: &mut Killing) -> usize {
    let keepers = keepers();
    let orphans = platform::orphans(getpid(), &keepers.living);
    killing.round(&orphans);
    orphans.iter().filter(|orphan| !is_reaped(orphan)).count()
}

/// Waits for an orphan that is our child. One that is not will become our child, or is a zombie whose parent
/// lives and is searched for itself.
fn is_reaped(orphan: &Process) -> bool {
    matches!(waitpid(Some(orphan.pid), WaitOptions::NOHANG), Ok(Some(_)))
}

/// All that can be done without being a subreaper.
fn kill_group(agent: Option<u32>) {
    if let Some(group) = agent.and_then(|pid| pid_of(pid.cast_signed())) {
        // An error means that it is gone.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

struct Keepers {
    living: BTreeSet<i32>,
    /// Keepers whose handle was dropped: they end by themselves, but somebody must wait for them.
    dropped: Vec<Child>,
}

impl Keepers {
    /// Starts one and enters it in the list before anybody can look for orphans.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where ekiden's processes are created"
    )]
    fn start(&mut self, executable: &Path) -> io::Result<Keeper> {
        self.reap_dropped();
        let (control, keepers_end) = UnixStream::pair()?;
        let mut command = Command::new(executable);
        // It must not be in the way when somebody removes a directory.
        command.arg0(KEEPER_NAME).arg(ROLE).current_dir("/");
        command
            .stdin(OwnedFd::from(keepers_end))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn()?;
        self.living.insert(raw(&process));
        Ok(Keeper { process, control })
    }

    fn reap_dropped(&mut self) {
        self.dropped.retain_mut(|keeper| {
            let runs = matches!(keeper.try_wait(), Ok(None));
            if !runs {
                self.living.remove(&raw(keeper));
            }
            runs
        });
    }
}

fn keepers() -> MutexGuard<'static, Keepers> {
    // A panic elsewhere leaves the list correct.
    KEEPERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn raw(keeper: &Child) -> i32 {
    keeper.id().cast_signed()
}
