//! The client's transcript, read from its end.
//!
//! A hook's input carries no usage, so whoever watches a session through hooks reads the last response
//! of the main thread here. A transcript may be large and is being written meanwhile: it is sought from
//! the end, in a window that doubles, and a last line that is not whole yet is passed over. Nothing
//! here guesses: a file without a response has no usage.

use std::io::{self, Read, Seek, SeekFrom};

use ekiden_core::guard::Sample;
use ekiden_core::time::Timestamp;
use serde::Deserialize;

use crate::stream::SYNTHETIC;
use crate::usage::Usage;

/// What is read first. Half a megabyte holds the lines of any usual response.
const WINDOW_BYTES: u64 = 64 * 1024;

/// The last response of the main thread.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LastResponse {
    /// Its message's id.
    pub message_id: String,
    /// The model that gave it.
    pub model: String,
    /// The context that it was made from, in tokens.
    pub context_tokens: u64,
    /// It ended the turn: no call of a tool follows.
    pub ends_turn: bool,
    /// When it was written, if the line says so.
    pub at: Option<Timestamp>,
}

/// How many responses show where the use is heading.
const RECENT_MAX: usize = 8;

#[derive(Deserialize)]
struct TranscriptLine {
    #[serde(default)]
    timestamp: Option<String>,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, rename = "isSidechain")]
    side_chain: bool,
    message: TranscriptMessage,
}

#[derive(Deserialize)]
struct TranscriptMessage {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    stop_reason: Option<String>,
}

impl LastResponse {
    /// Finds it in a transcript.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn find(transcript: &mut (impl Read + Seek)) -> io::Result<Option<Self>> {
        Ok(Self::find_recent(transcript, 1)?.pop())
    }

    /// Finds it and those shortly before it, oldest first, of which the last counts. Only what is read
    /// for the last one anyway is looked through.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn recent(transcript: &mut (impl Read + Seek)) -> io::Result<Vec<Self>> {
        Self::find_recent(transcript, RECENT_MAX)
    }

    fn find_recent(transcript: &mut (impl Read + Seek), most: usize) -> io::Result<Vec<Self>> {
        let length = transcript.seek(SeekFrom::End(0))?;
        let mut window = WINDOW_BYTES;
        loop {
            let from = length.saturating_sub(window);
            transcript.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            transcript.by_ref().take(length - from).read_to_end(&mut bytes)?;
            let found = Self::last_in(&bytes, most);
            if !found.is_empty() || from == 0 {
                return Ok(found);
            }
            window = window.saturating_mul(2);
        }
    }

    /// The use at that moment, if the line has a time.
    #[must_use]
    pub fn sample(&self) -> Option<Sample> {
        Some(Sample { at: self.at?, used_tokens: self.context_tokens })
    }

    /// The last ones in these lines, of which the first and the last may be pieces. A response has a line
    /// for each of its blocks.
    fn last_in(bytes: &[u8], most: usize) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for response in bytes.rsplit(|byte| *byte == b'\n').filter_map(Self::of_line) {
            if found.last().is_none_or(|later| later.message_id != response.message_id) {
                found.push(response);
            }
            if found.len() == most {
                break;
            }
        }
        found.reverse();
        found
    }

    fn of_line(line: &[u8]) -> Option<Self> {
        // Most lines are no responses, and some are very long.
        memchr::memmem::find(line, b"\"assistant\"")?;
        let line: TranscriptLine = serde_json::from_slice(line).ok()?;
        let counts = line.kind == "assistant" && !line.side_chain && line.message.model != SYNTHETIC;
        counts.then(|| Self {
            message_id: line.message.id,
            model: line.message.model,
            context_tokens: line.message.usage.context_tokens(),
            ends_turn: line.message.stop_reason.as_deref() == Some("end_turn"),
            at: line.timestamp.and_then(|at| Timestamp::parse_rfc3339(&at)),
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
        assert_eq!(last(&[r#"{"type":"user","message":{"content":"\"assistant\""}}"#.to_owned()]), None);
    }

    // shows: MON-002
    #[test]
    fn the_last_responses_have_their_times() {
        let at = |id: &str, tokens, second: u32| {
            response(id, tokens, &format!(r#","timestamp":"2026-11-21T14:00:{second:02}.500Z""#))
        };
        let lines = [at("m1", 40, 1), at("m1", 40, 2), at("m2", 90, 30)].join("\n");
        let recent = LastResponse::recent(&mut Cursor::new(lines)).expect("a cursor reads");
        let samples: Vec<Sample> = recent.iter().filter_map(LastResponse::sample).collect();
        assert_eq!(samples.iter().map(|sample| sample.used_tokens).collect::<Vec<_>>(), [50, 100]);
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
        lines.extend(
            (0..40).map(|_| format!(r#"{{"type":"user","message":{{"text":"{}"}}}}"#, "x".repeat(9_000))),
        );
        assert_eq!(last(&lines), Some(("m1".to_owned(), 50)));
    }
}
