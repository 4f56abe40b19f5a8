//! A run as OpenTelemetry spans and metrics, sent to an OTLP endpoint beside it.
//!
//! ```text
//! observer ─┬─► nudge ─► [thread] log.jsonl ─► Trace ─┬─► spans ────► /v1/traces
//!           └─► calls of tools ───────────────────────┘ └─► measures ─► /v1/metrics
//! ```
//!
//! Invariants:
//! - *The run waits for nothing.* The observer only nudges a thread that reads the log; at the end it gets
//!   [`AT_END`], and what is not sent by then is told in one line.
//! - *The same log gives the same spans*, but for calls of tools, which no log holds: each is sent once or lost. Their ids derive from the run and from the record at which each began, so what
//!   is sent again after a crash is the same span, and a run that was resumed continues its trace.
//! - *No agent's words.* Attributes are ids, numbers, names of settings and words of ekiden's own; names from outside are
//!   masked and cut.

mod calls;
mod export;
mod ids;
mod metrics;
mod open;
mod reader;
mod spans;
mod watched;

pub use export::{Endpoints, Fault};
pub use reader::{AT_END, Telemetry};
pub use spans::Trace;
pub use watched::WatchedCheckpoint;
