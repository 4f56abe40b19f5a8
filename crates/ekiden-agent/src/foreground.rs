//! Programs that run for the person at the terminal: an editor, a pager, the follower of a fleet's run.
//!
//! They have no keeper, since no run depends on them. Ctrl-c and ctrl-\ go to them; ekiden only waits.

#![expect(
    clippy::disallowed_methods,
    reason = "such a program belongs to the person, not to a keeper"
)]

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

/// Runs a program on our own terminal and waits for its end.
pub fn run(program: &OsStr, args: &[OsString]) -> io::Result<ExitStatus> {
    leave_signals_to_it()?;
    Command::new(program).args(args).status()
}

/// The same for a pager, with a text to read. It does not have to read all of it.
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

/// Becomes another program, which reads `input` if there is any. Returns only on failure, with the reason.
pub fn become_program(program: &Path, args: &[&str], input: Option<File>) -> io::Error {
    let mut command = Command::new(program);
    command.args(args);
    if let Some(input) = input {
        command.stdin(input);
    }
    command.exec()
}

/// A program that reports in lines what it does, while we show that. Ctrl-c and SIGTERM are passed on to it,
/// each once, whether they come from the terminal or only to us. Its standard input ends only when we are gone.
#[derive(Debug)]
pub struct Companion {
    child: Child,
    lines: Receiver<CompanionLine>,
    signals: [(Signal, Arc<AtomicBool>); 2],
}

/// A line of such a program.
#[derive(Debug, PartialEq, Eq)]
pub enum CompanionLine {
    /// On standard output.
    Answer(String),
    /// On standard error.
    Message(String),
}

impl Companion {
    /// Starts it; it reads `input`.
    pub fn start(program: &Path, args: &[&str], input: &[u8]) -> io::Result<Self> {
        let signals = [Signal::INT, Signal::TERM].map(|signal| (signal, Arc::default()));
        for (signal, came) in &signals {
            signal_hook::flag::register(signal.as_raw(), Arc::clone(came))?;
        }
        let mut child = Command::new(program)
            .args(args)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(stdin) = &mut child.stdin {
            // If it does not read, its end says why.
            let _ = stdin.write_all(input);
        }
        let (said, lines) = channel();
        if let Some(stream) = child.stdout.take() {
            pass_lines(stream, CompanionLine::Answer, said.clone());
        }
        if let Some(stream) = child.stderr.take() {
            pass_lines(stream, CompanionLine::Message, said);
        }
        Ok(Self {
            child,
            lines,
            signals,
        })
    }

    /// What it has said since the last call.
    pub fn said(&self) -> Vec<CompanionLine> {
        self.lines.try_iter().collect()
    }

    /// How it ended, and what it said last; none while it runs.
    pub fn ended(&mut self) -> io::Result<Option<(ExitStatus, Vec<CompanionLine>)>> {
        for (signal, came) in &self.signals {
            if came.swap(false, Ordering::Relaxed) {
                // It may be gone already.
                let _ = kill_process(Pid::from_child(&self.child), *signal);
            }
        }
        let ended = self.child.try_wait()?;
        Ok(ended.map(|status| (status, self.lines.iter().collect())))
    }
}

/// If no thread can be started, the lines are lost and the program runs on.
fn pass_lines(
    stream: impl Read + Send + 'static,
    said: impl Fn(String) -> CompanionLine + Send + 'static,
    to: Sender<CompanionLine>,
) {
    let pass = move || {
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            if to.send(said(line)).is_err() {
                return;
            }
        }
    };
    let _ = thread::Builder::new()
        .name("ekiden-lines".to_owned())
        .spawn(pass);
}

fn leave_signals_to_it() -> io::Result<()> {
    // A handler, not "ignore", which the program would inherit.
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
    fn what_a_program_beside_says_is_heard_to_its_end() {
        let script = "read x; echo $x; echo two >&2; trap 'echo three; exit 4' TERM; kill -TERM $PPID; \
                      while :; do sleep 0.01; done";
        let mut beside = Companion::start("/bin/sh".as_ref(), &["-c", script], b"one\n").unwrap();
        let mut heard = Vec::new();
        let status = loop {
            heard.extend(beside.said());
            if let Some((status, last)) = beside.ended().unwrap() {
                heard.extend(last);
                break status;
            }
            thread::yield_now();
        };
        assert_eq!(status.code(), Some(4));
        assert!(
            heard.contains(&CompanionLine::Message("two".to_owned())),
            "{heard:?}"
        );
        heard.retain(|said| matches!(said, CompanionLine::Answer(_)));
        let answer = |text: &str| CompanionLine::Answer(text.to_owned());
        assert_eq!(heard, [answer("one"), answer("three")]);
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
