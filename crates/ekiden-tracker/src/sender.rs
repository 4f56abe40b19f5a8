//! Sends what waits in the outbox to its trackers, issue by issue.
//!
//! Every failure is retried: after 10 s, then after twice as long each time, at most an hour, with a fifth
//! of jitter. A write that the tracker refuses waits alone; any other failure makes its whole issue wait,
//! and a rate limit all of that tracker, until it is over.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ekiden_core::issue::{Issue, IssueRef, TrackerKind, is_shard};
use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::disk::DiskResult;
use ekiden_store::outbox::{Outbox, QueuedWrite, name_of};
use serde::{Deserialize, Serialize};

use crate::tracker::{LivingComment, NewIssue, PullRequest, Tracker};
use crate::words::{HEADS, comment};
use crate::write::{NewState, Queued, Write};
use crate::{Entry, Fault};

/// How long a write is kept, sent or not.
pub const KEPT: Millis = Millis::from_secs(30 * 24 * 60 * 60);
const PAUSE_MIN: Millis = Millis::from_secs(10);
const PAUSE_MAX: Millis = Millis::from_secs(60 * 60);

/// Opens the tracker of an issue, by a project's settings.
pub type Open<'a> = dyn Fn(&Path, &IssueRef) -> Result<Box<dyn Tracker>, Fault> + 'a;

/// Pushes a branch of a project, never by force.
pub type Push<'a> = dyn Fn(&Path, &str) -> Result<(), Fault> + 'a;

pub struct Sender<'a> {
    pub outbox: &'a Outbox,
    pub open: &'a Open<'a>,
    pub push: &'a Push<'a>,
    pub now: Timestamp,
    /// Random, 0 to 255.
    pub jitter: u8,
}

/// The result of a round.
#[derive(Debug, Default)]
pub struct Sent {
    pub count: usize,
    /// The issues whose writes are still waiting, and why.
    pub failed: Vec<(IssueRef, Fault)>,
    /// Writes that were too old.
    pub dropped: usize,
}

/// What the sender remembers about an issue, a write or a tracker's limit between two rounds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Try {
    tries: u32,
    next: Timestamp,
    why: String,
}

type Tries = BTreeMap<String, Try>;

/// A write that waits, for people.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub queued: Queued,
    /// When it is retried; `None` if at once.
    pub next: Option<Timestamp>,
    pub why: Option<String>,
}

/// What waits, and how much of it is unreadable.
#[derive(Debug, Default)]
pub struct Standing {
    pub waiting: Vec<Waiting>,
    pub unreadable: usize,
    pub is_due: bool,
}

pub fn standing(outbox: &Outbox, now: Timestamp) -> DiskResult<Standing> {
    let kept = outbox.waiting()?;
    let (tries, mut standing) = (read_tries(outbox), Standing::default());
    let mut all: Vec<Queued> = kept.iter().filter_map(Queued::of).collect();
    standing.unreadable = kept.len() - all.len();
    all.sort_by_key(|queued| (queued.at, queued.order));
    for queued in all {
        let held = held(&tries, &queued, now);
        standing.is_due |= held.is_none();
        standing.waiting.push(Waiting {
            next: held.map(|held| held.next),
            why: held
                .or_else(|| tried(&tries, &queued).next())
                .map(|tried| tried.why.clone()),
            queued,
        });
    }
    Ok(standing)
}

