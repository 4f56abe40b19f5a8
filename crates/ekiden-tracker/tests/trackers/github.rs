//! GitHub, by a service with its paths, pages and limits.

use ekiden_testkit::trackers::{FakeGitHub, ServiceFault};
use ekiden_tracker::{
    Answer, Fault, GitHub, HEADS, Known, LivingComment, NewIssue, NewState, PullRequest,
    Tracker as _, Web,
};
use ureq::http::{Request, Response};

use crate::{AT, GITHUB, Near, github};

fn near() -> Near<FakeGitHub> {
    let mut fake = FakeGitHub::with("me/app", &["Accounts", "Login"]);
    fake.address = GITHUB.to_owned();
    Near::new(fake)
}

fn living(body: &str) -> LivingComment<'_> {
    LivingComment {
        key: "7f3a",
        body: format!("{}7f3a\n{body}", HEADS[0]),
        since: AT,
        is_there: false,
    }
}

// shows: TRK-05
#[test]
fn an_issue_is_read_with_comments_of_its_last_pages() {
    let near = near();
    for number in 0..250 {
        near.0
            .lock()
            .unwrap()
            .service
            .comment(1, "leo", &format!("comment {number}"));
    }
    near.0.lock().unwrap().service.issues[0].children = vec![2];
    let issue = github(&near).issue("1").unwrap();
    assert_eq!(
        (issue.name.as_str(), issue.title.as_str()),
        ("me/app#1", "Accounts")
    );
    let comments = github(&near).comments("1").unwrap();
    assert_eq!(
        (comments.len(), comments[149].text.as_str()),
        (150, "comment 249")
    );
    assert_eq!(issue.children[0].name, "#2");
    near.0.lock().unwrap().service.is_old = true;
    assert!(github(&near).issue("1").unwrap().children.is_empty());
}

