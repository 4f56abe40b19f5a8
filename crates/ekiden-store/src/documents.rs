//! Handoff documents of watched sessions: `.ekiden/handoffs/`, and which session loaded which of them.
//!
//! ```text
//! <work dir>/.ekiden/handoffs/2026-01-07-1045.md      a person's and the agent's, to read and to fill in
//! <state directory>/guard/made/2026-01-07-1045.md     ekiden made it: when, for which session, on which branch
//! <state directory>/guard/consumed/2026-01-07-1045.md a session has loaded it: that session's id
//! ```
//!
//! # Invariants
//!
//! 1. A document is never overwritten: a process takes its name by creating `made/<name>`, which only one process
//!    can do, and only if no file has that name. So worktrees, which share a state directory, never have two
//!    documents with the same name.
//! 2. A document is loaded once: by the session that creates `consumed/<name>`; once more if it was written after that.
//! 3. Only documents that ekiden made here are loaded without being asked for. A cloned repository may contain a
//!    file in `.ekiden/handoffs/`, and a session would begin with a stranger's words. For the same reason only they
//!    are carried into a session's successor, whatever the agent did to their front matter.
//!
//! Only the document itself is synced. After a power cut it may be loaded twice, or only when somebody asks for it;
//! it is still there to read.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ekiden_core::guard::document::{branch_of, session_of};
use ekiden_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::archive::{ensure_dir, make_dir};
use crate::disk::{Cause, Disk, DiskError, DiskResult, Kind, Operation, Reach, if_there};
use crate::layout::{Published, StateLayout};
use crate::limits::{
    DOCUMENT_BYTES_MAX, DOCUMENTS_A_MINUTE_MAX, DOCUMENTS_ORDERED_MAX, SMALL_FILE_BYTES_MAX,
};
use crate::replace::{Durability, replace, replace_at_once};

/// What a document was made for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Origin {
    pub session: Option<String>,
    pub branch: Option<String>,
    /// When it was made, if that is known. The local minute in its name may be earlier than that of an older
    /// document: the user travelled, or the clock was set back for the winter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Origin {
    /// As in a document that ekiden just wrote.
    fn of(text: &str) -> Self {
        Self {
            session: session_of(text),
            branch: branch_of(text),
            at: None,
        }
    }
}

/// The handoff documents of a work dir.
#[derive(Debug, Clone)]
pub struct Documents {
    pub disk: Arc<dyn Disk>,
    pub published: Published,
    pub state: StateLayout,
}

impl Documents {
    /// The documents of a work dir whose state is kept in `state_dir`.
    pub fn of(disk: Arc<dyn Disk>, work_dir: &Path, state_dir: &Path) -> Self {
        Self {
            disk,
            published: Published::new(work_dir),
            state: StateLayout::new(state_dir),
        }
    }

    /// Keeps a document under the name of its minute (`2026-01-07-1045`), or the next free one
    /// (`2026-01-07-1045-2`). `.ekiden/` must exist. After a crash the document is there whole or not at
    /// all. `at` is when it was made, if that is known to more than the minute.
    pub fn add(&self, at: Option<Timestamp>, minute: &str, text: &str) -> DiskResult<PathBuf> {
        let origin = Origin {
            at,
            ..Origin::of(text)
        };
        make_dir(&*self.disk, &self.published.handoffs())?;
        ensure_dir(&*self.disk, &self.state.documents_made())?;
        let origin = serde_json::to_string(&origin).unwrap_or_default();
        for number in 1..=DOCUMENTS_A_MINUTE_MAX {
            let name = if number == 1 {
                format!("{minute}.md")
            } else {
                format!("{minute}-{number}.md")
            };
            let path = self.path(&name);
            if self.disk.stat(&path)?.is_some()
                || !self.mark(&self.state.documents_made(), &name, &origin)?
            {
                continue;
            }
            replace(&*self.disk, &path, text.as_bytes(), Durability::Whole)?;
            return Ok(path);
        }
        let path = self.path(minute);
        let cause = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        Err(DiskError::new(Operation::Create, &path, cause))
    }

    /// Makes a document as old as the file it was copied from: an old document is only named to a session.
    pub fn date(&self, path: &Path, modified: SystemTime) -> std::io::Result<()> {
        std::fs::File::open(path)?.set_modified(modified)
    }

