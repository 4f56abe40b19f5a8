//! The receipt of `ekiden setup`: what it changed in another program's directory, and what was there before, so
//! that it can be undone.
//!
//! ```text
//! <dir>/original.json   the settings as they would be without us; missing if there were none
//!       receipt.json    what was written, by hash; which directories were created
//! ```
//!
//! Invariants:
//!
//! * **The receipt is written before the things it lists**, so nothing is installed without a record of how to
//!   remove it. After a crash it may list things that do not exist, and files may still be the ones from before.
//!   Uninstalling compares each one, and skips what is missing or has another hash.
//! * **The copy is on the disk before the receipt that refers to it.**
//! * Without a receipt, only byte-for-byte restoration is lost: ekiden can still distinguish its own entries from
//!   others.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ekiden_core::hash::sha256_hex;
use serde::{Deserialize, Serialize};

use crate::archive::ensure_dir;
use crate::disk::{Disk, DiskResult, if_there};
use crate::error::{FileFault, StoreError};
use crate::format::{Header, RECEIPT};
use crate::limits::SMALL_FILE_BYTES_MAX;
use crate::replace::{Durability, replace};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receipt {
    /// The settings file, with links followed.
    pub settings: PathBuf,
    /// There was no settings file before.
    pub created: bool,
    /// SHA-256 of the settings as we wrote them: if it still matches, they are unchanged.
    pub written: String,
    /// The other files that we made, with the SHA-256 of what we wrote into them.
    pub files: BTreeMap<PathBuf, String>,
    /// The SHA-256 of what we had written into them before, where that is something else.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub before: BTreeMap<PathBuf, String>,
    /// The directories that we made, outer ones first.
    pub dirs: Vec<PathBuf>,
    /// The client had no state file before.
    #[serde(default)]
    pub state_created: bool,
    /// How many objects we made around the MCP server in it.
    #[serde(default)]
    pub server_made: usize,
}

/// The receipt with the header of its format.
#[derive(Serialize)]
struct Versioned {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    receipt: Receipt,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptDir {
    dir: PathBuf,
}

impl Receipt {
    /// The settings are as we wrote them.
    pub fn wrote(&self, settings: &[u8]) -> bool {
        self.written == sha256_hex(settings)
    }

    /// We made this file, and it is as we wrote it, now or before.
    pub fn made(&self, path: &Path, content: &[u8]) -> bool {
        let hash = sha256_hex(content);
        let written = [&self.files, &self.before];
        written.iter().any(|files| files.get(path) == Some(&hash))
    }
}

impl ReceiptDir {
    /// The directory for the receipt of one settings file, below the user's state directory.
    pub fn of(state: &Path, settings: &Path) -> Self {
        let name = &sha256_hex(settings.as_os_str().as_encoded_bytes())[..16];
        Self {
            dir: state.join("setup").join(name),
        }
    }

    /// The copy of the settings as they would be without us.
    pub fn original(&self) -> PathBuf {
        self.dir.join("original.json")
    }

    fn receipt(&self) -> PathBuf {
        self.dir.join("receipt.json")
    }

    pub fn read(&self, disk: &dyn Disk) -> Result<Option<Receipt>, StoreError> {
        let path = self.receipt();
        let Some(bytes) = if_there(disk.read(&path, SMALL_FILE_BYTES_MAX))? else {
            return Ok(None);
        };
        let damaged = |error| {
            let fault = FileFault::DamagedReceipt(error);
            StoreError::file("read the receipt", &path, fault)
        };
        // In a newer one, the fields may be others.
        let header: Header = serde_json::from_slice(&bytes).map_err(damaged)?;
        RECEIPT.check(&path, &header)?.to_write(&path)?;
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// The settings as they would be without us; none if there were none.
    pub fn read_original(&self, disk: &dyn Disk, bytes_max: u64) -> DiskResult<Option<Vec<u8>>> {
        if_there(disk.read(&self.original(), bytes_max))
    }

    /// Writes the settings as they would be without us, then the receipt. Durable. After a crash in between,
    /// the older receipt is beside the newer copy. Then its hash does not match the settings, unless they are
    /// as they were, and in that case the copy matches them too.
    pub fn write(
        &self,
        disk: &dyn Disk,
        receipt: &Receipt,
        original: Option<&[u8]>,
    ) -> DiskResult<()> {
        ensure_dir(disk, &self.dir)?;
        match original {
            Some(original) => replace(disk, &self.original(), original, Durability::Full)?,
            None => {
                if_there(disk.remove(&self.original()))?;
            }
        }
        let versioned = Versioned {
            header: RECEIPT.header(),
            receipt: receipt.clone(),
        };
        let path = self.receipt();
        let bytes = serde_json::to_vec_pretty(&versioned).expect("a receipt is plain data");
        replace(disk, &path, &bytes, Durability::Full)
    }

    /// Removes the receipt, then the copy, and the directories that this empties. After a crash in between the
    /// copy may stay.
    pub fn remove(&self, disk: &dyn Disk) -> DiskResult<()> {
        if_there(disk.remove(&self.receipt()))?;
        if_there(disk.remove(&self.original()))?;
        // The directory itself, the one for all receipts, and ekiden's directory in the user's state directory.
        self.dir
            .ancestors()
            .take(3)
            .try_for_each(|dir| match disk.remove_dir(dir) {
                Err(error) if !error.is_absent() && !error.is_not_empty() => Err(error),
                _ => Ok(()),
            })
    }
}
