//! Before a session: the prompt, and the order to start.

use std::borrow::Cow;

use super::items::{ItemList, without_long_list};
use super::{Consumed, Next, NextAttempt, Phase, Purpose, Relay, Session, backoff};
use crate::agent::{AgentKind, AgentSpec};
use crate::effect::{RelayEffect, StartAttempt, StartMode};
use crate::ends::{EndCause, EndClass};
use crate::event::{AttemptEnded, Traces};
use crate::guard::estimate::CONSIDER_PERCENT;
use crate::handoff::{OpenItems, Status};
use crate::hash;
use crate::ids::{AttemptId, AttemptNumber, ConversationId, SessionNumber};
use crate::limits;
use crate::manifest::Verification;
use crate::outcome::{Outcome, WaitCause};
use crate::prompt::{
    self, Measured, OrderReason, PromptBlocks, PromptSection, SessionInput, StageInput,
};
use crate::time::{Millis, Timestamp};

pub use crate::prompt::HANDOFF_DIR;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A new conversation's first message, in content blocks.
    Fresh(PromptBlocks),
    /// A note to a conversation that continues.
    Resume(String),
}

impl Prompt {
    /// Byte for byte what is sent, for the archive.
    pub fn to_archive(&self) -> String {
        match self {
            Self::Fresh(blocks) => blocks.to_archive(),
            Self::Resume(note) => note.clone(),
        }
    }
}

impl Relay {
    /// Begins where no session has to be judged: at the start, after a resume, or once a person has ticked the last
    /// item. Ends the relay instead if nothing is left to do.
    pub(super) fn begin_work(&mut self, at: Timestamp, passed: Option<bool>) -> Vec<RelayEffect> {
        let list = self.items.as_mut();
        let status = list.and_then(|list| list.begin(passed));
        let outcome = match status {
            _ if self.has_more_to_do() => None,
            Some(Status::Blocked { question }) => Some(Outcome::Blocked { question }),
            Some(Status::Complete) if passed != Some(false) => Some(Outcome::Complete {
                verified: passed.is_some(),
            }),
            Some(Status::Complete) => {
                self.veto();
                None
            }
            Some(Status::InProgress) | None => None,
        };
        match outcome {
            Some(outcome) => {
                let next = Next::Attempt(self.fresh(self.unused()));
                self.end(outcome, next)
            }
            None => self.start_first(at),
        }
    }

    pub(super) fn start_first(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        self.admit(at, self.fresh(self.unused()))
    }

    /// Starts the session after a finished one, now or after the pause. After a session that did nothing at
    /// all the pause grows: otherwise a broken agent would use up all sessions within seconds.
    pub(super) fn start_next(
        &mut self,
        at: Timestamp,
        session: SessionNumber,
        after_nothing: bool,
    ) -> Vec<RelayEffect> {
        let next = self.fresh(session);
        if self.sessions_are_used() {
            return self.end(Outcome::SessionLimit, Next::Attempt(next));
        }
        let pause = self.settings.pause;
        let (pause, cause) = if after_nothing {
            let backoff = backoff(self.crashes_in_a_row);
            (backoff.max(pause), WaitCause::Failure)
        } else if self.settings.guided && !self.wishes.paused {
            (limits::GUIDED_COUNTDOWN.max(pause), WaitCause::Guided)
        } else {
            (pause, WaitCause::Pause)
        };
        if pause > Millis(0) {
            return self.wait(at, pause, cause, next);
        }
        self.admit(at, next)
    }

    pub(super) fn sessions_are_used(&self) -> bool {
        self.session_limit.over - self.session_limit.from >= self.session_limit.max
    }

    /// Whether another agent is to continue because it can do so sooner, given how this one ended.
    pub(super) fn gives_way(
        &mut self,
        at: Timestamp,
        cause: &EndCause,
        is_missing: bool,
        next: &NextAttempt,
    ) -> bool {
        self.look_at_agent_budgets(next);
        let permissions = &self.settings.agent.permissions;
        let waited = next.waited;
        let candidates = &mut self.candidates;
        candidates.gives_way(at, (cause, is_missing), waited, permissions)
    }

    /// The same attempt in a new conversation, such as by another agent, which does not have the old one.
    pub(super) fn by_another(&self, next: NextAttempt) -> NextAttempt {
        next.afresh(self.conversation_of(next.id))
    }

