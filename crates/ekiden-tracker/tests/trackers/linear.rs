//! Linear, by a service that executes what is asked.

use ekiden_testkit::trackers::{FakeLinear, ServiceFault};
use ekiden_tracker::{Answer, Fault, Linear, LivingComment, NewIssue, NewState, Tracker as _, Web};
use ureq::http::{Request, Response};

use crate::{AT, LINEAR, Near, linear};

fn living(body: &str, is_there: bool) -> LivingComment<'_> {
    LivingComment {
        key: "7f3a",
        body: body.to_owned(),
        since: AT,
        is_there,
    }
}

// shows: TRK-05
#[test]
fn an_issue_is_read_with_all_that_belongs_to_it() {
    let mut fake = FakeLinear::with(&["Accounts", "Login"]);
    fake.issues[1].parent = Some("issue-1".to_owned());
    fake.issues[0].description = "Everything of **accounts**".to_owned();
    fake.issues[1].priority = 2;
    fake.issues[1].blocked_by = vec!["issue-1".to_owned()];
    fake.issues[1].state = 2;
    let comment = |number: usize| ekiden_testkit::trackers::LinearComment {
        id: format!("c{number}"),
        body: format!("comment {number}"),
        author: "leo@example.org".to_owned(),
        at: format!("2026-11-24T10:{:02}:{:02}Z", number / 60, number % 60),
        versions: 1,
    };
    fake.issues[0].comments = (0..120).rev().map(comment).collect();
    let near = Near::new(fake);
    let issue = linear(&near).issue("ANV-1").unwrap();
    assert_eq!(
        (issue.title.as_str(), issue.state.as_str(), issue.is_closed),
        ("Accounts", "Todo", false)
    );
    assert_eq!(issue.text, "Everything of **accounts**");
    assert_eq!(
        (issue.children[0].name.as_str(), issue.children[0].is_closed),
        ("ANV-2", true)
    );
    let comments = linear(&near).comments("ANV-1").unwrap();
    assert_eq!(
        (comments.len(), comments[119].text.as_str()),
        (120, "comment 119")
    );
    let child = linear(&near).issue("ANV-2").unwrap();
    assert_eq!(
        (child.parent.as_deref(), child.priority, child.is_blocked),
        (Some("ANV-1"), Some(2), true)
    );
    // A personal key goes without a word before it.
    assert_eq!(
        near.0.lock().unwrap().asked[0].header("authorization"),
        Some("lin_api_key")
    );
}

/// A plan may have a hundred stages, each with a sub-issue.
// shows: SHD-004, TRK-10
#[test]
fn all_of_many_sub_issues_are_read_and_a_duplicate_is_closed() {
    let titles: Vec<String> = (0..121)
        .map(|number| format!("S{number:02} Part"))
        .collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let mut fake = FakeLinear::with(&titles);
    for child in &mut fake.issues[1..] {
        child.parent = Some("issue-1".to_owned());
    }
    fake.issues[120].state = 4;
    let near = Near::new(fake);
    let issue = linear(&near).issue("ANV-1").unwrap();
    assert_eq!(issue.shards_done().unwrap(), "1 of 120 shards done");
    assert_eq!(linear(&near).find(None, None).unwrap().len(), 120);
}

// shows: TRK-05
#[test]
fn an_issue_in_the_trash_bin_is_not_there_and_a_moved_one_tells_its_former_name() {
    let mut fake = FakeLinear::with(&["Accounts", "Login"]);
    fake.issues[0].is_trashed = true;
    fake.issues[1].former = vec!["OLD-7".to_owned()];
    let near = Near::new(fake);
    assert_eq!(
        linear(&near).issue("ANV-1"),
        Err(Fault::Missing("ANV-1".to_owned()))
    );
    assert_eq!(linear(&near).issue("OLD-7").unwrap().name, "ANV-2");
    let found = linear(&near).find(None, None).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].former_names, ["OLD-7"]);
}

