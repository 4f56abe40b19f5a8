//! A program that has the terminal to itself: the user's editor.
//!
//! The one child without a keeper: it belongs to the person at the terminal, not to a run. While it runs,
//! ctrl-c and ctrl-\ are for it; ekiden only waits.

#![expect(
    clippy::disallowed_methods,
    reason = "an editor belongs to the person, not to a keeper"
)]

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs a program on our own terminal and waits for its end.
pub fn run(program: &OsStr, args: &[OsString]) -> io::Result<ExitStatus> {
    // A handler, not "ignore": the program would inherit that.
    for signal in [libc::SIGINT, libc::SIGQUIT] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Command::new(program).args(args).status()
}

#[cfg(test)]
mod tests {
    use super::*;

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
