//! A conversation in the client's own interface. It does no IO: questions and commands go in, reports and answers come
//! out.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use ekiden_core::budget::Spend;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Counters};
use ekiden_core::guard::{HookInput, ToolUse};
use ekiden_core::ids::ConversationId;
use ekiden_core::time::Millis;
use ekiden_wire::ends;
use ekiden_wire::hook_output;
use ekiden_wire::hooks::{HookCall, HookEvent};
use ekiden_wire::status_line::StatusInput;
use ekiden_wire::stream::{ApiErrorKind, RateLimitInfo};
use ekiden_wire::trace::Trace;
use ekiden_wire::transcript::LastResponse;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::hook::Asker;
use super::listener::Question;
use crate::attempt::{Activity, HookAnswer, Report};
use crate::child::ChildEnd;

/// The client's exit codes after a person left it, or its terminal was closed.
const LEFT: [i32; 3] = [0, 129, 130];
/// The client's reasons for a session's end that mean: the person began or opened another conversation.
const OTHER_CONVERSATION: [&str; 2] = ["clear", "resume"];
/// How the client says that a conversation continues from its summary.
const COMPACTED: &str = "compact";
/// Its exit code after SIGTERM.
const TERMINATED: i32 = 143;

#[derive(Debug, Default)]
pub(super) struct Conversation {
    id: String,
    session: u32,
    prompt_file: PathBuf,
    /// The message that waits for a hook that can carry it.
    pending: Option<String>,
    /// The message that the mod submits, until a hook shows that the client has it.
    submitted: Option<String>,
    /// A turn is over and nothing has happened since: no hook will come unless a person types.
    idle: bool,
    /// A person stopped the last turn, so until a person speaks the client accepts no prompt from the mod.
    refused_by_client: bool,
    waiting: Vec<Waiting>,
    asked: u64,
    /// Where the client keeps the conversation, once a hook has named it.
    pub(super) transcript: Option<PathBuf>,
    last: LastResponse,
    model_tokens: Option<u64>,
    /// The cost in the first status line: what a resumed conversation cost before.
    cost_before: Option<f64>,
    cost_usd: f64,
    tool_calls: u32,
    compacted: bool,
    /// The client shows another conversation. Nobody watches it, and nothing keeps it away from ekiden's files.
    pub(super) is_other: bool,
    failure: Failure,
    ending: Option<Ending>,
    reports: VecDeque<Report>,
}

/// How the last turn failed.
///
/// The client's hook reports the failure first. The client writes when a limit ends into the transcript with
/// the next batch of lines, usually a tenth of a second later, and not at all if the client is ended at once.
/// So after a limit we wait before the turn counts as over: a few seconds, which is little beside a wait of hours,
/// or less if the client asks for something and its transcript already has the limit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Failure {
    #[default]
    None,
    /// A usage limit that the transcript has not confirmed yet.
    AwaitedLimit,
    Known(ApiErrorKind),
}

/// A hook that waits for the engine's answer.
#[derive(Debug)]
struct Waiting {
    callback: String,
    event: HookEvent,
    input: HookInput,
    answer: oneshot::Sender<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Done,
    Stopped,
}

impl Conversation {
    pub(super) fn new(id: ConversationId, session: u32, prompt_file: PathBuf) -> Self {
        Self {
            id: id.to_string(),
            session,
            prompt_file,
            ..Self::default()
        }
    }

    pub(super) fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Takes a question. `last` reads the last response from a transcript.
    pub(super) fn ask(
        &mut self,
        question: Question,
        last: impl FnOnce(&Path) -> Option<LastResponse>,
    ) {
        match question.asker {
            Asker::StatusLine => self.status_line(question),
            Asker::Hook => self.hook(question, last),
            Asker::Mod => self.asked_by_mod(question),
        }
    }

