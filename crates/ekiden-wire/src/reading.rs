//! A line of a saved stream as a person reads it: thoughts, results and edits too, which decide nothing in a run.

use serde_json::Value;

use crate::excerpt::{self, Bounds};
use crate::json;
use crate::lines::Line;
use crate::tools::telling;

/// What is kept of one text.
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
    /// Bytes that are no message: a line that is cut off, or longer than one that is read.
    Unread(u64),
}

/// The pieces of a line. One that holds no message for a person has none.
pub fn pieces(line: Line<'_>) -> Vec<Piece> {
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

/// Told by its members rather than its type, so that kinds of a newer program are shown too.
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
}
