//! Quiet hours: local times in which no session starts.
//!
//! The model gets local time as the offset from UTC, which the log records whenever it changes: time zone
//! rules belong to the machine, not to the log.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::time::{Millis, Timestamp};

const DAY_MINUTES: u32 = 24 * 60;
const MINUTE: u64 = 60_000;

/// Spans of local time, such as `22:00-07:00`. A span may go over midnight.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuietHours {
    spans: Vec<Span>,
}

/// From a minute of the day until another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: u32,
    until: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("quiet hours must be local times such as 22:00-07:00, and leave some of the day")]
pub struct QuietHoursError;

impl QuietHours {
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The end of the quiet hours that include a time; none outside quiet hours.
    pub fn until(&self, at: Timestamp, utc_offset_secs: i32) -> Option<Timestamp> {
        let day = u64::from(DAY_MINUTES) * MINUTE;
        let offset = i64::from(utc_offset_secs) * 1000;
        let local = (at.0 % day).wrapping_add_signed(offset.rem_euclid(day.cast_signed())) % day;
        let mut minute = u32::try_from(local / MINUTE).unwrap_or(0);
        let mut minutes = 0;
        // Each span is left at most once: together they leave some of the day.
        while let Some(span) = self.spans.iter().find(|span| span.holds(minute)) {
            minutes += u64::from((span.until + DAY_MINUTES - minute) % DAY_MINUTES);
            minute = span.until;
        }
        (minutes > 0).then(|| at + Millis((minutes * MINUTE).saturating_sub(local % MINUTE)))
    }
}

impl Span {
    fn holds(self, minute: u32) -> bool {
        if self.from <= self.until {
            (self.from..self.until).contains(&minute)
        } else {
            minute >= self.from || minute < self.until
        }
    }

    fn read(text: &str) -> Option<Self> {
        let (from, until) = text.split_once('-')?;
        let (from, until) = (minute(from)?, minute(until)?);
        (from != until).then_some(Self { from, until })
    }
}

impl FromStr for QuietHours {
    type Err = QuietHoursError;

    fn from_str(text: &str) -> Result<Self, QuietHoursError> {
        let spans: Option<Vec<Span>> = text.split(',').map(Span::read).collect();
        let spans = spans.ok_or(QuietHoursError)?;
        let is_open = |minute: u32| !spans.iter().any(|span| span.holds(minute));
        match (0..DAY_MINUTES).any(is_open) {
            true => Ok(Self { spans }),
            false => Err(QuietHoursError),
        }
    }
}

/// The minute of the day; midnight is `00:00` or `24:00`.
fn minute(text: &str) -> Option<u32> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let number = |text: &str| -> Option<u32> {
        let digits = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| digits)
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let all = hours * 60 + minutes;
    (minutes < 60 && all <= DAY_MINUTES).then_some(all % DAY_MINUTES)
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        let spans = self
            .spans
            .iter()
            .map(|span| format!("{}-{}", clock(span.from), clock(span.until)));
        f.write_str(&spans.collect::<Vec<_>>().join(","))
    }
}

impl TryFrom<String> for QuietHours {
    type Error = QuietHoursError;

    fn try_from(text: String) -> Result<Self, QuietHoursError> {
        if text.is_empty() {
            Ok(Self::default())
        } else {
            text.parse()
        }
    }
}

impl From<QuietHours> for String {
    fn from(quiet: QuietHours) -> Self {
        quiet.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21T20:04:00Z.
    const EVENING: Timestamp = Timestamp(1_795_291_440_000);

    fn wait(quiet: &str, at: Timestamp, offset_hours: i32) -> Option<Millis> {
        let quiet: QuietHours = quiet.parse().unwrap();
        quiet
            .until(at, offset_hours * 3600)
            .map(|until| until.since(at))
    }

    fn minutes(minutes: u64) -> Option<Millis> {
        Some(Millis(minutes * MINUTE))
    }

    // shows: REL-12
    #[test]
    fn hours_are_local_and_may_go_over_midnight() {
        assert_eq!(wait("22:00-07:00", EVENING, 0), None);
        assert_eq!(wait("22:00-07:00", EVENING, 2), minutes(8 * 60 + 56));
        assert_eq!(wait("20:00-21:00", EVENING, 0), minutes(56));
        assert_eq!(wait("08:00-18:00", EVENING, -6), minutes(3 * 60 + 56));
        assert_eq!(wait("20:00-20:04", EVENING, 0), None, "the end is outside");
        assert_eq!(
            wait("20:04-20:05", EVENING + Millis(30_500), 0),
            Some(Millis(29_500))
        );
    }

    // shows: REL-12
    #[test]
    fn spans_that_touch_are_one_quiet() {
        assert_eq!(
            wait("20:00-21:00, 21:00-23:30", EVENING, 0),
            minutes(3 * 60 + 26)
        );
        assert_eq!(
            wait("23:00-01:00,20:00-23:00", EVENING, 0),
            minutes(4 * 60 + 56)
        );
    }

    // shows: REL-12
    #[test]
    fn what_is_no_time_is_refused() {
        for bad in [
            "",
            "22",
            "22:00",
            "22:00-",
            "25:00-07:00",
            "22:60-07:00",
            "7-9",
            "00:00-12:00,12:00-24:00",
            "10:00-10:00",
            "022:00-07:00",
            "+2:00-07:00",
        ] {
            assert_eq!(bad.parse::<QuietHours>(), Err(QuietHoursError), "{bad}");
        }
    }

    #[test]
    fn quiet_hours_survive_the_log() {
        let quiet: QuietHours = " 22:00-7:00,12:30-13:00".parse().unwrap();
        let text = serde_json::to_string(&quiet).unwrap();
        assert_eq!(text, r#""22:00-07:00,12:30-13:00""#);
        assert_eq!(serde_json::from_str::<QuietHours>(&text).unwrap(), quiet);
        assert_eq!(
            serde_json::from_str::<QuietHours>(r#""""#).unwrap(),
            QuietHours::default()
        );
    }
}
