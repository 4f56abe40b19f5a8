//! The entries of a plan's stages, beside those of their relays.

use ekiden_core::effect::{Effect, WorktreeEffect};
use ekiden_core::event::{Elsewhere, Event, Merge, WorktreeEvent};
use ekiden_core::ids::StageId;
use ekiden_core::outcome::Outcome;
use ekiden_core::plan::{StageEnd, StageState};
use ekiden_core::record::Record;
use ekiden_core::relay::Relay;
use ekiden_core::run::Run;

use super::entry::Entry;
use super::json::{Fields, fields};
use super::line::{Line, Tone, one_line, warning_line};
use super::reporter::Reporter;
use super::{outcome, phrase};

/// How many files are named of many.
const FILES_SHOWN: usize = 5;

impl Reporter {
    /// The entries of a record about a plan's stages.
    pub(super) fn of_plan(&mut self, record: &Record, run: &Run) {
        if let Event::Worktree { stage, event, .. } = &record.event
            && let Some(entry) = of_worktree(event, stage, run)
        {
            self.add_of(stage, entry);
        }
        if let Event::Elsewhere { stage, event } = &record.event
            && let Elsewhere::Recorded { event, .. } = event
            && let Event::RunStarted(header) = &**event
            && let Some(before) = &header.before
            && let Some(entry) = not_set_up(before.not_set_up.as_ref())
        {
            self.add_of(stage, entry);
        }
        if let Event::Stage { stage, .. } = &record.event {
            self.retried(stage, run);
        }
        if run.plan().over() != self.over.len() {
            // A resume or an answer lets a stage continue, and its next end is reported again.
            let is_over =
                |stage: &StageId| matches!(run.plan().state(stage), Some(StageState::Over(_)));
            self.over.retain(is_over);
            let ends = run.plan().states().filter_map(|(stage, state)| {
                let StageState::Over(end) = state else {
                    return None;
                };
                self.over.insert(stage.clone()).then_some((stage, end))
            });
            let mut ends: Vec<_> = ends.collect();
            ends.sort_by_key(|(_, end)| matches!(end, StageEnd::Blocked { .. }));
            for (stage, end) in ends {
                let mut entry = over(end, run.relay(stage));
                if let StageEnd::Failed(Outcome::Blocked { question }) = end {
                    let lines = outcome::asks(stage, question, &self.there).into_iter();
                    entry = entry.lines(lines.skip(1).map(Line::from));
                }
                self.add_of(stage, entry);
            }
        }
        for effect in &record.effects {
            if let Effect::Worktree {
                stage,
                effect: WorktreeEffect::Prepare,
            } = effect
            {
                let name = run.stage(stage).map(|stage| one_line(&stage.task_name));
                let name = name.unwrap_or_default();
                let begins = Line::new(Tone::Plain, "begins");
                let line = begins.with(Tone::Quiet, format!(" · {name}"));
                self.add_of(stage, what("begins", fields! { "name": name }).line(line));
            }
        }
    }

    fn retried(&mut self, stage: &StageId, run: &Run) {
        let attempt = run.tries(stage);
        let before = self.tries.insert(stage.clone(), attempt).unwrap_or(1);
        if attempt > before {
            let max = run.stage(stage).map_or(1, |stage| stage.part.retries + 1);
            let why = run.last_failure(stage).map(one_line).unwrap_or_default();
            let text = format!("failed: {why}; try {attempt} of {max} begins");
            let fields = fields! { "attempt": attempt, "max": max, "why": why };
            self.add_of(
                stage,
                what("tried_again", fields).line(Line::attention(text)),
            );
        }
    }
}

fn what(what: &str, fields: Fields) -> Entry {
    Entry::new("stage")
        .fields(fields! { "what": what })
        .fields(fields)
}

fn not_set_up(why: Option<&String>) -> Option<Entry> {
    let why = one_line(why?);
    let text = Line::attention(format!("begins without its setup: {why}"));
    Some(what("not_set_up", fields! { "why": why }).line(text))
}

