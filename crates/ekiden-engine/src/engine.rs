//! The engine of one run: it receives, decides, records, dispatches, and never waits.
//!
//! ```text
//!  Input ─► event ─► Journal::record (decide, append, sync) ─► effects ─┬─► Desk   files
//!                                                                       └─► Hands  processes, tasks
//! ```
//!
//! It is not async and knows no runtime, so that the same code runs in a simulated world. A call of
//! [`Engine::take`] reads at most three small files and appends one record; all that takes longer is
//! the hands' work.

use std::collections::{BTreeMap, VecDeque};

use ekiden_agent::attempt::{Activity, Ended, HookAnswer, Order, Report};
use ekiden_core::effect::{Effect, RelayEffect, StartAttempt};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Event, RelayEvent};
use ekiden_core::guard::{self, Denial, GuardView, HookInput, Level, Verdict};
use ekiden_core::handoff::{HandoffFiles, Inspection};
use ekiden_core::ids::{AttemptId, EffectId, StageId};
use ekiden_core::limits;
use ekiden_core::outcome::Outcome;
use ekiden_core::prompt;
use ekiden_core::relay::{HANDOFF_DIR, Relay};
use ekiden_core::settings::AgentKind;
use ekiden_core::time::Timestamp;

use crate::desk::Desk;
use crate::error::{EngineError, in_full};
use crate::hands::{Hands, Input};
use crate::journal::Journal;
use crate::meter::Meter;
use crate::observer::Observer;

/// The only writer of one run.
pub struct Engine<H> {
    journal: Journal,
    desk: Desk,
    /// What performs.
    pub hands: H,
    working: BTreeMap<StageId, Working>,
    later: VecDeque<Input>,
    over: Option<Outcome>,
    warned: bool,
}

/// What is known of an attempt at work beside the log.
#[derive(Debug)]
struct Working {
    attempt: AttemptId,
    meter: Meter,
    tool_calls: u32,
    refusals: u32,
}

impl<H: Hands> Engine<H> {
    /// An engine for a journal that was just begun or read again.
    pub fn new(journal: Journal, desk: Desk, hands: H) -> Self {
        let over = journal.run().outcome().cloned();
        Self { journal, desk, hands, working: BTreeMap::new(), later: VecDeque::new(), over, warned: false }
    }

    /// Performs the effects of a run's first record.
    pub fn begin(
        &mut self,
        at: Timestamp,
        effects: Vec<(EffectId, Effect)>,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.desk.freeze(self.journal.run())?;
        observer.recorded(self.journal.last(), self.journal.run());
        self.perform_all(effects, observer);
        self.drain(at, observer)
    }

    /// Takes a run up again: settles what is outstanding, then goes on.
    pub fn take_up(
        &mut self,
        at: Timestamp,
        resumed: Event,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let outstanding = self.journal.outstanding();
        self.desk.freeze(self.journal.run())?;
        self.take_edits(at, observer)?;
        self.record(at, resumed, observer)?;
        self.over = self.journal.run().outcome().cloned();
        for (id, effect) in outstanding {
            self.settle(id, effect, observer);
        }
        self.drain(at, observer)
    }

    /// Records something that needs no decision.
    pub fn note(
        &mut self,
        at: Timestamp,
        event: Event,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.record(at, event, observer)
    }

