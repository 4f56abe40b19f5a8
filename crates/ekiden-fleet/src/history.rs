//! What Temporal's history of a plan tells, as events of a run.

use std::collections::HashMap;
use std::time::Duration;

use ekiden_core::event::{
    Check, CheckOutcome, Elsewhere, Event, Merge, PreparedWorktree, WorktreeEvent,
};
use ekiden_core::ids::{EffectId, StageId};
use ekiden_core::outcome::Outcome;
use ekiden_core::steering::StopRequest;
use ekiden_core::text::one_line;
use ekiden_core::time::{Millis, Timestamp};
use serde::de::DeserializeOwned;
use temporalio_common::protos::temporal::api::common::v1::Payloads;
use temporalio_common::protos::temporal::api::failure::v1::Failure;
use temporalio_common::protos::temporal::api::history::v1::HistoryEvent;
use temporalio_common::protos::temporal::api::history::v1::history_event::Attributes;

use crate::order::{MergeDone, MergeTask, PlanSignal, StageDone, StageTask, TEXT_CHARS_MAX};
use crate::worker::Activities;

/// What was asked of a worker, until it has answered.
enum Asked {
    Stage(StageId),
    Merge(StageId),
}

/// Reads a history from its beginning. The same history always gives the same events.
#[derive(Default)]
pub(crate) struct Reader {
    /// By the number of the event that asked.
    asked: HashMap<i64, Asked>,
    /// Stages that ran short of budget. They go on, or have ended once the plan has.
    short: Vec<(StageId, Outcome)>,
}

impl Reader {
    pub(crate) fn read(&mut self, event: &HistoryEvent) -> Vec<(Timestamp, Event)> {
        let at = event.event_time.as_ref().map_or(0, |at| {
            let since = Duration::new(
                u64::try_from(at.seconds).unwrap_or(0),
                u32::try_from(at.nanos).unwrap_or(0),
            );
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        });
        let at = Timestamp(at);
        let Some(attributes) = event.attributes.as_ref() else {
            return Vec::new();
        };
        // A plan that has ended waits for a resume, with a timer.
        if matches!(attributes, Attributes::TimerStartedEventAttributes(_)) {
            let short = std::mem::take(&mut self.short).into_iter();
            let ends = short.map(|(stage, outcome)| (at, ended(stage, outcome)));
            return ends.collect();
        }
        let told = self.told(event.event_id, attributes);
        told.into_iter().map(|event| (at, event)).collect()
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the catalogue is Temporal's, and a plan is made of a few of its events"
    )]
    fn told(&mut self, number: i64, event: &Attributes) -> Option<Event> {
        match event {
            Attributes::ActivityTaskScheduledEventAttributes(asked) => {
                let name = asked.activity_type.as_ref()?.name.as_str();
                if name == Activities::merge.name() {
                    let merge: MergeTask = read(asked.input.as_ref())?;
                    self.asked.insert(number, Asked::Merge(merge.task.stage));
                    return None;
                }
                let task: StageTask = read(asked.input.as_ref())?;
                self.short.retain(|(stage, _)| *stage != task.stage);
                self.asked.insert(number, Asked::Stage(task.stage.clone()));
                let worktree = PreparedWorktree {
                    base: Some(task.base),
                    ..PreparedWorktree::default()
                };
                let worktree = Ok(worktree);
                Some(of_worktree(
                    task.stage,
                    WorktreeEvent::Prepared { worktree },
                ))
            }
            Attributes::ActivityTaskCompletedEventAttributes(done) => {
                match self.asked.remove(&done.scheduled_event_id)? {
                    Asked::Stage(stage) => {
                        let done: StageDone = read(done.result.as_ref())?;
                        if matches!(done.outcome, Outcome::BudgetSpent { .. }) {
                            self.short.push((stage, done.outcome));
                            return None;
                        }
                        Some(ended(stage, done.outcome))
                    }
                    Asked::Merge(stage) => Some(merged(stage, read(done.result.as_ref())?)),
                }
            }
            Attributes::ActivityTaskCanceledEventAttributes(done) => {
                match self.asked.remove(&done.scheduled_event_id)? {
                    Asked::Stage(stage) => {
                        let request = StopRequest::Gently;
                        Some(ended(stage, Outcome::Stopped { request }))
                    }
                    Asked::Merge(stage) => {
                        let merge = Merge::Cancelled;
                        Some(of_worktree(stage, WorktreeEvent::Merged { merge }))
                    }
                }
            }
            Attributes::ActivityTaskFailedEventAttributes(done) => {
                self.failed(done.scheduled_event_id, done.failure.as_ref())
            }
            Attributes::ActivityTaskTimedOutEventAttributes(done) => {
                self.failed(done.scheduled_event_id, done.failure.as_ref())
            }
            Attributes::WorkflowExecutionSignaledEventAttributes(signal) => {
                match read(signal.input.as_ref())? {
                    PlanSignal::Steered { steered } => Some(Event::Steered(steered)),
                    PlanSignal::Resumed { resumed } => Some(Event::RunResumed(*resumed)),
                    PlanSignal::Limited { .. } => None,
                }
            }
            Attributes::WorkflowExecutionCancelRequestedEventAttributes(_) => {
                Some(Event::StopRequested(StopRequest::Gently))
            }
            _ => None,
        }
    }

    fn failed(&mut self, asked: i64, failure: Option<&Failure>) -> Option<Event> {
        let mut reasons = Vec::new();
        let mut next = failure;
        while let Some(failure) = next {
            reasons.push(failure.message.as_str());
            next = failure.cause.as_deref();
        }
        let why = one_line(&reasons.join(": "), TEXT_CHARS_MAX);
        Some(match self.asked.remove(&asked)? {
            Asked::Stage(stage) => ended(stage, Outcome::NoWorktree { why }),
            Asked::Merge(stage) => {
                let merge = Merge::Failed { error: why };
                of_worktree(stage, WorktreeEvent::Merged { merge })
            }
        })
    }
}

