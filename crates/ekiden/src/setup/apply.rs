//! Carrying out a plan.

use std::path::Path;

use ekiden_store::archive::ensure_dir;
use ekiden_store::disk::{Disk as _, parent};
use ekiden_store::replace::{Durability, replace, replace_foreign};

use super::FILE_BYTES_MAX;
use super::place::Place;
use super::plan::{FileChange, Plan};
use crate::exit::Exit;
use crate::failure::{self, Failure};

/// Does what the plan says; each file is the old or the new one, never half of it. What was done before
/// an error or a crash is found by the next call.
///
/// # Errors
///
/// If a file was changed since the plan was made, or cannot be written.
pub fn apply(plan: &Plan, place: &Place) -> Result<(), Failure> {
    unchanged(&plan.settings, place)?;
    match &plan.receipt {
        Some((receipt, original)) => {
            let original = original.as_ref().map(String::as_bytes);
            place.receipt.write(&place.disk, receipt, original).map_err(|error| refused(&error))?;
            for dir in plan.dirs.iter().filter(|dir| dir.starts_with(&place.dir)) {
                ensure_dir(&place.disk, dir).map_err(|error| refused(&error))?;
            }
            plan.skills.iter().chain([&plan.settings]).try_for_each(|change| put(change, place))
        }
        None => {
            [&plan.settings].into_iter().chain(&plan.skills).try_for_each(|change| put(change, place))?;
            plan.dirs.iter().rev().try_for_each(|dir| remove_dir(dir, place))?;
            place.receipt.remove(&place.disk).map_err(|error| refused(&error))
        }
    }
}

fn put(change: &FileChange, place: &Place) -> Result<(), Failure> {
    let (disk, path) = (&place.disk, change.path.as_path());
    let done = match (&change.before, &change.after) {
        (before, after) if before == after => Ok(()),
        (Some(_), Some(after)) => replace_foreign(disk, path, after.as_bytes()),
        (None, Some(after)) => replace(disk, path, after.as_bytes(), Durability::Full),
        (_, None) => disk.remove(path).and_then(|()| disk.sync_dir(parent(path))),
    };
    done.map_err(|error| refused(&error))
}

/// A directory that we made goes if nobody has put anything into it.
fn remove_dir(dir: &Path, place: &Place) -> Result<(), Failure> {
    match place.disk.remove_dir(dir) {
        Err(error) if !error.is_not_found() && !error.is_not_empty() => Err(refused(&error)),
        _ => Ok(()),
    }
}

/// The client writes its settings too.
fn unchanged(change: &FileChange, place: &Place) -> Result<(), Failure> {
    let now = match place.disk.read(&change.path, FILE_BYTES_MAX) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(refused(&error)),
    };
    if now.as_deref() == change.before.as_ref().map(String::as_bytes) {
        return Ok(());
    }
    let text = format!("cannot change `{}`: something else changed it just now", change.path.display());
    Err(Failure::new(Exit::State, text).hint("nothing was changed; try again"))
}

fn refused(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::State, format!("cannot {}", failure::chain(error)))
}
