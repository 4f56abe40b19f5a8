//! How similar two notes are, line by line.
//!
//! A line counts as often as it occurs. Lines and words that say nothing about the work are left out: blank
//! lines, ekiden's own headings and explanations, numbers and commit ids. Why without numbers: a note "tried
//! 4 times" after "tried 3 times" is the same note.

use std::collections::BTreeMap;

use crate::handoff::{Heading, is_explanation};
use crate::limits;
use crate::text::normal;

/// A word of this many hexadecimal digits is a commit's id or a hash.
const HASH_CHARS_MIN: usize = 7;

/// The lines of a text, each with the number of its occurrences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, usize>);

/// How many lines two texts share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Likeness {
    equal: usize,
    larger: usize,
}

impl Lines {
    pub fn of(text: &str) -> Self {
        let mut lines = BTreeMap::new();
        for line in text.lines().filter(|line| !is_ours(line)).map(bare) {
            if line.contains(char::is_alphabetic) {
                *lines.entry(line).or_insert(0) += 1;
            }
        }
        Self(lines)
    }

    /// These lines without those of the other text.
    pub fn without(mut self, other: &Self) -> Self {
        self.0.retain(|line, _| !other.0.contains_key(line));
        self
    }

    /// There are more lines than before, and one of them is new.
    pub fn grew(&self, before: &Self) -> bool {
        self.total() > before.total() && self.0.keys().any(|line| !before.0.contains_key(line))
    }

    fn total(&self) -> usize {
        self.0.values().sum()
    }
}

impl Likeness {
    /// How similar two texts are.
    pub fn of(one: &Lines, other: &Lines) -> Self {
        let shared = one
            .0
            .iter()
            .map(|(line, count)| other.0.get(line).map_or(0, |o| *o.min(count)));
        Self {
            equal: shared.sum(),
            larger: one.total().max(other.total()),
        }
    }

    /// So similar that the later one says nothing new. Texts without lines are not alike: there is nothing to
    /// compare.
    pub fn is_alike(self) -> bool {
        self.equal * 100 > usize::from(limits::ALIKE_PERCENT) * self.larger
    }

    /// The shared lines as a share of the longer text.
    pub fn percent(self) -> u8 {
        u8::try_from(self.equal * 100 / self.larger.max(1)).unwrap_or(100)
    }
}

/// A heading or an explanation of the protocol.
fn is_ours(line: &str) -> bool {
    let text = normal(line.trim_start().trim_start_matches('#'));
    let text = text.trim_end_matches(':');
    let names = |heading: &Heading| text.eq_ignore_ascii_case(heading.name());
    Heading::ALL
        .iter()
        .any(|heading| names(heading) || is_explanation(*heading, text))
}

/// A line without numbers and ids.
fn bare(line: &str) -> String {
    let line = normal(line);
    let mut text = String::with_capacity(line.len());
    for word in line.split(' ').filter(|word| !is_hash(word)) {
        let before = text.len();
        if before > 0 {
            text.push(' ');
        }
        let begins = text.len();
        text.extend(word.chars().filter(|c| !c.is_numeric()));
        if text.len() == begins {
            text.truncate(before);
        }
    }
    text
}

fn is_hash(word: &str) -> bool {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let hexadecimal = word.len() >= HASH_CHARS_MIN && word.chars().all(|c| c.is_ascii_hexdigit());
    hexadecimal && word.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn percent(one: &str, other: &str) -> u8 {
        Likeness::of(&Lines::of(one), &Lines::of(other)).percent()
    }

    // shows: REL-13
    #[test]
    fn lines_count_as_often_as_they_stand_there_over_the_larger_count() {
        assert_eq!(percent("a\nb\nc\nd", "d\nc\nb\na"), 100);
        assert_eq!(percent("a\na\na\nb", "a\nb"), 50);
        assert_eq!(percent("a\nb", "a\na\na\nb"), 50);
        assert_eq!(percent("a\n\n  \nb", "a\nb"), 100);
        assert_eq!(percent("a", "b"), 0);
    }

    // shows: REL-13
    #[test]
    fn our_own_lines_and_numbers_are_left_out() {
        let one = "## State\n\n12 of 47 files, at 3f2a91c\n\n## Resume at:\nthe next one\n";
        assert_eq!(
            percent(one, "## State\n13 of 47 files, at 9c1d0b7\nthe next one\n"),
            100
        );
        assert_eq!(
            percent(
                "## State\n## Task\n## Resume at\nparser",
                "## State\n## Task\nlexer"
            ),
            0
        );
        let explanation = Heading::State.explanation();
        assert_eq!(percent(&format!("{explanation}\nparser"), "parser"), 100);
    }

    // shows: REL-13
    #[test]
    fn over_85_percent_is_alike_and_nothing_is_not() {
        let alike = |equal, larger| Likeness { equal, larger }.is_alike();
        assert!(!alike(85, 100) && alike(86, 100) && alike(18, 21) && !alike(17, 20));
        assert!(!alike(0, 0));
        assert_eq!(percent("", "## State\n12\n"), 0);
    }

    #[test]
    fn what_was_given_is_not_an_agents_own() {
        let task = Lines::of("Port the parser.\nKeep the tests.");
        let one = Lines::of("Port the parser.\nKeep the tests.\nthe lexer is done").without(&task);
        let other =
            Lines::of("Port the parser.\nKeep the tests.\nthe printer is done").without(&task);
        assert_eq!(Likeness::of(&one, &other).percent(), 0);
    }

    #[test]
    fn growing_is_more_lines_and_a_new_one() {
        let grew = |before: &str, now: &str| Lines::of(now).grew(&Lines::of(before));
        assert!(grew("a", "a\nb"));
        assert!(!grew("a", "a\na"));
        assert!(!grew("a\nb", "a\nc"));
    }

    proptest! {
        #[test]
        fn likeness_is_symmetric_and_a_text_is_like_itself(
            one in "([a-c ]{0,3}\n){0,12}",
            other in "([a-c ]{0,3}\n){0,12}",
        ) {
            prop_assert_eq!(percent(&one, &other), percent(&other, &one));
            let same = Likeness::of(&Lines::of(&one), &Lines::of(&one));
            prop_assert_eq!(same.is_alike(), one.contains(char::is_alphabetic));
        }
    }
}
