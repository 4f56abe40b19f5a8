//! Programs started for a hook or a web page, without an engine or a keeper.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// Starts a program without waiting for it, and without input or output. It runs on if its handle is dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "processes are created in this crate"
)]
pub fn start(program: &Path, args: &[OsString], dir: &Path) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn()
}

/// Runs a program to its end, without input.
#[expect(
    clippy::disallowed_methods,
    reason = "processes are created in this crate"
)]
pub fn run(program: &Path, args: &[OsString]) -> io::Result<Output> {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
}

/// Puts this process in a separate session, so that ending the hook's processes does not end it. A process
/// group leader stays in its session.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}

/// The output of a shell command for an input. Its errors are dropped.
#[expect(
    clippy::disallowed_methods,
    reason = "processes are created in this crate"
)]
pub fn filter(command: &OsStr, input: &[u8], dir: &Path) -> io::Result<Vec<u8>> {
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if dir.is_dir() {
        shell.current_dir(dir);
    }
    let mut child = shell.spawn()?;
    let stdin = child.stdin.take();
    std::thread::scope(|scope| {
        // A command does not have to read its input.
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
        let said = |command: &str, input: &[u8]| {
            filter(command.as_ref(), input, Path::new("/")).expect("run")
        };
        assert_eq!(said("tr a-z A-Z", b"line"), b"LINE");
        assert_eq!(
            said("echo not reading", &vec![b'x'; 1 << 20]),
            b"not reading\n"
        );
        assert_eq!(said("exit 3", b""), b"");
    }
}
