//! Points in time and lengths of time, as numbers that arrive inside events.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Milliseconds since 1970-01-01T00:00:00Z, by the wall clock.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

/// A length of time in milliseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(transparent)]
pub struct Millis(pub u64);

impl Millis {
    /// This many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs * 1000)
    }

    /// Whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }
}

/// Rounded to what matters: `350ms`, `41s`, `14m`, `2h 51m`.
impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = (self.0 + 500) / 1000;
        match (self.0, secs) {
            (0..1000, _) => write!(f, "{}ms", self.0),
            (_, 0..120) => write!(f, "{secs}s"),
            (_, 120..3600) => write!(f, "{}m", (secs + 30) / 60),
            (_, _) => write!(f, "{}h {:02}m", secs / 3600, secs % 3600 / 60),
        }
    }
}

impl From<Millis> for u64 {
    fn from(millis: Millis) -> Self {
        millis.0
    }
}

impl From<Millis> for std::time::Duration {
    fn from(millis: Millis) -> Self {
        Self::from_millis(millis.0)
    }
}

impl From<std::time::Duration> for Millis {
    fn from(length: std::time::Duration) -> Self {
        Self(u64::try_from(length.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Timestamp {
    /// A time of the system; none before 1970.
    pub fn of_system(time: std::time::SystemTime) -> Option<Self> {
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(Self(Millis::from(since).0))
    }

    /// The time from `earlier` to here; nothing if the clock went backwards.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }

    /// The point in time, or the last one that there is a date for.
    pub fn instant(self) -> jiff::Timestamp {
        let millis = i64::try_from(self.0).unwrap_or(i64::MAX);
        jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX)
    }

    /// The date in UTC, such as `2026-11-21`.
    pub fn date(self) -> String {
        self.instant().strftime("%Y-%m-%d").to_string()
    }

    /// Reads a date and time such as `2026-11-21T14:05:00.250Z`; none if it is something else.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        u64::try_from(at.as_millisecond()).ok().map(Self)
    }

    /// Reads the date of a mail or an HTTP header, such as `Tue, 24 Nov 2026 11:02:43 GMT`.
    pub fn parse_rfc2822(text: &str) -> Option<Self> {
        let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        u64::try_from(at.as_millisecond()).ok().map(Self)
    }

    /// Date and time in UTC to the second, such as `2026-11-21T14:05:00Z`.
    pub fn rfc3339(self) -> String {
        let at = self.instant();
        at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

impl Add<Millis> for Timestamp {
    type Output = Self;

    fn add(self, length: Millis) -> Self {
        Self(self.0.saturating_add(length.0))
    }
}

impl Sub<Millis> for Timestamp {
    type Output = Self;

    fn sub(self, length: Millis) -> Self {
        Self(self.0.saturating_sub(length.0))
    }
}