    /// The next time at which something is due though nothing happens.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Timestamp> {
        self.journal.run().wakes_at()
    }

    /// Takes one input.
    pub fn take(
        &mut self,
        at: Timestamp,
        input: Input,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.later.push_back(input);
        self.drain(at, observer)
    }

    /// How the run ended, once it did and nothing is outstanding.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.over.as_ref().filter(|_| self.working.is_empty())
    }

    /// Effects whose outcomes have not come.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.journal.outstanding().is_empty()
    }

    /// The run's state and log.
    #[must_use]
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    fn drain(&mut self, at: Timestamp, observer: &mut dyn Observer) -> Result<(), EngineError> {
        while let Some(input) = self.later.pop_front() {
            self.one(at, input, observer)?;
        }
        Ok(())
    }

    fn one(&mut self, at: Timestamp, input: Input, observer: &mut dyn Observer) -> Result<(), EngineError> {
        match input {
            Input::Agent { stage, attempt, report } => self.report(at, &stage, attempt, report, observer),
            Input::Surveyed { stage, effect, survey } => {
                self.record_of(at, &stage, RelayEvent::Surveyed { effect, survey }, observer)
            }
            Input::Verified { stage, effect, mut check, output } => {
                self.keep_output(&stage, &output, observer);
                check.tree = self.relay(&stage).and_then(Relay::survey).map(|survey| survey.tree.clone());
                self.record_of(at, &stage, RelayEvent::Verified { effect, check }, observer)
            }
            Input::Archived { stage, effect, failure: None } => {
                self.record_of(at, &stage, RelayEvent::Archived { effect }, observer)
            }
            Input::Archived { failure: Some(failure), .. } => {
                self.warn_once(observer, &format!("cannot archive: {failure}; a resume tries again"));
                Ok(())
            }
            Input::Published { stage, effect } => {
                self.record_of(at, &stage, RelayEvent::Published { effect }, observer)
            }
            Input::Stop(request) => self.record(at, Event::StopRequested(request), observer),
            Input::Tick => self.tick(at, observer),
        }
    }

    fn tick(&mut self, at: Timestamp, observer: &mut dyn Observer) -> Result<(), EngineError> {
        let due = self.journal.run().due(at);
        if !due.is_empty() {
            self.take_edits(at, observer)?;
        }
        for event in due {
            self.record(at, event, observer)?;
        }
        Ok(())
    }

    fn record_of(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        event: RelayEvent,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        self.record(at, Event::Stage { stage: stage.clone(), event }, observer)
    }

    fn record(
        &mut self,
        at: Timestamp,
        event: Event,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let effects = self.journal.record(at, event)?;
        observer.recorded(self.journal.last(), self.journal.run());
        self.perform_all(effects, observer);
        if let Err(error) = self.desk.tell_status(self.journal.run(), at) {
            self.warn_once(observer, &in_full(&error));
        }
        Ok(())
    }

    fn warn_once(&mut self, observer: &mut dyn Observer, text: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            observer.warn(text);
        }
    }
}

/// Performing effects.
impl<H: Hands> Engine<H> {
    fn perform_all(&mut self, effects: Vec<(EffectId, Effect)>, observer: &mut dyn Observer) {
        for (id, effect) in effects {
            match effect {
                Effect::Stage { stage, effect } => self.perform(id, &stage, effect, observer),
                Effect::EndRun { outcome } => self.over = Some(outcome),
            }
        }
    }

    fn perform(&mut self, id: EffectId, stage: &StageId, effect: RelayEffect, observer: &mut dyn Observer) {
        match effect {
            RelayEffect::Survey => {
                let since = self.relay(stage).and_then(Relay::survey).and_then(|survey| survey.head.clone());
                self.hands.survey(stage, id, since);
            }
            RelayEffect::Verify => {
                if let Some(verification) =
                    self.relay(stage).and_then(|relay| relay.stage().verification.clone())
                {
                    self.hands.verify(stage, id, &verification);
                }
            }
            RelayEffect::CancelTasks => self.hands.cancel(stage),
            RelayEffect::StartAttempt(start) => self.start(stage, &start),
            RelayEffect::Say { text, .. } => self.hands.tell(stage, Order::Say(text)),
            RelayEffect::AnswerStop { callback, hold, .. } => {
                let answer = hold.map_or(HookAnswer::Pass, HookAnswer::Block);
                self.hands.tell(stage, Order::Answer { callback, answer });
            }
            RelayEffect::Interrupt { .. } => self.hands.tell(stage, Order::Interrupt),
            RelayEffect::Close { .. } => self.hands.tell(stage, Order::Close),
            RelayEffect::Terminate { .. } => self.hands.tell(stage, Order::Terminate),
            RelayEffect::Publish => self.publish(stage, observer),
            RelayEffect::PublishDurably => self.publish_durably(id, stage, observer),
            RelayEffect::Archive { attempt } => self.archive(id, stage, attempt),
        }
    }

    /// What is to be done about an effect that was ordered in an earlier life.
    fn settle(&mut self, id: EffectId, effect: Effect, observer: &mut dyn Observer) {
        let Effect::Stage { stage, effect } = effect else { return };
        match effect {
            // The attempt's lock was free when this run was opened, so nothing of it lives.
            RelayEffect::StartAttempt(start) => self.lost(&stage, start.attempt),
            again @ (RelayEffect::Survey
            | RelayEffect::Verify
            | RelayEffect::PublishDurably
            | RelayEffect::Archive { .. }) => self.perform(id, &stage, again, observer),
            RelayEffect::CancelTasks
            | RelayEffect::Say { .. }
            | RelayEffect::AnswerStop { .. }
            | RelayEffect::Interrupt { .. }
            | RelayEffect::Close { .. }
            | RelayEffect::Terminate { .. }
            | RelayEffect::Publish => {}
        }
    }

