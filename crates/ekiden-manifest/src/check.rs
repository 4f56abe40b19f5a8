//! Checks a tree against the fields of its format.
//!
//! A value that does not fit becomes null once its fault is recorded, and reading continues. So one fault
//! does not hide others, and a field that does not fit is not reported as missing too.

use ekiden_core::limits::STAGES_MAX;

use crate::fault::{Fault, Findings, quoted};
use crate::fields::{Field, Fields, Kind, micro_dollars, plain};
use crate::tree::{Entry, Node, Value};

/// A stage in our own terms, whatever its format. Each field is valid by itself; names are not yet resolved.
pub(crate) struct RawStage {
    /// Its name in faults.
    pub(crate) who: String,
    pub(crate) node: Node,
}

/// Reads tables, and collects their faults and the stages.
#[derive(Default)]
pub(crate) struct Reader {
    /// Unknown fields are no fault: the format belongs to another program.
    pub(crate) is_open: bool,
    pub(crate) findings: Findings,
    pub(crate) stages: Vec<RawStage>,
}

#[derive(Clone, Copy)]
pub(crate) struct Location<'a> {
    /// The table as faults name it: `stage "S01"`; empty for the file's top table.
    pub(crate) who: &'a str,
    pub(crate) field: &'a str,
    pub(crate) is_element: bool,
}

impl<'a> Location<'a> {
    pub(crate) fn of(who: &'a str, field: &'a str) -> Self {
        let is_element = false;
        Self {
            who,
            field,
            is_element,
        }
    }
}

enum Misfit {
    /// The text follows the field's name.
    Is(String),
    Word(&'static [&'static str]),
    Type,
}

pub(crate) fn in_table(who: &str, what: &str) -> String {
    match (who, what) {
        ("", what) => what.to_owned(),
        (who, "") => who.to_owned(),
        (who, what) => format!("{who}: {what}"),
    }
}

/// The stage's name in faults: its id, or its place.
fn stage_name(node: &Node, number: usize) -> String {
    let mut names = ["id", "name"].iter().filter_map(|key| node.text(key));
    match names.find(|name| !name.trim().is_empty()) {
        Some(name) => format!("stage {}", quoted(name)),
        None => format!("stage {number}"),
    }
}

impl Reader {
    /// A table under our own names, without unknown fields.
    pub(crate) fn table(&mut self, node: &Node, who: &str, fields: Fields) -> Node {
        let mut entries = Vec::new();
        for entry in node.entries() {
            if entry.node.value == Value::Null {
                continue;
            }
            let Some(field) = fields.iter().find(|field| field.name == entry.key) else {
                self.unknown(node, entry, who, fields);
                continue;
            };
            let place = Location::of(who, field.name);
            entries.push(Entry {
                key: field.ours.to_owned(),
                line: entry.line,
                node: self.node(&entry.node, place, &field.kind),
            });
        }
        for field in fields.iter().filter(|field| field.is_required) {
            if node.get(field.name).is_none() {
                self.missing(node.line, who, field);
            }
        }
        Node {
            line: node.line,
            value: Value::Map(entries),
        }
    }

    /// Records that a required field is missing.
    pub(crate) fn missing(&mut self, line: u32, who: &str, field: &Field) {
        let text = in_table(who, &format!("{} is missing", quoted(field.name)));
        let is_fixed = matches!(field.kind, Kind::Whole(least, most) if least == most)
            || matches!(field.kind, Kind::Choice(_));
        let hint = is_fixed.then(|| format!("it is {}", field.kind.expected()));
        self.findings.add(Fault::new(line, &text).hint(hint));
    }

