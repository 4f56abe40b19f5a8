//! The client's own output, as measured with version 2.1.329, trimmed.
//!
//! `_case`, `_exit_code` and `_direction` at the end of a line were added when it was recorded.

use crate::stream::ClientEvent;

/// Every stream of the fixtures.
pub(crate) const STREAMS: [&str; 9] = [
    "results.jsonl",
    "api-errors.jsonl",
    "rate-limits.jsonl",
    "tools.jsonl",
    "partial.jsonl",
    "subagent.jsonl",
    "two-results.jsonl",
    "compaction.jsonl",
    "midturn.jsonl",
];

/// The lines of a fixture.
pub(crate) fn lines(name: &str) -> Vec<String> {
    let path = format!("{}/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
    text.lines().map(str::to_owned).collect()
}

/// The events of a fixture: what the client wrote, not what it was sent.
pub(crate) fn events(name: &str) -> Vec<ClientEvent> {
    let written = lines(name)
        .into_iter()
        .filter(|line| !line.contains(r#""_direction":"to_client""#));
    written
        .map(|line| ClientEvent::parse(line.as_bytes()))
        .collect()
}
