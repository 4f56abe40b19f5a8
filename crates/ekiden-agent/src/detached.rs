//! Programs started for a hook or a web page, without an engine or a keeper.

#![expect(
    clippy::disallowed_methods,
    reason = "processes are created in this crate"
)]

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::unix::in_own_session;

/// Starts a program without waiting for it, and without input or output. It runs on if its handle is dropped, or if this
/// process and its group are ended, as a client does to a hook that has answered.
pub fn start(program: &Path, args: &[OsString], dir: &Path) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    in_own_session(&mut command);
    command.spawn()
}

/// Runs a program to its end, without input.
pub fn run(program: &Path, args: &[OsString]) -> io::Result<Output> {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
}

/// How much output of a filter is read.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;

/// The output of a shell command for an input. Its errors are dropped. If it does not end in time (it, or what it
/// leaves running with its output), or this process is asked to end, it is an error, and all of its processes are
/// killed.
pub fn filter(
    command: &OsStr,
    input: &[u8],
    dir: &Path,
    patience: Duration,
) -> io::Result<Vec<u8>> {
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
    let mut child = shell.process_group(0).spawn()?;
    let group = Pid::from_child(&child);
    let (stdin, stdout, input) = (child.stdin.take(), child.stdout.take(), input.to_vec());
    // A command does not have to read its input.
    std::thread::spawn(move || stdin.map(|mut stdin| stdin.write_all(&input)));
    let (sender, receiver) = mpsc::channel();
    let (mut asked, asks) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(libc::SIGTERM, asks)?;
    let ends = sender.clone();
    std::thread::spawn(move || asked.read(&mut [0]).map(|_| ends.send(None)));
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = stdout.map(|stdout| stdout.take(OUTPUT_BYTES_MAX).read_to_end(&mut said));
        read.map(|_| sender.send(Some(said)))
    });
    let said = receiver.recv_timeout(patience).ok().flatten();
    if said.is_none() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    said.ok_or_else(|| io::ErrorKind::TimedOut.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-06
    #[test]
    fn a_command_is_fed_and_heard() {
        let said = |command: &str, input: &[u8]| {
            let dir = Path::new("/");
            filter(command.as_ref(), input, dir, Duration::from_secs(20)).expect("run")
        };
        assert_eq!(said("tr a-z A-Z", b"line"), b"LINE");
        assert_eq!(
            said("echo not reading", &vec![b'x'; 1 << 20]),
            b"not reading\n"
        );
        assert_eq!(said("exit 3", b""), b"");
        assert!(said("yes", b"").len() < 1 << 20);
    }

    // shows: UIX-06
    #[test]
    fn a_command_that_does_not_end_is_not_waited_for() {
        for command in ["sleep 60", "sleep 60 & echo line"] {
            let patience = Duration::from_millis(200);
            let said = filter(command.as_ref(), b"", Path::new("/"), patience);
            assert!(said.is_err(), "{command}");
        }
    }

    // shows: UIX-06
    #[test]
    fn nothing_is_left_of_a_command_that_does_not_end() {
        let temp = tempfile::tempdir().unwrap();
        let (command, patience) = ("(sleep 1; touch left) | cat", Duration::from_millis(200));
        assert!(filter(command.as_ref(), b"", temp.path(), patience).is_err());
        std::thread::sleep(Duration::from_millis(1_500));
        assert!(!temp.path().join("left").exists());
    }
}
