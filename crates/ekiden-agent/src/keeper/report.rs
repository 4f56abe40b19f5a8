//! What engine and keeper say to each other on the control socket.
//!
//! The engine sends orders of one byte each; the keepers send reports of one line each, so that the
//! traffic can be read in a trace. Both directions end when the other side is dead, and neither side
//! ever waits for the other to listen.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::str::FromStr;

use rustix::process::WaitStatus;

/// What the engine wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// SIGTERM, the grace time, SIGKILL, for the agent and all its descendants.
    Terminate,
    /// SIGKILL for all of them, now.
    Kill,
}

impl Order {
    /// The order on the wire.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Self::Terminate => b'T',
            Self::Kill => b'K',
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        [Self::Terminate, Self::Kill].into_iter().find(|order| order.byte() == byte)
    }
}

/// What the keepers tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Report {
    /// The agent runs. One report for both pids: each would wake the engine.
    Started { agent: u32, inner: u32 },
    /// The agent could not be started, and why.
    NotStarted(String),
    /// The agent exited with this code.
    Exited(i32),
    /// The agent was ended by this signal.
    Signaled(i32),
    /// One of the two keepers was killed; the other ends everything.
    KeeperDied,
    /// So many descendants are alive and cannot be ended; 0: nothing is left.
    Left(u32),
}

impl Report {
    /// How a reaped agent ended.
    pub(crate) fn of_end(status: WaitStatus) -> Self {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Self::Exited(code),
            (None, signal) => Self::Signaled(signal.unwrap_or(0)),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started { agent, inner } => write!(f, "started {agent} {inner}"),
            Self::NotStarted(why) => write!(f, "not-started {}", why.replace('\n', " ")),
            Self::Exited(code) => write!(f, "exited {code}"),
            Self::Signaled(signal) => write!(f, "signaled {signal}"),
            Self::KeeperDied => write!(f, "keeper-died -"),
            Self::Left(count) => write!(f, "left {count}"),
        }
    }
}

/// A line is no report.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoReport;

impl FromStr for Report {
    type Err = NoReport;

    fn from_str(line: &str) -> Result<Self, NoReport> {
        fn number<T: FromStr>(text: &str) -> Result<T, NoReport> {
            text.parse().map_err(|_not_a_number| NoReport)
        }
        match line.split_once(' ').ok_or(NoReport)? {
            ("started", pids) => {
                let (agent, inner) = pids.split_once(' ').ok_or(NoReport)?;
                Ok(Self::Started { agent: number(agent)?, inner: number(inner)? })
            }
            ("not-started", why) => Ok(Self::NotStarted(why.to_owned())),
            ("exited", code) => Ok(Self::Exited(number(code)?)),
            ("signaled", signal) => Ok(Self::Signaled(number(signal)?)),
            ("keeper-died", _) => Ok(Self::KeeperDied),
            ("left", count) => Ok(Self::Left(number(count)?)),
            _other => Err(NoReport),
        }
    }
}

/// The bytes of reports that have arrived, of which the last may be half a line.
#[derive(Debug, Default)]
pub(crate) struct Reports(Vec<u8>);

impl Reports {
    /// Takes in what was read.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// The next whole report. Lines that are none are passed over: the keeper is the same
    /// executable, so there are none but after a stroke of bad luck with memory.
    pub(crate) fn next(&mut self) -> Option<Report> {
        loop {
            let end = self.0.iter().position(|byte| *byte == b'\n')?;
            let line = self.0.drain(..=end).collect::<Vec<_>>();
            if let Ok(report) = String::from_utf8_lossy(&line[..end]).parse() {
                return Some(report);
            }
        }
    }
}

/// What a keeper hears from the engine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// An order.
    Order(Order),
    /// Nothing new.
    Nothing,
    /// The engine is dead, or has dropped its handle.
    Gone,
}

/// A keeper's end of the control socket. Both keepers hold it; one of them listens.
#[derive(Debug)]
pub(crate) struct Control(UnixStream);

impl Control {
    /// Takes over the socket.
    pub(crate) fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Tells the engine, if it lives: all at once, since each telling wakes it.
    pub(crate) fn tell(&self, reports: &[Report]) {
        let lines: String = reports.iter().map(|report| format!("{report}\n")).collect();
        // A dead engine needs no report, and the socket holds more than all reports together.
        let _ = (&self.0).write_all(lines.as_bytes());
    }

    /// The next thing that the engine said.
    pub(crate) fn hear(&self) -> Heard {
        let mut byte = [0];
        match (&self.0).read(&mut byte) {
            Ok(0) => Heard::Gone,
            Ok(_) => Order::from_byte(byte[0]).map_or(Heard::Nothing, Heard::Order),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
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

    fn all() -> Vec<Report> {
        vec![
            Report::Started { agent: 8, inner: 7 },
            Report::NotStarted("no such file".to_owned()),
            Report::Exited(3),
            Report::Signaled(9),
            Report::KeeperDied,
            Report::Left(0),
        ]
    }

    #[test]
    fn reports_survive_the_wire_in_any_pieces() {
        let text = all().iter().map(|report| format!("{report}\n")).collect::<String>();
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
    fn a_reason_stays_on_its_line() {
        assert_eq!(Report::NotStarted("a\nexited 0".to_owned()).to_string(), "not-started a exited 0");
    }

    #[test]
    fn other_lines_are_no_reports() {
        for bad in ["", "started", "started 8", "started 8 x", "exited", "left -1", "hello there"] {
            assert_eq!(bad.parse::<Report>(), Err(NoReport), "{bad}");
        }
    }

    #[test]
    fn orders_are_heard_and_so_is_the_end() {
        let (engine, keeper) = UnixStream::pair().expect("a socket pair");
        let control = Control::new(keeper).expect("a control");
        assert_eq!(control.hear(), Heard::Nothing);
        for order in [Order::Terminate, Order::Kill] {
            (&engine).write_all(&[order.byte()]).expect("room");
            assert_eq!(control.hear(), Heard::Order(order));
        }
        drop(engine);
        assert_eq!(control.hear(), Heard::Gone);
        control.tell(&[Report::Left(0)]);
    }
}
