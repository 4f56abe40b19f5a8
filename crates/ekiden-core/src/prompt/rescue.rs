//! The rescue handoff: the best notes that a program can write.
//!
//! Facts, nothing inferred, visibly unchecked, never the raw transcript. It has the headings of
//! `NEXT_PROMPT.md`, so that one reader handles both. What came from tools and agents is indented by
//! four blanks, so that no line of it can pass for one of these headings; in a prompt the whole is marked
//! as data like any other notes.

use serde::{Deserialize, Serialize};

use super::budget::{Keep, Mark, cut, cut_long_lines};
use super::fill::fill;
use super::quote::strip_protocol;
use crate::handoff::{Heading, OpenItems};
use crate::ids::SessionNumber;
use crate::limits;
use crate::text::{clean, one_line};

/// What is known of a session that left no valid handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RescueFacts {
    /// The session.
    pub session: SessionNumber,
    /// Why it ended, in ekiden's words: `the agent crashed (exit code 1)`.
    pub cause: String,
    /// The agent compacted its context before it ended.
    pub compacted: bool,
    /// Lines of `git status --short`, or of ekiden's own survey.
    pub git_status: Vec<String>,
    /// Lines of `git diff --stat`.
    pub diff_stat: Vec<String>,
    /// Commits of the session.
    pub commits: Vec<String>,
    /// Files that git does not know.
    pub untracked: Vec<String>,
    /// The last edit: tool and target.
    pub last_edit: Option<String>,
    /// The last call: tool and target.
    pub last_call: Option<String>,
    /// What the agent said last.
    pub last_words: Option<String>,
    /// Commands that exited with 0, newest last.
    pub succeeded: Vec<String>,
    /// Commands that did not, newest last.
    pub failed: Vec<FailedCommand>,
    /// The check and how it ended.
    pub check: Option<CheckFacts>,
    /// The list of the last valid handoff.
    pub open_items: Option<OpenItems>,
    /// The last valid `NEXT_PROMPT.md`.
    pub previous_next_prompt: Option<String>,
}

/// A command that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCommand {
    /// The command.
    pub command: String,
    /// Its exit code, if it had one.
    pub code: Option<i32>,
    /// The last line that it printed.
    pub last_line: String,
}

/// A check that ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckFacts {
    /// The command.
    pub command: String,
    /// How it ended: `failed in 41s (exit code 1)`.
    pub outcome: String,
    /// The end of its output.
    pub tail: String,
}

pub(super) const OPENING: &str = "Rescue: session {session} ended without a handoff: {cause}. A program collected this; nobody checked it.";
pub(super) const NOTHING: &str = "Nothing is recorded.";
pub(super) const BUILDS: &str = "Whether it builds is unknown.";
pub(super) const COMPACTED: &str =
    "Its context was compacted before it ended: what it said after that, it said from a summary.";

/// What stands before each line that came from elsewhere.
const INDENT: &str = "    ";
/// Where the whole of what was cut is.
const ARCHIVE: &str = "the session's archive";
/// One name or command, in characters.
const LINE_CHARS_MAX: usize = 110;
const SUCCEEDED_MAX: usize = 8;
const FAILED_MAX: usize = 5;

/// The rescue handoff as Markdown, at most [`limits::RESCUE_TOKENS_MAX`] tokens.
#[must_use]
pub fn rescue(facts: &RescueFacts) -> String {
    let mut page = Page::default();
    let (session, cause) = (facts.session.to_string(), one_line(&facts.cause, LINE_CHARS_MAX));
    page.say(&fill(OPENING, &[("session", &session), ("cause", &cause)]));
    page.section(Heading::State, |page| state(page, facts));
    page.section(Heading::ResumeAt, |page| resume_at(page, facts));
    page.section(Heading::WhatWorks, |page| {
        page.lines("Last commands that exited 0:", last(&facts.succeeded, SUCCEEDED_MAX), Keep::Last, 160);
    });
    page.section(Heading::WhatToAvoid, |page| {
        let failed: Vec<String> = facts.failed.iter().map(failed_line).collect();
        page.lines("Last commands that failed:", last(&failed, FAILED_MAX), Keep::Last, 220);
    });
    page.section(Heading::HowToVerify, |page| how_to_verify(page, facts));
    page.section(Heading::Task, |page| {
        page.text(
            "Notes that the session began from:",
            facts.previous_next_prompt.as_deref(),
            Keep::First,
            700,
        );
    });
    cut(&page.text, limits::RESCUE_TOKENS_MAX, Keep::First, Mark { prefix: "", whole: ARCHIVE })
}

