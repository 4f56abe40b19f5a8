//! Turns Temporal's history of a plan into events of a run.

use std::collections::{BTreeSet, HashMap};

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

use crate::order::{
    MergeDone, MergeFailure, MergeTask, PlanSignal, StageDone, StageTask, TEXT_CHARS_MAX,
};
use crate::worker::Activities;

/// A request to a worker, until it is answered.
#[derive(Clone)]
enum Asked {
    Stage {
        stage: StageId,
        /// It shares budgets of single agents with others.
        shares_agents: bool,
    },
    Merge(StageId),
    /// Whether a stage was done before.
    Confirm(StageId),
}

/// Reads a history from its start, and those that follow it. The same history always gives the same events.
#[derive(Clone, Default)]
pub(crate) struct Reader {
    /// By the number of the event that made the request.
    asked: HashMap<i64, Asked>,
    /// What the plan has not taken in yet. It takes in everything before a step of the workflow at once,
    /// signals first.
    waiting: Vec<(Timestamp, Heard)>,
    /// How many of these came before that step.
    taken_in: usize,
    /// Stages that ran short of budget. They continue, or have ended once the plan has.
    short: Vec<(StageId, Outcome)>,
    /// Stages that are done and that nobody was asked to merge.
    unasked: BTreeSet<StageId>,
    /// A person wants the plan to stop.
    is_stopping: bool,
}

/// What an event of the history means.
#[derive(Clone)]
struct Heard {
    event: Event,
    /// What it means instead if the plan stops: a worker has not answered.
    stopped: Option<Box<Event>>,
}

impl Heard {
    fn is_signal(&self) -> bool {
        matches!(self.event, Event::Steered(_) | Event::RunResumed(_))
    }
}

impl Reader {
    pub(crate) fn read(&mut self, event: &HistoryEvent) -> Vec<(Timestamp, Event)> {
        let at = event.event_time;
        let at = at.and_then(|at| Timestamp::of_system(at.try_into().ok()?));
        let at = at.unwrap_or_default();
        let Some(attributes) = event.attributes.as_ref() else {
            return Vec::new();
        };
        // A plan that has ended waits for a resume, with a timer.
        if let Attributes::TimerStartedEventAttributes(_)
        | Attributes::WorkflowExecutionCompletedEventAttributes(_) = attributes
        {
            let short = std::mem::take(&mut self.short).into_iter();
            let ends = short.map(|(stage, outcome)| ended(stage, outcome));
            // A follower's plan may have started to merge them before it heard of the end.
            let unasked = self.unasked.iter().cloned().map(|stage| {
                let merge = Merge::Cancelled;
                of_worktree(stage, WorktreeEvent::Merged { merge })
            });
            return ends.chain(unasked).map(|event| (at, event)).collect();
        }
        if let Attributes::WorkflowTaskStartedEventAttributes(_) = attributes {
            self.taken_in = self.waiting.len();
        }
        if let Attributes::WorkflowTaskCompletedEventAttributes(_) = attributes {
            let mut all: Vec<_> = self.waiting.drain(..self.taken_in).collect();
            self.taken_in = 0;
            all.sort_by_key(|(_, heard)| !heard.is_signal());
            let taken = all.into_iter().map(|(at, heard)| (at, self.take_in(heard)));
            return taken.collect();
        }
        let Some(heard) = self.heard(event.event_id, attributes) else {
            return Vec::new();
        };
        // What the plan started. A resume is for a plan that has ended, unless an earlier stop is not taken
        // in yet.
        let is_begun = matches!(
            attributes,
            Attributes::ActivityTaskScheduledEventAttributes(_)
        );
        let is_resume = matches!(heard.event, Event::RunResumed(_));
        let is_next = !self.waiting.iter().any(|(_, heard)| heard.is_signal());
        if is_begun || (is_resume && is_next) {
            return vec![(at, self.take_in(heard))];
        }
        self.waiting.push((at, heard));
        Vec::new()
    }

