//! A program that has the terminal to itself: the user's editor or pager.
//!
//! The one child without a keeper: it belongs to the person at the terminal, not to a run. While it runs,
//! ctrl-c and ctrl-\ are for it; ekiden only waits.

#![expect(
    clippy::disallowed_methods,
    reason = "an editor belongs to the person, not to a keeper"
)]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs a program on our own terminal and waits for its end.
pub fn run(program: &OsStr, args: &[OsString]) -> io::Result<ExitStatus> {
    leave_signals_to_it()?;
    Command::new(program).args(args).status()
}

/// The same with a text to read, for a pager, which need not read all of it.
pub fn read(program: &OsStr, args: &[OsString], text: &str) -> io::Result<ExitStatus> {
    leave_signals_to_it()?;
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = child.stdin.take() {
        let _ = input.write_all(text.as_bytes());
    }
    child.wait()
}

/// Becomes another program, which reads `input` if there is any. Comes back only with the reason why not.
pub fn become_program(program: &Path, args: &[&str], input: Option<File>) -> io::Error {
    let mut command = Command::new(program);
    command.args(args);
    if let Some(input) = input {
        command.stdin(input);
    }
    command.exec()
}

fn leave_signals_to_it() -> io::Result<()> {
    // A handler, not "ignore": the program would inherit that.
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-01
    #[test]
    fn a_text_is_read_or_left() {
        let shell = |command: &str, text: &str| {
            let ended = read("sh".as_ref(), &["-c".into(), command.into()], text);
            ended.unwrap().code()
        };
        assert_eq!(shell("read line; test \"$line\" = it", "it\n"), Some(0));
        assert_eq!(shell("exit 3", &"x".repeat(1 << 20)), Some(3));
    }

    #[test]
    fn the_end_of_the_program_is_told() {
        let status = run("sh".as_ref(), &["-c".into(), "exit 3".into()]).unwrap();
        assert_eq!(status.code(), Some(3));
        assert_eq!(
            run("/no/such/editor".as_ref(), &[]).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
