//! Taking a handoff over.

use serde::{Deserialize, Serialize};

use super::page::readable;
use super::{Fault, FileText, HandoffFile, HandoffFiles, Inspection, OpenItems, Status};
use crate::knowledge::NewKnowledge;
use crate::limits;
use crate::prompt::budget::{Keep, Mark, cut_chars, cut_long_lines};

/// A handoff that was accepted: what the relay goes on with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// What the agent claims.
    pub status: Status,
    /// `PROGRESS.md`, clean and cut.
    pub progress: String,
    /// `NEXT_PROMPT.md`, clean and cut; empty where a complete handoff has none.
    pub next_prompt: String,
    /// What is new in `KNOWLEDGE.md`.
    pub knowledge: NewKnowledge,
    /// The items under "Open items".
    pub open_items: Option<OpenItems>,
    /// What was wrong and has been accepted or mended.
    pub warnings: Vec<Fault>,
}

/// The handoff, if nothing that is required is wrong with it. Copies of ekiden's own texts are
/// taken out, and what is too long is cut at line ends with a mark; the archive has it whole.
#[must_use]
pub fn accept(files: &HandoffFiles, inspection: &Inspection) -> Option<Handoff> {
    if !inspection.is_valid() {
        return None;
    }
    let status = inspection.status.clone()?;
    Some(Handoff {
        status,
        progress: taken_over(HandoffFile::Progress, files, Keep::Ends),
        next_prompt: taken_over(HandoffFile::NextPrompt, files, Keep::First),
        knowledge: files
            .knowledge
            .text()
            .map(|text| NewKnowledge::parse(&readable(text).0))
            .unwrap_or_default(),
        open_items: inspection.open_items.clone(),
        warnings: inspection.faults.clone(),
    })
}

fn taken_over(file: HandoffFile, files: &HandoffFiles, keep: Keep) -> String {
    let text = match files.get(file) {
        FileText::Text(text) => readable(text).0,
        FileText::Absent | FileText::TooLarge { .. } | FileText::NotText => return String::new(),
    };
    let mark = Mark { prefix: "", whole: "the archive of this session" };
    cut_chars(&cut_long_lines(text.trim()), limits::NEXT_PROMPT_CHARS_MAX, keep, mark)
}