    /// The mod asks for a message that no hook carries, or returns one that the client did not accept.
    fn asked_by_mod(&mut self, question: Question) {
        let asked: Value = serde_json::from_str(&question.json).unwrap_or_default();
        let mut answer = json!({});
        if asked["session_id"] == self.id {
            if let Some(text) = asked["dropped"].as_str() {
                self.submitted = None;
                self.pending.get_or_insert_with(|| text.to_owned());
                self.refused_by_client = true;
            } else if self.is_unheard() && self.submitted.is_none() && !self.refused_by_client {
                self.submitted = self.pending.take();
                answer["submit"] = self.submitted.clone().unwrap_or_default().into();
            }
        }
        reply(question.answer, answer.to_string());
    }

    fn status_line(&mut self, question: Question) {
        let status = StatusInput::parse(&question.json);
        if status.session_id == self.id {
            let total = status.cost_usd;
            let before = *self.cost_before.get_or_insert(total);
            let cost_usd = (total - before).max(0.0);
            if cost_usd > self.cost_usd {
                self.cost_usd = cost_usd;
                let spend = Spend {
                    micro_usd: micro_usd(cost_usd),
                    ..Spend::default()
                };
                self.reports.push_back(Report::Spend {
                    spend,
                    turns: 0,
                    subscription: status
                        .five_hour_percent
                        .or(status.seven_day_percent)
                        .is_some(),
                });
            }
            self.window(status.window_tokens, &status.model);
        }
        let tokens = match self.last.context_tokens {
            0 => String::new(),
            tokens => format!(" · context {}k", tokens.div_ceil(1000)),
        };
        reply(
            question.answer,
            format!("ekiden · session {}{tokens}\n", self.session),
        );
    }

    fn window(&mut self, model_tokens: Option<u64>, model: &str) {
        let Some(tokens) = model_tokens.filter(|tokens| self.model_tokens != Some(*tokens)) else {
            return;
        };
        self.model_tokens = Some(tokens);
        let model = Some(model.to_owned()).filter(|model| !model.is_empty());
        self.reports.push_back(Report::Window {
            model_tokens: tokens,
            compaction_tokens: None,
            model,
            filled_by: Vec::new(),
        });
    }

    fn hook(&mut self, question: Question, last: impl FnOnce(&Path) -> Option<LastResponse>) {
        let call = HookCall::parse(&question.json);
        if call.session_id != self.id {
            // Another client, perhaps one that a tool started.
            return reply(question.answer, hook_output::pass().to_string());
        }
        if let Some(response) = last(&call.transcript) {
            self.used(response);
        }
        self.transcript = Some(call.transcript.clone());
        self.idle = false;
        if self.submitted.take().is_some() {
            self.reports.push_back(Report::Delivered);
        }
        match call.event {
            HookEvent::PreToolUse => self.tool(&call),
            HookEvent::SessionStart if call.source == COMPACTED => {
                self.was_compacted(self.last.context_tokens);
            }
            HookEvent::SessionEnd if OTHER_CONVERSATION.contains(&call.source.as_str()) => {
                self.is_other = true;
                self.warn("another conversation was opened with `/clear` or `/resume`; the run stops, since it can watch only its own");
            }
            HookEvent::StopFailure if call.failure == ApiErrorKind::RateLimit => {
                self.failure = Failure::AwaitedLimit;
            }
            HookEvent::StopFailure => self.turn_failed(call.failure),
            HookEvent::UserPromptSubmit => {
                // A person has spoken, and a new turn begins.
                self.failure = Failure::None;
                self.refused_by_client = false;
                return reply(question.answer, self.said_with(call.event).to_string());
            }
            HookEvent::PreCompact
            | HookEvent::PostToolBatch
            | HookEvent::PostToolUse
            | HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::Stop
            | HookEvent::Idle
            | HookEvent::Other => {}
        }
        self.consult(call, question.answer);
    }

    fn turn_failed(&mut self, kind: ApiErrorKind) {
        self.failure = Failure::Known(kind);
        self.reports.push_back(Report::TurnEnded { failed: true });
    }

    pub(super) fn awaits_limit(&self) -> bool {
        self.failure == Failure::AwaitedLimit
    }

    /// The transcript has confirmed the limit, or we no longer wait for it; unless a person has spoken
    /// meanwhile.
    pub(super) fn limit_is_known(&mut self) {
        if self.awaits_limit() {
            self.turn_failed(ApiErrorKind::RateLimit);
        }
    }

