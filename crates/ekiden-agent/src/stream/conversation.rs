//! What is known of a conversation, folded over the agent's events. No IO: events go in, reports and
//! lines for the agent come out.

use std::collections::VecDeque;

use ekiden_core::budget::Prices;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{Counters, Traces};
use ekiden_core::ids::{AttemptId, ConversationId};
use ekiden_core::limits;
use ekiden_core::prompt::{self, FailedCommand};
use ekiden_core::settings::AgentKind;
use ekiden_core::time::Millis;
use ekiden_wire::context_usage::ContextUsage;
use ekiden_wire::control::{self, Registration, TextBlock};
use ekiden_wire::ends::{self, EndedByUs, Exit, Observed};
use ekiden_wire::hooks::HookEvent;
use ekiden_wire::spending::SpendMeter;
use ekiden_wire::stream::{Assistant, Block, ClientEvent, Lifecycle, TurnResult};
use ekiden_wire::trace::Trace;
use ekiden_wire::usage::ContextMeter;

use crate::attempt::{Activity, Answer, Ended, FirstMessage, HookAnswer, Report};

/// How long the client waits for an answer of ours. A day: the engine may be stopped by a debugger
/// or a suspended machine, and an answer that is missed makes the client drop the call.
const CALLBACK_TIMEOUT_SECS: u32 = 86_400;
const HOOKS: [HookEvent; 3] = [HookEvent::PreToolUse, HookEvent::Stop, HookEvent::PreCompact];
const INITIALIZE: &str = "initialize";
const USAGE: &str = "usage";
const INTERRUPT: &str = "interrupt";

/// A conversation with one agent process.
pub(super) struct Conversation {
    kind: AgentKind,
    id: ConversationId,
    attempt: AttemptId,
    seen: Observed,
    context: ContextMeter,
    spending: SpendMeter,
    trace: Trace,
    model: Option<String>,
    window: ToldWindow,
    messages: u32,
    /// The message that no request holds yet.
    undelivered: Option<String>,
    interrupted: bool,
    /// A schema was asked for, so answers are told.
    answers: bool,
    lines: VecDeque<String>,
    reports: VecDeque<Report>,
}

/// What the client told of the window.
#[derive(Debug, Default)]
struct ToldWindow {
    /// The window of its answer; zero before it.
    told_tokens: u64,
    /// The model that answers in place of the chosen one.
    fallback: Option<String>,
    /// The window that was reported last, and the compaction window.
    reported: Option<(u64, Option<u64>)>,
}

impl Conversation {
    /// A conversation that has not begun.
    pub(super) fn new(kind: AgentKind, id: ConversationId, attempt: AttemptId, prices: Prices) -> Self {
        Self {
            kind,
            id,
            attempt,
            seen: Observed::default(),
            context: ContextMeter::default(),
            spending: SpendMeter::new(prices, kind.price_unknown()),
            trace: Trace::default(),
            model: None,
            window: ToldWindow::default(),
            messages: 0,
            undelivered: None,
            interrupted: false,
            answers: false,
            lines: VecDeque::new(),
            reports: VecDeque::new(),
        }
    }

    /// The same, which tells the answer of each turn.
    pub(super) fn answering(self, answers: bool) -> Self {
        Self { answers, ..self }
    }

    /// The next line for the agent.
    pub(super) fn next_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    /// The next report for the engine.
    pub(super) fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Registers our hooks, asks for the window, and sends the first message. Nothing need be waited
    /// for in between.
    pub(super) fn open(&mut self, message: &FirstMessage) {
        let hooks = HOOKS.map(|event| Registration { event, timeout_secs: CALLBACK_TIMEOUT_SECS });
        self.lines.push_back(control::initialize(INITIALIZE, &hooks));
        self.lines.push_back(control::get_context_usage(USAGE));
        let uuid = self.next_uuid();
        let line = match message {
            FirstMessage::Prompt(blocks) => {
                // What comes first is the same in the next session, so the service may keep it.
                let blocks: Vec<TextBlock<'_>> = blocks
                    .blocks()
                    .enumerate()
                    .map(|(index, text)| TextBlock { text, cached: index == 0 })
                    .collect();
                control::user_message(&blocks, Some(&uuid))
            }
            FirstMessage::Note(text) => control::user_message(&[text.as_str().into()], Some(&uuid)),
        };
        self.lines.push_back(line);
    }

