//! What requests, sessions and runs add up to, for `ekiden stats`. Pure, except that it reads its input.

pub mod deferrals;
pub mod gather;
pub mod metrics;
pub mod spending;
pub mod threshold;
