//! A minimal host and the agent that it talks to, at the two ends of two pipes.

use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use ekiden_core::budget::Price;
use ekiden_core::guard::{HookInput, ToolUse};
use ekiden_wire::hooks::HookEvent;
use ekiden_wire::stream::ClientEvent;
use ekiden_wire::{control, hook_output};
use serde_json::Value;

use super::super::*;

/// Size of the window in these conversations, in tokens.
pub(super) const WINDOW_TOKENS: u64 = 40_000;

/// A host and its agent.
pub(super) struct Host {
    to_agent: Option<PipeWriter>,
    from_agent: BufReader<PipeReader>,
    agent: JoinHandle<Result<(), Error>>,
    /// Disconnected when the agent has heard that the host says no more.
    listening: Receiver<()>,
    pub(super) lines: Vec<Value>,
    pub(super) answers: Answers,
    /// The context of the newest response, in tokens.
    pub(super) usage: u64,
}

/// The agent's input. Dropping it shows that the agent has read all of it.
struct AgentInput {
    pipe: PipeReader,
    _listening: Sender<()>,
}

impl Read for AgentInput {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.pipe.read(bytes)
    }
}

/// How a host answers questions.
#[derive(Default)]
pub(super) struct Answers {
    /// Calls whose target holds this are refused for this reason.
    pub(super) deny: Option<(&'static str, String)>,
    /// Reasons not to let a turn end, one after the other.
    pub(super) hold: Vec<String>,
    /// A message to send while the first Stop waits for its answer.
    pub(super) at_stop: Option<String>,
}

/// What an agent is started with in these conversations.
fn setup(dir: &Path) -> Setup {
    Setup {
        price: Price::usual(0),
        session_id: "s1".to_owned(),
        dir: dir.to_owned(),
        protocol: Some(work::tests::text()),
        window_tokens: WINDOW_TOKENS,
        step: Duration::ZERO,
        acts: Acts::default(),
    }
}

impl Host {
    /// Starts an agent, registers hooks and asks for the window.
    pub(super) fn start(dir: &Path) -> Self {
        let (pipe, to_agent) = io::pipe().unwrap();
        let (_listening, listening) = channel();
        let agent_input = AgentInput { pipe, _listening };
        let (from_agent, agent_output) = io::pipe().unwrap();
        let setup = setup(dir);
        let mut host = Self {
            to_agent: Some(to_agent),
            from_agent: BufReader::new(from_agent),
            agent: thread::spawn(move || run(setup, agent_input, agent_output)),
            listening,
            lines: Vec::new(),
            answers: Answers::default(),
            usage: 0,
        };
        let hooks = [HookEvent::PreToolUse, HookEvent::Stop];
        host.write(&control::initialize("r1", &hooks, 60));
        host.write(&control::get_context_usage("r2"));
        host
    }

    pub(super) fn write(&mut self, line: &str) {
        self.to_agent
            .as_mut()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
    }

    pub(super) fn say<T: AsRef<str>>(&mut self, uuid: &str, blocks: &[T]) {
        let blocks: Vec<_> = blocks.iter().map(AsRef::as_ref).collect();
        self.write(&control::user_message(&blocks, false, Some(uuid)));
    }

    /// Reads on until a line says this, and answers questions on the way.
    pub(super) fn until(&mut self, wanted: &str) {
        while !self.hear().starts_with(wanted) {}
    }

    /// Reads one line. What it says in short.
    pub(super) fn hear(&mut self) -> String {
        let mut line = String::new();
        assert!(
            self.from_agent.read_line(&mut line).unwrap() > 0,
            "the agent is gone: {:#?}",
            self.seen()
        );
        if let ClientEvent::HookCallback {
            request_id, call, ..
        } = ClientEvent::parse(line.as_bytes())
        {
            self.answer(&request_id, &call.input);
        }
        let line: Value = serde_json::from_str(&line).unwrap();
        if let Some(usage) = line.pointer("/message/usage") {
            let usage: ekiden_wire::usage::Usage = serde_json::from_value(usage.clone()).unwrap();
            self.usage = usage.context_tokens();
        }
        let short = short(&line);
        self.lines.push(line);
        short
    }

