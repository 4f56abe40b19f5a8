//! One turn: requests to a model that does not exist, its calls, and the end.
//!
//! ```text
//! started ─► init ─► request ─► text, call ─► PreToolUse ─► result ─► messages that waited ─┐
//!                      ▲                                                                    │
//!                      ├────────────────────────────────────────────────────────────────────┘
//!                      └─ request ─► text ─► Stop ─┬─ blocked: the reason is read, alone
//!                                                  └─ completed, result, completed
//! ```
//!
//! The order of the lines is the real client's, as recorded: a message that joined the turn is
//! completed before the result, the one that opened it after. A message that comes after the last
//! response opens a turn of its own.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ekiden_core::budget::{Price, TokenCounts};
use ekiden_wire::agent_side::{HookAnswer, Saying};
use ekiden_wire::hooks::HookEvent;
use ekiden_wire::stream::{Denials, Lifecycle, ModelUsage, TerminalReason, TurnResult};
use ekiden_wire::usage::Usage;
use serde_json::{Value, json};

use super::command;
use super::lines;
use super::mind::Mind;
use super::scenario::{Acts, Moment};
use super::talk::{Halt, Message, Talk};
use super::work::{Move, Outcome, Tool};

/// The agent asks nobody for leave but the host's hooks.
const PERMISSION_MODE: &str = "bypassPermissions";
/// As the real client, it ends its turn after so many holds whatever the hooks say.
const STOP_BLOCKS_MAX: u32 = 8;
/// Names told of a look at the work dir.
const NAMES_MAX: usize = 20;
const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was rejected.";

/// The agent: its end of the wire, its mind, and what adds up over its turns.
pub(super) struct Agent<W> {
    pub(super) talk: Talk<W>,
    pub(super) mind: Mind,
    /// The pause before each response.
    pub(super) step: Duration,
    pub(super) acts: Acts,
    /// A scenario lets it read no message but its prompt.
    pub(super) deaf: bool,
    prompted: bool,
    responses: u32,
    calls: u32,
    results: u32,
    total: ModelUsage,
    price: Price,
}

/// What is known of the turn that runs.
#[derive(Default)]
pub(super) struct Turn {
    requests: u32,
    /// Messages that were delivered after its beginning.
    joined: Vec<Message>,
    /// The call that has no result yet.
    open_call: Option<String>,
    denied: Vec<String>,
    stop_blocks: u32,
}

impl<W: Write> Agent<W> {
    pub(super) fn new(talk: Talk<W>, mind: Mind, step: Duration, acts: Acts, price: Price) -> Self {
        Self {
            talk,
            mind,
            step,
            acts,
            price,
            deaf: false,
            prompted: false,
            responses: 0,
            calls: 0,
            results: 0,
            total: ModelUsage::default(),
        }
    }

    /// Takes turns until the host has no more messages.
    pub(super) fn run(&mut self) -> Result<(), Halt> {
        self.act_outside(Moment::Start)?;
        while let Some(opener) = self.talk.next_turn()? {
            self.turn(&opener)?;
        }
        self.act_outside(Moment::End)
    }

    fn turn(&mut self, opener: &Message) -> Result<(), Halt> {
        let init = self.talk.writer.init(env!("CARGO_PKG_VERSION"), PERMISSION_MODE);
        self.talk.send(&init)?;
        let mut turn = Turn::default();
        self.talk.in_turn = true;
        let over = self.read(&mut turn, &opener.blocks).and_then(|()| self.respond(&mut turn));
        self.talk.in_turn = false;
        match over {
            Ok(()) => self.completed(&turn, opener),
            Err(Halt::Interrupted) => self.cut_off(&turn, opener),
            Err(Halt::Failed { status }) => self.failed(&turn, opener, status),
            Err(halt) => Err(halt),
        }
    }

    /// Takes a message in.
    fn read(&mut self, turn: &mut Turn, blocks: &[String]) -> Result<(), Halt> {
        let is_prompt = !std::mem::replace(&mut self.prompted, true);
        self.act(if is_prompt { Moment::Prompt } else { Moment::Message }, turn)?;
        if is_prompt || !self.deaf {
            self.mind.read(blocks);
        }
        Ok(())
    }

