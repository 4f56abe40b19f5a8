//! Agents that speak by lines. Claude Code itself, headless, and the built-in rehearsal agent use its stream and
//! control protocol. Others use a dialect of JSON-RPC, which becomes the same events.
//!
//! ```text
//!                    ┌───────────────── one task an attempt ─────────────────┐
//!  AgentCommand ───► │ Conversation: what was seen, what was asked, what is due │ ───► Report
//!                    └──▲──────────────▲───────────────────────────┬─────────┘
//!                    stdout         stderr                 writer task ─► stdin
//! ```
//!
//! A separate task writes the child's standard input, so that a client that does not read can never block the
//! task that listens to it. Dropping that task's channel closes the input.

mod conversation;
mod dialect;
mod driver;
mod handing_off;
mod launch;
mod saved;
mod window;

pub(crate) use driver::run;
pub(crate) use launch::{CLAUDE_ENV, OPENCODE_PLUGIN, claude_flags, id_flag};
pub use saved::from_saved_stream;
