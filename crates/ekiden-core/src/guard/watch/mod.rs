//! A session that a person started, watched through its hooks.
//!
//! Such a session has no engine. The hook process that holds the session's lock folds [`Watch`] from its log,
//! asks [`decide`] what to do at this [`Trigger`], appends the events and acts.

mod batch;
mod decide;
mod quiet;
mod state;
#[cfg(test)]
mod tests;

pub use batch::{Batch, BatchCall, judge_batch};
pub use decide::{Alert, Decision, HandoffTime, Source, Trigger, WatchSettings, decide};
pub use quiet::QuietRange;
pub use state::{Armed, LastCheckpoint, Phase, Taken, Watch, WatchEvent, WatchRecord};
