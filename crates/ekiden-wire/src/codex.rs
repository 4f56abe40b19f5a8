//! Codex through its `app-server`: JSON-RPC lines that report the tokens of each model call and the window.
//!
//! ```text
//!  initialize ─► thread/start | resume ─► turn/start ─► item/… thread/tokenUsage/updated … ─► turn/completed
//!                                             ▲ turn/steer: in the next request of the turn at work
//! ```
//!
//! Its own compaction is off. Its sandbox and its questions follow the run's permissions: it asks for what it
//! may not do by itself, and [`crate::consent`] answers, not Codex's own reviewer.

mod failure;
mod item;

use std::collections::BTreeMap;

use ekiden_core::ends::LimitKind;
use serde_json::{Value, json};

use crate::consent::{Consent, Decided, Questions};
use crate::hook_output::HookAnswer;
use crate::lines::Line;
use crate::rpc::{
    Dialect, INITIALIZE, LATER, Message, OPEN, Outbox, Response, Start, blocks, ended,
};
use crate::stream::{Block, ClientEvent, RateLimitInfo, RateLimitStatus, TerminalReason};
use crate::usage::Usage;
use crate::{json, limits};

const LIMITS: [&str; 2] = ["primary", "secondary"];
/// Five hours and a week, as the service counts them.
const WINDOWS_MINS: [(u64, LimitKind); 2] =
    [(300, LimitKind::FiveHour), (10_080, LimitKind::SevenDay)];

#[derive(Default)]
pub struct Codex {
    out: Outbox,
    start: Start,
    /// The texts of the first message, until the thread has begun.
    first: Vec<String>,
    thread: String,
    model: String,
    /// The running turn.
    turn: Option<String>,
    last_id: u64,
    /// The last requests to steer a turn and to interrupt it, which are too late for a turn that has just ended.
    steered: Option<u64>,
    interrupted: Option<u64>,
    /// A message that is not yet part of a request: our name for it, and its text.
    sent: Option<(String, String)>,
    /// The files that changes want to touch, by the item's id.
    changes: BTreeMap<String, Vec<String>>,
    questions: Questions,
    response: u64,
    subagent_responses: u64,
    usage: Usage,
    retries: u32,
    /// The service's error at which we ended the turn.
    gave_up: Option<Value>,
    limits: Value,
}

impl Codex {
    pub fn new(start: Start) -> Self {
        Self {
            thread: start.resume.clone().unwrap_or_default(),
            questions: Questions::new(&start),
            start,
            last_id: LATER,
            ..Self::default()
        }
    }

    fn request(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        self.out.request(self.last_id, method, params);
    }

    fn open(&mut self) {
        self.out.notify("initialized", &json!({}));
        let consent = Consent::new(&self.start);
        let (policy, sandbox) = match (consent.everything, consent.edits()) {
            (true, _) => ("never", "danger-full-access"),
            (false, true) => ("on-request", "workspace-write"),
            (false, false) => ("on-request", "read-only"),
        };
        let mut params = json!({
            "cwd": self.start.dir, "approvalPolicy": policy, "approvalsReviewer": "user",
            "sandbox": sandbox,
            "config": {"model_auto_compact_token_limit": i64::MAX},
        });
        if let Some(model) = &self.start.model {
            params["model"] = model.as_str().into();
        }
        let method = match &self.start.resume {
            Some(thread) => {
                params["threadId"] = thread.as_str().into();
                // The whole history may be too long to read.
                params["excludeTurns"] = true.into();
                "thread/resume"
            }
            None => "thread/start",
        };
        self.out.request(OPEN, method, &params);
    }

    fn answered(&mut self, id: u64, answer: Result<Value, Value>) {
        match (id, answer) {
            (INITIALIZE, Ok(_)) => {
                // In a saved stream, the process before may have been ended in a turn.
                self.turn = None;
                self.out.begun();
                self.open();
            }
            (OPEN, Ok(told)) => {
                self.thread = json::text(&told["thread"]["id"]);
                self.model = json::text(&told["model"]);
                let first = std::mem::take(&mut self.first);
                let uuid = self.sent.as_ref().map(|(uuid, _)| uuid.clone());
                if !first.is_empty() {
                    self.turn(&first, uuid.as_deref());
                }
            }
            (INITIALIZE | OPEN, Err(error)) => self.out.unopened(&error),
            (_, Ok(_)) => {}
            // The message opens a new turn once this one is over.
            (id, Err(_)) if [self.steered, self.interrupted].contains(&Some(id)) => {}
            (_, Err(error)) => {
                self.turn = None;
                self.fail(&error);
            }
        }
    }

    fn turn(&mut self, texts: &[String], uuid: Option<&str>) {
        let params = json!({
            "threadId": self.thread, "input": blocks(texts), "clientUserMessageId": uuid,
        });
        self.request("turn/start", &params);
    }

