//! The conversation with the agent while a session is at work.
//!
//! The order to hand over goes into the running turn as soon as measured context use reaches L2.
//! A turn that wants to end is judged by the files it leaves: through the Stop callback first, where
//! the agent has one, and by messages after the turn is over. Each way has its own limit, so every
//! conversation ends.

use crate::budget::Spend;
use crate::effect::RelayEffect;
use crate::event::{RelayEvent, StopRequest};
use crate::guard::{Level, Window};
use crate::handoff::{Fault, Inspection, Marker};
use crate::ids::AttemptId;
use crate::limits;
use crate::prompt::{self, OrderReason};
use crate::relay::spending::Bound;
use crate::relay::start::HANDOFF_DIR;
use crate::relay::{Phase, Relay, Session};
use crate::time::Timestamp;

/// How far the conversation has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Talk {
    /// The highest level reached.
    pub level: Level,
    /// The context use when it was reached, in tokens.
    pub usage_tokens: u64,
    /// What the attempt has spent at the last mark.
    pub spend: Spend,
    /// Its first response filled the window beyond L2: how much, and by what.
    pub(super) overfull: Option<(u64, Vec<(String, u64)>)>,
    /// Why it is being ended, where that is a bound.
    pub(super) bound: Option<Bound>,
    /// The window, once the agent told it.
    pub window: Option<Window>,
    /// The model, once the agent told it.
    pub model: Option<String>,
    takes_messages: bool,
    /// A message was sent that no request holds yet.
    pub(super) undelivered: bool,
    order: Order,
    go_ons: u32,
    calls_at_go_on: Option<u32>,
    asks: u32,
    holds: u32,
    /// Faults that are asked about once were asked about.
    asked: bool,
    /// The agent was told to go, or is being ended: nothing more is said.
    pub(super) closed: bool,
}

/// The order to hand over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Not given.
    No,
    /// To be given as soon as the agent can take it.
    Due(OrderReason),
    /// Given.
    Given,
}

/// What a turn that wants to end is told.
enum Judgement {
    /// The handoff is there.
    Done,
    /// There is room: go on working.
    GoOn,
    /// The handoff is missing or faulty.
    Ask(Vec<Fault>),
}

impl Talk {
    /// A conversation that has not begun.
    #[must_use]
    pub fn new(takes_messages: bool) -> Self {
        Self {
            level: Level::L0,
            usage_tokens: 0,
            spend: Spend::default(),
            overfull: None,
            bound: None,
            window: None,
            model: None,
            takes_messages,
            undelivered: false,
            order: Order::No,
            go_ons: 0,
            calls_at_go_on: None,
            asks: 0,
            holds: 0,
            asked: false,
            closed: false,
        }
    }

    /// The session was told to hand over.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.order != Order::No
    }

    fn judge(&self, handoff: &Inspection, tool_calls: u32) -> Judgement {
        let once = handoff.asked_once().filter(|_| !self.asked);
        let faults: Vec<Fault> = handoff.required().chain(once).cloned().collect();
        if faults.is_empty() {
            return Judgement::Done;
        }
        let stood_still = self.calls_at_go_on == Some(tool_calls);
        let early = self.order == Order::No && self.level < Level::L1 && !handoff.begun;
        if early && self.go_ons < limits::GO_ON_MAX && !stood_still {
            Judgement::GoOn
        } else {
            Judgement::Ask(faults)
        }
    }
}

impl Relay {
    /// Something was said or measured in the attempt at work. Late news of another attempt is void.
    pub(super) fn talked(
        &mut self,
        at: Timestamp,
        attempt: AttemptId,
        event: &RelayEvent,
    ) -> Vec<RelayEffect> {
        let Phase::Running(session) = &mut self.phase else { return Vec::new() };
        if session.attempt.id != attempt {
            return Vec::new();
        }
        session.hear(at, self.settings.bounds.session_timeout);
        match event {
            RelayEvent::AttemptStarted { pid, .. } => {
                session.pid = Some(*pid);
                self.orders_due(attempt)
            }
            RelayEvent::WindowChanged { window, model, .. } => {
                session.talk.window = Some(*window);
                session.talk.model.clone_from(model);
                Vec::new()
            }
            RelayEvent::LevelCrossed { level, usage_tokens, .. } => {
                session.talk.reach(*level, *usage_tokens);
                if *level >= Level::L2 { self.give_order(attempt, OrderReason::Context) } else { Vec::new() }
            }
            RelayEvent::BaselineMeasured { level, usage_tokens, filled_by, .. } => {
                session.baseline(at, *level, *usage_tokens, filled_by)
            }
            RelayEvent::SpendCrossed { crossing, .. } => self.spend_crossed(at, attempt, *crossing),
            RelayEvent::MessageDelivered { .. } => {
                session.talk.undelivered = false;
                self.orders_due(attempt)
            }
            RelayEvent::StopAsked { callback, background, handoff, tool_calls, .. } => {
                let hold = if *background { None } else { self.hold(handoff, *tool_calls) };
                vec![RelayEffect::AnswerStop { attempt, callback: callback.clone(), hold }]
            }
            RelayEvent::TurnEnded { handoff, tool_calls, failed, .. } => {
                self.turn_ended(attempt, handoff, *tool_calls, *failed)
            }
            RelayEvent::RefusalsSpent { .. } => session.interrupt(),
            RelayEvent::Surveyed { .. }
            | RelayEvent::Committed { .. }
            | RelayEvent::Verified { .. }
            | RelayEvent::Published { .. }
            | RelayEvent::Archived { .. }
            | RelayEvent::AttemptEnded(_)
            | RelayEvent::Woke
            | RelayEvent::KnowledgeEdited { .. } => Vec::new(),
        }
    }