    /// Sends a message into the conversation. The client looks for `@path` in the last block of a
    /// message that opens a turn, so the last block is a constant of ours.
    pub(super) fn say(&mut self, text: &str) {
        let uuid = self.next_uuid();
        let blocks = [text.into(), prompt::SIGNATURE.into()];
        self.lines.push_back(control::user_message(&blocks, Some(&uuid)));
        self.undelivered = Some(uuid);
    }

    /// Answers a hook.
    pub(super) fn answer(&mut self, callback: &str, answer: &HookAnswer) {
        self.seen.callback_answered(callback);
        self.lines.push_back(match answer {
            HookAnswer::Pass => control::answer_pass(callback),
            HookAnswer::Allow => control::answer_permission(callback, true, ""),
            HookAnswer::Deny(reason) => control::answer_permission(callback, false, reason),
            HookAnswer::Block(reason) => control::answer_stop(callback, Some(reason)),
        });
    }

    /// Ends the running turn.
    pub(super) fn interrupt(&mut self) {
        self.interrupted = true;
        self.seen.interrupt_sent();
        self.lines.push_back(control::interrupt(INTERRUPT));
    }

    /// We are about to end the process.
    pub(super) fn ending(&mut self, why: EndedByUs) {
        self.seen.ended_by_us(why);
    }

    /// Takes the next event of the stream.
    pub(super) fn hear(&mut self, event: &ClientEvent) {
        self.seen.observe(event);
        self.trace.observe(event);
        if let Some(context_tokens) = self.context.observe(event) {
            self.reports.push_back(Report::Usage { context_tokens });
        }
        if self.spending.observe(event) {
            let (spend, turns) = (self.spending.spend(), self.spending.turns());
            self.reports.push_back(Report::Spend { spend, turns });
        }
        match event {
            ClientEvent::Assistant(response) => self.response(response),
            ClientEvent::Result(result) => self.turn_ended(result),
            ClientEvent::Lifecycle { uuid, state: Lifecycle::Started } => self.delivered(uuid),
            ClientEvent::Lifecycle { uuid, state: Lifecycle::Cancelled } => self.delivered(uuid),
            ClientEvent::HookCallback { request_id, call, .. } => {
                let input = call.input.clone();
                self.reports.push_back(Report::Hook { callback: request_id.clone(), input });
            }
            ClientEvent::CanUseTool { request_id, .. } => {
                self.lines.push_back(control::answer_denied(request_id, prompt::UNATTENDED));
            }
            ClientEvent::UnknownRequest { request_id, subtype } => {
                let error = format!("unsupported request: {subtype}");
                self.lines.push_back(control::answer_error(request_id, &error));
            }
            ClientEvent::ControlResponse { request_id, answer } if request_id == USAGE => {
                self.window(answer.as_deref().unwrap_or_default());
            }
            ClientEvent::ApiRetry { attempt, error, .. } => {
                self.show(Activity::Retry { attempt: *attempt, error: error.to_string() });
            }
            ClientEvent::ModelFallback { to } => self.fell_back(to),
            ClientEvent::CompactBoundary { pre_tokens, .. } => {
                self.reports.push_back(Report::Compacted { context_tokens: *pre_tokens });
            }
            ClientEvent::Init { .. }
            | ClientEvent::Lifecycle { .. }
            | ClientEvent::ToolResults(_)
            | ClientEvent::RateLimit(_)
            | ClientEvent::Compacting
            | ClientEvent::ModelRefused
            | ClientEvent::PermissionDenied { .. }
            | ClientEvent::TaskStarted { .. }
            | ClientEvent::TaskFinished { .. }
            | ClientEvent::HookFinished { .. }
            | ClientEvent::ConversationReset
            | ClientEvent::ControlResponse { .. }
            | ClientEvent::ControlCancel { .. }
            | ClientEvent::Ignored
            | ClientEvent::Malformed
            | ClientEvent::Oversized { .. } => {}
        }
    }

