//! What is wrong with a manifest, told all at once.
//!
//! Whoever mends a file wants to see everything that is wrong with it, in the order of its lines. A file
//! that is wrong throughout is told of in part, with a count of the rest. The texts repeat words of the
//! file, so each goes through [`text::one_line`]: nothing that a file says reaches a terminal raw.

use std::fmt;

use crate::limits::{MANIFEST_FAULTS_KEPT_MAX, MANIFEST_FAULTS_TOLD_MAX, NEAREST_COMPARISONS_MAX};
use crate::text;

/// How alike a word must be to be the one that was meant.
const LIKENESS_MIN: f64 = 0.65;
/// The longest fault, in characters.
const TEXT_CHARS_MAX: usize = 400;
/// The most that is repeated of one word of the file, in characters.
const WORD_CHARS_MAX: usize = 64;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where it stands, from 1; nothing if it is about the whole.
    pub line: Option<u32>,
    /// What is wrong.
    pub text: String,
    /// What may have been meant, or what to do.
    pub hint: Option<String>,
}

/// Everything that is wrong, in the order of the lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Faults {
    /// What is told.
    pub told: Vec<Fault>,
    /// How many more there are.
    pub more: usize,
}

/// Collects faults while a manifest is read.
#[derive(Debug, Default)]
pub(super) struct Findings {
    kept: Vec<Fault>,
    more: usize,
    compared: usize,
    /// What is no fault and may be a slip.
    slips: Vec<Fault>,
}

impl Fault {
    /// A fault without a hint; its text is made plain.
    #[must_use]
    pub fn new(line: impl Into<Option<u32>>, text: &str) -> Self {
        Self { line: line.into(), text: text::one_line(text, TEXT_CHARS_MAX), hint: None }
    }

    /// The same with a hint.
    #[must_use]
    pub fn hint(self, hint: &str) -> Self {
        Self { hint: Some(text::one_line(hint, TEXT_CHARS_MAX)), ..self }
    }

    /// The same with a hint, if there is one.
    #[must_use]
    pub(super) fn hint_if(self, hint: Option<String>) -> Self {
        match hint {
            Some(hint) => self.hint(&hint),
            None => self,
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
        self.hint.iter().try_for_each(|hint| write!(f, "       {hint}"))
    }
}

impl Faults {
    /// How many there are, told or not.
    #[must_use]
    pub fn count(&self) -> usize {
        self.told.len() + self.more
    }

    /// `3 faults`, for the line above them.
    #[must_use]
    pub fn title(&self) -> String {
        match self.count() {
            1 => "1 fault".to_owned(),
            count => format!("{count} faults"),
        }
    }
}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self { told: vec![fault], more: 0 }
    }
}

impl fmt::Display for Faults {
    /// A line each, set in by two blanks, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.told {
            writeln!(f, "  {fault}")?;
        }
        if self.more > 0 {
            writeln!(f, "  and {} more", self.more)?;
        }
        Ok(())
    }
}

impl Findings {
    pub(super) fn add(&mut self, fault: Fault) {
        if self.kept.len() < MANIFEST_FAULTS_KEPT_MAX {
            self.kept.push(fault);
        } else {
            self.more += 1;
        }
    }

    pub(super) fn say(&mut self, line: u32, text: &str) {
        self.add(Fault::new(line, text));
    }

    /// What may be a slip: told, and stops nothing.
    pub(super) fn add_slip(&mut self, slip: Fault) {
        if self.slips.len() < MANIFEST_FAULTS_TOLD_MAX {
            self.slips.push(slip);
        }
    }

    /// The slips, in the order of the lines.
    pub(super) fn take_slips(&mut self) -> Vec<Fault> {
        let mut slips = std::mem::take(&mut self.slips);
        slips.sort_by_key(|slip| slip.line);
        slips
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// "did you mean ...?", as long as there is patience for comparing.
    pub(super) fn nearest<'a>(&mut self, word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
        let patience = NEAREST_COMPARISONS_MAX.saturating_sub(self.compared);
        if word.len() > WORD_CHARS_MAX {
            return None;
        }
        let folded = |word: &str| word.trim().to_ascii_lowercase();
        let word = folded(word);
        let compared = &mut self.compared;
        let known = known.take(patience).inspect(|_| *compared += 1);
        let near = known.filter(|other| other.len().abs_diff(word.len()) <= 1 + word.len() / 2);
        near.map(|other| (strsim::normalized_damerau_levenshtein(&word, &folded(other)), other))
            .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
            .max_by(|one, two| one.0.total_cmp(&two.0).then(two.1.cmp(one.1)))
            .map(|(_, other)| format!("did you mean {}?", quoted(other)))
    }

    /// What was found, in the order of the lines, or `value` if that is nothing.
    pub(super) fn or<T>(self, value: T) -> Result<T, Faults> {
        if self.kept.is_empty() {
            return Ok(value);
        }
        let Self { kept: mut told, mut more, .. } = self;
        told.sort_by_key(|fault| fault.line);
        more += told.len().saturating_sub(MANIFEST_FAULTS_TOLD_MAX);
        told.truncate(MANIFEST_FAULTS_TOLD_MAX);
        Err(Faults { told, more })
    }
}

/// A word of the file between quotation marks. What would not be seen in it is written out: of two words that
/// differ only there, one fault would seem to deny the other.
pub(super) fn quoted(word: &str) -> String {
    let mut shown = String::with_capacity(word.len().min(WORD_CHARS_MAX));
    for c in word.chars().take(WORD_CHARS_MAX + 1) {
        let is_seen = match c {
            ' ' => !shown.ends_with(' '),
            c => c.is_ascii_graphic() || !c.is_whitespace() && text::clean(&c.to_string()).text.contains(c),
        };
        if is_seen { shown.push(c) } else { shown.extend(c.escape_unicode()) }
    }
    format!("\"{}\"", text::short(&shown, WORD_CHARS_MAX))
}
