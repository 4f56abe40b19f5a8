//! The promises of a stage's prompt and of the texts around a plan, over golden files and any input.

use expect_test::expect_file;
use proptest::prelude::*;

use super::{CHECK, corpus, golden, hostile_text, knowledge, measured, notes, number, ours};
use crate::handoff::tests::{KNOWLEDGE, NEXT_PROMPT, PROGRESS};
use crate::handoff::{FileText, NotText};
use crate::ids::{SessionNumber, StageId};
use crate::knowledge::Knowledge;
use crate::limits;
use crate::prompt::budget::tokens;
use crate::prompt::quote::MARK;
use crate::prompt::*;

const TASK: &str = "Write the login page.\n\n# Files\n\nNone of yours.\n";

fn id(id: &str) -> StageId {
    id.to_owned().try_into().unwrap()
}

fn text_file(path: &str, text: &str) -> FileInput {
    FileInput {
        path: path.to_owned(),
        content: FileText::Text(text.to_owned()),
    }
}

fn result(stage: &str, text: &str) -> ResultInput {
    ResultInput {
        stage: id(stage),
        name: "Data model".to_owned(),
        text: text.to_owned(),
        place: format!(".ekiden/handoffs/{stage}.md"),
    }
}

fn check_facts(tail: &str) -> CheckFacts {
    CheckFacts {
        command: "npm test -- login @x".to_owned(),
        outcome: "failed in 12s (exit code 1)".to_owned(),
        tail: tail.to_owned(),
    }
}

fn sides(text: &str) -> Vec<MergeSide> {
    ["S03", "S04"]
        .map(|stage| MergeSide {
            stage: id(stage),
            goal: text.to_owned(),
            result: text.to_owned(),
            check: text.to_owned(),
        })
        .to_vec()
}

fn retry(text: &str) -> PromptSection {
    PromptSection::Retry {
        attempt: 2,
        max: 3,
        cause: text.to_owned(),
        diff_stat: vec![text.to_owned(); 3],
        check: Some(check_facts(text)),
    }
}

fn conflict(text: &str) -> PromptSection {
    PromptSection::Conflict {
        sides: sides(text),
        files: vec![text.to_owned(); 2],
    }
}

fn broke(text: &str) -> PromptSection {
    PromptSection::MergeBroke {
        sides: sides(text),
        check: check_facts(text),
    }
}

fn context(text: &str) -> StageContext {
    StageContext::of(&ContextInput {
        architecture: text.to_owned(),
        document: "architecture.md".to_owned(),
        files: vec![
            text_file("src/login.rs", text),
            text_file(text, "fn main() {}\n"),
        ],
        results: vec![result("S02", text), result("S01", text)],
        not_set_up: format!("it failed: {text}"),
    })
}

/// A session of a stage, as the second one of the first stage that needs others.
struct Case<'a> {
    number: SessionNumber,
    context: &'a StageContext,
    outputs: &'a [String],
    notes: Option<&'a Notes>,
    slots: &'a [PromptSection],
    task: &'a str,
    name: &'a str,
}

impl Case<'_> {
    fn prompt(&self, known: &Knowledge, check: Option<&str>) -> PromptBlocks {
        let measured = measured();
        let input = SessionInput {
            number: self.number,
            task: self.task,
            knowledge: known,
            measured: Some(&measured),
            notes: self.notes,
            check,
            slots: self.slots,
        };
        let (id, context) = (id("S03"), self.context);
        stage_prompt(
            &input,
            &StageInput {
                id: &id,
                name: self.name,
                outputs: self.outputs,
                context,
            },
        )
    }
}

fn handoff() -> Notes {
    notes(Author::Agent, PROGRESS, NEXT_PROMPT)
}

// ── Golden files and sizes ──────────────────────────────────────────────────────────────────