    pub(super) fn start(&mut self, at: Timestamp, next: NextAttempt) -> Vec<RelayEffect> {
        if next.purpose == Purpose::Review {
            return self.look_before_reviewer(next);
        }
        let next = self.renewed(next);
        if next.mode == StartMode::Fresh
            && let Some(agent) = self.candidates.take(at, &self.settings.agent.permissions)
        {
            let permissions = self.settings.agent.permissions.clone();
            self.settings.agent = AgentSpec {
                permissions,
                ..agent.clone()
            };
        }
        if next.id.attempt == AttemptNumber::FIRST {
            self.traces = Traces::default();
        }
        self.give_words(next.mode);
        if let Some(list) = &mut self.items {
            list.take_in_hand();
        }
        let prompt = match next.mode {
            StartMode::Resume if next.hand_off => {
                let reason = OrderReason::Context;
                Prompt::Resume(prompt::order(reason, HANDOFF_DIR, &self.settings.marker))
            }
            StartMode::Resume => Prompt::Resume(prompt::resume_note()),
            StartMode::Fresh => Prompt::Fresh(self.session_prompt(&next)),
        };
        self.start_with(next, prompt)
    }

    pub(super) fn start_with(&mut self, next: NextAttempt, prompt: Prompt) -> Vec<RelayEffect> {
        let start = StartAttempt {
            attempt: next.id,
            conversation: next.conversation,
            mode: next.mode,
            purpose: next.purpose,
            prompt: hash::sha256_hex(prompt.to_archive().as_bytes()),
        };
        let session = Session::new(next, prompt, self.share_of(&next));
        self.phase = Phase::Running(Box::new(session));
        vec![RelayEffect::Publish, RelayEffect::StartAttempt(start)]
    }

    pub(super) fn fresh(&self, session: SessionNumber) -> NextAttempt {
        let id = AttemptId::first(session);
        let conversation = self.conversation_of(id);
        NextAttempt {
            id,
            purpose: Purpose::Work,
            conversation,
            mode: StartMode::Fresh,
            hand_off: false,
            failures: 0,
            waited: Millis(0),
            consumed: Consumed::default(),
        }
    }

    /// The conversation that an attempt begins. Each stage of a run has its own.
    pub(super) fn conversation_of(&self, attempt: AttemptId) -> ConversationId {
        attempt.conversation(&self.run, &self.stage.id)
    }

    /// The attempt after one that did not finish its session. The conversation continues if the agent kept it
    /// and it has room; from L2 on it only hands off.
    pub(super) fn again(
        &self,
        session: &Session,
        ended: &AttemptEnded,
        class: EndClass,
    ) -> NextAttempt {
        let before = &session.attempt;
        // A limit that cuts off a resumption leaves the conversation as it was, and so does the death of an engine, or a
        // process that never ran.
        let is_lost = ended.cause == EndCause::EngineLost;
        let untouched = class == EndClass::Wait || is_lost || session.process.is_none();
        let kept = ended.resumable || (before.mode == StartMode::Resume && untouched);
        let kept = kept && !session.is_elsewhere;
        let (is_late, usage_tokens) = (session.is_late(), ended.counters.usage_tokens);
        let room = !is_late || session.has_room(usage_tokens);
        let goes_on = kept && room && !ended.cause.spoils_conversation();
        let failed = class == EndClass::Retry && !is_lost;
        let waited = if ended.counters.tool_calls == 0 {
            before.waited
        } else {
            Millis(0)
        };
        let next = NextAttempt {
            id: before.id.again(),
            mode: StartMode::Resume,
            hand_off: is_late || session.is_compacted(),
            failures: before.failures + u32::from(failed),
            waited,
            consumed: session.consumed(&ended.counters),
            ..*before
        };
        match goes_on {
            true => next,
            false => self.by_another(next),
        }
    }

    /// The prompt of the current attempt. It follows from state, so a restarted engine makes the same bytes.
    pub fn prompt(&self) -> Option<&Prompt> {
        self.at_work().map(|session| &session.prompt)
    }

    /// The handoff protocol: the same bytes for every session of the run.
    pub fn protocol(&self) -> String {
        let ordering = if self.settings.agent.kind.takes_messages() {
            prompt::Ordering::Message
        } else {
            let items = match self.items {
                Some(_) => 1,
                None => limits::ITEMS_A_SESSION,
            };
            prompt::Ordering::ByItems(items)
        };
        prompt::protocol(&prompt::ProtocolSlots {
            handoff_dir: HANDOFF_DIR,
            marker: &self.settings.marker,
            ordering,
        })
    }

