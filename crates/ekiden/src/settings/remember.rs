//! Keeping a choice in the user's settings file.
//!
//! The line goes before all others, since a key without a table belongs above the tables. The rest
//! of the file stays byte for byte as it is.

use std::path::Path;

use ekiden_store::disk::{Disk, DiskResult, RealDisk};
use ekiden_store::replace::{Durability, replace, replace_foreign};

/// Larger than any settings file that a person wrote.
const BYTES_MAX: u64 = 1024 * 1024;

/// Puts `line` at the head of a settings file, and makes the file if there is none. Durable.
///
/// # Errors
///
/// If the file cannot be read or written; it is as it was then.
pub fn remember(file: &Path, line: &str) -> DiskResult<()> {
    let disk = RealDisk::new();
    let whole = |rest: &[u8]| [line.as_bytes(), b"\n", rest].concat();
    if disk.stat(file)?.is_none() {
        create_dirs(&disk, ekiden_store::disk::parent(file))?;
        return replace(&disk, file, &whole(b""), Durability::Full);
    }
    let before = disk.read(&disk.resolve(file)?, BYTES_MAX)?;
    replace_foreign(&disk, file, &whole(&before))
}

/// Makes a directory and those above it.
pub(super) fn create_dirs(disk: &dyn Disk, dir: &Path) -> DiskResult<()> {
    if disk.stat(dir)?.is_some() {
        return Ok(());
    }
    if let Some(above) = dir.parent() {
        create_dirs(disk, above)?;
    }
    disk.create_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: AGT-13
    #[test]
    fn a_choice_stands_above_what_the_file_says() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join(".config/ekiden/config.toml");
        remember(&file, "[agents.mine]\nkind = \"exec\"").unwrap();
        remember(&file, "permission_mode = \"acceptEdits\"").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text, "permission_mode = \"acceptEdits\"\n[agents.mine]\nkind = \"exec\"\n");
    }
}