    fn start(&mut self, stage: &StageId, start: &StartAttempt) {
        let attempt = start.attempt;
        match self.desk.prepare(self.journal.run(), stage, start) {
            Ok(launch) => {
                let meter = Meter::new(&self.journal.run().header().settings);
                self.working.insert(stage.clone(), Working { attempt, meter, tool_calls: 0, refusals: 0 });
                self.hands.start(launch);
            }
            Err(error) => self.unstarted(stage, attempt, in_full(&error)),
        }
    }

    /// The engine died while this attempt ran. What it left in the handoff directory counts.
    fn lost(&mut self, stage: &StageId, attempt: AttemptId) {
        let (traces, counters, resumable) = self.desk.traces_of(self.journal.run(), attempt);
        let ended = Ended { cause: EndCause::EngineLost, counters, traces, resumable };
        let report = Report::Ended(Box::new(ended));
        self.later.push_back(Input::Agent { stage: stage.clone(), attempt, report });
    }

    fn unstarted(&mut self, stage: &StageId, attempt: AttemptId, why: String) {
        let report = Report::unstarted(why);
        self.later.push_back(Input::Agent { stage: stage.clone(), attempt, report });
    }

    fn publish(&mut self, stage: &StageId, observer: &mut dyn Observer) {
        if let Some(relay) = self.journal.run().relay(stage)
            && let Err(error) = self.desk.publish(relay, false)
        {
            self.warn_once(observer, &in_full(&error));
        }
    }

    fn publish_durably(&mut self, id: EffectId, stage: &StageId, observer: &mut dyn Observer) {
        let Some(relay) = self.journal.run().relay(stage) else { return };
        match self.desk.publish(relay, true) {
            Ok(()) => self.later.push_back(Input::Published { stage: stage.clone(), effect: id }),
            Err(error) => self.warn_once(observer, &in_full(&error)),
        }
    }

    fn archive(&mut self, id: EffectId, stage: &StageId, attempt: AttemptId) {
        let files = self.journal.files_of(id).cloned().unwrap_or_default();
        let job = self.desk.archive_job(attempt, &files);
        self.hands.archive(stage, id, job);
    }

    fn keep_output(&mut self, stage: &StageId, output: &str, observer: &mut dyn Observer) {
        let Some(relay) = self.journal.run().relay(stage) else { return };
        if let Err(error) = self.desk.keep_output(relay.session(), output) {
            self.warn_once(observer, &in_full(&error));
        }
    }

    fn relay(&self, stage: &StageId) -> Option<&Relay> {
        self.journal.run().relay(stage)
    }
}

/// Hearing agents.
impl<H: Hands> Engine<H> {
    fn report(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: AttemptId,
        report: Report,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        match report {
            Report::Started { pid } => {
                self.record_of(at, stage, RelayEvent::AttemptStarted { attempt, pid }, observer)
            }
            Report::Window { model_tokens, compaction_tokens, model } => {
                self.window(at, stage, attempt, (model_tokens, compaction_tokens, model), observer)
            }
            Report::Usage { context_tokens } => self.usage(at, stage, attempt, context_tokens, observer),
            Report::Activity(activity) => {
                self.activity(stage, &activity, observer);
                Ok(())
            }
            Report::Hook { callback, input } => self.hook(at, stage, attempt, callback, &input, observer),
            Report::Delivered => {
                self.record_of(at, stage, RelayEvent::MessageDelivered { attempt }, observer)
            }
            Report::TurnEnded { failed } => {
                let handoff = self.inspect(stage);
                let tool_calls = self.tool_calls(stage);
                let event = RelayEvent::TurnEnded { attempt, handoff, tool_calls, failed };
                self.record_of(at, stage, event, observer)
            }
            Report::Ended(ended) => self.ended(at, stage, attempt, *ended, observer),
        }
    }

    fn window(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: AttemptId,
        (model_tokens, compaction_tokens, model): (u64, Option<u64>, Option<String>),
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let Some(working) = self.working.get_mut(stage) else { return Ok(()) };
        let window = working.meter.set_window(model_tokens, compaction_tokens);
        let event = RelayEvent::WindowChanged { attempt, window, model };
        self.record_of(at, stage, event, observer)?;
        self.crossing(at, stage, attempt, observer)
    }

