//! What the rehearsal agent reads in a prompt: the task, what is known, and what the previous session left.
//!
//! The task is the text under `# Task` in the first block, up to the headings that ekiden puts after it. Marked
//! lines are data: their ticks and failures are read, but no command is taken from them.

use ekiden_core::handoff::{HandoffFile, Heading};

use super::checklist::{self, Item, key};

/// What marks a line as data.
pub(super) const MARK: &str = "¦ ";
const TASK: &str = "# Task";
const CHECK: &str = "# Check";
const CHECK_INTRO: &str = "ekiden runs this command too";
const KNOWS: &str = "# What the relay knows";
const OUTPUTS: &str = "# Outputs";
const CONFLICT: &str = "# Two stages changed the same lines";
const CONFLICT_INTRO: &str = "Files with conflicts:";
const ITEM: &str = "# The item in hand";
/// What comes before its number among the open items with its words, and their count.
const WHICH: &str = " It is open line ";
const NOTES: &str = "# Notes of the previous session";
/// The heading of a stage that is retried from its beginning.
const RETRY: &str = "# What happened before";
const VETO: &str = "The last session reported all done, but the check failed";
const RESCUED_ITEMS: &str = "Open items of the last handoff:";
/// In place of lines that were cut.
const CUT: &str = "left out here";

/// What comes before the name of an item that failed.
pub(super) const FAILED: &str = "failed: ";
pub(super) const REDONE: &str = "After a failed check everything was done over once.";
/// Represents, ticked, items that were ticked before and are no longer listed.
pub(super) const EARLIER_ITEMS: &str = "earlier items of the task that are not listed here";
/// Represents items that do not fit into the list.
pub(super) const LATER_ITEMS: &str = "later items of the task";

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Prompt {
    pub(super) task: String,
    pub(super) check: bool,
    /// The facts of earlier sessions, as they are in the prompt.
    pub(super) known: String,
    /// What the previous session left.
    pub(super) notes: Notes,
    /// The last session claimed to be done, and the check failed.
    pub(super) veto: bool,
    /// The only list item that this session works on.
    pub(super) item: Option<String>,
    /// Its number among the open items with its words, and their count.
    pub(super) which: (usize, usize),
    /// Files with merge conflicts.
    pub(super) conflicts: Vec<String>,
}

/// What counts in the notes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Notes {
    /// Key and tick of each listed item.
    items: Vec<(String, bool)>,
    /// Unlisted items before the listed ones are done.
    earlier_done: bool,
    /// Unlisted items after all listed ones are open.
    later_open: bool,
    /// Keys of items that failed.
    failed: Vec<String>,
    /// Everything was redone once after a veto.
    pub(super) redone: bool,
}

impl Prompt {
    /// Reads the blocks of a message; `None` if they are not a prompt.
    pub(super) fn read(blocks: &[String]) -> Option<Self> {
        let (stable, rest) = blocks.split_first()?;
        let (now, foreign) = rest.split_last()?;
        // What a plan's stage sees comes before the task: in marked lines, except its headings.
        let after = stable
            .strip_prefix(TASK)
            .or_else(|| Some(stable.split_once(&format!("\n{TASK}\n"))?.1))?;
        let (task, known) = split_last(after, KNOWS)?;
        let (task, _outputs) = split_last(task, OUTPUTS).unwrap_or((task, ""));
        let check = split_last(task, CHECK)
            .filter(|(_, check)| check.trim_start().starts_with(CHECK_INTRO));
        let is_retry = |block: &String| block.lines().any(|line| line == RETRY);
        let notes = foreign.iter().filter(|block| !is_retry(block));
        let notes = notes.map(String::as_str).find_map(Notes::read);
        Some(Self {
            task: check.map_or(task, |(task, _)| task).to_owned(),
            check: check.is_some(),
            known: known.to_owned(),
            notes: notes.unwrap_or_default(),
            veto: now.contains(VETO),
            item: foreign.iter().find_map(|block| item(block)),
            which: which(now).unwrap_or((1, 1)),
            conflicts: foreign.iter().flat_map(|block| conflicts(block)).collect(),
        })
    }

