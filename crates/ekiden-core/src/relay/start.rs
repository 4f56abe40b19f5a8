//! Before a session: the first look, the prompt, the order to start.

use crate::effect::{RelayEffect, StartAttempt, StartMode};
use crate::ends::{EndCause, EndClass};
use crate::event::AttemptEnded;
use crate::guard::Level;
use crate::handoff::OpenItems;
use crate::hash;
use crate::ids::{AttemptId, AttemptNumber, ConversationId, SessionNumber};
use crate::limits;
use crate::manifest::{Stage, Verification};
use crate::outcome::Outcome;
use crate::prompt::{self, Measured, PromptBlocks, SessionInput, Slot, StageInput};
use crate::relay::{Looking, Next, NextAttempt, Phase, Relay, Session, Talk, Used, WaitCause, backoff};
use crate::time::{Millis, Timestamp};

/// Where the agent writes its handoff, from the work dir.
pub const HANDOFF_DIR: &str = ".ekiden/handoff";

/// What an agent is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A new conversation's first message, in content blocks.
    Fresh(prompt::PromptBlocks),
    /// A note to a conversation that goes on.
    Resume(String),
}

impl Prompt {
    /// Byte for byte what is sent, for the archive.
    #[must_use]
    pub fn to_archive(&self) -> String {
        match self {
            Self::Fresh(blocks) => blocks.to_archive(),
            Self::Resume(note) => note.clone(),
        }
    }
}

impl Relay {
    /// Looks at the tree and the verification before the first session of a task.
    pub(super) fn prepare(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        if self.surveys {
            self.phase = Phase::Preparing(Looking::Survey);
            vec![RelayEffect::Publish, RelayEffect::Survey]
        } else {
            self.prepare_check(at)
        }
    }

    pub(super) fn prepare_check(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        if self.stage.verification.is_some() {
            self.phase = Phase::Preparing(Looking::Verification);
            vec![RelayEffect::Publish, RelayEffect::Verify]
        } else {
            self.start_first(at)
        }
    }

    pub(super) fn start_first(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        self.admit(at, self.fresh(self.unused()))
    }

    /// The session after one that is over, now or after the pause. After one that did nothing at all
    /// the pause grows: else a broken agent would use up all sessions within seconds.
    pub(super) fn start_next(
        &mut self,
        at: Timestamp,
        session: SessionNumber,
        after_nothing: bool,
    ) -> Vec<RelayEffect> {
        let next = self.fresh(session);
        if self.quota.over - self.quota.from >= self.quota.max {
            return self.end(Outcome::SessionLimit, Next::Attempt(next));
        }
        if after_nothing {
            let pause = backoff(self.crashes_in_a_row).max(self.settings.pause);
            return self.wait(at, pause, WaitCause::Failure, next);
        }
        if self.settings.guided && !self.paused {
            let countdown = limits::GUIDED_COUNTDOWN.max(self.settings.pause);
            return self.wait(at, countdown, WaitCause::Guided, next);
        }
        if self.settings.pause > Millis(0) {
            return self.wait(at, self.settings.pause, WaitCause::Pause, next);
        }
        self.admit(at, next)
    }

    /// Starts an attempt that was admitted.
    pub(super) fn start(&mut self, next: NextAttempt) -> Vec<RelayEffect> {
        let next = self.renewed(next);
        self.give_words(next.mode);
        let prompt = self.prompt_of(&next);
        let start = StartAttempt {
            attempt: next.id,
            conversation: next.conversation,
            mode: next.mode,
            prompt: hash::sha256_hex(prompt.to_archive().as_bytes()),
        };
        let talk = Talk::new(self.settings.agent.kind.takes_messages());
        let share = self.share_of(&next);
        let session = Session {
            attempt: next,
            prompt,
            pid: None,
            talk,
            share,
            stop_by: None,
            order_by: None,
            heard: None,
        };
        self.phase = Phase::Running(Box::new(session));
        vec![RelayEffect::Publish, RelayEffect::StartAttempt(start)]
    }

