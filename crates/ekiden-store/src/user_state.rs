//! What ekiden keeps about a project in the user's own state directory, where no archive, repository or other
//! user writes.
//!
//! ```text
//! <state directory>/id                        a random id, made with the state
//! <user's state home>/ekiden/projects/<id>/   what is kept about the state with this id
//! ```
//!
//! The id is the key. So a project that moves keeps its entry, and an archive of a state cannot include this part.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::archive::ensure_dir;
use crate::disk::{Disk, DiskResult, Reach, if_there};
use crate::layout::StateLayout;
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::replace::{Durability, replace_by, temporary_of_process};

/// What is kept about each state has a directory here, named by the state's id.
const PROJECTS: &str = "projects";

/// A state directory's own name: 32 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateId(String);

impl StateId {
    /// The id of a state; none if it has none, or if the file does not contain one.
    pub fn of(disk: &dyn Disk, layout: &StateLayout) -> DiskResult<Option<Self>> {
        let found = if_there(disk.read(&layout.id(), SMALL_FILE_BYTES_MAX))?;
        Ok(found.and_then(|bytes| Self::parse(&bytes)))
    }

    /// The id of a state. If it has none, it gets one from these random bits. The directory must exist.
    ///
    /// If two worktrees that share a state begin at the same time, the first one's id counts.
    pub fn ensure(disk: &dyn Disk, layout: &StateLayout, bits: u128) -> DiskResult<Self> {
        if let Some(id) = Self::of(disk, layout)? {
            return Ok(id);
        }
        let (path, id) = (layout.id(), Self(format!("{bits:032x}")));
        let line = format!("{}\n", id.0);
        match disk.create_file(&path, line.as_bytes(), Reach::Disk) {
            Err(error) if error.is_already_there() => {}
            created => {
                return created
                    .and_then(|()| disk.sync_dir(layout.dir()))
                    .map(|()| id);
            }
        }
        if let Some(other) = Self::of(disk, layout)? {
            return Ok(other);
        }
        // A crash left half an id.
        Self::renew(disk, layout, bits)
    }

    /// Gives the state a new id: what is kept under the old one no longer belongs to it.
    pub fn renew(disk: &dyn Disk, layout: &StateLayout, bits: u128) -> DiskResult<Self> {
        let (path, id) = (layout.id(), Self(format!("{bits:032x}")));
        let (line, temporary) = (format!("{}\n", id.0), temporary_of_process(&path));
        replace_by(disk, &temporary, &path, line.as_bytes(), Durability::Full)?;
        Ok(id)
    }

    /// The ids under which something is kept in `home`, sorted.
    pub fn all_in(disk: &dyn Disk, home: &Path) -> DiskResult<Vec<Self>> {
        let names = if_there(disk.list(&home.join(PROJECTS)))?.unwrap_or_default();
        let names = names.iter().filter_map(|name| name.to_str());
        Ok(names
            .filter_map(|name| Self::parse(name.as_bytes()))
            .collect())
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?.trim_end();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 32 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }
}

/// What is kept about one project's state.
#[derive(Debug, Clone)]
pub struct UserState {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl UserState {
    /// `home` is ekiden's directory in the user's state home, such as `~/.local/state/ekiden`.
    pub fn of(disk: Arc<dyn Disk>, home: &Path, id: &StateId) -> Self {
        let dir = home.join(PROJECTS).join(&id.0);
        Self { disk, dir }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A kept file; none if it does not exist.
    pub fn read(&self, name: &str) -> DiskResult<Option<Vec<u8>>> {
        if_there(self.disk.read(&self.dir.join(name), SMALL_FILE_BYTES_MAX))
    }

    /// Keeps a file, replacing the previous one. [`Durability::Derived`] does not sync.
    pub fn write(&self, name: &str, bytes: &[u8], durability: Durability) -> DiskResult<()> {
        let path = self.dir.join(name);
        if self.disk.stat(&self.dir)?.is_none() {
            ensure_dir(&*self.disk, &self.dir)?;
        }
        let temporary = temporary_of_process(&path);
        replace_by(&*self.disk, &temporary, &path, bytes, durability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn a_state_has_one_id_and_what_is_kept_under_it_stays() {
        let temp = tempfile::tempdir().unwrap();
        let (layout, home) = (StateLayout::new(temp.path()), temp.path().join("a/home"));
        let disk = Arc::new(RealDisk::new());
        assert_eq!(StateId::of(&*disk, &layout).unwrap(), None);
        let id = StateId::ensure(&*disk, &layout, 7).unwrap();
        assert_eq!(StateId::ensure(&*disk, &layout, 8).unwrap(), id);
        let kept = UserState::of(disk.clone(), &home, &id);
        assert_eq!(kept.read("head").unwrap(), None);
        for text in ["one", "two"] {
            kept.write("head", text.as_bytes(), Durability::Derived)
                .unwrap();
        }
        assert_eq!(kept.read("head").unwrap().as_deref(), Some(&b"two"[..]));
        let other = UserState::of(disk, &home, &StateId(format!("{:032x}", 9)));
        assert_eq!(other.read("head").unwrap(), None);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test breaks the file")]
    fn half_an_id_is_none_and_is_made_again() {
        let temp = tempfile::tempdir().unwrap();
        let (layout, disk) = (StateLayout::new(temp.path()), RealDisk::new());
        for broken in ["", "00ab", "../../../../../../../../etc/passwd/"] {
            std::fs::write(layout.id(), broken).unwrap();
            assert_eq!(StateId::of(&disk, &layout).unwrap(), None, "{broken}");
        }
        let id = StateId::ensure(&disk, &layout, 7).unwrap();
        assert_eq!(StateId::of(&disk, &layout).unwrap(), Some(id));
    }
}
