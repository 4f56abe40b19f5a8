//! Tests of the relay as short cases: settings, events, results.
//!
//! ```text
//! check("git check max=2", "survey verify:fail up L2 ...", expect![[...]])
//!        │                  └ events: one word each, see `Track::word`
//!        └ settings: one word each, see `header`
//! ```
//!
//! Each word makes one line: what was decided, and the phase if it changed. Whatever is checked, the
//! records are also written as JSON, read again and folded, and must give the same state.

mod attempts;
mod bounds;
mod budgets;
mod commits;
mod fallback;
mod guiding;
mod histories;
mod judging;
mod kept_log;
mod knowledge;
mod lists;
mod long;
mod notation;
mod notices;
mod outstanding;
mod pauses;
mod properties;
mod renewals;
mod resuming;
mod reviewers;
mod reviews;
mod stops;
mod track;
mod turns;
mod waits;

use expect_test::Expect;

use track::Track;

/// Lets the events happen and compares what followed. The first line is the beginning.
#[expect(
    clippy::needless_pass_by_value,
    reason = "`expect!` makes a value for each case"
)]
fn check(given: &str, events: &str, expected: Expect) {
    let mut track = Track::begin(given);
    track.words(events);
    expected.assert_eq(&track.told());
    track.assert_folds();
}

/// The track after these events.
fn after(given: &str, events: &str) -> Track {
    let mut track = Track::begin(given);
    track.words(events);
    track.assert_folds();
    track
}
