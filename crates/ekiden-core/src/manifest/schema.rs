//! The JSON Schema of ekiden's own format, made of the reader's own tables.
//!
//! A schema cannot say everything: that ids are told apart, that needs exist and that nothing waits for
//! itself is for [`read`](super::read) to say.

use serde_json::{Map, Value, json};

use super::format::own;
use super::shape::{Field, Kind, Shape};
use crate::limits::STAGE_DOLLARS_MAX;

/// The schema, as `docs/manifest.schema.json` holds it. Editors use it, and planning replies are held to it.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object(&own::TOP);
    let head = [
        ("$schema", json!("https://json-schema.org/draft/2020-12/schema")),
        ("title", json!("A manifest of ekiden")),
        ("description", json!("Stages and the edges between them, in TOML or in JSON.")),
    ];
    if let Value::Object(object) = &mut schema {
        object.extend(head.map(|(key, value)| (key.to_owned(), value)));
    }
    schema
}

fn object(shape: &Shape) -> Value {
    let properties: Map<String, Value> =
        shape.fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
    let needed: Vec<&str> =
        shape.fields.iter().filter(|field| field.needed).map(|field| field.name).collect();
    let mut object =
        json!({ "type": "object", "properties": properties, "additionalProperties": shape.open });
    if !needed.is_empty() {
        object["required"] = json!(needed);
    }
    let has = |name| shape.fields.iter().any(|field| field.name == name);
    if has("prompt") && has("prompt_file") {
        object["oneOf"] = json!([{ "required": ["prompt"] }, { "required": ["prompt_file"] }]);
    }
    object
}

fn property(field: &Field) -> Value {
    let mut property = of_kind(field.kind);
    property["description"] = json!(field.doc);
    property
}

fn of_kind(kind: Kind) -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    match kind {
        Kind::Line | Kind::Words | Kind::Command | Kind::Path => text,
        Kind::Prose => json!({ "type": "string" }),
        Kind::Globs | Kind::Outputs | Kind::Lines => json!({ "type": "array", "items": text }),
        Kind::Whole(least, i64::MAX) => json!({ "type": "integer", "minimum": least }),
        Kind::Whole(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Dollars => {
            json!({ "type": "number", "exclusiveMinimum": 0, "maximum": STAGE_DOLLARS_MAX })
        }
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Table(shape) => object(shape),
        Kind::Tables(shape) => json!({ "type": "array", "minItems": 1, "items": object(shape) }),
        Kind::LinesOr(shape) => json!({ "type": "array", "items": { "anyOf": [text, object(shape)] } }),
    }
}
