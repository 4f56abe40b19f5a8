//! Observations from a session that a person started.

use super::ObservationKind as Kind;
use super::{Observation, Origin};
use crate::guard::checkpoint::CheckpointReason;
use crate::guard::document::{Filled, TranscriptFacts};
use crate::ralph;
use crate::time::Timestamp;

#[derive(Debug, Clone, Copy)]
pub struct Checkpoint<'a> {
    pub reason: CheckpointReason,
    pub percent: Option<u64>,
    pub document: &'a str,
    pub commit: Option<&'a str>,
    pub wip_ref: Option<&'a str>,
    pub files: &'a [String],
}

/// `Context Checkpoint L2 at 87% - ANV-123`, and its commit if it made one.
pub fn checkpoint(from: &Origin, time: Timestamp, taken: &Checkpoint<'_>) -> Vec<Observation> {
    let title = checkpoint_title(
        &taken.reason.to_string(),
        taken.percent,
        from.issue.as_deref(),
    );
    let mut text = format!("Handoff document: {}", taken.document);
    if !taken.files.is_empty() {
        text += &format!("\nNot committed: {}", taken.files.join(", "));
    }
    let made = Observation::new(from, time, Kind::Change, &title, &text);
    let made = made.map(|made| made.concept("checkpoint").about(taken.files));
    let commit = taken.commit.and_then(|commit| {
        let place = taken.wip_ref.unwrap_or("the branch");
        let title = format!(
            "Work in progress kept in {}",
            &commit[..commit.len().min(10)]
        );
        let text = format!("Commit {commit} on {place}");
        let made = Observation::new(from, time, Kind::Commit, &title, &text)?;
        Some(made.concept("wip").about(taken.files))
    });
    made.into_iter().chain(commit).collect()
}

pub(super) fn checkpoint_title(reason: &str, percent: Option<u64>, issue: Option<&str>) -> String {
    let percent = percent.map(|percent| format!(" at {percent}%"));
    let issue = issue.map(|issue| format!(" - {issue}"));
    format!(
        "Context Checkpoint {reason}{}{}",
        percent.unwrap_or_default(),
        issue.unwrap_or_default()
    )
}

/// How `ralph-state.json` changed: where the loop's next iteration resumes.
pub fn iteration(
    from: &Origin,
    time: Timestamp,
    number: u32,
    left: &ralph::Checkpoint,
) -> Option<Observation> {
    let how = match (left.active, &left.resume_summary) {
        (false, _) => "leaves no handoff".to_owned(),
        (true, None) => "handed off".to_owned(),
        (true, Some(next)) => format!("handed off: {next}"),
    };
    let lines = [
        ("Handoff document", &left.handoff_file),
        ("Item", &left.current_todo_item),
    ];
    let lines = lines.iter().filter_map(|(name, value)| {
        let value = value.as_ref().filter(|_| left.active)?;
        Some(format!("{name}: {value}"))
    });
    let text: Vec<String> = lines.collect();
    let title = format!("Iteration {number} {how}");
    let made = Observation::new(from, time, Kind::Change, &title, &text.join("\n"))?;
    let files = left.files_in_progress.iter().map(|file| &file.path);
    Some(made.concept("iteration").about(files))
}

/// A person's request. `prompt` may be an excerpt.
pub fn prompt(from: &Origin, time: Timestamp, prompt: &str) -> Option<Observation> {
    let asked = super::without_private(prompt);
    let title = asked.lines().find(|line| !line.trim().is_empty())?;
    Observation::new(from, time, Kind::Prompt, title, &asked)
}

/// The observations at a session's end: its summary, the commands that failed last, and what the agent filled into
/// the session's document.
pub fn session_end(
    from: &Origin,
    time: Timestamp,
    facts: &TranscriptFacts,
    filled: &Filled,
) -> Vec<Observation> {
    let of_one = |kind, title: &str, text: &str| Observation::new(from, time, kind, title, text);
    let mut all: Vec<Observation> = facts
        .failed
        .iter()
        .filter_map(|failed| {
            of_one(
                Kind::Failure,
                &failed.command,
                &super::of_record::how(failed),
            )
        })
        .collect();
    let decided = filled.decisions.iter();
    all.extend(decided.filter_map(|line| of_one(Kind::Decision, line, "")));
    if let Some(test) = &facts.test {
        let how = if test.passed { "passed" } else { "failed" };
        let title = format!("`{}` {how}", test.command);
        all.extend(of_one(Kind::Verification, &title, &test.last_line));
    }
    let sections = [
        ("Asked", facts.asked_last.iter().cloned().collect()),
        ("Done", filled.done.clone()),
        ("Blockers", filled.blockers.clone()),
        ("Edited", facts.edited.clone()),
        ("Last words", facts.last_words.iter().cloned().collect()),
    ];
    let text: Vec<String> = sections
        .iter()
        .filter(|(_, lines)| !lines.is_empty())
        .map(|(name, lines)| format!("{name}: {}", lines.join("\n")))
        .collect();
    let title = facts.task.as_deref().and_then(|task| task.lines().next());
    if !text.is_empty() {
        let title = format!("Session: {}", title.unwrap_or("without a task"));
        let made = of_one(Kind::Summary, &title, &text.join("\n"));
        all.extend(made.map(|made| made.about(&facts.edited)));
    }
    all
}
