//! Which shard needs which, according to the text.
//!
//! A reference to an earlier section is a need. A reference to a later one only points ahead, unless a word of
//! dependence comes before it (`after`, `depends on`). In that case, and with `before`, the need overrides the order
//! of the text, as long as it closes no cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use regex::Regex;

use super::pieces::Pieces;
use super::{Spec, Why};
use crate::guard::estimate::named_files;

/// How much text before a title is searched for such a word, in bytes.
const BEFORE_BYTES: usize = 48;
const DEPENDS: &str =
    r"after|once|requires?|needs?|depends? (?:up)?on|builds? (?:up)?on|based on|on top of|uses?";

static CUE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&format!(
        r"(?i-u)(?:\b(?P<depends>{DEPENDS})|\b(?P<before>before)|\b(?:see|from|in|on|sections?|chapter)|§)$"
    ))
});
static NUMBER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i-u)(?:\b(?:sections?|chapter|step|phase|milestone|stage|part)\s+|§\s*)(\d+(?:\.\d+)*)\b",
    )
});
static NUMBERED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i-u)^(?:(?P<word>section|chapter|step|phase|milestone|stage|part)\s+|§\s*)?(?P<number>\d+(?:\.\d+)*)\b[.:)]?\s*(?:(?:-|–|—)\s*)?",
    )
});
static ORDER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i-u)^(then|next|after(?:wards| that| this)|finally|lastly|building on|once)\b")
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is ours")
}

type Needs = Vec<BTreeMap<usize, Why>>;

/// For each shard, the places of those that it needs.
pub(super) fn between(spec: &Spec<'_>, pieces: &Pieces<'_>, shards: &[Range<usize>]) -> Needs {
    let mut found = Found {
        shards,
        needs: vec![BTreeMap::new(); shards.len()],
        against: Vec::new(),
    };
    let text = spec.text;
    found.order(text, pieces);
    found.names(text, pieces);
    found.files(spec, pieces.body());
    found.settled()
}

struct Found<'s> {
    shards: &'s [Range<usize>],
    needs: Needs,
    /// Against the order of the text: the shard, and the later one that it needs.
    against: Vec<(usize, usize, Why)>,
}

/// A section as others may refer to it.
struct Section<'t> {
    shard: usize,
    title: &'t str,
    /// Its title without its number.
    name: &'t str,
    number: &'t str,
}

impl Found<'_> {
    fn shard_at(&self, offset: usize) -> Option<usize> {
        self.shards.iter().position(|range| range.contains(&offset))
    }

    fn need(&mut self, shard: usize, on: usize, why: Why) {
        if on < shard {
            self.needs[shard].entry(on).or_insert(why);
        } else if on > shard {
            self.against.push((shard, on, why));
        }
    }

    /// Sections that continue, words of order, numbered steps.
    fn order(&mut self, text: &str, pieces: &Pieces<'_>) {
        // The number of a section, a chapter or a part says where it stands, not when it is done.
        let step = |title: &str| {
            let word = NUMBERED.captures(title)?.name("word")?.as_str();
            let word = word.to_lowercase();
            (!["section", "chapter", "part"].contains(&&*word)).then_some(word)
        };
        for (place, range) in self.shards.iter().enumerate().skip(1) {
            let mut lines = text[range.clone()].lines().map(str::trim);
            let first = lines.clone().next().unwrap_or_default();
            let is_word = |line: &&str| !line.is_empty() && !line.starts_with('#');
            let words = lines.find(is_word).unwrap_or_default();
            let words = words.trim_start_matches(|c: char| !c.is_alphabetic());
            let heading = first.trim_start_matches('#').trim();
            let order = ORDER.find(words).or_else(|| ORDER.find(heading));
            let before = pieces.titles().filter(|(start, _)| *start < range.start);
            let is_step = first.starts_with('#')
                && step(heading).is_some_and(|word| {
                    before
                        .last()
                        .is_some_and(|(_, title)| step(title) == Some(word))
                });
            let why = match order {
                _ if pieces.is_middle(range.start) => Why::Continues,
                Some(word) => Why::Order(word.as_str().to_lowercase()),
                None if is_step => Why::Order(first.trim_start_matches('#').trim().to_owned()),
                None => continue,
            };
            self.needs[place].insert(place - 1, why);
        }
    }

    /// References to sections: by link, by number, by name.
    fn names(&mut self, text: &str, pieces: &Pieces<'_>) {
        let section =
            |(start, title): (usize, &'_ str)| Some((self.shard_at(start)?, title.to_owned()));
        let titles: Vec<(usize, String)> = pieces.titles().filter_map(section).collect();
        let sections: Vec<Section<'_>> = titles
            .iter()
            .map(|(shard, title)| Section::of(*shard, title))
            .collect();
        for (at, word, section) in mentions(text, &sections) {
            let Some(shard) = self.shard_at(at).filter(|shard| *shard != section.shard) else {
                continue;
            };
            let why = Why::Names(section.title.to_owned());
            match word {
                Word::Before => self.need(section.shard, shard, why),
                Word::Depends => self.need(shard, section.shard, why),
                Word::Points if section.shard < shard => self.need(shard, section.shard, why),
                Word::Points => {}
            }
        }
    }

    /// Shared files: the later shard would change what the earlier one works on. Files that the head names are shared
    /// by all.
    fn files(&mut self, spec: &Spec<'_>, head: usize) {
        let is_file = |file: &&str| {
            let is_path = file
                .rsplit_once('/')
                .is_some_and(|(_, name)| name.contains('.'));
            is_path || spec.file_bytes.contains_key(*file)
        };
        let named = |text| {
            named_files(text)
                .into_iter()
                .filter(is_file)
                .collect::<BTreeSet<_>>()
        };
        let common = named(&spec.text[..head]);
        let mut last: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, range) in self.shards.iter().enumerate() {
            for file in named(&spec.text[range.clone()]).difference(&common) {
                if let Some(earlier) = last.insert(file, place) {
                    self.needs[place]
                        .entry(earlier)
                        .or_insert_with(|| Why::File((*file).to_owned()));
                }
            }
        }
    }

    /// Adds the needs against the order of the text that close no cycle.
    fn settled(mut self) -> Needs {
        for (shard, on, why) in std::mem::take(&mut self.against) {
            if !self.waits(on, shard) {
                self.needs[shard].entry(on).or_insert(why);
            }
        }
        self.needs
    }

    fn waits(&self, shard: usize, on: usize) -> bool {
        let (mut seen, mut open) = (BTreeSet::new(), vec![shard]);
        while let Some(next) = open.pop() {
            if seen.insert(next) {
                open.extend(self.needs[next].keys());
            }
        }
        seen.contains(&on)
    }
}

