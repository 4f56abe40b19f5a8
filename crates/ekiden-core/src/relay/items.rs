//! A list of items that a relay works through, one per session.
//!
//! The agent edits the list ([`ITEMS_FILE`]), so ekiden reads it like a handoff: an item that is gone without
//! a tick stays open here, and a tick counts only if the verification does not contradict it.
//!
//! A check that fails from the start says nothing about a single item. Once it has passed, the last session
//! is to blame for a failure. If an item is given up while the check fails, that failure does not count
//! against later items.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{Relay, Session};
use crate::estimate::{Kind, Model, Past, Range, Sample, Took};
use crate::event::{AttemptEnded, Counters, Survey};
use crate::guard::estimate::Estimate;
use crate::guard::{Level, Window};
use crate::handoff::{Handoff, HandoffFile, Heading, OpenItems, Status, item_key, vanished};
use crate::ids::SessionNumber;
use crate::limits;
use crate::markdown::sections_named;
use crate::prompt;
use crate::ralph::{self, Checkpoint, FileInProgress, Iteration};
use crate::text::one_line;
use crate::time::Timestamp;

/// How many items a question names.
const ITEMS_ASKED_MAX: usize = 20;
/// How much is kept of the text that says where to resume, in characters.
const SUMMARY_CHARS_MAX: usize = 200;

/// The list, from the work dir.
pub const ITEMS_FILE: &str = "fix_plan.md";
/// What is between the goal and the list in the task of such a relay.
const LIST_HEADING: &str = "\n\n# fix_plan.md\n\n";

/// The task of a relay that works through a list: its goal, and the list as it is at the start.
pub fn list_task(goal: &str, list: &str) -> String {
    format!("{}{LIST_HEADING}{list}", goal.trim_end())
}

/// The goal of such a task. Sessions change the list, so it does not tell two tasks apart.
pub fn goal_of_list(task: &str) -> &str {
    let goal = task.split_once(LIST_HEADING).map_or(task, |(goal, _)| goal);
    goal.trim_end()
}