    /// Requests and calls until the turn may end.
    fn respond(&mut self, turn: &mut Turn) -> Result<(), Halt> {
        loop {
            turn.requests += 1;
            self.talk.pause(self.step)?;
            match self.mind.next() {
                Move::Call { words, tool } => {
                    if let Tool::Write { .. } = tool {
                        self.act(Moment::File, turn)?;
                    } else {
                        self.act(Moment::Call, turn)?;
                        self.talk.window.add_step();
                    }
                    let usage = self.usage();
                    self.say(&usage, Saying::Text(&words))?;
                    let outcome = self.call(turn, &usage, &tool)?;
                    self.saw(outcome);
                    self.take_messages(turn)?;
                }
                Move::End { words } => {
                    self.act(Moment::Stop, turn)?;
                    let usage = self.usage();
                    self.say(&usage, Saying::Text(&words))?;
                    if self.may_stop(turn, &words)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Who is deaf to messages does not hear why a call was refused either.
    fn saw(&mut self, outcome: Outcome) {
        let outcome = match outcome {
            Outcome::Denied(reason) if self.deaf => Outcome::Failed(reason),
            heard @ (Outcome::Ran(_) | Outcome::Fine | Outcome::Failed(_) | Outcome::Denied(_)) => heard,
        };
        self.mind.saw(&outcome);
    }

    /// Messages that wait become part of the conversation with the next request.
    fn take_messages(&mut self, turn: &mut Turn) -> Result<(), Halt> {
        self.talk.pause(Duration::ZERO)?;
        while let Some(message) = self.talk.deliver()? {
            self.read(turn, &message.blocks)?;
            turn.joined.push(message);
        }
        Ok(())
    }

    pub(super) fn call(&mut self, turn: &mut Turn, usage: &Usage, tool: &Tool) -> Result<Outcome, Halt> {
        self.calls += 1;
        let id = format!("toolu_{:02}", self.calls);
        let (name, input) = self.described(tool);
        self.say(usage, Saying::Call { id: &id, name, input: &input })?;
        turn.open_call = Some(id.clone());
        let details = json!({"tool_name": name, "tool_input": input, "tool_use_id": id});
        let (outcome, text) = match self.talk.ask(HookEvent::PreToolUse, &details)? {
            HookAnswer::Pass | HookAnswer::Allow => self.carry_out(tool)?,
            HookAnswer::Deny(reason) | HookAnswer::Block(reason) | HookAnswer::Failed(reason) => {
                turn.denied.push(id.clone());
                let text = format!("PreToolUse:{name} hook error: {reason}");
                (Outcome::Denied(reason), text)
            }
        };
        self.talk.window.add_text(&input.to_string());
        self.talk.window.add_text(&text);
        let is_error =
            !matches!(&outcome, Outcome::Fine) && !matches!(&outcome, Outcome::Ran(ran) if ran.code == 0);
        let line = self.talk.writer.tool_result(&id, is_error, &text);
        self.talk.send(&line)?;
        turn.open_call = None;
        Ok(outcome)
    }

    /// A tool's name and input, as a client's.
    fn described(&self, tool: &Tool) -> (&'static str, Value) {
        match tool {
            Tool::Run(script) => ("Bash", json!({"command": script.text.trim_end()})),
            Tool::Look => ("Glob", json!({"pattern": "*", "path": self.talk.writer.cwd})),
            Tool::Write { path, content } => ("Write", json!({"file_path": path, "content": content})),
        }
    }

    /// What the call came to, and its answer in words.
    fn carry_out(&mut self, tool: &Tool) -> Result<(Outcome, String), Halt> {
        let dir = Path::new(&self.talk.writer.cwd).to_owned();
        let done = match tool {
            Tool::Run(script) => self.talk.run(script, &dir)?.map(|ran| {
                let text = told(&ran);
                (Outcome::Ran(ran), text)
            }),
            Tool::Look => command::names(&dir).map(|names| {
                let told = names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join("\n");
                (Outcome::Fine, told)
            }),
            Tool::Write { path, content } => command::write_file(path, content)
                .map(|()| (Outcome::Fine, format!("File created successfully at: {}", path.display()))),
        };
        Ok(done.unwrap_or_else(|error| (Outcome::Failed(error.to_string()), error.to_string())))
    }

    /// Asks whether the turn may end. The reason why not is read as a message, alone.
    fn may_stop(&mut self, turn: &mut Turn, words: &str) -> Result<bool, Halt> {
        let details = json!({
            "stop_hook_active": turn.stop_blocks > 0, "last_assistant_message": words,
            "background_tasks": [], "session_crons": [],
        });
        match self.talk.ask(HookEvent::Stop, &details)? {
            HookAnswer::Block(reason) if turn.stop_blocks < STOP_BLOCKS_MAX => {
                turn.stop_blocks += 1;
                for line in lines::stop_feedback(&self.talk.writer.session_id, &reason) {
                    self.talk.send(&line)?;
                }
                self.talk.window.add_text(&reason);
                self.read(turn, &[reason])?;
                Ok(false)
            }
            HookAnswer::Block(_)
            | HookAnswer::Pass
            | HookAnswer::Allow
            | HookAnswer::Deny(_)
            | HookAnswer::Failed(_) => Ok(true),
        }
    }

    fn completed(&mut self, turn: &Turn, opener: &Message) -> Result<(), Halt> {
        for message in &turn.joined {
            self.talk.tell(message, Lifecycle::Completed)?;
        }
        self.result(turn, TerminalReason::Completed)?;
        self.talk.tell(opener, Lifecycle::Completed)
    }

    fn cut_off(&mut self, turn: &Turn, opener: &Message) -> Result<(), Halt> {
        if let Some(id) = &turn.open_call {
            let line = self.talk.writer.tool_result(id, true, REJECTED);
            self.talk.send(&line)?;
        }
        let in_tool = turn.open_call.is_some();
        let line = lines::interrupted(&self.talk.writer.session_id, in_tool);
        self.talk.send(&line)?;
        self.result(
            turn,
            if in_tool { TerminalReason::AbortedTools } else { TerminalReason::AbortedStreaming },
        )?;
        for message in std::iter::once(opener).chain(&turn.joined) {
            self.talk.tell(message, Lifecycle::Cancelled)?;
        }
        Ok(())
    }

    /// The service answered with a failure, and the client's own retries are used up.
    fn failed(&mut self, turn: &Turn, opener: &Message, status: u16) -> Result<(), Halt> {
        self.result_of(turn, TerminalReason::ApiError, Some(status))?;
        std::iter::once(opener)
            .chain(&turn.joined)
            .try_for_each(|message| self.talk.tell(message, Lifecycle::Cancelled))
    }

    fn result(&mut self, turn: &Turn, reason: TerminalReason) -> Result<(), Halt> {
        self.result_of(turn, reason, None)
    }

    fn result_of(
        &mut self,
        turn: &Turn,
        reason: TerminalReason,
        api_error_status: Option<u16>,
    ) -> Result<(), Halt> {
        let completed = reason == TerminalReason::Completed;
        let denied = u32::try_from(turn.denied.len()).unwrap_or(u32::MAX);
        self.total.cost_usd = self.cost_usd();
        let result = TurnResult {
            subtype: if completed { "success" } else { "error_during_execution" }.to_owned(),
            is_error: !completed,
            api_error_status,
            terminal_reason: Some(reason),
            stop_reason: Some(if turn.open_call.is_some() { "tool_use" } else { "end_turn" }.to_owned()),
            result_index: self.results,
            num_turns: turn.requests,
            total_cost_usd: self.total.cost_usd,
            model_usage: [(self.talk.writer.model.clone(), self.total)].into(),
            denials: Denials { count: denied, ids: turn.denied.clone() },
            structured: if completed { self.mind.answer() } else { None },
            ..TurnResult::default()
        };
        self.results += 1;
        let line = self.talk.writer.result(&result);
        self.talk.send(&line)
    }

    #[expect(clippy::cast_precision_loss, reason = "a cost is small")]
    fn cost_usd(&self) -> f64 {
        let tokens = TokenCounts {
            input: self.total.input_tokens,
            cache_write: self.total.cache_creation_input_tokens,
            cache_read: self.total.cache_read_input_tokens,
            output: self.total.output_tokens,
        };
        self.price.nano_usd(tokens) as f64 / 1e9
    }

    pub(super) fn say(&mut self, usage: &Usage, saying: Saying<'_>) -> Result<(), Halt> {
        let line = self.talk.writer.assistant(&format!("msg_{}", self.responses), usage, saying);
        self.talk.send(&line)
    }

    /// The figures of the next response.
    pub(super) fn usage(&mut self) -> Usage {
        self.responses += 1;
        let usage = self.talk.window.respond();
        self.total.context_window = self.talk.window.size;
        self.total.input_tokens += usage.input;
        self.total.output_tokens += usage.output;
        self.total.cache_read_input_tokens += usage.cache_read;
        self.total.cache_creation_input_tokens += usage.cache_creation;
        usage
    }
}

/// A command's end, as a client tells it.
fn told(ran: &command::Ran) -> String {
    let output = ran.output.trim_end();
    match ran.code {
        0 if output.is_empty() => "(Bash completed with no output)".to_owned(),
        0 => output.to_owned(),
        code => format!("Exit code {code}\n{output}").trim_end().to_owned(),
    }
}