    /// The names of all documents, oldest first. Other files there do not count. Documents with a known time
    /// are in that order among themselves; for all others the minute in the name decides.
    pub fn names(&self) -> DiskResult<Vec<String>> {
        let dir = self.published.handoffs();
        match self.disk.stat(&dir)?.map(|found| found.kind) {
            Some(Kind::Dir) => {}
            Some(Kind::Link) => {
                let cause = Cause::IsLink {
                    link: dir.clone(),
                    target: self.disk.read_link(&dir)?,
                };
                return Err(DiskError::new(Operation::List, &dir, cause));
            }
            Some(Kind::File | Kind::Other) | None => return Ok(Vec::new()),
        }
        let names = self.disk.list(&dir)?;
        let mut named: Vec<_> = names.iter().filter_map(|name| order_of(name)).collect();
        named.sort_unstable();
        let mut names: Vec<String> = named.into_iter().map(|(.., name)| name.into()).collect();
        let newest = names.len().saturating_sub(DOCUMENTS_ORDERED_MAX)..names.len();
        let timed = newest.filter_map(|place| Some((self.made_at(&names[place])?, place)));
        let mut timed: Vec<(Timestamp, usize)> = timed.collect();
        let places: Vec<usize> = timed.iter().map(|(_, place)| *place).collect();
        timed.sort_unstable();
        let ordered = timed.iter().map(|(_, place)| names[*place].clone());
        let ordered: Vec<String> = ordered.collect();
        for (place, name) in places.into_iter().zip(ordered) {
            names[place] = name;
        }
        Ok(names)
    }

    fn made_at(&self, name: &str) -> Option<Timestamp> {
        let made = self.state.documents_made().join(name);
        let made = self.disk.read(&made, SMALL_FILE_BYTES_MAX).ok()?;
        serde_json::from_slice::<Origin>(&made).ok()?.at
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.published.handoffs().join(name)
    }

