//! Reads the input of the statistics: the client's transcripts and the logs of this project. It writes
//! nothing.
//!
//! Other programs may be writing there, so unreadable entries are counted and left out. `ekiden status`
//! names such logs.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ekiden_core::guard::watch::WatchRecord;
use ekiden_core::run::Run;
use ekiden_core::time::Timestamp;
use ekiden_engine::history;
use ekiden_engine::workspace::Workspace;
use ekiden_report::Timeline;
use ekiden_store::guard::{GuardFiles, watched_sessions};
use ekiden_wire::requests::Requests;
use ignore::WalkBuilder;

use super::metrics::{Fraction, Metrics};
use super::spending::Transcript;
use crate::client::settings::config_dir;
use crate::failure::Failure;
use crate::settings::environment::Environment;

#[derive(Default)]
pub struct Transcripts {
    pub all: Vec<Transcript>,
    /// Files that could not be read.
    pub unreadable: u64,
}

impl Transcripts {
    /// All transcripts that were written to after `since`, each with its requests after that. They are in the client's
    /// usual place and in the `accounts` that agents have. A response that several contain counts for the first one.
    pub fn read(environment: &Environment, accounts: Vec<PathBuf>, since: Timestamp) -> Self {
        let mut found = Self::default();
        let configs = config_dir(environment).into_iter().chain(accounts);
        // Two accounts may share it by a link.
        let dirs: BTreeSet<PathBuf> = configs
            .filter_map(|config| config.join("projects").canonicalize().ok())
            .collect();
        let mut paths: Vec<PathBuf> = dirs.iter().flat_map(|dir| below(dir)).collect();
        paths.sort();
        // A session that continues another may begin with a copy of it.
        let (mut responses, mut compactions) = (HashSet::new(), HashSet::new());
        for path in paths.iter().filter(|path| modified(path) >= Some(since)) {
            match File::open(path).and_then(Requests::read) {
                Ok(mut requests) => {
                    let is_new = |at: Timestamp| at >= since;
                    let first = requests.all.first().map(|one| one.message);
                    requests
                        .all
                        .retain(|one| is_new(one.at) && responses.insert(one.message));
                    requests
                        .compactions
                        .retain(|one| is_new(one.at) && compactions.insert(*one));
                    let kept = requests.all.first().map(|one| one.message);
                    found.all.push(Transcript {
                        begins: kept == first,
                        requests,
                        is_subagent: path.parent().is_some_and(|dir| dir.ends_with("subagents")),
                    });
                }
                Err(_) => found.unreadable += 1,
            }
        }
        found
    }
}

/// The transcripts below a directory, including those of subagents:
/// `<project>/<session>/subagents/<agent>.jsonl`. Links are not followed.
fn below(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let mut walk = WalkBuilder::new(dir);
    let entries = walk.standard_filters(false).build().flatten();
    let files = entries.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let paths = files.map(ignore::DirEntry::into_path);
    paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
}

fn modified(path: &Path) -> Option<Timestamp> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
    timestamp(modified.ok()?)
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp(u64::try_from(since.as_millis()).ok()?))
}

/// When `ekiden setup` was first called, according to what it keeps.
pub fn setup_at(environment: &Environment) -> Option<Timestamp> {
    let setups = environment.state_home()?.join("ekiden/setup");
    let receipts = fs::read_dir(setups).ok()?.flatten();
    // A later call renews the files in a directory.
    let times = receipts.flat_map(|receipt| {
        let files = fs::read_dir(receipt.path()).into_iter().flatten().flatten();
        let files = files.filter_map(|file| modified(&file.path()));
        let made = fs::metadata(receipt.path()).and_then(|found| found.created());
        files.chain(made.ok().and_then(timestamp))
    });
    times.min()
}

/// Adds what the runs and the watched sessions of a project show that began since then. Returns how many
/// runs could not be read.
pub fn project(
    workspace: &Workspace,
    since: Timestamp,
    metrics: &mut Metrics,
) -> Result<u64, Failure> {
    let mut unreadable = 0;
    for listed in history::list(workspace)? {
        if listed.started.is_some() && listed.started < Some(since) {
            continue;
        }
        let (mut timeline, mut list) = (None, None);
        let read = history::read(workspace, &listed.run, |record, run| {
            let timeline = timeline.get_or_insert_with(|| Timeline::new(run));
            timeline.take(record, run);
            // Follow-up work removes the list from the run.
            if run.outcome().is_some() {
                list = listed_work(run, timeline).or(list);
            }
        });
        match (read, timeline) {
            (Ok(read), Some(timeline)) => {
                let list = listed_work(&read.run, &timeline).or(list);
                metrics.of_run(&timeline, read.run.outcome(), list);
            }
            (Ok(_), None) => {}
            (Err(_), _) => unreadable += 1,
        }
    }
    watched(workspace, since).for_each(|records| metrics.of_watched(&records));
    Ok(unreadable)
}

/// How far a run is with its list, if it works through one.
fn listed_work(run: &Run, timeline: &Timeline) -> Option<Fraction> {
    let lists = run.relays().filter_map(|(_, relay)| relay.items.as_ref());
    let done = lists.map(|list| list.done_since() as u64);
    let over = timeline
        .sessions()
        .filter(|(_, session)| session.end().is_some());
    done.reduce(u64::saturating_add).map(|part| Fraction {
        part,
        of: over.count() as u64,
    })
}

/// The logs of the watched sessions of a project that were written to since then.
pub fn watched(workspace: &Workspace, since: Timestamp) -> impl Iterator<Item = Vec<WatchRecord>> {
    let sessions = watched_sessions(&workspace.state_dir).into_iter();
    let records = sessions.filter_map(|session| {
        let disk = Arc::new(workspace.disk());
        GuardFiles::new(disk, &workspace.state_dir, &session)
            .records()
            .ok()
    });
    records.filter(move |records| records.last().is_some_and(|record| record.time >= since))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // shows: UIX-09
    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a test lays out what setup keeps"
    )]
    fn a_later_call_of_setup_is_not_the_first() {
        let home = tempfile::tempdir().unwrap();
        let receipt = home.path().join("ekiden/setup/of-a-file");
        fs::create_dir_all(&receipt).unwrap();
        let first = fs::metadata(&receipt).unwrap();
        // Not every file system keeps it.
        let first = first.created().or(first.modified()).unwrap();
        let renewed = File::create(receipt.join("receipt")).unwrap();
        renewed
            .set_modified(first + Duration::from_secs(1000))
            .unwrap();
        let home = home.path().to_string_lossy();
        let environment = Environment::of([("XDG_STATE_HOME", &*home)]);
        assert_eq!(setup_at(&environment), timestamp(first));
    }
}
