//! A conversation with one agent process, folded over its events. It does no IO: events go in, reports and
//! lines for the agent come out.

use std::collections::VecDeque;

use ekiden_core::agent::AgentKind;
use ekiden_core::event::AttemptEnded;
use ekiden_core::ids::{AttemptId, ConversationId};
use ekiden_core::prompt;
use ekiden_core::relay::Prompt;
use ekiden_core::text::one_line;
use ekiden_core::time::Millis;
use ekiden_wire::control;
use ekiden_wire::ends::{self, EndedByUs, Exit, Observed};
use ekiden_wire::hooks::HookEvent;
use ekiden_wire::lines::Line;
use ekiden_wire::rpc::{self, Dialect};
use ekiden_wire::spending::{COST, SpendEstimate};
use ekiden_wire::stream::{Assistant, Block, ClientEvent, Lifecycle, ToolResult, TurnResult};
use ekiden_wire::tools::Call;
use ekiden_wire::trace::Trace;
use ekiden_wire::usage::ContextMeter;

use super::dialect::{self, texts};
use super::handing_off::HandingOff;
use super::saved::counters;
use super::window::Window;
use crate::attempt::{Activity, Answer, AttemptSpec, HookAnswer, Report};

/// How long the client waits for our answer. A day: a debugger or a suspended machine may stop the engine, and a
/// missed answer makes the client drop the call.
const CALLBACK_TIMEOUT_SECS: u32 = 86_400;
const HOOKS: [HookEvent; 3] = [
    HookEvent::PreToolUse,
    HookEvent::Stop,
    HookEvent::PreCompact,
];
/// How much is shown of the client's words about a failure of the service.
const FAILURE_CHARS_MAX: usize = 300;
const INITIALIZE: &str = rpc::BEGUN;
const USAGE: &str = "usage";
const INTERRUPT: &str = "interrupt";
const WITHDRAW: &str = "withdraw";

pub(super) struct Conversation {
    /// The protocol of an agent that does not speak Claude Code's.
    dialect: Option<Box<dyn Dialect>>,
    protocol: String,
    kind: AgentKind,
    id: ConversationId,
    attempt: AttemptId,
    /// A schema was asked for, so each turn has an answer.
    has_schema: bool,
    seen: Observed,
    context: ContextMeter,
    spending: SpendEstimate,
    pub(super) trace: Trace,
    /// The model that answered last.
    model: Option<String>,
    window: Window,
    messages: u32,
    /// The message that is not yet part of a request.
    undelivered: Option<Undelivered>,
    /// The client reports what happens to messages. Older ones (2.1.197) do not.
    has_lifecycles: bool,
    /// Calls whose hook waits for our answer, by its id.
    asked: Vec<(String, String)>,
    /// Calls that we refused in this turn.
    refused: Vec<String>,
    /// The last response of the main thread.
    last_response: String,
    handing_off: HandingOff,
    /// A turn has ended, and no other has begun.
    between_turns: bool,
    interrupted: bool,
    lines: VecDeque<String>,
    reports: VecDeque<Report>,
}

/// A message on its way.
#[derive(Debug)]
struct Undelivered {
    uuid: String,
    /// Tool results came since it was sent, so the next response answers a request that contains it.
    joins_next: bool,
}

impl Conversation {
    pub(super) fn new(spec: &AttemptSpec) -> Self {
        Self {
            dialect: dialect::of_attempt(spec),
            protocol: spec.protocol.clone(),
            kind: spec.agent.kind,
            id: spec.conversation,
            attempt: spec.attempt,
            has_schema: spec.schema.is_some(),
            seen: Observed::default(),
            context: ContextMeter::default(),
            spending: SpendEstimate::new(spec.prices.clone(), spec.agent.kind.price_unknown()),
            trace: Trace::default(),
            model: None,
            window: Window::default(),
            messages: 0,
            undelivered: None,
            has_lifecycles: false,
            asked: Vec::new(),
            refused: Vec::new(),
            last_response: String::new(),
            handing_off: HandingOff::default(),
            between_turns: false,
            interrupted: false,
            lines: VecDeque::new(),
            reports: VecDeque::new(),
        }
    }