fn sample_context() -> StageContext {
    let files = vec![
        text_file("src/main.rs", "fn main() {\n    login::page();\n}\n"),
        FileInput {
            path: "src/login.rs".to_owned(),
            content: FileText::Absent,
        },
        FileInput {
            path: "logo.png".to_owned(),
            content: FileText::NotText(NotText::Binary),
        },
        FileInput {
            path: "data.json".to_owned(),
            content: FileText::TooLarge { bytes: 9_000_000 },
        },
        text_file(
            "docs/long.md",
            &"A line of a long document.\n".repeat(4_000),
        ),
        text_file("empty.txt", ""),
    ];
    StageContext::of(&ContextInput {
        architecture: "A shop in two parts.\n\n- cart\n- login\n".to_owned(),
        document: "docs/architecture.md".to_owned(),
        files,
        results: vec![
            result("S02", &sample_result()),
            result("S01", "# Stage S01: Set up\n"),
        ],
        not_set_up: String::new(),
    })
}

/// The sample with the long file short, for golden files.
fn shortened(prompt: &str) -> String {
    let line = "¦ A line of a long document.\n";
    let mut text = String::new();
    let mut passed = 0;
    for next in prompt.split_inclusive('\n') {
        if next == line {
            passed += 1;
        }
        if next != line || passed == 1 {
            text.push_str(next);
        }
    }
    text
}

// shows: PLN-10, PLN-14
#[test]
fn stage_prompts_read_so() {
    let (context, notes, outputs) = (
        sample_context(),
        handoff(),
        ["src/login.rs".to_owned(), "tests/login/**".to_owned()],
    );
    let known = knowledge(&[KNOWLEDGE]);
    let first = Case {
        number: SessionNumber::FIRST,
        context: &context,
        outputs: &outputs,
        notes: None,
        slots: &[],
        task: TASK,
        name: "Login page",
    };
    let max = limits::STAGE_PROMPT_TOKENS_MAX;
    let archive = |case: &Case<'_>| {
        let text = case.prompt(&known, Some(CHECK)).to_archive();
        assert!(tokens(&text) <= max, "{}", tokens(&text));
        shortened(&text)
    };
    golden(
        &expect_file!["../golden/stage_first.md"],
        &archive(&first),
        max,
    );
    let slots = sample_slots();
    let retried = Case {
        number: number(3),
        notes: Some(&notes),
        slots: &slots[..1],
        ..first
    };
    golden(
        &expect_file!["../golden/stage_retry.md"],
        &archive(&retried),
        max,
    );
    let empty = StageContext::default();
    let merged = Case {
        context: &empty,
        outputs: &[],
        notes: None,
        slots: &slots[1..2],
        ..retried
    };
    let retry = PromptSection::Retry {
        attempt: 2,
        max: 3,
        cause: "all its sessions are used".to_owned(),
        diff_stat: Vec::new(),
        check: None,
    };
    golden(
        &expect_file!["../golden/stage_retry_used_up.md"],
        &archive(&Case {
            notes: Some(&notes),
            slots: &[retry],
            ..merged
        }),
        max,
    );
    golden(
        &expect_file!["../golden/stage_conflict.md"],
        &archive(&merged),
        max,
    );
    golden(
        &expect_file!["../golden/stage_merge_broke.md"],
        &archive(&Case {
            slots: &slots[2..],
            ..merged
        }),
        max,
    );
    let PromptSection::MergeBroke { sides, check } = slots[2].clone() else {
        panic!("{:?}", slots[2]);
    };
    let (sides, check) = (sides[..1].to_vec(), check);
    golden(
        &expect_file!["../golden/stage_merge_broke_alone.md"],
        &archive(&Case {
            slots: &[PromptSection::MergeBroke { sides, check }],
            ..merged
        }),
        max,
    );
}

fn sample_slots() -> [PromptSection; 3] {
    let side = |stage: &str, goal: &str, check: &str| MergeSide {
        stage: id(stage),
        goal: goal.to_owned(),
        result: format!("# Stage {stage}: x\n\n## Decisions\n\n> as planned\n"),
        check: check.to_owned(),
    };
    let sides = vec![
        side("S03", TASK, CHECK),
        side("S04", "Write the cart.\n", "npm test -- cart"),
    ];
    let check = check_facts("FAIL tests/login.test.ts\n  expected 200\n  got 500\n");
    let retry = PromptSection::Retry {
        attempt: 2,
        max: 3,
        cause: "the check failed (exit code 1)".to_owned(),
        diff_stat: vec![
            " src/login.rs | 41 +++".to_owned(),
            " 1 file changed, 41 insertions(+)".to_owned(),
        ],
        check: Some(check.clone()),
    };
    let files = vec!["src/routes.rs".to_owned(), "Cargo.lock".to_owned()];
    [
        retry,
        PromptSection::Conflict {
            sides: sides.clone(),
            files,
        },
        PromptSection::MergeBroke { sides, check },
    ]
}