impl Sender<'_> {
    /// Sends what is due; with `all` also what would wait for a retry. A service's own limit is respected.
    /// Call it under the outbox's lock.
    pub fn send(&self, all: bool) -> DiskResult<Sent> {
        let (mut tries, mut sent) = (read_tries(self.outbox), Sent::default());
        let mut known: Vec<Queued> = self.outbox.sent()?.iter().filter_map(Queued::of).collect();
        // Two projects may have the same key in different workspaces.
        let mut issues: BTreeMap<(PathBuf, IssueRef), Vec<(String, Queued)>> = BTreeMap::new();
        for kept in self.outbox.waiting()? {
            if let Some(queued) = Queued::of(&kept)
                && (all || held(&tries, &queued, self.now).is_none())
            {
                issues
                    .entry((queued.dir.clone(), queued.issue.clone()))
                    .or_default()
                    .push((kept.name, queued));
            }
        }
        let mut issues: Vec<_> = issues.into_iter().collect();
        issues.sort_by_key(|(_, writes)| writes.iter().map(|(_, queued)| queued.at).min());
        for ((dir, issue), mut writes) in issues {
            if limit(&tries, issue.tracker, self.now).is_some() {
                continue;
            }
            // The comment counts the sub-issues.
            let is_other = |queued: &Queued| !matches!(queued.write, Write::SubIssue { .. });
            let mut since: BTreeMap<String, Timestamp> = BTreeMap::new();
            for (_, queued) in &writes {
                let since = since.entry(queued.source().to_owned()).or_insert(queued.at);
                *since = queued.at.min(*since);
            }
            writes.sort_by_key(|(_, queued)| {
                let since = since.get(queued.source()).copied();
                (is_other(queued), since, queued.order)
            });
            let mut refused = Vec::new();
            let (before, of_it) = (known.len(), name(&dir, &issue));
            match self.send_issue(&issue, &writes, &mut known, &mut refused) {
                Ok(()) => drop(tries.remove(&of_it)),
                Err(Failed::Disk(error)) => return Err(error),
                Err(Failed::Tracker(fault)) => refused.push((vec![of_it], fault)),
            }
            sent.count += known.len() - before;
            for (of, fault) in refused {
                for of in of {
                    self.note(&mut tries, of, &issue, &fault);
                }
                sent.failed.push((issue.clone(), fault));
            }
        }
        self.drop_old(&tries, &mut sent)?;
        tries.retain(|_, tried| self.now.since(tried.next) <= KEPT);
        self.outbox
            .note_tries(&serde_json::to_vec(&tries).unwrap_or_default())?;
        Ok(sent)
    }

    /// Forgets what is old: what still fails, and what trackers have. The entries of a comment are kept as
    /// long as its newest.
    fn drop_old(&self, tries: &Tries, sent: &mut Sent) -> DiskResult<()> {
        let read = |kept: Vec<QueuedWrite>| -> Vec<(String, Queued)> {
            let kept = kept.into_iter();
            kept.filter_map(|kept| Queued::of(&kept).map(|queued| (kept.name, queued)))
                .collect()
        };
        let (waiting, known) = (read(self.outbox.waiting()?), read(self.outbox.sent()?));
        let is_old = |at: Timestamp| self.now.since(at) > KEPT;
        // Perhaps the clock is a month ahead.
        let mut all = waiting.iter().chain(&known);
        if all.all(|(_, queued)| is_old(queued.at)) {
            return Ok(());
        }
        for (name, queued) in &waiting {
            if is_old(queued.at) && tried(tries, queued).next().is_some() {
                self.outbox.forget(name)?;
                sent.dropped += 1;
            }
        }
        let mut newest: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for (_, queued) in &known {
            let at = newest.entry(group(queued)).or_default();
            *at = queued.at.max(*at);
        }
        for (name, queued) in &known {
            if is_old(newest[group(queued)]) {
                self.outbox.forget(name)?;
            }
        }
        Ok(())
    }

    fn send_issue(
        &self,
        issue: &IssueRef,
        writes: &[(String, Queued)],
        sent: &mut Vec<Queued>,
        refused: &mut Vec<(Vec<String>, Fault)>,
    ) -> Result<(), Failed> {
        let tracker = (self.open)(&writes[0].1.dir, issue).map_err(Failed::Tracker)?;
        let mut comments: Vec<&str> = Vec::new();
        for (file, queued) in writes {
            let mut done = vec![(file, queued)];
            let put = if let Some((key, ..)) = queued.entry() {
                if comments.contains(&key) {
                    continue;
                }
                comments.push(key);
                let of_it = writes.iter().filter(|(_, other)| group(other) == key);
                done = of_it.map(|(file, queued)| (file, queued)).collect();
                let waiting = done.iter().map(|(_, queued)| *queued);
                tracker.issue(&issue.id).and_then(|found| {
                    put_comment(&*tracker, issue, &found, key, sent, waiting)?;
                    self.put_shards(&*tracker, &found)
                })
            } else if is_overtaken(queued, sent) {
                Ok(())
            } else {
                self.put(&*tracker, issue, queued)
            };
            match put {
                // A file does not come back: the next one of its name is another issue. The directory may.
                Err(Fault::Missing(_))
                    if issue.tracker == TrackerKind::Local
                        && Path::new(&issue.repo).is_dir()
                        && matches!(tracker.issue(&issue.id), Err(Fault::Missing(_))) =>
                {
                    for (file, _) in done {
                        self.outbox.forget(file).map_err(Failed::Disk)?;
                    }
                    continue;
                }
                // A key that may not even read the issue, or an issue that is gone, makes all its writes
                // fail.
                Err(fault @ (Fault::NotPermitted(_) | Fault::Missing(_)))
                    if tracker.issue(&issue.id).is_err() =>
                {
                    return Err(Failed::Tracker(fault));
                }
                // A write that may never be accepted, such as a state by a wrong name, does not make
                // other writes wait.
                Err(fault @ (Fault::Refused(_) | Fault::NotPermitted(_) | Fault::Missing(_))) => {
                    refused.push((
                        done.into_iter().map(|(file, _)| file.clone()).collect(),
                        fault,
                    ));
                    continue;
                }
                put => put?,
            }
            for (file, queued) in done {
                self.outbox.settle(file).map_err(Failed::Disk)?;
                sent.push(queued.clone());
            }
        }
        Ok(())
    }

    fn put(&self, tracker: &dyn Tracker, issue: &IssueRef, queued: &Queued) -> Result<(), Fault> {
        let id = &issue.id;
        match &queued.write {
            Write::Entry { .. } => Ok(()),
            Write::Label { name, is_set } => tracker.set_label(id, name, *is_set),
            Write::State { state } => {
                // What a person has closed stays as it is.
                let found = tracker.issue(id)?;
                if !found.is_closed {
                    tracker.set_state(id, state)?;
                }
                self.put_shards(tracker, &found)
            }
            Write::SubIssue {
                key,
                title,
                text,
                is_done,
                since,
            } => {
                let new = NewIssue {
                    key,
                    title,
                    text,
                    parent: Some(id),
                    since: *since,
                };
                // `ekiden shard --issues` may have created it.
                let children = tracker.issue(id)?.children;
                let known = children.iter().find(|child| child.title == *title);
                let made = match known.and_then(|child| id_of(&child.name)) {
                    Some(id) => id.to_owned(),
                    None => tracker.create(&new)?,
                };
                match *is_done && !tracker.issue(&made)?.is_closed {
                    true => tracker.set_state(&made, &NewState::Done),
                    false => Ok(()),
                }
            }
            Write::PullRequest {
                branch,
                title,
                body,
            } => {
                let pull = PullRequest {
                    key: &queued.key,
                    branch,
                    title,
                    body,
                };
                tracker.put_pull_request(&pull, &|| (self.push)(&queued.dir, branch))
            }
        }
    }

    /// Counts in the issue that a shard belongs to how many of its shards are done. No write of the shard
    /// waits for an issue that is gone or refuses the comment.
    fn put_shards(&self, tracker: &dyn Tracker, shard: &Issue) -> Result<(), Fault> {
        let parent = shard.parent.as_ref().filter(|_| is_shard(&shard.title));
        let Some(id) = parent.and_then(|name| id_of(name)) else {
            return Ok(());
        };
        match self.count_shards(tracker, id) {
            Err(fault @ (Fault::Unreachable(_) | Fault::Failing(_) | Fault::Limited { .. })) => {
                Err(fault)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// In a separate comment.
    fn count_shards(&self, tracker: &dyn Tracker, id: &str) -> Result<(), Fault> {
        let parent = tracker.issue(id)?;
        // A name alone is not unique in all of Linear. What follows it there changes with the title.
        let place = parent.url.split_once(&parent.name);
        let place = place.map_or("", |(place, _)| place);
        let done = parent.shards_done().unwrap_or_default();
        let living = LivingComment {
            key: &format!("shards/{place}{}", parent.name),
            body: format!("{}{done}, {}.", HEADS[2], self.now.rfc3339()),
            since: Timestamp::default(),
            is_there: false,
        };
        tracker.put_comment(id, &living)
    }

    /// `of` is the name of the issue or of the write.
    fn note(&self, tries: &mut Tries, of: String, issue: &IssueRef, fault: &Fault) {
        let (key, pause) = if let Fault::Limited { wait } = fault {
            (limit_name(issue.tracker), *wait)
        } else {
            let before = tries.get(&of).map_or(0, |tried| tried.tries);
            let pause = PAUSE_MIN.0 << before.min(9);
            let pause = pause.min(PAUSE_MAX.0) * (230 + u64::from(self.jitter) / 5) / 256;
            (of, Millis(pause))
        };
        let tried = tries.entry(key).or_default();
        tried.tries = tried.tries.saturating_add(1);
        tried.next = self.now + pause;
        tried.why = fault.to_string();
    }
}

enum Failed {
    Disk(ekiden_store::disk::DiskError),
    Tracker(Fault),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Tracker(fault)
    }
}

fn put_comment<'a>(
    tracker: &dyn Tracker,
    issue: &IssueRef,
    found: &Issue,
    key: &str,
    sent: &'a [Queued],
    waiting: impl Iterator<Item = &'a Queued>,
) -> Result<(), Fault> {
    let there = sent.iter().filter(|queued| group(queued) == key);
    let is_there = there.clone().next().is_some();
    let mut all: Vec<&Queued> = there.chain(waiting).collect();
    all.sort_by_key(|queued| queued.order);
    let entries = all.iter().filter_map(|queued| queued.entry());
    let entries: Vec<&Entry> = entries.map(|(_, _, entry)| entry).collect();
    // A run that goes on after a month queues its entries again.
    let since = entries
        .iter()
        .map(|entry| entry.at)
        .min()
        .unwrap_or_default();
    let head = all.last().and_then(|queued| queued.entry());
    let head = head.map_or("", |(_, head, _)| head);
    let shards = found.shards_done();
    let shards = shards.map(|done| format!("\n\n{done}"));
    let head = format!("{head}{}", shards.unwrap_or_default());
    let body = comment(&head, &entries, tracker.markup());
    let living = LivingComment {
        key,
        body,
        since,
        is_there,
    };
    tracker.put_comment(&issue.id, &living)
}

