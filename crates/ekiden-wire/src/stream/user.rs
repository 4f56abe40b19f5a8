//! What comes back to the model: results of its calls, and our messages.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::ClientEvent;
use crate::excerpt;
use crate::limits;

/// The results of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResults {
    /// The main thread called, not a subagent.
    pub main_thread: bool,
    /// Usually one.
    pub results: Vec<ToolResult>,
}

/// The result of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The call.
    pub tool_use_id: String,
    /// The tool failed or was refused.
    pub is_error: bool,
    /// The beginning and end of what it answered.
    pub excerpt: String,
}

#[derive(Deserialize)]
struct UserLine<'a> {
    #[serde(borrow)]
    message: UserMessage<'a>,
    #[serde(default)]
    parent_tool_use_id: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct UserMessage<'a> {
    #[serde(borrow, default)]
    content: Contents<'a>,
}

/// The content blocks of a message; a plain text is none.
#[derive(Default)]
struct Contents<'a>(Vec<Content<'a>>);

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

/// A block inside of a tool's result.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
}

impl Content<'_> {
    fn result(self) -> Option<ToolResult> {
        Some(ToolResult {
            tool_use_id: self.tool_use_id?,
            is_error: self.is_error.unwrap_or(false),
            excerpt: self.content.map(result_excerpt).unwrap_or_default(),
        })
    }
}

pub(super) fn parse(line: &[u8]) -> Option<ClientEvent> {
    let line: UserLine<'_> = serde_json::from_slice(line).ok()?;
    let results: Vec<ToolResult> = line.message.content.0.into_iter().filter_map(Content::result).collect();
    if results.is_empty() {
        return Some(ClientEvent::Ignored);
    }
    Some(ClientEvent::ToolResults(ToolResults { main_thread: line.parent_tool_use_id.is_none(), results }))
}

/// A result is a text, or blocks of which the first text counts.
fn result_excerpt(content: &RawValue) -> String {
    if !content.get().starts_with('[') {
        return excerpt::of_json(content, limits::RESULT);
    }
    let parts: Vec<Part<'_>> = serde_json::from_str(content.get()).unwrap_or_default();
    let text = parts.into_iter().find_map(|part| part.text);
    text.map(|text| excerpt::of_json(text, limits::RESULT)).unwrap_or_default()
}

impl<'de: 'a, 'a> Deserialize<'de> for Contents<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentsVisitor)
    }
}

struct ContentsVisitor;

impl<'de> Visitor<'de> for ContentsVisitor {
    type Value = Contents<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or content blocks")
    }

    fn visit_str<E>(self, _text: &str) -> Result<Contents<'de>, E> {
        Ok(Contents::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut blocks: A) -> Result<Contents<'de>, A::Error> {
        let mut contents = Vec::new();
        while let Some(block) = blocks.next_element()? {
            contents.push(block);
        }
        Ok(Contents(contents))
    }
}
