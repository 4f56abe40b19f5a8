//! From the exec of the keeper to the exec of the agent.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{Pid, getpid, setsid};

use crate::keeper::files::ChildFiles;
use crate::keeper::outer::Outer;
use crate::keeper::report::{Control, Report};
use crate::keeper::watch::Watch;
use crate::keeper::{EXIT_USAGE, Errand};
use crate::platform;
use crate::unix::{ChildExits, Forked, fork, ignore_requests, prepare_agent};

/// Runs both keepers, one in each of two processes. Returns the exit code.
pub(super) fn run(errand: Errand) -> i32 {
    let Ok((control, files)) = take_files() else { return EXIT_USAGE };
    match divide(errand, &control, files) {
        Ok(()) => 0,
        Err(error) => {
            control.tell(&Report::NotStarted(format!("the keeper failed: {error}")));
            control.tell(&Report::Left(0));
            0
        }
    }
}

fn take_files() -> io::Result<(Control, ChildFiles)> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let files = ChildFiles::receive(&socket)?;
    Ok((Control::new(socket)?, files))
}

/// Becomes two processes, each of which keeps the lock while it lives.
fn divide(errand: Errand, control: &Control, files: ChildFiles) -> io::Result<()> {
    setsid()?;
    ignore_requests();
    platform::adopt_orphans()?;
    platform::show_as_keeper();
    let ChildFiles { stdin, stdout, stderr, lock } = files;
    let (outer_link, inner_link) = UnixStream::pair()?;
    match fork()? {
        Forked::Parent(inner) => {
            drop((stdin, stdout, stderr, inner_link));
            Outer::new(control, outer_link, inner, errand.grace)?.run();
        }
        Forked::Child => {
            drop(outer_link);
            let files = ChildFiles { stdin, stdout, stderr, lock: None };
            run_inner(errand, control, inner_link, files)?;
        }
    }
    drop(lock);
    Ok(())
}

fn run_inner(errand: Errand, control: &Control, link: UnixStream, files: ChildFiles) -> io::Result<()> {
    platform::adopt_orphans()?;
    link.set_nonblocking(true)?;
    let exits = ChildExits::new()?;
    let grace = errand.grace;
    let agent = match start_agent(errand, files) {
        Ok(agent) => agent,
        Err(error) => {
            control.tell(&Report::NotStarted(error.to_string()));
            control.tell(&Report::Left(0));
            return Ok(());
        }
    };
    let pid = |of: Pid| of.as_raw_nonzero().get().unsigned_abs();
    control.tell(&Report::Started { agent: pid(agent), inner: pid(getpid()) });
    // The outer keeper needs the number where it does not inherit the agent (macOS). If it is dead
    // already, the watch will see it.
    let _ = io::Write::write(&mut &link, &agent.as_raw_nonzero().get().to_ne_bytes());
    Watch::of_inner(control, link, exits, agent, grace).run();
    Ok(())
}

/// Starts the agent. The keeper's copies of its streams are closed on return, so that their ends
/// mean what the agent does.
#[expect(clippy::disallowed_methods, reason = "the keeper is what processes are to be started under")]
fn start_agent(errand: Errand, files: ChildFiles) -> io::Result<Pid> {
    let mut command = Command::new(errand.program);
    command.args(errand.args).stdin(files.stdin).stdout(files.stdout).stderr(files.stderr);
    prepare_agent(&mut command);
    let agent = command.spawn()?;
    Ok(Pid::from_child(&agent))
}
