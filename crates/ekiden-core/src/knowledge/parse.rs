//! Reading knowledge from Markdown.

use std::ops::Range;

use super::{CORE, LOG, LogEntry, strip_word};
use crate::markdown::{Block, Heading, Outline, outline, without_bullet};
use crate::text::clean;

/// Marks of emphasis in Markdown.
const EMPHASIS: [char; 2] = ['*', '_'];

/// The texts under the two headings.
#[derive(Debug, Default)]
pub(super) struct Sections {
    /// Each item or block under Core Knowledge, without bullet.
    pub(super) core: Vec<String>,
    pub(super) log: Vec<LogSection>,
}

/// A part of the log: the text under one `### Session` heading, or before the first.
#[derive(Debug)]
pub(super) struct LogSection {
    title: Option<String>,
    pub(super) texts: Vec<String>,
}

/// Finds both sections by their real headings, wherever and however often they occur.
pub(super) fn sections(markdown: &str) -> Sections {
    let source = clean(markdown).text;
    let outline = outline(&source);
    let mut sections = Sections::default();
    for (index, heading) in outline.headings.iter().enumerate() {
        let is_ours = |next: usize| {
            let next: &Heading = &outline.headings[next];
            next.is(CORE) || next.is(LOG)
        };
        let range = outline.section(index, source.len(), is_ours);
        if heading.is(CORE) {
            sections.core.extend(texts(&source, &outline, range));
        } else if heading.is(LOG) {
            sections.log.extend(log_sections(&source, &outline, &range));
        }
    }
    sections
}

/// The text after "corrects", which may be emphasised.
pub(super) fn corrects(text: &str) -> Option<&str> {
    let rest = strip_word(text.trim_start().trim_start_matches(EMPHASIS), "corrects")?;
    let quoted =
        rest.trim_start_matches(|c: char| c.is_whitespace() || c == ':' || EMPHASIS.contains(&c));
    (quoted.len() < rest.len()).then_some(quoted)
}

/// Splits `corrects "old words": new fact`. Quotation marks may be of any kind, and an arrow may replace the colon.
pub(super) fn correction(text: &str) -> Option<(&str, &str)> {
    let quoted = corrects(text)?;
    let marks = [
        ('"', '"'),
        ('“', '”'),
        ('„', '“'),
        ('«', '»'),
        ('\'', '\''),
        ('`', '`'),
    ];
    let (open, close) = marks.iter().find(|(open, _)| quoted.starts_with(*open))?;
    let inner = &quoted[open.len_utf8()..];
    // The old words may hold the quotation mark themselves, so the end is a mark and a colon.
    let mut ends = inner.match_indices(*close);
    ends.find_map(|(at, mark)| {
        let rest = inner[at + mark.len()..]
            .trim_start_matches(EMPHASIS)
            .trim_start();
        let new = [":", "->", "=>", "→"]
            .iter()
            .find_map(|end| rest.strip_prefix(end))?;
        // Emphasis that ends here has a blank behind it.
        let ended = new.trim_start_matches(EMPHASIS);
        let new = if ended.starts_with(' ') { ended } else { new };
        let old = inner[..at].trim();
        // A prompt shows this word, which is not part of the fact.
        let old = strip_word(old, "pinned:").map_or(old, str::trim);
        Some((old, new.trim()))
    })
}

/// A heading that an agent put between its facts.
pub(super) fn is_heading(text: &str) -> bool {
    text.starts_with('#') && text.trim_start_matches('#').starts_with(' ')
}

/// One line per note, without bullets, blank lines and lines that say nothing.
pub(super) fn log_lines<'a>(
    texts: impl Iterator<Item = &'a String>,
) -> impl Iterator<Item = String> {
    texts.flat_map(|text| text.lines()).filter_map(|line| {
        let line = bare(line);
        line.contains(char::is_alphanumeric)
            .then(|| line.to_owned())
    })
}

impl LogSection {
    /// The entry, if the heading is one of a session.
    pub(super) fn entry(&self) -> Option<LogEntry> {
        let rest = strip_word(self.title.as_deref()?, "session")?
            .trim_start()
            .trim_start_matches('#');
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let session = rest[..digits].parse().ok()?;
        let date = rest[digits..]
            .trim()
            .trim_start_matches(['-', '–', '—', ':'])
            .trim()
            .to_owned();
        Some(LogEntry {
            session,
            date,
            lines: log_lines(self.texts.iter()).collect(),
        })
    }
}

fn log_sections(source: &str, outline: &Outline, range: &Range<usize>) -> Vec<LogSection> {
    let (mut title, mut begin) = (None, range.start);
    let mut sections = Vec::new();
    let inside = outline.headings.iter();
    for heading in inside.filter(|heading| range.contains(&heading.range.start)) {
        let texts = texts(source, outline, begin..heading.range.start);
        sections.push(LogSection { title, texts });
        (title, begin) = (Some(heading.text.clone()), heading.range.end);
    }
    let texts = texts(source, outline, begin..range.end);
    sections.push(LogSection { title, texts });
    sections
}

/// Each block in a range as a text, including text that the parser skips (link definitions): knowledge never
/// loses a line.
fn texts(source: &str, outline: &Outline, range: Range<usize>) -> Vec<String> {
    let mut texts = Vec::new();
    let mut read = range.start;
    for block in outline.blocks_in(&range) {
        let end = block.range.end.min(range.end);
        if block.range.start < read {
            continue;
        }
        push(&mut texts, &source[read..block.range.start]);
        texts.push(block_text(source, block, end));
        read = end;
    }
    push(&mut texts, &source[read..range.end]);
    texts
}

fn push(texts: &mut Vec<String>, text: &str) {
    if !text.trim().is_empty() {
        texts.push(text.trim().to_owned());
    }
}

/// A block's text; an item's text is without its bullet, and its further lines are moved left.
fn block_text(source: &str, block: &Block, end: usize) -> String {
    let text = &source[block.range.start..end];
    if !block.item {
        return text.trim().to_owned();
    }
    let content = without_bullet(text);
    let width = text.len() - content.len();
    let mut lines = content.lines();
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        out.push('\n');
        let indent = line.bytes().take(width).take_while(|b| *b == b' ').count();
        out.push_str(&line[indent..]);
    }
    out.trim().to_owned()
}

/// A line without any bullets, numbers and heading marks in front of it.
fn bare(line: &str) -> &str {
    let mut line = line.trim();
    loop {
        let next = without_bullet(line).trim_start_matches('#').trim();
        if next == line {
            return line;
        }
        line = next;
    }
}
