//! The handoff of an earlier session, given to the one that begins.

use std::time::SystemTime;

use ekiden_core::guard::document::{Loaded, load as load_document};
use ekiden_core::time::Millis;
use ekiden_store::disk::{DiskError, RealDisk};
use ekiden_store::documents::Documents;
use ekiden_store::layout::{Published, StateLayout};

use super::Scene;

/// The name and the text of the handoff that this session goes on from, if there is one: the newest that
/// nobody has taken yet, or after a compaction the session's own.
pub(super) fn load(scene: &Scene, own: bool) -> Result<Option<(String, String)>, DiskError> {
    let disk = RealDisk::fenced(&scene.place.dir);
    let published = Published::new(&scene.place.dir);
    let state = StateLayout::new(&scene.place.state_dir);
    let documents = Documents::of(&disk, &published, &state);
    let name = if own { own_document(scene) } else { documents.newest_unconsumed()? };
    let Some(name) = name else { return Ok(None) };
    let Some(text) = documents.read(&name)? else { return Ok(None) };
    let path = documents.path(&name);
    let age = age(scene, &path);
    // Two sessions that begin at once: one of them goes on from it.
    if !documents.consume(&name, &scene.session)? && !own {
        return Ok(None);
    }
    let path = path.display().to_string();
    Ok(Some((name, load_document(&Loaded { document: &text, path: &path, age }))))
}

fn own_document(scene: &Scene) -> Option<String> {
    let last = scene.watch().last?;
    std::path::Path::new(&last.document).file_name()?.to_str().map(str::to_owned)
}

fn age(scene: &Scene, path: &std::path::Path) -> Option<Millis> {
    let modified = path.metadata().ok()?.modified().ok()?;
    let at = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let at = ekiden_core::time::Timestamp(u64::try_from(at.as_millis()).ok()?);
    Some(scene.now.since(at))
}
