//! What ekiden would lose of a text that a person wrote as knowledge.

use super::{CORE, Knowledge, LOG};
use crate::text::{letters, normal};

/// The lines, from 1, under neither of the two headings, which nothing would keep.
pub fn lost_lines(markdown: &str) -> Vec<usize> {
    let kept: String = letters(&Knowledge::parse(markdown).render()).collect();
    let is_lost = |line: &str| {
        let letters: String = letters(line).collect();
        !letters.is_empty() && !is_heading(line) && !kept.contains(&letters)
    };
    markdown
        .lines()
        .zip(1..)
        .filter(|(line, _)| is_lost(line))
        .map(|(_, number)| number)
        .collect()
}

/// A heading that ekiden writes itself.
fn is_heading(line: &str) -> bool {
    let Some(text) = line.trim_start().strip_prefix('#') else {
        return false;
    };
    let text = normal(text.trim_start_matches('#'));
    let text = text.trim_end_matches(':');
    text == "knowledge" || [CORE, LOG].iter().any(|name| text == normal(name))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // shows: REL-30
    #[test]
    fn what_stands_under_no_heading_would_be_lost() {
        let text = "# Knowledge\n\nA stray remark.\n\n## Core Knowledge\n\n- one fact\n  in two lines\n\nProse, too.\n\n\
                    ## Session Log\n\n### Session 1 - 2026-11-21\n\n- it went on\n";
        assert_eq!(lost_lines(text), [3]);
        assert_eq!(lost_lines("just words\n"), [1]);
        assert_eq!(lost_lines(""), Vec::<usize>::new());
    }

    proptest! {
        #[test]
        fn what_ekiden_writes_loses_nothing(facts in prop::collection::vec("(pinned: )?[a-z` #\"-]{0,30}", 0..6)) {
            let items: String = facts.iter().map(|fact| format!("- {fact}\n")).collect();
            let rendered = Knowledge::parse(&format!("## Core Knowledge\n\n{items}")).render();
            prop_assert_eq!(lost_lines(&rendered), Vec::<usize>::new());
        }
    }
}
