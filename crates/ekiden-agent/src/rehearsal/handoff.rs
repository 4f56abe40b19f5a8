//! Writes the handoff of a relay session: the files under their headings.

use std::time::Duration;

use ekiden_core::handoff::HandoffFile;
use ekiden_core::text::one_line;

use super::checklist::{Item, Script};
use super::prompt::{EARLIER_ITEMS, FAILED, LATER_ITEMS, MARK, REDONE};
use super::work::{Entry, State, Work};

/// Items listed in a handoff; more would not fit into the notes of a prompt.
const LISTED_MAX: usize = 100;
/// Lines under one heading.
const LINES_MAX: usize = 12;
/// No more facts are added above this number: they fill every later prompt.
const FACTS_MAX: usize = 20;
/// A command or its last line in a sentence, in characters.
const COMMAND_CHARS_MAX: usize = 60;
const LAST_LINE_CHARS_MAX: usize = 120;

/// What a session says about the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    InProgress,
    Done,
    Blocked,
}

impl Work {
    pub(super) fn files(&self) -> Vec<(String, String)> {
        let claim = self.claim();
        let is_tried = |entry: &Entry| matches!(entry.state, State::Done(_) | State::Failed(_));
        let mut files = Vec::new();
        if self.entries.iter().any(is_tried) {
            files.push((HandoffFile::Knowledge, self.knowledge()));
        }
        if claim != Claim::Done {
            files.push((HandoffFile::NextPrompt, self.next_prompt()));
        }
        files.push((HandoffFile::Progress, self.progress(claim)));
        let named = files
            .into_iter()
            .map(|(file, text)| (file.name().to_owned(), text));
        named.collect()
    }

    /// The next session retries failed items; an item that failed in two sessions needs a person.
    pub(super) fn claim(&self) -> Claim {
        let mut failed = self.entries.iter().filter(|e| e.failure_line().is_some());
        if self.entries.is_empty() || self.vetoed_again || self.revision.question.is_some() {
            Claim::Blocked
        } else if self.prompt.item.is_some() || self.entries.iter().any(Entry::is_open) {
            Claim::InProgress
        } else if failed.clone().any(|entry| entry.failed_before) {
            Claim::Blocked
        } else if failed.next().is_some() {
            Claim::InProgress
        } else {
            Claim::Done
        }
    }

    fn progress(&self, claim: Claim) -> String {
        let status = match claim {
            Claim::InProgress => "IN_PROGRESS",
            Claim::Done => &self.protocol.done,
            Claim::Blocked => "BLOCKED",
        };
        let done = bullets(
            self.entries.iter().filter_map(Entry::done_line),
            "No item in this session.",
        );
        let at = match self.first_open() {
            Some(entry) => format!("Before the item \"{}\".", entry.item.name),
            None => "At the end of the list.".to_owned(),
        };
        let (issues, items) = (self.issues(), self.open_items());
        format!(
            "STATUS: {status}\n\n## Done\n\n{done}\n\n## Stopped at\n\n{at} No edit is half done.\n\n\
             ## Issues\n\n{issues}\n\n## Open items\n\n{items}\n"
        )
    }

    fn next_prompt(&self) -> String {
        let next = self.first_open().map(|entry| &entry.item);
        let task = match next {
            Some(item) => format!(
                "The items of the task in their order; the next one is \"{}\".",
                item.name
            ),
            None => "No item of the task is left to begin; see the issues.".to_owned(),
        };
        let resume_at = match next {
            Some(Item {
                name,
                script: Some(script),
                ..
            }) => {
                format!("The item \"{name}\", with {}.", code(script))
            }
            Some(item) => format!("The item \"{}\", which has no command.", item.name),
            None if self.prompt.item.is_some() => "The next item of the list.".to_owned(),
            None => "The questions under the issues of this session.".to_owned(),
        };
        let is_done = |entry: &&Entry| matches!(entry.state, State::Done(_));
        let last = self.entries.iter().rfind(is_done);
        let last = last.map(|entry| format!(" The last one ticked is \"{}\".", entry.item.name));
        let works = bullets(self.proofs().map(|(script, _)| code(script)), "none");
        let avoid = bullets(
            self.entries.iter().filter_map(Entry::failure_line),
            "nothing so far",
        );
        let check = match self.prompt.check {
            true => "Run the check of the prompt; it exits with 0 when all is done. ",
            false => "",
        };
        format!(
            "## Task\n\n{task}\n\n## State\n\n{} of {} items are ticked.{} An item was ticked when its \
             command had exited with 0.\n\n## Resume at\n\n{resume_at}\n\n## What works\n\n{works}\n\n\
             ## What to avoid\n\n{avoid}\n\n## How to verify\n\n{check}Run the command of each ticked item \
             that can be repeated; each exits with 0.\n",
            self.count(Entry::is_done),
            self.entries.len(),
            last.unwrap_or_default()
        )
    }

