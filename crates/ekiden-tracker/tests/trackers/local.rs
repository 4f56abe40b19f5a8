//! Issues as files.

use std::path::Path;
use std::sync::Arc;

use ekiden_store::disk::{Disk as _, Reach, RealDisk};
use ekiden_tracker::{Fault, LivingComment, Local, NewIssue, NewState, PullRequest, Tracker as _};

use crate::AT;

pub(crate) fn tracker(dir: &Path) -> Local {
    Local::new(Arc::new(RealDisk::fenced(dir)), dir, &dir.join(".issues"))
}

pub(crate) fn put(dir: &Path, name: &str, text: &str) {
    let disk = RealDisk::fenced(dir);
    let _ = disk.create_dir(&dir.join(".issues"));
    let path = dir.join(".issues").join(name);
    disk.create_file(&path, text.as_bytes(), Reach::Cache)
        .unwrap();
}

fn living(body: &str) -> LivingComment<'_> {
    LivingComment {
        key: "7f3a",
        body: body.to_owned(),
        since: AT,
        is_there: false,
    }
}

// shows: TRK-05, TRK-10
#[test]
fn many_labels_are_all_kept_and_quotes_of_either_kind_are_none_of_them() {
    let temp = tempfile::tempdir().unwrap();
    let many: Vec<String> = (0..60)
        .map(|number| format!("area/number-{number}"))
        .collect();
    let text = format!(
        "---\ntitle: 'Log in'\nlabels: ['ekiden', {}]\n---\n",
        many.join(", ")
    );
    put(temp.path(), "login.md", &text);
    let tracker = tracker(temp.path());
    tracker.set_label("login", "ready", true).unwrap();
    let found = tracker.find(Some("ekiden"), None).unwrap();
    assert_eq!(found[0].title, "Log in");
    let labels = [&["ekiden".to_owned()], &*many, &["ready".to_owned()]].concat();
    assert_eq!(found[0].labels, labels);
}

