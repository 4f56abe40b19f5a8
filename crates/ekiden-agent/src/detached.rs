//! Two plain ways to run a program for a hook, which has no engine and no keeper.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a program that nobody waits for, without input or output.
///
/// # Errors
///
/// If it cannot be started.
#[expect(clippy::disallowed_methods, reason = "processes are created in this crate")]
pub fn start(program: &Path, args: &[OsString], dir: &Path) -> io::Result<()> {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop)
}

/// Makes this process the first of a session of its own, so that whoever ends the hook's processes does
/// not end it. One that leads its group already stays in its session.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}

/// What a shell command says to an input. Its errors are its own.
///
/// # Errors
///
/// If the shell cannot be started or waited for.
#[expect(clippy::disallowed_methods, reason = "processes are created in this crate")]
pub fn filter(command: &OsStr, input: &[u8], dir: &Path) -> io::Result<Vec<u8>> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if dir.is_dir() {
        shell.current_dir(dir);
    }
    let mut child = shell.spawn()?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        // A command that does not read its input is none the worse for it.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output().map(|output| output.stdout)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-06
    #[test]
    fn a_command_is_fed_and_heard() {
        let said =
            |command: &str, input: &[u8]| filter(command.as_ref(), input, Path::new("/")).expect("run");
        assert_eq!(said("tr a-z A-Z", b"line"), b"LINE");
        assert_eq!(said("echo not reading", &vec![b'x'; 1 << 20]), b"not reading\n");
        assert_eq!(said("exit 3", b""), b"");
    }
}