fn of_worktree(event: &WorktreeEvent, stage: &StageId, run: &Run) -> Option<Entry> {
    // The stage may have been given back as often as it can be.
    let then = match run.plan().state(stage) {
        Some(StageState::Over(_)) => "",
        Some(_) | None => "; it goes back to be fixed",
    };
    let (entry, text) = match event {
        WorktreeEvent::Prepared { worktree: Err(why) } => {
            let why = warning_line(why);
            let entry = what("no_worktree", fields! { "why": why });
            (entry, format!("has no place to work: {why}"))
        }
        WorktreeEvent::Prepared {
            worktree: Ok(prepared),
        } => return not_set_up(prepared.context.not_set_up.as_ref()),
        WorktreeEvent::Confirmed { .. } => return None,
        WorktreeEvent::Merged { merge } => match merge {
            Merge::Done {
                commit,
                files,
                undeclared,
            } => {
                let stage = run.stage(stage);
                let valid = stage.is_some_and(|stage| stage.verification.is_some());
                return Some(merged(commit, files.len(), valid, undeclared));
            }
            Merge::Conflict { files } => {
                let named = some(files);
                let text = format!("changed the same lines as others: {named}{then}");
                (what("conflict", fields! { "files": files }), text)
            }
            Merge::Broken { check } => {
                let check = one_line(&check.to_string());
                let text = format!("merges, but then its validation {check}{then}");
                (what("merge_broke", fields! { "check": check }), text)
            }
            Merge::Refused { tail } => {
                let text = format!("cannot be committed: a hook refused it{then}");
                (what("merge_refused", fields! { "tail": tail }), text)
            }
            Merge::Failed { error } => {
                let error = warning_line(error);
                let entry = what("merge_failed", fields! { "error": error });
                (entry, format!("cannot be merged: {error}"))
            }
            Merge::Cancelled => return None,
        },
    };
    Some(entry.line(Line::attention(text)))
}

fn merged(commit: &str, files: usize, valid: bool, undeclared: &[String]) -> Entry {
    let count = phrase::count(files as u64, "file");
    let valid = if valid { ", valid" } else { "" };
    let text = format!("{}, {count}{valid}", phrase::commit(commit));
    let beside = (!undeclared.is_empty()).then(|| {
        let named = some(undeclared);
        Line::attention(format!("changed files that it had not declared: {named}"))
    });
    let fields = fields! { "commit": commit, "files": files, "undeclared": undeclared };
    what("merged", fields)
        .line(Line::labelled("merged", Tone::Plain, text))
        .lines(beside)
}

fn over(end: &StageEnd, relay: Option<&Relay>) -> Entry {
    let (how, fields, line) = match end {
        StageEnd::Done => {
            let totals = relay.map(|relay| relay.totals).unwrap_or_default();
            let mut figures = format!(" · {}", phrase::count(totals.sessions.into(), "session"));
            if totals.running.as_secs() > 0 {
                figures.push_str(&format!(" · {}", phrase::duration(totals.running)));
            }
            if totals.spend.tokens > 0 {
                figures.push_str(&format!(" · {} tokens", phrase::spent_tokens(totals.spend)));
            }
            let (sessions, running, tokens) =
                (totals.sessions, totals.running, totals.spend.tokens);
            let fields = fields! { "sessions": sessions, "running_ms": running, "tokens": tokens };
            let line = Line::new(Tone::Done, "done").with(Tone::Plain, figures);
            ("done", fields, line)
        }
        StageEnd::Failed(outcome) => {
            let line = if let Outcome::Blocked { .. } = outcome {
                Line::new(Tone::Attention, "needs your input:")
            } else {
                let why = format!(": {}", outcome::cause(outcome));
                Line::new(Tone::Failed, "failed").with(Tone::Plain, why)
            };
            let fields = fields! { "outcome": outcome, "skipped": false };
            ("failed", fields, line)
        }
        StageEnd::Skipped(outcome) => {
            let why = format!(", since it failed: {}", outcome::cause(outcome));
            let line = Line::new(Tone::Attention, "skipped").with(Tone::Plain, why);
            let fields = fields! { "outcome": outcome, "skipped": true };
            ("failed", fields, line)
        }
        StageEnd::Blocked { by } => {
            let blocked = Line::new(Tone::Attention, "blocked");
            let line = blocked.with(Tone::Plain, format!(" by {by}"));
            ("blocked", fields! { "by": by }, line)
        }
        StageEnd::LeftOut { with } => {
            let why = with.as_ref().map_or_else(
                || "as you asked".to_owned(),
                |with| format!("since it needs {with}"),
            );
            let line = Line::new(Tone::Quiet, format!("left out, {why}"));
            ("left_out", fields! { "with": with }, line)
        }
    };
    what("over", fields! { "end": how })
        .fields(fields)
        .line(line)
}

fn some(names: &[String]) -> String {
    let shown = &names[..names.len().min(FILES_SHOWN)];
    let shown: Vec<String> = shown.iter().map(|name| one_line(name)).collect();
    match names.len().saturating_sub(FILES_SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
