use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::knowledge::Knowledge;
use crate::limits;
use crate::prompt::budget::tokens;

pub(crate) const PROGRESS: &str = include_str!("fixtures/PROGRESS.md");
pub(crate) const NEXT_PROMPT: &str = include_str!("fixtures/NEXT_PROMPT.md");
pub(crate) const KNOWLEDGE: &str = include_str!("fixtures/KNOWLEDGE.md");

/// A handoff of these texts; an empty text is an absent file.
pub(crate) fn files(progress: &str, next_prompt: &str, knowledge: &str) -> HandoffFiles {
    let file = |text: &str| {
        if text.is_empty() {
            FileText::Absent
        } else {
            FileText::Text(text.to_owned())
        }
    };
    HandoffFiles {
        progress: file(progress),
        next_prompt: file(next_prompt),
        knowledge: file(knowledge),
    }
}

pub(crate) fn sample() -> HandoffFiles {
    files(PROGRESS, NEXT_PROMPT, KNOWLEDGE)
}

fn read(files: &HandoffFiles) -> Inspection {
    inspect_after(
        files,
        &Marker::default(),
        Some("## State\n\nthe notes before\n"),
        Some(&Knowledge::parse(
            "## Core Knowledge\n- the port is 1\n- the port is open\n",
        )),
    )
}

/// The bare template of a file, as the protocol shows it.
fn template(file: HandoffFile) -> String {
    let status = if file == HandoffFile::Progress {
        "STATUS: IN_PROGRESS\n"
    } else {
        ""
    };
    Heading::of(file).fold(status.to_owned(), |text, heading| {
        format!("{text}## {}  {}\n", heading.name(), heading.explanation())
    })
}

// shows: REL-04
#[test]
fn a_filled_sample_passes_and_is_taken_over() {
    let inspection = read(&sample());
    assert_eq!(inspection.faults, []);
    assert_eq!(inspection.status, Some(Status::InProgress));
    let handoff = accept(&sample(), &inspection).unwrap();
    assert_eq!(handoff.progress, PROGRESS.trim());
    assert_eq!(handoff.next_prompt, NEXT_PROMPT.trim());
    assert_eq!(handoff.open_items.unwrap().counts(), (2, 2));
    assert_eq!(handoff.knowledge.core.len(), 2);
    assert_eq!(inspection.missing(), "nothing, so end your turn");
}

// shows: REL-04
#[test]
fn the_bare_template_fails() {
    let bare = HandoffFile::ALL.map(template);
    let inspection = read(&files(&bare[0], &bare[1], &bare[2]));
    assert!(!inspection.is_valid());
    assert_eq!(inspection.missing(), "PROGRESS.md, NEXT_PROMPT.md");
    // Content below such headings is content.
    let filled = [PROGRESS, NEXT_PROMPT, KNOWLEDGE].map(|text| {
        let line = |line: &str| {
            let known = Heading::ALL.into_iter();
            let mut known = known.filter(|known| line == format!("## {}", known.name()));
            let explained = known
                .next()
                .map(|known| format!("  {}", known.explanation()));
            format!("{line}{}\n", explained.unwrap_or_default())
        };
        text.lines().map(line).collect::<String>()
    });
    let filled = read(&files(&filled[0], &filled[1], &filled[2]));
    assert_eq!(filled.faults, []);
    assert_eq!(filled.open_items.unwrap().counts(), (2, 2));
    // With the explanations below their headings it fails in the same way.
    let below = bare.map(|text| text.replace("  ", "\n\n"));
    assert_eq!(
        read(&files(&below[0], &below[1], &below[2])).faults,
        inspection.faults
    );
}

// shows: REL-04
#[test]
fn headings_may_be_of_any_level_and_case_with_a_colon() {
    let progress = PROGRESS
        .replace("## Done", "# done:")
        .replace("## Stopped at", "#### STOPPED AT :");
    assert!(read(&files(&progress, NEXT_PROMPT, "")).is_valid());
    let decorated = PROGRESS
        .replace("## Done", "## ✅ Done")
        .replace("## Stopped at", "## **Stopped at** 🚧")
        .replace("## Issues", "## 3. Issues");
    let inspection = read(&files(&decorated, NEXT_PROMPT, ""));
    assert_eq!(inspection.missing(), "PROGRESS.md (Issues)");
    let fenced = PROGRESS.replace("## Done", "```\n## Done\n```");
    assert_eq!(
        read(&files(&fenced, NEXT_PROMPT, "")).missing(),
        "PROGRESS.md (Done)"
    );
}

