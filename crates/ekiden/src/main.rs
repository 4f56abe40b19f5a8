//! Runs long tasks on coding agents as a relay of fresh sessions.
//!
//! The binary parses, calls and prints; it decides nothing about a run.
//!
//! ```text
//! the client ──► guard (hooks, status line: milliseconds)
//! cli ──► commands ──► settings ──► ekiden_engine
//!             └──────► output  ◄────────┘ (observer)
//! ```

#![expect(
    unreachable_pub,
    reason = "nobody uses a binary as a library; `pub` says what a module offers"
)]

mod cli;
mod client;
mod commands;
#[cfg(test)]
#[path = "docs/tests.rs"]
mod docs;
mod exit;
mod failure;
mod guard;
mod import;
mod memory;
mod output;
mod past;
mod plan;
mod report;
mod settings;
mod setup;
mod specs;
mod stats;
mod tracker;

use std::process::ExitCode;

fn main() -> ExitCode {
    output::view_thread::end_on_panic();
    ekiden_agent::expect_full_files();
    // The same executable is the keeper, a hook and the rehearsal agent; those roles never return.
    ekiden_agent::keeper::run_if_asked();
    ekiden_agent::terminal::hook::run_if_asked();
    ekiden_agent::rehearsal::run_if_asked();
    let exit = guard::run_if_asked().unwrap_or_else(cli::main);
    ExitCode::from(exit.code())
}
