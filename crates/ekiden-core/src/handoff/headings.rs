//! The headings of a handoff: one table for the protocol text, the check and the remedies.

use serde::{Deserialize, Serialize};

use super::HandoffFile;
use crate::markdown::{self, sections_named};
use crate::text::letters;

/// A heading that ekiden knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heading {
    /// What was finished, with its proof.
    Done,
    StoppedAt,
    Issues,
    /// The list that ekiden counts.
    OpenItems,
    /// The current part of the task.
    Task,
    State,
    ResumeAt,
    /// Commands and approaches that worked.
    WhatWorks,
    WhatToAvoid,
    /// How to see that it is right.
    HowToVerify,
    /// Facts for every later session.
    CoreKnowledge,
    SessionLog,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Without it the handoff is not valid.
    Required,
    /// Asked for once; the handoff is accepted without it.
    AskedOnce,
    /// Not asked for.
    Optional,
}

impl Heading {
    /// All headings, in the order of the protocol text.
    pub const ALL: [Self; 12] = [
        Self::Done,
        Self::StoppedAt,
        Self::Issues,
        Self::OpenItems,
        Self::Task,
        Self::State,
        Self::ResumeAt,
        Self::WhatWorks,
        Self::WhatToAvoid,
        Self::HowToVerify,
        Self::CoreKnowledge,
        Self::SessionLog,
    ];

    pub fn of(file: HandoffFile) -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(move |heading| heading.file() == file)
    }

    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// What belongs under it, in the protocol text. Left in place of content, it is a fault.
    pub const fn explanation(self) -> &'static str {
        self.row().explanation
    }

    /// The remedy for an empty heading: one short sentence.
    pub const fn remedy(self) -> &'static str {
        self.row().remedy
    }

    pub const fn file(self) -> HandoffFile {
        self.row().file
    }

    /// Whether a handoff that needs its file requires the heading.
    pub const fn need(self) -> Need {
        self.row().need
    }

    pub const fn none_counts(self) -> bool {
        matches!(
            self,
            Self::Done | Self::StoppedAt | Self::Issues | Self::WhatWorks | Self::WhatToAvoid
        )
    }

    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

struct Row {
    name: &'static str,
    file: HandoffFile,
    need: Need,
    explanation: &'static str,
    remedy: &'static str,
}

/// One row for each heading, in the order of [`Heading::ALL`].
const TABLE: [Row; Heading::ALL.len()] = [
    Row {
        name: "Done",
        file: HandoffFile::Progress,
        need: Need::Required,
        explanation: "each item with the command that showed it and its result, or the words asked for; what you did not check",
        remedy: "List what you finished, or what you tried.",
    },
    Row {
        name: "Stopped at",
        file: HandoffFile::Progress,
        need: Need::Required,
        explanation: "file, place, item; what is half done; whether it builds",
        remedy: "Name the file and item, and say whether it builds.",
    },
    Row {
        name: "Issues",
        file: HandoffFile::Progress,
        need: Need::Required,
        explanation: "failing checks, doubts, questions to a person; or \"none\"",
        remedy: "Write failing checks and doubts, or \"none\".",
    },
    Row {
        name: "Open items",
        file: HandoffFile::Progress,
        need: Need::Optional,
        explanation: "optional, as - [ ] and - [x]; keep each item until it is ticked",
        remedy: "List what is left as - [ ] items.",
    },
    Row {
        name: "Task",
        file: HandoffFile::NextPrompt,
        need: Need::AskedOnce,
        explanation: "the part in hand; ekiden quotes the task",
        remedy: "Say which part of the task is in hand.",
    },
    Row {
        name: "State",
        file: HandoffFile::NextPrompt,
        need: Need::Required,
        explanation: "what exists now; decisions and the facts they rest on",
        remedy: "Say what exists now and what you decided.",
    },
    Row {
        name: "Resume at",
        file: HandoffFile::NextPrompt,
        need: Need::Required,
        explanation: "the first action: file and place, or command",
        remedy: "Name the file or command to begin with.",
    },
    Row {
        name: "What works",
        file: HandoffFile::NextPrompt,
        need: Need::AskedOnce,
        explanation: "commands and approaches",
        remedy: "Name commands that worked, or write \"none\".",
    },
    Row {
        name: "What to avoid",
        file: HandoffFile::NextPrompt,
        need: Need::AskedOnce,
        explanation: "what failed and how it showed; or \"nothing so far\"",
        remedy: "Say what failed, or \"nothing so far\".",
    },
    Row {
        name: "How to verify",
        file: HandoffFile::NextPrompt,
        need: Need::AskedOnce,
        explanation: "commands and the results to expect",
        remedy: "Name the commands and the results to expect.",
    },
    Row {
        name: "Core Knowledge",
        file: HandoffFile::Knowledge,
        need: Need::Optional,
        explanation: "facts that later sessions need and cannot see in the code, one bullet each; \
                 a wrong one: - corrects \"old words\": new fact",
        remedy: "Put one fact in each bullet.",
    },
    Row {
        name: "Session Log",
        file: HandoffFile::Knowledge,
        need: Need::Optional,
        explanation: "at most five lines",
        remedy: "Write at most five lines.",
    },
];

