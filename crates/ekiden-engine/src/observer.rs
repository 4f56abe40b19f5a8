//! Who watches a run: the live view, the plain lines, the event lines.
//!
//! An observer sees only what is already recorded or what decides nothing. Nothing it does stops the run.

pub use ekiden_agent::attempt::Activity;
use ekiden_core::budget::Spend;
use ekiden_core::guard::Window;
use ekiden_core::ids::StageId;
use ekiden_core::record::Record;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;

pub trait Observer {
    /// A record is on the disk; the run is in the state after it.
    fn recorded(&mut self, _record: &Record, _run: &Run) {}

    fn activity(&mut self, _stage: &StageId, _activity: &Activity) {}

    /// A session's context use, in tokens.
    fn usage(&mut self, _stage: &StageId, _usage_tokens: u64, _window: Window) {}

    /// What a session's attempt has spent by now, and whether that is the API price, which a subscription does not pay.
    fn spend(&mut self, _stage: &StageId, _spend: Spend, _subscription: bool) {}

    /// Something is wrong that does not stop the run.
    fn warn(&mut self, _text: &str) {}

    /// Time has passed: at least once a second while a session works or waits.
    fn tick(&mut self, _now: Timestamp) {}
}
