//! The published knowledge as a person reads and edits it.
//!
//! While a session runs, its agent reads the file, and its handoff will be merged into it. So a person may edit
//! it only while a run waits, is paused or has ended. When the run continues, the edit becomes a
//! `KnowledgeEdited` event.

use std::path::PathBuf;

use ekiden_core::handoff::HandoffFile;
use ekiden_core::ids::{RunId, SessionNumber};
use ekiden_core::knowledge::{Fact, Knowledge};
use ekiden_store::disk::{Disk, DiskError, RealDisk, if_there};
use ekiden_store::layout::Published;
use ekiden_store::replace::{Durability, replace};

use crate::error::EngineError;
use crate::history;
use crate::run_files::TEXT_BYTES_MAX;
use crate::workspace::Workspace;

/// The copy beside the published file while it is edited.
const COPY: &str = "KNOWLEDGE.edit.md";
/// The text that the copy was made from: an edit of a different text would undo what was learned since.
const BASE: &str = "KNOWLEDGE.edit.base.md";

#[derive(Debug)]
pub struct KnowledgeFile {
    pub run: RunId,
    /// Its text: what a person wrote since the run last did something, or else what the run knows.
    pub text: String,
    /// Facts that were corrected and are kept only in the log.
    pub corrected: usize,
    /// Why it may not be edited now.
    pub closed: Option<Closed>,
    disk: RealDisk,
    published: Published,
}

/// Why knowledge cannot be edited now. Reads well after "since".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    #[error("session {session} is at work")]
    Working { session: SessionNumber },
    /// A wait, a pause or the end has begun, and the engine has yet to write what an edit would replace.
    #[error("the run is still writing it")]
    Writing,
    /// Its engine died before it had done everything that was decided.
    #[error("the run was interrupted in session {session}")]
    Interrupted { session: SessionNumber },
    #[error("the run is a plan, whose stages share what they learn")]
    Plan,
    #[error("a newer run has its own")]
    Older,
}

/// An edit cannot be applied. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The file is not the one that was edited. Holds the facts that were added since.
    #[error("take over your edit: KNOWLEDGE.md has changed since you began it")]
    Changed { facts: Vec<String> },
    #[error("read {} as text", path.display())]
    NotText { path: PathBuf },
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl KnowledgeFile {
    /// Looks at the knowledge of a run; writes nothing.
    pub fn open(workspace: &Workspace, run: &RunId) -> Result<Self, EngineError> {
        let (newest, _) = history::find(workspace, None)?;
        let summary = history::read(workspace, run, |_, _| {})?;
        let holder = history::holder(workspace).and_then(|holder| holder.run);
        let relays = || summary.run.relays().map(|(_, relay)| relay);
        let held = holder.as_ref() == Some(run);
        let is_plan = summary.run.header().is_plan();
        let closed = match relays().next() {
            _ if newest != *run => Some(Closed::Older),
            _ if is_plan => Some(Closed::Plan),
            None => None,
            Some(relay) => {
                let session = relay.session();
                match (held, relay.is_idle()) {
                    (true, true) => summary.is_publishing().then_some(Closed::Writing),
                    (true, false) => Some(Closed::Working { session }),
                    (false, true) if summary.is_settled() => None,
                    (false, _) => Some(Closed::Interrupted { session }),
                }
            }
        };
        let mut file = Self {
            run: run.clone(),
            text: match is_plan {
                true => summary.run.shared_knowledge().render(),
                false => relays().map(|relay| relay.knowledge.render()).collect(),
            },
            corrected: relays().map(|relay| relay.knowledge.archived.len()).sum(),
            closed,
            disk: workspace.disk(),
            published: workspace.published(),
        };
        if let Some(text) = file.published_text().filter(|_| file.closed.is_none()) {
            file.text = text;
        }
        Ok(file)
    }

    /// Makes a copy for an editor and returns its path. The second value is true if a failed edit of this same
    /// text left a copy, which is then used again.
    pub fn copy(&self) -> Result<(PathBuf, bool), EditError> {
        let path = self.copy_path();
        if self.disk.stat(&path)?.is_some() {
            let base = self.base()?;
            if base.as_deref() == Some(&self.text) {
                return Ok((path, true));
            }
            // A copy in which a person wrote nothing is made again; one that cannot be read may contain a
            // person's words.
            let edited = self.edited().ok();
            if edited.is_none() || edited != base && edited.as_ref() != Some(&self.text) {
                let [base, edited] = [base, edited].map(Option::unwrap_or_default);
                return Err(changed(&base, &edited, &self.text));
            }
        }
        // The base comes second: it vouches for the copy, which is on the disk by then.
        let text = self.text.as_bytes();
        replace(&self.disk, &path, text, Durability::Full)?;
        replace(&self.disk, &self.base_path(), text, Durability::Derived)?;
        Ok((path, false))
    }

    fn base(&self) -> Result<Option<String>, EditError> {
        let bytes = if_there(self.disk.read(&self.base_path(), TEXT_BYTES_MAX))?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
    }

    /// What the copy says now.
    pub fn edited(&self) -> Result<String, EditError> {
        let path = self.copy_path();
        let bytes = self.disk.read(&path, TEXT_BYTES_MAX)?;
        String::from_utf8(bytes).map_err(|_| EditError::NotText { path })
    }

    /// Replaces the published text if it is still the one that was opened, and removes the copy. After a power
    /// cut the old text or the new one is there, whole.
    pub fn put(&self, text: &str) -> Result<(), EditError> {
        if let Some(now) = self.published_text().filter(|now| *now != self.text) {
            return Err(changed(&self.text, text, &now));
        }
        let path = self.published.file(HandoffFile::Knowledge);
        replace(&self.disk, &path, text.as_bytes(), Durability::Whole)?;
        self.discard()
    }

    pub fn discard(&self) -> Result<(), EditError> {
        self.disk.remove(&self.copy_path())?;
        Ok(if_there(self.disk.remove(&self.base_path())).map(drop)?)
    }

    /// Where the copy is, if there is one.
    pub fn copy_path(&self) -> PathBuf {
        self.published.dir().join(COPY)
    }

    fn base_path(&self) -> PathBuf {
        self.published.dir().join(BASE)
    }

    fn published_text(&self) -> Option<String> {
        let bytes = self
            .disk
            .read(&self.published.file(HandoffFile::Knowledge), TEXT_BYTES_MAX)
            .ok()?;
        String::from_utf8(bytes).ok()
    }
}

