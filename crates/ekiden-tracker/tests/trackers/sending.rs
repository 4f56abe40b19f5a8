//! What the sender does with what waits.

use std::path::Path;
use std::sync::Arc;

use ekiden_core::issue::{IssueRef, TrackerKind};
use ekiden_core::time::{Millis, Timestamp};
use ekiden_store::disk::{Disk as _, RealDisk};
use ekiden_store::outbox::Outbox;

use ekiden_sim::SimDisk;
use ekiden_testkit::trackers::{FakeGitHub, FakeLinear, ServiceFault};
use ekiden_tracker::{
    Fault, Local, NewState, Open, Queued, Sender, Sent, Tracker, Write, standing,
};

use crate::{AT, Near, anv, entry, github, linear, local, other, planted};

pub(crate) const DIR: &str = "/home/outbox";

/// Pushes nothing.
fn sender<'a>(outbox: &'a Outbox, open: &'a Open<'a>, now: Timestamp) -> Sender<'a> {
    Sender {
        outbox,
        open,
        push: &|_, _| Ok(()),
        now,
        jitter: 0,
    }
}

pub(crate) fn send(outbox: &Outbox, near: &Near<FakeLinear>, now: Timestamp, all: bool) -> Sent {
    let open =
        |_: &Path, _: &IssueRef| -> Result<Box<dyn Tracker>, Fault> { Ok(Box::new(linear(near))) };
    let sender = sender(outbox, &open, now);
    sender.send(all).unwrap()
}

fn outbox() -> Outbox {
    Outbox::of(Arc::new(planted()), Path::new(DIR))
}

fn after(secs: u64) -> Timestamp {
    AT + Millis::from_secs(secs)
}

// shows: LIN-002
#[test]
fn forty_sessions_leave_one_comment() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    for order in 1..=40 {
        entry(anv(1), order).queue(&outbox).unwrap();
        if order % 3 == 0 {
            send(&outbox, &near, after(order), false);
        }
    }
    assert_eq!(send(&outbox, &near, after(50), false).count, 1);
    let fake = near.0.lock().unwrap();
    let comments = &fake.service.issue("ANV-1").comments;
    assert_eq!((comments.len(), comments[0].versions), (1, 14));
    for order in 1..=40 {
        let head = format!("Session {order} · L2 at 86%");
        assert_eq!(comments[0].body.matches(&head).count(), 1, "{head}");
    }
}

// shows: TRK-06
#[test]
fn a_failure_is_tried_again_later_and_later_and_told() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    entry(anv(1), 1).queue(&outbox).unwrap();
    near.0
        .lock()
        .unwrap()
        .fault
        .extend([ServiceFault::NoAnswer; 3]);
    let sent = send(&outbox, &near, AT, false);
    assert!(
        matches!(sent.failed.as_slice(), [(issue, Fault::Unreachable(_))] if *issue == anv(1)),
        "{sent:?}"
    );
    let standing = standing(&outbox, after(1)).unwrap();
    let waiting = &standing.waiting[0];
    assert_eq!(
        (&*waiting.queued.in_words(), waiting.why.as_deref()),
        (
            "comment: Session 1 · L2 at 86%",
            Some("no answer: it is gone")
        )
    );
    assert!(!standing.is_due && waiting.next > Some(after(5)));
    // 9 s, then 18 s, by the least jitter; nothing before.
    for (at, asked) in [(5, 1), (10, 2), (20, 2), (30, 3), (31, 3)] {
        send(&outbox, &near, after(at), false);
        assert_eq!(near.0.lock().unwrap().asked.len(), asked, "after {at} s");
    }
    // A person does not wait.
    assert_eq!(send(&outbox, &near, after(32), true).count, 1);
}

// shows: TRK-06
#[test]
fn a_limit_holds_the_whole_tracker_and_a_wrong_clock_nothing() {
    let (outbox, near) = (
        outbox(),
        Near::new(FakeLinear::with(&["Accounts", "Login"])),
    );
    entry(anv(1), 1).queue(&outbox).unwrap();
    let second = Queued {
        key: "second".to_owned(),
        ..entry(anv(2), 2)
    };
    second.queue(&outbox).unwrap();
    near.0
        .lock()
        .unwrap()
        .fault
        .push_back(ServiceFault::Limited(600));
    send(&outbox, &near, AT, false);
    assert_eq!(
        near.0.lock().unwrap().asked.len(),
        1,
        "the second issue is not even tried"
    );
    assert_eq!(send(&outbox, &near, after(300), true).count, 0);
    // The clock was a day ahead, and is put right.
    assert_eq!(
        send(&outbox, &near, Timestamp(AT.0 - 24 * 3_600_000), false).count,
        2
    );
}

