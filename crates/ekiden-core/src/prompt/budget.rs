//! Token budgets: counting, and cutting at line ends with a mark.
//!
//! Tokens are counted at a fixed conservative rate, so that a budget holds for every tokenizer and
//! the same text has the same size everywhere.

use crate::limits::{BYTES_PER_TOKEN, QUOTED_LINE_CHARS_MAX};

/// The size of a text in tokens, rounded up.
pub fn tokens(text: &str) -> usize {
    text.len().div_ceil(BYTES_PER_TOKEN)
}

/// Which part of a text is kept when it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    First,
    /// Its end: the last lines of a command's output say most.
    Last,
    /// The first third of the room from its beginning, the rest from its end.
    Ends,
}

/// The line in place of what was cut.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'a> {
    /// The beginning of the line. In quoted text it is the quotation mark, since the place of a cut depends
    /// on foreign text.
    pub prefix: &'a str,
    /// Where to read the whole, or [`NOWHERE`].
    pub whole: &'a str,
}

/// No file has the whole that an agent would find and may open: then the mark names no place.
pub const NOWHERE: &str = "";

impl<'a> Mark<'a> {
    pub const fn new(prefix: &'a str, whole: &'a str) -> Self {
        Self { prefix, whole }
    }

    pub(super) fn line(self, left_out: usize) -> String {
        let place = match self.whole {
            NOWHERE => String::new(),
            whole => format!("; the whole is in {whole}"),
        };
        format!("{}[{left_out} lines left out here{place}]\n", self.prefix)
    }
}

/// A text of at most this many tokens, cut at line ends. A budget smaller than the mark leaves
/// nothing.
pub fn cut(text: &str, tokens_max: usize, keep: Keep, mark: Mark<'_>) -> String {
    cut_by_size(text, tokens_max * BYTES_PER_TOKEN, keep, mark, str::len)
}

/// The text with each line over [`QUOTED_LINE_CHARS_MAX`] characters cut, with a mark in the line.
pub fn cut_long_lines(text: &str) -> String {
    let cut = |line| cut_line(line, QUOTED_LINE_CHARS_MAX);
    text.split_inclusive('\n').map(cut).collect()
}

/// One line, cut if it is too long.
pub(crate) fn cut_line(line: &str, chars_max: usize) -> String {
    let text = line.trim_end_matches('\n');
    // Never more characters than bytes: most lines need no counting.
    let cut_at = (text.len() > chars_max).then(|| text.char_indices().nth(chars_max));
    let Some((end, _)) = cut_at.flatten() else {
        return line.to_owned();
    };
    let over = text[end..].chars().count();
    let (kept, line_end) = (&text[..end], &line[text.len()..]);
    format!("{kept} [line cut: {over} more characters]{line_end}")
}

/// The same as [`cut`], for any measure that adds up over lines.
pub fn cut_by_size(
    text: &str,
    max: usize,
    keep: Keep,
    mark: Mark<'_>,
    size: fn(&str) -> usize,
) -> String {
    if size(text) <= max {
        return text.to_owned();
    }
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(room) = max.checked_sub(size(&mark.line(lines.len()))) else {
        return String::new();
    };
    let first_room = match keep {
        Keep::First => room,
        Keep::Last => 0,
        Keep::Ends => room / 3,
    };
    let first = fitting(lines.iter(), first_room, size);
    let used: usize = lines[..first].iter().map(|line| size(line)).sum();
    let last = match keep {
        Keep::First => 0,
        Keep::Last | Keep::Ends => fitting(lines[first..].iter().rev(), room - used, size),
    };
    let mark = mark.line(lines.len() - first - last);
    lines[..first].concat() + &mark + &lines[lines.len() - last..].concat()
}

/// How many lines fit into the room.
fn fitting<'a>(
    lines: impl Iterator<Item = &'a &'a str>,
    room: usize,
    size: fn(&str) -> usize,
) -> usize {
    let mut used = 0;
    lines
        .take_while(|line| {
            used += size(line);
            used <= room
        })
        .count()
}

/// The largest share such that all sizes, cut to it, fit into the room: small ones stay whole.
pub(crate) fn share(mut sizes: Vec<usize>, mut room: usize) -> usize {
    sizes.sort_unstable();
    for (index, size) in sizes.iter().enumerate() {
        let even = room / (sizes.len() - index);
        if *size > even {
            return even;
        }
        room -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MARK: Mark<'_> = Mark::new("", "F.md");

    fn numbers(count: usize) -> String {
        (1..=count).map(|n| format!("line {n:03}\n")).collect()
    }

    #[test]
    fn what_fits_stays_whole() {
        assert_eq!(cut("a\nb", 10, Keep::First, MARK), "a\nb");
    }

    #[test]
    fn a_cut_falls_between_lines_and_is_marked() {
        let text = numbers(100);
        let mark = "[93 lines left out here; the whole is in F.md]\n";
        assert_eq!(
            cut(&text, 38, Keep::First, MARK),
            format!("{}{mark}", numbers(7))
        );
        let last = cut(&text, 38, Keep::Last, MARK);
        assert!(
            last.starts_with(mark) && last.ends_with("line 099\nline 100\n"),
            "{last}"
        );
        let ends = cut(&text, 38, Keep::Ends, MARK);
        assert!(
            ends.starts_with("line 001\nline 002\n[") && ends.ends_with("line 100\n"),
            "{ends}"
        );
    }

    #[test]
    fn the_long_share_what_the_short_leave() {
        assert_eq!(share(vec![10, 10], 20), usize::MAX);
        assert_eq!(share(vec![100, 10, 100], 110), 50);
        assert_eq!(share(vec![], 0), usize::MAX);
    }

    #[test]
    fn a_long_line_is_cut_inside() {
        let cut = cut_long_lines(&format!("{}\nshort\n", "é".repeat(2_100)));
        assert!(cut.ends_with("é [line cut: 100 more characters]\nshort\n"));
    }

    proptest! {
        #[test]
        fn every_cut_holds_its_budget(
            text in "([a-zé]{0,40}\n){0,60}[a-z]{0,9}",
            max in 0usize..400,
            keep in prop_oneof![Just(Keep::First), Just(Keep::Last), Just(Keep::Ends)],
        ) {
            let short = cut(&text, max, keep, MARK);
            prop_assert!(tokens(&short) <= max);
            if short != text && max > 30 {
                prop_assert!(short.contains("lines left out here; the whole is in F.md]"));
            }
            let short = cut_by_size(&text, max, keep, MARK, |text| text.chars().count());
            prop_assert!(short.chars().count() <= max);
        }
    }
}