    pub(super) fn fresh(&self, session: SessionNumber) -> NextAttempt {
        let id = AttemptId::first(session);
        let conversation = self.conversation_of(id);
        NextAttempt {
            id,
            conversation,
            mode: StartMode::Fresh,
            failures: 0,
            waited: Millis(0),
            used: Used::default(),
        }
    }

    /// The conversation that an attempt begins. Each stage of a run has its own.
    pub(super) fn conversation_of(&self, attempt: AttemptId) -> ConversationId {
        attempt.conversation(&self.run, &self.stage.id)
    }

    /// The attempt after one that did not finish its session. The conversation goes on if the agent
    /// kept it and there is room in it.
    pub(super) fn again(&self, session: &Session, ended: &AttemptEnded, class: EndClass) -> NextAttempt {
        let before = &session.attempt;
        // A limit that cuts off a resumption leaves the conversation as it was.
        let kept = ended.resumable || (before.mode == StartMode::Resume && class == EndClass::Wait);
        let room = session.talk.level < Level::L2 && !ended.cause.spoils_conversation();
        let mode = if kept && room { StartMode::Resume } else { StartMode::Fresh };
        let id = before.id.again();
        let conversation = match mode {
            StartMode::Resume => before.conversation,
            StartMode::Fresh => self.conversation_of(id),
        };
        let failed = class == EndClass::Retry && ended.cause != EndCause::EngineLost;
        let waited = if ended.counters.tool_calls == 0 { before.waited } else { Millis(0) };
        let used = session.used(mode, &ended.counters);
        NextAttempt { id, conversation, mode, failures: before.failures + u32::from(failed), waited, used }
    }

    /// The prompt of the attempt at work. It follows from state, so a restarted engine makes the
    /// same bytes.
    #[must_use]
    pub fn prompt(&self) -> Option<&Prompt> {
        self.at_work().map(|session| &session.prompt)
    }

    /// The handoff protocol: the same bytes for every session of the run.
    #[must_use]
    pub fn protocol(&self) -> String {
        let ordering = if self.settings.agent.kind.takes_messages() {
            prompt::Ordering::Message
        } else {
            prompt::Ordering::ByItems(limits::ITEMS_A_SESSION)
        };
        prompt::protocol(&prompt::ProtocolSlots {
            handoff_dir: HANDOFF_DIR,
            marker: &self.settings.marker,
            ordering,
        })
    }

    fn prompt_of(&self, next: &NextAttempt) -> Prompt {
        match next.mode {
            StartMode::Resume => Prompt::Resume(prompt::resume_note()),
            StartMode::Fresh => Prompt::Fresh(self.session_prompt(next)),
        }
    }

    fn session_prompt(&self, next: &NextAttempt) -> PromptBlocks {
        let check = self.stage.verification.as_ref().map(Verification::told);
        let input = SessionInput {
            number: next.id.session,
            task: &self.stage.task,
            knowledge: &self.knowledge,
            measured: Some(&self.measured()),
            notes: self.last.as_ref().map(|last| &last.notes),
            check: check.as_deref(),
            slots: &self.slots_of(next),
        };
        match &self.context {
            None => prompt::session_prompt(&input),
            Some(context) => {
                let Stage { id, task_name: name, part, .. } = &self.stage;
                prompt::stage_prompt(&input, &StageInput { id, name, outputs: &part.outputs, context })
            }
        }
    }

    fn slots_of(&self, next: &NextAttempt) -> Vec<Slot> {
        let mut slots = self.slots.clone();
        slots.extend_from_slice(&self.standing);
        if self.settings.subagents {
            slots.push(Slot::Delegation);
        }
        if next.id.attempt > AttemptNumber::FIRST {
            slots.push(Slot::Interrupted);
        }
        slots
    }

    fn measured(&self) -> Measured {
        let survey = self.survey.clone().unwrap_or_default();
        let command = self.stage.verification.as_ref().map(Verification::told_in_line);
        Measured {
            commits: survey.commits,
            files: survey.status,
            check: command.zip(self.check.as_ref().map(ToString::to_string)),
            open_items: self.last.as_ref().and_then(|last| last.open_items.as_ref()).map(OpenItems::counts),
            vanished: self.last.as_ref().map(|last| last.vanished.clone()).unwrap_or_default(),
        }
    }
}