/// The limit ends after the time for another try.
// shows: TRK-06
#[test]
fn a_write_that_waits_for_a_limit_says_so_whatever_failed_before() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    entry(anv(1), 1).queue(&outbox).unwrap();
    let faults = [ServiceFault::NoAnswer, ServiceFault::Limited(600)];
    near.0.lock().unwrap().fault.extend(faults);
    send(&outbox, &near, AT, false);
    send(&outbox, &near, after(1), true);
    let waiting = &standing(&outbox, after(2)).unwrap().waiting[0];
    let why = waiting.why.as_deref();
    assert_eq!(why, Some("it takes no more requests for 10m"));
    assert!(waiting.next > Some(after(500)), "{waiting:?}");
}

/// A state by a wrong name, or a right that the key lacks, stays its own trouble.
// shows: TRK-06
#[test]
fn what_a_tracker_never_takes_keeps_nothing_else_of_its_issue_waiting() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    let state = NewState::Named("Nowhere".to_owned());
    other(anv(1), 1, Write::State { state })
        .queue(&outbox)
        .unwrap();
    for order in 2..=4 {
        entry(anv(1), order).queue(&outbox).unwrap();
        let sent = send(&outbox, &near, after(order), false);
        assert_eq!(sent.count, 1, "entry {order}");
    }
    let waiting = standing(&outbox, after(5)).unwrap().waiting;
    let [state] = waiting.as_slice() else {
        panic!("{waiting:?}")
    };
    assert_eq!(state.queued.in_words(), "move to Nowhere");
    let why = state.why.as_deref().unwrap();
    assert!(why.starts_with("it refuses: its states are "), "{why}");
    // It has its own tries: it was refused once, and nothing of it is due.
    assert!(state.next > Some(after(5)));
}

/// Another key may not change the first one's comments.
// shows: TRK-06
#[test]
fn a_comment_that_is_refused_keeps_nothing_else_of_its_issue_waiting() {
    let mut fake = FakeLinear::with(&["Accounts"]);
    fake.refuses_comments = true;
    let (outbox, near) = (outbox(), Near::new(fake));
    entry(anv(1), 1).queue(&outbox).unwrap();
    let name = "context-checkpointed".to_owned();
    let label = Write::Label { name, is_set: true };
    other(anv(1), 2, label).queue(&outbox).unwrap();
    let sent = send(&outbox, &near, after(2), false);
    assert_eq!((sent.count, sent.failed.len()), (1, 1), "{sent:?}");
    let waiting = standing(&outbox, after(3)).unwrap().waiting;
    let [comment] = waiting.as_slice() else {
        panic!("{waiting:?}")
    };
    let why = comment.why.as_deref();
    assert_eq!(
        why,
        Some("it does not permit this: you can only edit your own comments")
    );
    assert!(comment.next > Some(after(3)));
}

/// A person put it there.
// shows: SHD-003
#[test]
fn a_sub_issue_in_the_trash_keeps_nothing_of_its_parent_waiting() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    shard(1, "S01", false).queue(&outbox).unwrap();
    assert!(send(&outbox, &near, AT, true).failed.is_empty());
    near.0.lock().unwrap().service.issues[1].is_trashed = true;
    shard(2, "S01", true).queue(&outbox).unwrap();
    entry(anv(1), 3).queue(&outbox).unwrap();
    let sent = send(&outbox, &near, after(2), true);
    let [(_, fault)] = sent.failed.as_slice() else {
        panic!("{sent:?}")
    };
    assert_eq!(fault.to_string(), "it refuses: ANV-2 is in the trash");
    assert_eq!(linear(&near).comments("ANV-1").unwrap().len(), 1);
}

