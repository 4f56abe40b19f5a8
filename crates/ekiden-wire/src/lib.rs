//! The agents' formats, pure: what they write, what we write to them, and what their ends mean.
//!
//! ```text
//!  bytes ─► lines ─► stream ─► ClientEvent ─┬─► usage   how full the context is, what it cost
//!           (bounded)  (typed)              ├─► ends    why the attempt is over
//!                                           └─► trace   what a rescue handoff is made from
//!  control ─► lines for the agent            agent_side: the agent's end of the same formats
//! ```
//!
//! Nothing here waits, and the only IO is through a reader that the caller passes in. No input causes a panic,
//! and [`limits`] bounds what is kept. What an agent says of itself in prose decides nothing: only structured
//! fields do.
//!
//! What must not be known here: files, processes, time, async, what a run does with an event.

pub mod acp;
pub mod agent_side;
pub mod client_settings;
pub mod codex;
pub mod consent;
pub mod context_usage;
pub mod control;
pub mod done;
pub mod ends;
mod excerpt;
pub mod hook_output;
pub mod hooks;
mod json;
pub mod limits;
pub mod lines;
pub mod reading;
pub mod recall;
pub mod requests;
pub mod rpc;
mod rules;
pub mod saved;
mod shell_line;
pub mod spending;
pub mod status_line;
pub mod stream;
pub mod tools;
pub mod trace;
pub mod transcript;
pub mod typed_line;
pub mod usage;

#[cfg(test)]
mod tests;
