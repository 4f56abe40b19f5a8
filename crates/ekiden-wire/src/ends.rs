//! Why an attempt is over.
//!
//! What decides: `is_error`, `terminal_reason`, the HTTP status, the kind of the last API error, rate-limit events, the
//! exit, and what we did ourselves. `subtype` never means success, and no text decides, with one exception:
//! what a client says about its own flags before it begins. A turn that was running when the process ended has
//! no result, whatever the previous result said.
//!
//! [`Observed`] gathers what decides. [`TABLE`] decides, row by row, and is also the manual's table.

mod table;

use crate::excerpt;
use crate::limits;
use crate::stream::{ApiError, ClientEvent, RateLimitInfo, TurnResult};
use crate::trace::keep;

pub use table::{Row, TABLE, cause, of_failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    Signal(i32),
    /// The keeper ended it because the engine was gone.
    EngineLost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedByUs {
    /// It was no longer needed: its input was closed, and it was killed if it did not go.
    Done,
    /// The operator wanted it to stop.
    Operator,
    /// It was silent for too long.
    Silent,
}

/// What we saw of an attempt, folded over its events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observed {
    last_result: Option<Box<TurnResult>>,
    rate_limit: Option<RateLimitInfo>,
    api_error: Option<ApiError>,
    open_callbacks: Vec<String>,
    /// Callbacks of this turn that we answered, in time or not.
    answered: Vec<String>,
    /// In this turn the client gave up on a callback.
    given_up: bool,
    started: bool,
    turn_open: bool,
    unanswered: bool,
    interrupt_sent: bool,
    interrupted: bool,
    ended_by_us: Option<EndedByUs>,
    exit: Option<Exit>,
    stderr: String,
}

impl Observed {
    /// Handles the next event of the stream.
    pub fn observe(&mut self, event: &ClientEvent) {
        if *event == ClientEvent::Init {
            self.started = true;
            self.turn_open = true;
            self.api_error = None;
        } else if let ClientEvent::Assistant(response) = event
            && response.main_thread
        {
            // What a subagent in the background says or asks belongs to no turn of the main thread.
            self.turn_open = true;
            self.api_error = response.error;
            // From 2.1.332 on, no event tells of a limit whose reset has passed by the local clock.
            if response.limit.is_some() {
                self.rate_limit.clone_from(&response.limit);
            }
        } else if let ClientEvent::Result(result) = event {
            self.turn_ended(result);
        } else if let ClientEvent::RateLimit(info) = event {
            self.rate_limit = Some(info.clone());
        } else if let ClientEvent::HookCallback { request_id, call } = event
            && call.agent_id.is_none()
        {
            keep(
                &mut self.open_callbacks,
                request_id.clone(),
                limits::OPEN_CALLBACKS_MAX,
            );
        } else if let ClientEvent::ControlCancel { request_id } = event {
            self.callback_given_up(request_id);
        }
    }

    pub fn callback_answered(&mut self, request_id: &str) {
        let Some(place) = self
            .open_callbacks
            .iter()
            .position(|open| open == request_id)
        else {
            return;
        };
        let id = self.open_callbacks.remove(place);
        keep(&mut self.answered, id, limits::OPEN_CALLBACKS_MAX);
    }

    /// We asked to interrupt the turn: the next result answers that.
    pub fn interrupt_sent(&mut self) {
        self.interrupt_sent = true;
    }

    /// We ended the process. The first reason counts.
    pub fn ended_by_us(&mut self, reason: EndedByUs) {
        self.ended_by_us.get_or_insert(reason);
    }

    /// The process is gone, and `stderr` is the end of its standard error.
    pub fn exited(&mut self, exit: Exit, stderr: &str) {
        self.exit = Some(exit);
        self.stderr = excerpt::of_text(stderr.trim(), limits::ERROR);
    }

    /// The result of the last turn, if that turn is over.
    pub fn last_result(&self) -> Option<&TurnResult> {
        self.last_result.as_deref().filter(|_| !self.turn_open)
    }

    fn turn_ended(&mut self, result: &TurnResult) {
        self.turn_open = false;
        // The client continues without an answer only if it gave up on the call.
        self.unanswered = !self.open_callbacks.is_empty() || std::mem::take(&mut self.given_up);
        self.open_callbacks.clear();
        self.answered.clear();
        self.interrupted = std::mem::take(&mut self.interrupt_sent);
        self.last_result = Some(Box::new(result.clone()));
    }

    /// Any later answer is too late. An interrupt also makes the client give up on callbacks.
    fn callback_given_up(&mut self, request_id: &str) {
        let known = self
            .open_callbacks
            .iter()
            .chain(&self.answered)
            .any(|id| id == request_id);
        self.given_up |= known && !self.interrupt_sent;
    }
}

#[cfg(test)]
mod tests;
