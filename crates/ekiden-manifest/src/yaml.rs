//! YAML into the tree.
//!
//! The library yields events. An alias stands for a copy of its anchor's value, and copies are counted, since
//! a few lines can stand for billions of values. The key `<<` merges the entries of other tables. Plain
//! scalars follow the core schema of YAML 1.2, so `no` and `on` are text.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use ekiden_core::limits::{MANIFEST_ALIASED_MAX, MANIFEST_DEPTH_MAX};
use saphyr_parser::{Event, Parser, ScalarStyle, StrInput};

use crate::fault::Fault;
use crate::tree::{Entry, Growth, Node, Value};

const MERGE: &str = "<<";

pub(crate) fn parse(text: &str) -> Result<Node, Fault> {
    let mut yaml = Yaml {
        events: Parser::new_from_str(text),
        growth: Growth::default(),
        anchors: HashMap::new(),
        copied: 0,
    };
    let mut root = None;
    while let Some((event, line)) = yaml.next()? {
        let is_frame = matches!(
            event,
            Event::Nothing
                | Event::StreamStart
                | Event::StreamEnd
                | Event::DocumentStart(_)
                | Event::DocumentEnd
        );
        if root.is_some() && matches!(event, Event::DocumentStart(_)) {
            return Err(Fault::new(line, "a second document begins here"));
        }
        if !is_frame {
            root = Some(yaml.node(event, line, 1)?);
        }
    }
    root.ok_or_else(|| Fault::new(None, "the file is empty"))
}

struct Yaml<'t> {
    events: Parser<'t, StrInput<'t>>,
    growth: Growth,
    anchors: HashMap<usize, Node>,
    /// The values that anchors and aliases have copied.
    copied: usize,
}

impl<'t> Yaml<'t> {
    fn next(&mut self) -> Result<Option<(Event<'t>, u32)>, Fault> {
        let line = |line: usize| u32::try_from(line).unwrap_or(u32::MAX);
        match self.events.next_event().transpose() {
            Ok(next) => Ok(next.map(|(event, span)| (event, line(span.start.line())))),
            Err(error) => {
                let text = format!("not valid YAML: {}", error.info());
                Err(Fault::new(line(error.marker().line()), &text))
            }
        }
    }

    /// The value that begins with an event.
    fn node(&mut self, event: Event<'t>, line: u32, depth: usize) -> Result<Node, Fault> {
        self.growth.add(line, depth)?;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = if style == ScalarStyle::Plain && tag.is_none() {
                    plain_value(text)
                } else {
                    Value::Text(text.into_owned())
                };
                (value, anchor)
            }
            Event::SequenceStart(anchor, _) => (Value::List(self.children(depth)?), anchor),
            Event::MappingStart(anchor, _) => {
                let mut entries = Vec::new();
                let mut children = self.children(depth)?.into_iter();
                while let (Some(key), Some(node)) = (children.next(), children.next()) {
                    let line = key.line;
                    let key = key_of(key)?;
                    entries.push(Entry { key, line, node });
                }
                (merged(entries)?, anchor)
            }
            Event::Alias(anchor) => {
                let Some(node) = self.anchors.get(&anchor) else {
                    let text = "an alias is inside the value that it names";
                    return Err(Fault::new(line, text));
                };
                let value = node.value.clone();
                let node = Node { line, value };
                self.count_copy(&node, depth)?;
                return Ok(node);
            }
            // The parser yields a value wherever one is required.
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => (Value::Null, 0),
        };
        let node = Node { line, value };
        if anchor > 0 {
            self.count_copy(&node, depth)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    /// The values up to the end of a list or a table; in a table they alternate between key and value.
    fn children(&mut self, depth: usize) -> Result<Vec<Node>, Fault> {
        let mut nodes = Vec::new();
        while let Some((event, line)) = self.next()? {
            if matches!(event, Event::SequenceEnd | Event::MappingEnd) {
                break;
            }
            nodes.push(self.node(event, line, depth + 1)?);
        }
        Ok(nodes)
    }

    fn count_copy(&mut self, node: &Node, depth: usize) -> Result<(), Fault> {
        let (size, deep) = node.size();
        self.copied += size;
        if self.copied > MANIFEST_ALIASED_MAX || depth + deep > MANIFEST_DEPTH_MAX + 1 {
            let text = "aliases expand to too many values, or too deep ones";
            return Err(Fault::new(node.line, text));
        }
        Ok(())
    }
}

/// A table with everything that `<<` merges into it: its own entries win, then those of the first table.
fn merged(entries: Vec<Entry>) -> Result<Value, Fault> {
    // A second `<<` is a duplicate key.
    let Value::Map(mut entries) = Value::map(entries)? else {
        return Ok(Value::Null);
    };
    let Some(at) = entries.iter().position(|entry| entry.key == MERGE) else {
        return Ok(Value::Map(entries));
    };
    let Entry { line, node, .. } = entries.remove(at);
    let mut keys: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    let tables = if let Value::List(nodes) = node.value {
        nodes.into_iter().map(|node| node.value).collect()
    } else {
        vec![node.value]
    };
    for table in tables {
        let Value::Map(others) = table else {
            let text = "\"<<\" merges a table or a list of tables, not ";
            return Err(Fault::new(line, &format!("{text}{}", table.name())));
        };
        let new = |other: &Entry| keys.insert(other.key.clone());
        entries.extend(others.into_iter().filter(new));
    }
    Ok(Value::Map(entries))
}

fn key_of(node: Node) -> Result<String, Fault> {
    match node.value {
        Value::Text(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Whole(number) => Ok(number.to_string()),
        Value::Fraction(number) => Ok(number.to_string()),
        Value::Null => Ok(String::new()),
        Value::Date | Value::List(_) | Value::Map(_) => {
            Err(Fault::new(node.line, "a list or a table cannot be a key"))
        }
    }
}

fn plain_value(text: Cow<'_, str>) -> Value {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    // Without a digit, it is a word that Rust would read as a number: `inf`, `nan`.
    let numeric = text.bytes().any(|byte| byte.is_ascii_digit());
    match (text.parse::<i64>(), text.parse::<f64>()) {
        (Ok(whole), _) => Value::Whole(whole),
        (Err(_), Ok(number)) if numeric => Value::of_number(number),
        (Err(_), Ok(_) | Err(_)) => Value::Text(text.into_owned()),
    }
}
