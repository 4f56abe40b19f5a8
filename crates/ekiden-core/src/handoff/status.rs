//! The STATUS line: what an agent may say about the state of its task.
//!
//! A claim is a whole block outside code and quotations (a paragraph, a heading or a list item) whose text is
//! exactly `STATUS: WORD`. Emphasis around it is allowed, and so is repeating the same claim. Claims that
//! differ count as no claim. Text that merely mentions a word never counts.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Fault, FaultKind, HandoffFile};
use crate::markdown::{Leaf, Outline, line_of, outline};
use crate::prompt::own_lines::strip_protocol;
use crate::text::short;

/// The word that a claim begins with.
pub const STATUS: &str = "STATUS";
pub const WORD_IN_PROGRESS: &str = "IN_PROGRESS";
pub const WORD_BLOCKED: &str = "BLOCKED";

/// The longest marker, in characters: it is part of texts with a budget.
const MARKER_CHARS_MAX: usize = 40;
/// How much of an unknown word a fault repeats, in characters.
const WORD_CHARS_MAX: usize = 12;

/// The word with which an agent claims that all is done and checked.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Marker(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` cannot be a completion marker (one word of at most 40 characters without Markdown or @ in it, \
     other than IN_PROGRESS and BLOCKED, and of no other program's protocol)"
)]
pub struct InvalidMarker {
    pub text: String,
}

impl Marker {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Marker {
    fn default() -> Self {
        Self("ALL_COMPLETE".to_owned())
    }
}

impl TryFrom<String> for Marker {
    type Error = InvalidMarker;

    /// The grammar must read a marker back unchanged, so that ekiden understands an agent that follows its
    /// instructions.
    fn try_from(text: String) -> Result<Self, InvalidMarker> {
        let taken = [WORD_IN_PROGRESS, WORD_BLOCKED].contains(&text.as_str());
        let fits = text.chars().count() <= MARKER_CHARS_MAX
            && crate::text::clean(&text).text == text
            && !text.contains('@');
        let source = format!("{STATUS}: {text}");
        let is_kept = strip_protocol(&source).1 == 0;
        let read_back = claims(&source, &outline(&source));
        if fits && is_kept && !taken && matches!(&read_back[..], [claim] if claim.word == text) {
            Ok(Self(text))
        } else {
            Err(InvalidMarker { text })
        }
    }
}

impl From<Marker> for String {
    fn from(marker: Marker) -> Self {
        marker.0
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the agent says about the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    InProgress,
    /// All is done and checked; verification decides.
    Complete,
    Blocked {
        /// What is needed: the text under Issues.
        question: String,
    },
}

/// Why the STATUS line cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatusFault {
    #[error("no STATUS line. Add STATUS: and its word as a line of its own.")]
    Missing,
    /// It has other text beside it.
    #[error(
        "the STATUS in line {line} is not alone. Put it between blank lines, without more words or backticks."
    )]
    NotAlone {
        /// Where its block begins, from 1.
        line: usize,
    },
    #[error(
        "the STATUS in line {line} has an unknown word, {word}. Use IN_PROGRESS, {marker} or BLOCKED."
    )]
    UnknownWord {
        word: String,
        /// Its line, from 1.
        line: usize,
        /// The word that would claim completion.
        marker: Marker,
    },
    /// Two of them say different things.
    #[error("the STATUS lines {} and {} differ. Keep the one that is true.", .lines[0], .lines[1])]
    Contradictory {
        /// Their lines, from 1.
        lines: [usize; 2],
    },
}

/// The word of an unambiguous claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    InProgress,
    Complete,
    Blocked,
}

struct Claim {
    word: String,
    line: usize,
}

/// The one claim of a text, or why there is none.
pub(super) fn claimed(source: &str, outline: &Outline, marker: &Marker) -> Result<Word, Fault> {
    let claims = claims(source, outline);
    let Some(first) = claims.first() else {
        return Err(fault(near_miss(source, outline)));
    };
    if let Some(other) = claims.iter().find(|claim| claim.word != first.word) {
        let lines = [first.line, other.line];
        return Err(fault(StatusFault::Contradictory { lines }));
    }
    match first.word.as_str() {
        WORD_IN_PROGRESS => Ok(Word::InProgress),
        WORD_BLOCKED => Ok(Word::Blocked),
        word if word == marker.as_str() => Ok(Word::Complete),
        word => Err(fault(StatusFault::UnknownWord {
            word: harmless(word),
            line: first.line,
            marker: marker.clone(),
        })),
    }
}

/// An unknown word, safe for a fault to quote: the fault is part of one of our messages, where a client would
/// attach the file that `@path` names.
fn harmless(word: &str) -> String {
    let plain: String = word
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
        .collect();
    short(&plain, WORD_CHARS_MAX)
}

fn fault(fault: StatusFault) -> Fault {
    Fault {
        file: HandoffFile::Progress,
        kind: FaultKind::Status(fault),
    }
}

fn claims(source: &str, outline: &Outline) -> Vec<Claim> {
    let leaves = outline.leaves.iter();
    let mut claims: Vec<Claim> = leaves.filter_map(|leaf| claim(source, leaf)).collect();
    claims.sort_by_key(|claim| claim.line);
    claims
}

