//! Transcripts as the client writes them, and lines made up for single facts.

use std::io::Cursor;

use ekiden_core::guard::document::TodoState;
use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::tests as fixtures;

fn recalled(lines: &[String]) -> Recall {
    Recall::of(&mut Cursor::new(lines.join("\n"))).expect("a cursor reads")
}

fn told(lines: &[String]) -> TranscriptFacts {
    recalled(lines).into_told()
}

fn prompt(text: &str) -> String {
    json!({"type": "user", "isSidechain": false, "message": {"role": "user", "content": text}, "uuid": "u"})
        .to_string()
}

fn says(block: &Value) -> String {
    json!({"type": "assistant", "isSidechain": false, "uuid": "a",
        "message": {"id": "m", "model": "claude-opus-5-5", "content": [block], "usage": {"input_tokens": 1}}})
    .to_string()
}

fn call(id: &str, tool: &str, input: &Value) -> String {
    says(&json!({"type": "tool_use", "id": id, "name": tool, "input": input}))
}

fn answer(id: &str, text: &str, is_error: bool) -> String {
    json!({"type": "user", "isSidechain": false, "message": {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error}]}})
    .to_string()
}

fn shell(id: &str, command: &str, text: &str, is_error: bool) -> [String; 2] {
    [
        call(id, "Bash", &json!({"command": command})),
        answer(id, text, is_error),
    ]
}

