//! Whether a settings file may be edited, and if not, where it stands in the way.

use std::fmt;

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::{Range, Ranged};
use jsonc_parser::errors::ParseError;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::commands::GUARD_HOOKS;

/// A place in a text, counted from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// Why a settings file is not edited. Reads well after "cannot change `FILE`: ".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsFault {
    /// It is no JSON, comments and trailing commas allowed.
    #[error("{at}: {what}")]
    Syntax {
        /// Where.
        at: Position,
        /// What the parser says.
        what: String,
    },
    /// Something has another form than the client's settings have.
    #[error("{at}: {what} is not {wanted}")]
    Form {
        /// Where.
        at: Position,
        /// What.
        what: String,
        /// The form that it should have.
        wanted: &'static str,
    },
    /// A property stands twice: the client heeds the last, a person sees the first.
    #[error("{at}: `{name}` stands there a second time")]
    Twice {
        /// Where the second is.
        at: Position,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// What is understood beyond JSON. People write comments and trailing commas into settings, and
/// nothing else that a parser might let pass.
pub(super) fn options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Looks at all that an edit will rely on. A text without any value is fine.
pub(super) fn check(text: &str) -> Result<(), SettingsFault> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options());
    let Some(root) = parsed.map_err(|error| syntax(text, &error))?.value else { return Ok(()) };
    let root = object(text, &root, "the file")?;
    unique(text, root, |name| matches!(name, "hooks" | "statusLine"))?;
    if let Some(line) = root.get("statusLine").and_then(|property| property.value.as_object()) {
        unique(text, line, |name| matches!(name, "type" | "command"))?;
    }
    match root.get("hooks") {
        Some(hooks) => check_hooks(text, object(text, &hooks.value, "`hooks`")?),
        None => Ok(()),
    }
}

fn check_hooks(text: &str, hooks: &Object<'_>) -> Result<(), SettingsFault> {
    let is_ours = |name: &str| GUARD_HOOKS.iter().any(|hook| hook.event == name);
    unique(text, hooks, is_ours)?;
    for property in hooks.properties.iter().filter(|property| is_ours(property.name.as_str())) {
        if !matches!(property.value, Value::Array(_)) {
            let what = format!("`hooks.{}`", property.name.as_str());
            return Err(SettingsFault::Form { at: start(text, &property.value), what, wanted: "an array" });
        }
    }
    Ok(())
}

fn object<'v, 't>(text: &str, value: &'v Value<'t>, what: &str) -> Result<&'v Object<'t>, SettingsFault> {
    let wrong = || SettingsFault::Form { at: start(text, value), what: what.to_owned(), wanted: "an object" };
    value.as_object().ok_or_else(wrong)
}

/// No property that counts stands twice.
fn unique(text: &str, object: &Object<'_>, counts: impl Fn(&str) -> bool) -> Result<(), SettingsFault> {
    let mut seen: Vec<&str> = Vec::new();
    for property in object.properties.iter().filter(|property| counts(property.name.as_str())) {
        let name = property.name.as_str();
        if seen.contains(&name) {
            return Err(SettingsFault::Twice { at: start(text, property), name: name.to_owned() });
        }
        seen.push(name);
    }
    Ok(())
}

fn syntax(text: &str, error: &ParseError) -> SettingsFault {
    let what = error.kind().to_string();
    let mut letters = what.chars();
    let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
    SettingsFault::Syntax { at: position(text, error.range()), what: first + letters.as_str() }
}

fn start(text: &str, part: &impl Ranged) -> Position {
    position(text, part.range())
}

fn position(text: &str, range: Range) -> Position {
    let before = &text[..text.floor_char_boundary(range.start)];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    Position { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}
