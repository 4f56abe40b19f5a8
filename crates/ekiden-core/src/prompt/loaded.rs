//! What a session is told at its start of the document that the session before it left.
//!
//! It states a fact and quotes. The document is data like any notes: what to do is the user's to say.

use super::fill::fill;
use crate::text::one_line;
use crate::time::Millis;

pub(super) const OPENING: &str = "A handoff of {age} ago exists at {path}. It reads:";
pub(super) const OPENING_AGELESS: &str = "A handoff exists at {path}. It reads:";
pub(super) const CLOSING: &str = "It may be out of date: where it and the tree differ, the tree is right.";

/// A path, in characters.
const PATH_CHARS_MAX: usize = 1_000;

/// A document at a session's start. Its text comes as marked lines.
#[must_use]
pub fn loaded_handoff(marked: &str, path: &str, age: Option<Millis>) -> String {
    let path = one_line(path, PATH_CHARS_MAX);
    let opening = match age {
        Some(age) => fill(OPENING, &[("age", &age.to_string()), ("path", &path)]),
        None => fill(OPENING_AGELESS, &[("path", &path)]),
    };
    format!("{opening}\n{marked}{CLOSING}")
}

/// How much of it is not the document, in UTF-16 units.
pub(crate) fn loaded_handoff_size(path: &str, age: Option<Millis>) -> usize {
    loaded_handoff("", path, age).encode_utf16().count()
}
