//! The receipt of `ekiden setup`: what was changed in another program's directory, and how it was
//! before, so that it can be undone.
//!
//! ```text
//! <dir>/original.json   the settings as they would be without us; none if there were none
//!       receipt.json    what was written, by hash; which files and directories were made
//! ```
//!
//! Invariants:
//!
//! * **The receipt is written before what it tells of**, so that nothing is ever there that nobody
//!   knows to take away. After a crash it may name what is not there; whoever undoes it compares, and
//!   passes over what is missing or has another hash.
//! * **The copy is on the disk before the receipt that speaks of it.**
//! * Without a receipt nothing is lost but byte-for-byte equality: what is ours can still be told from
//!   what is not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use serde::{Deserialize, Serialize};

use crate::archive::ensure_dir;
use crate::disk::{Disk, DiskError};
use crate::format::{FormatError, Header, RECEIPT};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::replace::{Durability, replace};

/// The receipt cannot be read or written. Reads well after "cannot".
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// The disk refuses.
    #[error("keep the receipt of the setup")]
    Disk(#[from] DiskError),
    /// It is damaged.
    #[error("read the receipt `{}`", path.display())]
    Damaged {
        /// The receipt.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// It belongs to a newer program, or to none.
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// What was changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receipt {
    /// The settings file, links followed.
    pub settings: PathBuf,
    /// There was no settings file before us.
    pub created: bool,
    /// SHA-256 of the settings as we wrote them. While they still are so, nobody else has changed them.
    pub written: String,
    /// The other files that were made, with the SHA-256 of what was written into them.
    pub files: BTreeMap<PathBuf, String>,
    /// The directories that were made, outer ones first.
    pub dirs: Vec<PathBuf>,
}

/// The form on the disk.
#[derive(Serialize, Deserialize)]
struct Versioned {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    receipt: Receipt,
}

/// Where a receipt lies, and the copy with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptDir {
    dir: PathBuf,
}

impl Receipt {
    /// The settings are as we wrote them.
    #[must_use]
    pub fn wrote(&self, settings: &[u8]) -> bool {
        self.written == sha256_hex(settings)
    }

    /// The file is one that we made, and is as we wrote it.
    #[must_use]
    pub fn made(&self, path: &Path, content: &[u8]) -> bool {
        self.files.get(path).is_some_and(|hash| *hash == sha256_hex(content))
    }
}

impl ReceiptDir {
    /// The place for the receipt of one settings file, beneath a directory of the user's own state.
    #[must_use]
    pub fn of(state: &Path, settings: &Path) -> Self {
        let name = &sha256_hex(settings.as_os_str().as_encoded_bytes())[..16];
        Self { dir: state.join("setup").join(name) }
    }

    /// The copy of the settings as they would be without us.
    #[must_use]
    pub fn original(&self) -> PathBuf {
        self.dir.join("original.json")
    }

    fn receipt(&self) -> PathBuf {
        self.dir.join("receipt.json")
    }

