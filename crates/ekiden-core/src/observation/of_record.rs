//! Observations from a run's records.

use super::ObservationKind as Kind;
use super::watched::checkpoint_title;
use super::{Observation, Origin};
use crate::ends::EndCause;
use crate::event::{AttemptEnded, AttemptEvent, Event, RelayEvent, Survey, TaskOutcome};
use crate::guard::{Level, Window};
use crate::handoff::{FileText, HandoffFile, Heading, first_line, said};
use crate::ids::{AttemptId, StageId};
use crate::knowledge::NewKnowledge;
use crate::prompt::{FailedCommand, is_comment};
use crate::record::Record;
use crate::steering::{Steered, Steering};
use crate::time::Timestamp;

/// The observations of a record. The same record always gives the same ones. `window` is that of the stage's session,
/// as far as it is known.
pub fn of_record(record: &Record, from: &Origin, window: Option<Window>) -> Vec<Observation> {
    let (time, prompt) = (record.time, |text: &str| {
        super::watched::prompt(from, record.time, text)
    });
    match &record.event {
        Event::RunStarted(header) => {
            let stages = header.manifest.stages.iter();
            stages.filter_map(|stage| prompt(&stage.task)).collect()
        }
        Event::Continued(continued) => prompt(&continued.task.text).into_iter().collect(),
        Event::RunResumed(resumed) => {
            let answer = resumed.answer.as_ref().map(|answer| answer.words.as_str());
            answer.and_then(prompt).into_iter().collect()
        }
        Event::Steered(Steered {
            steering: Steering::Instruct { words } | Steering::Answer { words, .. },
            ..
        }) if !is_comment(words) => prompt(words).into_iter().collect(),
        Event::Stage { stage, event } => of_stage(from, time, stage, event, window),
        Event::LogicChanged { .. }
        | Event::LogAccepted { .. }
        | Event::UtcOffsetChanged { .. }
        | Event::Woke
        | Event::Worktree { .. }
        | Event::Delivered { .. }
        | Event::StopRequested(_)
        | Event::Steered(_)
        | Event::Elsewhere { .. } => Vec::new(),
    }
}

fn of_stage(
    from: &Origin,
    time: Timestamp,
    stage: &StageId,
    event: &RelayEvent,
    window: Option<Window>,
) -> Vec<Observation> {
    match event {
        RelayEvent::Task { outcome, .. } => of_task(from, time, outcome),
        RelayEvent::Attempt { attempt, event } => {
            let from = Origin {
                session: Some(format!("{stage}/{}", attempt.session)),
                ..from.clone()
            };
            match event {
                AttemptEvent::LevelCrossed {
                    level: level @ (Level::L2 | Level::L3),
                    usage_tokens,
                    ..
                } => {
                    let percent = window.map(|window| window.percent(*usage_tokens));
                    let title =
                        checkpoint_title(&level.to_string(), percent, from.issue.as_deref());
                    let text = format!("Context: {usage_tokens} tokens");
                    let made = Observation::new(&from, time, Kind::Change, &title, &text);
                    made.map(|made| made.concept("checkpoint"))
                        .into_iter()
                        .collect()
                }
                AttemptEvent::Ended(ended) => of_end(&from, time, *attempt, ended),
                AttemptEvent::LevelCrossed { .. }
                | AttemptEvent::Started { .. }
                | AttemptEvent::WindowChanged { .. }
                | AttemptEvent::BaselineMeasured { .. }
                | AttemptEvent::SpendCrossed { .. }
                | AttemptEvent::Compacted { .. }
                | AttemptEvent::MessageDelivered
                | AttemptEvent::StopAsked { .. }
                | AttemptEvent::Answered { .. }
                | AttemptEvent::TurnEnded { .. }
                | AttemptEvent::RefusalsSpent => Vec::new(),
            }
        }
        RelayEvent::Woke | RelayEvent::KnowledgeEdited { .. } | RelayEvent::ListEdited { .. } => {
            Vec::new()
        }
    }
}

