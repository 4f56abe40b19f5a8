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
//! The order of the lines is the real client's, as recorded: a message that joined the turn is completed before
//! the result, and the message that opened the turn after it. A message that comes after the last response
//! opens a new turn.

use std::io::Write;
use std::time::Duration;

use ekiden_wire::agent_side::Saying;
use ekiden_wire::hook_output::HookAnswer;
use ekiden_wire::hooks::HookEvent;
use ekiden_wire::stream::{Lifecycle, ModelUsage, TerminalReason, TurnResult};
use ekiden_wire::tools::Call;
use ekiden_wire::usage::Usage;
use serde_json::json;

use super::Error;
use super::host::{Halt, Host, Message};
use super::scenario::ScenarioPoint;
use super::tool::{Outcome, Tool};
use super::window::STEP_TOKENS;

/// The agent asks only the host's hooks for permission.
const PERMISSION_MODE: &str = "bypassPermissions";
/// Like the real client, it ends its turn after this many blocks, whatever the hooks say.
const STOP_BLOCKS_MAX: u32 = 8;
const REJECTED: &str =
    "The user doesn't want to proceed with this tool use. The tool use was rejected.";

/// What an agent does next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Move {
    Call {
        words: String,
        tool: Tool,
    },
    /// It says something and ends its turn.
    End {
        words: String,
    },
}

/// What decides for the agent, in a relay or in planning.
pub(super) trait Mind {
    /// Reads a message, or the reason why its turn may not end.
    fn read(&mut self, blocks: &[String]);

    fn next(&mut self) -> Move;

    /// Learns the result of the last call.
    fn saw(&mut self, outcome: &Outcome);

    /// The answer of this turn, if a schema was asked for.
    fn answer(&self) -> Option<String> {
        None
    }

    /// How a scenario changes the handoff, if this mind writes one.
    fn revision(&mut self) -> Option<&mut super::scenario::Revision> {
        None
    }
}

/// The agent: its end of the wire, its mind, and what adds up over its turns.
pub(super) struct Agent<W> {
    pub(super) host: Host<W>,
    pub(super) mind: Box<dyn Mind>,
    pub(super) setup: super::Setup,
    /// A scenario makes it read no message except its prompt.
    pub(super) is_deaf: bool,
    /// A scenario makes it answer with this, whatever the question.
    pub(super) answer: Option<String>,
    prompted: bool,
    responses: u32,
    calls: u32,
    results: u32,
    total: ModelUsage,
}

#[derive(Default)]
pub(super) struct Turn {
    requests: u32,
    /// Messages delivered after its beginning.
    joined: Vec<Message>,
    /// The call that has no result yet.
    open_call: Option<String>,
    denied: Vec<Call>,
    stop_blocks: u32,
}

impl<W: Write> Agent<W> {
    pub(super) fn new(host: Host<W>, mind: Box<dyn Mind>, setup: super::Setup) -> Self {
        Self {
            host,
            mind,
            setup,
            is_deaf: false,
            answer: None,
            prompted: false,
            responses: 0,
            calls: 0,
            results: 0,
            total: ModelUsage::default(),
        }
    }

    /// Takes turns until the host has no more messages.
    pub(super) async fn run(&mut self) -> Result<(), Halt> {
        self.act(ScenarioPoint::Start, &mut Turn::default()).await?;
        while let Some(opener) = self.host.next_turn().await? {
            self.turn(&opener).await?;
        }
        self.act(ScenarioPoint::End, &mut Turn::default()).await
    }

    async fn turn(&mut self, opener: &Message) -> Result<(), Halt> {
        let version = env!("CARGO_PKG_VERSION");
        let init = self.host.writer.init(version, PERMISSION_MODE);
        self.host.send(&init)?;
        let mut turn = Turn::default();
        self.host.in_turn = true;
        let over = self.respond(&mut turn, opener).await;
        self.host.in_turn = false;
        match over {
            Ok(()) => Ok(self.completed(&turn, opener)?),
            Err(Halt::Interrupted) => Ok(self.interrupted(&turn, opener)?),
            Err(Halt::Failed { status }) => {
                self.result(&turn, TerminalReason::ApiError, Some(status))?;
                Ok(self.cancelled(&turn, opener)?)
            }
            Err(halt @ Halt::Fatal(_)) => Err(halt),
        }
    }

