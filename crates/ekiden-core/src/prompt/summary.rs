//! The summary of an architecture document: how every stage of the plan learns about the whole.

use super::budget::{Keep, Mark, cut_by_size, cut_long_lines};
use super::context::LABELS_TOKENS_MAX;
use super::quote::MARK;
use crate::limits::{self, BYTES_PER_TOKEN};
use crate::markdown::sections_named;
use crate::text::clean;

/// The text under "Summary", up to the next heading that is not below it; without that heading, the beginning
/// of the document. At most [`limits::STAGE_ARCHITECTURE_TOKENS_MAX`] tokens, counted as in a prompt; `path`
/// is where the whole document is.
pub fn summary_of(document: &str, path: &str) -> String {
    let document = clean(document).text;
    let text = cut_long_lines(section(&document).unwrap_or(&document).trim());
    let bytes_max = (limits::STAGE_ARCHITECTURE_TOKENS_MAX - LABELS_TOKENS_MAX) * BYTES_PER_TOKEN;
    let mark = Mark::new("", path);
    cut_by_size(&text, bytes_max, Keep::First, mark, quoted_size)
}

pub(super) fn has_summary(document: &str) -> bool {
    section(&clean(document).text).is_some()
}

fn section(document: &str) -> Option<&str> {
    sections_named(document, "Summary").find(|text| !text.trim().is_empty())
}

/// The size of a text once each of its lines is marked.
fn quoted_size(text: &str) -> usize {
    text.split_inclusive('\n')
        .map(|line| line.len() + MARK.len() + 1)
        .sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // shows: PLN-01
    #[test]
    fn the_summary_is_what_stands_under_its_heading() {
        let document =
            "# Shop\n\n## Summary:\n\nA shop.\n\n### Parts\n\ncart\n\n## Data\n\ntables\n";
        assert_eq!(summary_of(document, "a.md"), "A shop.\n\n### Parts\n\ncart");
        let nested = "# Shop\n\n```\n## Summary\nno\n```\n\n### summary\nyes\n## Data\nx";
        assert_eq!(summary_of(nested, "a.md"), "yes");
    }

    // shows: PLN-01
    #[test]
    fn without_one_the_beginning_counts() {
        assert_eq!(
            summary_of("# Shop\n\nA shop.\n\n## Summary\n\n## Data\n", "a.md"),
            "# Shop\n\nA shop.\n\n## Summary\n\n## Data"
        );
        let long = "A line of the plan.\n".repeat(5_000);
        let summary = summary_of(&long, "docs/a.md");
        assert!(
            summary.ends_with(" lines left out here; the whole is in docs/a.md]\n"),
            "{summary}"
        );
    }

    proptest! {
        // shows: PLN-01
        #[test]
        fn a_summary_keeps_its_size(text in any::<String>(), times in 1usize..2_000) {
            let summary = summary_of(&format!("## Summary\n{}", text.repeat(times)), "a.md");
            prop_assert!(quoted_size(&summary) <= limits::STAGE_ARCHITECTURE_TOKENS_MAX * BYTES_PER_TOKEN);
        }
    }
}
