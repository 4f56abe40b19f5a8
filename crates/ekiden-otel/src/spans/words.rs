//! Reasons and states in one word.

use ekiden_core::budget::Measure as Bound;
use ekiden_core::effect::{Effect, RelayEffect, StartMode};
use ekiden_core::event::{AttemptEvent, Event, RelayEvent};
use ekiden_core::ids::StageId;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::{StageEnd, StageState};
use ekiden_core::record::Record;
use ekiden_core::steering::Steering;

/// Why the record orders the handoff of the stage's attempt, if it does.
pub(super) fn reason(record: &Record, stage: &StageId) -> Option<&'static str> {
    let starts = |effect: &Effect| match effect {
        Effect::Stage {
            stage: of,
            effect: RelayEffect::StartAttempt(start),
        } => of == stage && start.mode == StartMode::Resume,
        Effect::Stage { .. }
        | Effect::Worktree { .. }
        | Effect::Deliver
        | Effect::EndRun { .. } => false,
    };
    if record.effects.iter().any(starts) {
        return Some("cut_off");
    }
    match &record.event {
        Event::StopRequested(_) => Some("stop"),
        Event::Steered(steered) => match &steered.steering {
            Steering::HandOff => Some("asked"),
            Steering::Stop { .. } => Some("stop"),
            Steering::Pause
            | Steering::Unpause
            | Steering::Instruct { .. }
            | Steering::Answer { .. }
            | Steering::ChangeLimits(_) => None,
        },
        Event::Stage { event, .. } => match event {
            RelayEvent::Woke => Some("time"),
            RelayEvent::Attempt { event, .. } => reason_of_attempt(event),
            RelayEvent::Task { .. }
            | RelayEvent::KnowledgeEdited { .. }
            | RelayEvent::ListEdited { .. } => None,
        },
        Event::RunStarted(_)
        | Event::RunResumed(_)
        | Event::Continued(_)
        | Event::LogicChanged { .. }
        | Event::LogAccepted { .. }
        | Event::UtcOffsetChanged { .. }
        | Event::Woke
        | Event::Worktree { .. }
        | Event::Elsewhere { .. }
        | Event::Delivered { .. } => None,
    }
}

fn reason_of_attempt(event: &AttemptEvent) -> Option<&'static str> {
    match event {
        AttemptEvent::LevelCrossed { .. } | AttemptEvent::BaselineMeasured { .. } => {
            Some("context")
        }
        AttemptEvent::Compacted { .. } => Some("compaction"),
        AttemptEvent::SpendCrossed { crossing } => Some(match crossing.measure {
            Bound::Money | Bound::Tokens => "budget",
            Bound::Turns => "turns",
        }),
        AttemptEvent::Started { .. }
        | AttemptEvent::Answered { .. }
        | AttemptEvent::WindowChanged { .. }
        | AttemptEvent::MessageDelivered
        | AttemptEvent::StopAsked { .. }
        | AttemptEvent::TurnEnded { .. }
        | AttemptEvent::RefusalsSpent
        | AttemptEvent::Ended(_) => None,
    }
}

pub(super) fn state(state: &StageState) -> &'static str {
    match state {
        StageState::Waiting
        | StageState::Ready
        | StageState::Preparing
        | StageState::Working
        | StageState::Merging => "working",
        StageState::Interrupted(_) => "interrupted",
        StageState::Over(end) => match end {
            StageEnd::Done => "done",
            StageEnd::Failed(_) => "failed",
            StageEnd::Skipped(_) | StageEnd::LeftOut { .. } => "skipped",
            StageEnd::Blocked { .. } => "blocked",
        },
    }
}

/// It failed, as opposed to being stopped or waiting for a person.
pub(super) fn is_error(outcome: &Outcome) -> bool {
    let failed = matches!(
        outcome,
        Outcome::StagesFailed { .. } | Outcome::Stuck { .. } | Outcome::Stalled { .. }
    );
    failed && !outcome.asks() || outcome.is_failure()
}