    /// The waiting message opens a turn.
    fn say_anew(&mut self) {
        if let Some((uuid, text)) = self.sent.clone() {
            self.turn(&[text], Some(&uuid));
        }
    }

    fn noticed(&mut self, method: &str, params: &Value) {
        let is_others = params["threadId"]
            .as_str()
            .is_some_and(|thread| thread != self.thread && !self.thread.is_empty());
        if is_others {
            // A subagent has a thread of its own.
            if method == "thread/tokenUsage/updated" && self.turn.is_some() {
                self.subagent_used(&params["tokenUsage"]);
            }
            return;
        }
        match method {
            "turn/started" => {
                self.turn = Some(json::text(&params["turn"]["id"]));
                self.out.see(ClientEvent::Init);
            }
            "turn/completed" => self.turn_ended(&params["turn"]),
            "item/started" => self.began(&params["item"]),
            "item/completed" => self.ended(&params["item"]),
            "thread/tokenUsage/updated" => self.used(&params["tokenUsage"]),
            "thread/compacted" => self.compacted(),
            "account/rateLimits/updated" => self.limited(&params["rateLimits"]),
            "error" if params["willRetry"] == true => {
                self.retries += 1;
                self.out.see(ClientEvent::ApiRetry {
                    attempt: self.retries,
                    error: failure::of(&params["error"]["codexErrorInfo"]).0,
                });
                if self.retries == limits::RETRIES_MAX {
                    self.gave_up = Some(params["error"].clone());
                    self.end_turn();
                }
            }
            _ => {}
        }
    }

    fn began(&mut self, item: &Value) {
        if item["type"] == "userMessage" {
            let name = item["clientId"].as_str();
            let is_this = |(uuid, _): &mut (String, String)| name.is_none_or(|name| name == uuid);
            if let Some((uuid, _)) = self.sent.take_if(is_this) {
                self.out.delivered(uuid);
            }
            return;
        }
        if let Some(call) = item::call(item) {
            if item["type"] == "fileChange" && self.changes.len() < limits::OPEN_CALLS_MAX {
                self.changes.insert(call.id.clone(), item::paths(item));
            }
            self.respond(Some(Block::Call(call)));
        }
    }

    fn ended(&mut self, item: &Value) {
        match item["type"].as_str().unwrap_or_default() {
            "agentMessage" => {
                let words = item["text"].as_str().unwrap_or_default();
                self.respond(Some(Block::Text(words.to_owned())));
            }
            "contextCompaction" => self.compacted(),
            _ => {
                if let Some(result) = item::result(item) {
                    self.changes.remove(&result.tool_use_id);
                    self.out.see(ClientEvent::ToolResults(vec![result]));
                }
            }
        }
    }

    fn compacted(&mut self) {
        self.out.see(ClientEvent::CompactBoundary {
            pre_tokens: self.usage.context_tokens(),
        });
    }

    fn respond(&mut self, block: Option<Block>) {
        let response = Response {
            number: self.response,
            main_thread: true,
            model: &self.model,
            usage: self.usage,
        };
        self.out.respond(&response, block);
    }

    fn subagent_used(&mut self, told: &Value) {
        self.subagent_responses += 1;
        let response = Response {
            number: self.subagent_responses,
            main_thread: false,
            model: &self.model,
            usage: usage(told),
        };
        self.out.respond(&response, None);
    }

    /// A model call reported its tokens: its response is over.
    fn used(&mut self, told: &Value) {
        self.usage = usage(told);
        // Calls before a turn belong to an earlier attempt, which was charged for them.
        if self.turn.is_some() {
            self.respond(None);
            self.response += 1;
        }
        self.out.see(ClientEvent::Context {
            tokens: self
                .usage
                .context_tokens()
                .saturating_add(self.usage.output),
            window: told["modelContextWindow"].as_u64().filter(|size| *size > 0),
        });
    }

    fn limited(&mut self, told: &Value) {
        // Unchanged values are left out, or null.
        for (name, limit) in told.as_object().into_iter().flatten() {
            if !limit.is_null() && LIMITS.contains(&&**name) {
                self.limits[name] = limit.clone();
            }
        }
        if told["primary"].is_object() || told["secondary"].is_object() {
            self.out.see(self.limit(RateLimitStatus::Allowed));
        }
    }

    /// The limit that is closest to used up.
    fn limit(&self, status: RateLimitStatus) -> ClientEvent {
        let windows = LIMITS.map(|name| &self.limits[name]);
        let fullest = windows
            .into_iter()
            .max_by_key(|window| window["usedPercent"].as_u64());
        let fullest = fullest.unwrap_or(&Value::Null);
        let mins = fullest["windowDurationMins"].as_u64();
        let known = WINDOWS_MINS.iter().find(|(known, _)| Some(*known) == mins);
        ClientEvent::RateLimit(RateLimitInfo {
            status,
            resets_at: json::field(&fullest["resetsAt"]),
            kind: known.map_or(LimitKind::Unknown, |(_, kind)| *kind),
        })
    }

