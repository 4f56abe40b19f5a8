//! The facts, with the derived data that every session needs kept ready. So a session costs the same however
//! much the run has learned.

use std::collections::BTreeSet;
use std::ops::Deref;

use super::Fact;
use crate::handoff::HandoffFile;
use crate::limits;
use crate::prompt::budget::{Keep, Mark, cut, cut_line, tokens};
use crate::prompt::quote::{MARK, quote};
use crate::text::{normal, says_the_same};

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
        self.marked.push(in_prompt(&self.text[begin..]));
        self.known.insert(normal(&fact.text));
        self.facts.push(fact);
    }

    pub(super) fn remove(&mut self, index: usize) -> Fact {
        let fact = self.facts.remove(index);
        self.marked.remove(index);
        // A person may have written it twice.
        if !self
            .iter()
            .any(|kept| says_the_same(&kept.text, &fact.text))
        {
            self.known.remove(&normal(&fact.text));
        }
        self.text.clear();
        let text = &mut self.text;
        self.facts.iter().for_each(|fact| fact.render_to(text));
        fact
    }

    /// Removes the fact that says the same, if there is one.
    pub(super) fn forget(&mut self, fact: &Fact) {
        if self.holds(fact)
            && let Some(index) = self
                .iter()
                .position(|kept| says_the_same(&kept.text, &fact.text))
        {
            self.remove(index);
        }
    }

    pub(super) fn holds(&self, fact: &Fact) -> bool {
        self.known.contains(&normal(&fact.text))
    }
}

/// A fact's list item as marked lines. The beginning of a very long one is enough: the file has it whole.
fn in_prompt(item: &str) -> String {
    let marked = quote(item).text;
    if tokens(&marked) <= limits::FACT_TOKENS_MAX {
        return marked;
    }
    let lines = item.split_inclusive('\n');
    let short: String = lines
        .map(|line| cut_line(line, limits::FACT_LINE_CHARS_MAX))
        .collect();
    let mark = Mark::new(MARK, HandoffFile::Knowledge.published());
    cut(
        &quote(&short).text,
        limits::FACT_TOKENS_MAX,
        Keep::First,
        mark,
    )
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