fn state(page: &mut Page, facts: &RescueFacts) {
    page.say(BUILDS);
    if facts.compacted {
        page.say(COMPACTED);
    }
    page.lines("git status:", &facts.git_status, Keep::First, 140);
    page.lines("git diff --stat:", &facts.diff_stat, Keep::Last, 130);
    page.lines("Commits of the session:", &facts.commits, Keep::First, 100);
    page.lines("Files unknown to git:", &facts.untracked, Keep::First, 80);
}

fn resume_at(page: &mut Page, facts: &RescueFacts) {
    page.lines("Last edit:", facts.last_edit.as_slice(), Keep::First, 45);
    page.lines("Last call:", facts.last_call.as_slice(), Keep::First, 45);
    page.text("Last words of the session:", facts.last_words.as_deref(), Keep::Last, 300);
    let open = facts.open_items.as_ref().map_or(&[][..], |items| &items.open);
    page.lines("Open items of the last handoff:", open, Keep::First, 100);
}

fn how_to_verify(page: &mut Page, facts: &RescueFacts) {
    let Some(check) = &facts.check else { return };
    let command = one_line(&check.command, LINE_CHARS_MAX / 2);
    let line = format!("{command}: {}", one_line(&check.outcome, LINE_CHARS_MAX / 2));
    page.lines("The check and how it ended last:", &[line], Keep::First, 60);
    page.text("The end of its output:", Some(&check.tail), Keep::Last, 220);
}

fn failed_line(failed: &FailedCommand) -> String {
    let code = failed.code.map_or("no exit code".to_owned(), |code| format!("exit code {code}"));
    let command = one_line(&failed.command, LINE_CHARS_MAX / 2);
    format!("{command} ({code}): {}", one_line(&failed.last_line, LINE_CHARS_MAX / 2))
}

fn last<T>(all: &[T], max: usize) -> &[T] {
    &all[all.len().saturating_sub(max)..]
}

#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// A heading and what is known under it.
    fn section(&mut self, heading: Heading, write: impl FnOnce(&mut Self)) {
        self.say(&format!("\n## {}\n", heading.name()));
        let begin = self.text.len();
        write(self);
        if self.text.len() == begin {
            self.say(NOTHING);
        }
    }

    fn say(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A label and one line for each name; nothing if there are none.
    fn lines(&mut self, label: &str, lines: &[String], keep: Keep, tokens_max: usize) {
        let lines: String = lines.iter().map(|line| one_line(line, LINE_CHARS_MAX) + "\n").collect();
        self.text(label, Some(&lines), keep, tokens_max);
    }

    /// A label and a text, indented and cut; nothing if there is no text.
    fn text(&mut self, label: &str, text: Option<&str>, keep: Keep, tokens_max: usize) {
        let text = strip_protocol(&clean(text.unwrap_or_default()).text).0;
        let text = cut_long_lines(text.trim_matches('\n'));
        let indented: String = text.lines().filter(|line| !line.trim().is_empty()).map(indent).collect();
        if !indented.is_empty() {
            self.say(label);
            self.text.push_str(&cut(&indented, tokens_max, keep, Mark { prefix: INDENT, whole: ARCHIVE }));
        }
    }
}

fn indent(line: &str) -> String {
    format!("{INDENT}{line}\n")
}
