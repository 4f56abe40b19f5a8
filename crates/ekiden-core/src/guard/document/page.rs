//! Fits the sections of a page into its budget: long sections share what the short ones leave.

use crate::prompt::budget::{Keep, Mark, cut_by_size, share};

/// The name, where the reader finds all of it, and the text.
pub(super) type Section<'a> = (&'a str, &'a str, String);

/// The sections, in at most `room` bytes. Those below the common share stay whole. The others are cut to it
/// at line ends, with a list item that says how much is missing and where it is. The mark is a list item
/// since the place of the cut depends on foreign text.
pub(super) fn page(sections: &[Section<'_>], room: usize) -> String {
    let heading = |name: &str| format!("\n## {name}\n\n");
    let headings: usize = sections.iter().map(|(name, ..)| heading(name).len()).sum();
    let sizes = sections.iter().map(|(_, _, body)| body.len());
    let share = share(sizes.collect(), room.saturating_sub(headings));
    let parts = sections.iter().map(|(name, whole, body)| {
        let body = cut_by_size(body, share, Keep::First, Mark::new("- ", whole), str::len);
        heading(name) + &body
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // shows: HND-10
        #[test]
        fn every_page_holds_its_room(bodies in proptest::collection::vec("([a-zé]{0,30}\n){0,30}", 0..6), room in 100usize..900) {
            let sections: Vec<_> = bodies.iter().map(|body| ("H", "F.md", body.clone())).collect();
            let text = page(&sections, room);
            prop_assert!(text.len() <= room, "{} of {room}", text.len());
            let whole: usize = bodies.iter().map(|body| body.len() + 7).sum();
            prop_assert_eq!(whole > room, text.len() < whole);
        }
    }
}
