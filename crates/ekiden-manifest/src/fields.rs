//! The fields that the tables of a manifest may have. Each format is a list of [`Field`]s, which its reader follows.
//! The JSON Schema of our own format is generated from its list.

use ekiden_core::handoff::Marker;
use ekiden_core::label::{LABEL_RULE, is_label};
use ekiden_core::limits::{
    BYTES_PER_TOKEN, COMMAND_BYTES_MAX, STAGE_DOLLARS_MAX, STAGE_TASK_TOKENS_MAX,
};
use ekiden_core::text::clean;
use serde_json::{Map, Value, json};

use crate::fault::quoted;
use crate::path;

/// A field of a table.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Its name in our own format.
    pub(crate) ours: &'static str,
    pub(crate) is_required: bool,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
}

pub(crate) type Fields = &'static [Field];

/// What a field may hold.
pub(crate) enum Kind {
    /// Text that the function makes plain, or refuses. The error follows the field's name: `is empty`.
    Text(fn(&str) -> Result<String, String>),
    /// Any text, without hidden characters.
    Prose,
    /// A whole number within these bounds.
    Whole(i64, i64),
    /// US dollars, read into millionths.
    Dollars,
    Flag,
    Choice(&'static [&'static str]),
    List(&'static Kind),
    Table(Fields),
    /// The list of stages.
    Stages(Fields),
    /// An id, or a table with more details.
    Need(Fields),
}