/// Once the tracker could take it, it would undo what came after it.
// shows: TRK-06
#[test]
fn what_was_refused_is_dropped_when_a_newer_write_of_the_same_was_taken() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    let state = |name: &str| Write::State {
        state: NewState::Named(name.to_owned()),
    };
    other(anv(1), 1, state("Nowhere")).queue(&outbox).unwrap();
    assert_eq!(send(&outbox, &near, after(1), true).count, 0);
    other(anv(1), 2, state("Done")).queue(&outbox).unwrap();
    assert_eq!(send(&outbox, &near, after(2), true).count, 1);
    assert_eq!(send(&outbox, &near, after(3), true).count, 1);
    assert_eq!(standing(&outbox, after(4)).unwrap().waiting.len(), 0);
}

// shows: TRK-06
#[test]
fn a_clock_that_is_set_back_turns_no_writes_of_a_run_around() {
    for are_sent_together in [false, true] {
        let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
        for (order, at, is_set) in [(1, 3600, true), (2, 10, false)] {
            let name = "context-checkpointed".to_owned();
            let label = Write::Label { name, is_set };
            let at = after(at);
            let write = Queued {
                at,
                ..other(anv(1), order, label)
            };
            write.queue(&outbox).unwrap();
            if order == 2 || !are_sent_together {
                send(&outbox, &near, at, false);
            }
        }
        let fake = near.0.lock().unwrap();
        assert_eq!(fake.service.labels_of("ANV-1"), [""; 0]);
    }
}

/// A dispatcher would otherwise go on with what a person has called off.
// shows: TRK-06
#[test]
fn what_a_person_has_closed_is_not_opened_and_not_called_done() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    let canceled = NewState::Named("Canceled".to_owned());
    linear(&near).set_state("ANV-1", &canceled).unwrap();
    let canceled = near.0.lock().unwrap().service.issue("ANV-1").state;
    for (order, state) in [
        (1, NewState::Named("In Progress".to_owned())),
        (2, NewState::Done),
    ] {
        other(anv(1), order, Write::State { state })
            .queue(&outbox)
            .unwrap();
        assert_eq!(send(&outbox, &near, after(order), false).count, 1);
        let state = near.0.lock().unwrap().service.issue("ANV-1").state;
        assert_eq!(state, canceled);
    }
}

// shows: TRK-06
#[test]
fn a_file_that_cannot_be_read_is_counted_and_keeps_no_other_waiting() {
    let disk = Arc::new(planted());
    let waiting = Path::new(DIR).join("waiting");
    disk.plant_file(&waiting.join("0123"), &vec![b'x'; 300 * 1024]);
    disk.plant_dir(&waiting.join("4567"));
    let (outbox, near) = (
        Outbox::of(Arc::<SimDisk>::clone(&disk), Path::new(DIR)),
        Near::new(FakeLinear::with(&["Accounts"])),
    );
    entry(anv(1), 1).queue(&outbox).unwrap();
    assert_eq!(send(&outbox, &near, AT, false).count, 1);
    let standing = standing(&outbox, AT).unwrap();
    assert_eq!((standing.waiting.len(), standing.unreadable), (0, 2));
    // One that was sent is part of a comment, which would lose it.
    disk.plant_dir(&Path::new(DIR).join("sent/89ab"));
    entry(anv(1), 2).queue(&outbox).unwrap();
    let open = |_: &Path, _: &IssueRef| -> Result<Box<dyn Tracker>, Fault> { unreachable!() };
    let sender = sender(&outbox, &open, after(1));
    assert!(sender.send(true).is_err());
}

// shows: TRK-06
#[test]
fn what_is_a_month_old_is_dropped_but_no_entry_of_a_comment_that_lives() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    let day = |days: u64| AT + Millis::from_secs(days * 24 * 3600);
    entry(anv(1), 1).queue(&outbox).unwrap();
    send(&outbox, &near, AT, false);
    let later = Queued {
        at: day(29),
        ..entry(anv(1), 2)
    };
    later.queue(&outbox).unwrap();
    send(&outbox, &near, day(29), false);
    entry(anv(9), 3).queue(&outbox).unwrap();
    assert_eq!(send(&outbox, &near, day(31), false).dropped, 1);
    assert_eq!(outbox.sent().unwrap().len(), 2);
    let name = "ready".to_owned();
    let label = Queued {
        at: day(60),
        ..other(anv(1), 4, Write::Label { name, is_set: true })
    };
    label.queue(&outbox).unwrap();
    send(&outbox, &near, day(60), false);
    assert_eq!(outbox.sent().unwrap().len(), 1);
}

