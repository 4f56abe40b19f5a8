//! The three syntaxes: which one a file has, and how TOML and JSON become the tree.
//!
//! The libraries know the grammars and bound their own recursion, at a depth that needs more stack than most threads have.
//! This module adds that stack, line numbers and bounds. A syntax fault is shown alone, since everything after it would
//! be a guess.

use std::panic::resume_unwind;
use std::thread;

use ekiden_core::limits::{MANIFEST_BYTES_MAX, MANIFEST_NODES_MAX};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::fault::Fault;
use crate::tree::{Entry, Growth, Node, Value, too_many};
use crate::yaml;

/// The stack of the thread that reads, in bytes. Without optimisation, the deepest values that the libraries read took up
/// to 4 MB.
const STACK_BYTES: usize = 16 << 20;

/// The syntax of a manifest's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    Toml,
    Json,
    Yaml,
}

impl Syntax {
    /// By the file's ending; without one by the first character of the text.
    pub fn of(file: &str, text: &str) -> Self {
        let ending = file
            .rsplit_once('.')
            .map(|(_, ending)| ending.to_ascii_lowercase());
        match ending.as_deref() {
            Some("toml") => Self::Toml,
            Some("json") => Self::Json,
            Some("yaml" | "yml") => Self::Yaml,
            Some(_) | None => Self::of_text(text),
        }
    }

    fn of_text(text: &str) -> Self {
        let mut lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let first = lines
            .find(|line| !line.is_empty() && !line.starts_with('#'))
            .unwrap_or_default();
        let key = first.trim_start_matches(|c: char| c.is_alphanumeric() || "_-\"'.".contains(c));
        match first.chars().next() {
            Some('{') => Self::Json,
            Some('[') => Self::Toml,
            Some('-') => Self::Yaml,
            Some(_) if key.starts_with(':') => Self::Yaml,
            Some(_) | None => Self::Toml,
        }
    }
}

pub(crate) fn parse(text: &str, syntax: Syntax) -> Result<Node, Fault> {
    if text.len() > MANIFEST_BYTES_MAX {
        let (size, most) = (text.len().div_ceil(1 << 20), MANIFEST_BYTES_MAX >> 20);
        let text = format!("{size} MB, at most {most} MB are read");
        return Err(Fault::new(None, &text));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let read = || match syntax {
        Syntax::Toml => toml(text),
        Syntax::Json => json(text),
        Syntax::Yaml => yaml::parse(text),
    };
    thread::scope(|scope| {
        let reader = thread::Builder::new().stack_size(STACK_BYTES);
        match reader.spawn_scoped(scope, read) {
            Ok(reader) => reader.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => Err(Fault::new(None, &format!("no thread to read it: {error}"))),
        }
    })
}

fn toml(text: &str) -> Result<Node, Fault> {
    let mut builder = Builder::new(text);
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map(|span| builder.line(span.start));
        Fault::new(line, &format!("not valid TOML: {}", error.message()))
    })?;
    Ok(Node {
        line: 1,
        value: builder.toml_table(table.into_inner(), 2)?,
    })
}

fn json(text: &str) -> Result<Node, Fault> {
    let strict = ParseOptions {
        allow_comments: false,
        allow_loose_object_property_names: false,
        allow_trailing_commas: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    // The parser's own tree is many times as large as the text. Commas inside strings count too; they are
    // few.
    let begins = text
        .bytes()
        .filter(|byte| matches!(byte, b',' | b'[' | b'{'));
    if begins.count() > MANIFEST_NODES_MAX {
        return Err(Fault::new(None, &too_many()));
    }
    let mut builder = Builder::new(text);
    let parsed = parse_to_ast(text, &CollectOptions::default(), &strict).map_err(|error| {
        let line = builder.line(error.range().start);
        Fault::new(line, &format!("not valid JSON: {}", error.kind()))
    })?;
    match parsed.value {
        Some(value) => builder.json(value, 1),
        None => Err(Fault::new(None, "the file is empty")),
    }
}

/// Builds the tree of a text from a parser that reports the byte where each value begins.
struct Builder {
    line_ends: Vec<usize>,
    growth: Growth,
}

impl Builder {
    fn new(text: &str) -> Self {
        let ends = text.bytes().zip(0..).filter(|(byte, _)| *byte == b'\n');
        Self {
            line_ends: ends.map(|(_, at)| at).collect(),
            growth: Growth::default(),
        }
    }

    fn line(&self, start: usize) -> u32 {
        let before = self.line_ends.partition_point(|end| *end < start);
        u32::try_from(before).map_or(u32::MAX, |before| before.saturating_add(1))
    }

    fn toml_table(&mut self, table: DeTable<'_>, depth: usize) -> Result<Value, Fault> {
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            entries.push(Entry {
                line: self.line(key.span().start),
                key: key.into_inner().into_owned(),
                node: self.toml(value, depth)?,
            });
        }
        entries.sort_by_key(|entry| entry.line);
        Value::map(entries)
    }

    fn toml(&mut self, value: Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Fault> {
        let line = self.line(value.span().start);
        self.growth.add(line, depth)?;
        let value = match value.into_inner() {
            DeValue::Table(table) => self.toml_table(table, depth + 1)?,
            DeValue::Array(values) => {
                let nodes = values.into_iter().map(|value| self.toml(value, depth + 1));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            DeValue::String(text) => Value::Text(text.into_owned()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map_or(Value::Fraction(f64::INFINITY), Value::Whole),
            DeValue::Float(number) => Value::Fraction(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(value) => Value::Bool(value),
            DeValue::Datetime(_) => Value::Date,
        };
        Ok(Node { line, value })
    }

    fn json(&mut self, value: ast::Value<'_>, depth: usize) -> Result<Node, Fault> {
        let line = self.line(value.start());
        self.growth.add(line, depth)?;
        let value = match value {
            ast::Value::Object(object) => {
                let mut entries = Vec::with_capacity(object.properties.len());
                for property in object.properties {
                    entries.push(Entry {
                        line: self.line(property.range.start),
                        key: property.name.into_string(),
                        node: self.json(property.value, depth + 1)?,
                    });
                }
                Value::map(entries)?
            }
            ast::Value::Array(array) => {
                let values = array.elements.into_iter();
                let nodes = values.map(|value| self.json(value, depth + 1));
                Value::List(nodes.collect::<Result<_, _>>()?)
            }
            ast::Value::StringLit(text) => Value::Text(text.value.into_owned()),
            ast::Value::NumberLit(number) => match (number.value.parse(), number.value.parse()) {
                (Ok(whole), _) => Value::Whole(whole),
                (Err(_), number) => Value::of_number(number.unwrap_or(f64::NAN)),
            },
            ast::Value::BooleanLit(lit) => Value::Bool(lit.value),
            ast::Value::NullKeyword(_) => Value::Null,
        };
        Ok(Node { line, value })
    }
}
