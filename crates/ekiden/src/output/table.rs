//! Rows in columns that fit the terminal: a narrow terminal loses the columns that matter least.
//!
//! A column that is empty in all rows is left out too. The last column takes the rest of the line and wraps
//! within itself.

use super::line::{Line, Tone};

const GAP: usize = 2;
/// The width that the last column should have at least.
const LAST_COLUMNS_MIN: usize = 16;

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub head: &'static str,
    pub side: Side,
    /// If there is not enough space, columns of the highest rank go first; those of rank 0 always stay.
    pub rank: u8,
}

impl Column {
    pub const fn new(head: &'static str, side: Side, rank: u8) -> Self {
        Self { head, side, rank }
    }
}

/// The alignment of a cell's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// A cell: its text and its tone. An empty one says nothing.
pub type Cell = (Tone, String);

/// The heading and the rows, for this many columns of a terminal.
pub fn lines(columns: &[Column], rows: &[Vec<Cell>], wide: Option<usize>) -> Vec<Line> {
    let shown = fitting(columns, rows, wide);
    let heads: Vec<Cell> = columns
        .iter()
        .map(|column| (Tone::Quiet, column.head.to_owned()))
        .collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| width(columns, rows, at))
        .collect();
    std::iter::once(&heads)
        .chain(rows)
        .map(|cells| {
            let mut line = Line::default();
            for (place, &at) in shown.iter().enumerate() {
                let gap = if place == 0 { 0 } else { GAP };
                let (tone, text) = &cells[at];
                let pad = widths[at].saturating_sub(textwrap::core::display_width(text));
                let last = place + 1 == shown.len();
                let (before, after) = match columns[at].side {
                    Side::Right => (gap + pad, 0),
                    Side::Left => (gap, if last { 0 } else { pad }),
                };
                let blanks = " ".repeat(before);
                line = line.with(Tone::Plain, blanks).with(*tone, text.clone());
                line = line.with(Tone::Plain, " ".repeat(after));
            }
            line.hanging(hang(&shown, &widths))
        })
        .collect()
}

fn fitting(columns: &[Column], rows: &[Vec<Cell>], wide: Option<usize>) -> Vec<usize> {
    let says = |at: &usize| rows.iter().any(|cells| !cells[*at].1.is_empty());
    let mut shown: Vec<usize> = (0..columns.len()).filter(says).collect();
    let Some(wide) = wide else { return shown };
    loop {
        let needed: usize = shown
            .iter()
            .enumerate()
            .map(|(place, &at)| {
                let last = place + 1 == shown.len();
                let own = width(columns, rows, at);
                GAP + if last { own.min(LAST_COLUMNS_MIN) } else { own }
            })
            .sum();
        let dropped = shown
            .iter()
            .copied()
            .filter(|&at| columns[at].rank > 0)
            .max_by_key(|&at| columns[at].rank);
        match dropped {
            Some(dropped) if needed > wide + GAP => shown.retain(|&at| at != dropped),
            Some(_) | None => return shown,
        }
    }
}

fn width(columns: &[Column], rows: &[Vec<Cell>], at: usize) -> usize {
    let cells = rows.iter().map(|cells| cells[at].1.as_str());
    let widths = cells
        .chain([columns[at].head])
        .map(textwrap::core::display_width);
    widths.max().unwrap_or(0)
}

/// Where the last column begins.
fn hang(shown: &[usize], widths: &[usize]) -> usize {
    shown.iter().rev().skip(1).map(|&at| widths[at] + GAP).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 4] = [
        Column::new("#", Side::Right, 0),
        Column::new("calls", Side::Right, 2),
        Column::new("cost", Side::Right, 1),
        Column::new("ended", Side::Left, 0),
    ];

    fn told(cost: &str, wide: Option<usize>) -> String {
        let row = |cells: [&str; 4]| cells.map(|cell| (Tone::Plain, cell.to_owned())).to_vec();
        let rows = [
            row(["9", "38", cost, "handed off"]),
            row(["10", "5", cost, "says all is done"]),
        ];
        lines(&COLUMNS, &rows, wide)
            .iter()
            .map(|line| line.plain() + "\n")
            .collect()
    }

    #[test]
    fn columns_go_where_there_is_no_room_for_them() {
        expect_test::expect![[r"
             #  calls   cost  ended
             9     38  $1.84  handed off
            10      5  $1.84  says all is done
        "]]
        .assert_eq(&told("$1.84", None));
        expect_test::expect![[r"
             #   cost  ended
             9  $1.84  handed off
            10  $1.84  says all is done
        "]]
        .assert_eq(&told("$1.84", Some(30)));
        expect_test::expect![[r"
             #  ended
             9  handed off
            10  says all is done
        "]]
        .assert_eq(&told("$1.84", Some(8)));
    }

    #[test]
    fn a_column_that_says_nothing_is_left_out() {
        assert!(!told("", None).contains("cost"));
    }
}
