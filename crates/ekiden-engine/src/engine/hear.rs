//! Turns what agents report into an answer, an event, or something to show.

use std::collections::BTreeMap;

use ekiden_agent::attempt::{Activity, AgentCommand, Answer, HookAnswer, Report};
use ekiden_core::agent::AgentKind;
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, AttemptEvent, Event, RelayEvent};
use ekiden_core::guard::{self, Denial, GuardView, HookInput, Level, Profile, Ruling};
use ekiden_core::handoff::{Fault, FaultKind, FileText, HandoffFile, HandoffFiles, Inspection};
use ekiden_core::ids::{AttemptId, StageId};
use ekiden_core::knowledge::lost_lines;
use ekiden_core::limits;
use ekiden_core::prompt;
use ekiden_core::relay::{HANDOFF_DIR, Purpose, Relay};

use super::Engine;
use crate::effect_runner::EffectRunner;
use crate::error::EngineError;
use crate::run_files::Touched;

impl<R: EffectRunner> Engine<'_, R> {
    pub(super) fn report(
        &mut self,
        stage: &StageId,
        attempt: AttemptId,
        report: Report,
    ) -> Result<(), EngineError> {
        let live = self.attempts.get_mut(stage);
        let mut events = match report {
            Report::Started { pid } => {
                // A disk that refuses ends the engine before the agent gets its prompt.
                self.files.make_durable(self.journal.run(), stage)?;
                self.runner.tell(stage, AgentCommand::Begin);
                vec![AttemptEvent::Started { pid }]
            }
            Report::Window {
                model_tokens,
                compaction_tokens,
                model,
                filled_by,
            } => live.map_or_else(Vec::new, |live| {
                let tokens = (model_tokens, compaction_tokens);
                live.meter.window(tokens, model, filled_by)
            }),
            Report::Usage { context_tokens } => live.map_or_else(Vec::new, |live| {
                let events = live.meter.usage(context_tokens);
                self.observer
                    .usage(stage, context_tokens, live.meter.window);
                events
            }),
            Report::Spend {
                spend,
                turns,
                subscription,
            } => {
                self.observer.spend(stage, spend, subscription);
                let crossing = live.and_then(|live| live.meter.spend.take(spend, turns));
                let event = crossing.map(|crossing| AttemptEvent::SpendCrossed { crossing });
                event.into_iter().collect()
            }
            Report::Answered(answer) => vec![answered(answer)],
            Report::Activity(activity) => {
                if let (Activity::Tool { .. }, Some(live)) = (&activity, live) {
                    live.tool_calls += 1;
                }
                self.observer.activity(stage, &activity);
                Vec::new()
            }
            Report::Hook { callback, input } => self.hook(stage, callback, &input),
            Report::Compacted { context_tokens } => vec![AttemptEvent::Compacted {
                usage_tokens: context_tokens,
            }],
            Report::Delivered => vec![AttemptEvent::MessageDelivered],
            Report::TurnEnded { failed } => vec![AttemptEvent::TurnEnded {
                handoff: self.inspect_at_rest(stage),
                tool_calls: self.tool_calls(stage),
                failed,
            }],
            Report::Ended(ended) => vec![self.ended(stage, attempt, *ended)],
        };
        for event in &mut events {
            if let AttemptEvent::LevelCrossed { level, is_done, .. } = event
                && *level >= Level::L2
            {
                *is_done = self.inspect(stage).is_done();
            }
        }
        events
            .into_iter()
            .try_for_each(|event| self.record_attempt(stage, attempt, event))
    }

    /// Answers a hook, unless core must decide about it.
    fn hook(&mut self, stage: &StageId, callback: String, input: &HookInput) -> Vec<AttemptEvent> {
        if let HookInput::Stop { background } = *input {
            return vec![AttemptEvent::StopAsked {
                callback,
                background,
                handoff: self.inspect_at_rest(stage),
                tool_calls: self.tool_calls(stage),
            }];
        }
        let ruling = guard::ruling(&self.guard_view(stage), &self.files.resolve_input(input));
        let refused = matches!(ruling, Ruling::Deny(Denial::HandingOff { .. }));
        let answer = hook_answer(ruling);
        self.runner
            .tell(stage, AgentCommand::Answer { callback, answer });
        match self.attempts.get_mut(stage).filter(|_| refused) {
            Some(live) => {
                live.refusals += 1;
                // At every multiple, so that an agent that also ignores an interrupt still comes to an end.
                let too_often = live.refusals.is_multiple_of(limits::REFUSALS_MAX);
                too_often
                    .then_some(AttemptEvent::RefusalsSpent)
                    .into_iter()
                    .collect()
            }
            None => Vec::new(),
        }
    }

    fn guard_view(&self, stage: &StageId) -> GuardView {
        if self.relay(stage).map(Relay::purpose) == Some(Purpose::Review) {
            return GuardView {
                profile: Profile::Review,
                ..self.files.guard_view(stage)
            };
        }
        let live = self.attempts.get(stage);
        let level = live.map_or(Level::L0, |live| live.meter.level);
        let missing = if level == Level::L3 {
            self.inspect(stage).missing()
        } else {
            String::new()
        };
        GuardView {
            level,
            missing,
            ..self.files.guard_view(stage)
        }
    }

    fn tool_calls(&self, stage: &StageId) -> u32 {
        self.attempts.get(stage).map_or(0, |live| live.tool_calls)
    }

    fn inspect(&self, stage: &StageId) -> Inspection {
        let files = self.files.handoff_files(stage);
        self.relay(stage)
            .map(|relay| relay.inspect(&files))
            .unwrap_or_default()
    }

    /// The same when the agent may be asked for files again: what it could not overwrite is set aside.
    fn inspect_at_rest(&mut self, stage: &StageId) -> Inspection {
        let inspection = self.inspect(stage);
        let is_no_text = |fault: &Fault| matches!(fault.kind, FaultKind::NotText(_));
        if inspection.faults.iter().any(is_no_text) {
            let files = self.files.handoff_files(stage);
            if let Some(live) = self.attempts.get_mut(stage) {
                live.set_aside.extend(files.not_text());
                let moved = self.files.set_aside(stage, live.attempt.session, &files);
                self.warn_if_failed(moved);
            }
        }
        inspection
    }

    /// What an attempt left in the handoff directory and in place of published files. If no hook could tell the
    /// agent the right place, it may have put its handoff there. Anything else is copied beside the session,
    /// since the next publishing overwrites it.
    ///
    /// After a crash of ekiden we do not know who wrote a published file: it is not synced, so it may be
    /// an older one of our own. Then it is copied, and decides nothing.
    fn ended(
        &mut self,
        stage: &StageId,
        attempt: AttemptId,
        mut event: AttemptEnded,
    ) -> AttemptEvent {
        let mut set_aside = BTreeMap::new();
        if let Some(live) = self.attempts.get(stage)
            && live.attempt == attempt
        {
            let live = self.attempts.remove(stage);
            set_aside = live.map(|live| live.set_aside).unwrap_or_default();
        }
        let was_lost = event.cause == EndCause::EngineLost;
        if let Some(relay) = self.relay(stage) {
            event.cause = relay.cause_of(attempt, event.cause);
            event.counters = relay.charge(attempt, &event.cause, event.counters);
            let mut touched = self.files.touched(relay);
            // Before the process ran, the directory may still hold the previous session's handoff.
            if relay.has_started() {
                event.files = self.files.handoff_files(stage);
                for (file, what) in set_aside {
                    let text = event.files.get_mut(file);
                    if *text == FileText::Absent {
                        *text = FileText::NotText(what);
                    }
                }
                let unguided = relay.agent().kind == AgentKind::Exec;
                if unguided && !was_lost {
                    event.misplaced = take_misplaced(&mut touched, &mut event.files);
                }
            }
            let kept = self.files.keep_touched(stage, attempt.session, &touched);
            if !was_lost {
                let names = touched.iter().map(|touched| touched.name().to_owned());
                event.touched = names.collect();
            }
            self.warn_if_failed(kept);
        }
        AttemptEvent::Ended(Box::new(event))
    }

    /// Records what a person wrote into the published knowledge, or a list, while nothing ran.
    pub(super) fn take_edits(&mut self) -> Result<(), EngineError> {
        for (stage, edit) in self.files.edited_knowledge(&self.journal) {
            self.keep_unused(&stage, &edit)?;
            if let FileText::Text(text) = edit.text {
                self.files.took_edit(&stage, &text);
                let event = RelayEvent::KnowledgeEdited { text };
                self.record_one(Event::Stage { stage, event })?;
            }
        }
        for (stage, items) in self.files.edited_lists(self.journal.run()) {
            let event = RelayEvent::ListEdited { items };
            self.record_one(Event::Stage { stage, event })?;
        }
        Ok(())
    }

    /// Keeps an edit that cannot be used as it is, since the next publishing overwrites it, and says so once.
    fn keep_unused(&mut self, stage: &StageId, edit: &Touched) -> Result<(), EngineError> {
        let what = match edit.text.text().map(lost_lines) {
            Some(lost) if lost.is_empty() => return Ok(()),
            Some(lost) => {
                let lost: Vec<String> = lost.iter().map(usize::to_string).collect();
                let lost = lost.join(", ");
                format!("line {lost} of your edit of KNOWLEDGE.md, under neither heading")
            }
            None => "your edit of KNOWLEDGE.md, which is not text in UTF-8".to_owned(),
        };
        let relay = self.journal.run().relay(stage);
        let kept = relay.map(|relay| self.files.keep_edit(relay, edit));
        if let Some(copy) = kept.transpose()?.flatten() {
            let copy = copy.display();
            let text = format!("cannot use {what}; it is kept in {copy}");
            self.observer.warn(&text);
        }
        Ok(())
    }
}

