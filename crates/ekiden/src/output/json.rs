//! JSON for programs: objects that are built field by field, in the order of the calls.
//!
//! `docs/json.md` documents the published form. From the first release on, fields may be added under the
//! same version, never changed. Quantities carry their unit in the name; times are RFC 3339 in UTC.

use ekiden_core::text::is_hidden;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// The version of everything that `--json` prints.
pub const VERSION: u32 = 1;

/// An object, as the text between its braces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(String);

/// An object with these fields: `fields! { "session": 3, "left": left }`.
macro_rules! fields {
    ($($name:literal: $value:expr),* $(,)?) => {
        $crate::output::json::Fields::default()$(.with($name, &$value))*
    };
}
pub(crate) use fields;

/// The same JSON, on a terminal with characters that act on it or hide as escapes.
pub fn shown(json: String, to_terminal: bool) -> String {
    if !to_terminal {
        return json;
    }
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            let units = c.encode_utf16(&mut [0; 2]).to_vec();
            text.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            text.push(c);
        }
    }
    text
}

impl Fields {
    /// The start of an answer.
    pub fn versioned() -> Self {
        Self::default().with("v", VERSION)
    }

    pub fn with(self, name: &str, value: impl Serialize) -> Self {
        // Our own types contain nothing that JSON cannot hold.
        let value = serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned());
        self.joined(&format!("\"{name}\":{value}"))
    }

    /// With all fields of another object. `None` has no fields.
    pub fn and(self, object: impl Serialize) -> Self {
        let text = serde_json::to_string(&object).unwrap_or_default();
        match text
            .strip_prefix('{')
            .and_then(|text| text.strip_suffix('}'))
        {
            Some(fields) => self.joined(fields),
            None => self,
        }
    }

    fn joined(mut self, fields: &str) -> Self {
        if !self.0.is_empty() && !fields.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(fields);
        self
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(format!("{{{}}}", self.0))
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}
