//! The client's transcript, read from its end.
//!
//! A hook's input carries no usage, so to watch a session through hooks we read the main thread's last response
//! here. A transcript may be large, and the client may still be writing it. We search it from the end, in a
//! window that doubles, and skip an incomplete last line. Nothing here guesses: a file without a response has
//! no usage.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use ekiden_core::guard::Sample;
use ekiden_core::time::Timestamp;
use serde_json::Value;

use crate::json;
use crate::stream::SYNTHETIC;
use crate::usage::Usage;

/// How much is read first. Three doublings, to half a megabyte, hold the lines of any usual response.
const WINDOW_BYTES: u64 = 64 * 1024;
/// No more is read, however long ago the last response was: a hook has to be quick.
const WINDOW_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// A longer line is no response. It may be a prompt or a result with large files in it, and takes long to parse.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The last response of the main thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LastResponse {
    pub message_id: String,
    pub model: String,
    /// The client's version, such as `2.1.329`.
    pub client: String,
    /// The context that it was made from, in tokens.
    pub context_tokens: u64,
    /// It ended the turn: no tool call follows.
    pub ends_turn: bool,
    /// When it was written, if the line says so.
    pub at: Option<Timestamp>,
    /// The directory of the session then; empty if the line does not say.
    pub cwd: PathBuf,
}

/// How many responses show where the use is heading.
const RECENT_MAX: usize = 8;

/// The end of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recent {
    /// The last responses since the conversation was last summarised, oldest first.
    pub responses: Vec<LastResponse>,
    /// The conversation was summarised and has had no response since: its size then, in tokens, if the
    /// client says so, and when.
    pub summarised: Option<Summarised>,
    /// The last response answers the last prompt and ends its turn. If this is false and the turn is over, the
    /// client has yet to write that.
    pub settled: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summarised {
    pub at: Option<Timestamp>,
    pub context_tokens: Option<u64>,
}

impl Recent {
    /// Reads it. Looks only through what is read for the last response anyway.
    pub fn of(transcript: &mut (impl Read + Seek)) -> io::Result<Self> {
        Self::within(transcript, WINDOW_BYTES_MAX)
    }

    fn within(transcript: &mut (impl Read + Seek), most: u64) -> io::Result<Self> {
        let length = transcript.seek(SeekFrom::End(0))?;
        let mut window = WINDOW_BYTES;
        loop {
            let from = length.saturating_sub(window);
            transcript.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            transcript
                .by_ref()
                .take(length - from)
                .read_to_end(&mut bytes)?;
            let recent = Self::in_lines(&bytes);
            let is_found = !recent.responses.is_empty() || recent.summarised.is_some();
            if is_found || from == 0 || window >= most {
                return Ok(recent);
            }
            window = window.saturating_mul(2);
        }
    }

    /// The first and the last of these lines may be pieces. A response has a line for each of its blocks.
    fn in_lines(bytes: &[u8]) -> Self {
        let mut recent = Self::default();
        let mut asked = false;
        for line in bytes.rsplit(|byte| *byte == b'\n') {
            if line.len() > LINE_BYTES_MAX {
                asked |= recent.responses.is_empty();
                continue;
            }
            // Most bytes belong to lines of other kinds.
            let words = [&b"\"assistant\""[..], b"\"user\"", b"\"compact_boundary\""];
            let holds = |word: &&[u8]| memchr::memmem::find(line, word).is_some();
            let Some(line) = words.iter().any(holds).then(|| json::parse(line)).flatten() else {
                continue;
            };
            if line["isSidechain"] == true {
                continue;
            }
            if line["subtype"] == "compact_boundary" {
                if recent.responses.is_empty() {
                    recent.summarised = Some(Summarised::of(&line));
                }
                break;
            }
            asked |=
                line["type"] == "user" && line["isMeta"] != true && recent.responses.is_empty();
            if let Some(response) = LastResponse::of_line(&line) {
                let ids = recent.responses.last().map(|later| &later.message_id);
                if ids != Some(&response.message_id) {
                    recent.responses.push(response);
                }
            }
            if recent.responses.len() == RECENT_MAX {
                break;
            }
        }
        let last = recent.responses.first();
        recent.settled = !asked && last.is_some_and(|last| last.ends_turn);
        recent.responses.reverse();
        recent
    }
}

