//! `guard/errors.log`: what went wrong in calls of the guard.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ekiden_core::time::Timestamp;
use ekiden_store::guard::{has_error, note_error};

/// The state directory of this call, once it is known. Why global: a panic has access to nothing else.
static PLACE: OnceLock<(PathBuf, Timestamp)> = OnceLock::new();

pub(super) fn at(state_dir: &Path, now: Timestamp) {
    // A second session of the same call belongs to the same project.
    let _ = PLACE.set((state_dir.to_owned(), now));
}

/// Adds a line. If that fails too, there is nobody left to report to.
pub(super) fn note(text: &str) {
    if let Some((state_dir, now)) = PLACE.get() {
        let _ = note_error(state_dir, &format!("{} {text}", now.rfc3339()));
    }
}

/// The same for a problem that every call meets: once, until somebody deletes the file.
pub(super) fn note_once(text: &str) {
    let text = text.replace('\n', " ");
    let place = PLACE.get();
    if !place.is_some_and(|(state_dir, _)| has_error(state_dir, &text)) {
        note(&text);
    }
}