// shows: TRK-05
#[test]
fn what_goes_wrong_is_a_fault_with_its_reason() {
    let near = Near::new(FakeLinear::with(&["Accounts"]));
    let fault = |fault| {
        near.0.lock().unwrap().fault.push_back(fault);
        linear(&near).issue("ANV-1").unwrap_err()
    };
    assert!(matches!(
        fault(ServiceFault::NoAnswer),
        Fault::Unreachable(_)
    ));
    assert_eq!(
        fault(ServiceFault::Status(500)),
        Fault::Failing("status 500".to_owned())
    );
    assert_eq!(
        fault(ServiceFault::Status(404)).to_string(),
        "Linear's API at the address in `tracker.linear.url` is not there"
    );
    assert!(matches!(fault(ServiceFault::Garbage), Fault::Garbage(_)));
    assert!(matches!(fault(ServiceFault::Half), Fault::Garbage(_)));
    assert!(
        matches!(fault(ServiceFault::Limited(30)), Fault::Limited { wait } if wait.as_secs() == 30)
    );
    assert_eq!(
        linear(&near).issue("ANV-9").unwrap_err(),
        Fault::Missing("ANV-9".to_owned())
    );
    near.0.lock().unwrap().service.refused_key = Some("lin_api_key".to_owned());
    assert!(matches!(
        linear(&near).issue("ANV-1").unwrap_err(),
        Fault::NotPermitted(_)
    ));
}

/// Linear refuses an id that it knows; so the second try finds the first.
// shows: TRK-06
#[test]
fn what_arrived_without_an_answer_is_not_made_again() {
    let near = Near::new(FakeLinear::with(&["Accounts"]));
    let tracker = linear(&near);
    let lose = || near.0.lock().unwrap().fault.push_back(ServiceFault::Lost);
    lose();
    assert!(tracker.put_comment("ANV-1", &living("one", false)).is_err());
    tracker.put_comment("ANV-1", &living("two", false)).unwrap();
    let new = NewIssue {
        key: "sub",
        title: "Part",
        text: "",
        parent: None,
        since: AT,
    };
    let made = tracker.create(&new).unwrap();
    assert_eq!(tracker.create(&new).unwrap(), made);
    let fake = near.0.lock().unwrap();
    let comments = &fake.service.issue("ANV-1").comments;
    assert_eq!((comments.len(), comments[0].body.as_str()), (1, "two"));
    assert_eq!(fake.service.issues.len(), 2);
}

// shows: TRK-05
#[test]
fn an_issue_without_a_parent_is_made_only_where_there_is_one_team() {
    let mut fake = FakeLinear::with(&["Accounts"]);
    fake.other_teams = vec!["OPS".to_owned()];
    let near = Near::new(fake);
    let new = |parent| NewIssue {
        key: "new",
        title: "Log in",
        text: "",
        parent,
        since: AT,
    };
    let fault = linear(&near).create(&new(None)).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "it refuses: the key sees several teams (ANV, OPS); name a parent issue"
    );
    assert_eq!(near.0.lock().unwrap().service.issues.len(), 1);
    linear(&near).create(&new(Some("ANV-1"))).unwrap();
}

// shows: LIN-002
#[test]
fn a_comment_that_a_person_deleted_is_written_anew() {
    let near = Near::new(FakeLinear::with(&["Accounts"]));
    linear(&near)
        .put_comment("ANV-1", &living("x", true))
        .unwrap();
    assert_eq!(
        near.0.lock().unwrap().service.issue("ANV-1").comments.len(),
        1
    );
}

