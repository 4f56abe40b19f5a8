//! The predecessor's handoff document, as a session reads it at its start.
//!
//! The text states a fact and quotes. The document is data like any notes: only the user says what to do.

use super::fill::fill;
use crate::text::one_line;
use crate::time::Millis;

pub(super) const OPENING: &str = "A handoff of {age} ago exists at {path}. It reads:";
pub(super) const OPENING_AGELESS: &str = "A handoff exists at {path}. It reads:";
pub(super) const CLOSING: &str =
    "It may be out of date: where it and the tree differ, the tree is right.";

pub(super) const REPLACED: &str = "The conversation until here was long, so its handoff document stands in its place: \
     {path}. The agent of that conversation filled it in, and it is shown beside this message. The work goes on from there, \
     in the same session and for the same user.";
pub(super) const OFFERED: &str = "A handoff exists at {path}, {age} old, made on the branch `{branch}`. It is not \
     shown, since it is old or of another branch. If the user wants to continue from it, {orient} reads it.";

/// A path, in characters.
const PATH_CHARS_MAX: usize = 1_000;

/// A document at a session's start. Its text comes as marked lines.
pub fn loaded_handoff(marked: &str, path: &str, age: Option<Millis>) -> String {
    let path = one_line(path, PATH_CHARS_MAX);
    let opening = match age {
        Some(age) => fill(OPENING, &[("age", &age.to_string()), ("path", &path)]),
        None => fill(OPENING_AGELESS, &[("path", &path)]),
    };
    format!("{opening}\n{marked}{CLOSING}")
}

/// The text that replaces a conversation when the agent's own document is used instead of a summary.
pub fn replaced_by_document(path: &str) -> String {
    fill(REPLACED, &[("path", &one_line(path, PATH_CHARS_MAX))])
}

/// A document that is named at a session's start but not shown.
pub fn offered_handoff(path: &str, age: &str, branch: &str, orient: &str) -> String {
    let values = [("path", path), ("age", age), ("branch", branch)];
    let values = values.map(|(name, value)| (name, one_line(value, PATH_CHARS_MAX)));
    let [path, age, branch] = values
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    fill(OFFERED, &[path, age, branch, ("orient", orient)])
}