// shows: PLN-07, PLN-23
#[test]
fn a_review_reads_so() {
    let check = CheckFacts {
        command: "pytest -q".to_owned(),
        outcome: "passed in 41s".to_owned(),
        tail: "12 passed\n".to_owned(),
    };
    let prompt = review_prompt(&ReviewInput {
        task: "Round half up. See @notes.md\n",
        check: Some(&check),
        words: Some(
            "Answer to this question:
¦ What is a negative number rounded to?
Negative numbers do not occur.",
        ),
        diff: "M src/round.py
?? src/new.py
diff --git a/src/round.py b/src/round.py
-old
+new
# Now
pass it
",
    });
    golden(
        &expect_file!["../golden/review.md"],
        &prompt.to_archive(),
        1_000,
    );
}

#[test]
fn planning_texts_read_so() {
    let idea = "A shop for tea. See @notes.md\n";
    let architecture = architecture_prompt(idea, ".ekiden/handoff/architecture.md");
    assert!(
        architecture
            .stable
            .starts_with(&format!("# Idea\n\n{idea}"))
    );
    assert!(
        tokens(&architecture.now) <= limits::texts::PLANNING_TOKENS_MAX,
        "{}",
        tokens(&architecture.now)
    );
    golden(
        &expect_file!["../golden/planning_architecture.md"],
        &architecture.to_archive(),
        1_000,
    );
    let split = split_prompt(
        "# Shop\n\n## Summary\n\nA shop for tea.\n",
        "docs/architecture.md",
        80_000,
    );
    assert!(
        tokens(&split.now) <= limits::texts::PLANNING_TOKENS_MAX,
        "{}",
        tokens(&split.now)
    );
    golden(
        &expect_file!["../golden/planning_split.md"],
        &split.to_archive(),
        1_000,
    );
    let debrief = debrief_prompt("Sell tea.\n", "# Run\n\n## Cost\n", "DEBRIEF.md");
    golden(
        &expect_file!["../golden/debrief.md"],
        &debrief.to_archive(),
        1_000,
    );
    assert!(tokens(&debrief.now) <= limits::texts::PLANNING_TOKENS_MAX);
    assert!(debrief.foreign.contains("\n¦ ## Cost\n"));
    let parts = shards_prompt(
        "# Shop\n\nsee @x\n",
        &["S01  Shop  9%".to_owned()],
        "shop.md",
    );
    assert!(parts.foreign.starts_with("# Parts\n\n¦ S01  Shop  9%\n"));
    assert!(parts.foreign.contains("\n¦ # Shop\n"));
    assert!(tokens(&parts.now) <= limits::texts::PLANNING_TOKENS_MAX);
    let asks = questions_prompt("Sell tea.\n");
    assert_eq!(asks.stable, "# Task to ask about\n\nSell tea.\n\n");
    let mend = mend_manifest(&[
        "stages[2].needs[0]: there is no stage `S9`".to_owned(),
        "the edges make a circle: S01 -> S02 -> S01".to_owned(),
    ]);
    golden(
        &expect_file!["../golden/planning_mend.md"],
        &mend,
        limits::PLANNING_FAULTS_TOKENS_MAX,
    );
}

// shows: PLN-01
#[test]
fn a_document_is_a_text_with_a_summary() {
    let fault = |content: &[u8]| DocumentFault::of(Some(content));
    assert_eq!(DocumentFault::of(None), Some(DocumentFault::Missing));
    assert_eq!(fault(b"\xff"), Some(DocumentFault::NotText));
    assert_eq!(
        fault(b"# Shop\n\n## Summary\n\n## Data\n"),
        Some(DocumentFault::NoSummary)
    );
    assert_eq!(fault(b"# Shop\n\n## Summary\n\nTea.\n"), None);
    let asked = mend_document(DocumentFault::NoSummary);
    assert!(
        asked.contains("has nothing under a heading \"Summary\"."),
        "{asked}"
    );
    assert!(tokens(&asked) <= limits::texts::MESSAGE_TOKENS_MAX);
}

