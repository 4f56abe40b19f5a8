//! The spans of a run, folded from its log: each is reported once it is over, and never changes after that.
//!
//! ```text
//! part ─┬─ stage ─┬─ session ── attempt ── checkpoint
//!       │         ├─ verification, merge
//!       │         └─ wait
//!       └─ delivery
//! ```
//!
//! A part is the work of one process on the run: from its start or a resume to its end or a kill. The first
//! part is the root of the trace, and later ones are its children. Everything that is open when a part
//! ends, ends with it, so a reported span never changes. Only an attempt that was cut off by ekiden's own
//! death waits for the resume, which finds out its cost.

mod closing;
mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::mem::take;

use ekiden_core::budget::Spend;
use ekiden_core::effect::{Effect, RelayEffect, StartAttempt, WorktreeEffect};
use ekiden_core::event::{
    AttemptEnded, AttemptEvent, CheckOutcome, Event, Merge, RelayEvent, TaskOutcome, WorktreeEvent,
};
use ekiden_core::ids::{AttemptId, EffectId, StageId};
use ekiden_core::record::{Record, numbered};
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_report::Timeline;
use ekiden_report::timeline::{Attempt, Left};
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::SpanData;

use crate::ids::Ids;
use crate::metrics::Measure;
use crate::open::{Checkpoint, Open, OpenAttempt, OpenSession, OpenStage, Part, variant, word};
use words::{is_error, reason, state};

/// A fold over a run's log, from its beginning.
#[derive(Debug)]
pub struct Trace {
    ids: Ids,
    trace: TraceId,
    timeline: Timeline,
    part: Option<Part>,
    stages: BTreeMap<StageId, OpenStage>,
    /// Verifications, merges and deliveries that were ordered.
    tasks: BTreeMap<EffectId, Timestamp>,
    /// Sessions whose attempts ended with ekiden itself.
    lost: BTreeMap<(StageId, AttemptId), OpenSession>,
    /// Waits that are not over, by their place in the timeline, and how many were seen.
    waits: Vec<usize>,
    waits_seen: usize,
    /// When anybody last worked on the run.
    last: Timestamp,
    spans: Vec<SpanData>,
    pub(crate) measures: Vec<Measure>,
}

impl Trace {
    /// A trace in which nothing has happened yet: its first record brings the `run`.
    pub fn new(run: &Run) -> Self {
        let ids = Ids::new(&run.header().run, run.started_at());
        Self {
            trace: ids.trace(),
            ids,
            timeline: Timeline::new(run),
            part: None,
            stages: BTreeMap::new(),
            tasks: BTreeMap::new(),
            lost: BTreeMap::new(),
            waits: Vec::new(),
            waits_seen: 0,
            last: run.started_at(),
            spans: Vec::new(),
            measures: Vec::new(),
        }
    }

    /// The spans that have ended since the last call.
    pub fn spans(&mut self) -> Vec<SpanData> {
        take(&mut self.spans)
    }

    /// Takes in the next record; `run` is the state after it.
    pub fn take(&mut self, record: &Record, run: &Run) {
        let event = &record.event;
        if let Event::RunStarted(_) | Event::RunResumed(_) | Event::Continued(_) = event {
            self.begin_part(record, run);
        }
        self.timeline.take(record, run);
        // Written before a resume, when nobody works.
        if let Event::LogAccepted { .. } | Event::LogicChanged { .. } = event {
            return;
        }
        self.of_event(record, run);
        for (id, effect) in numbered(record) {
            self.of_effect(record, id, effect, run);
        }
        self.look_for_checkpoints(record);
        self.look_at_waits(record.time);
        self.close_stages(record.time, run);
        if !matches!(
            &record.event,
            Event::Stage {
                event: RelayEvent::KnowledgeEdited { .. } | RelayEvent::ListEdited { .. },
                ..
            }
        ) {
            self.last = record.time;
        }
        self.close_part();
    }

