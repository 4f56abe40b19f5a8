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

/// The items under "Open items".
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
    let kept: BTreeSet<String> = now
        .into_iter()
        .flat_map(|now| now.open.iter().chain(&now.done))
        .map(|text| item_key(text))
        .collect();
    let open = before.into_iter().flat_map(|before| &before.open);
    open.filter(|text| !kept.contains(&item_key(text)))
        .cloned()
        .collect()
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
}