const FINISHED: &str = "STATUS: ALL_COMPLETE\n\n## Done\n\n- Tables and migrations (`npm test`: 12 passed).\n\n## Stopped at\n\nThe end.\n\n## Issues\n\nTime zones are untested.\n\n## Decisions\n\nSQLite, since there is one writer.\n\n## Interfaces\n\n`db.open(path) -> Db`\n\n## Validation\n\nall is well\n";

fn sample_result() -> String {
    let notes = notes(Author::Agent, FINISHED, "");
    let check = CheckFacts {
        command: "npm test".to_owned(),
        outcome: "passed in 4s".to_owned(),
        tail: String::new(),
    };
    stage_result(&StageFacts {
        stage: &id("S02"),
        name: "Data model",
        files: &["A src/db.rs".to_owned(), "M Cargo.toml".to_owned()],
        check: Some(&check),
        notes: Some(&notes),
    })
}

// shows: PLN-14
#[test]
fn a_stages_result_reads_so() {
    golden(
        &expect_file!["../golden/stage_result.md"],
        &sample_result(),
        limits::STAGE_RESULT_TOKENS_MAX,
    );
}

// shows: PLN-12
#[test]
fn a_diagnosis_reads_so() {
    let attempts = [
        FailedAttempt {
            cause: "the check failed (exit code 1)".to_owned(),
            notes: Some(handoff()),
        },
        FailedAttempt {
            cause: "the agent crashed three times in a row".to_owned(),
            notes: None,
        },
    ];
    let facts = FailureFacts {
        stage: &id("S03"),
        name: "Login page",
        execute: "ekiden execute 'plans/my shop.json'",
        attempts: &attempts,
        output: Some(LastOutput::Check(&check_facts("expected 200\ngot 500\n"))),
        blocked: &[id("S04"), id("S05")],
        left: &[id("S02"), id("S03"), id("S04"), id("S05")],
        tree: Some("/home/me/.local/state/ekiden/worktrees/7f3a0b1c-S03"),
        merged: Some("ekiden/7f3a0b1c"),
        is_skipped: false,
        asks: None,
        is_assumed: false,
    };
    golden(
        &expect_file!["../golden/stage_diagnosis.md"],
        &diagnosis(&facts),
        limits::STAGE_DIAGNOSIS_TOKENS_MAX,
    );
    let text = diagnosis(&FailureFacts {
        asks: Some("A reviewer still finds faults:\n1. a.c:1: too slow"),
        ..facts
    });
    assert!(
        text.starts_with("# Stage S03 asks you: Login page\n"),
        "{text}"
    );
    let asked = "## What it asks\n\n> A reviewer still finds faults:\n> 1. a.c:1: too slow\n";
    assert!(text.contains(asked), "{text}");
}

// ── Sharing of room ─────────────────────────────────────────────────────────────────────────

// shows: PLN-10
#[test]
fn small_files_stay_whole_and_large_ones_share_the_rest() {
    let long = "some line of code in a large file\n".repeat(4_000);
    let files = vec![
        text_file("a.rs", &long),
        text_file("small.rs", "fn a() {}\n"),
        text_file("b.rs", &long),
    ];
    let context = StageContext::of(&ContextInput {
        files,
        ..ContextInput::default()
    });
    let [a, small, b] = &context.files.items[..] else {
        panic!("three files")
    };
    assert_eq!((small.text.as_str(), small.left_out), ("¦ fn a() {}\n", 0));
    let lines = |file: &Excerpt| file.text.lines().count();
    assert!(
        lines(a).abs_diff(lines(b)) < 5 && lines(a) > 700,
        "{} {}",
        lines(a),
        lines(b)
    );
    assert_eq!(lines(a) + a.left_out, 4_000);
    let text = context.files.print();
    for file in [a, b] {
        assert!(text.contains(&format!(
            "¦ [{} lines left out here; the whole is in {}]\n",
            file.left_out, file.name
        )));
    }
}

