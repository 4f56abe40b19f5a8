//! The agent's end of the wire: it hears the host at once, whatever the agent is doing.
//!
//! A thread reads the host's lines. Code that waits for something else ([`Host::while_hearing`]) meanwhile
//! answers requests, queues messages and notices an interrupt.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::thread;
use std::time::Duration;

use ekiden_wire::agent_side::{AgentWriter, HostHook, HostMessage};
use ekiden_wire::context_usage::ContextUsage;
use ekiden_wire::control;
use ekiden_wire::hook_output::HookAnswer;
use ekiden_wire::hooks::HookEvent;
use ekiden_wire::stream::Lifecycle;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Error;
use super::window::Window;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    uuid: Option<String>,
    pub(super) blocks: Vec<String>,
}

/// Why a turn cannot continue.
#[derive(Debug)]
pub(super) enum Halt {
    /// The host wants the turn to end.
    Interrupted,
    /// A scenario has the service answer with this HTTP status.
    Failed {
        status: u16,
    },
    Fatal(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

pub(super) struct Host<W> {
    output: W,
    messages: UnboundedReceiver<HostMessage>,
    pub(super) writer: AgentWriter,
    pub(super) window: Window,
    hooks: Vec<HostHook>,
    queue: VecDeque<Message>,
    /// The host may still say something.
    open: bool,
    /// A turn runs, so that there is something to interrupt.
    pub(super) in_turn: bool,
    questions: u32,
}

impl<W: Write> Host<W> {
    pub(super) fn new(
        input: impl Read + Send + 'static,
        output: W,
        writer: AgentWriter,
        window: Window,
    ) -> Self {
        let (sender, messages) = unbounded_channel();
        thread::spawn(move || listen(input, sender));
        Self {
            output,
            messages,
            writer,
            window,
            hooks: Vec::new(),
            queue: VecDeque::new(),
            open: true,
            in_turn: false,
            questions: 0,
        }
    }

    pub(super) fn send(&mut self, line: &str) -> Result<(), Error> {
        self.output
            .write_all(line.as_bytes())
            .and_then(|()| self.output.flush())
            .map_err(Error::Write)
    }

    /// Reports how far a message has come. One without an id cannot be reported.
    pub(super) fn report(&mut self, message: &Message, state: Lifecycle) -> Result<(), Error> {
        match &message.uuid {
            Some(uuid) => self.send(&self.writer.lifecycle(uuid, state)),
            None => Ok(()),
        }
    }

    /// The next waiting message, which is part of the conversation from now on.
    pub(super) fn deliver(&mut self) -> Result<Option<Message>, Error> {
        let Some(message) = self.queue.pop_front() else {
            return Ok(None);
        };
        self.report(&message, Lifecycle::Started)?;
        for text in &message.blocks {
            self.window.add_text(text);
        }
        Ok(Some(message))
    }

    /// Waits for a message that opens a turn; `None` when none will come.
    pub(super) async fn next_turn(&mut self) -> Result<Option<Message>, Halt> {
        while self.queue.is_empty() && self.open {
            self.hear().await?;
        }
        Ok(self.deliver()?)
    }

    /// Lets time pass, and handles what has arrived by then.
    pub(super) async fn pause(&mut self, length: Duration) -> Result<(), Halt> {
        if !length.is_zero() {
            self.while_hearing(tokio::time::sleep(length)).await?;
        }
        while let Ok(message) = self.messages.try_recv() {
            self.settle(message)?;
        }
        Ok(())
    }

    pub(super) async fn while_hearing<T>(
        &mut self,
        other: impl Future<Output = T>,
    ) -> Result<T, Halt> {
        tokio::pin!(other);
        loop {
            tokio::select! {
                done = &mut other => return Ok(done),
                heard = self.hear(), if self.open => drop(heard?),
            }
        }
    }

    /// Asks the host's hook for this event, if there is one. Does not ask a host that is gone.
    pub(super) async fn ask(
        &mut self,
        event: HookEvent,
        details: Value,
    ) -> Result<HookAnswer, Halt> {
        let hook = self.hooks.iter().find(|hook| hook.event == event).cloned();
        let Some(hook) = hook.filter(|_| self.open) else {
            return Ok(HookAnswer::Pass);
        };
        self.questions += 1;
        let id = format!("hook-{}", self.questions);
        self.send(&self.writer.hook_callback(&id, &hook, details))?;
        while self.open {
            if let Some((request, answer)) = self.hear().await?
                && request == id
            {
                return Ok(answer);
            }
        }
        Ok(HookAnswer::Deny("the host did not answer".to_owned()))
    }

    /// Waits for the host's next line and handles it. Leaves an answer to the caller, with the id of its
    /// question. Cancel safe.
    async fn hear(&mut self) -> Result<Option<(String, HookAnswer)>, Halt> {
        match self.messages.recv().await {
            Some(message) => self.settle(message),
            None => {
                self.open = false;
                Ok(None)
            }
        }
    }

    fn settle(&mut self, message: HostMessage) -> Result<Option<(String, HookAnswer)>, Halt> {
        match message {
            HostMessage::Answer { request_id, answer } => return Ok(Some((request_id, answer))),
            HostMessage::Initialize { request_id, hooks } => {
                self.hooks = hooks;
                let answer =
                    json!({"commands": [], "hooks_applied": true, "pid": std::process::id()});
                self.send(&control::answer(&request_id, &answer))?;
            }
            HostMessage::ContextUsage { request_id } => {
                let usage = ContextUsage {
                    total_tokens: self.window.used,
                    window_tokens: self.window.size,
                    model: Some(self.writer.model.clone()),
                    categories: vec![("Conversation".to_owned(), self.window.used)],
                };
                self.send(&control::answer(&request_id, &usage.to_json()))?;
            }
            HostMessage::Interrupt { request_id } => {
                let queued: Vec<_> = self.queue.iter().filter_map(|m| m.uuid.as_ref()).collect();
                let answer = json!({"still_queued": queued});
                self.send(&control::answer(&request_id, &answer))?;
                if self.in_turn {
                    return Err(Halt::Interrupted);
                }
            }
            HostMessage::OtherRequest {
                request_id,
                subtype,
            } => {
                let error = format!("Unsupported control request subtype: {subtype}");
                self.send(&control::answer_error(&request_id, &error))?;
            }
            HostMessage::User { blocks, uuid } => {
                let message = Message { uuid, blocks };
                self.report(&message, Lifecycle::Queued)?;
                self.queue.push_back(message);
            }
            HostMessage::Malformed => return Err(Error::Malformed.into()),
        }
        Ok(None)
    }
}

/// Reads the host's lines to their end, and reports the end before it drops the input.
fn listen(input: impl Read, messages: UnboundedSender<HostMessage>) {
    let mut lines = BufReader::new(input).split(b'\n');
    for line in lines.by_ref().map_while(Result::ok) {
        let message = HostMessage::parse(&String::from_utf8_lossy(&line));
        if messages.send(message).is_err() {
            return;
        }
    }
    drop(messages);
}
