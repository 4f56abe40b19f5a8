//! The conversation with the agent while a session is at work.
//!
//! The order to hand off goes into the running turn as soon as measured context use reaches L2. When the agent wants to
//! end its turn, ekiden judges the files that it left: first in the Stop callback, if the agent has one, then by
//! messages after the turn is over. Each way has its own limit, so every conversation ends.

use super::spending::Bound;
use super::start::HANDOFF_DIR;
use super::{NextAttempt, Phase, Prompt, Purpose, Relay};
use crate::budget::{Share, Spend};
use crate::effect::{AttemptEffect, RelayEffect};
use crate::ends::EndCause;
use crate::event::AttemptEvent;
use crate::guard::{Level, Window};
use crate::handoff::{Fault, Inspection};
use crate::ids::AttemptId;
use crate::limits;
use crate::prompt::{self, OrderReason};
use crate::settings::Settings;
use crate::steering::StopRequest;
use crate::time::Timestamp;

/// An attempt that is ordered or in progress.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub attempt: NextAttempt,
    /// The agent's prompt. It is kept, since making it takes a while.
    pub prompt: Prompt,
    /// Its share, reserved when it began.
    pub share: Share,
    /// The attempt's spend at the last mark.
    pub spend: Spend,
    /// Its spend when the handoff was ordered, if that is known.
    pub(super) ordered_at: Option<Spend>,
    /// How full its context is; levels only rise within an attempt.
    pub level: Level,
    /// The size of its context, in tokens, when it reached the level.
    pub(super) usage_tokens: u64,
    /// Its window, once the agent reported it.
    pub(super) window: Option<Window>,
    pub(super) process: Option<Process>,
    pub(super) channel: Channel,
    /// The bound that is ending it.
    pub(super) bound: Option<Bound>,
    /// The session gets the order to hand off at this time.
    pub(super) order_by: Option<Timestamp>,
    /// The process is ended at this time: after the grace of a gentle stop, or when its time or its budget is
    /// up.
    pub(super) stop_by: Option<Timestamp>,
    pub(super) compacted: bool,
    /// A reviewer's last answer.
    pub(super) answer: Option<String>,
    /// Its conversation is with an agent on another machine.
    pub(super) is_elsewhere: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) since: Timestamp,
    /// When it was last heard of.
    pub(super) heard: Timestamp,
}

/// What ekiden may send to the agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Channel {
    Open(Open),
    /// The agent was told to exit, or is being ended: nothing more is sent.
    Closed,
}

/// What ekiden has sent to the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Open {
    order: HandoffOrder,
    /// A message was sent that is not part of a request yet.
    pub(super) undelivered: bool,
    go_ons: u32,
    calls_at_go_on: Option<u32>,
    asks: u32,
    holds: u32,
    /// The agent was asked to correct the faults that ekiden mentions only once.
    asked: bool,
}

/// The order to hand off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum HandoffOrder {
    #[default]
    No,
    /// To be sent as soon as the agent can take it.
    Due(OrderReason),
    Given,
}

/// How to hold an agent that wants to end its turn.
#[derive(Debug, Clone, Copy)]
enum HoldMethod {
    StopCallback,
    Message,
}

impl Relay {
    /// Something happened in the current attempt. An event of an earlier attempt is void.
    pub(super) fn attempt_event(
        &mut self,
        at: Timestamp,
        attempt: AttemptId,
        event: &AttemptEvent,
    ) -> Vec<RelayEffect> {
        match (&mut self.phase, event) {
            (Phase::Running(session), _) if session.attempt.id != attempt => Vec::new(),
            (Phase::Running(session), AttemptEvent::Ended(ended)) => {
                let session = session.clone();
                self.attempt_ended(at, &session, ended)
            }
            (Phase::Running(session), AttemptEvent::Answered { answer }) => {
                session.answer = Some(answer.clone());
                session.tell(None)
            }
            (Phase::Running(session), event) => {
                let effect = session.event(at, event, &self.settings);
                session.tell(effect)
            }
            (_, _) => Vec::new(),
        }
    }
}

impl Session {
    pub(super) fn new(attempt: NextAttempt, prompt: Prompt, share: Share) -> Self {
        // If a conversation only hands off, its first message is the order.
        let order = match attempt.hand_off {
            true => HandoffOrder::Given,
            false => HandoffOrder::No,
        };
        Self {
            attempt,
            prompt,
            share,
            spend: Spend::default(),
            ordered_at: None,
            level: Level::L0,
            usage_tokens: 0,
            window: None,
            process: None,
            channel: Channel::Open(Open {
                order,
                ..Open::default()
            }),
            bound: None,
            order_by: None,
            stop_by: None,
            compacted: false,
            answer: None,
            is_elsewhere: false,
        }
    }

    /// It has the order to hand off, or is done.
    pub fn is_handing_off(&self) -> bool {
        !matches!(&self.channel, Channel::Open(open) if open.order == HandoffOrder::No)
    }

