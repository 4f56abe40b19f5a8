//! How well an observation answers: BM25 over title and text, with bounded factors for nearness.

use ekiden_core::observation::Observation;

use crate::query::{Group, Here, Query};
use crate::words::{each_part, each_word};

const K1: f64 = 1.2;
const B: f64 = 0.5;
/// The average number of words in an observation.
const WORDS_USUAL: f64 = 80.0;
/// A word in the title counts as this many in the text.
const TITLE_WEIGHT: f64 = 2.5;
/// The most that nearness may add, so that it never outweighs a better match.
const NEARNESS_MAX: f64 = 0.3;
const SAME_BRANCH: f64 = 1.1;
const SAME_FILE: f64 = 1.15;
/// After this many days recency counts half.
const RECENCY_HALF_DAYS: f64 = 30.0;
const DAY_MS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;
/// The number of a word that nobody asked for.
const OTHER: usize = usize::MAX;

/// The groups of a query with their weights.
pub(crate) struct Scale<'q> {
    pub(crate) query: &'q Query,
    pub(crate) groups: Vec<(Group, f64)>,
}

/// The words of a text that were asked for, by number and in order.
struct WordMatches {
    numbers: Vec<usize>,
    count: usize,
}

impl Scale<'_> {
    /// `None` if it is no answer.
    pub(crate) fn score(&self, found: &Observation) -> Option<f64> {
        let known: Vec<&str> = self
            .groups
            .iter()
            .flat_map(|(group, _)| &group.words)
            .map(String::as_str)
            .collect();
        let (title, text) = (
            asked(&found.title, &known, self),
            asked(&found.text, &known, self),
        );
        let files = asked(&found.files.join(" "), &known, self);
        let count = f64::from(u32::try_from(title.count + text.count).unwrap_or(u32::MAX));
        let mut score = 0.0;
        let mut first = 0;
        for (group, worth) in &self.groups {
            // The same word in two groups has the number of the first one.
            let number = |word: &String| known.iter().position(|known| known == word);
            let wanted: Vec<usize> = if group.is_prefix {
                vec![first]
            } else {
                group.words.iter().filter_map(number).collect()
            };
            first += group.words.len();
            let times = |part: &WordMatches| part.times(&wanted);
            let often = times(&text) + TITLE_WEIGHT * times(&title) + times(&files).min(1.0);
            if group.is_needed && often == 0.0 {
                return None;
            }
            let length = 1.0 - B + B * count / WORDS_USUAL;
            score += worth * often * (K1 + 1.0) / (often + K1 * length);
        }
        (score > 0.0).then(|| score * self.nearness(found))
    }

    fn nearness(&self, found: &Observation) -> f64 {
        let Here { branch, files } = &self.query.here;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a lifetime")]
        let days = self.query.now.since(found.time).0 as f64 / DAY_MS;
        let mut nearness = 1.0 + NEARNESS_MAX * (-days / RECENCY_HALF_DAYS).exp2();
        if branch.is_some() && *branch == found.from.branch {
            nearness *= SAME_BRANCH;
        }
        if found.files.iter().any(|file| files.contains(file)) {
            nearness *= SAME_FILE;
        }
        nearness
    }
}

fn asked(text: &str, known: &[&str], scale: &Scale<'_>) -> WordMatches {
    let (mut numbers, mut parts, mut count) = (Vec::new(), Vec::new(), 0);
    let prefixes = || {
        let mut first = 0;
        scale.groups.iter().filter_map(move |(group, _)| {
            let at = first;
            first += group.words.len();
            group.is_prefix.then(|| (at, group.words[0].as_str()))
        })
    };
    let number = |word: &str| {
        let exact = known.iter().position(|known| *known == word);
        let begun = || prefixes().find(|(_, prefix)| word.starts_with(prefix));
        exact.or_else(|| begun().map(|(at, _)| at)).unwrap_or(OTHER)
    };
    each_word(text, |word, run| {
        count += 1;
        numbers.push(number(word));
        each_part(run, |part| {
            let number = number(part);
            if number != OTHER && !parts.contains(&number) {
                parts.push(number);
            }
        });
    });
    for part in parts {
        numbers.extend([OTHER, part]);
    }
    WordMatches { numbers, count }
}

impl WordMatches {
    /// How often these words appear in sequence.
    fn times(&self, wanted: &[usize]) -> f64 {
        let times = self.numbers.windows(wanted.len().max(1));
        let times = times.filter(|found| *found == wanted).count();
        f64::from(u32::try_from(times).unwrap_or(u32::MAX))
    }
}
