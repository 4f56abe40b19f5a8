//! Splits a document into balanced shards, along its own headings and checklists.
//!
//! ```text
//! text ─► pieces ─► cuts ─► shards ─► needs
//!         lines that     fewest parts    what the text
//!         stay together  that fit        says of order
//! ```
//!
//! Every line is in exactly one shard or in the head, which all shards share. Nothing is cut inside a block: a table,
//! a fence and an outer item of a list stay whole. The result is deterministic: the same text gives the same shards.

mod cuts;
mod needs;
mod pieces;
mod refine;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use crate::guard::estimate::{Advice, Estimate};
use crate::limits::STAGE_TASK_TOKENS_MAX;
use crate::markdown::line_of;
use crate::prompt::budget::tokens;
use crate::text::{one_line, shell_word, short};
use pieces::Pieces;
pub use refine::SCHEMA;

/// The share of the usable window that a shard may take unless somebody says otherwise, in percent.
pub const MAX_PERCENT: u64 = 30;
/// A shard's title, in characters.
const TITLE_CHARS_MAX: usize = 56;

/// What is split.
#[derive(Debug, Clone, Copy)]
pub struct Spec<'a> {
    pub text: &'a str,
    /// Sizes of the files that it names, in bytes, as far as they exist.
    pub file_bytes: &'a BTreeMap<String, u64>,
    /// The usable window.
    pub window_tokens: u64,
}

/// How far it is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Into this many shards, or fewer if there are fewer pieces.
    Into(usize),
    /// Until none takes more than this share of the usable window, in percent.
    Max(u64),
}

/// A document that was split.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shards {
    /// The estimate of the whole.
    pub whole: Estimate,
    /// What stands before all shards: the title and the words below it. Bytes of the text.
    pub head: Range<usize>,
    pub shards: Vec<Shard>,
}

/// A document that is better sharded before it is begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargeSpec {
    pub name: String,
    /// The share of the usable window.
    pub percent: u64,
    /// The table of its shards.
    pub parts: Vec<String>,
}

impl LargeSpec {
    /// Nothing if it is small enough, or cannot be split.
    pub fn of(name: &str, spec: &Spec<'_>) -> Option<Self> {
        let shards = Shards::of(spec, Split::Max(MAX_PERCENT));
        let is_large = shards.whole.advice == Advice::ShardFirst && shards.shards.len() > 1;
        is_large.then(|| Self {
            name: name.to_owned(),
            percent: shards.whole.percent,
            parts: shards.table(),
        })
    }

    /// The suggestion, with the table.
    pub fn suggestion(&self) -> String {
        let Self {
            name,
            percent,
            parts,
        } = self;
        let file = shell_word(name);
        format!(
            "{name} may take about {percent}% of the usable window. Shard it first, into {} parts:\n  {}\n\
             `ekiden shard {file} -o plan.toml` writes them as a plan, `ekiden shard {file} --issues ISSUE` makes sub-issues of them.",
            parts.len(),
            parts.join("\n  "),
        )
    }
}

/// One part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// `S01` and so on.
    pub id: String,
    pub title: String,
    /// Bytes of the text.
    pub range: Range<usize>,
    /// Its first and last line, from 1.
    pub lines: (usize, usize),
    /// What doing it will take, the head included.
    pub estimate: Estimate,
    pub needs: Vec<Need>,
}

/// A shard that has to be done before, and the words that say so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Need {
    pub id: String,
    pub why: Why,
}

