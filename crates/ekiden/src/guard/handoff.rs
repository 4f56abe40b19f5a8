//! Gives an earlier session's handoff to a session that starts.

use std::path::Path;
use std::sync::Arc;

use ekiden_core::guard::document::{Loaded, load as load_document};
use ekiden_core::guard::watch::WatchEvent;
use ekiden_core::limits;
use ekiden_core::prompt::offered_handoff;
use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::disk::{DiskError, RealDisk};
use ekiden_store::documents::Documents;

use super::Watched;

/// The message about the handoff that this session continues from, if there is one: after a compaction the session's
/// own, after `/clear` that of the session that was cleared, otherwise the newest that no session has worked from. A
/// handoff that is old or of another branch is only named.
pub(super) fn load(
    watched: &Watched,
    own: bool,
    cleared: Option<&str>,
    orient: &str,
) -> Result<Option<String>, DiskError> {
    let documents = documents(watched);
    let name = if own {
        let last = watched.watch().last;
        let path = last.map(|last| last.taken.document);
        path.as_deref()
            .and_then(|path| Path::new(path).file_name()?.to_str().map(str::to_owned))
    } else if let Some(cleared) = cleared
        && let Some(name) = documents.unconsumed_of(cleared)?
    {
        Some(name)
    } else {
        documents.newest_unconsumed(watched.place.branch().as_deref(), None)?
    };
    let Some(name) = name else { return Ok(None) };
    let Some(document) = documents.read(&name)? else {
        return Ok(None);
    };
    let path = documents.path(&name);
    let age = age(watched, &path);
    let origin = documents.origin(&name, &document)?.unwrap_or_default();
    let path = &*path.display().to_string();
    let (made_on, here) = (origin.branch, watched.place.branch());
    let is_old = age.is_some_and(|age| age > limits::DOCUMENT_SHOWN_FOR);
    // Git may not have answered then.
    let is_here = made_on.is_none() || made_on == here;
    // Work on one branch does not use up the handoff of another. If the record cannot be written, the handoff is
    // shown again next time.
    if is_old || is_here {
        watched.note(WatchEvent::Loaded { document: name });
    }
    if !own && (is_old || !is_here) {
        let days = age.map_or(0, |age| age.as_secs() / (24 * 60 * 60));
        let age = if days == 0 {
            "less than a day".to_owned()
        } else {
            format!("{days} days")
        };
        let branch = made_on.as_deref().unwrap_or("none");
        return Ok(Some(offered_handoff(path, &age, branch, orient)));
    }
    let document = &document;
    Ok(Some(load_document(&Loaded {
        document,
        path,
        age,
    })))
}

/// Keeps a document from being given to another session.
pub(super) fn consume(watched: &Watched, name: &str) -> Result<bool, DiskError> {
    documents(watched).consume(name, &watched.session)
}

fn documents(watched: &Watched) -> Documents {
    let (dir, state_dir) = (&watched.place.dir, &watched.place.state_dir);
    Documents::of(Arc::new(RealDisk::fenced(dir)), dir, state_dir)
}

fn age(watched: &Watched, path: &Path) -> Option<Millis> {
    let at = Timestamp::of_system(path.metadata().ok()?.modified().ok()?)?;
    Some(watched.now.since(at))
}