// shows: REL-04
#[test]
fn a_complete_handoff_needs_no_next_prompt() {
    let progress = PROGRESS
        .replace("IN_PROGRESS", "ALL_COMPLETE")
        .replace("- [ ]", "- [x]");
    let inspection = read(&files(&progress, "", ""));
    assert_eq!(inspection.status, Some(Status::Complete));
    assert!(inspection.is_valid());
    let handoff = accept(&files(&progress, "", ""), &inspection).unwrap();
    assert_eq!(
        (handoff.status, handoff.next_prompt.as_str()),
        (Status::Complete, "")
    );
}

// shows: REL-07
#[test]
fn a_blocked_handoff_carries_its_question() {
    let progress = PROGRESS.replace("IN_PROGRESS", "BLOCKED");
    let inspection = read(&files(&progress, NEXT_PROMPT, ""));
    let Some(Status::Blocked { question }) = inspection.status else {
        panic!("{inspection:?}")
    };
    assert!(
        question.starts_with("`tests/test_refunds.py` expects"),
        "{question}"
    );
}

// shows: REL-07
#[test]
fn a_question_keeps_the_lines_in_which_the_agent_wrote_it() {
    let several = "Two services still read `legacy_id`. I can\n\n- keep it, with a trigger;\n- drop it.\n\nWhich one?";
    let long = &format!("{}\n\nWhich one?", "What I found so far. ".repeat(400));
    for (asked, question) in [
        (several, several),
        (long, long),
        ("- Which one?", "Which one?"),
    ] {
        let progress = PROGRESS.replace("IN_PROGRESS", "BLOCKED").replace(
            "`tests/test_refunds.py` expects banker's rounding, the task says half up. Which one is right?",
            asked,
        );
        let inspection = read(&files(&progress, NEXT_PROMPT, ""));
        let question = question.to_owned();
        assert_eq!(inspection.status, Some(Status::Blocked { question }));
    }
}

// shows: REL-04
#[test]
fn less_important_faults_are_asked_once_and_accepted_with_a_warning() {
    let next_prompt = NEXT_PROMPT.replace("## What works", "## Other");
    let files = files(PROGRESS, &next_prompt, "just text");
    let inspection = read(&files);
    assert!(inspection.is_valid());
    assert_eq!(inspection.asked_once().count(), 2);
    let handoff = accept(&files, &inspection).unwrap();
    assert_eq!(handoff.faults, inspection.faults);
    assert_eq!(handoff.knowledge, crate::knowledge::NewKnowledge::default());
}

// shows: REL-29
#[test]
fn a_copied_protocol_is_stripped_and_told() {
    let copied = "- Look first: git status and log, then the check if one is named. Notes can be out of date; the \
                  tree is right. Search before you build: what seems missing may exist.\n";
    let files = files(
        PROGRESS,
        &format!("{NEXT_PROMPT}\n{copied}Print RELAY_HANDOFF_COMPLETE.\n"),
        "",
    );
    let inspection = read(&files);
    let told: Vec<Severity> = inspection.faults.iter().map(Fault::severity).collect();
    assert_eq!(told, [Severity::Mended]);
    assert_eq!(
        accept(&files, &inspection).unwrap().next_prompt,
        NEXT_PROMPT.trim()
    );
}

#[test]
fn what_is_too_long_for_a_prompt_is_published_with_all_lines() {
    let long = format!(
        "{NEXT_PROMPT}\n{}",
        "one more line of notes\n".repeat(1_000)
    );
    let files = files(&format!("{PROGRESS}\n{}", "x".repeat(20_000)), &long, "");
    let handoff = accept(&files, &read(&files)).unwrap();
    assert_eq!(handoff.next_prompt, long.trim());
    let line_cut = "[line cut: 18000 more characters]";
    assert!(handoff.progress.ends_with(line_cut));
}

/// A faulty handoff, and the same one after doing what the fault says.
struct Case {
    faulty: HandoffFiles,
    mended: HandoffFiles,
}

