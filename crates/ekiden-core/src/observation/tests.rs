use super::watched::{self, Checkpoint};
use super::*;
use crate::ends::EndCause;
use crate::event::{
    AttemptEnded, AttemptEvent, Check, CheckOutcome, Commit, Counters, Event, RelayEvent,
    TaskOutcome, Traces,
};
use crate::guard::checkpoint::CheckpointReason;
use crate::guard::document::{Filled, TranscriptFacts};
use crate::handoff::{FileText, HandoffFiles};
use crate::ids::{AttemptId, EffectId, MessageId, SessionNumber, StageId};
use crate::issue::Comment;
use crate::prompt::{FailedCommand, comment_note};
use crate::record::Record;
use crate::steering::{Steered, Steering};
use crate::time::Millis;

const AT: Timestamp = Timestamp(1_000);

fn from() -> Origin {
    Origin {
        project: "/p".to_owned(),
        issue: Some("ANV-123".to_owned()),
        ..Origin::default()
    }
}

fn made(title: &str, text: &str) -> Observation {
    Observation::new(&from(), AT, ObservationKind::Discovery, title, text).unwrap()
}

// shows: MEM-07
#[test]
fn the_same_from_the_same_place_has_the_same_id_and_nothing_else_has() {
    let one = made("a fact", "and why");
    assert_eq!(one, made("a fact", "and why"));
    let ids = [
        one.id,
        made("a fact", "and how").id,
        made("another", "and why").id,
        one.clone().concept("x").id,
        one.clone().about(["a.rs"]).id,
        Observation::new(&Origin::default(), AT, one.kind, "a fact", "and why")
            .unwrap()
            .id,
        Observation::new(&from(), Timestamp(1_001), one.kind, "a fact", "and why")
            .unwrap()
            .id,
    ];
    let different: std::collections::BTreeSet<_> = ids.into_iter().collect();
    assert_eq!(different.len(), ids.len());
    let line = serde_json::to_string(&one).unwrap();
    assert_eq!(serde_json::from_str::<Observation>(&line).unwrap(), one);
}

// shows: MEM-12
#[test]
fn secrets_are_masked_even_behind_characters_that_nobody_sees() {
    let token = "ghp_q7Rk2Xw9Lm4Tz8Yc5Nb3Vd6Hs1Jf0Gp2Ae4u".to_owned();
    let hidden = format!("ghp_\u{200b}{}", "q7Rk2Xw9Lm4Tz8Yc5Nb3Vd6Hs1Jf0Gp2Ae4u");
    let found = made(
        &format!("key {hidden}"),
        &format!("use {token} and {hidden}"),
    );
    let line = serde_json::to_string(&found).unwrap();
    assert!(
        !line.contains(&token) && line.contains("[masked: "),
        "{line}"
    );
}

// shows: MEM-13
#[test]
fn private_spans_are_gone_wherever_a_text_was_cut() {
    for (text, kept) in [
        ("a <private>b</private> c", "a  c"),
        ("a <PRIVATE>b <private>c</private> d</Private> e", "a  e"),
        ("a <private>b", "a "),
        ("b</private> c", " c"),
        ("a b", "a b"),
        ("<private></private>", ""),
    ] {
        assert_eq!(without_private(text), kept, "{text}");
    }
    assert_eq!(
        watched::prompt(&from(), AT, "<private>all of it</private>\n"),
        None
    );
    let asked = watched::prompt(&from(), AT, "\nPort it\n<private>to X</private>soon").unwrap();
    assert_eq!(
        (asked.title.as_str(), asked.kind),
        ("Port it", ObservationKind::Prompt)
    );
    assert!(!asked.text.contains("to X") && asked.text.contains("soon"));
}