    pub(super) fn next_line(&mut self) -> Option<String> {
        self.lines.pop_front()
    }

    pub(super) fn next_report(&mut self) -> Option<Report> {
        self.reports.pop_front()
    }

    /// Registers our hooks, asks for the window, and sends the first message. None of these has to wait for another.
    pub(super) fn open(&mut self, message: &Prompt) {
        if let Some(dialect) = &mut self.dialect {
            dialect.begin(&texts(&self.protocol, message));
            return self.take_in();
        }
        self.lines.push_back(control::initialize(
            INITIALIZE,
            &HOOKS,
            CALLBACK_TIMEOUT_SECS,
        ));
        self.lines.push_back(control::get_context_usage(USAGE));
        if matches!(message, Prompt::Resume(_)) {
            self.handing_off.heard();
            self.lines.push_back(control::get_session_cost(COST));
        }
        let uuid = self.next_uuid();
        // The first part stays the same in the next session.
        let is_fresh = matches!(message, Prompt::Fresh(_));
        let opening = control::user_message(&texts("", message), is_fresh, Some(&uuid));
        self.lines.push_back(opening);
    }

    /// Sends a message into the conversation. The client looks for `@path` in the last block of a
    /// message that opens a turn, so the last block is a constant of ours.
    pub(super) fn say(&mut self, text: &str) {
        let uuid = self.next_uuid();
        self.undelivered = Some(Undelivered {
            uuid: uuid.clone(),
            joins_next: false,
        });
        if let Some(dialect) = &mut self.dialect {
            dialect.say(text, &uuid);
            return self.take_in();
        }
        let message = control::user_message(&[text, prompt::SIGNATURE], false, Some(&uuid));
        self.lines.push_back(message);
    }

    /// A message waits although no turn is running: the client should begin one at once.
    pub(super) fn is_unheard(&self) -> bool {
        self.between_turns && self.undelivered.is_some()
    }

    /// The client does not accept the waiting message, so another is useless too.
    pub(super) fn give_up_saying(&mut self) {
        self.delivered();
        self.reports.push_back(Report::TurnEnded { failed: true });
    }

    pub(super) fn answer(&mut self, callback: &str, answer: &HookAnswer) {
        self.seen.callback_answered(callback);
        let is_this = |(id, _): &mut (String, String)| id == callback;
        let asked: Vec<_> = self.asked.extract_if(.., is_this).collect();
        if matches!(answer, HookAnswer::Deny(_)) {
            self.refused.extend(asked.into_iter().map(|(_, call)| call));
        }
        if let Some(dialect) = &mut self.dialect {
            dialect.answer(callback, answer);
            return self.take_in();
        }
        self.lines
            .push_back(control::answer(callback, &answer.output()));
    }

    fn end_turn(&mut self) {
        self.interrupted = true;
        self.seen.interrupt_sent();
        if let Some(dialect) = &mut self.dialect {
            dialect.interrupt();
            return self.take_in();
        }
        self.lines.push_back(control::interrupt(INTERRUPT));
    }

    /// Ends the turn, and withdraws a message that waits: it would open another one at once.
    pub(super) fn interrupt(&mut self) {
        if self.dialect.is_some() {
            return self.end_turn();
        }
        if let Some(message) = &self.undelivered {
            let withdraw = control::cancel_message(WITHDRAW, &message.uuid);
            self.lines.push_back(withdraw);
        }
        self.handing_off.interrupted();
        self.end_if_over();
    }

    fn end_if_over(&mut self) {
        if self.handing_off.is_over() {
            self.end_turn();
        }
    }

    /// We are about to end the process.
    pub(super) fn ending(&mut self, why: EndedByUs) {
        self.seen.ended_by_us(why);
    }

