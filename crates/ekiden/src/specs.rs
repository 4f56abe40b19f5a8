//! Documents that say what to do, and the files that they name.

use std::collections::BTreeMap;
use std::path::Path;

use ekiden_core::guard::Window;
use ekiden_core::guard::estimate::named_files;
use ekiden_core::handoff::open_items;
use ekiden_core::shard::{LargeSpec, Spec};

/// The largest document that is read while a person waits, in bytes.
const SPEC_BYTES_MAX: u64 = 1024 * 1024;

/// The files of the project that a text names, with their sizes.
pub fn file_bytes(dir: &Path, text: &str) -> BTreeMap<String, u64> {
    let size = |file: &str| {
        let metadata = dir.join(file).metadata().ok()?;
        metadata
            .is_file()
            .then(|| (file.to_owned(), metadata.len()))
    };
    named_files(text).into_iter().filter_map(size).collect()
}

/// A document of the project, if it should be sharded before the work starts. `boxes` wants open tick boxes in it: a
/// prompt may name a document without asking for the work in it.
pub fn large_spec(dir: &Path, name: &str, window: &Window, boxes: bool) -> Option<LargeSpec> {
    let path = dir.join(name);
    let is_read = |size: u64| size <= SPEC_BYTES_MAX;
    path.metadata()
        .ok()
        .filter(|meta| meta.is_file() && is_read(meta.len()))?;
    let text = std::fs::read_to_string(path).ok()?;
    if boxes && open_items(&text).open.is_empty() {
        return None;
    }
    let spec = Spec {
        text: &text,
        file_bytes: &file_bytes(dir, &text),
        window_tokens: window.usable_tokens(),
    };
    LargeSpec::of(name, &spec)
}
