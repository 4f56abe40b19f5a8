//! Commands whose end and output are all that matters: verifications, git, notifiers.
//!
//! They run under a keeper, as agents do. So nothing is left behind by a test suite that leaves servers running, or by
//! an engine that dies in the middle of `git`. Their output is always read to its end, so they never block, and
//! kept up to a bound.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use ekiden_core::time::Millis;
use tokio::io::AsyncWriteExt;

use crate::child::{Child, ChildEnd, ChildSpec, SpawnError, StdinKind, Streams, launch, spawn};
use crate::intake::{Intake, Keep};
use crate::keeper;

/// How much [`run_quick`] keeps of each stream.
pub const QUICK_BYTES_MAX: usize = 1024 * 1024;

/// How a command went, and the end of what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskOutcome {
    pub end: ChildEnd,
    /// The end of its output: both streams in the order in which they were written.
    pub tail: String,
    /// It was ended because its time was up.
    pub timed_out: bool,
}

/// How a command went, and the beginning of what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub end: ChildEnd,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Whether one of the two is incomplete.
    pub cut: bool,
    /// It was cancelled, or its time was up.
    pub timed_out: bool,
}

/// Runs a command to its end, for at most `timeout` and then the grace time of `spec`. Keeps `tail_bytes` of
/// its output, and replaces bytes that are not UTF-8.
///
/// If the future is dropped, the command is ended as in [`Child`].
pub async fn run_task(
    spec: ChildSpec,
    timeout: Millis,
    tail_bytes: usize,
) -> Result<TaskOutcome, SpawnError> {
    let mut child = Child::new(launch(spec, Streams::Merged)?)?;
    let mut both = Intake::new(child.stdout.take(), Keep::Last(tail_bytes));
    let mut nothing = Intake::new(None, Keep::First(0));
    let over = tokio::time::sleep(timeout.into());
    let (end, timed_out) = run(&mut child, b"", over, &mut both, &mut nothing).await;
    Ok(TaskOutcome {
        end,
        tail: both.text(),
        timed_out,
    })
}

/// Runs a command with `input` on its standard input to its end. Once `over` is ready, asks the command to end
/// and waits for that. Keeps `bytes_max` of each stream.
///
/// If the future is dropped, the command is ended as in [`Child`].
pub async fn run_output(
    mut spec: ChildSpec,
    input: &[u8],
    over: impl Future<Output = ()>,
    bytes_max: usize,
) -> Result<Output, SpawnError> {
    if !input.is_empty() {
        spec.stdin = StdinKind::Piped;
    }
    let mut child = spawn(spec)?;
    let mut out = Intake::new(child.stdout.take(), Keep::First(bytes_max));
    let mut err = Intake::new(child.stderr.take(), Keep::First(bytes_max));
    let (end, timed_out) = run(&mut child, input, over, &mut out, &mut err).await;
    let ((stdout, out_cut), (stderr, err_cut)) = (out.kept(), err.kept());
    Ok(Output {
        end,
        stdout,
        stderr,
        cut: out_cut || err_cut,
        timed_out,
    })
}

/// Runs a short command such as `git rev-parse` in `dir` and waits for it, for callers that have no
/// runtime: within one it panics, since it would block it; use [`run_output`] there. Keeps [`QUICK_BYTES_MAX`] bytes of
/// each stream. The command reads nothing from standard input, and speaks English: programs read its answer.
pub fn run_quick(
    program: impl Into<OsString>,
    args: &[impl AsRef<OsStr>],
    dir: &Path,
    timeout: Millis,
) -> Result<Output, SpawnError> {
    let keeper = keeper::executable().map_err(SpawnError::Wait)?;
    let spec = ChildSpec {
        args: args.iter().map(|arg| arg.as_ref().to_owned()).collect(),
        env_set: vec![("LC_ALL".into(), "C".into())],
        ..ChildSpec::new(keeper, program, dir)
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(SpawnError::Wait)?;
    runtime.block_on(async {
        let over = tokio::time::sleep(timeout.into());
        run_output(spec, b"", over, QUICK_BYTES_MAX).await
    })
}

/// Writes the input and reads both streams until the child and its descendants are dead, and then
/// reads what is left in the pipes. The end of a stream means little: a command may close it long
/// before it ends.
async fn run(
    child: &mut Child,
    input: &[u8],
    over: impl Future<Output = ()>,
    out: &mut Intake,
    err: &mut Intake,
) -> (ChildEnd, bool) {
    let stdin = child.stdin.take();
    let feeding = async {
        if let Some(mut stdin) = stdin {
            // A command does not have to read all of its input.
            let _ = stdin.write_all(input).await;
        }
    };
    tokio::pin!(feeding, over);
    let (mut is_fed, mut is_over) = (false, false);
    let end = loop {
        tokio::select! {
            end = child.wait() => break end,
            () = &mut feeding, if !is_fed => is_fed = true,
            _ = out.more() => {}
            _ = err.more() => {}
            () = &mut over, if !is_over => {
                is_over = true;
                child.terminate();
            }
        }
    };
    while out.rest().is_some() || err.rest().is_some() {}
    (end, is_over)
}
