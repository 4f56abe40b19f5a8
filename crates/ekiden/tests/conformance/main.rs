//! The conformance suite: real agents other than Claude Code, each pinned in a folder of its own (`agents/`), against a fake
//! service of its own wire format on loopback. What the rest of ekiden relies on is shown for each of them by the same
//! scenarios; Claude Code and `rehearsal` have theirs in the contract tests.
//!
//! An agent that is not installed is left out, and a line on standard error says so. `cargo xtask agents` installs them
//! all and runs this.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test starts the program and may stop"
)]

mod agents;
mod scenarios;
mod stage;
