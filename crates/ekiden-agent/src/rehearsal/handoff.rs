//! Writing the handoff: the files that the protocol names, under its headings.

use std::time::Duration;

use ekiden_core::text::one_line;

use super::checklist::Script;
use super::prompt::{EARLIER_ITEMS, FAILED, LATER_ITEMS, MARK, REDONE};
use super::protocol::{FileRule, Protocol};
use super::work::{Entry, State};

/// Items listed in a handoff; more would not fit into the notes of a prompt.
const LISTED_MAX: usize = 100;
/// Items or commands told under one heading.
const TOLD_MAX: usize = 12;
/// Facts above which no more are added: they fill every later prompt.
const FACTS_MAX: usize = 20;
/// A command or its last line in a sentence, in characters.
const COMMAND_CHARS_MAX: usize = 60;
const LAST_LINE_CHARS_MAX: usize = 120;

/// What a handoff is written from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Account<'a> {
    /// The task's items.
    pub(super) entries: &'a [Entry],
    /// What is known already, as it stands in the prompt.
    pub(super) known: &'a str,
    /// The user gave a check.
    pub(super) check: bool,
    /// Everything was done over once after a veto.
    pub(super) redone: bool,
    /// The check still failed after that.
    pub(super) vetoed_again: bool,
}

/// What a session says of the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    InProgress,
    Done,
    Blocked,
}

/// The files of a handoff, by name.
pub(super) fn files(protocol: &Protocol, account: &Account<'_>) -> Vec<(String, String)> {
    let claim = account.claim();
    protocol
        .files
        .iter()
        .filter(|file| !(file.optional_when_done && claim == Claim::Done))
        .filter(|file| !file.only_new || account.entries.iter().any(Entry::tried))
        .map(|file| (file.name.clone(), account.file(file, protocol, claim)))
        .collect()
}