fn progress(faulty: impl Fn(&str) -> String, mended: impl Fn(&str) -> String) -> Case {
    let text = faulty(PROGRESS);
    Case {
        mended: files(&mended(&text), NEXT_PROMPT, KNOWLEDGE),
        faulty: files(&text, NEXT_PROMPT, KNOWLEDGE),
    }
}

fn next_prompt(faulty: impl Fn(&str) -> String, mended: impl Fn(&str) -> String) -> Case {
    let text = faulty(NEXT_PROMPT);
    Case {
        mended: files(PROGRESS, &mended(&text), KNOWLEDGE),
        faulty: files(PROGRESS, &text, KNOWLEDGE),
    }
}

fn unreadable(file: FileText) -> Case {
    Case {
        faulty: HandoffFiles {
            next_prompt: file,
            ..sample()
        },
        mended: sample(),
    }
}

fn replace(from: &'static str, to: &'static str) -> impl Fn(&str) -> String {
    move |text| {
        assert!(text.contains(from), "the text has no {from}");
        text.replace(from, to)
    }
}

fn cases() -> Vec<Case> {
    let done_part =
        &PROGRESS[PROGRESS.find("- Converted").unwrap()..PROGRESS.find("## Stopped at").unwrap()];
    let resume =
        "Open `tests/test_billing.py` at `test_refund_rounds`; convert it as `test_charge` was.";
    let open_list = &PROGRESS[PROGRESS.find("- [x]").unwrap()..];
    let issues = &PROGRESS
        [PROGRESS.find("`tests/test_refunds").unwrap()..PROGRESS.find("## Open items").unwrap()];
    vec![
        unreadable(FileText::Absent),
        unreadable(FileText::Text(" \n\n".to_owned())),
        unreadable(FileText::Text(template(HandoffFile::NextPrompt))),
        unreadable(FileText::NotText(NotText::Link)),
        unreadable(FileText::TooLarge { bytes: 300 * 1024 }),
        progress(
            replace("## Stopped at", "## Where"),
            replace("## Where", "## Stopped at"),
        ),
        progress(
            move |text| text.replace(done_part, "TBD\n\n"),
            replace("## Done\n\nTBD", "## Done\n\nTried to start."),
        ),
        next_prompt(
            move |text| text.replace(resume, ""),
            replace("## Resume at", "## Resume at\n\nOpen src/lib.rs."),
        ),
        next_prompt(
            move |text| text.replace(resume, Heading::ResumeAt.explanation()),
            replace(Heading::ResumeAt.explanation(), "Run `pytest -q`."),
        ),
        next_prompt(
            replace("## How to verify", "## Verify"),
            replace("## Verify", "## How to verify"),
        ),
        progress(
            replace("STATUS: IN_PROGRESS", "Going well."),
            replace("# Progress", "STATUS: IN_PROGRESS\n\n# Progress"),
        ),
        progress(
            replace(
                "STATUS: IN_PROGRESS",
                "Session three.\nSTATUS: IN_PROGRESS\nGoing well.",
            ),
            replace("STATUS: IN_PROGRESS\n", "\nSTATUS: IN_PROGRESS\n\n"),
        ),
        progress(
            replace("IN_PROGRESS", "@~/.ssh/id_rsa_AND_MORE_OF_IT"),
            replace("@~/.ssh/id_rsa_AND_MORE_OF_IT", "BLOCKED"),
        ),
        progress(
            replace("## Issues", "STATUS: ALL_COMPLETE\n\n## Issues"),
            replace("STATUS: ALL_COMPLETE\n", ""),
        ),
        progress(
            move |text| {
                text.replace("IN_PROGRESS", "BLOCKED")
                    .replace(issues, "None.\n\n")
            },
            replace("None.", "May I drop Python 3.8?"),
        ),
        progress(replace("IN_PROGRESS", "ALL_COMPLETE"), move |text| {
            text.replace(open_list, &open_list.replace("[ ]", "[x]"))
        }),
        next_prompt(
            |_| {
                "## Task\na\n## State\nb\n## Resume at\nc\n## What works\nd\n## What to avoid\ne\n## How to verify\nf\n".to_owned()
            },
            |text| {
                format!(
                    "{text}{}",
                    "more words about how to verify it all ".repeat(5)
                )
            },
        ),
        next_prompt(
            |text| format!("{text}{}", "a long line of notes\n".repeat(600)),
            |_| NEXT_PROMPT.to_owned(),
        ),
        next_prompt(
            |text| {
                format!(
                    "{text}\nekiden: the program was interrupted and has resumed this conversation. The last call may or may not have taken effect: check before you repeat it. The tree may have changed since: look at git status and log, then go on.\n"
                )
            },
            |_| NEXT_PROMPT.to_owned(),
        ),
        Case {
            faulty: files(
                PROGRESS,
                NEXT_PROMPT,
                "## Core Knowledge\n- corrects \"the port is\": the port is 2\n",
            ),
            mended: files(
                PROGRESS,
                NEXT_PROMPT,
                "## Core Knowledge\n- corrects \"the port is 1\": the port is 2\n",
            ),
        },
        Case {
            faulty: files(PROGRESS, NEXT_PROMPT, "the port is 1\n"),
            mended: files(
                PROGRESS,
                NEXT_PROMPT,
                "## Core Knowledge\n- the port is 1\n",
            ),
        },
        Case {
            faulty: HandoffFiles {
                knowledge: FileText::NotText(NotText::Binary),
                ..sample()
            },
            mended: sample(),
        },
    ]
}

