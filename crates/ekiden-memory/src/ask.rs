//! A question to the memory, whatever the state of its index.

use ekiden_core::text::in_full;
use ekiden_store::memory::MemoryFiles;

use crate::error::MemoryError;
use crate::index::{DATABASE, Memory, PATIENCE};

pub(crate) const ASIDE: &str = "index-2.aside.db";
/// What the names of all versions begin with.
const ANY: &str = "index";
/// The journal beside a database belongs to it.
const ENDS: [&str; 3] = ["", "-wal", "-shm"];

/// Asks the memory once it has caught up. A damaged database is set aside and rebuilt. On a disk that cannot be written,
/// the index answers as it is. The second value tells the user if either happened.
pub fn ask<T>(
    files: &MemoryFiles,
    question: impl Fn(&mut Memory) -> Result<T, MemoryError>,
) -> Result<(T, Option<String>), MemoryError> {
    let answer = || question(&mut Memory::open(files.clone())?);
    match answer() {
        Err(error) if error.is_damage() => {
            let lock = files.lock(PATIENCE)?.ok_or(MemoryError::Busy)?;
            set_aside(files);
            drop(lock);
            let aside = files.path(ASIDE);
            let told = format!(
                "the index of the memory was damaged: it was built again, and the old one is kept in {}",
                aside.display()
            );
            Ok((answer()?, Some(told)))
        }
        Err(error) if error.takes_nothing() && files.path(DATABASE).is_file() => {
            // If the index cannot be read either, return the first error: a person can do something about
            // that one.
            let answer =
                Memory::as_it_is(files.clone()).and_then(|mut memory| question(&mut memory));
            let Ok(answer) = answer else {
                return Err(error);
            };
            let told = format!(
                "the memory could not be brought up to date, so what is newest may be missing: cannot {}",
                in_full(&error)
            );
            Ok((answer, Some(told)))
        }
        answer => answer.map(|answer| (answer, None)),
    }
}

pub(crate) fn set_aside(files: &MemoryFiles) {
    shift(files, DATABASE, ASIDE);
}

/// A new database could not be built: makes the one that was set aside the one in use again, unless another process is
/// writing the new one.
pub(crate) fn keep_one(files: &MemoryFiles, error: &MemoryError) {
    match matches!(error, MemoryError::Busy) {
        true => remove_aside(files),
        false => shift(files, ASIDE, DATABASE),
    }
}

pub(crate) fn remove_aside(files: &MemoryFiles) {
    remove(files, ASIDE);
}

/// Removes every database except the one in use: that which was set aside, and those of other versions, whose programs
/// build them again. Whoever calls it holds the lock.
pub(crate) fn remove_others(files: &MemoryFiles) {
    let entries = std::fs::read_dir(files.dir()).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let is_other =
        |name: &String| name.starts_with(ANY) && name.ends_with(".db") && name.as_str() != DATABASE;
    names.filter(is_other).for_each(|name| remove(files, &name));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the index is the one file outside of the store"
)]
fn shift(files: &MemoryFiles, from: &str, to: &str) {
    remove(files, to);
    for end in ENDS {
        let [from, to] = [from, to].map(|name| files.path(&format!("{name}{end}")));
        // A missing file has nothing to keep.
        let _ = std::fs::rename(from, to);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the index is the one file outside of the store"
)]
fn remove(files: &MemoryFiles, name: &str) {
    for end in ENDS {
        let _ = std::fs::remove_file(files.path(&format!("{name}{end}")));
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test lays out the databases")]
mod tests {
    use super::*;

    // shows: MEM-07
    #[test]
    fn a_rebuild_that_fails_leaves_what_another_process_writes() {
        let home = tempfile::tempdir().unwrap();
        let files = MemoryFiles::of(home.path());
        let left = |error| {
            files.make_private(ASIDE).unwrap();
            std::fs::write(files.path(ASIDE), "old").unwrap();
            std::fs::write(files.path(DATABASE), "of another process").unwrap();
            keep_one(&files, &error);
            assert!(!files.path(ASIDE).exists());
            std::fs::read_to_string(files.path(DATABASE)).unwrap()
        };
        assert_eq!(left(MemoryError::Busy), "of another process");
        assert_eq!(left(MemoryError::Unknown("x".to_owned())), "old");
    }
}
