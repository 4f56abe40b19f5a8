//! Merging what a session adds.

use super::{Corrected, Fact, Knowledge, LogEntry, NewFact, NewKnowledge};
use crate::limits;
use crate::text::{normal, says_the_same};

/// Facts that the corrections of one session may remove: more is no correction but a purge.
const CORRECTIONS_MAX: usize = 20;

impl Knowledge {
    /// Merges what a session adds, and returns the number of new facts.
    pub fn merge(&mut self, new: &NewKnowledge, session: u32, date: &str) -> usize {
        let before = self.archived.len();
        let mut added = 0;
        for new in &new.core {
            if self.archived.len() < before + CORRECTIONS_MAX {
                self.correct(new, session);
            }
            added += usize::from(self.add(&new.fact));
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

    /// Removes the fact that a new one corrects, unless they say the same.
    fn correct(&mut self, new: &NewFact, session: u32) {
        let named = new.corrects.as_ref().and_then(|words| self.named(words));
        let Some(index) = named else { return };
        if !says_the_same(&self.core[index].text, &new.fact.text) {
            self.archived.push(Corrected {
                old: self.core.remove(index),
                new: new.fact.text.clone(),
                session,
            });
        }
    }

    /// The fact that these words name: the one with exactly these words, else the only one that contains
    /// them.
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
