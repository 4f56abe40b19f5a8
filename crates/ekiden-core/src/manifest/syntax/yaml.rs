//! YAML into the tree.
//!
//! The library tells events; the tree is built without recursion. An alias stands for a copy of what its
//! anchor names, and copies are counted: a few lines can stand for billions of values. What a table takes
//! over by the key `<<` comes from such a copy, or stands there in full, so it needs no count of its own. Plain
//! words are read by the core schema of YAML 1.2, so `no` and `on` are text.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError};

use crate::limits::{MANIFEST_ALIASED_MAX, MANIFEST_DEPTH_MAX};
use crate::manifest::fault::Fault;
use crate::manifest::node::{Entry, Growth, Node, Value};

/// The key whose value is taken over into the table around it.
const MERGE: &str = "<<";

pub(super) fn tree(text: &str) -> Result<Node, Fault> {
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| no_yaml(&error))?;
        builder.line = line(span.start.line());
        builder.event(event)?;
    }
    builder.root.ok_or_else(|| Fault::new(None, "the file is empty"))
}

fn no_yaml(error: &ScanError) -> Fault {
    Fault::new(line(error.marker().line()), &format!("this is no YAML: {}", error.info()))
}

fn line(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

/// A list or a table whose end is not reached.
struct Open {
    line: u32,
    anchor: usize,
    parts: Parts,
}

enum Parts {
    List(Vec<Node>),
    /// A table, and the key that waits for its value.
    Map(Vec<Entry>, Option<(String, u32)>),
}

#[derive(Default)]
struct Builder {
    /// The line of the event at hand.
    line: u32,
    open: Vec<Open>,
    root: Option<Node>,
    growth: Growth,
    anchors: HashMap<usize, Node>,
    aliased: usize,
}

impl Builder {
    fn event(&mut self, event: Event<'_>) -> Result<(), Fault> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(self.refuse("a second document begins here"))
            }
            Event::DocumentStart(_) => Ok(()),
            Event::Alias(anchor) => self.alias(anchor),
            Event::Scalar(text, style, anchor, tag) => {
                self.grow()?;
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let value = if plain { plain_value(text) } else { Value::Text(text.into_owned()) };
                self.done(Node::new(self.line, value), anchor)
            }
            Event::SequenceStart(anchor, _) => self.begin(anchor, Parts::List(Vec::new())),
            Event::MappingStart(anchor, _) => self.begin(anchor, Parts::Map(Vec::new(), None)),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
        }
    }

    fn refuse(&self, why: &str) -> Fault {
        Fault::new(self.line, why)
    }

    fn grow(&mut self) -> Result<(), Fault> {
        self.growth.add(self.open.len() + 1).map_err(|why| Fault::new(self.line, &why))
    }

    fn begin(&mut self, anchor: usize, parts: Parts) -> Result<(), Fault> {
        self.grow()?;
        self.open.push(Open { line: self.line, anchor, parts });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(Open { line, anchor, parts }) = self.open.pop() else { return Ok(()) };
        let value = match parts {
            Parts::List(nodes) => Value::List(nodes),
            Parts::Map(entries, _) => merged(Value::map(entries)?)?,
        };
        self.done(Node::new(line, value), anchor)
    }

    fn alias(&mut self, anchor: usize) -> Result<(), Fault> {
        let Some(node) = self.anchors.get(&anchor) else {
            return Err(self.refuse("an alias stands inside what it names"));
        };
        self.aliased += node.size();
        let deep = self.open.len() + depth(node) > MANIFEST_DEPTH_MAX;
        if self.aliased > MANIFEST_ALIASED_MAX || deep {
            return Err(self.refuse("aliases stand for too many values, or for too deep ones"));
        }
        let copy = Node { line: self.line, ..node.clone() };
        self.put(copy)
    }

    /// A whole value.
    fn done(&mut self, node: Node, anchor: usize) -> Result<(), Fault> {
        if anchor > 0 {
            self.aliased += node.size();
            if self.aliased > MANIFEST_ALIASED_MAX {
                return Err(self.refuse("anchors name too many values"));
            }
            self.anchors.insert(anchor, node.clone());
        }
        self.put(node)
    }

    fn put(&mut self, node: Node) -> Result<(), Fault> {
        let line = self.line;
        match self.open.last_mut().map(|open| &mut open.parts) {
            None => self.root = Some(node),
            Some(Parts::List(nodes)) => nodes.push(node),
            Some(Parts::Map(entries, waiting)) => match waiting.take() {
                Some((key, line)) => entries.push(Entry { key, line, node }),
                None => *waiting = Some((key(node).ok_or_else(|| not_a_key(line))?, line)),
            },
        }
        Ok(())
    }
}

/// A table's own entries, and those of the tables that it takes over but for the keys that it has already:
/// its own go before all, an earlier table before a later one.
fn merged(table: Value) -> Result<Value, Fault> {
    let Value::Map(mut entries) = table else { return Ok(table) };
    let Some(at) = entries.iter().position(|entry| entry.key == MERGE) else {
        return Ok(Value::Map(entries));
    };
    let Entry { line, node, .. } = entries.remove(at);
    let tables = match node.value {
        Value::List(nodes) => nodes.into_iter().map(|node| node.value).collect(),
        table @ (Value::Null
        | Value::Bool(_)
        | Value::Whole(_)
        | Value::Fraction(_)
        | Value::Date
        | Value::Text(_)
        | Value::Map(_)) => vec![table],
    };
    let mut keys: HashSet<String> = entries.iter().map(|entry| entry.key.clone()).collect();
    for table in tables {
        let Value::Map(others) = table else {
            let text = format!("\"{MERGE}\" takes over a table or a list of tables, not {}", table.told());
            return Err(Fault::new(line, &text));
        };
        entries.extend(others.into_iter().filter(|other| keys.insert(other.key.clone())));
    }
    Ok(Value::Map(entries))
}

fn not_a_key(line: u32) -> Fault {
    Fault::new(line, "a list or a table cannot be a key")
}

/// A plain word as a key.
fn key(node: Node) -> Option<String> {
    match node.value {
        Value::Text(text) => Some(text),
        Value::Bool(value) => Some(value.to_string()),
        Value::Whole(number) => Some(number.to_string()),
        Value::Fraction(number) => Some(number.to_string()),
        Value::Null => Some(String::new()),
        Value::Date | Value::List(_) | Value::Map(_) => None,
    }
}

fn depth(node: &Node) -> usize {
    let below = match &node.value {
        Value::List(nodes) => nodes.iter().map(depth).max(),
        Value::Map(entries) => entries.iter().map(|entry| depth(&entry.node)).max(),
        Value::Null
        | Value::Bool(_)
        | Value::Whole(_)
        | Value::Fraction(_)
        | Value::Date
        | Value::Text(_) => None,
    };
    1 + below.unwrap_or(0)
}

fn plain_value(text: Cow<'_, str>) -> Value {
    match text.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && text.bytes().any(|byte| byte.is_ascii_digit());
    match (numeric, text.parse::<i64>(), text.parse::<f64>()) {
        (true, Ok(whole), _) => Value::Whole(whole),
        (true, Err(_), Ok(number)) => Value::of_number(number),
        (true, Err(_), Err(_)) | (false, _, _) => Value::Text(text.into_owned()),
    }
}