    /// The value as it was read; null if it does not fit.
    pub(crate) fn node(&mut self, node: &Node, place: Location<'_>, kind: &Kind) -> Node {
        let fitted = match (kind, &node.value) {
            (Kind::Text(check), Value::Text(text)) => {
                check(text).map(Value::Text).map_err(Misfit::Is)
            }
            (Kind::Prose, Value::Text(text)) => Ok(Value::Text(plain(text))),
            (Kind::Whole(least, most), Value::Whole(number)) => {
                if (*least..=*most).contains(number) {
                    Ok(Value::Whole(*number))
                } else {
                    let text = format!("is {number}, but must be {}", kind.expected());
                    Err(Misfit::Is(text))
                }
            }
            #[expect(clippy::cast_precision_loss, reason = "far beyond any budget")]
            (Kind::Dollars, Value::Whole(number)) => dollars(*number as f64),
            (Kind::Dollars, Value::Fraction(number)) => dollars(*number),
            (Kind::Flag, Value::Bool(flag)) => Ok(Value::Bool(*flag)),
            (Kind::Choice(words), Value::Text(text)) => match words.contains(&text.as_str()) {
                true => Ok(Value::Text(text.clone())),
                false => Err(Misfit::Word(words)),
            },
            (Kind::List(kind), Value::List(nodes)) => {
                let place = Location {
                    is_element: true,
                    ..place
                };
                let nodes = nodes.iter().map(|node| self.node(node, place, kind));
                Ok(Value::List(nodes.collect()))
            }
            (Kind::Stages(fields), Value::List(nodes)) => {
                self.stages(nodes, fields);
                Ok(Value::Bool(true))
            }
            (Kind::Table(fields), Value::Map(_)) => {
                return self.table(node, &in_table(place.who, place.field), fields);
            }
            (Kind::Need(_), Value::Text(text)) => Ok(Value::Text(text.clone())),
            (Kind::Need(fields), Value::Map(_)) => return self.table(node, place.who, fields),
            _ => Err(Misfit::Type),
        };
        let value = fitted.unwrap_or_else(|misfit| {
            self.note(node, place, kind, misfit);
            Value::Null
        });
        Node {
            line: node.line,
            value,
        }
    }

    fn stages(&mut self, nodes: &[Node], fields: Fields) {
        if let Some(beyond) = nodes.get(STAGES_MAX) {
            let text = format!("{} stages; at most {STAGES_MAX} are read", nodes.len());
            self.findings.say(beyond.line, &text);
        }
        for (node, number) in nodes.iter().take(STAGES_MAX).zip(1..) {
            let who = stage_name(node, number);
            let node = self.node(node, Location::of(&who, ""), &Kind::Table(fields));
            if node.value != Value::Null {
                self.stages.push(RawStage { who, node });
            }
        }
    }

    fn note(&mut self, node: &Node, place: Location<'_>, kind: &Kind, misfit: Misfit) {
        let found = node.value.name();
        let expected = kind.expected();
        let (what, hint) = match misfit {
            Misfit::Is(what) => (what, None),
            Misfit::Word(words) => {
                let word = node.as_text().unwrap_or_default();
                let near = self.findings.nearest(word, words.iter().copied());
                (format!("is {}, but must be {expected}", quoted(word)), near)
            }
            Misfit::Type => {
                let hint = self.type_hint(node, place.field, kind);
                let what = match place.is_element {
                    true => format!("holds {found}, not {expected}"),
                    false => format!("must be {expected}, but is {found}"),
                };
                (what, hint)
            }
        };
        let what = format!("{} {what}", place.field);
        let text = in_table(place.who, what.trim_start());
        self.findings.add(Fault::new(node.line, &text).hint(hint));
    }

    /// How a value of this type is written.
    fn type_hint(&self, node: &Node, field: &str, kind: &Kind) -> Option<String> {
        let has = |fields: Fields, name| fields.iter().any(|field: &Field| field.name == name);
        match (kind, &node.value) {
            // Tables of other programs follow their rules.
            _ if self.is_open => None,
            (Kind::List(_), Value::Text(text)) => Some(format!("write [{}]", quoted(text))),
            (Kind::Stages(_), Value::Map(_)) => Some(format!(
                "in TOML each is headed by [[{field}]], in JSON they are a list"
            )),
            (Kind::Table(fields), Value::Text(text)) if has(fields, "kind") => Some(format!(
                "write {field} = {{ kind = \"command\", command = {} }}",
                quoted(text)
            )),
            (Kind::Table(fields), Value::Text(text)) if has(fields, "test") => {
                Some(format!("write {field} = {{ test = {} }}", quoted(text)))
            }
            _ => None,
        }
    }

    /// Records a field that its table does not have. An open format allows any field. But a name that
    /// resembles a missing field gives a warning: a typo must not silently disable a validation.
    fn unknown(&mut self, table: &Node, entry: &Entry, who: &str, fields: Fields) {
        let key = quoted(&entry.key);
        let names = fields.iter().map(|field| field.name);
        if self.is_open {
            let absent = names.filter(|name| !table.has(name));
            if let Some(near) = self.findings.nearest_field(&entry.key, absent) {
                let text = in_table(who, &format!("{key} is not a field and is ignored"));
                let slip = Fault::new(entry.line, &text).hint(near);
                self.findings.add_slip(slip);
            }
        } else {
            let near = self.findings.nearest_field(&entry.key, names);
            let text = in_table(who, &format!("there is no field {key}"));
            self.findings.add(Fault::new(entry.line, &text).hint(near));
        }
    }
}

fn dollars(dollars: f64) -> Result<Value, Misfit> {
    micro_dollars(dollars).map(Value::Whole).map_err(Misfit::Is)
}
