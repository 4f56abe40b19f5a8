//! Taking over what a session adds.

use serde::{Deserialize, Serialize};

use super::{Corrected, Knowledge, LogEntry, NewFact, NewKnowledge};
use crate::limits;
use crate::text::{normal, says_the_same};

/// Corrections of one session that take a fact out: more is no correction but a purge.
const CORRECTIONS_MAX: usize = 20;

/// What a merge changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Merged {
    /// How many facts were added.
    pub added: usize,
    /// Facts that were taken out.
    pub corrected: Vec<Corrected>,
    /// Old words that name no fact, or more than one.
    pub unmatched: Vec<String>,
    /// Log entries that made room, for the archive.
    pub pruned: Vec<LogEntry>,
}

impl Knowledge {
    /// Takes over what a session adds.
    pub fn merge(&mut self, new: &NewKnowledge, session: u32, date: &str) -> Merged {
        let mut merged = Merged::default();
        for new in &new.core {
            self.correct(new, session, &mut merged);
            if !self.core.holds(&new.fact) {
                self.core.push(new.fact.clone());
                merged.added += 1;
            }
        }
        if !new.log.is_empty() {
            self.log.push(LogEntry { session, date: date.to_owned(), lines: new.log.clone() });
        }
        let over = self.log.len().saturating_sub(limits::SESSION_LOG_KEPT);
        merged.pruned = self.log.drain(..over).collect();
        merged
    }

    /// Takes over the facts of another stage that are not known here. Its log stays its own.
    pub fn adopt(&mut self, other: &Self) {
        for fact in other.core.iter() {
            if !self.core.holds(fact) {
                self.core.push(fact.clone());
            }
        }
    }

    /// Takes the fact out that a new one corrects, unless they say the same.
    fn correct(&mut self, new: &NewFact, session: u32, merged: &mut Merged) {
        let Some(words) = &new.corrects else { return };
        let named = if merged.corrected.len() < CORRECTIONS_MAX { self.named(words) } else { None };
        let Some(index) = named else {
            merged.unmatched.push(words.clone());
            return;
        };
        if says_the_same(&self.core[index].text, &new.fact.text) {
            return;
        }
        let corrected = Corrected { old: self.core.remove(index), new: new.fact.text.clone(), session };
        merged.corrected.push(corrected.clone());
        self.archived.push(corrected);
    }

    /// The fact that these words name: the one that they are, else the only one that holds them.
    fn named(&self, words: &str) -> Option<usize> {
        let words = normal(words);
        let texts: Vec<String> = self.core.iter().map(|fact| normal(&fact.text)).collect();
        if let Some(index) = texts.iter().position(|text| *text == words) {
            return Some(index);
        }
        let mut holding = (0..texts.len()).filter(|index| texts[*index].contains(&words));
        let index = holding.next()?;
        holding.next().is_none().then_some(index)
    }
}