    /// The receipt, if there is one.
    ///
    /// # Errors
    ///
    /// One that cannot be read is never taken for none.
    pub fn read(&self, disk: &dyn Disk) -> Result<Option<Receipt>, ReceiptError> {
        let path = self.receipt();
        let bytes = match disk.read(&path, SMALL_FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let versioned: Versioned = serde_json::from_slice(&bytes)
            .map_err(|source| ReceiptError::Damaged { path: path.clone(), source })?;
        RECEIPT.check(&path, &versioned.header)?.to_write(&path)?;
        Ok(Some(versioned.receipt))
    }

    /// The settings as they would be without us; nothing if there were none.
    ///
    /// # Errors
    ///
    /// If the copy cannot be read.
    pub fn read_original(&self, disk: &dyn Disk, bytes_max: u64) -> Result<Option<Vec<u8>>, ReceiptError> {
        match disk.read(&self.original(), bytes_max) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps the settings as they would be without us, then the receipt. Durable. After a crash in
    /// between the older receipt stands beside the newer copy: its hash no longer fits the settings
    /// then, unless they are as they were, and then the copy is right for them too.
    ///
    /// # Errors
    ///
    /// If the disk refuses: then nothing that the receipt tells of may be done.
    pub fn write(
        &self,
        disk: &dyn Disk,
        receipt: &Receipt,
        original: Option<&[u8]>,
    ) -> Result<(), ReceiptError> {
        ensure_dir(disk, &self.dir)?;
        match original {
            Some(original) => replace(disk, &self.original(), original, Durability::Full)?,
            None => remove(disk, &self.original())?,
        }
        let versioned = Versioned { header: RECEIPT.header(), receipt: receipt.clone() };
        let path = self.receipt();
        let bytes = serde_json::to_vec_pretty(&versioned)
            .map_err(|source| ReceiptError::Damaged { path: path.clone(), source })?;
        Ok(replace(disk, &path, &bytes, Durability::Full)?)
    }

    /// Removes the receipt, then the copy, and the directories that this leaves empty. After a crash in
    /// between the copy may stay.
    ///
    /// # Errors
    ///
    /// If the disk refuses.
    pub fn remove(&self, disk: &dyn Disk) -> Result<(), ReceiptError> {
        remove(disk, &self.receipt())?;
        remove(disk, &self.original())?;
        // The directory itself, the one for all receipts, and that of the user's state of ekiden.
        self.dir.ancestors().take(3).try_for_each(|dir| match disk.remove_dir(dir) {
            Err(error) if !error.is_not_found() && !error.is_not_empty() => Err(error.into()),
            _ => Ok(()),
        })
    }
}

/// Removes a file if it is there.
fn remove(disk: &dyn Disk, path: &Path) -> Result<(), DiskError> {
    match disk.remove(path) {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{SimDisk, every_crash};

    fn place() -> ReceiptDir {
        ReceiptDir::of(Path::new("/home/.local/state/ekiden"), Path::new("/home/.claude/settings.json"))
    }

    fn receipt(written: &[u8]) -> Receipt {
        Receipt {
            settings: "/home/.claude/settings.json".into(),
            written: sha256_hex(written),
            files: BTreeMap::from([("/home/.claude/x".into(), sha256_hex(b"x"))]),
            dirs: vec!["/home/.claude".into()],
            ..Receipt::default()
        }
    }

    // shows: OPS-02, DUR-02
    #[test]
    fn a_receipt_that_is_there_has_its_copy_wherever_the_machine_stops() {
        let start = SimDisk::new();
        start.plant_dir(Path::new("/home"));
        every_crash(
            &start,
            |disk| place().write(&**disk, &receipt(b"with us"), Some(b"without us")).is_ok(),
            |disk, returned, _| {
                let found = place().read(disk).expect("whole, or not there");
                assert!(found.is_some() || !returned);
                if let Some(found) = found {
                    assert!(found.wrote(b"with us") && found.made(Path::new("/home/.claude/x"), b"x"));
                    let copy = place().read_original(disk, 100).expect("the copy");
                    assert_eq!(copy.as_deref(), Some(&b"without us"[..]));
                }
            },
        );
    }

    #[test]
    fn what_is_removed_leaves_nothing_and_can_be_removed_again() {
        let disk = SimDisk::new();
        disk.plant_dir(Path::new("/home"));
        place().write(&disk, &receipt(b"a"), Some(b"b")).unwrap();
        place().write(&disk, &receipt(b"a"), None).unwrap();
        assert_eq!(place().read_original(&disk, 100).unwrap(), None);
        place().remove(&disk).unwrap();
        place().remove(&disk).unwrap();
        assert!(disk.list(Path::new("/home/.local/state")).unwrap().is_empty());
        assert_eq!(place().read(&disk).unwrap(), None);
    }

    // shows: DUR-05
    #[test]
    fn a_receipt_that_cannot_be_read_is_never_none() {
        let disk = SimDisk::new();
        disk.plant_file(&place().receipt(), b"{ torn");
        assert!(matches!(place().read(&disk).unwrap_err(), ReceiptError::Damaged { .. }));
        let newer = serde_json::to_string(&Versioned { header: RECEIPT.header(), receipt: receipt(b"a") });
        let newer = newer.unwrap().replace("\"version\":1", "\"version\":2");
        let disk = SimDisk::new();
        disk.plant_file(&place().receipt(), newer.as_bytes());
        assert!(matches!(place().read(&disk).unwrap_err(), ReceiptError::Format(_)));
    }
}