    /// A document's text, or its beginning if it is very long. None if it does not exist, or something else has
    /// its name.
    pub fn read(&self, name: &str) -> DiskResult<Option<String>> {
        let path = self.path(name);
        let is_file = self
            .disk
            .stat(&path)?
            .is_some_and(|found| found.kind == Kind::File && found.len > 0);
        if !is_file {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut reader = self.disk.reader(&path, 0)?.take(DOCUMENT_BYTES_MAX);
        reader
            .read_to_end(&mut bytes)
            .map_err(|error| DiskError::new(Operation::Read, &path, error))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The newest document, with its name, whose origin `is_meant` accepts. The origin is none if it was not
    /// made here.
    pub fn newest(
        &self,
        is_meant: impl Fn(Option<&Origin>) -> bool,
    ) -> DiskResult<Option<(String, String)>> {
        for name in self.names()?.into_iter().rev() {
            if let Some(text) = self.read(&name)?
                && is_meant(self.origin(&name, &text)?.as_ref())
            {
                return Ok(Some((name, text)));
            }
        }
        Ok(None)
    }

    /// What a document was made for, whatever happened to its text since; none if it was not made here.
    pub fn origin(&self, name: &str, text: &str) -> DiskResult<Option<Origin>> {
        let made = self.state.documents_made().join(name);
        let origin = if_there(self.disk.read(&made, SMALL_FILE_BYTES_MAX))?;
        // If that is damaged, the text tells.
        let known =
            |bytes: Vec<u8>| serde_json::from_slice(&bytes).unwrap_or_else(|_| Origin::of(text));
        Ok(origin.map(known))
    }

    /// The newest document of this branch that was made here and that no session has loaded. If there is none, the
    /// newest of another branch. A document that is older than a loaded one of its branch is out of date. What
    /// `session` itself has loaded counts as not loaded: it may ask again.
    pub fn newest_unconsumed(
        &self,
        branch: Option<&str>,
        session: Option<&str>,
    ) -> DiskResult<Option<String>> {
        let (mut of_other, mut over) = (None, Vec::new());
        let names = self.names()?.into_iter().rev();
        for name in names.take(DOCUMENTS_ORDERED_MAX) {
            let text = self.read(&name)?.unwrap_or_default();
            let origin = self.origin(&name, &text)?;
            let of = origin.as_ref().map_or(branch, |of| of.branch.as_deref());
            let is_here = of == branch;
            let consumed = self.state.documents_consumed().join(&name);
            let by = if_there(self.disk.read(&consumed, SMALL_FILE_BYTES_MAX))?;
            let by = by.filter(|_| !self.is_written_since_consumed(&name));
            if by.is_some_and(|by| session.is_none_or(|session| by != session.as_bytes())) {
                if is_here {
                    break;
                }
                over.push(of.map(str::to_owned));
            } else if origin.is_some() && is_here {
                return Ok(Some(name));
            } else if origin.is_some_and(|of| !over.contains(&of.branch)) {
                of_other.get_or_insert(name);
            }
        }
        Ok(of_other)
    }

    /// The newest document of a session, if no session has loaded it.
    pub fn unconsumed_of(&self, session: &str) -> DiskResult<Option<String>> {
        let session_of = |of: &Origin| of.session.as_deref() == Some(session);
        let Some((name, _)) = self.newest(|of| of.is_some_and(session_of))? else {
            return Ok(None);
        };
        let consumed = self.state.documents_consumed().join(&name);
        let is_free = self.disk.stat(&consumed)?.is_none() || self.is_written_since_consumed(&name);
        Ok(is_free.then_some(name))
    }

    /// The newest document of another session that `session` has loaded, with its name.
    pub fn loaded_by(&self, session: &str) -> DiskResult<Option<(String, String)>> {
        let names = self.names()?.into_iter().rev();
        for name in names.take(DOCUMENTS_ORDERED_MAX) {
            let consumed = self.state.documents_consumed().join(&name);
            let by = if_there(self.disk.read(&consumed, SMALL_FILE_BYTES_MAX))?;
            if by.is_some_and(|by| by == session.as_bytes())
                && let Some(text) = self.read(&name)?
                && self
                    .origin(&name, &text)?
                    .and_then(|of| of.session)
                    .as_deref()
                    != Some(session)
            {
                return Ok(Some((name, text)));
            }
        }
        Ok(None)
    }

    /// Marks a document as loaded by a session. Returns whether it was the first, since only the first loads it.
    pub fn consume(&self, name: &str, session: &str) -> DiskResult<bool> {
        let dir = self.state.documents_consumed();
        ensure_dir(&*self.disk, &dir)?;
        if self.is_written_since_consumed(name) {
            replace_at_once(&*self.disk, &dir.join(name), session.as_bytes())?;
            return Ok(true);
        }
        self.mark(&dir, name, session)
    }

    /// Its own session filled it in after another one had loaded it: a second window was opened.
    fn is_written_since_consumed(&self, name: &str) -> bool {
        let consumed = self.state.documents_consumed().join(name);
        let at = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
        at(&consumed).is_some_and(|consumed| at(&self.path(name)) > Some(consumed))
    }

    /// Makes a mark. Returns whether there was none.
    fn mark(&self, dir: &Path, name: &str, content: &str) -> DiskResult<bool> {
        match self
            .disk
            .create_file(&dir.join(name), content.as_bytes(), Reach::Cache)
        {
            Ok(()) => Ok(true),
            Err(error) if error.is_already_there() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The minute in a document's name; none if the name is not ours.
pub fn minute_of(name: &str) -> Option<&str> {
    order_of(OsStr::new(name)).map(|(minute, ..)| minute)
}

/// The minute and the number of a document, which give its order; none if the name is not ours.
fn order_of(name: &OsStr) -> Option<(&str, u32, &str)> {
    let name = name.to_str()?;
    let stem = name.strip_suffix(".md")?;
    let (minute, rest) = stem.split_at_checked("2026-01-07-1045".len())?;
    let dashes = [4, 7, 10];
    let fits = |(at, byte): (usize, u8)| {
        if dashes.contains(&at) {
            byte == b'-'
        } else {
            byte.is_ascii_digit()
        }
    };
    if !minute.bytes().enumerate().all(fits) {
        return None;
    }
    match rest {
        "" => Some((minute, 1, name)),
        // A person may have given it a title: its minute gives its order.
        _ => Some((minute, rest.strip_prefix('-')?.parse().unwrap_or(1), name)),
    }
}