/// Such a task as a session reads it. A list of thousands would fill each session's window.
pub(super) fn without_long_list(task: &str) -> Cow<'_, str> {
    match task.split_once(LIST_HEADING) {
        Some((goal, list)) if list.len() > limits::LIST_BYTES_MAX => {
            list_task(goal, prompt::LONG_LIST).into()
        }
        Some(_) | None => task.into(),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemList {
    pub items: Vec<ListItem>,
    /// The index of the item that the session works on.
    pub(super) in_hand: Option<usize>,
    /// How many more items agents may add. `None` before the run begins: the user's own list has no bound.
    room: Option<usize>,
    /// How many items were done before the first session.
    done_before: usize,
    /// Open items that are no longer in the file.
    gone: Vec<String>,
    /// Those of them that were in the file before the last session.
    pub(super) vanished: Vec<String>,
    /// A person has ticked the last open item, and no session has ended since.
    pub(super) finished_by_hand: bool,
    /// The check has passed before, so a failure now says something about an item.
    judges: bool,
    /// The window of the last session that reported one.
    window: Option<Window>,
    pub history: Vec<Iteration>,
    checkpoint: Checkpoint,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListItem {
    pub text: String,
    pub state: ItemState,
    /// It is ticked in the file.
    ticked: bool,
    /// Where it was in the file when it was last open there.
    line: usize,
    /// Sessions that worked on it and did not finish it.
    pub tries: u32,
    /// The sizes of the files that it names, in bytes.
    files: Vec<u64>,
    /// The usage of the sessions that worked on it.
    pub(super) took: Took,
}

impl ListItem {
    fn estimate(&self, window: Window) -> Estimate {
        let task = format!("- [ ] {}", self.text);
        Estimate::of(&task, &self.files, window.usable_tokens(), None)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ItemState {
    #[default]
    Open,
    /// Ticked, and the verification agrees, if there is one.
    Done,
    /// Given up after [`limits::ITEM_TRIES_MAX`] sessions, or added by an agent beyond [`limits::ITEMS_ADDED_MAX`]; a
    /// person decides.
    SetAside,
}

impl ItemList {
    /// Reads the list before the first session. `passed`: the check passes already. Later no session is needed if a
    /// person has ticked the last item; then returns the task's status.
    pub(super) fn begin(&mut self, passed: Option<bool>) -> Option<Status> {
        if self.room.is_some() {
            let by_hand = self.finished_by_hand;
            self.settle(passed, false);
            return by_hand.then(|| self.status(None, true)).flatten();
        }
        self.judges = passed == Some(true);
        self.settle(None, false);
        self.done_before = self.texts(ItemState::Done).count();
        self.room = Some(limits::ITEMS_ADDED_MAX);
        None
    }

    pub(super) fn survey(&mut self, survey: &Survey) {
        self.read(survey.items.as_ref(), &survey.item_files);
    }

    /// Updates the list from the file. An unreadable file holds no items.
    fn read(&mut self, now: Option<&OpenItems>, sizes: &BTreeMap<String, Vec<u64>>) {
        self.vanished = self.newly_gone(now);
        let none = OpenItems::default();
        self.tick(now.unwrap_or(&none));
        // Only the files of open items are measured; the sizes of a done one stay as they were.
        for item in &mut self.items {
            if let Some(sizes) = sizes.get(&item.text) {
                item.files.clone_from(sizes);
            }
        }
    }

    /// The items that are not done, and are no longer in the file.
    fn newly_gone(&mut self, now: Option<&OpenItems>) -> Vec<String> {
        let gone = vanished(Some(&self.counted()), now);
        let told: BTreeSet<&String> = self.gone.iter().collect();
        let is_new = |text: &&String| !told.contains(text);
        let new = gone.iter().filter(is_new).cloned().collect();
        self.gone = gone;
        new
    }

    /// Takes over the file's ticks, new items and order. If several items have the same words, such as "write tests", the
    /// file says how many of them are ticked, and the one in hand is the next.
    fn tick(&mut self, now: &OpenItems) {
        // Where each item is. An agent may write tens of thousands, and every command reads the log again.
        let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, item) in self.items.iter().enumerate() {
            places.entry(item_key(&item.text)).or_default().push(at);
        }
        let known = places
            .iter()
            .map(|(key, places)| (key.clone(), places.len()));
        let known = known.collect();
        let mut lines: BTreeMap<String, (usize, Vec<usize>)> = BTreeMap::new();
        for (line, (key, text, ticked)) in now.lines(&known).into_iter().enumerate() {
            let (done, open) = lines.entry(key.clone()).or_default();
            *done += usize::from(ticked);
            open.extend((!ticked).then_some(line));
            let known = places.entry(key).or_default();
            if known.len() < *done + open.len() {
                known.push(self.items.len());
                self.add(text);
            }
        }
        let ticked: BTreeSet<&String> = now.done.iter().collect();
        for (key, (done, open)) in lines {
            let known = places.entry(key).or_default();
            known.sort_by_key(|at| {
                let item = &self.items[*at];
                // "C" and "C++" have the same key.
                let is_another = !ticked.contains(&item.text);
                (!item.ticked, is_another, self.in_hand != Some(*at), *at)
            });
            let before = known.iter().filter(|at| self.items[**at].ticked).count();
            let ticked = done.max(before.min(known.len().saturating_sub(open.len())));
            let (ticked, not) = known.split_at_mut(ticked);
            not.sort_unstable();
            for at in ticked {
                self.items[*at].ticked = true;
            }
            for (at, line) in not.iter().zip(open) {
                (self.items[*at].ticked, self.items[*at].line) = (false, line);
            }
        }
    }

    /// Adds a new item. A person decides about what agents add beyond the bound.
    fn add(&mut self, text: &str) {
        let is_over = self.room == Some(0);
        self.room = self.room.map(|room| room.saturating_sub(1));
        self.items.push(ListItem {
            text: text.to_owned(),
            state: match is_over {
                true => ItemState::SetAside,
                false => ItemState::Open,
            },
            ..ListItem::default()
        });
    }

    /// Takes over what a person did in the file: a tick of theirs needs no check, and their new items have no bound.
    /// Whether there is anything new.
    pub fn edit(&mut self, now: &OpenItems) -> bool {
        let seen = |item: &ListItem| (item.ticked, item.line);
        let before: Vec<_> = self.items.iter().map(seen).collect();
        let deleted = !self.newly_gone(Some(now)).is_empty();
        let room = self.room.take();
        self.tick(now);
        self.room = room;
        for (at, item) in self.items.iter_mut().enumerate() {
            let was_ticked = before.get(at).is_some_and(|(ticked, _)| *ticked);
            match (was_ticked, item.ticked, item.state) {
                (false, true, _) => item.state = ItemState::Done,
                (true, false, ItemState::Done) => item.state = ItemState::Open,
                (_, _, _) => {}
            }
        }
        self.finished_by_hand = self.is_over();
        deleted || !self.items.iter().map(seen).eq(before)
    }

    /// Judges the session by the ticks and the check. A session that `goes_on` is no failed try: it worked until its
    /// context was full. Returns an item that is given up.
    pub(super) fn settle(&mut self, passed: Option<bool>, goes_on: bool) -> Option<&ListItem> {
        self.finished_by_hand = false;
        let contradicted = passed == Some(false) && self.judges;
        for item in &mut self.items {
            item.state = match (item.state, item.ticked) {
                (ItemState::Open, true) if !contradicted => ItemState::Done,
                (ItemState::SetAside, true) if passed != Some(false) => ItemState::Done,
                (ItemState::Done, false) => ItemState::Open,
                (state, _) => state,
            };
        }
        self.judges |= passed == Some(true);
        let item = self.items.get_mut(self.in_hand.take()?)?;
        if item.state != ItemState::Open || goes_on {
            return None;
        }
        item.tries += 1;
        if item.tries < limits::ITEM_TRIES_MAX {
            return None;
        }
        item.state = ItemState::SetAside;
        self.judges &= passed != Some(false);
        Some(item)
    }

    /// The item that the next session works on: the first open one of the file.
    pub fn next(&self) -> Option<&ListItem> {
        self.items.get(self.next_at()?)
    }

    fn next_at(&self) -> Option<usize> {
        let items = self.items.iter().enumerate();
        let open = items.filter(|(_, item)| item.state == ItemState::Open);
        open.min_by_key(|(_, item)| item.line).map(|(at, _)| at)
    }

    /// Which one of the open items with its words the item in hand is, from the top, and how many there are.
    pub(super) fn which(&self) -> Option<(usize, usize)> {
        let item = self.items.get(self.in_hand?)?;
        let is_same = |other: &&ListItem| item_key(&other.text) == item_key(&item.text);
        let open = self.items.iter().filter(|other| !other.ticked);
        let lines: Vec<usize> = open.filter(is_same).map(|item| item.line).collect();
        let above = lines.iter().filter(|line| **line < item.line).count();
        (!item.ticked && lines.len() > 1).then_some((above + 1, lines.len()))
    }

    /// How many items are not ticked in the file.
    pub(super) fn unticked(&self) -> usize {
        self.items.iter().filter(|item| !item.ticked).count()
    }

    /// No item is open; some may be set aside.
    pub fn is_over(&self) -> bool {
        self.next().is_none() && !self.items.is_empty()
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_over() && self.texts(ItemState::SetAside).next().is_none()
    }

    pub(super) fn take_in_hand(&mut self) {
        self.in_hand = self.next_at();
    }

    /// In the order of the file.
    pub fn texts(&self, state: ItemState) -> impl Iterator<Item = &str> {
        let items = self.items.iter().filter(|item| item.state == state);
        let mut items: Vec<&ListItem> = items.collect();
        items.sort_by_key(|item| item.line);
        items.into_iter().map(|item| item.text.as_str())
    }

    /// How many items are done since the first session began.
    pub fn done_since(&self) -> usize {
        let done = self.texts(ItemState::Done).count();
        done.saturating_sub(self.done_before)
    }

    /// An item that was set aside is open, after the others.
    pub(super) fn counted(&self) -> OpenItems {
        let all = |state| self.texts(state).map(str::to_owned);
        let aside = all(ItemState::SetAside);
        OpenItems {
            open: all(ItemState::Open).chain(aside).collect(),
            done: all(ItemState::Done).collect(),
        }
    }

    /// The task's status by the list, which replaces the agent's. The agent's question to a person is kept, and a
    /// session without an item in hand had other work: its agent must also say that all is done.
    pub(super) fn status(&self, said: Option<Status>, had_item: bool) -> Option<Status> {
        if matches!(said, Some(Status::Blocked { .. })) {
            return said;
        }
        let claimed = had_item || said == Some(Status::Complete);
        Some(if !self.is_over() || self.is_done() && !claimed {
            Status::InProgress
        } else if self.is_done() {
            Status::Complete
        } else {
            Status::Blocked {
                question: self.question(),
            }
        })
    }

    /// What to do about the items that were set aside. An answer reaches one session; the file reaches all.
    fn question(&self) -> String {
        let aside: Vec<&str> = self.texts(ItemState::SetAside).collect();
        let (count, tries) = (aside.len(), limits::ITEM_TRIES_MAX);
        let named = &aside[..count.min(ITEMS_ASKED_MAX)];
        format!(
            "All else is done. {count} left in {ITEMS_FILE}, since {tries} sessions did not finish them or sessions added them after the first {}. Write what helps below an item's line, or tick it if it is to be dropped; then `ekiden resume` tries them again:\n- {}",
            limits::ITEMS_ADDED_MAX,
            named.join("\n- ")
        )
    }

    /// A person resumes the run: items that were given up are tried again, if nothing else is open.
    pub(super) fn forgive(&mut self) {
        if self.next().is_some() {
            return;
        }
        for item in &mut self.items {
            if item.state == ItemState::SetAside {
                (item.state, item.tries) = (ItemState::Open, 0);
            }
        }
    }
}

impl ItemList {
    /// An attempt at the current item is over, whether or not its session is.
    pub(super) fn attempt_over(&mut self, counters: &Counters) {
        let kinds = counters.kinds.unwrap_or_default();
        self.book(Took {
            duration: counters.duration,
            spend: counters.spend,
            read_tokens: kinds.read_afresh(),
            written_tokens: kinds.output,
            ..Took::default()
        });
    }

    fn book(&mut self, took: Took) {
        if let Some(item) = self.in_hand.and_then(|at| self.items.get_mut(at)) {
            item.took = item.took.plus(took);
        }
    }

    /// Records how full a session's context was, and how to resume from it if that ended the session. `edit` is the
    /// session's last one.
    pub(super) fn session_over(
        &mut self,
        at: Timestamp,
        session: &Session,
        ended: &AttemptEnded,
        left: &Handoff,
        edit: Option<&str>,
    ) {
        self.window = session.window.or(self.window);
        let used = session.usage_tokens.max(ended.counters.usage_tokens);
        let percent = self.window.filter(|_| used > 0);
        let percent = percent.map(|window| window.percent(used));
        let is_late = session.is_late();
        self.book(Took {
            context_tokens: used,
            sessions: 1,
            ..Took::default()
        });
        self.history.push(Iteration {
            session: None,
            iteration: session.attempt.id.session.get(),
            peak_percent: percent,
            checkpoint: is_late,
        });
        self.checkpoint.active = is_late;
        if is_late {
            let resume_at = sections_named(&left.next_prompt, Heading::ResumeAt.name()).next();
            let resume_at = resume_at.map(|text| one_line(text, SUMMARY_CHARS_MAX));
            self.checkpoint = Checkpoint {
                active: true,
                level: Some(session.level.max(Level::L2)),
                percent_at_checkpoint: percent,
                timestamp: Some(at.rfc3339()),
                handoff_file: Some(HandoffFile::NextPrompt.published().to_owned()),
                resume_summary: resume_at.filter(|text| !text.is_empty()),
                files_in_progress: edit.and_then(FileInProgress::of_edit).into_iter().collect(),
                current_todo_item: None,
                progress_on_item: None,
            };
        }
    }

    /// The last checkpoint, with the current item, or the next one once that is done.
    pub fn checkpoint(&self) -> Checkpoint {
        let in_hand = self.in_hand.and_then(|at| self.items.get(at));
        let item = in_hand.or(self.next()).filter(|_| self.checkpoint.active);
        Checkpoint {
            current_todo_item: item.map(|item| item.text.clone()),
            ..self.checkpoint.clone()
        }
    }

    /// The title of a session's commit, if the session ended with a checkpoint.
    pub fn commit_subject(&self, session: SessionNumber) -> Option<String> {
        let last = &self.checkpoint;
        let subject =
            || ralph::commit_subject(session.get(), last.level, last.percent_at_checkpoint);
        last.active.then(subject)
    }
}

impl Relay {
    /// The item of the current session, its number in the list, and its estimate.
    pub fn item_in_hand(&self) -> Option<(usize, &ListItem, Estimate)> {
        let list = self.items.as_ref()?;
        let at = list.in_hand?;
        let item = list.items.get(at)?;
        Some((at + 1, item, item.estimate(self.window_of(list))))
    }

    /// The estimate for the current item, in percent of the usable window, learned from the items before it.
    pub fn item_percents(&self) -> Option<Range> {
        let (_, _, estimate) = self.item_in_hand()?;
        let own = self.past_items().filter_map(|past| past.context());
        let before = self.stage.part.items_before.iter().copied();
        let samples: Vec<Sample> = before.chain(own).collect();
        let usable = self.window_of(self.items.as_ref()?).usable_tokens();
        let tokens = Model::of(&samples).range(estimate.tokens);
        Some(tokens.map(|tokens| tokens.saturating_mul(100).div_ceil(usable)))
    }

    fn window_of(&self, list: &ItemList) -> Window {
        list.window.unwrap_or_else(|| self.settings.window())
    }

    /// The usage of the finished items.
    pub fn past_items(&self) -> impl Iterator<Item = Past> {
        let done = self.items_with(ItemState::Done);
        let past = done.map(|(estimated, took)| Past {
            kind: Kind::Item,
            estimated,
            took,
        });
        past.filter(|past| past.took.sessions > 0)
    }

    /// The estimates of the items in a state, in tokens, and their usage so far.
    pub fn items_with(&self, state: ItemState) -> impl Iterator<Item = (u64, Took)> {
        self.items.iter().flat_map(move |list| {
            let of_state = list.items.iter().filter(move |item| item.state == state);
            of_state.map(|item| (item.estimate(self.window_of(list)).tokens, item.took))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handoff::open_items;

    /// What came of sessions, each with the file that it left and what the check said.
    fn after(before: &str, passed: Option<bool>, sessions: &[(&str, Option<bool>)]) -> ItemList {
        let mut list = ItemList::default();
        list.read(Some(&open_items(before)), &BTreeMap::new());
        list.begin(passed);
        for (file, passed) in sessions {
            list.take_in_hand();
            list.read(Some(&open_items(file)), &BTreeMap::new());
            list.settle(*passed, false);
        }
        list
    }

    fn shown(list: &ItemList) -> String {
        let items = list.items.iter().map(|item| {
            let state = match item.state {
                ItemState::Open => "open",
                ItemState::Done => "done",
                ItemState::SetAside => "aside",
            };
            format!("{} {state} {}", item.text, item.tries)
        });
        items.collect::<Vec<_>>().join(", ")
    }

    const ALL: &str = "- [ ] a\n- [ ] b\n";

    // shows: RLP-09
    #[test]
    fn an_item_that_is_deleted_is_not_done_and_is_told() {
        let list = after(ALL, None, &[("- [ ] b\n", None)]);
        assert_eq!(shown(&list), "a open 1, b open 0");
        assert_eq!(list.vanished, ["a"]);
        assert_eq!(
            list.status(Some(Status::Complete), true),
            Some(Status::InProgress)
        );
        let list = after(ALL, None, &[("", None)]);
        assert_eq!(list.vanished, ["a", "b"], "all of them");
    }

    // shows: RLP-09
    #[test]
    fn a_tick_counts_once_the_check_agrees() {
        let ticked = "- [x] a\n- [ ] b\n";
        let list = after(ALL, Some(true), &[(ticked, Some(false))]);
        assert_eq!(shown(&list), "a open 1, b open 0");
        let list = after(
            ALL,
            Some(true),
            &[(ticked, Some(false)), (ticked, Some(true))],
        );
        assert_eq!(shown(&list), "a done 1, b open 0");
        let list = after(ALL, Some(false), &[(ticked, Some(false))]);
        assert_eq!(shown(&list), "a done 0, b open 0", "the check never passed");
        let reopened = after(ALL, None, &[(ticked, None), (ALL, None)]);
        assert_eq!(shown(&reopened), "a open 0, b open 1");
    }

    // shows: RLP-09
    #[test]
    fn what_a_person_ticks_is_done_and_what_they_add_has_no_bound() {
        let mut list = after(ALL, Some(true), &[("- [x] a\n- [ ] b\n", Some(false))]);
        let edit = |list: &mut ItemList, file: &str| list.edit(&open_items(file));
        assert!(!edit(&mut list, "- [x] a\n- [ ] b\n"), "the agent's tick");
        assert_eq!(shown(&list), "a open 1, b open 0");
        list.room = Some(0);
        assert!(edit(&mut list, "- [x] a\n- [x] b\n- [ ] c\n"));
        assert_eq!(shown(&list), "a open 1, b done 0, c open 0");
        assert!(edit(&mut list, "- [x] a\n- [ ] b\n"));
        assert_eq!(shown(&list), "a open 1, b open 0, c open 0");
        assert_eq!(list.room, Some(0));
    }

    // shows: RLP-09
    #[test]
    fn items_with_the_same_words_are_done_one_by_one() {
        let tests = |done: usize| "- [x] tests\n".repeat(done) + &"- [ ] tests\n".repeat(5 - done);
        let files: Vec<String> = (1..=5).map(tests).collect();
        let sessions: Vec<_> = files.iter().map(|file| (file.as_str(), None)).collect();
        let list = after(&tests(0), None, &sessions[..4]);
        assert_eq!(
            shown(&list),
            "tests done 0, tests done 0, tests done 0, tests done 0, tests open 0"
        );
        let list = after(&tests(0), None, &sessions);
        assert_eq!(list.status(None, true), Some(Status::Complete));
        let two = "- [ ] tests\n- [ ] tests\n- [ ] b\n";
        let list = after(two, None, &[("- [x] tests\n- [ ] b\n", None)]);
        assert_eq!(
            shown(&list),
            "tests done 0, tests open 0, b open 0",
            "one is gone"
        );
        let aside: Vec<_> = std::iter::repeat_n((two, None), 3).collect();
        let last = ("- [x] tests\n- [ ] tests\n- [ ] b\n", None);
        let list = after(two, None, &[aside, vec![last]].concat());
        assert_eq!(
            shown(&list),
            "tests aside 3, tests done 0, b open 0",
            "that in hand"
        );
    }

    // shows: RLP-09
    #[test]
    fn a_tick_with_a_note_counts_beside_items_with_the_same_words() {
        let tests = |done: usize| {
            let noted = |number: usize| format!("- [x] tests (see {number}.rs)\n");
            let done: String = (0..done).map(noted).collect();
            done.clone() + &"- [ ] tests\n".repeat(3 - done.lines().count())
        };
        let files: Vec<String> = (1..=3).map(tests).collect();
        let sessions: Vec<_> = files.iter().map(|file| (file.as_str(), None)).collect();
        let list = after(&tests(0), None, &sessions[..2]);
        assert_eq!(shown(&list), "tests done 0, tests done 0, tests open 0");
        let list = after(&tests(0), None, &sessions);
        assert_eq!(list.status(None, true), Some(Status::Complete));
    }

    // shows: RLP-09
    #[test]
    fn the_item_in_hand_is_told_from_others_with_the_same_words() {
        let tests = "- [ ] tests\n- [ ] b\n- [ ] tests\n- [ ] tests\n";
        let one = tests.replacen("[ ]", "[x]", 1);
        let mut list = after(tests, None, &[(&one, None)]);
        list.take_in_hand();
        assert_eq!((list.in_hand, list.which()), (Some(1), None));
        let vain = [(tests, None), (tests, None), (tests, None)];
        let mut list = after(tests, None, &vain);
        list.items[1].state = ItemState::Done;
        list.take_in_hand();
        assert_eq!((list.in_hand, list.which()), (Some(2), Some((2, 3))));
    }

    // shows: RLP-09
    #[test]
    fn the_next_item_is_the_first_one_in_the_file_as_it_is_now() {
        let mut list = after(ALL, None, &[("- [x] a\n- [ ] b\n", None)]);
        assert!(list.edit(&open_items("- [ ] new\n- [x] a\n- [ ] b\n")));
        assert_eq!(list.next().unwrap().text, "new");
        assert!(list.edit(&open_items("- [x] a\n- [ ] b\n- [ ] new\n")));
        assert_eq!(list.next().unwrap().text, "b");
        assert_eq!(shown(&list), "a done 0, b open 0, new open 0");
    }

    /// Both are the letters "supportc".
    // shows: RLP-09
    #[test]
    fn of_items_with_the_same_letters_the_one_with_the_ticked_words_is_done() {
        let before = "- [ ] Support C\n- [ ] Support C++\n";
        let now = "- [ ] Support C\n- [x] Support C++\n";
        let list = after(before, None, &[(now, None)]);
        assert_eq!(shown(&list), "Support C open 1, Support C++ done 0");
    }

    // shows: RLP-09
    #[test]
    fn an_item_that_a_person_deleted_is_not_the_next_sessions_doing() {
        let mut list = after(ALL, None, &[]);
        assert!(list.edit(&open_items("- [ ] a\n")), "b is deleted");
        assert!(!list.edit(&open_items("- [ ] a\n")));
        list.read(Some(&open_items("- [x] a\n")), &BTreeMap::new());
        assert!(list.vanished.is_empty());
        assert_eq!(shown(&list), "a open 0, b open 0");
    }

    // shows: RLP-09
    #[test]
    fn a_long_list_is_not_part_of_a_prompt() {
        let task = |items: usize| list_task("Do it.\n", &"- [ ] item\n".repeat(items));
        assert_eq!(without_long_list(&task(9)), task(9));
        assert_eq!(
            without_long_list(&task(2_000)),
            "Do it.\n\n# fix_plan.md\n\nThe list is too long to quote. What it says about your item is in fix_plan.md.\n"
        );
    }

    // shows: RLP-09
    #[test]
    fn an_item_that_is_ticked_with_a_note_is_done() {
        let noted = "- [x] a (see a.rs)\n- [ ] b\n";
        let list = after(ALL, None, &[(noted, None)]);
        assert_eq!(shown(&list), "a done 0, b open 0");
        assert!(list.vanished.is_empty());
        let list = after(ALL, None, &[("- [x] a\n- [ ] b\n", None), (noted, None)]);
        assert_eq!(shown(&list), "a done 0, b open 1");
    }

    // shows: RLP-09
    #[test]
    fn an_item_that_is_ticked_after_it_was_set_aside_is_done_unless_the_check_fails() {
        let vain = [(ALL, None), (ALL, None), (ALL, None)];
        let both = "- [x] a\n- [x] b\n";
        let list = after(ALL, None, &[&vain[..], &[(both, None)]].concat());
        assert_eq!(list.status(None, true), Some(Status::Complete));
        let list = after(ALL, None, &[&vain[..], &[(both, Some(false))]].concat());
        assert_eq!(shown(&list), "a aside 3, b done 0");
    }

    // shows: RLP-09
    #[test]
    fn an_item_that_never_verifies_is_set_aside_and_does_not_hold_up_the_rest() {
        let (one, both) = ("- [x] a\n- [ ] b\n", "- [x] a\n- [x] b\n");
        let fails = |file| (file, Some(false));
        let list = after(
            ALL,
            Some(true),
            &[fails(one), fails(one), fails(one), fails(both)],
        );
        assert_eq!(shown(&list), "a aside 3, b done 0");
        assert_eq!(list.counted().open, ["a"]);
        let Some(Status::Blocked { question }) = list.status(Some(Status::InProgress), true) else {
            panic!("{list:?}")
        };
        assert!(question.ends_with("tries them again:\n- a"), "{question}");
        let mut mended = list.clone();
        mended.settle(Some(true), false);
        assert_eq!(mended.status(None, true), Some(Status::Complete));
        let mut resumed = list.clone();
        resumed.forgive();
        assert_eq!(shown(&resumed), "a open 0, b done 0");
        let mut others = list;
        others.edit(&open_items(&format!("{both}- [ ] c\n")));
        others.forgive();
        assert_eq!(shown(&others), "a aside 3, b done 0, c open 0");
    }

    #[test]
    fn a_session_that_filled_its_context_with_work_is_no_vain_try() {
        let mut list = after(ALL, None, &[]);
        for _ in 0..limits::ITEM_TRIES_MAX {
            list.take_in_hand();
            assert_eq!(list.settle(None, true), None);
        }
        assert_eq!(shown(&list), "a open 0, b open 0");
    }

    #[test]
    fn an_agent_adds_items_up_to_a_bound() {
        let many: String = (0..200).map(|n| format!("- [ ] new {n}\n")).collect();
        let list = after(ALL, None, &[(&format!("{ALL}{many}"), None)]);
        let count = |list: &ItemList, state| list.texts(state).count();
        let open = 2 + limits::ITEMS_ADDED_MAX;
        assert_eq!(count(&list, ItemState::Open), open);
        assert_eq!(count(&list, ItemState::SetAside), 100);
        assert_eq!(count(&after(&many, None, &[]), ItemState::Open), 200);
        let mut list = list;
        let now = format!("{ALL}{many}");
        assert!(!list.edit(&open_items(&now)), "nobody edited it");
        assert!(list.edit(&open_items(&format!("{now}- [ ] mine\n- [ ] new 150\n"))));
        assert_eq!(count(&list, ItemState::Open), open + 2);
        let ticked = format!("{now}- [ ] mine\n- [ ] new 150\n").replace("[ ]", "[x]");
        let ticked = ticked.replace("[x] new 151", "[ ] new 151");
        list.edit(&open_items(&ticked));
        let Some(Status::Blocked { question }) = list.status(None, true) else {
            panic!("{list:?}")
        };
        assert!(question.contains("1 left in fix_plan.md, "), "{question}");
        list.forgive();
        assert_eq!(list.next().unwrap().text, "new 151");
    }

    /// Looking through the list for each line of the file takes a minute for a file like this.
    // shows: RLP-09
    #[test]
    fn a_list_of_thousands_is_read_at_once() {
        let many: String = (0..5_000).map(|n| format!("- [ ] new {n}\n")).collect();
        let list = after(ALL, None, &[(&format!("{many}{ALL}"), None), (ALL, None)]);
        assert_eq!(
            list.texts(ItemState::Open).count(),
            2 + limits::ITEMS_ADDED_MAX
        );
        assert_eq!(
            after(&many, None, &[("", None), ("", None)]).gone.len(),
            5_000
        );
    }
}
