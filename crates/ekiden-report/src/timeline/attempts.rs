//! The part of the fold that handles attempts.

use ekiden_core::budget::Mark;
use ekiden_core::effect::{StartAttempt, StartMode};
use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::event::{AttemptEnded, AttemptEvent};
use ekiden_core::handoff::{Fault, Handoff, OpenItems};
use ekiden_core::ids::{AttemptId, StageId};
use ekiden_core::prompt::{Author, Notes};
use ekiden_core::relay::{Purpose, Relay};
use ekiden_core::text::short;

use super::fold::ever_known;
use super::words::HANDOFFS_KEPT;
use super::{
    Attempt, AttemptEnd, Crossing, End, Kind, Learned, Left, Session, Timeline, WORDS_CHARS_MAX,
    Words, cautions,
};

impl Timeline {
    /// The agent of the attempt reports what it does.
    pub fn is_heard(&self, stage: &StageId, id: AttemptId) -> bool {
        let place = self.index.get(stage).copied();
        let mut sessions = place
            .map_or(&[][..], |place| &self.stages[place].sessions)
            .iter();
        let session = sessions.rfind(|session| session.number == id.session.get());
        session.is_some_and(|session| session.hears(id.attempt))
    }

    pub(super) fn of_attempt(
        &mut self,
        place: usize,
        relay: &Relay,
        id: AttemptId,
        event: &AttemptEvent,
    ) {
        let at = self.last;
        let number = id.session.get();
        let note = |kind: Kind, why: String| Some((kind, why));
        let Some(attempt) = self.attempt(place, id) else {
            return;
        };
        let noted = match event {
            AttemptEvent::WindowChanged { window, model } => {
                attempt.window = Some(*window);
                attempt.model = model.clone().or(attempt.model.take());
                None
            }
            AttemptEvent::LevelCrossed {
                level,
                usage_tokens,
                ..
            }
            | AttemptEvent::BaselineMeasured {
                level,
                usage_tokens,
                ..
            } => {
                let crossing = Crossing {
                    at,
                    level: *level,
                    usage_tokens: *usage_tokens,
                };
                attempt.crossings.push(crossing);
                None
            }
            AttemptEvent::Compacted { usage_tokens } => {
                let tokens = crate::phrase::tokens(*usage_tokens);
                note(
                    Kind::Compaction,
                    format!("the agent summarised its conversation at {tokens} tokens"),
                )
            }
            AttemptEvent::RefusalsSpent => note(
                Kind::Refusals,
                "calls were refused at L3, and it still did not hand off".to_owned(),
            ),
            AttemptEvent::SpendCrossed { crossing } => match crossing.mark {
                Mark::Nearly => None,
                Mark::Spent | Mark::Beyond => note(
                    Kind::Spent,
                    "it used all that it may; its turn was ended".to_owned(),
                ),
            },
            AttemptEvent::Ended(ended) => {
                attempt.end = Some(End::of(at, ended));
                return self.attempt_ended(place, relay, id, ended);
            }
            AttemptEvent::Started { .. }
            | AttemptEvent::Answered { .. }
            | AttemptEvent::MessageDelivered
            | AttemptEvent::StopAsked { .. }
            | AttemptEvent::TurnEnded { .. } => None,
        };
        if let Some((kind, why)) = noted {
            self.note(Some(place), Some(number), kind, why);
        }
    }

    fn attempt_ended(&mut self, place: usize, relay: &Relay, id: AttemptId, ended: &AttemptEnded) {
        let number = id.session.get();
        if let Some(began) = self.attempt(place, id).map(|attempt| attempt.began) {
            self.count_unseen(began, began + ended.counters.duration);
        }
        self.learn(place, number, relay);
        let end = AttemptEnd::of(relay, id.session, ended);
        if end.left == Left::Nothing && ended.cause == EndCause::EngineLost {
            let why = "ekiden was killed, and the keeper ended the agent".to_owned();
            self.note(Some(place), Some(number), Kind::Lost, why);
        } else if end.left == Left::Nothing && ended.cause.class() == EndClass::Retry {
            let why = ended.cause.to_string();
            self.note(Some(place), Some(number), Kind::Failed, why);
        }
        for why in cautions(ended) {
            self.note(Some(place), Some(number), Kind::Caution, why);
        }
        let left = end.handoff.as_ref().unwrap_or_else(|rest| rest);
        if end.is_rescued {
            let why = format!("{}: {}", ended.cause, faults(left));
            self.note(Some(place), Some(number), Kind::Rescue, why);
        }
        if !ended.traces.denied.is_empty() {
            let rules = ended.traces.denied.join(", ");
            let why = format!("rules that would allow them: {rules}");
            self.note(Some(place), Some(number), Kind::Denied, why);
        }
        if let Some(session) = self.session(place, Some(number)) {
            session.left = Some(end.left);
            session.is_rescued |= end.is_rescued;
            session.items = left.open_items.as_ref().map(OpenItems::counts);
            session.words = Some(match relay.found() {
                Some(findings) => Words::of_reviewer(findings),
                // Until the relay has accepted it.
                None => Words::of(&Notes {
                    by: Author::Agent,
                    progress: left.progress.clone(),
                    next_prompt: left.next_prompt.clone(),
                }),
            });
        }
    }

    /// The facts that came with the end of a session are the newest ones.
    fn learn(&mut self, stage: usize, session: u32, relay: &Relay) {
        let added = ever_known(relay).saturating_sub(self.stages[stage].known);
        let facts = &relay.knowledge.core;
        let new = facts.iter().skip(facts.len().saturating_sub(added));
        self.learned.extend(new.map(|fact| Learned {
            stage,
            session,
            fact: short(&fact.text, WORDS_CHARS_MAX),
        }));
    }

    pub(super) fn started(&mut self, place: usize, start: &StartAttempt, relay: Option<&Relay>) {
        let (at, number) = (self.last, start.attempt.session.get());
        let agent = relay.map(Relay::agent);
        let sessions = &mut self.stages[place].sessions;
        if sessions.last().is_none_or(|last| last.number != number) {
            sessions.push(Session {
                number,
                began: at,
                is_review: start.purpose == Purpose::Review,
                // Most sessions have one, and a vector would reserve room for four.
                attempts: Vec::with_capacity(1),
                ..Session::default()
            });
            let old = sessions.len().checked_sub(HANDOFFS_KEPT + 1);
            if let Some(old) = old {
                sessions[old].words = None;
            }
        }
        if let Some(session) = sessions.last_mut() {
            session.agent = relay.and_then(Relay::one_of_several);
            session.attempts.push(Attempt {
                number: start.attempt.attempt.get(),
                began: at,
                resumes: start.mode == StartMode::Resume,
                is_heard: agent.is_some_and(|agent| agent.kind.takes_messages()),
                model: agent.and_then(|agent| agent.model.clone()),
                ..Attempt::default()
            });
        }
    }
}

fn faults(rest: &Handoff) -> String {
    match rest.faults.as_slice() {
        [] => "no handoff".to_owned(),
        faults => faults
            .iter()
            .map(Fault::name)
            .collect::<Vec<_>>()
            .join("; "),
    }
}
