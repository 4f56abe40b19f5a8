//! A session that a person started, watched through its hooks.
//!
//! Such a session has no engine. Whichever hook process holds its lock folds [`Watch`] from the session's
//! log, asks [`decide`] what to do at this [`Moment`], appends the events and acts.

mod batch;
mod decide;
mod moment;
mod state;
#[cfg(test)]
mod tests;

pub use batch::{BatchCall, judge_batch};
pub use decide::{Alert, Decision, HandoffTime, Refusal, WatchSettings, decide};
pub use moment::{Batch, Moment, Source};
pub use state::{LastCheckpoint, Phase, Taken, Watch, WatchEvent, WatchRecord};