    /// The agent knows its work only from a summary: the handoff came too late.
    pub(super) fn is_compacted(&self) -> bool {
        self.attempt.consumed.compacted || self.compacted
    }

    /// It was at or above L2: all it can still do is hand off.
    pub(super) fn is_late(&self) -> bool {
        self.attempt.hand_off || self.level >= Level::L2
    }

    /// The conversation, at this size, has room to hand off.
    pub(super) fn has_room(&self, usage_tokens: u64) -> bool {
        let usage_tokens = usage_tokens.max(self.usage_tokens);
        match self.window {
            Some(window) => window.left_tokens(usage_tokens) >= limits::HANDOFF_ROOM_TOKENS,
            None => self.level < Level::L3,
        }
    }

    /// The attempt ended without ever having a process.
    pub(super) fn never_ran(&self, cause: &EndCause) -> bool {
        self.process.is_none() && matches!(cause, EndCause::NeverStarted(_))
    }

    /// Wraps the effect as one for this attempt.
    pub(super) fn tell(&self, effect: Option<AttemptEffect>) -> Vec<RelayEffect> {
        let attempt = self.attempt.id;
        let effect = effect.map(|effect| RelayEffect::Attempt { attempt, effect });
        effect.into_iter().collect()
    }

    fn event(
        &mut self,
        at: Timestamp,
        event: &AttemptEvent,
        settings: &Settings,
    ) -> Option<AttemptEffect> {
        if let Some(process) = &mut self.process {
            process.heard = at;
        }
        match event {
            AttemptEvent::Started { .. } => {
                let (since, heard) = (at, at);
                self.process = Some(Process { since, heard });
                self.limit_time(settings.bounds.session_timeout);
                self.say_order(settings)
            }
            AttemptEvent::LevelCrossed {
                level,
                usage_tokens,
                spend,
                is_done,
            } => {
                self.level = self.level.max(*level);
                self.usage_tokens = self.usage_tokens.max(*usage_tokens);
                self.spend = self.spend.corrected(*spend);
                // Its last response may cross a level too, even after a handoff that needs no order.
                if *level < Level::L2 || *is_done {
                    return None;
                }
                self.ordered_at.get_or_insert(self.spend);
                self.order(OrderReason::Context, settings)
            }
            AttemptEvent::BaselineMeasured {
                level,
                usage_tokens,
                filled_by,
            } => self.baseline(at, *level, *usage_tokens, filled_by),
            AttemptEvent::SpendCrossed { crossing } => self.spend_crossed(at, *crossing, settings),
            // The agent knows the work only from a summary now, and that does not improve.
            AttemptEvent::Compacted { .. } => {
                self.compacted = true;
                self.order(OrderReason::Context, settings)
            }
            AttemptEvent::MessageDelivered => {
                self.channel.open()?.undelivered = false;
                self.say_order(settings)
            }
            AttemptEvent::StopAsked {
                callback,
                background,
                handoff,
                tool_calls,
            } => {
                let hold = (!background).then(|| self.hold(handoff, *tool_calls, settings));
                let (callback, hold) = (callback.clone(), hold.flatten());
                Some(AttemptEffect::AnswerStop { callback, hold })
            }
            AttemptEvent::TurnEnded {
                handoff,
                tool_calls,
                failed,
            } => self.turn_ended(handoff, *tool_calls, *failed, settings),
            AttemptEvent::RefusalsSpent => self.interrupt(),
            AttemptEvent::WindowChanged { window, .. } => {
                self.window = Some(*window);
                None
            }
            AttemptEvent::Answered { .. } | AttemptEvent::Ended(_) => None,
        }
    }

    /// Stops the session: by an order to hand off and a deadline, or at once.
    pub(super) fn stop(
        &mut self,
        at: Timestamp,
        request: StopRequest,
        settings: &Settings,
    ) -> Option<AttemptEffect> {
        match request {
            StopRequest::Gently => {
                self.stop_by = Some(at + limits::STOP_GRACE);
                self.order(OrderReason::Operator, settings)
            }
            StopRequest::Now { .. } => self.terminate(),
        }
    }

    /// Orders the handoff, now or as soon as the agent can take a message.
    pub(super) fn order(
        &mut self,
        reason: OrderReason,
        settings: &Settings,
    ) -> Option<AttemptEffect> {
        let open = self.channel.open()?;
        if open.order == HandoffOrder::No {
            open.order = HandoffOrder::Due(reason);
        }
        self.say_order(settings)
    }

    fn say_order(&mut self, settings: &Settings) -> Option<AttemptEffect> {
        let purpose = self.attempt.purpose;
        let hears = settings.agent_for(purpose).kind.takes_messages() && self.process.is_some();
        if self.is_used_up() || !hears {
            return None;
        }
        let open = self.channel.open().filter(|open| !open.undelivered)?;
        let text = open.give_order(purpose, settings)?;
        open.undelivered = true;
        Some(AttemptEffect::Say { text })
    }

