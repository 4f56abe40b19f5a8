//! Checks what a run needs from the machine: git, disk space, a terminal, system limits.

use std::io::IsTerminal;
use std::path::Path;

use ekiden_agent::task::run_quick;
use ekiden_core::time::Millis;
use ekiden_engine::workspace::Workspace;
use rustix::fs::{Access, access, statvfs};
use rustix::process::{Resource, getrlimit};

use super::Check;
use crate::exit::Exit;
use crate::output::line::one_line;
use crate::settings::environment::Environment;

/// A few sessions' event streams fill less space than this.
const FREE_BYTES_WANTED: u64 = 1 << 30;
/// With less space a log may not be written to its end.
const FREE_BYTES_NEEDED: u64 = 64 << 20;
/// Files that a run may have open: pipes, locks and logs of an agent and its tasks, and some.
const OPEN_FILES_NEEDED: u64 = 128;
/// How long git may take to tell its version.
const PATIENCE: Millis = Millis::from_secs(10);

pub(super) fn checks(workspace: &Workspace, environment: &Environment) -> Vec<Check> {
    vec![
        git(workspace),
        disk(workspace),
        terminal(environment),
        open_files(),
        platform(),
    ]
}

fn git(workspace: &Workspace) -> Check {
    let Ok(version) = run_quick("git", &["--version"], &workspace.dir, PATIENCE) else {
        let remedy = "install it: without git ekiden cannot see changes or commit";
        return Check::warning("git", "not installed", remedy);
    };
    let version = one_line(String::from_utf8_lossy(&version.stdout).trim());
    if is_old(&version) {
        let remedy = "install git 2.38 or newer: ekiden cannot commit or merge with an older one";
        return Check::warning("git", version, remedy);
    }
    match &workspace.git {
        Some(_) => Check::ok("git", format!("{version}; the work dir is in a repository")),
        None => Check::warning(
            "git",
            format!("{version}; the work dir is not in a repository"),
            "`git init`, to see and undo every session's changes",
        ),
    }
}

/// Older than 2.38, if it says so: `git version 2.25.1`.
fn is_old(version: &str) -> bool {
    let numbers = version.strip_prefix("git version ");
    let mut numbers = numbers.into_iter().flat_map(|numbers| numbers.split('.'));
    let mut number = || numbers.next()?.parse::<u32>().ok();
    number().zip(number()).is_some_and(|found| found < (2, 38))
}

/// The state directory may not exist yet; then the nearest directory above it counts.
fn disk(workspace: &Workspace) -> Check {
    let above = workspace
        .state_dir
        .ancestors()
        .find(|dir| dir.is_dir())
        .unwrap_or(Path::new("/"));
    if let Err(error) = access(above, Access::WRITE_OK) {
        let found = format!("{} cannot be written: {error}", above.display());
        return Check::failure(
            "disk",
            Exit::State,
            found,
            "name another place with EKIDEN_STATE_DIR",
        );
    }
    let room = match statvfs(above) {
        Ok(room) => room.f_bavail.saturating_mul(room.f_frsize),
        Err(error) => {
            return Check::warning(
                "disk",
                format!("the free space is unknown: {error}"),
                "check it with `df`",
            );
        }
    };
    let found = format!(
        "{} MB free for {}",
        room >> 20,
        workspace.state_dir.display()
    );
    match room {
        ..FREE_BYTES_NEEDED => Check::failure("disk", Exit::State, found, "free some space"),
        FREE_BYTES_NEEDED..FREE_BYTES_WANTED => {
            Check::warning("disk", found, "long runs need more; free some space")
        }
        FREE_BYTES_WANTED.. => Check::ok("disk", found),
    }
}

fn terminal(environment: &Environment) -> Check {
    if !std::io::stdout().is_terminal() {
        return Check::ok(
            "terminal",
            "none: runs print plain lines, or JSON with `--json`",
        );
    }
    match environment.variable("TERM") {
        None | Some("dumb") => Check::warning(
            "terminal",
            "it cannot redraw a line (see TERM)",
            "set TERM to the terminal's type",
        ),
        Some(term) => Check::ok("terminal", one_line(term)),
    }
}

fn open_files() -> Check {
    match getrlimit(Resource::Nofile).current {
        Some(most) if most < OPEN_FILES_NEEDED => Check::warning(
            "open files",
            format!("at most {most}"),
            format!(
                "`ulimit -n {OPEN_FILES_NEEDED}` or more: agents and their tools open many files"
            ),
        ),
        Some(most) => Check::ok("open files", format!("at most {most}")),
        None => Check::ok("open files", "without limit"),
    }
}

/// What the keeper can promise.
fn platform() -> Check {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    if cfg!(target_os = "linux") {
        return Check::ok(
            "platform",
            format!(
                "{system} {machine}: what a run starts ends with it, unless ekiden and all its keepers are killed at once"
            ),
        );
    }
    Check::warning(
        "platform",
        format!(
            "{system} {machine}: a tool that leaves its process group may outlive a killed run"
        ),
        "after a crash, look for tools that are still running",
    )
}

#[cfg(test)]
mod tests {
    use super::is_old;

    // shows: RUN-20
    #[test]
    fn a_git_that_cannot_commit_or_merge_is_told() {
        for old in ["git version 2.25.1", "git version 1.99"] {
            assert!(is_old(old), "{old}");
        }
        for new in [
            "git version 2.38.0",
            "git version 2.39.5 (Apple Git-154)",
            "git version 3.0.0",
            "git version next",
        ] {
            assert!(!is_old(new), "{new}");
        }
    }
}
