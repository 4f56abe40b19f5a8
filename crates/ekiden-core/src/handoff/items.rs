//! The list of open items that ekiden counts.
//!
//! Agents rewrite prose lists from session to session. Ticks can be counted, and ekiden reports an item that
//! is gone without a tick to the next session and to the user.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::markdown::{Outline, outline};
use crate::text::{letters, short};

/// How much of an item's text is kept, in characters: it names the item.
const ITEM_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OpenItems {
    /// Items without a tick: `- [ ]`.
    pub open: Vec<String>,
    pub done: Vec<String>,
}

impl OpenItems {
    /// How many are ticked and how many are open.
    pub fn counts(&self) -> (usize, usize) {
        (self.done.len(), self.open.len())
    }

    pub(super) fn within(outline: &Outline, range: &Range<usize>) -> Self {
        let mut items = Self::default();
        let mut leaves: Vec<_> = outline
            .leaves
            .iter()
            .filter(|leaf| range.contains(&leaf.start))
            .collect();
        leaves.sort_by_key(|leaf| leaf.start);
        for leaf in leaves {
            let Some(ticked) = leaf.tick else { continue };
            let text = short(
                leaf.text.lines().next().unwrap_or_default().trim(),
                ITEM_CHARS_MAX,
            );
            if ticked {
                items.done.push(text);
            } else {
                items.open.push(text);
            }
        }
        items
    }

    /// The lines of the list, each with the key of its item and whether it is ticked, those that are ticked first. A
    /// ticked line with a note is that of an item that has lost a line: agents tick `- [x] Log in (see mail.rs)`.
    pub fn lines(&self, known: &BTreeMap<String, usize>) -> Vec<(String, &String, bool)> {
        let done = self.done.iter().map(|text| (item_key(text), text, true));
        let open = self.open.iter().map(|text| (item_key(text), text, false));
        let mut lines: Vec<_> = done.chain(open).collect();
        let mut lost = known.clone();
        for (key, ..) in &lines {
            take(&mut lost, key);
        }
        for (key, text, ticked) in &mut lines {
            let is_other = *ticked && !known.contains_key(key);
            let is_lost = |key: &str| lost.get(key).is_some_and(|count| *count > 0);
            if let Some(item) = is_other.then(|| noted(text, is_lost)).flatten() {
                take(&mut lost, &item);
                *key = item;
            }
        }
        lines
    }
}

/// The items of a whole file.
pub fn open_items(text: &str) -> OpenItems {
    let text = text.trim_start_matches('\u{feff}');
    OpenItems::within(&outline(text), &(0..text.len()))
}

/// The items that were open before and are now neither open nor ticked. `None` means no list at all.
pub fn vanished(before: Option<&OpenItems>, now: Option<&OpenItems>) -> Vec<String> {
    let (none, before) = (OpenItems::default(), before.cloned().unwrap_or_default());
    let mut done = counts(&before.done);
    let known = counts(before.open.iter().chain(&before.done));
    let mut kept = BTreeMap::new();
    for (key, _, ticked) in now.unwrap_or(&none).lines(&known) {
        if !ticked || !take(&mut done, &key) {
            *kept.entry(key).or_default() += 1;
        }
    }
    let open = before.open.into_iter();
    open.filter(|text| !take(&mut kept, &item_key(text)))
        .collect()
}

/// How many items there are with each key.
fn counts<'a>(texts: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for text in texts {
        *counts.entry(item_key(text)).or_default() += 1;
    }
    counts
}

/// Takes one of those with this key, if any are left.
fn take(counts: &mut BTreeMap<String, usize>, key: &str) -> bool {
    let count = counts.get_mut(key).filter(|count| **count > 0);
    count.map(|count| *count -= 1).is_some()
}