/// The text after `STATUS:` at the beginning of a block. Words and lines after `IN_PROGRESS` may say how far it is, or
/// when that was; the other statuses decide something, so they must be alone.
fn claim(source: &str, leaf: &Leaf) -> Option<Claim> {
    let after = leaf.text.trim().strip_prefix(STATUS)?;
    let said = after.trim_start().strip_prefix(':')?.trim();
    let (word, rest) = said.split_once(char::is_whitespace).unwrap_or((said, ""));
    let word = word.trim_end_matches(['.', ',']);
    let alone = rest.is_empty() && !leaf.mixed;
    let goes_on = word == WORD_IN_PROGRESS && !rest.contains(STATUS);
    (!word.is_empty() && (alone || goes_on)).then(|| Claim {
        word: word.to_owned(),
        line: line_of(source, leaf.start),
    })
}

/// Why a text has no claim: its claim is not alone on the line, or there is none.
fn near_miss(source: &str, outline: &Outline) -> StatusFault {
    let is_near = |leaf: &&Leaf| leaf.text.lines().any(|line| line.starts_with("STATUS:"));
    let near = outline.leaves.iter().filter(is_near);
    let line = near.map(|leaf| line_of(source, leaf.start)).min();
    line.map_or(StatusFault::Missing, |line| StatusFault::NotAlone { line })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(source: &str) -> Result<Word, String> {
        claimed(source, &outline(source), &Marker::default()).map_err(|fault| fault.to_string())
    }

    // shows: REL-09
    #[test]
    fn a_claim_is_a_block_of_its_own() {
        for source in [
            "STATUS: IN_PROGRESS",
            "# Progress\nSTATUS: IN_PROGRESS\n\ntext",
            "STATUS: IN_PROGRESS\n## Done\n- x",
            "## STATUS: IN_PROGRESS",
            "- STATUS: IN_PROGRESS\n- more",
            "1. loose\n\n2. STATUS: IN_PROGRESS\n",
            "**STATUS:** IN_PROGRESS",
            "**STATUS: _IN_PROGRESS_**",
            "STATUS:   IN_PROGRESS   ",
            "STATUS: IN_PROGRESS\n---\ntext",
            "STATUS: IN\\_PROGRESS",
            "STATUS: IN_PROGRESS\n\nlater\n\nSTATUS: IN_PROGRESS",
            "STATUS: IN_PROGRESS  between blank lines",
            "STATUS: IN_PROGRESS (half done, see `a.rs`)",
            "STATUS: IN_PROGRESS, half done.",
            "STATUS: IN_PROGRESS\nUpdated: 2026-11-30",
        ] {
            assert_eq!(read(source), Ok(Word::InProgress), "{source}");
        }
        assert_eq!(read("STATUS: ALL_COMPLETE"), Ok(Word::Complete));
        assert_eq!(read("STATUS: ALL_COMPLETE."), Ok(Word::Complete));
        assert_eq!(read("STATUS: BLOCKED"), Ok(Word::Blocked));
    }

    // shows: REL-09
    #[test]
    fn code_quotation_and_prose_are_no_claim() {
        for source in [
            "",
            "```\nSTATUS: ALL_COMPLETE\n```",
            "    STATUS: ALL_COMPLETE",
            "> STATUS: ALL_COMPLETE",
            "> - STATUS: ALL_COMPLETE",
            "`STATUS: ALL_COMPLETE`",
            "STATUS: `ALL_COMPLETE`",
            "STATUS: [ALL_COMPLETE](x)",
            "<!-- STATUS: ALL_COMPLETE -->",
            "do not write STATUS: ALL_COMPLETE yet",
            "STATUS: ALL_COMPLETE (almost)",
            "STATUS: BLOCKED no",
            "STATUS: IN_PROGRESS\nSTATUS: ALL_COMPLETE",
            "status: all_complete",
            "| STATUS: ALL_COMPLETE |\n|---|\n",
        ] {
            assert!(read(source).is_err(), "{source}");
        }
    }

    // shows: REL-09
    #[test]
    fn a_fault_names_the_lines() {
        let contradictory = "STATUS: IN_PROGRESS\n\ntext\n\n- STATUS: ALL_COMPLETE";
        assert_eq!(
            read(contradictory).unwrap_err(),
            "PROGRESS.md: the STATUS lines 1 and 5 differ. Keep the one that is true."
        );
        assert_eq!(
            read("STATUS: DONE").unwrap_err(),
            "PROGRESS.md: the STATUS in line 1 has an unknown word, DONE. Use IN_PROGRESS, ALL_COMPLETE or BLOCKED."
        );
        assert_eq!(
            read("Session 3\nSTATUS: IN_PROGRESS\nmore").unwrap_err(),
            "PROGRESS.md: the STATUS in line 1 is not alone. Put it between blank lines, without more words or backticks."
        );
    }

    #[test]
    fn a_marker_is_one_word_that_markdown_leaves_alone() {
        for good in [
            "ALL_COMPLETE",
            "ALL_FILES_PROCESSED",
            "done!",
            "ГОТОВО",
            "A-1",
        ] {
            assert!(Marker::try_from(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "TWO WORDS",
            "*DONE*",
            "`DONE`",
            "IN_PROGRESS",
            "BLOCKED",
            "a\nb",
            "<x>",
            "X\u{200b}",
            "@x",
            "DONE.",
            "TASK_FULLY_COMPLETE",
        ] {
            assert!(Marker::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        assert!(Marker::try_from("X".repeat(41)).is_err());
    }

    proptest! {
        #[test]
        fn every_marker_is_understood(text in "[!-~]{1,12}") {
            if let Ok(marker) = Marker::try_from(text) {
                let source = format!("# Progress\n\nSTATUS: {marker}\n\n## Done\n");
                prop_assert_eq!(claimed(&source, &outline(&source), &marker), Ok(Word::Complete));
            }
        }

        #[test]
        fn no_text_breaks_the_reading(text in any::<String>()) {
            let _ = read(&text);
        }
    }
}
