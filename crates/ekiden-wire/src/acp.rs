//! The Agent Client Protocol, through which ekiden can drive some thirty agents.
//!
//! ```text
//!  initialize ─► session/new | resume | load ─► session/prompt ─► session/update … ─► its answer: the turn is over
//!                                                     ▲ a message: by one of three ways, see `Joining`
//! ```
//!
//! ekiden asks the agent at the start what it can do, and does not guess: see `Able`. It does not offer files or
//! terminals, so the agent works with its own tools, and asks for permission where its own rules say so. Its tool
//! names are translated to Claude Code's, so that rules, traces and the guard are the same for all agents.

mod able;
mod call;
mod dialect;
mod opencode;
mod opening;

use std::collections::{BTreeMap, BTreeSet};

use ekiden_core::limits::{BYTES_PER_TOKEN, WINDOW_TOKENS_DEFAULT};
use serde_json::{Value, json};

use crate::consent::Questions;
use crate::rpc::{
    INITIALIZE, LATER, METHOD_NOT_FOUND, OPEN, Outbox, Response, Start, blocks, ended, of_status,
    words_of,
};
use crate::stream::{
    ApiError, ApiErrorKind, Block, ClientEvent, ModelUsage, TerminalReason, TurnResult,
};
use crate::trace::keep;
use crate::usage::Usage;
use crate::{excerpt, json, limits};

use able::{Able, Choice, LOAD};
use call::OpenCall;
use dialect::{Sent, Way};

/// The agent wants somebody to log in.
const AUTH_REQUIRED: i64 = -32_000;
/// How much is held of words that come in pieces.
const WORDS_BYTES_MAX: usize = 64 * 1024;
/// What a conversation contains before anything was said, in tokens: instructions and tools.
const BASE_TOKENS: u64 = 20_000;
const UNTOLD: &str = "this agent does not report its context use while it works, so ekiden orders the handoff by bytes exchanged (`--session-timeout` orders it by time)";

/// A conversation in this protocol.
#[derive(Default)]
pub struct Acp {
    out: Outbox,
    start: Start,
    /// The texts of the first message, until the conversation has begun.
    first: Vec<String>,
    /// What the user chose and the agent has not confirmed yet, by our requests' ids.
    choices: BTreeMap<u64, Choice>,
    able: Able,
    /// The agent's id of the conversation.
    session: String,
    /// The model that answers if the user chose none.
    own_model: Option<String>,
    /// The conversation has begun. What the agent reports before that is history.
    is_open: bool,
    last_id: u64,
    /// Prompts without an answer so far.
    prompts: BTreeSet<u64>,
    /// A message that is not yet part of a request, and how it gets there.
    sent: Option<Sent>,
    /// Our request that put the last message into a running turn.
    joining: u64,
    calls: Vec<OpenCall>,
    questions: Questions,
    /// The answers that each request for permission offers, by the request's id.
    offers: Vec<(Value, Value)>,
    words: String,
    response: u64,
    /// Results came since the last response began.
    has_results: bool,
    context: Context,
    /// The turn was ended because its service refuses it, so the turn's own end says nothing new.
    is_given_up: bool,
    /// The turn was ended, and not for a message.
    is_interrupted: bool,
    /// What the conversation has cost, in US dollars.
    cost_usd: f64,
    charged_usd: f64,
    /// The cost of turns whose tokens are not known.
    without_tokens_usd: f64,
}

/// How full the context is, as reported and as guessed in between.
#[derive(Debug, Default)]
struct Context {
    told: Option<u64>,
    window: u64,
    bytes: u64,
    /// Its size when the last response began, and when the one before did.
    now: u64,
    before: u64,
    /// It was reported in the running turn, before a second tool call.
    is_live: bool,
    results: u32,
    has_warned: bool,
}

impl Context {
    fn tokens(&self) -> u64 {
        let told = self.told.unwrap_or(BASE_TOKENS);
        told.saturating_add(self.bytes / BYTES_PER_TOKEN as u64)
    }
}

