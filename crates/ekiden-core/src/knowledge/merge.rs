//! Merging what a session adds.

use super::{Corrected, Knowledge, LogEntry, NewFact, NewKnowledge};
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
            if !self.core.holds(&new.fact) {
                self.core.push(new.fact.clone());
                added += 1;
            }
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

    /// Adds another stage's facts that are not known here. The logs stay separate.
    pub fn adopt(&mut self, other: &Self) {
        for fact in other.core.iter() {
            if !self.core.holds(fact) {
                self.core.push(fact.clone());
            }
        }
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
