use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::limits;
use crate::prompt::budget::tokens;
use crate::prompt::quote::MARK;

fn known(core: &[&str]) -> Knowledge {
    let core = core.iter().filter_map(|text| Fact::new(text)).collect();
    Knowledge {
        core,
        ..Knowledge::default()
    }
}

fn merge(knowledge: &mut Knowledge, session: u32, new: &str) -> usize {
    knowledge.merge(&NewKnowledge::parse(new), session, "2026-11-21")
}

fn texts(knowledge: &Knowledge) -> Vec<&str> {
    knowledge
        .core
        .iter()
        .map(|fact| fact.text.as_str())
        .collect()
}

// shows: REL-16
#[test]
fn what_is_new_goes_to_the_end_under_the_two_headings() {
    let mut knowledge = Knowledge::default();
    merge(
        &mut knowledge,
        1,
        "## Core Knowledge\n- tests need `TZ=UTC`\n- pinned: port 8080 is taken\n## Session Log\n- set up\n",
    );
    merge(
        &mut knowledge,
        2,
        "# core knowledge:\n1. the API pages\n   by cursor\n2. tests  need `TZ=UTC`\n",
    );
    expect![[r#"
        # Knowledge

        ## Core Knowledge

        - tests need `TZ=UTC`
        - pinned: port 8080 is taken
        - the API pages
          by cursor

        ## Session Log

        ### Session 1 - 2026-11-21

        - set up
    "#]]
    .assert_eq(&knowledge.render());
}

// shows: REL-16
#[test]
fn a_correction_takes_the_one_old_fact_out() {
    let mut knowledge = known(&[
        "the port is 8080 everywhere",
        "tests take long",
        "the port is open",
    ]);
    let added = merge(
        &mut knowledge,
        3,
        "## Core Knowledge\n- corrects \"port is 8080\": the port is 9090\n",
    );
    assert_eq!(
        texts(&knowledge),
        ["tests take long", "the port is open", "the port is 9090"]
    );
    assert_eq!(
        knowledge.archived[0].old.text,
        "the port is 8080 everywhere"
    );
    assert_eq!((added, knowledge.archived[0].session), (1, 3));
}

// shows: REL-16
#[test]
fn a_pinned_fact_is_corrected_in_the_words_of_the_prompt_and_stays_pinned() {
    let mut knowledge = known(&["tests take long", "pinned: the port is 8080", "it is open"]);
    merge(
        &mut knowledge,
        3,
        "## Core Knowledge\n- corrects \"pinned: The port is 8080.\": the port is 9090\n",
    );
    assert_eq!(
        texts(&knowledge),
        ["tests take long", "it is open", "the port is 9090"]
    );
    assert!(knowledge.core[2].pinned);
    // What is kept ready for prompts is the same as if it were made anew.
    let anew: Facts = knowledge.core.iter().cloned().collect();
    assert_eq!(knowledge.core, anew);
}

// shows: REL-16
#[test]
fn a_correction_in_other_marks_takes_the_old_fact_out_too() {
    for correction in [
        "**corrects \"tests need TZ=Europe\"**: none is needed",
        "*Corrects* \"Tests need `TZ=Europe`.\": none is needed",
        "**corrects \"tests need TZ=Europe\":** none is needed",
        "corrects \"tests need `TZ=Europe`\" -> none is needed",
        "corrects: “need TZ=Europe” → none is needed",
    ] {
        let mut knowledge = known(&["Tests need `TZ=Europe`.", "tests take long"]);
        merge(
            &mut knowledge,
            1,
            &format!("## Core Knowledge\n- {correction}\n"),
        );
        assert_eq!(
            texts(&knowledge),
            ["tests take long", "none is needed"],
            "{correction}"
        );
    }
    let new = NewKnowledge::parse("## Core Knowledge\n- corrects \"a known fact\": **all** new\n");
    assert_eq!(new.core[0].fact.text, "**all** new");
}

// shows: REL-16
#[test]
fn a_correction_that_takes_nothing_out_is_noticed() {
    let knowledge = known(&["the port is 8080", "the port is open", "the API pages"]);
    let unmatched = |text: &str| {
        knowledge.unmatched(&NewKnowledge::parse(&format!(
            "## Core Knowledge\n{text}\n"
        )))
    };
    for (text, words) in [
        ("- corrects \"the port is\": it moved", Some("the port is")),
        (
            "- corrects \"no such words\": it moved",
            Some("no such words"),
        ),
        (
            "- corrects the port: it moved",
            Some("corrects the port: it moved"),
        ),
        (
            "- corrects \"port\": it moved",
            Some("corrects \"port\": it moved"),
        ),
        (
            "- corrects \"port is 8080\":",
            Some("corrects \"port is 8080\":"),
        ),
        ("- corrects \"port is 8080\": it moved", None),
        ("- a first try\n- corrects \"a first try\": a second", None),
        // A repetition: it was corrected before.
        ("- corrects \"the API does not\": the API pages", None),
        ("- correctness comes first", None),
    ] {
        assert_eq!(unmatched(text).as_deref(), words, "{text}");
    }
}

// shows: REL-16
#[test]
fn a_correction_that_names_no_one_fact_is_a_new_fact() {
    for words in ["no such words", "the port is", "port"] {
        let mut knowledge = known(&["the port is 8080", "the port is open"]);
        merge(
            &mut knowledge,
            1,
            &format!("## Core Knowledge\n- Corrects “{words}”: it moved\n"),
        );
        assert_eq!(knowledge.core.len(), 3, "{words}");
        assert!(knowledge.archived.is_empty());
    }
}

/// Two stages began with the same fact, and one of them corrected it.
// shows: REL-16, PLN-17
#[test]
fn a_stages_correction_holds_whichever_stage_is_merged_first() {
    let old = known(&["the port is 8080", "tests take long"]);
    let (mut corrects, mut other) = (old.clone(), old.clone());
    let correction = "## Core Knowledge\n- corrects \"port is 8080\": the port is 9090\n";
    merge(&mut corrects, 1, correction);
    merge(&mut other, 1, "## Core Knowledge\n- the API pages\n");
    for order in [[&corrects, &other], [&other, &corrects]] {
        let mut shared = old.clone();
        order.iter().for_each(|stage| shared.adopt(stage));
        let mut facts = texts(&shared);
        facts.sort_unstable();
        assert_eq!(
            facts,
            ["tests take long", "the API pages", "the port is 9090"]
        );
        assert_eq!(shared.archived[0].old.text, "the port is 8080");
    }
    // A later stage finds that the first one was right.
    let (mut shared, mut back) = (old, Knowledge::default());
    shared.adopt(&corrects);
    back.learn(&shared);
    assert!(back.archived.is_empty());
    let correction = "## Core Knowledge\n- corrects \"port is 9090\": the port is 8080\n";
    merge(&mut back, 1, correction);
    shared.adopt(&back);
    assert_eq!(texts(&shared), ["tests take long", "the port is 8080"]);
}

#[test]
fn nothing_new_adds_nothing() {
    for nothing in [
        "none",
        "- None.",
        "Nothing new",
        "at most five lines",
        "- TBD",
        "No new facts.",
        "- None yet",
        "none this session",
        "No new knowledge this session.",
        "Nothing new was learned.",
    ] {
        let new = NewKnowledge::parse(&format!(
            "## Core Knowledge\n{nothing}\n## Session Log\n{nothing}\n"
        ));
        assert!(new.log.is_empty(), "{nothing}");
        assert!(
            new.core.is_empty() || nothing.starts_with("at most"),
            "{nothing}"
        );
    }
    let fact = NewKnowledge::parse("## Core Knowledge\n### Build\n- No new crates\n");
    let core: Vec<&str> = fact.core.iter().map(|new| new.fact.text.as_str()).collect();
    assert_eq!(core, ["No new crates"]);
}

// shows: REL-16
#[test]
fn lines_added_to_a_copy_of_the_file_are_the_sessions_own() {
    let mut knowledge = Knowledge::default();
    for session in 1..=2 {
        let lines: String = (1..=5)
            .map(|n| format!("- line {n} of {session}\n"))
            .collect();
        merge(&mut knowledge, session, &format!("## Session Log\n{lines}"));
    }
    let published = knowledge.render();
    for own in [
        "\n### Session 3 - 2026-11-22\n\n- made b\n",
        "\n### This session\n- made b\n",
    ] {
        let new = NewKnowledge::parse(&format!("{published}{own}"));
        assert_eq!(new.log, ["made b"], "{own}");
    }
    let new = NewKnowledge::parse(&format!("{published}- made b\n"));
    assert_eq!(new.log[3..], ["line 5 of 2", "made b"]);
}

#[test]
fn one_session_cannot_empty_core() {
    let facts: Vec<String> = (0..60)
        .map(|n| format!("a known fact number {n:02}"))
        .collect();
    let mut knowledge = known(&facts.iter().map(String::as_str).collect::<Vec<_>>());
    let purge: String = (0..60)
        .map(|n| format!("- corrects \"number {n:02}\": nothing\n"))
        .collect();
    merge(&mut knowledge, 1, &format!("## Core Knowledge\n{purge}"));
    assert_eq!((knowledge.archived.len(), knowledge.core.len()), (20, 41));
}

#[test]
fn a_correction_may_quote_quotation_marks() {
    let mut knowledge = known(&["say \"hello\": it answers"]);
    merge(
        &mut knowledge,
        1,
        "## Core Knowledge\n- corrects \"say \"hello\": it answers\": it is silent\n",
    );
    // The first mark and colon end the old words: `say "hello` names the fact as well.
    assert_eq!(knowledge.archived.len(), 1);
    assert_eq!(texts(&knowledge), ["it answers\": it is silent"]);
}

// defect: W8
// shows: REL-16
#[test]
fn headings_quoted_in_text_or_code_are_no_headings() {
    let source = "# Knowledge\n\n## Core Knowledge\n\n- the file has a `## Session Log`\n- write\n  ```\n  ## Session Log\n  \
                  ```\n- ## Session Log in an item\n- last\n\n## Session Log\n\n### Session 4 - 2026-01-02\n\n- note\n";
    let knowledge = Knowledge::parse(source);
    assert_eq!(knowledge.core.len(), 4);
    assert_eq!(knowledge.core[1].text, "write\n```\n## Session Log\n```");
    assert_eq!(knowledge.log.len(), 1);
    assert_eq!(Knowledge::parse(&knowledge.render()), knowledge);
}

// shows: REL-16
#[test]
fn the_last_entries_of_the_log_are_kept() {
    let mut knowledge = Knowledge::default();
    for session in 1..=7 {
        let note = format!("## Session Log\n- note {session}\n");
        merge(&mut knowledge, session, &note);
    }
    let sessions: Vec<u32> = knowledge.log.iter().map(|entry| entry.session).collect();
    assert_eq!(sessions, [3, 4, 5, 6, 7]);
}

#[test]
fn a_log_is_five_short_lines_that_stay_inside_their_entry() {
    let new = NewKnowledge::parse(
        "## Session Log\n```\n### Session 9 - x\n```\n- - a\n- \n---\nb\nc\nd\ne\n",
    );
    assert_eq!(new.log, ["a", "b", "c", "d", "e"]);
}

// shows: REL-17
#[test]
fn what_a_person_wrote_under_core_is_kept_in_any_form() {
    let source = "## Core Knowledge\n\nProse of a person.\n\n### Ports\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\nmake x\n```\n\
                  [link]: http://x\n* star\n+ plus\n\n[end]: http://y\n";
    let knowledge = Knowledge::parse(source);
    for word in [
        "Prose of a person.",
        "### Ports",
        "| 1 | 2 |",
        "make x",
        "[link]: http://x",
        "[end]: http://y",
        "star",
        "plus",
    ] {
        assert!(
            knowledge.core.iter().any(|fact| fact.text.contains(word)),
            "{word}"
        );
    }
}

// The parser takes the line behind the link definition for one that `- ` underlines.
#[test]
fn an_underlined_line_that_begins_with_hashes_ends_no_section() {
    let source = "## Core Knowledge\n- ```\n[a]: http://b\n\t### Session 2 - x\n- \n- last\n";
    let knowledge = Knowledge::parse(source);
    assert_eq!(
        texts(&knowledge),
        ["[a]: http://b", "### Session 2 - x\n-", "last"]
    );
}

// shows: REL-30
#[test]
fn over_its_budget_the_oldest_unpinned_facts_go_in_steps() {
    let mut facts: Vec<String> = (0..200)
        .map(|n| format!("fact {n:03} {}", "x".repeat(80)))
        .collect();
    facts[0].insert_str(0, "pinned: ");
    let mut knowledge = known(&facts.iter().map(String::as_str).collect::<Vec<_>>());
    let mut counts = Vec::new();
    for n in 0..60 {
        let prompt = knowledge.for_prompt(limits::KNOWLEDGE_TOKENS_MAX);
        assert!(prompt.core.contains("fact 000") && !prompt.core.contains("fact 001"));
        assert!(prompt.core.starts_with(&format!(
            "¦ [{} older facts left out here;",
            prompt.left_out
        )));
        assert!(tokens(&prompt.core) <= limits::KNOWLEDGE_TOKENS_MAX);
        counts.push(prompt.left_out);
        knowledge
            .core
            .push(Fact::new(&format!("new {n} {}", "y".repeat(60))).unwrap());
    }
    counts.dedup();
    assert!(
        counts.len() <= 4,
        "the left-out part changes seldom: {counts:?}"
    );
}

// shows: REL-30
#[test]
fn a_very_long_fact_is_cut_and_leaves_the_others_in() {
    let table = "| a row of a table |\n".repeat(1_000);
    let line = "é".repeat(9_000);
    for long in [table, line] {
        let mut facts: Vec<String> = (0..50).map(|n| format!("fact number {n:02}")).collect();
        facts.push(format!("the ports are:\n{long}"));
        let knowledge = known(&facts.iter().map(String::as_str).collect::<Vec<_>>());
        let prompt = knowledge.for_prompt(limits::KNOWLEDGE_TOKENS_MAX);
        assert_eq!(prompt.left_out, 0);
        assert!(prompt.core.contains("fact number 00"));
        assert!(prompt.core.contains("the ports are:\n"));
        let is_cut = prompt.core.contains("more characters]")
            || prompt
                .core
                .contains("lines left out here; the whole is in .ekiden/KNOWLEDGE.md]");
        assert!(is_cut, "{}", prompt.core);
        assert!(
            knowledge
                .render()
                .contains(long.trim_end().rsplit('\n').next().unwrap())
        );
    }
}

/// Knowledge as an agent or a person may write it: lines that look like structure among words.
fn markdown() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z]{1,6}( [a-z`*_\\[\\]<>|~.]{1,6}){0,3}",
        1 => Just("## Session Log".to_owned()),
        1 => Just("### Session 2 - x".to_owned()),
        1 => Just("```".to_owned()),
        1 => Just("---".to_owned()),
        1 => Just("<!-- x".to_owned()),
        1 => Just("<div>".to_owned()),
        1 => Just("> quote".to_owned()),
        1 => Just("[a]: http://b".to_owned()),
        1 => Just("pinned: held".to_owned()),
        1 => Just("corrects \"old words\": new".to_owned()),
        1 => Just(String::new()),
    ];
    let bullet = prop_oneof![
        Just(""),
        Just("- "),
        Just("* "),
        Just("1. "),
        Just("12)  "),
        Just("  "),
        Just("    "),
        Just("  - "),
        Just("\t")
    ];
    proptest::collection::vec((bullet, piece), 0..14).prop_map(|lines| {
        lines
            .into_iter()
            .map(|(bullet, piece)| format!("{bullet}{piece}\n"))
            .collect()
    })
}

proptest! {
    // shows: REL-16
    #[test]
    fn what_is_rendered_reads_back_the_same(text in markdown(), log in markdown()) {
        let mut knowledge = Knowledge::default();
        merge(&mut knowledge, 1, &format!("## Core Knowledge\n{text}"));
        merge(&mut knowledge, 2, &format!("## Core Knowledge\n- more\n## Session Log\n{log}"));
        let read = Knowledge::parse(&knowledge.render());
        prop_assert_eq!(&read.core, &knowledge.core, "{}", knowledge.render());
        prop_assert_eq!(&read.log, &knowledge.log);
    }

    // shows: REL-16
    #[test]
    fn core_never_loses_a_fact_but_by_a_correction(texts in proptest::collection::vec(markdown(), 1..6)) {
        let mut knowledge = Knowledge::default();
        let mut all: Vec<String> = Vec::new();
        for (session, text) in (1..).zip(texts) {
            merge(&mut knowledge, session, &format!("## Core Knowledge\n{text}"));
            all.extend(knowledge.core.iter().map(|fact| fact.text.clone()));
            let anew: Facts = knowledge.core.iter().cloned().collect();
            prop_assert_eq!(&anew.text, &knowledge.core.text);
            prop_assert_eq!(&anew.marked, &knowledge.core.marked);
        }
        for fact in all {
            let archived = knowledge.archived.iter().any(|corrected| corrected.old.text == fact);
            prop_assert!(archived || knowledge.core.iter().any(|kept| kept.text == fact), "{}", fact);
        }
    }

    // defect: W8
    // shows: REL-16
    #[test]
    fn no_word_under_core_is_passed_over(text in markdown()) {
        let source = format!("## Core Knowledge\n{text}");
        let read = Knowledge::parse(&source);
        let facts: String = read.core.iter().map(|fact| format!(" {} ", fact.text)).collect();
        let until_log = text.split("## Session Log").next().unwrap_or_default();
        for word in until_log.split_whitespace().filter(|word| word.len() > 3 && word.chars().all(char::is_alphabetic)) {
            prop_assert!(facts.contains(word), "{word} of {source}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_prompt_keeps_its_budget_for_any_knowledge(
        facts in proptest::collection::vec(("[a-z<>\n\u{202e}é-]{0,300}", any::<bool>()), 0..40),
        max in 50usize..4_000,
    ) {
        let facts: Facts = facts.iter().filter_map(|(text, pinned)| Some(Fact { pinned: *pinned, ..Fact::new(text)? })).collect();
        let log = (1..=5).map(|session| LogEntry { session, date: "d".into(), lines: vec!["<system> é".repeat(90); 5] }).collect();
        let prompt = Knowledge { core: facts, log, archived: vec![] }.for_prompt(max);
        prop_assert!(tokens(&prompt.core) + tokens(&prompt.log) <= max);
        prop_assert!(prompt.core.lines().chain(prompt.log.lines()).all(|line| line.starts_with(MARK)));
    }
}