// shows: TRK-05
#[test]
fn what_a_person_wrote_stays_as_it_is() {
    let temp = tempfile::tempdir().unwrap();
    let text = "---\nid: login\ntitle: \"Log in\"\nestimate: 3\nlabels: [bug, ui]\nstate: open\n---\nBy mail.\n\n- a\n";
    put(temp.path(), "login.md", text);
    put(
        temp.path(),
        "mail.md",
        "---\ntitle: Mail\nstate: Done\nparent: login\n---\n",
    );
    put(temp.path(), "bare.md", "no front matter\n");
    let tracker = tracker(temp.path());
    let issue = tracker.issue("login").unwrap();
    assert_eq!(
        (
            issue.title.as_str(),
            issue.state.as_str(),
            issue.text.as_str()
        ),
        ("Log in", "open", "By mail.\n\n- a")
    );
    assert_eq!(
        (issue.labels, issue.children[0].is_closed),
        (vec!["bug".to_owned(), "ui".to_owned()], true)
    );
    for body in ["one", "two"] {
        tracker
            .set_label("login", "context-checkpointed", true)
            .unwrap();
        tracker
            .set_state("login", &NewState::Named("doing".to_owned()))
            .unwrap();
        tracker.put_comment("login", &living(body)).unwrap();
    }
    let written = std::fs::read_to_string(temp.path().join(".issues/login.md")).unwrap();
    expect_test::expect![[r#"
        ---
        id: login
        title: "Log in"
        estimate: 3
        labels: bug, ui, context-checkpointed
        state: doing
        ---
        By mail.

        - a

        <!-- ekiden:e691d0079f79eca4304219d11ee5e5ff -->
        two
        <!-- /ekiden -->
    "#]]
    .assert_eq(&written);
    let below = written + "\nOnly by mail.\n";
    RealDisk::new()
        .remove(&temp.path().join(".issues/login.md"))
        .unwrap();
    put(temp.path(), "login.md", &below);
    assert_eq!(
        tracker.issue("login").unwrap().text,
        "By mail.\n\n- a\n\n\n\nOnly by mail."
    );
    let written = || std::fs::read_to_string(temp.path().join(".issues/bare.md")).unwrap();
    tracker.set_label("bare", "x", false).unwrap();
    assert_eq!(written(), "no front matter\n");
    tracker.set_label("bare", "x", true).unwrap();
    assert_eq!(tracker.issue("bare").unwrap().text, "no front matter");
    tracker.set_label("bare", "x", false).unwrap();
    assert!(
        written().starts_with("---\nlabels:\n---\n"),
        "{}",
        written()
    );
    let open: Vec<String> = tracker
        .find(None, None)
        .unwrap()
        .into_iter()
        .map(|issue| issue.name)
        .collect();
    assert_eq!(open, ["bare", "login"]);
}

/// With a mark before the first line, two characters at the end of each, and a list on lines of its own.
// shows: TRK-05
#[test]
fn a_file_of_another_editor_is_read_and_stays_whole() {
    let temp = tempfile::tempdir().unwrap();
    let text = |labels: &str| {
        format!(
            "\u{feff}---\r\ntitle: Log in\r\nlabels:{labels}state: doing\r\n---\r\nBy mail.\r\n"
        )
    };
    let list = "\r\n  - bug\r\n  - \"ui\"\r\n";
    put(temp.path(), "login.md", &text(list));
    let tracker = tracker(temp.path());
    let issue = tracker.issue("login").unwrap();
    assert_eq!((&*issue.title, &*issue.state), ("Log in", "doing"));
    assert_eq!(issue.labels, ["bug", "ui"]);
    assert_eq!(issue.text, "By mail.");
    tracker.set_label("login", "x", true).unwrap();
    let written = std::fs::read_to_string(temp.path().join(".issues/login.md")).unwrap();
    assert_eq!(written, text(" bug, ui, x\r\n"));
    tracker.put_comment("login", &living("one\ntwo")).unwrap();
    let written = std::fs::read_to_string(temp.path().join(".issues/login.md")).unwrap();
    assert!(written.contains("one\r\ntwo"), "{written}");
    assert!(!written.replace("\r\n", "").contains('\n'), "{written}");
}

// shows: TRK-09
#[test]
fn a_mark_within_a_text_does_not_end_its_block() {
    let temp = tempfile::tempdir().unwrap();
    let tracker = tracker(temp.path());
    for body in ["one\n<!-- /ekiden -->\n<!-- ekiden:x -->\ntail", "two"] {
        let pull = PullRequest {
            key: "k",
            branch: "feat/x",
            title: "Log in",
            body,
        };
        tracker.put_pull_request(&pull, &|| Ok(())).unwrap();
        assert_eq!(tracker.review("feat/x").unwrap().text, "");
    }
    let written = std::fs::read_to_string(temp.path().join(".issues/log-in.md")).unwrap();
    assert!(
        written.ends_with("\n<!-- ekiden:pull-request -->\ntwo\n<!-- /ekiden -->\n"),
        "{written}"
    );
    assert!(!written.contains("tail"), "{written}");
}

// shows: TRK-05
#[test]
fn a_block_whose_end_a_person_removed_takes_nothing_of_theirs() {
    let temp = tempfile::tempdir().unwrap();
    let mark = "<!-- ekiden:e691d0079f79eca4304219d11ee5e5ff -->";
    let text = format!("By mail.\n\n{mark}\none\n\nOnly by mail.\n");
    put(temp.path(), "login.md", &text);
    let tracker = tracker(temp.path());
    for body in ["two", "three"] {
        tracker.put_comment("login", &living(body)).unwrap();
    }
    let path = temp.path().join(".issues/login.md");
    let written = std::fs::read_to_string(path).unwrap();
    assert_eq!(
        written,
        format!("{text}\n{mark}\nthree\n<!-- /ekiden -->\n")
    );
    let read = tracker.issue("login").unwrap().text;
    assert!(read.ends_with("Only by mail."), "{read}");
}

// shows: TRK-05
#[test]
fn a_new_issue_is_made_once_and_takes_no_others_name() {
    let temp = tempfile::tempdir().unwrap();
    let tracker = tracker(temp.path());
    let new = |key| NewIssue {
        key,
        title: "Log in, by mail!",
        text: "now",
        parent: None,
        since: AT,
    };
    let made = ["a", "a", "b"].map(|key| tracker.create(&new(key)).unwrap());
    assert_eq!(
        made,
        ["log-in-by-mail", "log-in-by-mail", "log-in-by-mail-2"]
    );
    assert!(tracker.has("log-in-by-mail-2"));
    for title in ["Rename \"foo\" to \"bar\"", "\"foo\" and \"bar\""] {
        let id = tracker
            .create(&NewIssue {
                title,
                ..new(title)
            })
            .unwrap();
        assert_eq!(tracker.issue(&id).unwrap().title, title);
    }
    assert_eq!(
        tracker.issue("nothing").unwrap_err(),
        Fault::Missing("nothing".to_owned())
    );
}

// shows: TRK-05
#[test]
fn issues_that_are_made_at_the_same_time_are_all_kept() {
    let temp = tempfile::tempdir().unwrap();
    let start = std::sync::Barrier::new(8);
    let make = |key: String| {
        let new = NewIssue {
            key: &key,
            title: "Log in",
            text: &key,
            parent: None,
            since: AT,
        };
        start.wait();
        tracker(temp.path()).create(&new).unwrap()
    };
    let mut made: Vec<String> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|number| scope.spawn(move || make(number.to_string())))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 8, "{made:?}");
    let tracker = tracker(temp.path());
    let texts = made.iter().map(|id| tracker.issue(id).unwrap().text);
    assert_eq!(texts.collect::<std::collections::BTreeSet<_>>().len(), 8);
}

