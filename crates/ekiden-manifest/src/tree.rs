//! The tree that every syntax is parsed into: values with their lines.
//!
//! Invariants, whatever the file: no value lies deeper than [`MANIFEST_DEPTH_MAX`], there are at most
//! [`MANIFEST_NODES_MAX`] values, and no table has a key twice.

use ekiden_core::limits::{MANIFEST_DEPTH_MAX, MANIFEST_NODES_MAX};

use crate::fault::{Fault, quoted};

/// Up to here, every whole number is exact as a floating-point number.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Whole(i64),
    /// A number with a fraction, or too large for a whole one.
    Fraction(f64),
    /// A date or a time of day, which only TOML has.
    Date,
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a table with its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) line: u32,
    pub(crate) node: Node,
}

impl Node {
    /// The entries of a table; none of anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }

    /// The nodes of a list; none of anything else.
    pub(crate) fn list(&self) -> &[Self] {
        if let Value::List(nodes) = &self.value {
            nodes
        } else {
            &[]
        }
    }

    /// The value of a key, unless it is null.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let entry = self.entries().iter().find(|entry| entry.key == key)?;
        Some(&entry.node).filter(|node| node.value != Value::Null)
    }

    /// Whether a table has this key, even with a null value.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries().iter().any(|entry| entry.key == key)
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value {
            Some(text)
        } else {
            None
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_text()
    }

    /// A text and its line.
    pub(crate) fn spot(&self, key: &str) -> Option<(u32, &str)> {
        let node = self.get(key)?;
        Some((node.line, node.as_text()?))
    }

    /// A list's texts and their lines.
    pub(crate) fn spots(&self, key: &str) -> impl Iterator<Item = (u32, &str)> {
        let nodes = self.get(key).map_or(&[][..], Self::list);
        nodes
            .iter()
            .filter_map(|node| Some((node.line, node.as_text()?)))
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        self.spots(key).map(|(_, text)| text.to_owned()).collect()
    }

    pub(crate) fn whole<T: TryFrom<i64>>(&self, key: &str) -> Option<T> {
        if let Value::Whole(number) = self.get(key)?.value {
            number.try_into().ok()
        } else {
            None
        }
    }

    pub(crate) fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), Some(node) if node.value == Value::Bool(true))
    }

    /// Puts a value into a table, replacing an existing one.
    pub(crate) fn set(&mut self, key: &str, value: Value) {
        let line = self.line;
        let Value::Map(entries) = &mut self.value else {
            return;
        };
        match entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => entry.node.value = value,
            None => entries.push(Entry {
                key: key.to_owned(),
                line,
                node: Self { line, value },
            }),
        }
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        let values = self.entries().iter().map(|entry| &entry.node);
        self.list().iter().chain(values)
    }

    /// The number of its values, and their depth.
    pub(crate) fn size(&self) -> (usize, usize) {
        self.children()
            .map(Self::size)
            .fold((1, 1), |all, one| (all.0 + one.0, all.1.max(one.1 + 1)))
    }
}

impl Value {
    /// A number where `5.0` and `5e0` are five.
    pub(crate) fn of_number(number: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and bounded before")]
        if number.fract() == 0.0 && number.abs() <= WHOLE_MAX {
            Self::Whole(number as i64)
        } else {
            Self::Fraction(number)
        }
    }

    /// A table, unless a key occurs twice.
    pub(crate) fn map(entries: Vec<Entry>) -> Result<Self, Fault> {
        let mut sorted: Vec<&Entry> = entries.iter().collect();
        sorted.sort_by(|one, two| one.key.cmp(&two.key));
        let twice = sorted.windows(2).filter(|pair| pair[0].key == pair[1].key);
        if let Some(pair) = twice.min_by_key(|pair| pair[1].line) {
            let (first, key) = (pair[0].line, quoted(&pair[1].key));
            let text = format!("{key} appears twice, first in line {first}");
            return Err(Fault::new(pair[1].line, &text));
        }
        Ok(Self::Map(entries))
    }

    /// What it is, for people.
    pub(crate) fn name(&self) -> &'static str {
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

/// Counts the values while a tree is built.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    nodes: usize,
}

impl Growth {
    /// Adds one value at this depth, if the bounds allow it.
    pub(crate) fn add(&mut self, line: u32, depth: usize) -> Result<(), Fault> {
        self.nodes += 1;
        let text = if depth > MANIFEST_DEPTH_MAX {
            format!("values lie more than {MANIFEST_DEPTH_MAX} deep inside each other")
        } else if self.nodes > MANIFEST_NODES_MAX {
            too_many()
        } else {
            return Ok(());
        };
        Err(Fault::new(line, &text))
    }
}

pub(crate) fn too_many() -> String {
    format!("more than {MANIFEST_NODES_MAX} values")
}