/// The id of an issue in this repository; `None` for one in another, such as `owner/name#12`.
fn id_of(name: &str) -> Option<&str> {
    let id = name.trim_start_matches('#');
    (!id.contains('#')).then_some(id)
}

/// The tracker has a newer write of the same. What was refused before that must not take it back.
fn is_overtaken(queued: &Queued, sent: &[Queued]) -> bool {
    let is_newer = |other: &&Queued| {
        (&other.dir, &other.issue) == (&queued.dir, &queued.issue)
            && match other.source() == queued.source() {
                true => other.order > queued.order,
                false => other.at > queued.at,
            }
    };
    let is_same = |other: &Queued| match (&queued.write, &other.write) {
        (Write::Label { name, .. }, Write::Label { name: other, .. }) => {
            name.eq_ignore_ascii_case(other)
        }
        (Write::PullRequest { branch, .. }, Write::PullRequest { branch: other, .. }) => {
            branch == other
        }
        (one, other) => matches!(one, Write::State { .. }) && matches!(other, Write::State { .. }),
    };
    sent.iter().filter(is_newer).any(is_same)
}

/// What is kept together: the entries of a comment, otherwise the write alone.
fn group(queued: &Queued) -> &str {
    let entry = queued.entry();
    entry.map_or(&queued.key, |(comment, ..)| comment)
}

