//! Groups open items into sessions. Each group fits into the usable window, every item comes after the items it
//! needs, and items that name the same files share a session, so that each file is read once.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops;

use serde::Serialize;

use super::{Model, Range};
use crate::guard::estimate::{Estimate, Parts, items, named_files};
use crate::handoff::open_items;
use crate::limits::BYTES_PER_TOKEN;
use crate::markdown::{self, Heading, Outline, line_of};
use crate::shard::{Need, Shard, Shards, Spec, Split, Why, id};
use crate::text::one_line;

/// A session's title, in characters.
const TITLE_CHARS_MAX: usize = 56;

/// A piece of work that one session does as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unit {
    pub title: String,
    pub text: String,
    /// Open items in it.
    pub items: u64,
    /// The existing files that it names, with their sizes in bytes.
    pub files: BTreeMap<String, u64>,
    /// The units that must be done before it, by their places.
    pub needs: BTreeSet<usize>,
}

/// The data for making sessions.
pub struct Windows<'a> {
    /// The text that every session gets.
    pub head: &'a str,
    /// The usable window.
    pub window_tokens: u64,
    pub model: &'a Model,
}

/// Units grouped into sessions, in the order of work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sessions {
    /// The head and the units, session by session.
    #[serde(skip)]
    pub text: String,
    #[serde(skip)]
    pub shards: Shards,
    pub sessions: Vec<Session>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Session {
    pub id: String,
    /// The titles of its units.
    pub units: Vec<String>,
    pub tokens: Range,
    /// A single unit whose p90 still exceeds the window: its session will hand off.
    pub is_over: bool,
    pub needs: Vec<String>,
}

impl Unit {
    /// `text` with those files in `sizes` that it names.
    pub fn new(title: &str, text: &str, sizes: &BTreeMap<String, u64>) -> Self {
        let named = named_files(text).into_iter();
        let size = |file: &str| Some((file.to_owned(), *sizes.get(file)?));
        Self {
            title: one_line(title, TITLE_CHARS_MAX),
            text: text.to_owned(),
            items: items(&markdown::outline(text)).len() as u64,
            files: named.filter_map(size).collect(),
            needs: BTreeSet::new(),
        }
    }

    /// The head of a document and its open pieces, with the needs that its text shows. Where items have tick boxes,
    /// other text belongs to the open piece before it in the same section, or else to the next one. If the section
    /// has no open piece, the text goes to the head, unless the section and those below it have boxes and all are
    /// ticked.
    pub fn of_document(spec: &Spec<'_>) -> (String, Vec<Self>) {
        let shards = Shards::of(spec, Split::Into(usize::MAX));
        let mut head = spec.text[shards.head.clone()].to_owned();
        let outline = markdown::outline(spec.text);
        let ticks = outline.leaves.iter();
        let ticks = ticks.filter_map(|leaf| Some((leaf.start, leaf.tick?)));
        let ticks: BTreeMap<usize, bool> = ticks.collect();
        let is_open = |shard: &Shard| ticks.is_empty() || shard.estimate.items > 0;
        let told = |shard: &Shard| {
            let first = ticks.range(shard.range.clone()).next();
            let done = first.filter(|_| !is_open(shard)).and_then(|(first, _)| {
                let mut blocks = outline.blocks.iter();
                blocks.find(|block| block.range.contains(first))
            });
            let end = done.map_or(shard.range.end, |block| block.range.start);
            &spec.text[shard.range.start..end]
        };
        let mut pieces: Vec<Vec<&Shard>> = Vec::new();
        for section in shards.shards.chunk_by(|_, next| continues(next)) {
            let (before, mut words) = (pieces.len(), Vec::new());
            for shard in section {
                if is_open(shard) {
                    words.push(shard);
                    pieces.push(std::mem::take(&mut words));
                } else if !told(shard).trim().is_empty() {
                    let piece = pieces[before..].last_mut();
                    piece.unwrap_or(&mut words).push(shard);
                }
            }
            let whole = whole_section(&outline, &section[0].range, spec.text.len());
            let mut boxes = ticks.range(whole).map(|(_, done)| *done).peekable();
            if boxes.peek().is_none() || boxes.any(|done| !done) {
                head.extend(words.into_iter().map(told));
            }
        }
        let place = |need: &Need| {
            let is_it = |piece: &Vec<&Shard>| piece.iter().any(|shard| shard.id == need.id);
            pieces.iter().position(is_it)
        };
        let unit = |(at, piece): (usize, &Vec<&Shard>)| {
            let text: String = piece.iter().map(|shard| told(shard)).collect();
            let items = open_items(&text).open;
            let title = match &items[..] {
                [item] => item,
                _ => &piece[0].title,
            };
            let needs = piece.iter().flat_map(|shard| &shard.needs);
            let needs = needs.filter(|need| need.why != Why::Continues);
            Self {
                items: piece.iter().map(|shard| shard.estimate.items).sum(),
                needs: needs.filter_map(place).filter(|on| *on != at).collect(),
                ..Self::new(title, &text, spec.file_bytes)
            }
        };
        let units = pieces.iter().enumerate().map(unit).collect();
        (head, units)
    }
}

