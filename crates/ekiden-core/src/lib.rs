//! The pure model of ekiden: what a run is, and what to do next.
//!
//! Nothing here reads a file, asks the clock, draws a random number or waits. Time, ids and the
//! outcomes of effects arrive inside events; [`run::Run::step`] answers with effects. So a run can be
//! replayed from its log, and every rule can be tested without a process or a disk.
//!
//! ```text
//!            event ──► Run::step ──► effects
//!                      │
//!                      ├─ Plan    which stage may run
//!                      └─ Relay   one stage: its sessions, handoffs, verification, limits
//! ```
//!
//! This crate must not know about files, processes, clocks, async, or any agent's format.

pub mod agent;
pub mod bounds;
pub mod budget;
pub mod effect;
pub mod ends;
pub mod estimate;
pub mod event;
pub mod fallback;
pub mod guard;
pub mod handoff;
pub mod hash;
pub mod ids;
pub mod issue;
pub mod judge;
pub mod knowledge;
pub mod label;
pub mod limits;
pub mod manifest;
mod markdown;
pub mod memory;
pub mod names;
pub mod notice;
pub mod observation;
pub mod outcome;
pub mod plan;
pub mod prompt;
pub mod quiet;
pub mod ralph;
pub mod record;
pub mod relay;
pub mod renewal;
pub mod run;
pub mod secrets;
pub mod settings;
pub mod shard;
pub mod steering;
pub mod text;
pub mod time;

/// For serde: the number need not be written.
fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}
