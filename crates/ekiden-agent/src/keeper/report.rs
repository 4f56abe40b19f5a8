//! What engine and keeper say to each other on the control socket.
//!
//! The engine writes single bytes; the keepers send reports, each one line of JSON. Both directions end when the
//! other side is dead, and neither side ever waits for the other to read.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::WaitStatus;
use serde::{Deserialize, Serialize};

/// What the engine writes to end the agent and all its descendants: SIGTERM, the grace time, SIGKILL.
pub(crate) const TERMINATE: u8 = b'T';

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeeperReport {
    /// The agent runs, with this pid.
    Started(u32),
    /// How the agent ended; or one of the two keepers was killed, and the other ends everything.
    Ended(ChildEnd),
    /// Nothing is left, or only what cannot be ended.
    Over,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildEnd {
    Exited(i32),
    Signaled(i32),
    /// It never ran, for this reason.
    NotStarted(String),
    /// Somebody killed its keeper, and the program was ended because of that.
    KeeperLost,
}

impl ChildEnd {
    pub(crate) fn of(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signaled(signal.unwrap_or(0)),
        }
    }
}

/// The bytes of reports that have arrived. The last report may be half a line.
#[derive(Debug, Default)]
pub(crate) struct Reports(Vec<u8>);

impl Reports {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole report. Other lines are skipped: a keeper that is really another program is detected when
    /// it ends.
    pub(crate) fn next(&mut self) -> Option<KeeperReport> {
        loop {
            let end = self.0.iter().position(|byte| *byte == b'\n')?;
            let line: Vec<u8> = self.0.drain(..=end).collect();
            if let Ok(report) = serde_json::from_slice(&line) {
                return Some(report);
            }
        }
    }
}

/// What a keeper hears from the engine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Terminate,
    Nothing,
    /// The engine is dead, or has dropped its handle.
    Gone,
}

/// A keeper's end of the control socket. Both keepers hold it; one of them listens.
#[derive(Debug)]
pub(crate) struct Control(UnixStream);

impl Control {
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Sends reports to the engine, if it lives: all at once, since each write wakes it.
    pub(crate) fn tell(&self, reports: &[KeeperReport]) {
        let json = |report| serde_json::to_string(report).unwrap_or_default() + "\n";
        let lines: String = reports.iter().map(json).collect();
        // A dead engine needs no report, and the socket holds more than all reports together.
        let _ = (&self.0).write_all(lines.as_bytes());
    }

    /// The next thing that the engine said.
    pub(crate) fn hear(&self) -> Heard {
        let mut byte = [0];
        match (&self.0).read(&mut byte) {
            Ok(0) => Heard::Gone,
            Ok(_) => Heard::Terminate,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                Heard::Nothing
            }
            Err(_broken) => Heard::Gone,
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<KeeperReport> {
        vec![
            KeeperReport::Started(8),
            KeeperReport::Ended(ChildEnd::NotStarted("a\nreason".to_owned())),
            KeeperReport::Ended(ChildEnd::Exited(3)),
            KeeperReport::Ended(ChildEnd::Signaled(9)),
            KeeperReport::Ended(ChildEnd::KeeperLost),
            KeeperReport::Over,
        ]
    }

    #[test]
    fn reports_survive_the_wire_in_any_pieces() {
        let text = all()
            .iter()
            .map(|report| serde_json::to_string(report).expect("plain data") + "\n")
            .collect::<String>();
        for piece in [1, 2, 5, text.len()] {
            let mut reports = Reports::default();
            let mut read = Vec::new();
            for bytes in text.as_bytes().chunks(piece) {
                reports.push(bytes);
                read.extend(std::iter::from_fn(|| reports.next()));
            }
            assert_eq!(read, all(), "in pieces of {piece}");
        }
    }

    #[test]
    fn other_lines_are_passed_over() {
        let mut reports = Reports::default();
        reports
            .push(b"\nhello there\n{\"Ended\":\"x\"}\n{\"Ended\":\"KeeperLost\"}\n{\"Started\":1");
        let lost = KeeperReport::Ended(ChildEnd::KeeperLost);
        assert_eq!(reports.next(), Some(lost));
        assert_eq!(reports.next(), None);
    }

    #[test]
    fn a_command_is_heard_and_so_is_the_end() {
        let (engine, keeper) = UnixStream::pair().expect("a socket pair");
        let control = Control::new(keeper).expect("a control");
        assert_eq!(control.hear(), Heard::Nothing);
        (&engine).write_all(&[TERMINATE]).expect("room");
        assert_eq!(control.hear(), Heard::Terminate);
        drop(engine);
        assert_eq!(control.hear(), Heard::Gone);
        control.tell(&[KeeperReport::Over]);
    }
}
