//! What a finished stage leaves for the stages that need it, and what is written when one failed.
//!
//! Both are Markdown documents made by a program: paths from git, commands and how they ended, and
//! the agent's own words under headings that name them. Words that are not ours are block quotations,
//! so that no line of them can pass for a section; in a prompt every line is marked as data besides.

use super::budget::{Keep, Mark, cut, cut_long_lines};
use super::notes::Notes;
use super::quote::strip_protocol;
use super::rescue::CheckFacts;
use crate::handoff::{Heading, says_nothing};
use crate::ids::{RunId, StageId};
use crate::knowledge::Fact;
use crate::limits;
use crate::markdown::outline;
use crate::text::{clean, normal, one_line};

/// What is known of a finished stage.
#[derive(Debug, Clone, Copy)]
pub struct StageFacts<'a> {
    /// The stage.
    pub stage: &'a StageId,
    /// Its name.
    pub name: &'a str,
    /// Files that it changed, from git.
    pub files: &'a [String],
    /// Its check: the command, and how it ended.
    pub check: Option<(&'a str, &'a str)>,
    /// What its last session left.
    pub notes: Option<&'a Notes>,
    /// Facts that it recorded.
    pub facts: &'a [Fact],
}

/// What is known of a stage that failed for good.
#[derive(Debug, Clone, Copy)]
pub struct FailureFacts<'a> {
    /// The stage.
    pub stage: &'a StageId,
    /// Its name.
    pub name: &'a str,
    /// The manifest's file.
    pub manifest: &'a str,
    /// Its tries, the first one first.
    pub tries: &'a [TryFacts<'a>],
    /// The check that failed last, if one did.
    pub check: Option<&'a CheckFacts>,
    /// Stages that wait for it in vain.
    pub blocked: &'a [StageId],
    /// Where the tree is in which it worked.
    pub tree: &'a str,
    /// The plan goes on without it.
    pub is_skipped: bool,
}

/// One try at a stage.
#[derive(Debug, Clone, Copy)]
pub struct TryFacts<'a> {
    /// How it ended, in ekiden's words: `the check failed (exit code 1)`.
    pub cause: &'a str,
    /// What its last session left.
    pub notes: Option<&'a Notes>,
}

/// What an agent is asked to add to its last `PROGRESS.md`.
pub(super) const DECISIONS: &str = "Decisions";
pub(super) const INTERFACES: &str = "Interfaces";

/// A path or a command, in characters.
const LINE_CHARS_MAX: usize = 160;
/// Where the whole of what was cut is.
const ARCHIVE: &str = "the archive of the stage's last session";

/// The result of a finished stage, at most [`limits::STAGE_RESULT_TOKENS_MAX`] tokens.
#[must_use]
pub fn stage_result(facts: &StageFacts<'_>) -> String {
    let (progress, next_prompt) = facts.notes.map_or(("", ""), texts);
    let mut page = format!("# Stage {}: {}\n", facts.stage, one_line(facts.name, LINE_CHARS_MAX));
    let files: String = facts.files.iter().map(|file| item(file)).collect();
    let mark = Mark { prefix: "- ", whole: "git" };
    add(&mut page, "Files changed", &cut(&files, 250, Keep::First, mark));
    let done = said(progress, Heading::Done.name());
    add(&mut page, "Done", &quotation(done.as_deref(), 240));
    let decisions = said(progress, DECISIONS)
        .or_else(|| said(next_prompt, DECISIONS))
        .or_else(|| said(next_prompt, Heading::State.name()));
    add(&mut page, DECISIONS, &quotation(decisions.as_deref(), 330));
    let interfaces = said(progress, INTERFACES).or_else(|| said(next_prompt, INTERFACES));
    add(&mut page, INTERFACES, &quotation(interfaces.as_deref(), 330));
    let check = facts.check.map(|(command, outcome)| command_line(command, outcome));
    add(&mut page, "Validation", &cut(&check.unwrap_or_default(), 70, Keep::First, mark));
    let notes = [said(progress, Heading::Issues.name()), said(next_prompt, Heading::WhatToAvoid.name())];
    let learned = facts.facts.iter().map(|fact| one_line(&fact.text, 2 * LINE_CHARS_MAX));
    let notes: Vec<String> = notes.into_iter().flatten().chain(learned).collect();
    add(&mut page, "Notes", &quotation(Some(&notes.join("\n")), 200));
    cut(&page, limits::STAGE_RESULT_TOKENS_MAX, Keep::First, Mark { prefix: "", whole: ARCHIVE })
}