/// The facts of `now` that are in neither of the others.
fn changed(base: &str, edited: &str, now: &str) -> EditError {
    let known = [base, edited].map(|text| Knowledge::parse(text).core);
    let is_new = |fact: &&Fact| !known.iter().any(|facts| facts.contains(fact));
    let now = Knowledge::parse(now).core;
    let facts = now.iter().filter(is_new).map(|fact| fact.text.clone());
    EditError::Changed {
        facts: facts.collect(),
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test writes as a session and an editor do"
)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const BEFORE: &str = "## Core Knowledge\n\n- One.\n";
    const EDITED: &str = "## Core Knowledge\n\n- Mine.\n";
    const AFTER: &str = "## Core Knowledge\n\n- One.\n- Two.\n";

    fn opened(dir: &Path, text: &str) -> KnowledgeFile {
        let published = Published::new(dir);
        fs::create_dir_all(published.dir()).unwrap();
        fs::write(published.file(HandoffFile::Knowledge), text).unwrap();
        KnowledgeFile {
            run: RunId::from_bits(7),
            text: text.to_owned(),
            corrected: 0,
            closed: None,
            disk: RealDisk::fenced(dir),
            published,
        }
    }

    fn lost(refused: Result<impl std::fmt::Debug, EditError>) -> Vec<String> {
        match refused {
            Err(EditError::Changed { facts }) => facts,
            other => panic!("{other:?}"),
        }
    }

    // shows: REL-30
    #[test]
    fn an_edit_that_was_begun_before_later_sessions_takes_nothing_from_them() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().canonicalize().unwrap();
        let (copy, _) = opened(&dir, BEFORE).copy().unwrap();
        fs::write(&copy, EDITED).unwrap();
        assert!(opened(&dir, BEFORE).copy().unwrap().1, "it goes on");
        assert_eq!(lost(opened(&dir, AFTER).copy()), ["Two."]);
        assert_eq!(fs::read_to_string(&copy).unwrap(), EDITED, "it is kept");
        let before = opened(&dir, BEFORE);
        opened(&dir, AFTER);
        assert_eq!(lost(before.put(EDITED)), ["Two."]);
        let file = opened(&dir, BEFORE);
        file.put(EDITED).unwrap();
        assert_eq!(file.published_text().as_deref(), Some(EDITED));
        let left = fs::read_dir(dir.join(".ekiden")).unwrap();
        assert_eq!(left.count(), 1);
    }

    // shows: REL-30
    #[test]
    fn an_edit_that_is_no_text_goes_on_or_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().canonicalize().unwrap();
        let (copy, _) = opened(&dir, BEFORE).copy().unwrap();
        fs::write(&copy, b"- Caf\xe9.\n").unwrap();
        assert!(opened(&dir, BEFORE).copy().unwrap().1, "it goes on");
        assert_eq!(lost(opened(&dir, AFTER).copy()), ["Two."]);
        assert_eq!(fs::read(&copy).unwrap(), b"- Caf\xe9.\n");
    }

    // shows: REL-30
    #[test]
    fn a_copy_in_which_nothing_was_written_is_made_again() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().canonicalize().unwrap();
        opened(&dir, BEFORE).copy().unwrap();
        let (copy, is_left) = opened(&dir, AFTER).copy().unwrap();
        assert!(!is_left);
        assert_eq!(fs::read_to_string(copy).unwrap(), AFTER);
        let file = opened(&dir, AFTER);
        fs::write(file.base_path(), BEFORE).unwrap();
        assert!(
            !file.copy().unwrap().1,
            "killed before the base was written"
        );
        assert_eq!(file.base().unwrap().as_deref(), Some(AFTER));
    }
}
