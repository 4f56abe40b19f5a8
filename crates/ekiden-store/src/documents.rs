//! Handoff documents of watched sessions: `.ekiden/handoffs/`, and which of them was loaded by whom.
//!
//! ```text
//! <work dir>/.ekiden/handoffs/2026-01-07-1045.md      a person's and the agent's, to read and to fill in
//! <state directory>/guard/made/2026-01-07-1045.md     ekiden made it
//! <state directory>/guard/consumed/2026-01-07-1045.md a session has loaded it: that session's id
//! ```
//!
//! # Invariants
//!
//! 1. A document is never overwritten: its name is taken by making `made/<name>` new, which one process
//!    can, and only if no file has that name. So worktrees, which share a state directory, never have two
//!    documents of one name.
//! 2. A document is loaded once: by whoever makes `consumed/<name>` new.
//! 3. Only what ekiden made here is loaded by itself. WHY: a cloned repository may come with a file in
//!    `.ekiden/handoffs/`, and that would be a stranger's word at the start of a session.
//!
//! Nothing here is synced but the document itself: after a power cut a document may be loaded twice, or not
//! by itself; it is there to read.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::archive::{ensure_dir, make_dir};
use crate::disk::{Cause, Disk, DiskError, DiskResult, Kind, Operation, Reach};
use crate::layout::{Published, StateLayout};
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENTS_A_MINUTE_MAX};
use crate::replace::{Durability, replace};

/// The handoff documents of a work dir.
#[derive(Debug, Clone, Copy)]
pub struct Documents<'a> {
    disk: &'a dyn Disk,
    published: &'a Published,
    state: &'a StateLayout,
}

impl<'a> Documents<'a> {
    /// Those of this work dir.
    #[must_use]
    pub fn of(disk: &'a dyn Disk, published: &'a Published, state: &'a StateLayout) -> Self {
        Self { disk, published, state }
    }

    /// Keeps a document under the name of its minute (`2026-01-07-1045`), or the next that is free
    /// (`2026-01-07-1045-2`). `.ekiden/` must exist. After a crash the document is there whole or not at
    /// all.
    ///
    /// # Errors
    ///
    /// If the disk refuses, or the names of the minute are used up.
    pub fn add(&self, minute: &str, text: &str) -> DiskResult<PathBuf> {
        make_dir(self.disk, &self.published.handoffs())?;
        ensure_dir(self.disk, &self.state.documents_made())?;
        for number in 1..=DOCUMENTS_A_MINUTE_MAX {
            let name = if number == 1 { format!("{minute}.md") } else { format!("{minute}-{number}.md") };
            let path = self.path(&name);
            if self.disk.stat(&path)?.is_some() || !self.mark(&self.state.documents_made(), &name, "")? {
                continue;
            }
            replace(self.disk, &path, text.as_bytes(), Durability::Whole)?;
            return Ok(path);
        }
        let path = self.path(minute);
        let cause = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        Err(DiskError::new(Operation::Create, &path, cause))
    }

    /// The names of all documents, oldest first. Other files there do not count.
    ///
    /// # Errors
    ///
    /// If the disk refuses. A link in place of the directory is an error too.
    pub fn names(&self) -> DiskResult<Vec<String>> {
        let dir = self.published.handoffs();
        match self.disk.stat(&dir)?.map(|found| found.kind) {
            Some(Kind::Dir) => {}
            Some(Kind::Link) => {
                let cause = Cause::IsLink { link: dir.clone(), target: self.disk.read_link(&dir)? };
                return Err(DiskError::new(Operation::List, &dir, cause));
            }
            Some(Kind::File | Kind::Other) | None => return Ok(Vec::new()),
        }
        let names = self.disk.list(&dir)?;
        let mut named: Vec<_> = names.iter().filter_map(|name| order_of(name)).collect();
        named.sort_unstable();
        Ok(named.into_iter().map(|(.., name)| name.to_owned()).collect())
    }

