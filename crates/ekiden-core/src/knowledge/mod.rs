//! Knowledge: what every later session should know.
//!
//! ekiden writes `KNOWLEDGE.md`. Agents write only what is new, under the same two headings, and
//! [`Knowledge::merge`] adds it:
//!
//! - **Core Knowledge** is append-only, oldest first, so that the prompt's bytes stay the same up to the
//!   first new line. A bullet `corrects "old words": new fact` removes the one fact with those words from the
//!   prompt and keeps it in [`Knowledge::archived`]. A bullet that begins with `pinned:` is the last to be
//!   left out of a prompt.
//! - **Session Log** has one short entry per session. ekiden keeps the last few; older ones are in the
//!   archives of their sessions.
//!
//! Invariants:
//! - A fact leaves Core only by a correction, and then it is in `archived`.
//! - A stage's corrections also hold for what the other stages of its plan know, whichever is merged first.
//! - Rendered knowledge reads back as the same facts and entries: each fact is rendered as one list item,
//!   which confines any Markdown in it. So a fact that quotes a heading or opens a fence changes nothing
//!   around it.

mod facts;
mod lost;
mod merge;
mod parse;
mod selection;

use crate::handoff::headings::{Heading, is_explanation, says_nothing};
use crate::text::{clean, letters, says_the_same};

pub use facts::Facts;
pub use lost::lost_lines;
pub use selection::PromptKnowledge;

pub const CORE: &str = Heading::CoreKnowledge.name();
pub const LOG: &str = Heading::SessionLog.name();

/// How many lines of a session's log are merged, the last ones; the protocol asks for no more.
const LOG_LINES_MAX: usize = 5;
/// Fewer letters and digits of old words could name anything; a correction with them is just a new fact.
const OLD_LETTERS_MIN: usize = 8;

/// The known facts and notes, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Knowledge {
    /// Facts that every session needs.
    pub core: Facts,
    /// Notes on the last sessions.
    pub log: Vec<LogEntry>,
    /// Facts that were corrected; not rendered.
    pub archived: Vec<Corrected>,
}

/// One fact, Markdown of one or more lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    pub text: String,
    /// Left out of a prompt last.
    pub pinned: bool,
}

/// What a session noted about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    pub session: u32,
    /// The day, as it is shown.
    pub date: String,
    pub lines: Vec<String>,
}

/// A fact that a later session found wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corrected {
    pub old: Fact,
    pub new: String,
    pub session: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NewKnowledge {
    /// Facts in the order in which they were written.
    pub core: Vec<NewFact>,
    pub log: Vec<String>,
}

/// A fact that a session adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFact {
    pub fact: Fact,
    /// Words of the fact that it takes the place of; empty if it says "corrects", but not readably what.
    pub corrects: Option<String>,
}

impl Fact {
    /// The fact in this text; `None` if there is no letter or digit in it.
    pub fn new(text: &str) -> Option<Self> {
        let text = tidy(&clean(text).text);
        let (text, pinned) = match strip_word(&text, "pinned:") {
            Some(rest) => (tidy(rest), true),
            None => (text, false),
        };
        text.contains(char::is_alphanumeric)
            .then_some(Self { text, pinned })
    }

    /// Adds the fact as a list item.
    fn render_to(&self, text: &mut String) {
        item_to(text, if self.pinned { "pinned: " } else { "" }, &self.text);
    }
}

impl Corrected {
    /// The fact was corrected here, or is the correction.
    fn is_about(&self, fact: &Fact) -> bool {
        [&self.old.text, &self.new]
            .iter()
            .any(|text| says_the_same(text, &fact.text))
    }
}

impl NewFact {
    fn new(text: &str) -> Option<Self> {
        if let Some((old, new)) = parse::correction(text)
            && letters(old).count() >= OLD_LETTERS_MIN
            && let Some(fact) = Fact::new(new)
        {
            return Some(Self {
                fact,
                corrects: Some(old.to_owned()),
            });
        }
        Some(Self {
            fact: Fact::new(text)?,
            corrects: parse::corrects(text).map(|_| String::new()),
        })
    }
}

impl NewKnowledge {
    /// Reads what an agent wrote; "none" and explanations of the template add nothing.
    pub fn parse(markdown: &str) -> Self {
        let sections = parse::sections(markdown);
        let written =
            |heading, text: &str| !says_nothing(heading, text) && !is_explanation(heading, text);
        let facts = sections.core.iter();
        let facts = facts.filter(|text| written(Heading::CoreKnowledge, text));
        let facts = facts.filter(|text| !parse::is_heading(text));
        // An agent may add its lines to a copy of the published file.
        let log = sections.log.iter();
        let log = log.filter(|section| !section.texts.is_empty());
        let (mut earlier, mut own): (Vec<_>, Vec<_>) =
            log.partition(|section| section.entry().is_some());
        if own.is_empty() {
            own.extend(earlier.pop());
        }
        let lines = own.iter().flat_map(|section| &section.texts);
        let lines = lines.filter(|text| written(Heading::SessionLog, text));
        let mut log: Vec<String> = parse::log_lines(lines).collect();
        log.drain(..log.len().saturating_sub(LOG_LINES_MAX));
        Self {
            core: facts.filter_map(|text| NewFact::new(text)).collect(),
            log,
        }
    }
}

impl Knowledge {
    /// Reads the file that ekiden made and a person may have edited. Nothing under Core is passed
    /// over: prose, code and tables become facts as list items do.
    pub fn parse(markdown: &str) -> Self {
        let sections = parse::sections(markdown);
        let facts = sections.core.iter().filter_map(|text| Fact::new(text));
        let entries = sections.log.iter().filter_map(parse::LogSection::entry);
        Self {
            core: facts.collect(),
            log: entries.collect(),
            archived: Vec::new(),
        }
    }

    pub fn render(&self) -> String {
        let mut text = format!("# Knowledge\n\n## {CORE}\n\n");
        text.push_str(&self.core.text);
        text.push_str(&format!("\n## {LOG}\n"));
        text.extend(self.log.iter().map(LogEntry::render));
        text
    }
}

impl LogEntry {
    fn render(&self) -> String {
        let mut text = format!("\n### Session {} - {}\n\n", self.session, self.date);
        self.lines
            .iter()
            .for_each(|line| item_to(&mut text, "", line));
        text
    }
}

/// Adds a text as a list item: its further lines are indented, so that they stay inside.
fn item_to(out: &mut String, first: &str, text: &str) {
    out.push_str("- ");
    out.push_str(first);
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 && !line.is_empty() {
            out.push_str("  ");
        }
        out.push_str(line);
        out.push('\n');
    }
}

/// A fact's text: no blanks around it and at line ends, and no line in front that a bullet would
/// make a thematic break.
fn tidy(text: &str) -> String {
    let in_rule = |c: char| c.is_whitespace() || matches!(c, '-' | '*' | '_');
    let lines = text.lines().map(str::trim_end);
    let lines: Vec<&str> = lines.skip_while(|line| line.chars().all(in_rule)).collect();
    lines.join("\n").trim().to_owned()
}

/// The text after a word at the beginning of a text; the word may have any case.
fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
}

#[cfg(test)]
mod tests;
