//! "Measured by ekiden": what git, exit codes and ticks say, so that no note has to.

use serde::{Deserialize, Serialize};

use super::budget::{Keep, Mark, cut};
use super::quote::{MARK, quote};
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
    /// How many items of the last handoff are ticked, and how many are open.
    pub open_items: Option<(usize, usize)>,
    /// Items that are gone from the list without a tick.
    pub vanished: Vec<String>,
}

/// The heading of this part.
pub(super) const HEADING: &str = "# Measured by ekiden";
/// What stands under it.
pub(super) const INTRO: &str = "Read from git, exit codes and ticks; nobody's claim.";
pub(super) const COMMITS: &str = "Commits since the last session began:";
pub(super) const FILES: &str = "Changed files:";
pub(super) const CHECK: &str = "The check:";
pub(super) const TAIL: &str = "The end of the check's output:";
pub(super) const ITEMS: &str = "Open items of the last handoff:";

/// Names of commits and files, in lines.
const NAMES_MAX: usize = 20;
/// The most that commits take of them while there are files.
const COMMITS_MAX: usize = 8;
/// The most of one name, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The check's line, in characters for each of command and outcome.
const CHECK_CHARS_MAX: usize = 80;
/// Shares of the part, in tokens; names take what is left.
const TAIL_TOKENS_MAX: usize = 240;
const ITEMS_TOKENS_MAX: usize = 100;
const LABELS_TOKENS_MAX: usize = 80;
const CHECK_TOKENS_MAX: usize = 70;

/// A foreign text in quotation marks of ours; a word where it says nothing.
pub(super) fn quoted_or_nothing(text: &str) -> String {
    let quoted = quote(text).text;
    if quoted.is_empty() { format!("{MARK}[nothing]\n") } else { quoted }
}

/// The same within a budget, with a mark of what was left out and where the whole is.
pub(super) fn quoted_within(text: &str, tokens_max: usize, keep: Keep, whole: &str) -> String {
    cut(&quoted_or_nothing(text.trim_end()), tokens_max, keep, Mark { prefix: MARK, whole })
}

impl Measured {
    /// The part of a prompt. Before the first session there is nothing to compare with, so only the
    /// check is told. Which lines are ours never depends on what an agent wrote.
    pub(super) fn render(&self, first: bool, tail: Option<&str>) -> String {
        let check = self.check.as_ref().map(|(command, outcome)| check_line(command, outcome));
        if first && check.is_none() && tail.is_none() {
            return String::new();
        }
        let tail = tail.map(tail_lines);
        let mut text = format!("{HEADING}\n\n{INTRO}\n");
        if !first {
            let room = self.names_room(tail.is_some());
            for (label, names) in self.names(room) {
                text.push_str(&format!("{label}\n{names}"));
            }
        }
        text.extend(check.map(|line| format!("{CHECK}\n{line}")));
        text.extend(tail.map(|lines| format!("{TAIL}\n{lines}")));
        if !first {
            text.push_str(&format!("{ITEMS}\n{}", self.items()));
        }
        text.push('\n');
        text
    }

    fn names_room(&self, tail: bool) -> usize {
        let fixed = LABELS_TOKENS_MAX + ITEMS_TOKENS_MAX + CHECK_TOKENS_MAX;
        limits::MEASURED_TOKENS_MAX - fixed - if tail { TAIL_TOKENS_MAX } else { 0 }
    }

    /// Commits and files within a number of lines and tokens.
    fn names(&self, tokens_max: usize) -> [(&'static str, String); 2] {
        let commits = self.commits.len().min(COMMITS_MAX.max(NAMES_MAX.saturating_sub(self.files.len())));
        let commits = names(&self.commits, commits, tokens_max / 3);
        let used = commits.lines().count();
        let files = names(&self.files, NAMES_MAX.saturating_sub(used), tokens_max * 2 / 3);
        [(COMMITS, commits), (FILES, files)]
    }

    fn items(&self) -> String {
        let counts = match self.open_items {
            Some((done, open)) => format!("{open} open, {done} ticked\n"),
            None => "no list\n".to_owned(),
        };
        let gone = self
            .vanished
            .iter()
            .map(|item| format!("gone without a tick: {}\n", one_line(item, NAME_CHARS_MAX)));
        let text = quote(&format!("{counts}{}", gone.collect::<String>())).text;
        cut(&text, ITEMS_TOKENS_MAX, Keep::First, Mark { prefix: MARK, whole: "the handoff before the last" })
    }
}

fn check_line(command: &str, outcome: &str) -> String {
    let line = format!("`{}`: {}", one_line(command, CHECK_CHARS_MAX), one_line(outcome, CHECK_CHARS_MAX));
    let mark = Mark { prefix: MARK, whole: "the check's log" };
    cut(&quoted_or_nothing(&line), CHECK_TOKENS_MAX, Keep::First, mark)
}

fn tail_lines(tail: &str) -> String {
    let lines: String = tail.lines().map(|line| format!("{}\n", short(line, CHECK_CHARS_MAX * 3))).collect();
    cut(
        &quoted_or_nothing(lines.trim_end()),
        TAIL_TOKENS_MAX,
        Keep::Last,
        Mark { prefix: MARK, whole: "the check's log" },
    )
}

fn names(names: &[String], lines_max: usize, tokens_max: usize) -> String {
    let lines: Vec<String> =
        names.iter().map(|name| format!("{}\n", one_line(name, NAME_CHARS_MAX))).collect();
    let kept = if lines.len() > lines_max { lines_max.saturating_sub(1) } else { lines.len() };
    let mut text = lines[..kept].concat();
    if kept < lines.len() {
        text.push_str(&format!("[{} more; git knows them all]\n", lines.len() - kept));
    }
    cut(&quoted_or_nothing(text.trim_end()), tokens_max, Keep::First, Mark { prefix: MARK, whole: "git" })
}
