//! The content of a report before it has a form: sections of blocks, which become Markdown and HTML.
//!
//! [`foreign`] is the only way in for text that ekiden did not write. Such a text is a [`Span::Said`] or a
//! [`Block::Quote`], and both forms show it as it is: nothing in it is markup.

mod first;
mod sections;
mod session_words;
mod totals;

pub(crate) use sections::state_word;

use ekiden_core::secrets::masked;
use ekiden_core::text::{one_line, short};
use ekiden_core::time::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::curve::Streams;
use crate::phrase;
use crate::timeline::{Stage, Timeline};

/// The part of a text that a line shows, in characters.
const LINE_CHARS_MAX: usize = 200;
/// The part of a quotation that is shown, in characters; `ekiden show` has it whole.
const QUOTE_CHARS_MAX: usize = 3_000;

/// What only the command line knows of the run.
#[derive(Debug, Default)]
pub struct Heading {
    /// The run's id, as short as it can be.
    pub id: String,
    pub tone: Tone,
    /// How it ended and why: `verified complete`.
    pub headline: Text,
    /// What a person should know before they act, one line each.
    pub details: Vec<String>,
    /// The commands to continue, each with what it does; the most likely one first.
    pub next: Vec<(String, String)>,
    /// What could not be read, if anything.
    pub left_out: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    Done,
    /// It needs a person.
    Attention,
    Failed,
    #[default]
    Working,
}

/// A report without a form.
#[derive(Debug, Serialize)]
pub struct Page {
    pub title: Text,
    pub tone: Tone,
    pub headline: Text,
    /// The first screen: a person's first questions, each with its answer.
    pub facts: Vec<(&'static str, Text)>,
    pub first: Vec<Block>,
    pub sections: Vec<Section>,
    pub made_by: String,
}

#[derive(Debug, Serialize)]
pub struct Section {
    pub title: &'static str,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Block {
    Line {
        text: Text,
    },
    /// Something smaller than a section.
    Heading {
        text: Text,
    },
    List {
        items: Vec<Text>,
    },
    /// Somebody's own words, with their author.
    Quote {
        head: Text,
        text: String,
    },
    Table {
        head: Vec<&'static str>,
        rows: Vec<Vec<Text>>,
    },
    Commands {
        commands: Vec<(String, String)>,
    },
    /// A long text by somebody else, shown on request; not in Markdown.
    Folded {
        head: String,
        text: String,
    },
    /// How such a text differs from an earlier one; not in Markdown.
    Changes {
        head: String,
        changes: Vec<(Change, String)>,
    },
    /// A drawing; in Markdown only its description.
    Figure {
        title: String,
        svg: String,
    },
}

/// What happened to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    Same,
    Removed,
    Added,
}

/// Words on one line: ekiden's own, with others' between them.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Text(Vec<Span>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "by", content = "words", rename_all = "snake_case")]
pub enum Span {
    Own(String),
    Said(String),
}

impl Text {
    pub fn own(words: impl Into<String>) -> Self {
        Self::default().and(words)
    }

    /// Words of an agent, a tool, a file or a person, on one line.
    pub fn said(words: &str) -> Self {
        Self::default().and_said(words)
    }

    pub fn and(mut self, words: impl Into<String>) -> Self {
        self.0.push(Span::Own(words.into()));
        self
    }

    pub fn and_said(mut self, words: &str) -> Self {
        let words = one_line(&masked(words), LINE_CHARS_MAX);
        if !words.is_empty() {
            self.0.push(Span::Said(words));
        }
        self
    }

    /// The same, followed by another text's words.
    pub fn joined(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|span| match span {
            Span::Own(words) | Span::Said(words) => words.is_empty(),
        })
    }

    /// The words alone, for a title.
    pub fn plain(&self) -> String {
        let words = self.0.iter().map(|span| match span {
            Span::Own(words) | Span::Said(words) => words.as_str(),
        });
        words.collect()
    }
}

