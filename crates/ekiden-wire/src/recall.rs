//! What a transcript tells of a session: what was asked, done, tried and planned.
//!
//! ```text
//!  transcript:  the first prompt │ ... not read ... │ the end, within TAIL_BYTES_MAX
//!                      │                                     │
//!                      └──────────────► Recall ◄─────────────┘ line by line
//! ```
//!
//! Facts only, from structured fields: calls and their results, prompts, lists of things to do. Memory is
//! bounded by [`limits`] however long the transcript is. It is being written meanwhile: the first line of
//! the tail and the last one may be pieces, and are passed over. What the client itself put in (hook
//! feedback, summaries, command output) is no prompt of a person.

mod prompts;
mod todos;

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};

use ekiden_core::guard::document::{TestRun, Told};
use ekiden_core::guard::runs_tests;
use ekiden_core::prompt::FailedCommand;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::excerpt;
use crate::limits;
use crate::lines::{Line, LineSplitter};
use crate::stream::{Block, ClientEvent, ToolResult};
use crate::tools::{Call, ToolKind};
use crate::trace::Trace;
use prompts::prompt_of;
use todos::Todos;

/// What a transcript told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recall {
    first_prompt: Option<String>,
    last_prompt: Option<String>,
    edited: VecDeque<String>,
    test: Option<TestRun>,
    todos: Todos,
    trace: Trace,
    open: VecDeque<Call>,
    compactions: u32,
    last_line: Option<String>,
}

/// What every line of interest has.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, rename = "isSidechain")]
    side_chain: bool,
    #[serde(default)]
    uuid: Option<String>,
    #[serde(default)]
    subtype: Option<String>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

/// The blocks of a response, as far as its calls are concerned.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, default)]
    content: Vec<CallBlock<'a>>,
}

#[derive(Deserialize)]
struct CallBlock<'a> {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

impl Recall {
    /// Reads a transcript: its beginning for the first prompt, its end for everything else.
    ///
    /// # Errors
    ///
    /// If it cannot be read. Lines that cannot be understood are passed over.
    pub fn of(transcript: &mut (impl Read + Seek)) -> io::Result<Self> {
        let length = transcript.seek(SeekFrom::End(0))?;
        let mut recall = Self::default();
        transcript.seek(SeekFrom::Start(0))?;
        read_lines(transcript.by_ref().take(limits::HEAD_BYTES_MAX.min(length)), false, |line| {
            if recall.first_prompt.is_none() {
                recall.first_prompt = prompt_of(line);
            }
        })?;
        let from = length.saturating_sub(limits::TAIL_BYTES_MAX);
        transcript.seek(SeekFrom::Start(from))?;
        read_lines(transcript.by_ref().take(length - from), from > 0, |line| recall.take(line))?;
        Ok(recall)
    }

    /// What the last line of the conversation is called: another one, and more was said.
    #[must_use]
    pub fn last_line(&self) -> Option<&str> {
        self.last_line.as_deref()
    }

    /// The same in words that a handoff document is made from.
    #[must_use]
    pub fn into_told(self) -> Told {
        let failed = self.trace.failed.into_iter().map(|failed| FailedCommand {
            command: failed.command,
            code: failed.exit,
            last_line: failed.last_line,
        });
        let asked_last = self.last_prompt.filter(|last| Some(last) != self.first_prompt.as_ref());
        Told {
            task: self.first_prompt,
            asked_last,
            last_words: Some(self.trace.last_words).filter(|words| !words.trim().is_empty()),
            edited: self.edited.into(),
            succeeded: self.trace.succeeded.into(),
            failed: failed.collect(),
            test: self.test,
            todos: self.todos.into_list(),
            compacted: self.compactions > 0,
        }
    }

    fn take(&mut self, line: &[u8]) {
        // Most bytes of a transcript are requests and attachments, which say nothing new.
        let of_interest = [&b"\"assistant\""[..], b"\"user\"", b"\"compact_boundary\""];
        if !of_interest.iter().any(|word| memchr::memmem::find(line, word).is_some()) {
            return;
        }
        let Ok(head) = serde_json::from_slice::<Head<'_>>(line) else { return };
        if head.side_chain {
            return;
        }
        match head.kind.as_str() {
            "assistant" => self.response(&head),
            "user" => self.answer(&head, line),
            "system" if head.subtype.as_deref() == Some("compact_boundary") => self.compactions += 1,
            _ => return,
        }
        self.last_line = head.uuid.or_else(|| self.last_line.take());
    }

