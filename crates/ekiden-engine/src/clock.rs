//! The clock, in one place.

use ekiden_core::time::Timestamp;

/// Tells the time.
pub trait Clock {
    /// The wall clock's time.
    fn now(&self) -> Timestamp;
}

/// The system's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place where the clock is read")]
    fn now(&self) -> Timestamp {
        let millis = jiff::Timestamp::now().as_millisecond();
        Timestamp(u64::try_from(millis).unwrap_or(0))
    }
}