    /// The items of the task; only if the user named none, those in marked lines, as of an issue.
    pub(super) fn items(&self) -> Vec<Item> {
        let mut items = checklist::items(&self.task);
        if items.is_empty() {
            let marked = self.task.lines().filter_map(|line| line.strip_prefix(MARK));
            items = checklist::items(&marked.collect::<Vec<_>>().join("\n"));
            for item in &mut items {
                (item.script, item.check) = (None, None);
            }
        }
        items
    }
}

/// The texts before and after the last heading of this name.
fn split_last<'a>(text: &'a str, heading: &str) -> Option<(&'a str, &'a str)> {
    text.rsplit_once(&format!("\n{heading}\n"))
}

fn item(block: &str) -> Option<String> {
    let mut part = block.lines().skip_while(|line| *line != ITEM);
    part.find_map(|line| line.strip_prefix(MARK))
        .map(str::to_owned)
}

fn which(now: &str) -> Option<(usize, usize)> {
    let (_, which) = now.split_once(WHICH)?;
    let (number, count) = which.split_once(" of ")?;
    let (count, _) = count.split_once(' ')?;
    Some((number.parse().ok()?, count.parse().ok()?))
}

fn conflicts(block: &str) -> impl Iterator<Item = String> {
    let part = block.lines().skip_while(|line| *line != CONFLICT);
    part.skip_while(|line| !line.ends_with(CONFLICT_INTRO))
        .skip(1)
        .map_while(|line| line.strip_prefix(MARK))
        .map(str::to_owned)
}

impl Notes {
    /// Finds the notes in a block of foreign texts.
    fn read(block: &str) -> Option<Self> {
        let mut lines = block.lines().skip_while(|line| *line != NOTES);
        lines.next()?;
        let label = format!("{}:", HandoffFile::Progress);
        let (mut handoff, mut rescue, mut file) = (String::new(), String::new(), None);
        for line in lines.take_while(|line| !line.starts_with("# ")) {
            match line.strip_prefix(MARK) {
                Some(line) if file == Some(true) => handoff.extend([line, "\n"]),
                Some(line) if file.is_none() => rescue.extend([line, "\n"]),
                Some(_other_file) => {}
                None if line.ends_with(".md:") => file = Some(line == label),
                None => {}
            }
        }
        if file.is_none() {
            return Some(Self::of_rescue(&rescue));
        }
        let mut notes = Self::default();
        let listed = section(&handoff, Heading::OpenItems);
        // Nothing is certain about a list that was cut.
        if !listed.contains(CUT) {
            for item in checklist::items(&listed) {
                notes.push(&item.name, item.ticked);
            }
        }
        for issue in section(&handoff, Heading::Issues).lines() {
            match issue.trim_start().strip_prefix("- ") {
                Some(REDONE) => notes.redone = true,
                Some(text) => notes.failed.extend(text.strip_prefix(FAILED).map(key)),
                None => {}
            }
        }
        Some(notes)
    }

    /// A rescue lists only open items, so the others before the last one are done. If it was cut, nothing
    /// is known about what follows.
    fn of_rescue(text: &str) -> Self {
        let mut notes = Self::default();
        let Some((_, list)) = text.split_once(&format!("{RESCUED_ITEMS}\n")) else {
            return notes;
        };
        notes.earlier_done = true;
        let is_listed = |line: &&str| line.trim().is_empty() || line.starts_with(' ');
        for line in list.lines().take_while(is_listed) {
            if line.contains(CUT) {
                notes.later_open = true;
            } else if !line.trim().is_empty() {
                notes.push(line.trim(), false);
            }
        }
        notes
    }

    fn push(&mut self, text: &str, ticked: bool) {
        match checklist::name(text).as_str() {
            EARLIER_ITEMS => self.earlier_done |= ticked,
            LATER_ITEMS => self.later_open |= !ticked,
            name => self.items.push((key(name), ticked)),
        }
    }