    /// Something that a person should know.
    pub(super) fn warn(&mut self, text: String) {
        self.show(Activity::Warning(text));
    }

    /// Everything is over: the last report.
    pub(super) fn ended(mut self, exit: Exit, stderr: &str, duration: Millis) -> Report {
        self.seen.exited(exit, stderr);
        let cause = ends::cause(&self.seen);
        self.spending.end();
        let counters = self.counters(duration);
        let resumable = self.kind == AgentKind::Claude && self.context.responses() > 0;
        Report::Ended(Box::new(Ended { cause, counters, traces: traces(&self.trace), resumable }))
    }

    fn next_uuid(&mut self) -> String {
        self.messages += 1;
        self.id.message(self.attempt, self.messages)
    }

    fn delivered(&mut self, uuid: &str) {
        if self.undelivered.as_deref() == Some(uuid) {
            self.undelivered = None;
            self.reports.push_back(Report::Delivered);
        }
    }

    fn response(&mut self, response: &Assistant) {
        if response.main_thread && !response.synthetic {
            self.model_of(&response.model);
        }
        for block in &response.blocks {
            match block {
                Block::Call(call) => {
                    self.show(Activity::Tool { name: call.name.clone(), target: call.target.clone() });
                }
                Block::Text(words) if response.main_thread => self.show(Activity::Words(words.clone())),
                Block::Text(_) => {}
            }
        }
    }

    /// A model that differs from the one before may have another window, so it is asked for anew.
    fn model_of(&mut self, model: &str) {
        let known = self.model.replace(model.to_owned());
        if self.window.fallback.as_deref() == Some(model) {
            return;
        }
        self.window.fallback = None;
        if known.is_some_and(|known| known != model) {
            self.lines.push_back(control::get_context_usage(USAGE));
        }
    }

    /// Another model answers for the rest of the turn. The client still tells the first one's window,
    /// and the true one only with the turn's result; until then it is taken for a small one.
    fn fell_back(&mut self, to: &str) {
        self.show(Activity::Warning(format!("another model answers: {to}")));
        self.window.fallback = Some(to.to_owned());
        let model_tokens = self.window.told_tokens.min(limits::WINDOW_TOKENS_DEFAULT);
        if self.window.told_tokens > 0 {
            self.report_window(model_tokens, None, Some(to.to_owned()), Vec::new());
        }
    }

    fn window(&mut self, answer: &str) {
        let Ok(usage) = ContextUsage::parse(answer) else { return };
        self.window.told_tokens = usage.raw_max_tokens;
        if self.window.fallback.is_none() {
            let model = usage.model.or_else(|| self.model.clone());
            self.report_window(usage.raw_max_tokens, None, model, usage.categories);
        }
    }

    /// A result has the true window of each model. What the client tells itself is its compaction
    /// window, where one is set.
    fn window_of_result(&mut self, result: &TurnResult) {
        let Some(model) = self.model.clone() else { return };
        let Some(usage) = result.model_usage.get(&model).filter(|usage| usage.context_window > 0) else {
            return;
        };
        let told = self.window.told_tokens;
        let lower =
            (self.window.fallback.is_none() && 0 < told && told < usage.context_window).then_some(told);
        self.report_window(usage.context_window, lower, Some(model), Vec::new());
    }

    /// The same window is not told twice.
    fn report_window(
        &mut self,
        model_tokens: u64,
        compaction_tokens: Option<u64>,
        model: Option<String>,
        filled_by: Vec<(String, u64)>,
    ) {
        let reported = (model_tokens, compaction_tokens);
        if self.window.reported.replace(reported) != Some(reported) {
            self.reports.push_back(Report::Window { model_tokens, compaction_tokens, model, filled_by });
        }
    }

    fn turn_ended(&mut self, result: &TurnResult) {
        self.window_of_result(result);
        if self.answers && !result.is_error {
            let words = result.words.clone().unwrap_or_default();
            self.reports.push_back(Report::Answered(Answer { structured: result.structured.clone(), words }));
        }
        let interrupted = std::mem::take(&mut self.interrupted);
        self.reports.push_back(Report::TurnEnded { failed: result.is_error && !interrupted });
    }