/// Its next round has the right time again.
// shows: TRK-06
#[test]
fn a_clock_that_is_a_month_ahead_for_one_round_drops_nothing() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    let ahead = after(40 * 24 * 3600);
    entry(anv(1), 1).queue(&outbox).unwrap();
    near.0
        .lock()
        .unwrap()
        .fault
        .push_back(ServiceFault::NoAnswer);
    assert_eq!(send(&outbox, &near, ahead, true).failed.len(), 1);
    // The run goes on in this round.
    let queued = Queued {
        at: ahead,
        ..entry(anv(1), 2)
    };
    queued.queue(&outbox).unwrap();
    assert_eq!(send(&outbox, &near, ahead, true).count, 2);
    assert_eq!(outbox.sent().unwrap().len(), 2);
}

/// A run that goes on after a month queues its entries again: the comment that is there has them.
// shows: LIN-002, TRK-06
#[test]
fn a_comment_is_looked_for_from_its_first_entry_on() {
    let (outbox, near) = (
        outbox(),
        Near::new(FakeGitHub::with("me/app", &["Accounts"])),
    );
    let issue = IssueRef {
        tracker: TrackerKind::Github,
        repo: "me/app".to_owned(),
        id: "1".to_owned(),
    };
    let now = after(40 * 24 * 3600);
    let queued = Queued {
        at: now,
        ..entry(issue, 1)
    };
    queued.queue(&outbox).unwrap();
    let open =
        |_: &Path, _: &IssueRef| -> Result<Box<dyn Tracker>, Fault> { Ok(Box::new(github(&near))) };
    let sender = sender(&outbox, &open, now);
    assert_eq!(sender.send(false).unwrap().count, 1);
    let fake = near.0.lock().unwrap();
    let mut asked = fake.asked.iter();
    assert!(asked.any(|asked| asked.path.ends_with("&since=2026-10-13T17:46:40Z")));
}

fn shard(order: u64, id: &str, is_done: bool) -> Queued {
    let write = Write::SubIssue {
        key: format!("7f3a/stage/{id}"),
        title: format!("{id} Letters"),
        text: String::new(),
        is_done,
        since: AT,
    };
    let queued = other(anv(1), order, write);
    Queued {
        key: format!("7f3a/{order}/{id}"),
        ..queued
    }
}

/// Each checkpoint counts again, and this record may just have closed a shard.
// shows: SHD-004
#[test]
fn the_living_comment_says_how_many_shards_are_done() {
    let mut fake = FakeLinear::with(&["Accounts", "S01 Letters", "Not a shard"]);
    for child in &mut fake.issues[1..] {
        child.parent = Some("issue-1".to_owned());
    }
    let (outbox, near) = (outbox(), Near::new(fake));
    for id in ["S01", "S02", "S03"] {
        shard(1, id, false).queue(&outbox).unwrap();
    }
    let body = |order: u64, done: &[&str]| {
        entry(anv(1), order).queue(&outbox).unwrap();
        for id in done {
            shard(order + 1, id, true).queue(&outbox).unwrap();
        }
        assert!(send(&outbox, &near, after(order), true).failed.is_empty());
        let fake = near.0.lock().unwrap();
        let [comment] = fake.service.issue("ANV-1").comments.as_slice() else {
            panic!("not one comment");
        };
        comment.body.lines().nth(2).unwrap().to_owned()
    };
    assert_eq!(body(20, &[]), "0 of 3 shards done");
    assert_eq!(body(30, &["S01"]), "1 of 3 shards done");
    assert_eq!(body(40, &["S03"]), "2 of 3 shards done");
    // The one that was there was taken, and not made again.
    let fake = near.0.lock().unwrap();
    let titles = fake.service.issues.iter().map(|issue| issue.title.as_str());
    let shards = titles.filter(|title| title.ends_with("Letters"));
    let mut shards: Vec<&str> = shards.collect();
    shards.sort_unstable();
    assert_eq!(shards, ["S01 Letters", "S02 Letters", "S03 Letters"]);
}

