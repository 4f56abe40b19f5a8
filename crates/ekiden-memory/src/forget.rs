//! Deletes what was recorded, from the truth and from the index.

use std::collections::HashMap;

use ekiden_core::time::Timestamp;

use crate::ask::remove_others;
use crate::error::MemoryError;
use crate::index::{Memory, PATIENCE, number_of};
use crate::postings::{Postings, block_of, row_of};
use crate::reading::LinePlace;
use crate::words::{each_indexed, project_key};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forget {
    /// By ids or prefixes of ids.
    These(Vec<String>),
    Before(Timestamp),
    /// Everything of a project, by its directory.
    Project(String),
}

impl Memory {
    /// Forgets, and returns how many. The lines become blanks first. If a crash keeps the index from
    /// following, the next process notices and rebuilds the index.
    pub fn forget(&mut self, what: &Forget) -> Result<usize, MemoryError> {
        let mut lock = self.files.lock(PATIENCE)?.ok_or(MemoryError::Busy)?;
        while self.is_aside() {
            // Another process has built a new index, which has the same words.
            drop(lock);
            *self = Self::open(self.files.clone())?;
            lock = self.files.lock(PATIENCE)?.ok_or(MemoryError::Busy)?;
        }
        // The other databases contain the same words.
        remove_others(&self.files);
        // Whoever had the lock may have given the rows other numbers.
        let seqs = self.seqs(what)?;
        if seqs.is_empty() {
            return Ok(0);
        }
        self.db.execute("INSERT INTO forgetting VALUES(1)", [])?;
        let mut lines: HashMap<i64, Vec<(u64, Vec<u8>)>> = HashMap::new();
        let mut words: HashMap<i64, HashMap<String, Vec<u16>>> = HashMap::new();
        for seq in &seqs {
            for place in self.places(*seq)? {
                if let Some(line) = self.texts.line(place).map(<[u8]>::to_vec) {
                    lines
                        .entry(place.segment)
                        .or_default()
                        .push((place.at, line));
                }
            }
            if let Some(observation) = self.at(*seq)? {
                let number = number_of(&self.db, &observation.from.project)?;
                let words = words.entry(block_of(*seq)).or_default();
                each_indexed(&observation, number.unwrap_or_default(), |word| {
                    let rows = words.entry(word.to_owned()).or_default();
                    rows.push(row_of(*seq));
                });
            }
        }
        for (segment, lines) in lines {
            if let Some(name) = self.texts.name_of(segment) {
                self.files.blank(name, &lines)?;
            }
        }
        let transaction = self.db.transaction()?;
        for (block, words) in &words {
            Postings(&transaction).take_out(*block, words)?;
        }
        for seq in &seqs {
            transaction.execute(
                "DELETE FROM again WHERE id = (SELECT id FROM obs WHERE seq = ?1)",
                [seq],
            )?;
            transaction.execute("DELETE FROM obs WHERE seq = ?1", [seq])?;
        }
        transaction.execute("DELETE FROM forgetting", [])?;
        transaction.commit()?;
        self.db.execute_batch("PRAGMA wal_checkpoint(TRUNCATE);")?;
        Ok(seqs.len())
    }

    fn seqs(&self, what: &Forget) -> Result<Vec<i64>, MemoryError> {
        match what {
            Forget::These(ids) => ids.iter().map(|id| self.seq_of(id)).collect(),
            Forget::Before(time) => {
                let mut seqs = self.db.prepare("SELECT seq FROM obs WHERE time < ?1")?;
                let rows = seqs.query_map([time.0.cast_signed()], |row| row.get(0))?;
                Ok(rows.collect::<Result<_, _>>()?)
            }
            Forget::Project(path) => {
                let Some(number) = number_of(&self.db, path)? else {
                    return Ok(Vec::new());
                };
                let all = 1..=self.last_seq()?;
                self.newest(&[project_key(number)], &all, usize::MAX)
            }
        }
    }

    /// Where an observation is: it may have been recorded more than once.
    fn places(&self, seq: i64) -> Result<Vec<LinePlace>, MemoryError> {
        let sql = "SELECT place, len FROM obs WHERE seq = ?1
                   UNION ALL SELECT place, len FROM again WHERE id = (SELECT id FROM obs WHERE seq = ?1)";
        let mut places = self.db.prepare_cached(sql)?;
        let rows = places.query_map([seq], |row| {
            Ok(LinePlace::unpacked(row.get(0)?, row.get(1)?))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