    fn show(&mut self, activity: Activity) {
        self.reports.push_back(Report::Activity(activity));
    }

    fn counters(&self, duration: Millis) -> Counters {
        let usage_tokens = self.context.context_tokens();
        Counters { duration, usage_tokens, ..counters(&self.trace, &self.spending) }
    }
}

/// What a saved event stream tells of the last attempt in it, whose engine died. The turn that was cut
/// off is estimated at `prices`.
///
/// # Errors
///
/// If the stream cannot be read.
pub fn from_saved_stream(
    stream: impl std::io::Read,
    kind: AgentKind,
    prices: Prices,
) -> std::io::Result<Ended> {
    let mut spending = SpendMeter::new(prices, kind.price_unknown());
    let trace = Trace::from_stream_with(stream, |event| {
        // Attempts at one session share its stream.
        if matches!(event, ClientEvent::ControlResponse { request_id, .. } if request_id == INITIALIZE) {
            spending.begin_anew();
        }
        spending.observe(event);
    })?;
    spending.end();
    let counters = counters(&trace, &spending);
    let resumable = kind == AgentKind::Claude && trace.counts.calls + trace.counts.turns > 0;
    Ok(Ended { cause: EndCause::EngineLost, counters, traces: traces(&trace), resumable })
}

/// What a trace tells a rescue.
pub(crate) fn traces(trace: &Trace) -> Traces {
    let touch = |touch: &ekiden_wire::trace::Touch| format!("{} {}", touch.tool, touch.target);
    Traces {
        last_edit: trace.last_edit.as_ref().map(touch),
        last_call: trace.last_call.as_ref().map(touch),
        last_words: Some(trace.last_words.clone()).filter(|words| !words.is_empty()),
        succeeded: trace.succeeded.iter().cloned().collect(),
        failed: trace.failed.iter().map(failed_command).collect(),
        denied: trace.denied.clone(),
    }
}

fn failed_command(failed: &ekiden_wire::trace::FailedCommand) -> FailedCommand {
    FailedCommand { command: failed.command.clone(), code: failed.exit, last_line: failed.last_line.clone() }
}

fn counters(trace: &Trace, spending: &SpendMeter) -> Counters {
    let spend = spending.spend();
    Counters {
        tool_calls: u32::try_from(trace.counts.calls).unwrap_or(u32::MAX),
        malformed_lines: u32::try_from(trace.counts.malformed).unwrap_or(u32::MAX),
        cost_micro_usd: spend.micro_usd,
        tokens: spend.tokens,
        turns: spending.turns(),
        estimated: spend.estimated,
        subscription: spending.subscription(),
        prices: spending.prices().clone(),
        ..Counters::default()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cost is small and not negative"
)]
pub(crate) fn micro_usd(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
}

#[cfg(test)]
mod tests {
    use ekiden_wire::agent_side::{self, AgentWriter, Saying};
    use ekiden_wire::usage::Usage;
    use serde_json::json;

    use super::*;

    fn attempt(message: &str, input: u64) -> String {
        let writer = AgentWriter { session_id: "s".into(), model: "opus".into(), cwd: "/p".into() };
        let usage = Usage { input, ..Usage::default() };
        let begun = agent_side::response(INITIALIZE, &json!({}));
        begun + &writer.assistant(message, &usage, Saying::Text("."))
    }

    // shows: REL-22
    #[test]
    fn a_saved_stream_is_charged_for_its_last_attempt_and_what_may_have_been_on_its_way() {
        let cost = |stream: String| {
            let ended = from_saved_stream(stream.as_bytes(), AgentKind::Claude, Prices::default()).unwrap();
            assert!(ended.counters.estimated);
            (ended.counters.tokens, ended.counters.turns)
        };
        let (tokens, turns) = cost(attempt("a", 1_000));
        assert_eq!(turns, 1);
        assert!((2_000..2_100).contains(&tokens), "{tokens}");
        assert_eq!(cost(attempt("b", 9_000) + &attempt("a", 1_000)), (tokens, turns));
    }
}
