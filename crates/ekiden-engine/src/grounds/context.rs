//! What a stage's agent is shown of the project, as it lies in its ground.

use std::path::Path;

use ekiden_core::prompt::{ContextInput, FileContent, FileInput, StageContext};
use ekiden_store::disk::{Disk, Kind};

use super::GroundJob;
use crate::globs;

/// Files of which the names are found; the prompt has room for fewer.
const FILES_MAX: usize = 1_000;
/// The most that is read of one file: more than the prompt's whole room for files.
const BYTES_MAX: u64 = 256 * 1024;

/// Reads what the agent is shown. What cannot be read is told as what it is.
pub(super) fn read(disk: &dyn Disk, dir: &Path, job: &GroundJob) -> StageContext {
    let found = globs::find(dir, &job.stage.part.context, FILES_MAX).unwrap_or_default();
    let there = found.files.into_iter().map(|path| {
        let content = content(disk, &dir.join(&path));
        FileInput { path, content }
    });
    let missing = found.missing.into_iter().map(|path| FileInput { path, content: FileContent::Missing });
    let files = there.chain(missing).collect();
    StageContext::of(&ContextInput { files, ..job.input.clone() })
}

fn content(disk: &dyn Disk, path: &Path) -> FileContent {
    match disk.stat(path) {
        Ok(Some(stat)) if stat.kind == Kind::File && stat.len > BYTES_MAX => {
            return FileContent::TooLarge { bytes: stat.len };
        }
        Ok(Some(stat)) if stat.kind == Kind::File => {}
        // A link may lead anywhere.
        Ok(Some(_)) => return FileContent::NotText,
        Ok(None) | Err(_) => return FileContent::Missing,
    }
    match disk.read(path, BYTES_MAX).map(String::from_utf8) {
        Ok(Ok(text)) if !text.contains('\0') => FileContent::Text(text),
        Ok(_) => FileContent::NotText,
        Err(_) => FileContent::Missing,
    }
}
