//! The keeper on real processes: what it promises when anything is killed, and what it passes on.

// Much here looks into `/proc`, and macOS promises less.
#![cfg(target_os = "linux")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests start the actor, write files and read the clock"
)]

mod child;
mod exec;
mod kills;
mod stage;
mod tasks;
