//! What went wrong in a call of the guard, for whoever looks: `guard/errors.log`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ekiden_core::time::Timestamp;
use ekiden_store::guard::note_error;

use crate::failure::chain;

/// Where this call's complaints go, once that is known.
static PLACE: OnceLock<(PathBuf, Timestamp)> = OnceLock::new();

/// Says where the state of this call's project lies, for complaints.
pub(super) fn at(state_dir: &Path, now: Timestamp) {
    // A second scene of the same call is of the same project.
    let _ = PLACE.set((state_dir.to_owned(), now));
}

/// Adds a line. That it fails is told to nobody: there is nobody left.
pub(super) fn complain(error: &dyn Error) {
    note(&chain(error));
}

/// Adds a line about a panic.
pub(super) fn panicked(panic: &str) {
    note(panic);
}

fn note(text: &str) {
    if let Some((state_dir, now)) = PLACE.get() {
        let _ = note_error(state_dir, &format!("{} {text}", now.rfc3339()));
    }
}
