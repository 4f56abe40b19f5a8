//! Which observations may answer, found by the index alone.
//!
//! Each row adds up the weights of the words it holds, block after block from the newest. The rows with the
//! highest sums are read from the truth and ranked in full; of equals, the newest. Once enough rows hold
//! everything that was asked for, no older block can have better ones. So very common words are looked up
//! only in the newest rows.

use std::ops::RangeInclusive;

use ekiden_core::observation::Observation;
use rusqlite::{OptionalExtension as _, Row};

use crate::error::MemoryError;
use crate::index::{Memory, number_of, stored};
use crate::postings::{BLOCK_ROWS, Postings, Rows, block_of, blocks_of, seq_at};
use crate::query::{Filter, Group, Here, Query, groups};
use crate::ranking::Scale;
use crate::reading::LinePlace;
use crate::words::{key, project_key};

/// The number of answers that are ranked, unless more are asked for.
const RANKED_MAX: usize = 40;
/// The number of texts that are read to find them: words alone do not tell whether they are adjacent.
const READ_MAX: usize = 200;
/// The number of observations that show what the current work is about.
const NEWEST: usize = 5;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The rows and the keys that a filter asks for.
type Bounds = (RangeInclusive<i64>, Vec<String>);

impl Memory {
    /// The best observations, the best first.
    pub fn search(&mut self, query: &Query) -> Result<Vec<Observation>, MemoryError> {
        // Otherwise each of about a hundred queries takes and releases a lock of the file.
        self.db.execute_batch("BEGIN")?;
        let found = self.search_now(query);
        self.db.execute_batch("COMMIT")?;
        found
    }

    /// The same for an asker who works on a branch, and on what the newest observations of the project are
    /// about.
    pub fn search_near(
        &mut self,
        query: &Query,
        branch: Option<String>,
    ) -> Result<Vec<Observation>, MemoryError> {
        let project = query.filter.project.clone();
        let all = Filter {
            project,
            ..Filter::default()
        };
        let newest = self.recent(&all, NEWEST)?.into_iter();
        let files = newest.flat_map(|found| found.files).collect();
        self.search(&Query {
            here: Here { branch, files },
            ..query.clone()
        })
    }

    fn search_now(&mut self, query: &Query) -> Result<Vec<Observation>, MemoryError> {
        let Some((range, keys)) = self.bounds(&query.filter)? else {
            return Ok(Vec::new());
        };
        let (all, asked) = (self.last_seq()?, groups(&query.text));
        if asked.is_empty() {
            return self.recent(&query.filter, query.limit);
        }
        let mut held = Vec::new();
        for group in asked {
            let lists = self.lists(all, &group)?;
            match lists.iter().map(Rows::count).sum() {
                0 if group.is_needed => return Ok(Vec::new()),
                0 => {}
                rows => held.push((group, worth(all, rows), lists)),
            }
        }
        held.sort_by(|(_, a, _), (_, b, _)| b.total_cmp(a));
        let (groups, lists): (_, Vec<_>) = held
            .into_iter()
            .map(|(group, worth, lists)| ((group, worth), lists))
            .unzip();
        let scale = Scale { query, groups };
        let mut found = Vec::new();
        for seq in self.candidates(&scale, &lists, &range, &keys)? {
            if found.len() == RANKED_MAX.max(query.limit) {
                break;
            }
            let read = self.at(seq)?.filter(|found| query.filter.accepts(found));
            found.extend(read.and_then(|read| Some((scale.score(&read)?, read))));
        }
        found.sort_by(|(a, one), (b, other)| b.total_cmp(a).then(other.time.cmp(&one.time)));
        found.truncate(query.limit);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }

