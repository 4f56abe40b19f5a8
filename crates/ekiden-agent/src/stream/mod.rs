//! Agents that speak by lines: Claude Code itself, headless, and the built-in rehearsal agent by its stream and
//! control protocol; others in a dialect of JSON-RPC, which becomes the same events.
//!
//! ```text
//!                    ┌───────────────── one task an attempt ─────────────────┐
//!  AgentCommand ───► │ Conversation: what was seen, what was asked, what is due │ ───► Report
//!                    └──▲──────────────▲───────────────────────────┬─────────┘
//!                    stdout         stderr                 writer task ─► stdin
//! ```
//!
//! The child's standard input is written by a task of its own, so that a client that does not read
//! can never block the one that hears it. Closing it is dropping that task's channel.

mod conversation;
mod dialect;
mod driver;
mod launch;
mod saved;
mod window;

pub(crate) use driver::run;
pub(crate) use launch::{CLAUDE_ENV, OPENCODE_PLUGIN, claude_flags, id_flag};
pub use saved::from_saved_stream;