/// The plan decided it: an event of the history, not of a stage's own log.
pub(crate) fn is_of_plan(event: &Event) -> bool {
    match event {
        Event::Worktree { .. }
        | Event::Steered(_)
        | Event::StopRequested(_)
        | Event::RunResumed(_)
        | Event::Elsewhere {
            event: Elsewhere::Ended { .. },
            ..
        } => true,
        Event::RunStarted(_)
        | Event::Continued(_)
        | Event::LogicChanged { .. }
        | Event::LogAccepted { .. }
        | Event::UtcOffsetChanged { .. }
        | Event::Woke
        | Event::Delivered { .. }
        | Event::Stage { .. }
        | Event::Elsewhere {
            event: Elsewhere::Recorded { .. },
            ..
        } => false,
    }
}

fn ended(stage: StageId, outcome: Outcome) -> Event {
    let event = Elsewhere::Ended { outcome };
    Event::Elsewhere { stage, event }
}

fn merged(stage: StageId, done: MergeDone) -> Event {
    let merge = match done {
        MergeDone::Merged { commit } => Merge::Done {
            commit,
            files: Vec::new(),
            undeclared: Vec::new(),
        },
        MergeDone::Conflict { files } if files.is_empty() => Merge::Broken {
            check: Check {
                outcome: CheckOutcome::Failed { code: 1 },
                tree: None,
                duration: Millis(0),
                tail: String::new(),
            },
        },
        MergeDone::Conflict { files } => Merge::Conflict { files },
        MergeDone::Refused { why } => Merge::Failed { error: why },
    };
    of_worktree(stage, WorktreeEvent::Merged { merge })
}

/// Whoever records it knows which effect it answers.
fn of_worktree(stage: StageId, event: WorktreeEvent) -> Event {
    let effect = EffectId { seq: 0, index: 0 };
    Event::Worktree {
        stage,
        effect,
        event,
    }
}

fn read<T: DeserializeOwned>(payloads: Option<&Payloads>) -> Option<T> {
    let first = payloads?.payloads.first()?;
    serde_json::from_slice(&first.data).ok()
}
