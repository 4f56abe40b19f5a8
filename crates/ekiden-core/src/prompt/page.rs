//! Documents that a program writes: a rescue, a follow-up's notes, a stage's result, a diagnosis.
//!
//! Each line of foreign text gets a prefix, so that no line can pass for a heading or a STATUS. In a prompt,
//! every line is also marked as data.

use super::budget::{Keep, Mark, cut, cut_long_lines};
use super::own_lines::strip_protocol;
use crate::text::clean;

pub(super) const QUOTE: &str = "> ";

/// Foreign text with a prefix on each line, within a budget; empty if it says nothing.
pub(super) fn foreign(
    text: &str,
    prefix: &str,
    tokens_max: usize,
    keep: Keep,
    whole: &str,
) -> String {
    let text = cut_long_lines(strip_protocol(&clean(text).text).0.trim());
    let line = |line| format!("{prefix}{line}\n");
    let lines: String = text.lines().map(line).collect();
    cut(&lines, tokens_max, keep, Mark::new(prefix, whole))
}

/// A section, unless its text is empty.
pub(super) fn section(heading: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("\n## {heading}\n\n{text}")
}

/// The whole page within its budget.
pub(super) fn within(page: &str, tokens_max: usize, whole: &str) -> String {
    cut(page, tokens_max, Keep::First, Mark::new("", whole))
}
