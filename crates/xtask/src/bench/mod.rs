//! `cargo xtask bench`: the promises about time and size, measured.
//!
//! A figure alone says as much about the machine as about the program. So every time is measured beside a
//! baseline in the same run, alternating, so that a busy moment affects both. The table shows medians and
//! their ratio, with the promise beside each measurement. A missed promise makes the command fail.
//!
//! If a measurement needs a crate's internals, that crate has it under `benches/`; this task runs it and
//! judges the figures. So the tasks depend on none of the crates and build in a moment.

mod chain;
mod client;
mod dash;
mod fleet;
mod guard;
mod handoff;
mod machine;
mod memory;
mod plan;
mod sessions;
mod start;
mod stats;
mod stream;
mod table;
mod view;

use crate::shell::{self, Program};

use table::{Row, Table};

/// Where Linux keeps files without a disk. The disk cannot distort what is measured there.
const IN_MEMORY: &str = "/dev/shm";
const PAGE: &str = "docs/benchmarks.md";
/// The table is written between these two lines of the page.
const BEGIN: &str = "<!-- bench: begin -->";
const END: &str = "<!-- bench: end -->";

/// What happens to `docs/benchmarks.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Page {
    /// It stays as it is.
    Keep,
    /// It gets the new figures.
    Write,
}

type Measure = fn() -> Result<Vec<Row>, String>;

const PARTS: [(&str, Measure); 13] = [
    ("start", start::measure),
    ("guard", guard::measure),
    ("stream", stream::measure),
    ("chain", chain::measure),
    ("handoff", handoff::measure),
    ("sessions", sessions::measure),
    ("plan", plan::measure),
    ("client", client::measure),
    ("view", view::measure),
    ("dash", dash::measure),
    ("stats", stats::measure),
    ("memory", memory::measure),
    ("fleet", fleet::measure),
];

/// Builds for release, measures, prints the table.
///
/// # Errors
///
/// Something could not be built or measured, the part does not exist, or a promise was missed. In the last
/// case the table is still printed and written.
pub(crate) fn run(page: Page, part: Option<&str>) -> Result<(), String> {
    let is_asked = |name| part.is_none_or(|part| part == name);
    if !PARTS.iter().any(|(name, _)| is_asked(*name)) {
        let names = PARTS.map(|(name, _)| name).join(", ");
        return Err(format!("there is no such part; there are {names}"));
    }
    Program::cargo(&["build", "--release", "--locked", "--package", "ekiden"]).run()?;
    let mut table = Table::default();
    for (_, measure) in PARTS.iter().filter(|(name, _)| is_asked(*name)) {
        measure()?.into_iter().for_each(|row| table.push(row));
    }
    let text = format!("{}\n\n{table}", machine::describe()?);
    shell::say(&text);
    if page == Page::Write {
        let path = shell::root().join(PAGE);
        shell::write(&path, &replaced(&shell::read(&path)?, &text)?)?;
    }
    table.judge()
}

/// The page with new text between the two marks.
fn replaced(page: &str, text: &str) -> Result<String, String> {
    let (before, rest) = page
        .split_once(BEGIN)
        .ok_or_else(|| format!("{PAGE} lacks `{BEGIN}`"))?;
    let (_, after) = rest
        .split_once(END)
        .ok_or_else(|| format!("{PAGE} lacks `{END}`"))?;
    Ok(format!(
        "{before}{BEGIN}\n\n{}\n\n{END}{after}",
        text.trim_end()
    ))
}

/// The median of some figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_not_moved_by_one_busy_moment() {
        assert!((median(vec![2.0, 900.0, 1.0, 3.0, 2.5]) - 2.5).abs() < f64::EPSILON);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn only_what_stands_between_the_marks_is_replaced() {
        let page = format!("before\n\n{BEGIN}\nold\n{END}\n\nafter\n");
        let expected = format!("before\n\n{BEGIN}\n\nnew\n\n{END}\n\nafter\n");
        assert_eq!(replaced(&page, "new\n"), Ok(expected));
        assert!(replaced("no marks", "new").is_err());
        let written = shell::read(&shell::root().join(PAGE)).unwrap();
        assert!(replaced(&written, "new").is_ok());
    }
}
