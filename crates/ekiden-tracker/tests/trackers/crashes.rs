//! The machine dies at every operation of the disk, and the service loses every answer: nothing is lost, nothing is there twice.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use ekiden_core::issue::{IssueRef, TrackerKind};
use ekiden_sim::{SimDisk, every_crash};
use ekiden_store::disk::Disk;
use ekiden_store::outbox::Outbox;
use ekiden_testkit::trackers::{FakeGitHub, FakeLinear, ServiceFault};
use ekiden_tracker::{Local, NewIssue, NewState, Open, Queued, Sender, Tracker, Write};

use crate::sending::DIR;
use crate::{AT, Near, anv, entry, github, linear, other, planted};

fn writes() -> Vec<Queued> {
    let label = Write::Label {
        name: "context-checkpointed".to_owned(),
        is_set: true,
    };
    let sub = |is_done| Write::SubIssue {
        key: "7f3a/login".to_owned(),
        title: "Login".to_owned(),
        text: String::new(),
        is_done,
        since: AT,
    };
    let state = Write::State {
        state: NewState::Named("In Progress".to_owned()),
    };
    vec![
        entry(anv(1), 1),
        other(anv(1), 2, label),
        entry(anv(1), 3),
        other(anv(1), 5, sub(false)),
        other(anv(1), 6, state),
        other(anv(1), 7, sub(true)),
    ]
}

fn send(outbox: &Outbox, near: &Near<FakeLinear>) {
    send_to(outbox, &|_, _| Ok(Box::new(linear(near))));
}

/// Sends what it can; the disk may be gone.
fn send_to(outbox: &Outbox, open: &Open<'_>) {
    let sender = Sender {
        outbox,
        open,
        push: &|_, _| Ok(()),
        now: AT,
        jitter: 0,
    };
    let _ = sender.send(true);
}

fn outbox(disk: Arc<dyn Disk>) -> Outbox {
    Outbox::of(disk, Path::new(DIR))
}

/// The issue is as the writes with these keys say, each once.
fn check(fake: &FakeLinear, queued: &[Queued], place: &str) {
    let issue = fake.issue("ANV-1");
    let has = |order: u64| queued.iter().any(|queued| queued.order == order);
    assert!(issue.comments.len() <= 1, "{place}: {:?}", issue.comments);
    let body = issue
        .comments
        .first()
        .map_or("", |comment| comment.body.as_str());
    for order in [1, 3] {
        let count = body.matches(&format!("Session {order} · ")).count();
        assert_eq!(
            count,
            usize::from(has(order)),
            "{place}: entry {order} in {body}"
        );
    }
    assert_eq!(issue.labels.len(), usize::from(has(2)), "{place}: labels");
    assert_eq!(
        fake.labels.len(),
        usize::from(has(2)),
        "{place}: labels of the team"
    );
    assert_eq!(
        fake.issues.len(),
        1 + usize::from(has(5) || has(7)),
        "{place}: sub-issues"
    );
    assert_eq!(issue.state, usize::from(has(6)), "{place}: state");
    let closed = fake.issues.get(1).map(|sub| sub.state);
    assert_eq!(closed == Some(2), has(7), "{place}: a sub-issue's end");
}

// shows: TRK-06
#[test]
fn whatever_dies_when_each_write_arrives_once() {
    let start = planted();
    let work = |disk: &Arc<SimDisk>| {
        let near = Near::new(FakeLinear::with(&["Accounts"]));
        let outbox = outbox(disk.clone());
        // What was said to be queued, and no more, must arrive.
        let queued = writes()
            .into_iter()
            .take_while(|write| write.queue(&outbox).is_ok());
        let queued: Vec<Queued> = queued.collect();
        if queued.len() == writes().len() {
            send(&outbox, &near);
        }
        let fake = near.0.lock().unwrap().service.clone();
        (queued, fake)
    };
    let explored = every_crash(&start, work, |disk, (queued, fake), point| {
        let near = Near::new(fake.clone());
        let outbox = outbox(Arc::new(disk.clone()));
        send(&outbox, &near);
        let arrived: Vec<Queued> = outbox
            .sent()
            .unwrap()
            .iter()
            .filter_map(Queued::of)
            .collect();
        for write in queued {
            assert!(
                arrived.contains(write),
                "{point:?}: {} is lost",
                write.in_words()
            );
        }
        check(
            &near.0.lock().unwrap().service,
            &arrived,
            &format!("{point:?}"),
        );
        // The run goes on, and queues what its log says.
        for write in writes() {
            write.queue(&outbox).unwrap();
        }
        send(&outbox, &near);
        check(
            &near.0.lock().unwrap().service,
            &writes(),
            &format!("{point:?}, gone on"),
        );
    });
    assert!(
        explored.crashes > 60 && explored.worlds > 200,
        "{explored:?}"
    );
}

// shows: TRK-06
#[test]
fn whichever_answer_is_lost_each_write_arrives_once() {
    let requests = {
        let (outbox, near) = queued();
        send(&outbox, &near);
        near.0.lock().unwrap().asked.len()
    };
    assert!(requests >= 7, "{requests}");
    for at in 0..requests {
        for fault in [
            ServiceFault::Lost,
            ServiceFault::Half,
            ServiceFault::NoAnswer,
            ServiceFault::Status(500),
        ] {
            let (outbox, near) = queued();
            near.0.lock().unwrap().fault_at(at, fault);
            send(&outbox, &near);
            send(&outbox, &near);
            let place = format!("{fault:?} at request {at}");
            check(&near.0.lock().unwrap().service, &writes(), &place);
            assert!(outbox.waiting().unwrap().is_empty(), "{place}");
        }
    }
}