    /// Its input is closed. For agents other than Claude Code, the exit code then means nothing.
    pub(super) fn closing(&mut self) {
        if self.dialect.is_some() {
            self.ending(EndedByUs::Done);
        }
    }

    /// Handles the next line of the stream.
    pub(super) fn hear_line(&mut self, line: Line<'_>) {
        match &mut self.dialect {
            Some(dialect) => {
                dialect.hear(line);
                self.take_in();
            }
            None => self.hear(&ClientEvent::of(line)),
        }
    }

    /// Takes what the dialect has to send and what it saw.
    fn take_in(&mut self) {
        while let Some(outbox) = self.dialect.as_mut().map(|dialect| dialect.outbox()) {
            self.lines.append(&mut outbox.lines);
            let Some(event) = outbox.events.pop_front() else {
                return;
            };
            self.hear(&event);
        }
    }

    /// Handles the next event of the stream.
    fn hear(&mut self, event: &ClientEvent) {
        self.seen.observe(event);
        self.trace.observe(event);
        if let Some(context_tokens) = self.context.observe(event) {
            self.reports.push_back(Report::Usage { context_tokens });
        }
        // On a guess that will soon be corrected, no budget ends.
        if self.spending.observe(event) && !(self.says_cost() && self.spending.is_guess()) {
            self.reports.push_back(spent(&self.spending));
        }
        match event {
            ClientEvent::Assistant(response) => self.response(response),
            ClientEvent::Result(result) => self.turn_ended(result),
            ClientEvent::Lifecycle { uuid, state } => self.lifecycle(uuid, *state),
            ClientEvent::Init => self.turn_begins(),
            ClientEvent::ToolResults(results) => self.results(results),
            ClientEvent::HookCallback { request_id, call } => {
                let asked = (request_id.clone(), call.tool_use_id.clone());
                self.asked.push(asked);
                self.reports.push_back(Report::Hook {
                    callback: request_id.clone(),
                    input: call.input.clone(),
                });
            }
            ClientEvent::CanUseTool { request_id } => {
                self.lines
                    .push_back(control::answer_denied(request_id, prompt::UNATTENDED));
            }
            ClientEvent::UnknownRequest {
                request_id,
                subtype,
            } => {
                let error = format!("unsupported request: {subtype}");
                self.lines
                    .push_back(control::answer_error(request_id, &error));
            }
            ClientEvent::ControlResponse { request_id, answer } if request_id == USAGE => {
                if let Ok(answer) = answer {
                    let model = self.model.clone();
                    self.reports.extend(self.window.answered(answer, model));
                }
            }
            ClientEvent::ApiRetry { attempt, error } => {
                self.show(Activity::Retry {
                    attempt: *attempt,
                    error: error.to_string(),
                });
            }
            ClientEvent::ModelFallback { to } => self.fell_back(to),
            ClientEvent::Context { window, .. } => {
                if let Some(tokens) = window {
                    let model = self.model.clone().filter(|model| !model.is_empty());
                    self.reports.extend(self.window.reported(*tokens, model));
                }
            }
            ClientEvent::Notice(text) => self.warn(text.clone()),
            ClientEvent::CompactBoundary { pre_tokens } => {
                self.reports.push_back(Report::Compacted {
                    context_tokens: *pre_tokens,
                });
            }
            ClientEvent::RateLimit(_)
            | ClientEvent::PermissionDenied { .. }
            | ClientEvent::ConversationReset
            | ClientEvent::ControlResponse { .. }
            | ClientEvent::ControlCancel { .. }
            | ClientEvent::Ignored
            | ClientEvent::Malformed => {}
        }
    }

    fn says_cost(&self) -> bool {
        self.kind == AgentKind::Claude && self.spending.says_cost
    }

    /// Something that a person should know.
    pub(super) fn warn(&mut self, text: String) {
        self.show(Activity::Warning(text));
    }