    fn response(&mut self, head: &Head<'_>) {
        let Some(message) = head.message else { return };
        if let Ok(response) = serde_json::from_str::<Response<'_>>(message.get()) {
            for block in response.content {
                if let (Some(id), Some(name), Some(input)) = (block.id, block.name, block.input) {
                    self.todos.call(&id, &name, input);
                }
            }
        }
        let Some(event) = event_of("assistant", message) else { return };
        if let ClientEvent::Assistant(response) = &event {
            let calls = response.blocks.iter().filter_map(|block| match block {
                Block::Call(call) => Some(call),
                Block::Text(_) => None,
            });
            calls.for_each(|call| keep(&mut self.open, call.clone(), limits::OPEN_CALLS_MAX));
        }
        self.trace.observe(&event);
    }

    fn answer(&mut self, head: &Head<'_>, line: &[u8]) {
        if let Some(prompt) = prompt_of(line) {
            self.last_prompt = Some(prompt);
            return;
        }
        let Some(event) = head.message.and_then(|message| event_of("user", message)) else { return };
        if let ClientEvent::ToolResults(results) = &event {
            results.results.iter().for_each(|result| self.result(result));
        }
        self.trace.observe(&event);
    }

    fn result(&mut self, result: &ToolResult) {
        self.todos.answer(&result.tool_use_id, &result.excerpt);
        let Some(place) = self.open.iter().position(|call| call.id == result.tool_use_id) else { return };
        let Some(call) = self.open.remove(place) else { return };
        match call.kind {
            ToolKind::Edit if !result.is_error => self.edit(call.target),
            ToolKind::Shell if runs_tests(&call.target) => self.test = Some(test_run(call.target, result)),
            ToolKind::Edit
            | ToolKind::Shell
            | ToolKind::Read
            | ToolKind::Subagent
            | ToolKind::Schedule
            | ToolKind::Other => {}
        }
    }

    fn edit(&mut self, path: String) {
        self.edited.retain(|known| *known != path);
        keep(&mut self.edited, path, limits::EDITED_KEPT);
    }
}

fn test_run(command: String, result: &ToolResult) -> TestRun {
    let mut lines = result.excerpt.lines().map(str::trim);
    let last_line = lines.rfind(|line| !line.is_empty()).unwrap_or_default().to_owned();
    TestRun { command, passed: !result.is_error, last_line }
}

/// A message of the transcript as the stream would have it.
fn event_of(kind: &str, message: &RawValue) -> Option<ClientEvent> {
    let line = format!(r#"{{"type":"{kind}","message":{}}}"#, message.get());
    Some(ClientEvent::parse(line.as_bytes())).filter(|event| *event != ClientEvent::Malformed)
}

/// Reads lines to the end, and hands on those that are whole. `in_mid_line`: the first is a piece.
fn read_lines(mut source: impl Read, in_mid_line: bool, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut is_piece = in_mid_line;
    let mut splitter = LineSplitter::new();
    let mut hear = |line: Line<'_>| {
        let was_piece = std::mem::take(&mut is_piece);
        if let (Line::Whole(line), false) = (line, was_piece) {
            take(line);
        }
    };
    let mut chunk = vec![0; limits::LINE_BUFFER_KEPT];
    loop {
        match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => splitter.push(&chunk[..read], &mut hear),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    // A line without an end may still be whole: then it parses.
    splitter.finish(&mut hear);
    Ok(())
}

/// Appends, and forgets the oldest above `most`.
fn keep<T>(kept: &mut VecDeque<T>, new: T, most: usize) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(new);
}

/// A text of a JSON value, cut if it is long.
fn text_of(raw: &RawValue) -> String {
    excerpt::of_json(raw, limits::PROMPT)
}

#[cfg(test)]
mod tests;