    /// What the agent said so far, in short.
    pub(super) fn seen(&self) -> Vec<String> {
        self.lines.iter().map(short).collect()
    }

    /// Says no more, and waits until the agent has heard that. It may go on.
    pub(super) fn hang_up(&mut self) {
        self.to_agent = None;
        assert!(self.listening.recv().is_err(), "nothing is ever sent");
    }

    /// Says no more and waits for the agent's end. All that it said, in short.
    pub(super) fn close(mut self) -> (Vec<String>, Result<(), Error>) {
        self.hang_up();
        let mut line = String::new();
        while self.from_agent.read_line(&mut line).unwrap() > 0 {
            self.lines.push(serde_json::from_str(&line).unwrap());
            line.clear();
        }
        (self.seen(), self.agent.join().unwrap())
    }

    fn answer(&mut self, request_id: &str, input: &HookInput) {
        let output = match input {
            HookInput::PreTool { tool, .. } => match self.refusal(tool) {
                Some(reason) => hook_output::permission(false, &reason),
                None => hook_output::pass(),
            },
            HookInput::Stop { .. } => {
                if let Some(text) = self.answers.at_stop.take() {
                    self.say("late", &[text]);
                }
                match self.answers.hold.is_empty() {
                    true => hook_output::pass(),
                    false => hook_output::block(&self.answers.hold.remove(0)),
                }
            }
            HookInput::PreCompact | HookInput::Other => panic!("nobody registered for {input:?}"),
        };
        self.write(&control::answer(request_id, &output));
    }

    fn refusal(&self, tool: &ToolUse) -> Option<String> {
        let target = match tool {
            ToolUse::Shell(command) => command.clone(),
            ToolUse::Read(path) | ToolUse::Write(path) => path.display().to_string(),
            ToolUse::Schedule | ToolUse::Handoff | ToolUse::Own { .. } | ToolUse::Other => {
                String::new()
            }
        };
        let (part, reason) = self.answers.deny.as_ref()?;
        target.contains(part).then(|| reason.clone())
    }
}

/// A line in a few words.
pub(super) fn short(line: &Value) -> String {
    let text = |pointer: &str| {
        line.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let first = |pointer: &str| text(pointer).lines().next().unwrap_or_default().to_owned();
    let block = "/message/content/0";
    let is_error = line.pointer("/message/content/0/is_error") == Some(&Value::Bool(true));
    match (text("/type"), text(&format!("{block}/type"))) {
        ("command_lifecycle", _) => format!("{} {}", text("/state"), text("/command_uuid")),
        ("control_request", _) => format!("asks {}", text("/request/callback_id")),
        ("control_response", _) => format!("answers {}", text("/response/request_id")),
        ("assistant", "text") => format!("says {}", text(&format!("{block}/text"))),
        ("assistant", _) => format!("calls {}", called(&line["message"]["content"][0])),
        ("user", "text") => format!("user {}", first(&format!("{block}/text"))),
        ("user", _) if is_error => format!("error {}", first(&format!("{block}/content"))),
        ("user", _) => "result".to_owned(),
        ("result", _) => format!("end {} {}", line["result_index"], text("/terminal_reason")),
        (kind, _) => format!("{kind} {}", text("/subtype")).trim_end().to_owned(),
    }
}

fn called(call: &Value) -> String {
    let target = ["command", "file_path", "path"]
        .iter()
        .find_map(|key| call["input"][key].as_str());
    let target = target
        .unwrap_or_default()
        .rsplit('/')
        .next()
        .unwrap_or_default();
    format!("{} {target}", call["name"].as_str().unwrap_or_default())
}