/// What a person reads about a stage that failed for good, at most
/// [`limits::STAGE_DIAGNOSIS_TOKENS_MAX`] tokens.
#[must_use]
pub fn diagnosis(facts: &FailureFacts<'_>) -> String {
    let name = one_line(facts.name, LINE_CHARS_MAX);
    let mut page = format!("# Stage {} failed: {name}\n\n", facts.stage);
    page.push_str(&match facts.tries.len() {
        1 => "It was tried once.\n".to_owned(),
        times => format!("It was tried {times} times.\n"),
    });
    if !facts.blocked.is_empty() {
        let waiting: Vec<&str> = facts.blocked.iter().map(StageId::as_str).collect();
        page.push_str(&format!("Blocked by it: {}.\n", one_line(&waiting.join(", "), 4 * LINE_CHARS_MAX)));
    }
    add(&mut page, "What you can do", &ways_on(facts));
    if let Some(check) = facts.check {
        let line = command_line(&check.command, &check.outcome);
        add(&mut page, "The last check", &format!("{line}\n{}", quotation(Some(&check.tail), 1_000)));
    }
    let first = facts.tries.len().saturating_sub(limits::STAGE_DIAGNOSIS_TRIES_MAX);
    for (index, attempt) in facts.tries.iter().enumerate().skip(first) {
        add(&mut page, &format!("Try {}", index + 1), &try_lines(attempt));
    }
    let whole = "what `ekiden show` prints of its sessions";
    cut(&page, limits::STAGE_DIAGNOSIS_TOKENS_MAX, Keep::First, Mark { prefix: "", whole })
}

fn ways_on(facts: &FailureFacts<'_>) -> String {
    let (stage, manifest) = (facts.stage, shell_word(facts.manifest));
    let sessions = format!(
        "`ekiden sessions --stage {stage}` lists its sessions, and `ekiden show N --stage {stage}` tells what session N \
         saw, said and left"
    );
    if facts.is_skipped {
        return format!(
            "- The plan does without it, as its manifest says. {sessions}.\n\
             - To have it done after all, once the run is over: `ekiden execute {manifest} --only {stage}`.\n"
        );
    }
    let merge = match branch(facts.tree, stage) {
        Some(branch) => format!("first `git merge {branch}`, which has what is done; then "),
        None => String::new(),
    };
    format!(
        "- After a repair in `{}`: `ekiden resume` tries again what the run has left.\n\
         - {sessions}.\n\
         - In a new run instead: {merge}`ekiden execute {manifest} --new --from {stage}`.\n",
        one_line(facts.tree, 2 * LINE_CHARS_MAX)
    )
}

/// The branch of all that is done, which the stage's worktree is named after. In place there is none.
fn branch(tree: &str, stage: &StageId) -> Option<String> {
    let run = |name: &str| {
        let run = name.strip_suffix(stage.as_str())?.strip_suffix('-')?;
        RunId::try_from(run.to_owned()).ok()
    };
    tree.rsplit('/').find_map(run).map(|run| format!("ekiden/{run}"))
}

fn try_lines(attempt: &TryFacts<'_>) -> String {
    let (progress, next_prompt) = attempt.notes.map_or(("", ""), texts);
    let mut text =
        format!("It ended so: {}.\n", one_line(attempt.cause, LINE_CHARS_MAX).trim_end_matches('.'));
    let words = [
        ("Done", said(progress, Heading::Done.name())),
        ("Where it stopped", said(progress, Heading::StoppedAt.name())),
        ("What it found wrong", said(progress, Heading::Issues.name())),
        ("What it found not to work", said(next_prompt, Heading::WhatToAvoid.name())),
    ];
    for (label, words) in words {
        let words = quotation(words.as_deref(), 100);
        if !words.is_empty() {
            text.push_str(&format!("\n{label}:\n\n{words}"));
        }
    }
    text
}

/// The two files of notes; a rescue has the headings of the second.
fn texts(notes: &Notes) -> (&str, &str) {
    match notes {
        Notes::Handoff { progress, next_prompt } | Notes::Continuation { progress, next_prompt } => {
            (progress, next_prompt)
        }
        Notes::Rescue { text } => ("", text),
    }
}

/// What stands under a heading, if it says something.
fn said(text: &str, heading: &str) -> Option<String> {
    let outline = outline(text);
    let wanted = normal(heading);
    let named = |text: &str| normal(text).trim_end_matches(':').trim_end() == wanted;
    let mut sections = outline.headings.iter().enumerate().filter(|(_, heading)| named(&heading.text));
    sections.find_map(|(index, _)| {
        let section = &text[outline.section(index, text.len(), |_| false)];
        (!says_nothing(Heading::Done, section)).then(|| section.trim().to_owned())
    })
}

/// A section, if there is something to say.
fn add(page: &mut String, heading: &str, text: &str) {
    if !text.is_empty() {
        page.push_str(&format!("\n## {heading}\n\n{text}"));
    }
}

fn item(line: &str) -> String {
    format!("- {}\n", one_line(line, LINE_CHARS_MAX))
}

fn command_line(command: &str, outcome: &str) -> String {
    let (command, outcome) = (one_line(command, LINE_CHARS_MAX / 2), one_line(outcome, LINE_CHARS_MAX / 2));
    format!("- `{command}`: {outcome}\n")
}

/// A foreign text as a block quotation; nothing if there is none.
fn quotation(text: Option<&str>, tokens_max: usize) -> String {
    let text = strip_protocol(&clean(text.unwrap_or_default()).text).0;
    let text = cut_long_lines(text.trim());
    let lines: String = text.lines().map(|line| format!("> {line}\n")).collect();
    cut(&lines, tokens_max, Keep::First, Mark { prefix: "> ", whole: ARCHIVE })
}

/// A path as one word for a shell.
fn shell_word(path: &str) -> String {
    let path = clean(path).text.replace('\n', " ");
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_');
    if !path.is_empty() && path.chars().all(plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}