    /// Where a document lies.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.published.handoffs().join(name)
    }

    /// A document's text, its beginning if somebody has made it very long. None if there is none, or
    /// something else has its name.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn read(&self, name: &str) -> DiskResult<Option<String>> {
        let path = self.path(name);
        let is_file = self.disk.stat(&path)?.is_some_and(|found| found.kind == Kind::File && found.len > 0);
        if !is_file {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut reader = self.disk.reader(&path, 0)?.take(DOCUMENT_BYTES_MAX);
        reader.read_to_end(&mut bytes).map_err(|error| DiskError::new(Operation::Read, &path, error))?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The newest document that is nobody's yet, and was made here.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn newest_unconsumed(&self) -> DiskResult<Option<String>> {
        for name in self.names()?.into_iter().rev() {
            let consumed = self.disk.stat(&self.state.documents_consumed().join(&name))?.is_some();
            // What is older than one that was loaded was passed over then, and is out of date.
            if consumed {
                return Ok(None);
            }
            if self.disk.stat(&self.state.documents_made().join(&name))?.is_some() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    /// Takes a document for a session. Whether it was the first: only then it is loaded.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn consume(&self, name: &str, session: &str) -> DiskResult<bool> {
        ensure_dir(self.disk, &self.state.documents_consumed())?;
        self.mark(&self.state.documents_consumed(), name, session)
    }

    /// Makes a mark. Whether there was none.
    fn mark(&self, dir: &Path, name: &str, content: &str) -> DiskResult<bool> {
        match self.disk.create_file(&dir.join(name), content.as_bytes(), Reach::Cache) {
            Ok(()) => Ok(true),
            Err(error) if error.is_already_there() => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The minute and the number of a document, by which they are in order; none if it is no name of ours.
fn order_of(name: &OsStr) -> Option<(&str, u32, &str)> {
    let name = name.to_str()?;
    let stem = name.strip_suffix(".md")?;
    let (minute, rest) = stem.split_at_checked("2026-01-07-1045".len())?;
    let dashes = [4, 7, 10];
    let fits =
        |(at, byte): (usize, u8)| if dashes.contains(&at) { byte == b'-' } else { byte.is_ascii_digit() };
    if !minute.bytes().enumerate().all(fits) {
        return None;
    }
    match rest {
        "" => Some((minute, 1, name)),
        // A person may have given it a title: it stands with its minute.
        _ => Some((minute, rest.strip_prefix('-')?.parse().unwrap_or(1), name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimDisk, every_crash};

    const MINUTE: &str = "2026-01-07-1045";

    fn project() -> SimDisk {
        let disk = SimDisk::new().fenced(Path::new("/p"));
        disk.plant_dir(Path::new("/p/.git/ekiden/root"));
        disk.plant_dir(Path::new("/p/.ekiden"));
        disk
    }

    fn with<T>(disk: &SimDisk, work_dir: &str, ask: impl FnOnce(Documents<'_>) -> T) -> T {
        let published = Published::new(Path::new(work_dir));
        ask(Documents::of(disk, &published, &StateLayout::new(Path::new("/p/.git/ekiden/root"))))
    }

    fn add(disk: &SimDisk, minute: &str, text: &str) -> String {
        let path = with(disk, "/p", |documents| documents.add(minute, text)).unwrap();
        path.file_name().unwrap().to_str().unwrap().to_owned()
    }

    // shows: HND-001
    #[test]
    fn two_documents_of_one_minute_have_two_names() {
        let disk = project();
        disk.plant_file(Path::new("/p/.ekiden/handoffs/2026-01-07-1045-2.md"), b"a person's");
        let names =
            [add(&disk, MINUTE, "one"), add(&disk, MINUTE, "two"), add(&disk, "2026-01-07-1044", "x")];
        assert_eq!(names, ["2026-01-07-1045.md", "2026-01-07-1045-3.md", "2026-01-07-1044.md"]);
        disk.plant_file(Path::new("/p/.ekiden/handoffs/notes.md"), b"not ours");
        let mut ten = vec!["2026-01-07-1044.md", "2026-01-07-1045.md", "2026-01-07-1045-2.md"];
        ten.push("2026-01-07-1045-3.md");
        with(&disk, "/p", |documents| {
            assert_eq!(documents.names().unwrap(), ten);
            assert_eq!(documents.read("2026-01-07-1045-2.md").unwrap().unwrap(), "a person's");
        });
    }

    // shows: HND-001
    #[test]
    fn worktrees_that_share_a_state_directory_share_no_name() {
        let disk = project();
        disk.plant_dir(Path::new("/w/.ekiden"));
        add(&disk, MINUTE, "one");
        let other = with(&disk, "/w", |documents| documents.add(MINUTE, "two")).unwrap();
        assert_eq!(other, Path::new("/w/.ekiden/handoffs/2026-01-07-1045-2.md"));
    }

    // shows: HND-07
    #[test]
    fn a_document_is_loaded_once_and_older_ones_are_out_of_date() {
        let disk = project();
        let (old, new) = (add(&disk, MINUTE, "old"), add(&disk, MINUTE, "new"));
        with(&disk, "/p", |documents| {
            assert_eq!(documents.newest_unconsumed().unwrap(), Some(new.clone()));
            assert!(documents.consume(&new, "s1").unwrap());
            assert!(!documents.consume(&new, "s2").unwrap());
            assert_eq!(documents.newest_unconsumed().unwrap(), None, "{old} was passed over");
        });
        let newer = add(&disk, "2026-01-07-1046", "x");
        assert_eq!(with(&disk, "/p", |documents| documents.newest_unconsumed()).unwrap(), Some(newer));
    }

    // shows: HND-07, SEC-02
    #[test]
    fn what_came_with_the_repository_is_not_loaded_by_itself() {
        let disk = project();
        disk.plant_file(Path::new("/p/.ekiden/handoffs/2099-01-01-0000.md"), b"a stranger's");
        with(&disk, "/p", |documents| assert_eq!(documents.newest_unconsumed().unwrap(), None));
        let ours = add(&disk, MINUTE, "x");
        with(&disk, "/p", |documents| assert_eq!(documents.newest_unconsumed().unwrap(), Some(ours)));
    }

    // shows: SEC-02
    #[test]
    fn links_are_neither_read_nor_written_through() {
        let disk = project();
        disk.plant_file(Path::new("/home/.ssh/id_rsa"), b"secret");
        disk.plant_dir(Path::new("/p/.ekiden/handoffs"));
        let name = "2026-01-07-1045.md";
        disk.create_link(&Path::new("/p/.ekiden/handoffs").join(name), Path::new("/home/.ssh/id_rsa"))
            .unwrap();
        with(&disk, "/p", |documents| assert_eq!(documents.read(name).unwrap(), None));
        assert_eq!(add(&disk, MINUTE, "x"), "2026-01-07-1045-2.md");
        let disk = project();
        disk.create_link(Path::new("/p/.ekiden/handoffs"), Path::new("/home/.ssh")).unwrap();
        with(&disk, "/p", |documents| {
            documents.add(MINUTE, "x").unwrap_err();
            documents.names().unwrap_err();
        });
    }

    // shows: HND-001, DUR-02
    #[test]
    fn a_document_is_whole_or_not_there_after_every_crash() {
        every_crash(
            &project(),
            |disk| with(disk, "/p", |documents| documents.add(MINUTE, "the document").is_ok()),
            |disk, _, _| {
                let text = with(disk, "/p", |documents| documents.read("2026-01-07-1045.md").unwrap());
                assert!(text.is_none_or(|text| text == "the document"));
                let again = with(disk, "/p", |documents| documents.add(MINUTE, "again").unwrap());
                assert_eq!(disk.read(&again, 100).unwrap(), b"again");
            },
        );
    }
}
