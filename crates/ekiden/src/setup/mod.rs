//! Installs the guard into Claude Code and removes it: everything in `ekiden setup` except its messages.
//!
//! ```text
//!  Target ──► Plan::install │ Plan::remove ──► shown ──► Plan::apply
//!  where       reads, writes nothing                      receipt, skills, MCP server, settings
//! ```
//!
//! Invariants:
//!
//! * **A plan is complete before the first byte is written**, and what is shown is the plan. If a file
//!   cannot be understood, there is no plan.
//! * **The receipt is written first and the settings last**; removal goes in the other order. So wherever
//!   the machine stops, a second call finds everything that the first one did: no hook fires that nobody
//!   knows how to remove.
//! * **What a person made their own is left alone:** a changed skill, a command of the same name, a status
//!   line of unknown form.

mod client_mod;
mod plan;
mod program;
mod skills;
mod target;

pub use client_mod::version as mod_version;
pub use plan::{FileChange, Plan};
pub use program::own_program;
pub use target::{Scope, Target};

/// Larger than any settings file or skill that a person wrote.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The client's state file can hold years of prompts.
const STATE_BYTES_MAX: u64 = 64 * 1024 * 1024;
