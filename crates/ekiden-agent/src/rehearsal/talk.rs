//! The agent's end of the wire: what comes in is heard at once, whatever the agent is at.
//!
//! A thread reads the host's lines; another waits for the command that runs. Both send to one inbox,
//! so that the agent waits in one place ([`Talk::wait`]) and answers questions, queues messages and
//! sees an interrupt while it waits for something else.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ekiden_wire::agent_side::{self, AgentWriter, HookAnswer, HostHook, HostMessage};
use ekiden_wire::context_usage::ContextUsage;
use ekiden_wire::control;
use ekiden_wire::hooks::HookEvent;
use ekiden_wire::stream::Lifecycle;
use serde_json::{Value, json};

use super::checklist::Script;
use super::command::{self, Ran};
use super::window::Window;
use crate::unix::Deadline;

/// A message of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    uuid: Option<String>,
    pub(super) blocks: Vec<String>,
}

/// Why what is going on cannot go on.
#[derive(Debug)]
pub(super) enum Halt {
    /// The host wants the turn to end.
    Interrupted,
    /// The host wrote something that is no message; a client ends then.
    Malformed,
    /// Nothing can be written to the host any more.
    Broken(io::Error),
    /// A scenario lets the service answer with this HTTP status.
    Failed { status: u16 },
    /// A scenario lets the process leave with this exit code.
    Left(i32),
}

/// What was heard and is not dealt with yet.
#[derive(Debug)]
pub(super) enum Heard {
    /// The host answered a question.
    Answer(String, HookAnswer),
    /// This command ended.
    Ran(u32, io::Result<Ran>),
    /// The host will say no more.
    Closed,
    /// Something that has been dealt with.
    Settled,
    /// Nothing until the deadline.
    Late,
}

enum Event {
    Host(HostMessage),
    Ran(u32, io::Result<Ran>),
    Closed,
}

/// The agent's end of the wire.
pub(super) struct Talk<W> {
    output: W,
    inbox: Receiver<Event>,
    events: Sender<Event>,
    pub(super) writer: AgentWriter,
    pub(super) window: Window,
    hooks: Vec<HostHook>,
    queue: VecDeque<Message>,
    /// The host may still say something.
    pub(super) open: bool,
    /// A turn runs, so that there is something to interrupt.
    pub(super) in_turn: bool,
    questions: u32,
    commands: u32,
}

impl<W: Write> Talk<W> {
    /// Begins to listen.
    pub(super) fn new(
        input: impl Read + Send + 'static,
        output: W,
        writer: AgentWriter,
        window: Window,
    ) -> Self {
        let (events, inbox) = channel();
        let sender = events.clone();
        thread::spawn(move || listen(input, &sender));
        Self {
            output,
            inbox,
            events,
            writer,
            window,
            hooks: Vec::new(),
            queue: VecDeque::new(),
            open: true,
            in_turn: false,
            questions: 0,
            commands: 0,
        }
    }

    /// Writes a line.
    pub(super) fn send(&mut self, line: &str) -> Result<(), Halt> {
        let written = self.output.write_all(line.as_bytes()).and_then(|()| self.output.flush());
        written.map_err(Halt::Broken)
    }

    /// Tells where a message is on its way. One without an id has none to tell it by.
    pub(super) fn tell(&mut self, message: &Message, state: Lifecycle) -> Result<(), Halt> {
        match &message.uuid {
            Some(uuid) => {
                let line = self.writer.lifecycle(uuid, state);
                self.send(&line)
            }
            None => Ok(()),
        }
    }

    /// The next message that waits, as part of the conversation from now on.
    pub(super) fn deliver(&mut self) -> Result<Option<Message>, Halt> {
        let Some(message) = self.queue.pop_front() else { return Ok(None) };
        self.tell(&message, Lifecycle::Started)?;
        message.blocks.iter().for_each(|text| self.window.add_text(text));
        Ok(Some(message))
    }

    /// Waits for a message that opens a turn; `None` when none will come.
    pub(super) fn next_turn(&mut self) -> Result<Option<Message>, Halt> {
        while self.queue.is_empty() && self.open {
            self.wait(None)?;
        }
        self.deliver()
    }