/// Where each shard has a run of its own, the issue above is told by them, in one comment.
// shows: SHD-004
#[test]
fn the_parent_of_a_shard_has_one_comment_that_counts() {
    let mut fake = FakeLinear::with(&["Accounts", "S01 Letters", "S02 Letters", "Login"]);
    for child in &mut fake.issues[1..] {
        child.parent = Some("issue-1".to_owned());
    }
    let (outbox, near) = (outbox(), Near::new(fake));
    let comments = || {
        let fake = near.0.lock().unwrap();
        let comments = fake.service.issue("ANV-1").comments.iter();
        comments
            .map(|comment| comment.body.clone())
            .collect::<Vec<_>>()
    };
    entry(anv(4), 1).queue(&outbox).unwrap();
    send(&outbox, &near, AT, false);
    assert!(comments().is_empty(), "a sub-issue that is no shard");
    entry(anv(2), 2).queue(&outbox).unwrap();
    send(&outbox, &near, AT, false);
    let head = "ekiden works on parts of this: ";
    assert_eq!(
        comments(),
        [format!("{head}0 of 2 shards done, {}.", AT.rfc3339())]
    );
    let state = NewState::Done;
    let closed = other(anv(2), 3, Write::State { state });
    closed.queue(&outbox).unwrap();
    send(&outbox, &near, after(1), false);
    assert!(comments()[0].starts_with(&format!("{head}1 of 2 shards done")));
    assert_eq!(comments().len(), 1);
}

// shows: SHD-003, TRK-06
#[test]
fn a_shard_whose_parent_is_gone_is_told_all_the_same() {
    let (temp, outbox) = (tempfile::tempdir().unwrap(), outbox());
    let text = "---\ntitle: S01 Letters\nstate: open\nparent: gone\n---\n";
    local::put(temp.path(), "letters.md", text);
    let shard = || IssueRef {
        tracker: TrackerKind::Local,
        repo: String::new(),
        id: "letters".to_owned(),
    };
    entry(shard(), 1).queue(&outbox).unwrap();
    let state = NewState::Done;
    let closed = other(shard(), 2, Write::State { state });
    closed.queue(&outbox).unwrap();
    let open = |_: &Path, _: &IssueRef| -> Result<Box<dyn Tracker>, Fault> {
        Ok(Box::new(local::tracker(temp.path())))
    };
    let sender = sender(&outbox, &open, AT);
    let sent = sender.send(false).unwrap();
    assert_eq!((sent.count, sent.failed.len()), (2, 0));
    let found = local::tracker(temp.path()).issue("letters").unwrap();
    assert!(found.is_closed);
}

// shows: TRK-06
#[test]
fn a_file_that_is_gone_keeps_none_of_its_name_in_another_project_waiting() {
    let (temp, outbox) = (tempfile::tempdir().unwrap(), outbox());
    local::put(temp.path(), "login.md", "---\ntitle: Log in\n---\n");
    let queue = |order: u64, dir: &str| {
        let issue = IssueRef {
            tracker: TrackerKind::Local,
            repo: temp.path().join(dir).to_string_lossy().into_owned(),
            id: "login".to_owned(),
        };
        entry(issue, order).queue(&outbox).unwrap();
    };
    let open = |_: &Path, issue: &IssueRef| -> Result<Box<dyn Tracker>, Fault> {
        let (disk, dir) = (RealDisk::fenced(temp.path()), Path::new(&issue.repo));
        Ok(Box::new(Local::new(Arc::new(disk), temp.path(), dir)))
    };
    let send = |now| {
        let sender = sender(&outbox, &open, now);
        let sent = sender.send(false).unwrap();
        (sent.count, sent.failed.len())
    };
    queue(1, "gone");
    queue(2, ".issues");
    assert_eq!(send(AT), (1, 1));
    queue(3, ".issues");
    assert_eq!(send(after(1)), (1, 0));
    // The next file of this name is another issue.
    let disk = RealDisk::fenced(temp.path());
    disk.remove(&temp.path().join(".issues/login.md")).unwrap();
    queue(4, ".issues");
    assert_eq!(send(after(60)), (0, 1), "only the one of `gone` waits");
    local::put(temp.path(), "login.md", "---\ntitle: Another\n---\n");
    assert_eq!(send(after(120)), (0, 1));
}

