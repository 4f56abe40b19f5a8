//! From the exec of the keeper to the exec of the agent.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{Pid, getpgrp, getpid, setpgid, setsid};

use crate::keeper::files::{ChildFiles, take_over};
use crate::keeper::outer::Outer;
use crate::keeper::report::{Control, Report};
use crate::keeper::terminal::Terminal;
use crate::keeper::watch::Watch;
use crate::keeper::{AgentPlace, EXIT_USAGE, Errand};
use crate::outer_env::{OUTER_AGENT_ENV, OUTER_GIT_ENV};
use crate::platform;
use crate::unix::{ChildExits, Forked, fork, ignore_requests, prepare_agent};

/// Waits for the errand, then runs both keepers, one in each of two processes. Returns the exit code.
pub(super) fn run() -> i32 {
    // Whoever asks a keeper to go means the engine, which is in the same process group until then.
    ignore_requests();
    let Ok((control, errand, files)) = take_over_all() else { return EXIT_USAGE };
    match divide(errand, &control, files) {
        Ok(()) => 0,
        Err(error) => {
            let why = format!("the keeper failed: {error}");
            control.tell(&[Report::NotStarted(why), Report::Left(0)]);
            0
        }
    }
}

fn take_over_all() -> io::Result<(Control, Errand, ChildFiles)> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (errand, files) = take_over(&socket)?;
    Ok((Control::new(socket)?, errand, files))
}

/// Becomes two processes, each of which keeps the lock while it lives.
fn divide(errand: Errand, control: &Control, files: ChildFiles) -> io::Result<()> {
    let engines_group = getpgrp();
    match errand.place {
        AgentPlace::Alone => drop(setsid()?),
        // The terminal belongs to a session; what is pressed there goes to the engine's group alone.
        AgentPlace::Terminal => setpgid(None, None)?,
    }
    platform::adopt_orphans()?;
    platform::show_as_keeper();
    let ChildFiles { stdin, stdout, stderr, lock } = files;
    let terminal = match errand.place {
        AgentPlace::Alone => None,
        AgentPlace::Terminal => Some(Terminal::of(&stdin, engines_group)?),
    };
    let (outer_link, inner_link) = UnixStream::pair()?;
    match fork()? {
        Forked::Parent(inner) => {
            drop((stdin, stdout, stderr, inner_link));
            Outer::new(control, outer_link, inner, errand.grace)?.run(terminal);
        }
        Forked::Child => {
            drop(outer_link);
            let files = ChildFiles { stdin, stdout, stderr, lock: None };
            run_inner(errand, control, inner_link, files, terminal)?;
        }
    }
    drop(lock);
    Ok(())
}

fn run_inner(
    errand: Errand,
    control: &Control,
    link: UnixStream,
    files: ChildFiles,
    terminal: Option<Terminal>,
) -> io::Result<()> {
    platform::adopt_orphans()?;
    link.set_nonblocking(true)?;
    let exits = ChildExits::new()?;
    let grace = errand.grace;
    let agent = match start_agent(errand, files, terminal.as_ref().map(Terminal::group)) {
        Ok(agent) => agent,
        Err(error) => {
            control.tell(&[Report::NotStarted(error.to_string()), Report::Left(0)]);
            return Ok(());
        }
    };
    let pid = |of: Pid| of.as_raw_nonzero().get().unsigned_abs();
    control.tell(&[Report::Started { agent: pid(agent), inner: pid(getpid()) }]);
    // The outer keeper needs the number where it does not inherit the agent (macOS). If it is dead
    // already, the watch will see it.
    let _ = io::Write::write(&mut &link, &agent.as_raw_nonzero().get().to_ne_bytes());
    Watch::of_inner(control, link, exits, agent, grace).over(terminal).run();
    Ok(())
}

/// Starts the agent. The keeper's copies of its streams are closed on return, so that their ends
/// mean what the agent does. `group` is the one that it joins if it is to be on a terminal.
#[expect(clippy::disallowed_methods, reason = "the keeper is what processes are to be started under")]
fn start_agent(errand: Errand, files: ChildFiles, group: Option<Pid>) -> io::Result<Pid> {
    let mut command = Command::new(errand.program);
    command.args(errand.args).current_dir(errand.dir);
    for name in OUTER_AGENT_ENV.iter().chain(&OUTER_GIT_ENV) {
        command.env_remove(name);
    }
    command.envs(errand.env_set);
    command.stdin(files.stdin).stdout(files.stdout).stderr(files.stderr);
    prepare_agent(&mut command, group);
    let agent = command.spawn()?;
    Ok(Pid::from_child(&agent))
}
