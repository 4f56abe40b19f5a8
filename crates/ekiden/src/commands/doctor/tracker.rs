//! Whether the project's tracker takes the key, by one harmless request; and what waits for trackers.

use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_tracker::standing;

use super::Check;
use crate::output::line::one_line;
use crate::tracker::Trackers;

/// Nothing where no tracker is set and nothing waits. A run never fails by it.
pub(super) fn check(trackers: &Trackers) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(kind) = trackers.kind() {
        let asked = trackers
            .open_project(kind)
            .and_then(|tracker| tracker.check());
        checks.push(match asked {
            Ok(who) => Check::ok("tracker", format!("{}: {}", kind.name(), one_line(&who))),
            Err(fault) => Check::warning(
                "tracker",
                format!("{}: {fault}", kind.name()),
                "issues are told later; `ekiden tracker status` shows what waits",
            ),
        });
    }
    let waiting = trackers
        .outbox()
        .and_then(|outbox| standing(&outbox, SystemClock.now()).ok());
    let waiting = waiting.map_or(0, |standing| standing.waiting.len());
    if waiting > 0 {
        let found = format!("writes that wait for trackers: {waiting}");
        checks.push(Check::warning(
            "outbox",
            found,
            "`ekiden tracker status` says why, `ekiden tracker flush` tries now",
        ));
    }
    checks
}
