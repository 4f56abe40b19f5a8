//! Hearing agents: a report becomes an answer, an event, or something to show.

use ekiden_agent::attempt::{Activity, Ended, HookAnswer, Order, Report};
use ekiden_core::budget::Spend;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, RelayEvent};
use ekiden_core::guard::{self, Denial, GuardView, HookInput, Level, Verdict};
use ekiden_core::handoff::{FileText, HandoffFile, HandoffFiles, Inspection};
use ekiden_core::ids::{AttemptId, StageId};
use ekiden_core::limits;
use ekiden_core::prompt;
use ekiden_core::relay::HANDOFF_DIR;
use ekiden_core::settings::AgentKind;
use ekiden_core::time::Timestamp;
use ekiden_store::layout::TASK_FILE;

use super::Engine;
use crate::error::{EngineError, in_full};
use crate::hands::Hands;
use crate::meter::Filled;
use crate::observer::Observer;

impl<H: Hands> Engine<H> {
    pub(super) fn report(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: AttemptId,
        report: Report,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        match report {
            Report::Started { pid } => {
                self.begin_attempt(stage, observer)?;
                self.record_of(at, stage, RelayEvent::AttemptStarted { attempt, pid }, observer)
            }
            Report::Window { model_tokens, compaction_tokens, model, filled_by } => {
                if let Some(working) = self.working.get_mut(stage) {
                    working.meter.set_filled(filled_by);
                }
                self.window(at, stage, attempt, (model_tokens, compaction_tokens, model), observer)
            }
            Report::Usage { context_tokens } => self.usage(at, stage, attempt, context_tokens, observer),
            Report::Spend { spend, turns } => self.spend(at, stage, attempt, (spend, turns), observer),
            // A relay asks for no schema.
            Report::Answered(_) => Ok(()),
            Report::Activity(activity) => {
                self.activity(stage, &activity, observer);
                Ok(())
            }
            Report::Hook { callback, input } => self.hook(at, stage, attempt, callback, &input, observer),
            Report::Compacted { context_tokens: usage_tokens } => {
                self.record_of(at, stage, RelayEvent::Compacted { attempt, usage_tokens }, observer)
            }
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
        if let Some(Filled { level, by }) = working.meter.filled() {
            let event = RelayEvent::BaselineMeasured { attempt, level, usage_tokens: tokens, filled_by: by };
            self.record_of(at, stage, event, observer)?;
        }
        self.crossing(at, stage, attempt, observer)
    }

    fn spend(
        &mut self,
        at: Timestamp,
        stage: &StageId,
        attempt: AttemptId,
        (spend, turns): (Spend, u32),
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        observer.spend(stage, spend);
        let Some(working) = self.working.get_mut(stage) else { return Ok(()) };
        match working.meter.spend(spend, turns) {
            Some(crossing) => {
                self.record_of(at, stage, RelayEvent::SpendCrossed { attempt, crossing }, observer)
            }
            None => Ok(()),
        }
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
        GuardView { level, missing, ..self.desk.guard_view(stage) }
    }

    fn refused_too_often(&mut self, stage: &StageId) -> bool {
        let Some(working) = self.working.get_mut(stage) else { return false };
        working.refusals += 1;
        // Each time anew: an agent that is deaf after an interrupt, too, must come to an end.
        working.refusals.is_multiple_of(limits::REFUSALS_MAX)
    }

    fn tool_calls(&self, stage: &StageId) -> u32 {
        self.working.get(stage).map_or(0, |working| working.tool_calls)
    }

    fn inspect(&self, stage: &StageId) -> Inspection {
        let files = self.desk.handoff_files(stage);
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
            self.publish_late(stage, observer);
        }
        let Found { files, touched, misplaced } = self.found_after(stage, attempt, &ended.cause, observer);
        let (mut cause, mut counters) = (ended.cause, ended.counters);
        if let Some(relay) = self.relay(stage) {
            cause = relay.cause_of(attempt, cause);
            counters = relay.charge(attempt, counters);
        }
        let event = AttemptEnded {
            attempt,
            cause,
            files,
            touched,
            misplaced,
            resumable: ended.resumable,
            counters,
            traces: ended.traces,
        };
        self.record_of(at, stage, RelayEvent::AttemptEnded(Box::new(event)), observer)
    }

    /// What an attempt left in the handoff directory and in place of published files. An agent that no
    /// hook could tell the right place may have put its handoff there; anything else is kept beside the
    /// session, since the next publishing overwrites it.
    ///
    /// After a crash of ours nobody can tell whose a published file is: it is not synced, so it may be
    /// an older one of our own. Then it is kept, and decides nothing.
    fn found_after(
        &mut self,
        stage: &StageId,
        attempt: AttemptId,
        cause: &EndCause,
        observer: &mut dyn Observer,
    ) -> Found {
        let mut found = Found::default();
        let Some(relay) = self.relay(stage) else { return found };
        let mut touched = self.desk.touched(relay);
        let task = self.desk.touched_task(relay);
        let lost = *cause == EndCause::EngineLost;
        // Before the process ran, the directory may still hold the handoff of the session before.
        if relay.has_started() {
            found.files = self.desk.handoff_files(stage);
            let unguided = relay.agent().kind == AgentKind::Exec;
            if unguided && !lost {
                found.misplaced = take_misplaced(&mut touched, &mut found.files);
            }
        }
        let kept = self.desk.keep_touched(stage, attempt.session, &touched, task.as_ref());
        if !lost {
            let handoff = touched.iter().map(|(file, _)| file.name());
            found.touched = handoff.chain(task.is_some().then_some(TASK_FILE)).map(str::to_owned).collect();
        }
        if let Err(error) = kept {
            self.warn_once(observer, &in_full(&error));
        }
        found
    }

    /// Takes over what a person wrote into the published knowledge while nothing ran.
    pub(super) fn take_edits(
        &mut self,
        at: Timestamp,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        for (stage, text) in self.desk.edited_knowledge(&self.journal) {
            self.record_of(at, &stage, RelayEvent::KnowledgeEdited { text }, observer)?;
        }
        Ok(())
    }
}

/// What was found after an attempt.
#[derive(Debug, Default)]
struct Found {
    files: HandoffFiles,
    touched: Vec<String>,
    misplaced: Vec<String>,
}

/// Takes over the files that are missing from the handoff directory and stand among the published
/// ones; knowledge is merged by ekiden alone. Returns their names.
fn take_misplaced(touched: &mut Vec<(HandoffFile, FileText)>, files: &mut HandoffFiles) -> Vec<String> {
    let mut taken = Vec::new();
    touched.retain_mut(|(file, text)| {
        let place = match file {
            HandoffFile::Progress => &mut files.progress,
            HandoffFile::NextPrompt => &mut files.next_prompt,
            HandoffFile::Knowledge => return true,
        };
        if *place != FileText::Absent || text.text().is_none() {
            return true;
        }
        *place = std::mem::replace(text, FileText::Absent);
        taken.push(file.name().to_owned());
        false
    });
    taken
}

fn answer_text(verdict: Verdict) -> HookAnswer {
    match verdict {
        Verdict::Pass => HookAnswer::Pass,
        Verdict::Allow => HookAnswer::Allow,
        Verdict::Deny(denial) => HookAnswer::Deny(prompt::refusal(&denial, HANDOFF_DIR)),
        Verdict::Block => HookAnswer::Block(prompt::no_compaction()),
    }
}
