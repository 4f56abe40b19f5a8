//! Which observations may answer: a bounded number, found by the index alone.
//!
//! For each word the newest rows that hold it are taken, for all words together and for the rarest two as well. The index
//! finds rows that hold several words by visiting those of the rarest one, about a microsecond each, and no limit stops
//! it between two that it finds. So it is asked for no more than it is likely to find in so many visits, and for a
//! phrase of common words it is asked for the words: the texts tell which of them is one.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use ekiden_core::observation::Observation;
use rusqlite::{OptionalExtension as _, params};

use crate::error::MemoryError;
use crate::index::{Memory, number_of, stored};
use crate::query::{Filter, Group, Query, groups};
use crate::ranking::Scale;
use crate::reading::Place;
use crate::words::{is_key, key, project_key};

/// Rows of one word.
const ROWS_MAX: usize = 300;
/// Rows whose texts are read.
const TEXTS_MAX: usize = 40;
const TEXTS_ROWS: i64 = 40;
/// Words that a prefix stands for.
const BEGUN_MAX: usize = 12;
/// Rows that one question to the index may visit.
const VISITS_MAX: i64 = 3_000;
/// The fewest rows that are worth a question.
const ROWS_MIN: usize = 40;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A word or key as the index is asked for it, with the rows that hold it.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    words: String,
    rows: i64,
}

/// The rows and the keys that a filter asks for.
type Bounds = (RangeInclusive<i64>, Vec<Ask>);

/// A group as the index is asked for it; all of these together.
struct Term(Vec<Ask>);

impl Term {
    fn rows(&self) -> i64 {
        self.0.iter().map(|ask| ask.rows).min().unwrap_or(0)
    }
}

/// What is likely to be found in the visits that are allowed; none if that is next to nothing.
fn rows_wanted(asks: &[Ask], all: i64) -> Option<usize> {
    let rarest = asks.iter().map(|ask| ask.rows).min().unwrap_or(0).max(1);
    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    let share = |ask: &Ask| (ask.rows as f64 / all.max(1) as f64).min(1.0);
    let rest = asks.iter().map(share).product::<f64>()
        / share(&Ask {
            words: String::new(),
            rows: rarest,
        });
    if rarest <= VISITS_MAX {
        return Some(ROWS_MAX);
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate"
    )]
    let (found, wanted) = (rest * rarest as f64, (rest * VISITS_MAX as f64) as usize);
    let is_hopeless = found < ROWS_MIN as f64 && rarest > 2 * VISITS_MAX;
    (!is_hopeless).then(|| wanted.clamp(ROWS_MIN, ROWS_MAX))
}

