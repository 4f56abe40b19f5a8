//! The program while it runs, and what it said when it is over.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take that is not a promise: generous, since machines can be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A program at work. It is killed when this is dropped.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    stdout: String,
    stderr: Option<JoinHandle<String>>,
}

/// What a program said, and how it ended: its exit code, or 128 and the signal.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Running {
    pub(crate) fn of(mut child: Child) -> Self {
        let (mut stderr, stdout) = (child.stderr.take().unwrap(), child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let stderr = thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).unwrap();
            text
        });
        Self {
            child,
            lines,
            stdout: String::new(),
            stderr: Some(stderr),
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits until a line holds this.
    pub(crate) fn wait_for(&mut self, part: &str) {
        self.wait_for_line(part);
    }

    /// Waits for a line that holds this.
    pub(crate) fn wait_for_line(&mut self, part: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self
                .lines
                .recv_timeout(until.saturating_duration_since(Instant::now()));
            let line =
                line.unwrap_or_else(|_| panic!("waited for `{part}` after\n{}", self.stdout));
            let found = line.contains(part);
            self.heard(&line);
            if found {
                return line;
            }
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// It has ended, and nobody has taken its end yet.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Said {
        let until = Instant::now() + PATIENCE;
        while let Ok(line) = self
            .lines
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            self.heard(&line);
        }
        wait_until("the end of the program", || {
            self.child.try_wait().unwrap().is_some()
        });
        let status = self.child.wait().unwrap();
        let code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap());
        let stdout = std::mem::take(&mut self.stdout);
        Said {
            code,
            stdout,
            stderr: self.stderr.take().unwrap().join().unwrap(),
        }
    }

    fn heard(&mut self, line: &str) {
        self.stdout.push_str(line);
        self.stdout.push('\n');
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error says that it is over.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Said {
    /// The same, if this was the end.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self}");
        self
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.stdout)?;
        if !self.stderr.is_empty() {
            write!(f, "--- standard error\n{}", self.stderr)?;
        }
        write!(f, "--- exit code {}", self.code)
    }
}

/// Waits for something that makes no noise.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut seen: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !seen() {
        assert!(Instant::now() < until, "waited for {what}");
        thread::sleep(Duration::from_millis(2));
    }
}
