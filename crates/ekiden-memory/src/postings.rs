//! Which rows hold a word: a list for each block of rows and each word, in a table of the database.
//!
//! The block comes first in the key, so rows that are written together are stored together. A list holds
//! its rows' numbers within the block, two bytes each, or one bit for each row of the block once that is
//! shorter.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::words::is_key;

const BLOCK_BITS: u32 = 16;
pub(crate) const BLOCK_ROWS: usize = 1 << BLOCK_BITS;
const LIST_BYTES_MAX: usize = BLOCK_ROWS / 8;
/// A prefix stands for at most this many of a block's words: those in the most rows.
const BEGUN_MAX: usize = 64;

#[derive(Debug, Clone)]
pub(crate) struct Rows(Box<[u64; BLOCK_ROWS / 64]>);

/// The lists in a database.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Postings<'a>(pub(crate) &'a Connection);

pub(crate) fn block_of(seq: i64) -> i64 {
    seq >> BLOCK_BITS
}

/// The number of a row within its block.
pub(crate) fn row_of(seq: i64) -> u16 {
    (seq & i64::from(u16::MAX)) as u16
}

pub(crate) fn seq_at(block: i64, row: u16) -> i64 {
    block << BLOCK_BITS | i64::from(row)
}

pub(crate) fn blocks_of(range: &RangeInclusive<i64>) -> RangeInclusive<i64> {
    block_of(*range.start())..=block_of(*range.end())
}

impl Postings<'_> {
    pub(crate) fn rows(self, block: i64, word: &str) -> rusqlite::Result<Rows> {
        let mut rows = self
            .0
            .prepare_cached("SELECT rows FROM words WHERE block = ?1 AND word = ?2")?;
        let rows = rows.query_row(params![block, word], |row| {
            Ok(Rows::unpacked(row.get_ref(0)?.as_blob()?))
        });
        Ok(rows.optional()?.unwrap_or_else(Rows::none))
    }

    /// The rows that hold all of these.
    pub(crate) fn rows_of_all(self, block: i64, words: &[String]) -> rusqlite::Result<Rows> {
        let mut rows = Rows::all();
        for word in words {
            rows.keep(&self.rows(block, word)?);
            if rows.is_empty() {
                break;
            }
        }
        Ok(rows)
    }

    /// The rows that hold a word with this prefix.
    pub(crate) fn rows_of_begun(self, block: i64, prefix: &str) -> rusqlite::Result<Rows> {
        let sql = "SELECT word, rows FROM words WHERE block = ?1 AND word >= ?2 AND word < ?3
                   ORDER BY length(rows) DESC LIMIT ?4";
        let mut begun = self.0.prepare_cached(sql)?;
        let end = format!("{prefix}\u{10ffff}");
        let mut found = begun.query(params![block, prefix, end, BEGUN_MAX])?;
        let mut rows = Rows::none();
        while let Some(row) = found.next()? {
            if !is_key(row.get_ref(0)?.as_str()?) {
                rows.add(row.get_ref(1)?.as_blob()?);
            }
        }
        Ok(rows)
    }

    /// Adds rows that come after all existing ones.
    pub(crate) fn add(self, block: i64, words: &HashMap<String, Vec<u16>>) -> rusqlite::Result<()> {
        let mut known = self
            .0
            .prepare_cached("SELECT rows FROM words WHERE block = ?1 AND word = ?2")?;
        let mut put = self
            .0
            .prepare_cached("INSERT OR REPLACE INTO words VALUES(?1, ?2, ?3)")?;
        let mut sorted: Vec<_> = words.iter().collect();
        sorted.sort_unstable();
        for (word, rows) in sorted {
            let known = known.query_row(params![block, word], |row| row.get(0));
            let mut bytes: Vec<u8> = known.optional()?.unwrap_or_default();
            let new = rows.iter().flat_map(|row| row.to_le_bytes());
            if bytes.len() + 2 * rows.len() < LIST_BYTES_MAX {
                bytes.extend(new);
            } else {
                let mut all = Rows::unpacked(&bytes);
                rows.iter().for_each(|row| all.set(*row));
                bytes = all.packed();
            }
            put.execute(params![block, word, bytes])?;
        }
        Ok(())
    }

    pub(crate) fn take_out(
        self,
        block: i64,
        words: &HashMap<String, Vec<u16>>,
    ) -> rusqlite::Result<()> {
        let mut put = self
            .0
            .prepare_cached("UPDATE words SET rows = ?3 WHERE block = ?1 AND word = ?2")?;
        for (word, gone) in words {
            let mut rows = self.rows(block, word)?;
            gone.iter().for_each(|row| rows.unset(*row));
            put.execute(params![block, word, rows.packed()])?;
        }
        self.0.execute(
            "DELETE FROM words WHERE block = ?1 AND length(rows) = 0",
            [block],
        )?;
        Ok(())
    }
}