/// It continues the section of the one before.
fn continues(shard: &Shard) -> bool {
    shard.needs.iter().any(|need| need.why == Why::Continues)
}

/// The section that begins in a range, with those below it.
fn whole_section(outline: &Outline, begin: &ops::Range<usize>, end: usize) -> ops::Range<usize> {
    let is_here = |heading: &Heading| begin.contains(&heading.range.start);
    let index = outline.headings.iter().position(is_here);
    index.map_or(begin.clone(), |index| {
        outline.section(index, end, |_| false)
    })
}

impl Windows<'_> {
    /// What units take in one session: the head, and a file that several units name, count once.
    pub fn estimate<'u>(&self, units: impl IntoIterator<Item = &'u Unit>) -> Estimate {
        let (mut bytes, mut items, mut files) = (self.head.len(), 0, BTreeMap::new());
        for unit in units {
            bytes += unit.text.len();
            items += unit.items;
            files.extend(unit.files.iter());
        }
        let sizes = files
            .values()
            .map(|bytes| bytes.div_ceil(BYTES_PER_TOKEN as u64));
        Estimate::from_parts(&Parts {
            text_tokens: bytes.div_ceil(BYTES_PER_TOKEN) as u64,
            read_tokens: sizes.fold(0, u64::saturating_add),
            files: files.len() as u64,
            items,
            window_tokens: self.window_tokens,
            used_tokens: None,
        })
    }

    fn range<'u>(&self, units: impl IntoIterator<Item = &'u Unit>) -> Range {
        self.model.range(self.estimate(units).tokens)
    }

    pub fn sessions(&self, units: &[Unit]) -> Sessions {
        let groups = self.groups(units);
        let mut session_of = vec![0; units.len()];
        for (session, group) in groups.iter().enumerate() {
            group.iter().for_each(|at| session_of[*at] = session);
        }
        let mut made = Sessions {
            text: self.head.to_owned(),
            shards: Shards {
                whole: self.estimate(units),
                head: 0..self.head.len(),
                shards: Vec::new(),
            },
            sessions: Vec::new(),
        };
        let mut last_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (session, group) in groups.iter().enumerate() {
            let mut needs: BTreeMap<usize, Why> = BTreeMap::new();
            for unit in group.iter().map(|at| &units[*at]) {
                let before = unit.needs.iter().map(|need| (session_of[*need], need));
                for (before, need) in before.filter(|(before, _)| *before < session) {
                    needs
                        .entry(before)
                        .or_insert_with(|| Why::Names(units[*need].title.clone()));
                }
                for file in unit.files.keys() {
                    let before = last_of
                        .insert(file, session)
                        .filter(|before| *before < session);
                    let why = || Why::File(file.clone());
                    if let Some(before) = before {
                        needs.entry(before).or_insert_with(why);
                    }
                }
            }
            made.push(self, units, group, needs);
        }
        made
    }

    /// A group takes the first unit that is ready. Of the other units that fit, it then takes the one with the most
    /// files in common.
    fn groups(&self, units: &[Unit]) -> Vec<Vec<usize>> {
        let mut left: BTreeSet<usize> = (0..units.len()).collect();
        let mut groups = Vec::new();
        while let Some(first) =
            next(units, &left, &left, &BTreeSet::new()).or(left.first().copied())
        {
            left.remove(&first);
            let mut group = vec![first];
            let mut files: BTreeSet<&str> = units[first].files.keys().map(String::as_str).collect();
            let mut untried = left.clone();
            while let Some(more) = next(units, &left, &untried, &files) {
                untried.remove(&more);
                group.push(more);
                let together = self.range(group.iter().map(|at| &units[*at]));
                if together.p90 <= self.window_tokens {
                    left.remove(&more);
                    files.extend(units[more].files.keys().map(String::as_str));
                } else {
                    group.pop();
                }
            }
            groups.push(group);
        }
        groups
    }
}

/// The next unit, among those that wait for no remaining unit.
fn next(
    units: &[Unit],
    left: &BTreeSet<usize>,
    of: &BTreeSet<usize>,
    files: &BTreeSet<&str>,
) -> Option<usize> {
    let ready = of.iter().filter(|at| units[**at].needs.is_disjoint(left));
    let common = |at: &usize| {
        units[*at]
            .files
            .keys()
            .filter(|file| files.contains(file.as_str()))
            .count()
    };
    ready.copied().max_by_key(|at| (common(at), Reverse(*at)))
}