    fn begin_part(&mut self, record: &Record, run: &Run) {
        let killed_at = self.last;
        for at in take(&mut self.waits) {
            self.close_wait(at, killed_at);
            self.waits.push(at);
        }
        for (id, mut stage) in take(&mut self.stages) {
            if let Some(session) = stage.session.take() {
                self.lose(&id, session, killed_at, run);
            }
            self.close_stage(&id, &stage, killed_at, "killed", true);
        }
        if let Some(part) = self.part.take() {
            self.close_workflow(&part, killed_at, "killed".to_owned(), true);
        }
        self.tasks
            .values_mut()
            .for_each(|began| *began = record.time);
        let parent = match record.seq {
            1 => SpanId::INVALID,
            _ => self.ids.span("run", 1, ""),
        };
        let open = Open {
            span: self.ids.span("run", record.seq, ""),
            parent,
            from: record.time,
        };
        self.part = Some(Part {
            open,
            seq: record.seq,
            spend: Spend::default(),
            ended: None,
        });
    }

    fn lose(&mut self, stage: &StageId, mut session: OpenSession, at: Timestamp, run: &Run) {
        match &session.attempt {
            Some(attempt) => {
                let id = attempt.id;
                session.ended = at;
                self.lost.insert((stage.clone(), id), session);
            }
            None => self.close_lost_session(stage, &session, run),
        }
    }

    fn of_event(&mut self, record: &Record, run: &Run) {
        let at = record.time;
        match &record.event {
            Event::Stage { stage, event } => match event {
                RelayEvent::Attempt {
                    attempt,
                    event: AttemptEvent::Ended(ended),
                } => self.attempt_ended(stage, *attempt, at, ended, run),
                RelayEvent::Task {
                    effect,
                    outcome: TaskOutcome::Verified { check },
                } => {
                    let outcome = &check.outcome;
                    let mut attributes =
                        vec![word("ekiden.verification.outcome", variant(outcome))];
                    if let CheckOutcome::Failed { code } = outcome {
                        attributes.push(word("process.exit.code", i64::from(*code)));
                    }
                    let fine = matches!(outcome, CheckOutcome::Passed | CheckOutcome::Cancelled);
                    let error = (!fine).then(|| variant(outcome));
                    self.task_ended("verification", Some(stage), *effect, at, attributes, error);
                }
                RelayEvent::Attempt { .. }
                | RelayEvent::Task { .. }
                | RelayEvent::Woke
                | RelayEvent::KnowledgeEdited { .. }
                | RelayEvent::ListEdited { .. } => {}
            },
            Event::Worktree {
                stage,
                effect,
                event: WorktreeEvent::Merged { merge },
            } => {
                let fine = matches!(merge, Merge::Done { .. } | Merge::Cancelled);
                let attributes = vec![word("ekiden.merge.outcome", variant(merge))];
                let error = (!fine).then(|| variant(merge));
                self.task_ended("merge", Some(stage), *effect, at, attributes, error);
            }
            Event::Delivered { effect, delivery } => {
                let attributes = vec![word("ekiden.delivery.outcome", variant(delivery))];
                self.task_ended("delivery", None, *effect, at, attributes, None);
            }
            Event::RunStarted(_)
            | Event::RunResumed(_)
            | Event::Continued(_)
            | Event::LogAccepted { .. }
            | Event::LogicChanged { .. }
            | Event::UtcOffsetChanged { .. }
            | Event::Woke
            | Event::StopRequested(_)
            | Event::Steered(_)
            | Event::Elsewhere { .. }
            | Event::Worktree { .. } => {}
        }
    }

    fn of_effect(&mut self, record: &Record, id: EffectId, effect: &Effect, run: &Run) {
        match effect {
            Effect::Stage {
                stage,
                effect: RelayEffect::StartAttempt(start),
            } => self.attempt_starts(record, stage, start, run),
            Effect::Stage {
                stage,
                effect: RelayEffect::Verify,
            }
            | Effect::Worktree {
                stage,
                effect: WorktreeEffect::Merge,
            } => {
                self.stage(record, stage);
                self.tasks.insert(id, record.time);
            }
            Effect::Deliver => {
                self.tasks.insert(id, record.time);
            }
            Effect::EndRun { outcome } => {
                if let Some(part) = &mut self.part {
                    part.ended = Some((record.time, outcome.clone()));
                }
            }
            Effect::Stage { .. } | Effect::Worktree { .. } => {}
        }
    }

