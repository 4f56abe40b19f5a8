//! A wait, as text: why nothing happens, until when, and what comes then.

use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::limits;
use ekiden_core::outcome::WaitCause;
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;

use super::line::{Line, Tone, one_line};
use super::phrase;
use super::shown_work_dir::ShownWorkDir;

#[derive(Debug)]
pub struct Wait<'a> {
    pub until: Timestamp,
    pub why: WaitCause,
    /// What ended the previous attempt, if that is why.
    pub cause: Option<&'a EndCause>,
    /// The session that comes next, and its attempt.
    pub next: (u32, u32),
}

/// Why there is a wait, in a few words.
pub fn why(why: WaitCause, ended: Option<&EndCause>) -> String {
    // Another stage's limit may hold a session that comes after a fine one.
    let is_why = |class: EndClass| why != WaitCause::UsageLimit || class == EndClass::Wait;
    let ended = ended.filter(|cause| is_why(cause.class()));
    let failure = |without: &str| match ended {
        // A clean end without work or handoff is a failure too.
        Some(cause) if cause.class() == EndClass::Fine => {
            format!("{} without a usable result", one_line(&cause.to_string()))
        }
        Some(cause) => one_line(&cause.to_string()),
        None => without.to_owned(),
    };
    match why {
        WaitCause::UsageLimit => failure("a usage limit is reached"),
        WaitCause::Failure => failure("the agent failed"),
        WaitCause::Pause => "the pause between sessions".to_owned(),
        WaitCause::QuietHours => "quiet hours".to_owned(),
        WaitCause::Guided => "enter pauses".to_owned(),
        WaitCause::Budget => "other stages hold what is left of the budget".to_owned(),
    }
}

impl Wait<'_> {
    pub fn lines(&self, at: Timestamp, zone: &TimeZone, there: &ShownWorkDir) -> Vec<Line> {
        let why = why(self.why, self.cause);
        let length = phrase::duration(self.until.since(at));
        let (session, then) = (self.next.0, self.then());
        let begins = format!("session {session} begins in {length}");
        let line = match self.why {
            WaitCause::UsageLimit => {
                let there = there.flag();
                let hint = format!(
                    "    `ekiden stop{there}` stops the run, `ekiden resume{there}` continues it"
                );
                let text = format!("{why}{}", self.of_limit(at, zone, &length));
                return vec![Line::attention(text), Line::new(Tone::Quiet, hint)];
            }
            WaitCause::Failure => Line::attention(format!("{why}; {then} in {length}")),
            WaitCause::QuietHours => {
                let until = phrase::future(self.until, at, zone);
                let text = format!("session {session} begins at {until}");
                Line::labelled("quiet", Tone::Quiet, text)
            }
            WaitCause::Guided => {
                Line::labelled("guided", Tone::Quiet, format!("{begins}; enter pauses"))
            }
            WaitCause::Pause => Line::labelled("pause", Tone::Quiet, begins),
            WaitCause::Budget => {
                let text = format!("session {session} waits: {why}");
                Line::labelled("budget", Tone::Quiet, text)
            }
        };
        vec![line]
    }

    /// When it continues, and how we know that.
    fn of_limit(&self, at: Timestamp, zone: &TimeZone, length: &str) -> String {
        let then = self.then();
        let future = |at_then: Timestamp| phrase::future(at_then, at, zone);
        match self.cause {
            Some(EndCause::RateLimited {
                resets_at: None, ..
            }) => format!(", and no reset time is known; {then} in {length}"),
            Some(
                EndCause::LimitKnown {
                    resets_at: reset, ..
                }
                | EndCause::RateLimited {
                    resets_at: Some(reset),
                    ..
                },
            ) if *reset > at => {
                let later = phrase::duration(limits::RESET_BUFFER);
                format!(
                    " until {}; {then} {later} later, in {length}",
                    future(*reset)
                )
            }
            Some(_) | None => format!("; {then} in {length}, at {}", future(self.until)),
        }
    }

    fn then(&self) -> String {
        match self.next {
            (session, _) if matches!(self.cause, Some(EndCause::LimitKnown { .. })) => {
                format!("session {session} starts")
            }
            (session, 1) => format!("session {session} begins"),
            (session, _) if self.why == WaitCause::UsageLimit => {
                format!("session {session} continues")
            }
            (session, attempt) => format!("session {session} is retried (attempt {attempt})"),
        }
    }
}
