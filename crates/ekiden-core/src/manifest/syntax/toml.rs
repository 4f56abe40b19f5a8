//! TOML into the tree.
//!
//! The library bounds how deep brackets nest, and refuses keys that are there twice. Keys with dots nest
//! too, so the depth is measured here as well.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::manifest::fault::Fault;
use crate::manifest::node::{Entry, Growth, Node, Value};

pub(super) fn tree(text: &str) -> Result<Node, Fault> {
    let lines = Lines::of(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| lines.of_span(&span));
        Fault::new(line, &format!("this is no TOML: {}", error.message()))
    })?;
    let mut builder = Builder { lines, growth: Growth::default() };
    builder.table(1, table.into_inner(), 1)
}

/// Where the lines of a text end.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    fn of_span(&self, span: &Range<usize>) -> u32 {
        let before = self.0.partition_point(|end| *end < span.start);
        u32::try_from(before).map_or(u32::MAX, |before| before.saturating_add(1))
    }
}

struct Builder {
    lines: Lines,
    growth: Growth,
}

impl Builder {
    fn table(&mut self, line: u32, table: DeTable<'_>, depth: usize) -> Result<Node, Fault> {
        self.growth.add(depth).map_err(|why| Fault::new(line, &why))?;
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            let line = self.lines.of_span(&key.span());
            let node = self.value(value, depth + 1)?;
            entries.push(Entry { key: key.into_inner().into_owned(), line, node });
        }
        entries.sort_by_key(|entry| entry.line);
        Ok(Node::new(line, Value::map(entries)?))
    }

    fn value(&mut self, value: Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Fault> {
        let line = self.lines.of_span(&value.span());
        let plain = match value.into_inner() {
            DeValue::Table(table) => return self.table(line, table, depth),
            DeValue::Array(values) => {
                self.growth.add(depth).map_err(|why| Fault::new(line, &why))?;
                let nodes: Result<_, _> =
                    values.into_iter().map(|value| self.value(value, depth + 1)).collect();
                return Ok(Node::new(line, Value::List(nodes?)));
            }
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => whole(&number),
            DeValue::Float(number) => Value::Fraction(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(value) => Value::Bool(value),
            DeValue::Datetime(_) => Value::Date,
        };
        self.growth.add(depth).map_err(|why| Fault::new(line, &why))?;
        Ok(Node::new(line, plain))
    }
}

fn whole(number: &DeInteger<'_>) -> Value {
    i64::from_str_radix(number.as_str(), number.radix()).map_or(Value::Fraction(f64::INFINITY), Value::Whole)
}