    fn end_turn(&mut self) -> bool {
        let params = json!({"threadId": self.thread, "turnId": self.turn});
        if self.turn.is_some() {
            self.request("turn/interrupt", &params);
        }
        self.turn.is_some()
    }

    fn turn_ended(&mut self, turn: &Value) {
        self.turn = None;
        self.retries = 0;
        self.changes.clear();
        self.questions.clear();
        let reason = match (turn["status"].as_str(), self.gave_up.take()) {
            (Some("completed"), _) => TerminalReason::Completed,
            (Some("interrupted"), None) => TerminalReason::AbortedTools,
            (_, Some(error)) => return self.fail(&error),
            (_, None) => return self.fail(&turn["error"]),
        };
        let is_error = reason != TerminalReason::Completed;
        self.out.turn_ended(ended(is_error, reason));
        self.say_anew();
    }

    fn fail(&mut self, error: &Value) {
        self.sent = None;
        let (found, reason) = failure::of(&error["codexErrorInfo"]);
        if error["codexErrorInfo"] == "usageLimitExceeded" {
            self.out.see(self.limit(RateLimitStatus::Rejected));
        }
        let words = json::text(&error["message"]);
        self.out.failed(found, ended(true, reason), &words);
    }

    /// A request from the agent: for permission, or one that we do not serve.
    fn asked(&mut self, id: &Value, method: &str, params: &Value) {
        let item = json::text(&params["itemId"]);
        let dir = &self.start.dir;
        let hooks = match method {
            "item/commandExecution/requestApproval" => item::of_command(&item, params, dir),
            "item/fileChange/requestApproval" if params["grantRoot"].is_null() => {
                let paths = self.changes.get(&item).map(Vec::as_slice);
                item::of_change(&item, paths.unwrap_or_default(), dir)
            }
            "mcpServer/elicitation/request"
                if params["_meta"]["codex_approval_kind"] == "mcp_tool_call" =>
            {
                item::of_mcp(params, dir)
            }
            _ => return self.out.refuse(id, method),
        };
        self.questions.ask(id, hooks, &mut self.out);
    }

    fn permit(&mut self, decided: Decided) {
        let decision = match decided.may {
            true => "accept",
            false => "decline",
        };
        // The answer about a tool of an MCP server is called `action`.
        let answer = json!({"decision": decision, "action": decision});
        self.out.answer(&decided.id, &answer);
        self.out.refused(decided.refused);
    }
}

impl Dialect for Codex {
    fn outbox(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn begin(&mut self, texts: &[&str]) {
        self.first = texts.iter().map(|text| (*text).to_owned()).collect();
        let client =
            json!({"name": "ekiden", "title": "ekiden", "version": env!("CARGO_PKG_VERSION")});
        self.out
            .request(INITIALIZE, "initialize", &json!({"clientInfo": client}));
    }

    fn say(&mut self, text: &str, uuid: &str) {
        self.sent = Some((uuid.to_owned(), text.to_owned()));
        if !self.first.is_empty() {
            // The thread is not there yet: the text comes with the first turn.
            return self.first.push(text.to_owned());
        }
        let Some(turn) = &self.turn else {
            return self.say_anew();
        };
        let params = json!({
            "threadId": self.thread, "expectedTurnId": turn, "clientUserMessageId": uuid,
            "input": [{"type": "text", "text": text}],
        });
        self.request("turn/steer", &params);
        self.steered = Some(self.last_id);
    }

    fn answer(&mut self, callback: &str, answer: &HookAnswer) {
        if let Some(decided) = self.questions.answer(callback, answer) {
            self.permit(decided);
        }
    }

    fn interrupt(&mut self) {
        if self.end_turn() {
            self.interrupted = Some(self.last_id);
        }
    }

    fn hear(&mut self, line: Line<'_>) {
        match Message::of(line) {
            Message::Answer { id, answer } => self.answered(id, answer),
            Message::Notice { method, params } => self.noticed(&method, &params),
            Message::Request { id, method, params } => self.asked(&id, &method, &params),
            Message::Odd => self.out.see(ClientEvent::Malformed),
        }
    }

    fn conversation(&self) -> Option<&str> {
        Some(self.thread.as_str()).filter(|thread| !thread.is_empty())
    }
}

/// The tokens of the last model call.
fn usage(told: &Value) -> Usage {
    let last = |name: &str| -> u64 { json::field(&told["last"][name]) };
    let cached = last("cachedInputTokens").min(last("inputTokens"));
    Usage {
        input: last("inputTokens") - cached,
        cache_read: cached,
        cache_creation: 0,
        output: last("outputTokens"),
    }
}

#[cfg(test)]
mod tests;