    async fn read(&mut self, turn: &mut Turn, blocks: &[String]) -> Result<(), Halt> {
        let is_prompt = !std::mem::replace(&mut self.prompted, true);
        let moment = match is_prompt {
            true => ScenarioPoint::Prompt,
            false => ScenarioPoint::Message,
        };
        self.act(moment, turn).await?;
        if is_prompt || !self.is_deaf {
            self.mind.read(blocks);
        }
        Ok(())
    }

    /// Requests and calls until the turn may end.
    async fn respond(&mut self, turn: &mut Turn, opener: &Message) -> Result<(), Halt> {
        self.read(turn, &opener.blocks).await?;
        loop {
            turn.requests += 1;
            self.host.pause(self.setup.step).await?;
            match self.mind.next() {
                Move::Call { words, tool } => {
                    if let Tool::Write { .. } = tool {
                        self.act(ScenarioPoint::File, turn).await?;
                    } else {
                        self.act(ScenarioPoint::Call, turn).await?;
                        self.host.window.fill(STEP_TOKENS);
                    }
                    let usage = self.usage();
                    self.say(&usage, Saying::Text(&words))?;
                    let outcome = self.call(turn, &usage, &tool).await?;
                    self.saw(outcome);
                    self.take_messages(turn).await?;
                }
                Move::End { words } => {
                    self.act(ScenarioPoint::Stop, turn).await?;
                    let usage = self.usage();
                    self.say(&usage, Saying::Text(&words))?;
                    if self.may_stop(turn, &words).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// An agent that is deaf to messages does not learn why a call was refused either.
    fn saw(&mut self, outcome: Outcome) {
        let heard = match outcome {
            Outcome::Denied(reason) if self.is_deaf => Outcome::Failed(reason),
            Outcome::Ran(_) | Outcome::Written | Outcome::Failed(_) | Outcome::Denied(_) => outcome,
        };
        self.mind.saw(&heard);
    }

    /// Waiting messages become part of the conversation with the next request.
    async fn take_messages(&mut self, turn: &mut Turn) -> Result<(), Halt> {
        self.host.pause(Duration::ZERO).await?;
        while let Some(message) = self.host.deliver()? {
            self.read(turn, &message.blocks).await?;
            turn.joined.push(message);
        }
        Ok(())
    }

    pub(super) async fn call(
        &mut self,
        turn: &mut Turn,
        usage: &Usage,
        tool: &Tool,
    ) -> Result<Outcome, Halt> {
        self.calls += 1;
        let id = format!("toolu_{:02}", self.calls);
        let (name, input) = tool.described();
        let call = Saying::Call {
            id: &id,
            name,
            input: &input,
        };
        self.say(usage, call)?;
        turn.open_call = Some(id.clone());
        let details = json!({"tool_name": name, "tool_input": input, "tool_use_id": id});
        let (outcome, text) = match self.host.ask(HookEvent::PreToolUse, details).await? {
            HookAnswer::Pass | HookAnswer::Allow => {
                let carrying_out = tool.carry_out(&self.setup.dir);
                self.host.while_hearing(carrying_out).await?
            }
            HookAnswer::Deny(reason) | HookAnswer::Block(reason) => {
                let call = Call::new(id.clone(), name.to_owned(), &input);
                turn.denied.push(call);
                let text = format!("PreToolUse:{name} hook error: {reason}");
                (Outcome::Denied(reason), text)
            }
        };
        self.host.window.add_text(&input.to_string());
        self.host.window.add_text(&text);
        let line = self.host.writer.tool_result(&id, outcome.is_error(), &text);
        self.host.send(&line)?;
        turn.open_call = None;
        Ok(outcome)
    }

    /// Asks whether the turn may end. If it may not, the agent reads the reason as a separate message.
    async fn may_stop(&mut self, turn: &mut Turn, words: &str) -> Result<bool, Halt> {
        let details = json!({
            "stop_hook_active": turn.stop_blocks > 0, "last_assistant_message": words,
            "background_tasks": [], "session_crons": [],
        });
        match self.host.ask(HookEvent::Stop, details).await? {
            HookAnswer::Block(reason) if turn.stop_blocks < STOP_BLOCKS_MAX => {
                turn.stop_blocks += 1;
                self.as_user(&format!("Stop hook feedback:\n{reason}"))?;
                self.host
                    .send("{\"type\":\"system\",\"subtype\":\"notification\"}\n")?;
                self.host.window.add_text(&reason);
                self.read(turn, &[reason]).await?;
                Ok(false)
            }
            HookAnswer::Block(_) | HookAnswer::Pass | HookAnswer::Allow | HookAnswer::Deny(_) => {
                Ok(true)
            }
        }
    }

    fn completed(&mut self, turn: &Turn, opener: &Message) -> Result<(), Error> {
        for message in &turn.joined {
            self.host.report(message, Lifecycle::Completed)?;
        }
        self.result(turn, TerminalReason::Completed, None)?;
        self.host.report(opener, Lifecycle::Completed)
    }

    fn interrupted(&mut self, turn: &Turn, opener: &Message) -> Result<(), Error> {
        let (words, reason) = match &turn.open_call {
            Some(id) => {
                let line = self.host.writer.tool_result(id, true, REJECTED);
                self.host.send(&line)?;
                (" for tool use", TerminalReason::AbortedTools)
            }
            None => ("", TerminalReason::AbortedStreaming),
        };
        self.as_user(&format!("[Request interrupted by user{words}]"))?;
        self.result(turn, reason, None)?;
        self.cancelled(turn, opener)
    }

    fn cancelled(&mut self, turn: &Turn, opener: &Message) -> Result<(), Error> {
        std::iter::once(opener)
            .chain(&turn.joined)
            .try_for_each(|message| self.host.report(message, Lifecycle::Cancelled))
    }

    /// A line that a client writes in the user's name. Hosts skip it; a recording has it.
    fn as_user(&mut self, text: &str) -> Result<(), Error> {
        let message = json!({"role": "user", "content": [{"type": "text", "text": text}]});
        self.host
            .send(&format!("{{\"type\":\"user\",\"message\":{message}}}\n"))
    }

    fn result(
        &mut self,
        turn: &Turn,
        reason: TerminalReason,
        api_error_status: Option<u16>,
    ) -> Result<(), Error> {
        let completed = reason == TerminalReason::Completed;
        let subtype = match completed {
            true => "success",
            false => "error_during_execution",
        };
        let stop_reason = turn.open_call.as_ref().map_or("end_turn", |_| "tool_use");
        self.total.cost_usd = self.cost_usd();
        let result = TurnResult {
            subtype: subtype.to_owned(),
            is_error: !completed,
            api_error_status,
            terminal_reason: Some(reason),
            stop_reason: Some(stop_reason.to_owned()),
            result_index: self.results,
            num_turns: turn.requests,
            total_cost_usd: self.total.cost_usd,
            model_usage: [(self.host.writer.model.clone(), self.total)].into(),
            denials: turn.denied.clone(),
            structured: self
                .answer
                .clone()
                .or(self.mind.answer())
                .filter(|_| completed),
            ..TurnResult::default()
        };
        self.results += 1;
        let line = self.host.writer.result(&result);
        self.host.send(&line)
    }

    #[expect(clippy::cast_precision_loss, reason = "a cost is small")]
    fn cost_usd(&self) -> f64 {
        self.setup.price.nano_usd(self.total.counts()) as f64 / 1e9
    }

    pub(super) fn say(&mut self, usage: &Usage, saying: Saying<'_>) -> Result<(), Error> {
        let id = format!("msg_{}", self.responses);
        let line = self.host.writer.assistant(&id, usage, saying);
        self.host.send(&line)
    }

    /// The figures of the next response.
    pub(super) fn usage(&mut self) -> Usage {
        self.responses += 1;
        let usage = self.host.window.respond();
        self.total.context_window = self.host.window.size;
        self.total.input_tokens += usage.input;
        self.total.output_tokens += usage.output;
        self.total.cache_read_input_tokens += usage.cache_read;
        self.total.cache_creation_input_tokens += usage.cache_creation;
        usage
    }
}
