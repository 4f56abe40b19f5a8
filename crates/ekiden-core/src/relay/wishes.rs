//! What people ask for while a run is in progress: to stop or pause it, words for the next session, and other
//! limits.
//!
//! **Pause**: no agent starts until an unpause. The current attempt continues to its end, and ekiden looks at
//! its results and verifies as usual. Whatever would start then is held, even a second attempt at the same
//! session: people pause because they want the work tree or the budget for themselves. Waits continue
//! meanwhile, and are held when they are over. A pause survives the engine, since it is in the log. It ends
//! with an unpause, or when a run that ended for another reason is resumed: a person who resumes a run wants
//! it to continue.
//!
//! **Words** are kept until a conversation begins that can get them. They do not interrupt a working session,
//! and a continued conversation does not get them. They appear in one prompt, as the user's own, and again until a
//! session has handed off.
//!
//! **Limits** apply at once, to the working session too: its budget is measured again, and its time ends when
//! the new limit says so. They also end, shorten or extend a wait that has begun.
//!
//! A guided relay counts down before each session except the first, so that people have a moment for this.
//! Saying something during the countdown holds it: that is a pause, and ends like one.

use super::{Next, NextAttempt, Phase, Relay};
use crate::bounds::OnRateLimit;
use crate::effect::{RelayEffect, StartMode};
use crate::handoff::HandoffFile;
use crate::limits;
use crate::outcome::{Outcome, WaitCause};
use crate::prompt::budget::Keep;
use crate::prompt::quote::quoted_within;
use crate::prompt::{OrderReason, PromptSection, is_comment, is_of_stranger};
use crate::settings::LimitsChanged;
use crate::steering::StopRequest;
use crate::text;
use crate::time::{Millis, Timestamp};

/// How much of its question an answer repeats, in tokens.
const QUESTION_TOKENS_MAX: usize = 1_000;

/// What people asked for that is not done yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wishes {
    pub stop: Option<StopRequest>,
    /// Nothing may begin.
    pub paused: bool,
    /// The user has edited the task, and no session has begun since.
    pub(super) task_edited: bool,
    /// Words for the next session to begin.
    pub words: Vec<String>,
}

impl Relay {
    /// Orders the handoff of the current session, if there is one without an order.
    pub(crate) fn hand_off(&mut self) -> Vec<RelayEffect> {
        let Phase::Running(session) = &mut self.phase else {
            return Vec::new();
        };
        let effect = session.order(OrderReason::Asked, &self.settings);
        session.tell(effect)
    }

    /// Holds every start from now on. A relay that has ended ignores it.
    pub fn pause(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        self.wishes.paused = self.outcome().is_none();
        // A countdown is held at once: a person who pauses it has something to say.
        let Some(next) = self.waits_for(WaitCause::Guided) else {
            return Vec::new();
        };
        self.count_waiting(at);
        self.hold_back(at, next)
    }

    pub fn unpause(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        self.wishes.paused = false;
        let Phase::Paused { next, .. } = self.phase else {
            return Vec::new();
        };
        self.count_waiting(at);
        self.admit(at, next)
    }

    /// Holds the next start. Published files are made durable, as always before a person may edit them.
    pub(super) fn hold_back(&mut self, at: Timestamp, next: NextAttempt) -> Vec<RelayEffect> {
        self.phase = Phase::Paused { since: at, next };
        vec![RelayEffect::PublishDurably]
    }

    pub(super) fn waits_for(&self, why: WaitCause) -> Option<NextAttempt> {
        let Phase::Waiting { cause, next, .. } = self.phase else {
            return None;
        };
        (cause == why).then_some(next)
    }

    pub fn waits(&self, why: WaitCause) -> bool {
        self.waits_for(why).is_some()
    }

    /// A wait or a pause ends now: a wait was counted as a whole when it began, a pause was not counted.
    pub(super) fn count_waiting(&mut self, at: Timestamp) {
        let waiting = &mut self.totals.waiting.0;
        if let Phase::Waiting { until, .. } = self.phase {
            *waiting = waiting.saturating_sub(until.since(at).0);
        }
        if let Phase::Paused { since, .. } = self.phase {
            *waiting = waiting.saturating_add(at.since(since).0);
        }
    }

    /// Keeps words for the next session to begin. Words without room are left out whole, as [`Wishes::words`] shows.
    /// A comment on the issue does not hold the countdown: nobody may be there to end the pause.
    pub(crate) fn instruct(&mut self, at: Timestamp, words: &str) -> Vec<RelayEffect> {
        let words = text::clean(words).text.trim().to_owned();
        let is_comment = is_comment(&words);
        if !words.is_empty() && make_room(&mut self.wishes.words, &words) {
            self.wishes.words.push(words);
        }
        match is_comment {
            true => Vec::new(),
            false => self.hold_countdown(at),
        }
    }

    /// Puts the answer to the question with which the relay ended into the next prompt as the user's words,
    /// before any others.
    pub(super) fn take_answer(&mut self, words: &str) {
        let Some(Outcome::Blocked { question }) = self.outcome() else {
            return;
        };
        let whole = HandoffFile::Progress.published();
        let question = quoted_within(question, QUESTION_TOKENS_MAX, Keep::Ends, whole);
        let words = answer(words);
        let answered = format!("Answer to this question:\n{question}{words}");
        self.answer = Some(words);
        self.wishes.words.insert(0, answered);
    }

