//! A run that gets more work: an edited task, a follow-up, an earlier session's handoff.
//!
//! | what | which run | session numbers |
//! |---|---|---|
//! | an edited task, at a resume | the same | go on |
//! | a follow-up on a complete run | the same | go on |
//! | an earlier handoff | a new one, which holds that handoff | go on after that handoff's |
//!
//! Going back starts a new run, so that no number is used twice in a log and no archive is overwritten:
//! `docs/design/0007-going-back.md`.

use serde::{Deserialize, Serialize};

use crate::handoff::{HandoffFiles, Inspection, OpenItems, accept};
use crate::ids::{RunId, SessionNumber};
use crate::prompt::{Author, Notes};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTask {
    pub text: String,
    /// Where the words came from, for people.
    pub name: String,
}

/// The start of a run that continues from another run's session. It holds everything that its sessions will
/// read, so the other run's files are not needed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartingPoint {
    /// The other run; this one itself where it was imported from another program.
    pub run: RunId,
    /// What its session left; the first session here has the number after it.
    pub last: LastSession,
    /// The knowledge at that time, as published.
    pub knowledge: String,
    /// Later sessions of the other run worked on the tree.
    pub overtaken: bool,
    pub task_changed: bool,
}

/// What the next session continues from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastSession {
    pub session: SessionNumber,
    pub notes: Notes,
    pub open_items: Option<OpenItems>,
    /// Items of the session before that are gone without a tick.
    pub vanished: Vec<String>,
    /// The last valid `NEXT_PROMPT.md`: rescues in a row must not lose it.
    pub next_prompt: Option<String>,
}

impl LastSession {
    /// What a session of another program left in these files.
    pub fn of_files(session: SessionNumber, files: &HandoffFiles, inspection: &Inspection) -> Self {
        let (Ok(taken) | Err(taken)) = accept(files, inspection).map_err(|taken| *taken);
        Self {
            session,
            open_items: taken.open_items,
            vanished: Vec::new(),
            next_prompt: Some(taken.next_prompt.clone()).filter(|text| !text.is_empty()),
            notes: Notes {
                by: Author::Agent,
                progress: taken.progress,
                next_prompt: taken.next_prompt,
            },
        }
    }
}