// shows: LIN-001, LIN-004
#[test]
fn labels_and_states_are_as_they_shall_be_however_often_it_is_said() {
    let near = Near::new(FakeLinear::with(&["Accounts"]));
    let tracker = linear(&near);
    for _ in 0..2 {
        tracker
            .set_label("ANV-1", "context-checkpointed", true)
            .unwrap();
        tracker
            .set_state("ANV-1", &NewState::Named("in progress".to_owned()))
            .unwrap();
    }
    let labels = |near: &Near<FakeLinear>| near.0.lock().unwrap().service.labels_of("ANV-1").len();
    assert_eq!(labels(&near), 1);
    assert_eq!(tracker.issue("ANV-1").unwrap().state, "In Progress");
    let found = |label: &str| tracker.find(Some(label), None).unwrap().len();
    assert_eq!((found("Context-Checkpointed"), found("other")), (1, 0));
    for _ in 0..2 {
        tracker
            .set_label("ANV-1", "context-checkpointed", false)
            .unwrap();
        tracker.set_state("ANV-1", &NewState::Done).unwrap();
    }
    assert_eq!(
        (labels(&near), tracker.issue("ANV-1").unwrap().is_closed),
        (0, true)
    );
    let fault = tracker
        .set_state("ANV-1", &NewState::Named("Nowhere".to_owned()))
        .unwrap_err();
    assert_eq!(
        fault.to_string(),
        "it refuses: its states are Todo, In Progress, Done, Canceled, Duplicate"
    );
}

/// Only labels in a group can be set.
// shows: LIN-001, TRK-06
#[test]
fn a_label_that_linear_refuses_is_not_set() {
    let mut fake = FakeLinear::with(&["Accounts"]);
    fake.labels = vec![("label-1".to_owned(), "Kind".to_owned())];
    fake.label_group = Some("label-1".to_owned());
    let fault = linear(&Near::new(fake)).set_label("ANV-1", "Kind", true);
    let fault = fault.unwrap_err().to_string();
    assert_eq!(fault, "it refuses: a label group cannot be added");
}

// shows: TRK-10
#[test]
fn a_list_has_all_pages_and_says_what_is_urgent_and_what_is_blocked() {
    let mut fake = FakeLinear::with(&["x"; 120]);
    fake.issues[0].priority = 1;
    fake.issues[1].blocked_by = vec!["issue-1".to_owned()];
    fake.issues[3].blocked_by = vec!["issue-3".to_owned()];
    fake.issues[2].state = 2;
    let found = linear(&Near::new(fake)).find(None, None).unwrap();
    assert_eq!(found.len(), 119, "one is done");
    let first = found[..3].iter();
    let first: Vec<_> = first
        .map(|issue| (issue.name.as_str(), issue.priority, issue.is_blocked))
        .collect();
    assert_eq!(
        first,
        [
            ("ANV-1", Some(1), false),
            ("ANV-2", None, true),
            ("ANV-4", None, false)
        ]
    );
}

/// Its server is at fault, as it says itself.
struct Broken;

impl Web for Broken {
    fn send(&self, _: Request<Vec<u8>>) -> Result<Answer, String> {
        let body =
            r#"{"errors":[{"message":"Oops","extensions":{"code":"INTERNAL_SERVER_ERROR"}}]}"#;
        Ok(Response::new(body.into()))
    }
}

// shows: TRK-05
#[test]
fn a_server_that_says_it_is_at_fault_refuses_nothing() {
    let fault = Linear::new(Broken, LINEAR.to_owned(), "lin_api_key").check();
    let failing = Fault::Failing("INTERNAL_SERVER_ERROR".to_owned());
    assert_eq!(fault, Err(failing));
}

/// All that may be asked for in an hour was asked for, in few requests.
struct Spent;

impl Web for Spent {
    fn send(&self, _: Request<Vec<u8>>) -> Result<Answer, String> {
        // 2026-11-24T11:00:00Z, and two minutes later.
        let answer = Response::builder()
            .status(429)
            .header("date", "Tue, 24 Nov 2026 11:00:00 GMT")
            .header("x-ratelimit-requests-remaining", "1400")
            .header("x-ratelimit-requests-reset", "1795521540000")
            .header("x-ratelimit-complexity-remaining", "0")
            .header("x-ratelimit-complexity-reset", "1795518120000");
        Ok(answer.body(Vec::new()).unwrap())
    }
}

// shows: TRK-05
#[test]
fn the_limit_that_is_reached_says_how_long() {
    let tracker = Linear::new(Spent, LINEAR.to_owned(), "lin_api_key");
    let fault = tracker.check().unwrap_err();
    assert!(
        matches!(fault, Fault::Limited { wait } if wait.as_secs() == 120),
        "{fault:?}"
    );
}