/// Which heading a text is, by its letters: any case, with a colon or a symbol, and also with its explanation
/// behind it, as the protocol shows it. None for one of the agent's own.
pub(super) fn read(file: HandoffFile, heading: &markdown::Heading) -> Option<Heading> {
    Heading::of(file).find(|known| {
        let mut said = letters(&heading.text);
        let is_named = letters(known.name()).all(|letter| said.next() == Some(letter));
        let rest: String = said.collect();
        is_named && (rest.is_empty() || is_explanation(*known, &rest))
    })
}

/// Longer than any words that mean "nothing".
const NOTHING_CHARS_MAX: usize = 30;

/// Whether a text is the template's explanation and nothing else.
pub(crate) fn is_explanation(heading: Heading, text: &str) -> bool {
    letters(text).eq(letters(heading.explanation()))
}

/// Enough of a text's letters to decide whether it says nothing.
fn beginning(text: &str) -> String {
    letters(text).take(NOTHING_CHARS_MAX).collect()
}

/// Whether a text says nothing: it is empty, or a word for "nothing" where that is no answer.
pub(crate) fn says_nothing(heading: Heading, text: &str) -> bool {
    let word = beginning(text);
    matches!(word.as_str(), "" | "tbd" | "todo")
        || (stands_for_none(&word) && !heading.none_counts())
}

/// The text under a heading, if it says something.
pub fn said(text: &str, heading: &str) -> Option<String> {
    let mut sections = sections_named(text, heading);
    let said = sections.find(|section| !says_nothing(Heading::State, section))?;
    Some(said.trim().to_owned())
}

/// The first line of a section that says something; the fence of a code block does not.
pub fn first_line(section: &str) -> Option<&str> {
    let mut lines = section.lines().map(str::trim);
    lines.find(|line| !line.is_empty() && !line.starts_with("```"))
}

pub(super) fn is_none(text: &str) -> bool {
    stands_for_none(&beginning(text))
}

fn stands_for_none(word: &str) -> bool {
    let word = word.strip_suffix("thissession").unwrap_or(word);
    matches!(
        word,
        "none"
            | "nothing"
            | "na"
            | "nothingsofar"
            | "nonesofar"
            | "nothingyet"
            | "noneyet"
            | "nothingnew"
            | "nothingnewwaslearned"
            | "nonewfacts"
            | "nonewknowledge"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_heading_has_its_own_row() {
        for (index, heading) in Heading::ALL.into_iter().enumerate() {
            assert_eq!(heading as usize, index);
        }
        assert_eq!(Heading::StoppedAt.name(), "Stopped at");
        assert_eq!(Heading::SessionLog.file(), HandoffFile::Knowledge);
    }
}