    fn session_prompt(&self, next: &NextAttempt) -> PromptBlocks {
        let check = self.stage.verification.as_ref().map(Verification::in_lines);
        let input = SessionInput {
            number: next.id.session,
            task: &self.task_for_prompt(),
            knowledge: &self.knowledge,
            measured: Some(&self.measured()),
            notes: self.last.as_ref().map(|last| &last.notes),
            check: check.as_deref(),
            slots: &self.sections_of(next),
        };
        let Some(member) = &self.member else {
            return prompt::session_prompt(&input);
        };
        let stage = StageInput {
            id: &self.stage.id,
            name: &self.stage.task_name,
            outputs: &self.stage.part.outputs,
            context: &member.context,
        };
        prompt::stage_prompt(&input, &stage)
    }

    /// The task without a long list. An agent reads that list in the work dir, so it must be there.
    fn task_for_prompt(&self) -> Cow<'_, str> {
        let survey = self.seen.survey.as_ref();
        match survey.is_some_and(|survey| self.items.is_some() && survey.items.is_some()) {
            true => without_long_list(&self.stage.task),
            false => self.stage.task.as_str().into(),
        }
    }

    fn sections_of(&self, next: &NextAttempt) -> Vec<PromptSection> {
        let mut sections = self.sections.clone();
        let of_stage = self.member.iter().flat_map(|member| &member.sections);
        sections.extend(of_stage.cloned());
        let in_hand = self.item_in_hand();
        sections.extend(in_hand.map(|(_, item, _)| PromptSection::Item {
            text: item.text.clone(),
            which: self.items.as_ref().and_then(ItemList::which),
            again: item.tries > 0,
        }));
        if self.items.as_ref().is_some_and(ItemList::is_done) {
            sections.push(PromptSection::AllTicked);
        }
        if self.settings.subagents || self.is_item_large() {
            sections.push(PromptSection::Delegation);
        }
        if next.id.attempt > AttemptNumber::FIRST {
            sections.push(PromptSection::Interrupted);
        }
        sections.extend(self.remembered(next.id.session, &sections));
        sections
    }

    /// Whether the current item's session is asked to use subagents.
    pub fn is_item_large(&self) -> bool {
        let percents = self.item_percents();
        percents.is_some_and(|percents| percents.p50 >= CONSIDER_PERCENT)
    }

    /// Something for the next session. The newest of a kind takes the place of older ones.
    pub(super) fn tell(&mut self, section: PromptSection) {
        let kind = std::mem::discriminant(&section);
        self.sections
            .retain(|old| std::mem::discriminant(old) != kind);
        self.sections.push(section);
    }

    /// The first session of a run or stage learns what was there before the run; later ones can ask.
    fn remembered(
        &self,
        session: SessionNumber,
        sections: &[PromptSection],
    ) -> Option<PromptSection> {
        let memory = &self.settings.memory;
        if session > SessionNumber::FIRST {
            let mends = sections.iter().any(PromptSection::comes_first);
            let asks = self.settings.agent.kind == AgentKind::Claude && !mends;
            return memory.tools.filter(|_| asks).map(PromptSection::Query);
        }
        let recent = Some(memory.recent.clone()).filter(|recent| !recent.is_empty());
        recent.map(PromptSection::Remembered)
    }

    fn measured(&self) -> Measured {
        let survey = self.seen.survey.clone().unwrap_or_default();
        let verification = self.stage.verification.as_ref();
        let command = verification.map(|check| check.in_lines().replace('\n', "; "));
        let last = self.last.as_ref();
        let open_items = last.and_then(|last| last.open_items.as_ref());
        let mut files = survey.changed();
        files.sort_by_key(|line| self.seen.was_open(line));
        Measured {
            files,
            commits: survey.commits,
            check: command.zip(self.seen.check.as_ref().map(ToString::to_string)),
            open_items: open_items.map(OpenItems::counts),
            vanished: last.map(|last| last.vanished.clone()).unwrap_or_default(),
            stashed: self.seen.stashed(),
            begins: self.totals.sessions == 0,
        }
    }
}
