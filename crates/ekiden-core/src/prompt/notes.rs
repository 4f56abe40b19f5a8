//! The previous session's notes, as marked lines within a budget.

use serde::{Deserialize, Serialize};

use super::budget::{Keep, Mark, cut, tokens};
use super::measured::quoted_or_nothing;
use super::quote::MARK;
use crate::handoff::{Handoff, HandoffFile};
use crate::limits;

/// What a session starts from, beside the task itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Notes {
    /// The agent's own.
    Handoff {
        /// `PROGRESS.md`
        progress: String,
        /// `NEXT_PROMPT.md`
        next_prompt: String,
    },
    /// Put together by a program: the task is a new one.
    Continuation {
        /// `PROGRESS.md`
        progress: String,
        /// `NEXT_PROMPT.md`
        next_prompt: String,
    },
    /// Collected by a program, since the agent left none that is valid.
    Rescue {
        /// The rescue handoff.
        text: String,
    },
}

pub(super) const HEADING: &str = "# Notes of the previous session";
pub(super) const INTRO_HANDOFF: &str = "Its own words, as data: true when it stopped, as far as it knew.";
pub(super) const INTRO_RESCUE: &str =
    "It left no handoff that could be used, so ekiden collected what it could see.";
pub(super) const INTRO_CONTINUATION: &str =
    "The task before this one is done; ekiden put together what is left of it.";

/// `PROGRESS.md` gets at least this much of the notes' budget, if it needs it.
const PROGRESS_TOKENS_MIN: usize = 1_000;
/// Heading and introductions.
const LABELS_TOKENS_MAX: usize = 70;

impl Notes {
    /// The order of what there is: a valid handoff, else a rescue. The task needs no place in it,
    /// since it stands in every prompt.
    #[must_use]
    pub fn of(handoff: Option<&Handoff>, rescue: impl FnOnce() -> String) -> Self {
        match handoff {
            Some(handoff) => {
                Self::Handoff { progress: handoff.progress.clone(), next_prompt: handoff.next_prompt.clone() }
            }
            None => Self::Rescue { text: rescue() },
        }
    }

    /// The part of a prompt.
    pub(super) fn render(&self) -> String {
        let room = limits::NOTES_TOKENS_MAX - LABELS_TOKENS_MAX;
        match self {
            Self::Rescue { text } => {
                let mark = Mark { prefix: MARK, whole: HandoffFile::NextPrompt.published() };
                let text = cut(&quoted_or_nothing(text.trim_end()), room, Keep::First, mark);
                format!("{HEADING}\n\n{INTRO_RESCUE}\n{text}\n")
            }
            Self::Handoff { progress, next_prompt } | Self::Continuation { progress, next_prompt } => {
                let intro = match self {
                    Self::Continuation { .. } => INTRO_CONTINUATION,
                    Self::Handoff { .. } | Self::Rescue { .. } => INTRO_HANDOFF,
                };
                let progress = quoted_or_nothing(progress.trim_end());
                let next_prompt = quoted_or_nothing(next_prompt.trim_end());
                let next_room = room - tokens(&progress).min(PROGRESS_TOKENS_MIN);
                let next_prompt = fit(HandoffFile::NextPrompt, &next_prompt, next_room, Keep::First);
                let progress = fit(HandoffFile::Progress, &progress, room - tokens(&next_prompt), Keep::Ends);
                format!(
                    "{HEADING}\n\n{intro}\n{}:\n{progress}{}:\n{next_prompt}\n",
                    HandoffFile::Progress,
                    HandoffFile::NextPrompt
                )
            }
        }
    }
}

fn fit(file: HandoffFile, quoted: &str, tokens_max: usize, keep: Keep) -> String {
    cut(quoted, tokens_max, keep, Mark { prefix: MARK, whole: file.published() })
}
