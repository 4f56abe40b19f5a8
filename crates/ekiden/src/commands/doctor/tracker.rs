//! Checks with one harmless request whether the project's tracker accepts the key.

use super::Check;
use crate::output::line::one_line;
use crate::tracker::Trackers;

/// None if no tracker is set. A run never fails because of it.
pub(super) fn check(trackers: &Trackers) -> Option<Check> {
    let kind = trackers.kind()?;
    let asked = trackers.open_project(kind);
    Some(match asked.and_then(|tracker| tracker.check()) {
        Ok(who) => Check::ok("tracker", format!("{}: {}", kind.name(), one_line(&who))),
        Err(fault) => Check::warning(
            "tracker",
            format!("{}: {fault}", kind.name()),
            "until then nothing begins on an issue, and what runs write waits: `ekiden tracker status`",
        ),
    })
}
