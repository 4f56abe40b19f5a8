//! Handoff documents of CCS.

use std::time::SystemTime;

use ekiden_store::documents::minute_of;

use super::source::Source;
use super::{Became, Finding};
use crate::failure::Failure;

const DIR: &str = ".claude/handoffs";

/// A document, named by its minute.
#[derive(Debug)]
pub struct Document {
    pub name: String,
    /// As `2026-01-07-1045`.
    pub minute: String,
    pub text: String,
    pub modified: Option<SystemTime>,
}

/// The documents of a project, oldest first; and what cannot be taken over.
pub fn documents(source: &Source) -> Result<(Vec<Document>, Vec<Finding>), Failure> {
    let (mut documents, mut findings) = (Vec::new(), Vec::new());
    for name in source.names(DIR)? {
        let name = format!("{DIR}/{name}");
        let Some(minute) = name.rsplit('/').next().and_then(minute_of) else {
            let why = "its name is no time, as in 2026-01-07-1045.md";
            findings.push(Finding::new(name, Became::Nothing(why.to_owned())));
            continue;
        };
        if let Some(text) = source.text(&name)? {
            let minute = minute.to_owned();
            documents.push(Document {
                modified: source.modified(&name),
                name,
                minute,
                text,
            });
        }
    }
    for (name, why) in [
        (
            "checkpoint-state.json",
            "context use is measured anew; the handoff that it names is listed above",
        ),
        (
            "ralph-state.json",
            "`ekiden ralph init` makes `.ekiden/ralph-state.json`, beside your PROMPT.md and fix_plan.md",
        ),
    ] {
        let name = format!(".claude/{name}");
        if source.text(&name)?.is_some() {
            findings.push(Finding::new(name, Became::Nothing(why.to_owned())));
        }
    }
    Ok((documents, findings))
}