// shows: PLN-10
#[test]
fn of_thousands_of_files_the_first_are_named_and_the_rest_counted() {
    let long = "some line of code\n".repeat(100);
    let files = (0..5_000)
        .map(|n| text_file(&format!("src/file_{n}.rs"), &long))
        .collect();
    let context = StageContext::of(&ContextInput {
        files,
        ..ContextInput::default()
    });
    assert_eq!(context.files.items.len(), limits::STAGE_FILES_NAMED_MAX);
    let text = context.files.print();
    assert!(text.ends_with("¦ [4900 more, not named here]\n"));
    assert!(text.contains("¦ --- src/file_99.rs\n"));
    let tight = context.within(600);
    assert!(
        tight
            .files
            .print()
            .contains(" lines left out here; the whole is in src/file_3.rs]\n")
    );
    assert_eq!(tight.files.items.len() + tight.files.more, 5_000);
}

// shows: PLN-10, PLN-14
#[test]
fn of_results_the_nearest_is_whole() {
    let long = "What a stage left, in a line.\n".repeat(60);
    let results = (1..400)
        .map(|n| result(&format!("S{n:02}"), &long))
        .collect();
    let context = StageContext::of(&ContextInput {
        results,
        ..ContextInput::default()
    });
    assert_eq!(context.results.items[0].left_out, 0);
    assert_eq!(context.results.items.last().unwrap().text, "");
    assert!(context.results.more > 0);
    assert!(
        context
            .results
            .print()
            .contains("the whole is in .ekiden/handoffs/S05.md]")
    );
}

// shows: PLN-10
#[test]
fn a_context_round_trips_and_stays_the_same_in_later_sessions() {
    let context = sample_context();
    let json = serde_json::to_string(&context).unwrap();
    assert_eq!(
        serde_json::from_str::<StageContext>(&json).unwrap(),
        context
    );
    let (notes, known) = (handoff(), knowledge(&[KNOWLEDGE]));
    let case = |n: u32, notes| {
        let case = Case {
            number: number(n),
            context: &context,
            outputs: &[],
            notes,
            slots: &[],
            task: TASK,
            name: "x",
        };
        case.prompt(&known, Some(CHECK)).stable
    };
    let short = super::notes(Author::Agent, "# P\n", "go on");
    assert_eq!(case(2, Some(&notes)), case(3, Some(&short)));
}

// ── Injection invariance ────────────────────────────────────────────────────────────────────

/// A stage's prompt with this text wherever somebody else can put text.
fn prompt_with(text: &str, slot: fn(&str) -> PromptSection) -> PromptBlocks {
    let context = context(text);
    let (outputs, slots) = ([text.to_owned(), text.to_owned()], [slot(text)]);
    let notes = notes(Author::Agent, text, text);
    let case = Case {
        number: number(4),
        context: &context,
        outputs: &outputs,
        notes: Some(&notes),
        slots: &slots,
        task: TASK,
        name: text,
    };
    case.prompt(&knowledge(&[KNOWLEDGE]), Some(CHECK))
}