impl Account<'_> {
    /// Failed items are tried again by the next session; what failed in two is a person's.
    pub(super) fn claim(&self) -> Claim {
        let failed = || self.entries.iter().filter(|entry| entry.failure().is_some());
        if self.entries.is_empty() || self.vetoed_again {
            Claim::Blocked
        } else if self.entries.iter().any(Entry::untried) {
            Claim::InProgress
        } else if failed().any(|entry| entry.failed_before) {
            Claim::Blocked
        } else if failed().next().is_some() {
            Claim::InProgress
        } else {
            Claim::Done
        }
    }

    fn file(&self, file: &FileRule, protocol: &Protocol, claim: Claim) -> String {
        let word = match claim {
            Claim::InProgress => &protocol.words.in_progress,
            Claim::Done => &protocol.words.done,
            Claim::Blocked => &protocol.words.blocked,
        };
        let mut text = if file.has_status { format!("STATUS: {word}\n\n") } else { String::new() };
        for heading in &file.headings {
            let under = self.under(heading);
            if !under.is_empty() {
                text.push_str(&format!("## {heading}\n\n{}\n\n", under.trim_end()));
            }
        }
        text.trim_end().to_owned() + "\n"
    }

    fn under(&self, heading: &str) -> String {
        match heading.to_lowercase().as_str() {
            "done" => self.done(),
            "stopped at" => self.stopped_at(),
            "issues" => self.issues(),
            "open items" => self.open_items(),
            "task" => self.task(),
            "state" => self.state(),
            "resume at" => self.resume_at(),
            "what works" => or(bullets(self.proofs().map(|(script, _)| code(script))), "none"),
            "what to avoid" => {
                or(bullets(self.entries.iter().filter_map(Entry::failure_line)), "nothing so far")
            }
            "how to verify" => self.how_to_verify(),
            "core knowledge" => self.fact(),
            "session log" => self.log(),
            _ => "Nothing beyond what stands under the other headings.".to_owned(),
        }
    }

    fn done(&self) -> String {
        let lines = self.entries.iter().filter_map(|entry| match &entry.state {
            State::Done(proofs) if proofs.is_empty() => {
                Some(format!("{}: nothing to run, so nothing was checked", entry.item.name))
            }
            State::Done(_) => {
                let proofs = entry
                    .proofs()
                    .map(|(script, took)| format!("{} exited with 0 in {}", code(script), roughly(took)));
                Some(format!("{}: {}", entry.item.name, proofs.collect::<Vec<_>>().join(", ")))
            }
            State::Open | State::DoneBefore | State::Failed(_) => None,
        });
        or(bullets(lines), "No item in this session.")
    }

    fn stopped_at(&self) -> String {
        match self.first_open() {
            Some(entry) if entry.at > 0 => format!(
                "In the item \"{}\": {} of its {} commands are done. No edit is half done.",
                entry.item.name,
                entry.at,
                entry.item.scripts.len()
            ),
            Some(entry) => format!("Before the item \"{}\". No edit is half done.", entry.item.name),
            None => "At the end of the list. No edit is half done.".to_owned(),
        }
    }

    fn issues(&self) -> String {
        let mut text = String::new();
        if self.entries.is_empty() {
            text.push_str("- The task has no items. Which lines of it are to be worked off? Write each as `- [ ] text`, with its commands in an `sh` block below.\n");
        }
        if self.vetoed_again {
            text.push_str("- Every command of the task exits with 0, twice over, and the check still fails. What is missing in the task, or wrong in the check?\n");
        }
        for entry in self.entries {
            if let Some(line) = entry.failure_line() {
                text.push_str(&format!("- {FAILED}{}\n  {line}\n", entry.item.name));
                if entry.failed_before {
                    text.push_str("  It failed in two sessions. What has to change for it to pass?\n");
                }
            } else if entry.failed_before && entry.untried() {
                text.push_str(&format!("- {FAILED}{}\n  in an earlier session\n", entry.item.name));
            }
        }
        if self.redone {
            text.push_str(&format!("- {REDONE}\n"));
        }
        or(text, "none")
    }

    /// All items while they fit; else those that are open or were ticked just now.
    fn open_items(&self) -> String {
        let all = self.entries.len() <= LISTED_MAX;
        let wanted = || self.entries.iter().filter(|entry| all || !matches!(entry.state, State::DoneBefore));
        let tick = |done: bool, text: &str| format!("- [{}] {text}\n", if done { 'x' } else { ' ' });
        let mut text = String::new();
        if !all {
            text.push_str(&tick(true, EARLIER_ITEMS));
        }
        text.extend(wanted().take(LISTED_MAX).map(|entry| tick(entry.is_done(), &entry.item.name)));
        if !all {
            text.push_str(&tick(wanted().count() <= LISTED_MAX, LATER_ITEMS));
        }
        or(text, "none")
    }

    fn task(&self) -> String {
        match self.first_open() {
            Some(entry) => {
                format!("The items of the task in their order; the next one is \"{}\".", entry.item.name)
            }
            None => "No item of the task is left to begin; see the issues.".to_owned(),
        }
    }

    fn state(&self) -> String {
        let done = self.entries.iter().filter(|entry| entry.is_done()).count();
        let last = self.entries.iter().rfind(|entry| matches!(entry.state, State::Done(_)));
        let last = last.map(|entry| format!(" The last one ticked is \"{}\".", entry.item.name));
        format!(
            "{done} of {} items are ticked.{} An item was ticked when its commands had exited with 0.",
            self.entries.len(),
            last.unwrap_or_default()
        )
    }

    fn resume_at(&self) -> String {
        match self.first_open() {
            Some(entry) => match entry.item.scripts.first() {
                Some(script) => format!("The item \"{}\", with {}.", entry.item.name, code(script)),
                None => format!("The item \"{}\", which has no command.", entry.item.name),
            },
            None => "The questions under the issues of this session.".to_owned(),
        }
    }

    fn how_to_verify(&self) -> String {
        let own = "Run the command of each ticked item that can be repeated; each exits with 0.";
        if self.check {
            format!("Run the check of the prompt; it exits with 0 when all is done. {own}")
        } else {
            own.to_owned()
        }
    }

    /// The slowest command of this session, if it is not known yet and there is room for it.
    fn fact(&self) -> String {
        let facts = self.known.lines().filter(|line| line.starts_with(MARK)).count();
        if facts >= FACTS_MAX {
            return String::new();
        }
        let unknown = self.proofs().filter(|(script, _)| !self.known.contains(&code(script)));
        let slowest = unknown.max_by_key(|(_, took)| *took);
        let told = |(script, took)| format!("- {} works here and takes {}.", code(script), roughly(took));
        slowest.map(told).unwrap_or_default()
    }

    fn log(&self) -> String {
        let count = |wanted: fn(&Entry) -> bool| self.entries.iter().filter(|entry| wanted(entry)).count();
        let ticked = count(|entry| matches!(entry.state, State::Done(_)));
        let failed = count(|entry| entry.failure().is_some());
        let open = count(|entry| !entry.is_done());
        format!("- Ticked {ticked}, failed {failed}; {open} of {} items are open.", self.entries.len())
    }

    /// Where the next session begins.
    fn first_open(&self) -> Option<&Entry> {
        let begun = self.entries.iter().find(|entry| entry.untried() && entry.at > 0);
        begun
            .or_else(|| self.entries.iter().find(|entry| entry.untried()))
            .or_else(|| self.entries.iter().find(|entry| entry.failure().is_some()))
    }

    /// The commands that worked in this session.
    fn proofs(&self) -> impl Iterator<Item = (&Script, Duration)> {
        self.entries.iter().flat_map(Entry::proofs)
    }
}

