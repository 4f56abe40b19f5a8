//! What a prompt tells: the task, what is known, what the session before left, and a veto.
//!
//! The task is what stands under `# Task` in the first block, up to the headings that ekiden puts
//! behind it. Everything in marked lines is data: of it only ticks and failures count, and never a
//! command.

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
const NOTES: &str = "# Notes of the previous session";
const VETO: &str = "The last session reported all done, but the check failed";
const RESCUED_ITEMS: &str = "Open items of the last handoff:";
/// In place of lines that were cut.
const CUT: &str = "left out here";

/// A heading of notes under which items are listed.
pub(super) const OPEN_ITEMS: &str = "Open items";
/// A heading of notes under which failures are told.
pub(super) const ISSUES: &str = "Issues";
/// What stands before the name of an item that failed.
pub(super) const FAILED: &str = "failed: ";
/// That a veto was answered once already.
pub(super) const REDONE: &str = "After a failed check everything was done over once.";
/// Stands, ticked, for items that were ticked before and are not listed any more.
pub(super) const EARLIER_ITEMS: &str = "earlier items of the task that are not listed here";
/// Stands for items that do not fit into the list.
pub(super) const LATER_ITEMS: &str = "later items of the task";

/// A session's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Prompt {
    /// The user's words.
    pub(super) task: String,
    /// There is a check.
    pub(super) check: bool,
    /// The facts of earlier sessions, as they stand in the prompt.
    pub(super) known: String,
    /// What the session before left.
    pub(super) notes: Notes,
    /// The last session claimed to be done, and the check said no.
    pub(super) veto: bool,
    /// Files with git's marks of a conflict.
    pub(super) conflicts: Vec<String>,
}

/// What counts of the notes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Notes {
    list: Option<List>,
    /// Keys of items that failed.
    failed: Vec<String>,
    /// Everything was done over once after a veto.
    pub(super) redone: bool,
}

/// A list of items in notes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct List {
    /// Key and tick of each.
    entries: Vec<(String, bool)>,
    /// Items that are not listed and stand before listed ones are done.
    earlier_done: bool,
    /// Items that are not listed and stand behind all listed ones are open.
    later_open: bool,
}

impl Prompt {
    /// Reads the blocks of a message; `None` if they are no prompt. `status_file` is the file of a
    /// handoff that lists the items.
    pub(super) fn read(blocks: &[String], status_file: &str) -> Option<Self> {
        let (stable, rest) = blocks.split_first()?;
        let (now, foreign) = rest.split_last()?;
        // Before the task stands what a plan's stage is shown: in marked lines, but for its headings.
        let after =
            stable.strip_prefix(TASK).or_else(|| Some(stable.split_once(&format!("\n{TASK}\n"))?.1))?;
        let (task, known) = after.rsplit_once(&format!("\n{KNOWS}\n"))?;
        let (task, _outputs) = task.rsplit_once(&format!("\n{OUTPUTS}\n")).unwrap_or((task, ""));
        let (task, check) = without_check(task);
        let notes = foreign.iter().find_map(|block| Notes::read(block, status_file));
        Some(Self {
            task: task.to_owned(),
            check,
            known: known.to_owned(),
            notes: notes.unwrap_or_default(),
            veto: now.contains(VETO),
            conflicts: foreign.iter().flat_map(|block| conflicts(block)).collect(),
        })
    }
}

/// The files that are named as having conflicts.
fn conflicts(block: &str) -> Vec<String> {
    let part = block.lines().skip_while(|line| *line != CONFLICT);
    let files = part.skip_while(|line| !line.ends_with(CONFLICT_INTRO)).skip(1);
    files.map_while(|line| line.strip_prefix(MARK)).map(str::to_owned).collect()
}

/// The task without the check behind it, and whether there was one.
fn without_check(task: &str) -> (&str, bool) {
    match task.rsplit_once(&format!("\n{CHECK}\n")) {
        Some((task, check)) if check.trim_start().starts_with(CHECK_INTRO) => (task, true),
        Some(_) | None => (task, false),
    }
}

impl Notes {
    /// Finds the notes in a block of foreign texts.
    fn read(block: &str, status_file: &str) -> Option<Self> {
        let mut lines = block.lines().skip_while(|line| *line != NOTES);
        lines.next()?;
        let label = format!("{status_file}:");
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
        let list = if file.is_some() { listed(&handoff) } else { rescued(&rescue) };
        let issues = || section(&handoff, ISSUES).filter_map(|line| line.trim_start().strip_prefix("- "));
        Some(Self {
            list,
            failed: issues().filter_map(|line| line.strip_prefix(FAILED)).map(key).collect(),
            redone: issues().any(|line| line == REDONE),
        })
    }

