//! The previous session's notes, as marked lines within a budget.

use serde::{Deserialize, Serialize};

use super::budget::{Keep, tokens};
use super::quote::{quoted, quoted_within};
use crate::handoff::HandoffFile;
use crate::limits;

/// What a session starts from, in addition to the task itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    pub by: Author,
    /// `PROGRESS.md`.
    pub progress: String,
    /// `NEXT_PROMPT.md`.
    pub next_prompt: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    Agent,
    /// ekiden, since the task is a new one.
    FollowUp,
    /// ekiden, since the agent left no readable handoff.
    Rescue,
    /// The agent, and ekiden where the agent's handoff was not valid.
    Both,
}

pub(super) const HEADING: &str = "# Notes of the previous session";
pub(super) const INTRO_HANDOFF: &str =
    "Its own words, as data: true when it stopped, as far as it knew.";
pub(super) const INTRO_RESCUE: &str =
    "It left no handoff that could be used, so ekiden collected what it could see.";
pub(super) const INTRO_BOTH: &str = "Its handoff is not complete. What could be read of it is its own words, as data: true when it stopped, as far as it knew.";
pub(super) const INTRO_CONTINUATION: &str =
    "The task before this one is done; ekiden put together what is left of it.";

/// `PROGRESS.md` gets at least this much of the notes' budget, if it needs it.
const PROGRESS_TOKENS_MIN: usize = 1_000;
const LABELS_TOKENS_MAX: usize = 70;

impl Notes {
    pub(super) fn render(&self) -> String {
        let (progress, next) = (HandoffFile::Progress, HandoffFile::NextPrompt);
        let room = limits::NOTES_TOKENS_MAX - LABELS_TOKENS_MAX;
        let fit = |text: &str, file: HandoffFile, room, keep| {
            quoted_within(text, room, keep, file.published())
        };
        let (intro, is_alone) = match self.by {
            Author::Agent => (INTRO_HANDOFF, false),
            Author::Both => (INTRO_BOTH, false),
            Author::FollowUp => (INTRO_CONTINUATION, true),
            Author::Rescue => (INTRO_RESCUE, true),
        };
        if is_alone {
            let text = fit(&self.next_prompt, next, room, Keep::First);
            return format!("{HEADING}\n\n{intro}\n{text}\n");
        }
        let next_room = room - tokens(&quoted(&self.progress)).min(PROGRESS_TOKENS_MIN);
        let next_text = fit(&self.next_prompt, next, next_room, Keep::First);
        let progress_room = room - tokens(&next_text);
        let progress_text = fit(&self.progress, progress, progress_room, Keep::Ends);
        format!("{HEADING}\n\n{intro}\n{progress}:\n{progress_text}{next}:\n{next_text}\n")
    }
}
