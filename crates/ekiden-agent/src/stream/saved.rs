//! Reconstructs an attempt from its saved stream.

use ekiden_core::agent::AgentKind;
use ekiden_core::budget::{Prices, TokenCounts};
use ekiden_core::ends::EndCause;
use ekiden_core::event::{AttemptEnded, Counters};
use ekiden_core::ids::AttemptNumber;
use ekiden_wire::lines::read_lines;
use ekiden_wire::rpc::{begins_attempt, marked_attempt};
use ekiden_wire::saved::Saved;
use ekiden_wire::spending::SpendEstimate;
use ekiden_wire::trace::Trace;

/// The last attempt in a saved event stream whose engine died. The interrupted turn is estimated at `prices`. If the last
/// mark in the stream is of an attempt before this one, the stream says nothing about it.
pub fn from_saved_stream(
    stream: impl std::io::Read,
    attempt: AttemptNumber,
    kind: AgentKind,
    prices: Prices,
) -> std::io::Result<AttemptEnded> {
    let mut spending = SpendEstimate::new(prices, kind.price_unknown());
    let mut trace = Trace::default();
    let mut saved = Saved::default();
    let mut last = AttemptNumber::FIRST.get();
    read_lines(stream, |line| {
        last = marked_attempt(line).unwrap_or(last);
        saved.read(line, |event| {
            if begins_attempt(event) {
                trace = Trace::default();
            }
            spending.observe(event);
            trace.observe(event);
        });
    })?;
    if last != attempt.get() {
        return Ok(AttemptEnded::bare(EndCause::EngineLost));
    }
    spending.end();
    let counters = counters(&trace, &spending);
    let worked = trace.counts.calls + trace.counts.turns > 0;
    Ok(AttemptEnded {
        counters,
        traces: trace.last,
        resumable: worked && (kind == AgentKind::Claude || saved.conversation().is_some()),
        ..AttemptEnded::bare(EndCause::EngineLost)
    })
}

pub(super) fn counters(trace: &Trace, spending: &SpendEstimate) -> Counters {
    Counters {
        tool_calls: u32::try_from(trace.counts.calls).unwrap_or(u32::MAX),
        malformed_lines: u32::try_from(trace.counts.malformed).unwrap_or(u32::MAX),
        spend: spending.spend(),
        turns: spending.turns,
        subscription: spending.subscription,
        prices: spending.learned.clone(),
        models: spending.models(),
        kinds: Some(spending.kinds()).filter(|kinds| *kinds != TokenCounts::default()),
        ..Counters::default()
    }
}