fn of_task(from: &Origin, time: Timestamp, outcome: &TaskOutcome) -> Vec<Observation> {
    let made = match outcome {
        TaskOutcome::Verified { check } => {
            let mut lines = check.tail.lines().rev().map(str::trim);
            let last = lines.find(|line| !line.is_empty());
            let last = last.map_or(String::new(), |line| format!(": {line}"));
            let title = format!("Verification {check}{last}");
            Observation::new(from, time, Kind::Verification, &title, &check.tail)
        }
        TaskOutcome::Surveyed { survey: Ok(survey) } => of_survey(from, time, survey),
        // The survey after it names what was committed.
        TaskOutcome::Committed { .. }
        | TaskOutcome::Surveyed { survey: Err(_) }
        | TaskOutcome::Published
        | TaskOutcome::Archived => None,
    };
    made.into_iter().collect()
}

fn files_of(count: usize) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} file{plural}")
}

/// Commits and files that a session changed; none if it changed nothing.
fn of_survey(from: &Origin, time: Timestamp, survey: &Survey) -> Option<Observation> {
    let changed = survey.changed();
    let files = changed
        .iter()
        .filter_map(|line| line.trim_start().split_once(' '));
    let files: Vec<&str> = files.map(|(_, path)| path.trim()).collect();
    let title = match survey.commits.as_slice() {
        [] if files.is_empty() => return None,
        [] => format!("Changed {}: {}", files_of(files.len()), files.join(", ")),
        [newest, ..] => format!("Committed: {newest}"),
    };
    let text = [survey.commits.join("\n"), survey.diff_stat.join("\n")].join("\n");
    let made = Observation::new(from, time, Kind::Change, &title, &text)?;
    Some(made.about(files))
}

fn of_end(
    from: &Origin,
    time: Timestamp,
    attempt: AttemptId,
    ended: &AttemptEnded,
) -> Vec<Observation> {
    let of_one = |kind, title: &str, text: &str| Observation::new(from, time, kind, title, text);
    let number = attempt.session;
    let text = |file| ended.files.get(file).text().unwrap_or_default();
    let under = |heading: Heading| said(text(heading.file()), heading.name());
    let resume = under(Heading::ResumeAt);
    let mut all = Vec::new();
    if let Some(resume) = &resume {
        let first = first_line(resume).unwrap_or_default();
        let sections = [
            Heading::State,
            Heading::ResumeAt,
            Heading::Done,
            Heading::Issues,
        ];
        let sections = sections
            .into_iter()
            .filter_map(|heading| Some(format!("{}: {}", heading.name(), under(heading)?)));
        let body: Vec<String> = sections.collect();
        let title = format!("Session {number} handed off: {first}");
        all.extend(of_one(Kind::Handoff, &title, &body.join("\n")));
    }
    let mut each = |kind, lines: Option<String>| {
        let lines = lines.unwrap_or_default();
        let bullets = lines.lines().filter_map(bullet);
        all.extend(bullets.filter_map(|line| of_one(kind, line, "")));
    };
    each(Kind::Failure, under(Heading::WhatToAvoid));
    each(
        Kind::Decision,
        said(text(HandoffFile::NextPrompt), "Decisions"),
    );
    if let FileText::Text(text) = ended.files.get(HandoffFile::Knowledge) {
        let facts = NewKnowledge::parse(text).core;
        all.extend(
            facts
                .iter()
                .filter_map(|new| of_one(Kind::Discovery, &new.fact.text, "")),
        );
    }
    let failed = ended.traces.failed.iter();
    all.extend(failed.filter_map(|failed| of_one(Kind::Failure, &failed.command, &how(failed))));
    let (cause, counters) = (ended.cause.to_string(), &ended.counters);
    let words = ended.traces.last_words.as_deref().unwrap_or_default();
    let done = under(Heading::Done);
    let own_end = ended.cause == EndCause::Completed;
    let what = done.as_deref().or(own_end.then_some(words));
    let what = what.and_then(first_line).unwrap_or(&cause);
    let title = format!("Session {number}: {}", bullet(what).unwrap_or(what));
    let body = format!(
        "{cause}; {}, {} tool calls, {} tokens of context\n{words}",
        counters.duration, counters.tool_calls, counters.usage_tokens
    );
    all.extend(of_one(Kind::Summary, &title, &body));
    all
}

/// The words of a list item.
fn bullet(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let words = line.strip_prefix("- ").or_else(|| line.strip_prefix("* "));
    words.map(str::trim).filter(|words| !words.is_empty())
}

pub(super) fn how(failed: &FailedCommand) -> String {
    let code = failed.code.map(|code| format!("exit code {code}: "));
    format!("{}{}", code.unwrap_or_default(), failed.last_line)
}