    /// Stops the session at work: by an order to hand over and a deadline, or at once.
    pub(super) fn stop_session(&mut self, at: Timestamp, request: StopRequest) -> Vec<RelayEffect> {
        let Phase::Running(session) = &mut self.phase else { return Vec::new() };
        let attempt = session.attempt.id;
        match request {
            StopRequest::Gently => {
                session.stop_by = Some(at + limits::STOP_GRACE);
                self.give_order(attempt, OrderReason::Operator)
            }
            StopRequest::Now { .. } => session.terminate(),
        }
    }

    fn talk(&mut self) -> Option<&mut Talk> {
        match &mut self.phase {
            Phase::Running(session) => Some(&mut session.talk),
            Phase::Planned
            | Phase::Preparing(_)
            | Phase::Reviewing { .. }
            | Phase::Waiting { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => None,
        }
    }

    pub(super) fn give_order(&mut self, attempt: AttemptId, reason: OrderReason) -> Vec<RelayEffect> {
        let Some(talk) = self.talk() else { return Vec::new() };
        if talk.order == Order::No {
            talk.order = Order::Due(reason);
        }
        self.orders_due(attempt)
    }

    /// Sends the order if it is due and the agent can take a message now.
    fn orders_due(&mut self, attempt: AttemptId) -> Vec<RelayEffect> {
        let Phase::Running(session) = &mut self.phase else { return Vec::new() };
        let started = session.pid.is_some();
        let talk = &mut session.talk;
        let Order::Due(reason) = talk.order else { return Vec::new() };
        let deaf = talk.undelivered || !talk.takes_messages;
        if !started || talk.closed || talk.is_used_up() || deaf {
            return Vec::new();
        }
        talk.order = Order::Given;
        talk.undelivered = true;
        let text = prompt::order(reason, HANDOFF_DIR, &self.settings.marker);
        vec![RelayEffect::Say { attempt, text }]
    }

    /// The reason to hold a turn that wants to end, if there is one.
    fn hold(&mut self, handoff: &Inspection, tool_calls: u32) -> Option<String> {
        let marker = self.settings.marker.clone();
        let talk = self.talk().filter(|talk| !talk.closed && !talk.is_used_up())?;
        if talk.undelivered {
            // The message becomes a turn of its own, but for an order that is still waiting.
            let Order::Due(reason) = talk.order else { return None };
            talk.order = Order::Given;
            return Some(prompt::order(reason, HANDOFF_DIR, &marker));
        }
        match talk.judge(handoff, tool_calls) {
            Judgement::Done => None,
            Judgement::GoOn => Some(talk.tell_to_go_on(tool_calls, &marker)),
            Judgement::Ask(_) if talk.holds >= limits::STOP_BLOCKS_MAX => None,
            Judgement::Ask(faults) => {
                talk.holds += 1;
                talk.asked = true;
                Some(prompt::ask_again(&faults, HANDOFF_DIR))
            }
        }
    }

    fn turn_ended(
        &mut self,
        attempt: AttemptId,
        handoff: &Inspection,
        tool_calls: u32,
        failed: bool,
    ) -> Vec<RelayEffect> {
        if let Some(effects) = self.leave_used_up() {
            return effects;
        }
        let marker = self.settings.marker.clone();
        let Some(talk) = self.talk().filter(|talk| !talk.closed) else { return Vec::new() };
        let hears = talk.takes_messages && !failed;
        if talk.undelivered && hears {
            // It becomes a turn of its own.
            return Vec::new();
        }
        let text = match talk.judge(handoff, tool_calls) {
            Judgement::GoOn if hears => talk.tell_to_go_on(tool_calls, &marker),
            Judgement::Ask(faults) if hears && talk.asks < limits::ASKS_MAX => {
                talk.asks += 1;
                talk.asked = true;
                prompt::ask_again(&faults, HANDOFF_DIR)
            }
            Judgement::Done | Judgement::GoOn | Judgement::Ask(_) => {
                talk.closed = true;
                return vec![RelayEffect::Close { attempt }];
            }
        };
        talk.undelivered = true;
        vec![RelayEffect::Say { attempt, text }]
    }
}

impl Session {
    /// Ends the process, and with it the conversation.
    pub(super) fn terminate(&mut self) -> Vec<RelayEffect> {
        self.stop_by = None;
        self.talk.closed = true;
        vec![RelayEffect::Terminate { attempt: self.attempt.id }]
    }

    /// Ends a turn that does not find the way out by itself. The handoff is asked for once more.
    fn interrupt(&mut self) -> Vec<RelayEffect> {
        if self.talk.closed {
            return Vec::new();
        }
        self.talk.asks = self.talk.asks.max(limits::ASKS_MAX - 1);
        vec![RelayEffect::Interrupt { attempt: self.attempt.id }]
    }
}

impl Talk {
    /// Levels only rise within an attempt.
    fn reach(&mut self, level: Level, usage_tokens: u64) {
        if level >= self.level {
            self.level = level;
            self.usage_tokens = usage_tokens;
        }
    }

    fn tell_to_go_on(&mut self, tool_calls: u32, marker: &Marker) -> String {
        self.go_ons += 1;
        self.calls_at_go_on = Some(tool_calls);
        prompt::go_on(marker)
    }
}