    /// Without hooks only the transcript says whether the last turn reached a limit.
    pub(super) fn limit_seen(&mut self, limited: bool) {
        match self.failure {
            Failure::None if limited => self.turn_failed(ApiErrorKind::RateLimit),
            Failure::AwaitedLimit | Failure::Known(_) if !limited => self.failure = Failure::None,
            Failure::None | Failure::AwaitedLimit | Failure::Known(_) => {}
        }
    }

    /// Asks the engine, if it has something to decide.
    fn consult(&mut self, call: HookCall, answer: oneshot::Sender<String>) {
        let subagent = call.agent_id.is_some();
        let decides = match call.event {
            HookEvent::PreToolUse | HookEvent::PreCompact => true,
            HookEvent::Stop | HookEvent::PostToolBatch => !subagent,
            HookEvent::PostToolUse
            | HookEvent::UserPromptSubmit
            | HookEvent::SessionStart
            | HookEvent::SessionEnd
            | HookEvent::StopFailure
            | HookEvent::Idle
            | HookEvent::Other => false,
        };
        if !decides {
            return reply(answer, hook_output::pass().to_string());
        }
        self.asked += 1;
        let callback = self.asked.to_string();
        self.reports.push_back(Report::Hook {
            callback: callback.clone(),
            input: call.input.clone(),
        });
        self.waiting.push(Waiting {
            callback,
            event: call.event,
            input: call.input,
            answer,
        });
    }

    fn tool(&mut self, call: &HookCall) {
        let mut target = String::new();
        if let HookInput::PreTool { tool, .. } = &call.input {
            if let ToolUse::Read(path) | ToolUse::Write(path) = tool {
                target = path.display().to_string();
            } else if let ToolUse::Shell(command) = tool {
                target.clone_from(command);
            }
        }
        self.tool_calls = self.tool_calls.saturating_add(1);
        self.reports.push_back(Report::Activity(Activity::Tool {
            call: call.tool_use_id.clone(),
            name: call.tool.clone(),
            target,
        }));
    }

    /// The client compacted the context, which held this many tokens.
    fn was_compacted(&mut self, context_tokens: u64) {
        self.compacted = true;
        self.reports.push_back(Report::Compacted { context_tokens });
    }

    /// Takes what the transcript says about the last response.
    pub(super) fn used(&mut self, response: LastResponse) {
        if response.message_id != self.last.message_id {
            self.reports.push_back(Report::Usage {
                context_tokens: response.context_tokens,
            });
            self.last = response;
        }
    }

    /// The engine's answer to a hook. If the hook is no longer waiting, the answer is dropped.
    pub(super) fn answer(&mut self, callback: &str, answer: &HookAnswer) {
        let is_it = |waiting: &mut Waiting| waiting.callback == callback;
        let Some(waiting) = self.waiting.extract_if(.., is_it).next() else {
            return;
        };
        let output = match *answer == HookAnswer::Pass {
            true => self.unopposed(&waiting),
            false => answer.output(),
        };
        reply(waiting.answer, output.to_string());
    }

    /// A hook's reply if the engine has no objection.
    fn unopposed(&mut self, waiting: &Waiting) -> Value {
        match (waiting.event, &waiting.input) {
            (
                HookEvent::PreToolUse,
                HookInput::PreTool {
                    tool: ToolUse::Read(path),
                    subagent: false,
                },
            ) if *path == self.prompt_file => hook_output::permission(true, ""),
            (HookEvent::Stop, HookInput::Stop { background: false }) => self.turn_over(),
            (HookEvent::PostToolBatch, _) => self.said_with(waiting.event),
            (_, _) => hook_output::pass(),
        }
    }

    /// A waiting message becomes the reason to continue; else the turn is over.
    fn turn_over(&mut self) -> Value {
        if let Some(text) = self.take_pending() {
            return hook_output::block(&text);
        }
        self.idle = true;
        self.reports.push_back(Report::TurnEnded { failed: false });
        hook_output::pass()
    }

