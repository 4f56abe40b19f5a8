//! The measurements beside the promises.

use std::fmt;

/// One measurement.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// What was measured.
    pub(super) what: String,
    /// The figure.
    pub(super) figure: String,
    /// The baseline of the same run and the ratio to it, or nothing if the figure needs no comparison.
    pub(super) baseline: String,
    /// What is promised.
    pub(super) promise: String,
    /// The promise is kept.
    pub(super) kept: bool,
}

/// All measures.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a measure.
    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// # Errors
    ///
    /// A promise was missed.
    pub(super) fn judge(&self) -> Result<(), String> {
        let missed: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| !row.kept)
            .map(|row| row.what.as_str())
            .collect();
        if missed.is_empty() {
            Ok(())
        } else {
            Err(format!("missed: {}", missed.join("; ")))
        }
    }

    fn cells(&self) -> Vec<[&str; 5]> {
        let head = ["measure", "figure", "baseline", "promise", "kept"];
        let rows = self.rows.iter().map(|row| {
            let kept = if row.kept { "yes" } else { "**no**" };
            [
                row.what.as_str(),
                &row.figure,
                &row.baseline,
                &row.promise,
                kept,
            ]
        });
        std::iter::once(head).chain(rows).collect()
    }
}

/// A table that reads well as plain text and as Markdown.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells();
        let widths: [usize; 5] = std::array::from_fn(|column| {
            cells
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or_default()
        });
        for (index, row) in cells.iter().enumerate() {
            for (cell, width) in row.iter().zip(widths) {
                write!(f, "| {cell:<width$} ")?;
            }
            f.write_str("|\n")?;
            if index == 0 {
                widths
                    .iter()
                    .try_for_each(|width| write!(f, "|{:-<1$}", "", width + 2))?;
                f.write_str("|\n")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, kept: bool) -> Row {
        let text = str::to_owned;
        Row {
            what: what.to_owned(),
            figure: text("1 ms"),
            baseline: text("-"),
            promise: text("2 ms"),
            kept,
        }
    }

    #[test]
    fn a_missed_promise_is_shown_and_fails() {
        let mut table = Table::default();
        table.push(row("start", true));
        assert_eq!(table.judge(), Ok(()));
        table.push(row("size", false));
        assert_eq!(table.judge(), Err("missed: size".to_owned()));
        expect_test::expect![[r"
            | measure | figure | baseline | promise | kept   |
            |---------|--------|----------|---------|--------|
            | start   | 1 ms   | -        | 2 ms    | yes    |
            | size    | 1 ms   | -        | 2 ms    | **no** |
        "]]
        .assert_eq(&table.to_string());
    }
}