/// GitHub has no ids of ours: the marker is found, on whatever page it is.
// shows: TRK-06
#[test]
fn what_arrived_without_an_answer_is_found_by_its_marker() {
    let near = near();
    let tracker = github(&near);
    near.0.lock().unwrap().service.page = 2;
    for number in 0..5 {
        near.0
            .lock()
            .unwrap()
            .service
            .comment(1, "leo", &format!("comment {number}"));
    }
    // Three pages are looked through, then the user is asked for, the comment made and its answer lost.
    near.0.lock().unwrap().fault_at(4, ServiceFault::Lost);
    assert!(tracker.put_comment("1", &living("one")).is_err());
    near.0.lock().unwrap().service.comment(1, "leo", "later");
    tracker.put_comment("1", &living("two")).unwrap();
    let ours = |near: &Near<FakeGitHub>| {
        let fake = near.0.lock().unwrap();
        let ours = fake.service.issues[0]
            .comments
            .iter()
            .filter(|comment| comment.body.contains("<!-- ekiden:"));
        ours.map(|comment| comment.body.lines().nth(1).unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ours(&near), ["two"]);
    // A person writes into it.
    near.0.lock().unwrap().service.issues[0].comments[5]
        .body
        .push_str("and I");
    tracker.put_comment("1", &living("two")).unwrap();
    assert_eq!(ours(&near), ["two"]);
    // The request of a sender that was killed arrives late, and a person quotes what it says.
    let late = near.0.lock().unwrap().service.issues[0].comments[5].clone();
    for (who, text) in [
        ("mia", late.body.clone()),
        ("mia", format!("{}I agree", late.body)),
        (
            "mia",
            format!(
                "I agree with\n\n> {}",
                late.body.trim_end().replace('\n', "\n> ")
            ),
        ),
    ] {
        near.0.lock().unwrap().service.comment(1, who, &text);
    }
    tracker.put_comment("1", &living("three")).unwrap();
    assert_eq!(ours(&near), ["three", "two", ""]);
    let new = NewIssue {
        key: "sub",
        title: "Part",
        text: "what",
        parent: Some("1"),
        since: AT,
    };
    let made = tracker.create(&new).unwrap();
    assert_eq!(
        (made.as_str(), tracker.create(&new).unwrap().as_str()),
        ("3", "3")
    );
    assert_eq!(near.0.lock().unwrap().service.issues[0].children, [3]);
}

/// Everybody can read our marker and write it into an older comment.
// shows: TRK-06
#[test]
fn a_comment_of_somebody_else_is_never_taken_for_ours() {
    for is_installation in [false, true] {
        let near = near();
        near.0.lock().unwrap().service.is_installation = is_installation;
        near.0.lock().unwrap().service.comment(1, "leo", "first");
        near.0.lock().unwrap().service.comment(1, "mia", "second");
        let put = |body: &str| github(&near).put_comment("1", &living(body)).unwrap();
        put("one");
        let fake = |at: usize| near.0.lock().unwrap().service.issues[0].comments[at].clone();
        let (copy, quote) = (fake(2).body, format!("This says:\n\n{}", fake(2).body));
        near.0.lock().unwrap().service.issues[0].comments[0].body = copy.clone();
        near.0.lock().unwrap().service.issues[0].comments[1].body = quote.clone();
        put("two");
        assert_eq!((fake(0).body, fake(1).body), (copy, quote));
        assert!(fake(2).body.contains("\ntwo\n"), "{}", fake(2).body);
    }
}

// shows: TRK-10
#[test]
fn a_list_has_all_pages_and_says_what_is_blocked() {
    let near = near();
    near.0.lock().unwrap().service.page = 1;
    near.0.lock().unwrap().service.issues[1].blocked_by = 1;
    let found = github(&near).find(None, None).unwrap();
    let blocked: Vec<bool> = found.iter().map(|issue| issue.is_blocked).collect();
    assert_eq!(blocked, [false, true]);
}

// shows: SHD-004
#[test]
fn the_parent_of_a_sub_issue_is_known() {
    let near = near();
    near.0.lock().unwrap().service.issues[0].children = vec![2];
    let issue = github(&near).issue("2").unwrap();
    assert_eq!(issue.parent.as_deref(), Some("#1"));
}

/// One that was moved has its number there. Here, that number is another issue's.
// shows: TRK-05
#[test]
fn an_issue_of_another_repository_has_its_whole_name() {
    let issue = GitHub::new(Elsewhere, GITHUB, "me/app".to_owned(), "key");
    let issue = issue.issue("1").unwrap();
    assert_eq!(issue.parent.as_deref(), Some("org/plans#7"));
    let names: Vec<&str> = issue.children.iter().map(|child| &*child.name).collect();
    assert_eq!(names, ["org/web#2", "#3"]);
}

struct Elsewhere;

impl Web for Elsewhere {
    fn send(&self, request: Request<Vec<u8>>) -> Result<Answer, String> {
        let issue = |repo: &str, number: u32| {
            let url = format!("{GITHUB}/repos/{repo}/issues/{number}");
            format!(
                r#"{{"number": {number}, "url": "{url}", "parent_issue_url": "{GITHUB}/repos/org/plans/issues/7"}}"#
            )
        };
        let said = match request.uri().path().ends_with("/sub_issues") {
            true => format!("[{}, {}]", issue("org/web", 2), issue("Me/App", 3)),
            false => issue("me/app", 1),
        };
        Ok(Response::new(said.into_bytes()))
    }
}

// shows: LIN-001, LIN-004, TRK-05
#[test]
fn labels_and_states_are_as_they_shall_be() {
    let near = near();
    let tracker = github(&near);
    for _ in 0..2 {
        tracker
            .set_label("1", "context-checkpointed", true)
            .unwrap();
        tracker.set_state("1", &NewState::Done).unwrap();
    }
    assert_eq!(
        near.0.lock().unwrap().service.issues[0].labels,
        ["context-checkpointed"]
    );
    let open = tracker.find(None, None).unwrap();
    assert_eq!((open.len(), open[0].name.as_str()), (1, "me/app#2"));
    // GitHub knows no such state, and nothing is said about it.
    tracker
        .set_state("1", &NewState::Named("In Progress".to_owned()))
        .unwrap();
    for _ in 0..2 {
        tracker
            .set_label("1", "context-checkpointed", false)
            .unwrap();
    }
    assert!(near.0.lock().unwrap().service.issues[0].labels.is_empty());
}

// shows: TRK-05
#[test]
fn what_goes_wrong_is_a_fault_with_its_reason() {
    let near = near();
    let fault = |fault| {
        near.0.lock().unwrap().fault.push_back(fault);
        github(&near).issue("1").unwrap_err()
    };
    assert!(matches!(
        fault(ServiceFault::NoAnswer),
        Fault::Unreachable(_)
    ));
    assert_eq!(
        fault(ServiceFault::Status(502)),
        Fault::Failing("status 502".to_owned())
    );
    assert!(matches!(
        fault(ServiceFault::Status(302)),
        Fault::Refused(_)
    ));
    assert_eq!(
        fault(ServiceFault::Status(301)).to_string(),
        "me/app/issues/1 was transferred or its repository renamed, so it is not there"
    );
    assert!(matches!(fault(ServiceFault::Half), Fault::Garbage(_)));
    assert!(
        matches!(fault(ServiceFault::Limited(60)), Fault::Limited { wait } if wait.as_secs() == 60)
    );
    assert_eq!(
        github(&near).issue("9").unwrap_err(),
        Fault::Missing("me/app/issues/9".to_owned())
    );
    near.0.lock().unwrap().service.refused_token = Some("token".to_owned());
    assert_eq!(
        github(&near).issue("1").unwrap_err().to_string(),
        "it does not permit this: Bad credentials"
    );
}

// shows: TRK-06
#[test]
fn a_refusal_says_why() {
    let near = near();
    near.0.lock().unwrap().service.is_without_commits = true;
    let pull = PullRequest {
        key: "one",
        branch: "feat/x",
        title: "Login",
        body: "a",
    };
    let fault = github(&near).put_pull_request(&pull, &|| Ok(()));
    assert_eq!(
        fault.unwrap_err().to_string(),
        "it refuses: 422 Validation Failed: No commits between main and feat/x"
    );
}

/// A link to the next page on another host would take the token there.
// shows: TRK-05
#[test]
fn the_token_goes_to_no_other_address() {
    let near = near();
    near.0.lock().unwrap().service.page = 1;
    near.0.lock().unwrap().service.address = "http://evil.test".to_owned();
    for _ in 0..3 {
        near.0.lock().unwrap().service.comment(1, "leo", "x");
    }
    github(&near).put_comment("1", &living("one")).unwrap();
    let fake = near.0.lock().unwrap();
    let looked = fake.asked.iter().filter(|asked| asked.method == "GET");
    let looked: Vec<&str> = looked
        .map(|asked| asked.path.split('?').next().unwrap())
        .collect();
    assert_eq!(looked, ["/repos/me/app/issues/1/comments", "/user"]);
}

/// Whatever request is lost, with or without its work done, the branch has one pull request.
// shows: TRK-09
#[test]
fn a_pull_request_is_opened_once_and_then_kept_up_to_date() {
    let pull = |key, body| PullRequest {
        key,
        branch: "feat/x",
        title: "Login",
        body,
    };
    for fault in [ServiceFault::NoAnswer, ServiceFault::Lost] {
        for place in 0..3 {
            let near = near();
            let tracker = github(&near);
            near.0.lock().unwrap().fault_at(place, fault);
            assert!(
                tracker
                    .put_pull_request(&pull("one", "a"), &|| Ok(()))
                    .is_err()
            );
            for (key, body) in [("one", "a"), ("two", "b")] {
                tracker
                    .put_pull_request(&pull(key, body), &|| Ok(()))
                    .unwrap();
            }
            let fake = near.0.lock().unwrap();
            let issues = &fake.service.issues;
            assert_eq!(issues.len(), 3, "{fault:?} {place}");
            assert!(issues[2].body.ends_with(" -->\nb\n<!-- /ekiden -->\n"));
            assert_eq!(issues[2].pull.as_ref().unwrap().base, "main");
        }
    }
}

/// GitHub's pages end each line with two characters.
// shows: TRK-09
#[test]
fn what_people_write_around_the_report_in_a_pull_request_stays() {
    let near = near();
    let tracker = github(&near);
    let put = |key, body| {
        let pull = PullRequest {
            key,
            branch: "feat/x",
            title: "Login",
            body,
        };
        tracker.put_pull_request(&pull, &|| Ok(())).unwrap();
    };
    let edit = |change: &dyn Fn(&str) -> String| {
        let mut fake = near.0.lock().unwrap();
        let body = &mut fake.service.issues[2].body;
        *body = change(body);
        body.clone()
    };
    put("one", "report one");
    edit(&|body| format!("Please look at a.rs.\n\n{body}\nCloses #1\n").replace('\n', "\r\n"));
    put("two", "report two <!-- /ekiden -->");
    let body = edit(&str::to_owned);
    assert!(body.starts_with("Please look at a.rs.\r\n\r\n<!-- ekiden:"));
    assert!(
        body.ends_with("<!-- /ekiden -->\r\n\r\nCloses #1\r\n"),
        "{body}"
    );
    assert!(!body.contains("report one"), "{body}");
    // Without its marks, all of it is the person's.
    edit(&|_| "My own words".to_owned());
    put("three", "report three");
    let body = edit(&str::to_owned);
    assert!(body.starts_with("My own words\n\n<!-- ekiden:"), "{body}");
    assert_eq!(body.matches("report").count(), 1, "{body}");
}

/// A large project has hundreds of checks.
// shows: TRK-09
#[test]
fn a_failure_among_many_checks_is_found() {
    let near = near();
    let tracker = github(&near);
    let pull = PullRequest {
        key: "one",
        branch: "feat/x",
        title: "Login",
        body: "a",
    };
    tracker.put_pull_request(&pull, &|| Ok(())).unwrap();
    let check = |number: usize| {
        let conclusion = if number == 249 { "failure" } else { "success" };
        let name = format!("job {number}");
        (name, conclusion.to_owned(), "it fails".to_owned())
    };
    near.0.lock().unwrap().service.issues[2]
        .pull
        .as_mut()
        .unwrap()
        .checks = (0..250).map(check).collect();
    let review = tracker.review("feat/x").unwrap();
    assert_eq!(review.text, "check job 249: \nit fails\n\n");
}

// shows: TRK-09
#[test]
fn a_merged_pull_request_stays_closed_and_a_default_branch_is_never_pushed() {
    let near = near();
    let tracker = github(&near);
    let never = || -> Result<(), Fault> { panic!("pushed") };
    let mut pull = PullRequest {
        key: "one",
        branch: "main",
        title: "Login",
        body: "a",
    };
    tracker.put_pull_request(&pull, &never).unwrap_err();
    pull.branch = "feat/x";
    tracker.put_pull_request(&pull, &|| Ok(())).unwrap();
    near.0.lock().unwrap().service.issues[2].is_closed = true;
    tracker.put_pull_request(&pull, &never).unwrap();
    assert_eq!(near.0.lock().unwrap().service.issues.len(), 3);
    // What a push refuses opens nothing.
    pull.branch = "feat/y";
    let refused = || Err(Fault::Refused("non-fast-forward".to_owned()));
    tracker.put_pull_request(&pull, &refused).unwrap_err();
    assert_eq!(near.0.lock().unwrap().service.issues.len(), 3);
}

/// `origin` is a fork of the repository that has the issues.
// shows: TRK-09
#[test]
fn a_pull_request_comes_from_the_fork_that_was_pushed_to() {
    let near = near();
    let tracker = github(&near).pushed_to("mia/app");
    let pull = PullRequest {
        key: "one",
        branch: "feat/x",
        title: "Login",
        body: "a",
    };
    tracker.put_pull_request(&pull, &|| Ok(())).unwrap();
    let asked = &near.0.lock().unwrap().asked;
    assert!(
        asked[1].path.contains("head=mia%3Afeat%2Fx"),
        "{}",
        asked[1].path
    );
    assert_eq!(asked[2].path, "/repos/me/app/pulls");
    assert_eq!(asked[2].body["head"], "mia:feat/x");
}

/// Too much at once, with nothing about it in the headers.
struct TooQuick;

impl Web for TooQuick {
    fn send(&self, _: Request<Vec<u8>>) -> Result<Answer, String> {
        let answer = Response::builder()
            .status(403)
            .header("x-ratelimit-remaining", "4200");
        let said = r#"{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}"#;
        Ok(answer.body(said.as_bytes().to_vec()).unwrap())
    }
}

// shows: TRK-05
#[test]
fn a_limit_that_is_told_in_words_alone_is_none_of_the_key() {
    let fault = GitHub::new(TooQuick, GITHUB, "me/app".to_owned(), "key").check();
    let fault = fault.unwrap_err();
    assert!(
        matches!(fault, Fault::Limited { wait } if wait.as_secs() == 300),
        "{fault:?}"
    );
}

/// The dispatcher asks again and again for the same list.
// shows: TRK-10
#[test]
fn what_has_not_changed_is_not_sent_again() {
    let near = near();
    let web = Known::new(near.clone());
    let open = || GitHub::new(web.clone(), GITHUB, "me/app".to_owned(), "key");
    let first = open().find(None, None).unwrap();
    assert_eq!(open().find(None, None).unwrap(), first);
    let tag = |at: usize| {
        near.0.lock().unwrap().asked[at]
            .header("if-none-match")
            .map(str::to_owned)
    };
    assert!(tag(0).is_none() && tag(1).is_some());
    near.0.lock().unwrap().service.issues[0].is_closed = true;
    assert_eq!(open().find(None, None).unwrap().len(), first.len() - 1);
    let other = GitHub::new(web.clone(), GITHUB, "me/app".to_owned(), "other key");
    other.find(None, None).unwrap();
    assert!(
        tag(3).is_none(),
        "what one key may read is not told to another"
    );
}
