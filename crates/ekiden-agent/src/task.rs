//! Commands of which only the end and the output matter: verifications, git, notifiers.
//!
//! They run under a keeper like an agent, so a test suite that leaves servers running, or an engine
//! that dies in the middle of `git`, leaves nothing behind. What they write is always read to its
//! end, so that they never block, and kept up to a bound.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;

use ekiden_core::limits::KILL_GRACE;
use ekiden_core::time::Millis;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;

use crate::child::{Child, ChildEnd, ChildSpec, SpawnError, StdinKind, Streams, launch, spawn};
use crate::keeper;
use crate::unix::read_now;

/// What [`run_quick`] keeps of each stream.
pub const QUICK_BYTES_MAX: usize = 1024 * 1024;

/// How a command went, and the end of what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOutcome {
    /// How it ended.
    pub end: ChildEnd,
    /// The last of its output: both streams in the order in which they were written.
    pub tail: String,
    /// Whether `tail` lacks the beginning.
    pub cut: bool,
    /// It was ended because its time was over.
    pub timed_out: bool,
}

/// How a command went, and the beginning of what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub end: ChildEnd,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Whether one of the two lacks its rest.
    pub cut: bool,
    /// It was told to end, since its time was over or nobody wanted it any more.
    pub timed_out: bool,
}

/// A quick command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum QuickError {
    /// It could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// The system refused what is needed to wait for it.
    #[error("wait for a program")]
    Wait(#[source] io::Error),
}

/// Runs a command to its end, at most `timeout` and then the grace time of `spec`. `tail_bytes` of
/// its output are kept, in which bytes that are no UTF-8 are replaced. Standard input, if it is a
/// pipe, is closed at once.
///
/// If the future is dropped, the command is ended as in [`Child`].
///
/// # Errors
///
/// As of [`spawn`].
pub async fn run_task(
    spec: ChildSpec,
    timeout: Millis,
    tail_bytes: usize,
) -> Result<TaskOutcome, SpawnError> {
    let mut child = Child::new(launch(spec, Streams::Merged)?)?;
    let mut both = Intake::new(child.stdout.take(), Keep::Last(tail_bytes));
    let mut nothing = Intake::new(None, Keep::First(0));
    let over = tokio::time::sleep(timeout.into());
    let (end, timed_out) = run(&mut child, over, &mut both, &mut nothing).await;
    let (bytes, cut) = both.kept();
    Ok(TaskOutcome { end, tail: lossy_tail(&bytes), cut, timed_out })
}

/// Runs a command to its end, at most `timeout` and then the grace time of `spec`. `bytes_max` of
/// each stream are kept. Standard input, if it is a pipe, is closed at once.
///
/// If the future is dropped, the command is ended as in [`Child`].
///
/// # Errors
///
/// As of [`spawn`].
pub async fn run_output(spec: ChildSpec, timeout: Millis, bytes_max: usize) -> Result<Output, SpawnError> {
    let mut child = spawn(spec)?;
    let mut out = Intake::new(child.stdout.take(), Keep::First(bytes_max));
    let mut err = Intake::new(child.stderr.take(), Keep::First(bytes_max));
    let over = tokio::time::sleep(timeout.into());
    let (end, timed_out) = run(&mut child, over, &mut out, &mut err).await;
    let ((stdout, out_cut), (stderr, err_cut)) = (out.kept(), err.kept());
    Ok(Output { end, stdout, stderr, cut: out_cut || err_cut, timed_out })
}

