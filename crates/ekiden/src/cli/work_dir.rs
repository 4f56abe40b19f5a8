//! Hints name the work dir that the person typed with `-d`: without it, their commands would be about another one.
//!
//! Most hints are written where nobody knows the command line, so it is done once, for the failure that ends the program.

use std::ffi::OsString;

use ekiden_core::text::shell_word;

use super::definition;
use crate::failure::Failure;

/// Adds the work dir that was typed to the commands in the hints.
pub fn name_in_hints(failure: Failure, words: &[OsString]) -> Failure {
    let Some(dir) = typed_work_dir(words) else {
        return failure;
    };
    let whole = definition();
    // Every second part stands between backticks.
    let told = |(index, part): (usize, &str)| {
        let is_command = index % 2 == 1 && takes_work_dir(&whole, part) && !part.contains(" -d ");
        match is_command {
            true => format!("{part} -d {dir}"),
            false => part.to_owned(),
        }
    };
    failure.map_hints(|hint| {
        let parts = hint.split('`').enumerate().map(told);
        parts.collect::<Vec<_>>().join("`")
    })
}

/// The work dir as it was typed, as a word for the shell.
fn typed_work_dir(words: &[OsString]) -> Option<String> {
    let mut words = words.iter().filter_map(|word| word.to_str());
    while let Some(word) = words.next() {
        let dir = match word {
            "-d" | "--work-dir" => words.next(),
            _ => word.strip_prefix("--work-dir="),
        };
        if let Some(dir) = dir {
            return Some(shell_word(dir));
        }
    }
    None
}

/// This is a command line of ours that can name a work dir.
fn takes_work_dir(whole: &clap::Command, line: &str) -> bool {
    let mut words = line.split(' ');
    let mut command = whole;
    let is_ours = words.next() == Some("ekiden");
    while let Some(below) = words.next().and_then(|word| command.find_subcommand(word)) {
        command = below;
    }
    let has_flag = |arg: &clap::Arg| arg.get_long() == Some("work-dir");
    is_ours && command.get_arguments().any(has_flag)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    // shows: RUN-07
    #[test]
    fn hints_name_the_work_dir_that_was_typed() {
        let hint = "`ekiden status --all` lists them, see `ekiden man run`; or add `--new`";
        let told = |line: &[&str]| {
            let words: Vec<OsString> = line.iter().map(OsString::from).collect();
            let failure = Failure::new(Exit::Usage, "no").hint(hint);
            name_in_hints(failure, &words).hints()[0].clone()
        };
        let there =
            "`ekiden status --all -d 'a b'` lists them, see `ekiden man run`; or add `--new`";
        assert_eq!(told(&["ekiden", "stop", "-d", "a b"]), there);
        assert_eq!(told(&["ekiden", "stop", "--work-dir=a b"]), there);
        assert_eq!(told(&["ekiden", "stop"]), hint);
    }
}
