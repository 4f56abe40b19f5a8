//! "Measured by ekiden": the facts from git, exit codes and ticks, so that notes need not state them.

use serde::{Deserialize, Serialize};

use super::budget::{Keep, NOWHERE, tokens};
use super::quote::{lines, outcome_line, quoted_within};
use crate::limits;
use crate::text::{one_line, short};

/// Facts since the last session began.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Commits, newest first: short hash and subject.
    pub commits: Vec<String>,
    /// Changed files, committed or not, with git's letter.
    pub files: Vec<String>,
    /// The check's command and how it ended: `failed in 41s (exit code 1)`.
    pub check: Option<(String, String)>,
    /// How many items of the list, or of the last handoff, are ticked, and how many are open.
    pub open_items: Option<(usize, usize)>,
    /// Items that are gone from the list without a tick.
    pub vanished: Vec<String>,
    /// Entries of git's stash that were not there when the relay began.
    #[serde(default, skip_serializing_if = "crate::is_zero")]
    pub stashed: u32,
    /// No session of this relay is over: there is nothing to compare with.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begins: bool,
}

pub(super) const HEADING: &str = "# Measured by ekiden";
pub(super) const COMMITS: &str = "Commits since the last session began:";
pub(super) const FILES: &str =
    "Changed files in the work dir; those that were uncommitted before the relay began come last:";
pub(super) const STASH: &str =
    "New entries of git's stash since the relay began; they may hold unfinished work:";
pub(super) const CHECK: &str = "The check:";
pub(super) const TAIL: &str = "The end of the check's output:";
pub(super) const ITEMS: &str = "Open items:";

/// Names of commits and files, in lines.
const NAMES_MAX: usize = 20;
/// How many of these lines commits may take if there are files.
const COMMITS_MAX: usize = 8;
/// The most of one name, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The most of one line of the check's output, in characters.
const TAIL_LINE_CHARS_MAX: usize = 240;
/// Shares of the part, in tokens; names get the rest.
const TAIL_TOKENS_MAX: usize = 240;
const ITEMS_TOKENS_MAX: usize = 100;
const LABELS_TOKENS_MAX: usize = 110;
const CHECK_TOKENS_MAX: usize = 70;

impl Measured {
    /// The part of a prompt. Before the first session there is nothing to compare with, so it shows only the
    /// check. Our own lines never depend on what an agent wrote.
    pub(super) fn render(&self, first: bool, tail: Option<&str>) -> String {
        let first = first || self.begins;
        if first && self.check.is_none() && tail.is_none() {
            return String::new();
        }
        let check = self.check(tail);
        let mut text = format!("{HEADING}\n\n");
        if !first {
            let fixed = LABELS_TOKENS_MAX + ITEMS_TOKENS_MAX + tokens(&check);
            let room = limits::MEASURED_TOKENS_MAX - fixed;
            let commits_max = COMMITS_MAX.max(NAMES_MAX.saturating_sub(self.files.len()));
            let commits = names(&self.commits, commits_max, room / 3);
            let files_max = NAMES_MAX.saturating_sub(commits.lines().count());
            let files = names(&self.files, files_max, room * 2 / 3);
            text.push_str(&format!("{COMMITS}\n{commits}{FILES}\n{files}"));
            if self.stashed > 0 {
                let count = quoted_within(
                    &self.stashed.to_string(),
                    NAME_CHARS_MAX,
                    Keep::First,
                    "git",
                );
                text.push_str(&format!("{STASH}\n{count}"));
            }
        }
        text.push_str(&check);
        if !first {
            text.push_str(&format!("{ITEMS}\n{}", self.items()));
        }
        text + "\n"
    }

    /// The check and the end of its output.
    fn check(&self, tail: Option<&str>) -> String {
        let mut text = String::new();
        if let Some((command, outcome)) = &self.check {
            let line = outcome_line(command, outcome);
            let line = quoted_within(&line, CHECK_TOKENS_MAX, Keep::First, NOWHERE);
            text.push_str(&format!("{CHECK}\n{line}"));
        }
        if let Some(tail) = tail {
            let shortened = |line| short(line, TAIL_LINE_CHARS_MAX) + "\n";
            let tail: String = tail.lines().map(shortened).collect();
            let tail = quoted_within(&tail, TAIL_TOKENS_MAX, Keep::Last, NOWHERE);
            text.push_str(&format!("{TAIL}\n{tail}"));
        }
        text
    }

    fn items(&self) -> String {
        let mut text = match self.open_items {
            Some((done, open)) => format!("{open} open, {done} ticked\n"),
            None => "no list\n".to_owned(),
        };
        for item in &self.vanished {
            let item = one_line(item, NAME_CHARS_MAX);
            text.push_str(&format!("gone without a tick: {item}\n"));
        }
        quoted_within(&text, ITEMS_TOKENS_MAX, Keep::First, NOWHERE)
    }
}

fn names(names: &[String], lines_max: usize, tokens_max: usize) -> String {
    let kept = if names.len() > lines_max {
        lines_max.saturating_sub(1)
    } else {
        names.len()
    };
    let mut text = lines(&names[..kept], NAME_CHARS_MAX);
    if kept < names.len() {
        let more = names.len() - kept;
        text.push_str(&format!("[{more} more; git knows them all]\n"));
    }
    quoted_within(&text, tokens_max, Keep::First, "git")
}