// shows: MEM-001
// shows: MEM-002
#[test]
fn a_checkpoint_has_its_type_its_concept_and_its_title() {
    let files = ["src/a.rs".to_owned()];
    let taken = Checkpoint {
        reason: CheckpointReason::Level2,
        percent: Some(87),
        document: ".ekiden/handoffs/x.md",
        commit: Some("0123456789abcdef"),
        wip_ref: Some("refs/ekiden/wip/s"),
        files: &files,
    };
    let all = watched::checkpoint(&from(), AT, &taken);
    assert_eq!(all[0].title, "Context Checkpoint L2 at 87% - ANV-123");
    assert_eq!(
        (all[0].kind, &*all[0].concepts),
        (ObservationKind::Change, &["checkpoint".to_owned()][..])
    );
    assert_eq!(all[0].files, files);
    assert_eq!(
        (all[1].kind, &*all[1].title),
        (
            ObservationKind::Commit,
            "Work in progress kept in 0123456789"
        )
    );
}

// shows: MEM-13
#[test]
fn the_end_of_a_session_leaves_a_summary_and_what_failed() {
    let told = TranscriptFacts {
        task: Some("Port the parser\nto Rust".to_owned()),
        edited: vec!["src/a.rs".to_owned()],
        last_words: Some("It builds".to_owned()),
        failed: vec![FailedCommand {
            command: "cargo test".to_owned(),
            code: Some(101),
            last_line: "1 failed".to_owned(),
        }],
        ..TranscriptFacts::default()
    };
    let filled = Filled {
        decisions: vec!["no macros".to_owned()],
        ..Filled::default()
    };
    let all = watched::session_end(&from(), AT, &told, &filled);
    let shown: Vec<String> = all
        .iter()
        .map(|found| format!("{} {}", found.kind.name(), found.title))
        .collect();
    assert_eq!(
        shown,
        [
            "failure cargo test",
            "decision no macros",
            "summary Session: Port the parser"
        ]
    );
    assert_eq!(all[0].text, "exit code 101: 1 failed");
    assert!(
        watched::session_end(&from(), AT, &TranscriptFacts::default(), &Filled::default())
            .is_empty()
    );
}

// shows: MEM-13, MEM-004
#[test]
fn the_end_of_a_runs_session_says_what_it_did_and_a_check_what_fails() {
    let told = |event: RelayEvent| {
        let record = Record {
            seq: 7,
            time: AT,
            logic: 1,
            event: Event::Stage {
                stage: StageId::only(),
                event,
            },
            effects: Vec::new(),
        };
        let all = of_record(&record, &from(), None).into_iter();
        all.map(|found| found.title).collect::<Vec<_>>()
    };
    let ended = |cause: EndCause, progress: &str, words: &str| {
        let text = |text: &str| match text {
            "" => FileText::Absent,
            text => FileText::Text(text.to_owned()),
        };
        let ended = AttemptEnded {
            cause,
            files: HandoffFiles {
                progress: text(progress),
                next_prompt: text("## Resume at\n\n```sh\ncargo test\n```\n"),
                knowledge: FileText::Absent,
            },
            touched: Vec::new(),
            misplaced: Vec::new(),
            resumable: false,
            counters: Counters::default(),
            traces: Traces {
                last_words: Some(words.to_owned()),
                ..Traces::default()
            },
        };
        told(RelayEvent::Attempt {
            attempt: AttemptId::first(SessionNumber::FIRST),
            event: AttemptEvent::Ended(Box::new(ended)),
        })
    };
    let handed_off = "Session 1 handed off: cargo test";
    let done = "STATUS: IN_PROGRESS\n\n## Done\n\n- ported the lexer\n- its tests\n";
    assert_eq!(
        ended(EndCause::Completed, done, "Bye."),
        [handed_off, "Session 1: ported the lexer"]
    );
    assert_eq!(
        ended(EndCause::Completed, "", "The parser is ported.\nBye."),
        [handed_off, "Session 1: The parser is ported."]
    );
    let crash = EndCause::Crashed { exit: 1 };
    assert_eq!(
        ended(crash, "", "I now run it."),
        [handed_off, "Session 1: the agent crashed (exit code 1)"]
    );
    let task = |outcome| {
        told(RelayEvent::Task {
            effect: EffectId { seq: 1, index: 0 },
            outcome,
        })
    };
    let check = Check {
        outcome: CheckOutcome::Failed { code: 1 },
        tree: None,
        duration: Millis(12),
        tail: "3 passed\nlexer: 1 failed\n\n".to_owned(),
    };
    assert_eq!(
        task(TaskOutcome::Verified { check }),
        ["Verification failed in 12ms (exit code 1): lexer: 1 failed"]
    );
    // The survey after it tells the same.
    let commit = Commit::Nothing {
        left_out: Vec::new(),
    };
    assert_eq!(task(TaskOutcome::Committed { commit }), [""; 0]);
}

