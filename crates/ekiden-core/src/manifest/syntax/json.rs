//! JSON into the tree.
//!
//! `serde_json` tells lines only of errors. So it reads through a reader that counts them: it takes one
//! byte at a time, and when it says what a value is, the last byte that it took belongs to the value, or
//! is the line feed right after it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, Read};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::manifest::fault::Fault;
use crate::manifest::node::{Entry, Growth, Node, Value};

pub(super) fn tree(text: &str) -> Result<Node, Fault> {
    let state = State::default();
    let reader = Counted { rest: text.as_bytes(), state: &state };
    let mut json = serde_json::Deserializer::from_reader(reader);
    let seed = Seed { state: &state, depth: 1 };
    let tree = seed.deserialize(&mut json).and_then(|tree| json.end().map(|()| tree));
    tree.map_err(|error| state.fault.take().unwrap_or_else(|| fault(&error)))
}

fn fault(error: &serde_json::Error) -> Fault {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    let line = u32::try_from(error.line()).ok().filter(|line| *line > 0);
    Fault::new(line, &format!("this is no JSON: {what}"))
}

/// What the reader and those who build the tree share.
struct State {
    /// The line of the last byte that was read.
    line: Cell<u32>,
    /// It was a line feed.
    ended: Cell<bool>,
    growth: RefCell<Growth>,
    /// A fault of ours, which an error of the library cannot carry.
    fault: Cell<Option<Fault>>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            line: Cell::new(1),
            ended: Cell::new(false),
            growth: RefCell::default(),
            fault: Cell::default(),
        }
    }
}

impl State {
    fn refuse<E: Error>(&self, fault: Fault) -> E {
        self.fault.set(Some(fault));
        E::custom("refused")
    }
}

struct Counted<'a> {
    rest: &'a [u8],
    state: &'a State,
}

impl Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (Some((byte, rest)), Some(place)) = (self.rest.split_first(), into.first_mut()) else {
            return Ok(0);
        };
        *place = *byte;
        self.rest = rest;
        let State { line, ended, .. } = self.state;
        if ended.replace(*byte == b'\n') {
            line.set(line.get().saturating_add(1));
        }
        Ok(1)
    }
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    state: &'a State,
    depth: usize,
}

impl Seed<'_> {
    fn node<E: Error>(self, value: Value) -> Result<Node, E> {
        self.grow()?;
        Ok(Node::new(self.state.line.get(), value))
    }

    fn grow<E: Error>(self) -> Result<(), E> {
        let grown = self.state.growth.borrow_mut().add(self.depth);
        grown.map_err(|why| self.state.refuse(Fault::new(self.state.line.get(), &why)))
    }

    fn below(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Node;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        self.node(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        self.node(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        self.node(Value::Whole(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        #[expect(clippy::cast_precision_loss, reason = "too large for any of our fields")]
        self.node(i64::try_from(value).map_or(Value::Fraction(value as f64), Value::Whole))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        self.node(Value::of_number(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        self.node(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Node, A::Error> {
        self.grow()?;
        let line = self.state.line.get();
        let mut nodes = Vec::new();
        while let Some(node) = from.next_element_seed(self.below())? {
            nodes.push(node);
        }
        Ok(Node::new(line, Value::List(nodes)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Node, A::Error> {
        self.grow()?;
        let line = self.state.line.get();
        let mut entries = Vec::new();
        while let Some(key) = from.next_key::<String>()? {
            let line = self.state.line.get();
            let node = from.next_value_seed(self.below())?;
            entries.push(Entry { key, line, node });
        }
        let map = Value::map(entries).map_err(|fault| self.state.refuse(fault))?;
        Ok(Node::new(line, map))
    }
}
