//! A document for the next session's start: marked as data, within what a hook may say.

use super::front::body;
use super::page::{Page, Section};
use super::read::Filled;
use super::sections;
use crate::limits;
use crate::markdown;
use crate::prompt::budget::cut_line_to;
use crate::prompt::quote::{MARK, quote};
use crate::prompt::{loaded_handoff, loaded_handoff_size};
use crate::time::Millis;

/// A line of a loaded document, in characters: shorter than elsewhere, so that one line cannot take a
/// section's whole share.
const LINE_CHARS_MAX: usize = 600;

/// A document that is to be loaded.
#[derive(Debug, Clone, Copy)]
pub struct Loaded<'a> {
    /// Its text.
    pub document: &'a str,
    /// Where it lies.
    pub path: &'a str,
    /// How long ago it was made.
    pub age: Option<Millis>,
}

/// What the next session is told: where the document lies, and its text as marked lines, at most
/// [`limits::DOCUMENT_CHARS_MAX`] characters in all.
///
/// The front matter, the original session's budget and places that nobody filled in stay out: they say
/// nothing to whoever goes on.
#[must_use]
pub fn load(loaded: &Loaded<'_>) -> String {
    let around = loaded_handoff_size(loaded.path, loaded.age);
    let page = Page::of(parts(loaded));
    let marked = page.render_marked(MARK, limits::DOCUMENT_CHARS_MAX.saturating_sub(around), utf16);
    loaded_handoff(&marked, loaded.path, loaded.age)
}

/// The sections that say something, quoted.
fn parts(loaded: &Loaded<'_>) -> Vec<Section> {
    let text = body(loaded.document).trim();
    let outline = markdown::outline(text);
    let headings: Vec<_> = outline.headings.iter().filter(|heading| heading.level <= 2).collect();
    let missing = Filled::of(loaded.document).missing();
    let silent = |name: &str| {
        let name = name.trim();
        [sections::BUDGET, sections::RESUME].contains(&name) || missing.contains(&name)
    };
    let before = headings.first().map_or(text.len(), |first| first.range.start);
    let mut parts = vec![part(&text[..before], loaded.path)];
    for (index, heading) in headings.iter().enumerate() {
        let end = headings.get(index + 1).map_or(text.len(), |next| next.range.start);
        if !silent(&heading.text) {
            parts.push(part(&text[heading.range.start..end], loaded.path));
        }
    }
    parts
}

fn part(text: &str, path: &str) -> Section {
    let lines: String = text.trim_end().lines().filter(|line| !line.trim().is_empty()).map(short).collect();
    let whole = crate::text::one_line(path, LINE_CHARS_MAX);
    Section { heading: String::new(), body: quote(&lines).text, whole }
}

fn short(line: &str) -> String {
    format!("{}\n", cut_line_to(line, LINE_CHARS_MAX).0)
}

fn utf16(text: &str) -> usize {
    text.encode_utf16().count()
}
