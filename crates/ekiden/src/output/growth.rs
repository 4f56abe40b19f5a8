//! How fast a context grows.

use std::collections::VecDeque;

use ekiden_core::time::{Millis, Timestamp};

/// How far back to look.
const SPAN: Millis = Millis::from_secs(5 * 60);
/// Over a shorter time a rate would be meaningless.
const SPAN_MIN: Millis = Millis::from_secs(20);

/// The sizes of a context in the last minutes.
#[derive(Debug, Clone, Default)]
pub struct Growth {
    samples: VecDeque<(Timestamp, u64)>,
}

impl Growth {
    pub fn take(&mut self, at: Timestamp, tokens: u64) {
        // It was compacted: earlier values no longer mean anything.
        if self.samples.back().is_some_and(|last| tokens < last.1) {
            self.samples.clear();
        }
        self.samples.push_back((at, tokens));
        while self
            .samples
            .front()
            .is_some_and(|first| at.since(first.0) > SPAN)
        {
            self.samples.pop_front();
        }
    }

    pub fn per_minute(&self) -> Option<u64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        let span = last.0.since(first.0);
        let grown = (last.1 - first.1) * 60_000;
        (span >= SPAN_MIN).then(|| grown / span.0.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-01
    #[test]
    fn the_rate_is_that_of_the_last_minutes() {
        let mut growth = Growth::default();
        let mut rate = |secs: u64, tokens| {
            growth.take(Timestamp(secs * 1000), tokens);
            growth.per_minute()
        };
        assert_eq!(rate(0, 10_000), None);
        assert_eq!(rate(10, 11_000), None);
        assert_eq!(rate(60, 14_000), Some(4_000));
        assert_eq!(rate(301, 14_000), Some(618));
        assert_eq!(rate(310, 2_000), None);
        assert_eq!(rate(370, 3_000), Some(1_000));
    }
}
