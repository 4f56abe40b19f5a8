//! Reads a document back: what the agent filled in, and what a person wants to see first.
//!
//! The agent edits the document, so nothing in it is trusted: a parser splits it at ekiden's headings, and
//! every piece becomes one clean line of bounded length.

use serde::Serialize;

use super::front::{body, value};
use super::sections;
use crate::guard::estimate::bare_words;
use crate::markdown;
use crate::text::one_line;

/// One line of a section, in characters.
const LINE_CHARS_MAX: usize = 300;
const LINES_MAX: usize = 40;

/// What the agent wrote into its places, one entry per line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filled {
    pub done: Vec<String>,
    pub decisions: Vec<String>,
    pub blockers: Vec<String>,
}

/// What a fresh session, or a person, wants to know first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct KeyPoints {
    pub title: String,
    /// When it was made, by the wall clock: date and time.
    pub made: Option<String>,
    pub session: Option<String>,
    pub trigger: Option<String>,
    pub branch: Option<String>,
    pub issue: Option<String>,
    pub task: Option<String>,
    /// The first task of the sessions that this one continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<String>,
    /// The specification that the work follows.
    #[serde(skip)]
    pub spec: Option<String>,
    pub issue_state: Vec<String>,
    pub reload: Vec<String>,
    pub done: Vec<String>,
    pub decisions: Vec<String>,
    pub blockers: Vec<String>,
    /// What comes next, in order.
    pub next_steps: Vec<String>,
}

impl Filled {
    pub fn of(document: &str) -> Self {
        let text = body(document);
        Self {
            done: lines_of(text, sections::DONE),
            decisions: lines_of(text, sections::DECISIONS)
                .into_iter()
                .filter(|line| !line.starts_with(sections::SHOWN))
                .collect(),
            blockers: lines_of(text, sections::BLOCKERS),
        }
    }

    /// The places, by their headings.
    fn places(&self) -> [(&'static str, &[String]); 3] {
        [
            (sections::DONE, &self.done),
            (sections::DECISIONS, &self.decisions),
            (sections::BLOCKERS, &self.blockers),
        ]
    }

    /// The document with these lines in the places that are still empty, and the headings of those that are not.
    pub fn fill(&self, document: &str) -> (String, Vec<&'static str>) {
        let places = self.places();
        let missing = Self::missing(document);
        let full = places.iter().filter(|(_, lines)| !lines.is_empty());
        let full = full.map(|(name, _)| *name);
        let full = full.filter(|name| !missing.contains(name)).collect();
        let mut filled = String::new();
        let mut under: &[String] = &[];
        for line in document.split_inclusive('\n') {
            if let Some(heading) = line.strip_prefix("## ") {
                let place = places.iter().find(|(name, _)| heading.trim() == *name);
                under = place.map_or(&[], |(_, lines)| lines);
            }
            if line.starts_with(sections::EMPTY) && !under.is_empty() {
                filled.extend(under.iter().map(|line| format!("- {line}\n")));
            } else {
                filled.push_str(line);
            }
        }
        (filled, full)
    }

    /// The places of a document that the agent has not filled in, by their headings. Lines from the document before do
    /// not fill one.
    pub fn missing(document: &str) -> Vec<&'static str> {
        let filled = Self::of(document);
        let places = filled.places().into_iter();
        let is_open = |name| {
            let mut lines = section_of(body(document), name).lines();
            lines.any(|line| line.starts_with(sections::EMPTY))
        };
        let empty = places.filter(|(name, lines)| lines.is_empty() || is_open(name));
        empty.map(|(name, _)| name).collect()
    }
}

impl KeyPoints {
    /// The key points of a document. Missing ones are left out.
    pub fn of(document: &str) -> Self {
        let text = body(document);
        let reason = lines_of(text, sections::REASON);
        let reload = lines_of(text, sections::RELOAD);
        let after = |lines: &[String], label| {
            let mut found = lines.iter().filter_map(|line| line.strip_prefix(label));
            found.next().map(str::to_owned)
        };
        let Filled { done, blockers, .. } = Filled::of(document);
        let made = value(document, "session_date").map(|date| {
            value(document, "session_time").map_or(date.clone(), |time| format!("{date} {time}"))
        });
        Self {
            title: title(text),
            made,
            session: session_of(document),
            trigger: value(document, "checkpoint_trigger"),
            branch: value(document, "branch"),
            issue: value(document, "linear_issues").or_else(|| value(document, "issue")),
            task: after(&reason, sections::TASK),
            began: after(&reason, sections::BEGAN),
            spec: after(&reload, sections::SPEC),
            issue_state: lines_of(text, sections::ISSUE),
            reload,
            done,
            decisions: lines_of(text, sections::DECISIONS),
            blockers,
            next_steps: lines_of(text, sections::NEXT),
        }
    }
}

pub fn session_of(document: &str) -> Option<String> {
    value(document, "session")
}

pub fn branch_of(document: &str) -> Option<String> {
    value(document, "branch")
}

pub fn mark_of(document: &str) -> Option<String> {
    value(document, "checkpoint_mark")
}

fn title(text: &str) -> String {
    let outline = markdown::outline(text);
    let first = outline.headings.iter().find(|heading| heading.level == 1);
    let title = first.map_or("", |heading| heading.text.as_str());
    one_line(title.trim_start_matches("Session Handoff:"), LINE_CHARS_MAX)
}

/// The lines of a section without bullets and numbers, and without empty places.
pub(super) fn lines_of(text: &str, heading: &str) -> Vec<String> {
    let lines = section_of(text, heading)
        .lines()
        .map(|line| one_line(markdown::without_bullet(line.trim()), LINE_CHARS_MAX));
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(sections::EMPTY))
        .take(LINES_MAX)
        .collect()
}

fn section_of<'a>(text: &'a str, heading: &str) -> &'a str {
    let outline = markdown::outline(text);
    let is_it = |found: &markdown::Heading| found.level == 2 && found.is(heading);
    let index = outline.headings.iter().position(is_it);
    index.map_or("", |index| {
        &text[outline.section(index, text.len(), |_| false)]
    })
}

/// The maximum number of sections of an instructions file that are named.
const SECTIONS_MAX: usize = 30;

/// The names of a Markdown text's sections: those below its title, or the titles if there are none.
pub fn section_names(markdown: &str) -> Vec<String> {
    let outline = markdown::outline(markdown);
    let below = outline
        .headings
        .iter()
        .filter(|heading| matches!(heading.level, 2 | 3));
    let mut names: Vec<&str> = below.map(|heading| heading.text.as_str()).collect();
    if names.is_empty() {
        names = outline
            .headings
            .iter()
            .map(|heading| heading.text.as_str())
            .collect();
    }
    names
        .into_iter()
        .take(SECTIONS_MAX)
        .map(|name| one_line(name, LINE_CHARS_MAX))
        .collect()
}

/// Paths in a text that look like those of a spec or a plan.
pub fn named_specs(text: &str) -> impl Iterator<Item = String> {
    let is_spec = |word: &&str| {
        let lower = word.to_lowercase();
        lower.ends_with(".md") && (lower.contains("spec") || lower.contains("plan"))
    };
    bare_words(text)
        .filter(is_spec)
        .map(|word| word.strip_prefix("./").unwrap_or(word).to_owned())
}
