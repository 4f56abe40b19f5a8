//! What a finished stage leaves for the stages that need it, and the diagnosis of a failed one.
//!
//! The page has paths from git, commands with their results, and the agent's own words under headings that
//! label them.

use super::budget::{Keep, Mark, NOWHERE, cut};
use super::notes::Notes;
use super::page::{QUOTE, foreign, section, within};
use super::quote::outcome_line;
use super::rescue::CheckFacts;
use crate::handoff::{Heading, said};
use crate::ids::StageId;
use crate::limits;
use crate::text::one_line;

/// What is known about a finished stage.
#[derive(Debug, Clone, Copy)]
pub struct StageFacts<'a> {
    pub stage: &'a StageId,
    pub name: &'a str,
    /// Files that it changed, from git.
    pub files: &'a [String],
    pub check: Option<&'a CheckFacts>,
    /// What its last session left.
    pub notes: Option<&'a Notes>,
}

/// What is known about a stage that failed for good.
#[derive(Debug, Clone, Copy)]
pub struct FailureFacts<'a> {
    pub stage: &'a StageId,
    pub name: &'a str,
    /// The command that carries out stages in a new run, without their names.
    pub execute: &'a str,
    /// Oldest first.
    pub attempts: &'a [FailedAttempt],
    /// The last output of its check or of a hook.
    pub output: Option<LastOutput<'a>>,
    /// Stages that wait for it in vain.
    pub blocked: &'a [StageId],
    /// Stages that a new run would have to carry out.
    pub left: &'a [StageId],
    /// Where the tree of its work is; none if a worker of a fleet has it.
    pub tree: Option<&'a str>,
    /// Where git has all finished work; none for work in place.
    pub merged: Option<&'a str>,
    /// The plan continues without it.
    pub is_skipped: bool,
    /// Its question to the user.
    pub asks: Option<&'a str>,
    /// It was only checked: the user says that it was done before.
    pub is_assumed: bool,
}

