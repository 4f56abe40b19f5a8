//! The work that a stream costs the engine, as a function that a benchmark can call.
//!
//! [`bench_stream`] does with the bytes what the engine does: splits them, parses every line, folds
//! every event; [`bench_shown`] shows its lines as well. [`sample_stream`] makes a stream in the proportions of a real session: partial
//! messages, small calls, results of some kilobytes that the client writes twice.

use serde_json::json;

use ekiden_core::text::one_line;
use ekiden_wire::agent_side::{AgentWriter, Saying};
use ekiden_wire::ends::Observed;
use ekiden_wire::lines::LineSplitter;
use ekiden_wire::stream::{Block, ClientEvent, TurnResult};
use ekiden_wire::trace::Trace;
use ekiden_wire::typed_line::typed_line;
use ekiden_wire::usage::{ContextMeter, Usage};

/// The size of a pipe on Linux, and so the most that one read gives.
const CHUNK_BYTES: usize = 64 * 1024;
/// The most that is shown of a line, in characters.
const LINE_CHARS_MAX: usize = 200;

/// What was in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub lines: u64,
    /// Responses of the main thread.
    pub responses: u64,
    pub calls: u64,
    pub turns: u64,
    /// Lines that were not what they should be.
    pub malformed: u64,
    /// The context at the end, in tokens.
    pub context_tokens: u64,
    /// The most that was kept between two chunks, in bytes.
    pub retained_bytes_max: usize,
}

/// Splits, parses and folds a stream as the engine does.
pub fn bench_stream(bytes: &[u8]) -> Counts {
    read(bytes, |_| {})
}

/// The same, with the lines that a person is shown of it.
pub fn bench_shown(bytes: &[u8], mut show: impl FnMut(&str)) -> Counts {
    read(bytes, |event| {
        if let ClientEvent::Assistant(response) = event {
            for block in &response.blocks {
                match block {
                    Block::Call(call) => show(&one_line(&call.target, LINE_CHARS_MAX)),
                    Block::Text(words) => words
                        .lines()
                        .for_each(|line| show(&one_line(line, LINE_CHARS_MAX))),
                }
            }
        } else if let ClientEvent::ToolResults(results) = event {
            for result in results {
                show(&one_line(&result.excerpt, LINE_CHARS_MAX));
            }
        }
    })
}

fn read(bytes: &[u8], mut see: impl FnMut(&ClientEvent)) -> Counts {
    let mut counts = Counts::default();
    let (mut splitter, mut trace) = (LineSplitter::new(), Trace::default());
    let (mut meter, mut seen) = (ContextMeter::default(), Observed::default());
    for chunk in bytes.chunks(CHUNK_BYTES) {
        splitter.push(chunk, |line| {
            let event = ClientEvent::of(line);
            counts.lines += 1;
            trace.observe(&event);
            meter.observe(&event);
            seen.observe(&event);
            see(&event);
        });
        counts.retained_bytes_max = counts.retained_bytes_max.max(splitter.retained_bytes());
    }
    counts.responses = meter.responses;
    counts.calls = trace.counts.calls;
    counts.turns = trace.counts.turns;
    counts.malformed = trace.counts.malformed;
    counts.context_tokens = meter.context_tokens;
    counts
}

/// At least `len` bytes of a stream in a real session's proportions; the same for the same `len`.
pub fn sample_stream(len: usize) -> Vec<u8> {
    let writer = AgentWriter {
        session_id: "5afeba7c-2d1b-4052-8781-47e7f3b03bf3".to_owned(),
        model: "claude-opus-5-5".to_owned(),
        cwd: "/home/dev/project".to_owned(),
    };
    let mut stream = Vec::with_capacity(len + CHUNK_BYTES);
    let mut round = 0;
    while stream.len() < len {
        if round % 50 == 0 {
            stream.extend_from_slice(writer.init("2.1.329", "default").as_bytes());
        }
        sample_round(&writer, round, &mut stream);
        if round % 50 == 49 {
            let result = TurnResult {
                num_turns: 50,
                ..TurnResult::default()
            };
            stream.extend_from_slice(writer.result(&result).as_bytes());
        }
        round += 1;
    }
    stream
}

/// One response: partial messages, words, a call, its result.
fn sample_round(writer: &AgentWriter, round: u64, stream: &mut Vec<u8>) {
    let (message, call) = (format!("msg_{round:020}"), format!("toolu_{round:018}"));
    let usage = Usage {
        input: 10,
        cache_read: 40_000 + 10 * round,
        cache_creation: 500,
        output: 1,
    };
    for word in 0..10 {
        stream.extend_from_slice(partial(word).as_bytes());
    }
    let words = "I look at the parser first, then at the \"tests\" that cover it.\n".repeat(4);
    let input =
        json!({"command": format!("cargo test -p part{round}"), "description": "test a part"});
    let output = "test parser::tests::a_line_is_split ... ok\n"
        .repeat(usize::try_from(round % 100).unwrap_or(0));
    let call_line = Saying::Call {
        id: &call,
        name: "Bash",
        input: &input,
    };
    stream.extend_from_slice(
        writer
            .assistant(&message, &usage, Saying::Text(&words))
            .as_bytes(),
    );
    stream.extend_from_slice(writer.assistant(&message, &usage, call_line).as_bytes());
    stream.extend_from_slice(tool_result(&call, &output).as_bytes());
}

fn partial(word: u32) -> String {
    let delta = json!({"type": "text_delta", "text": format!(" word{word}")});
    let event = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let body = json!({"event": event, "parent_tool_use_id": null, "uuid": "212d7261-08a9-4610-aae7-d0be86bc4739"});
    typed_line("stream_event", None, &body)
}

/// The client writes a result twice: for the model, and as the tool gave it.
fn tool_result(call: &str, output: &str) -> String {
    let block =
        json!({"type": "tool_result", "tool_use_id": call, "content": output, "is_error": false});
    let body = json!({
        "message": {"role": "user", "content": [block]},
        "parent_tool_use_id": null,
        "tool_use_result": {"stdout": output, "stderr": "", "interrupted": false},
    });
    typed_line("user", None, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: AGT-08
    #[test]
    fn a_sample_is_understood_whole_and_in_bounds() {
        let stream = sample_stream(2_000_000);
        let counts = bench_stream(&stream);
        assert!(counts.retained_bytes_max <= CHUNK_BYTES, "{counts:?}");
        assert_eq!(counts.malformed, 0);
        assert_eq!(counts.responses, counts.calls);
        assert_eq!(counts.turns, counts.responses / 50);
        assert_eq!(counts.context_tokens, 40_510 + 10 * (counts.responses - 1));
    }
}
