//! Everything that is wrong with a manifest, reported at once.
//!
//! A person who repairs a file wants to see all of its faults, in the order of its lines. If there are very many, the
//! first are shown and the rest are counted. The messages repeat words of the file, so each passes
//! [`text::one_line`]: nothing in a file reaches a terminal raw.

use std::fmt;

use ekiden_core::limits::{
    MANIFEST_FAULTS_KEPT_MAX, MANIFEST_FAULTS_TOLD_MAX, NEAREST_COMPARISONS_MAX,
};
use ekiden_core::text;

/// How similar two words must be for "did you mean".
const LIKENESS_MIN: f64 = 0.65;
/// The longest fault, in characters.
const TEXT_CHARS_MAX: usize = 400;
/// The most that is repeated of one word of the file, in characters.
const WORD_CHARS_MAX: usize = 64;
/// Names that other programs give to the same field, and that do not look similar.
const SYNONYMS: [&[&str]; 5] = [
    &["needs", "dependson", "dependencies", "requires", "after"],
    &["validation", "verify"],
    &["kind", "type"],
    &["sessionsmax", "maxsessions"],
    &["turnsmax", "maxturns"],
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// From 1; none if the fault is about the whole file.
    pub line: Option<u32>,
    pub text: String,
    /// What may have been meant, or what to do.
    pub hint: Option<String>,
}

/// Everything that is wrong, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Faults {
    pub shown: Vec<Fault>,
    /// How many more there are.
    pub more: usize,
}

/// Collects faults while a manifest is read.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    faults: Vec<Fault>,
    more: usize,
    /// Names that were compared to find the nearest.
    compared: usize,
    slips: Vec<Fault>,
}

impl Fault {
    /// A fault without a hint.
    pub fn new(line: impl Into<Option<u32>>, text: &str) -> Self {
        Self {
            line: line.into(),
            text: text::one_line(text, TEXT_CHARS_MAX),
            hint: None,
        }
    }

    pub fn hint(self, hint: impl Into<Option<String>>) -> Self {
        let hint = hint.into();
        Self {
            hint: hint.map(|hint| text::one_line(&hint, TEXT_CHARS_MAX)),
            ..self
        }
    }
}

impl fmt::Display for Fault {
    /// `line 14  what is wrong       what may have been meant`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}  ")?;
        }
        f.write_str(&self.text)?;
        self.hint
            .iter()
            .try_for_each(|hint| write!(f, "       {hint}"))
    }
}

impl Faults {
    pub fn count(&self) -> usize {
        self.shown.len() + self.more
    }

    /// `3 faults`, for the line above them.
    pub fn title(&self) -> String {
        match self.count() {
            1 => "1 fault".to_owned(),
            count => format!("{count} faults"),
        }
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self {
            shown: vec![fault],
            more: 0,
        }
    }
}

impl fmt::Display for Faults {
    /// One line for each, indented by two blanks, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.shown {
            writeln!(f, "  {fault}")?;
        }
        if self.more > 0 {
            writeln!(f, "  and {} more", self.more)?;
        }
        Ok(())
    }
}

impl Findings {
    pub(crate) fn add(&mut self, fault: Fault) {
        if self.faults.len() < MANIFEST_FAULTS_KEPT_MAX {
            self.faults.push(fault);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn say(&mut self, line: u32, text: &str) {
        self.add(Fault::new(line, text));
    }

    /// A likely typo: shown as a warning, and stops nothing.
    pub(crate) fn add_slip(&mut self, slip: Fault) {
        if self.slips.len() < MANIFEST_FAULTS_TOLD_MAX {
            self.slips.push(slip);
        }
    }

    pub(crate) fn take_slips(&mut self) -> Vec<Fault> {
        self.slips.sort_by_key(|slip| slip.line);
        std::mem::take(&mut self.slips)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// "did you mean ...?". All comparisons of one file together are bounded.
    pub(crate) fn nearest<'a>(
        &mut self,
        word: &str,
        known: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        if word.len() > WORD_CHARS_MAX {
            return None;
        }
        let folded = |word: &str| word.trim().to_ascii_lowercase();
        let word = folded(word);
        let left = NEAREST_COMPARISONS_MAX.saturating_sub(self.compared);
        known
            .take(left)
            .inspect(|_| self.compared += 1)
            .filter(|other| other.len().abs_diff(word.len()) <= 1 + word.len() / 2)
            .map(|other| {
                let likeness = strsim::normalized_damerau_levenshtein(&word, &folded(other));
                (likeness, other)
            })
            .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
            .max_by(|one, two| one.0.total_cmp(&two.0).then(two.1.cmp(one.1)))
            .map(|(_, other)| format!("did you mean {}?", quoted(other)))
    }

    /// The field that an unknown one probably means.
    pub(crate) fn nearest_field<'a>(
        &mut self,
        key: &str,
        mut fields: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<String> {
        let plain = |name: &str| {
            let letters = name.chars().filter(char::is_ascii_alphanumeric);
            letters.collect::<String>().to_ascii_lowercase()
        };
        let near = self.nearest(key, fields.clone());
        let same = SYNONYMS
            .iter()
            .find(|same| same.contains(&plain(key).as_str()));
        fields
            .find(|name| same.is_some_and(|same| same.contains(&plain(name).as_str())))
            .map(|name| format!("did you mean {}?", quoted(name)))
            .or(near)
    }

    /// The faults in the order of their lines, or `value` if there are none.
    pub(crate) fn or<T>(self, value: T) -> Result<T, Faults> {
        let mut shown = self.faults;
        if shown.is_empty() {
            return Ok(value);
        }
        shown.sort_by_key(|fault| fault.line);
        let more = self.more + shown.len().saturating_sub(MANIFEST_FAULTS_TOLD_MAX);
        shown.truncate(MANIFEST_FAULTS_TOLD_MAX);
        Err(Faults { shown, more })
    }
}

/// A word of the file in quotation marks. Invisible characters are written out: two words that
/// differ only there would look the same.
pub(crate) fn quoted(word: &str) -> String {
    let mut shown = String::with_capacity(word.len().min(WORD_CHARS_MAX));
    for c in word.chars().take(WORD_CHARS_MAX + 1) {
        let is_seen = match c {
            ' ' => !shown.ends_with(' '),
            c => {
                c.is_ascii_graphic()
                    || !c.is_whitespace() && text::clean(&c.to_string()).text.contains(c)
            }
        };
        if is_seen {
            shown.push(c);
        } else {
            shown.extend(c.escape_unicode());
        }
    }
    format!("\"{}\"", text::short(&shown, WORD_CHARS_MAX))
}