    /// The event, as it reads when the plan takes it in.
    fn take_in(&mut self, heard: Heard) -> Event {
        let stopped = heard.stopped.filter(|_| self.is_stopping);
        let event = stopped.map_or(heard.event, |stopped| *stopped);
        let steered =
            matches!(&event, Event::Steered(steered) if steered.steering.stop().is_some());
        if steered || matches!(event, Event::StopRequested(_)) {
            self.is_stopping = true;
        } else if matches!(event, Event::RunResumed(_)) {
            self.is_stopping = false;
        }
        event
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the catalogue is Temporal's, and a plan is made of a few of its events"
    )]
    fn heard(&mut self, number: i64, event: &Attributes) -> Option<Heard> {
        let happened = match event {
            Attributes::ActivityTaskScheduledEventAttributes(asked) => {
                let name = asked.activity_type.as_ref()?.name.as_str();
                if name == Activities::outline.name() {
                    return None;
                }
                if name == Activities::merge.name() {
                    let merge: MergeTask = read(asked.input.as_ref())?;
                    self.unasked.remove(&merge.task.stage);
                    let asked = match merge.commit {
                        Some(_) => Asked::Merge,
                        None => Asked::Confirm,
                    };
                    self.asked.insert(number, asked(merge.task.stage));
                    return None;
                }
                let task: StageTask = read(asked.input.as_ref())?;
                self.short.retain(|(stage, _)| *stage != task.stage);
                let asked = Asked::Stage {
                    stage: task.stage.clone(),
                    shares_agents: !task.agents.is_empty(),
                };
                self.asked.insert(number, asked);
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
                self.completed(done.scheduled_event_id, done.result.as_ref())
            }
            Attributes::ActivityTaskCanceledEventAttributes(done) => {
                Some(stopped(&self.asked.remove(&done.scheduled_event_id)?))
            }
            Attributes::ActivityTaskFailedEventAttributes(done) => {
                return self.failed(done.scheduled_event_id, done.failure.as_ref());
            }
            Attributes::ActivityTaskTimedOutEventAttributes(done) => {
                return self.failed(done.scheduled_event_id, done.failure.as_ref());
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
        };
        happened.map(|event| Heard {
            event,
            stopped: None,
        })
    }

    fn completed(&mut self, asked: i64, result: Option<&Payloads>) -> Option<Event> {
        match self.asked.remove(&asked)? {
            Asked::Stage {
                stage,
                shares_agents,
            } => {
                let done: StageDone = read(result)?;
                if matches!(&done.outcome, Outcome::BudgetSpent { agents, .. } if agents.is_empty() || shares_agents)
                {
                    self.short.push((stage, done.outcome));
                    return None;
                }
                if done.outcome.is_complete() {
                    self.unasked.insert(stage.clone());
                }
                Some(ended(stage, done.outcome))
            }
            Asked::Merge(stage) => Some(merged(stage, read(result)?)),
            Asked::Confirm(stage) => {
                let result = match read(result)? {
                    MergeDone::Refused { why } => Err(why),
                    MergeDone::Merged { .. } | MergeDone::Conflict(_) => Ok(String::new()),
                };
                Some(of_worktree(stage, WorktreeEvent::Confirmed { result }))
            }
        }
    }

    fn failed(&mut self, asked: i64, failure: Option<&Failure>) -> Option<Heard> {
        let mut reasons = Vec::new();
        let mut next = failure;
        while let Some(failure) = next {
            reasons.push(failure.message.as_str());
            next = failure.cause.as_deref();
        }
        let why = one_line(&reasons.join(": "), TEXT_CHARS_MAX);
        let asked = self.asked.remove(&asked)?;
        let stopped = Some(Box::new(stopped(&asked)));
        let event = match asked {
            Asked::Stage { stage, .. } => {
                let on_worker = true;
                ended(stage, Outcome::NoWorktree { why, on_worker })
            }
            Asked::Merge(stage) => {
                let merge = Merge::Failed { error: why };
                of_worktree(stage, WorktreeEvent::Merged { merge })
            }
            Asked::Confirm(stage) => {
                let result = Err(why);
                of_worktree(stage, WorktreeEvent::Confirmed { result })
            }
        };
        Some(Heard { event, stopped })
    }
}

