//! The rescue handoff: the best notes that a program can write.
//!
//! It holds only facts, infers nothing, says that nobody has checked it, and never quotes the raw transcript.
//! It has the headings of `NEXT_PROMPT.md`, so that one reader handles both.

use serde::{Deserialize, Serialize};

use super::budget::{Keep, NOWHERE};
use super::fill::fill;
use super::page::{foreign, section, within};
use super::quote::{lines, outcome_line};
use crate::handoff::Heading;
use crate::ids::SessionNumber;
use crate::limits;
use crate::text::{last, one_line};

/// What is known about a session that left no valid handoff.
#[derive(Debug, Clone)]
pub struct RescueFacts<'a> {
    pub session: SessionNumber,
    /// Why it ended, in ekiden's words: `the agent crashed (exit code 1)`.
    pub cause: String,
    /// The headings that the agent left empty: only these are filled in.
    pub headings: &'a [Heading],
    /// Part of the agent's own handoff is readable.
    pub own_words: bool,
    /// The agent compacted its context before it ended.
    pub compacted: bool,
    /// Lines of `git status --short`, or of ekiden's own survey.
    pub status: &'a [String],
    /// Lines of `git diff --stat`.
    pub diff_stat: &'a [String],
    pub commits: &'a [String],
    /// The last edit: tool and target.
    pub last_edit: Option<&'a str>,
    /// The last call: tool and target.
    pub last_call: Option<&'a str>,
    pub last_words: Option<&'a str>,
    /// Commands that exited with 0, newest last.
    pub succeeded: &'a [String],
    /// Commands that failed, newest last.
    pub failed: &'a [FailedCommand],
    pub check: Option<CheckFacts>,
    /// The open items of the last handoff that had a list.
    pub open_items: &'a [String],
    pub previous_next_prompt: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCommand {
    pub command: String,
    pub code: Option<i32>,
    pub last_line: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFacts {
    pub command: String,
    /// How it ended: `failed in 41s (exit code 1)`.
    pub outcome: String,
    /// The end of its output.
    pub tail: String,
}

pub(super) const OPENING: &str = "Rescue: session {session} ended without a handoff: {cause}. A program collected this; it was not checked.";
pub(super) const OPENING_REST: &str = "Rescue: the handoff of session {session} is not complete; it ended so: {cause}. A program collected what follows; it was not checked.";
pub(super) const NOTHING: &str = "Nothing is recorded.";
pub(super) const BUILDS: &str = "Whether it builds is unknown.";
pub(super) const COMPACTED: &str =
    "Its context was compacted before it ended: what it said after that, it said from a summary.";

/// The prefix of each foreign line.
const INDENT: &str = "    ";
/// One name or command, in characters.
const LINE_CHARS_MAX: usize = 110;

/// The rescue handoff as Markdown, at most [`limits::RESCUE_TOKENS_MAX`] tokens.
pub fn rescue(facts: &RescueFacts<'_>) -> String {
    let edit = facts.last_edit.unwrap_or_default();
    let call = facts.last_call.unwrap_or_default();
    let words = facts.last_words.unwrap_or_default();
    let before = facts.previous_next_prompt.unwrap_or_default();
    let open = facts.open_items;
    let resume_at = [
        text(
            "Last edit:",
            &one_line(edit, LINE_CHARS_MAX),
            45,
            Keep::First,
        ),
        text(
            "Last call:",
            &one_line(call, LINE_CHARS_MAX),
            45,
            Keep::First,
        ),
        text("Last words of the session:", words, 300, Keep::Last),
        list("Open items of the last handoff:", open, 100, Keep::First),
    ];
    let failed: Vec<String> = facts.failed.iter().map(failed_line).collect();
    let succeeded = last(facts.succeeded, limits::RESCUE_SUCCEEDED_MAX);
    let failed = last(&failed, limits::RESCUE_FAILED_MAX);
    let sections = [
        (Heading::State, state(facts)),
        (Heading::ResumeAt, resume_at.concat()),
        (
            Heading::WhatWorks,
            list("Last commands that exited 0:", succeeded, 160, Keep::Last),
        ),
        (
            Heading::WhatToAvoid,
            list("Last commands that failed:", failed, 220, Keep::Last),
        ),
        (Heading::HowToVerify, how_to_verify(facts.check.as_ref())),
        (
            Heading::Task,
            text(
                "Notes that the session began from:",
                before,
                700,
                Keep::First,
            ),
        ),
    ];
    let session = facts.session.to_string();
    let cause = one_line(&facts.cause, LINE_CHARS_MAX);
    let opening = match facts.own_words {
        true => OPENING_REST,
        false => OPENING,
    };
    let mut page = fill(opening, &[("session", &session), ("cause", &cause)]) + "\n";
    let wanted = |heading: &Heading| facts.headings.contains(heading);
    for (heading, text) in sections.into_iter().filter(|(heading, _)| wanted(heading)) {
        let nothing = text.is_empty().then(|| format!("{NOTHING}\n"));
        page.push_str(&section(heading.name(), &nothing.unwrap_or(text)));
    }
    within(&page, limits::RESCUE_TOKENS_MAX, NOWHERE)
}

fn state(facts: &RescueFacts<'_>) -> String {
    let (untracked, status): (Vec<_>, Vec<_>) =
        (facts.status.iter().cloned()).partition(|line| line.starts_with("??"));
    let mut text = format!("{BUILDS}\n");
    if facts.compacted {
        text.push_str(&format!("{COMPACTED}\n"));
    }
    text.push_str(&list("git status:", &status, 140, Keep::First));
    text.push_str(&list("git diff --stat:", facts.diff_stat, 130, Keep::Last));
    text.push_str(&list(
        "Commits since it began:",
        facts.commits,
        100,
        Keep::First,
    ));
    text.push_str(&list("Files unknown to git:", &untracked, 80, Keep::First));
    text
}

fn how_to_verify(check: Option<&CheckFacts>) -> String {
    let Some(check) = check else {
        return String::new();
    };
    let line = outcome_line(&check.command, &check.outcome);
    let line = text("The check and how it ended last:", &line, 65, Keep::First);
    line + &text("The end of its output:", &check.tail, 220, Keep::Last)
}

fn failed_line(failed: &FailedCommand) -> String {
    let code = failed.code.map_or("no exit code".to_owned(), |code| {
        format!("exit code {code}")
    });
    let command = one_line(&failed.command, LINE_CHARS_MAX / 2);
    let last_line = one_line(&failed.last_line, LINE_CHARS_MAX / 2);
    format!("{command} ({code}): {last_line}")
}

/// A label and a line for each name; empty without names.
fn list(label: &str, names: &[String], tokens_max: usize, keep: Keep) -> String {
    text(label, &lines(names, LINE_CHARS_MAX), tokens_max, keep)
}

/// A label and a text without its blank lines; empty without text.
fn text(label: &str, text: &str, tokens_max: usize, keep: Keep) -> String {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = foreign(&text, INDENT, tokens_max, keep, NOWHERE);
    if text.is_empty() {
        return text;
    }
    format!("{label}\n{text}")
}