// shows: TRK-10
#[test]
fn a_file_says_how_urgent_it_is_and_what_blocks_it() {
    let temp = tempfile::tempdir().unwrap();
    put(temp.path(), "a.md", "---\nblocked-by: b, C.md\n---\n");
    put(temp.path(), "b.md", "---\nstate: done\n---\n");
    put(
        temp.path(),
        "c.md",
        "---\npriority: 2\nassignee: leo\n---\n",
    );
    let tracker = tracker(temp.path());
    let found = || tracker.find(None, None).unwrap();
    let [a, c] = &found()[..] else {
        panic!("{:?}", found());
    };
    assert!(a.is_blocked && !c.is_blocked);
    assert!(tracker.issue("a").unwrap().is_blocked);
    assert_eq!((a.priority, c.priority), (None, Some(2)));
    let of_leo = tracker.find(None, Some("leo")).unwrap();
    assert_eq!(of_leo.iter().collect::<Vec<_>>(), [c]);
    tracker.set_state("c", &NewState::Done).unwrap();
    assert!(!found()[0].is_blocked);
    put(temp.path(), "d.md", "---\nblocked-by: serach\n---\n");
    put(temp.path(), "e.md", "---\npriority: urgent\n---\n");
    let said = |file: &str, what: &str| (file.to_owned(), what.to_owned());
    assert_eq!(
        tracker.unusable().unwrap(),
        [
            said("d.md", "is blocked by `serach`, which does not exist"),
            said("e.md", "has the priority `urgent`, which is no number"),
        ]
    );
}

// shows: TRK-10
#[test]
fn a_comment_behind_a_value_and_capitals_in_a_key_change_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let issues = [
        ("a", "state: closed  # duplicate of b"),
        ("b", "labels:\n  - ekiden  # go\n  - ui"),
        ("c", "title: Fix #12\nlabels: ekiden, ui # both"),
        ("d", "State: Done\nLabels: ekiden"),
        (
            "e",
            "Labels: ekiden\npriority: 2 # soon\nblocked-by: [a] # it is done",
        ),
    ];
    for (name, front) in issues {
        put(
            temp.path(),
            &format!("{name}.md"),
            &format!("---\n{front}\n---\n"),
        );
    }
    let tracker = tracker(temp.path());
    let found = tracker.find(Some("ekiden"), None).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|issue| (&*issue.name, issue.labels.len(), issue.is_blocked))
        .collect();
    assert_eq!(found, [("b", 2, false), ("c", 2, false), ("e", 1, false)]);
    assert_eq!(tracker.issue("c").unwrap().title, "Fix #12");
    assert_eq!(tracker.issue("e").unwrap().priority, Some(2));
    assert!(tracker.issue("a").unwrap().is_closed);
    assert_eq!(tracker.unusable().unwrap(), []);
}

// shows: SEC-02
#[test]
fn nothing_is_written_through_a_link() {
    let temp = tempfile::tempdir().unwrap();
    put(temp.path(), "x.md", "x\n");
    let outside = temp.path().join("outside.md");
    RealDisk::new()
        .create_file(&outside, b"theirs\n", Reach::Cache)
        .unwrap();
    std::os::unix::fs::symlink(&outside, temp.path().join(".issues/link.md")).unwrap();
    let tracker = tracker(temp.path());
    assert!(tracker.set_label("link", "x", true).is_err());
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "theirs\n");
}

// shows: SEC-09
#[test]
fn nothing_is_read_through_a_link_out_of_the_project() {
    let temp = tempfile::tempdir().unwrap();
    let (project, outside) = (temp.path().join("project"), temp.path().join("outside"));
    let disk = RealDisk::new();
    disk.create_dir(&project).unwrap();
    disk.create_dir(&outside).unwrap();
    put(&outside, "x.md", "secret\n");
    put(&project, "own.md", "own\n");
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, project.join(name)).unwrap();
    };
    link(&outside.join(".issues/x.md"), ".issues/link.md");
    link(Path::new("own.md"), ".issues/same.md");
    let refused = |result: Result<_, Fault>| match result {
        Err(Fault::Refused(why)) => why.contains(" leads out of the project, to "),
        Ok(_) | Err(_) => false,
    };
    let tracker = self::tracker(&project);
    assert!(refused(tracker.issue("link").map(drop)));
    assert_eq!(tracker.issue("same").unwrap().text, "own");
    assert_eq!(tracker.find(None, None).unwrap().len(), 2);
    link(&outside.join(".issues"), "theirs");
    let dir = project.join("theirs");
    let tracker = Local::new(Arc::new(RealDisk::fenced(&project)), &project, &dir);
    assert!(refused(tracker.issue("x").map(drop)));
    assert!(refused(tracker.find(None, None).map(drop)));
}