impl Summarised {
    fn of(line: &Value) -> Self {
        Self {
            at: at(line),
            context_tokens: line["compactMetadata"]["postTokens"].as_u64(),
        }
    }
}

fn at(line: &Value) -> Option<Timestamp> {
    line["timestamp"]
        .as_str()
        .and_then(Timestamp::parse_rfc3339)
}

impl LastResponse {
    pub fn find(transcript: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        Ok(Recent::of(transcript)?.responses.pop())
    }

    /// The usage at that time, if the line has one.
    pub fn sample(&self) -> Option<Sample> {
        Some(Sample {
            at: self.at?,
            used_tokens: self.context_tokens,
        })
    }

    fn of_line(line: &Value) -> Option<Self> {
        let message = line["message"].as_object().map(|_| &line["message"])?;
        let counts = line["type"] == "assistant" && message["model"] != SYNTHETIC;
        // Without its usage, a full context would look empty.
        let usage = Usage::of(&message["usage"])?;
        counts.then(|| Self {
            message_id: json::text(&message["id"]),
            model: json::text(&message["model"]),
            client: json::text(&line["version"]),
            context_tokens: usage.context_tokens(),
            ends_turn: message["stop_reason"] == "end_turn",
            at: at(line),
            cwd: json::text(&line["cwd"]).into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn response(id: &str, tokens: u64, more: &str) -> String {
        format!(
            r#"{{"type":"assistant"{more},"message":{{"id":"{id}","model":"claude-opus-5-5","stop_reason":"tool_use","usage":{{"input_tokens":10,"cache_read_input_tokens":{tokens}}}}}}}"#
        )
    }

    fn last(lines: &[String]) -> Option<(String, u64)> {
        let found = LastResponse::find(&mut Cursor::new(lines.join("\n"))).expect("a cursor reads");
        found.map(|response| (response.message_id, response.context_tokens))
    }

    // shows: MON-001
    #[test]
    fn the_last_response_of_the_main_thread_counts() {
        let main = response("m1", 40, "");
        let side = response("m2", 90, r#","isSidechain":true"#);
        let synthetic = response("m3", 0, "").replace("claude-opus-5-5", SYNTHETIC);
        assert_eq!(last(&[main, side, synthetic]), Some(("m1".to_owned(), 50)));
        assert_eq!(last(&[]), None);
        assert_eq!(
            last(&[r#"{"type":"user","message":{"content":"\"assistant\""}}"#.to_owned()]),
            None
        );
    }

    #[test]
    fn a_response_without_a_usage_is_passed_over() {
        let usage = r#""usage":{"input_tokens":10,"cache_read_input_tokens":90}"#;
        for odd in [
            r#""usage":null"#,
            r#""usage":[]"#,
            r#""usage":"much""#,
            r#""usage":{"input_tokens":"many"}"#,
            r#""other":1"#,
        ] {
            let line = response("m2", 90, "").replace(usage, odd);
            assert!(line.contains(odd), "{line}");
            assert_eq!(
                last(&[response("m1", 40, ""), line]),
                Some(("m1".to_owned(), 50)),
                "{odd}"
            );
        }
    }

    // shows: MON-002
    #[test]
    fn the_last_responses_have_their_times() {
        let at = |id: &str, tokens, second: u32| {
            response(
                id,
                tokens,
                &format!(r#","timestamp":"2026-11-21T14:00:{second:02}.500Z""#),
            )
        };
        let lines = [at("m1", 40, 1), at("m1", 40, 2), at("m2", 90, 30)].join("\n");
        let recent = Recent::of(&mut Cursor::new(lines)).expect("a cursor reads");
        let samples: Vec<Sample> = recent
            .responses
            .iter()
            .filter_map(LastResponse::sample)
            .collect();
        assert_eq!(
            samples
                .iter()
                .map(|sample| sample.used_tokens)
                .collect::<Vec<_>>(),
            [50, 100]
        );
        assert_eq!(samples[1].at.since(samples[0].at).as_secs(), 28);
    }

    #[test]
    fn a_line_that_is_not_whole_yet_is_passed_over() {
        let whole = response("m1", 40, "");
        let half = response("m2", 90, "")[..60].to_owned();
        assert_eq!(last(&[whole, half]), Some(("m1".to_owned(), 50)));
    }

    #[test]
    fn what_lies_far_from_the_end_is_found() {
        let mut lines = vec![response("m1", 40, "")];
        lines.extend((0..40).map(|_| {
            format!(
                r#"{{"type":"user","message":{{"text":"{}"}}}}"#,
                "x".repeat(9_000)
            )
        }));
        assert_eq!(last(&lines), Some(("m1".to_owned(), 50)));
    }

    // shows: MON-001
    #[test]
    fn what_is_very_long_is_neither_parsed_nor_read_to_its_beginning() {
        let last = response("m1", 40, "").replace("tool_use", "end_turn");
        let call = r#"{"type":"tool_result","content":"ok"},"#.repeat(LINE_BYTES_MAX / 30);
        let long = format!(r#"{{"type":"user","message":{{"content":[{call}0]}}}}"#);
        let found = recent(&[&last, &long]);
        assert_eq!((found.responses.len(), found.settled), (1, false));
        let far = format!("{last}\n{}", "x".repeat(200_000));
        let found = |most| Recent::within(&mut Cursor::new(&far), most).expect("a cursor reads");
        assert_eq!(found(100_000), Recent::default());
        assert_eq!(found(300_000).responses.len(), 1);
    }

    const SUMMARISED: &str = r#"{"type":"system","subtype":"compact_boundary","isSidechain":false,"timestamp":"2026-11-21T14:00:00.000Z","compactMetadata":{"trigger":"auto","preTokens":167000,"postTokens":7689}}"#;
    const PROMPT: &str = r#"{"type":"user","isSidechain":false,"message":{"content":"go on"}}"#;

    fn recent(lines: &[&str]) -> Recent {
        Recent::of(&mut Cursor::new(lines.join("\n"))).expect("a cursor reads")
    }

    // shows: MON-001, MON-004
    #[test]
    fn nothing_before_a_compaction_is_the_usage_now() {
        let (before, after) = (response("m1", 150_000, ""), response("m2", 9_000, ""));
        let found = recent(&[&before, SUMMARISED, PROMPT]);
        assert_eq!((found.responses.len(), found.settled), (0, false));
        let tokens = found.summarised.expect("a compaction").context_tokens;
        assert_eq!(tokens, Some(7_689));
        let found = recent(&[&before, SUMMARISED, PROMPT, &after]);
        assert_eq!((found.responses.len(), found.summarised), (1, None));
    }

    // shows: MON-001
    #[test]
    fn a_response_that_is_not_written_yet_is_missed() {
        let (first, second) = (response("m1", 40, ""), response("m2", 90, ""));
        let calls = first.clone();
        let [first, second] = [first, second].map(|line| line.replace("tool_use", "end_turn"));
        let meta = r#"{"type":"user","isMeta":true,"message":{"content":"feedback"}}"#;
        assert!(recent(&[PROMPT, &first, meta]).settled);
        assert!(!recent(&[PROMPT, &first, PROMPT]).settled);
        assert!(recent(&[PROMPT, &first, PROMPT, &second]).settled);
        assert!(!recent(&[PROMPT, &calls]).settled, "its results too");
        assert!(!recent(&[]).settled);
    }
}
