//! Dispatching: what the engine does about an effect, in this life or the next.

use ekiden_agent::attempt::{Ended, HookAnswer, Order, Report};
use ekiden_core::effect::{Effect, GroundEffect, RelayEffect, StartAttempt};
use ekiden_core::ends::EndCause;
use ekiden_core::ids::{AttemptId, EffectId, SessionNumber, StageId};
use ekiden_core::prompt::{ContextInput, ResultInput};
use ekiden_core::relay::Relay;

use super::{Engine, Working};
use crate::commit::CommitJob;
use crate::error::{EngineError, in_full};
use crate::grounds::GroundJob;
use crate::hands::{Hands, Input, Since};
use crate::meter::Meter;
use crate::observer::Observer;
use crate::processes::task_mark;

impl<H: Hands> Engine<H> {
    pub(super) fn perform_all(
        &mut self,
        effects: Vec<(EffectId, Effect)>,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        for (id, effect) in effects {
            match effect {
                Effect::Stage { stage, effect } => self.perform(id, &stage, effect, observer)?,
                Effect::Ground { stage, effect } => self.perform_ground(id, &stage, effect, false),
                Effect::Deliver => self.deliver(id, false),
                Effect::EndRun { outcome } => self.over = Some(outcome),
            }
        }
        Ok(())
    }

    fn perform(
        &mut self,
        id: EffectId,
        stage: &StageId,
        effect: RelayEffect,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        match effect {
            RelayEffect::Survey => {
                let since = self.relay(stage).map(since).unwrap_or_default();
                self.hands.survey(stage, id, since);
            }
            RelayEffect::Commit { session } => self.commit(id, stage, session, false),
            RelayEffect::Verify => {
                if let Some(verification) =
                    self.relay(stage).and_then(|relay| relay.stage().verification.clone())
                {
                    self.hands.verify(stage, id, &verification);
                }
            }
            RelayEffect::CancelTasks => self.hands.cancel(stage),
            RelayEffect::StartAttempt(start) => self.start(stage, &start)?,
            RelayEffect::Say { text, .. } => self.hands.tell(stage, Order::Say(text)),
            RelayEffect::AnswerStop { callback, hold, .. } => {
                let answer = hold.map_or(HookAnswer::Pass, HookAnswer::Block);
                self.hands.tell(stage, Order::Answer { callback, answer });
            }
            RelayEffect::Interrupt { .. } => self.hands.tell(stage, Order::Interrupt),
            RelayEffect::Close { .. } => self.hands.tell(stage, Order::Close),
            RelayEffect::Terminate { .. } => self.hands.tell(stage, Order::Terminate),
            // Whoever watches has it from the record.
            RelayEffect::Warn { .. } => {}
            RelayEffect::Publish if self.journal.run().is_between_agents() => self.late.publish(stage),
            RelayEffect::Publish => self.publish(stage, observer),
            RelayEffect::PublishDurably => self.publish_durably(id, stage, observer),
            RelayEffect::Notify { text } => self.hands.notify(text),
            RelayEffect::Archive { attempt } => self.late.archive(id, stage, attempt),
        }
        Ok(())
    }

    fn deliver(&mut self, id: EffectId, is_repeated: bool) {
        self.hands.deliver(id, self.journal.run().whole().map(str::to_owned), is_repeated);
    }

    fn perform_ground(&mut self, id: EffectId, stage: &StageId, effect: GroundEffect, is_repeated: bool) {
        let Some(job) = self.ground_job(id, stage) else { return };
        let job = GroundJob { is_repeated, ..job };
        match effect {
            GroundEffect::Prepare => self.hands.prepare(id, job),
            GroundEffect::Merge => self.hands.merge(id, job),
            GroundEffect::Confirm => self.hands.confirm(id, job),
        }
    }

    fn ground_job(&self, id: EffectId, stage: &StageId) -> Option<GroundJob> {
        let run = self.journal.run();
        let rules = run.header().manifest.plan.as_deref()?;
        let place = |stage: &StageId| self.desk.places().relay(stage).result().display().to_string();
        let results = run.results_before(stage).into_iter().map(|(stage, result)| ResultInput {
            stage: stage.id.clone(),
            name: stage.task_name.clone(),
            text: result.text.clone(),
            place: place(&stage.id),
        });
        let input = ContextInput {
            architecture: rules.architecture.clone(),
            document: rules.document.clone(),
            files: Vec::new(),
            results: results.collect(),
        };
        let (stage, whole) = (run.stage(stage)?.clone(), run.whole().map(str::to_owned));
        let mark = task_mark(&run.header().run, id);
        Some(GroundJob { stage, mark, whole, is_repeated: false, input })
    }

