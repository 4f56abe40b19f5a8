//! What requests, sessions and runs add up to: for `ekiden stats`. Pure, but for reading what it is given.

pub mod deferrals;
pub mod gather;
pub mod metrics;
pub mod spending;
pub mod threshold;
