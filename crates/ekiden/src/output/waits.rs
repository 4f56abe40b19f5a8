//! A wait, in words: why nothing happens, until when, and what comes then.

use ekiden_core::ends::{EndCause, EndClass};
use ekiden_core::limits;
use ekiden_core::relay::WaitCause;
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;

use super::line::{Line, Tone, one_line};
use super::phrase;

/// A wait that is told.
#[derive(Debug)]
pub struct Wait<'a> {
    /// Until when.
    pub until: Timestamp,
    /// Why.
    pub why: WaitCause,
    /// What ended the attempt before, if that is why.
    pub cause: Option<&'a EndCause>,
    /// The session that comes then, and its attempt.
    pub next: (u32, u32),
}

/// Why there is a wait, in a few words.
#[must_use]
pub fn why(why: WaitCause, ended: Option<&EndCause>) -> String {
    match why {
        WaitCause::UsageLimit => ended.map_or_else(|| "a usage limit is reached".to_owned(), failure),
        WaitCause::Failure => ended.map_or_else(|| "the agent failed".to_owned(), failure),
        WaitCause::Pause => "the pause between sessions".to_owned(),
        WaitCause::QuietHours => "quiet hours".to_owned(),
        WaitCause::Guided => "enter holds it".to_owned(),
    }
}

impl Wait<'_> {
    /// The lines that stay.
    #[must_use]
    pub fn lines(&self, at: Timestamp, zone: &TimeZone) -> Vec<Line> {
        let why = why(self.why, self.cause);
        let length = phrase::duration(self.until.since(at));
        let (session, then) = (self.next.0, self.then());
        match self.why {
            WaitCause::UsageLimit => {
                let hint = "    ctrl-c stops, `ekiden resume` carries on";
                let text = format!("{why}{}", self.of_limit(at, zone, &length));
                vec![Line::attention(text), Line::new(Tone::Quiet, hint)]
            }
            WaitCause::Failure => vec![Line::attention(format!("{why}; {then} in {length}"))],
            WaitCause::QuietHours => {
                let until = phrase::future(self.until, at, zone);
                vec![Line::labelled("quiet", Tone::Quiet, format!("session {session} begins at {until}"))]
            }
            WaitCause::Guided => {
                let text = format!("session {session} begins in {length}; enter holds it");
                vec![Line::labelled("guided", Tone::Quiet, text)]
            }
            WaitCause::Pause => {
                vec![Line::labelled("pause", Tone::Quiet, format!("session {session} begins in {length}"))]
            }
        }
    }

    /// When it goes on, and how that is known.
    fn of_limit(&self, at: Timestamp, zone: &TimeZone, length: &str) -> String {
        let then = self.then();
        match self.cause {
            Some(EndCause::RateLimited { resets_at: Some(reset), .. }) if *reset > at => {
                let reset = phrase::future(*reset, at, zone);
                let later = phrase::duration(limits::RESET_BUFFER);
                format!(" until {reset}; {then} {later} later, in {length}")
            }
            Some(EndCause::RateLimited { resets_at: None, .. }) => {
                format!(", and nobody says until when; {then} in {length}")
            }
            Some(_) | None => format!("; {then} in {length}, at {}", phrase::future(self.until, at, zone)),
        }
    }

    fn then(&self) -> String {
        match self.next {
            (session, 1) => format!("session {session} begins"),
            (session, _) if self.why == WaitCause::UsageLimit => format!("session {session} goes on"),
            (session, attempt) => format!("session {session} is tried again (attempt {attempt})"),
        }
    }
}

/// An orderly end without work or handoff is a failure too.
fn failure(cause: &EndCause) -> String {
    let text = one_line(&cause.to_string());
    match cause.class() {
        EndClass::Fine => format!("{text} with nothing done"),
        EndClass::Wait | EndClass::Retry | EndClass::Stop(_) | EndClass::Left | EndClass::TooLate => text,
    }
}
