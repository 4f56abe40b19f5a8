//! Child processes of every kind: keeper, spawn, stop, and one module per agent.
//!
//! Every process that a run starts, be it an agent, a verification or git, runs under a [`keeper`], so that
//! nothing outlives ekiden. Two kinds run without one: [`foreground`] programs (an editor, a pager), which a
//! person ends, and [`detached`] ones, which are meant to outlive the command that started them. [`child`] is
//! the engine's handle on one process under a keeper. [`task`] is for commands whose end and output are all
//! that matters. [`attempt`] is what the engine sees of an agent at work: `stream`, `terminal` and `exec` are
//! its drivers.
//!
//! ```text
//! engine ──► outer keeper ──► inner keeper ──► agent ──► its tools
//!    │            │                │
//!    └─ control ──┴────────────────┘      one socket: commands down, reports up, its end is death
//! ```
//!
//! What must not be known here: the store, the engine, when to start or to stop what.

pub mod address;
pub mod attempt;
pub mod background;
pub mod child;
pub mod detached;
pub mod foreground;
pub mod keeper;
pub mod leads_to;
pub mod lineage;
pub mod login;
pub mod own_files;
pub mod rehearsal;
pub mod stream;
pub mod task;
pub mod terminal;

mod ending;
mod exec;
mod intake;
mod orphans;
mod outer_env;
mod unix;

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod platform;
#[cfg(target_os = "macos")]
#[path = "macos.rs"]
mod platform;

use ekiden_core::agent::{AgentKind, Interface};
use tokio::sync::mpsc;

use attempt::{AttemptHandle, AttemptSpec, Report};

pub use orphans::{MarkedError, become_subreaper, end_marked, end_unkept};
pub use unix::{SignalFlag, expect_full_files, hangup_is_ignored, with_default_signals};

/// Starts an attempt with the driver of its agent, within a runtime. Returns at once.
/// [`attempt::Report::Ended`] is the last report, whatever happens.
///
/// If the handle or `reports` is dropped, the agent is terminated.
pub fn start(spec: AttemptSpec, reports: mpsc::Sender<Report>) -> AttemptHandle {
    let (mut engine, handle) = attempt::Engine::new(reports);
    tokio::spawn(async move {
        let ended = match (spec.agent.kind, spec.agent.interface) {
            (AgentKind::Claude, Interface::Terminal) => terminal::run(spec, &mut engine).await,
            (AgentKind::Exec, _) => exec::run(spec, &mut engine).await,
            (AgentKind::Claude | AgentKind::Rehearsal | AgentKind::Acp | AgentKind::Codex, _) => {
                stream::run(spec, &mut engine).await
            }
        };
        engine.tell(Report::Ended(Box::new(ended))).await;
    });
    handle
}