    /// The stage's span, which begins here unless it already has.
    fn stage(&mut self, record: &Record, id: &StageId) -> &mut OpenStage {
        let part = self.part.as_ref().map(|part| part.open.span);
        let open = Open {
            span: self.ids.span("stage", record.seq, id.as_str()),
            parent: part.unwrap_or(SpanId::INVALID),
            from: record.time,
        };
        let session = None;
        let stage = OpenStage { open, session };
        self.stages.entry(id.clone()).or_insert(stage)
    }

    fn attempt_starts(&mut self, record: &Record, id: &StageId, start: &StartAttempt, run: &Run) {
        let (number, at) = (start.attempt.session.get(), record.time);
        let (span, session) = (
            self.ids.attempt(record.seq, id),
            self.ids.span("session", record.seq, id.as_str()),
        );
        let attempt = |parent| OpenAttempt {
            id: start.attempt,
            open: Open {
                span,
                parent,
                from: at,
            },
            checkpoint: Checkpoint::No,
        };
        let agent = run.relay(id).map(Relay::agent);
        let agent = agent.unwrap_or(&run.header().settings.agent);
        let stage = self.stage(record, id);
        if let Some(open) = stage.session.as_mut().filter(|open| open.number == number) {
            open.attempt = Some(attempt(open.open.span));
            open.conversation = start.conversation;
            // Another may have taken over.
            if open.agent != agent.name {
                open.agent.clone_from(&agent.name);
                open.kind = agent.kind;
                open.model.clone_from(&agent.model);
            }
            return;
        }
        let open = Open {
            span: session,
            parent: stage.open.span,
            from: at,
        };
        let over = stage.session.replace(OpenSession {
            open,
            ended: at,
            number,
            conversation: start.conversation,
            agent: agent.name.clone(),
            kind: agent.kind,
            model: agent.model.clone(),
            spend: Spend::default(),
            kinds: None,
            tool_calls: 0,
            context: None,
            left: None,
            lost: false,
            attempt: Some(attempt(session)),
        });
        if let Some(over) = over {
            self.close_session(id, &over);
        }
    }

    fn attempt_ended(
        &mut self,
        id: &StageId,
        attempt: AttemptId,
        at: Timestamp,
        ended: &AttemptEnded,
        run: &Run,
    ) {
        if let Some(part) = &mut self.part {
            part.spend = part.spend.plus(ended.counters.spend);
        }
        if let Some(mut session) = self.lost.remove(&(id.clone(), attempt)) {
            let lost_at = session.ended;
            session.lost = true;
            self.close_attempt(id, &mut session, lost_at, ended);
            return self.close_lost_session(id, &session, run);
        }
        let Some(mut session) = self
            .stages
            .get_mut(id)
            .and_then(|stage| stage.session.take())
        else {
            return;
        };
        self.close_attempt(id, &mut session, at, ended);
        if let Some(stage) = self.stages.get_mut(id) {
            stage.session = Some(session);
        }
    }

    fn task_ended(
        &mut self,
        what: &'static str,
        stage: Option<&StageId>,
        effect: EffectId,
        until: Timestamp,
        mut attributes: Vec<KeyValue>,
        error: Option<String>,
    ) {
        let Some(from) = self.tasks.remove(&effect) else {
            return;
        };
        let of_stage = stage.and_then(|stage| Some(self.stages.get(stage)?.open.span));
        let of_part = self.part.as_ref().map(|part| part.open.span);
        attributes.extend(stage.map(|stage| word("ekiden.stage.id", stage.as_str().to_owned())));
        let open = Open {
            span: self.ids.span(what, effect.seq, &effect.index.to_string()),
            parent: of_stage.or(of_part).unwrap_or(SpanId::INVALID),
            from,
        };
        self.close(open, what, until, attributes, error);
    }

