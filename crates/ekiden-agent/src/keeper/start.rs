//! From the exec of the keeper to the exec of the agent.

use std::env;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::{Pid, getpgrp, setpgid, setsid};

use crate::keeper::files::{self, ChildFiles};
use crate::keeper::outer::Outer;
use crate::keeper::report::{ChildEnd, Control, KeeperReport};
use crate::keeper::terminal::Terminal;
use crate::keeper::watch::Watch;
use crate::keeper::{ChildCommand, EXIT_USAGE};
use crate::outer_env::{OUTER_AGENT_ENV, OUTER_AUTHOR_ENV, OUTER_GIT_ENV};
use crate::platform;
use crate::unix::{ChildExits, Forked, fork, ignore_requests, prepare_agent};

/// Waits for the command, then runs both keepers, one in each of two processes. Returns the exit code.
pub(super) fn run() -> i32 {
    // A request to end a keeper is meant for the engine, which is in the same process group until then.
    ignore_requests();
    let Ok((control, command, files)) = receive() else {
        return EXIT_USAGE;
    };
    if let Err(error) = divide(command, &control, files) {
        not_started(&control, format!("the keeper failed: {error}"));
    }
    0
}

fn receive() -> io::Result<(Control, ChildCommand, ChildFiles)> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (command, files) = files::receive(&socket)?;
    Ok((Control::new(socket)?, command, files))
}

/// Becomes two processes, each of which holds the lock while it lives.
fn divide(command: ChildCommand, control: &Control, files: ChildFiles) -> io::Result<()> {
    // Asked only on a terminal: in a pid namespace that does not contain the group, the group has no number.
    let engines_group = command.on_terminal.then(getpgrp);
    if command.on_terminal {
        // The terminal belongs to a session; keys pressed there reach only the engine's group.
        setpgid(None, None)?;
    } else {
        setsid()?;
    }
    platform::adopt_orphans()?;
    platform::show_as_keeper();
    let ChildFiles {
        stdin,
        stdout,
        stderr,
        lock,
    } = files;
    let terminal = engines_group.map(|group| Terminal::of(&stdin, group));
    let terminal = terminal.transpose()?;
    let (outer_link, inner_link) = UnixStream::pair()?;
    match fork()? {
        Forked::Parent(inner) => {
            drop((stdin, stdout, stderr, inner_link));
            Outer::new(control, outer_link, inner, command.grace)?.run(terminal);
        }
        Forked::Child => {
            drop(outer_link);
            let files = ChildFiles {
                stdin,
                stdout,
                stderr,
                lock: None,
            };
            run_inner(command, control, inner_link, files, terminal)?;
        }
    }
    drop(lock);
    Ok(())
}

fn run_inner(
    command: ChildCommand,
    control: &Control,
    link: UnixStream,
    files: ChildFiles,
    terminal: Option<Terminal>,
) -> io::Result<()> {
    platform::adopt_orphans()?;
    link.set_nonblocking(true)?;
    let exits = ChildExits::new()?;
    let grace = command.grace;
    let agent = match start_agent(command, files, terminal.as_ref().map(Terminal::group)) {
        Ok(agent) => agent,
        Err(error) => {
            not_started(control, error.to_string());
            return Ok(());
        }
    };
    let pid = agent.as_raw_nonzero().get();
    control.tell(&[KeeperReport::Started(pid.unsigned_abs())]);
    // The outer keeper needs the number where it does not inherit the agent (macOS). If it is dead
    // already, the watch will see it.
    let _ = io::Write::write(&mut &link, &pid.to_ne_bytes());
    Watch::new(control, Some(link), exits, Some(agent), terminal, grace).run();
    Ok(())
}

fn not_started(control: &Control, why: String) {
    let end = ChildEnd::NotStarted(why);
    control.tell(&[KeeperReport::Ended(end), KeeperReport::Over]);
}

/// Starts the agent. The keeper's copies of its streams are closed on return, so that their ends
/// reflect what the agent does. `group` is the one that it joins if it should be on a terminal.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the keeper that processes are to be started under"
)]
fn start_agent(command: ChildCommand, files: ChildFiles, group: Option<Pid>) -> io::Result<Pid> {
    let mut agent = Command::new(command.program);
    agent.args(command.args).current_dir(command.dir);
    let is_in_hook = env::var_os("GIT_INDEX_FILE").is_some();
    let author = OUTER_AUTHOR_ENV.iter().filter(|_| is_in_hook);
    for name in OUTER_AGENT_ENV.iter().chain(&OUTER_GIT_ENV).chain(author) {
        agent.env_remove(name);
    }
    agent
        .envs(command.env_set)
        .stdin(files.stdin)
        .stdout(files.stdout)
        .stderr(files.stderr);
    prepare_agent(&mut agent, group);
    Ok(Pid::from_child(&agent.spawn()?))
}