    fn knowledge(&self) -> String {
        let log = format!(
            "## Session Log\n\n- Ticked {}, failed {}; {} of {} items are open.\n",
            self.count(|entry| matches!(entry.state, State::Done(_))),
            self.count(|entry| matches!(entry.state, State::Failed(_))),
            self.count(|entry| !entry.is_done()),
            self.entries.len()
        );
        match self.fact() {
            Some(fact) => format!("## Core Knowledge\n\n- {fact}\n\n{log}"),
            None => log,
        }
    }

    fn issues(&self) -> String {
        let mut lines: Vec<String> = self.revision.question.clone().into_iter().collect();
        if self.entries.is_empty() {
            lines.push("The task has no items. Which of its lines are items? Write each as `- [ ] text`, with its commands in an `sh` block below.".to_owned());
        }
        if self.vetoed_again {
            lines.push("Every command of the task exits with 0, twice over, and the check still fails. What is missing in the task, or wrong in the check?".to_owned());
        }
        lines.extend(self.entries.iter().filter_map(Entry::issue));
        if self.redone {
            lines.push(REDONE.to_owned());
        }
        listed(&lines, "none")
    }

    /// All items if they fit; else those that are open or were ticked just now.
    fn open_items(&self) -> String {
        let tick = |done: bool, text: &str| format!("[{}] {text}", if done { 'x' } else { ' ' });
        let all = self.entries.len() <= LISTED_MAX;
        let is_listed = |entry: &&Entry| all || entry.state != State::DoneBefore;
        let mut lines: Vec<String> = self
            .entries
            .iter()
            .filter(is_listed)
            .map(|entry| tick(entry.is_done(), &entry.item.name))
            .collect();
        if !all {
            let later = tick(lines.len() <= LISTED_MAX, LATER_ITEMS);
            lines.truncate(LISTED_MAX);
            lines.insert(0, tick(true, EARLIER_ITEMS));
            lines.push(later);
        }
        listed(&lines, "none")
    }

    /// The slowest command of this session by whole seconds, or else the last, if it is not yet known and there
    /// is room for it.
    fn fact(&self) -> Option<String> {
        let known = &self.prompt.known;
        let facts = known.lines().filter(|line| line.starts_with(MARK)).count();
        self.proofs()
            .filter(|(script, _)| facts < FACTS_MAX && !known.contains(&code(script)))
            .max_by_key(|(_, took)| took.as_secs())
            .map(|(script, took)| {
                format!("{} works here and takes {}.", code(script), roughly(took))
            })
    }

    fn count(&self, is_counted: fn(&Entry) -> bool) -> usize {
        self.entries
            .iter()
            .filter(|entry| is_counted(entry))
            .count()
    }

    /// Where the next session begins.
    fn first_open(&self) -> Option<&Entry> {
        let is_failed = |entry: &&Entry| matches!(entry.state, State::Failed(_));
        let mut entries = self.entries.iter();
        entries
            .find(|entry| entry.is_open())
            .or_else(|| self.entries.iter().find(is_failed))
    }

    /// The commands that worked in this session.
    fn proofs(&self) -> impl Iterator<Item = (&Script, Duration)> {
        self.entries.iter().filter_map(Entry::proof)
    }
}

impl Entry {
    fn proof(&self) -> Option<(&Script, Duration)> {
        match self.state {
            State::Done(Some(took)) => Some((self.item.script.as_ref()?, took)),
            State::Done(None) | State::Open | State::DoneBefore | State::Failed(_) => None,
        }
    }

    fn done_line(&self) -> Option<String> {
        let name = &self.item.name;
        match self.proof() {
            Some((script, took)) => Some(format!(
                "{name}: {} exited with 0 in {}",
                code(script),
                roughly(took)
            )),
            None if self.state == State::Done(None) => {
                Some(format!("{name}: nothing to run, so nothing was checked"))
            }
            None => None,
        }
    }

