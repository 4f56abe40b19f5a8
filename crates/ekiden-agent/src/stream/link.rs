//! The task of one attempt: its child's streams, the engine's orders, and the deadlines.

use std::io::Write;

use ekiden_core::limits;
use ekiden_core::time::Millis;
use ekiden_wire::ends::{EndedByUs, Exit};
use ekiden_wire::lines::LineSplitter;
use ekiden_wire::stream::ClientEvent;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::conversation::Conversation;
use super::launch;
use crate::attempt::{AttemptSpec, FirstMessage, Order, Report};
use crate::child::{Child, ChildEnd, spawn};
use crate::unix::read_now;

/// Bytes read at once: a pipe's size.
const CHUNK: usize = 64 * 1024;
/// Kept of the agent's standard error.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// Carries an attempt out, from its start to its last report.
pub(super) async fn run(
    mut spec: AttemptSpec,
    orders: mpsc::UnboundedReceiver<Order>,
    reports: mpsc::Sender<Report>,
) {
    let last = match spawn(launch::child(&mut spec)) {
        Ok(child) => Link::new(spec, child, orders, reports.clone()).run().await,
        Err(error) => Report::unstarted(error.to_string()),
    };
    // Nobody listens any more: then nobody needs it.
    let _ = reports.send(last).await;
}

struct Link {
    child: Child,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
    /// Dropped to close the agent's standard input.
    input: Option<mpsc::UnboundedSender<String>>,
    orders: Option<mpsc::UnboundedReceiver<Order>>,
    reports: mpsc::Sender<Report>,
    talk: Conversation,
    /// The first message, until it is sent.
    message: Option<FirstMessage>,
    raw: Option<Box<dyn Write + Send>>,
    lines: LineSplitter,
    said: Vec<u8>,
    started: Instant,
    deadline: Instant,
    closing: bool,
}

/// What the task woke for.
enum Woke {
    Stdout(usize),
    Stderr(usize),
    Order(Option<Order>),
    Deadline,
    End(ChildEnd),
}

impl Link {
    fn new(
        spec: AttemptSpec,
        mut child: Child,
        orders: mpsc::UnboundedReceiver<Order>,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        let talk = Conversation::new(spec.agent.kind, spec.conversation, spec.attempt, spec.prices.clone())
            .answering(spec.schema.is_some());
        let now = Instant::now();
        Self {
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            input: child.stdin.take().map(writer),
            child,
            orders: Some(orders),
            reports,
            talk,
            message: Some(spec.message),
            raw: Some(spec.raw),
            lines: LineSplitter::new(),
            said: Vec::new(),
            started: now,
            deadline: now + limits::SILENCE_MAX.into(),
            closing: false,
        }
    }

