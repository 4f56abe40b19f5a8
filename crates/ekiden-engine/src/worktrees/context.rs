//! What a stage's agent sees of the project, as it is in the stage's worktree.

use std::io::Read as _;
use std::path::Path;

use ekiden_core::handoff::{FileText, NotText};
use ekiden_core::prompt::{ContextInput, FileInput, StageContext, summary_of};
use ekiden_store::beneath::{self, NotInside};

use super::StageJob;
use crate::globs;

/// How many file names are collected; the prompt has room for fewer.
const FILES_MAX: usize = 1_000;
/// How much is read of one file: more than the prompt's whole room for files.
const BYTES_MAX: u64 = 256 * 1024;
/// The same for the architecture document.
const DOCUMENT_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Reads what the agent will see. A file that cannot be read is listed with the reason. What was carried into the
/// worktree is named by its place there. A name that leads out of the project is an error; a link that a
/// pattern or a directory meets on its way is listed.
pub(super) fn read(dir: &Path, job: &StageJob, carried: &[String]) -> Result<StageContext, String> {
    let place = |name: &String| match carried.contains(name) {
        true => format!(".ekiden/context/{name}"),
        false => name.clone(),
    };
    let found = globs::find(dir, &job.stage.part.context, FILES_MAX)?;
    let document = &job.input.document;
    let brought = carried.iter().filter(|name| *name != document);
    let there = found.files.iter().chain(brought).map(|name| {
        let path = place(name);
        let content = content(dir, &path, BYTES_MAX);
        FileInput { path, content }
    });
    let missing = found.missing.iter().filter(|name| !carried.contains(name));
    let missing = missing.map(|name| FileInput {
        path: name.clone(),
        content: FileText::Absent,
    });
    let mut architecture = job.input.architecture.clone();
    // A shortened summary says where the whole is, and that place has changed.
    if carried.contains(document)
        && let FileText::Text(text) = content(dir, &place(document), DOCUMENT_BYTES_MAX)
    {
        architecture = summary_of(&text, &place(document));
    }
    Ok(StageContext::of(&ContextInput {
        architecture,
        files: there.chain(missing).collect(),
        document: place(document),
        ..job.input.clone()
    }))
}

fn content(dir: &Path, name: &str, bytes_max: u64) -> FileText {
    let mut file = match beneath::open_file(dir, Path::new(name)) {
        Ok(found) => found.file,
        Err(NotInside::Absent | NotInside::Io(_)) => return FileText::Absent,
        Err(
            NotInside::LeadsOut { .. }
            | NotInside::OfGit { .. }
            | NotInside::Circle
            | NotInside::NotAFile,
        ) => return FileText::NotText(NotText::Special),
    };
    let bytes = file.metadata().map_or(0, |found| found.len());
    if bytes > bytes_max {
        return FileText::TooLarge { bytes };
    }
    let mut read = Vec::new();
    match file.by_ref().take(bytes_max).read_to_end(&mut read) {
        Ok(_) => match String::from_utf8(read) {
            Ok(text) if !text.contains('\0') => FileText::Text(text),
            Ok(_) | Err(_) => FileText::NotText(NotText::Binary),
        },
        Err(_) => FileText::Absent,
    }
}
