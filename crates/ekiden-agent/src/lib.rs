//! Child processes of every kind: keeper, spawn, stop, and one module per agent.
//!
//! Every process that ekiden starts, be it an agent, a verification or git, runs under a
//! [`keeper`], so that nothing outlives ekiden. [`child`] is the engine's handle on one such
//! process; [`task`] is for commands of which only the end and the output matter, and [`workers`] for
//! short ones that follow one another. [`attempt`] is what the engine sees of an agent at work: [`stream`],
//! [`terminal`] and [`exec`] are its adapters.
//!
//! ```text
//! engine ──► outer keeper ──► inner keeper ──► agent ──► its tools
//!    │            │                │
//!    └─ control ──┴────────────────┘      one socket: orders down, reports up, its end is death
//! ```
//!
//! What must not be known here: the store, the engine, when to start or to stop what.

pub mod attempt;
pub mod child;
pub mod detached;
pub mod exec;
pub mod foreground;
pub mod keeper;
pub mod rehearsal;
pub mod stream;
pub mod task;
pub mod terminal;
pub mod workers;

mod ending;
mod orphans;
mod outer_env;
mod unix;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod platform;
#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod platform;

use ekiden_core::settings::{AgentKind, Interface};

pub use orphans::{MarkedError, become_subreaper, end_marked};
pub use unix::with_default_signals;

/// Starts an attempt with the adapter of its agent. To be called within a runtime.
#[must_use]
pub fn start(
    spec: attempt::AttemptSpec,
    reports: tokio::sync::mpsc::Sender<attempt::Report>,
) -> attempt::AttemptHandle {
    match (spec.agent.kind, spec.agent.interface) {
        (AgentKind::Claude, Interface::Terminal) => terminal::start(spec, reports),
        (AgentKind::Claude | AgentKind::Rehearsal, _) => stream::start(spec, reports),
        (AgentKind::Exec, _) => exec::start(spec, reports),
    }
}
