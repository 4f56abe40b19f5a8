//! How well a search finds things: 200 questions about observations made of this repository's commits, and as many about
//! a generated project, beside what FTS5 alone finds. `docs/memory.md` has the figures.
//!
//! A question was made by rule from one observation, its answer: words of it, of its title, a phrase, the beginning of a
//! word, a file and a word, the parts of an identifier, a word in the other number; of the generated, four words. A word
//! in more than a tenth of the commits is not asked for. Some questions fit other observations as well.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "fixtures are as they were made"
)]

mod chance;

use chance::Chance;
use ekiden_core::observation::{Observation, ObservationKind as Kind, Origin};
use ekiden_core::time::Timestamp;
use ekiden_memory::{Memory, Query, ask};
use ekiden_store::memory::MemoryFiles;
use rusqlite::{Connection, params};
use serde_json::Value;

const COMMITS: &str = include_str!("fixtures/commits.jsonl");
const QUESTIONS: &str = include_str!("fixtures/questions.jsonl");
/// As a person asks who remembers what a commit was about, written without a look at the searches' results.
const BY_HAND: &str = include_str!("fixtures/questions_by_hand.jsonl");
/// An agent reads so many lines before it asks anew.
const FIRST: usize = 5;

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn commits() -> Vec<Observation> {
    let from = Origin {
        project: "/ekiden".to_owned(),
        branch: Some("main".to_owned()),
        ..Origin::default()
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let made = |row: &Value| {
        let files = row["files"].as_array().unwrap().iter().map(text);
        let at = Timestamp(row["at"].as_u64().unwrap());
        let made = Observation::new(
            &from,
            at,
            Kind::Commit,
            &text(&row["title"]),
            &text(&row["text"]),
        );
        made.unwrap().about(files)
    };
    lines(COMMITS).iter().map(made).collect()
}

fn questions(fixture: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let question = |row: &Value| (text(&row["query"]), text(&row["title"]));
    lines(fixture).iter().map(question).collect()
}

/// The same words in another order: titles and texts as long as the commits', words as frequent.
fn generated(of: &[Observation], count: usize) -> Vec<Observation> {
    let words: Vec<&str> = of
        .iter()
        .flat_map(|found| {
            found
                .title
                .split_whitespace()
                .chain(found.text.split_whitespace())
        })
        .collect();
    let mut chance = Chance(18);
    let mut some = |count: usize| {
        let words: Vec<&str> = (0..count)
            .map(|_| words[chance.below(words.len())])
            .collect();
        words.join(" ")
    };
    let from = Origin {
        project: "/generated".to_owned(),
        ..Origin::default()
    };
    (0..count)
        .map(|at| {
            let model = &of[at % of.len()];
            let (title, text) = (
                some(10),
                some(model.text.split_whitespace().count().max(20)),
            );
            let time = Timestamp(1_700_000_000_000 + at as u64 * 60_000);
            Observation::new(&from, time, Kind::Discovery, &title, &text).unwrap()
        })
        .collect()
}

/// How many of the questions have their answer among the first, with ours and with FTS5 alone.
fn measure(all: &[Observation], questions: &[(String, String)]) -> [f64; 3] {
    let dir = tempfile::tempdir().unwrap();
    let files = MemoryFiles::of(dir.path());
    files.append(all).unwrap();
    let plain = Connection::open_in_memory().unwrap();
    plain
        .execute_batch("CREATE VIRTUAL TABLE found USING fts5(title, text, files)")
        .unwrap();
    for found in all {
        let row = params![found.title, found.text, found.files.join(" ")];
        plain
            .execute("INSERT INTO found VALUES (?, ?, ?)", row)
            .unwrap();
    }
    let mut hits = [0_u32; 3];
    for (question, answer) in questions {
        let query = Query {
            text: question.clone(),
            limit: FIRST,
            now: Timestamp(1_800_000_000_000),
            ..Query::default()
        };
        let (ours, _) = ask(&files, |memory: &mut Memory| memory.search(&query)).unwrap();
        let is_hit = ours.iter().any(|found| found.title == *answer);
        hits[0] += u32::from(is_hit);
        for (hits, between) in hits[1..].iter_mut().zip([" ", " OR "]) {
            *hits += u32::from(of_fts5(&plain, question, between).contains(answer));
        }
    }
    hits.map(|hits| f64::from(hits) / questions.len() as f64)
}

/// What FTS5 finds with the words of a question as they are, best first: all of them together, or any.
fn of_fts5(plain: &Connection, question: &str, between: &str) -> Vec<String> {
    let word = |word: &str| match word.strip_suffix('*') {
        Some(word) => format!("\"{word}\"*"),
        None => format!("\"{word}\""),
    };
    let asked = match question.starts_with('"') {
        true => question.to_owned(),
        false => question
            .split(' ')
            .map(word)
            .collect::<Vec<_>>()
            .join(between),
    };
    let mut found = plain
        .prepare("SELECT title FROM found WHERE found MATCH ? ORDER BY rank LIMIT ?")
        .unwrap();
    let titles = found
        .query_map(params![asked, FIRST], |row| row.get(0))
        .unwrap();
    titles.map(Result::unwrap).collect()
}

// shows: MEM-08
#[test]
fn nine_of_ten_answers_are_among_the_first_five() {
    let commits = commits();
    let asked = questions(QUESTIONS);
    assert_eq!(asked.len(), 200);
    let [ours, all_words, any_word] = measure(&commits, &asked);
    let by_hand = measure(&commits, &questions(BY_HAND));
    assert!(
        by_hand[0] >= 0.8 && by_hand[0] >= by_hand[1].max(by_hand[2]),
        "{by_hand:?}"
    );

    let all = generated(&commits, 10_000);
    let mut chance = Chance(7);
    let of_generated: Vec<(String, String)> = (0..200)
        .map(|_| {
            let answer = &all[chance.below(all.len())];
            let letters = |word: &str| word.chars().filter(|c| c.is_alphanumeric()).collect();
            let words = answer.text.split_whitespace().map(letters);
            let mut words: Vec<String> = words.filter(|word: &String| word.len() > 4).collect();
            words.sort();
            words.dedup();
            let asked: Vec<String> = (0..words.len().min(4))
                .map(|_| words.swap_remove(chance.below(words.len())))
                .collect();
            (asked.join(" "), answer.title.clone())
        })
        .collect();
    let [made, made_all, made_any] = measure(&all, &of_generated);
    let figures = format!("{ours} {all_words} {any_word}, {made} {made_all} {made_any}");
    assert!(ours >= 0.9 && made >= 0.9, "{figures}");
    assert!(
        ours > all_words.max(any_word) && made > made_all,
        "{figures}"
    );
}