// shows: HND-08, REL-04
#[test]
fn each_fault_has_file_place_and_remedy_and_doing_what_it_says_removes_it() {
    let mut told = String::new();
    for case in cases() {
        let faults = read(&case.faulty).faults;
        assert_eq!(read(&case.mended).faults, [], "{}", faults[0]);
        for fault in faults {
            let text = fault.to_string();
            assert!(
                tokens(&text) <= limits::texts::FAULT_TOKENS_MAX,
                "{} bytes: {text}",
                text.len()
            );
            told.push_str(&format!("{:?} {text}\n", fault.severity()));
        }
    }
    expect![[r###"
        Required NEXT_PROMPT.md: there is no such file. Write it under the headings given at the start.
        Required NEXT_PROMPT.md: the file is empty. Fill it in under the headings given at the start.
        Required NEXT_PROMPT.md: still the template. Replace each explanation by what you know.
        Required NEXT_PROMPT.md: it was a symbolic link, and was set aside. Write it again as plain UTF-8 Markdown.
        Required NEXT_PROMPT.md: too large to read (300 KiB). Keep about a page and point to files.
        Required PROGRESS.md: no heading "## Stopped at" on its own line. Name the file and item, and say whether it builds.
        Required PROGRESS.md: nothing under "Done". List what you finished, or what you tried.
        Required NEXT_PROMPT.md: nothing under "Resume at". Name the file or command to begin with.
        Required NEXT_PROMPT.md: "Resume at" is still the template's. Name the file or command to begin with.
        AskedOnce NEXT_PROMPT.md: no heading "## How to verify" on its own line. Name the commands and the results to expect.
        Required PROGRESS.md: no STATUS line. Add STATUS: and its word as a line of its own.
        Required PROGRESS.md: the STATUS in line 3 is not alone. Put it between blank lines, without more words or backticks.
        Required PROGRESS.md: the STATUS in line 3 has an unknown word, sshid_rsa_A…. Use IN_PROGRESS, ALL_COMPLETE or BLOCKED.
        Required PROGRESS.md: the STATUS lines 3 and 14 differ. Keep the one that is true.
        Required PROGRESS.md: BLOCKED without a question. Write under "Issues" what a person must decide.
        Required PROGRESS.md: said to be complete, but items are open (2). Tick what is done; otherwise use IN_PROGRESS.
        AskedOnce NEXT_PROMPT.md: only 89 characters. Write at least 200, enough for a stranger to continue.
        AskedOnce NEXT_PROMPT.md: 13186 characters long. Keep it under 10000 and point to files.
        Mended NEXT_PROMPT.md: it copies ekiden's own texts (lines: 1). Leave them out; ekiden adds them itself.
        AskedOnce KNOWLEDGE.md: "the port is" names no fact, or several, or no new fact follows. Quote words that only the wrong fact has.
        AskedOnce KNOWLEDGE.md: no heading "## Core Knowledge" or "## Session Log". Put the text under one.
        AskedOnce KNOWLEDGE.md: it was binary data, and was set aside. Write it again as plain UTF-8 Markdown.
    "###]].assert_eq(&told);
}

// shows: REL-36
#[test]
fn each_file_of_a_faulty_handoff_counts_by_itself() {
    let next_prompt = NEXT_PROMPT.replace("## State", "## Other");
    let handed = files(PROGRESS, &next_prompt, KNOWLEDGE);
    let left = accept(&handed, &read(&handed)).unwrap_err();
    assert_eq!(left.status, Status::InProgress);
    assert_eq!(left.progress, PROGRESS.trim());
    assert_eq!(left.next_prompt, next_prompt.trim());
    assert_eq!(left.missing, [Heading::State]);
    assert_eq!(left.open_items.unwrap().counts(), (2, 2));
    assert_eq!(left.knowledge.core.len(), 2);
    assert_eq!(
        left.faults[0].name(),
        "NEXT_PROMPT.md: no heading \"## State\" on its own line"
    );
    let nothing = HandoffFiles::default();
    let left = accept(&nothing, &read(&nothing)).unwrap_err();
    assert_eq!((left.missing.len(), left.progress.as_str()), (6, ""));
}

// shows: REL-36
#[test]
fn of_a_faulty_handoff_only_a_question_counts_as_a_claim() {
    let status = |progress: &str| {
        let files = files(progress, "", "");
        accept(&files, &read(&files)).unwrap_err().status
    };
    let blocked = |question: &str| Status::Blocked {
        question: question.to_owned(),
    };
    assert_eq!(
        status("STATUS: ALL_COMPLETE\n\n## Done\n\n- all\n"),
        Status::InProgress
    );
    assert_eq!(
        status("STATUS: BLOCKED\n\n## Issues\n\nWhich port?\n"),
        blocked("Which port?")
    );
    assert_eq!(
        status("STATUS: BLOCKED\n\nI stopped.\nWhich port?\n"),
        blocked("Which port?")
    );
    assert_eq!(status("STATUS: BLOCKED\n"), Status::InProgress);
}

// shows: REL-13
#[test]
fn notes_equal_to_the_last_ones_are_a_fault() {
    let again = format!("  {}", NEXT_PROMPT.replace('\n', "\r\n"));
    let inspection = inspect_after(&sample(), &Marker::default(), Some(&again), None);
    let told: Vec<String> = inspection.faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["NEXT_PROMPT.md: the same as last time. Write what this session changed and learned."]
    );
    assert!(inspection.is_valid());
}

#[test]
fn what_is_missing_is_a_short_list() {
    let inspection = read(&HandoffFiles::default());
    assert!(!inspection.begun);
    assert_eq!(inspection.missing(), "PROGRESS.md, NEXT_PROMPT.md");
    let inspection = read(&files("text", "text", ""));
    assert!(inspection.begun);
    assert_eq!(
        inspection.missing(),
        "PROGRESS.md (STATUS, Done, Stopped at, Issues), NEXT_PROMPT.md (State, Resume at)"
    );
}

proptest! {
    #[test]
    fn no_handoff_breaks_the_reading(progress in any::<String>(), next in any::<String>(), knowledge in any::<String>()) {
        for files in [files(&progress, &next, &knowledge), files(&format!("{PROGRESS}{progress}"), &format!("{NEXT_PROMPT}{next}"), &knowledge)] {
            let inspection = read(&files);
            let accepted = accept(&files, &inspection);
            prop_assert_eq!(accepted.is_ok(), inspection.is_valid());
            let json = serde_json::to_string(&inspection).unwrap();
            prop_assert_eq!(serde_json::from_str::<Inspection>(&json).unwrap(), inspection);
        }
    }
}

// shows: REL-36
#[test]
fn a_session_that_is_done_stopped_nowhere() {
    let from = PROGRESS.find("## Stopped at").unwrap();
    let until = PROGRESS.find("## Issues").unwrap();
    for nowhere in ["none", "N/A"] {
        let part = format!("## Stopped at\n\n{nowhere}\n\n");
        let progress = PROGRESS.replace(&PROGRESS[from..until], &part);
        let handed = files(&progress, NEXT_PROMPT, KNOWLEDGE);
        assert!(accept(&handed, &read(&handed)).is_ok(), "{progress}");
    }
}