/// The key of the item that a line names before its note.
fn noted(line: &str, is_item: impl Fn(&str) -> bool) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let begins_note = |word: &str| {
        word.starts_with(['(', '[', '→', '✅', '✓', '✔'])
            || word
                .chars()
                .all(|c| matches!(c, '-' | '–' | '—' | ':' | '=' | '>'))
    };
    let ends_item = |word: &str| word.ends_with([':', '.', ';', ',']);
    let is_end = |at: &usize| begins_note(words[*at]) || ends_item(words[*at - 1]);
    let items = (1..words.len()).rev().filter(is_end);
    let mut keys = items.map(|end| item_key(&words[..end].join(" ")));
    keys.find(|key| is_item(key))
}

/// An item's letters and digits: added emphasis or a full stop does not change the item.
pub fn item_key(text: &str) -> String {
    let key: String = letters(text).collect();
    if key.is_empty() { text.to_owned() } else { key }
}

#[cfg(test)]
mod tests {
    use super::{open_items as items, *};

    #[test]
    fn ticks_are_read_in_order_outside_code() {
        let items = items(
            "- [ ] one\n- [x] two\n  - [ ] three\n* [X] **four**\n```\n- [ ] no\n```\n- plain\n",
        );
        assert_eq!(items.open, ["one", "three"]);
        assert_eq!(items.done, ["two", "four"]);
        assert_eq!(items.counts(), (2, 2));
    }

    #[test]
    fn angle_brackets_are_words_of_an_item_and_a_mark_before_the_first_is_not() {
        let items =
            items("\u{feff}- [ ] <Modal>\n- [ ] Vec<u8> to <Bytes/>\n- [ ] a <!-- b -->\n- [ ] \n");
        assert_eq!(items.open, ["<Modal>", "Vec<u8> to <Bytes/>", "a"]);
    }

    #[test]
    fn an_item_gone_without_a_tick_is_found() {
        let before = items("- [ ] keep\n- [ ] tick me\n- [ ] vanish\n- [x] was done");
        let now = items("- [ ] *keep*.\n- [x] tick  me\n- [ ] new");
        assert_eq!(vanished(Some(&before), Some(&now)), ["vanish"]);
        assert_eq!(vanished(Some(&before), None), ["keep", "tick me", "vanish"]);
        assert_eq!(vanished(None, Some(&now)), Vec::<String>::new());
    }

    #[test]
    fn items_with_the_same_words_are_counted() {
        let before = items("- [x] test\n- [ ] test\n- [ ] test\n");
        let gone = |now: &str| vanished(Some(&before), Some(&items(now))).len();
        assert_eq!(
            gone("- [ ] test\n- [ ] test\n"),
            0,
            "what was ticked may go"
        );
        assert_eq!(gone("- [x] test\n- [ ] test\n"), 1);
        assert_eq!(gone("- [x] test\n- [x] test (see a.rs)\n- [ ] test\n"), 0);
        assert_eq!(gone("- [x] test (a)\n- [x] test (b)\n- [x] test (c)\n"), 0);
    }

    #[test]
    fn a_tick_with_a_note_is_the_tick_of_its_item() {
        let before = items("- [ ] Log in\n- [ ] Fix 1\n- [ ] Read\n- [ ] Read: errors\n");
        let gone = |now: &str| vanished(Some(&before), Some(&items(now)));
        let kept = "- [ ] Fix 1\n- [ ] Read\n- [ ] Read: errors\n";
        for ticked in [
            "Log in (see `mail.rs`)",
            "**Log in** — done in 3f2a",
            "Log in: by mail.",
            "Log in -> moved",
            "~~Log in~~ ✅ done",
        ] {
            assert!(
                gone(&format!("{kept}- [x] {ticked}\n")).is_empty(),
                "{ticked}"
            );
        }
        for other in ["Log in by mail", "Logged in (done)"] {
            assert_eq!(gone(&format!("{kept}- [x] {other}\n")), ["Log in"]);
        }
        assert_eq!(gone(&format!("{kept}- [ ] Log in (mail)\n")), ["Log in"]);
        let now = "- [x] Log in\n- [x] Fix 10\n- [x] Read: errors\n";
        assert_eq!(gone(now), ["Fix 1", "Read"], "other items");
    }
}
