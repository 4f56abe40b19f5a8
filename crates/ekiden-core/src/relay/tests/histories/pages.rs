//! Handoffs as agents write them: some say the same, some only seem to say something else.

use std::fmt::Write as _;

pub(super) struct Pages {
    pub(super) progress: String,
    pub(super) next_prompt: String,
    pub(super) knowledge: String,
}

/// Writes handoffs, one after the other.
#[derive(Default)]
pub(super) struct Author {
    session: usize,
    /// Lines that were added so far.
    grown: Vec<String>,
}

const MODULES: &[&str] = &[
    "billing", "auth", "search", "export", "mail", "cart", "ledger", "report", "import", "queue",
    "cache", "session", "invoice", "upload", "audit", "webhook", "tax", "catalog", "profile",
];
const DEEDS: &[&str] = &[
    "the parser takes dates in both forms",
    "the client retries on a closed connection",
    "the writer keeps its order",
    "the check reads one row at a time",
    "the handler closes what it opens",
    "the test uses plain functions",
    "the loop ends on the first error",
    "the lock is taken once",
    "the fixture needs no network",
    "the view shows the newest first",
    "the index is built lazily",
    "the name follows the glossary",
    "the error says where",
];
/// Each way to say the same.
const WAYS: &[[&str; 3]] = &[
    ["looked at", "begun with", "the tests of the parser"],
    ["went through", "got ready for", "the checks of that parser"],
    ["examined", "prepared", "those parser tests"],
    ["reviewed", "made a start on", "what tests the parser"],
    ["studied", "turned to", "the parser and its tests"],
];

impl Author {
    /// The next handoff.
    ///
    /// | notes | what the agent writes |
    /// |---|---|
    /// | `new` `limited` | about another part of the work each time |
    /// | `same` | the very same each time |
    /// | `count` | the same, but for numbers |
    /// | `line` | the same, but for one line |
    /// | `words` | the same thing in other words in every line |
    /// | `turns` | one of two texts in turn |
    /// | `grow` | what it wrote before and a little more |
    /// | `restates` | the task, a few lines that repeat, and some of its own |
    /// | `echoes` | the task and a few lines that repeat |
    /// | `facts` | the same notes, and something new to know |
    /// | `told` | the same notes under other progress |
    /// | `claim` | all is done |
    pub(super) fn write(&mut self, notes: &str, items: Option<(usize, usize)>) -> Pages {
        self.session += 1;
        let lines = self.lines(notes);
        let told = if notes == "told" {
            self.about(3)
        } else {
            self.done(notes)
        };
        let status = if notes == "claim" {
            "ALL_COMPLETE"
        } else {
            "IN_PROGRESS"
        };
        let mut progress = format!(
            "STATUS: {status}\n\n## Done\n\n{}\n## Stopped at\n\n",
            list(&told)
        );
        progress.push_str("src/parser.rs, it builds\n\n## Issues\n\nnone\n");
        if let Some((open, done)) = items.filter(|_| notes != "claim") {
            progress.push_str("\n## Open items\n\n");
            (1..=done).for_each(|item| writeln!(progress, "- [x] part {item}").unwrap());
            (done + 1..=done + open)
                .for_each(|item| writeln!(progress, "- [ ] part {item}").unwrap());
        }
        let knowledge = match notes {
            "facts" => format!("## Core Knowledge\n\n{}", list(&self.about(1))),
            _ => String::new(),
        };
        let next_prompt = if notes == "claim" {
            String::new()
        } else {
            next_prompt(&lines)
        };
        Pages {
            progress,
            next_prompt,
            knowledge,
        }
    }

    fn lines(&mut self, notes: &str) -> Vec<String> {
        let session = self.session;
        match notes {
            "new" | "limited" => self.about(12),
            "same" | "facts" | "told" => steady(0),
            "count" => steady(session),
            "line" => [steady(0), self.about(1)].concat(),
            "words" => (0..12)
                .map(|line| in_other_words(session + line, line))
                .collect(),
            "turns" => (0..12)
                .map(|line| in_other_words(session % 2, line))
                .collect(),
            "grow" => {
                let more = self.about(2);
                self.grown.extend(more);
                [
                    vec!["The plan is in docs/plan.md.".to_owned()],
                    self.grown.clone(),
                ]
                .concat()
            }
            "restates" => [task(), steady(0), self.about(3)].concat(),
            "echoes" => [task(), steady(0)].concat(),
            "claim" => Vec::new(),
            notes => panic!("no such notes: {notes}"),
        }
    }

    fn done(&self, notes: &str) -> Vec<String> {
        match notes {
            "new" | "limited" | "grow" => self.about(3),
            "words" => vec![in_other_words(self.session, 0)],
            _ => vec!["read the parser, shown by `cargo test`".to_owned()],
        }
    }

    /// Lines that no other session writes.
    fn about(&self, lines: usize) -> Vec<String> {
        let line = |n: usize| {
            let (module, other) = (
                MODULES[self.session % MODULES.len()],
                MODULES[n % MODULES.len()],
            );
            format!(
                "{module}: {} as in {other}",
                DEEDS[(self.session + 3 * n) % DEEDS.len()]
            )
        };
        (0..lines).map(line).collect()
    }
}

/// Lines that stay the same but for a number.
fn steady(number: usize) -> Vec<String> {
    let lines = [
        format!("{number} of 47 files are converted; the helper in conftest.py is shared."),
        "Each file has its own fixture; the old classes stay until all is done.".to_owned(),
        "The decision stands to keep the names of the tests.".to_owned(),
        "Billing rounds half up, everything else half even.".to_owned(),
        "The clock is frozen in the fixture, not in the test.".to_owned(),
        "Slow tests carry the mark of slow tests.".to_owned(),
        format!("Take file {} of the list next.", number + 1),
        "The list is in docs/plan.md.".to_owned(),
        "Snapshots are written anew by the flag of the runner.".to_owned(),
        "Nothing else is open in this part.".to_owned(),
    ];
    lines.to_vec()
}

/// The same thing, said otherwise.
fn in_other_words(way: usize, line: usize) -> String {
    let [looked, began, what] = WAYS[(way + line) % WAYS.len()];
    format!(
        "I {looked} {} and {began} {what}.",
        MODULES[line % MODULES.len()]
    )
}

fn task() -> Vec<String> {
    vec!["Convert the tests to plain functions.".to_owned()]
}

fn list(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {line}\n")).collect()
}

fn next_prompt(lines: &[String]) -> String {
    format!(
        "## Task\n\nConvert the tests to plain functions.\n\n## State\n\n{}\n## Resume at\n\ndocs/plan.md\n\n\
         ## What works\n\n`cargo test -p parser`\n\n## What to avoid\n\nnothing so far\n\n\
         ## How to verify\n\n`cargo test` passes\n",
        list(lines)
    )
}
