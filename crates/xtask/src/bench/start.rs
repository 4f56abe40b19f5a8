//! How long the program takes to start, and how large it is.

use std::path::PathBuf;

use super::{Row, median};
use crate::shell::{self, Program};

/// Pairs of starts. Each takes a millisecond or two.
const PAIRS: usize = 200;
/// How much slower than a program that does nothing it may start.
const EXTRA_MS_MAX: f64 = 2.0;
/// The size of a user's download.
const BINARY_BYTES_MAX: u64 = 20_000_000;

pub(super) fn measure() -> Result<Vec<Row>, String> {
    let ekiden = shell::target_dir().join("release/ekiden");
    Ok(vec![start(&ekiden)?, size(&ekiden)?])
}

fn start(ekiden: &PathBuf) -> Result<Row, String> {
    let (help, empty) = (
        Program::new(ekiden, &["--help"]),
        Program::new(empty_program()?, &[]),
    );
    let (mut helps, mut empties) = (Vec::new(), Vec::new());
    for _ in 0..PAIRS {
        helps.push(help.time()?.as_secs_f64() * 1e3);
        empties.push(empty.time()?.as_secs_f64() * 1e3);
    }
    let (help, empty) = (median(helps), median(empties));
    Ok(Row {
        what: "`ekiden --help`".to_owned(),
        figure: format!("{help:.2} ms"),
        baseline: format!("empty program {empty:.2} ms, {:.1} times", help / empty),
        promise: format!("at most {EXTRA_MS_MAX} ms more"),
        kept: help - empty <= EXTRA_MS_MAX,
    })
}

/// A program that does nothing, built like ours.
pub(super) fn empty_program() -> Result<PathBuf, String> {
    let directory = shell::target_dir().join("bench");
    let (source, program) = (directory.join("empty.rs"), directory.join("empty"));
    shell::write(&source, "fn main() {}\n")?;
    let flags = [
        "--edition=2024",
        "-Copt-level=3",
        "-Clto=fat",
        "-Ccodegen-units=1",
        "-Cpanic=abort",
        "-Cstrip=symbols",
    ];
    Program::new("rustc", &flags)
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .run()?;
    Ok(program)
}

fn size(ekiden: &PathBuf) -> Result<Row, String> {
    let data = std::fs::metadata(ekiden)
        .map_err(|error| format!("cannot read {}: {error}", ekiden.display()))?;
    let bytes = data.len();
    Ok(Row {
        what: "release binary".to_owned(),
        figure: megabytes(bytes),
        baseline: "-".to_owned(),
        promise: format!("at most {}", megabytes(BINARY_BYTES_MAX)),
        kept: bytes <= BINARY_BYTES_MAX,
    })
}

/// Bytes for people.
fn megabytes(bytes: u64) -> String {
    let tenths = bytes.div_ceil(100_000);
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(megabytes(6_000_000), "6.0 MB");
        assert_eq!(megabytes(6_000_001), "6.1 MB");
    }
}
