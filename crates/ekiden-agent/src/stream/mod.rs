//! Agents that speak Claude Code's stream and control protocol: Claude Code itself, headless, and
//! the built-in rehearsal agent.
//!
//! ```text
//!             ┌────────────────── one task an attempt ──────────────────┐
//!  Order ───► │ Conversation: what was seen, what was asked, what is due │ ───► Report
//!             └──▲──────────────▲────────────────────────────┬──────────┘
//!             stdout         stderr                  writer task ─► stdin
//! ```
//!
//! The child's standard input is written by a task of its own, so that a client that does not read
//! can never block the one that hears it. Closing it is dropping that task's channel.

mod conversation;
mod launch;
mod link;

pub use conversation::from_saved_stream;
pub(crate) use conversation::{micro_usd, traces};
pub(crate) use launch::{CLAUDE_ENV, claude_flags};

use tokio::sync::mpsc;

use crate::attempt::{AttemptHandle, AttemptSpec, Report};

/// Starts an attempt. Returns at once; [`Report::Ended`] is the last report, whatever happens.
///
/// If the handle is dropped, the agent is terminated. If `reports` is dropped, too.
#[must_use]
pub fn start(spec: AttemptSpec, reports: mpsc::Sender<Report>) -> AttemptHandle {
    let (orders, inbox) = mpsc::unbounded_channel();
    tokio::spawn(link::run(spec, inbox, reports));
    AttemptHandle::new(orders)
}