/// What becomes of a request to a worker if the plan stops.
fn stopped(asked: &Asked) -> Event {
    match asked {
        Asked::Stage { stage, .. } => {
            let request = StopRequest::Gently;
            ended(stage.clone(), Outcome::Stopped { request })
        }
        Asked::Merge(stage) | Asked::Confirm(stage) => {
            let merge = Merge::Cancelled;
            of_worktree(stage.clone(), WorktreeEvent::Merged { merge })
        }
    }
}

/// The history that this one continues, if any.
pub(crate) fn before(history: &[HistoryEvent]) -> Option<String> {
    let Attributes::WorkflowExecutionStartedEventAttributes(started) =
        history.first()?.attributes.as_ref()?
    else {
        return None;
    };
    let before = started.continued_execution_run_id.clone();
    Some(before).filter(|before| !before.is_empty())
}

/// The plan decided it: it is an event of the history, not of a stage's own log.
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
        MergeDone::Conflict(MergeFailure { files, check, .. }) if files.is_empty() => {
            Merge::Broken {
                check: check.unwrap_or(Check {
                    outcome: CheckOutcome::Failed { code: 1 },
                    tree: None,
                    duration: Millis(0),
                    tail: String::new(),
                }),
            }
        }
        MergeDone::Conflict(MergeFailure { files, .. }) => Merge::Conflict { files },
        MergeDone::Refused { why } => Merge::Failed { error: why },
    };
    of_worktree(stage, WorktreeEvent::Merged { merge })
}