// shows: MEM-13
#[test]
fn what_a_person_tells_a_run_is_a_prompt_and_a_comment_of_its_issue_is_none() {
    let told = |words: String| {
        let steered = Steered {
            message: MessageId::try_from("m".to_owned()).unwrap(),
            from: None,
            steering: Steering::Instruct { words },
        };
        let record = Record {
            seq: 7,
            time: AT,
            logic: 1,
            event: Event::Steered(steered),
            effects: Vec::new(),
        };
        let all = of_record(&record, &from(), None).into_iter();
        all.map(|found| (found.kind, found.title))
            .collect::<Vec<_>>()
    };
    let asked = (ObservationKind::Prompt, "No macros".to_owned());
    assert_eq!(told("No macros\nplease".to_owned()), [asked]);
    let comment = Comment {
        author: "eve".to_owned(),
        text: "Use macros".to_owned(),
        ..Comment::default()
    };
    assert_eq!(told(comment_note(&comment, &[])), []);
}

// shows: MEM-07
#[test]
fn a_loop_leaves_where_its_next_iteration_resumes() {
    let left = crate::ralph::Checkpoint {
        active: true,
        handoff_file: Some(".ekiden/handoffs/x.md".to_owned()),
        resume_summary: Some("Port the lexer".to_owned()),
        current_todo_item: Some("Lexer".to_owned()),
        ..crate::ralph::Checkpoint::default()
    };
    let found = watched::iteration(&from(), AT, 3, &left).unwrap();
    assert_eq!(found.title, "Iteration 3 handed off: Port the lexer");
    assert_eq!(
        found.text,
        "Handoff document: .ekiden/handoffs/x.md\nItem: Lexer"
    );
    let none = crate::ralph::Checkpoint::default();
    let found = watched::iteration(&from(), AT, 4, &none).unwrap();
    assert_eq!(
        (found.kind, found.title.as_str()),
        (ObservationKind::Change, "Iteration 4 leaves no handoff")
    );
}

// shows: MEM-12
#[test]
fn a_secret_in_the_name_of_a_file_or_a_branch_is_masked() {
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let found = made("a file", "").about([format!("{secret}.txt")]);
    assert_eq!(found.files, ["[masked: github token].txt"]);
    let from = Origin {
        branch: Some(format!("fix/{secret}")),
        ..from()
    };
    let found = Observation::new(&from, AT, ObservationKind::Change, "x", "").unwrap();
    assert_eq!(
        found.from.branch.as_deref(),
        Some("fix/[masked: github token]")
    );
}

#[test]
fn what_is_left_out_takes_its_lines_with_it() {
    let found = made("two files", "a.rs is fine\nb.key is not").about(["a.rs", "b.key"]);
    let rest = found.clone().without(|file| file == "b.key").unwrap();
    assert_eq!(
        (rest.text.as_str(), rest.files.as_slice()),
        ("a.rs is fine", &["a.rs".to_owned()][..])
    );
    assert_ne!(rest.id, found.id);
    assert_eq!(found.clone().without(|_| true), None);
    assert_eq!(found.clone().without(|_| false), Some(found));
}
