//! Accepting a handoff.

use super::page::{Page, readable};
use super::{Fault, HandoffFile, HandoffFiles, Heading, Inspection, OpenItems, Severity, Status};
use crate::knowledge::NewKnowledge;
use crate::prompt::budget::cut_long_lines;

/// What a session left. Each file counts by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff {
    /// The agent's claim; in a handoff with faults only BLOCKED counts.
    pub status: Status,
    /// `PROGRESS.md`, clean; empty if it cannot be read.
    pub progress: String,
    /// `NEXT_PROMPT.md`, clean; empty if a complete handoff has none.
    pub next_prompt: String,
    /// The new parts of `KNOWLEDGE.md`.
    pub knowledge: NewKnowledge,
    pub open_items: Option<OpenItems>,
    /// Empty headings of `NEXT_PROMPT.md`, which a rescue can fill in.
    pub missing: Vec<Heading>,
    /// Its faults, which were accepted or repaired if the handoff is valid.
    pub faults: Vec<Fault>,
}

impl Handoff {
    /// Something in it could be read.
    pub fn has_words(&self) -> bool {
        !self.progress.is_empty() || !self.next_prompt.is_empty()
    }
}

/// The handoff if it has no required fault, or else its usable parts. Copies of ekiden's own texts are
/// removed, and very long lines are cut. No other line is dropped: where the next prompt leaves lines out, it says that
/// the published file has them.
pub fn accept(files: &HandoffFiles, inspection: &Inspection) -> Result<Handoff, Box<Handoff>> {
    let is_valid = inspection.is_valid();
    // Ticks beside a status that cannot be read are the agent's words, and count as nothing more.
    let is_of_progress = |fault: &Fault| {
        fault.file == HandoffFile::Progress && fault.severity() == Severity::Required
    };
    let items_count = !inspection.faults.iter().any(is_of_progress);
    let claims = |status: &Status| is_valid || matches!(status, Status::Blocked { .. });
    let knowledge = files.knowledge.text();
    let knowledge = knowledge.map(|text| NewKnowledge::parse(&readable(text).0));
    let handoff = Handoff {
        status: (inspection.status.clone().filter(claims)).unwrap_or(Status::InProgress),
        progress: taken_over(HandoffFile::Progress, files),
        next_prompt: taken_over(HandoffFile::NextPrompt, files),
        knowledge: knowledge.unwrap_or_default(),
        open_items: inspection.open_items.clone().filter(|_| items_count),
        missing: Page::open(HandoffFile::NextPrompt, files, &mut Vec::new()).map_or_else(
            || Heading::of(HandoffFile::NextPrompt).collect(),
            |page| page.missing(),
        ),
        faults: inspection.faults.clone(),
    };
    if is_valid {
        Ok(handoff)
    } else {
        Err(Box::new(handoff))
    }
}

fn taken_over(file: HandoffFile, files: &HandoffFiles) -> String {
    let text = files.get(file).text().unwrap_or_default();
    cut_long_lines(readable(text).0.trim())
}
