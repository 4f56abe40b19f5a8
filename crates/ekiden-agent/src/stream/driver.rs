//! The driver of one attempt: its child's streams, the engine's commands, and the deadlines.

use ekiden_core::event::AttemptEnded;
use ekiden_core::limits;
use ekiden_core::relay::Prompt;
use ekiden_core::text::in_full;
use ekiden_wire::ends::{EndedByUs, Exit};
use ekiden_wire::lines::LineSplitter;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::conversation::Conversation;
use super::launch;
use crate::attempt::{Activity, AgentCommand, AttemptSpec, Engine, RawStream, Report, unstarted};
use crate::child::{Child, ChildEnd, spawn};
use crate::intake::{Intake, Keep};

/// How much of the agent's standard error is kept.
const STDERR_BYTES_MAX: usize = 8 * 1024;

pub(crate) async fn run(mut spec: AttemptSpec, engine: &mut Engine) -> AttemptEnded {
    let mut child = match spawn(launch::child(&mut spec)) {
        Ok(child) => child,
        Err(error) => return unstarted(in_full(&error)),
    };
    if let Some(pid) = child.started().await {
        engine.tell(Report::Started { pid }).await;
    }
    let mut out = Intake::new(child.stdout.take(), Keep::First(0));
    let mut err = Intake::new(child.stderr.take(), Keep::Last(STDERR_BYTES_MAX));
    let mut driver = Driver::new(spec, child);
    let end = loop {
        driver.flush(engine).await;
        let deadline = driver.deadline();
        tokio::select! {
            biased;
            command = engine.next() => driver.obey(command),
            // Otherwise output that never ends would always come first. Before closing, output moves the deadline.
            () = sleep_until(deadline), if driver.closing => driver.time_is_up(),
            bytes = out.more() => driver.heard(bytes),
            _ = err.more() => {}
            end = driver.child.wait() => break end,
            () = sleep_until(deadline) => driver.time_is_up(),
        }
    };
    while let Some(bytes) = out.rest() {
        driver.heard(bytes);
    }
    while err.rest().is_some() {}
    let conversation = &mut driver.conversation;
    driver.lines.finish(|line| conversation.hear_line(line));
    driver.flush(engine).await;
    let exit = match end {
        ChildEnd::Exited(code) => Exit::Code(code),
        ChildEnd::Signaled(signal) => Exit::Signal(signal),
        ChildEnd::KeeperLost => Exit::Signal(9),
        ChildEnd::NotStarted(why) => return unstarted(why),
    };
    driver
        .conversation
        .ended(exit, &err.text(), engine.elapsed())
}

struct Driver {
    child: Child,
    /// Dropped to close the agent's standard input.
    input: Option<mpsc::UnboundedSender<String>>,
    conversation: Conversation,
    /// The first message, until it is sent.
    message: Option<Prompt>,
    raw: RawStream,
    lines: LineSplitter,
    /// When the agent is ended, unless it says something or exits before.
    end_by: Instant,
    /// When to give up a message that waits between turns.
    heard_by: Option<Instant>,
    closing: bool,
    /// How many subagents were at work at the last report.
    subagents: usize,
}

impl Driver {
    fn new(spec: AttemptSpec, mut child: Child) -> Self {
        Self {
            input: child.stdin.take().map(writer),
            child,
            conversation: Conversation::new(&spec),
            message: Some(spec.message),
            raw: RawStream::new(spec.raw),
            lines: LineSplitter::new(),
            end_by: Instant::now() + limits::SILENCE_MAX.into(),
            heard_by: None,
            closing: false,
            subagents: 0,
        }
    }

    fn deadline(&self) -> Instant {
        self.heard_by.map_or(self.end_by, |by| by.min(self.end_by))
    }

    /// Sends what the conversation has to say, in both directions.
    async fn flush(&mut self, engine: &mut Engine) {
        while let Some(line) = self.conversation.next_line() {
            if let Some(input) = &self.input {
                // The writer is gone only when the agent is; its end comes next.
                let _ = input.send(line);
            }
        }
        while let Some(report) = self.conversation.next_report() {
            engine.tell(report).await;
        }
        let subagents = self.conversation.trace.subagents();
        if std::mem::replace(&mut self.subagents, subagents) != subagents {
            let activity = Activity::Subagents(subagents);
            engine.tell(Report::Activity(activity)).await;
        }
        let patience = || Instant::now() + limits::UNHEARD_MAX.into();
        let unheard = self.conversation.is_unheard() && !self.closing;
        self.heard_by = unheard.then(|| self.heard_by.unwrap_or_else(patience));
    }

    fn heard(&mut self, bytes: &[u8]) {
        if let Some(warning) = self.raw.keep(bytes) {
            self.conversation.warn(warning);
        }
        if !self.closing {
            self.end_by = Instant::now() + limits::SILENCE_MAX.into();
        }
        let conversation = &mut self.conversation;
        self.lines.push(bytes, |line| conversation.hear_line(line));
    }

    fn obey(&mut self, command: AgentCommand) {
        match command {
            AgentCommand::Begin => {
                if let Some(message) = self.message.take() {
                    self.conversation.open(&message);
                }
            }
            AgentCommand::Say(text) => self.conversation.say(&text),
            AgentCommand::Answer { callback, answer } => {
                self.conversation.answer(&callback, &answer);
            }
            AgentCommand::Interrupt => self.conversation.interrupt(),
            AgentCommand::Close => {
                self.input = None;
                self.conversation.closing();
                self.closing = true;
                self.end_by = Instant::now() + limits::CLOSE_GRACE.into();
            }
            AgentCommand::Terminate => self.terminate(EndedByUs::Operator),
        }
    }

    fn time_is_up(&mut self) {
        if self.heard_by.is_some_and(|by| by < self.end_by) {
            self.conversation.give_up_saying();
            return;
        }
        self.terminate(if self.closing {
            EndedByUs::Done
        } else {
            EndedByUs::Silent
        });
        self.end_by = Instant::now() + limits::SILENCE_MAX.into();
    }

    fn terminate(&mut self, why: EndedByUs) {
        self.conversation.ending(why);
        self.closing = true;
        self.child.terminate();
    }
}

/// The task that writes to the agent. It ends when its channel is dropped or the agent no longer reads.
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