impl Rows {
    pub(crate) fn none() -> Self {
        Self(Box::new([0; BLOCK_ROWS / 64]))
    }

    fn all() -> Self {
        Self(Box::new([u64::MAX; BLOCK_ROWS / 64]))
    }

    fn unpacked(bytes: &[u8]) -> Self {
        let mut rows = Self::none();
        rows.add(bytes);
        rows
    }

    fn packed(&self) -> Vec<u8> {
        let count = self.count();
        if 2 * count < LIST_BYTES_MAX {
            let mut bytes = Vec::with_capacity(2 * count);
            self.each(|row| bytes.extend(row.to_le_bytes()));
            bytes
        } else {
            self.0.iter().flat_map(|word| word.to_le_bytes()).collect()
        }
    }

    /// Adds the rows of a packed list.
    fn add(&mut self, bytes: &[u8]) {
        if bytes.len() == LIST_BYTES_MAX {
            for (word, bytes) in self.0.iter_mut().zip(bytes.as_chunks().0) {
                *word |= u64::from_le_bytes(*bytes);
            }
        } else {
            for pair in bytes.as_chunks().0 {
                self.set(u16::from_le_bytes(*pair));
            }
        }
    }

    fn set(&mut self, row: u16) {
        self.0[usize::from(row / 64)] |= 1 << (row % 64);
    }

    fn unset(&mut self, row: u16) {
        self.0[usize::from(row / 64)] &= !(1 << (row % 64));
    }

    /// Keeps the rows that are also among the others.
    pub(crate) fn keep(&mut self, others: &Self) {
        for (word, other) in self.0.iter_mut().zip(others.0.iter()) {
            *word &= other;
        }
    }

    pub(crate) fn join(&mut self, others: &Self) {
        for (word, other) in self.0.iter_mut().zip(others.0.iter()) {
            *word |= other;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub(crate) fn cut(&mut self, block: i64, range: &RangeInclusive<i64>) {
        let (first, last) = (seq_at(block, 0), seq_at(block, u16::MAX));
        (first..*range.start().min(&(last + 1))).for_each(|seq| self.unset(row_of(seq)));
        ((range.end() + 1).max(first)..=last).for_each(|seq| self.unset(row_of(seq)));
    }

    pub(crate) fn seqs(&self, block: i64) -> Vec<i64> {
        let mut seqs = Vec::new();
        self.each(|row| seqs.push(seq_at(block, row)));
        seqs
    }

    /// Calls `each` with the rows in ascending order.
    pub(crate) fn each(&self, mut each: impl FnMut(u16)) {
        for (at, word) in (0..).zip(self.0.iter()) {
            let mut left = *word;
            while left != 0 {
                each(at * 64 + left.trailing_zeros() as u16);
                left &= left - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_few_and_of_many_rows_come_back_and_take_no_more_than_a_bit_each() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE words(block, word, rows, PRIMARY KEY(block, word)) WITHOUT ROWID",
        )
        .unwrap();
        let postings = Postings(&db);
        let of = |rows: &[u16]| HashMap::from([("word".to_owned(), rows.to_vec())]);
        let all: Vec<u16> = (0..=u16::MAX).step_by(3).collect();
        for part in all.chunks(1_000) {
            postings.add(7, &of(part)).unwrap();
        }
        let read = || {
            let mut read = Vec::new();
            postings.rows(7, "word").unwrap().each(|row| read.push(row));
            read
        };
        assert_eq!(read(), all);
        let len = || {
            db.query_row("SELECT length(rows) FROM words", [], |row| {
                row.get::<_, usize>(0)
            })
        };
        assert_eq!(len().unwrap(), LIST_BYTES_MAX);
        postings.take_out(7, &of(&all[..all.len() - 2])).unwrap();
        assert_eq!(read(), all[all.len() - 2..]);
        assert_eq!(len().unwrap(), 4);
        postings.take_out(7, &of(&all)).unwrap();
        assert!(
            len().is_err(),
            "no row is left of a word that nothing holds"
        );
        assert!(postings.rows(8, "word").unwrap().is_empty());
    }
}
