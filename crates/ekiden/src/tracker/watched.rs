//! What a checkpoint of a watched session writes into its issue.

use std::path::Path;

use ekiden_core::guard::document::KeyPoints;
use ekiden_core::time::Timestamp;
use ekiden_engine::checkpoint::{Request, Taken};
use ekiden_engine::steering::host;
use ekiden_store::disk::{Disk as _, RealDisk};
use ekiden_store::limits::DOCUMENT_BYTES_MAX;
use ekiden_store::outbox::name_of;
use ekiden_tracker::{Document, Entry, HEADS, NewState, Write};

use super::Trackers;
use crate::settings::table;

/// A part of a session's id that distinguishes it from others.
const SESSION_CHARS: usize = 8;

/// A loop that a person runs, as its issue knows it.
#[derive(Debug, Clone)]
pub struct LoopInIssue {
    pub iteration: u32,
    /// The conversation whose comment is the loop's.
    pub session: String,
}

/// Queues the checkpoint's entry, label and state, and has them sent. Returns an error as one line.
pub fn tell_checkpoint(
    request: &Request,
    taken: &Taken,
    at: Timestamp,
    of_loop: impl FnOnce() -> Option<LoopInIssue>,
) -> Result<(), String> {
    let Ok(trackers) = Trackers::of_project(&request.project_dir) else {
        return Ok(());
    };
    let issue = taken
        .issue
        .as_deref()
        .and_then(|name| trackers.of_name(name));
    let (Some(issue), Some(outbox)) = (issue, trackers.outbox()) else {
        return Ok(());
    };
    let text = RealDisk::new().read(&taken.document, DOCUMENT_BYTES_MAX);
    let text = text
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let points = KeyPoints::of(&text);
    let of_loop = of_loop();
    let id = request.session_id.as_deref();
    let of_comment = of_loop.as_ref().map(|of_it| &*of_it.session).or(id);
    let short = of_comment.unwrap_or("shell").chars().take(SESSION_CHARS);
    let short: String = short.collect();
    // A checkpoint by hand, outside of any session. In Linear, the comment's id is made from this.
    let shell = format!("{} {}", host(), request.project_dir.display());
    let shell = format!("shell-{}", name_of(&shell));
    let (session, of_comment) = (id.unwrap_or(&shell), of_comment.unwrap_or(&shell));
    let place = match &of_loop {
        Some(of_it) => format!("Iteration {}", of_it.iteration),
        None => format!("Session {short}"),
    };
    let document = trackers.document(&taken.name, text);
    let entry = entry(request, &place, at, points, document);
    let comment = Write::Entry {
        comment: format!("session/{of_comment}/{issue}"),
        head: format!("{}{short}. This comment is kept up to date.", HEADS[1]),
        entry: Box::new(entry.bounded()),
    };
    for (what, write) in std::iter::once(("entry", comment)).chain(trackers.marks()) {
        let key = match matches!(write, Write::State { .. }) {
            // Only once: where a person has moved the issue since, it stays.
            true => format!("{of_comment}/{issue}/{what}"),
            false => format!("{session}/{issue}/{}/{what}", taken.name),
        };
        trackers.queue(&outbox, &issue, key, (at, at.0), write)?;
    }
    super::begin(&request.project_dir).map_err(|error| format!("start the sending: {error}"))
}

/// What the comment says about a checkpoint.
fn entry(
    request: &Request,
    place: &str,
    at: Timestamp,
    points: KeyPoints,
    document: Document,
) -> Entry {
    let percent = request.percent.map(|percent| format!(" at {percent}%"));
    Entry {
        head: format!(
            "{place} · {}{}",
            request.reason.name(),
            percent.unwrap_or_default()
        ),
        at,
        facts: points
            .task
            .into_iter()
            .chain(points.branch.map(|branch| format!("Branch: {branch}")))
            .collect(),
        done: points.done,
        next: points.next_steps,
        asks: Vec::new(),
        document,
    }
}

/// Queues the removal of the label: a session continues from the handoff. Returns an error as one line.
pub fn tell_continued(dir: &Path, issue: &str, session: &str, at: Timestamp) -> Result<(), String> {
    let Ok(trackers) = Trackers::of_project(dir) else {
        return Ok(());
    };
    let (Some(issue), Some(outbox), Some(name)) =
        (trackers.of_name(issue), trackers.outbox(), trackers.label())
    else {
        return Ok(());
    };
    let write = Write::Label {
        name,
        is_set: false,
    };
    let key = format!("{session}/continued/label");
    trackers.queue(&outbox, &issue, key, (at, at.0), write)?;
    super::begin(dir).map_err(|error| format!("start the sending: {error}"))
}

impl Trackers {
    /// Where a handoff can be read: on the web if the user says where, otherwise in the comment.
    pub(super) fn document(&self, name: &str, text: String) -> Document {
        match self.get(&table::TRACKER_DOCUMENT_URL) {
            Some(url) => Document::Link(url.replace("{name}", name)),
            None if text.trim().is_empty() => Document::None,
            None => Document::Text(text),
        }
    }

    /// The label and the state of an issue that has a handoff.
    pub(super) fn marks(&self) -> Vec<(&'static str, Write)> {
        let state = self.get(&table::TRACKER_STATE);
        let state = state.map(|name| Write::State {
            state: NewState::Named(name),
        });
        let label = self.label().map(|name| Write::Label { name, is_set: true });
        label
            .map(|label| ("label", label))
            .into_iter()
            .chain(state.map(|state| ("state", state)))
            .collect()
    }

    /// The label that says so; `None` if the user wants none.
    pub(super) fn label(&self) -> Option<String> {
        self.get(&table::TRACKER_LABEL)
            .filter(|label| label != "none")
    }
}