// shows: HND-006, CHK-10
#[test]
fn the_clients_own_transcript_is_read() {
    let recall = recalled(&fixtures::lines("transcript.jsonl"));
    assert_eq!(
        recall.last_line.as_deref(),
        Some("36617d1e-f14b-4603-8e64-cd835c01c315")
    );
    expect![[r#"
        TranscriptFacts {
            task: Some(
                "go",
            ),
            asked_last: None,
            last_words: Some(
                "a",
            ),
            last_edit: None,
            decided: [],
            edited: [],
            succeeded: [
                "python3 -c 'import time;time.sleep(0.5)'",
            ],
            failed: [],
            test: None,
            todos: [],
            compacted: true,
        }
    "#]]
    .assert_debug_eq(&recall.into_told());
}

// shows: HND-006
#[test]
fn what_was_done_is_told_each_once_and_newest_last() {
    let edit = |id: &str, path: &str| {
        [
            call(id, "Edit", &json!({"file_path": path, "old_string": "x"})),
            answer(id, "ok", false),
        ]
    };
    let mut lines = vec![prompt("Port the parser")];
    lines.extend(edit("e1", "/p/a.rs"));
    lines.extend(edit("e2", "/p/b.rs"));
    lines.extend(edit("e3", "/p/a.rs"));
    lines.extend([
        call("e4", "Write", &json!({"file_path": "/p/no.rs"})),
        answer("e4", "denied", true),
    ]);
    lines.extend(shell("s1", "cargo build", "", false));
    lines.extend(shell(
        "s2",
        "cargo test -p core",
        "Exit code 101\nrunning 3\npanicked at src/lexer.rs:12:5:\n1 failed\n",
        true,
    ));
    for (id, refusal) in [
        ("s3", "Not run: x"),
        (
            "s5",
            "<tool_use_error>Not run, this one time: x</tool_use_error>",
        ),
        ("s4", "The user doesn't want to proceed"),
    ] {
        lines.extend(shell(id, "cargo test -p wire", refusal, true));
    }
    lines.extend(edit("e5", "/p/.ekiden/handoffs/2026-11-30-1618.md"));
    lines.push(says(&json!({"type": "text", "text": "One test fails."})));
    lines.push(prompt("now the lexer"));
    let told = told(&lines);
    assert_eq!(told.task.as_deref(), Some("Port the parser"));
    assert_eq!(told.asked_last.as_deref(), Some("now the lexer"));
    assert_eq!(told.edited, ["/p/b.rs", "/p/a.rs"]);
    assert_eq!(told.succeeded, ["cargo build"]);
    assert_eq!(told.failed.len(), 1);
    assert_eq!(
        (told.failed[0].code, told.failed[0].last_line.as_str()),
        (Some(101), "1 failed")
    );
    let test = told.test.expect("a test ran");
    assert_eq!((test.passed, test.last_line.as_str()), (false, "1 failed"));
    assert_eq!(test.place.as_deref(), Some("src/lexer.rs:12"));
    assert_eq!(told.last_edit.as_deref(), Some("/p/a.rs"));
    assert_eq!(told.last_words.as_deref(), Some("One test fails."));
}

// shows: HND-006
#[test]
fn answers_and_approved_plans_are_decisions() {
    let with = |line: String, result: Value| {
        let mut line: Value = serde_json::from_str(&line).expect("a line of ours");
        line["toolUseResult"] = result;
        line.to_string()
    };
    let asked = json!({"questions": [], "answers": {"Which store?": "SQLite", "Later?": "skipped"},
        "annotations": {"Later?": {"unanswered": "skipped"}, "Which store?": {"notes": "small"}}});
    let plan =
        json!({"plan": "# Move the parser\n\n1. Lexer", "isAgent": false, "filePath": "/h/p.md"});
    let ask = |id: &str| call(id, "AskUserQuestion", &json!({"questions": []}));
    let leave = |id: &str| call(id, "ExitPlanMode", &json!({}));
    let lines = [
        ask("q1"),
        with(answer("q1", "answered", false), asked.clone()),
        leave("p1"),
        with(answer("p1", "rejected", true), plan.clone()),
        leave("p2"),
        with(answer("p2", "User has approved your plan", false), plan),
        call("r1", "Read", &json!({"file_path": "/p/x"})),
        with(answer("r1", "text", false), asked),
    ];
    assert_eq!(
        told(&lines).decided,
        [
            "Asked \"Which store?\": SQLite",
            "Plan approved: Move the parser (/h/p.md)"
        ]
    );
}

#[test]
fn the_first_place_is_a_file_and_a_line() {
    let place = |text: &str| first_place(text);
    assert_eq!(
        place("  at f (src/a.test.js:5:10)").as_deref(),
        Some("src/a.test.js:5")
    );
    assert_eq!(
        place("tests/test_a.py:12: AssertionError").as_deref(),
        Some("tests/test_a.py:12")
    );
    assert_eq!(
        place("http://h.com:80/x 127.0.0.1:80 12:30 a.rs:x ok"),
        None
    );
}

// shows: HND-006, SEC-01
#[test]
fn what_the_client_wrote_in_the_persons_name_is_no_prompt() {
    let flagged = |flag: &str| prompt("not mine").replacen('{', &format!("{{\"{flag}\":true,"), 1);
    let blocks = |text: &str| {
        json!({"type": "user", "message": {"content": [{"type": "text", "text": text}]}})
            .to_string()
    };
    let lines = [
        flagged("isMeta"),
        flagged("isCompactSummary").replace("\"isSidechain\":false", "\"x\":0"),
        prompt("<command-name>/clear</command-name>"),
        prompt("<local-command-stdout></local-command-stdout>"),
        prompt("<task-notification>done</task-notification>"),
        prompt("The ekiden-mod plugin sent a message:\nThe guard's handoff document"),
        blocks("[Request interrupted by user]"),
        blocks("Fix <div> nesting"),
        prompt(
            "This session is being continued from a previous conversation that ran out of context.",
        ),
    ];
    let told = told(&lines);
    assert_eq!(
        (told.task.as_deref(), told.asked_last),
        (Some("Fix <div> nesting"), None)
    );
}

// shows: HND-004
#[test]
fn both_forms_of_a_list_of_things_to_do_are_read() {
    let written = |status: &str| {
        call(
            "t1",
            "TodoWrite",
            &json!({"todos": [{"content": "a", "status": status, "activeForm": "A"},
            {"content": "b", "status": "pending"}]}),
        )
    };
    let texts = |told: TranscriptFacts| {
        told.todos
            .into_iter()
            .map(|todo| (todo.text, todo.state))
            .collect::<Vec<_>>()
    };
    let whole = texts(told(&[written("pending"), written("in_progress")]));
    assert_eq!(
        whole,
        [
            ("a".to_owned(), TodoState::Now),
            ("b".to_owned(), TodoState::Open)
        ]
    );
    let one_by_one = [
        call(
            "c1",
            "TaskCreate",
            &json!({"subject": "a", "description": "d"}),
        ),
        answer("c1", "Task #1 created successfully: a", false),
        call("c2", "TaskCreate", &json!({"subject": "b"})),
        answer("c2", "Task #2 created successfully: b", false),
        call("c3", "TaskCreate", &json!({"subject": "gone"})),
        answer("c3", "Task #3 created successfully: gone", false),
        call(
            "u1",
            "TaskUpdate",
            &json!({"taskId": "1", "status": "completed"}),
        ),
        call(
            "u2",
            "TaskUpdate",
            &json!({"taskId": "2", "status": "in_progress", "subject": "b!"}),
        ),
        call(
            "u3",
            "TaskUpdate",
            &json!({"taskId": "3", "status": "deleted"}),
        ),
    ];
    let listed = texts(told(&one_by_one));
    assert_eq!(
        listed,
        [
            ("a".to_owned(), TodoState::Done),
            ("b!".to_owned(), TodoState::Now)
        ]
    );
}

// shows: HND-006
#[test]
fn pieces_of_lines_and_another_threads_lines_are_passed_over() {
    let side = prompt("side").replace("\"isSidechain\":false", "\"isSidechain\":true");
    let whole = prompt("mine");
    let half = prompt("half");
    let told = told(&[side, whole, half[..half.len() - 9].to_owned()]);
    assert_eq!(
        (told.task.as_deref(), told.asked_last),
        (Some("mine"), None)
    );
}

// shows: HND-006
#[test]
fn only_the_ends_of_a_long_transcript_are_read() {
    let filler = json!({"type": "api-request", "text": "x".repeat(1024 * 1024)}).to_string();
    let mut lines = vec![prompt("first")];
    lines.extend(shell("s0", "never seen", "", false));
    // Behind what is read of the beginning, before what is read of the end.
    lines[2] = format!("{}\n{}", filler, lines[2]);
    lines.extend(vec![filler; 20]);
    lines.extend(shell("s1", "make", "", false));
    lines.push(prompt("last"));
    let told = told(&lines);
    assert_eq!(
        (told.task.as_deref(), told.asked_last.as_deref()),
        (Some("first"), Some("last"))
    );
    assert_eq!(told.succeeded, ["make"]);
}

#[test]
fn nothing_grows_with_the_session() {
    let mut lines = Vec::new();
    for id in 0..300 {
        let id = id.to_string();
        lines.push(call(
            &id,
            "Edit",
            &json!({"file_path": format!("/p/{id}.rs")}),
        ));
        lines.push(answer(&id, "ok", false));
        lines.push(call(
            &format!("t{id}"),
            "TaskCreate",
            &json!({"subject": "s".repeat(9_000)}),
        ));
        lines.push(prompt(&"p".repeat(9_000)));
    }
    let told = told(&lines);
    assert_eq!(
        (told.edited.len(), told.todos.len()),
        (limits::EDITED_KEPT, limits::TODOS_KEPT)
    );
    assert!(told.todos.iter().all(|todo| todo.text.len() < 300));
    assert!(told.task.is_some_and(|task| task.len() < 1_500));
}

proptest! {
    // shows: SEC-04
    #[test]
    fn no_transcript_is_too_odd(lines in proptest::collection::vec(
        prop_oneof![
            any::<String>(),
            Just(r#"{"type":"user","message":{"content":[{"type":"text","text":7}]}}"#.to_owned()),
            Just(r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"x","name":"TodoWrite","input":[]}]}}"#.to_owned()),
            Just(r#"{"type":"assistant","message":"\"user\""}"#.to_owned()),
            Just(r#"{"type":"user","message":{"content":"\ud83d"}}"#.to_owned()),
        ], 0..9)) {
        recalled(&lines);
    }
}