    /// The reason to hold a turn that wants to end, if there is one.
    fn hold(&mut self, handoff: &Inspection, calls: u32, settings: &Settings) -> Option<String> {
        let (level, is_used_up) = (self.level, self.is_used_up());
        let purpose = self.attempt.purpose;
        let open = self.channel.open().filter(|_| !is_used_up)?;
        if open.undelivered {
            // The message becomes a separate turn, unless an order is still waiting.
            return open.give_order(purpose, settings);
        }
        if purpose == Purpose::Review {
            return None;
        }
        open.objection(level, handoff, calls, HoldMethod::StopCallback, settings)
    }

    fn turn_ended(
        &mut self,
        handoff: &Inspection,
        calls: u32,
        failed: bool,
        settings: &Settings,
    ) -> Option<AttemptEffect> {
        let purpose = self.attempt.purpose;
        let hears = settings.agent_for(purpose).kind.takes_messages();
        let (level, is_used_up) = (self.level, self.is_used_up());
        let open = self.channel.open()?;
        // A message that waits in the agent becomes a separate turn, even after one that failed: the agent has begun it
        // when we hear of this one's end. A failed turn uses up a request, so this ends. Without room for a turn, the
        // process ends.
        match open.undelivered {
            true if is_used_up => return self.terminate(),
            true if hears && (!failed || open.asks < limits::ASKS_MAX) => {
                open.asks += u32::from(failed);
                return None;
            }
            true | false => {}
        }
        let may_ask = hears && !failed && !is_used_up;
        let answer = self.answer.as_deref();
        let text = may_ask.then(|| match purpose {
            Purpose::Work => open.objection(level, handoff, calls, HoldMethod::Message, settings),
            Purpose::Review => open.ask_for_verdict(answer),
        });
        let Some(text) = text.flatten() else {
            self.channel = Channel::Closed;
            return Some(AttemptEffect::Close);
        };
        open.undelivered = true;
        Some(AttemptEffect::Say { text })
    }

    /// Ends the process, and with it the conversation.
    pub(super) fn terminate(&mut self) -> Option<AttemptEffect> {
        self.stop_by = None;
        self.channel = Channel::Closed;
        Some(AttemptEffect::Terminate)
    }

    /// Ends a turn that does not recover by itself. The handoff is requested once more.
    fn interrupt(&mut self) -> Option<AttemptEffect> {
        let open = self.channel.open()?;
        open.asks = open.asks.max(limits::ASKS_MAX - 1);
        Some(AttemptEffect::Interrupt)
    }
}

impl Channel {
    pub(super) fn open(&mut self) -> Option<&mut Open> {
        match self {
            Self::Open(open) => Some(open),
            Self::Closed => None,
        }
    }
}

impl Open {
    fn give_order(&mut self, purpose: Purpose, settings: &Settings) -> Option<String> {
        let HandoffOrder::Due(reason) = self.order else {
            return None;
        };
        self.order = HandoffOrder::Given;
        Some(match purpose {
            Purpose::Work => prompt::order(reason, HANDOFF_DIR, &settings.marker),
            Purpose::Review => prompt::answer_now(),
        })
    }

    /// The message, sent once, to a reviewer whose answer is no verdict.
    fn ask_for_verdict(&mut self, answer: Option<&str>) -> Option<String> {
        let is_asked = self.asked || answer.and_then(prompt::verdict).is_some();
        self.asked = true;
        (!is_asked).then(prompt::mend_verdict)
    }

    /// The message to the agent, unless its turn may end: there is room to continue, or its handoff is
    /// missing or has faults.
    fn objection(
        &mut self,
        level: Level,
        handoff: &Inspection,
        tool_calls: u32,
        method: HoldMethod,
        settings: &Settings,
    ) -> Option<String> {
        let once = handoff.asked_once().filter(|_| !self.asked);
        let faults: Vec<Fault> = handoff.required().chain(once).cloned().collect();
        if faults.is_empty() {
            return None;
        }
        let stood_still = self.calls_at_go_on == Some(tool_calls);
        let early = self.order == HandoffOrder::No && level < Level::L1 && !handoff.begun;
        if early && self.go_ons < limits::GO_ON_MAX && !stood_still {
            self.go_ons += 1;
            self.calls_at_go_on = Some(tool_calls);
            return Some(prompt::go_on(&settings.marker));
        }
        let (asked, max) = match method {
            HoldMethod::StopCallback => (&mut self.holds, limits::STOP_BLOCKS_MAX),
            HoldMethod::Message => (&mut self.asks, limits::ASKS_MAX),
        };
        if *asked >= max {
            return None;
        }
        *asked += 1;
        self.asked |= handoff.asked_once().next().is_some();
        Some(prompt::ask_again(&faults, HANDOFF_DIR))
    }
}