    /// A message waits that no hook will carry, or that the mod may have lost.
    pub(super) fn is_unheard(&self) -> bool {
        let waits = self.pending.is_some() || self.submitted.is_some();
        self.idle && waits && self.ending.is_none()
    }

    /// The waiting message, for a client that is restarted with it.
    pub(super) fn say_anew(&mut self) -> Option<String> {
        self.idle = false;
        self.pending = self.pending.take().or(self.submitted.take());
        self.take_pending().filter(|_| self.ending.is_none())
    }

    fn said_with(&mut self, event: HookEvent) -> Value {
        self.take_pending()
            .map_or_else(hook_output::pass, |text| hook_output::context(event, &text))
    }

    fn take_pending(&mut self) -> Option<String> {
        let text = self.pending.take()?;
        self.reports.push_back(Report::Delivered);
        Some(text)
    }

    /// Says something as soon as a hook can carry it.
    pub(super) fn say(&mut self, text: String) {
        self.pending = Some(text);
    }

    /// Without hooks no message can be sent: waiting ones are given up.
    pub(super) fn give_up_saying(&mut self) {
        let _ = self.take_pending();
    }

    /// The turn is over, as the transcript says.
    pub(super) fn turn_seen_over(&mut self) {
        self.reports.push_back(Report::TurnEnded { failed: false });
    }

    /// Something that a person should know.
    pub(super) fn warn(&mut self, text: &str) {
        self.reports
            .push_back(Report::Activity(Activity::Warning(text.to_owned())));
    }

    /// We are about to end the client.
    pub(super) fn ending(&mut self, how: Ending) {
        self.ending = Some(how);
    }

    /// Everything is over. `trace` is what the attempt added to the transcript.
    pub(super) fn ended(&mut self, end: ChildEnd, duration: Millis, trace: Trace) -> AttemptEnded {
        if let Some(context_tokens) = trace.compacted.filter(|_| !self.compacted) {
            self.was_compacted(context_tokens);
        }
        let cause = self.cause(end, trace.limit.as_ref());
        if matches!(cause, EndCause::NeverStarted(_)) {
            return AttemptEnded::bare(cause);
        }
        AttemptEnded {
            counters: Counters {
                duration,
                tool_calls: self.tool_calls,
                usage_tokens: self.last.context_tokens,
                spend: Spend {
                    micro_usd: micro_usd(self.cost_usd),
                    ..Spend::default()
                },
                ..Counters::default()
            },
            traces: trace.last,
            resumable: self.last.context_tokens > 0,
            ..AttemptEnded::bare(cause)
        }
    }

    /// The person left the client.
    pub(super) fn is_left(end: &ChildEnd) -> bool {
        matches!(end, ChildEnd::Exited(code) if LEFT.contains(code))
    }

    fn cause(&self, end: ChildEnd, limit: Option<&RateLimitInfo>) -> EndCause {
        match (end, self.ending) {
            (ChildEnd::NotStarted(why), _) => EndCause::NeverStarted(why),
            (_, Some(Ending::Stopped)) => EndCause::Stopped,
            (_, Some(Ending::Done)) => match self.failure {
                Failure::None => EndCause::Completed,
                Failure::AwaitedLimit => ends::of_failure(ApiErrorKind::RateLimit, limit),
                Failure::Known(kind) => ends::of_failure(kind, limit),
            },
            (end, None) if self.is_other || Self::is_left(&end) => EndCause::PersonLeft,
            (ChildEnd::Exited(TERMINATED), None) => EndCause::Killed {
                signal: TERMINATED - 128,
            },
            (ChildEnd::Exited(exit), None) => EndCause::Crashed { exit },
            (ChildEnd::Signaled(signal), None) => EndCause::Killed { signal },
            (ChildEnd::KeeperLost, None) => EndCause::Killed { signal: 9 },
        }
    }
}

fn reply(to: oneshot::Sender<String>, answer: String) {
    // A hook that is gone needs no answer.
    let _ = to.send(answer);
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cost is small and not negative"
)]
fn micro_usd(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
}

#[cfg(test)]
mod tests;