fn read_tries(outbox: &Outbox) -> Tries {
    serde_json::from_slice(&outbox.tries()).unwrap_or_default()
}

fn name(dir: &Path, issue: &IssueRef) -> String {
    let (dir, tracker) = (dir.display(), issue.tracker.name());
    format!("{dir} {tracker} {} {issue}", issue.repo)
}

fn limit_name(tracker: TrackerKind) -> String {
    format!("limit {}", tracker.name())
}

/// What keeps a write from being sent now, for the longest time.
fn held<'a>(tries: &'a Tries, queued: &Queued, now: Timestamp) -> Option<&'a Try> {
    let held = tried(tries, queued).filter_map(|tried| is_ahead(tried, now));
    held.max_by_key(|tried| tried.next)
}

pub fn is_limited(outbox: &Outbox, tracker: TrackerKind, now: Timestamp) -> bool {
    limit(&read_tries(outbox), tracker, now).is_some()
}

fn limit(tries: &Tries, tracker: TrackerKind, now: Timestamp) -> Option<&Try> {
    is_ahead(tries.get(&limit_name(tracker))?, now)
}

/// Its time has not come. A time further ahead than any pause was noted by a clock that was wrong.
fn is_ahead(tried: &Try, now: Timestamp) -> Option<&Try> {
    let is_ahead = tried.next > now && tried.next.since(now) <= Millis(PAUSE_MAX.0 * 2);
    is_ahead.then_some(tried)
}

/// The notes about a write, its issue, and a limit.
fn tried<'a>(tries: &'a Tries, queued: &Queued) -> impl Iterator<Item = &'a Try> {
    let limit = limit_name(queued.issue.tracker);
    let issue = name(&queued.dir, &queued.issue);
    let names = [name_of(&queued.key), issue, limit];
    names.into_iter().filter_map(|name| tries.get(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    // shows: TRK-05
    #[test]
    fn an_issue_of_another_repository_is_none_of_this_one() {
        assert_eq!(id_of("#12"), Some("12"));
        assert_eq!(id_of("ANV-12"), Some("ANV-12"));
        assert_eq!(id_of("org/web#12"), None);
    }
}
