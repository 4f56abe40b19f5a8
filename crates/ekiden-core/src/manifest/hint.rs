//! What was probably meant where something does not fit.

use super::fault::{Findings, quoted};
use super::node::Value;
use super::shape::{Field, Kind, Shape};

/// What other programs call our fields, where that reads too differently to be taken for a slip.
const ELSEWHERE: [(&str, &str); 8] = [
    ("dependson", "needs"),
    ("dependencies", "needs"),
    ("requires", "needs"),
    ("after", "needs"),
    ("verify", "validation"),
    ("type", "kind"),
    ("maxsessions", "sessions_max"),
    ("maxturns", "turns_max"),
];

/// The field that an unknown one was meant to be.
pub(super) fn field(key: &str, shape: &Shape, findings: &mut Findings) -> Option<String> {
    let plain: String =
        key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    let has = |name: &str| shape.fields.iter().any(|field| field.name == name);
    let same = ELSEWHERE.iter().find(|(other, ours)| *other == plain && has(ours));
    match same {
        Some((_, ours)) => Some(format!("did you mean {}?", quoted(ours))),
        None => findings.nearest(key, shape.fields.iter().map(|field| field.name)),
    }
}

/// How a value that does not fit its field would be written.
pub(super) fn value(field: &Field, value: &Value, findings: &mut Findings) -> Option<String> {
    let text = value.text();
    match field.kind {
        Kind::Choice(words) => findings.nearest(text?, words.iter().copied()),
        Kind::Globs | Kind::Outputs | Kind::Lines | Kind::LinesOr(_) => {
            Some(format!("write [{}]", quoted(text?)))
        }
        Kind::Table(shape) => command(field, shape, text?),
        Kind::Tables(shape) => (!shape.open && matches!(value, Value::Map(_)))
            .then(|| format!("in TOML each is headed by [[{}]], in JSON they are a list", field.name)),
        Kind::Line
        | Kind::Prose
        | Kind::Words
        | Kind::Command
        | Kind::Path
        | Kind::Whole(..)
        | Kind::Dollars
        | Kind::Flag => None,
    }
}

/// A bare command in place of a table that could hold it.
fn command(field: &Field, shape: &Shape, text: &str) -> Option<String> {
    // Other programs' tables are written as they say.
    let has = |name: &str| !shape.open && shape.fields.iter().any(|field| field.name == name);
    let (name, text) = (field.name, quoted(text));
    if has("kind") {
        Some(format!("write {name} = {{ kind = \"command\", command = {text} }}"))
    } else if has("test") {
        Some(format!("write {name} = {{ test = {text} }}"))
    } else {
        None
    }
}
