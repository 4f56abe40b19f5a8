//! The clock, in one place.

use ekiden_core::time::Timestamp;

pub trait Clock {
    fn now(&self) -> Timestamp;
}

/// Local time's offset from UTC at a time, in seconds. The machine knows the zone and its rules.
pub fn utc_offset_secs(at: Timestamp) -> i32 {
    let zone = jiff::tz::TimeZone::system();
    zone.to_offset(at.instant()).seconds()
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place where the clock is read"
    )]
    fn now(&self) -> Timestamp {
        let millis = jiff::Timestamp::now().as_millisecond();
        Timestamp(u64::try_from(millis).unwrap_or(0))
    }
}