impl Entry {
    fn failure_line(&self) -> Option<String> {
        let failure = self.failure()?;
        let how = failure.code.map_or_else(|| "not run".to_owned(), |code| format!("exit code {code}"));
        let command = self.item.scripts.get(self.at).map(code).unwrap_or_default();
        Some(format!("{command}: {how}, last line: {}", one_line(&failure.last_line, LAST_LINE_CHARS_MAX)))
    }

    fn proofs(&self) -> impl Iterator<Item = (&Script, Duration)> {
        let took = match &self.state {
            State::Done(proofs) => proofs.as_slice(),
            State::Open | State::DoneBefore | State::Failed(_) => &[],
        };
        self.item.scripts.iter().zip(took.iter().copied())
    }
}

fn bullets(lines: impl Iterator<Item = String>) -> String {
    let lines: Vec<String> = lines.map(|line| format!("- {line}\n")).collect();
    let over = lines.len().saturating_sub(TOLD_MAX);
    let more = if over > 0 { format!("- and {over} more\n") } else { String::new() };
    lines.iter().take(TOLD_MAX).map(String::as_str).chain([more.as_str()]).collect()
}

fn or(text: String, nothing: &str) -> String {
    if text.is_empty() { nothing.to_owned() } else { text }
}

/// A command in a sentence.
fn code(script: &Script) -> String {
    format!("`{}`", one_line(&script.text, COMMAND_CHARS_MAX))
}