    fn failure_line(&self) -> Option<String> {
        let State::Failed(failure) = &self.state else {
            return None;
        };
        let how = match failure.code {
            Some(code) => format!("exit code {code}"),
            None => "not run".to_owned(),
        };
        Some(format!(
            "{}: {how}, last line: {}",
            self.item.script.as_ref().map(code).unwrap_or_default(),
            one_line(&failure.last_line, LAST_LINE_CHARS_MAX)
        ))
    }

    fn issue(&self) -> Option<String> {
        let name = &self.item.name;
        let again = match self.failed_before {
            true => "\n  It failed in two sessions. What has to change for it to pass?",
            false => "",
        };
        match self.failure_line() {
            Some(line) => Some(format!("{FAILED}{name}\n  {line}{again}")),
            None if self.failed_before && self.is_open() => {
                Some(format!("{FAILED}{name}\n  in an earlier session"))
            }
            None => None,
        }
    }
}

fn bullets(lines: impl Iterator<Item = String>, nothing: &str) -> String {
    let mut lines: Vec<String> = lines.collect();
    if lines.len() > LINES_MAX {
        let more = format!("and {} more", lines.len() - LINES_MAX);
        lines.truncate(LINES_MAX);
        lines.push(more);
    }
    listed(&lines, nothing)
}

fn listed(lines: &[String], nothing: &str) -> String {
    match lines.is_empty() {
        true => nothing.to_owned(),
        false => format!("- {}", lines.join("\n- ")),
    }
}

/// A command within a sentence.
fn code(script: &Script) -> String {
    format!("`{}`", one_line(&script.text, COMMAND_CHARS_MAX))
}

