//! The watch over a session's context: levels of use, and the ruling at each hook.
//!
//! Everything here is pure. An engine and a hook process call the same functions.
//!
//! - [`Levels`], [`Window`], [`Reading`]: how full the context is, and how fast it grows.
//! - [`ruling`]: the answer to a call that is about to run.
//! - [`watch`]: what happens in a session that a person started.
//! - [`document`], [`estimate`]: what it leaves for the next session, and whether a task has room.
//! - [`alert`], [`LineFormat`], [`CheckpointState`]: what people, agents and programs see of it.

pub mod alert;
pub mod checkpoint;
mod checkpoint_state;
pub mod document;
pub mod estimate;
mod levels;
mod reading;
mod ruling;
mod status_line;
mod test_command;
pub mod watch;

pub use checkpoint_state::CheckpointState;
pub use levels::{Level, Levels, LevelsError, Profile, Window};
pub use reading::{Direction, Reading, Sample, Trend};
pub use ruling::{Denial, GuardView, HookInput, Ruling, ToolUse, ruling, without_dots};
pub use status_line::{LineFormat, Part};
pub use test_command::runs_tests;
