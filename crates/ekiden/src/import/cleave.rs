//! A relay of cleave, in any edition: its handoff, its knowledge, and how many sessions it had.

use std::rc::Rc;
use std::time::Duration;

use ekiden_core::handoff::{self, FileText, HandoffFiles, Marker, Status};
use ekiden_core::hash::sha256_hex;
use ekiden_core::ids::SessionNumber;
use ekiden_core::knowledge::{CORE, Knowledge};
use ekiden_core::renewal::LastSession;

use super::sessions::{self, Earlier};
use super::source::Source;
use crate::failure::Failure;

/// What cleave wrote under its headings for people, which is not knowledge.
const EXPLANATIONS: [&str; 2] = [
    "persistent insights that matter for every session",
    "recent session notes (auto-pruned",
];
/// Lines with which cleave's own text begins after the task, in a prompt that was kept.
const AFTER_TASK: [&str; 4] = [
    "--- PROGRESS FROM PRIOR SESSIONS ---",
    "--- ACCUMULATED KNOWLEDGE ---",
    "AUTOMATED SESSION RELAY",
    "SESSION RELAY PROTOCOL",
];
/// What tells the task, as `.cleave/` has it. cleave 6 keeps none, and writes its limit as it starts.
const TASKS: [&str; 3] = [
    ".max_sessions",
    ".continuation_prompt.md",
    "logs/session_1_prompt.md",
];
/// A copy dates its files in any order, this close to each other.
const SAME_TIME: Duration = Duration::from_secs(10);
/// How many sessions a relay may have had: as many as cleave allows.
const SESSIONS_MAX: u32 = 10_000;

#[derive(Debug)]
pub struct Left {
    /// The task, if a prompt that was kept has it, and the prompt's name.
    pub task: Option<(String, String)>,
    pub last: LastSession,
    /// The sessions that left anything.
    pub earlier: Rc<[Earlier]>,
    pub knowledge: String,
    /// It was done there.
    pub is_complete: bool,
    /// A session handed off, or there is a task for the first one.
    pub is_begun: bool,
    /// A hash of everything that it left, which identifies it.
    pub hash: String,
}

/// What the relay in a project left, if anything.
pub fn left(source: &Source, marker: &Marker) -> Result<Option<Left>, Failure> {
    let text = |name: &str| source.text(&format!(".cleave/{name}"));
    let (progress, next_prompt) = (text("PROGRESS.md")?, text("NEXT_PROMPT.md")?);
    let knowledge = text("KNOWLEDGE.md")?.unwrap_or_default();
    let number = newest(source)?;
    let known = known(&knowledge, number.get());
    let has_handoff = progress.is_some() || next_prompt.is_some();
    if !has_handoff && known == Knowledge::default() {
        return Ok(None);
    }
    let task = task(source)?;
    let said = |text: &Option<String>| text.clone().map_or(FileText::Absent, FileText::Text);
    let files = HandoffFiles {
        progress: said(&progress),
        next_prompt: said(&next_prompt),
        knowledge: FileText::Absent,
    };
    let inspection = handoff::inspect(&files, marker);
    // One that is older than the progress is of the work before.
    let is_current = |name: &str| {
        let modified = |name: &str| source.modified(&format!(".cleave/{name}"));
        let age = modified("PROGRESS.md").zip(modified(name));
        age.is_none_or(|(progress, of)| progress <= of + SAME_TIME)
    };
    let signal = text(".handoff_signal")?.unwrap_or_default();
    let status = source.object(".cleave/status.json")?.unwrap_or_default();
    let status = status.get("status").and_then(|status| status.as_str());
    let is_complete = inspection.status == Some(Status::Complete)
        || signal.contains("TASK_FULLY_COMPLETE") && is_current(".handoff_signal")
        || matches!(status, Some("complete" | "verified_complete")) && is_current("status.json");
    let of_task = task.as_ref().map(|(text, _)| text.clone());
    let all = [&progress, &next_prompt, &Some(knowledge), &of_task];
    let all: Vec<&str> = all
        .into_iter()
        .map(|text| text.as_deref().unwrap_or_default())
        .collect();
    Ok(Some(Left {
        hash: sha256_hex(format!("{number}\0{}", all.join("\0")).as_bytes()),
        is_begun: has_handoff || task.is_some(),
        task,
        last: LastSession::of_files(number, &files, &inspection),
        earlier: sessions::earlier(source)?.into(),
        knowledge: known.render(),
        is_complete,
    }))
}

/// The knowledge without cleave's own text. If there are none of its headings, everything is a fact.
pub(super) fn known(text: &str, session: u32) -> Knowledge {
    let is_ours = |line: &&str| {
        let line = line.trim().to_lowercase();
        !EXPLANATIONS.iter().any(|words| line.starts_with(words))
            && line != "discoveries here — this section is never pruned."
    };
    let own: Vec<&str> = text.lines().filter(is_ours).collect();
    let own = own.join("\n");
    let mut known = Knowledge::parse(&own);
    if known == Knowledge::default() {
        known = Knowledge::parse(&format!("## {CORE}\n\n{own}"));
    }
    known.log.retain(|entry| entry.session <= session);
    known
}

/// The highest session number in any of cleave's counters.
fn newest(source: &Source) -> Result<SessionNumber, Failure> {
    let mut numbers = Vec::new();
    for name in [".session_count", ".session_counter"] {
        let text = source.text(&format!(".cleave/{name}"))?.unwrap_or_default();
        numbers.extend(text.trim().parse::<u32>());
    }
    let status = source.object(".cleave/status.json")?.unwrap_or_default();
    let session = status.get("session").and_then(serde_json::Value::as_u64);
    numbers.extend(session.and_then(|number| u32::try_from(number).ok()));
    let logs = source.names(".cleave/logs")?;
    let of_log = |name: &String| {
        let (number, _) = name.strip_prefix("session_")?.split_once('_')?;
        number.parse::<u32>().ok()
    };
    numbers.extend(logs.iter().filter_map(of_log));
    let newest = numbers
        .into_iter()
        .filter(|number| *number <= SESSIONS_MAX)
        .max();
    Ok(newest
        .and_then(|number| SessionNumber::try_from(number).ok())
        .unwrap_or(SessionNumber::FIRST))
}

/// The task that the newest work was given, and the name of its file.
fn task(source: &Source) -> Result<Option<(String, String)>, Failure> {
    let names = TASKS.map(|name| format!(".cleave/{name}"));
    let mut newest = None;
    for name in names {
        if let Some(text) = source.text(&name)? {
            let modified = source.modified(&name);
            newest = newest.max(Some((modified, name, text)));
        }
    }
    let prompt = newest.filter(|(_, name, _)| name.ends_with(".md"));
    Ok(prompt.and_then(|(_, name, text)| Some((task_of(&text)?, name))))
}

fn task_of(prompt: &str) -> Option<String> {
    let is_task = |line: &&str| !AFTER_TASK.iter().any(|words| line.contains(words));
    let lines: Vec<&str> = prompt.lines().take_while(is_task).collect();
    // A rule or a frame precedes cleave's own text.
    let task = lines.join("\n");
    let task = task
        .trim_end_matches(|c: char| c.is_whitespace() || matches!(c, '-' | '═' | '━' | '#' | '*'));
    (!task.trim().is_empty()).then(|| format!("{}\n", task.trim_start()))
}
