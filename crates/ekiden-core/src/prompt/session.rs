//! The first message of a session: all that it needs to continue.
//!
//! The user's words come first and the request last; parts that change least come early:
//!
//! | block | parts | changes |
//! |---|---|---|
//! | stable | task, check, facts | when a fact is added, at its end |
//! | foreign | log, measured, notes, the user's words for this session | each session |
//! | now | the request | each session; ours alone |
//!
//! An empty part is left out, but never because of what an agent wrote: otherwise our own lines would give
//! that away.

use serde::{Deserialize, Serialize};

use super::now::{self, StageNow};
use super::quote::quoted;
use super::{Measured, Notes, PromptSection};
use crate::ids::SessionNumber;
use crate::knowledge::Knowledge;
use crate::limits;

/// The data for a session's prompt.
#[derive(Debug, Clone, Copy)]
pub struct SessionInput<'a> {
    pub number: SessionNumber,
    /// The user's words; they are never cut or changed.
    pub task: &'a str,
    pub knowledge: &'a Knowledge,
    /// ekiden's measurements; `None` if it could not measure.
    pub measured: Option<&'a Measured>,
    /// The previous session's notes; `None` for the first session.
    pub notes: Option<&'a Notes>,
    /// The user's check of done.
    pub check: Option<&'a str>,
    /// Everything else that this session must know, in any order.
    pub slots: &'a [PromptSection],
}

/// A prompt as the blocks of one message, to be sent in this order. The last one is ours alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptBlocks {
    /// The part that stays the same from session to session, except for new facts at its end.
    pub stable: String,
    /// The part for this session only; may be empty.
    pub foreign: String,
    pub now: String,
}

pub(super) const TASK: &str = "# Task";
/// In place of the items of a long list.
pub(crate) const LONG_LIST: &str =
    "The list is too long to quote. What it says about your item is in fix_plan.md.\n";
pub(super) const CHECK: &str = "# Check";
pub(super) const CHECK_INTRO: &str =
    "ekiden runs this command too; the task counts as done only when it passes:";
pub(super) const KNOWS: &str = "# What the relay knows";
pub(super) const KNOWS_INTRO: &str =
    "Facts that earlier sessions recorded, oldest first; if no lines follow, there are none yet.";
pub(super) const LOG: &str = "# Log of the last sessions";
pub(super) const FROM_USER: &str = "# From the user";

impl PromptBlocks {
    /// The blocks that are sent, in order.
    pub fn blocks(&self) -> impl Iterator<Item = &str> {
        [&self.stable, &self.foreign, &self.now]
            .into_iter()
            .map(String::as_str)
            .filter(|text| !text.is_empty())
    }

    /// The prompt as the archive keeps it: the blocks one after the other, byte for byte as sent.
    pub fn to_archive(&self) -> String {
        self.blocks().collect()
    }
}

pub fn session_prompt(input: &SessionInput<'_>) -> PromptBlocks {
    prompt(input, "", None)
}

/// The same with additional text after the check, and with the stage that the request names.
pub(super) fn prompt(
    input: &SessionInput<'_>,
    outputs: &str,
    stage: Option<&StageNow<'_>>,
) -> PromptBlocks {
    let known = input.knowledge.for_prompt(limits::KNOWLEDGE_TOKENS_MAX);
    let request = now::Request {
        number: input.number,
        notes: input.notes.map(|notes| notes.by),
        check: input.check.is_some(),
        slots: input.slots,
        stage,
    };
    PromptBlocks {
        stable: stable(input, outputs, &known.core),
        foreign: foreign(input, &known.log),
        now: request.text(),
    }
}

fn stable(input: &SessionInput<'_>, outputs: &str, facts: &str) -> String {
    let mut text = format!("{TASK}\n\n{}", on_lines(input.task));
    if let Some(check) = input.check {
        text.push_str(&format!("{CHECK}\n\n{CHECK_INTRO}\n{}", on_lines(check)));
    }
    format!("{text}{outputs}{KNOWS}\n\n{KNOWS_INTRO}\n{facts}\n")
}

fn foreign(input: &SessionInput<'_>, log: &str) -> String {
    let first = input.number == SessionNumber::FIRST;
    let (mut tail, mut words) = (None, None);
    for slot in input.slots {
        if let PromptSection::Veto { tail: told, .. } = slot {
            tail = Some(told.as_str());
        }
        if let PromptSection::Operator(told) = slot {
            words = Some(told);
        }
    }
    let mut text = String::new();
    if !first {
        let log = if log.is_empty() { &quoted("") } else { log };
        text.push_str(&format!("{LOG}\n\n{log}\n"));
    }
    if input.measured.is_some() || tail.is_some() {
        let nothing = Measured::default();
        let measured = input.measured.unwrap_or(&nothing);
        text.push_str(&measured.render(first || input.measured.is_none(), tail));
    }
    text.extend(input.notes.map(Notes::render));
    let told = PromptSection::ordered(input.slots);
    text.extend(told.into_iter().filter_map(PromptSection::part));
    if let Some(words) = words {
        text.push_str(&format!("{FROM_USER}\n\n{}", on_lines(words)));
    }
    text
}

/// The user's words unchanged, followed by a line end and a blank line.
pub(super) fn on_lines(text: &str) -> String {
    if text.ends_with('\n') {
        format!("{text}\n")
    } else {
        format!("{text}\n\n")
    }
}