    /// The newest observations, newest first.
    pub fn recent(
        &mut self,
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Observation>, MemoryError> {
        let Some((range, keys)) = self.bounds(filter)? else {
            return Ok(Vec::new());
        };
        // Conditions that only the text can decide may drop some of what was found.
        let rows = self.newest(&keys, &range, limit + READ_MAX)?;
        self.accepted(rows, filter, limit)
    }

    /// The observations before and after one in its project, oldest first, including the one.
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
        let earlier = self.newest(&keys, &(*range.start()..=seq - 1), before)?;
        let mut found = self.accepted(earlier, &filter, before)?;
        found.reverse();
        found.push(anchor);
        let after_it = seq + 1..=*range.end();
        let mut later = Vec::new();
        for block in blocks_of(&after_it) {
            if later.len() < after {
                later.extend(self.kept(block, &after_it, &keys)?.seqs(block));
            }
        }
        found.extend(self.accepted(later, &filter, after)?);
        Ok(found)
    }

    /// An observation by its id or a prefix of it.
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

    /// The rows that may answer, the likeliest first. The lists are those of the groups.
    fn candidates(
        &self,
        scale: &Scale<'_>,
        lists: &[Vec<Rows>],
        range: &RangeInclusive<i64>,
        keys: &[String],
    ) -> Result<Vec<i64>, MemoryError> {
        let most: f64 = scale.groups.iter().map(|(_, worth)| worth).sum();
        let telling = telling(&scale.groups, self.last_seq()?);
        let mut best = Best {
            rows: Vec::new(),
            weights: vec![0.0; BLOCK_ROWS],
            floor: 0.0,
        };
        for block in blocks_of(range).rev() {
            if best.floor >= most {
                break;
            }
            let at = usize::try_from(block).unwrap_or_default();
            let held: Vec<(&(Group, f64), &Rows)> = scale
                .groups
                .iter()
                .zip(lists.iter().map(|lists| &lists[at]))
                .collect();
            let mut kept = Rows::none();
            held[..telling].iter().for_each(|(_, rows)| kept.join(rows));
            for (_, rows) in held.iter().filter(|((group, _), _)| group.is_needed) {
                kept.keep(rows);
            }
            if !kept.is_empty() {
                kept.keep(&self.kept(block, range, keys)?);
                best.add(block, &kept, &held);
            }
        }
        Ok(best.rows.into_iter().map(|(_, seq)| seq).collect())
    }

    /// The rows that hold a group, for each block.
    fn lists(&self, all: i64, group: &Group) -> Result<Vec<Rows>, MemoryError> {
        let postings = Postings(&self.db);
        let of_block = |block| {
            if group.is_prefix {
                postings.rows_of_begun(block, &group.words[0])
            } else {
                postings.rows_of_all(block, &group.words)
            }
        };
        let lists: rusqlite::Result<_> = (0..=block_of(all)).map(of_block).collect();
        Ok(lists?)
    }

    /// The rows of a block within the range that hold all keys.
    fn kept(
        &self,
        block: i64,
        range: &RangeInclusive<i64>,
        keys: &[String],
    ) -> Result<Rows, MemoryError> {
        let mut rows = Postings(&self.db).rows_of_all(block, keys)?;
        rows.cut(block, range);
        Ok(rows)
    }

