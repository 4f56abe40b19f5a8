//! A document for the next session's start: marked as data, within the length that a hook may print.

use super::front::body;
use super::read::lines_of;
use super::sections;
use crate::limits;
use crate::markdown;
use crate::prompt::budget::{Keep, Mark, cut_by_size, cut_line};
use crate::prompt::loaded_handoff;
use crate::prompt::quote::{MARK, quote};
use crate::text::one_line;
use crate::time::Millis;

/// A line of a loaded document, in characters.
const LINE_CHARS_MAX: usize = 600;

#[derive(Debug, Clone, Copy)]
pub struct Loaded<'a> {
    pub document: &'a str,
    pub path: &'a str,
    /// How long ago it was made.
    pub age: Option<Millis>,
}

/// What the next session reads: where the document lies, and its text as marked lines, at most
/// [`limits::DOCUMENT_CHARS_MAX`] characters in all.
///
/// Left out are the front matter, the original session's budget, and unfilled placeholders.
pub fn load(loaded: &Loaded<'_>) -> String {
    let lines: String = text_of_interest(loaded.document)
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with(sections::EMPTY))
        .map(|line| format!("{}\n", cut_line(line, LINE_CHARS_MAX)))
        .collect();
    let mark = Mark {
        prefix: MARK,
        whole: &one_line(loaded.path, LINE_CHARS_MAX),
    };
    let utf16 = |text: &str| text.encode_utf16().count();
    let around = utf16(&loaded_handoff("", loaded.path, loaded.age));
    let room = limits::DOCUMENT_CHARS_MAX.saturating_sub(around);
    let marked = cut_by_size(&quote(&lines).text, room, Keep::Ends, mark, utf16);
    loaded_handoff(&marked, loaded.path, loaded.age)
}

fn text_of_interest(document: &str) -> String {
    let text = body(document);
    let filled_in = [sections::DONE, sections::DECISIONS, sections::BLOCKERS];
    let silent = |name: &str| {
        [sections::BUDGET, sections::RESUME].contains(&name)
            || filled_in.contains(&name) && lines_of(text, name).is_empty()
    };
    let outline = markdown::outline(text);
    let headings = outline.headings.iter().filter(|heading| heading.level <= 2);
    let starts: Vec<_> = headings
        .map(|heading| (heading.range.start, silent(heading.text.trim())))
        .chain([(text.len(), true)])
        .collect();
    let sections = starts.windows(2).filter(|pair| !pair[0].1);
    let sections = sections.map(|pair| &text[pair[0].0..pair[1].0]);
    [&text[..starts[0].0]].into_iter().chain(sections).collect()
}
