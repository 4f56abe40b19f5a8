//! What was probably meant where something does not fit.

use super::fault::{Findings, quoted};
use super::node::Value;
use super::shape::{Field, Kind, Shape};

/// What programs call the same, where that reads too differently to be taken for a slip.
const SAME: [&[&str]; 5] = [
    &["needs", "dependson", "dependencies", "requires", "after"],
    &["validation", "verify"],
    &["kind", "type"],
    &["sessionsmax", "maxsessions"],
    &["turnsmax", "maxturns"],
];

/// The field that an unknown one was meant to be.
pub(super) fn field(key: &str, shape: &Shape, findings: &mut Findings) -> Option<String> {
    field_of(key, shape, |_| true, findings)
}

/// The same among the fields for which `counts` says so.
pub(super) fn field_of(
    key: &str,
    shape: &Shape,
    counts: impl Fn(&str) -> bool,
    findings: &mut Findings,
) -> Option<String> {
    let names = || shape.fields.iter().map(|field| field.name).filter(|name| counts(name));
    let word = plain(key);
    let others = SAME.iter().find(|same| same.contains(&word.as_str()));
    match names().find(|name| others.is_some_and(|same| same.contains(&plain(name).as_str()))) {
        Some(name) => Some(format!("did you mean {}?", quoted(name))),
        None => findings.nearest(key, names()),
    }
}

/// A name as all programs would write it.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
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
