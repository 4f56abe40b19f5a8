//! The background process that sends what waits.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use ekiden_agent::detached;
use ekiden_engine::clock::{Clock as _, SystemClock};
use ekiden_store::outbox::Outbox;
use ekiden_tracker::standing;

use super::Trackers;
use crate::failure::Failure;

/// The first argument of that process.
pub const ROLE: &str = "__tracker";
/// How long it waits for another sender: that one may have looked before there was something to send.
const LOCK_PATIENCE: Duration = Duration::from_secs(60);
/// Rounds of one process, and the pause between them. What fails longer is left to the next one.
const ROUNDS: u32 = 4;
const PAUSE: Duration = Duration::from_secs(12);

/// Has a separate process send what waits; it outlives this one.
pub fn begin(dir: &Path) -> io::Result<()> {
    let own = ekiden_agent::keeper::path_of_executable()?;
    detached::start(&own, &[OsString::from(ROLE)], dir).map(drop)
}

/// That process: sends what is due, and checks a few more times.
pub fn run() {
    let trackers = std::env::current_dir()
        .ok()
        .and_then(|dir| Trackers::of_project(&dir).ok());
    if let Some(trackers) = trackers {
        for round in 0..ROUNDS {
            if round > 0 {
                thread::sleep(PAUSE);
            }
            // Failures are noted in the outbox.
            if trackers.drain(LOCK_PATIENCE).unwrap_or(true) {
                break;
            }
        }
    }
}

impl Trackers {
    /// Starts sending what is due, in the background. A run that is over sends nothing more itself.
    pub fn send_what_is_due(&self) {
        let standing = |outbox: Outbox| standing(&outbox, SystemClock.now()).ok();
        if self
            .outbox()
            .and_then(standing)
            .is_some_and(|all| all.is_due)
        {
            // It is tried again at the next round.
            let _ = begin(&self.dir);
        }
    }

    /// Sends what is due. Returns whether nothing waits any more.
    pub(super) fn drain(&self, patience: Duration) -> Result<bool, Failure> {
        let Some(outbox) = self.outbox() else {
            return Ok(true);
        };
        let Some(_sending) = outbox.lock(patience)? else {
            return Ok(true);
        };
        let now = SystemClock.now();
        self.send(&outbox, now, false)?;
        Ok(standing(&outbox, now)?.waiting.is_empty())
    }
}