    pub(super) fn ended(mut self, exit: Exit, stderr: &str, duration: Millis) -> AttemptEnded {
        self.seen.exited(exit, stderr);
        self.spending.end();
        let mut counters = counters(&self.trace, &self.spending);
        counters.duration = duration;
        counters.usage_tokens = self.context.context_tokens;
        AttemptEnded {
            counters,
            traces: self.trace.last,
            resumable: self.context.responses > 0
                && match &self.dialect {
                    Some(dialect) => dialect.conversation().is_some(),
                    None => self.kind == AgentKind::Claude,
                },
            ..AttemptEnded::bare(ends::cause(&self.seen))
        }
    }

    fn next_uuid(&mut self) -> String {
        self.messages += 1;
        self.id.message(self.attempt, self.messages)
    }

    fn lifecycle(&mut self, uuid: &str, state: Lifecycle) {
        self.has_lifecycles = true;
        let is_over = matches!(state, Lifecycle::Started | Lifecycle::Cancelled);
        if is_over
            && self
                .undelivered
                .as_ref()
                .is_some_and(|message| message.uuid == uuid)
        {
            self.delivered();
        }
    }

    /// A message that waited between turns opens the next one.
    fn turn_begins(&mut self) {
        if self.is_unheard() && !self.has_lifecycles {
            self.delivered();
        }
        self.between_turns = false;
    }

    fn delivered(&mut self) {
        if self.undelivered.take().is_some() {
            self.handing_off.heard();
            self.reports.push_back(Report::Delivered);
        }
    }

    fn response(&mut self, response: &Assistant) {
        if response.main_thread && !response.synthetic {
            self.model_of(&response.model);
            let is_next = self.last_response != response.message_id;
            let joins = self
                .undelivered
                .as_ref()
                .is_some_and(|message| message.joins_next);
            if is_next && joins && !self.has_lifecycles {
                self.delivered();
            }
            if is_next {
                self.handing_off.responds();
            }
            self.last_response.clone_from(&response.message_id);
        }
        for block in &response.blocks {
            match block {
                Block::Call(call) => {
                    if response.main_thread {
                        self.handing_off.calls(call);
                    }
                    self.show(Activity::Tool {
                        call: call.id.clone(),
                        name: call.name.clone(),
                        target: call.target.clone(),
                    });
                }
                // A cause says what failed; these words say what the service answered, and which service.
                Block::Text(words) if response.main_thread && response.error.is_some() => {
                    self.warn(one_line(words, FAILURE_CHARS_MAX));
                }
                Block::Text(words) if response.main_thread => {
                    self.show(Activity::Words(words.clone()));
                }
                Block::Text(_) => {}
            }
        }
        self.end_if_over();
    }

    fn results(&mut self, results: &[ToolResult]) {
        for result in results {
            self.show(Activity::ToolEnded {
                call: result.tool_use_id.clone(),
                is_error: result.is_error,
            });
            self.handing_off.ended(result);
        }
        self.end_if_over();
        if let Some(message) = &mut self.undelivered {
            message.joins_next = true;
        }
        // The response that called these tools is over, and its cost is known.
        if self.says_cost() && self.spending.changed() {
            self.lines.push_back(control::get_session_cost(COST));
        }
    }

    /// A model that differs from the previous one may have another window, so we ask for it again.
    fn model_of(&mut self, model: &str) {
        let known = self.model.replace(model.to_owned());
        if self.window.fallback.as_deref() == Some(model) {
            return;
        }
        self.window.fallback = None;
        if known.is_some_and(|known| known != model) && self.dialect.is_none() {
            self.lines.push_back(control::get_context_usage(USAGE));
        }
    }

    fn fell_back(&mut self, to: &str) {
        self.show(Activity::Warning(format!("another model answers: {to}")));
        self.reports.extend(self.window.fell_back(to));
    }