    /// What is to be done about an effect that was ordered in an earlier life.
    pub(super) fn settle(
        &mut self,
        id: EffectId,
        effect: Effect,
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        let (stage, effect) = match effect {
            Effect::Stage { stage, effect } => (stage, effect),
            Effect::Ground { stage, effect } => {
                self.perform_ground(id, &stage, effect, true);
                return Ok(());
            }
            Effect::Deliver => {
                self.deliver(id, true);
                return Ok(());
            }
            Effect::EndRun { .. } => return Ok(()),
        };
        match effect {
            // The attempt's lock was free when this run was opened, so nothing of it lives.
            RelayEffect::StartAttempt(start) => self.lost(&stage, start.attempt),
            // It is looked for before it is made.
            RelayEffect::Commit { session } => self.commit(id, &stage, session, true),
            again @ (RelayEffect::Survey
            | RelayEffect::Verify
            | RelayEffect::PublishDurably
            | RelayEffect::Archive { .. }) => self.perform(id, &stage, again, observer)?,
            RelayEffect::CancelTasks
            | RelayEffect::Say { .. }
            | RelayEffect::AnswerStop { .. }
            | RelayEffect::Interrupt { .. }
            | RelayEffect::Close { .. }
            | RelayEffect::Terminate { .. }
            | RelayEffect::Warn { .. }
            | RelayEffect::Publish
            // At most once: it may have been shown.
            | RelayEffect::Notify { .. } => {}
        }
        Ok(())
    }

    fn commit(&mut self, id: EffectId, stage: &StageId, session: SessionNumber, is_repeated: bool) {
        let header = self.journal.run().header();
        let settings = self.relay(stage).map_or(&header.settings, Relay::settings);
        let plan = settings.commit.clone().unwrap_or_default();
        let own_tree = self.desk.places().tree(stage).is_some();
        let job = CommitJob { session, effect: task_mark(&header.run, id), plan, is_repeated, own_tree };
        self.hands.commit(stage, id, job);
    }

    /// A disk that refuses ends the engine, not the run: the order stays outstanding, and a resume
    /// settles it as an attempt that was lost.
    fn start(&mut self, stage: &StageId, start: &StartAttempt) -> Result<(), EngineError> {
        let attempt = start.attempt;
        let relay =
            self.journal.run().relay(stage).ok_or_else(|| EngineError::NoStage { stage: stage.clone() })?;
        let launch = self.desk.prepare(&self.journal, stage, start)?;
        let meter = Meter::new(relay.settings(), relay.share().unwrap_or_default(), start.mode);
        self.working.insert(stage.clone(), Working { attempt, meter, tool_calls: 0, refusals: 0 });
        self.hands.start(launch)
    }

    /// The engine died while this attempt ran. What it left in the handoff directory counts.
    fn lost(&mut self, stage: &StageId, attempt: AttemptId) {
        let (traces, counters, resumable) = self.desk.traces_of(self.journal.run(), stage, attempt);
        let ended = Ended { cause: EndCause::EngineLost, counters, traces, resumable };
        let report = Report::Ended(Box::new(ended));
        self.later.push_back(Input::Agent { stage: stage.clone(), attempt, report });
    }

    pub(super) fn publish(&mut self, stage: &StageId, observer: &mut dyn Observer) {
        if let Some(relay) = self.relay(stage).filter(|_| !self.journal.run().is_superseded(stage))
            && let Err(error) = self.desk.restore(relay).and_then(|()| self.desk.publish(relay, false))
        {
            self.warn_once(observer, &in_full(&error));
        }
    }

    fn publish_durably(&mut self, id: EffectId, stage: &StageId, observer: &mut dyn Observer) {
        let Some(relay) = self.journal.run().relay(stage) else { return };
        self.desk.clear_next(relay);
        let restored = self.desk.restore(relay);
        match restored.and_then(|()| self.desk.publish(relay, true)) {
            Ok(()) => self.later.push_back(Input::Published { stage: stage.clone(), effect: id }),
            Err(error) => self.warn_once(observer, &in_full(&error)),
        }
    }

    pub(super) fn archive(&mut self, id: EffectId, stage: &StageId, attempt: AttemptId) {
        let files = self.journal.files_of(id).cloned().unwrap_or_default();
        let job = self.desk.archive_job(stage, attempt, &files);
        self.hands.archive(stage, id, job);
    }

    pub(super) fn keep_output(&mut self, stage: &StageId, output: &str, observer: &mut dyn Observer) {
        let Some(relay) = self.journal.run().relay(stage) else { return };
        if let Err(error) = self.desk.keep_output(stage, relay.session(), output) {
            self.warn_once(observer, &in_full(&error));
        }
    }

    pub(super) fn relay(&self, stage: &StageId) -> Option<&Relay> {
        self.journal.run().relay(stage)
    }
}

/// What the next look is compared with.
fn since(relay: &Relay) -> Since {
    let last = relay.survey().and_then(|survey| survey.head.clone());
    Since { last, first: relay.first_commit().map(str::to_owned) }
}