/// Two workspaces have the same key, and nothing of either could be sent for a while.
// shows: TRK-06
#[test]
fn writes_of_two_projects_go_each_to_its_own_workspace() {
    let (outbox, dirs) = (outbox(), ["/p", "/q"]);
    let nears = dirs.map(|_| Near::new(FakeLinear::with(&["Accounts"])));
    for (order, dir) in (1..).zip(dirs) {
        let of = |what: &str, queued: Queued| {
            let (key, dir) = (format!("{dir}/{what}"), dir.into());
            Queued { key, dir, ..queued }.queue(&outbox).unwrap();
        };
        of("entry", entry(anv(1), order));
        let name = "ready".to_owned();
        let is_set = dir == "/p";
        of("label", other(anv(1), order, Write::Label { name, is_set }));
    }
    let open = |dir: &Path, _: &IssueRef| -> Result<Box<dyn Tracker>, Fault> {
        let at = dirs.iter().position(|of| dir == Path::new(of)).unwrap();
        Ok(Box::new(linear(&nears[at])))
    };
    let send = |at| sender(&outbox, &open, after(at)).send(false).unwrap();
    for near in &nears {
        near.0
            .lock()
            .unwrap()
            .fault
            .push_back(ServiceFault::NoAnswer);
    }
    assert_eq!(send(1).failed.len(), 2);
    assert_eq!(send(60).count, 4);
    for (near, labels) in nears.iter().zip([&["ready"][..], &[]]) {
        let fake = near.0.lock().unwrap();
        let issue = fake.service.issue("ANV-1");
        assert_eq!(issue.comments.len(), 1, "{:?}", issue.comments);
        assert_eq!(fake.service.labels_of("ANV-1"), labels);
    }
}

/// The project was moved while its writes waited.
// shows: TRK-06
#[test]
fn a_comment_has_all_its_entries_from_wherever_they_come() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    entry(anv(1), 1).queue(&outbox).unwrap();
    let moved = Queued {
        dir: "/moved".into(),
        ..entry(anv(1), 2)
    };
    moved.queue(&outbox).unwrap();
    assert_eq!(send(&outbox, &near, AT, false).count, 2);
    let comments = linear(&near).comments("ANV-1").unwrap();
    let [comment] = comments.as_slice() else {
        panic!("{comments:?}")
    };
    for head in ["Session 1 · ", "Session 2 · "] {
        assert!(comment.text.contains(head), "{}", comment.text);
    }
}

/// Such as one that a person has cancelled.
// shows: SHD-003
#[test]
fn a_sub_issue_that_is_closed_stays_as_it_is() {
    let mut fake = FakeLinear::with(&["Accounts", "S01 Letters"]);
    fake.issues[1].parent = Some("issue-1".to_owned());
    let (outbox, near) = (outbox(), Near::new(fake));
    let cancelled = NewState::Named("Canceled".to_owned());
    linear(&near).set_state("ANV-2", &cancelled).unwrap();
    shard(1, "S01", true).queue(&outbox).unwrap();
    assert!(send(&outbox, &near, AT, true).failed.is_empty());
    assert_eq!(linear(&near).issue("ANV-2").unwrap().state, "Canceled");
}

// shows: SHD-003
#[test]
fn a_sub_issue_is_made_under_its_parent_once() {
    let (outbox, near) = (outbox(), Near::new(FakeLinear::with(&["Accounts"])));
    let write = Write::SubIssue {
        key: "7f3a/login".to_owned(),
        title: "Login".to_owned(),
        text: "by mail".to_owned(),
        is_done: false,
        since: AT,
    };
    let queued = other(anv(1), 1, write);
    assert!(queued.queue(&outbox).unwrap() && !queued.queue(&outbox).unwrap());
    send(&outbox, &near, AT, false);
    assert!(
        !queued.queue(&outbox).unwrap(),
        "the key is known after it was sent"
    );
    let fake = near.0.lock().unwrap();
    assert_eq!(
        fake.service.issue("ANV-2").parent.as_deref(),
        Some("issue-1")
    );
}
