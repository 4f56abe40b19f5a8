//! A line of a saved stream as a person reads it: also thoughts, results and edits, which decide nothing in a run.

use serde_json::Value;

use crate::excerpt::{self, Bounds};
use crate::json;
use crate::lines::Line;
use crate::saved::Saved;
use crate::stream::{Block, ClientEvent, ToolResult};
use crate::tools::telling;

/// How much of one text is kept.
const TEXT: Bounds = Bounds {
    head: 8_000,
    tail: 8_000,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Thought(String),
    Said(String),
    Called {
        name: String,
        input: String,
        /// The texts before and after, for each change to a file.
        edits: Vec<[String; 2]>,
    },
    Returned {
        is_error: bool,
        text: String,
    },
    /// Bytes that are not a message: a line that is cut off, or too long to read.
    Unread(u64),
}

/// What the lines of a stream are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Messages,
    /// What a command prints.
    Text,
    /// Attempts of both kinds share it: each line shows which it is.
    Either,
}

/// Reads the lines of a saved stream, of any agent.
#[derive(Default)]
pub struct Reading {
    saved: Saved,
    form: Form,
    /// Its beginning is not read.
    is_end: bool,
}

impl Reading {
    pub fn new(form: Form, is_end: bool) -> Self {
        Self {
            form,
            is_end,
            ..Self::default()
        }
    }

    /// The pieces of the next line; none if it has no message for a person.
    pub fn pieces(&mut self, line: Line<'_>) -> Vec<Piece> {
        if self.is_end && self.form != Form::Text {
            self.saved.join(line);
        }
        let is_text = match self.form {
            Form::Messages => false,
            Form::Text => true,
            Form::Either => !self.saved.is_message(line),
        };
        if is_text {
            return printed(line).into_iter().collect();
        }
        match self.saved.translated(line) {
            Some(events) => events
                .iter()
                .flat_map(|event| pieces_of_event(event, line))
                .collect(),
            None => pieces(line),
        }
    }
}

fn printed(line: Line<'_>) -> Option<Piece> {
    match line {
        Line::Oversized { len, .. } => Some(Piece::Unread(len)),
        Line::Whole(bytes) if bytes.trim_ascii().is_empty() => None,
        Line::Whole(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            Some(Piece::Said(excerpt::of_text(&text, TEXT)))
        }
    }
}

/// What an event tells a person. An edit is a call like any other: its texts are not in the event.
fn pieces_of_event(event: &ClientEvent, line: Line<'_>) -> Vec<Piece> {
    if let ClientEvent::Assistant(response) = event {
        let blocks = response.blocks.iter();
        let piece = |block: &Block| match block {
            Block::Text(words) => Piece::Said(words.clone()),
            Block::Call(call) => Piece::Called {
                name: call.name.clone(),
                input: call.target.clone(),
                edits: Vec::new(),
            },
        };
        blocks.map(piece).collect()
    } else if let ClientEvent::ToolResults(results) = event {
        let piece = |result: &ToolResult| Piece::Returned {
            is_error: result.is_error,
            text: result.excerpt.clone(),
        };
        results.iter().map(piece).collect()
    } else if let (ClientEvent::Malformed, Line::Whole(bytes)) = (event, line) {
        vec![Piece::Unread(bytes.len() as u64)]
    } else {
        Vec::new()
    }
}