    fn turn_ended(&mut self, result: &TurnResult) {
        self.between_turns = true;
        self.handing_off = HandingOff::default();
        if let Some(model) = self.model.clone() {
            self.reports.extend(self.window.of_result(result, model));
        }
        let refused = std::mem::take(&mut self.refused);
        let theirs = |call: &&Call| !self.has_lifecycles && !refused.contains(&call.id);
        for call in result.denials.iter().filter(theirs) {
            self.trace.refused_without_a_word(call);
        }
        if self.has_schema && !result.is_error {
            self.reports.push_back(Report::Answered(Answer {
                structured: result.structured.clone(),
                words: result.words.clone().unwrap_or_default(),
            }));
        }
        let interrupted = std::mem::take(&mut self.interrupted);
        self.reports.push_back(Report::TurnEnded {
            failed: result.is_error && !interrupted,
        });
    }

    fn show(&mut self, activity: Activity) {
        self.reports.push_back(Report::Activity(activity));
    }
}

fn spent(spending: &SpendEstimate) -> Report {
    Report::Spend {
        spend: spending.spend(),
        turns: spending.turns,
        subscription: spending.subscription,
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::event::Counters;
    use ekiden_core::ids::{AttemptNumber, SessionNumber};
    use ekiden_wire::agent_side::{AgentWriter, Saying};
    use ekiden_wire::rpc::attempt_mark;
    use ekiden_wire::usage::Usage;
    use serde_json::json;

    use ekiden_core::budget::Prices;

    use super::*;
    use crate::stream::from_saved_stream;

    fn attempt(message: &str, input: u64) -> String {
        let writer = AgentWriter {
            session_id: "s".into(),
            model: "opus".into(),
            cwd: "/p".into(),
        };
        let usage = Usage {
            input,
            ..Usage::default()
        };
        let begun = control::answer(INITIALIZE, &json!({}));
        begun + &writer.assistant(message, &usage, Saying::Text("."))
    }

    fn saved(stream: &str, attempt: AttemptNumber) -> AttemptEnded {
        let prices = Prices::default();
        from_saved_stream(stream.as_bytes(), attempt, AgentKind::Claude, prices).unwrap()
    }

    /// The mark of an attempt can be lost, with all that it said, if power fails or the disk is full.
    // shows: REL-22
    #[test]
    fn what_an_earlier_attempt_spent_is_not_charged_again() {
        let (first, second) = (AttemptNumber::FIRST, AttemptNumber::FIRST.next());
        let stream = attempt("a", 1_000);
        assert!(saved(&stream, first).counters.spend.tokens > 1_000);
        assert_eq!(saved(&stream, second).counters, Counters::default());
        let stream = stream + &attempt_mark(2) + &attempt("b", 1_000);
        assert!(saved(&stream, second).counters.spend.tokens > 1_000);
        let third = second.next();
        assert_eq!(saved(&stream, third).counters, Counters::default());
    }

    // shows: REL-22
    #[test]
    fn a_saved_stream_is_charged_for_its_last_attempt_and_what_may_have_been_on_its_way() {
        let cost = |stream: String| {
            let ended = saved(&stream, AttemptNumber::FIRST);
            assert!(ended.counters.spend.estimated);
            (ended.counters.spend.tokens, ended.counters.turns)
        };
        let (tokens, turns) = cost(attempt("a", 1_000));
        assert_eq!(turns, 1);
        assert!((2_000..2_100).contains(&tokens), "{tokens}");
        assert_eq!(
            cost(attempt("b", 9_000) + &attempt("a", 1_000)),
            (tokens, turns)
        );
    }

    // shows: REL-06
    #[test]
    fn a_saved_stream_tells_of_its_last_attempt_what_that_one_did() {
        let call = r#"{"type":"assistant","message":{"id":"c","model":"m","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}}]},"parent_tool_use_id":null}"#;
        let first = format!("{}{call}\n{TOOL}\n", attempt("a", 1_000));
        let ended = |stream: String| saved(&stream, AttemptNumber::FIRST);
        assert_eq!(ended(first.clone()).counters.tool_calls, 1);
        let again = ended(first + &attempt("b", 1_000));
        assert_eq!(again.counters.tool_calls, 0);
        assert_eq!(again.traces.succeeded, [""; 0]);
        assert!(!again.resumable, "it may be in a conversation of its own");
    }

    const OURS: &str = "6f0e5a52-1111-5111-8111-111111111111";

    fn conversation() -> Conversation {
        Conversation {
            dialect: None,
            protocol: String::new(),
            kind: AgentKind::Claude,
            id: serde_json::from_value(json!(OURS)).unwrap(),
            attempt: AttemptId::first(SessionNumber::FIRST),
            has_schema: false,
            seen: Observed::default(),
            context: ContextMeter::default(),
            spending: SpendEstimate::new(Prices::default(), AgentKind::Claude.price_unknown()),
            trace: Trace::default(),
            model: None,
            window: Window::default(),
            messages: 0,
            undelivered: None,
            has_lifecycles: false,
            asked: Vec::new(),
            refused: Vec::new(),
            last_response: String::new(),
            handing_off: HandingOff::default(),
            between_turns: false,
            interrupted: false,
            lines: VecDeque::new(),
            reports: VecDeque::new(),
        }
    }

    fn hear(talk: &mut Conversation, line: &str) -> Vec<Report> {
        talk.hear(&ClientEvent::parse(line.as_bytes()));
        let reports = std::iter::from_fn(|| talk.next_report());
        let told = |report: &Report| matches!(report, Report::Delivered | Report::TurnEnded { .. });
        reports.filter(told).collect()
    }

    const INIT: &str = r#"{"type":"system","subtype":"init"}"#;
    const RESULT: &str =
        r#"{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed"}"#;
    const TOOL: &str = r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"hi"}]}}"#;

    fn response(id: &str) -> String {
        format!(r#"{{"type":"assistant","message":{{"id":"{id}","model":"m","content":[]}}}}"#)
    }

    fn call(id: &str, target: &str) -> String {
        format!(
            r#"{{"type":"assistant","message":{{"id":"{id}","model":"m","content":[{{"type":"tool_use","id":"t1","name":"Write","input":{{"file_path":"{target}"}}}}]}}}}"#
        )
    }

    fn asks(talk: &mut Conversation, subtype: &str) -> bool {
        let lines: Vec<String> = std::iter::from_fn(|| talk.next_line()).collect();
        lines.iter().any(|line| line.contains(subtype))
    }

    // shows: REL-22
    #[test]
    fn a_turn_ends_once_its_handoff_is_written() {
        let handoff = call("a", "/p/.ekiden/handoff/PROGRESS.md");
        let mut talk = conversation();
        hear(&mut talk, &handoff);
        talk.interrupt();
        assert!(!asks(&mut talk, "interrupt"));
        hear(&mut talk, TOOL);
        assert!(asks(&mut talk, "interrupt"));

        // It has read the order, and has not called anything yet.
        let mut talk = conversation();
        talk.say("please hand off");
        hear(&mut talk, TOOL);
        hear(&mut talk, &response("a"));
        talk.interrupt();
        assert!(!asks(&mut talk, "interrupt"));
        hear(&mut talk, &handoff);
        assert!(!asks(&mut talk, "interrupt"));
        hear(&mut talk, &response("b"));
        assert!(asks(&mut talk, "interrupt"), "it goes on");
    }

    // shows: REL-22
    #[test]
    fn a_turn_ends_at_once_if_it_does_something_else() {
        let mut talk = conversation();
        hear(&mut talk, &response("a"));
        talk.interrupt();
        assert!(asks(&mut talk, "interrupt"));

        let mut talk = conversation();
        talk.say("please hand off");
        hear(&mut talk, TOOL);
        hear(&mut talk, &response("a"));
        talk.interrupt();
        assert!(!asks(&mut talk, "interrupt"));
        hear(&mut talk, &call("a", "/p/src/more.rs"));
        assert!(asks(&mut talk, "interrupt"));
    }

    // shows: REL-22
    #[test]
    fn an_order_that_waits_is_withdrawn_before_the_turn_ends() {
        let mut talk = conversation();
        hear(&mut talk, &response("a"));
        talk.say("please hand off");
        asks(&mut talk, "");
        talk.interrupt();
        let lines: Vec<String> = std::iter::from_fn(|| talk.next_line()).collect();
        assert!(lines[0].contains("cancel_async_message"), "{lines:?}");
        assert!(lines[1].contains("interrupt"), "{lines:?}");
        let uuid = talk.undelivered.as_ref().unwrap().uuid.clone();
        let cancelled = format!(
            r#"{{"type":"command_lifecycle","command_uuid":"{uuid}","state":"cancelled"}}"#
        );
        assert_eq!(
            hear(&mut talk, &cancelled),
            [Report::Delivered],
            "it waits no more"
        );
        let ended = Report::TurnEnded { failed: false };
        assert_eq!(hear(&mut talk, RESULT), [ended]);
        assert!(!talk.is_unheard());
    }

    /// As Claude Code 2.1.197 was seen to do: it takes the message with the next request, and does not
    /// report that.
    // shows: AGT-09, RUN-20
    #[test]
    fn an_older_clients_next_response_shows_that_a_message_is_delivered() {
        let mut talk = conversation();
        hear(&mut talk, INIT);
        hear(&mut talk, &response("a"));
        talk.say("please hand off");
        assert_eq!(
            hear(&mut talk, &response("a")),
            [],
            "the rest of a response"
        );
        assert_eq!(hear(&mut talk, TOOL), []);
        assert_eq!(hear(&mut talk, &response("b")), [Report::Delivered]);
        assert_eq!(hear(&mut talk, &response("c")), []);
    }

    // shows: REL-22
    #[test]
    fn the_cost_so_far_is_asked_for_once_a_response_until_a_client_does_not_say_it() {
        let mut talk = conversation();
        let mut asks = |line: &str| {
            hear(&mut talk, line);
            let lines = std::iter::from_fn(|| talk.next_line());
            lines
                .filter(|line| line.contains("get_session_cost"))
                .count()
        };
        assert_eq!(asks(&response("a")), 0, "it is not over");
        assert_eq!(asks(TOOL), 1);
        assert_eq!(asks(TOOL), 0, "another of its tools");
        assert_eq!(asks(&response("b")) + asks(TOOL), 1);
        let unsupported = control::answer_error(COST, "unsupported");
        assert_eq!(asks(&unsupported), 0);
        assert_eq!(asks(&response("c")) + asks(TOOL), 0);
    }

    // shows: REL-22
    #[test]
    fn a_guessed_cost_is_reported_once_the_client_has_said_what_it_says() {
        for answer in [
            control::answer(COST, &json!({"text": "Estimated cost: $0.0123"})),
            control::answer_error(COST, "unsupported"),
        ] {
            let mut talk = conversation();
            let mut reports = |line: &str| {
                talk.hear(&ClientEvent::parse(line.as_bytes()));
                let mut reports = std::iter::from_fn(|| talk.next_report());
                reports.any(|report| matches!(report, Report::Spend { .. }))
            };
            assert!(!reports(&response("a")) && !reports(TOOL));
            assert!(reports(&answer));
            assert!(reports(&response("b")));
        }
    }

    // shows: AGT-09, RUN-20
    #[test]
    fn a_message_that_comes_too_late_for_a_turn_opens_the_next_one() {
        let mut talk = conversation();
        hear(&mut talk, INIT);
        hear(&mut talk, &response("a"));
        talk.say("please hand off");
        let ended = Report::TurnEnded { failed: false };
        assert_eq!(hear(&mut talk, RESULT), [ended]);
        assert!(talk.is_unheard());
        assert_eq!(hear(&mut talk, INIT), [Report::Delivered]);
        assert!(!talk.is_unheard());
    }

    // shows: AGT-13, RUN-20
    #[test]
    fn an_older_clients_result_names_the_calls_that_its_rules_refused() {
        let mut talk = conversation();
        let ask = |id: &str| {
            format!(
                r#"{{"type":"control_request","request_id":"r-{id}","request":{{"subtype":"hook_callback","callback_id":"cb","input":{{"hook_event_name":"PreToolUse","tool_name":"Write","tool_use_id":"{id}"}}}}}}"#
            )
        };
        hear(&mut talk, INIT);
        hear(&mut talk, &ask("ours"));
        talk.answer("r-ours", &HookAnswer::Deny("not now".to_owned()));
        hear(&mut talk, &ask("theirs"));
        talk.answer("r-theirs", &HookAnswer::Pass);
        let denials = r#""permission_denials":[{"tool_name":"Write","tool_use_id":"ours","tool_input":{}},{"tool_name":"Bash","tool_use_id":"theirs","tool_input":{"command":"make item"}}]}"#;
        hear(&mut talk, &RESULT.replace('}', &format!(",{denials}")));
        assert_eq!(talk.trace.last.denied, ["Bash(make item:*)"]);
    }

    // shows: MON-06, AGT-09
    #[test]
    fn an_older_clients_window_of_a_million_is_listed_under_another_name() {
        for name in ["m", "m[1m]"] {
            let mut talk = conversation();
            talk.hear(&ClientEvent::parse(response("a").as_bytes()));
            let usage = format!(r#","modelUsage":{{"{name}":{{"contextWindow":1000000}}}}}}"#);
            talk.hear(&ClientEvent::parse(RESULT.replace('}', &usage).as_bytes()));
            let reports: Vec<Report> = std::iter::from_fn(|| talk.next_report()).collect();
            let is_window = |report: &Report| {
                matches!(
                    report,
                    Report::Window {
                        model_tokens: 1_000_000,
                        ..
                    }
                )
            };
            assert!(reports.iter().any(is_window), "{name}: {reports:?}");
        }
    }

    // shows: REL-10
    #[test]
    fn what_the_client_says_of_a_failure_is_told() {
        let mut talk = conversation();
        let words = "API Error: 502 Bad Gateway.\u{1b}[31m\nCheck your gateway (10.0.0.1:80).";
        let line = serde_json::json!({"type": "assistant", "error": "server_error", "message":
            {"id": "a", "model": "<synthetic>", "content": [{"type": "text", "text": words}]}});
        talk.hear(&ClientEvent::parse(line.to_string().as_bytes()));
        let told: Vec<Report> = std::iter::from_fn(|| talk.next_report()).collect();
        let [Report::Activity(Activity::Warning(told))] = &told[..] else {
            panic!("{told:?}");
        };
        assert!(
            told.starts_with("API Error: 502 Bad Gateway.") && !told.contains(['\n', '\u{1b}'])
        );
    }

    /// If a client reports what becomes of a message, ekiden believes it and guesses nothing.
    #[test]
    fn a_newer_client_says_itself_that_a_message_is_delivered() {
        let mut talk = conversation();
        let lifecycle = |uuid: &str, state: &str| {
            format!(r#"{{"type":"command_lifecycle","command_uuid":"{uuid}","state":"{state}"}}"#)
        };
        hear(&mut talk, &lifecycle("prompt", "started"));
        talk.say("please hand off");
        let uuid = talk.undelivered.as_ref().unwrap().uuid.clone();
        hear(&mut talk, TOOL);
        assert_eq!(hear(&mut talk, &response("b")), []);
        assert_eq!(
            hear(&mut talk, &lifecycle(&uuid, "started")),
            [Report::Delivered]
        );
    }

    // shows: RUN-20
    #[test]
    fn a_message_that_is_not_taken_is_given_up() {
        let mut talk = conversation();
        hear(&mut talk, INIT);
        hear(&mut talk, RESULT);
        talk.say("the handoff still needs this");
        assert!(talk.is_unheard());
        talk.give_up_saying();
        let reports: Vec<Report> = std::iter::from_fn(|| talk.next_report()).collect();
        assert_eq!(
            reports,
            [Report::Delivered, Report::TurnEnded { failed: true }]
        );
        assert!(!talk.is_unheard());
    }
}
