//! The guard at work in a session that a person started: short processes that the client calls.
//!
//! ```text
//! client ──► `ekiden hook EVENT` ──► Watched (files) ──► core: decide ──► log ──► answer on stdout
//! the mod ──► `ekiden hook EVENT --mod`, and where a session is quiet nothing
//!        ──► `ekiden statusline` ──► Watched          └──► core: a line  │
//!                                                                       └──► `__checkpoint`, detached
//!                                                                             git, document, log
//! ```
//!
//! Theory of operation: only files live between two calls. A call folds the session's log, reads the end of
//! the transcript, and asks the pure core what to do. It takes the session's lock only when there is
//! something to record, and then decides again on what it finds. The slow work of a checkpoint runs in a
//! separate process.
//!
//! Invariants:
//! - *It fails open.* Bad input, a full disk, a panic: the exit code is 0 or 1, never 2, which would block
//!   the client. The client gets no answer, and a line in `guard/errors.log` says why.
//! - *It stands aside* in sessions of ekiden and in everything they start: their engine watches them.
//! - *Subagents are not watched.* Their context is not the session's.
//! - A hook is quick: beyond core, wire and store it uses only the clock and the resolving of paths. What takes
//!   longer (git, a tracker, the memory's index, OTLP) is in [`checkpoint`], in a separate process. Entries for
//!   the memory are appended to a file.

mod checkpoint;
mod client_mod;
mod handoff;
mod hook;
mod part;
mod ralph;
mod report;
mod statusline;
mod watched;
mod window;

pub use checkpoint::take as take_checkpoint;
pub use hook::Called;
pub use watched::{Watched, began_in};
pub use window::{Compaction, WINDOW_UNKNOWN};

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, Read};

use crate::exit::Exit;

/// How much of the client's input is read: a batch of tools can hold large answers.
const INPUT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Runs a hook, a status line or a detached process of theirs (also one that sends what waits for a tracker) if the
/// command line asks for one; otherwise does nothing. Call it before anything slow: parsing a full command line takes
/// longer than all of a hook's work. And the parser would exit with 2 at an unknown word, which blocks the client; here
/// such a word is ignored.
pub fn run_if_asked() -> Option<Exit> {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (role, rest) = args.split_first()?;
    let asks_for_help = rest.iter().any(|arg| arg == "--help" || arg == "-h");
    let is_called = || !rest.is_empty() || !std::io::stdin().is_terminal();
    match role.to_str()? {
        // A person at a terminal is told what is missing.
        "hook" if !asks_for_help && is_called() => {
            let has = |flag: &str| rest.iter().any(|arg| arg == flag);
            Some(hook(Called {
                by_plugin: has("--plugin"),
                by_mod: has("--mod"),
            }))
        }
        "statusline" if !asks_for_help => {
            let wrap = rest
                .iter()
                .position(|arg| arg == "--wrap")
                .and_then(|at| rest.get(at + 1));
            Some(statusline(wrap.map(OsString::as_os_str)))
        }
        checkpoint::ROLE => Some(failing_open(|| checkpoint::run(rest))),
        checkpoint::TELL_ROLE => Some(failing_open(|| checkpoint::run_tell(rest))),
        crate::tracker::ROLE => Some(failing_open(crate::tracker::run)),
        checkpoint::END_ROLE => Some(failing_open(|| checkpoint::run_end(rest))),
        checkpoint::TURN_ROLE => Some(failing_open(|| checkpoint::run_turn(rest))),
        _ => None,
    }
}

pub fn hook(called: Called) -> Exit {
    failing_open(|| hook::run(called))
}

/// One call of a status line, on top of another program's if there is one.
pub fn statusline(wrap: Option<&OsStr>) -> Exit {
    failing_open(|| statusline::run(wrap))
}

/// Whatever happens, the client continues: a panic exits with 1, whether panics unwind in this build or
/// not.
fn failing_open(work: impl FnOnce()) -> Exit {
    // `main` sets the first panic hook, which aborts; the one that it replaces only reports.
    drop(std::panic::take_hook());
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        report::note(&panic.to_string());
        std::process::exit(i32::from(Exit::Unfinished.code()));
    }));
    work();
    Exit::Done
}

/// The client's input on standard input.
fn input() -> String {
    let mut bytes = Vec::new();
    // What was read before an error is all there is.
    let _ = std::io::stdin()
        .lock()
        .take(INPUT_BYTES_MAX)
        .read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use ekiden_core::time::Timestamp;

    use super::*;

    /// The state directory of the copy of this program that panics.
    const STATE_DIR: &str = "EKIDEN_TEST_PANIC_STATE_DIR";

    /// Seen from outside, by a copy of this program that runs this test alone.
    // shows: SEC-05
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the exit code of a panic can only be seen from outside"
    )]
    fn a_panic_ends_with_1_and_a_line_in_the_log() {
        if let Some(dir) = std::env::var_os(STATE_DIR) {
            report::at(dir.as_ref(), Timestamp(0));
            // As `main` does.
            crate::output::view_thread::end_on_panic();
            failing_open(|| panic!("on purpose"));
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("guard")).unwrap();
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["a_panic_ends_with_1_and_a_line_in_the_log", "--nocapture"])
            .env(STATE_DIR, dir.path())
            .output()
            .unwrap();
        assert_eq!(child.status.code(), Some(1), "{child:?}");
        let log = std::fs::read_to_string(dir.path().join("guard/errors.log")).unwrap();
        assert!(log.contains("on purpose"), "{log}");
        assert_eq!(log.lines().count(), 1, "{log}");
    }
}