/// The pieces of one of Claude Code's lines.
fn pieces(line: Line<'_>) -> Vec<Piece> {
    let bytes = match line {
        Line::Oversized { len, .. } => return vec![Piece::Unread(len)],
        Line::Whole(bytes) if bytes.trim_ascii().is_empty() => return Vec::new(),
        Line::Whole(bytes) => bytes,
    };
    let Some(line) = json::parse(bytes) else {
        return vec![Piece::Unread(bytes.len() as u64)];
    };
    let blocks = json::elements(&line["message"]["content"]);
    match line["type"].as_str() {
        Some("assistant" | "user") => blocks.iter().filter_map(piece).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Recognized by its members rather than its type, so that a newer program's kinds are shown too.
fn piece(block: &Value) -> Option<Piece> {
    if let Some(name) = block["name"].as_str() {
        let (name, input) = (name.to_owned(), &block["input"]);
        return Some(Piece::Called {
            name,
            input: excerpt::of_json(telling(input).unwrap_or(input), TEXT),
            edits: edits(input),
        });
    }
    if block["tool_use_id"].is_string() {
        let content = &block["content"];
        let texts = json::elements(content).iter();
        let texts: Vec<&str> = texts.filter_map(|block| block["text"].as_str()).collect();
        let text = match texts.is_empty() {
            true => excerpt::of_json(content, TEXT),
            false => excerpt::of_text(&texts.join("\n"), TEXT),
        };
        let is_error = block["is_error"] == true;
        return Some(Piece::Returned { is_error, text });
    }
    let text = |value: &Value| Some(excerpt::of_text(value.as_str()?, TEXT));
    let thought = text(&block["thinking"]).map(Piece::Thought);
    thought.or_else(|| text(&block["text"]).map(Piece::Said))
}

fn edits(input: &Value) -> Vec<[String; 2]> {
    let text = |value: &Value| value.as_str().map(|text| excerpt::of_text(text, TEXT));
    let edit = |edit: &Value| Some([text(&edit["old_string"])?, text(&edit["new_string"])?]);
    let written = || Some([String::new(), text(&input["content"])?]);
    let several = json::elements(&input["edits"]).iter().filter_map(edit);
    let one = edit(input).or_else(written);
    one.into_iter().chain(several).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: UIX-01
    #[test]
    fn thoughts_edits_and_what_is_torn_are_told_apart() {
        let of = |line: &str| pieces(Line::Whole(line.as_bytes()));
        let said = r#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"now"},{"type":"tool_use","name":"Edit","input":{"file_path":"a.rs","old_string":"1","new_string":"2"}}]}}"#;
        let called = Piece::Called {
            name: "Edit".to_owned(),
            input: "a.rs".to_owned(),
            edits: vec![["1".to_owned(), "2".to_owned()]],
        };
        let (thought, words) = (
            Piece::Thought("hm".to_owned()),
            Piece::Said("now".to_owned()),
        );
        assert_eq!(of(said), [thought, words, called]);
        let returned = r#"{"type":"user","message":{"content":[{"tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"exit 1"}]}]}}"#;
        let text = "exit 1".to_owned();
        assert_eq!(
            of(returned),
            [Piece::Returned {
                is_error: true,
                text
            }]
        );
        assert_eq!(of(r#"{"type":"of a newer program","x":1}"#), []);
        assert_eq!(of(r#"{"type":"assis"#), [Piece::Unread(14)]);
        let head = &[b'x'; 10];
        assert_eq!(
            pieces(Line::Oversized {
                len: 9_000_000,
                head
            }),
            [Piece::Unread(9_000_000)]
        );
    }

    fn read(reading: &mut Reading, text: &str) -> Vec<Piece> {
        let lines = text.lines().map(|line| Line::Whole(line.as_bytes()));
        lines.flat_map(|line| reading.pieces(line)).collect()
    }

    // shows: UIX-01, AGT-15
    #[test]
    fn recorded_streams_are_told_to_a_person_whatever_they_are_written_in() {
        for (name, call) in [
            ("opencode", "echo hello-from-tool"),
            ("codex-app-server", "echo"),
            ("gemini", ""),
        ] {
            let path = format!(
                "{}/fixtures/agents/{name}.jsonl",
                env!("CARGO_MANIFEST_DIR")
            );
            let text = std::fs::read_to_string(path).unwrap();
            let told = read(&mut Reading::new(Form::Either, false), &text);
            assert_eq!(told, read(&mut Reading::default(), &text), "{name}");
            let is_call = |piece: &Piece| matches!(piece, Piece::Called { input, .. } if input.contains(call));
            assert!(told.iter().any(is_call), "{name}: {told:?}");
            let is_result = |piece: &Piece| matches!(piece, Piece::Returned { .. });
            assert!(told.iter().any(is_result), "{name}: {told:?}");
            let is_unread = |piece: &Piece| matches!(piece, Piece::Unread(_));
            assert!(!told.iter().any(is_unread), "{name}: {told:?}");
        }
    }

    fn said(text: &str) -> Piece {
        Piece::Said(text.to_owned())
    }

    // shows: UIX-01, AGT-15
    #[test]
    fn the_end_of_a_stream_is_told_whichever_conversation_it_is_of() {
        let call = |session: &str, command: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"tool_call","toolCallId":"{command}","title":"{command}","kind":"execute","status":"pending","rawInput":{{"command":"{command}"}}}}}}}}"#
            )
        };
        let codex = r#"{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"hm"}}}"#;
        let end = [call("first", "ls"), call("second", "pwd"), codex.to_owned()].join("\n");
        for form in [Form::Messages, Form::Either] {
            let told = read(&mut Reading::new(form, true), &end);
            let [
                Piece::Called { input: ls, .. },
                Piece::Called { input: pwd, .. },
                last,
            ] = &told[..]
            else {
                panic!("{told:?}");
            };
            assert_eq!((&**ls, &**pwd, last), ("ls", "pwd", &said("hm")));
        }
    }

    /// As after a fallback.
    // shows: UIX-01, AGT-06, AGT-15
    #[test]
    fn attempts_of_different_agents_share_a_stream() {
        let codex = r#"{"id":1,"result":{"userAgent":"codex"}}
{"id":2,"result":{"thread":{"id":"t"}}}
{"method":"item/completed","params":{"threadId":"t","item":{"type":"agentMessage","text":"codex"}}}
"#;
        let claude = r#"{"type":"system","subtype":"init"}
{"type":"assistant","message":{"content":[{"type":"text","text":"claude"}]}}
"#;
        let acp = r#"{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}
{"id":2,"result":{"sessionId":"s"}}
{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"acp"}}}}
{"id":11,"result":{"stopReason":"end_turn"}}
"#;
        let agents = [("codex", codex), ("claude", claude), ("acp", acp)];
        for (first, before) in agents {
            for (second, after) in agents {
                let told = read(&mut Reading::default(), &format!("{before}{after}"));
                assert_eq!(told, [said(first), said(second)]);
                let all = format!("{before}plain\n{after}");
                let told = read(&mut Reading::new(Form::Either, false), &all);
                assert_eq!(told, [said(first), said("plain"), said(second)]);
            }
        }
    }

    // shows: AGT-15
    #[test]
    fn the_conversation_is_that_of_the_agent_that_went_on() {
        let stream = r#"{"id":1,"result":{"userAgent":"codex"}}
{"id":2,"result":{"thread":{"id":"t"}}}
{"id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}
{"id":2,"result":{"sessionId":"s"}}"#;
        let mut saved = Saved::default();
        for line in stream.lines() {
            saved.read(Line::Whole(line.as_bytes()), |_| {});
        }
        assert_eq!(saved.conversation(), Some("s"));
    }

    // shows: UIX-01, AGT-06
    #[test]
    fn what_a_command_prints_is_told_as_it_is() {
        let lines = ["one", r#"{"method":"m"}"#, r#"{"id":3,"result":0}"#, "42"];
        for form in [Form::Text, Form::Either] {
            let told = read(&mut Reading::new(form, false), &lines.join("\n\n"));
            assert_eq!(told, lines.map(said));
        }
        let line = r#"{"type":"assistant"}"#;
        let told = read(&mut Reading::new(Form::Text, true), line);
        assert_eq!(told, [said(line)]);
    }
}