impl Acp {
    pub fn new(start: Start) -> Self {
        Self {
            session: start.resume.clone().unwrap_or_default(),
            questions: Questions::new(&start),
            cost_usd: start.charged_usd,
            charged_usd: start.charged_usd,
            start,
            last_id: LATER,
            has_results: true,
            ..Self::default()
        }
    }

    /// A process answers. In a saved stream there may have been another before it: what that had open is gone, and
    /// what comes now is history again.
    fn begin_anew(&mut self) {
        let before = std::mem::take(self);
        *self = Self {
            out: before.out,
            first: before.first,
            session: before.session,
            response: before.response,
            is_interrupted: before.is_interrupted,
            cost_usd: before.cost_usd,
            charged_usd: before.cost_usd,
            ..Self::new(before.start)
        };
    }

    fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        self.out.request(self.last_id, method, params);
        self.last_id
    }

    fn prompt(&mut self, texts: &[String]) {
        self.context.bytes += texts.iter().map(|text| text.len() as u64).sum::<u64>();
        let params = json!({"sessionId": self.session, "prompt": blocks(texts)});
        let id = self.request("session/prompt", &params);
        self.prompts.insert(id);
    }

    fn answered(&mut self, id: u64, answer: Result<Value, Value>) {
        match (id, answer) {
            (INITIALIZE, Ok(told)) => {
                self.begin_anew();
                self.able = Able::of(&told);
                self.out.begun();
                self.open();
            }
            (OPEN, Ok(told)) => self.opened(&told),
            // Qwen 0.15 offers a request that it does not serve; it can load a conversation.
            (OPEN, Err(error))
                if error["code"] == METHOD_NOT_FOUND
                    && self.able.resume.take_if(|it| *it != LOAD).is_some() =>
            {
                self.open();
            }
            (INITIALIZE | OPEN, Err(error)) if !needs_login(&error) => self.out.unopened(&error),
            (INITIALIZE | OPEN, Err(error)) => self.failed(&error),
            (id, answer) if self.choices.contains_key(&id) => self.chosen(id, answer.err()),
            (id, Ok(told)) if !told["stopReason"].is_null() => {
                self.prompts.remove(&id);
                self.turn_ended(&told);
            }
            (_, Ok(told)) if told["outcome"] == "injected" => self.delivered(),
            (id, Ok(_)) if id == self.joining => self.not_joined(),
            (_, Ok(_)) => {}
            (id, Err(error)) => {
                let was_prompt = self.prompts.remove(&id);
                if id == self.joining && !(was_prompt && self.prompts.is_empty()) {
                    self.not_joined();
                } else if was_prompt || self.prompts.is_empty() {
                    self.prompt_failed(&error);
                }
            }
        }
    }

    /// The running turn is over once all its prompts are answered.
    fn turn_ended(&mut self, told: &Value) {
        self.flush_words();
        if !self.prompts.is_empty() || std::mem::take(&mut self.is_given_up) {
            return;
        }
        let stopped = told["stopReason"].as_str().unwrap_or_default();
        let is_for_message = !std::mem::take(&mut self.is_interrupted);
        if self.send_waiting() && stopped == "cancelled" && is_for_message {
            return;
        }
        self.turn_over();
        let reason = match stopped {
            "end_turn" => TerminalReason::Completed,
            "cancelled" => TerminalReason::AbortedTools,
            "max_turn_requests" => TerminalReason::MaxTurns,
            "max_tokens" => {
                let error = ApiError {
                    kind: ApiErrorKind::MaxOutputTokens,
                    status: None,
                };
                let result = self.result(&told["usage"], true, TerminalReason::ApiError);
                return self.out.failed(error, result, "the answer is too long");
            }
            "refusal" => TerminalReason::ApiError,
            other => TerminalReason::Other(excerpt::of_text(other, limits::TARGET)),
        };
        let is_error = reason != TerminalReason::Completed;
        let result = TurnResult {
            stop_reason: Some(stopped.to_owned()),
            ..self.result(&told["usage"], is_error, reason)
        };
        self.out.turn_ended(result);
    }

    fn result(&mut self, usage: &Value, is_error: bool, reason: TerminalReason) -> TurnResult {
        TurnResult {
            usage_since_last: self.used(usage),
            total_cost_usd: self.without_tokens_usd,
            ..ended(is_error, reason)
        }
    }

    /// What the turn used, if the agent reports all of it.
    fn used(&mut self, told: &Value) -> Option<BTreeMap<String, ModelUsage>> {
        let tokens = |name: &str| json::field(&told[name]);
        let usage = ModelUsage {
            input_tokens: tokens("inputTokens"),
            output_tokens: tokens("outputTokens"),
            cache_read_input_tokens: tokens("cachedReadTokens"),
            cache_creation_input_tokens: tokens("cachedWriteTokens"),
            cost_usd: (self.cost_usd - self.charged_usd).max(0.0),
            ..ModelUsage::default()
        };
        self.charged_usd = self.cost_usd;
        if self.able.tells_last_call || usage.input_tokens + usage.output_tokens == 0 {
            self.without_tokens_usd += usage.cost_usd;
            return None;
        }
        (usage.cost_usd > 0.0).then(|| [(self.model(), usage)].into())
    }

    fn prompt_failed(&mut self, error: &Value) {
        self.flush_words();
        // The agent may report a turn that was ended for a message as an error.
        let cancels = |sent: &Sent| sent.way == Way::Cancels;
        if self.sent.as_ref().is_some_and(cancels) && self.send_waiting() {
            return;
        }
        if self.prompts.is_empty() && !std::mem::take(&mut self.is_given_up) {
            self.failed(error);
        }
    }

    fn failed(&mut self, error: &Value) {
        self.turn_over();
        let data = &error["data"];
        let status = ["status", "statusCode", "httpStatusCode"];
        let status = status.iter().find_map(|name| data[*name].as_u64());
        // Gemini puts it into the error's own code; the protocol's codes are negative.
        let status = status.or_else(|| error["code"].as_u64());
        let found = match needs_login(error) {
            true => ApiError {
                kind: ApiErrorKind::AuthenticationFailed,
                status: None,
            },
            false => of_status(status.and_then(|status| u16::try_from(status).ok())),
        };
        let reason = match data["errorName"] == "ContextOverflowError" {
            true => TerminalReason::PromptTooLong,
            false => TerminalReason::ApiError,
        };
        let result = self.result(&Value::Null, true, reason);
        self.out.failed(found, result, &words_of(error));
    }

    fn turn_over(&mut self) {
        self.calls.clear();
        self.questions.clear();
        self.offers.clear();
        let is_in = |sent: &mut Sent| matches!(sent.way, Way::Steers | Way::Joins);
        if let Some(sent) = self.sent.take_if(is_in) {
            self.out.delivered(sent.uuid);
        }
        self.has_results = true;
    }

    fn update(&mut self, update: &Value) {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        match kind {
            "agent_message_chunk" | "agent_thought_chunk" | "tool_call" | "plan" => self.heard(),
            _ => {}
        }
        match kind {
            "agent_message_chunk" => {
                let text = update["content"]["text"].as_str().unwrap_or_default();
                self.words.push_str(text);
                self.context.bytes += text.len() as u64;
                if self.words.len() > WORDS_BYTES_MAX {
                    let half = self.words.ceil_char_boundary(WORDS_BYTES_MAX / 2);
                    self.words.drain(..half);
                }
                let meta = &update["_meta"];
                // Qwen reports a subagent's context in the same way.
                if meta["parentToolCallId"].is_null() {
                    self.told(meta["usage"]["inputTokens"].as_u64(), 0);
                }
            }
            "agent_thought_chunk" => {
                let text = update["content"]["text"].as_str().unwrap_or_default();
                self.context.bytes += text.len() as u64;
            }
            "tool_call" | "tool_call_update" => {
                self.flush_words();
                self.call(update);
            }
            "usage_update" if self.able.is_trusted => {
                self.costs(&update["cost"]);
                self.told(update["used"].as_u64(), json::field(&update["size"]));
            }
            _ => {}
        }
    }

    /// The cost of the conversation since its beginning.
    fn costs(&mut self, told: &Value) {
        if told["currency"] == "USD" {
            self.cost_usd = told["amount"].as_f64().unwrap_or(0.0).max(self.cost_usd);
        }
    }

    /// The model produced something, so a turn is running.
    fn heard(&mut self) {
        let opens = |sent: &Sent| sent.way == Way::Opens;
        if self.sent.as_ref().is_some_and(opens) && !self.prompts.is_empty() {
            self.out.see(ClientEvent::Init);
            self.delivered();
        }
        if std::mem::take(&mut self.has_results) {
            self.response += 1;
            self.context.before = self.context.now;
            self.context.now = self.context.tokens();
            if let Some(sent) = self.sent.take_if(|sent| sent.way == Way::Joins) {
                self.out.delivered(sent.uuid);
            }
        }
    }

    fn told(&mut self, used: Option<u64>, window: u64) {
        // No window holds several times its size.
        let is_possible = |used: &u64| *used > 0 && (window == 0 || *used / 4 <= window);
        let Some(tokens) = used.filter(is_possible) else {
            return;
        };
        let before = self.context.told.replace(tokens).unwrap_or(0);
        self.context.bytes = 0;
        self.context.is_live |= !self.prompts.is_empty();
        if window > 0 {
            self.context.window = window;
        }
        // Only a summary makes a conversation so much smaller.
        if tokens < before / 2 {
            self.out
                .see(ClientEvent::CompactBoundary { pre_tokens: before });
        }
        self.out.see(ClientEvent::Context {
            tokens,
            window: Some(self.context.window).filter(|window| *window > 0),
        });
    }

    fn call(&mut self, update: &Value) {
        let id = json::text(&update["toolCallId"]);
        let place = match self.calls.iter().position(|call| call.id == id) {
            Some(place) => place,
            None => {
                keep(&mut self.calls, OpenCall::new(id), limits::OPEN_CALLS_MAX);
                self.calls.len() - 1
            }
        };
        self.calls[place].learn(update);
        self.show(place);
        if self.calls[place].is_over() {
            let call = self.calls.remove(place);
            self.context.bytes += call.bytes;
            self.context.results += 1;
            self.has_results = true;
            self.out.see(ClientEvent::ToolResults(vec![call.result()]));
            self.guess();
            self.make_way();
        }
    }

    fn show(&mut self, place: usize) {
        let call = &mut self.calls[place];
        if !call.is_shown && call.is_ready() {
            call.is_shown = true;
            let block = Block::Call(call.to_call());
            self.respond(block);
        }
    }

    /// An estimate of the context if the agent does not report it.
    fn guess(&mut self) {
        if self.context.results >= 2 && !self.context.is_live {
            if !std::mem::replace(&mut self.context.has_warned, true) {
                self.out.see(ClientEvent::Notice(UNTOLD.to_owned()));
            }
            let window = match self.context.window {
                0 => WINDOW_TOKENS_DEFAULT,
                told => told,
            };
            self.out.see(ClientEvent::Context {
                tokens: self.context.tokens(),
                window: Some(window),
            });
        }
    }

    fn model(&self) -> String {
        let model = self.start.model.as_ref().or(self.own_model.as_ref());
        model.cloned().unwrap_or_default()
    }

    /// Reports the words that came in pieces.
    fn flush_words(&mut self) {
        if self.words.is_empty() {
            return;
        }
        let words = std::mem::take(&mut self.words);
        self.respond(Block::Text(words));
    }

    fn respond(&mut self, block: Block) {
        let model = self.model();
        let response = Response {
            number: self.response,
            main_thread: true,
            model: &model,
            // Earlier content is read from the cache, since all agents have one.
            usage: Usage {
                input: self.context.tokens().saturating_sub(self.context.before),
                cache_read: self.context.tokens().min(self.context.before),
                ..Usage::default()
            },
        };
        self.out.respond(&response, Some(block));
    }
}

fn needs_login(error: &Value) -> bool {
    error["code"] == AUTH_REQUIRED
}

#[cfg(test)]
mod tests;