/// Fields, each as `"name": KIND;`. `"foreign" as "ours"` gives our name for a foreign field, `!` marks a
/// required one.
macro_rules! fields {
    ($($(#[doc = $about:literal])? $name:literal $(as $ours:literal)? $(!$required:tt)? : $kind:expr;)*) => {
        &[$($crate::fields::Field {
            name: $name,
            ours: [$($ours,)? $name][0],
            is_required: [$(fields!(@ $required),)? false][0],
            kind: $kind,
            about: [$($about,)? ""][0],
        }),*]
    };
    (@ required) => { true };
}
pub(crate) use fields;

/// Text on one line, not empty, without characters that hide.
pub(crate) const LINE: Kind = Kind::Text(line);
/// Any text, as it is.
pub(crate) const RAW: Kind = Kind::Text(|text| Ok(text.to_owned()));
/// Any text but an empty one, as it is.
pub(crate) const FILLED: Kind = Kind::Text(|text| match text.trim() {
    "" => Err("is empty".to_owned()),
    _ => Ok(text.to_owned()),
});
/// The words of a task.
pub(crate) const WORDS: Kind = Kind::Text(task);
/// A command for `sh -c`.
pub(crate) const COMMAND: Kind = Kind::Text(command);
/// A path within the project.
pub(crate) const INSIDE: Kind = Kind::Text(|text| named(text, path::inside));
/// Paths or globs within the project.
pub(crate) const GLOBS: Kind = Kind::List(&Kind::Text(|text| named(text, path::pattern)));
/// The same, of what is written.
pub(crate) const OUTPUTS: Kind = Kind::List(&Kind::Text(|text| named(text, path::writable)));
/// The word by which an agent claims to be done.
pub(crate) const MARK: Kind = Kind::Text(|text| match Marker::try_from(line(text)?) {
    Ok(marker) => Ok(marker.as_str().to_owned()),
    Err(error) => Err(format!("is refused: {error}")),
});
/// A worker of a fleet is identified by these.
pub(crate) const LABEL: Kind = Kind::Text(|text| match is_label(text) {
    true => Ok(text.to_owned()),
    false => Err(format!("{} is not a label: {LABEL_RULE}", quoted(text))),
});
/// Any whole number from this one.
pub(crate) const fn from(least: i64) -> Kind {
    Kind::Whole(least, i64::MAX)
}

fn named(text: &str, check: fn(&str) -> Result<String, String>) -> Result<String, String> {
    check(text).map_err(|why| format!("{} {why}", quoted(text)))
}

pub(crate) fn plain(text: &str) -> String {
    clean(text).text.trim_end().to_owned()
}

fn line(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("is empty".to_owned())
    } else if clean(text).text != text || text.contains(['\n', '\t']) {
        Err("holds characters that hide or break a line".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

/// A task without hidden characters, or why it cannot be one.
pub(crate) fn task(text: &str) -> Result<String, String> {
    const BYTES_MAX: usize = STAGE_TASK_TOKENS_MAX * BYTES_PER_TOKEN;
    let task = plain(text);
    if task.trim().is_empty() {
        Err("is empty".to_owned())
    } else if task.len() > BYTES_MAX {
        Err(format!(
            "has {} bytes, at most {BYTES_MAX} fit: shorten it, make two stages of it, or name a file with the \
             details in the context",
            task.len()
        ))
    } else {
        Ok(task)
    }
}

/// A person who approves a command approves what they see, so nothing in it may be hidden.
fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("is empty".to_owned())
    } else if text.len() > COMMAND_BYTES_MAX {
        Err("is too long for a command; make a script of it".to_owned())
    } else if clean(text).text != text.replace("\r\n", "\n") {
        Err("holds characters that hide".to_owned())
    } else {
        Ok(plain(text))
    }
}

/// Millionths of a dollar.
#[expect(clippy::cast_possible_truncation, reason = "bounded before")]
pub(crate) fn micro_dollars(dollars: f64) -> Result<i64, String> {
    let fits = dollars > 0.0 && dollars <= f64::from(STAGE_DOLLARS_MAX);
    let micro = fits.then(|| (dollars * 1e6).round() as i64);
    micro.filter(|micro| *micro > 0).ok_or_else(|| {
        format!("is {dollars}, but must be dollars above 0, {STAGE_DOLLARS_MAX} at most")
    })
}

pub(crate) fn one_of(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("one of {}", words.join(", "))
}

impl Kind {
    /// The expected value, for people.
    pub(crate) fn expected(&self) -> String {
        let expected = match self {
            Self::Text(_) | Self::Prose => "text",
            Self::Whole(least, i64::MAX) => return format!("a whole number, {least} or more"),
            Self::Whole(least, most) if least == most => return format!("the number {most}"),
            Self::Whole(least, most) => return format!("a whole number from {least} to {most}"),
            Self::Dollars => "a number",
            Self::Flag => "true or false",
            Self::Choice(words) => return one_of(words),
            Self::List(_) => "a list of texts",
            Self::Table(_) => "a table",
            Self::Stages(_) => "a list of tables",
            Self::Need(_) => "an id",
        };
        expected.to_owned()
    }

    fn schema(&self) -> Value {
        match self {
            Self::Text(_) => json!({ "type": "string", "minLength": 1 }),
            Self::Prose => json!({ "type": "string" }),
            Self::Whole(least, i64::MAX) => json!({ "type": "integer", "minimum": least }),
            Self::Whole(least, most) => {
                json!({ "type": "integer", "minimum": least, "maximum": most })
            }
            Self::Dollars => {
                json!({ "type": "number", "exclusiveMinimum": 0, "maximum": STAGE_DOLLARS_MAX })
            }
            Self::Flag => json!({ "type": "boolean" }),
            Self::Choice(words) => json!({ "type": "string", "enum": words }),
            Self::List(kind) => json!({ "type": "array", "items": kind.schema() }),
            Self::Table(fields) => schema_of(fields),
            Self::Stages(fields) => {
                let mut stage = schema_of(fields);
                stage["oneOf"] =
                    json!([{ "required": ["prompt"] }, { "required": ["prompt_file"] }]);
                json!({ "type": "array", "items": stage, "minItems": 1 })
            }
            Self::Need(fields) => json!({ "anyOf": [LINE.schema(), schema_of(fields)] }),
        }
    }
}

/// The JSON Schema of a table.
pub(crate) fn schema_of(fields: Fields) -> Value {
    let property = |field: &Field| {
        let mut schema = field.kind.schema();
        schema["description"] = json!(field.about.trim());
        (field.name.to_owned(), schema)
    };
    let properties: Map<String, Value> = fields.iter().map(property).collect();
    let required = fields.iter().filter(|field| field.is_required);
    let required: Vec<&str> = required.map(|field| field.name).collect();
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}