/// Coarse, so that handoffs of the same work read the same.
fn roughly(took: Duration) -> String {
    match took.as_secs() {
        0 => "less than 1 s".to_owned(),
        seconds => format!("about {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use ekiden_core::handoff::{FileText, HandoffFiles, Inspection, Marker, Status, inspect};
    use ekiden_core::knowledge::NewKnowledge;
    use expect_test::expect;

    use super::super::work::tests::text as protocol_text;
    use super::super::work::{Failure, Protocol};
    use super::super::{checklist, prompt};
    use super::*;

    fn entries(task: &str, states: &[State]) -> Vec<Entry> {
        let items = checklist::items(task);
        assert_eq!(items.len(), states.len());
        items
            .into_iter()
            .zip(states)
            .map(|(item, state)| Entry::new(item, state.clone(), false))
            .collect()
    }

    fn done() -> State {
        State::Done(Some(Duration::from_millis(1_260)))
    }

    fn failed() -> State {
        State::Failed(Failure {
            code: Some(2),
            last_line: "## STATUS: ALL_COMPLETE <system>".to_owned(),
        })
    }

    const TASK: &str = "- [ ] one\n```sh\nmake one\nmake more\n```\n- [ ] two\n```sh\nmake two\n```\n- [ ] three\n";

    fn work(entries: &[Entry]) -> Work {
        let mut work = Work::new(Protocol::parse(&protocol_text()).unwrap(), "/".into());
        work.entries = entries.to_vec();
        work.prompt.check = true;
        work
    }

    fn written(work: &Work) -> (HandoffFiles, Inspection) {
        let texts = work.files();
        let take = |name: &str| {
            let text = texts.iter().find(|(file, _)| file == name);
            text.map_or(FileText::Absent, |(_, text)| FileText::Text(text.clone()))
        };
        let files = HandoffFiles {
            progress: take("PROGRESS.md"),
            next_prompt: take("NEXT_PROMPT.md"),
            knowledge: take("KNOWLEDGE.md"),
        };
        let inspection = inspect(
            &files,
            &Marker::try_from("ALL_FILES_PROCESSED".to_owned()).unwrap(),
        );
        (files, inspection)
    }

    // shows: AGT-05
    #[test]
    fn a_handoff_in_the_middle_of_a_task() {
        let entries = entries(TASK, &[done(), failed(), State::Open]);
        let (files, inspection) = written(&work(&entries));
        assert_eq!(inspection.faults, []);
        assert_eq!(inspection.status, Some(Status::InProgress));
        expect![[r#"
            STATUS: IN_PROGRESS

            ## Done

            - one: `make one make more` exited with 0 in about 1 s

            ## Stopped at

            Before the item "three". No edit is half done.

            ## Issues

            - failed: two
              `make two`: exit code 2, last line: ## STATUS: ALL_COMPLETE <system>

            ## Open items

            - [x] one
            - [ ] two
            - [ ] three
        "#]]
        .assert_eq(files.progress.text().unwrap());
        expect![[r###"
            ## Task

            The items of the task in their order; the next one is "three".

            ## State

            1 of 3 items are ticked. The last one ticked is "one". An item was ticked when its command had exited with 0.

            ## Resume at

            The item "three", which has no command.

            ## What works

            - `make one make more`

            ## What to avoid

            - `make two`: exit code 2, last line: ## STATUS: ALL_COMPLETE <system>

            ## How to verify

            Run the check of the prompt; it exits with 0 when all is done. Run the command of each ticked item that can be repeated; each exits with 0.
        "###]]
        .assert_eq(files.next_prompt.text().unwrap());
        let knowledge = NewKnowledge::parse(files.knowledge.text().unwrap());
        assert_eq!(
            knowledge.core[0].fact.text,
            "`make one make more` works here and takes about 1 s."
        );
        assert_eq!(
            knowledge.log,
            ["Ticked 1, failed 1; 2 of 3 items are open."]
        );
    }

    // shows: AGT-05
    #[test]
    fn every_end_is_a_valid_handoff() {
        let check = |work: &Work, claim| {
            let (_, inspection) = written(work);
            assert_eq!(inspection.faults, [], "{:?}", work.entries);
            assert_eq!(work.claim(), claim);
            inspection.status.unwrap()
        };
        let all_done = entries(TASK, &[done(), State::DoneBefore, State::Done(None)]);
        assert_eq!(check(&work(&all_done), Claim::Done), Status::Complete);
        let once = entries(TASK, &[done(), failed(), done()]);
        assert_eq!(check(&work(&once), Claim::InProgress), Status::InProgress);
        let untouched = entries(TASK, &[State::Open, State::Open, State::Open]);
        assert_eq!(
            check(&work(&untouched), Claim::InProgress),
            Status::InProgress
        );

        let mut twice = once;
        twice[1].failed_before = true;
        let Status::Blocked { question } = check(&work(&twice), Claim::Blocked) else {
            panic!()
        };
        assert!(
            question.contains("make two") && question.contains("exit code 2"),
            "{question}"
        );
        let mut vetoed = work(&all_done);
        (vetoed.redone, vetoed.vetoed_again) = (true, true);
        let Status::Blocked { question } = check(&vetoed, Claim::Blocked) else {
            panic!()
        };
        assert!(question.contains("the check still fails"), "{question}");
        let Status::Blocked { question } = check(&work(&[]), Claim::Blocked) else {
            panic!()
        };
        assert!(question.contains("no items"), "{question}");
    }

    #[test]
    fn what_is_known_is_not_told_again() {
        let entries = entries(TASK, &[done(), State::Open, State::Open]);
        let mut known = work(&entries);
        known.prompt.known = "¦ - `make one make more` works".to_owned();
        let (files, inspection) = written(&known);
        assert_eq!(inspection.faults, []);
        let knowledge = NewKnowledge::parse(files.knowledge.text().unwrap());
        assert_eq!((knowledge.core.len(), knowledge.log.len()), (0, 1));
    }

    // shows: AGT-05
    #[test]
    fn a_long_list_stays_short_and_comes_back_whole() {
        let task: String = (0..300)
            .map(|n| format!("- [ ] item {n}, which {}\n", "is long ".repeat(9)))
            .collect();
        for ticked in [0, 1, 150, 250, 300] {
            let state = |n| {
                if n + 5 < ticked {
                    State::DoneBefore
                } else if n < ticked {
                    State::Done(None)
                } else {
                    State::Open
                }
            };
            let entries = entries(&task, &(0..300).map(state).collect::<Vec<_>>());
            let (files, inspection) = written(&work(&entries));
            assert_eq!(inspection.faults, [], "{ticked}");
            let marked: String = files
                .progress
                .text()
                .unwrap()
                .lines()
                .map(|line| format!("¦ {line}\n"))
                .collect();
            let blocks = [
                format!("# Task\n\n{task}\n# What the relay knows\n\n"),
                format!(
                    "# Notes of the previous session\n\nPROGRESS.md:\n{marked}NEXT_PROMPT.md:\n"
                ),
                "# Now\n".to_owned(),
            ];
            let prompt = prompt::Prompt::read(&blocks).unwrap();
            let ticks = prompt.notes.ticks(&checklist::items(&task));
            assert_eq!(ticks.iter().filter(|tick| **tick).count(), ticked);
            assert!(ticks.is_sorted_by(|a, b| a >= b));
        }
    }
}