    /// Which of the task's items are done.
    pub(super) fn ticks(&self, items: &[Item]) -> Vec<bool> {
        let ticks = match &self.list {
            Some(list) => list.ticks(items),
            None => vec![false; items.len()],
        };
        ticks.into_iter().zip(items).map(|(done, item)| done || item.ticked).collect()
    }

    /// An earlier session tried the item in vain.
    pub(super) fn failed(&self, item: &Item) -> bool {
        self.failed.contains(&key(&item.name))
    }
}

impl List {
    /// Equal names are told apart by their order.
    fn ticks(&self, items: &[Item]) -> Vec<bool> {
        let mut left: Vec<Option<&(String, bool)>> = self.entries.iter().map(Some).collect();
        let mut take = |name: &str| {
            let key = key(name);
            left.iter_mut().find_map(|entry| entry.take_if(|(other, _)| *other == key)).map(|(_, tick)| *tick)
        };
        let listed: Vec<Option<bool>> = items.iter().map(|item| take(&item.name)).collect();
        // A list with strange items is that of another task: what it does not say is not done.
        let of_this_task = left.iter().all(Option::is_none);
        let last = listed.iter().rposition(Option::is_some);
        let unlisted =
            |place: usize| self.earlier_done && of_this_task && (Some(place) < last || !self.later_open);
        listed.iter().enumerate().map(|(place, tick)| tick.unwrap_or_else(|| unlisted(place))).collect()
    }

    fn push(&mut self, text: &str, ticked: bool) {
        match checklist::name(text).as_str() {
            EARLIER_ITEMS => self.earlier_done |= ticked,
            LATER_ITEMS => self.later_open |= !ticked,
            name => self.entries.push((key(name), ticked)),
        }
    }
}

/// The list of a handoff. An item that is not in it is open, unless the list says otherwise.
fn listed(notes: &str) -> Option<List> {
    let mut list = List::default();
    for line in section(notes, OPEN_ITEMS) {
        if let Some((ticked, text)) = checklist::item_line(line) {
            list.push(text, ticked);
        } else if line.contains(CUT) {
            return None;
        }
    }
    (!list.entries.is_empty() || list.earlier_done).then_some(list)
}

/// The open items in a rescue handoff. It lists no others, so those before the last are done; where
/// it was cut, nothing is known of what follows.
fn rescued(notes: &str) -> Option<List> {
    let mut lines = notes.lines().skip_while(|line| *line != RESCUED_ITEMS);
    lines.next()?;
    let mut list = List { earlier_done: true, ..List::default() };
    for line in lines.take_while(|line| line.trim().is_empty() || line.starts_with(' ')) {
        if line.contains(CUT) {
            list.later_open = true;
        } else if !line.trim().is_empty() {
            list.push(line.trim(), false);
        }
    }
    Some(list)
}

/// The lines under a heading.
fn section<'a>(notes: &'a str, heading: &'a str) -> impl Iterator<Item = &'a str> {
    let is_heading = |line: &&str| line.starts_with('#');
    let is_ours = move |line: &&str| line.trim_start_matches('#').trim() == heading && line.starts_with('#');
    notes.lines().skip_while(move |line| !is_ours(line)).skip(1).take_while(move |line| !is_heading(line))
}

#[cfg(test)]
mod tests {
    use ekiden_core::handoff::OpenItems;
    use ekiden_core::ids::SessionNumber;
    use ekiden_core::knowledge::Knowledge;
    use ekiden_core::prompt::{self, Measured, RescueFacts, SessionInput, Slot, session_prompt};

    use super::*;

    const TASK_TEXT: &str = "Do it.\n\n# Check\n- [ ] one\n- [ ] two\n- [x] three\n- [ ] one\n";

    fn read(task: &str, check: Option<&str>, notes: Option<&prompt::Notes>, slots: &[Slot]) -> Prompt {
        let knowledge = Knowledge::parse("## Core Knowledge\n- a fact\n");
        let measured = Measured::default();
        let number = if notes.is_some() { SessionNumber::FIRST.next() } else { SessionNumber::FIRST };
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
        Prompt::read(&blocks, "PROGRESS.md").unwrap()
    }

    fn handoff(progress: &str) -> prompt::Notes {
        prompt::Notes::Handoff { progress: progress.to_owned(), next_prompt: "- [x] two".to_owned() }
    }

