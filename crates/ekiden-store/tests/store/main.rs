//! The store as its users see it: kept files of old versions, and long worlds of crashes.

#![expect(
    clippy::unwrap_used,
    clippy::semicolon_if_nothing_returned,
    reason = "helpers of tests fail as tests do"
)]

mod archive;
mod budget;
mod documents;
mod fixtures;
mod handoff;
mod log;
mod published;
mod real_disk;
mod receipt;
mod replace;
mod state;
mod status;
mod stream;
mod world;
