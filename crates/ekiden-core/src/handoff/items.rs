//! The list of open items that ekiden counts.
//!
//! Agents rewrite prose lists from session to session. Ticks can be counted, and ekiden reports an item that
//! is gone without a tick to the next session and to the user.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::markdown::{Outline, outline};
use crate::text::{normal, short};

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
}

/// The items of a whole file.
pub fn open_items(text: &str) -> OpenItems {
    OpenItems::within(&outline(text), &(0..text.len()))
}

/// The items that were open before and are now neither open nor ticked. `None` means no list at all.
pub fn vanished(before: Option<&OpenItems>, now: Option<&OpenItems>) -> Vec<String> {
    let keys = |items: Option<&OpenItems>| -> BTreeSet<String> {
        let items = items.into_iter();
        let texts = items.flat_map(|items| items.open.iter().chain(&items.done));
        texts.map(|text| item_key(text)).collect()
    };
    let (known, mut kept) = (keys(before), keys(now));
    let noted: Vec<String> = now
        .into_iter()
        .flat_map(|now| &now.done)
        .filter(|text| !known.contains(&item_key(text)))
        .filter_map(|text| noted(text, |key| known.contains(key) && !kept.contains(key)))
        .collect();
    kept.extend(noted);
    let open = before.into_iter().flat_map(|before| &before.open);
    open.filter(|text| !kept.contains(&item_key(text)))
        .cloned()
        .collect()
}

/// The key of the item with which a line begins before a note: agents tick `- [x] Log in (see mail.rs)`.
pub fn noted(line: &str, is_item: impl Fn(&str) -> bool) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let begins_note = |word: &str| {
        word.starts_with(['(', '[', '→', '✅', '✓', '✔'])
            || word.chars().all(|c| matches!(c, '-' | '–' | '—' | ':'))
    };
    let ends_item = |word: &str| word.ends_with([':', '.', ';', ',']);
    let is_end = |at: &usize| begins_note(words[*at]) || ends_item(words[*at - 1]);
    let items = (1..words.len()).rev().filter(is_end);
    let mut keys = items.map(|end| item_key(&words[..end].join(" ")));
    keys.find(|key| is_item(key))
}

/// An item's letters and digits: added emphasis or a full stop does not change the item.
pub fn item_key(text: &str) -> String {
    let key: String = normal(text)
        .chars()
        .filter(|c| c.is_alphanumeric())
        .collect();
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
    fn an_item_gone_without_a_tick_is_found() {
        let before = items("- [ ] keep\n- [ ] tick me\n- [ ] vanish\n- [x] was done");
        let now = items("- [ ] *keep*.\n- [x] tick  me\n- [ ] new");
        assert_eq!(vanished(Some(&before), Some(&now)), ["vanish"]);
        assert_eq!(vanished(Some(&before), None), ["keep", "tick me", "vanish"]);
        assert_eq!(vanished(None, Some(&now)), Vec::<String>::new());
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
