//! The tree that every syntax is read into: values with the lines where they stand.
//!
//! Invariants, whatever the file: no value lies deeper than [`MANIFEST_DEPTH_MAX`], there are at most
//! [`MANIFEST_NODES_MAX`] values, and no table has a key twice.

use super::fault::{Fault, quoted};
use crate::limits::{MANIFEST_DEPTH_MAX, MANIFEST_NODES_MAX};

/// The largest number up to which every whole one has a floating-point number of its own.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) line: u32,
    pub(super) value: Value,
}

/// A value of any of the syntaxes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Whole(i64),
    /// A number with a fraction, or too large for a whole one.
    Fraction(f64),
    /// A date or a time of day, which TOML knows.
    Date,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: u32,
    pub(super) node: Node,
}

/// Counts the values while a tree grows.
#[derive(Debug, Default)]
pub(super) struct Growth {
    nodes: usize,
}

impl Growth {
    /// One more value, this deep. The error says why there may be none.
    pub(super) fn add(&mut self, depth: usize) -> Result<(), String> {
        self.nodes += 1;
        if depth > MANIFEST_DEPTH_MAX {
            return Err(format!("values lie more than {MANIFEST_DEPTH_MAX} deep inside each other"));
        }
        if self.nodes > MANIFEST_NODES_MAX {
            return Err(format!("more than {MANIFEST_NODES_MAX} values"));
        }
        Ok(())
    }
}

impl Node {
    pub(super) fn new(line: u32, value: Value) -> Self {
        Self { line, value }
    }

    /// The entries of a table; none of anything else.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            Value::Null
            | Value::Bool(_)
            | Value::Whole(_)
            | Value::Fraction(_)
            | Value::Date
            | Value::Text(_)
            | Value::List(_) => &[],
        }
    }

    /// The value of a key, unless it is nothing.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|entry| entry.key == key)?;
        Some(&entry.node).filter(|node| node.value != Value::Null)
    }

    pub(super) fn text(&self) -> Option<&str> {
        self.value.text()
    }

    /// A table has a key, be it with nothing.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries().iter().any(|entry| entry.key == key)
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        match &self.value {
            Value::List(nodes) => Some(nodes),
            Value::Null
            | Value::Bool(_)
            | Value::Whole(_)
            | Value::Fraction(_)
            | Value::Date
            | Value::Text(_)
            | Value::Map(_) => None,
        }
    }

    /// How many values there are, this one among them.
    pub(super) fn size(&self) -> usize {
        let below: usize = match &self.value {
            Value::List(nodes) => nodes.iter().map(Self::size).sum(),
            Value::Map(entries) => entries.iter().map(|entry| entry.node.size()).sum(),
            Value::Null
            | Value::Bool(_)
            | Value::Whole(_)
            | Value::Fraction(_)
            | Value::Date
            | Value::Text(_) => 0,
        };
        1 + below
    }
}

impl Value {
    /// A number of a syntax that makes nothing of how it is written: `5.0` and `5e0` are five.
    pub(super) fn of_number(number: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and bounded before")]
        if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
            Self::Whole(number as i64)
        } else {
            Self::Fraction(number)
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null
            | Self::Bool(_)
            | Self::Whole(_)
            | Self::Fraction(_)
            | Self::Date
            | Self::List(_)
            | Self::Map(_) => None,
        }
    }

    /// A table, unless a key is there twice.
    pub(super) fn map(entries: Vec<Entry>) -> Result<Self, Fault> {
        let mut sorted: Vec<&Entry> = entries.iter().collect();
        sorted.sort_by(|one, two| one.key.cmp(&two.key));
        let twice = sorted.windows(2).filter(|pair| pair[0].key == pair[1].key);
        if let Some(pair) = twice.min_by_key(|pair| pair[1].line) {
            let text = format!("{} is there twice, in line {} too", quoted(&pair[1].key), pair[0].line);
            return Err(Fault::new(pair[1].line, &text));
        }
        Ok(Self::Map(entries))
    }

    /// What it is, for people.
    pub(super) fn told(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(true) => "true",
            Self::Bool(false) => "false",
            Self::Whole(_) => "a number",
            Self::Fraction(_) => "a number with a fraction, or too large",
            Self::Date => "a date",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a table",
        }
    }
}