impl<'t> Section<'t> {
    fn of(shard: usize, title: &'t str) -> Self {
        let numbered = NUMBERED.captures(title);
        let number = numbered.as_ref().and_then(|found| found.name("number"));
        let end = numbered
            .as_ref()
            .and_then(|found| found.get(0))
            .map_or(0, |all| all.end());
        Self {
            shard,
            title,
            name: title[end..].trim(),
            number: number.map_or("", |number| number.as_str()),
        }
    }

    /// The anchor that Markdown renderers give it.
    fn anchor(&self) -> String {
        let title = self.title.to_lowercase();
        let letters = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        letters.map(|c| if c == ' ' { '-' } else { c }).collect()
    }
}

/// The word before a section's name.
#[derive(Clone, Copy)]
enum Word {
    Depends,
    Before,
    Points,
}

/// The places where sections are named, with the word before.
fn mentions<'s>(text: &str, sections: &'s [Section<'s>]) -> Vec<(usize, Word, &'s Section<'s>)> {
    let mut found = Vec::new();
    let links = sections
        .iter()
        .map(|section| format!("](#{})", section.anchor()));
    for (section, link) in sections.iter().zip(links) {
        found.extend(
            text.match_indices(&link)
                .map(|(at, _)| (at, Word::Points, section)),
        );
    }
    for numbers in NUMBER.captures_iter(text) {
        let (Some(all), Some(number)) = (numbers.get(0), numbers.get(1)) else {
            continue;
        };
        let named = sections
            .iter()
            .filter(|section| section.number == number.as_str());
        let word = word_before(&text[..all.start()]).unwrap_or(Word::Points);
        found.extend(named.map(|section| (all.start(), word, section)));
    }
    let named: Vec<&Section<'_>> = sections
        .iter()
        .filter(|section| section.name.len() > 2)
        .collect();
    let names = named.iter().map(|section| section.name);
    let search = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::LeftmostLongest)
        .build(names);
    let matches = search
        .iter()
        .flat_map(|search| search.find_iter(text).collect::<Vec<_>>());
    for hit in matches {
        let section = named[hit.pattern().as_usize()];
        let (before, after) = (&text[..hit.start()], &text[hit.end()..]);
        let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        if letter(before.chars().next_back()) || letter(after.chars().next()) {
            continue;
        }
        let is_phrase = section.name.contains(char::is_whitespace);
        let word = word_before(before).or(is_phrase.then_some(Word::Points));
        found.extend(word.map(|word| (hit.start(), word, section)));
    }
    found
}

fn word_before(text: &str) -> Option<Word> {
    let from = text.ceil_char_boundary(text.len().saturating_sub(BEFORE_BYTES));
    let end = |text: &str| {
        text.trim_end_matches(|c: char| c.is_whitespace() || "\"'“‘`*_[(".contains(c))
            .len()
    };
    let mut before = &text[from..][..end(&text[from..])];
    for word in [" the", " of"] {
        before = before
            .strip_suffix(word)
            .map_or(before, |rest| &rest[..end(rest)]);
    }
    let cue = CUE.captures(before)?;
    Some(match (cue.name("depends"), cue.name("before")) {
        (Some(_), _) => Word::Depends,
        (_, Some(_)) => Word::Before,
        _ => Word::Points,
    })
}