/// Moves files that are missing from the handoff directory but found among the published ones into the
/// handoff, except knowledge, which only ekiden merges. Returns their names.
fn take_misplaced(touched: &mut Vec<Touched>, files: &mut HandoffFiles) -> Vec<String> {
    let mut taken = Vec::new();
    touched.retain_mut(|Touched { file, text, .. }| {
        let missing = match file {
            Some(file @ (HandoffFile::Progress | HandoffFile::NextPrompt)) => files.get_mut(*file),
            Some(HandoffFile::Knowledge) | None => return true,
        };
        if *missing != FileText::Absent || text.text().is_none() {
            return true;
        }
        *missing = std::mem::replace(text, FileText::Absent);
        taken.extend(file.map(|file| file.name().to_owned()));
        false
    });
    taken
}

/// The end of a reviewer's answer, where the verdict is.
fn answered(Answer { structured, words }: Answer) -> AttemptEvent {
    let answer = structured.unwrap_or(words);
    let mut ends = answer.char_indices().rev();
    let from = ends.nth(limits::REVIEW_ANSWER_CHARS_MAX - 1);
    AttemptEvent::Answered {
        answer: answer[from.map_or(0, |(at, _)| at)..].to_owned(),
    }
}

pub(crate) fn hook_answer(ruling: Ruling) -> HookAnswer {
    match ruling {
        Ruling::Pass => HookAnswer::Pass,
        Ruling::Allow => HookAnswer::Allow,
        Ruling::Deny(denial) => HookAnswer::Deny(prompt::refusal(&denial, HANDOFF_DIR)),
        Ruling::Block => HookAnswer::Block(prompt::NO_COMPACTION.to_owned()),
    }
}
