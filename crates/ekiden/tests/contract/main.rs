//! The contract between ekiden and an agent: the same scenarios and the same checks for the built-in
//! rehearsal agent and for the real Claude Code client against a fake Messages API.
//!
//! `cargo xtask real-client` installs the client; without it, its half says that it was left out.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test starts the program and may stop"
)]

mod acting;
mod both;
mod client;
mod client_mod;
mod cut_off;
mod ends;
mod guard;
mod interface;
mod looks;
mod plan;
mod planning;
mod plugin;
mod project;
mod ralph;
mod relay;
mod review;
mod spending;
mod stage;
mod two_agents;
mod watched;
mod windows;
