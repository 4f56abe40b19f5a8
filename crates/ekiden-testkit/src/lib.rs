//! Test support: a fake Messages API and the environment that the real Claude Code client runs in.
//!
//! Nothing here is shipped. Tests of the adapter, the engine and the binary use it to run the real
//! client without a network, an account or a model:
//!
//! ```no_run
//! use ekiden_testkit::client::CleanEnvironment;
//! use ekiden_testkit::messages_api::{Message, MessagesApi, Usage};
//!
//! let api = MessagesApi::start(|request| match request.answers() {
//!     0 => Message::call("Bash", serde_json::json!({ "command": "ls" })).using(Usage::context(90_000)).into(),
//!     _ => Message::text("Done.").into(),
//! });
//! let environment = CleanEnvironment::new(&api).expect("a temporary home");
//! // … start the client with `environment`, then look at `api.requests()`.
//! ```
//!
//! The server listens on loopback only, and the environment names no other host.
#![expect(
    clippy::disallowed_methods,
    reason = "test support starts the real client and writes into temporary directories; no product code does either here"
)]

pub mod client;
pub mod fuzz;
pub mod messages_api;
pub mod model_apis;
pub mod pty;
pub mod stream_sample;
pub mod trackers;
