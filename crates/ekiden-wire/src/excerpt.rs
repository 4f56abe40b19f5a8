//! A bounded piece of a text that may be large.
//!
//! A tool's result may be megabytes. Its JSON is skipped over, not decoded; only the two ends that
//! are kept are. Half a character (a lone surrogate, which a client writes when it cuts a text, or
//! invalid UTF-8) becomes U+FFFD, one a byte, instead of an error.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

/// How much of a text's beginning and end is kept, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) head: usize,
    pub(crate) tail: usize,
}

/// Stands where something was left out.
const CUT: &str = " … ";
/// The longest that one escaped character is: a surrogate pair.
const ESCAPE_BYTES_MAX: usize = 12;

/// The excerpt of a JSON string; the JSON itself if it is none.
pub(crate) fn of_json(raw: &RawValue, bounds: Bounds) -> String {
    let json = raw.get();
    let Some(inner) = inside(json) else { return of_text(json, bounds) };
    if inner.len() <= bounds.head + bounds.tail {
        return decode(inner).unwrap_or_default();
    }
    let cut = inner.floor_char_boundary(bounds.head);
    let first = cut.saturating_sub(ESCAPE_BYTES_MAX);
    let head = (first..=cut).rev().filter_map(|end| inner.get(..end)).find_map(decode).unwrap_or_default();
    let tail = last_words(inner, bounds.tail).and_then(decode).unwrap_or_default();
    join(&head, &tail)
}

/// The excerpt of a plain text.
pub(crate) fn of_text(text: &str, bounds: Bounds) -> String {
    if text.len() <= bounds.head + bounds.tail {
        return text.to_owned();
    }
    let head = &text[..text.floor_char_boundary(bounds.head)];
    join(head, last_words(text, bounds.tail).unwrap_or_default())
}

/// The whole text of a JSON string, if it is one.
pub(crate) fn whole(raw: &RawValue) -> Option<String> {
    decode(inside(raw.get())?)
}

fn inside(json: &str) -> Option<&str> {
    json.strip_prefix('"')?.strip_suffix('"')
}

fn join(head: &str, tail: &str) -> String {
    format!("{}{CUT}{tail}", head.trim_end_matches(char::REPLACEMENT_CHARACTER).trim_end())
        .trim_end()
        .to_owned()
}

/// The last `bytes` from a space on, since a space lies inside neither an escape nor a character.
fn last_words(text: &str, bytes: usize) -> Option<&str> {
    let end = &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..];
    end.find(' ').map(|space| &end[space + 1..])
}

/// The text between the quotes of a JSON string, or nothing if an escape is cut off.
fn decode(inner: &str) -> Option<String> {
    if !inner.contains('\\') {
        return Some(inner.to_owned());
    }
    let literal = format!("\"{inner}\"");
    let Bytes(bytes) = serde_json::from_str(&literal).ok()?;
    Some(
        String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// A JSON string as bytes: the one form that `serde_json` lets lone surrogates through in.
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BytesVisitor)
    }
}

struct BytesVisitor;

impl Visitor<'_> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
        Ok(Bytes(bytes.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { head: 10, tail: 12 };

    fn json(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn short_texts_are_whole_and_long_ones_keep_both_ends() {
        assert_eq!(of_json(&json(r#""a\nb""#), BOUNDS), "a\nb");
        assert_eq!(of_json(&json(r#""0123456789 and much more, the end""#), BOUNDS), "0123456789 … the end");
        assert_eq!(of_text("0123456789 and much more, the end", BOUNDS), "0123456789 … the end");
        assert_eq!(of_json(&json(r#"{"a":1}"#), BOUNDS), r#"{"a":1}"#);
    }

    #[test]
    fn a_cut_never_shows_half_an_escape() {
        assert_eq!(of_json(&json(r#""0123456\u00e9901234567890 x""#), BOUNDS), "0123456 … x");
        assert_eq!(of_json(&json(r#""01234567\ud83d\ude0089012345 x""#), BOUNDS), "01234567 … x");
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        assert_eq!(of_json(&json(r#""a\ud83d""#), BOUNDS), "a\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(whole(&json(r#""\ud83d b""#)).unwrap(), "\u{fffd}\u{fffd}\u{fffd} b");
    }

    proptest! {
        #[test]
        fn an_excerpt_is_bounded_and_made_of_the_text(text in "(.|\n|\u{1F600}){0,80}") {
            let raw = json(&serde_json::to_string(&text).unwrap());
            let excerpt = of_json(&raw, BOUNDS);
            prop_assert!(excerpt.len() <= BOUNDS.head + BOUNDS.tail + CUT.len());
            prop_assert!(excerpt.split(CUT).next().is_some_and(|head| text.starts_with(head) || head.contains('…')));
            prop_assert_eq!(whole(&raw).unwrap(), text);
        }
    }
}