    /// Whether this was its last answer. A question that has an answer takes no other.
    pub fn has_taken(&self, words: &str) -> bool {
        self.answer.as_ref() == Some(&answer(words))
    }

    /// A person changes limits. Sessions count afresh only if the change gives their number.
    pub(crate) fn limit(&mut self, at: Timestamp, limits: &LimitsChanged) -> Vec<RelayEffect> {
        let pause = self.settings.pause;
        self.change_limits(limits, false);
        let timeout = self.settings.bounds.session_timeout;
        let share = self
            .at_work()
            .map(|session| self.share_of(&session.attempt));
        if let (Phase::Running(session), Some(share)) = (&mut self.phase, share) {
            session.share = share;
            if limits.bounds.session_timeout.is_some() {
                session.limit_time(timeout);
            }
        }
        self.wait_by_new_limits(at, limits, pause)
    }

    /// Applies changed limits to a wait that has begun. `pause` is the pause between sessions before the change.
    pub(super) fn wait_by_new_limits(
        &mut self,
        at: Timestamp,
        limits: &LimitsChanged,
        pause: Millis,
    ) -> Vec<RelayEffect> {
        let Phase::Waiting {
            cause, until, next, ..
        } = self.phase
        else {
            return Vec::new();
        };
        let (bounds, wait_max) = (&limits.bounds, limits.wait_max);
        match (cause, limits.pause) {
            (WaitCause::QuietHours, _) if bounds.quiet_hours.is_some() => {
                self.count_waiting(at);
                self.admit(at, next)
            }
            (WaitCause::Pause, Some(new)) => {
                self.count_waiting(at);
                let rest = until.since(at).0.saturating_add(new.0);
                match rest.saturating_sub(pause.0) {
                    0 => self.admit(at, next),
                    rest => self.wait(at, Millis(rest), cause, next),
                }
            }
            (WaitCause::UsageLimit, _) if bounds.on_rate_limit == Some(OnRateLimit::Stop) => {
                self.count_waiting(at);
                self.end(Outcome::RateLimited { until }, Next::Attempt(next))
            }
            (WaitCause::UsageLimit, _) if wait_max.is_some_and(|max| next.waited > max) => {
                self.count_waiting(at);
                self.end(Outcome::LimitTooFar { until }, Next::Attempt(next))
            }
            (WaitCause::UsageLimit, _) if !bounds.agents.is_empty() => {
                self.start_with_new_budget(at, until, next)
            }
            _ => self.hold_countdown(at),
        }
    }

    /// An agent that had spent its budget has more of it: if it is free, the next session need not wait for another
    /// one's usage limit.
    fn start_with_new_budget(
        &mut self,
        at: Timestamp,
        until: Timestamp,
        mut next: NextAttempt,
    ) -> Vec<RelayEffect> {
        self.look_at_agent_budgets(&next);
        let permissions = &self.settings.agent.permissions;
        let others_can = self.candidates.has_others() && self.held_until(at).is_none();
        let is_free = others_can && self.candidates.free_at(at, permissions) <= at;
        let is_any_agents = next.purpose.is_work() && next.mode == StartMode::Fresh;
        if !(is_any_agents && is_free) {
            return Vec::new();
        }
        self.count_waiting(at);
        next.waited.0 = next.waited.0.saturating_sub(until.since(at).0);
        self.admit(at, next)
    }

    /// Gives a new conversation the words that were kept for it.
    pub(super) fn give_words(&mut self, mode: StartMode) {
        if mode == StartMode::Resume || self.wishes.words.is_empty() {
            return;
        }
        let mut words = std::mem::take(&mut self.wishes.words);
        let own = words.iter().filter(|words| !is_of_stranger(words));
        self.told.extend(own.cloned());
        while self.told.len() > 1 && chars(self.told.iter()) > 4 * limits::OPERATOR_CHARS_MAX {
            self.told.remove(0);
        }
        self.sections.retain(|section| {
            let PromptSection::Operator(given) = section else {
                return true;
            };
            if chars(words.iter().chain([given])) <= 2 * limits::OPERATOR_CHARS_MAX {
                words.insert(0, given.trim_end().to_owned());
            }
            false
        });
        self.sections
            .push(PromptSection::Operator(words.join("\n")));
    }

    fn hold_countdown(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        match self.waits_for(WaitCause::Guided) {
            Some(_) => self.pause(at),
            None => Vec::new(),
        }
    }
}

/// Removes comments by strangers, the oldest ones first, until a prompt has room for these words, too. If it would have
/// none without them either, removes nothing and returns false.
pub(crate) fn make_room(kept: &mut Vec<String>, words: &str) -> bool {
    let room = limits::OPERATOR_CHARS_MAX.checked_sub(words.chars().count());
    let own = kept.iter().filter(|words| !is_of_stranger(words));
    let Some(room) = room.filter(|room| chars(own) <= *room) else {
        return false;
    };
    while chars(kept.iter()) > room {
        let comment = kept.iter().position(|words| is_of_stranger(words));
        comment.map(|at| kept.remove(at));
    }
    true
}

/// How long the words are together, one on a line.
fn chars<'a>(words: impl Iterator<Item = &'a String>) -> usize {
    words.map(|words| words.chars().count() + 1).sum()
}

/// An answer as the next session reads it.
fn answer(words: &str) -> String {
    let words = text::clean(words).text;
    let words: String = words.chars().take(limits::OPERATOR_CHARS_MAX).collect();
    words.trim().to_owned()
}