impl Sessions {
    fn push(
        &mut self,
        windows: &Windows<'_>,
        units: &[Unit],
        group: &[usize],
        needs: BTreeMap<usize, Why>,
    ) {
        let units: Vec<&Unit> = group.iter().map(|at| &units[*at]).collect();
        let tokens = windows.range(units.iter().copied());
        let number = self.sessions.len() + 1;
        let start = self.text.len();
        for unit in &units {
            self.text.push_str(unit.text.trim_end());
            self.text.push_str("\n\n");
        }
        let titles: Vec<String> = units.iter().map(|unit| unit.title.clone()).collect();
        let need = |(place, why): (usize, Why)| Need {
            id: id(place + 1),
            why,
        };
        let needs: Vec<Need> = needs.into_iter().map(need).collect();
        self.sessions.push(Session {
            id: id(number),
            units: titles.clone(),
            tokens,
            is_over: tokens.p90 > windows.window_tokens,
            needs: needs.iter().map(|need| need.id.clone()).collect(),
        });
        self.shards.shards.push(Shard {
            id: id(number),
            title: one_line(&titles.join(", "), TITLE_CHARS_MAX),
            lines: (
                line_of(&self.text, start),
                line_of(&self.text, self.text.len()),
            ),
            range: start..self.text.len(),
            estimate: windows.estimate(units.iter().copied()),
            needs,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn windows(window_tokens: u64, model: &Model) -> Windows<'_> {
        Windows {
            head: "# All\n\n",
            window_tokens,
            model,
        }
    }

    fn unit(title: &str, files: &[&str], needs: &[usize]) -> Unit {
        let sizes = files
            .iter()
            .map(|file| ((*file).to_owned(), 9_000))
            .collect();
        Unit {
            needs: needs.iter().copied().collect(),
            ..Unit::new(title, &format!("- [ ] {title} {}", files.join(" ")), &sizes)
        }
    }

    fn shown(sessions: &Sessions) -> Vec<String> {
        let one =
            |session: &Session| format!("{} {:?} {:?}", session.id, session.units, session.needs);
        sessions.sessions.iter().map(one).collect()
    }

    // shows: EST-06
    #[test]
    fn items_with_files_in_common_share_a_session_and_order_is_kept() {
        let units = [
            unit("a", &["x.rs"], &[]),
            unit("b", &["y.rs"], &[]),
            unit("c", &["x.rs"], &[]),
            unit("d", &["y.rs"], &[0]),
            unit("e", &["x.rs"], &[3]),
        ];
        let model = Model::of(&[]);
        let sessions = windows(90_000, &model).sessions(&units);
        assert_eq!(
            shown(&sessions),
            [
                r#"S01 ["a", "c"] []"#,
                r#"S02 ["b", "d"] ["S01"]"#,
                r#"S03 ["e"] ["S01", "S02"]"#
            ]
        );
        let wide = windows(1_000_000, &model).sessions(&units);
        assert_eq!(shown(&wide), [r#"S01 ["a", "c", "b", "d", "e"] []"#]);
        let narrow = windows(10, &model).sessions(&units);
        assert!(
            narrow
                .sessions
                .iter()
                .all(|session| session.is_over && session.units.len() == 1)
        );
    }

    // shows: EST-06
    #[test]
    fn what_is_done_is_not_planned_again() {
        let text = "# T\n\n## One\n\n- [x] old a.rs\n- [ ] new b.rs\n\n## Two\n\n- [ ] last\n\nIt needs the One first.\n";
        let spec = Spec {
            text,
            file_bytes: &BTreeMap::new(),
            window_tokens: 1_000,
        };
        let (head, units) = Unit::of_document(&spec);
        assert_eq!(head, "# T\n\n");
        let titles: Vec<&str> = units.iter().map(|unit| unit.title.as_str()).collect();
        assert_eq!(titles, ["new b.rs", "last"]);
    }

    /// The head of a document, and the texts of its units.
    fn document(text: &str) -> (String, Vec<String>) {
        let spec = Spec {
            text,
            file_bytes: &BTreeMap::new(),
            window_tokens: 1_000,
        };
        let (head, units) = Unit::of_document(&spec);
        (head, units.into_iter().map(|unit| unit.text).collect())
    }

    // shows: EST-06
    #[test]
    fn a_section_without_items_is_told_to_every_session() {
        let rules = "## Rules\n\nNo new dependencies.\n\n";
        let (done, open) = ("## Old\n\n- [x] a\n\n", "## New\n\n- [ ] b\n\n");
        let (head, texts) = document(&format!("# T\n\n{done}{rules}{open}Its note.\n"));
        assert_eq!(head, format!("# T\n\n{rules}"));
        assert_eq!(texts, [format!("{open}Its note.\n")]);
        let (_, texts) = document(&format!("# T\n\n{done}{rules}"));
        assert!(texts.is_empty(), "{texts:?}");
    }

    // shows: EST-06
    #[test]
    fn an_item_below_a_heading_is_named_by_its_own_words() {
        let spec = Spec {
            text: "# T\n\nIntro.\n\n## Items\n\n- [ ] Convert a\n- [ ] Convert b\n",
            file_bytes: &BTreeMap::new(),
            window_tokens: 1_000,
        };
        let (_, units) = Unit::of_document(&spec);
        let titles: Vec<&str> = units.iter().map(|unit| unit.title.as_str()).collect();
        assert_eq!(titles, ["Convert a", "Convert b"]);
        let items: String = (0..120).map(|n| format!("- [ ] item {n}\n")).collect();
        let (_, texts) = document(&format!("# T\n\n{items}"));
        assert_eq!(texts.len(), 120, "none is joined with another");
    }

    // shows: EST-06
    #[test]
    fn words_of_a_section_with_items_are_told_to_its_own_sessions() {
        let words = "Replace it.\n\nDetails.\n\n";
        let (done, open) = ("- [x] a\n\n", "- [ ] b\n\n");
        let new = format!("## New\n\n{open}");
        for (text, head, unit) in [
            (
                format!("## Old\n\n{words}{done}Its note.\n\n{new}"),
                "",
                &new,
            ),
            (
                format!("## Old\n\n{words}### Below\n\n{done}{new}"),
                "",
                &new,
            ),
            (
                format!("## A\n\n{words}{open}Its note.\n"),
                "",
                &format!("## A\n\n{words}{open}Its note.\n"),
            ),
            (
                format!("## A\n\n{words}{done}Then:\n\n{open}"),
                "",
                &format!("## A\n\n{words}Then:\n\n{open}"),
            ),
            (
                format!("## A\n\nReplace it.\n\n{done}- Below\n  - [x] c\n{open}"),
                "",
                &format!("## A\n\nReplace it.\n\n{open}"),
            ),
            (
                format!("## A\n\n{words}{done}#{new}"),
                &format!("## A\n\n{words}"),
                &format!("#{new}"),
            ),
            (
                format!("## A\n\n{words}#{new}"),
                &format!("## A\n\n{words}"),
                &format!("#{new}"),
            ),
        ] {
            let told = document(&format!("# T\n\n{text}"));
            assert_eq!(
                told,
                (format!("# T\n\n{head}"), vec![unit.clone()]),
                "{text}"
            );
        }
    }

    fn some_units() -> impl Strategy<Value = Vec<Unit>> {
        let one = (
            "[a-z]{1,200}",
            proptest::collection::btree_set(0..6_usize, 0..3),
            proptest::collection::btree_set(0..20_usize, 0..3),
        );
        let unit = |(title, files, needs): (String, BTreeSet<usize>, BTreeSet<usize>)| {
            let files: Vec<String> = files.iter().map(|file| format!("f{file}.rs")).collect();
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            unit(&title, &files, &needs.into_iter().collect::<Vec<_>>())
        };
        proptest::collection::vec(one, 1..20).prop_map(move |all| {
            let count = all.len();
            let mut units: Vec<Unit> = all.into_iter().map(unit).collect();
            units
                .iter_mut()
                .for_each(|unit| unit.needs.retain(|need| *need < count));
            units
        })
    }

    proptest! {
        // shows: EST-06
        #[test]
        fn every_unit_is_in_one_session_that_fits(units in some_units(), window_tokens in 20_000_u64..400_000) {
            let model = Model::of(&[]);
            let windows = windows(window_tokens, &model);
            let groups = windows.groups(&units);
            let mut all = groups.concat();
            let order = all.clone();
            all.sort_unstable();
            prop_assert_eq!(all, (0..units.len()).collect::<Vec<_>>());
            let is_ordered = units.iter().enumerate().all(|(at, unit)| unit.needs.iter().all(|need| *need < at));
            let place = |unit: &usize| order.iter().position(|at| at == unit);
            prop_assert!(!is_ordered || order.iter().all(|at| units[*at].needs.iter().all(|need| place(need) < place(at))));
            let sessions = windows.sessions(&units);
            for session in &sessions.sessions {
                prop_assert!(session.tokens.p90 <= window_tokens || session.units.len() == 1);
                prop_assert!(session.needs.iter().all(|need| *need < session.id));
            }
            prop_assert_eq!(windows.sessions(&units), sessions);
        }
    }
}
