//! What a person adds while a run is under way: words for the next session, and other limits.
//!
//! Words are kept until a conversation begins that can be given them; a session at work is not
//! interrupted, and a conversation that goes on is not told. They stand in one prompt, as the user's own,
//! and in that of each further attempt at its session. Limits hold at once, for the session at work too:
//! its budget is measured anew, and its time ends when the new limit says so.
//!
//! A guided relay counts down before each session but the first, so that there is a moment for this.
//! Whoever says something in it holds it: that is the pause of `pausing`, and ends like one.

use crate::effect::{RelayEffect, StartMode};
use crate::event::LimitsChanged;
use crate::limits;
use crate::prompt::Slot;
use crate::relay::{Phase, Relay, WaitCause};
use crate::text;
use crate::time::Timestamp;

impl Relay {
    /// A person has words for the session that begins next. Words that have no room are left out whole:
    /// [`Relay::words`] tells.
    pub(crate) fn instruct(&mut self, at: Timestamp, words: &str) -> Vec<RelayEffect> {
        let words = text::clean(words).text.trim().to_owned();
        let known: usize = self.words.iter().map(|words| words.chars().count() + 1).sum();
        if !words.is_empty() && known + words.chars().count() <= limits::OPERATOR_CHARS_MAX {
            self.words.push(words);
        }
        self.hold_countdown(at)
    }

    /// A person changes limits. Sessions count anew only if they say how many.
    pub(crate) fn limit(&mut self, at: Timestamp, limits: &LimitsChanged) -> Vec<RelayEffect> {
        self.change_limits(limits, false);
        let timeout = self.settings.bounds.session_timeout;
        let share = self.at_work().map(|session| self.share_of(&session.attempt));
        if let (Phase::Running(session), Some(share)) = (&mut self.phase, share) {
            session.share = share;
            if limits.bounds.session_timeout.is_some() {
                session.limit_time(timeout);
            }
        }
        self.hold_countdown(at)
    }

    /// Words that no session was given yet.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Somebody may say something before each session.
    #[must_use]
    pub fn is_guided(&self) -> bool {
        self.settings.guided
    }

    /// A conversation that begins is given what was said for it.
    pub(super) fn give_words(&mut self, mode: StartMode) {
        if mode == StartMode::Resume || self.words.is_empty() {
            return;
        }
        let given = self.slots.iter().find_map(|slot| match slot {
            Slot::Operator(words) => Some(words.trim_end().to_owned()),
            Slot::Conflict { .. }
            | Slot::MergeBroke { .. }
            | Slot::Retry { .. }
            | Slot::Veto { .. }
            | Slot::Repeated { .. }
            | Slot::TaskChanged
            | Slot::NewTask
            | Slot::GoneBack
            | Slot::Delegation
            | Slot::Interrupted => None,
        });
        let words: Vec<String> = given.into_iter().chain(std::mem::take(&mut self.words)).collect();
        self.slots.retain(|slot| !matches!(slot, Slot::Operator(_)));
        self.slots.push(Slot::Operator(words.join("\n")));
    }

    fn hold_countdown(&mut self, at: Timestamp) -> Vec<RelayEffect> {
        match &self.phase {
            Phase::Waiting { cause: WaitCause::Guided, .. } => self.pause(at),
            Phase::Waiting { .. }
            | Phase::Planned
            | Phase::Preparing(_)
            | Phase::Running(_)
            | Phase::Reviewing { .. }
            | Phase::Paused { .. }
            | Phase::Ended { .. } => Vec::new(),
        }
    }
}