    /// The newest rows that hold all keys.
    pub(crate) fn newest(
        &self,
        keys: &[String],
        range: &RangeInclusive<i64>,
        limit: usize,
    ) -> Result<Vec<i64>, MemoryError> {
        let mut found = Vec::new();
        for block in blocks_of(range).rev() {
            if found.len() >= limit {
                break;
            }
            let rows = self.kept(block, range, keys)?;
            found.extend(rows.seqs(block).into_iter().rev());
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The range of rows and the keys that a filter asks for; `None` if it accepts nothing.
    fn bounds(&self, filter: &Filter) -> Result<Option<Bounds>, MemoryError> {
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
        let mut range = 1..=self.last_seq()?;
        if filter.since.is_some() || filter.until.is_some() {
            let day = |at: u64| (at / DAY_MS).cast_signed();
            let from = filter.since.map_or(0, |since| day(since.0));
            let to = filter.until.map_or(i64::MAX, |until| day(until.0));
            let sql = "SELECT min(first), max(last) FROM day WHERE day BETWEEN ?1 AND ?2";
            let found = self
                .db
                .query_row(sql, [from, to], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (Some(first), Some(last)): (Option<i64>, Option<i64>) = found else {
                return Ok(None);
            };
            // Of a day that is asked for in part, the other rows could be all that are read.
            let end = |sql, at: u64| {
                let at = i64::try_from(at).unwrap_or(i64::MAX);
                let row = |row: &Row<'_>| row.get::<_, Option<i64>>(0);
                self.db.query_row(sql, [first, last, at], row)
            };
            let sql = "SELECT min(seq) FROM obs WHERE seq BETWEEN ?1 AND ?2 AND time >= ?3";
            let since = end(sql, filter.since.map_or(0, |since| since.0))?;
            let sql = "SELECT max(seq) FROM obs WHERE seq BETWEEN ?1 AND ?2 AND time < ?3";
            let until = end(sql, filter.until.map_or(u64::MAX, |until| until.0))?;
            let (Some(since), Some(until)) = (since, until) else {
                return Ok(None);
            };
            range = since..=until;
        }
        Ok(Some((range, keys)))
    }

    pub(crate) fn at(&mut self, seq: i64) -> Result<Option<Observation>, MemoryError> {
        let mut found = self
            .db
            .prepare_cached("SELECT place, len FROM obs WHERE seq = ?1")?;
        let found = found.query_row([seq], |row| {
            Ok(LinePlace::unpacked(row.get(0)?, row.get(1)?))
        });
        let observation = found
            .optional()?
            .and_then(|place| self.texts.observation(place));
        Ok(observation)
    }

    pub(crate) fn last_seq(&self) -> Result<i64, MemoryError> {
        let mut last = self.db.prepare_cached("SELECT max(seq) FROM obs")?;
        let last = last.query_row([], |row| row.get::<_, Option<i64>>(0))?;
        Ok(last.unwrap_or(0))
    }
}

/// The rows with the highest sums, the newest among equals.
struct Best {
    rows: Vec<(f64, i64)>,
    /// For the rows of one block; all zero between two blocks.
    weights: Vec<f64>,
    /// A row has to exceed this sum.
    floor: f64,
}

impl Best {
    fn add(&mut self, block: i64, kept: &Rows, held: &[(&(Group, f64), &Rows)]) {
        for ((_, worth), rows) in held {
            let mut both = kept.clone();
            both.keep(rows);
            both.each(|row| self.weights[usize::from(row)] += worth);
        }
        kept.each(|row| {
            let weight = std::mem::take(&mut self.weights[usize::from(row)]);
            if weight > self.floor {
                self.rows.push((weight, seq_at(block, row)));
            }
        });
        self.rows
            .sort_by(|(a, one), (b, other)| b.total_cmp(a).then(other.cmp(one)));
        self.rows.truncate(READ_MAX);
        if let [.., (least, _)] = self.rows[..]
            && self.rows.len() == READ_MAX
        {
            self.floor = least;
        }
    }
}

/// How many of the groups, counted from the most valuable, can make a row an answer. A word that a tenth of
/// all rows hold is no answer by itself if the query also has a rarer one.
fn telling(groups: &[(Group, f64)], all: i64) -> usize {
    let common = worth(all, usize::try_from(all / 10).unwrap_or_default());
    let rarer = groups.iter().filter(|(_, worth)| *worth >= common);
    rarer.count().max(1)
}

/// The weight of a word that so many of all rows hold.
fn worth(all: i64, rows: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of rows")]
    let (all, rows) = (all as f64, rows as f64);
    (1.0 + (all - rows + 0.5).max(0.5) / (rows + 0.5)).ln()
}