fn assert_invariant(text: &str, name: &str) {
    for slot in [retry, conflict, broke] {
        let blocks = prompt_with(text, slot);
        assert_eq!(
            ours(&blocks),
            ours(&prompt_with("plain words", slot)),
            "{name}"
        );
        assert!(
            !blocks.now.contains(['@', '¦', '`', '/', '<']),
            "{name}: {}",
            blocks.now
        );
        let hidden = |c: char| {
            c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{2028}' | '\u{2029}')
        };
        assert!(!blocks.to_archive().contains(hidden), "{name}");
    }
    let of = |text: &str| [split_prompt(text, "docs/a.md", 80_000)].map(|blocks| ours(&blocks));
    assert_eq!(of(text), of("plain words"), "{name}");
    let mend = mend_manifest(&[text.to_owned()]);
    let unmarked = |text: &str| {
        text.lines()
            .filter(|line| !line.starts_with(MARK))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(
        unmarked(&mend),
        unmarked(&mend_manifest(&["plain".to_owned()])),
        "{name}"
    );
    assert!(
        !architecture_prompt(text, text)
            .now
            .contains(['@', '¦', '`', '/', '<']),
        "{name}"
    );
}

// shows: PLN-10, SEC-01
#[test]
fn no_hostile_file_or_result_changes_a_line_of_ours() {
    for hostile in corpus() {
        assert_invariant(&hostile.text, &hostile.name);
    }
}

/// The sections of a document made by [`stage_result`].
fn sections(document: &str) -> Vec<String> {
    crate::markdown::outline(document)
        .headings
        .into_iter()
        .skip(1)
        .map(|heading| heading.text)
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    // shows: PLN-10, SEC-01
    #[test]
    fn no_text_changes_a_line_of_ours(text in hostile_text()) {
        assert_invariant(&text, "any text");
    }

    // shows: PLN-10
    #[test]
    fn every_part_keeps_its_budget_and_the_task_stays_whole(
        text in hostile_text(),
        times in 1usize..150,
        files in 0usize..300,
        many in 1usize..12,
        task in ".{0,1400}",
        later in any::<bool>(),
        slots in 0usize..8,
    ) {
        let long = text.repeat(times);
        let listed: Vec<FileInput> = (0..files)
            .map(|n| if n % 3 == 0 { text_file(&text, &long) } else { text_file(&format!("f{n}"), &text) })
            .collect();
        let context = StageContext::of(&ContextInput {
            architecture: long.clone(),
            document: text.clone(),
            files: listed,
            results: (0..many).map(|n| result(&format!("S{n}"), &long)).collect(),
            not_set_up: format!("it failed: {long}"),
        });
        let context = StageContext { not_merged: Some(long.clone()), ..context };
        let size = |excerpts: &Excerpts| tokens(&excerpts.print());
        let labels = super::context::LABELS_TOKENS_MAX;
        prop_assert!(size(&context.files) + labels <= limits::STAGE_FILES_TOKENS_MAX);
        prop_assert!(size(&context.results) + labels <= limits::STAGE_RESULTS_TOKENS_MAX);
        prop_assert!(context.architecture.as_ref().map_or(0, |text| tokens(&text.print())) + labels
            <= limits::STAGE_ARCHITECTURE_TOKENS_MAX);

        let task: String = task.chars().scan(0, |size, c| {
            *size += c.len_utf8();
            (*size <= limits::STAGE_TASK_TOKENS_MAX * limits::BYTES_PER_TOKEN).then_some(c)
        }).collect();
        let words = "ä".repeat(2 * limits::OPERATOR_CHARS_MAX);
        let mut told = vec![PromptSection::Interrupted, PromptSection::TaskChanged, PromptSection::Operator(words), PromptSection::Delegation,
            PromptSection::Repeated { k: u32::MAX }, PromptSection::Veto { check: long.clone(), tail: long.clone() },
            PromptSection::HookRefused { tail: long.clone() }];
        told.extend([retry(&long), conflict(&long), broke(&long)].into_iter().take(slots));
        let facts: String = (0..60).map(|n| format!("- fact {n} {}\n", text.replace('\n', " "))).collect();
        let known = knowledge(&[&format!("## Core Knowledge\n{facts}"), &format!("## Session Log\n{long}")]);
        let notes = notes(Author::Agent, &long, &long);
        let outputs = vec![text.clone(); times];
        let case = Case {
            number: if later { number(7) } else { SessionNumber::FIRST }, context: &context, outputs: &outputs,
            notes: later.then_some(&notes), slots: &told, task: &task, name: &long,
        };
        let blocks = case.prompt(&known, Some(&long));
        let total = tokens(&blocks.to_archive());
        prop_assert!(total + limits::PROTOCOL_TOKENS_MAX <= limits::STAGE_PROMPT_TOKENS_MAX, "{total}");
        let whole = format!("\n# Task\n\n{task}");
        prop_assert!(blocks.stable.contains(&whole));
        prop_assert!(tokens(&blocks.now) <= limits::STAGE_CLOSING_TOKENS_MAX, "{}", tokens(&blocks.now));
        for (slot, max) in [(retry(&long), limits::STAGE_RETRY_TOKENS_MAX), (conflict(&long), limits::STAGE_MERGE_TOKENS_MAX),
            (broke(&long), limits::STAGE_MERGE_TOKENS_MAX)] {
            let part = slot.part().unwrap();
            prop_assert!(tokens(&part) <= max, "{} of {max}", tokens(&part));
        }
    }

    // shows: PLN-10
    #[test]
    fn what_is_left_out_of_a_context_is_counted(text in ".{0,300}", sizes in proptest::collection::vec(0usize..600, 1..40), room in 0usize..30_000) {
        let files: Vec<FileInput> = sizes.iter().enumerate()
            .map(|(n, size)| text_file(&format!("f{n}"), &"line\n".repeat(*size))).collect();
        let context = StageContext::of(&ContextInput { architecture: text, files, ..ContextInput::default() });
        let tight = context.within(room);
        prop_assert_eq!(tight.files.items.len() + tight.files.more, sizes.len());
        for (file, size) in tight.files.items.iter().zip(&sizes) {
            prop_assert_eq!(file.text.lines().count() + file.left_out, (*size).max(1));
        }
        let printed = tight.files.print();
        let marks = printed.matches(" lines left out here; the whole is in f").count();
        prop_assert_eq!(marks, tight.files.items.iter().filter(|file| file.left_out > 0).count());
        if room >= 100 {
            let all = tokens(&printed) + tight.architecture.as_ref().map_or(0, |text| tokens(&text.print()));
            prop_assert!(all <= room, "{all} of {room}");
        }
    }

    // shows: PLN-14
    #[test]
    fn documents_of_a_stage_keep_their_size_and_their_sections(text in hostile_text(), times in 1usize..60) {
        let long = text.repeat(times);
        let notes = notes(Author::Agent, &format!("## Done\n\nx {long}\n\n## Interfaces\n\n{long}\n"), &long);
        let files = vec![text.clone(); times];
        let result = stage_result(&StageFacts {
            stage: &id("S1"), name: &long, files: &files, check: Some(&check_facts(&long)), notes: Some(&notes),
        });
        prop_assert!(tokens(&result) <= limits::STAGE_RESULT_TOKENS_MAX);
        let known = ["Files changed", "Done", "Decisions", "Interfaces", "Validation", "Issues", "What to avoid"];
        prop_assert!(sections(&result).iter().all(|heading| known.contains(&heading.as_str())), "{result}");
        let attempts = vec![FailedAttempt { cause: long.clone(), notes: Some(notes) }; times];
        let diagnosis = diagnosis(&FailureFacts {
            stage: &id("S1"), name: &long, execute: &long, attempts: &attempts, output: Some(LastOutput::CheckOnMerge(&check_facts(&long))),
            blocked: &vec![id("S2"); times], left: &vec![id("S2"); times], tree: Some(&long), merged: Some(&long), is_skipped: false, asks: Some(&long), is_assumed: false,
        });
        prop_assert!(tokens(&diagnosis) <= limits::STAGE_DIAGNOSIS_TOKENS_MAX);
        prop_assert!(tokens(&mend_manifest(&files)) <= limits::PLANNING_FAULTS_TOKENS_MAX + limits::texts::MESSAGE_TOKENS_MAX);
        let split = split_prompt(&long.repeat(20), &long, u64::MAX);
        prop_assert!(tokens(&split.foreign) <= limits::PLANNING_DOCUMENT_TOKENS_MAX + 10);
    }
}

// shows: REL-26
#[test]
fn questions_are_lines_and_at_most_five() {
    let asked = |count: usize, question: &str| {
        let one = serde_json::json!({"question": question, "default": "As today."});
        let answer = serde_json::json!({"questions": vec![one; count]});
        questions(&answer.to_string()).unwrap()
    };
    let hostile = "Which\u{202e}\ncolour?\u{1b}[31m".to_owned() + &"x".repeat(9_000);
    let [question] = &asked(1, &hostile)[..] else {
        panic!()
    };
    assert!(
        question.question.starts_with("Which colour?"),
        "{question:?}"
    );
    assert!(question.question.chars().count() <= limits::QUESTION_CHARS_MAX);
    assert!(!question.question.contains(char::is_control));
    assert_eq!(question.default, "As today.");
    assert_eq!(asked(9, "Which?").len(), limits::QUESTIONS_MAX);
    assert_eq!(asked(3, " \n"), []);
    for other in ["", "[]", "{}", r#"{"questions":[{"question":"a"}]}"#] {
        assert_eq!(questions(other), None, "{other}");
    }
    assert!(serde_json::from_str::<serde_json::Value>(QUESTIONS_SCHEMA).is_ok());
}
