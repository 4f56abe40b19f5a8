//! The part of a text that ekiden keeps up to date, between two marks. People write around it.

use std::ops::Range;

/// How the first mark of a block begins.
pub(crate) const START: &str = "<!-- ekiden:";
const END: &str = "<!-- /ekiden -->";

/// The text with this block in place of the first one whose mark begins like `old`, or at its end if there is none.
pub(crate) fn with_block(text: &str, old: &str, mark: &str, inner: &str) -> String {
    // A mark within it would end the block, or begin another.
    let inner = inner.replace(START, "&lt;!-- ekiden:");
    let inner = inner.replace(END, "&lt;!-- /ekiden -->");
    let end = line_end(text);
    let inner = inner.trim_end().replace("\r\n", "\n").replace('\n', end);
    let new = format!("{mark}{end}{inner}{end}{END}");
    match block(text, old) {
        Some(range) => format!("{}{new}{}", &text[..range.start], &text[range.end..]),
        None if text.trim().is_empty() => format!("{new}{end}"),
        None => format!("{}{end}{end}{new}{end}", text.trim_end()),
    }
}

/// The line ending of a text: CRLF if any of its lines has it.
pub(crate) fn line_end(text: &str) -> &'static str {
    match text.contains("\r\n") {
        true => "\r\n",
        false => "\n",
    }
}

/// Where the first block is whose mark begins like this. A mark whose end a person removed begins none: what they
/// wrote below it would be taken for a part of the block.
pub(crate) fn block(text: &str, mark: &str) -> Option<Range<usize>> {
    text.match_indices(END).find_map(|(end, _)| {
        let from = text[..end].rfind(START)?;
        let is_it = text[from..].starts_with(mark);
        is_it.then_some(from..end + END.len())
    })
}