impl Memory {
    /// The observations that answer best, the best first.
    pub fn search(&mut self, query: &Query) -> Result<Vec<Observation>, MemoryError> {
        let Some((range, keys)) = self.bounds(&query.filter)? else {
            return Ok(Vec::new());
        };
        let mut terms = Vec::new();
        let mut scale = Scale {
            query,
            groups: Vec::new(),
        };
        let all = self.last_seq()?;
        for group in groups(&query.text) {
            let term = self.term(&group)?;
            scale.groups.push((group, worth(all, term.rows())));
            terms.push(term);
        }
        if scale.groups.is_empty() {
            return self.recent(&query.filter, query.limit);
        }
        let rows = self.candidates(&scale, &terms, range, &keys)?;
        let mut found = Vec::new();
        for seq in rows {
            let Some(observation) = self.at(seq)?.filter(|found| query.filter.accepts(found))
            else {
                continue;
            };
            found.extend(scale.score(&observation).map(|score| (score, observation)));
        }
        found.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(other.time.cmp(&one.time)));
        found.truncate(query.limit);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    /// The newest, the newest first.
    pub fn recent(
        &mut self,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Observation>, MemoryError> {
        let Some((range, keys)) = self.bounds(filter)? else {
            return Ok(Vec::new());
        };
        // What filters by text alone may take away what was found.
        let rows = self.newest(keys, range, limit + ROWS_MAX)?;
        self.accepted(rows, filter, limit)
    }

    /// What came before and after an observation in its project, the oldest first, with the observation.
    pub fn timeline(
        &mut self,
        id: &str,
        before: usize,
        after: usize,
    ) -> Result<Vec<Observation>, MemoryError> {
        let seq = self.seq_of(id)?;
        let anchor = self
            .at(seq)?
            .ok_or_else(|| MemoryError::Unknown(id.to_owned()))?;
        let filter = Filter {
            project: Some(anchor.from.project.clone()),
            ..Filter::default()
        };
        let Some((range, keys)) = self.bounds(&filter)? else {
            return Ok(Vec::new());
        };
        let words = all_of(&keys);
        let earlier = self.newest(keys, *range.start()..=seq - 1, before)?;
        let mut found = self.accepted(earlier, &filter, before)?;
        found.reverse();
        found.push(anchor);
        let sql = if words.is_empty() {
            "SELECT seq FROM obs WHERE ?1 = '' AND seq > ?2 ORDER BY seq LIMIT ?3"
        } else {
            "SELECT rowid FROM fts WHERE fts MATCH ?1 AND rowid > ?2 ORDER BY rowid LIMIT ?3"
        };
        let later: Vec<i64> = {
            let mut later = self.db.prepare_cached(sql)?;
            let rows = later.query_map(params![words, seq, after], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        found.extend(self.accepted(later, &filter, after)?);
        Ok(found)
    }

    /// An observation by its id or the beginning of it.
    pub fn get(&mut self, id: &str) -> Result<Observation, MemoryError> {
        let seq = self.seq_of(id)?;
        self.at(seq)?
            .ok_or_else(|| MemoryError::Unknown(id.to_owned()))
    }

    pub(crate) fn seq_of(&self, id: &str) -> Result<i64, MemoryError> {
        let unknown = || MemoryError::Unknown(id.to_owned());
        let bits = 64 - 4 * u32::try_from(id.len()).unwrap_or(u32::MAX).min(16);
        let begin = u64::from_str_radix(id, 16).ok().filter(|_| id.len() <= 16);
        let begin = begin.filter(|_| !id.is_empty()).ok_or_else(unknown)? << bits;
        let end = begin | ((1_u128 << bits) - 1) as u64;
        let mut seqs = self
            .db
            .prepare_cached("SELECT seq FROM obs WHERE id BETWEEN ?1 AND ?2 LIMIT 9")?;
        let rows = seqs.query_map([stored(begin), stored(end)], |row| row.get(0))?;
        let seqs: Vec<i64> = rows.collect::<Result<_, _>>()?;
        match seqs.as_slice() {
            [] => Err(unknown()),
            [seq] => Ok(*seq),
            seqs => Err(MemoryError::Ambiguous {
                prefix: id.to_owned(),
                count: seqs.len(),
            }),
        }
    }

    fn accepted(
        &mut self,
        rows: Vec<i64>,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Observation>, MemoryError> {
        let mut found = Vec::new();
        for seq in rows {
            if found.len() == limit {
                break;
            }
            found.extend(self.at(seq)?.filter(|found| filter.accepts(found)));
        }
        Ok(found)
    }

    /// The rows that may answer, the likeliest first.
    fn candidates(
        &self,
        scale: &Scale<'_>,
        terms: &[Term],
        range: RangeInclusive<i64>,
        keys: &[Ask],
    ) -> Result<Vec<i64>, MemoryError> {
        let all = self.last_seq()?;
        let mut weights: HashMap<i64, f64> = HashMap::new();
        let mut order: Vec<usize> = (0..terms.len())
            .filter(|at| terms[*at].rows() > 0)
            .collect();
        order.sort_by_key(|at| terms[*at].rows());
        let needed = |at: &usize| scale.groups[*at].0.is_needed;
        let must: Vec<usize> = order.iter().copied().filter(needed).collect();
        let mut sets: Vec<Vec<usize>> = order
            .iter()
            .enumerate()
            .filter(|(nth, at)| *nth == 0 || terms[**at].rows() <= all / 10)
            .map(|(_, at)| vec![*at])
            .collect();
        sets.extend((order.len() > 2).then(|| order[..2].to_vec()));
        sets.extend((order.len() > 1).then_some(order));
        for mut set in sets {
            let worth: f64 = set.iter().map(|at| scale.groups[*at].1).sum();
            let is_one = set.len() == 1;
            set.extend(
                must.iter()
                    .filter(|at| !set.contains(at))
                    .copied()
                    .collect::<Vec<_>>(),
            );
            let mut asks: Vec<Ask> = set.iter().flat_map(|at| terms[*at].0.clone()).collect();
            asks.extend(keys.iter().cloned());
            for seq in self.newest(asks, range.clone(), ROWS_MAX)? {
                let weight = weights.entry(seq).or_default();
                *weight = if is_one {
                    *weight + worth
                } else {
                    weight.max(worth)
                };
            }
        }
        let mut rows: Vec<(i64, f64)> = weights.into_iter().collect();
        rows.sort_by(|(one, a), (other, b)| b.total_cmp(a).then(other.cmp(one)));
        rows.truncate(TEXTS_MAX);
        Ok(rows.into_iter().map(|(seq, _)| seq).collect())
    }

    /// The newest rows that hold all of these, at most so many.
    fn newest(
        &self,
        mut asks: Vec<Ask>,
        range: RangeInclusive<i64>,
        limit: usize,
    ) -> Result<Vec<i64>, MemoryError> {
        let (from, to) = range.into_inner();
        asks.sort_by_key(|ask| ask.rows);
        asks.dedup_by(|a, b| a.words == b.words);
        // So few are all read anyway, and their texts tell the rest: each further word costs a millisecond.
        if asks.first().is_some_and(|rarest| rarest.rows <= TEXTS_ROWS) {
            asks.truncate(1);
        }
        let Some(wanted) = rows_wanted(&asks, self.last_seq()?) else {
            return Ok(Vec::new());
        };
        let sql = if asks.is_empty() {
            "SELECT seq FROM obs WHERE ?1 = '' AND seq BETWEEN ?2 AND ?3 ORDER BY seq DESC LIMIT ?4"
        } else {
            "SELECT rowid FROM fts WHERE fts MATCH ?1 AND rowid BETWEEN ?2 AND ?3 ORDER BY rowid DESC LIMIT ?4"
        };
        let words = all_of(&asks);
        let mut newest = self.db.prepare_cached(sql)?;
        let rows = newest.query_map(params![words, from, to, wanted.min(limit)], |row| {
            row.get(0)
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The range of rows and the keys that a filter asks for; none if it accepts nothing.
    pub(crate) fn bounds(&self, filter: &Filter) -> Result<Option<Bounds>, MemoryError> {
        let mut keys = Vec::new();
        if let Some(project) = &filter.project {
            let Some(number) = number_of(&self.db, project)? else {
                return Ok(None);
            };
            keys.push(project_key(number));
        }
        keys.extend(filter.kind.map(|kind| key('k', kind.name())));
        keys.extend(filter.concepts.iter().map(|name| key('c', name)));
        let pieces = filter.files.iter().flat_map(|file| file.split('/'));
        keys.extend(
            pieces
                .filter(|piece| !piece.is_empty())
                .map(|piece| key('f', piece)),
        );
        keys.sort_unstable();
        keys.dedup();
        let all = self.last_seq()?;
        let mut asks = Vec::new();
        for words in keys {
            let rows = self.rows_of(&words)?;
            // What nearly all hold costs a look at each and takes nothing away; the text tells as well.
            if rows <= all / 5 * 4 || all < 100 {
                asks.push(Ask { words, rows });
            }
        }
        let mut range = 1..=all;
        if filter.since.is_some() || filter.until.is_some() {
            let day = |at: u64| (at / DAY_MS).cast_signed();
            let from = filter.since.map_or(0, |since| day(since.0));
            let to = filter.until.map_or(i64::MAX, |until| day(until.0));
            let sql = "SELECT min(first), max(last) FROM day WHERE day BETWEEN ?1 AND ?2";
            let found = self
                .db
                .query_row(sql, [from, to], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (Some(first), Some(last)) = found else {
                return Ok(None);
            };
            range = first..=last;
        }
        Ok(Some((range, asks)))
    }

    fn term(&self, group: &Group) -> Result<Term, MemoryError> {
        if group.is_prefix {
            let begun = self.begun(&group.words[0])?;
            let asks: Vec<String> = begun
                .iter()
                .map(|(word, _)| format!("\"{word}\""))
                .collect();
            let words = format!("({})", asks.join(" OR "));
            let rows = begun.iter().map(|(_, rows)| rows).sum();
            return Ok(Term(vec![Ask { words, rows }]));
        }
        let mut asks = Vec::new();
        for word in &group.words {
            let rows = self.rows_of(word)?;
            asks.push(Ask {
                words: format!("\"{word}\""),
                rows,
            });
        }
        let rows = asks.iter().map(|ask| ask.rows).min().unwrap_or(0);
        if asks.len() > 1 && rows <= VISITS_MAX {
            let words = format!("\"{}\"", group.words.join(" "));
            return Ok(Term(vec![Ask { words, rows }]));
        }
        Ok(Term(asks))
    }

    fn rows_of(&self, word: &str) -> Result<i64, MemoryError> {
        let mut rows = self
            .db
            .prepare_cached("SELECT rows FROM words WHERE word = ?1")?;
        Ok(rows
            .query_row([word], |row| row.get(0))
            .optional()?
            .unwrap_or(0))
    }

    /// The most frequent words that begin so.
    fn begun(&self, prefix: &str) -> Result<Vec<(String, i64)>, MemoryError> {
        let sql = "SELECT word, rows FROM words WHERE word >= ?1 AND word < ?2 AND rows > 0
                   ORDER BY rows DESC LIMIT ?3";
        let mut begun = self.db.prepare_cached(sql)?;
        let end = format!("{prefix}\u{10ffff}");
        let words = begun.query_map(params![prefix, end, BEGUN_MAX], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        let words: Vec<(String, i64)> = words.collect::<Result<_, _>>()?;
        Ok(words
            .into_iter()
            .filter(|(word, _)| !is_key(word))
            .collect())
    }

    pub(crate) fn at(&mut self, seq: i64) -> Result<Option<Observation>, MemoryError> {
        let mut found = self
            .db
            .prepare_cached("SELECT place, len FROM obs WHERE seq = ?1")?;
        let found = found.query_row([seq], |row| Ok(Place::unpacked(row.get(0)?, row.get(1)?)));
        let observation = found
            .optional()?
            .and_then(|place| self.texts.observation(place));
        Ok(observation)
    }

    fn last_seq(&self) -> Result<i64, MemoryError> {
        let mut last = self.db.prepare_cached("SELECT max(seq) FROM obs")?;
        let last = last.query_row([], |row| row.get::<_, Option<i64>>(0))?;
        Ok(last.unwrap_or(0))
    }
}

fn all_of(asks: &[Ask]) -> String {
    let words: Vec<&str> = asks.iter().map(|ask| ask.words.as_str()).collect();
    words.join(" AND ")
}

/// What a word in so many rows of all is worth.
fn worth(all: i64, rows: i64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    let [all, rows] = [all, rows].map(|count| count as f64);
    (1.0 + (all - rows + 0.5).max(0.5) / (rows + 0.5)).ln()
}
