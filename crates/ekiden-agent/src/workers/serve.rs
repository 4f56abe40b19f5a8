//! The worker's own side: one command after the other, until nobody orders any more.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, WaitStatus, kill_process};

use super::order::{Answer, Order};
use crate::child::ChildEnd;
use crate::platform;
use crate::unix::{ChildExits, Reaped, poll_until, reap};

/// The exit code of a worker that could not begin or go on.
const EXIT_FAILED: i32 = 1;
/// The most reads of a stream before anything else is looked at; more than the largest pipe holds.
const READS_MAX: usize = 64;

/// Runs what is ordered on standard input. Returns the exit code.
pub(super) fn serve() -> i32 {
    if attend().is_ok() { 0 } else { EXIT_FAILED }
}

fn attend() -> io::Result<()> {
    // What a command leaves running becomes a child of ours, so that we know of it.
    platform::adopt_orphans()?;
    let mut service = Service { exits: ChildExits::new()?, told_to_go: Arc::default() };
    // A command that is told to end is still waited for, and how it ended is told.
    signal_hook::flag::register(libc::SIGTERM, Arc::clone(&service.told_to_go))?;
    let mut orders = BufReader::new(io::stdin().lock());
    let mut line = Vec::new();
    while orders.read_until(b'\n', &mut line)? > 0 {
        let order: Order = serde_json::from_slice(&line)?;
        let mut input = vec![0; order.input_len];
        orders.read_exact(&mut input)?;
        // What nobody wants any more is not begun.
        if service.is_told_to_go() || service.run(&order, input)? || service.is_told_to_go() {
            break;
        }
        line.clear();
    }
    Ok(())
}

struct Service {
    exits: ChildExits,
    told_to_go: Arc<AtomicBool>,
}

impl Service {
    fn is_told_to_go(&self) -> bool {
        self.told_to_go.load(Ordering::Relaxed)
    }

    /// Runs one command and answers. Whether it left something running.
    fn run(&mut self, order: &Order, input: Vec<u8>) -> io::Result<bool> {
        let mut streams = Streams { input, ..Streams::default() };
        let end = match start(order, &streams.input) {
            Ok(mut child) => self.attend_to(&mut child, &mut streams, order.bytes_max)?,
            Err(error) => ChildEnd::NotStarted(error.to_string()),
        };
        let answer = Answer {
            end,
            cut: streams.stdout.cut || streams.stderr.cut,
            leaves: has_children(),
            stdout_len: streams.stdout.bytes.len(),
            stderr_len: streams.stderr.bytes.len(),
        };
        let mut answers = io::stdout().lock();
        answers.write_all(&answer.message(&streams.stdout.bytes, &streams.stderr.bytes))?;
        answers.flush()?;
        Ok(answer.leaves)
    }

    /// Feeds and reads it until it has ended.
    fn attend_to(&mut self, child: &mut Child, streams: &mut Streams, max: usize) -> io::Result<ChildEnd> {
        let pid = Pid::from_child(child);
        let mut was_told = false;
        let end = loop {
            self.exits.clear();
            if let Some(status) = end_of(pid) {
                break status;
            }
            // Mostly the whole group was told; not if only our keepers died.
            if !was_told && self.is_told_to_go() {
                was_told = true;
                let _ = kill_process(pid, Signal::TERM);
            }
            self.wait_for_news(child)?;
            streams.pump(child, max)?;
        };
        streams.pump(child, max)?;
        Ok(match (end.exit_status(), end.terminating_signal()) {
            (Some(code), _) => ChildEnd::Exited(code),
            (None, signal) => ChildEnd::Signaled(signal.unwrap_or_default()),
        })
    }

    fn wait_for_news(&self, child: &Child) -> io::Result<()> {
        let mut fds = vec![PollFd::new(&self.exits, PollFlags::IN)];
        fds.extend(child.stdin.as_ref().map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
        fds.extend(child.stdout.as_ref().map(|stdout| PollFd::new(stdout, PollFlags::IN)));
        fds.extend(child.stderr.as_ref().map(|stderr| PollFd::new(stderr, PollFlags::IN)));
        poll_until(&mut fds, None)
    }
}

#[expect(clippy::disallowed_methods, reason = "a worker runs under a keeper, and so do its commands")]
fn start(order: &Order, input: &[u8]) -> io::Result<Child> {
    let mut command = Command::new(&order.program);
    command
        .args(&order.args)
        .current_dir(&order.dir)
        .envs(order.env.iter().map(|(name, value)| (name, value)));
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.as_ref(), child.stdout.as_ref(), child.stderr.as_ref());
    let ends = [stdin.map(AsFd::as_fd), stdout.map(AsFd::as_fd), stderr.map(AsFd::as_fd)];
    ends.into_iter().flatten().try_for_each(|end| ioctl_fionbio(end, true))?;
    Ok(child)
}

/// How this child ended, if it did. The ends of others, which commands left to us, are taken on the way.
fn end_of(wanted: Pid) -> Option<WaitStatus> {
    loop {
        match reap() {
            Reaped::One(pid, status) if pid == wanted => return Some(status),
            Reaped::One(..) => {}
            Reaped::AllRunning | Reaped::NoChildren => return None,
        }
    }
}

fn has_children() -> bool {
    loop {
        match reap() {
            Reaped::One(..) => {}
            Reaped::AllRunning => return true,
            Reaped::NoChildren => return false,
        }
    }
}

/// What goes into a command and what came out of it.
#[derive(Default)]
struct Streams {
    input: Vec<u8>,
    fed: usize,
    stdout: Kept,
    stderr: Kept,
}

impl Streams {
    /// Moves whatever can be moved now. A stream that is over is closed.
    fn pump(&mut self, child: &mut Child, max: usize) -> io::Result<()> {
        if let Some(stdin) = &mut child.stdin
            && !feed(stdin, &self.input, &mut self.fed)
        {
            child.stdin = None;
        }
        if let Some(stdout) = &mut child.stdout
            && !self.stdout.take_in(stdout, max)?
        {
            child.stdout = None;
        }
        if let Some(stderr) = &mut child.stderr
            && !self.stderr.take_in(stderr, max)?
        {
            child.stderr = None;
        }
        Ok(())
    }
}

/// Whether there is more to be written. A command that does not read it all has its reasons.
fn feed(stdin: &mut impl Write, input: &[u8], fed: &mut usize) -> bool {
    while *fed < input.len() {
        match stdin.write(&input[*fed..]) {
            Ok(count) => *fed += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    false
}

/// The beginning of a stream.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    cut: bool,
}

impl Kept {
    /// Reads what is there. Whether more may come.
    fn take_in(&mut self, stream: &mut impl Read, max: usize) -> io::Result<bool> {
        let mut arrived = [0; 32 * 1024];
        for _ in 0..READS_MAX {
            match stream.read(&mut arrived) {
                Ok(0) => return Ok(false),
                Ok(count) => {
                    let fits = count.min(max - self.bytes.len());
                    self.bytes.extend_from_slice(&arrived[..fits]);
                    self.cut |= fits < count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