fn queued() -> (Outbox, Near<FakeLinear>) {
    let outbox = outbox(Arc::new(planted()));
    for write in writes() {
        write.queue(&outbox).unwrap();
    }
    (outbox, Near::new(FakeLinear::with(&["Accounts"])))
}

/// Requests that bring all of it to GitHub.
const REQUESTS: usize = 7;

/// The same on GitHub, which takes no id of ours.
// shows: TRK-06
#[test]
fn whichever_answer_of_github_is_lost_each_write_arrives_once() {
    let issue = IssueRef {
        tracker: TrackerKind::Github,
        repo: "me/app".to_owned(),
        id: "1".to_owned(),
    };
    let writes = writes().into_iter().map(|write| Queued {
        issue: issue.clone(),
        ..write
    });
    let writes: Vec<Queued> = writes.collect();
    let mut all = 1;
    for at in 0..REQUESTS {
        for fault in [
            ServiceFault::Lost,
            ServiceFault::Half,
            ServiceFault::NoAnswer,
        ] {
            let outbox = outbox(Arc::new(planted()));
            for write in &writes {
                write.queue(&outbox).unwrap();
            }
            let near = Near::new(FakeGitHub::with("me/app", &["Accounts"]));
            near.0.lock().unwrap().fault_at(at, fault);
            for _ in 0..2 {
                send_to(&outbox, &|_, _| Ok(Box::new(github(&near))));
            }
            let (place, fake) = (format!("{fault:?} at {at}"), near.0.lock().unwrap());
            let issue = &fake.service.issues[0];
            assert_eq!(issue.comments.len(), 1, "{place}: {:?}", issue.comments);
            for order in [1, 3] {
                let entry = format!("Session {order} · ");
                assert_eq!(issue.comments[0].body.matches(&entry).count(), 1, "{place}");
            }
            assert_eq!(
                (issue.labels.len(), &issue.children),
                (1, &vec![2]),
                "{place}"
            );
            assert_eq!(fake.service.issues.len(), 2, "{place}");
            assert!(outbox.waiting().unwrap().is_empty(), "{place}");
            all = all.max(fake.asked.len());
        }
    }
    assert!(all > REQUESTS, "{all} requests");
}

/// Whatever dies around the push and the opening: the branch has one pull request, and none that was closed comes again.
// shows: TRK-09
#[test]
fn whoever_dies_around_the_push_opens_one_pull_request() {
    let issue = IssueRef {
        tracker: TrackerKind::Github,
        repo: "me/app".to_owned(),
        id: "feat/x".to_owned(),
    };
    let write = Write::PullRequest {
        branch: "feat/x".to_owned(),
        title: "Accounts".to_owned(),
        body: "what was done".to_owned(),
    };
    // The repository, the branch's pull requests, the opening.
    for at in 0..3 {
        for fault in [ServiceFault::NoAnswer, ServiceFault::Lost] {
            let (outbox, pushes) = (outbox(Arc::new(planted())), Cell::new(0));
            other(issue.clone(), 1, write.clone())
                .queue(&outbox)
                .unwrap();
            let near = Near::new(FakeGitHub::with("me/app", &[]));
            near.0.lock().unwrap().fault_at(at, fault);
            let open: &Open<'_> = &|_, _| Ok(Box::new(github(&near)));
            let push = |_: &Path, _: &str| {
                pushes.set(pushes.get() + 1);
                Ok(())
            };
            let sender = Sender {
                outbox: &outbox,
                open,
                push: &push,
                now: AT,
                jitter: 0,
            };
            sender.send(true).unwrap();
            let place = format!("{fault:?} at {at}");
            assert_eq!(pushes.get(), usize::from(at == 2), "{place}");
            // Somebody is quick to merge it.
            for pull in &mut near.0.lock().unwrap().service.issues {
                pull.is_closed = true;
            }
            sender.send(true).unwrap();
            assert_eq!(near.0.lock().unwrap().service.issues.len(), 1, "{place}");
            assert!(outbox.waiting().unwrap().is_empty(), "{place}");
        }
    }
}

// shows: TRK-05, DUR-01
#[test]
fn a_new_file_of_an_issue_is_whole_whatever_dies_when() {
    // Where issues are read from: there are none.
    let temp = tempfile::tempdir().unwrap();
    let (project, dir) = (temp.path(), &temp.path().join(".issues"));
    let start = SimDisk::new();
    start.plant_dir(project);
    let new = NewIssue {
        key: "a",
        title: "Log in",
        text: "by mail",
        parent: None,
        since: AT,
    };
    let work = |disk: &Arc<SimDisk>| Local::new(disk.clone(), project, dir).create(&new).ok();
    let explored = every_crash(&start, work, |disk, made, point| {
        let names = disk.list(dir).unwrap_or_default();
        let issues = names.iter().filter_map(|name| name.to_str());
        let issues: Vec<&str> = issues.filter(|name| name.ends_with(".md")).collect();
        for name in &issues {
            let bytes = disk.read(&dir.join(name), 1_000).unwrap();
            assert!(bytes.ends_with(b"---\nby mail\n"), "{point:?}: {name}");
        }
        assert!(
            made.is_none() || issues == ["log-in.md"],
            "{point:?}: {made:?}"
        );
    });
    assert!(explored.worlds > 10, "{explored:?}");
}