    fn usage(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: AttemptId,
        tokens: u64,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let Some(working) = self.working.get_mut(stage) else { return Ok(()) };
        working.meter.note(tokens);
        observer.usage(stage, tokens, working.meter.window());
        self.crossing(at, stage, attempt, observer)
    }

    fn crossing(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: AttemptId,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let Some(working) = self.working.get_mut(stage) else { return Ok(()) };
        let usage_tokens = working.meter.usage_tokens();
        match working.meter.crossed() {
            Some(level) => {
                let event = RelayEvent::LevelCrossed { attempt, level, usage_tokens };
                self.record_of(at, stage, event, observer)
            }
            None => Ok(()),
        }
    }

    fn activity(&mut self, stage: &StageId, activity: &Activity, observer: &mut dyn Observer) {
        if let (Activity::Tool { .. }, Some(working)) = (activity, self.working.get_mut(stage)) {
            working.tool_calls += 1;
        }
        observer.activity(stage, activity);
    }

    fn hook(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: AttemptId,
        callback: String,
        input: &HookInput,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        if let HookInput::Stop { background } = *input {
            let (handoff, tool_calls) = (self.inspect(stage), self.tool_calls(stage));
            let event = RelayEvent::StopAsked { attempt, callback, background, handoff, tool_calls };
            return self.record_of(at, stage, event, observer);
        }
        let verdict = guard::verdict(&self.guard_view(stage), &self.desk.resolve_input(input));
        let refused = matches!(verdict, Verdict::Deny(Denial::HandingOver { .. }));
        self.hands.tell(stage, Order::Answer { callback, answer: answer_text(verdict) });
        if refused && self.refused_too_often(stage) {
            return self.record_of(at, stage, RelayEvent::RefusalsSpent { attempt }, observer);
        }
        Ok(())
    }

    fn guard_view(&self, stage: &StageId) -> GuardView {
        let level = self.working.get(stage).map_or(Level::L0, |working| working.meter.level());
        let missing = if level == Level::L3 { self.inspect(stage).missing() } else { String::new() };
        GuardView { level, missing, ..self.desk.guard_view() }
    }

    fn refused_too_often(&mut self, stage: &StageId) -> bool {
        let Some(working) = self.working.get_mut(stage) else { return false };
        working.refusals += 1;
        working.refusals == limits::REFUSALS_MAX
    }

    fn tool_calls(&self, stage: &StageId) -> u32 {
        self.working.get(stage).map_or(0, |working| working.tool_calls)
    }

    fn inspect(&self, stage: &StageId) -> Inspection {
        let files = self.desk.handoff_files();
        self.relay(stage).map(|relay| relay.inspect(&files)).unwrap_or_default()
    }

    fn ended(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: AttemptId,
        ended: Ended,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        if self.working.get(stage).is_some_and(|working| working.attempt == attempt) {
            self.working.remove(stage);
        }
        let kind = self.journal.run().header().settings.agent.kind;
        let touched = match (&ended.cause, self.relay(stage)) {
            (EndCause::EngineLost, _) | (_, None) => Vec::new(),
            (_, Some(relay)) => self.desk.touched(relay),
        };
        // Before the process ran, the directory may still hold the handoff of the session before.
        let files = match self.relay(stage) {
            Some(relay) if relay.has_started() && kind == AgentKind::Exec => self.desk.misplaced_files(relay),
            Some(relay) if relay.has_started() => self.desk.handoff_files(),
            Some(_) | None => HandoffFiles::default(),
        };
        let event = AttemptEnded {
            attempt,
            cause: ended.cause,
            files,
            touched,
            resumable: ended.resumable,
            counters: ended.counters,
            traces: ended.traces,
        };
        self.record_of(at, stage, RelayEvent::AttemptEnded(Box::new(event)), observer)
    }

    /// Takes over what a person wrote into the published knowledge while nothing ran.
    fn take_edits(&mut self, at: Timestamp, observer: &mut dyn Observer) -> Result<(), EngineError> {
        for (stage, text) in self.desk.edited_knowledge(&self.journal) {
            self.record_of(at, &stage, RelayEvent::KnowledgeEdited { text }, observer)?;
        }
        Ok(())
    }
}

fn answer_text(verdict: Verdict) -> HookAnswer {
    match verdict {
        Verdict::Pass => HookAnswer::Pass,
        Verdict::Allow => HookAnswer::Allow,
        Verdict::Deny(denial) => HookAnswer::Deny(prompt::refusal(&denial, HANDOFF_DIR)),
        Verdict::Block => HookAnswer::Block(prompt::no_compaction()),
    }
}