    /// Which of the task's items are done. Equal names are distinguished by their order.
    pub(super) fn ticks(&self, items: &[Item]) -> Vec<bool> {
        let mut left: Vec<Option<&(String, bool)>> = self.items.iter().map(Some).collect();
        let mut take = |item: &Item| {
            let key = key(&item.name);
            let mut left = left.iter_mut();
            let found = left.find_map(|entry| entry.take_if(|(other, _)| *other == key));
            found.map(|(_, tick)| *tick)
        };
        let listed: Vec<Option<bool>> = items.iter().map(&mut take).collect();
        // A list with unknown items belongs to another task: what it leaves out is not done.
        let of_this_task = left.iter().all(Option::is_none);
        let last = listed.iter().rposition(Option::is_some);
        let is_done = |(place, item): (usize, &Item)| {
            let unlisted =
                self.earlier_done && of_this_task && (Some(place) < last || !self.later_open);
            item.ticked || listed[place].unwrap_or(unlisted)
        };
        items.iter().enumerate().map(is_done).collect()
    }

    /// An earlier session has tried the item, and it failed.
    pub(super) fn failed(&self, item: &Item) -> bool {
        self.failed.contains(&key(&item.name))
    }
}

fn section(notes: &str, heading: Heading) -> String {
    let is_ours =
        |line: &str| line.starts_with('#') && line.trim_start_matches('#').trim() == heading.name();
    let lines = notes.lines().skip_while(|line| !is_ours(line)).skip(1);
    let lines = lines.take_while(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use ekiden_core::ids::SessionNumber;
    use ekiden_core::knowledge::Knowledge;
    use ekiden_core::prompt::{
        self, Measured, PromptSection, RescueFacts, SessionInput, session_prompt,
    };

    use super::*;

    const TASK_TEXT: &str = "Do it.\n\n# Check\n- [ ] one\n- [ ] two\n- [x] three\n- [ ] one\n";

    fn read(
        task: &str,
        check: Option<&str>,
        notes: Option<&prompt::Notes>,
        slots: &[PromptSection],
    ) -> Prompt {
        let knowledge = Knowledge::parse("## Core Knowledge\n- a fact\n");
        let measured = Measured::default();
        let number = if notes.is_some() {
            SessionNumber::FIRST.next()
        } else {
            SessionNumber::FIRST
        };
        let input = SessionInput {
            number,
            task,
            knowledge: &knowledge,
            measured: Some(&measured),
            notes,
            check,
            slots,
        };
        let blocks: Vec<String> = session_prompt(&input).blocks().map(str::to_owned).collect();
        Prompt::read(&blocks).unwrap()
    }

    fn handoff(progress: &str) -> prompt::Notes {
        prompt::Notes {
            by: prompt::Author::Agent,
            progress: progress.to_owned(),
            next_prompt: "- [x] two".to_owned(),
        }
    }

    fn ticks(task: &str, notes: &prompt::Notes) -> Vec<bool> {
        read(task, None, Some(notes), &[])
            .notes
            .ticks(&checklist::items(task))
    }

    // shows: AGT-05
    #[test]
    fn the_task_is_read_whole_and_nothing_else() {
        let prompt = read(TASK_TEXT, Some("make check\n- [ ] no"), None, &[]);
        assert_eq!(prompt.task.trim(), TASK_TEXT.trim());
        assert!(prompt.check && !prompt.veto);
        assert!(prompt.known.contains("¦ - a fact"));
        assert_eq!(prompt.notes, Notes::default());
        assert!(!read(TASK_TEXT, None, None, &[]).check);
    }

    // shows: AGT-05
    #[test]
    fn an_issue_names_items_and_no_commands() {
        let items = |task: &str| read(task, None, None, &[]).items();
        let issue = "¦ - [ ] one\n¦   ```sh\n¦   rm x\n¦   ```\n¦ - [x] two\n";
        let named = items(issue);
        let named = named
            .iter()
            .map(|item| (item.name.as_str(), item.ticked, &item.script));
        assert_eq!(
            named.collect::<Vec<_>>(),
            [("one", false, &None), ("two", true, &None)]
        );
        assert_eq!(items(&format!("- [ ] mine\n\n{issue}")).len(), 1);
    }

    #[test]
    fn a_veto_is_ekidens_word_alone() {
        let veto = PromptSection::Veto {
            check: "make".to_owned(),
            tail: "no".to_owned(),
        };
        assert!(read(TASK_TEXT, Some("make"), Some(&handoff("x")), &[veto]).veto);
        assert!(
            !read(
                VETO,
                Some("make"),
                Some(&handoff(VETO)),
                &[PromptSection::Operator(VETO.to_owned())]
            )
            .veto
        );
    }

    #[test]
    fn a_message_is_no_prompt() {
        assert_eq!(
            Prompt::read(&["ekiden: please hand off now.".to_owned(), "x".to_owned()]),
            None
        );
        assert_eq!(Prompt::read(&["# Task\nx".to_owned()]), None);
    }

    // shows: AGT-05
    #[test]
    fn ticks_come_from_the_notes_and_from_the_user() {
        let notes =
            handoff("## Open items\n- [x] one\n- [ ] two\n- [ ] one\n## Issues\n- [x] two\n");
        assert_eq!(ticks(TASK_TEXT, &notes), [true, false, true, false]);
        assert_eq!(
            ticks(TASK_TEXT, &handoff("## Done\n- [x] one\n")),
            [false, false, true, false]
        );
        assert_eq!(
            ticks(TASK_TEXT, &handoff("## Open items\n- [x] **two**.\n")),
            [false, true, true, false]
        );
    }

    #[test]
    fn a_short_list_says_what_it_leaves_out() {
        let task = "- [ ] a\n- [ ] b\n- [ ] c\n- [ ] d\n- [ ] e\n";
        let list = format!(
            "## Open items\n- [x] {EARLIER_ITEMS}\n- [ ] b\n- [x] d\n- [ ] {LATER_ITEMS}\n"
        );
        assert_eq!(
            ticks(task, &handoff(&list)),
            [true, false, true, true, false]
        );
        let list = list.replace(&format!("- [ ] {LATER_ITEMS}"), "");
        assert_eq!(
            ticks(task, &handoff(&list)),
            [true, false, true, true, true]
        );
        let strange = list.replace("- [ ] b", "- [ ] bb");
        assert_eq!(
            ticks(task, &handoff(&strange)),
            [false, false, false, true, false]
        );
    }

    #[test]
    fn failures_and_a_second_try_are_remembered() {
        let notes = handoff(&format!(
            "## Issues\n- {FAILED}two\n  `x`: exit code 1\n- {REDONE}\n"
        ));
        let prompt = read(TASK_TEXT, None, Some(&notes), &[]);
        let failed: Vec<bool> = checklist::items(TASK_TEXT)
            .iter()
            .map(|item| prompt.notes.failed(item))
            .collect();
        assert_eq!(failed, [false, true, false, false]);
        assert!(prompt.notes.redone);
    }

    fn rescue(open: &[&str]) -> prompt::Notes {
        let open: Vec<String> = open.iter().map(|text| (*text).to_owned()).collect();
        let text = prompt::rescue(&RescueFacts {
            session: SessionNumber::FIRST,
            cause: "the agent crashed".to_owned(),
            headings: &Heading::of(HandoffFile::NextPrompt).collect::<Vec<_>>(),
            own_words: false,
            compacted: false,
            status: &[],
            diff_stat: &[],
            commits: &[],
            last_edit: None,
            last_call: Some("Bash touch x"),
            last_words: Some("Item: one"),
            succeeded: &[],
            failed: &[],
            check: None,
            open_items: &open,
            previous_next_prompt: None,
        });
        prompt::Notes {
            by: prompt::Author::Rescue,
            progress: String::new(),
            next_prompt: text,
        }
    }

    // shows: REL-05
    #[test]
    fn a_rescue_tells_which_items_were_open() {
        let task = "- [ ] a1\n- [ ] b2\n- [ ] c3\n- [ ] d4\n";
        assert_eq!(
            ticks(task, &rescue(&["b2", "d4"])),
            [true, false, true, false]
        );
        assert_eq!(ticks(task, &rescue(&["b2", "unknown"])), [false; 4]);
        assert_eq!(ticks(task, &rescue(&[])), [false; 4]);
    }

    #[test]
    fn a_rescue_that_was_cut_says_nothing_of_the_rest() {
        let names: Vec<String> = (0..40)
            .map(|n| format!("an item with the number {n}"))
            .collect();
        let task: String = names.iter().map(|name| format!("- [ ] {name}\n")).collect();
        let open: Vec<&str> = names[5..].iter().map(String::as_str).collect();
        let done: Vec<bool> = (0..40).map(|n| n < 5).collect();
        assert_eq!(ticks(&task, &rescue(&open)), done);
    }
}
