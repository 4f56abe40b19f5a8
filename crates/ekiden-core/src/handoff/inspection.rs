//! Reading a handoff: what it says, and what is wrong with it.

use serde::{Deserialize, Serialize};

use super::page::{Content, Page};
use super::status::{Word, claimed};
use super::{
    Fault, FaultKind, FileText, HandoffFile, HandoffFiles, Heading, Marker, OpenItems, Severity,
    Status, headings,
};
use crate::knowledge::{Knowledge, NewKnowledge};
use crate::limits;
use crate::markdown::without_bullet;
use crate::text::{one_line, says_the_same, short};

/// How much of a question is kept, in characters: as much as notes may have.
const QUESTION_CHARS_MAX: usize = limits::NEXT_PROMPT_CHARS_MAX;
/// How much of a correction's old words a fault shows, in characters.
const OLD_WORDS_CHARS_MAX: usize = 30;

/// The content of a handoff, and its faults.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inspection {
    /// The agent's claim; `None` if that is unclear.
    pub status: Option<Status>,
    /// The items under "Open items"; `None` without that heading.
    pub open_items: Option<OpenItems>,
    /// The faults, file by file.
    pub faults: Vec<Fault>,
    /// The agent has begun to write: at least one file is there.
    pub begun: bool,
}

impl Inspection {
    /// It has no required fault.
    pub fn is_valid(&self) -> bool {
        self.required().next().is_none()
    }

    /// The handoff is valid and claims that the task is complete.
    pub fn is_done(&self) -> bool {
        self.is_valid() && self.status == Some(Status::Complete)
    }

    /// The faults that make the handoff invalid.
    pub fn required(&self) -> impl Iterator<Item = &Fault> {
        self.of(Severity::Required)
    }

    /// The faults that the agent is asked to repair once.
    pub fn asked_once(&self) -> impl Iterator<Item = &Fault> {
        self.of(Severity::AskedOnce)
    }

    /// What is still missing, as a short list for a refusal: `PROGRESS.md (STATUS, Done),
    /// NEXT_PROMPT.md`.
    pub fn missing(&self) -> String {
        let files = HandoffFile::ALL.into_iter();
        let files: Vec<String> = files.filter_map(|file| self.missing_in(file)).collect();
        if files.is_empty() {
            return "nothing, so end your turn".to_owned();
        }
        files.join(", ")
    }

    fn missing_in(&self, file: HandoffFile) -> Option<String> {
        let mut faults = self
            .required()
            .filter(|fault| fault.file == file)
            .peekable();
        faults.peek()?;
        let parts: Option<Vec<&str>> = faults.map(Fault::part).collect();
        Some(parts.map_or_else(
            || file.to_string(),
            |parts| format!("{file} ({})", parts.join(", ")),
        ))
    }

    fn of(&self, severity: Severity) -> impl Iterator<Item = &Fault> {
        self.faults
            .iter()
            .filter(move |fault| fault.severity() == severity)
    }
}

pub fn inspect(files: &HandoffFiles, marker: &Marker) -> Inspection {
    inspect_after(files, marker, None, None)
}

/// Reads a handoff, and compares its notes with the accepted notes of the session before, and its corrections
/// with the known facts.
pub fn inspect_after(
    files: &HandoffFiles,
    marker: &Marker,
    previous_next_prompt: Option<&str>,
    known: Option<&Knowledge>,
) -> Inspection {
    let mut inspection = Inspection {
        begun: files.begun(),
        ..Inspection::default()
    };
    let mut complete = false;
    if let Some(page) = Page::open(HandoffFile::Progress, files, &mut inspection.faults) {
        complete = read_progress(&page, marker, &mut inspection);
    }
    if !complete
        && let Some(page) = Page::open(HandoffFile::NextPrompt, files, &mut inspection.faults)
    {
        read_next_prompt(&page, previous_next_prompt, &mut inspection.faults);
    }
    if files.knowledge != FileText::Absent
        && let Some(page) = Page::open(HandoffFile::Knowledge, files, &mut inspection.faults)
    {
        let is_missing = |heading| page.content(heading) == Content::Missing;
        if Heading::of(HandoffFile::Knowledge).all(is_missing) {
            inspection.faults.push(page.fault(FaultKind::NoHeading));
        } else if let Some(words) =
            known.and_then(|known| known.unmatched(&NewKnowledge::parse(&page.text)))
        {
            let words = one_line(&words, OLD_WORDS_CHARS_MAX);
            inspection
                .faults
                .push(page.fault(FaultKind::CorrectsNothing { words }));
        }
    }
    inspection
}

/// Whether the handoff is said to be complete.
fn read_progress(page: &Page, marker: &Marker, inspection: &mut Inspection) -> bool {
    let word = claimed(&page.text, &page.outline, marker);
    if page.chars() > limits::NEXT_PROMPT_CHARS_MAX {
        inspection.faults.push(page.fault(FaultKind::TooLong {
            chars: page.chars(),
        }));
    }
    let unwritten = page.check_headings(&mut inspection.faults);
    if unwritten {
        return word == Ok(Word::Complete);
    }
    inspection.open_items = page.open_items();
    match word {
        Err(fault) => inspection.faults.insert(0, fault),
        Ok(Word::InProgress) => inspection.status = Some(Status::InProgress),
        Ok(Word::Blocked) => read_question(page, inspection),
        Ok(Word::Complete) => {
            inspection.status = Some(Status::Complete);
            let items = inspection.open_items.as_ref();
            let open = items.map_or(0, |items| items.open.len());
            if open > 0 {
                let fault = page.fault(FaultKind::CompleteWithOpenItems { open });
                inspection.faults.push(fault);
            }
        }
    }
    inspection.status == Some(Status::Complete)
}

fn read_question(page: &Page, inspection: &mut Inspection) {
    match page.content(Heading::Issues) {
        Content::Text(text) if !headings::is_none(&text) => {
            // Its lists and paragraphs help the person who reads it.
            let question = match page.words(Heading::Issues).unwrap_or(&text) {
                line if !line.contains('\n') => without_bullet(line),
                lines => lines,
            };
            inspection.status = Some(Status::Blocked {
                question: short(question, QUESTION_CHARS_MAX),
            });
        }
        Content::Text(_) => inspection
            .faults
            .push(page.fault(FaultKind::BlockedWithoutQuestion)),
        // The heading is requested, but a person is needed in any case.
        Content::Missing | Content::Empty | Content::Template => {
            let lines = page.text.lines().map(str::trim);
            let asked: Vec<&str> = lines.filter(|line| line.ends_with('?')).collect();
            if !asked.is_empty() {
                let question = short(&asked.join("\n"), QUESTION_CHARS_MAX);
                inspection.status = Some(Status::Blocked { question });
            }
        }
    }
}

fn read_next_prompt(page: &Page, previous: Option<&str>, faults: &mut Vec<Fault>) {
    if page.check_headings(faults) {
        return;
    }
    let chars = page.chars();
    if chars < limits::NEXT_PROMPT_CHARS_MIN {
        faults.push(page.fault(FaultKind::TooShort { chars }));
    } else if chars > limits::NEXT_PROMPT_CHARS_MAX {
        faults.push(page.fault(FaultKind::TooLong { chars }));
    }
    if previous.is_some_and(|previous| says_the_same(previous, &page.text)) {
        faults.push(page.fault(FaultKind::Repeated));
    }
}