    fn look_for_checkpoints(&mut self, record: &Record) {
        let stages = self.stages.iter_mut();
        for (id, stage) in stages {
            let session = stage.session.as_mut();
            let Some(open) = session.and_then(|session| session.attempt.as_mut()) else {
                continue;
            };
            let attempt = attempt_of(&self.timeline, id, open.id);
            let Some(attempt) = attempt.filter(|attempt| attempt.ordered.is_some()) else {
                continue;
            };
            if !matches!(open.checkpoint, Checkpoint::No) {
                continue;
            }
            let last = attempt.crossings.last();
            let percent = last.and_then(|last| Some(attempt.window?.percent(last.usage_tokens)));
            let level = last.map(|last| last.level).unwrap_or_default();
            open.checkpoint = match reason(record, id) {
                None => Checkpoint::ByItself,
                Some(reason) => Checkpoint::Ordered {
                    at: record.time,
                    reason,
                    level: level.to_string(),
                    percent,
                },
            };
        }
    }

    fn look_at_waits(&mut self, at: Timestamp) {
        self.waits
            .extend(self.waits_seen..self.timeline.waits.len());
        self.waits_seen = self.timeline.waits.len();
        for wait in take(&mut self.waits) {
            match self.timeline.waits[wait].over {
                Some(_) => self.close_wait(wait, at),
                None => self.waits.push(wait),
            }
        }
    }

    /// Ends the spans of finished stages.
    fn close_stages(&mut self, at: Timestamp, run: &Run) {
        let is_over = self.part.as_ref().is_some_and(|part| part.ended.is_some());
        let open: Vec<StageId> = self.stages.keys().cloned().collect();
        for id in open {
            let state = run.plan().state(&id).map_or("working", state);
            let is_at_work = self.stages.get(&id).is_some_and(OpenStage::is_at_work);
            let goes_on = state == "working" && !is_over;
            if goes_on || is_at_work {
                continue;
            }
            if let Some(mut stage) = self.stages.remove(&id) {
                if let Some(session) = stage.session.take() {
                    self.close_session(&id, &session);
                }
                self.close_stage(&id, &stage, at, state, state == "failed");
            }
        }
    }

    /// Ends the part once the run is over and no agent is at work.
    fn close_part(&mut self) {
        if self.stages.values().any(OpenStage::is_at_work) {
            return;
        }
        let is_over = |part: &mut Part| part.ended.is_some();
        if let Some(part) = self.part.take_if(is_over)
            && let Some((at, outcome)) = &part.ended
        {
            let is_error = is_error(outcome);
            self.close_workflow(&part, *at, variant(outcome), is_error);
            self.tasks.clear();
        }
    }

    fn close(
        &mut self,
        open: Open,
        name: impl Into<Cow<'static, str>>,
        until: Timestamp,
        attributes: Vec<KeyValue>,
        error: Option<String>,
    ) {
        let span = open.close(self.trace, name, until, attributes, error);
        self.spans.push(span);
    }

    fn left(&self, stage: &StageId, number: u32) -> Option<Left> {
        let mut stages = self.timeline.stages.iter();
        let stage = stages.find(|known| known.id == *stage)?;
        let session = stage.sessions.iter().rfind(|known| known.number == number);
        session?.left
    }
}

impl OpenStage {
    fn is_at_work(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(|session| session.attempt.is_some())
    }
}

fn attempt_of<'a>(timeline: &'a Timeline, stage: &StageId, id: AttemptId) -> Option<&'a Attempt> {
    let stage = timeline.stages.iter().find(|known| known.id == *stage)?;
    let number = id.session.get();
    let session = stage
        .sessions
        .iter()
        .rfind(|known| known.number == number)?;
    let mut attempts = session.attempts.iter();
    attempts.rfind(|known| known.number == id.attempt.get())
}
