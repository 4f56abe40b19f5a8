//! Any command as an agent: the protocol and the prompt on its standard input, text on its standard
//! output, the handoff by files alone.
//!
//! Such an agent has no hooks, tells no usage and takes no message once it runs, so the protocol
//! tells it after how many items to hand over. Its exit code is its end: 0 is a turn that ended.
//! The prompt comes when what is published belongs to it, so a script reads that first.

use std::ffi::OsString;
use std::io::Write;

use ekiden_core::ends::EndCause;
use ekiden_core::event::{Counters, Traces};
use ekiden_core::limits;
use ekiden_core::time::Millis;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::attempt::{Activity, AttemptHandle, AttemptSpec, Ended, FirstMessage, Order, Report};
use crate::child::{Child, ChildEnd, ChildSpec, StdinKind, spawn};
use crate::unix::read_now;

/// Kept of what it wrote last.
const WORDS_BYTES_MAX: usize = 1200;

/// Starts an attempt. Returns at once; [`Report::Ended`] is the last report, whatever happens.
#[must_use]
pub fn start(spec: AttemptSpec, reports: mpsc::Sender<Report>) -> AttemptHandle {
    let (orders, inbox) = mpsc::unbounded_channel();
    tokio::spawn(run(spec, inbox, reports));
    AttemptHandle::new(orders)
}

async fn run(mut spec: AttemptSpec, orders: mpsc::UnboundedReceiver<Order>, reports: mpsc::Sender<Report>) {
    let started = Instant::now();
    let (cause, words) = match spawn(child_spec(&mut spec)) {
        Ok(child) => {
            let text = input(&spec);
            attend(child, text, spec.raw, orders, &reports).await
        }
        Err(error) => (EndCause::NeverStarted(error.to_string()), String::new()),
    };
    let duration = Millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX));
    let counters = Counters { duration, ..Counters::default() };
    let last_words = Some(words).filter(|words| !words.trim().is_empty());
    let traces = Traces { last_words, ..Traces::default() };
    let ended = Ended { cause, counters, traces, resumable: false };
    // Nobody listens any more: then nobody needs it.
    let _ = reports.send(Report::Ended(Box::new(ended))).await;
}

fn child_spec(spec: &mut AttemptSpec) -> ChildSpec {
    let mut command = spec.agent.command.iter().map(OsString::from);
    ChildSpec {
        keeper: spec.ekiden.clone(),
        program: command.next().unwrap_or_default(),
        args: command.collect(),
        dir: spec.dir.clone(),
        env_set: spec.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        lock: spec.lock.take(),
        grace: limits::KILL_GRACE,
        stdin: StdinKind::Piped,
    }
}

/// The agent has no system prompt, so the protocol comes first.
fn input(spec: &AttemptSpec) -> String {
    let message = match &spec.message {
        FirstMessage::Prompt(blocks) => blocks.to_archive(),
        FirstMessage::Note(note) => note.clone(),
    };
    format!("{}\n\n{message}", spec.protocol)
}

/// Writes the prompt. An agent that does not read it to its end may do so.
async fn feed(mut stdin: pipe::Sender, text: String) {
    let _ = stdin.write_all(text.as_bytes()).await;
}

/// Hears the agent until it and all that it started are dead.
async fn attend(
    mut child: Child,
    text: String,
    mut raw: Box<dyn Write + Send>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    reports: &mpsc::Sender<Report>,
) -> (EndCause, String) {
    if let Some(pid) = child.started().await {
        let _ = reports.send(Report::Started { pid }).await;
    }
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    let mut prompt = child.stdin.take().map(|stdin| (stdin, text));
    let (mut out, mut err) = (vec![0; 16 * 1024], vec![0; 4096]);
    let mut words = Vec::new();
    let mut stopped = false;
    let end = loop {
        tokio::select! {
            read = next(&mut stdout, &mut out) => {
                let _ = raw.write_all(&out[..read]);
                keep_tail(&mut words, &out[..read]);
                show(reports, &out[..read]).await;
            }
            read = next(&mut stderr, &mut err) => keep_tail(&mut words, &err[..read]),
            order = orders.recv(), if !stopped => {
                // Of all orders only these can reach such an agent.
                if matches!(order, Some(Order::Terminate) | None) {
                    stopped = true;
                    child.terminate();
                } else if let (Some(Order::Begin), Some((stdin, text))) = (order, prompt.take()) {
                    tokio::spawn(feed(stdin, text));
                }
            }
            end = child.wait() => break end,
        }
    };
    while let Some(read) = stdout.as_ref().and_then(|pipe| read_now(pipe, &mut out)) {
        let _ = raw.write_all(&out[..read]);
        keep_tail(&mut words, &out[..read]);
    }
    (cause(end, stopped), String::from_utf8_lossy(&words).into_owned())
}

fn cause(end: ChildEnd, stopped: bool) -> EndCause {
    match end {
        ChildEnd::NotStarted(why) => EndCause::NeverStarted(why),
        ChildEnd::Exited(_) | ChildEnd::Signaled(_) | ChildEnd::KeeperLost if stopped => EndCause::Stopped,
        ChildEnd::Exited(0) => EndCause::Completed,
        ChildEnd::Exited(exit) => EndCause::Crashed { exit },
        ChildEnd::Signaled(signal) => EndCause::Killed { signal },
        ChildEnd::KeeperLost => EndCause::Killed { signal: 9 },
    }
}

async fn show(reports: &mpsc::Sender<Report>, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some(line) = text.lines().rev().find(|line| !line.trim().is_empty()) {
        let _ = reports.send(Report::Activity(Activity::Words(line.chars().take(200).collect()))).await;
    }
}

fn keep_tail(words: &mut Vec<u8>, bytes: &[u8]) {
    words.extend_from_slice(bytes);
    let surplus = words.len().saturating_sub(WORDS_BYTES_MAX);
    words.drain(..surplus);
}

/// Reads from a stream; waits for ever after its end.
async fn next(stream: &mut Option<pipe::Receiver>, bytes: &mut [u8]) -> usize {
    if let Some(open) = stream {
        match open.read(bytes).await {
            Ok(read @ 1..) => return read,
            Ok(0) | Err(_) => *stream = None,
        }
    }
    std::future::pending().await
}
