//! A page of sections that fits: the long ones share what the short ones leave.

use crate::prompt::budget::{Keep, Mark, cut_by_size};

/// Sections in order.
#[derive(Debug, Default)]
pub(super) struct Page {
    sections: Vec<Section>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Section {
    /// Its heading line with what belongs to it, or nothing for what stands before the first.
    pub(super) heading: String,
    /// Its lines, each with its line feed.
    pub(super) body: String,
    /// Where the whole of it is, should it be cut.
    pub(super) whole: String,
}

impl Page {
    /// A page of these.
    pub(super) fn of(sections: Vec<Section>) -> Self {
        Self { sections }
    }

    /// Adds a section.
    pub(super) fn section(&mut self, heading: &str, whole: &str, body: String) {
        let heading = format!("\n## {heading}\n\n");
        self.sections.push(Section { heading, body, whole: whole.to_owned() });
    }

    /// The text, of at most `room` by this measure. Sections below the common share stay whole; the
    /// others are cut to it at line ends, with a line that says how much is missing and where it is.
    pub(super) fn render(&self, room: usize, size: fn(&str) -> usize) -> String {
        self.render_marked("", room, size)
    }

    /// The same with marks that begin so.
    pub(super) fn render_marked(&self, prefix: &str, room: usize, size: fn(&str) -> usize) -> String {
        let headings: usize = self.sections.iter().map(|section| size(&section.heading)).sum();
        let sizes: Vec<usize> = self.sections.iter().map(|section| size(&section.body)).collect();
        let share = share(&sizes, room.saturating_sub(headings));
        let parts = self.sections.iter().map(|section| {
            let mark = Mark { prefix, whole: &section.whole };
            format!("{}{}", section.heading, cut_by_size(&section.body, share, Keep::First, mark, size))
        });
        parts.collect()
    }
}

/// The largest share such that all sizes, cut to it, fit into the room.
fn share(sizes: &[usize], room: usize) -> usize {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (index, size) in sorted.iter().enumerate() {
        let even = left / (sorted.len() - index);
        if *size > even {
            return even;
        }
        left -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_long_share_what_the_short_leave() {
        assert_eq!(share(&[10, 10], 20), usize::MAX);
        assert_eq!(share(&[10, 100, 100], 110), 50);
        assert_eq!(share(&[], 0), usize::MAX);
    }

    proptest! {
        // shows: HND-10
        #[test]
        fn every_page_holds_its_room(bodies in proptest::collection::vec("([a-zé]{0,30}\n){0,30}", 0..6), room in 100usize..900) {
            let mut page = Page::default();
            bodies.iter().for_each(|body| page.section("H", "F.md", body.clone()));
            let text = page.render(room, str::len);
            prop_assert!(text.len() <= room, "{} of {room}", text.len());
            let whole: usize = bodies.iter().map(|body| body.len() + 7).sum();
            prop_assert_eq!(whole > room, text.len() < whole);
        }
    }
}
