//! How the last turn failed, and until when a limit holds.
//!
//! The client's hook tells of the failure first. When a limit ends is written into the transcript with the
//! next batch of lines, usually a tenth of a second later, and not at all if the client is ended at once. So
//! after a limit the turn is over only some seconds later, beside a wait of hours, or when the client asks
//! for something and its transcript tells of the limit already.

use ekiden_core::ends::EndCause;
use ekiden_wire::ends;
use ekiden_wire::stream::{ApiErrorKind, RateLimitInfo};

/// What is known of the last turn's failure.
#[derive(Debug, Default)]
pub(super) struct Failure {
    kind: Option<ApiErrorKind>,
    limit: Option<RateLimitInfo>,
    /// The transcript has not told of the limit yet.
    waits: bool,
}

impl Failure {
    /// A hook told of it; whether that is all there is to know.
    pub(super) fn told(&mut self, kind: ApiErrorKind) -> bool {
        let limited = kind == ApiErrorKind::RateLimit;
        *self = Self { kind: Some(kind), limit: None, waits: limited };
        !limited
    }

    /// The transcript is expected to tell of the limit.
    pub(super) fn waits_for_limit(&self) -> bool {
        self.waits
    }

    /// It has told, or it is not waited for any longer.
    pub(super) fn wait_is_over(&mut self) {
        self.waits = false;
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
    fn the_transcript_is_expected_to_tell_of_a_limit() {
        let mut failure = Failure::default();
        assert!(!failure.told(ApiErrorKind::RateLimit));
        assert!(failure.waits_for_limit());
        failure.wait_is_over();
        assert!(!failure.waits_for_limit());
        assert!(matches!(failure.cause(), EndCause::RateLimited { .. }), "{:?}", failure.cause());
        failure.forget();
        assert_eq!(failure.cause(), EndCause::Completed);
    }

    #[test]
    fn no_other_failure_is_waited_for() {
        let mut failure = Failure::default();
        assert!(failure.told(ApiErrorKind::Overloaded));
        assert!(!failure.waits_for_limit());
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