/// The output that a diagnosis quotes.
#[derive(Debug, Clone, Copy)]
pub enum LastOutput<'a> {
    /// Of the stage's own check.
    Check(&'a CheckFacts),
    /// Of the check on the result of the merge.
    CheckOnMerge(&'a CheckFacts),
    /// Of a hook that refused to commit the stage's work.
    Hook(&'a str),
}

#[derive(Debug, Clone, PartialEq)]
pub struct FailedAttempt {
    /// How it ended, in ekiden's words: `the check failed (exit code 1)`.
    pub cause: String,
    /// What its last session left.
    pub notes: Option<Notes>,
}

/// The heading that an agent is asked to add to its last `PROGRESS.md`.
pub(super) const DECISIONS: &str = "Decisions";
pub(super) const INTERFACES: &str = "Interfaces";

/// A path or a command, in characters.
const LINE_CHARS_MAX: usize = 160;

/// The result of a finished stage, at most [`limits::STAGE_RESULT_TOKENS_MAX`] tokens.
pub fn stage_result(facts: &StageFacts<'_>) -> String {
    let (progress, next_prompt) = texts(facts.notes);
    let files = list(facts.files.iter().map(String::as_str), 250);
    let done = said(progress, Heading::Done.name());
    let decisions = said(progress, DECISIONS)
        .or_else(|| said(next_prompt, DECISIONS))
        .or_else(|| said(next_prompt, Heading::State.name()));
    let interfaces = said(progress, INTERFACES).or_else(|| said(next_prompt, INTERFACES));
    let check = facts.check.map(command_line);
    let issues = said(progress, Heading::Issues.name());
    let avoid = said(next_prompt, Heading::WhatToAvoid.name());
    let page = [
        result_head(facts.stage, facts.name),
        section("Files changed", &files),
        section("Done", &quotation(done, 240)),
        section(DECISIONS, &quotation(decisions, 330)),
        section(INTERFACES, &quotation(interfaces, 330)),
        section("Validation", &check.unwrap_or_default()),
        section(Heading::Issues.name(), &quotation(issues, 100)),
        section(Heading::WhatToAvoid.name(), &quotation(avoid, 100)),
    ];
    within(&page.concat(), limits::STAGE_RESULT_TOKENS_MAX, NOWHERE)
}

/// The first line of the result of a finished stage. A diagnosis begins with another.
pub fn result_head(stage: &StageId, name: &str) -> String {
    format!("# Stage {stage}: {}\n", one_line(name, LINE_CHARS_MAX))
}

/// What a person reads about a stage that failed for good, at most
/// [`limits::STAGE_DIAGNOSIS_TOKENS_MAX`] tokens.
pub fn diagnosis(facts: &FailureFacts<'_>) -> String {
    let name = one_line(facts.name, LINE_CHARS_MAX);
    let how = match facts.asks.is_some() && !facts.is_skipped {
        true => "asks you",
        false => "failed",
    };
    let mut page = format!("# Stage {} {how}: {name}\n\n", facts.stage);
    page.push_str(&match facts.attempts.len() {
        1 => "It was tried once.\n".to_owned(),
        times => format!("It was tried {times} times.\n"),
    });
    if !facts.blocked.is_empty() {
        let waiting: Vec<&str> = facts.blocked.iter().map(StageId::as_str).collect();
        let waiting = one_line(&waiting.join(", "), 4 * LINE_CHARS_MAX);
        page.push_str(&format!("Blocked by it: {waiting}.\n"));
    }
    page.push_str(&section("What you can do", &ways_on(facts)));
    let asks = facts.asks.unwrap_or_default();
    page.push_str(&section("What it asks", &output(asks)));
    let checked = |check: &CheckFacts| format!("{}\n{}", command_line(check), output(&check.tail));
    page.push_str(&match facts.output {
        None => String::new(),
        Some(LastOutput::Check(check)) => section("The last check", &checked(check)),
        Some(LastOutput::CheckOnMerge(check)) => {
            section("The check after the merge", &checked(check))
        }
        Some(LastOutput::Hook(tail)) => section("What the hook said", &output(tail)),
    });
    let first = (facts.attempts.len()).saturating_sub(limits::STAGE_DIAGNOSIS_TRIES_MAX);
    for (index, attempt) in facts.attempts.iter().enumerate().skip(first) {
        let heading = format!("Try {}", index + 1);
        page.push_str(&section(&heading, &attempt_lines(attempt)));
    }
    let whole = "what `ekiden show` prints of its sessions";
    within(&page, limits::STAGE_DIAGNOSIS_TOKENS_MAX, whole)
}

fn ways_on(facts: &FailureFacts<'_>) -> String {
    let (stage, execute) = (facts.stage, facts.execute);
    let sessions = format!(
        "`ekiden sessions --stage {stage}` lists its sessions, and `ekiden show N --stage {stage}` tells what session N \
         saw, said and left"
    );
    if facts.is_skipped {
        return format!(
            "- The plan does without it, as its manifest says. {sessions}.\n\
             - To have it done after all, once the run is over: `{execute} --only {stage}`.\n"
        );
    }
    let left = facts.left.iter();
    let only: String = left.map(|stage| format!(" --only {stage}")).collect();
    let anew = format!("`{execute} --new{only}`");
    let merge = match facts.merged {
        // The run keeps to the commit that it began from, which no repair changes.
        Some(_) if facts.is_assumed => {
            return format!(
                "- Commit a repair on your branch, then {anew}.\n\
                 - If the cause is outside of the repository: `ekiden resume` checks again once it is repaired.\n"
            );
        }
        Some(merged) => format!("first `git merge {merged}`, which has what is done; then "),
        None => String::new(),
    };
    let answer = match facts.asks {
        Some(_) => format!(
            "- It asks you something: see below. `ekiden answer --stage {stage} \"...\"` answers, and starts it again.\n"
        ),
        None => String::new(),
    };
    let place = match facts.tree {
        Some(tree) => format!("in `{}`", one_line(tree, 2 * LINE_CHARS_MAX)),
        None => "on the workers".to_owned(),
    };
    format!(
        "{answer}- After a repair {place}: `ekiden resume` tries again what the run has left.\n\
         - {sessions}.\n\
         - In a new run instead: {merge}{anew}.\n"
    )
}

fn attempt_lines(attempt: &FailedAttempt) -> String {
    let (progress, next_prompt) = texts(attempt.notes.as_ref());
    let cause = one_line(&attempt.cause, 4 * LINE_CHARS_MAX);
    let mut text = format!("It ended so: {}.\n", cause.trim_end_matches('.'));
    for (label, file, heading) in [
        ("Done", progress, Heading::Done),
        ("Where it stopped", progress, Heading::StoppedAt),
        ("What it found wrong", progress, Heading::Issues),
        (
            "What it found not to work",
            next_prompt,
            Heading::WhatToAvoid,
        ),
    ] {
        let words = quotation(said(file, heading.name()), 100);
        if !words.is_empty() {
            text.push_str(&format!("\n{label}:\n\n{words}"));
        }
    }
    text
}

fn texts(notes: Option<&Notes>) -> (&str, &str) {
    notes.map_or(("", ""), |notes| (&notes.progress, &notes.next_prompt))
}

fn command_line(check: &CheckFacts) -> String {
    let line = outcome_line(&check.command, &check.outcome);
    list([line.as_str()].into_iter(), 70)
}

fn output(tail: &str) -> String {
    quotation(Some(tail.to_owned()), 1_000)
}

fn list<'a>(lines: impl Iterator<Item = &'a str>, tokens_max: usize) -> String {
    let item = |line| format!("- {}\n", one_line(line, LINE_CHARS_MAX));
    let items: String = lines.map(item).collect();
    cut(&items, tokens_max, Keep::First, Mark::new("- ", "git"))
}

/// A foreign text as a block quotation; empty without text.
fn quotation(text: Option<String>, tokens_max: usize) -> String {
    let text = text.unwrap_or_default();
    foreign(&text, QUOTE, tokens_max, Keep::First, NOWHERE)
}
