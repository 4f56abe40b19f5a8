//! How the engine performs an effect, in this process or after a restart.

use ekiden_agent::attempt::{AgentCommand, HookAnswer, Report};
use ekiden_core::effect::{AttemptEffect, Effect, RelayEffect, StartAttempt, WorktreeEffect};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, TaskOutcome};
use ekiden_core::ids::{AttemptId, EffectId, SessionNumber, StageId};
use ekiden_core::manifest::Stage;
use ekiden_core::notice::NoticeKind;
use ekiden_core::prompt::{ContextInput, ResultInput};
use ekiden_core::relay::{Purpose, Relay};
use ekiden_core::text::in_full;
use ekiden_store::error::StoreError;

use super::{Engine, LiveAttempt};
use crate::effect_runner::{EffectRunner, Input, VerifyJob};
use crate::error::EngineError;
use crate::git::commit::CommitJob;
use crate::meter::Meter;
use crate::notify::Notice;
use crate::survey::Since;
use crate::task_mark::task_mark;
use crate::worktrees::StageJob;

impl<R: EffectRunner> Engine<'_, R> {
    pub(super) fn perform_all(
        &mut self,
        effects: Vec<(EffectId, Effect)>,
    ) -> Result<(), EngineError> {
        effects
            .into_iter()
            .try_for_each(|(id, effect)| self.perform(id, effect, false))
    }

    /// Performs effects that an earlier engine was ordered to perform and may have done, wholly or in part.
    /// Only an effect with an outcome is outstanding, so no void effect comes here.
    pub(super) fn settle(&mut self, id: EffectId, effect: Effect) -> Result<(), EngineError> {
        if let Effect::Stage { stage, effect } = &effect
            && let RelayEffect::StartAttempt(start) = effect
        {
            // The attempt's lock was free when this run was opened, so nothing of it lives.
            self.lost(stage, start.attempt);
            return Ok(());
        }
        self.perform(id, effect, true)
    }

    /// `is_repeated`: the effect may already have been performed.
    fn perform(
        &mut self,
        id: EffectId,
        effect: Effect,
        is_repeated: bool,
    ) -> Result<(), EngineError> {
        let (stage, effect) = match effect {
            Effect::Stage { stage, effect } => (stage, effect),
            Effect::Worktree { stage, effect } => {
                self.worktree(id, &stage, effect, is_repeated);
                return Ok(());
            }
            Effect::Deliver => {
                let tip = self.journal.run().integration_commit().map(str::to_owned);
                self.runner.deliver(id, tip, is_repeated);
                return Ok(());
            }
            Effect::EndRun { .. } => return Ok(()),
        };
        match effect {
            RelayEffect::Survey => {
                let is_plan = self.journal.run().header().is_plan();
                let relay = self.relay(&stage);
                let since = relay.map_or_else(Since::default, |relay| since(relay, is_plan));
                let issue = self.files.paths().issue_in(&stage);
                let since = Since { issue, ..since };
                self.runner.survey(&stage, id, since);
            }
            RelayEffect::Commit { session } => self.commit(id, &stage, session, is_repeated),
            RelayEffect::Verify => self.verify(id, &stage),
            RelayEffect::CancelTasks => self.runner.cancel(),
            RelayEffect::StartAttempt(start) => self.start(&stage, &start)?,
            RelayEffect::Attempt { effect, .. } => self.runner.tell(&stage, order(effect)),
            // The observer gets it from the record.
            RelayEffect::Warn { .. } => {}
            RelayEffect::Publish => {
                self.publish(&stage, false)?;
            }
            RelayEffect::PublishDurably => {
                if self.publish(&stage, true)? {
                    let published = Input::task(&stage, id, TaskOutcome::Published);
                    self.queue.push_back(published);
                }
            }
            RelayEffect::Notify { about, text } => self.notify(id, &stage, about, text),
            RelayEffect::Archive { attempt } => self.deferred_archives.push((id, stage, attempt)),
        }
        Ok(())
    }

    fn notify(&mut self, id: EffectId, stage: &StageId, about: NoticeKind, text: String) {
        let notice = Notice::of(self.journal.run(), self.now, stage, about, text);
        self.runner.notify(id, notice);
    }

    /// Notifies of a failure of ekiden's own, which cannot be recorded.
    pub(crate) fn notify_of(&mut self, failure: &EngineError) {
        let id = EffectId {
            seq: self.journal.last().seq + 1,
            index: u32::MAX,
        };
        let notice = Notice {
            at: self.now,
            about: NoticeKind::Failed,
            text: format!("ekiden stopped: it cannot {}", in_full(failure)),
            stage: None,
            session: self.journal.run().totals().sessions,
        };
        self.runner.notify(id, notice);
    }

    fn worktree(
        &mut self,
        id: EffectId,
        stage: &StageId,
        effect: WorktreeEffect,
        is_repeated: bool,
    ) {
        let run = self.journal.run();
        let Some((rules, of_manifest)) = run.header().manifest.plan.as_ref().zip(run.stage(stage))
        else {
            return;
        };
        let results = run
            .results_before(stage)
            .into_iter()
            .map(|earlier| ResultInput {
                place: self.files.result_path(&earlier.stage).display().to_string(),
                stage: earlier.stage,
                name: earlier.name,
                text: earlier.text,
            });
        let input = ContextInput {
            architecture: rules.architecture.clone(),
            document: rules.document.clone(),
            results: results.collect(),
            ..ContextInput::default()
        };
        let job = StageJob {
            stage: Stage {
                verification: run.merge_verification(stage),
                ..of_manifest.clone()
            },
            mark: task_mark(&run.header().run, id),
            integrated: run.integration_commit().map(str::to_owned),
            is_repeated,
            input,
        };
        self.runner.worktree(id, effect, job);
    }

    fn commit(&mut self, id: EffectId, stage: &StageId, session: SessionNumber, is_repeated: bool) {
        let header = self.journal.run().header();
        let settings = self
            .relay(stage)
            .map_or(&header.settings, |relay| &relay.settings);
        let outputs = self
            .journal
            .run()
            .stage(stage)
            .map(|stage| stage.part.outputs.clone());
        let list = self.relay(stage).and_then(|relay| relay.items.as_ref());
        let subject = list.and_then(|list| list.commit_subject(session));
        let own_tree = self.files.paths().tree(stage).is_some();
        let rules = header.manifest.plan.as_ref().filter(|_| own_tree);
        let lent = rules.map(|rules| self.files.paths().lent(&rules.isolation));
        let lent = lent.unwrap_or_default();
        let issue_file = self.files.paths().issue_in(stage);
        let job = CommitJob {
            subject: subject.unwrap_or_else(|| format!("ekiden: session {session} checkpoint")),
            declared: self.files.paths().declared(&outputs.unwrap_or_default()),
            effect: task_mark(&header.run, id),
            plan: settings.commit.clone().unwrap_or_default(),
            branch: match own_tree {
                true => Some(self.files.paths().branch(stage)),
                false => header.place.branch.clone(),
            },
            issue: header.issue.as_ref().map(ToString::to_string),
            issue_file: issue_file.and_then(|file| self.files.paths().declared(&[file]).pop()),
            agent: self.relay(stage).and_then(Relay::one_of_several),
            is_repeated,
            own_tree,
            lent,
        };
        self.runner.commit(stage, id, job);
    }

    fn verify(&mut self, id: EffectId, stage: &StageId) {
        let Some(relay) = self.journal.run().relay(stage) else {
            return;
        };
        if let Some(verification) = relay.stage.verification.clone() {
            let job = VerifyJob {
                verification,
                tree: relay.seen.survey.as_ref().map(|survey| survey.tree.clone()),
                log: self.files.verify_log(stage, relay.session()),
            };
            self.runner.verify(stage, id, job);
        }
    }

    /// If the disk refuses, the engine ends, not the run: the order stays outstanding, and a resume settles it
    /// as a lost attempt.
    fn start(&mut self, stage: &StageId, start: &StartAttempt) -> Result<(), EngineError> {
        let launch = match self.files.prepare_attempt(&self.journal, stage, start) {
            // An agent removed it. The survey after this session makes it again, and the other stages work on.
            Err(_) if self.files.lacks_worktree(stage) => {
                let ended = AttemptEnded::bare(EndCause::Stopped);
                self.attempt_over(stage, start.attempt, ended);
                return Ok(());
            }
            prepared => prepared?,
        };
        let Some(relay) = self.journal.run().relay(stage) else {
            return Ok(());
        };
        let share = relay.share().unwrap_or_default();
        let live = LiveAttempt {
            attempt: start.attempt,
            meter: Meter::new(&relay.settings, share, start.mode),
            tool_calls: 0,
            refusals: 0,
            set_aside: Default::default(),
        };
        self.attempts.insert(stage.clone(), live);
        self.runner.start(launch)
    }

    /// The engine died while this attempt ran. What it left in the handoff directory counts.
    fn lost(&mut self, stage: &StageId, attempt: AttemptId) {
        let ended = self.files.traces_of(self.journal.run(), stage, attempt);
        self.attempt_over(stage, attempt, ended);
    }

    fn attempt_over(&mut self, stage: &StageId, attempt: AttemptId, ended: AttemptEnded) {
        self.queue.push_back(Input::Agent {
            stage: stage.clone(),
            attempt,
            report: Report::Ended(Box::new(ended)),
        });
    }

    /// The run continues without a file that cannot be published. Where nothing can be written, it ends: an agent could
    /// not leave its handoff there either, and each session would cost money for nothing.
    fn unless_unwritable(&mut self, published: Result<(), StoreError>) -> Result<(), EngineError> {
        match published {
            Err(StoreError::Disk(error)) if error.needs_person() => {
                Err(EngineError::Publish(error.into()))
            }
            other => {
                self.warn_if_failed(other);
                Ok(())
            }
        }
    }

    /// Returns whether the relay's texts are published.
    fn publish(&mut self, stage: &StageId, durably: bool) -> Result<bool, EngineError> {
        let run = self.journal.run();
        let is_superseded = !durably && run.is_superseded(stage);
        let Some(relay) = run.relay(stage).filter(|_| !is_superseded) else {
            return Ok(true);
        };
        if let Some(edit) = self.files.overwritten(relay)
            && let Some(copy) = self.files.keep_edit(relay, &edit)?
        {
            let copy = copy.display();
            let text = format!(
                "cannot use your edit of KNOWLEDGE.md, since the session before it was still being checked; it is kept in {copy}"
            );
            self.observer.warn(&text);
        }
        let texts = self.files.publish(relay, durably);
        let list = self.files.publish_list(relay);
        let is_published = texts.is_ok();
        self.unless_unwritable(texts)?;
        self.unless_unwritable(list)?;
        Ok(is_published)
    }
}

/// What the next survey is compared with. A retried stage sees everything that it changed, a relay what its last
/// session did.
fn since(relay: &Relay, is_plan: bool) -> Since {
    let survey = relay.seen.survey.as_ref();
    let last = survey.map(|survey| survey.head.clone().unwrap_or_default());
    let first = relay.seen.first_commit.clone();
    let is_review = relay.purpose() == Purpose::Review;
    Since {
        base: first
            .clone()
            .filter(|_| is_plan || is_review)
            .or_else(|| last.clone())
            .filter(|commit| !commit.is_empty()),
        last,
        first,
        items: relay.items.is_some(),
        diff: is_review,
        issue: None,
    }
}

fn order(effect: AttemptEffect) -> AgentCommand {
    match effect {
        AttemptEffect::Say { text } => AgentCommand::Say(text),
        AttemptEffect::AnswerStop { callback, hold } => {
            let answer = hold.map_or(HookAnswer::Pass, HookAnswer::Block);
            AgentCommand::Answer { callback, answer }
        }
        AttemptEffect::Interrupt => AgentCommand::Interrupt,
        AttemptEffect::Close => AgentCommand::Close,
        AttemptEffect::Terminate => AgentCommand::Terminate,
    }
}