/// Runs a short command such as `git rev-parse` in `dir` and waits for it, for callers that have no
/// runtime. [`QUICK_BYTES_MAX`] bytes of each stream are kept. It reads nothing from standard input.
///
/// # Errors
///
/// As of [`spawn`], and if the system refuses a runtime.
///
/// # Panics
///
/// Within a runtime, which it would block; use [`run_output`] there.
pub fn run_quick(
    program: &OsStr,
    args: &[OsString],
    dir: &Path,
    timeout: Millis,
) -> Result<Output, QuickError> {
    let spec = ChildSpec {
        keeper: keeper::executable().map_err(QuickError::Wait)?,
        program: program.to_owned(),
        args: args.to_vec(),
        dir: dir.to_owned(),
        env_set: Vec::new(),
        lock: None,
        grace: KILL_GRACE,
        stdin: StdinKind::Null,
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(QuickError::Wait)?;
    Ok(runtime.block_on(run_output(spec, timeout, QUICK_BYTES_MAX))?)
}

/// Reads both streams until the child and its descendants are dead, and then what is left in the
/// pipes. The end of a stream means little: a command may close it long before it ends.
async fn run(
    child: &mut Child,
    over: impl Future<Output = ()>,
    out: &mut Intake,
    err: &mut Intake,
) -> (ChildEnd, bool) {
    drop(child.stdin.take());
    tokio::pin!(over);
    let mut is_over = false;
    let end = loop {
        tokio::select! {
            end = child.wait() => break end,
            () = out.more() => {}
            () = err.more() => {}
            () = &mut over, if !is_over => {
                is_over = true;
                child.terminate();
            }
        }
    };
    out.rest();
    err.rest();
    (end, is_over)
}

/// Which part of a stream is kept.
#[derive(Debug, Clone, Copy)]
enum Keep {
    First(usize),
    Last(usize),
}

/// A stream that is read to its end and kept in part.
struct Intake {
    pipe: Option<pipe::Receiver>,
    keep: Keep,
    bytes: Vec<u8>,
    cut: bool,
    /// Where bytes arrive. Large, since a busy command fills a whole pipe between two reads.
    arrived: Box<[u8; 32 * 1024]>,
}

impl Intake {
    fn new(pipe: Option<pipe::Receiver>, keep: Keep) -> Self {
        Self { pipe, keep, bytes: Vec::new(), cut: false, arrived: Box::new([0; 32 * 1024]) }
    }

    /// Takes in what comes next. Waits for ever after the end. Cancel safe.
    async fn more(&mut self) {
        let Some(pipe) = &mut self.pipe else { return std::future::pending().await };
        match pipe.read(&mut self.arrived[..]).await {
            Ok(count @ 1..) => self.take(count),
            Ok(0) | Err(_) => self.pipe = None,
        }
    }

    /// Takes in what is there already.
    fn rest(&mut self) {
        while let Some(count) = self.pipe.as_ref().and_then(|pipe| read_now(pipe, &mut self.arrived[..])) {
            self.take(count);
        }
    }

    fn take(&mut self, count: usize) {
        match self.keep {
            Keep::First(max) => {
                let fits = count.min(max - self.bytes.len());
                self.bytes.extend_from_slice(&self.arrived[..fits]);
                self.cut |= fits < count;
            }
            Keep::Last(max) => {
                self.bytes.extend_from_slice(&self.arrived[..count]);
                // Cut seldom: moving the rest costs as much as it is long.
                if self.bytes.len() > 2 * max + self.arrived.len() {
                    self.cut_to(max);
                }
            }
        }
    }

    fn cut_to(&mut self, max: usize) {
        let excess = self.bytes.len().saturating_sub(max);
        self.bytes.drain(..excess);
        self.cut |= excess > 0;
    }

    fn kept(mut self) -> (Vec<u8>, bool) {
        if let Keep::Last(max) = self.keep {
            self.cut_to(max);
        }
        (self.bytes, self.cut)
    }
}

/// The text of bytes whose beginning may be the rest of a character.
fn lossy_tail(bytes: &[u8]) -> String {
    let rest_of_character = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
    String::from_utf8_lossy(&bytes[rest_of_character..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(keep: Keep, pieces: &[&str]) -> (String, bool) {
        let mut intake = Intake::new(None, keep);
        for piece in pieces {
            intake.arrived[..piece.len()].copy_from_slice(piece.as_bytes());
            intake.take(piece.len());
        }
        let (bytes, cut) = intake.kept();
        (lossy_tail(&bytes), cut)
    }

    #[test]
    fn the_beginning_or_the_end_is_kept() {
        let text = ["one ", "two ", "three"];
        assert_eq!(kept(Keep::First(6), &text), ("one tw".to_owned(), true));
        assert_eq!(kept(Keep::First(13), &text), ("one two three".to_owned(), false));
        assert_eq!(kept(Keep::Last(7), &text), ("o three".to_owned(), true));
        assert_eq!(kept(Keep::Last(13), &text), ("one two three".to_owned(), false));
        assert_eq!(kept(Keep::Last(0), &text), (String::new(), true));
    }

    #[test]
    fn a_character_that_was_cut_is_left_out() {
        assert_eq!(kept(Keep::Last(4), &["aéé"]), ("éé".to_owned(), true));
        assert_eq!(kept(Keep::Last(3), &["aéé"]), ("é".to_owned(), true));
        assert_eq!(lossy_tail("\u{1f600}".as_bytes().split_at(1).1), "");
    }

    #[tokio::test]
    async fn what_arrived_unheard_is_taken_in() {
        let (read, mut write) = std::io::pipe().unwrap();
        let mut intake =
            Intake::new(Some(pipe::Receiver::from_owned_fd(read.into()).unwrap()), Keep::First(9));
        std::io::Write::write_all(&mut write, b"the end").unwrap();
        // The runtime has had no chance to hear of it.
        intake.rest();
        assert_eq!(intake.kept().0, b"the end");
    }

    #[test]
    fn memory_is_bounded() {
        let mut intake = Intake::new(None, Keep::Last(1000));
        for _ in 0..1000 {
            intake.take(1000);
            assert!(intake.bytes.len() <= 2 * 1000 + 32 * 1024);
        }
        assert_eq!(intake.kept().0.len(), 1000);
    }
}
