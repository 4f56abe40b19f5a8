//! The hidden role in which the client calls ekiden: it passes a question to the engine and the answer
//! back, and decides nothing.
//!
//! It fails open: without an engine it prints nothing and exits with 0, and the client follows its own rules.
//! It uses no runtime, no settings and no file, because it is started for every tool call.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::address::Address;

/// The first argument that makes ekiden a hook: `__hook SOCKET KIND`, the client's input on standard
/// input.
pub const ROLE: &str = "__hook";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Hook,
    StatusLine,
    /// Our function inside the client, when no turn is running.
    Mod,
}

impl Asker {
    /// The word on the command line, and the first line on the socket.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hook => "hook",
            Self::StatusLine => "status-line",
            Self::Mod => "mod",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Hook, Self::StatusLine, Self::Mod]
            .into_iter()
            .find(|asker| asker.name() == name)
    }
}

/// If the command line says so, becomes a hook and never returns; else does nothing. Call it
/// first in `main`.
pub fn run_if_asked() {
    let mut args = std::env::args_os().skip(1);
    if args.next().as_deref() != Some(OsStr::new(ROLE)) {
        return;
    }
    let (socket, word) = (args.next(), args.next());
    let asker = word.and_then(|word| Asker::named(word.to_str()?));
    if let (Some(socket), Some(asker)) = (socket, asker) {
        // No engine to report to: the client follows its own rules.
        let _ = carry(
            Path::new(&socket),
            asker,
            &mut io::stdin(),
            &mut io::stdout(),
        );
    }
    std::process::exit(0);
}

fn carry(
    socket: &Path,
    asker: Asker,
    question: &mut impl Read,
    answer: &mut impl Write,
) -> io::Result<()> {
    let mut engine = UnixStream::connect(&Address::of(socket)?.path)?;
    writeln!(engine, "{}", asker.name())?;
    io::copy(question, &mut engine)?;
    engine.shutdown(Shutdown::Write)?;
    io::copy(&mut engine, answer)?;
    answer.flush()
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    // shows: AGT-02, HND-08
    #[test]
    fn a_question_is_carried_and_its_answer_printed() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).expect("bound");
        let engine = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a caller");
            let mut question = String::new();
            stream.read_to_string(&mut question).expect("a question");
            stream.write_all(b"{}").expect("answered");
            question
        });
        let mut answer = Vec::new();
        carry(&socket, Asker::Hook, &mut &b"{\"a\":1}"[..], &mut answer).expect("carried");
        assert_eq!(engine.join().expect("no panic"), "hook\n{\"a\":1}");
        assert_eq!(answer, b"{}");
    }

    // shows: SEC-05
    #[test]
    fn without_an_engine_there_is_no_answer() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut answer = Vec::new();
        let carried = carry(
            &dir.path().join("s"),
            Asker::Hook,
            &mut &b"{}"[..],
            &mut answer,
        );
        assert!(carried.is_err() && answer.is_empty());
    }
}
