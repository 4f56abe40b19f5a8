//! Merging what a session adds.

use super::{Corrected, Fact, Knowledge, LogEntry, NewFact, NewKnowledge};
use crate::limits;
use crate::text::{letters, says_the_same};

/// Facts that the corrections of one session may remove: more is no correction but a purge.
const CORRECTIONS_MAX: usize = 20;

impl Knowledge {
    /// Merges what a session adds, and returns the number of new facts.
    pub fn merge(&mut self, new: &NewKnowledge, session: u32, date: &str) -> usize {
        let before = self.archived.len();
        let mut added = 0;
        for new in &new.core {
            let mut fact = new.fact.clone();
            if self.archived.len() < before + CORRECTIONS_MAX {
                fact.pinned |= self.correct(new, session);
            }
            added += usize::from(self.add(&fact));
        }
        if !new.log.is_empty() {
            self.log.push(LogEntry {
                session,
                date: date.to_owned(),
                lines: new.log.clone(),
            });
        }
        let over = self.log.len().saturating_sub(limits::SESSION_LOG_KEPT);
        self.log.drain(..over);
        added
    }

    /// Adds the facts that a stage is to begin with. The logs stay separate.
    pub fn learn(&mut self, other: &Self) {
        for fact in other.core.iter() {
            self.add(fact);
        }
    }

    /// Adds what another stage learned, and applies its corrections. The logs stay separate.
    pub fn adopt(&mut self, other: &Self) {
        for corrected in &other.archived {
            if !other.core.holds(&corrected.old) {
                self.core.forget(&corrected.old);
            }
        }
        self.archived.extend_from_slice(&other.archived);
        for fact in other.core.iter() {
            // The other stage may know nothing of a correction, as it began before.
            let mut corrected = self.archived.iter();
            let is_wrong =
                corrected.any(|corrected| says_the_same(&corrected.old.text, &fact.text));
            if !is_wrong || other.archived.iter().any(|own| own.is_about(fact)) {
                self.add(fact);
            }
        }
    }

    /// Adds a fact that is not known, and returns whether it was new.
    fn add(&mut self, fact: &Fact) -> bool {
        let is_new = !self.core.holds(fact);
        if is_new {
            self.core.push(fact.clone());
        }
        is_new
    }

    /// Removes the fact that a new one corrects, unless they say the same. Returns whether it was pinned.
    fn correct(&mut self, new: &NewFact, session: u32) -> bool {
        let named = new.corrects.as_ref().and_then(|words| self.named(words));
        let is_other = |index: &usize| !says_the_same(&self.core[*index].text, &new.fact.text);
        let Some(index) = named.filter(is_other) else {
            return false;
        };
        let old = self.core.remove(index);
        let pinned = old.pinned;
        self.archived.push(Corrected {
            old,
            new: new.fact.text.clone(),
            session,
        });
        pinned
    }

    /// The first correction that would take nothing out: its old words, or its text without readable ones.
    pub fn unmatched(&self, new: &NewKnowledge) -> Option<String> {
        let mut corrections = new.core.iter().filter(|new| new.corrects.is_some());
        let mut known = corrections.next().map(|_| self.clone())?;
        new.core.iter().find_map(|NewFact { fact, corrects }| {
            let words = corrects
                .as_ref()
                .filter(|words| known.named(words).is_none());
            let is_new = known.add(fact);
            let words = words.filter(|_| is_new)?;
            Some(if words.is_empty() { &fact.text } else { words }.clone())
        })
    }

    /// The fact that these words name: the one with exactly these words, else the only one that contains
    /// their letters, since nobody quotes every backtick.
    fn named(&self, words: &str) -> Option<usize> {
        let is_same = |fact: &Fact| says_the_same(&fact.text, words);
        if let Some(index) = self.core.iter().position(is_same) {
            return Some(index);
        }
        let words: String = letters(words).collect();
        let holds = |fact: &Fact| letters(&fact.text).collect::<String>().contains(&words);
        let mut holding = (0..self.core.len()).filter(|index| holds(&self.core[*index]));
        let index = holding.next().filter(|_| !words.is_empty())?;
        holding.next().is_none().then_some(index)
    }
}
