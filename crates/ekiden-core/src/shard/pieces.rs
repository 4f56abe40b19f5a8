//! The pieces of a document: which lines stay together, and how good a cut before each piece is.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Spec;
use crate::guard::estimate::{Estimate, Parts, items, named_files};
use crate::limits::{BYTES_PER_TOKEN, SHARD_HEAD_BYTES_MAX, SHARD_PIECES_MAX};
use crate::markdown::{Heading, Outline, outline};

/// A list item that is not the first. The grades before are the levels of headings.
const ITEM: u8 = 7;
/// Any other block.
const BLOCK: u8 = 8;

pub(super) struct Pieces<'a> {
    text: &'a str,
    pub(super) window_tokens: u64,
    pieces: Vec<Piece>,
    headings: Vec<Heading>,
}

struct Piece {
    start: usize,
    /// The depth at which it begins: the level of its heading, or [`ITEM`] or [`BLOCK`].
    grade: u8,
    items: u64,
    /// The existing files that it names, with their sizes in bytes.
    files: BTreeSet<(String, u64)>,
}

struct Begin {
    start: usize,
    grade: u8,
    /// It stays with the text before it: it follows a heading, is the first item of a list, or the code below an item.
    bound: bool,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(spec: &Spec<'a>) -> Self {
        let outline = outline(spec.text);
        let begins = coarse(bodied(spec.text.len(), begins(spec.text, &outline)));
        let items = items(&outline);
        let ends = begins.iter().skip(1).map(|next| next.start);
        let ends = ends.chain([spec.text.len()]).collect::<Vec<_>>();
        let piece = |(begin, end): (Begin, usize)| {
            let range = begin.start..end;
            let named = named_files(&spec.text[range.clone()]).into_iter();
            let size = |file: &str| Some((file.to_owned(), *spec.file_bytes.get(file)?));
            Piece {
                start: begin.start,
                grade: begin.grade,
                items: items.iter().filter(|item| range.contains(item)).count() as u64,
                files: named.filter_map(size).collect(),
            }
        };
        Self {
            text: spec.text,
            window_tokens: spec.window_tokens,
            pieces: begins.into_iter().zip(ends).map(piece).collect(),
            headings: outline.headings,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Where the head ends.
    pub(super) fn body(&self) -> usize {
        self.start(0)
    }

    fn start(&self, piece: usize) -> usize {
        let found = self.pieces.get(piece);
        found.map_or(self.text.len(), |piece| piece.start)
    }

    pub(super) fn bytes(&self, range: &Range<usize>) -> Range<usize> {
        self.start(range.start)..self.start(range.end)
    }

    /// The cost of a cut before a piece: 0 before the highest headings, less for a list than for a text.
    pub(super) fn cost(&self, piece: usize) -> u64 {
        let highest = self.pieces.iter().map(|piece| piece.grade).min();
        match self.pieces[piece].grade {
            ITEM => 100,
            BLOCK => 1_000,
            level => u64::from(level - highest.unwrap_or(level)),
        }
    }

    pub(super) fn estimate(&self, range: Range<usize>) -> Estimate {
        let mut sum = self.sum_from(range.start);
        range.for_each(|piece| sum.add(piece));
        sum.estimate()
    }

    /// The sums over growing ranges of pieces from one on.
    pub(super) fn sum_from(&self, start: usize) -> Sum<'_, 'a> {
        Sum {
            pieces: self,
            bytes: self.body(),
            items: 0,
            files: BTreeSet::new(),
            file_tokens: 0,
            at: start,
        }
    }

    /// The level and the title of each heading in these pieces.
    pub(super) fn headings(&self, range: &Range<usize>) -> impl Iterator<Item = (u8, &str)> {
        let bytes = self.bytes(range);
        let inside = move |heading: &&Heading| bytes.contains(&heading.range.start);
        let headings = self.headings.iter().filter(inside);
        headings.map(|heading| (heading.level, heading.text.as_str()))
    }

    pub(super) fn titles(&self) -> impl Iterator<Item = (usize, &str)> {
        let headings = self.headings.iter();
        headings.map(|heading| (heading.range.start, heading.text.as_str()))
    }

    /// The section of a piece without its own heading, if a section began in a piece before.
    pub(super) fn goes_on(&self, piece: usize) -> Option<&str> {
        let start = self.start(piece);
        let is_before = |heading: &&Heading| (self.body()..start).contains(&heading.range.start);
        let before = self.headings.iter().rev().find(is_before)?;
        (self.pieces[piece].grade >= ITEM).then_some(before.text.as_str())
    }

    /// A piece without its own heading, after another one.
    pub(super) fn is_middle(&self, start: usize) -> bool {
        let is_here = |piece: &Piece| piece.start == start;
        let piece = self.pieces.iter().skip(1).find(|piece| is_here(piece));
        piece.is_some_and(|piece| piece.grade >= ITEM)
    }

    /// Its first line without a list mark and a tick box.
    pub(super) fn first_words(&self, piece: usize) -> &str {
        let line = self.text[self.start(piece)..].trim_start().lines().next();
        let words = line.unwrap_or_default().trim_start_matches(|c: char| {
            c.is_ascii_digit() || c.is_whitespace() || "-*+.)#[]>".contains(c)
        });
        let unticked = words.strip_prefix("x] ").or(words.strip_prefix("X] "));
        unticked.unwrap_or(words)
    }
}

/// The size of a growing range of pieces.
pub(super) struct Sum<'p, 'a> {
    pieces: &'p Pieces<'a>,
    bytes: usize,
    items: u64,
    files: BTreeSet<&'p str>,
    file_tokens: u64,
    at: usize,
}

impl Sum<'_, '_> {
    pub(super) fn add(&mut self, piece: usize) {
        debug_assert_eq!(piece, self.at, "a range grows by its next piece");
        self.at += 1;
        let added = &self.pieces.pieces[piece];
        self.bytes += self.pieces.start(piece + 1) - added.start;
        self.items += added.items;
        for (file, bytes) in &added.files {
            if self.files.insert(file) {
                self.file_tokens += bytes.div_ceil(BYTES_PER_TOKEN as u64);
            }
        }
    }

    pub(super) fn estimate(&self) -> Estimate {
        Estimate::from_parts(&Parts {
            text_tokens: self.bytes.div_ceil(BYTES_PER_TOKEN) as u64,
            read_tokens: self.file_tokens,
            files: self.files.len() as u64,
            items: self.items,
            window_tokens: self.pieces.window_tokens,
            used_tokens: None,
        })
    }
}

/// The starts of blocks, at the beginnings of their lines.
fn begins(text: &str, outline: &Outline) -> Vec<Begin> {
    let mut begins: Vec<Begin> = Vec::new();
    for block in &outline.blocks {
        let start = text[..block.range.start].rfind('\n').map_or(0, |at| at + 1);
        let starts_here = |heading: &&Heading| heading.range.start == block.range.start;
        let heading = outline.headings.iter().find(starts_here);
        let last = begins.last();
        let follows_item = last.is_some_and(|last| last.grade == ITEM);
        let is_code = ["```", "~~~"]
            .iter()
            .any(|fence| text[block.range.start..].starts_with(fence));
        // Commands below an item belong to it.
        let item_code = follows_item && is_code;
        let grade = match (heading, block.item || item_code) {
            (Some(heading), _) => heading.level,
            (None, true) => ITEM,
            (None, false) => BLOCK,
        };
        let bound = item_code
            || last.is_some_and(|last| last.grade < ITEM || (block.item && !follows_item));
        if last.is_none_or(|last| last.start < start) {
            begins.push(Begin {
                start,
                grade,
                bound,
            });
        }
    }
    begins
}

/// The pieces without the head. The head is the title with its text; without sections, it is everything before the
/// first list.
fn bodied(bytes: usize, mut begins: Vec<Begin>) -> Vec<Begin> {
    let headings: Vec<usize> = (0..begins.len())
        .filter(|at| begins[*at].grade < ITEM)
        .collect();
    let title = headings.split_first().filter(|(title, others)| {
        let is_below = |other: &usize| begins[*other].grade > begins[**title].grade;
        others.iter().all(is_below)
    });
    let after_title = title.map_or(0, |(title, _)| title + 1);
    let section = headings.get(usize::from(title.is_some())).copied();
    let list = || begins.iter().position(|begin| begin.grade == ITEM);
    let body = section.or_else(list).unwrap_or(after_title);
    let start = begins.get(body).map_or(bytes, |begin| begin.start);
    let body = match start {
        _ if body >= begins.len() => 0,
        start if start > SHARD_HEAD_BYTES_MAX && start > bytes / 4 => after_title,
        _ => body,
    };
    begins.drain(..body);
    let mut first = true;
    begins.retain(|begin| std::mem::take(&mut first) || !begin.bound);
    match begins.first_mut() {
        Some(first) if body == 0 => first.start = 0,
        Some(_) => {}
        None => begins.push(Begin {
            start: 0,
            grade: BLOCK,
            bound: false,
        }),
    }
    begins
}

/// At most [`SHARD_PIECES_MAX`] pieces: the deepest are joined with those before them. If only some of a grade must
/// go, the rest are spread evenly.
fn coarse(mut begins: Vec<Begin>) -> Vec<Begin> {
    let first = begins[0].start;
    for grade in (1..=BLOCK).rev() {
        if begins.len() <= SHARD_PIECES_MAX {
            break;
        }
        let is_deep = |begin: &Begin| begin.grade >= grade && begin.start != first;
        let deep = begins.iter().filter(|begin| is_deep(begin)).count();
        let kept = SHARD_PIECES_MAX.saturating_sub(begins.len() - deep);
        let mut seen = 0;
        begins.retain(|begin| {
            seen += usize::from(is_deep(begin));
            !is_deep(begin) || seen * kept / deep > (seen - 1) * kept / deep
        });
    }
    begins
}