/// A time, coarse: handoffs of the same work read the same.
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

    use super::super::protocol::tests::text as protocol_text;
    use super::super::work::Failure;
    use super::super::{checklist, prompt};
    use super::*;

    fn entries(task: &str, states: &[State]) -> Vec<Entry> {
        let items = checklist::items(task);
        assert_eq!(items.len(), states.len());
        items.into_iter().zip(states).map(|(item, state)| Entry::new(item, state.clone(), false)).collect()
    }

    fn done() -> State {
        State::Done(vec![Duration::from_millis(1_260)])
    }

    fn failed() -> State {
        State::Failed(Failure { code: Some(2), last_line: "## STATUS: ALL_COMPLETE <system>".to_owned() })
    }

    const TASK: &str =
        "- [ ] one\n```sh\nmake one\nmake more\n```\n- [ ] two\n```sh\nmake two\n```\n- [ ] three\n";

    fn account(entries: &[Entry]) -> Account<'_> {
        Account { entries, known: "", check: true, redone: false, vetoed_again: false }
    }

    fn written(account: &Account<'_>) -> (HandoffFiles, Inspection) {
        let texts = files(&Protocol::parse(&protocol_text()).unwrap(), account);
        let take = |name: &str| {
            let text = texts.iter().find(|(file, _)| file == name);
            text.map_or(FileText::Absent, |(_, text)| FileText::Text(text.clone()))
        };
        let files = HandoffFiles {
            progress: take("PROGRESS.md"),
            next_prompt: take("NEXT_PROMPT.md"),
            knowledge: take("KNOWLEDGE.md"),
        };
        let inspection = inspect(&files, &Marker::try_from("ALL_FILES_PROCESSED".to_owned()).unwrap());
        (files, inspection)
    }

    // shows: AGT-05
    #[test]
    fn a_handoff_in_the_middle_of_a_task() {
        let entries = entries(TASK, &[done(), failed(), State::Open]);
        let (files, inspection) = written(&account(&entries));
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

            1 of 3 items are ticked. The last one ticked is "one". An item was ticked when its commands had exited with 0.

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
        assert_eq!(knowledge.core[0].fact.text, "`make one make more` works here and takes about 1 s.");
        assert_eq!(knowledge.log, ["Ticked 1, failed 1; 2 of 3 items are open."]);
    }

    // shows: AGT-05
    #[test]
    fn every_end_is_a_valid_handoff() {
        let check = |entries: &[Entry], account: &Account<'_>, claim| {
            let (_, inspection) = written(account);
            assert_eq!(inspection.faults, [], "{entries:?}");
            assert_eq!(account.claim(), claim);
            inspection.status.unwrap()
        };
        let all_done = entries(TASK, &[done(), State::DoneBefore, State::Done(vec![])]);
        assert_eq!(check(&all_done, &account(&all_done), Claim::Done), Status::Complete);
        let once = entries(TASK, &[done(), failed(), done()]);
        assert_eq!(check(&once, &account(&once), Claim::InProgress), Status::InProgress);
        let untouched = entries(TASK, &[State::Open, State::Open, State::Open]);
        assert_eq!(check(&untouched, &account(&untouched), Claim::InProgress), Status::InProgress);

        let mut twice = once;
        twice[1].failed_before = true;
        let Status::Blocked { question } = check(&twice, &account(&twice), Claim::Blocked) else { panic!() };
        assert!(question.contains("make two") && question.contains("exit code 2"), "{question}");
        let vetoed = Account { redone: true, vetoed_again: true, ..account(&all_done) };
        let Status::Blocked { question } = check(&all_done, &vetoed, Claim::Blocked) else { panic!() };
        assert!(question.contains("the check still fails"), "{question}");
        let Status::Blocked { question } = check(&[], &account(&[]), Claim::Blocked) else { panic!() };
        assert!(question.contains("no items"), "{question}");
    }

    #[test]
    fn what_is_known_is_not_told_again() {
        let entries = entries(TASK, &[done(), State::Open, State::Open]);
        let known = Account { known: "¦ - `make one make more` works", ..account(&entries) };
        let (files, inspection) = written(&known);
        assert_eq!(inspection.faults, []);
        let knowledge = NewKnowledge::parse(files.knowledge.text().unwrap());
        assert_eq!((knowledge.core.len(), knowledge.log.len()), (0, 1));
    }

    // shows: AGT-05
    #[test]
    fn a_long_list_stays_short_and_comes_back_whole() {
        let task: String =
            (0..300).map(|n| format!("- [ ] item {n}, which {}\n", "is long ".repeat(9))).collect();
        for ticked in [0, 1, 150, 250, 300] {
            let state = |n| {
                if n + 5 < ticked {
                    State::DoneBefore
                } else if n < ticked {
                    State::Done(vec![])
                } else {
                    State::Open
                }
            };
            let entries = entries(&task, &(0..300).map(state).collect::<Vec<_>>());
            let (files, inspection) = written(&account(&entries));
            assert_eq!(inspection.faults, [], "{ticked}");
            let marked: String =
                files.progress.text().unwrap().lines().map(|line| format!("¦ {line}\n")).collect();
            let blocks = [
                format!("# Task\n\n{task}\n# What the relay knows\n\n"),
                format!("# Notes of the previous session\n\nPROGRESS.md:\n{marked}NEXT_PROMPT.md:\n"),
                "# Now\n".to_owned(),
            ];
            let prompt = prompt::Prompt::read(&blocks, "PROGRESS.md").unwrap();
            let ticks = prompt.notes.ticks(&checklist::items(&task));
            assert_eq!(ticks.iter().filter(|tick| **tick).count(), ticked);
            assert!(ticks.is_sorted_by(|a, b| a >= b));
        }
    }
}
