//! The facts, with the derived data that every session needs kept ready. So a session costs the same however
//! much the run has learned.

use std::collections::BTreeSet;
use std::ops::Deref;

use super::Fact;
use crate::prompt::quote::quote;
use crate::text::normal;

/// Facts, oldest first. To be read as a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    facts: Vec<Fact>,
    /// All of them as list items.
    pub(super) text: String,
    /// Each as marked lines, for a prompt.
    pub(super) marked: Vec<String>,
    /// Their normalised texts, for finding duplicates.
    known: BTreeSet<String>,
}

impl Facts {
    /// Adds a fact at the end.
    pub fn push(&mut self, fact: Fact) {
        let begin = self.text.len();
        fact.render_to(&mut self.text);
        self.marked.push(quote(&self.text[begin..]).text);
        self.known.insert(normal(&fact.text));
        self.facts.push(fact);
    }

    /// Removes a fact, which is rare.
    pub(super) fn remove(&mut self, index: usize) -> Fact {
        let fact = self.facts.remove(index);
        *self = std::mem::take(&mut self.facts).into_iter().collect();
        fact
    }

    /// One of them says the same.
    pub(super) fn holds(&self, fact: &Fact) -> bool {
        self.known.contains(&normal(&fact.text))
    }
}

impl Deref for Facts {
    type Target = [Fact];

    fn deref(&self) -> &[Fact] {
        &self.facts
    }
}

impl FromIterator<Fact> for Facts {
    fn from_iter<I: IntoIterator<Item = Fact>>(facts: I) -> Self {
        let mut all = Self::default();
        facts.into_iter().for_each(|fact| all.push(fact));
        all
    }
}