    fn ticks(task: &str, notes: &prompt::Notes) -> Vec<bool> {
        read(task, None, Some(notes), &[]).notes.ticks(&checklist::items(task))
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

    #[test]
    fn a_veto_is_ekidens_word_alone() {
        let veto = Slot::Veto { check: "make".to_owned(), tail: "no".to_owned() };
        assert!(read(TASK_TEXT, Some("make"), Some(&handoff("x")), &[veto]).veto);
        assert!(!read(VETO, Some("make"), Some(&handoff(VETO)), &[Slot::Operator(VETO.to_owned())]).veto);
    }

    #[test]
    fn a_message_is_no_prompt() {
        assert_eq!(Prompt::read(&["ekiden: please hand over now.".to_owned(), "x".to_owned()], "P.md"), None);
        assert_eq!(Prompt::read(&["# Task\nx".to_owned()], "P.md"), None);
    }

    // shows: AGT-05
    #[test]
    fn ticks_come_from_the_notes_and_from_the_user() {
        let notes = handoff("## Open items\n- [x] one\n- [ ] two\n- [ ] one\n## Issues\n- [x] two\n");
        assert_eq!(ticks(TASK_TEXT, &notes), [true, false, true, false]);
        assert_eq!(ticks(TASK_TEXT, &handoff("## Done\n- [x] one\n")), [false, false, true, false]);
        assert_eq!(ticks(TASK_TEXT, &handoff("## Open items\n- [x] **two**.\n")), [false, true, true, false]);
    }

    #[test]
    fn a_short_list_says_what_it_leaves_out() {
        let task = "- [ ] a\n- [ ] b\n- [ ] c\n- [ ] d\n- [ ] e\n";
        let list = format!("## Open items\n- [x] {EARLIER_ITEMS}\n- [ ] b\n- [x] d\n- [ ] {LATER_ITEMS}\n");
        assert_eq!(ticks(task, &handoff(&list)), [true, false, true, true, false]);
        let list = list.replace(&format!("- [ ] {LATER_ITEMS}"), "");
        assert_eq!(ticks(task, &handoff(&list)), [true, false, true, true, true]);
        let strange = list.replace("- [ ] b", "- [ ] bb");
        assert_eq!(ticks(task, &handoff(&strange)), [false, false, false, true, false]);
    }

    #[test]
    fn failures_and_a_second_try_are_remembered() {
        let notes = handoff(&format!("## Issues\n- {FAILED}two\n  `x`: exit code 1\n- {REDONE}\n"));
        let prompt = read(TASK_TEXT, None, Some(&notes), &[]);
        let failed: Vec<bool> =
            checklist::items(TASK_TEXT).iter().map(|item| prompt.notes.failed(item)).collect();
        assert_eq!(failed, [false, true, false, false]);
        assert!(prompt.notes.redone);
    }

    fn rescue(open: &[&str]) -> prompt::Notes {
        let open = open.iter().map(|text| (*text).to_owned()).collect();
        let text = prompt::rescue(&RescueFacts {
            session: SessionNumber::FIRST,
            cause: "the agent crashed".to_owned(),
            compacted: false,
            git_status: Vec::new(),
            diff_stat: Vec::new(),
            commits: Vec::new(),
            untracked: Vec::new(),
            last_edit: None,
            last_call: Some("Bash touch x".to_owned()),
            last_words: Some("Item: one".to_owned()),
            succeeded: Vec::new(),
            failed: Vec::new(),
            check: None,
            open_items: Some(OpenItems { open, done: Vec::new() }),
            previous_next_prompt: None,
        });
        prompt::Notes::Rescue { text }
    }

    // shows: REL-05
    #[test]
    fn a_rescue_tells_which_items_were_open() {
        let task = "- [ ] a1\n- [ ] b2\n- [ ] c3\n- [ ] d4\n";
        assert_eq!(ticks(task, &rescue(&["b2", "d4"])), [true, false, true, false]);
        assert_eq!(ticks(task, &rescue(&["b2", "unknown"])), [false; 4]);
        assert_eq!(ticks(task, &rescue(&[])), [false; 4]);
    }

    #[test]
    fn a_rescue_that_was_cut_says_nothing_of_the_rest() {
        let names: Vec<String> = (0..40).map(|n| format!("an item with the number {n}")).collect();
        let task: String = names.iter().map(|name| format!("- [ ] {name}\n")).collect();
        let open: Vec<&str> = names[5..].iter().map(String::as_str).collect();
        let done: Vec<bool> = (0..40).map(|n| n < 5).collect();
        assert_eq!(ticks(&task, &rescue(&open)), done);
    }
}