/// The caller that records it knows which effect it answers.
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

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use temporalio_common::protos::temporal::api::common::v1::{ActivityType, Payload};
    use temporalio_common::protos::temporal::api::history::v1::{
        ActivityTaskCompletedEventAttributes, ActivityTaskScheduledEventAttributes,
        ActivityTaskTimedOutEventAttributes, TimerStartedEventAttributes,
        WorkflowExecutionSignaledEventAttributes, WorkflowTaskCompletedEventAttributes,
        WorkflowTaskStartedEventAttributes,
    };

    use super::*;

    fn payloads(value: &impl Serialize) -> Option<Payloads> {
        let data = serde_json::to_vec(value).unwrap();
        let payload = Payload {
            data,
            ..Payload::default()
        };
        Some(Payloads {
            payloads: vec![payload],
        })
    }

    fn scheduled(name: &str, input: &impl Serialize) -> Attributes {
        let activity_type = ActivityType {
            name: name.to_owned(),
        };
        Attributes::ActivityTaskScheduledEventAttributes(ActivityTaskScheduledEventAttributes {
            activity_type: Some(activity_type),
            input: payloads(input),
            ..ActivityTaskScheduledEventAttributes::default()
        })
    }

    fn task() -> StageTask {
        let task = serde_json::json!({
            "run": "01234567", "stage": "A", "round": 1, "base": "b", "plan": "p",
        });
        serde_json::from_value(task).unwrap()
    }

    fn signal(told: &serde_json::Value) -> Attributes {
        Attributes::WorkflowExecutionSignaledEventAttributes(
            WorkflowExecutionSignaledEventAttributes {
                input: payloads(told),
                ..WorkflowExecutionSignaledEventAttributes::default()
            },
        )
    }

    fn stop() -> Attributes {
        signal(&serde_json::json!({
            "kind": "steered", "steered": { "message": "m1", "steering": { "kind": "stop", "now": false } },
        }))
    }

    fn step() -> [Attributes; 2] {
        [
            Attributes::WorkflowTaskStartedEventAttributes(
                WorkflowTaskStartedEventAttributes::default(),
            ),
            Attributes::WorkflowTaskCompletedEventAttributes(
                WorkflowTaskCompletedEventAttributes::default(),
            ),
        ]
    }

    fn all_of(history: Vec<Attributes>) -> Vec<Event> {
        let mut reader = Reader::default();
        let events = (1..)
            .zip(history)
            .map(|(event_id, attributes)| HistoryEvent {
                event_id,
                attributes: Some(attributes),
                ..HistoryEvent::default()
            });
        let told = events.flat_map(|event| reader.read(&event));
        told.map(|(_, event)| event).collect()
    }

    /// As the workflow hears it: in one step, the stop first.
    // shows: FLT-03
    #[test]
    fn a_worker_that_dies_while_the_plan_stops_has_not_failed() {
        let silent =
            Attributes::ActivityTaskTimedOutEventAttributes(ActivityTaskTimedOutEventAttributes {
                scheduled_event_id: 1,
                ..ActivityTaskTimedOutEventAttributes::default()
            });
        for (stopped, history) in [
            (true, vec![silent.clone(), stop()]),
            (true, vec![stop(), silent.clone()]),
            (false, vec![silent.clone()]),
        ] {
            let begun = scheduled(Activities::stage.name(), &task());
            let all = [vec![begun], history, step().to_vec()].concat();
            let is_end = |event: &Event| {
                let Event::Elsewhere {
                    event: Elsewhere::Ended { outcome },
                    ..
                } = event
                else {
                    return None;
                };
                Some(matches!(outcome, Outcome::Stopped { .. }))
            };
            let ends: Vec<bool> = all_of(all).iter().filter_map(is_end).collect();
            assert_eq!(ends, [stopped]);
        }
    }

    /// No worker was there in between, so the workflow hears both in one step.
    // shows: FLT-03
    #[test]
    fn a_resume_after_a_stop_stays_after_it() {
        let resume = signal(&serde_json::json!({
            "kind": "resumed", "resumed": { "ekiden": "", "task": null, "answer": null },
        }));
        let all = [vec![stop(), resume], step().to_vec()].concat();
        let told = all_of(all);
        assert!(
            matches!(&told[..], [Event::Steered(_), Event::RunResumed(_)]),
            "{told:?}"
        );
    }

    /// The history is full, or the plan was stopped: a follower's plan begins the merge, and the fleet's never does.
    // shows: FLT-01
    #[test]
    fn a_stage_that_is_done_when_the_plan_ends_is_merged_by_nobody() {
        let task = task();
        let done = StageDone {
            outcome: Outcome::Complete { verified: true },
            commit: Some("c".to_owned()),
            spent: crate::shares::Spent::default(),
        };
        let merge = MergeTask {
            task: task.clone(),
            commit: Some("c".to_owned()),
        };
        let begun = scheduled(Activities::stage.name(), &task);
        let ended = Attributes::ActivityTaskCompletedEventAttributes(
            ActivityTaskCompletedEventAttributes {
                scheduled_event_id: 1,
                result: payloads(&done),
                ..ActivityTaskCompletedEventAttributes::default()
            },
        );
        let waits = Attributes::TimerStartedEventAttributes(TimerStartedEventAttributes::default());
        for (asked, cancelled) in [(None, 1), (Some(&merge), 0)] {
            let mut history = vec![begun.clone(), ended.clone()];
            history.extend(step());
            history.extend(asked.map(|merge| scheduled(Activities::merge.name(), merge)));
            history.push(waits.clone());
            let is_cancelled = |event: &&Event| {
                matches!(
                    event,
                    Event::Worktree {
                        event: WorktreeEvent::Merged {
                            merge: Merge::Cancelled
                        },
                        ..
                    }
                )
            };
            assert_eq!(
                all_of(history).iter().filter(is_cancelled).count(),
                cancelled
            );
        }
    }
}