    /// Waits for the next thing that happens, at most until `deadline`.
    pub(super) fn wait(&mut self, deadline: Option<Deadline>) -> Result<Heard, Halt> {
        let event = match deadline {
            Some(deadline) => self.inbox.recv_timeout(deadline.left()),
            None => self.inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        // This end holds a sender too, so the inbox is never disconnected.
        let Ok(event) = event else { return Ok(Heard::Late) };
        match event {
            Event::Ran(number, ran) => Ok(Heard::Ran(number, ran)),
            Event::Host(message) => self.hear(message),
            Event::Closed => {
                self.open = false;
                Ok(Heard::Closed)
            }
        }
    }

    /// Lets time pass, and hears what came meanwhile.
    pub(super) fn pause(&mut self, length: Duration) -> Result<(), Halt> {
        let deadline = Deadline::after(length);
        while !matches!(self.wait(Some(deadline))?, Heard::Late) {}
        Ok(())
    }

    /// Asks the host's hooks of this event, if it has any; the first answer that is not "no opinion"
    /// counts. A host that is gone is not asked any more.
    pub(super) fn ask(&mut self, event: HookEvent, details: &Value) -> Result<HookAnswer, Halt> {
        let hooks: Vec<HostHook> = self.hooks.iter().filter(|hook| hook.event == event).cloned().collect();
        for hook in &hooks {
            if !self.open {
                break;
            }
            self.questions += 1;
            let id = format!("hook-{}", self.questions);
            let line = self.writer.hook_callback(&id, hook, details.clone());
            self.send(&line)?;
            let answer = self.answer(&id)?;
            if answer != HookAnswer::Pass {
                return Ok(answer);
            }
        }
        Ok(HookAnswer::Pass)
    }

    /// Runs a command to its end. An interrupt kills it.
    pub(super) fn run(&mut self, script: &Script, dir: &Path) -> Result<io::Result<Ran>, Halt> {
        self.commands += 1;
        let (number, events) = (self.commands, self.events.clone());
        let over = move |ran| {
            // The agent is about to exit if it does not listen any more.
            let _ = events.send(Event::Ran(number, ran));
        };
        let running = match command::start(script, dir, over) {
            Ok(running) => running,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            match self.wait(None) {
                Ok(Heard::Ran(ended, ran)) if ended == number => return Ok(ran),
                Ok(Heard::Ran(..) | Heard::Answer(..) | Heard::Closed | Heard::Settled | Heard::Late) => {}
                Err(halt) => {
                    running.kill();
                    return Err(halt);
                }
            }
        }
    }

    fn answer(&mut self, id: &str) -> Result<HookAnswer, Halt> {
        loop {
            match self.wait(None)? {
                Heard::Answer(request_id, answer) if request_id == id => return Ok(answer),
                Heard::Closed => return Ok(HookAnswer::Failed("the host did not answer".to_owned())),
                Heard::Answer(..) | Heard::Ran(..) | Heard::Settled | Heard::Late => {}
            }
        }
    }

    fn hear(&mut self, message: HostMessage) -> Result<Heard, Halt> {
        match message {
            HostMessage::Answer { request_id, answer } => return Ok(Heard::Answer(request_id, answer)),
            HostMessage::Initialize { request_id, hooks } => self.initialize(&request_id, hooks)?,
            HostMessage::ContextUsage { request_id } => self.tell_usage(&request_id)?,
            HostMessage::Interrupt { request_id } => self.interrupt(&request_id)?,
            HostMessage::OtherRequest { request_id, subtype } => {
                let error = format!("Unsupported control request subtype: {subtype}");
                self.send(&control::answer_error(&request_id, &error))?;
            }
            HostMessage::User { blocks, uuid } => {
                let message = Message { uuid, blocks };
                self.tell(&message, Lifecycle::Queued)?;
                self.queue.push_back(message);
            }
            HostMessage::Malformed => return Err(Halt::Malformed),
        }
        Ok(Heard::Settled)
    }

    fn initialize(&mut self, request_id: &str, hooks: Vec<HostHook>) -> Result<(), Halt> {
        self.hooks = hooks;
        let answer = json!({"commands": [], "hooks_applied": true, "pid": std::process::id()});
        self.send(&agent_side::response(request_id, &answer))
    }

    fn tell_usage(&mut self, request_id: &str) -> Result<(), Halt> {
        let used = self.window.used();
        let usage = ContextUsage {
            total_tokens: used,
            max_tokens: self.window.size,
            raw_max_tokens: self.window.size,
            model: Some(self.writer.model.clone()),
            categories: vec![("Conversation".to_owned(), used)],
            ..ContextUsage::default()
        };
        self.send(&agent_side::context_usage(request_id, &usage))
    }

    fn interrupt(&mut self, request_id: &str) -> Result<(), Halt> {
        let queued: Vec<&String> = self.queue.iter().filter_map(|message| message.uuid.as_ref()).collect();
        self.send(&agent_side::response(request_id, &json!({"still_queued": queued})))?;
        if self.in_turn { Err(Halt::Interrupted) } else { Ok(()) }
    }
}

/// Reads the host's lines to their end. The input is dropped after its end was told.
fn listen(input: impl Read, events: &Sender<Event>) {
    let mut lines = BufReader::new(input).split(b'\n');
    for line in &mut lines {
        let Ok(line) = line else { break };
        let message = HostMessage::parse(&String::from_utf8_lossy(&line));
        if events.send(Event::Host(message)).is_err() {
            return;
        }
    }
    // The agent is about to exit if it does not listen any more.
    let _ = events.send(Event::Closed);
}