impl Shard {
    /// What it needs and why, in a few words.
    pub fn needs_in_words(&self) -> String {
        let needs = self
            .needs
            .iter()
            .map(|need| format!("{} ({})", need.id, need.why.in_words()));
        let needs: Vec<String> = needs.collect();
        match needs.is_empty() {
            true => String::new(),
            false => format!("needs {}", needs.join(", ")),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// It goes on with a section that begins there.
    Continues,
    /// A word of order, such as `then`.
    Order(String),
    /// It names a section of it.
    Names(String),
    /// Both name this file.
    File(String),
    /// A model says so.
    Planner,
}

impl Why {
    fn in_words(&self) -> String {
        match self {
            Self::Continues => "the same section".to_owned(),
            Self::Order(word) => format!("\u{201c}{word}\u{201d}"),
            Self::Names(title) => format!("names \u{201c}{}\u{201d}", short(title, 40)),
            Self::File(file) => file.clone(),
            Self::Planner => "the planner".to_owned(),
        }
    }
}

impl Shards {
    pub fn of(spec: &Spec<'_>, split: Split) -> Self {
        let pieces = Pieces::of(spec);
        let starts = cuts::starts(&pieces, split);
        let ranges: Vec<Range<usize>> = (starts.iter().zip(starts.iter().skip(1)))
            .map(|(begin, end)| *begin..*end)
            .collect();
        let mut shards: Vec<Shard> = (ranges.iter().zip(1..))
            .map(|(range, number)| shard(spec.text, &pieces, range, number))
            .collect();
        let bytes: Vec<Range<usize>> = shards.iter().map(|shard| shard.range.clone()).collect();
        let needs = needs::between(spec, &pieces, &bytes);
        for (shard, needs) in shards.iter_mut().zip(needs) {
            let need = |(place, why)| Need {
                id: id(place + 1),
                why,
            };
            shard.needs = needs.into_iter().map(need).collect();
        }
        Self {
            whole: pieces.estimate(0..pieces.len()),
            head: 0..pieces.body(),
            shards,
        }
    }

    /// A line for each shard.
    pub fn table(&self) -> Vec<String> {
        let width = |shard: &Shard| shard.title.chars().count();
        let width = self.shards.iter().map(width).max().unwrap_or(0);
        let row = |shard: &Shard| {
            let (first, last) = shard.lines;
            let needs = shard.needs_in_words();
            let gap = if needs.is_empty() { "" } else { "  " };
            format!(
                "{}  {:<width$}  {:>2}%  lines {first}-{last}{gap}{needs}",
                shard.id, shard.title, shard.estimate.percent,
            )
        };
        self.shards.iter().map(row).collect()
    }

    /// What the session of a shard is told. `document` names the whole; a part too long for a task is in `file`.
    pub fn prompt(&self, text: &str, place: usize, document: &str, file: &str) -> ShardPrompt {
        let shard = &self.shards[place];
        let (head, part) = (&text[self.head.clone()], &text[shard.range.clone()]);
        let intro = |at: &str| {
            format!(
                "Do part {} of {} of {document}: {}. It stands {at}. Do all of it{}",
                place + 1,
                self.shards.len(),
                shard.title,
                self.others(place),
            )
        };
        let begins = match head.trim() {
            "" => String::new(),
            head => format!("\nThe document begins, for all parts:\n\n{head}\n"),
        };
        let whole = format!(
            "{}{begins}\nYour part:\n\n{}\n",
            intro("below, whole"),
            part.trim_end()
        );
        if tokens(&whole) <= STAGE_TASK_TOKENS_MAX {
            return ShardPrompt {
                text: whole,
                file: None,
            };
        }
        let at = format!(
            "in {file}, or where \"Files\" says, whole, below the beginning of the document; read all of it first"
        );
        ShardPrompt {
            text: intro(&at),
            file: Some(format!("{head}{part}")),
        }
    }

    fn others(&self, place: usize) -> String {
        let needs = &self.shards[place].needs;
        let line = |shard: &Shard| {
            let is_needed = needs.iter().any(|need| need.id == shard.id);
            let done = if is_needed {
                " (done, you build on it)"
            } else {
                ""
            };
            format!("- {}: {}{done}\n", shard.id, shard.title)
        };
        let others = self
            .shards
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place);
        match others.map(|(_, shard)| line(shard)).collect::<String>() {
            none if none.is_empty() => ".\n".to_owned(),
            lines => format!(", and leave these parts to other sessions:\n{lines}"),
        }
    }
}

/// What the session of a shard is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPrompt {
    pub text: String,
    /// The part, where it is too long for a task: the task is never cut, so it goes into a file.
    pub file: Option<String>,
}

pub(crate) fn id(number: usize) -> String {
    format!("S{number:02}")
}

fn shard(text: &str, pieces: &Pieces<'_>, range: &Range<usize>, number: usize) -> Shard {
    let bytes = pieces.bytes(range);
    let last = text[bytes.clone()].trim_end().len() + bytes.start;
    Shard {
        id: id(number),
        title: title(pieces, range),
        lines: (line_of(text, bytes.start), line_of(text, last)),
        range: bytes,
        estimate: pieces.estimate(range.clone()),
        needs: Vec::new(),
    }
}

/// Its highest headings; or where it goes on; or else its first words.
fn title(pieces: &Pieces<'_>, range: &Range<usize>) -> String {
    let headings = || pieces.headings(range);
    let highest = headings().map(|(level, _)| level).min();
    let highest = headings().filter(|(level, _)| Some(*level) == highest);
    let goes_on = pieces.goes_on(range.start);
    let names = goes_on.map(|section| format!("{section} (continued)"));
    let names = names
        .into_iter()
        .chain(highest.map(|(_, title)| title.to_owned()));
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    let words = [names.join(", "), pieces.first_words(range.start).to_owned()];
    let mut words = words.iter().map(|words| one_line(words, TITLE_CHARS_MAX));
    let words = words.find(|words| !words.is_empty());
    words.unwrap_or_else(|| "the text".to_owned())
}
