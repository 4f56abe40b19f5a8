//! Reads JSON that a client wrote.
//!
//! Half a character (invalid UTF-8, or a lone surrogate, which the client writes when it cuts a text) becomes
//! U+FFFD instead of an error. Values nested too deep for the parser become null, so that the values around
//! them can be read. A missing or odd field gets its default; the caller says which fields a line cannot do without.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The parser fails at 128 levels, since it recurses for each. No field that we read is this deep.
const NESTING_MAX: usize = 100;

pub(crate) fn parse(bytes: &[u8]) -> Option<Value> {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Some(value);
    }
    let text = String::from_utf8_lossy(bytes);
    serde_json::from_slice(&without_deep_values(&without_lone_surrogates(&text))).ok()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn field<T: DeserializeOwned + Default>(value: &Value) -> T {
    T::deserialize(value).unwrap_or_default()
}

/// The elements of an array; empty for anything else.
pub(crate) fn elements(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn without_lone_surrogates(json: &str) -> String {
    let mut fixed = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        let (replacement, len) = match code_unit(escape) {
            Some(0xD800..=0xDBFF) if matches!(code_unit(&escape[6..]), Some(0xDC00..=0xDFFF)) => {
                (&escape[..12], 12)
            }
            Some(0xD800..=0xDFFF) => ("\\ufffd", 6),
            Some(_) => (&escape[..6], 6),
            None => {
                let escaped = escape[1..].chars().next().map_or(0, char::len_utf8);
                (&escape[..1 + escaped], 1 + escaped)
            }
        };
        fixed.push_str(&rest[..at]);
        fixed.push_str(replacement);
        rest = &escape[len..];
    }
    fixed + rest
}

/// The same, with null in place of every array and object nested deeper than [`NESTING_MAX`].
fn without_deep_values(json: &str) -> Vec<u8> {
    let mut shallow = Vec::with_capacity(json.len());
    let (mut depth, mut in_string, mut is_escaped) = (0usize, false, false);
    for byte in json.bytes() {
        let is_deep = depth > NESTING_MAX;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_string => is_escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if is_deep {
            continue;
        }
        if depth > NESTING_MAX {
            shallow.extend_from_slice(b"null");
        } else {
            shallow.push(byte);
        }
    }
    shallow
}

/// The number of the `\uXXXX` at the start of a text.
fn code_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn half_characters_are_replaced_and_whole_ones_stay() {
        for (json, text) in [
            (r#""a\ud83d""#, "a\u{fffd}"),
            (r#""\ude00 b\\ud83d""#, "\u{fffd} b\\ud83d"),
            (r#""\ud83d\ude00\ud83d\u0041""#, "\u{1F600}\u{fffd}A"),
        ] {
            assert_eq!(parse(json.as_bytes()), Some(text.into()), "{json}");
        }
        assert_eq!(parse(b"\"a\xff\""), Some("a\u{fffd}".into()));
        assert_eq!(parse(b"\"\\"), None);
    }

    #[test]
    fn what_nests_too_deep_is_null_and_its_neighbours_stay() {
        let nested = |inner: &str, levels| "[".repeat(levels) + inner + &"]".repeat(levels);
        let brackets = r#""[{\"[""#;
        for levels in [99, 100, 200, 100_000] {
            let deep = nested(brackets, levels);
            let json =
                format!(r#"{{"before":{brackets},"deep":[{deep},{{}},{deep}],"after":[1]}}"#);
            let value = parse(json.as_bytes()).unwrap();
            assert_eq!(
                (&value["before"], &value["after"]),
                (&"[{\"[".into(), &[1].as_slice().into())
            );
            assert_eq!(value["deep"][1], serde_json::json!({}));
        }
        // At the limit nothing is lost, above it only the values that lie deeper.
        let kept =
            |levels| String::from_utf8(without_deep_values(&nested(brackets, levels))).unwrap();
        assert_eq!(kept(100), nested(brackets, 100));
        assert_eq!(kept(101), nested("null", 100));
        assert_eq!(kept(200), nested("null", 100));
        assert_eq!(parse(&vec![b'['; 1000]), None);
    }

    proptest! {
        #[test]
        fn what_is_sound_is_not_changed(text in any::<String>()) {
            let json = serde_json::to_string(&[&text]).unwrap();
            prop_assert_eq!(without_deep_values(&json), json.as_bytes());
            prop_assert_eq!(without_lone_surrogates(&json), json);
        }

        #[test]
        fn no_text_panics(text in r#"(\\|u|d8|dc|0|é|"){0,20}"#) {
            without_lone_surrogates(&text);
        }
    }
}
