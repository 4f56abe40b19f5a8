//! A run as OpenTelemetry spans and metrics, sent to an OTLP endpoint beside it.
//!
//! ```text
//! observer ─┬─► nudge ─► [thread] log.jsonl ─► Trace ─┬─► spans ────► /v1/traces
//!           └─► calls of tools ───────────────────────┘ └─► measures ─► /v1/metrics
//! ```
//!
//! Invariants:
//! - *The run waits for nothing.* The observer only nudges a thread that reads the log. At the end the
//!   thread gets [`AT_END`], and one line reports what is not sent by then.
//! - *The same log gives the same spans*, except for tool calls, which no log holds: each is sent once or
//!   lost. Span ids derive from the run and from the record at which each span began. So a span that is
//!   sent again after a crash is the same span, and a resumed run continues its trace.
//! - *No text from agents.* Attributes are ids, numbers, names of settings and ekiden's own words. Names
//!   from outside are masked and cut.

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