    async fn run(mut self) -> Report {
        if let Some(pid) = self.child.started().await {
            self.tell(Report::Started { pid }).await;
        }
        let (mut out, mut err) = (vec![0; CHUNK], vec![0; 4096]);
        let end = loop {
            self.flush().await;
            match self.woke(&mut out, &mut err).await {
                Woke::Stdout(read) => self.heard(&out[..read]),
                Woke::Stderr(read) => self.complained(&err[..read]),
                Woke::Order(order) => self.obey(order),
                Woke::Deadline => self.time_is_up(),
                Woke::End(end) => break end,
            }
        };
        self.rest(&mut out, &mut err);
        self.flush().await;
        let duration = Millis(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX));
        let said = String::from_utf8_lossy(&self.said).into_owned();
        match exit(end) {
            Ok(exit) => self.talk.ended(exit, &said, duration),
            Err(why) => Report::unstarted(why),
        }
    }

    async fn woke(&mut self, out: &mut [u8], err: &mut [u8]) -> Woke {
        tokio::select! {
            biased;
            order = next_order(&mut self.orders) => Woke::Order(order),
            read = read(&mut self.stdout, out) => Woke::Stdout(read),
            read = read(&mut self.stderr, err) => Woke::Stderr(read),
            end = self.child.wait() => Woke::End(end),
            () = sleep_until(self.deadline) => Woke::Deadline,
        }
    }

    /// Sends on what the conversation wants to say, in both directions.
    async fn flush(&mut self) {
        while let Some(line) = self.talk.next_line() {
            if let Some(input) = &self.input {
                // The writer is gone only when the agent is; its end is heard next.
                let _ = input.send(line);
            }
        }
        while let Some(report) = self.talk.next_report() {
            self.tell(report).await;
        }
    }

    /// An engine that is gone wants nothing to live on.
    async fn tell(&mut self, report: Report) {
        if self.reports.send(report).await.is_err() {
            self.terminate(EndedByUs::Operator);
        }
    }

    fn heard(&mut self, bytes: &[u8]) {
        self.keep(bytes);
        if !self.closing {
            self.deadline = Instant::now() + limits::SILENCE_MAX.into();
        }
        let talk = &mut self.talk;
        self.lines.push(bytes, |line| talk.hear(&ClientEvent::of(line)));
    }

    fn complained(&mut self, bytes: &[u8]) {
        self.said.extend_from_slice(bytes);
        let surplus = self.said.len().saturating_sub(STDERR_BYTES_MAX);
        self.said.drain(..surplus);
    }

    fn obey(&mut self, order: Option<Order>) {
        match order {
            Some(Order::Begin) => {
                if let Some(message) = self.message.take() {
                    self.talk.open(&message);
                }
            }
            Some(Order::Say(text)) => self.talk.say(&text),
            Some(Order::Answer { callback, answer }) => self.talk.answer(&callback, &answer),
            Some(Order::Interrupt) => self.talk.interrupt(),
            Some(Order::Close) => self.close(),
            Some(Order::Terminate) => self.terminate(EndedByUs::Operator),
            None => {
                self.orders = None;
                self.terminate(EndedByUs::Operator);
            }
        }
    }

    fn close(&mut self) {
        self.input = None;
        self.closing = true;
        self.deadline = Instant::now() + limits::CLOSE_GRACE.into();
    }

    fn time_is_up(&mut self) {
        self.terminate(if self.closing { EndedByUs::Done } else { EndedByUs::Silent });
        self.deadline = Instant::now() + limits::SILENCE_MAX.into();
    }

    fn terminate(&mut self, why: EndedByUs) {
        self.talk.ending(why);
        self.closing = true;
        self.child.terminate();
    }

    /// What was written before the end and not read yet.
    fn rest(&mut self, out: &mut [u8], err: &mut [u8]) {
        while let Some(read) = self.stdout.as_ref().and_then(|pipe| read_now(pipe, out)) {
            self.heard(&out[..read]);
        }
        while let Some(read) = self.stderr.as_ref().and_then(|pipe| read_now(pipe, err)) {
            self.complained(&err[..read]);
        }
        let talk = &mut self.talk;
        self.lines.finish(|line| talk.hear(&ClientEvent::of(line)));
    }

    /// Keeps the raw stream. A full disk must not end a session, so the first failure is the last.
    fn keep(&mut self, bytes: &[u8]) {
        let Some(raw) = &mut self.raw else { return };
        if let Err(error) = raw.write_all(bytes) {
            self.raw = None;
            self.talk.warn(format!("the event stream is not kept any more: {error}"));
        }
    }
}

/// The engine lost cannot be seen from here: a keeper that was killed is a kill like any other.
fn exit(end: ChildEnd) -> Result<Exit, String> {
    match end {
        ChildEnd::Exited(code) => Ok(Exit::Code(code)),
        ChildEnd::Signaled(signal) => Ok(Exit::Signal(signal)),
        ChildEnd::KeeperLost => Ok(Exit::Signal(9)),
        ChildEnd::NotStarted(why) => Err(why),
    }
}

async fn next_order(orders: &mut Option<mpsc::UnboundedReceiver<Order>>) -> Option<Order> {
    match orders {
        Some(orders) => orders.recv().await,
        None => std::future::pending().await,
    }
}

/// Reads from a stream; waits for ever after its end.
async fn read(stream: &mut Option<pipe::Receiver>, bytes: &mut [u8]) -> usize {
    if let Some(open) = stream {
        match open.read(bytes).await {
            Ok(read @ 1..) => return read,
            Ok(0) | Err(_) => *stream = None,
        }
    }
    std::future::pending().await
}

/// The task that writes to the agent. It ends when its channel is dropped or the agent does not
/// read any more.
fn writer(mut stdin: pipe::Sender) -> mpsc::UnboundedSender<String> {
    let (input, mut lines) = mpsc::unbounded_channel::<String>();
    tokio::spawn(async move {
        while let Some(line) = lines.recv().await {
            if stdin.write_all(line.as_bytes()).await.is_err() {
                return;
            }
        }
    });
    input
}
