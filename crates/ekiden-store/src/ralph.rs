//! `ralph-state.json`, and the prompt for the next iteration, which is made from it.

use std::path::Path;

use ekiden_core::memory::MemoryTools;
use ekiden_core::ralph::{PROMPT_FILE, RalphState, prompt_for_next};
use ekiden_core::relay::ITEMS_FILE;

use crate::disk::{Disk, DiskResult, if_there};
use crate::error::{FileFault, StoreError};
use crate::layout::Published;
use crate::replace::{replace_at_once, replace_in_project};

const VERSION: u32 = 1;
/// The largest of a loop's files that is read, in bytes.
const BYTES_MAX: u64 = 1024 * 1024;

/// The file of a loop; none if there is no loop.
pub fn state(disk: &dyn Disk, published: &Published) -> Result<Option<RalphState>, StoreError> {
    let path = published.ralph_state();
    let Some(bytes) = if_there(disk.read(&path, BYTES_MAX))? else {
        return Ok(None);
    };
    let fault = |fault| StoreError::file("read", &path, fault);
    let parsed = serde_json::from_slice(&bytes).map_err(FileFault::DamagedLoop);
    let state: RalphState = parsed.map_err(fault)?;
    let (found, known) = (state.version, VERSION);
    match found > known {
        true => Err(fault(FileFault::TooNew { found, known })),
        false => Ok(Some(state)),
    }
}

/// Changes the file, and makes it if it is missing.
pub fn change(
    disk: &dyn Disk,
    published: &Published,
    change: impl FnOnce(&mut RalphState),
) -> Result<RalphState, StoreError> {
    let before = state(disk, published)?;
    let mut state = before.clone().unwrap_or_default();
    state.version = VERSION;
    change(&mut state);
    if before.as_ref() != Some(&state) {
        let path = published.ralph_state();
        let text = serde_json::to_vec_pretty(&state);
        let text = text.map_err(|error| StoreError::file("write", &path, FileFault::NoJson(error)));
        replace_at_once(disk, &path, &text?)?;
    }
    Ok(state)
}

/// Makes the prompt for the next iteration. Leaves a prompt alone that is missing or is not text.
pub fn regenerate_prompt(
    disk: &dyn Disk,
    work_dir: &Path,
    state: &RalphState,
    tools: Option<MemoryTools>,
) -> DiskResult<()> {
    let Some(before) = text(disk, work_dir, PROMPT_FILE) else {
        return Ok(());
    };
    let after = prompt_for_next(&before, state, tools);
    match after == before {
        true => Ok(()),
        false => replace_in_project(disk, &work_dir.join(PROMPT_FILE), after.as_bytes()),
    }
}

/// The current list; empty if it is unreadable.
pub fn list(disk: &dyn Disk, work_dir: &Path) -> String {
    text(disk, work_dir, ITEMS_FILE).unwrap_or_default()
}

fn text(disk: &dyn Disk, work_dir: &Path, name: &str) -> Option<String> {
    let bytes = disk.read(&work_dir.join(name), BYTES_MAX).ok()?;
    String::from_utf8(bytes).ok()
}
