//! How the last turn failed, and until when a limit holds.
//!
//! The client's hook tells of the failure first. When a limit ends is written into the transcript with the
//! next batch of lines, usually a tenth of a second later, and not at all if the client is ended at once. So
//! after a limit the turn is over only when the transcript tells of it too, or when it seems that it will not.

use ekiden_core::ends::EndCause;
use ekiden_wire::ends;
use ekiden_wire::stream::{ApiErrorKind, RateLimitInfo};

/// How often the transcript is asked.
const LOOKS: u32 = 30;

/// What is known of the last turn's failure.
#[derive(Debug, Default)]
pub(super) struct Failure {
    kind: Option<ApiErrorKind>,
    limit: Option<RateLimitInfo>,
    looks_left: u32,
}

impl Failure {
    /// A hook told of it; whether that is all there is to know.
    pub(super) fn told(&mut self, kind: ApiErrorKind) -> bool {
        let limited = kind == ApiErrorKind::RateLimit;
        *self = Self { kind: Some(kind), limit: None, looks_left: if limited { LOOKS } else { 0 } };
        !limited
    }

    /// The transcript is to be asked for the limit.
    pub(super) fn looks_for_limit(&self) -> bool {
        self.looks_left > 0
    }

    /// It was asked; whether nothing more is expected of it.
    pub(super) fn looked(&mut self, limited: bool) -> bool {
        self.looks_left = if limited { 0 } else { self.looks_left.saturating_sub(1) };
        self.looks_left == 0
    }

    /// The transcript alone says whether the last turn met a limit; whether that is news.
    pub(super) fn seen(&mut self, limited: bool) -> bool {
        let news = limited && self.kind.is_none();
        self.kind = limited.then_some(ApiErrorKind::RateLimit);
        news
    }

    /// A person has spoken, and a new turn has begun.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// What the whole transcript says of the limit in the end.
    pub(super) fn limit(&mut self, limit: Option<RateLimitInfo>) {
        self.limit = limit;
    }

    /// Why a session that we ended is over.
    pub(super) fn cause(&self) -> EndCause {
        self.kind.map_or(EndCause::Completed, |kind| ends::of_failure(kind, self.limit.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: REL-11
    #[test]
    fn a_limit_is_looked_for_until_it_is_found_or_nobody_tells() {
        let mut failure = Failure::default();
        assert!(!failure.told(ApiErrorKind::RateLimit));
        assert!(failure.looks_for_limit());
        assert!(!failure.looked(false));
        assert!(failure.looked(true), "found");
        assert!(!failure.looks_for_limit());
        failure.told(ApiErrorKind::RateLimit);
        assert_eq!((1..=100).find(|_| failure.looked(false)), Some(LOOKS));
        failure.forget();
        assert_eq!(failure.cause(), EndCause::Completed);
    }

    #[test]
    fn another_failure_needs_no_look() {
        let mut failure = Failure::default();
        assert!(failure.told(ApiErrorKind::Overloaded));
        assert!(!failure.looks_for_limit());
    }

    // shows: AGT-02
    #[test]
    fn without_hooks_a_limit_is_news_once() {
        let mut failure = Failure::default();
        assert!(failure.seen(true));
        assert!(!failure.seen(true));
        assert!(matches!(failure.cause(), EndCause::RateLimited { .. }), "{:?}", failure.cause());
        assert!(!failure.seen(false));
        assert_eq!(failure.cause(), EndCause::Completed);
    }
}
