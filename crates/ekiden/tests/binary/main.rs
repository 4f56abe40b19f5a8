//! The program as people and scripts meet it: whole outputs, exit codes and what is on the disk
//! afterwards, in an empty environment. What can be shown further down is shown there; here it is
//! the wiring.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test starts the program and may stop"
)]

mod acp;
mod answering;
mod approval;
mod bounds;
mod branches;
mod browser;
mod chain;
mod codex;
mod commits;
mod dash;
mod dash_steering;
mod defects;
mod dispatch;
mod doctor;
mod environment;
mod estimate;
mod everywhere;
mod examples;
mod exec;
mod fallback;
mod files;
mod guard;
mod guiding;
mod handoff;
mod import;
mod judging;
// Much here looks into `/proc`, and macOS promises less.
#[cfg(target_os = "linux")]
mod kill;
mod knowledge;
mod live_view;
mod looking;
mod manifests;
mod mcp;
mod misbehave;
mod night;
mod normal;
mod notices;
mod notifying;
mod plan;
mod plan_edges;
#[cfg(target_os = "linux")]
mod plan_kills;
mod plan_merges;
mod planning;
mod processes;
mod ralph;
mod receiver;
mod renewing;
mod report;
mod running;
mod second;
mod sessions;
mod settings;
mod setup;
mod shard;
mod stalled;
mod start;
mod stats;
mod steering;
mod stop;
mod telemetry;
mod terminal_lost;
mod tracker;
mod versions;
mod watch;
mod wizard;
