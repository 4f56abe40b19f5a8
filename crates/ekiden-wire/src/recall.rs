//! What a session was asked to do, and what it has done, tried and planned, from its transcript.
//!
//! ```text
//!  transcript:  the first prompt │ ... not read ... │ the end, within TAIL_BYTES_MAX
//!                      │                                     │
//!                      └──────────────► Recall ◄─────────────┘ line by line
//! ```
//!
//! Facts only, from structured fields: calls and their results, prompts, to-do lists. [`limits`] bounds memory,
//! however long the transcript is. The client may be writing it, so the first and the last line that are read may be
//! incomplete; those are skipped. Text that the client itself inserts (hook feedback, summaries, command
//! output) does not count as a person's prompt.

mod decisions;
mod prompts;
mod todos;

use std::io::{self, Read, Seek, SeekFrom};

use ekiden_core::guard::document::{TestRun, TranscriptFacts};
use ekiden_core::guard::runs_tests;
use serde_json::Value;

use crate::lines::{Line, read_lines};
use crate::stream::ClientEvent;
use crate::tools::ToolKind;
use crate::trace::{Trace, first_place, is_handoff, keep, last_line};
use crate::{json, limits};
use decisions::decisions;
use prompts::prompt_of;
use todos::Todos;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recall {
    first_prompt: Option<String>,
    last_prompt: Option<String>,
    edited: Vec<String>,
    test: Option<TestRun>,
    todos: Todos,
    decided: Vec<String>,
    trace: Trace,
    /// The id of the conversation's last line: if it changes, more was said.
    pub last_line: Option<String>,
}

impl Recall {
    /// Reads a transcript: its beginning for the first prompt, its end for everything else.
    pub fn of(transcript: &mut (impl Read + Seek)) -> io::Result<Self> {
        let length = transcript.seek(SeekFrom::End(0))?;
        let mut recall = Self::default();
        transcript.seek(SeekFrom::Start(0))?;
        let head = transcript.by_ref().take(limits::HEAD_BYTES_MAX);
        read_lines(head, |line| {
            if recall.first_prompt.is_none() {
                recall.first_prompt = of_interest(line).and_then(|line| prompt_of(&line));
            }
        })?;
        let from = length.saturating_sub(limits::TAIL_BYTES_MAX);
        transcript.seek(SeekFrom::Start(from))?;
        // A first line that is only a piece does not parse. A line without an end may be whole: then it does.
        read_lines(transcript.by_ref().take(length - from), |line| {
            if let Some(line) = of_interest(line) {
                recall.take(&line);
            }
        })?;
        Ok(recall)
    }

    /// The last edit: tool, file, lines.
    pub fn last_edit(&self) -> Option<&str> {
        self.trace.last.last_edit.as_deref()
    }

    /// The same, in words for a handoff document.
    pub fn into_told(self) -> TranscriptFacts {
        let asked_last = self
            .last_prompt
            .filter(|last| Some(last) != self.first_prompt.as_ref());
        TranscriptFacts {
            task: self.first_prompt,
            asked_last,
            last_words: self.trace.last.last_words,
            last_edit: self
                .trace
                .last
                .last_edit
                .as_deref()
                .and_then(|edit| Some(edit.split_once(' ')?.1.to_owned())),
            decided: self.decided,
            edited: self.edited,
            succeeded: self.trace.last.succeeded,
            failed: self.trace.last.failed,
            test: self.test,
            todos: self.todos.into_list(),
            compacted: self.trace.compacted.is_some(),
        }
    }

    fn take(&mut self, line: &Value) {
        if line["isSidechain"] == true {
            return;
        }
        if let Some(prompt) = prompt_of(line) {
            self.last_prompt = Some(prompt);
        }
        let event = ClientEvent::of_transcript_value(line);
        if let ClientEvent::Assistant(_) = event {
            for block in json::elements(&line["message"]["content"]) {
                self.todos.call(block);
            }
        } else if let ClientEvent::ToolResults(results) = &event {
            for result in results {
                self.todos.answer(&result.tool_use_id, &result.excerpt);
            }
        }
        let (edited, test, decided) = (&mut self.edited, &mut self.test, &mut self.decided);
        self.trace.observe_calls(&event, |call, result| {
            if call.kind == ToolKind::Edit && !result.is_error && !is_handoff(call) {
                edited.retain(|known| *known != call.target);
                keep(edited, call.target.clone(), limits::EDITED_KEPT);
            } else if call.kind == ToolKind::Shell && runs_tests(&call.target) {
                *test = Some(TestRun {
                    command: call.target.clone(),
                    passed: !result.is_error,
                    last_line: last_line(&result.excerpt),
                    place: first_place(&result.excerpt),
                });
            } else if !result.is_error {
                for decision in decisions(&call.name, &line["toolUseResult"]) {
                    keep(decided, decision, limits::DECISIONS_KEPT);
                }
            }
        });
        if let Some(id) = line["uuid"].as_str() {
            self.last_line = Some(id.to_owned());
        }
    }
}

/// Most bytes of a transcript are requests and attachments, which we do not parse.
fn of_interest(line: Line<'_>) -> Option<Value> {
    let Line::Whole(line) = line else { return None };
    let words = [&b"\"assistant\""[..], b"\"user\"", b"\"compact_boundary\""];
    words
        .iter()
        .any(|word| memchr::memmem::find(line, word).is_some())
        .then(|| json::parse(line))
        .flatten()
        .filter(|line| {
            let is_compaction = line["subtype"] == "compact_boundary";
            match line["type"].as_str() {
                Some("assistant" | "user") => true,
                Some("system") => is_compaction,
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests;