/// A text that ekiden did not write, as a page may show it.
pub fn foreign(text: &str) -> String {
    short(masked(text).trim_end(), QUOTE_CHARS_MAX)
}

impl Page {
    /// The report of a run. `now` is the time of its last record.
    pub fn new(timeline: &Timeline, streams: &Streams, heading: &Heading, zone: &TimeZone) -> Self {
        let view = View {
            timeline,
            streams,
            heading,
            zone,
        };
        let title = Text::own(format!("ekiden run {}: ", heading.id)).and_said(&timeline.task_name);
        let (facts, first) = (view.facts(), view.first());
        Self {
            title,
            tone: heading.tone,
            headline: heading.headline.clone(),
            facts,
            first,
            sections: view.sections(),
            made_by: format!(
                "Made by ekiden {} from the run's log. Words in boxes are an agent's or a tool's own; secrets in them are masked.",
                timeline.ekiden
            ),
        }
    }
}

/// The data for the sections.
struct View<'a> {
    timeline: &'a Timeline,
    streams: &'a Streams,
    heading: &'a Heading,
    zone: &'a TimeZone,
}

impl View<'_> {
    fn clock(&self, at: Timestamp) -> String {
        phrase::clock(at, self.timeline.started, self.zone)
    }

    /// `session 3`, in a plan `S02 · session 3`.
    fn session(&self, stage: &Stage, number: u32) -> String {
        match self.timeline.is_plan {
            true => format!("{} · session {number}", stage.id),
            false => format!("session {number}"),
        }
    }
}

impl Section {
    fn new(title: &'static str, blocks: Vec<Block>) -> Option<Self> {
        (!blocks.is_empty()).then_some(Self { title, blocks })
    }
}

impl Block {
    fn line(words: impl Into<String>) -> Self {
        Self::Line {
            text: Text::own(words),
        }
    }

    /// How much of somebody's words it shows, in bytes of HTML.
    fn bytes(&self) -> usize {
        let escaped = |text: &str| text.matches(['<', '>', '&', '"', '\'', '/']).count();
        let bytes = |text: &str| text.len() + 5 * escaped(text);
        match self {
            Self::Quote { text, .. } | Self::Folded { text, .. } => bytes(text),
            Self::Changes { changes, .. } => changes.iter().map(|(_, text)| bytes(text) + 30).sum(),
            Self::Line { .. }
            | Self::Heading { .. }
            | Self::List { .. }
            | Self::Table { .. }
            | Self::Commands { .. }
            | Self::Figure { .. } => 0,
        }
    }

    /// Somebody's words, or nothing if there are none.
    fn quote(head: Text, words: &str) -> Option<Self> {
        let text = foreign(words);
        (!text.trim().is_empty()).then_some(Self::Quote { head, text })
    }

    /// A table, or nothing without rows. If there are more than `max` rows, the first and the last are shown.
    fn table(head: Vec<&'static str>, rows: Vec<Vec<Text>>, max: usize) -> Vec<Self> {
        Self::table_of(head, rows, max, |row| row)
    }

    /// The same for items that become a row each; only the shown rows are made.
    fn table_of<T>(
        head: Vec<&'static str>,
        all: Vec<T>,
        max: usize,
        row: impl FnMut(T) -> Vec<Text>,
    ) -> Vec<Self> {
        let (shown, left_out) = ends(all, max);
        let rows: Vec<_> = shown.into_iter().map(row).collect();
        let table = (!rows.is_empty()).then_some(Self::Table { head, rows });
        let rows = (left_out > 0).then(|| phrase::count(left_out as u64, "row"));
        let more = rows.map(|rows| Self::line(format!("Left out in the middle: {rows}.")));
        table.into_iter().chain(more).collect()
    }
}

/// At most `max` items, from both ends, and the number of those left out.
fn ends<T>(mut all: Vec<T>, max: usize) -> (Vec<T>, usize) {
    let left_out = all.len().saturating_sub(max);
    let first = max / 4;
    all.drain(first.min(all.len())..(first + left_out).min(all.len()));
    (all, left_out)
}
